//! What a probe found: the document behind `probe.json`, and the only thing that the table, the CSV, the
//! HTML page and `compare` read.
//!
//! Times are seconds, sizes bytes, rates bytes per second; each field's name ends in its unit. A figure that
//! could not be had is `null`, never a guess.

use evenkeel_host::method::{FileState, Method};
use evenkeel_host::stack::Stack;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::like::Like;
use super::settings::Goals;

pub use crate::fit::{Model, PhaseRange, Phases};
pub use crate::stats::Summary;

/// The value of `schema` in every document of this shape.
pub const SCHEMA: &str = "evenkeel.probe/1";

/// One probe of one storage stack.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeReport {
    /// Always [`SCHEMA`].
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// The version of evenkeel that measured.
    pub evenkeel_version: String,
    /// When the probe began, in seconds since 1970-01-01 UTC.
    pub started_unix_s: u64,
    /// How long it took, wall clock.
    pub duration_s: f64,
    /// The seed of the shuffled order of runs and of the bytes written.
    pub seed: u64,
    /// The machine that measured, by its name in the network.
    #[serde(default)]
    pub host: Option<String>,
    /// The command as it was typed.
    #[serde(default)]
    pub command: Option<String>,
    /// What the buffer was to do.
    #[serde(default)]
    pub goals: Goals,
    /// What was measured.
    pub stack: Stack,
    /// How each write was made durable (a point that had to fall back says so itself).
    pub method: Method,
    /// The state of the file before each run.
    pub file_state: FileState,
    /// Concurrent writers, each with a file of its own.
    pub writers: u32,
    /// Runs asked for at each buffer size, in each session.
    pub runs: u32,
    /// How often everything was measured.
    #[serde(default = "once")]
    pub sessions: u32,
    /// Whether this was a quick look, with fewer runs and so wider intervals.
    pub quick: bool,
    /// One entry a buffer size, ascending.
    pub points: Vec<Point>,
    /// The line latency = l + x/B, where the runs show both parameters.
    pub model: Option<Model>,
    /// The phases of the latency curve, as far as the runs show them.
    pub phases: Option<Phases>,
    /// The buffer to use.
    pub recommendation: Option<Recommendation>,
    /// The recommendation in records, where a record size was given.
    pub batching: Option<Batching>,
    /// Every method against every file state, where that was asked for.
    pub matrix: Option<Matrix>,
    /// What the figures mean for a program, where its commits were measured.
    #[serde(default)]
    pub like: Option<Like>,
    /// What a reader must know before trusting the figures.
    pub warnings: Vec<Warning>,
}

fn once() -> u32 {
    1
}

/// The figures at one buffer size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Bytes handed to each synchronous write.
    pub buffer_bytes: u64,
    /// The method really used: differs from the report's where the file system could not do this size
    /// directly.
    pub method: Method,
    /// Synchronous writes timed at this point, over all counted runs and writers.
    pub writes: u64,
    /// Runs that count: each is one data point of the means and intervals.
    pub runs: u32,
    /// Runs marked as disturbed from outside that remain among `run_data` (they count only where no
    /// undisturbed run replaced them).
    pub disturbed_runs: u32,
    /// User bytes made durable per second, over runs.
    pub throughput_bytes_per_s: Summary,
    /// Synchronous writes per second: the mean throughput over the buffer.
    #[serde(default)]
    pub writes_per_s: f64,
    /// Latency of a synchronous write.
    pub latency_s: LatencySummary,
    /// Mean throughput over mean latency, in bytes per second squared: the paper's combined metric.
    pub ratio: f64,
    /// 95 % interval of `ratio` over runs; `null` for fewer than two runs.
    pub ratio_ci95: Option<[f64; 2]>,
    /// Writes that reached the block device per synchronous write; `null` where the device has no counters.
    pub device_writes_per_op: Option<f64>,
    /// Flush commands that reached the block device per synchronous write.
    pub device_flushes_per_op: Option<f64>,
    /// Bytes that reached the block device per user byte: write amplification.
    pub device_bytes_per_user_byte: Option<f64>,
    /// Every write of the runs that count: an upper bound of its latency in seconds, to two digits, and how many took so
    /// long. Ascending; empty in the matrix and in older documents.
    #[serde(default)]
    pub latency_histogram: Vec<(f64, u64)>,
    /// Every run, in the order measured.
    pub run_data: Vec<RunData>,
}

impl Point {
    /// Synchronous writes per second, also of a document that does not tell.
    pub fn writes_per_s(&self) -> f64 {
        self.throughput_bytes_per_s.mean / self.buffer_bytes as f64
    }
}

/// Latency: mean over runs, percentiles over single writes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencySummary {
    /// Mean over runs of each run's mean.
    pub mean: f64,
    /// Sample standard deviation over runs of each run's mean.
    pub sd: Option<f64>,
    /// 95 % interval of the mean over runs, by Student's t.
    pub ci95: Option<[f64; 2]>,
    /// Median over single writes; `null` below 20 writes.
    pub p50: Option<f64>,
    /// 99th percentile over single writes; `null` below 1,000 writes.
    pub p99: Option<f64>,
    /// 99.9th percentile over single writes; `null` below 10,000 writes.
    pub p999: Option<f64>,
    /// The slowest single write.
    pub max: f64,
}

