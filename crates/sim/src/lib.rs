//! The simulator: virtual time, drives that lose power, memory that survives a kill, and chance from one
//! seed.
//!
//! A run of a process is an [`executor::Executor`] with drives and arenas opened over what outlives it: a
//! [`image::SharedImage`] for each drive and [`arena::ArenaBytes`] for each arena. It ends when its work is
//! done or when a [`cuts::CutPlan`] strikes. Between two runs the caller says what the end did:
//! [`image::Image::power_cut`] or [`image::Image::kill`] for each drive, and [`arena::ArenaBytes::clear`]
//! after a power cut.
//!
//! On these stand [`seeds`] and the search through every crash ([`exhaustive`]), over any layout that has a [`testbed`].
//!
//! Everything follows from seeds: the same seeds give the same simulation, event for event, and
//! [`executor::Executor::trace_hash`] tells whether two runs were the same.

pub mod arena;
pub mod caught;
pub mod conversion;
pub mod cuts;
pub mod damage;
pub mod drive;
pub mod executor;
pub mod exhaustive;
pub mod faults;
pub mod file_system;
mod fixture;
mod ground_truth;
pub mod growing;
pub mod image;
pub mod latency;
pub mod model;
pub mod oracle;
pub mod page_cache;
pub mod places;
pub mod random;
pub mod seeds;
pub mod sparse;
pub mod tally;
pub mod testbed;
mod timers;
pub mod trace;
pub mod workload;
