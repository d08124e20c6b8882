//! Where events come from.
//!
//! 1. What the engine and its devices tell of themselves is taken as it comes; what nobody tells (a file that was
//!    removed, how far a rebuild is, commits that wait and wait) is looked for every [`LOOK_NS`].
//! 2. A device that is missing from the beginning is told of once, in one line for all of them.
//!
//! ```text
//! files    files of members and log devices that were removed, moved, or had another put in their place
//! ```

mod files;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::PathBuf;
use std::rc::Rc;

use evenkeel_engine::device::{Device, Extent};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::{DeviceError, Error};
use evenkeel_engine::events::{Event, Events};
use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::layout::mirror::log_devices::LogDeviceState;
use evenkeel_engine::ring::MemberState;

use super::super::term::Term;
use super::{About, Kind, Reporter};
use crate::event_loop::Loop;
use crate::net::SocketFile;
use crate::remedy::Remedy;
use crate::size_text::{exact_size, size};
use crate::volume::mirror::{Mirror, MirrorMember, is_no_loss};
use crate::volume::slot::Slot;
use crate::volume::{Described, Held, LocalVolume, OpenVolume, Recovered};

/// Time between two looks.
const LOOK_NS: u64 = 1_000_000_000;

/// Commits that have been waiting for so long may wait for good.
const STUCK_NS: u64 = 30_000_000_000;

/// Damaged pages that are remembered as told.
const TOLD_PAGES_MAX: usize = 4096;

/// Damaged pages that one line names.
const NAMED_MAX: usize = 5;

/// How far a rebuild is told: in so many steps.
const STEPS: u64 = 10;

/// What was seen so far.
#[derive(Debug, Default)]
struct Seen {
    /// The times since when devices are lost, being rebuilt, or without their files.
    since_ns: BTreeMap<Slot, u64>,
    removed: BTreeSet<Slot>,
    /// Since when the description is gone, and cannot be written anew.
    description_gone_ns: Option<u64>,
    /// Since when the memory of acknowledged writes is not found again, or is cut short.
    arena_gone_ns: Option<u64>,
    /// Sockets that no path leads to, and since when.
    sockets_gone_ns: BTreeMap<PathBuf, u64>,
    /// Places of devices whose paths lead elsewhere, as far as that is known.
    moved: BTreeMap<Slot, Option<PathBuf>>,
    rebuilds: BTreeMap<usize, Rebuild>,
    told_pages: BTreeSet<u64>,
    other_copies: u64,
    stuck_told: bool,
    stopping: bool,
}

#[derive(Debug, Clone, Copy)]
struct Rebuild {
    began_ns: u64,
    steps: u64,
}

/// The memory of acknowledged writes, as a file.
#[derive(Debug)]
struct OpenArena {
    path: PathBuf,
    file: File,
    len: u64,
}

/// A command by which a user copies the volume to a file.
#[derive(Debug)]
pub(in crate::service) struct CopyCommand {
    pub(in crate::service) command: String,
    /// The file of the socket that it needs, if it needs one.
    pub(in crate::service) socket: Option<PathBuf>,
}

/// Watches over an open volume. A clone is another handle to the same.
#[derive(Clone)]
pub(in crate::service) struct Watcher {
    pub(in crate::service) reporter: Reporter,
    event_loop: Loop,
    term: Term,
    volume: LocalVolume,
    mirror: Option<Mirror>,
    held: Rc<Held>,
    described: Rc<Described>,
    arena: Option<Rc<OpenArena>>,
    /// The volume's.
    folder: PathBuf,
    /// The folder where relative paths begin.
    base: PathBuf,
    /// How a user copies the volume to a file, if there is a way.
    copy: Option<Rc<CopyCommand>>,
    /// Files of the sockets where it listens.
    sockets: Rc<[SocketFile]>,
    /// Whether this process serves no other volume.
    is_alone: bool,
    began_ns: u64,
    seen: Rc<RefCell<Seen>>,
}

