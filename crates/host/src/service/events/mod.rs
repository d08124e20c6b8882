//! What an operator should hear of: a line, a count, and since when.
//!
//! ```text
//! mod      the kinds of events; counts and lines
//! watch    where they come from: the engine's own events, and what has to be looked for
//! state    what is wrong now, as a part of the status
//! ```
//!
//! 1. Every event is counted by its kind. Its line goes to `tracing`, which has the kind as the field `event`.
//! 2. Nothing is told again and again: of one kind there are at most [`LINES_MAX`] lines in [`WINDOW_NS`], and then one
//!    that says how many are missing.
//! 3. Nothing here is done for a request that goes well.

pub mod state;
pub(super) mod watch;

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_engine::device::Extent;
use evenkeel_engine::env::Env;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracing::Level;

use crate::event_loop::Loop;
use crate::remedy::{Advise, Remedy, advised};

/// Lines of one kind within [`WINDOW_NS`].
const LINES_MAX: u64 = 10;

/// The time within which lines of one kind are counted: [`LINES_MAX`].
const WINDOW_NS: u64 = 60_000_000_000;

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident = $name:literal, $level:ident;)*) => {
        /// A kind of events.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Kind { $($(#[doc = $doc])+ $kind,)* }

        impl Kind {
            /// All of them.
            pub(crate) const ALL: &[Self] = &[$(Self::$kind,)*];

            /// Its name in lines, status and metrics.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            fn level(self) -> Level {
                match self { $(Self::$kind => Level::$level,)* }
            }
        }
    };
}

kinds! {
    /// The volume is about to be opened.
    Starting = "starting", DEBUG;
    /// What a cut or a kill left undone is done.
    Recovered = "recovered", INFO;
    /// What was acknowledged and not flushed before a cut may be gone.
    MemoryGone = "memory-gone", WARN;
    /// Others put something where the arena would be, which is elsewhere.
    ArenaPassedOver = "arena-passed-over", WARN;
    /// Other machines may connect, and nothing is encrypted.
    TcpWithoutTls = "tcp-without-tls", WARN;
    /// Other machines may connect, and need no certificate.
    TlsForAll = "tls-for-all", WARN;
    /// Every user of the machine may connect, and nothing is encrypted.
    SocketForAll = "socket-for-all", WARN;
    /// Other machines may read the metrics.
    MetricsForAll = "metrics-for-all", WARN;
    /// Other machines may read the page.
    PageForAll = "page-for-all", WARN;
    /// A socket's file was removed, or another is in its place.
    SocketRemoved = "socket-removed", ERROR;
    /// Members or log devices are missing from the beginning.
    DegradedStart = "degraded-start", WARN;
    /// Clients may connect.
    Ready = "ready", INFO;
    /// A signal came.
    Stopping = "stopping", INFO;
    /// Everything is durable and home.
    Stopped = "stopped", INFO;
    /// It is copied to other members, as somebody ordered.
    ConversionBegun = "conversion-begun", INFO;
    /// It has these members from now on.
    ConversionEnded = "conversion-ended", INFO;
    /// It keeps the members that it has.
    ConversionFailed = "conversion-failed", WARN;
    /// The members that it had before could not be closed in order: nothing of it needs them.
    FormerNotClosed = "former-not-closed", WARN;
    /// The volume takes no writes any more.
    ReadOnly = "read-only", ERROR;
    /// A member takes part no more.
    MemberLost = "member-lost", ERROR;
    /// A member answers again, and is not taken back as it is.
    MemberRefused = "member-refused", WARN;
    /// A drive failed to discard, and is asked no more.
    DiscardsStopped = "discards-stopped", WARN;
    /// Pages cannot go home, as what is stored with them cannot be read.
    PagesStay = "pages-stay", ERROR;
    /// The volume's description was removed.
    DescriptionRemoved = "description-removed", ERROR;
    /// A member's file was removed.
    MemberRemoved = "member-removed", ERROR;
    /// A member's path leads to another file than the one in use, or to none.
    MemberMoved = "member-moved", ERROR;
    /// A log device takes part no more.
    LogDeviceLost = "log-device-lost", ERROR;
    /// What the log devices hold is copied to one that is to take the place of another.
    LogCopyBegun = "log-copy-begun", INFO;
    /// It has the place.
    LogCopyEnded = "log-copy-ended", INFO;
    /// It does not get the place.
    LogCopyFailed = "log-copy-failed", ERROR;
    /// The server stops before it has the place.
    LogCopyStopped = "log-copy-stopped", INFO;
    /// A log device's file was removed.
    LogDeviceRemoved = "log-device-removed", ERROR;
    /// A log device's path leads to another file than the one in use, or to none.
    LogDeviceMoved = "log-device-moved", ERROR;
    /// A read met a page that is damaged in every copy.
    DamagedRead = "damaged-read", ERROR;
    /// A read failed because a drive did.
    FailedRead = "failed-read", ERROR;
    /// Pages were wrong on one member, and were repaired from another.
    CopiesMended = "copies-mended", WARN;
    /// A scrub or a rebuild found pages that are damaged in every copy.
    PagesDamaged = "pages-damaged", ERROR;
    /// A member is copied from the others.
    RebuildBegun = "rebuild-begun", INFO;
    /// How far that is.
    RebuildProgress = "rebuild-progress", INFO;
    /// The member holds everything.
    RebuildEnded = "rebuild-ended", INFO;
    /// The member failed while it was copied to.
    RebuildFailed = "rebuild-failed", ERROR;
    /// The server stops before a rebuild has ended.
    RebuildStopped = "rebuild-stopped", INFO;
    /// A member has been much slower than the others for a minute.
    MemberSlow = "member-slow", WARN;
    /// It is not any more.
    MemberSlowEnded = "member-slow-ended", INFO;
    /// Commits waited long for room in the log, and go on.
    CommitsWaited = "commits-waited", WARN;
    /// A durable record of the log takes twice as long as it used to, or longer.
    LogSlower = "log-slower", WARN;
    /// It takes half as long as it used to, or less.
    LogQuicker = "log-quicker", INFO;
    /// They have been waiting so long that it may be for good.
    CommitsStuck = "commits-stuck", ERROR;
    /// A connection could not be accepted.
    AcceptFailed = "accept-failed", WARN;
    /// A connection ended otherwise than by its client's own word.
    ClientFailed = "client-failed", DEBUG;
}

