//! Ctrl-C and the other signals that end a process: the first asks the work to stop and tidy up, the second leaves at once, after
//! undoing mounts and the like, and removing the scratch files.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::process::held_back::HeldBack;
use crate::stop_signals::honoured;
use crate::{scratch, undo};

/// Exit status of a program ended by Ctrl-C, as shells report it.
pub const EXIT_INTERRUPTED: i32 = 130;

/// A flag that long work looks at between two steps.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
}

impl Interrupt {
    /// A flag that signals raise. Call it once, early.
    ///
    /// # Errors
    ///
    /// Where the handlers or their thread cannot be set up.
    pub fn on_signals() -> io::Result<Self> {
        let interrupt = Self::default();
        let asked = Arc::clone(&interrupt.asked);
        let ending = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGXCPU, SIGXFSZ];
        let held_back = HeldBack::new(&ending);
        let mut signals = Signals::new(honoured(&ending))?;
        drop(held_back);
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in signals.forever() {
                if signal == SIGXFSZ {
                    continue; // the write that crossed the limit fails with EFBIG, and says so
                }
                if asked.swap(true, Ordering::Relaxed) {
                    undo::everything();
                    scratch::remove_all();
                    std::process::exit(EXIT_INTERRUPTED);
                }
            }
        })?;
        Ok(interrupt)
    }

    /// Whether the work should stop.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Asks the work to stop, as a signal would.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }
}
