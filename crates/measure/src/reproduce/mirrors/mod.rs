//! Mirrors under load: volumes on rings of modelled drives, in virtual time.
//!
//! ```text
//! bed      drives with a past, a volume on them, lives of it
//! trace    requests of a trace, at their times, over and over
//! reads    what reads had to wait
//! ```

pub mod bed;
pub mod reads;
pub mod trace;
