//! The engine: write buffer, range flush, journal, checkpoint and recovery.
//!
//! ```text
//! volume    reads, writes, flushes, commits; latches after a failure        create, open, check
//!   buffer    writes acknowledged and not durable, in an arena that outlives the process
//!   log       one sequence of records; group commit
//!   home      the pages in place, their sums, the frames in memory
//! conversion  a volume becomes another one while its clients go on
//! layout    what lies below a volume: where its pages are, and where its journal is
//!   single    one drive, or two
//!   mirror    pages on the members of a ring; the journal on log devices, or on the members
//! ring      several drives as one device: they read and write in turns
//! events    what happened that whoever runs a volume should hear of
//! salvage   what can be had of a volume that is damaged; nothing is written
//! device, env   what it knows of drives and of the world
//! format        every byte on disk and in the arena
//! ```
//!
//! No I/O, no clock, no threads, no unsafe: it knows what lies below as [`layout::PageStore`] and
//! [`layout::JournalStore`], drives as [`device::Device`] and the world as [`env::Env`], so that the same code runs on real drives and in virtual time.

mod buffer;
mod byte_budget;
pub mod conversion;
pub mod counters;
pub mod device;
pub mod env;
pub mod error;
pub mod events;
pub mod format;
mod home;
pub mod join;
pub mod layout;
pub mod log;
mod notify;
pub mod options;
mod page_map;
pub mod planted;
mod ranges;
pub mod ring;
pub mod salvage;
mod shared_step;
pub mod size_text;
pub mod volume;
