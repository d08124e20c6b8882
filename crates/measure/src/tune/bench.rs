//! What settings are tried on.

use super::Candidate;
use super::line::Sample;
use super::load::{Load, Run};

/// Why a trial came to nothing, in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Halted {
    /// It was asked to stop.
    Stopped,
    /// It cannot be had.
    Unavailable(String),
}

/// Drives with room for volumes that are tried.
pub trait Bench {
    /// Durable writes of several sizes to the drive with the log, one at a time.
    ///
    /// # Errors
    ///
    /// [`Halted`].
    fn line(&mut self) -> Result<Vec<Sample>, Halted>;

    /// Runs a load for `duration_s` on a volume with these settings, and takes everything home.
    ///
    /// # Errors
    ///
    /// [`Halted`].
    fn trial(&mut self, candidate: Candidate, load: &Load, duration_s: f64) -> Result<Run, Halted>;
}
