//! Statistics: what a handful of runs says about the stack they were taken from, and how surely.
//!
//! Every function here takes plain numbers in one unit and answers in that unit or in none. None panics:
//! where a sample is too small, not finite, or says nothing about the question, the answer is `None`.
//! Where SciPy has the same statistic, the tests hold the results to SciPy's.

pub mod bootstrap;
pub mod change_points;
pub mod correlation;
pub mod distribution;
pub mod drift;
pub mod edge;
pub mod holm;
pub mod mann_whitney;
pub mod neighbours;
pub mod noncentral_f;
pub mod outliers;
pub mod permutation;
pub mod ratio;
pub mod repeats;
pub mod repetitions;
pub mod sampling;
pub mod serial;
pub mod shares;
pub mod signed_rank;
pub mod summary;
pub mod typical;
pub mod welch;

mod arrangements;
mod moments;
mod ranks;
mod student;

pub use bootstrap::{median, median_interval, quantile, rsd, rsd_interval};
pub use change_points::change_points;
pub use correlation::{Correlation, pearson, spearman};
pub use distribution::Steps;
pub use holm::holm;
pub use mann_whitney::{UTest, least_mann_whitney_p, mann_whitney};
pub use noncentral_f::{noncentrality_interval, p_of_f};
pub use outliers::outliers;
pub use ratio::{Ratio, paired_ratio_of_means, ratio_of_means};
pub use repetitions::{Repetitions, median_order_interval, repetitions};
pub use serial::{Serial, serial_correlation};
pub use signed_rank::{SignedRank, signed_rank};
pub use student::factor as t_factor;
pub use summary::{Summary, summarise, t_half_width};
pub use typical::typical_interval;
pub use welch::{TTest, welch};

/// An interval made to hold 0. It is no less sure than before: for what is not shown to differ from 0 by a test that many
/// share, where an interval for itself would be read as showing it.
#[must_use]
pub fn reaching_0(interval: Option<[f64; 2]>) -> Option<[f64; 2]> {
    interval.map(|[low, high]| [low.min(0.0), high.max(0.0)])
}
