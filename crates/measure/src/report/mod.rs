//! Reports: a finished probe as figures for people (`format`), rows for programs (`csv`), charts and pages.
//!
//! Everything here is a pure function of [`ProbeReport`](crate::probe::report::ProbeReport)s, of a
//! [`Gallery`](crate::reproduce::Gallery), or of a [`StudyReport`](crate::study::report::StudyReport): nothing is
//! measured, printed or fetched, and no content of them makes it panic.

pub mod charts;
pub mod csv;
pub mod format;
pub mod html;
mod markdown;

#[cfg(test)]
mod sample;
