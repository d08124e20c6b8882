//! What a served volume does, as one document.

use std::cell::RefCell;
use std::io::{self, Read};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evenkeel_engine::env::Env;
use evenkeel_engine::options::Journaling;
use evenkeel_engine::volume::RecordCost;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::conversion::Conversions;
pub use super::counters::Counters;
use super::events::EventStatus;
use super::events::state::{self, StateStatus};
use super::events::watch::Watcher;
pub use super::latencies::{Latency, Requests};
use super::latencies::{latency, requests};
use super::maintenance::Maintenance;
use super::mirror_status::MirrorStatus;
use super::recent::Recent;
use crate::drive::DurableWay;
use crate::event_loop::{Backend, Loop};
use crate::front::Front;
use crate::front::session::{FileSystemFigures, FrontStatus, WaiterFigures};
use crate::front::statistics::{CommandKind, Statistics};
use crate::net::connect_unix_blocking;
use crate::volume::description::Description;
use crate::volume::member::Place;
use crate::volume::mirror::Mirror;
use crate::volume::tuned::Tuned;
use crate::volume::{LocalVolume, OpenVolume, Recovered, STATUS_SOCKET};

/// Longest document that is read.
const DOCUMENT_MAX_BYTES: u64 = 4 << 20;

/// How long a server may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The value of `schema` in every document of this shape.
pub const SCHEMA: &str = "evenkeel.status/1";

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// Always [`SCHEMA`].
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// Which volume.
    pub volume: VolumeStatus,
    /// Who serves it.
    pub server: ServerStatus,
    /// What is wrong with it now, if anything.
    #[serde(default)]
    pub state: StateStatus,
    /// What happened since it was opened.
    #[serde(default)]
    pub events: Vec<EventStatus>,
    /// Why it takes no writes any more, if so.
    pub failure: Option<String>,
    /// How it runs.
    pub chosen: Chosen,
    /// What of that was chosen by trying, and why, as its description says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tuned: Option<Tuned>,
    /// How full it is.
    pub occupancy: Occupancy,
    /// What a durable write to its log takes, as its commits of the last minutes show; missing where there were not enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_cost: Option<LogCost>,
    /// What it did since it was opened.
    pub counters: Counters,
    /// What its clients asked for, since it was opened.
    pub requests: Vec<Requests>,
    /// The file system, where it is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<FileSystemStatus>,
    /// What a mirror's members do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror: Option<MirrorStatus>,
    /// How far its conversion is, where it is being converted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversion: Option<ConversionStatus>,
    /// What it did lately, where somebody watches it: since the document before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recent: Option<Recent>,
}

/// A conversion of the volume to other members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConversionStatus {
    /// What is being done, in words.
    pub doing: String,
    /// Bytes of that which are done.
    pub done_bytes: u64,
    /// Bytes of it in all.
    pub all_bytes: u64,
}

/// Which volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VolumeStatus {
    /// Its folder.
    pub path: String,
    /// Its number.
    pub id: String,
    /// Its layout.
    pub layout: String,
    /// Bytes that it offers.
    pub size_bytes: u64,
    /// Largest write that is there whole or not at all after a cut.
    pub atomic_max_bytes: u64,
    /// The home member, or the members of a mirror.
    pub home: String,
    /// The log member, or the log devices; empty where the log is on the home member.
    pub log: String,
    /// Members, and as many log devices, that may be lost now without losing data.
    pub losses_survived: u32,
}

/// Who serves it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerStatus {
    /// Its process.
    pub pid: u32,
    /// Since the volume was opened.
    pub uptime_s: f64,
    /// When this serving began, in ms since 1970: counts begin anew with each, also in the same process.
    #[serde(default)]
    pub began_unix_ms: u64,
    /// `io_uring` or `threads`.
    pub backend: String,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Connections now.
    pub connections: u64,
    /// Connections so far.
    pub connections_accepted: u64,
    /// Connections turned away because there were too many.
    pub connections_refused: u64,
    /// Connections ended in their handshake to make room for others.
    #[serde(default)]
    pub connections_evicted: u64,
    /// Bytes of requests that are not answered yet.
    pub in_flight_bytes: u64,
    /// The most there were.
    pub in_flight_peak_bytes: u64,
    /// As many as there may be; requests beyond them wait.
    pub in_flight_max_bytes: u64,
}

/// How it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Chosen {
    /// `wasteless`, `selective`, `whole-pages` or `ordered`.
    pub journaling: String,
    /// From which size on a write goes straight home; `null` where none does.
    pub threshold_bytes: Option<u64>,
    /// Largest commit record.
    pub batch_max_bytes: u64,
    /// Commits that may be under way at once.
    pub commits_in_flight_max: u64,
    /// Memory for pages; as it is now, where it follows what is free.
    pub cache_bytes: u64,
    /// What makes a log write durable: `dsync`, `linked` (a write and a flush), or `nbd`, the server that has the log.
    pub durable_way: String,
}

