//! Replaying a trace: its requests, sent to something here at the moments at which they were recorded.
//!
//! ```text
//! mod           what may be asked of a replay
//! requests      a trace's accesses, in order and in their places
//! payload       the bytes that are written
//! run           the loop that sends
//! statistics    what it counts
//! report        the document
//! target        the trait: what can be read, written and flushed
//!   host_target   volumes, NBD exports, files and block devices of this machine
//! ```
//!
//! 1. Open loop: a request is sent when it is due, whatever became of those before it. Its latency counts from that
//!    moment, also where it could not be sent then because the target (or this program) was behind. So a target that
//!    stalls for a second shows it in every request that was due in that second, not in one (no coordinated omission).
//! 2. As fast as possible is a closed loop instead: the next request is sent when one of those under way has ended, and
//!    its latency counts from then.
//! 3. What is under way is bounded, in requests and in bytes. Who reaches a bound waits, which counts as latency too,
//!    and is told.
//! 4. The same trace, seed and target size is the same sequence of requests and the same bytes.

pub mod host_target;
mod payload;
pub mod report;
mod requests;
mod run;
pub mod statistics;
pub mod target;
#[cfg(test)]
mod tests;

use evenkeel_engine::device::Durability;
use schemars::JsonSchema;
use serde::Serialize;

pub use payload::Payload;
pub use requests::Requests;
pub use run::{Ending, Measured, Progress, Request, run};

/// Requests that an open loop may have under way.
pub const UNDER_WAY_MAX: usize = 1 << 16;

/// Bytes of requests that may be under way; one larger request goes alone.
pub const UNDER_WAY_MAX_BYTES: u64 = 256 << 20;

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// At the moments of the recording, this many times as fast.
    Recorded {
        /// 1 is as recorded; above 0.
        speed: f64,
    },
    /// Each as soon as fewer than this many are under way.
    Max {
        /// At least 1.
        depth: usize,
    },
}

/// When writes are acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Writes {
    /// Once a power cut cannot lose them.
    Durable,
    /// Once they can be read back.
    Buffered,
}

impl From<Writes> for Durability {
    fn from(writes: Writes) -> Self {
        match writes {
            Writes::Durable => Self::Durable,
            Writes::Buffered => Self::Buffered,
        }
    }
}

/// How a replay is run.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// When requests are sent.
    pub pace: Pace,
    /// When writes are acknowledged.
    pub writes: Writes,
    /// Of the bytes written.
    pub seed: u64,
    /// Length of a window of throughput; doubled as often as there would be too many.
    pub window_ns: u64,
    /// Requests that are due, or would be sent, later than this after the first are left out.
    pub time_max_ns: Option<u64>,
    /// On the clock of the target, between two looks at whether to stop, and between two reports of progress.
    pub look_ns: u64,
    /// Before a request is due, this long is spent looking at the clock instead of sleeping, which ends late. 0 where
    /// the clock is exact.
    pub watch_ns: u64,
}
