//! Whether probes really differ, buffer size by buffer size.
//!
//! Probes that one command measured in alternating runs are judged by pairs of runs ([`compare_pairs`]); probes of
//! different times by sessions ([`compare_sessions`]), of which the runs share what the machine did then.
//!
//! 1. A difference is claimed only where the interval of the ratio leaves out 1.
//! 2. All claims of one document, with all that is drawn of it, share one error rate: where nothing differs, at most
//!    1 document of pairs in 100, and 5 of sessions, hold any false one. `tests.rs` holds them to it.
//! 3. Throughput and p99 latency are judged alike, on logarithms, so that it does not matter which probe is the base.

mod csv;
pub mod page;
mod pairs;
pub mod report;
mod sessions;
mod words;

pub use csv::comparisons_csv;
pub use pairs::{LEAST_DIFFERENCE, compare_pairs};
pub use report::{
    Comparison, Comparisons, Design, Judged, PAIRS_SCHEMA, Pairs, PointComparison, SCHEMA, Verdict,
};
pub use sessions::{DRIFT, Options, SESSIONS_ERROR_RATE, Unlike, compare_sessions};

pub use crate::probe::PAIRS_ERROR_RATE;
use crate::probe::report::ProbeReport;
use crate::report::format;

/// A probe with the name to call it by.
pub type Labelled<'a> = (String, &'a ProbeReport);

/// A verdict from the logarithm of a ratio and its interval, which has to lie further than `least` from 0.
fn judged(log: f64, interval: Option<[f64; 2]>, less_is_faster: bool, least: f64) -> Judged {
    let verdict = match interval {
        Some([low, _]) if low > least && less_is_faster => Verdict::Slower,
        Some([_, high]) if high < -least && less_is_faster => Verdict::Faster,
        Some([low, _]) if low > least => Verdict::Faster,
        Some([_, high]) if high < -least => Verdict::Slower,
        _ => Verdict::NoDifferenceShown,
    };
    Judged { ratio: log.exp(), interval: interval.map(|ends| ends.map(f64::exp)), verdict }
}

/// What two probes measured in another way.
fn unlike(a: &ProbeReport, b: &ProbeReport) -> Vec<String> {
    let mut found = Vec::new();
    if a.method != b.method {
        found.push(format!("{} and {}", a.method, b.method));
    }
    if a.file_state != b.file_state {
        found.push(format!("files that are {} and {}", a.file_state, b.file_state));
    }
    let fell_back = a.points.iter().filter(|point| {
        let other = b.points.iter().find(|other| other.buffer_bytes == point.buffer_bytes);
        a.method == b.method && other.is_some_and(|other| other.method != point.method)
    });
    let sizes: Vec<String> = fell_back.map(|point| format::bytes(point.buffer_bytes)).collect();
    if !sizes.is_empty() {
        found.push(format!("one through the page cache at {}", sizes.join(", ")));
    }
    found
}

fn disturbed_share(report: &ProbeReport) -> f64 {
    let runs = || report.points.iter().flat_map(|point| &point.run_data);
    let disturbed = runs().filter(|run| run.disturbance.is_some()).count();
    disturbed as f64 / runs().count().max(1) as f64
}

#[cfg(test)]
mod tests;
