//! How long requests took, as parts of the status document.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::front::statistics::{CommandKind, CommandStatistics, Statistics};

/// One kind of requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Requests {
    /// Which.
    pub kind: String,
    /// Answered.
    pub requests: u64,
    /// Of them, failed.
    pub errors: u64,
    /// Bytes of the others.
    pub bytes: u64,
    /// From the request's last byte to the reply's first, of those that were carried out.
    pub latency_s: Latency,
    /// How many of those took how long: the n-th of these, counted from 0, at least 2^n ns and less than 2^(n+1) ns. Zeros
    /// at the end are left out.
    #[serde(default)]
    pub latency_counts: Vec<u64>,
}

/// Latencies: the mean, and bounds that the share stayed below, each a power of two of nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Mean.
    pub mean: f64,
    /// Half of them.
    pub p50: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 999 of 1,000.
    pub p999: f64,
}

/// Those kinds of which there were any.
pub(super) fn requests(statistics: &Statistics) -> Vec<Requests> {
    let each = CommandKind::ALL.iter().map(|&kind| {
        let of = statistics.of(kind);
        Requests {
            kind: kind.name().to_owned(),
            requests: of.requests,
            errors: of.errors,
            bytes: of.bytes,
            latency_s: latency(of),
            latency_counts: without_last_zeros(of.latency.to_vec()),
        }
    });
    each.filter(|kind| kind.requests > 0).collect()
}

pub(super) fn latency(of: &CommandStatistics) -> Latency {
    let below = |share| of.latency_quantile_ns(share).unwrap_or(0) as f64 / 1e9;
    Latency {
        mean: of.latency_sum_ns as f64 / of.timed().max(1) as f64 / 1e9,
        p50: below(0.5),
        p99: below(0.99),
        p999: below(0.999),
    }
}

pub(super) fn without_last_zeros(mut counts: Vec<u64>) -> Vec<u64> {
    let len = counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
    counts.truncate(len);
    counts
}
