//! Signals that wait while their handlers are put up.
//!
//! A handler of the library is there before it is known whom it calls. What comes in between would be lost, and a
//! program that was told to stop would go on.

#![allow(unsafe_code)]

use std::mem::zeroed;
use std::ptr::null_mut;

/// Signals that do not reach this thread until this is dropped, and then do.
pub(crate) struct HeldBack(libc::sigset_t);

impl HeldBack {
    /// Holds `signals` back.
    pub(crate) fn new(signals: &[i32]) -> Self {
        // SAFETY: sets of this function's own; the first is made empty before it is used, the second is filled in.
        unsafe {
            let (mut set, mut before) = (zeroed(), zeroed());
            libc::sigemptyset(&raw mut set);
            for &signal in signals {
                libc::sigaddset(&raw mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
            Self(before)
        }
    }
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        // SAFETY: the set is the one that was there before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_back_comes_once_it_is_not_any_more() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicBool, Ordering};

        let came = Arc::new(AtomicBool::new(false));
        let handler = signal_hook::flag::register(libc::SIGURG, Arc::clone(&came)).unwrap();
        let held_back = HeldBack::new(&[libc::SIGURG]);
        // SAFETY: this thread is there, and the signal has a handler.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGURG) };
        assert!(!came.load(Ordering::SeqCst));
        drop(held_back);
        assert!(came.load(Ordering::SeqCst));
        signal_hook::low_level::unregister(handler);
    }
}
