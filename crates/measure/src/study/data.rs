//! A study as it is analysed: what was planned, and what came of each run. Times are seconds, sizes bytes, rates
//! operations per second.

use crate::stats::Steps;

/// A whole study.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Study {
    /// Its name, from its plan.
    pub name: String,
    /// The seed of its order.
    pub seed: i64,
    /// How long a window of throughput is.
    pub interval_s: f64,
    /// When it was begun.
    pub created_at: String,
    /// The version of evenkeel that began it.
    pub evenkeel_version: String,
    /// The machines that ran it.
    pub machines: Vec<Machine>,
    /// What was run.
    pub configurations: Vec<Configuration>,
    /// Every run, in the order of execution.
    pub runs: Vec<Run>,
}

/// A machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Its kernel.
    pub kernel: String,
    /// Its processors.
    pub cpus: i64,
    /// Its memory.
    pub memory_bytes: i64,
}

/// A configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Configuration {
    /// Its values, in short.
    pub label: String,
    /// Factor and value; factors that its file system does not have are absent.
    pub settings: Vec<(String, String)>,
}

impl Configuration {
    /// The value of a factor, if this has it.
    pub fn setting(&self, factor: &str) -> Option<&str> {
        self.settings.iter().find(|(name, _)| name == factor).map(|(_, value)| value.as_str())
    }
}

/// What became of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing yet.
    #[default]
    Planned,
    /// It is under way.
    Running,
    /// It has figures.
    Done,
    /// Its configuration cannot be run.
    Skipped,
    /// It broke off.
    Failed,
}

/// One run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    /// Place of its configuration.
    pub configuration: usize,
    /// What was run.
    pub workload: String,
    /// Which of the repeats.
    pub repeat: i64,
    /// Its place in the order of execution.
    pub place: i64,
    /// What became of it.
    pub state: State,
    /// Place of the machine that ran it.
    pub machine: Option<usize>,
    /// When it began.
    pub started_at: Option<String>,
    /// How long it ran.
    pub duration_s: Option<f64>,
    /// Cumulative throughput, from beginning to end.
    pub operations_per_s: Option<f64>,
    /// Why it was skipped or failed, or what else is to be known.
    pub message: Option<String>,
    /// What the machine was like.
    pub conditions: Vec<(String, f64)>,
    /// Throughput over time, in order.
    pub windows: Vec<Window>,
    /// Latencies by operation.
    pub latencies: Vec<Latency>,
    /// Where the data set lay.
    pub extents: Vec<Extent>,
}

impl Run {
    /// Its cumulative throughput, if it is done and that can be told.
    pub fn throughput(&self) -> Option<f64> {
        self.operations_per_s.filter(|_| self.state == State::Done)
    }
}

/// What was done in a stretch of time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Window {
    /// Its begin, from the begin of the run.
    pub start_s: f64,
    /// Its length.
    pub length_s: f64,
    /// Operations that ended in it.
    pub operations: u64,
}

/// How long operations of a kind took.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Latency {
    /// Which.
    pub operation: String,
    /// How many there were.
    pub operations: u64,
    /// Their mean.
    pub mean_s: f64,
    /// The share of operations no longer than a time, in seconds.
    pub steps: Steps,
}

/// A stretch of the device that holds data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins.
    pub physical_bytes: u64,
    /// Its length.
    pub length_bytes: u64,
}