/// How full it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Occupancy {
    /// Bytes of writes that are not durable.
    pub buffer_used_bytes: u64,
    /// Bytes that there may be of them.
    pub buffer_bytes: u64,
    /// Bytes of the log in use.
    pub log_used_bytes: u64,
    /// Bytes of it that commits may fill; the rest is for checkpoints.
    #[serde(default)]
    pub log_max_bytes: u64,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Bytes of pages that are in the log and not home.
    pub dirty_bytes: u64,
    /// Bytes that there may be of them.
    pub dirty_max_bytes: u64,
    /// Bytes of pages in memory.
    pub pages_bytes: u64,
    /// The most there were.
    pub pages_peak_bytes: u64,
    /// Of the table of sums, in memory.
    pub table_bytes: u64,
    /// Bytes that there may be of them.
    pub pages_max_bytes: u64,
}

/// What a durable record takes in the log, where no other is under way and nothing goes home: `fixed_s + x / bytes_per_s` for `x` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogCost {
    /// Bytes of the records there were most of lately.
    pub record_bytes: u64,
    /// What half of those take at most.
    pub latency_s: f64,
    /// l: what a record takes however small it is; missing where records are too much alike.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fixed_s: Option<f64>,
    /// B: the rate at which bytes pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<f64>,
    /// l x B: the batch at which throughput over latency is greatest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_bytes: Option<f64>,
    /// Records that this is estimated from, those of five minutes ago by a third.
    pub records: u64,
}

impl From<RecordCost> for LogCost {
    fn from(known: RecordCost) -> Self {
        Self {
            record_bytes: known.bytes,
            latency_s: known.latency_ns as f64 / 1e9,
            fixed_s: known.line.map(|line| line.fixed_ns / 1e9),
            bytes_per_s: known.line.map(|line| line.bytes_per_s),
            batch_bytes: known.line.map(|line| line.batch_bytes()),
            records: known.records,
        }
    }
}

/// A mounted file system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileSystemStatus {
    /// Bytes of its blocks, without those of its tables.
    pub size_bytes: u64,
    /// Bytes of free ones.
    pub free_bytes: u64,
    /// Bytes of those of them that anybody may take.
    pub available_bytes: u64,
    /// Inodes.
    pub inodes: u64,
    /// Free ones.
    pub free_inodes: u64,
    /// Calls of fsync and fdatasync that were answered.
    pub fsyncs: u64,
    /// How many came a second, in the last ten seconds.
    pub fsyncs_per_s: f64,
    /// How long they took.
    pub fsync_latency_s: Latency,
    /// Commits.
    pub commits: u64,
    /// Bytes of data that commits carried.
    pub data_bytes: u64,
    /// Bytes of metadata that commits carried.
    pub metadata_bytes: u64,
    /// Bytes of data that were written to their blocks before a commit.
    pub written_bytes: u64,
    /// Bytes of data that are not committed.
    pub dirty_bytes: u64,
    /// Files in memory.
    pub known_files: u64,
    /// Who waited most for what it made durable in the last 30 to 60 seconds; the first one most, five at most.
    #[serde(default)]
    pub waiters: Vec<WaiterStatus>,
}

/// A thread that waited for what it made durable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaiterStatus {
    /// Its number, which is the process's where that has one thread.
    pub thread: u32,
    /// What it is called, if it is there still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// How often it waited: for fsync, fdatasync, and writes with `O_SYNC` or `O_DSYNC`.
    pub fsyncs: u64,
    /// For how long in all.
    pub waited_s: f64,
}

impl WaiterStatus {
    fn of(figures: &WaiterFigures) -> Self {
        let name = std::fs::read(format!("/proc/{}/comm", figures.thread)).ok();
        Self {
            thread: figures.thread,
            program: name.map(|name| String::from_utf8_lossy(name.trim_ascii_end()).into_owned()),
            fsyncs: figures.fsyncs,
            waited_s: figures.waited_ns as f64 / 1e9,
        }
    }
}

