//! The range flush: a flush of one file's pages instead of the whole buffer (paper 4).
//!
//! ```text
//! buffer     figure 1: throughput and tail of fsyncs against the size of the drive's buffer
//! pair       figure 2: a fileserver and TPC-C at once
//! cuts       what a power cut leaves of files that were synced
//!   host     the drive, and the file system on it
//! ```
//!
//! The drive is the model of the paper's board, the file system that of `evenkeel_sim::file_system`.

mod buffer;
mod cuts;
mod host;
mod pair;

use super::FigureModule;

/// The paper's figures.
pub(super) const MODULES: &[FigureModule] = &[buffer::MODULE, pair::MODULE, cuts::MODULE];

#[cfg(test)]
mod tests;