impl Watcher {
    /// Tells what the opening came to, and watches from here on, for this term.
    /// `copy` is how a user copies the volume to a file.
    pub(in crate::service) fn begin(
        event_loop: &Loop,
        term: &Term,
        open: &OpenVolume,
        reporter: Reporter,
        copy: Option<Rc<CopyCommand>>,
        (sockets, is_alone): (Rc<[SocketFile]>, bool),
    ) -> Self {
        let watcher = Self {
            reporter,
            event_loop: event_loop.clone(),
            term: term.clone(),
            volume: open.volume.clone(),
            mirror: open.mirror().cloned(),
            held: Rc::new(open.held()),
            described: open.described(),
            arena: arena_of(open),
            folder: open.folder().to_owned(),
            base: std::env::current_dir().unwrap_or_default(),
            copy,
            sockets,
            is_alone,
            began_ns: event_loop.now_ns(),
            seen: Rc::default(),
        };
        watcher.report_opening(open);
        watcher.watch_events(open.volume.events());
        if let Some(mirror) = &watcher.mirror {
            watcher.watch_events(mirror.ring.events());
            mirror.logs.events().into_iter().for_each(|events| watcher.watch_events(events));
        }
        let looking = watcher.clone();
        term.spawn(async move {
            loop {
                looking.event_loop.sleep(LOOK_NS).await;
                looking.look();
            }
        });
        watcher.watch_paths();
        watcher
    }

    /// The server stops: what ends from here on ends for that.
    pub(in crate::service) fn stopping(&self) {
        self.seen.borrow_mut().stopping = true;
    }

    /// Whether it stops.
    pub(in crate::service) fn is_stopping(&self) -> bool {
        self.seen.borrow().stopping
    }

    /// The time since when a device is lost, being rebuilt, or without its file, in ns of the loop.
    pub(in crate::service) fn since_ns(&self, slot: Slot) -> u64 {
        self.seen.borrow().since_ns.get(&slot).copied().unwrap_or(self.began_ns)
    }

    /// When it began to watch, in ns of the loop.
    pub(in crate::service) fn began_ns(&self) -> u64 {
        self.began_ns
    }

    /// How long commits have been waiting for room.
    pub(in crate::service) fn commits_wait_s(&self) -> f64 {
        self.volume.commits_wait_ns() as f64 / 1e9
    }

    /// What a device is called.
    pub(in crate::service) fn subject(&self, slot: Slot) -> String {
        let (kind, number) = match slot {
            Slot::Member(number) => ("member", number),
            Slot::Log(number) => ("log device", number),
        };
        let place = self.held.place(slot).map(|place| format!(" ({place})")).unwrap_or_default();
        format!("{kind} {number}{place}")
    }

    fn watch_events(&self, events: Rc<Events>) {
        let watcher = self.clone();
        self.term.spawn(async move {
            loop {
                let event = events.next().await;
                watcher.handle_event(event);
            }
        });
    }

    fn report_opening(&self, open: &OpenVolume) {
        let recovered = open.recovered;
        if recovered.records + recovered.writes > 0 {
            let message = format!(
                "recovered from the log: {} records; kept in memory: {} writes",
                recovered.records, recovered.writes
            );
            self.reporter.report(Kind::Recovered, &About::default(), message);
        }
        if recovered.memory_is_gone {
            self.reporter.report(Kind::MemoryGone, &About::default(), Recovered::MEMORY_IS_GONE.to_owned());
        }
        if let Some(passed_over) = &open.passed_over {
            self.reporter.report(Kind::ArenaPassedOver, &About::default(), passed_over.to_string());
        }
        let Some(mirror) = &self.mirror else { return };
        // What was lost while the volume was opened is part of what is missing now.
        let heard: Vec<Event> = std::iter::from_fn(|| mirror.ring.events().take())
            .filter(|event| matches!(event, Event::RebuildBegun { .. } | Event::DiscardsStopped { .. }))
            .collect();
        mirror.logs.events().into_iter().for_each(|events| while events.take().is_some() {});
        let missing = missing(mirror);
        if !missing.is_empty() {
            let message = format!("started without {}", missing.join(", "));
            self.reporter.report(Kind::DegradedStart, &About::default(), message);
        }
        heard.into_iter().for_each(|event| self.handle_event(event));
    }

