//! Signals as something to wait for.
//!
//! The handler writes the signal's number into a pipe; everything else happens in the loop. Other handlers of the
//! same signals ([`crate::interrupt`]) are called too.
//!
//! 1. A signal that comes while the handlers are put up ends the process or is told of: it waits until they are up, for a
//!    handler that is there before it is known to whom it calls would lose it.

#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;

use rustix::event::PollFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use signal_hook::SigId;

use super::{Loop, SharedFd};

/// A source of signals. They go back to what they did before when it is dropped, but for their default action.
pub struct Signals {
    event_loop: Loop,
    pipe: SharedFd,
    handlers: Vec<SigId>,
}

impl fmt::Debug for Signals {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Signals").finish_non_exhaustive()
    }
}

impl Signals {
    pub(super) fn new(event_loop: &Loop, signals: &[i32]) -> io::Result<Self> {
        let (ours, handlers_end) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let handlers_end = Arc::new(handlers_end);
        let mut all = Self { event_loop: event_loop.clone(), pipe: Rc::new(ours), handlers: Vec::new() };
        let _until_all_are_up = Blocked::new(signals);
        for &signal in signals {
            let end = Arc::clone(&handlers_end);
            // SAFETY: the handler only makes a system call that is allowed there (signal-safety(7)), without
            // touching errno.
            let handler = unsafe {
                signal_hook::low_level::register(signal, move || {
                    // A full pipe has told enough.
                    let _ = rustix::io::write(end.as_fd(), &[signal as u8]);
                })
            };
            all.handlers.push(handler?);
        }
        Ok(all)
    }

    /// The next signal that came.
    ///
    /// # Errors
    ///
    /// `ECANCELED` where the loop has ended.
    pub async fn next(&self) -> io::Result<i32> {
        loop {
            let mut signal = [0];
            match rustix::io::read(&self.pipe, &mut signal) {
                Ok(1) => return Ok(i32::from(signal[0])),
                Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            self.event_loop.poll(&self.pipe, PollFlags::IN).await?;
        }
    }
}

/// Signals that wait, for this thread, until this is dropped.
struct Blocked(libc::sigset_t);

impl Blocked {
    fn new(signals: &[i32]) -> Self {
        // SAFETY: sets of this function's own; the first is made empty before it is used, the second is filled in.
        unsafe {
            let (mut set, mut before) = (std::mem::zeroed(), std::mem::zeroed());
            libc::sigemptyset(&raw mut set);
            for &signal in signals {
                libc::sigaddset(&raw mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
            Self(before)
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set is the one that was there before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for handler in self.handlers.drain(..) {
            signal_hook::low_level::unregister(handler);
        }
    }
}
