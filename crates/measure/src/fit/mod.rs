//! Curves through the measured points: latency over buffer size.
//!
//! Every fit here is robust: a few grossly wrong points, as a stack that stalls now and then yields, barely
//! move it. Sizes are bytes and latencies seconds; points come in any order. None panics, and where the
//! points do not support a fit the answer is `None`.

pub mod model;
pub mod phases;

mod broken_line;
mod robust;

pub use model::{Model, fit_model};
pub use phases::{PhaseRange, Phases, fit_phases};

/// Whether all of `points`, (bytes, seconds) each, can stand on logarithmic axes.
fn all_positive(points: &[(f64, f64)]) -> bool {
    points.iter().all(|&(bytes, latency_s)| {
        bytes.is_finite() && bytes > 0.0 && latency_s.is_finite() && latency_s > 0.0
    })
}

/// How many different sizes `points` have.
fn distinct_sizes(points: &[(f64, f64)]) -> usize {
    let mut sizes: Vec<f64> = points.iter().map(|&(bytes, _)| bytes).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    sizes.len()
}
