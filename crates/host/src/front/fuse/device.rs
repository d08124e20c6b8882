//! The kernel's end of a session: `/dev/fuse`.
//!
//! 1. A read takes one request, or finds none: it never waits.
//! 2. Each request is answered once: one that is dropped without an answer is answered with an error.
//! 3. Answers are handed over together, at the next turn of the loop. One system call each would let whoever is woken by it
//!    have this thread's processor, and each request would cost two changes of context more.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, read, write};

use super::abi::reply::Answer;
use crate::event_loop::{Backend, Loop, PollFlags, SharedFd, Sync};

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

    /// Waits for a request, or for the end.
    ///
    /// # Errors
    ///
    /// Those of poll(2).
    pub(super) async fn has_request(&self) -> io::Result<()> {
        self.event_loop.poll(&self.file, PollFlags::IN).await.map(drop)
    }
}

/// A request that is to be answered.
pub(super) struct Reply {
    device: Rc<Device>,
    unique: u64,
    is_open: bool,
}

impl Reply {
    pub(super) fn new(device: &Rc<Device>, unique: u64) -> Self {
        Self { device: Rc::clone(device), unique, is_open: true }
    }

    /// Answers with an error of errno(3).
    pub(super) fn error(mut self, errno: i32) {
        self.hand_over(errno, Answer::default());
    }

    /// Answers with what was asked for.
    pub(super) fn answer(mut self, answer: Answer) {
        self.hand_over(0, answer);
    }

    /// As [`Self::answer`], and gives the memory of the answer back once the kernel has it.
    pub(super) async fn answer_whole(mut self, answer: Answer) -> Vec<u8> {
        self.is_open = false;
        let bytes = answer.addressed(self.unique, 0);
        if self.device.event_loop.backend() != Backend::Uring {
            let _nobody_to_tell = write(&*self.device.file, &bytes);
            return bytes;
        }
        let range = 0..bytes.len();
        let (_nobody_to_tell, bytes) =
            self.device.event_loop.write_at(&self.device.file, bytes, range, 0, Sync::No).await;
        bytes
    }

    /// The kernel wants none.
    pub(super) fn none(mut self) {
        self.is_open = false;
    }

    fn hand_over(&mut self, errno: i32, answer: Answer) {
        self.is_open = false;
        let bytes = answer.addressed(self.unique, errno);
        let Device { event_loop, file } = &*self.device;
        // It takes all or fails: who asked is gone, or the mount.
        if event_loop.backend() == Backend::Uring {
            let range = 0..bytes.len();
            drop(event_loop.begin_write(file, bytes, range, 0, Sync::No));
        } else {
            let _nobody_to_tell = write(&**file, &bytes);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if self.is_open {
            self.hand_over(Errno::IO.raw_os_error(), Answer::default());
        }
    }
}
