//! What a replay found: the document behind `--json`, and the only thing that the text on the terminal reads.
//!
//! Times are seconds, sizes bytes, rates bytes per second; each field's name ends in its unit. A figure that could not
//! be had is `null`, never a guess.

use schemars::JsonSchema;
use serde::Serialize;

use super::statistics::{Kind, Times, Window};
use super::{Ending, Measured, Pace, Settings, Writes};
use evenkeel_trace::Format;
use evenkeel_trace::placement::Fit;
use evenkeel_trace::survey::Survey;

/// The value of `schema` in every document of this shape.
pub const SCHEMA: &str = "evenkeel.replay/1";

/// One replay of one trace.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ReplayReport {
    /// Always [`SCHEMA`].
    #[schemars(extend("const" = SCHEMA))]
    pub schema: &'static str,
    /// The version of evenkeel that replayed.
    pub evenkeel_version: &'static str,
    /// When it began, in seconds since 1970-01-01 UTC.
    pub started_unix_s: u64,
    /// What was replayed.
    pub trace: TraceFacts,
    /// What it was replayed onto.
    pub target: TargetFacts,
    /// How.
    pub settings: SettingFacts,
    /// `complete`, `interrupted`, `time-up` or `failed`.
    pub ending: &'static str,
    /// What failed, in one line.
    pub failure: Option<String>,
    /// From when the first request was due to the end of the last.
    pub elapsed_s: f64,
    /// Requests that were sent.
    pub sent: u64,
    /// Requests that the target failed.
    pub failed: u64,
    /// Requests that were moved to fit onto the target.
    pub moved: u64,
    /// Requests that were made larger to be whole granules of the target.
    pub widened: u64,
    /// Requests that took the time of the one before them: the trace had them too far out of order.
    pub retimed: u64,
    /// Requests that waited because too many others were under way.
    pub held_back: u64,
    /// Most requests that were under way at once.
    pub under_way_peak: u64,
    /// Reads.
    pub reads: KindFacts,
    /// Writes.
    pub writes: KindFacts,
    /// Flushes that the trace holds; a durable write is none.
    pub flushes: KindFacts,
    /// How late requests were sent, whatever the reason; all `null` where none was due at a moment.
    pub lateness_s: TimeFacts,
    /// Throughput over time.
    pub windows: WindowFacts,
}

/// The trace, as far as it was to be replayed.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TraceFacts {
    /// The file.
    pub path: String,
    /// How it is written.
    pub format: Format,
    /// Devices that were replayed, in the order in which they lie on the target.
    pub devices: Vec<String>,
    /// Devices that were left out.
    pub devices_left_out: u64,
    /// Requests.
    pub requests: u64,
    /// Of them, reads.
    pub reads: u64,
    /// Of them, writes.
    pub writes: u64,
    /// Of them, flushes.
    pub flushes: u64,
    /// Bytes of all reads.
    pub read_bytes: u64,
    /// Bytes of all writes.
    pub written_bytes: u64,
    /// Bytes that the devices take, one behind the other.
    pub reach_bytes: u64,
    /// From the first request to the last.
    pub duration_s: f64,
    /// Lines or records that move no bytes.
    pub skipped: u64,
}

/// The target.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TargetFacts {
    /// `volume`, `nbd`, `file`, `new file`, `block device`, or `model` for a simulated drive in virtual time.
    pub kind: &'static str,
    /// Where it is.
    pub place: String,
    /// Bytes that it has.
    pub size_bytes: u64,
    /// Offsets and lengths are multiples of this.
    pub granule_bytes: u32,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SettingFacts {
    /// Times as fast as recorded; `null` for as fast as possible.
    pub speed: Option<f64>,
    /// Requests under way at once, where that was what paced it.
    pub depth: Option<u64>,
    /// What became of requests beyond the target's end.
    pub fit: Fit,
    /// When writes were acknowledged.
    pub writes: Writes,
    /// Of the bytes written.
    pub seed: u64,
    /// The time it was given.
    pub time_s: Option<f64>,
}

/// Times in seconds. A percentile is `null` without 10 samples beyond it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct TimeFacts {
    /// Their mean.
    pub mean: Option<f64>,
    /// The median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
    /// 99.99th percentile.
    pub p9999: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
}

impl From<&Times> for TimeFacts {
    fn from(times: &Times) -> Self {
        Self {
            mean: times.mean_s(),
            p50: times.percentile_s(0.5),
            p90: times.percentile_s(0.9),
            p99: times.percentile_s(0.99),
            p999: times.percentile_s(0.999),
            p9999: times.percentile_s(0.9999),
            max: times.max_s(),
        }
    }
}

/// Requests of one kind that were carried out.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct KindFacts {
    /// How many.
    pub requests: u64,
    /// Their bytes, as the trace has them.
    pub bytes: u64,
    /// Their bytes, as they were sent.
    pub sent_bytes: u64,
    /// Of the trace's bytes, over the whole replay.
    pub throughput_bytes_per_s: Option<f64>,
    /// From when each was due (sent, where none was due) to its end.
    pub latency_s: TimeFacts,
    /// From when each was sent to its end: what a closed loop would call latency.
    pub service_s: TimeFacts,
}

