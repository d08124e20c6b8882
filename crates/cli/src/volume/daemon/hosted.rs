//! A volume of a daemon: a thread with a loop of its own, which is told of signals by a pipe.
//!
//! 1. What it does it tells the daemon: that it is ready, and how it ended. The daemon hears of each end, that by a panic too.
//! 2. Its end ends no other volume, and not the process.

use std::io::{PipeWriter, Write, pipe};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;

use evenkeel_host::service::{self, Address, Ended, Event};
use evenkeel_host::volume::{NBD_SOCKET, VolumeError};
use signal_hook::consts::SIGTERM;

use super::super::listening::named;
use super::super::serve::{backend, failure_of, prepare, said_of_places};
use super::super::{event_loop, mount, recovered};
use super::description::{Description, Wanted};
use crate::args::{MountArgs, NbdArg, ServeArgs};
use crate::failure::Failure;
use crate::stdout::{announce, shown};

/// The stack of a volume's thread: as much as the main thread of a server has.
const STACK_BYTES: usize = 8 << 20;

/// What is told of a volume.
#[derive(Debug)]
pub(super) struct Told {
    /// File of its description, and which of the servings of it this is.
    pub(super) of: (PathBuf, u64),
    pub(super) what: What,
}

/// What became of it.
#[derive(Debug)]
pub(super) enum What {
    /// Clients may connect, or programs use its files.
    Ready,
    /// It is not served any more.
    Ended(Result<(), Failure>),
}

/// A volume that is served, or about to be.
#[derive(Debug)]
pub(super) struct Hosted {
    /// What its description says.
    pub(super) text: String,
    /// Its folder.
    pub(super) volume: PathBuf,
    /// Which serving of its description it is.
    pub(super) number: u64,
    pub(super) is_ready: bool,
    pub(super) is_stopping: bool,
    signals: PipeWriter,
    thread: thread::JoinHandle<()>,
}

/// Tells of the end whatever it is.
struct TellsEnd<T: Fn(Told) -> bool> {
    of: (PathBuf, u64),
    tell: T,
    ended: Option<Result<(), Failure>>,
}

impl<T: Fn(Told) -> bool> Drop for TellsEnd<T> {
    fn drop(&mut self) {
        let panicked =
            || Err(Failure::No("it failed by a mistake of this program, which is told above".to_owned()));
        let what = What::Ended(self.ended.take().unwrap_or_else(panicked));
        let _the_daemon_hears = (self.tell)(Told { of: self.of.clone(), what });
    }
}

impl Hosted {
    /// Begins to serve what a description says; `tell` is for what the daemon is to hear, and answers whether it does.
    ///
    /// # Errors
    ///
    /// There is no room for a thread or a pipe.
    pub(super) fn begin(
        file: &Path,
        number: u64,
        description: Description,
        tell: impl Fn(Told) -> bool + Clone + Send + 'static,
    ) -> Result<Self, Failure> {
        let impossible = |error| Failure::No(format!("no thread can be had for it: {error}"));
        let (theirs, signals) = pipe().map_err(impossible)?;
        let volume = description.canonical_volume();
        let Description { text, wanted } = description;
        let of = (file.to_owned(), number);
        let ready = tell.clone();
        let thread =
            thread::Builder::new().name("volume".to_owned()).stack_size(STACK_BYTES).spawn(move || {
                let mut ends = TellsEnd { of: of.clone(), tell, ended: None };
                let tell_ready = move || {
                    let _the_daemon_hears = ready(Told { of: of.clone(), what: What::Ready });
                };
                evenkeel_host::writeback::serves_writeback();
                ends.ended = Some(match wanted {
                    Wanted::Served(args) => serve(&args, theirs.into(), tell_ready),
                    Wanted::Mounted(args) => serve_mounted(&args, theirs.into(), tell_ready),
                });
            });
        let thread = thread.map_err(impossible)?;
        Ok(Self { text, volume, number, is_ready: false, is_stopping: false, signals, thread })
    }

    /// Stops it in order.
    pub(super) fn stop(&mut self) {
        if !std::mem::replace(&mut self.is_stopping, true) {
            // One that has ended needs no signal.
            let _it_has_ended = self.signals.write(&[SIGTERM as u8]);
        }
    }

    /// Waits for its thread, which has told its end.
    pub(super) fn join(self) {
        let _what_it_panicked_about_was_told = self.thread.join();
    }
}

/// That what a description says can be begun, as far as that shows without taking anything.
///
/// # Errors
///
/// Why not, as [`Hosted::begin`] would have it told.
pub(super) fn check(description: &Description) -> Result<(), Failure> {
    match &description.wanted {
        Wanted::Served(args) => prepare(args, sockets(args)).map(drop),
        Wanted::Mounted(args) => mount::prepare(args).map(drop),
    }
}

/// Where clients come: the volume's own socket, unless it is told otherwise.
fn sockets(args: &ServeArgs) -> Vec<Address> {
    let own = [NbdArg::Unix(args.volume.join(NBD_SOCKET))];
    named(if args.nbd.is_empty() { &own } else { &args.nbd })
}

fn serve(args: &ServeArgs, signals: OwnedFd, tell_ready: impl Fn() + 'static) -> Result<(), Failure> {
    let (setup, mut options) = prepare(args, sockets(args))?;
    options.signals = Some(signals);
    let event_loop = event_loop(backend(args))?;
    let (has_tls, volume) = (args.tls.is_some(), args.volume.clone());
    let tell = move |event: Event<'_>| {
        if let Event::Ready { volume: open, places, metrics, http } = event {
            let text = recovered(open.recovered) + &said_of_places(&places, has_tls, metrics, http);
            announce(said_of(&volume, &text));
            tell_ready();
        }
    };
    let handle = event_loop.handle();
    let ended = event_loop.block_on(service::run(&handle, &args.volume, setup, options, tell));
    judged(&args.volume, ended)
}

fn serve_mounted(args: &MountArgs, signals: OwnedFd, tell_ready: impl Fn() + 'static) -> Result<(), Failure> {
    let (setup, mut options) = mount::prepare(args)?;
    options.signals = Some(signals);
    let event_loop = event_loop(setup.backend())?;
    let (at, volume) = (args.mount_point.clone(), args.volume.clone());
    let tell = move |event: Event<'_>| {
        if let Event::Ready { volume: open, metrics, http, .. } = event {
            let text = recovered(open.recovered) + &mount::said_of_mount(&at, metrics, http);
            announce(said_of(&volume, &text));
            tell_ready();
        }
    };
    let handle = event_loop.handle();
    let ended = event_loop.block_on(service::run(&handle, &args.volume, setup, options, tell));
    judged(&args.volume, ended)
}

/// The lines, each of them with the volume that it is about.
fn said_of(volume: &Path, lines: &str) -> String {
    let volume = shown(volume.display());
    lines.lines().map(|line| format!("{volume}: {line}\n")).collect()
}

/// What the daemon makes of an end.
fn judged(volume: &Path, ended: Result<Ended, VolumeError>) -> Result<(), Failure> {
    match ended {
        Ok(Ended::Closed | Ended::BeforeServing) => Ok(()),
        Ok(Ended::Gone(what)) => Err(Failure::No(what)),
        Ok(Ended::AtOnce { .. }) => Err(Failure::No("ended at once".to_owned())),
        Err(error) => Err(failure_of(volume, error)),
    }
}