impl FileSystemStatus {
    fn of(figures: &FileSystemFigures, statistics: &Statistics) -> Self {
        let fsync = statistics.of(CommandKind::RangeFlush);
        Self {
            size_bytes: figures.size_bytes,
            free_bytes: figures.free_bytes,
            available_bytes: figures.available_bytes,
            inodes: figures.inodes,
            free_inodes: figures.free_inodes,
            fsyncs: fsync.requests,
            fsyncs_per_s: figures.fsyncs_per_s,
            fsync_latency_s: latency(fsync),
            commits: figures.commits,
            data_bytes: figures.data_bytes,
            metadata_bytes: figures.metadata_bytes,
            written_bytes: figures.written_bytes,
            dirty_bytes: figures.dirty_bytes,
            known_files: figures.known_files,
            waiters: figures.waiters.iter().flatten().map(WaiterStatus::of).collect(),
        }
    }
}

impl Status {
    /// As text.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("names and numbers can be written");
        text.push('\n');
        text
    }

    /// As text in one line, without its end.
    pub fn to_json_line(&self) -> String {
        serde_json::to_string(self).expect("as above")
    }

    /// Asks the server of the volume in `folder`.
    ///
    /// # Errors
    ///
    /// `NotFound` and `ConnectionRefused` where nobody serves it; `InvalidData` for an answer that is none.
    pub fn ask(folder: &Path) -> io::Result<Self> {
        let stream = connect_unix_blocking(&folder.join(STATUS_SOCKET))?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        let mut text = String::new();
        stream.take(DOCUMENT_MAX_BYTES).read_to_string(&mut text)?;
        if text.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        serde_json::from_str(&text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

/// A serving of a volume, from its opening to its stop: also where it is converted meanwhile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Serving {
    began_ns: u64,
    began_unix_ms: u64,
    read_only: bool,
}

impl Serving {
    /// One that begins now.
    pub(super) fn begin(event_loop: &Loop, read_only: bool) -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let began_unix_ms = u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX);
        Self { began_ns: event_loop.now_ns(), began_unix_ms, read_only }
    }
}

/// What the document is made from.
pub(crate) struct Watched {
    event_loop: Loop,
    serving: Serving,
    volume: LocalVolume,
    mirror: Option<Mirror>,
    maintenance: Maintenance,
    conversions: Conversions,
    recovered: Recovered,
    description: Description,
    path: String,
    front_status: Box<dyn Fn() -> FrontStatus>,
    watcher: Watcher,
}

impl Watched {
    pub(super) fn new(
        event_loop: &Loop,
        serving: Serving,
        open: &OpenVolume,
        front: impl Front,
        maintenance: Maintenance,
        conversions: &Conversions,
        watcher: Watcher,
    ) -> Self {
        Self {
            event_loop: event_loop.clone(),
            serving,
            volume: open.volume.clone(),
            mirror: open.mirror().cloned(),
            maintenance,
            conversions: conversions.clone(),
            recovered: open.recovered,
            description: open.description(),
            path: open.folder().display().to_string(),
            front_status: Box::new(move || front.status()),
            watcher,
        }
    }

    /// How often each kind of events happened, also those that never did.
    pub(crate) fn event_counts(&self) -> Vec<(&'static str, u64)> {
        self.watcher.reporter.counts()
    }

    /// Members and log devices whose file was removed while it is in use.
    pub(crate) fn removed_files(&self) -> usize {
        self.watcher.removed().len()
    }

    /// Members and log devices whose path leads to another file than the one in use, or to none.
    pub(crate) fn moved_files(&self) -> usize {
        self.watcher.moved().len()
    }

    /// For how long commits have been waiting for room in the log.
    pub(crate) fn commits_wait_s(&self) -> f64 {
        self.watcher.commits_wait_s()
    }

