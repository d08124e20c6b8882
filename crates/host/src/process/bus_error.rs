//! What is said where memory that is mapped from a file cannot be had: the system ends the process with SIGBUS.
//!
//! 1. The line is written as it was prepared: nothing is formatted, allocated or waited for in the handler.
//! 2. The process ends by the signal all the same.

#![allow(unsafe_code)]

use std::io;

use signal_hook::consts::SIGBUS;
use signal_hook::low_level::{emulate_default_handler, register};

/// From here on a SIGBUS says `line` on standard error before it ends the process. Call it once.
///
/// # Errors
///
/// Where the handler cannot be set up.
pub fn tell(line: &str) -> io::Result<()> {
    let line: &'static [u8] = Box::leak(format!("{line}\n").into_bytes().into_boxed_slice());
    let handler = move || {
        let mut standard_error = libc::pollfd { fd: 2, events: libc::POLLOUT, revents: 0 };
        // SAFETY: both calls are safe in a handler (signal-safety(7)); they are given one descriptor, and bytes that live
        // as long as the process.
        unsafe {
            if libc::poll(&mut standard_error, 1, 0) == 1 {
                libc::write(2, line.as_ptr().cast(), line.len());
            }
        }
        let _it_ends_here = emulate_default_handler(SIGBUS);
    };
    // SAFETY: the handler takes no lock and allocates nothing.
    unsafe { register(SIGBUS, handler) }.map(drop)
}
