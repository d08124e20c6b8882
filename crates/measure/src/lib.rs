//! evenkeel's measurements: the probe, the statistics and fits behind it, and its reports; block traces, replayed; the
//! papers' figures, reproduced.
//!
//! Nothing here prints, and nothing here makes a system call of its own: `evenkeel-host` writes, the command
//! line shows.

pub mod compare;
pub mod drive;
pub mod fit;
pub mod probe;
pub mod quantity;
pub mod replay;
pub mod report;
pub mod reproduce;
pub mod schemas;
pub mod stats;
#[cfg(test)]
mod structure;
pub mod study;
pub mod synthetic;
pub mod tune;
