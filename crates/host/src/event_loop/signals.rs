//! Signals as something to wait for.
//!
//! The handler writes the signal's number into a pipe; everything else happens in the loop. Other handlers of the
//! same signals ([`crate::interrupt`]) are called too.
//!
//! 1. What the process was started to ignore stays ignored: see [`crate::stop_signals`].
//! 2. A signal that comes while the handlers are put up ends the process or is told of: see [`crate::process::held_back`].

#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use rustix::event::PollFlags;
use rustix::pipe::{PipeFlags, pipe_with};
use signal_hook::SigId;

use super::{Loop, SharedFd};
use crate::process::held_back::HeldBack;
use crate::stop_signals::honoured;

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
        let _until_all_are_up = HeldBack::new(signals);
        for signal in honoured(signals) {
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

    /// Those that somebody else in this process passes on: a byte of this pipe is the number of one.
    pub(super) fn of_pipe(event_loop: &Loop, pipe: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&pipe, true)?;
        Ok(Self { event_loop: event_loop.clone(), pipe: Rc::new(pipe), handlers: Vec::new() })
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

impl Drop for Signals {
    fn drop(&mut self) {
        for handler in self.handlers.drain(..) {
            signal_hook::low_level::unregister(handler);
        }
    }
}
