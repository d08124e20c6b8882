//! Mirrors under load: volumes on rings of modelled drives, in virtual time.
//!
//! ```text
//! bed      drives with a past, a volume on them, lives of it
//! trace    requests of a trace, at their times, over and over
//! made     requests of loads that are made up
//! clients  clients that wait each for its own write
//! reads    what reads had to wait
//! stage    a bed and a trace, and the speed at which they are compared
//! ```

pub mod bed;
pub mod clients;
pub mod made;
pub mod reads;
pub mod stage;
pub mod trace;
