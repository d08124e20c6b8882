//! The signals that ask a program to stop, and which of them it was started to ignore.
//!
//! 1. A signal of the terminal (SIGINT, SIGHUP, SIGQUIT) that was ignored when the program was started stays ignored:
//!    `nohup` ignores SIGHUP for what it runs, and a shell without job control ignores SIGINT and SIGQUIT for what it
//!    runs in the background. Ctrl-C at the script that started a server is not meant for the server.
//! 2. SIGTERM is sent by name, to this process. It is never ignored.

#![allow(unsafe_code)]

use std::mem::zeroed;
use std::ptr::null;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// What asks a program to stop in order: `kill`, Ctrl-C, and the end of the terminal or connection it runs in.
pub const STOP_SIGNALS: [i32; 3] = [SIGTERM, SIGINT, SIGHUP];

/// Those of `signals` that this process may put a handler up for.
pub fn honoured(signals: &[i32]) -> Vec<i32> {
    let comes_from_terminal = |signal| [SIGINT, SIGHUP, SIGQUIT].contains(&signal);
    signals.iter().copied().filter(|&signal| !(comes_from_terminal(signal) && is_ignored(signal))).collect()
}

/// Whether the signal is ignored now. Once a handler is up, it is not.
fn is_ignored(signal: i32) -> bool {
    // SAFETY: without a new action the call only fills in the present one, which is this function's own.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        libc::sigaction(signal, null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_with_a_handler_is_honoured() {
        let handler = signal_hook::flag::register(SIGQUIT, std::sync::Arc::default()).unwrap();
        assert_eq!(honoured(&[SIGTERM, SIGQUIT]), [SIGTERM, SIGQUIT]);
        signal_hook::low_level::unregister(handler);
    }
}
