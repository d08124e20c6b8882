//! A window of a soak, and what the machine did in it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// About a second of writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// Seconds from the start to the start of the window.
    pub started_s: f64,
    /// How long its writes took together.
    pub elapsed_s: f64,
    /// How many.
    pub writes: u64,
    /// User bytes per second.
    pub throughput_bytes_per_s: f64,
    /// Median latency.
    pub p50_s: f64,
    /// 99th percentile; `null` below 100 writes.
    pub p99_s: Option<f64>,
    /// The slowest.
    pub max_s: f64,
    /// Bytes that reached the device; `null` where it has no counters.
    pub device_written_bytes: Option<u64>,
    /// Bytes that were read from it.
    pub device_read_bytes: Option<u64>,
    /// Share of all processors' time that the hypervisor took.
    pub steal_share: f64,
    /// Share that other processes took, in user mode.
    pub foreign_cpu_share: f64,
    /// What others did, in words; `null` where it is nothing to speak of.
    pub disturbance: Option<String>,
}
