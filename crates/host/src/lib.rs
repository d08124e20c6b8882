//! The machine under evenkeel: the only system calls and the only unsafe code of the project.
//!
//! ```text
//! front         serves a device to other programs: nbd; a FUSE or ublk front end would stand beside it
//! service       the life of a server: listening, signals, status, metrics, maintenance, events
//! embedded      a volume within another program: a handle for any thread and any runtime
//! volume        a folder that describes a volume, its members, its arena
//! drive         the engine's device: a file or block device past the page cache
//! nbd           the NBD protocol and its client; the server is in front/nbd
//! net           connections and listeners, as streams of bytes
//! arena         the engine's memory that a kill leaves
//! event_loop    tasks, timers and I/O of one thread, through io_uring or threads
//! wait          waiting within that thread: signals, turns, the first of two
//!
//! stack         what lies under a path: file system, mount, block device, extents
//! writing       files as measurements write them
//! scratch       what is taken back however the work ends: files, mounts, loop devices, settings
//! program       another program, run to its end within a time and a bound of memory
//! conditions    what the machine was like meanwhile
//! process       this process: signals, memory, standard error, groups
//!
//! aligned       memory that O_DIRECT accepts
//! path_error    an error with its path
//! remedy        what can be done about an error, for the program that runs to put into words
//! busy_timeout      waiting for what a killed process still holds
//! ```
//!
//! Unsafe code stands only in `aligned`, `arena`, `drive` (`open`, `page_cache`), `event_loop`, `net/process`, `process` (`allocator`, `group`,
//! `held_back`, `stop_signals`), `stack/fiemap` and `writing` (`data_folder`, `linked_ring`), each block with the reason why it
//! is sound.

pub mod aligned;
pub mod arena;
mod busy;
pub mod conditions;
pub mod drive;
pub mod embedded;
pub mod event_loop;
pub mod front;
pub mod nbd;
pub mod net;
pub mod path_error;
pub mod process;
pub mod program;
pub mod remedy;
pub mod scratch;
pub mod service;
#[cfg(test)]
mod skipped;
pub mod stack;
pub mod volume;
mod wait;
pub mod writing;

pub use conditions::cpu;
pub use process::{
    allocator, bus_error, cpu_latency, group, interrupt, standard_error, stop_signals, terminal, writeback,
};
pub use program::memory_bound;
pub use scratch::{device_image, kernel_setting, loop_device, mounted, undo};
pub use stack::{block_device, fiemap};
pub use writing::{data_folder, durable_file, method};

pub use evenkeel_engine::size_text;
