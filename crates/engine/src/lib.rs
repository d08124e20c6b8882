//! The engine: write buffer, range flush, journal, checkpoint and recovery.
//!
//! ```text
//! volume    reads, writes, flushes, commits; latches after a failure        create, open, check
//!   buffer    writes acknowledged and not durable, in an arena that outlives the process
//!   log       one sequence of records; group commit
//!   home      the pages in place, their sums, the frames in memory
//! device, env   what it knows of drives and of the world
//! format        every byte on disk and in the arena
//! ```
//!
//! No I/O, no clock, no threads, no unsafe: it knows devices as [`device::Device`] and the world as
//! [`env::Env`], so that the same code runs on real drives and in virtual time.

mod buffer;
pub mod counters;
pub mod device;
pub mod env;
pub mod error;
pub mod format;
mod home;
pub mod log;
mod notify;
pub mod options;
pub mod planted;
mod ranges;
pub mod volume;