/// What became of a kind of events since the volume was opened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventStatus {
    /// Which kind.
    pub event: String,
    /// How many there were.
    pub count: u64,
    /// Since the last one that was told.
    pub last_ago_s: Option<f64>,
    /// What was said of it.
    pub last: Option<String>,
}

/// What an event is about, besides its message.
#[derive(Debug, Clone, Default)]
pub(super) struct About {
    /// Which member or log device, by its place.
    pub(super) device: Option<String>,
    /// Which bytes of the volume.
    pub(super) extent: Option<Extent>,
}

impl About {
    /// A member or log device.
    pub(super) fn device(place: impl ToString) -> Self {
        Self { device: Some(place.to_string()), extent: None }
    }
}

/// Counts of one kind.
#[derive(Debug, Clone, Default)]
struct Tally {
    count: u64,
    last: Option<(u64, String)>,
    /// When the window began, and lines in it.
    window_ns: Option<u64>,
    lines: u64,
    suppressed: u64,
}

/// Counts events and tells of them. A clone is another handle to the same.
#[derive(Clone)]
pub(super) struct Reporter {
    event_loop: Loop,
    volume: Rc<str>,
    tallies: Rc<RefCell<Vec<Tally>>>,
    advise: Advise,
}

impl Reporter {
    /// A reporter of the volume by this name. `advise` says what an operator can do.
    pub(super) fn new(event_loop: &Loop, volume: impl Into<Rc<str>>, advise: Advise) -> Self {
        let tallies = Rc::new(RefCell::new(vec![Tally::default(); Kind::ALL.len()]));
        Self { event_loop: event_loop.clone(), volume: volume.into(), tallies, advise }
    }

    /// `message`, with what an operator can do about it.
    pub(super) fn advised(&self, message: String, remedy: &Remedy) -> String {
        advised(message, self.advise, remedy)
    }

    /// Counts an event, and writes its line.
    pub(super) fn report(&self, kind: Kind, about: &About, message: impl Into<String>) {
        self.report_many(kind, 1, about, message);
    }

    /// Counts `count` events at once, and writes one line of them.
    pub(super) fn report_many(&self, kind: Kind, count: u64, about: &About, message: impl Into<String>) {
        let now_ns = self.event_loop.now_ns();
        let message = message.into();
        self.end_window(kind, now_ns);
        let has_line = {
            let mut tallies = self.tallies.borrow_mut();
            let tally = &mut tallies[kind as usize];
            tally.count += count;
            tally.last = Some((now_ns, message.clone()));
            tally.takes_line(now_ns)
        };
        if has_line {
            self.log(kind, about, &message);
        }
    }

