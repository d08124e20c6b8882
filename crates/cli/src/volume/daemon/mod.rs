//! `evenkeel daemon`: many volumes, served by one process.
//!
//! ```text
//!  the folder ──► description ──► hosted: a thread for each volume ──► service::run, as `serve` and `mount` have it
//!      ▲                             │ ready, ended
//!   SIGHUP ──► mod: who is served ◄──┘
//! ```
//!
//! 1. A volume is served as long as its description is there and stays as it is. What became of one harms no other.
//! 2. A description that changed has its volume stopped in order before it is served anew.
//! 3. The process ends when it is told to, and not because all volumes have ended: the next reload may bring others.
//! 4. It is ready for the service manager once each volume is ready, or has failed.

mod description;
mod hosted;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use evenkeel_host::stop_signals::{STOP_SIGNALS, honoured};
use sd_notify::NotifyState;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use crate::args::DaemonArgs;
use crate::failure::Failure;
use crate::logging;
use crate::stdout::{announce, say, shown};
use description::{Description, Descriptions, Wanted, read_folder};
use hosted::{Hosted, Told, What};

/// What the daemon hears of.
enum Heard {
    Signal(i32),
    Told(Told),
}

/// Serves what a folder describes until a signal comes.
pub(crate) fn run(args: &DaemonArgs) -> Result<(), Failure> {
    let descriptions = read_folder(&args.folder)?;
    if args.dry_run {
        return dry_run(&args.folder, &descriptions);
    }
    logging::begin(args.log_format, args.log_level, &args.folder);
    evenkeel_host::allocator::give_back_what_is_large();
    let (tell, heard) = channel();
    listen_for_signals(tell.clone())?;
    let daemon = Daemon {
        folder: args.folder.clone(),
        tell,
        hosted: BTreeMap::new(),
        next_number: 0,
        wanted: Descriptions::new(),
        failed: BTreeSet::new(),
        has_failed: false,
        is_ready: false,
        is_stopping: false,
    };
    daemon.run(descriptions, &heard)
}

fn is_locked(description: &Description) -> bool {
    matches!(&description.wanted, Wanted::Served(args) if args.lock_memory)
}

/// Says what would be served.
fn dry_run(folder: &Path, descriptions: &Descriptions) -> Result<(), Failure> {
    let mut wrong = 0;
    let mut text = String::new();
    for (file, found) in descriptions {
        let said = match found {
            Ok(description) => {
                let volume = shown(description.volume().display());
                match (hosted::check(description), &description.wanted) {
                    (Err(failure), _) => {
                        wrong += 1;
                        failure.to_string()
                    }
                    (Ok(()), Wanted::Served(_)) => format!("{volume} would be served"),
                    (Ok(()), Wanted::Mounted(args)) => {
                        format!("{volume} would be mounted on {}", shown(args.mount_point.display()))
                    }
                }
            }
            Err(why) => {
                wrong += 1;
                why.clone()
            }
        };
        text.push_str(&format!("{}: {said}\n", shown(file.display())));
    }
    if descriptions.is_empty() {
        text = format!("{}: no file NAME.toml is there; nothing would be served\n", shown(folder.display()));
    }
    say(&text)?;
    match wrong {
        0 => Ok(()),
        wrong => {
            Err(Failure::Unusable(format!("{wrong} of {} descriptions cannot be used", descriptions.len())))
        }
    }
}

fn listen_for_signals(tell: Sender<Heard>) -> Result<(), Failure> {
    let impossible = |error| Failure::Unusable(format!("cannot listen for signals: {error}"));
    // A reload is what SIGHUP is for, also where whoever started this ignores it.
    let mut wanted: Vec<i32> = honoured(&STOP_SIGNALS).into_iter().collect();
    if !wanted.contains(&SIGHUP) {
        wanted.push(SIGHUP);
    }
    let mut signals = Signals::new(wanted).map_err(impossible)?;
    let listening = thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            if tell.send(Heard::Signal(signal)).is_err() {
                return;
            }
        }
    });
    listening.map(|_until_the_end| ()).map_err(impossible)
}

struct Daemon {
    folder: PathBuf,
    tell: Sender<Heard>,
    /// By description.
    hosted: BTreeMap<PathBuf, Hosted>,
    next_number: u64,
    /// As they were read last: what is written since then waits for the next reload.
    wanted: Descriptions,
    /// Descriptions of which it was told since the last reload that they are not served: nothing is tried before the next.
    failed: BTreeSet<PathBuf>,
    /// Whether some volume was not served, or not to its end.
    has_failed: bool,
    is_ready: bool,
    is_stopping: bool,
}

impl Daemon {
    fn run(mut self, descriptions: Descriptions, heard: &Receiver<Heard>) -> Result<(), Failure> {
        if !descriptions.is_empty() && descriptions.values().all(Result::is_err) {
            self.follow(descriptions);
            return Err(Failure::Unusable(format!("{}: no description can be used", self.folder.display())));
        }
        self.follow(descriptions);
        while !(self.is_stopping && self.hosted.is_empty()) {
            self.tell_when_ready();
            match heard.recv().expect("the daemon has a sender of its own") {
                Heard::Signal(SIGHUP) if !self.is_stopping => self.reload(),
                Heard::Signal(SIGHUP) => {}
                Heard::Signal(_) if self.is_stopping => {
                    tracing::info!(
                        target: "evenkeel",
                        event = "ended",
                        volume = logging::volume(),
                        "ended at once: what was acknowledged is kept until the next start"
                    );
                    std::process::exit(evenkeel_host::interrupt::EXIT_INTERRUPTED);
                }
                Heard::Signal(_) => self.stop(),
                Heard::Told(Told { of: (file, number), what }) => self.hear(&file, number, what),
            }
        }
        match self.has_failed {
            false => Ok(()),
            true => {
                Err(Failure::No("not all volumes were served to their end; the events tell which".to_owned()))
            }
        }
    }

