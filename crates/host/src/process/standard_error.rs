//! Standard error for a server: a reader that has gone, or reads no more, keeps nobody from work.
//!
//! 1. A line is written without blocking, or dropped. A pipe and a socket are asked so by the system call itself; what
//!    is neither (a terminal) is asked first whether it has room.
//! 2. Before the first line that is taken after some were dropped, a line says how many.

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, ReadWriteFlags, pwritev2, write};
use rustix::net::{SendFlags, send};

static DROPPED: AtomicU64 = AtomicU64::new(0);

/// The offset of what has none.
const NO_OFFSET: u64 = u64::MAX;

/// Writes `line`, waiting for room for `timeout` at most; false where it was dropped.
pub fn say(line: &str, timeout: Duration) -> bool {
    say_among(line, timeout, missing)
}

/// How many lines were dropped, in words.
pub fn missing(lines: u64) -> String {
    match lines {
        1 => "1 line is missing here".to_owned(),
        lines => format!("{lines} lines are missing here"),
    }
}

/// The same among lines of another form: `missing` says in it how many were dropped.
pub fn say_among(line: &str, timeout: Duration, missing: impl Fn(u64) -> String) -> bool {
    let dropped = DROPPED.swap(0, Ordering::Relaxed);
    let before = match dropped {
        0 => String::new(),
        lines => missing(lines) + "\n",
    };
    let written = write_all(format!("{before}{line}\n").as_bytes(), timeout);
    if written.is_err() {
        DROPPED.fetch_add(dropped + 1, Ordering::Relaxed);
    }
    written.is_ok()
}

fn write_all(mut rest: &[u8], timeout: Duration) -> io::Result<()> {
    let began = Instant::now();
    let error = io::stderr();
    let kind = FileType::from_raw_mode(fstat(&error)?.st_mode);
    while !rest.is_empty() {
        let written = match kind {
            FileType::RegularFile => write(&error, rest),
            FileType::Socket => send(&error, rest, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
            FileType::Fifo => {
                match pwritev2(&error, &[IoSlice::new(rest)], NO_OFFSET, ReadWriteFlags::NOWAIT) {
                    // Kernels before 6.5 cannot be asked so of a pipe.
                    Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => if_there_is_room(rest),
                    asked => asked,
                }
            }
            _ => if_there_is_room(rest),
        };
        match written {
            Ok(count) => rest = &rest[count..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait_for_room(timeout.saturating_sub(began.elapsed()))?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Writes after a look whether that would block. Where others write to the same, they may be faster than the look.
fn if_there_is_room(bytes: &[u8]) -> rustix::io::Result<usize> {
    wait_for_room(Duration::ZERO)?;
    write(io::stderr(), bytes)
}

fn wait_for_room(timeout: Duration) -> rustix::io::Result<()> {
    let error = io::stderr();
    let timeout = Timespec::try_from(timeout).map_err(|_| Errno::INVAL)?;
    match poll(&mut [PollFd::new(&error, PollFlags::OUT)], Some(&timeout)) {
        Ok(0) => Err(Errno::AGAIN),
        polled => polled.map(drop),
    }
}
