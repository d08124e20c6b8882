//! The machine under evenkeel: the only system calls and the only unsafe code of the project.
//!
//! ```text
//! method           the ways to make a write durable, by name
//! durable_file     a file opened for one of them: write_at returns when the bytes are durable
//!   linked_ring    the io_uring way: write and fsync in one submission
//!   aligned        memory that O_DIRECT accepts
//! scratch          files that are removed at the end, at an error and at Ctrl-C
//! undo             mounts, loop devices and settings, taken back however the work ends
//!   loop_device    a loop device over a file of its own
//!   device_image   a device copied to a file and back
//!   mounted        a file system that is mounted for a while
//!   kernel_setting a setting that is as it was afterwards
//! program          another program, run to its end within a time
//!   memory_bound   within a bound of memory
//! data_folder      a folder of files as a workload uses them
//! fiemap           where their bytes lie
//! conditions       what the machine was like meanwhile
//! interrupt        Ctrl-C as a flag, the second one as an exit
//! held_back        signals that wait while their handlers are put up
//! stack            what lies under a path
//!   mounts         /proc/self/mountinfo
//!   block_device   /sys/dev/block: promises and counters
//!   bus_error      the line of a process that ends by SIGBUS
//! net              connections and listeners, as streams of bytes
//! nbd              the NBD protocol over them, both sides
//! volume           a folder that describes a volume, its members, its arena
//! embedded         a volume within another program: a handle for any thread and any runtime
//! cpu              who used the processors meanwhile
//! standard_error   lines that nobody need read
//! event_loop       tasks, timers and I/O of one thread, through io_uring or threads
//!   drive          the engine's device: a file or block device past the page cache
//!   net            connections and listeners
//! arena            the engine's memory that a kill leaves
//! allocator        freed memory, given back
//! ```
//!
//! Unsafe code stands only in `aligned`, `allocator`, `linked_ring`, `arena`, `data_folder`, `fiemap`, `held_back`, `drive/open` and
//! `event_loop`, each block with the reason why it is sound.

pub mod aligned;
pub mod allocator;
pub mod arena;
pub mod block_device;
pub mod bus_error;
pub mod conditions;
pub mod cpu;
pub mod data_folder;
pub mod device_image;
pub mod drive;
pub mod durable_file;
pub mod embedded;
pub mod event_loop;
pub mod fiemap;
pub mod group;
mod held_back;
pub mod interrupt;
pub mod kernel_setting;
mod linked_ring;
pub mod loop_device;
pub mod memory_bound;
pub mod method;
pub mod mounted;
mod mounts;
pub mod nbd;
pub mod net;
pub mod path_error;
mod patience;
pub mod program;
pub mod scratch;
pub mod service;
#[cfg(test)]
mod skipped;
pub mod stack;
pub mod standard_error;
pub mod stop_signals;
mod stored_in_place;
pub mod undo;
pub mod volume;
pub mod writeback;

pub use evenkeel_engine::size_text;
