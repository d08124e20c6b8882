//! This process, as the system sees it: its signals, its memory, its standard error, its groups.
//!
//! ```text
//! interrupt       Ctrl-C as a flag, the second one as an exit
//!   stop_signals    the signals that end a program
//!   held_back       signals that wait while their handlers are put up
//! allocator       freed memory, given back
//! bus_error       the line of a process that ends by SIGBUS
//! cpu_latency     how long processors may take to wake
//! writeback       a server that file systems of its own machine stand on
//! standard_error  lines that nobody need read
//! terminal        how large the terminal is
//! group           groups of users by name
//! ```

pub mod allocator;
pub mod bus_error;
pub mod cpu_latency;
pub mod group;
pub(crate) mod held_back;
pub mod interrupt;
pub mod standard_error;
pub mod stop_signals;
pub mod terminal;
pub mod writeback;
