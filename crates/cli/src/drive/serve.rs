//! Serving a drive, and pulling its plug.
//!
//! 1. SIGUSR1, or a word on the control socket, is a power cut: connections end, and whoever connects again comes to
//!    the drive as it is after it.
//! 2. The first SIGTERM or Ctrl-C lets requests under way finish; the second leaves at once.

use std::rc::Rc;

use evenkeel_host::event_loop::{Loop, race};
use evenkeel_host::nbd::uri::of_place;
use evenkeel_host::net::Listener;
use evenkeel_host::stop_signals::STOP_SIGNALS;
use signal_hook::consts::SIGUSR1;

use super::Served;
use super::control;
use super::listen::accept_all;
use super::served::Drive;
use crate::args::{DriveArgs, NbdArg};
use crate::failure::Failure;
use crate::stdout::{announce, say};

/// Serves a drive at `nbd` until a signal comes, or a cut that ends it.
pub(super) async fn run(
    env: &Loop,
    args: &DriveArgs,
    name: &str,
    served: Served,
    nbd: &NbdArg,
) -> Result<(), Failure> {
    let signals = env
        .signals(&[STOP_SIGNALS.as_slice(), &[SIGUSR1]].concat())
        .map_err(|error| Failure::Unusable(format!("cannot listen for signals: {error}")))?;
    let listener = listen(env, nbd)?;
    let ready = listener.place().map(|place| of_place(&place, false));
    let drive = Rc::new(Drive::new(env, args, name, served));
    let accepting = Rc::clone(&drive);
    accept_all(env, listener, move |stream| accepting.serve(stream));
    if let NbdArg::Unix(path) = nbd {
        control::listen(env, path, &drive)?;
    }
    announce(format!("ready: {}\n", ready.expect("what listens here has a name")));
    let signal = async {
        while matches!(signals.next().await, Ok(SIGUSR1)) {
            drive.cut();
            drive.end_after_cut();
        }
    };
    race(signal, drive.ended()).await;
    let again = async { while matches!(signals.next().await, Ok(SIGUSR1)) {} };
    race(drive.stop(), again).await;
    say(&format!("{}\n", drive.precision_text()))
}

fn listen(env: &Loop, nbd: &NbdArg) -> Result<Listener, Failure> {
    match nbd {
        NbdArg::Unix(path) => Listener::unix(env, path).map_err(|error| Failure::Unusable(error.to_string())),
        NbdArg::Tcp(address) => Listener::tcp(env, address.as_str()).map_err(|error| {
            Failure::Unusable(format!("cannot listen on {address}: {error}; choose another"))
        }),
    }
}
