//! How a volume is to be run on its drives, found by trying.
//!
//! ```text
//! line          l and B of the drive with the log: what a durable write costs, and what each byte adds
//! load          clients that write durably, each in a loop: a mixture, or a recorded load
//! search        which settings are tried, in rounds, and which is best for a goal
//!   bench       what they are tried on
//!     host_bench    volumes that are made beside the one that is tuned, and removed
//!     model_bench   volumes on a simulated drive, in virtual time
//! sizes         what a recorded load asks of log and buffer
//! turns         how long a member of a ring writes at a time, from how steady it is
//!   steady_members  the drives of this machine on which that is seen
//! report        the document
//! ```
//!
//! 1. What is tried is the engine itself with its log and its members, on the same drives, with everything home at the end of
//!    each trial and the time for that counted.
//! 2. Settings are tried in turns, so that what changes meanwhile strikes all of them alike.
//! 3. A setting takes the place of the default only where it wins in trials that did not choose it ([`search`]).
//!    A turn is not tried: it follows from how steady the members are, and the default stays where they are ([`turns`]).
//! 4. No setting that can be chosen is below what a guarantee needs: a batch bounds only what is gathered of several writes,
//!    and no threshold is below the largest atomic write.

pub mod bench;
pub mod host_bench;
pub mod line;
pub mod load;
pub mod model_bench;
pub mod report;
pub mod search;
pub mod sizes;
mod steady_members;
#[cfg(test)]
mod tests;
pub mod turns;

use evenkeel_engine::options::{Journaling, OpenOptions};
use schemars::JsonSchema;
use serde::Serialize;

/// What is tried: the settings of the engine that follow from its drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(title = "Settings")]
pub struct Candidate {
    /// Largest commit record that carries more than one write, in bytes.
    pub batch_max_bytes: u64,
    /// From this size on a write goes straight home; `null` for never.
    pub threshold_bytes: Option<u64>,
}

impl Candidate {
    /// These settings, and all else as `base` has it.
    pub fn options(self, base: OpenOptions) -> OpenOptions {
        let batch_max_bytes = usize::try_from(self.batch_max_bytes).unwrap_or(usize::MAX);
        let journaling = match self.threshold_bytes {
            Some(threshold_bytes) => Journaling::Selective { threshold_bytes },
            None => Journaling::Wasteless,
        };
        OpenOptions { journaling, batch_max_bytes, ..base }
    }
}

/// What a volume is run for.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub struct Goals {
    /// The 99th percentile of the latency of small writes is not to be longer.
    pub latency_max_s: Option<f64>,
    /// Bytes that are to be made durable and taken home in a second, at least.
    pub throughput_min_bytes_per_s: Option<f64>,
}

impl Goals {
    /// How good an outcome is; more is better.
    ///
    /// - Without a goal: throughput over mean latency of small writes, which is greatest where a buffer of l x B is (paper 1).
    /// - With one, whatever reaches it is better than what does not. Among the first, a bound of latency wants throughput, and
    ///   a bound of throughput a short 99th percentile; both want the first. Among the others, what comes closer is better:
    ///   their scores are below 0.
    pub fn score(&self, outcome: &Outcome) -> f64 {
        let Outcome { throughput_bytes_per_s, small_mean_s, small_p99_s } = *outcome;
        let latency = self.latency_max_s.map(|max_s| small_p99_s / max_s);
        let throughput = self.throughput_min_bytes_per_s.map(|min| min / throughput_bytes_per_s);
        let beyond = latency.into_iter().chain(throughput).reduce(f64::max);
        match beyond {
            None => throughput_bytes_per_s / small_mean_s,
            Some(beyond) if beyond > 1.0 => -beyond,
            Some(_) if self.latency_max_s.is_some() => throughput_bytes_per_s,
            Some(_) => 1.0 / small_p99_s,
        }
    }

    /// Whether an outcome reaches them.
    pub fn are_reached(&self, outcome: &Outcome) -> bool {
        self.score(outcome) >= 0.0
    }

    /// In words.
    pub fn words(&self) -> String {
        use crate::report::format;
        let latency = self.latency_max_s.map(|max_s| {
            format!("99 % of small writes durable within {}, and then throughput", format::seconds(max_s))
        });
        let throughput = self
            .throughput_min_bytes_per_s
            .map(|min| format!("{} durable and home, and then short latency", format::rate(min)));
        match (latency, throughput) {
            (None, None) => "the best ratio of throughput to latency".to_owned(),
            (Some(one), None) | (None, Some(one)) => one,
            (Some(latency), Some(throughput)) => format!("{latency}; {throughput}"),
        }
    }
}

/// What trials of one setting came to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Outcome {
    /// Bytes of users a second, until the last was home.
    pub throughput_bytes_per_s: f64,
    /// Mean latency of small writes.
    pub small_mean_s: f64,
    /// Their 99th percentile.
    pub small_p99_s: f64,
}

/// How one score stands to another: above 1 where it is better. Scores of different signs have no ratio, but an order.
pub fn ratio(one: f64, other: f64) -> f64 {
    match (one >= 0.0, other >= 0.0) {
        (true, true) => one / other,
        (false, false) => other / one,
        (true, false) => f64::INFINITY,
        (false, true) => 0.0,
    }
}
