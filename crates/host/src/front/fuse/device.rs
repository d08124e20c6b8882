//! The kernel's end of a session: `/dev/fuse`.
//!
//! 1. A read takes one request, or finds none: it never waits.
//! 2. Answers are handed over together, at the next turn of the loop. One system call each would let whoever is woken by it
//!    have this thread's processor, and each request would cost two changes of context more.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, read, write};

use crate::event_loop::{Backend, Loop, PollFlags, SharedFd, Slot, Sync, Transfer};

/// What requests are read from, and answers written to.
pub(super) struct Device {
    event_loop: Loop,
    file: SharedFd,
}

impl Device {
    /// # Errors
    ///
    /// Those of fcntl(2).
    pub(super) fn new(event_loop: &Loop, device: OwnedFd) -> Result<Rc<Self>, Errno> {
        fcntl_setfl(&device, fcntl_getfl(&device)? | OFlags::NONBLOCK)?;
        Ok(Rc::new(Self { event_loop: event_loop.clone(), file: Rc::new(device) }))
    }

    /// Takes a request; how many bytes it has, or that there is none.
    ///
    /// # Errors
    ///
    /// `ENODEV` once nothing is mounted any more.
    pub(super) fn read(&self, into: &mut [u8]) -> Result<Option<usize>, Errno> {
        loop {
            match read(&*self.file, &mut *into) {
                Ok(len) => return Ok(Some(len)),
                Err(Errno::AGAIN) => return Ok(None),
                // Who asked has given up meanwhile; or a signal came.
                Err(Errno::NOENT | Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Hands over the bytes of an answer. The kernel takes all of them or fails: who asked is gone, or the mount.
    pub(super) fn write(&self, bytes: Vec<u8>) {
        if self.event_loop.backend() == Backend::Uring {
            let range = 0..bytes.len();
            drop(self.event_loop.begin_write(&self.file, bytes, range, 0, Sync::No));
        } else {
            let _nobody_to_tell = write(&*self.file, &bytes);
        }
    }

    /// The same, and gives the memory back once the kernel has them.
    pub(super) async fn write_whole(&self, bytes: Vec<u8>) -> Vec<u8> {
        if self.event_loop.backend() != Backend::Uring {
            let _nobody_to_tell = write(&*self.file, &bytes);
            return bytes;
        }
        let range = 0..bytes.len();
        let (_nobody_to_tell, bytes) = self.event_loop.write_at(&self.file, bytes, range, 0, Sync::No).await;
        bytes
    }

    /// Hands a slot over to this queue for its first request.
    pub(super) fn begin_register(&self, queue: u16, slot: Slot) -> Transfer {
        self.event_loop.begin_register(&self.file, queue, slot)
    }

    /// Hands over the answer in a slot, and the slot for the next request.
    pub(super) fn begin_commit(&self, queue: u16, slot: Slot) -> Transfer {
        self.event_loop.begin_commit(&self.file, queue, slot)
    }

    /// Waits for a request, or for the end.
    ///
    /// # Errors
    ///
    /// Those of poll(2).
    pub(super) async fn has_request(&self) -> io::Result<()> {
        self.event_loop.poll(&self.file, PollFlags::IN).await.map(drop)
    }
}