    /// Stops all volumes in order.
    fn stop(&mut self) {
        self.is_stopping = true;
        let _no_service_manager = sd_notify::notify(&[NotifyState::Stopping]);
        self.hosted.values_mut().for_each(Hosted::stop);
    }

    /// Reads the folder again, and follows it.
    fn reload(&mut self) {
        let mut said = vec![NotifyState::Reloading];
        said.extend(NotifyState::monotonic_usec_now().ok());
        let _no_service_manager = sd_notify::notify(&said);
        tracing::info!(
            target: "evenkeel",
            event = "reload",
            volume = logging::volume(),
            "reload: the descriptions are read again"
        );
        match read_folder(&self.folder) {
            Ok(descriptions) => {
                self.failed.clear();
                self.follow(descriptions);
            }
            Err(failure) => tracing::error!(
                target: "evenkeel",
                event = "reload",
                volume = logging::volume(),
                "reload: {failure}; all volumes go on as they were"
            ),
        }
        self.is_ready = false;
    }

    /// Serves what is described, and stops what is not described so any more.
    fn follow(&mut self, descriptions: Descriptions) {
        let mut mistakes = Vec::new();
        for (file, hosted) in &mut self.hosted {
            // A mistake in a file stops nothing.
            let is_as_it_was = match descriptions.get(file) {
                Some(Ok(description)) if description.text == hosted.text => true,
                Some(Ok(_)) if hosted.is_stopping => false,
                Some(Ok(description)) => match hosted::check(description) {
                    Ok(()) => false,
                    Err(failure) => {
                        mistakes.push((file.clone(), failure.to_string()));
                        true
                    }
                },
                Some(Err(why)) => {
                    mistakes.push((file.clone(), why.clone()));
                    true
                }
                None => false,
            };
            if !is_as_it_was {
                hosted.stop();
            }
        }
        for (file, why) in mistakes {
            tracing::warn!(
                target: "evenkeel",
                event = "not-changed",
                volume = %file.display(),
                "not-changed: {why}; it is served as before"
            );
        }
        for (file, description) in &descriptions {
            match description {
                _ if self.failed.contains(file) || self.hosted.contains_key(file) => {}
                // Its description has another name now: it is served once it has stopped under the old one.
                Ok(description) if self.is_stopping_still(description) => {}
                Ok(description) => self.begin(file, description.again()),
                Err(why) => self.tell_failure(file, why),
            }
        }
        self.wanted = descriptions;
    }

    fn is_stopping_still(&self, description: &Description) -> bool {
        let volume = description.canonical_volume();
        self.hosted.values().any(|hosted| hosted.is_stopping && hosted.volume == volume)
    }

    fn begin(&mut self, file: &Path, description: Description) {
        if is_locked(&description)
            && let Err(error) = evenkeel_host::writeback::lock_memory()
        {
            return self.tell_failure(file, &format!("lock-memory: {error}"));
        }
        let number = self.next_number;
        self.next_number += 1;
        let messages = self.tell.clone();
        match Hosted::begin(file, number, description, move |told| messages.send(Heard::Told(told)).is_ok()) {
            Ok(hosted) => drop(self.hosted.insert(file.to_owned(), hosted)),
            Err(failure) => self.tell_failure(file, &failure.to_string()),
        }
    }

    fn hear(&mut self, file: &Path, number: u64, what: What) {
        let Some(hosted) = self.hosted.get_mut(file).filter(|hosted| hosted.number == number) else { return };
        match what {
            What::Ready => hosted.is_ready = true,
            What::Ended(result) => {
                let was_asked = hosted.is_stopping;
                if let Some(hosted) = self.hosted.remove(file) {
                    hosted.join();
                }
                if let Err(failure) = result {
                    self.tell_failure(file, &failure.to_string());
                }
                if was_asked && !self.is_stopping {
                    self.go_on();
                }
            }
        }
    }

    /// Serves what has waited for the end of another: a description that changed, or has another name.
    fn go_on(&mut self) {
        let wanted = std::mem::take(&mut self.wanted);
        self.follow(wanted);
    }

    fn tell_failure(&mut self, file: &Path, why: &str) {
        self.has_failed = true;
        self.failed.insert(file.to_owned());
        tracing::error!(
            target: "evenkeel",
            event = "not-served",
            volume = %file.display(),
            "not-served: {why}; reload once that is mended"
        );
    }

    /// Tells once that all volumes are ready, or have failed.
    fn tell_when_ready(&mut self) {
        let is_settled = self.hosted.values().all(|hosted| hosted.is_ready && !hosted.is_stopping);
        if self.is_ready || !is_settled || self.is_stopping {
            return;
        }
        self.is_ready = true;
        let served = self.hosted.len();
        let said = format!("{served} volume{} served", if served == 1 { "" } else { "s" });
        let _no_service_manager = sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(&said)]);
        announce(format!("ready: {said}\n"));
    }
}
