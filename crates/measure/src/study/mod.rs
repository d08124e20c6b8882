//! How much a storage stack varies, and which of its parameters is to blame: a study of many configurations, each
//! run many times.
//!
//! ```text
//! plan        what is to be done: factors, workloads, runs, devices
//!   sampling  which configurations are taken (of `stats`)
//! schedule    in which order
//! steps       what one run does, step by step
//! runner      takes the runs, keeps what comes of them
//!   stage     on this machine
//!     hold    a device that others hold for a moment
//!   worker    the workload's own process
//!     workload, external
//!   store     the database: a file, or a server that machines share
//! read        the database as plain data
//! report      what it says: the document that all else is made of
//!   analysis  its parts; claims, what reaches beyond the runs; findings, its sentences
//!   tables    the rows of page and files
//!   page      the page
//! ```

pub mod analysis;
pub mod answer;
pub mod claims;
pub mod data;
pub mod external;
pub mod findings;
mod hold;
pub mod page;
pub mod plan;
pub mod read;
pub mod report;
pub mod runner;
pub mod schedule;
pub mod stage;
pub mod steps;
pub mod store;
pub mod tables;
pub mod worker;
pub mod workload;

pub use crate::stats::sampling;

#[cfg(test)]
#[expect(unreachable_pub, reason = "tests of the command include it too")]
mod made_up;
#[cfg(test)]
mod report_tests;
#[cfg(test)]
mod tests;
