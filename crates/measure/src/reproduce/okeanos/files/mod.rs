//! The paper's loads on files: the file system that `evenkeel mount` serves, on the modelled disk.
//!
//! ```text
//! streams, postmark, mpi_io    a figure each
//!   site     files that are made, appended to durably, read and deleted
//!     journaled   what the file system stands on: a volume of the engine, or
//!       jbd       a journal of whole blocks, as ext3 has it
//! ```
//!
//! 1. The file system is the same code in every mode, the one that users mount: it places blocks, and keeps inodes, maps and
//!    bitmaps. Modes differ in what lies below, and in how much data a commit takes up.
//! 2. Nothing of it is modelled but the disk, ext3's journal, and time.

mod jbd;
mod journaled;
mod mpi_io;
mod postmark;
mod site;
mod streams;
#[cfg(test)]
mod tests;

use evenkeel_ext2::MountOptions;

use super::Mode;
use crate::reproduce::FigureModule;

/// The figures.
pub(super) const MODULES: [FigureModule; 3] = [streams::MODULE, postmark::MODULE, mpi_io::MODULE];

/// Bytes of a file from which on `evenkeel mount` writes them to their blocks instead of the journal.
const MOUNT_THRESHOLD_BYTES: u64 = (64 << 10) + 1;

/// The modes; the last is that of `evenkeel mount`.
const MODES: [Mode; 4] = [Mode::Data, Mode::Ext3, Mode::Wasteless, MOUNT];

/// As `evenkeel mount` has it.
const MOUNT: Mode = Mode::Selective(MOUNT_THRESHOLD_BYTES);

/// What is the same in every figure on files.
const SETUP: [&str; 4] = [
    "The file system that evenkeel mount serves, an ext2 of 15 GB, in virtual time over the disk model sas-15k (the paper's \
     Seagate Cheetah, 300 GB, 15,000 rpm), write cache off. Its blocks lie where it places them, all metadata is written, and \
     an fsync is its own.",
    "wasteless: the file system on a volume of the engine; all data goes through the journal, as the bytes that changed. \
     selective: the same, as evenkeel mount has it; of a file with more than 64 KiB to sync, data goes to its blocks.",
    "data, and ordered as ext3: the same file system on a journal of whole blocks, as ext3's is: transactions of a descriptor, \
     blocks, and a commit block in a write of its own. Data goes into it (data), or to its blocks before (ordered). Blocks \
     go home from the journal after 30 s, or when it is full.",
    "The journal has 128 MB on the same disk; 2 GB of pages are cached; what nobody syncs is committed every 5 s; sectors are \
     written whole or not at all. FUSE and processors take no time here.",
];

/// Data of a file up to which a commit takes it up.
const fn small_max_bytes(mode: Mode) -> u64 {
    match mode {
        Mode::Selective(threshold_bytes) => threshold_bytes - 1,
        Mode::Ext3 | Mode::Ordered => 0,
        Mode::Data | Mode::Wasteless => u64::MAX,
    }
}

/// How it is mounted.
fn mount_options(mode: Mode) -> MountOptions {
    MountOptions { small_max_bytes: small_max_bytes(mode), ..MountOptions::default() }
}
