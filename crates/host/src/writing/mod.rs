//! Files as measurements write them: one durable write after the other, or a folder of files as a workload has it.
//!
//! ```text
//! method        the ways to make a write durable, by name
//! durable_file  a file that is open for one of them: write_at returns when the bytes are durable
//!   linked_ring   the io_uring way: write and fsync in one submission
//! data_folder   a folder of files as a workload uses them
//! ```

pub mod data_folder;
pub mod durable_file;
mod linked_ring;
pub mod method;
