//! The engine: write buffer, range flush, journal, checkpoint and recovery.
//!
//! ```text
//! volume    reads, writes, flushes, commits; latches after a failure        create, open, check
//!   buffer    writes acknowledged and not durable, in an arena that outlives the process
//!   log       one sequence of records; group commit
//!   home      the pages in place, their sums, the frames in memory
//! logs      several log devices as one
//! either        one device or another
//! mirror_log    a mirror's log: logs, or on the ring's members (ring/log.rs)
//! ring      several drives as one device: they read and write in turns
//! events    what happened that whoever runs a volume should hear of
//! salvage   what can be had of a volume that is damaged; nothing is written
//! device, env   what it knows of drives and of the world
//! format        every byte on disk and in the arena
//! ```
//!
//! No I/O, no clock, no threads, no unsafe: it knows devices as [`device::Device`] and the world as
//! [`env::Env`], so that the same code runs on real drives and in virtual time.

mod buffer;
mod copies;
pub mod counters;
pub mod device;
pub mod either;
pub mod env;
pub mod error;
pub mod events;
pub mod format;
mod home;
pub mod join;
pub mod log;
pub mod logs;
pub mod mirror_log;
mod notify;
pub mod options;
mod page_map;
pub mod planted;
mod ranges;
pub mod ring;
pub mod salvage;
pub mod size_text;
pub mod volume;