    /// Counts an event that is like one that has its line.
    pub(super) fn count(&self, kind: Kind) {
        self.tallies.borrow_mut()[kind as usize].count += 1;
    }

    /// Tells of what was left out lately, where its time has come.
    pub(super) fn tick(&self) {
        let now_ns = self.event_loop.now_ns();
        Kind::ALL.iter().for_each(|&kind| self.end_window(kind, now_ns));
    }

    fn end_window(&self, kind: Kind, now_ns: u64) {
        let suppressed = self.tallies.borrow_mut()[kind as usize].end_window(now_ns);
        if suppressed > 0 {
            let name = kind.name();
            let message = format!("{suppressed} more events {name} had no line");
            self.log(kind, &About::default(), &self.advised(message, &Remedy::LookAtCounts));
        }
    }

    /// When the last one of this kind was, in ns of the loop.
    pub(super) fn last_ns(&self, kind: Kind) -> Option<u64> {
        self.tallies.borrow()[kind as usize].last.as_ref().map(|(at_ns, _)| *at_ns)
    }

    /// What was said of the last one of this kind.
    pub(super) fn last(&self, kind: Kind) -> Option<String> {
        self.tallies.borrow()[kind as usize].last.as_ref().map(|(_, message)| message.clone())
    }

    /// Every kind with its count, also of what never happened.
    pub(super) fn counts(&self) -> Vec<(&'static str, u64)> {
        let tallies = self.tallies.borrow();
        Kind::ALL.iter().map(|&kind| (kind.name(), tallies[kind as usize].count)).collect()
    }

    /// What happened so far.
    pub(super) fn events(&self) -> Vec<EventStatus> {
        let (tallies, now_ns) = (self.tallies.borrow(), self.event_loop.now_ns());
        let happened = Kind::ALL.iter().map(|&kind| (kind, &tallies[kind as usize]));
        let happened = happened.filter(|(_, tally)| tally.count > 0);
        let each = happened.map(|(kind, tally)| EventStatus {
            event: kind.name().to_owned(),
            count: tally.count,
            last_ago_s: tally.last.as_ref().map(|(at_ns, _)| now_ns.saturating_sub(*at_ns) as f64 / 1e9),
            last: tally.last.as_ref().map(|(_, message)| message.clone()),
        });
        each.collect()
    }

    fn log(&self, kind: Kind, about: &About, message: &str) {
        macro_rules! at {
            ($level:expr) => {
                tracing::event!(
                    target: "evenkeel",
                    $level,
                    event = kind.name(),
                    volume = &*self.volume,
                    device = about.device.as_deref(),
                    offset = about.extent.map(|extent| extent.offset),
                    len = about.extent.map(|extent| extent.len),
                    "{message}"
                )
            };
        }
        match kind.level() {
            Level::ERROR => at!(Level::ERROR),
            Level::WARN => at!(Level::WARN),
            Level::INFO => at!(Level::INFO),
            _ => at!(Level::DEBUG),
        }
    }
}

impl Tally {
    /// Whether an event of this moment gets a line.
    fn takes_line(&mut self, now_ns: u64) -> bool {
        self.window_ns.get_or_insert(now_ns);
        let takes_line = self.lines < LINES_MAX;
        match takes_line {
            true => self.lines += 1,
            false => self.suppressed += 1,
        }
        takes_line
    }

    /// Ends the window if it is over; how many were left out in it.
    fn end_window(&mut self, now_ns: u64) -> u64 {
        if self.window_ns.is_none_or(|began_ns| now_ns.saturating_sub(began_ns) < WINDOW_NS) {
            return 0;
        }
        (self.window_ns, self.lines) = (None, 0);
        std::mem::take(&mut self.suppressed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_some_lines_and_then_one_that_counts_the_rest() {
        let mut tally = Tally::default();
        let told = (0..1000).filter(|second| tally.takes_line(second * 1_000_000)).count() as u64;
        assert_eq!(told, LINES_MAX);
        assert_eq!(tally.end_window(WINDOW_NS - 1), 0, "the window is not over");
        assert_eq!(tally.end_window(WINDOW_NS), 1000 - LINES_MAX);
        assert_eq!(tally.end_window(2 * WINDOW_NS), 0, "they are told once");
        assert!(tally.takes_line(2 * WINDOW_NS));
    }

    #[test]
    fn each_kind_has_a_name_of_its_own() {
        let mut names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Kind::ALL.len());
        assert!(Kind::ALL.iter().enumerate().all(|(number, kind)| *kind as usize == number));
    }
}