/// One run at one buffer size: one data point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunData {
    /// Place in the shuffled order over the whole probe, from 0.
    pub order: u32,
    /// Seconds from the start of the probe to the start of this run.
    pub started_s: f64,
    /// Synchronous writes in this run.
    pub writes: u64,
    /// User bytes per second.
    pub throughput_bytes_per_s: f64,
    /// Mean latency of its writes.
    pub latency_s: f64,
    /// 99th percentile of its writes' latency; `null` below 100 writes.
    #[serde(default)]
    pub latency_p99_s: Option<f64>,
    /// Slowest write of this run.
    pub latency_max_s: f64,
    /// Which session it belongs to, from 0.
    #[serde(default)]
    pub session: u32,
    /// What disturbed it from outside, in words; `null` for a clean run.
    pub disturbance: Option<String>,
    /// Whether it repeats a run that was disturbed: such a run is in no round.
    #[serde(default)]
    pub repeat: bool,
    /// Whether it counts towards the point's figures.
    pub counted: bool,
}

/// The buffer to use, by which rule, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recommendation {
    /// The buffer to use; `null` where no measured size meets the goals.
    pub buffer_bytes: Option<u64>,
    /// Sizes that serve as well: tied by the statistics, or all that meet both goals. Ascending.
    pub also_bytes: Vec<u64>,
    /// Sizes of which the runs do not say enough: those that cannot be told from the best, beside the one chosen and
    /// `also_bytes`, or, with a goal, those that may meet it or miss it, the one chosen among them. Ascending.
    #[serde(default)]
    pub undecided_bytes: Vec<u64>,
    /// `best-ratio`, `min-throughput`, `max-latency`, `both` or `group-commit`.
    pub rule: Rule,
    /// One sentence for people.
    pub reason: String,
}

/// By which rule a buffer was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// The greatest throughput for each unit of latency.
    BestRatio,
    /// The smallest buffer that reaches a throughput.
    MinThroughput,
    /// The largest buffer that keeps a latency.
    MaxLatency,
    /// The smallest buffer that does both.
    Both,
    /// The smallest buffer with which group commit makes the records durable soonest.
    GroupCommit,
}

/// The recommended buffer in terms of the user's records.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Batching {
    /// Bytes in one record.
    pub record_bytes: u64,
    /// Whole records in one recommended buffer.
    pub records_per_batch: u64,
    /// Records arriving per second, where given.
    pub arrival_rate_per_s: Option<f64>,
    /// Seconds until a batch is full at that rate.
    pub fill_time_s: Option<f64>,
    /// Mean seconds a record waits for its batch to fill.
    pub mean_wait_s: Option<f64>,
    /// Mean seconds from a record's arrival to its being durable: waiting plus the write.
    pub mean_durable_s: Option<f64>,
    /// Share of the stack's throughput at this buffer that the records take; at 1 or more the queue grows
    /// without bound.
    pub utilisation: Option<f64>,
    /// Records that a group commit without a timer (what arrives during a write joins the next) would carry
    /// on average at that rate; `null` where the stack cannot keep up or no model was fitted.
    pub group_commit_records: Option<f64>,
    /// Mean seconds from a record's arrival to its being durable under group commit with this buffer; `null` where it
    /// cannot keep up.
    #[serde(default)]
    pub group_commit_durable_s: Option<f64>,
}

/// Every method against every file state, at the buffer sizes asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Matrix {
    /// One entry a combination that could be measured.
    pub cells: Vec<MatrixCell>,
    /// Combinations that could not, with the reason.
    pub skipped: Vec<MatrixSkip>,
    /// Which combination to use and what it saves, in words; one sentence a buffer size.
    pub advice: Vec<String>,
    /// The method and the file state of the advice against each other one.
    #[serde(default)]
    pub effects: Vec<MatrixEffect>,
}

/// What another method, or another file state, costs beside the one advised: the other factor is left as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixEffect {
    /// The other way.
    pub method: Method,
    /// Its file state.
    pub file_state: FileState,
    /// Its latency over that of the way advised, over all sizes and rounds.
    pub latency_ratio: f64,
    /// Its interval: 95 pages in 100 on which no way differs from another claim no difference at all.
    pub interval: Option<[f64; 2]>,
}

impl MatrixEffect {
    /// Whether the interval leaves out 1.
    pub fn is_shown(&self) -> bool {
        self.interval.is_some_and(|[low, high]| low > 1.0 || high < 1.0)
    }
}

/// One method over one file state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixCell {
    /// How each write was made durable.
    pub method: Method,
    /// The state of the file before each run.
    pub file_state: FileState,
    /// One entry a buffer size, ascending.
    pub points: Vec<Point>,
}

/// A combination that this stack cannot do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixSkip {
    /// The method.
    pub method: Method,
    /// The file state.
    pub file_state: FileState,
    /// Why, in words.
    pub reason: String,
}

/// Something a reader must know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// A stable name for programs.
    pub code: WarningCode,
    /// One sentence for people: what is so, and what to do about it.
    pub message: String,
}

/// What a warning is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WarningCode {
    /// More than half of the runs were disturbed from outside.
    MostlyDisturbed,
    /// The writes return faster than they could be durable.
    TooFastToBeTrue,
    /// The relative range over runs exceeds 10 %.
    VariesTooMuch,
    /// The file lives on a network file system.
    NetworkFileSystem,
    /// The device is a loop device: two file systems are measured, not one.
    LoopDevice,
    /// Some sizes were written through the page cache.
    FellBackToBuffered,
    /// Some sizes have fewer writes or runs than asked for, or none.
    CutShort,
    /// Measured and modelled optimum disagree.
    ModelDisagrees,
    /// Runs were disturbed from outside.
    Disturbed,
    /// There is little space left on the file system.
    NearlyFull,
}