    fn handle_event(&self, event: Event) {
        let now_ns = self.event_loop.now_ns();
        match event {
            Event::ReadOnly(error) => {
                let message = format!("takes no writes any more: {}", reason(&error));
                self.reporter.report(Kind::ReadOnly, &About::default(), message);
            }
            Event::ReadFailed { extent, error } => self.report_failed_read(extent, &error),
            Event::DiscardsStopped { place, error } => {
                self.report_stopped_discards(place.unwrap_or(0), error);
            }
            Event::PagesStay { pages, error } => {
                let message = format!(
                    "{pages} pages cannot go home and stay in the log, as what is stored with them cannot be read \
                     (errno {}): bring back the members that are missing",
                    error.errno
                );
                self.reporter.report(Kind::PagesStay, &About::default(), message);
            }
            Event::CommitsWaited { waited_ns } => {
                let message = format!("commits waited {:.1} s for room in the log", waited_ns as f64 / 1e9);
                self.reporter.report(Kind::CommitsWaited, &About::default(), message);
            }
            Event::RecordsChanged { bytes, before_ns, now_ns } => {
                let (kind, remedy) = match now_ns > before_ns {
                    true => (Kind::LogSlower, Remedy::LookAfterLogDrive),
                    false => (Kind::LogQuicker, Remedy::TuneAnew),
                };
                let message = format!(
                    "half of the durable writes of {} to the log take at most {:.3} ms; it was {:.3} ms",
                    size(bytes),
                    now_ns as f64 / 1e6,
                    before_ns as f64 / 1e6,
                );
                let message = self.reporter.advised(message, &remedy);
                self.reporter.report(kind, &About::default(), message);
            }
            Event::RebuildBegun { place, lacks_bytes } => {
                let mut seen = self.seen.borrow_mut();
                seen.rebuilds.insert(place, Rebuild { began_ns: now_ns, steps: 0 });
                seen.since_ns.insert(Slot::Member(place), now_ns);
                drop(seen);
                let (name, about) = self.member(place);
                let message = match lacks_bytes {
                    None => format!("rebuild of {name} begun"),
                    Some(bytes) => format!(
                        "rebuild of {name} begun: it was away, and lacks {} of regions at most",
                        exact_size(bytes)
                    ),
                };
                self.reporter.report(Kind::RebuildBegun, &about, message);
            }
            Event::RebuildEnded { place } => self.report_ended_rebuild(place, now_ns),
            Event::MemberLost { place, error, was_rebuilding } => {
                self.seen.borrow_mut().rebuilds.remove(&place);
                self.report_lost_member(place, &error, was_rebuilding, now_ns);
            }
            Event::LogCopyBegun { place } => {
                let (name, about) = self.log_device(place);
                let message = format!("what the log devices hold is copied to one that is to replace {name}");
                self.reporter.report(Kind::LogCopyBegun, &about, message);
            }
            Event::LogCopyEnded { place } => {
                self.seen.borrow_mut().since_ns.remove(&Slot::Log(place));
                let (name, about) = self.log_device(place);
                let message = format!("{name} holds everything, and has its place");
                self.reporter.report(Kind::LogCopyEnded, &about, message);
            }
            Event::LogCopyFailed { place, error } => self.report_failed_log_copy(place, &error),
            Event::LogDeviceLost { place, error } if is_no_loss(&error) => {
                self.seen.borrow_mut().since_ns.insert(Slot::Log(place), now_ns);
            }
            Event::LogDeviceLost { place, error } => {
                self.seen.borrow_mut().since_ns.insert(Slot::Log(place), now_ns);
                let Some(log) = self.mirror.as_ref().and_then(|it| it.log_devices().into_iter().nth(place))
                else {
                    return;
                };
                let why = log.why.unwrap_or_else(|| error.to_string());
                let message = format!("log device {place} ({}) is lost: {why}", log.place);
                self.reporter.report(Kind::LogDeviceLost, &About::device(&log.place), message);
            }
        }
    }

    fn report_failed_log_copy(&self, place: usize, error: &Error) {
        let (name, about) = self.log_device(place);
        if matches!(error, Error::Device(error) if is_no_loss(error)) && self.is_stopping() {
            let message = format!("{name} is not replaced before the server stops: replace it once more");
            return self.reporter.report(Kind::LogCopyStopped, &about, message);
        }
        let message = format!("{name} is not replaced: {}", reason(error));
        self.reporter.report(Kind::LogCopyFailed, &about, message);
    }

