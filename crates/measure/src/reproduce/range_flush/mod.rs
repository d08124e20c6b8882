//! The range flush: a flush of one file's pages instead of the whole buffer (paper 4).
//!
//! ```text
//! buffer     figure 1: throughput and tail of fsyncs against the size of the drive's buffer
//! pair       figure 2: a fileserver and TPC-C at once
//! cuts       what a power cut leaves of files that were synced
//!   host     the drive, and the file system on it
//! mounted    figures 1 and 2 on the file system that is mounted
//! ```
//!
//! The drive is the model of the paper's board; the file system, but for [`mounted`], that of
//! `evenkeel_sim::file_system`.

mod buffer;
mod cuts;
mod host;
mod mounted;
mod pair;

use super::FigureModule;

/// The paper's figures.
pub(super) const MODULES: &[FigureModule] =
    &[buffer::MODULE, pair::MODULE, cuts::MODULE, mounted::MODULES[0], mounted::MODULES[1]];

/// The lines of a figure's charts: ways in which an fsync is done, the first by FLUSH, the second by RFLUSH.
struct Lines<'a, W> {
    ways: &'a [(W, &'static str)],
    /// Name of the axis.
    buffer_name: &'static str,
}

#[cfg(test)]
mod tests;