impl KindFacts {
    fn of(kind: &Kind, elapsed_s: f64) -> Self {
        Self {
            requests: kind.requests,
            bytes: kind.bytes,
            sent_bytes: kind.sent_bytes,
            throughput_bytes_per_s: (elapsed_s > 0.0).then(|| kind.bytes as f64 / elapsed_s),
            latency_s: (&kind.latency).into(),
            service_s: (&kind.service).into(),
        }
    }
}

/// Windows of one length; a request counts where it ended.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WindowFacts {
    /// The length of each; the last is as long as the replay lasted.
    pub length_s: f64,
    /// All of them, from the start on.
    pub list: Vec<WindowFact>,
}

/// One window.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WindowFact {
    /// Since the start of the replay.
    pub start_s: f64,
    /// Reads that ended in it.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes read, per second.
    pub read_bytes_per_s: f64,
    /// Bytes written, per second.
    pub written_bytes_per_s: f64,
    /// Mean latency of reads and writes.
    pub latency_mean_s: Option<f64>,
    /// The longest.
    pub latency_max_s: Option<f64>,
}

impl WindowFact {
    fn of(window: &Window, start_s: f64, length_s: f64) -> Self {
        let requests = window.reads + window.writes;
        let any = requests > 0;
        Self {
            start_s,
            reads: window.reads,
            writes: window.writes,
            read_bytes_per_s: window.read_bytes as f64 / length_s,
            written_bytes_per_s: window.written_bytes as f64 / length_s,
            latency_mean_s: any.then(|| window.latency_sum_ns as f64 / requests as f64 * 1e-9),
            latency_max_s: any.then_some(window.latency_max_ns as f64 * 1e-9),
        }
    }
}

impl TraceFacts {
    /// The devices of `survey` that `is_replayed` chooses by their place; the trace is the file at `path`.
    pub fn new(path: String, survey: &Survey, is_replayed: impl Fn(usize) -> bool, reach_bytes: u64) -> Self {
        let chosen: Vec<_> = survey
            .devices
            .iter()
            .enumerate()
            .filter(|(at, _)| is_replayed(*at))
            .map(|(_, device)| device)
            .collect();
        let first_ns = chosen.iter().map(|device| device.first_ns).min().unwrap_or(0);
        let last_ns = chosen.iter().map(|device| device.last_ns).max().unwrap_or(0);
        Self {
            path,
            format: survey.format,
            devices: chosen.iter().map(|device| device.name.clone()).collect(),
            devices_left_out: (survey.devices.len() - chosen.len()) as u64,
            requests: chosen.iter().map(|device| device.requests()).sum(),
            reads: chosen.iter().map(|device| device.reads).sum(),
            writes: chosen.iter().map(|device| device.writes).sum(),
            flushes: chosen.iter().map(|device| device.flushes).sum(),
            read_bytes: chosen.iter().map(|device| device.read_bytes).fold(0, u64::saturating_add),
            written_bytes: chosen.iter().map(|device| device.written_bytes).fold(0, u64::saturating_add),
            reach_bytes,
            duration_s: (last_ns - first_ns) as f64 * 1e-9,
            skipped: survey.skipped,
        }
    }
}

impl ReplayReport {
    /// The document of what was measured.
    pub fn new(
        started_unix_s: u64,
        trace: TraceFacts,
        target: TargetFacts,
        fit: Fit,
        settings: &Settings,
        measured: &Measured,
        retimed: u64,
    ) -> Self {
        let (ending, failure) = match &measured.ending {
            Ending::Complete => ("complete", None),
            Ending::Interrupted => ("interrupted", None),
            Ending::TimeUp => ("time-up", None),
            Ending::Failed(why) => ("failed", Some(why.clone())),
        };
        let (speed, depth) = match settings.pace {
            Pace::Recorded { speed } => (Some(speed), None),
            Pace::Max { depth } => (None, Some(depth as u64)),
        };
        let elapsed_s = measured.elapsed_ns as f64 * 1e-9;
        let length_s = measured.windows.length_ns() as f64 * 1e-9;
        let windows = measured.windows.list().iter().enumerate().map(|(at, window)| {
            let start_s = at as f64 * length_s;
            // The last one is over when the replay is.
            WindowFact::of(window, start_s, length_s.min(elapsed_s - start_s).max(1e-9))
        });
        Self {
            schema: SCHEMA,
            evenkeel_version: env!("CARGO_PKG_VERSION"),
            started_unix_s,
            trace,
            target,
            settings: SettingFacts {
                speed,
                depth,
                fit,
                writes: settings.writes,
                seed: settings.seed,
                time_s: settings.time_max_ns.map(|time_ns| time_ns as f64 * 1e-9),
            },
            ending,
            failure,
            elapsed_s,
            sent: measured.sent,
            failed: measured.failed,
            moved: measured.moved,
            widened: measured.widened,
            retimed,
            held_back: measured.held_back,
            under_way_peak: measured.under_way_peak as u64,
            reads: KindFacts::of(&measured.reads, elapsed_s),
            writes: KindFacts::of(&measured.writes, elapsed_s),
            flushes: KindFacts::of(&measured.flushes, elapsed_s),
            lateness_s: (&measured.lateness).into(),
            windows: WindowFacts { length_s, list: windows.collect() },
        }
    }
}