    fn report_stopped_discards(&self, place: usize, error: DeviceError) {
        let (name, about) = self.member(place);
        let message = format!(
            "{name} failed to discard (errno {}), and is asked no more until the next start: what is freed keeps its room \
             there",
            error.errno
        );
        self.reporter.report(Kind::DiscardsStopped, &about, message);
    }

    fn report_failed_read(&self, extent: Extent, error: &Error) {
        let about = About { extent: Some(extent), ..About::default() };
        let Error::Damaged { page } = error else {
            let message = format!("cannot read {} bytes from {}: {error}", extent.len, extent.offset);
            return self.reporter.report(Kind::FailedRead, &about, message);
        };
        let mut seen = self.seen.borrow_mut();
        let is_new = seen.told_pages.len() < TOLD_PAGES_MAX && seen.told_pages.insert(*page);
        drop(seen);
        if !is_new {
            return self.reporter.count(Kind::DamagedRead);
        }
        let message = format!(
            "page {page} is damaged: reads of {PAGE_BYTES} bytes from {} fail until they are written anew",
            page * PAGE_BYTES
        );
        self.reporter.report(Kind::DamagedRead, &about, message);
    }

    fn report_ended_rebuild(&self, place: usize, now_ns: u64) {
        let mut seen = self.seen.borrow_mut();
        seen.since_ns.remove(&Slot::Member(place));
        let began_ns = seen.rebuilds.remove(&place).map_or(now_ns, |rebuild| rebuild.began_ns);
        drop(seen);
        let (name, about) = self.member(place);
        let took_s = now_ns.saturating_sub(began_ns) as f64 / 1e9;
        let Some(member) = self.members().into_iter().nth(place) else { return };
        let message = match member.status.lacks_bytes {
            None => format!("rebuild of {name} ended after {took_s:.0} s: it holds everything"),
            Some(_) => format!("{name} is taken back after {took_s:.0} s: it holds everything"),
        };
        self.reporter.report(Kind::RebuildEnded, &about, message);
        let found = member.status.rebuild_found;
        if found.wrong_copies > 0 {
            let message = format!(
                "{} pages were wrong on the member that was read to rebuild {name}: taken from another",
                found.wrong_copies
            );
            self.reporter.report_many(Kind::CopiesMended, found.wrong_copies, &about, message);
        }
        if found.damaged_pages > 0 {
            let message = format!(
                "{} pages are damaged in every copy, as the rebuild of {name} found",
                found.damaged_pages
            );
            let message = self.reporter.advised(message, &Remedy::NameDamagedPages);
            self.reporter.report_many(Kind::PagesDamaged, found.damaged_pages, &about, message);
        }
    }

    fn report_lost_member(&self, place: usize, error: &DeviceError, was_rebuilding: bool, now_ns: u64) {
        let (name, about) = self.member(place);
        // Left out by this side: for a stop, or for another one in its place, whose rebuild is told.
        if is_no_loss(error) {
            if was_rebuilding && self.seen.borrow().stopping {
                let message =
                    format!("rebuild of {name} stops with the server; the next start begins it anew");
                self.reporter.report(Kind::RebuildStopped, &about, message);
            }
            return;
        }
        self.seen.borrow_mut().since_ns.insert(Slot::Member(place), now_ns);
        let why = self.members().into_iter().nth(place).and_then(|member| member.why);
        let why = why.unwrap_or_else(|| error.to_string());
        let (kind, message) = match was_rebuilding {
            true => (Kind::RebuildFailed, format!("rebuild of {name} failed: {why}")),
            false => (Kind::MemberLost, format!("{name} is lost: {why}")),
        };
        self.reporter.report(kind, &about, message);
    }

    /// Tells the volume of files that were made shorter.
    pub(in crate::service) fn look_at_lengths(&self) {
        self.held.fail_cut_short(&self.volume);
    }

    fn look(&self) {
        self.look_at_lengths();
        self.look_at_description();
        self.look_for_removed();
        self.look_at_arena();
        self.look_at_rebuilds();
        self.look_at_copies();
        let waiting_ns = self.volume.commits_wait_ns();
        let mut seen = self.seen.borrow_mut();
        let was_told = std::mem::replace(&mut seen.stuck_told, waiting_ns >= STUCK_NS);
        drop(seen);
        if waiting_ns >= STUCK_NS && !was_told {
            let message =
                format!("commits have been waiting for room in the log for {} s", waiting_ns / 1_000_000_000);
            self.reporter.report(Kind::CommitsStuck, &About::default(), message);
        }
        self.reporter.tick();
    }