    /// The document of this moment.
    pub(crate) fn document(&self) -> Status {
        let (volume, description) = (&self.volume, &self.description);
        let server = (self.front_status)();
        let occupancy = volume.occupancy();
        let now_ns = self.event_loop.now_ns();
        let mirror = self.mirror.as_ref();
        // Where a member is may have changed.
        let (home, log) = match mirror {
            Some(mirror) => (
                places(mirror.members().iter().map(|member| &member.place)),
                match mirror.ring.holds_log() {
                    true => "on the members".to_owned(),
                    false => places(mirror.log_devices().iter().map(|log| &log.place)),
                },
            ),
            None => (
                places(description.members.iter().map(|member| &member.place)),
                places(description.logs.iter().map(|log| &log.place)),
            ),
        };
        let failure = volume.failure().map(|error| error.to_string());
        let counted: Counters = volume.counters().into();
        let of_members = mirror.map_or(0, |it| it.ring.members().iter().map(|it| it.failed_discards).sum());
        let counters = Counters {
            failed_discards: counted.failed_discards + of_members,
            replayed_records: self.recovered.records,
            replayed_units: self.recovered.writes,
            ..counted
        };
        let mirror_status = mirror.map(|mirror| MirrorStatus::of(mirror, &self.maintenance, now_ns));
        let state = state::of(&self.watcher, failure.as_deref(), mirror_status.as_ref(), &counters, now_ns);
        Status {
            schema: SCHEMA.to_owned(),
            volume: VolumeStatus {
                path: self.path.clone(),
                id: description.id.to_string(),
                layout: description.layout.to_string(),
                size_bytes: volume.size_bytes(),
                atomic_max_bytes: description.atomic_max_bytes,
                home,
                log,
                losses_survived: mirror.map_or(0, Mirror::losses_survived),
            },
            server: ServerStatus {
                pid: std::process::id(),
                uptime_s: now_ns.saturating_sub(self.serving.began_ns) as f64 / 1e9,
                began_unix_ms: self.serving.began_unix_ms,
                backend: match self.event_loop.backend() {
                    Backend::Threads => "threads".to_owned(),
                    Backend::Auto | Backend::Uring | Backend::Slots => "io_uring".to_owned(),
                },
                read_only: self.serving.read_only,
                connections: server.connections.len() as u64,
                connections_accepted: server.connections_accepted,
                connections_refused: server.connections_refused,
                connections_evicted: server.connections_evicted,
                in_flight_bytes: server.in_flight_bytes,
                in_flight_peak_bytes: server.in_flight_peak_bytes,
                in_flight_max_bytes: server.in_flight_max_bytes,
            },
            state,
            events: self.watcher.reporter.events(),
            failure,
            chosen: self.chosen(),
            tuned: description.tuned.clone(),
            occupancy: Occupancy {
                buffer_used_bytes: occupancy.buffer_used_bytes,
                buffer_bytes: occupancy.buffer_bytes,
                log_used_bytes: occupancy.log_used_bytes,
                log_max_bytes: occupancy.log_max_bytes,
                log_bytes: occupancy.log_bytes,
                dirty_bytes: occupancy.dirty_bytes,
                dirty_max_bytes: occupancy.dirty_max_bytes,
                pages_bytes: occupancy.pages_bytes,
                pages_peak_bytes: occupancy.pages_peak_bytes,
                table_bytes: occupancy.table_bytes,
                pages_max_bytes: occupancy.pages_max_bytes,
            },
            log_cost: volume.record_cost().map(LogCost::from),
            counters,
            requests: requests(&server.statistics),
            file_system: server.file_system.map(|it| FileSystemStatus::of(&it, &server.statistics)),
            mirror: mirror_status,
            conversion: self.conversions.progress(),
            recent: None,
        }
    }

    fn chosen(&self) -> Chosen {
        let options = self.volume.options();
        // To a mirror every write goes through the log.
        let journaling = match (options.journaling, &self.mirror) {
            (Journaling::Selective { .. } | Journaling::Ordered, Some(_)) => Journaling::Wasteless,
            (journaling, _) => journaling,
        };
        let (journaling, threshold_bytes) = match journaling {
            Journaling::Wasteless => ("wasteless", None),
            Journaling::Selective { threshold_bytes } => ("selective", Some(threshold_bytes)),
            Journaling::WholePages => ("whole-pages", None),
            Journaling::Ordered => ("ordered", None),
        };
        let log = self.description.logs.first().unwrap_or(&self.description.members[0]);
        Chosen {
            journaling: journaling.to_owned(),
            threshold_bytes,
            batch_max_bytes: options.batch_max_bytes as u64,
            commits_in_flight_max: options.commits_in_flight_max as u64,
            cache_bytes: self.volume.cached_pages_max() as u64 * 4096,
            durable_way: match (&log.place, log.durable_way) {
                (Place::Nbd(_), _) => "nbd",
                (Place::Path(_), Some(DurableWay::Linked)) => "linked",
                (Place::Path(_), Some(DurableWay::Dsync) | None) => "dsync",
            }
            .to_owned(),
        }
    }

    /// All latencies, bucket by bucket.
    pub(crate) fn statistics(&self) -> Statistics {
        (self.front_status)().statistics
    }
}

/// The places of members, as one text.
fn places<'a>(places: impl Iterator<Item = &'a Place>) -> String {
    places.map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// What is watched now, shared by those who tell. A clone is another handle to the same.
#[derive(Clone)]
pub(crate) struct SharedWatched(Rc<RefCell<Rc<Watched>>>);

impl SharedWatched {
    pub(super) fn new(watched: Watched) -> Self {
        Self(Rc::new(RefCell::new(Rc::new(watched))))
    }

    pub(super) fn now(&self) -> Rc<Watched> {
        Rc::clone(&self.0.borrow())
    }

    /// That is what is watched from now on.
    pub(super) fn put(&self, watched: Watched) {
        self.0.replace(Rc::new(watched));
    }
}
