//! A signal that comes while a volume is opened, where a system call holds the loop: that of a file system which does not
//! answer, or of a file that somebody else has.
//!
//! 1. The process is ended then, as by a kill: nobody is served yet, and what waits in memory stays there.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use signal_hook::iterator::{Handle, Signals};

use crate::interrupt::EXIT_INTERRUPTED;
use crate::stop_signals::{STOP_SIGNALS, honoured};

/// How long the loop has to hear of a signal by itself: much less than it waits for a file that somebody else has.
const HEARD_WITHIN: Duration = Duration::from_secs(1);

/// A guard: while it lives, a signal ends the process where the loop does not.
pub(super) struct Opening {
    signals: Handle,
    _until_then: Sender<()>,
}

impl Opening {
    /// From here on; `tell_end` says why it ends.
    ///
    /// # Errors
    ///
    /// The handlers or their thread cannot be set up.
    pub(super) fn begin(tell_end: fn(&str)) -> io::Result<Self> {
        let mut signals = Signals::new(honoured(&STOP_SIGNALS))?;
        let (until_then, is_over) = channel();
        let opening = Self { signals: signals.handle(), _until_then: until_then };
        thread::Builder::new().name("opening".to_owned()).spawn(move || {
            let came = signals.forever().next();
            if came.is_some() && is_over.recv_timeout(HEARD_WITHIN) == Err(RecvTimeoutError::Timeout) {
                tell_end(
                    "interrupted before it was served, while a member or log device kept it waiting; nothing is lost",
                );
                std::process::exit(EXIT_INTERRUPTED);
            }
        })?;
        Ok(opening)
    }

    /// Keeps the guard until the process ends: a signal came.
    pub(super) fn stay(self) {
        std::mem::forget(self);
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.signals.close();
    }
}