    fn look_at_rebuilds(&self) {
        for (place, member) in self.members().into_iter().enumerate() {
            let MemberState::Rebuilding { done_bytes } = member.status.state else { continue };
            let size_bytes = self.mirror.as_ref().map_or(1, |it| it.ring.geometry().size_bytes).max(1);
            let steps = u64::try_from(u128::from(done_bytes) * u128::from(STEPS) / u128::from(size_bytes));
            let steps = steps.unwrap_or(STEPS).min(STEPS - 1);
            let mut seen = self.seen.borrow_mut();
            let Some(rebuild) = seen.rebuilds.get_mut(&place).filter(|rebuild| rebuild.steps < steps) else {
                continue;
            };
            rebuild.steps = steps;
            drop(seen);
            let (name, about) = self.member(place);
            let message =
                format!("rebuild of {name}: {} % of it is looked at or copied", steps * 100 / STEPS);
            self.reporter.report(Kind::RebuildProgress, &about, message);
        }
    }

    fn look_at_copies(&self) {
        let other_copies = self.volume.counters().other_copies;
        let before = std::mem::replace(&mut self.seen.borrow_mut().other_copies, other_copies);
        let more = other_copies.saturating_sub(before);
        if more > 0 {
            let message = format!(
                "{more} pages were wrong on the member that was read, and were repaired from another"
            );
            self.reporter.report_many(Kind::CopiesMended, more, &About::default(), message);
        }
    }

    fn members(&self) -> Vec<MirrorMember> {
        self.mirror.as_ref().map(Mirror::members).unwrap_or_default()
    }

    /// What a log device is called.
    fn log_device(&self, place: usize) -> (String, About) {
        let slot = Slot::Log(place);
        (self.subject(slot), self.held.place(slot).map_or_else(About::default, About::device))
    }

    /// What a member is called.
    pub(in crate::service) fn member(&self, place: usize) -> (String, About) {
        let slot = Slot::Member(place);
        (self.subject(slot), self.held.place(slot).map_or_else(About::default, About::device))
    }
}

/// The arena, opened once more: its mapping does not tell whether it has a name.
fn arena_of(open: &OpenVolume) -> Option<Rc<OpenArena>> {
    let path = open.arena_path()?.to_owned();
    let file = File::open(&path).ok()?;
    let len = file.metadata().ok()?.len();
    Some(Rc::new(OpenArena { path, file, len }))
}

/// What members and log devices take no part, and why.
fn missing(mirror: &Mirror) -> Vec<String> {
    let told = |kind: &str, number: usize, place: &dyn std::fmt::Display, why: &Option<String>| {
        format!("{kind} {number} ({place}): {}", why.as_deref().unwrap_or("not known why"))
    };
    let members = mirror.members().into_iter().enumerate();
    let members =
        members.filter(|(_, it)| matches!(it.status.state, MemberState::Out | MemberState::Foreign));
    let logs = mirror.log_devices().into_iter().enumerate();
    let logs = logs.filter(|(_, it)| it.state != LogDeviceState::InSync);
    members
        .map(|(number, it)| told("member", number, &it.place, &it.why))
        .chain(logs.map(|(number, it)| told("log device", number, &it.place, &it.why)))
        .collect()
}

/// The cause, without what it leads to.
fn reason(error: &Error) -> String {
    match error {
        Error::Latched(reason) => reason.to_string(),
        error => error.to_string(),
    }
}

/// Pages as ranges of bytes, the first of them.
pub(in crate::service) fn named(pages: &[u64]) -> String {
    let ranges =
        pages.iter().take(NAMED_MAX).map(|page| format!("{PAGE_BYTES} bytes from {}", page * PAGE_BYTES));
    let ranges: Vec<String> = ranges.collect();
    let more = if pages.len() > NAMED_MAX { ", ..." } else { "" };
    format!("{}{more}", ranges.join(", "))
}
