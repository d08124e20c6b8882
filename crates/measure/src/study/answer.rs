//! What came of a workload, as its process answers and the store keeps it.

use hdrhistogram::serialization::{Serializer, V2Serializer};
use serde::{Deserialize, Serialize};

use super::workload::engine::Timing;
use super::workload::operation::Operation;
use super::workload::recorder::Counts;

/// What came of a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Answer {
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// How long the run was, in seconds.
    pub duration_s: f64,
    /// Operations of all kinds.
    pub operations: u64,
    /// Operations per second.
    pub operations_per_s: f64,
    /// Length of a window, in seconds.
    pub interval_s: f64,
    /// Operations in each window.
    pub windows: Vec<u64>,
    /// Latencies by operation.
    pub latencies: Vec<Latency>,
    /// Bytes of the data set, where the job was to make it.
    pub data_bytes: u64,
}

/// Latencies of one kind of operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Its name.
    pub operation: String,
    /// How many there were.
    pub operations: u64,
    /// Mean in seconds.
    pub mean_s: f64,
    /// Median in seconds.
    pub p50_s: f64,
    /// 99th percentile in seconds.
    pub p99_s: f64,
    /// 99.9th percentile in seconds.
    pub p999_s: f64,
    /// The longest in seconds.
    pub max_s: f64,
    /// HdrHistogram V2, in nanoseconds.
    pub histogram: Vec<u8>,
}

/// What was counted, as it is kept.
pub(super) fn answer(counts: &Counts, timing: Timing) -> Answer {
    let operations = counts.windows.iter().sum();
    Answer {
        duration_s: timing.time_s,
        operations,
        operations_per_s: operations as f64 / timing.time_s,
        interval_s: timing.interval_s,
        windows: counts.windows.clone(),
        latencies: latencies(counts),
        ..Answer::default()
    }
}

/// The latencies of each kind that there was.
pub(super) fn latencies(counts: &Counts) -> Vec<Latency> {
    let each = Operation::ALL.into_iter().filter_map(|operation| {
        let histogram = counts.latencies[operation as usize].as_ref()?;
        let operations = histogram.len();
        let max_ns = counts.longest_ns[operation as usize];
        let seconds = |ns: u64| ns.min(max_ns) as f64 * 1e-9;
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(histogram, &mut bytes)
            .expect("a histogram of known bounds can be written");
        Some(Latency {
            operation: operation.name().to_owned(),
            operations,
            mean_s: counts.sums_ns[operation as usize] as f64 / operations.max(1) as f64 * 1e-9,
            p50_s: seconds(histogram.value_at_quantile(0.5)),
            p99_s: seconds(histogram.value_at_quantile(0.99)),
            p999_s: seconds(histogram.value_at_quantile(0.999)),
            max_s: max_ns as f64 * 1e-9,
            histogram: bytes,
        })
    });
    each.collect()
}
