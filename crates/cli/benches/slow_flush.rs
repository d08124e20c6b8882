//! A disk whose flushes take a millisecond more, for any server: a library to be loaded before others (`LD_PRELOAD`).
//!
//! Every `fdatasync` and `fsync`, and every `pwritev2` that is to be durable, waits before the kernel has it. Threads
//! that flush at the same time wait at the same time, as for a disk that takes any number of flushes at once. What goes
//! through io_uring passes by.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_long};
use std::thread;
use std::time::Duration;

/// How long a flush is held.
const HELD: Duration = Duration::from_millis(1);

/// Holds the caller, and then flushes the data of `fd`.
#[unsafe(no_mangle)]
pub extern "C" fn fdatasync(fd: c_int) -> c_int {
    thread::sleep(HELD);
    // SAFETY: a descriptor is all that the call takes.
    unsafe { libc::syscall(libc::SYS_fdatasync, fd) as c_int }
}

/// Holds the caller, and then flushes `fd`.
#[unsafe(no_mangle)]
pub extern "C" fn fsync(fd: c_int) -> c_int {
    thread::sleep(HELD);
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_fsync, fd) as c_int }
}

/// Holds the caller where the write is to be durable, and then writes.
///
/// # Safety
///
/// As of the system call: `vectors` are `count` pieces of memory that can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev2(
    fd: c_int,
    vectors: *const libc::iovec,
    count: c_int,
    offset: libc::off_t,
    flags: c_int,
) -> libc::ssize_t {
    if flags & (libc::RWF_DSYNC | libc::RWF_SYNC) != 0 {
        thread::sleep(HELD);
    }
    // The kernel takes the offset in two halves, of which a 64-bit one needs the first alone.
    // SAFETY: the caller vouches for the memory.
    unsafe {
        libc::syscall(libc::SYS_pwritev2, fd, vectors, c_long::from(count), offset, 0, flags) as libc::ssize_t
    }
}

/// As [`pwritev2`], by its other name.
///
/// # Safety
///
/// As [`pwritev2`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev64v2(
    fd: c_int,
    vectors: *const libc::iovec,
    count: c_int,
    offset: libc::off_t,
    flags: c_int,
) -> libc::ssize_t {
    // SAFETY: the caller vouches for the memory.
    unsafe { pwritev2(fd, vectors, count, offset, flags) }
}
