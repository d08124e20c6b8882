//! Statistics: what a handful of runs says about the stack they were taken from, and how surely.
//!
//! Every function here takes plain numbers in one unit and answers in that unit or in none. None panics:
//! where a sample is too small, not finite, or says nothing about the question, the answer is `None`.
//! Where SciPy has the same statistic, the tests hold the results to SciPy's.

pub mod holm;
pub mod mann_whitney;
pub mod ratio;
pub mod summary;
pub mod welch;

mod moments;
mod student;

pub use holm::holm;
pub use mann_whitney::{UTest, least_mann_whitney_p, mann_whitney};
pub use ratio::{Ratio, paired_ratio_of_means, ratio_of_means};
pub use summary::{summarise, t_half_width};
pub use welch::{TTest, welch};
