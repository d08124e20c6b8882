//! One durable write as one io_uring submission: a write linked to a data-only fsync.
//!
//! Invariant 1: no call returns while the kernel may still read the caller's buffer. Every submitted entry
//! is waited for, whatever happens to the others.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, opcode, squeue, types};

const WRITE: u64 = 1;
const FSYNC: u64 = 2;

/// A ring of its own for one file.
pub(crate) struct LinkedRing {
    ring: IoUring,
}

impl LinkedRing {
    /// Sets the ring up and registers the file with it.
    pub(crate) fn new(file: BorrowedFd<'_>) -> io::Result<Self> {
        // A ring for a single issuer would be cheaper, but it belongs to the thread that set it up, and a writer
        // has a thread of its own.
        let ring = IoUring::new(4)?;
        ring.submitter().register_files(&[file.as_raw_fd()])?;
        Ok(Self { ring })
    }

    /// Writes up to `bytes.len()` bytes at `offset` and makes them durable; returns how many were written.
    /// A short write breaks the link and is not durable: the caller writes the rest, which syncs all of it.
    pub(crate) fn write_durably(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let len = u32::try_from(bytes.len())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "one write carries less than 4 GiB"))?;
        let file = types::Fixed(0);
        let write = opcode::Write::new(file, bytes.as_ptr(), len)
            .offset(offset)
            .build()
            .flags(squeue::Flags::IO_LINK)
            .user_data(WRITE);
        let fsync = opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build().user_data(FSYNC);
        // SAFETY: `bytes` outlives both entries, because this function waits for both (invariant 1).
        unsafe { self.ring.submission().push_multiple(&[write, fsync]) }
            .map_err(|_| io::Error::other("the submission queue is full"))?;

        let (mut written, mut synced) = (None, None);
        while written.is_none() || synced.is_none() {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if is_transient(&error) => {}
                // Both entries are still ours: nothing was handed to the kernel.
                Err(error) if self.ring.submission().len() == 2 => return Err(error),
                Err(error) => unreachable!("io_uring_enter failed with writes in flight: {error}"),
            }
            for completion in self.ring.completion() {
                match completion.user_data() {
                    WRITE => written = Some(completion.result()),
                    _ => synced = Some(completion.result()),
                }
            }
        }
        let written = from_result(written.unwrap_or_default())?;
        if written == bytes.len() {
            from_result(synced.unwrap_or_default())?;
        }
        Ok(written)
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy
    )
}

fn from_result(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}
