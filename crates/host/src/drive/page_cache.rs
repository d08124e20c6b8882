//! What the system keeps of a file in memory: `cachestat(2)`, of Linux 6.5.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::param::page_size;

/// The same on every architecture.
const SYS_CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range` of `linux/mman.h`, in bytes; a length of 0 reaches to the end of the file.
#[repr(C)]
struct Range {
    offset: u64,
    len: u64,
}

/// `struct cachestat` of `linux/mman.h`, in pages of the system.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Kept {
    /// Pages in memory.
    pub(super) cached: u64,
    /// Of them, pages that are not written back yet.
    pub(super) dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// What is in memory of so many bytes of the file. It has nothing read in.
///
/// # Errors
///
/// `ENOSYS` before Linux 6.5, `EPERM` where the file may not be written, `EOPNOTSUPP` of huge pages.
pub(super) fn kept_of(file: impl AsFd, offset: u64, len: u64) -> io::Result<Kept> {
    let (range, mut kept) = (Range { offset, len }, Kept::default());
    let file = file.as_fd().as_raw_fd();
    // SAFETY: the call reads the range and writes what it found, each laid out as the system has it.
    let result = unsafe { libc::syscall(SYS_CACHESTAT, file, &raw const range, &raw mut kept, 0_u32) };
    if result == 0 { Ok(kept) } else { Err(io::Error::last_os_error()) }
}

/// Whether all of so many bytes are in memory.
///
/// # Errors
///
/// As [`kept_of`].
pub(super) fn keeps_all(file: impl AsFd, offset: u64, len: u64) -> io::Result<bool> {
    let page_bytes = page_size() as u64;
    let pages = (offset + len).div_ceil(page_bytes) - offset / page_bytes;
    Ok(kept_of(file, offset, len)?.cached == pages)
}
