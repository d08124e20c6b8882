//! What a simulated drive that is served tells of itself.

use schemars::JsonSchema;
use serde::Serialize;

/// The value of `schema` in every document of this shape.
pub const SCHEMA: &str = "evenkeel.drive/1";

/// A simulated drive that `evenkeel drive` serves, as `evenkeel drive --status` prints it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "Drive")]
pub struct DriveStatus {
    /// Always [`SCHEMA`].
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// The name of its model, as `evenkeel drive --list` has it.
    pub model: String,
    /// Its size.
    pub size_bytes: u64,
    /// The process that serves it.
    pub pid: u32,
    /// Power cuts so far.
    pub cuts: u64,
    /// Until it is ready again after a cut; 0 where it is.
    pub ready_in_s: f64,
    /// Clients that are connected.
    pub connections: u64,
    /// How late its answers are.
    pub lateness_s: Lateness,
}

/// From when the model was done to when the answer was handed to the connection, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Lateness {
    /// Requests answered.
    pub requests: u64,
    /// The mean; `null` where nothing was answered.
    pub mean: Option<f64>,
    /// The median; `null` where too few were answered to know.
    pub p50: Option<f64>,
    /// The 99th percentile; `null` where too few were answered to know.
    pub p99: Option<f64>,
    /// The latest answer; `null` where nothing was answered.
    pub max: Option<f64>,
    /// Share of the requests that were answered within 20 us of the model's time; `null` where nothing was answered.
    pub share_within_20_us: Option<f64>,
}
