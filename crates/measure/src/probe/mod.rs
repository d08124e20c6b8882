//! probe
pub mod report;
