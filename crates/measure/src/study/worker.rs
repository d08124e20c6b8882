//! The workload's own process: it is put into a bound of memory before it is told what to do, so that the bound holds the
//! workload and its page cache and nothing else of the study.
//!
//! The job comes as one line of JSON on standard input, the answer goes as JSON to standard output. The end of the input
//! is the end of the process: no workload outlives the study that asked for it.

use std::path::{Path, PathBuf};

use evenkeel_host::data_folder::DataFolder;
use evenkeel_host::interrupt::Interrupt;
use hdrhistogram::serialization::{Serializer, V2Serializer};
use serde::{Deserialize, Serialize};

use super::external;
use super::workload::engine::{self, Timing};
use super::workload::operation::Operation;
use super::workload::recorder::Counts;
use super::workload::spec::FileWorkload;

/// What a worker is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Job {
    /// Make the data set in a folder that is there.
    MakeData {
        /// The folder.
        folder: PathBuf,
        /// The workload.
        files: FileWorkload,
        /// What the data set follows from.
        data_seed: u64,
    },
    /// Use it for a time.
    Files {
        /// The folder.
        folder: PathBuf,
        /// The workload.
        files: FileWorkload,
        /// What the data set follows from.
        data_seed: u64,
        /// What the threads do follows from this.
        run_seed: u64,
        /// Time of the run, in seconds.
        time_s: f64,
        /// Length of a window, in seconds.
        interval_s: f64,
    },
    /// Run fio with a job file.
    Fio {
        /// The folder for its files.
        folder: PathBuf,
        /// The job file's text.
        job: String,
        /// Time of the run, in seconds.
        time_s: f64,
        /// Length of a window, in seconds.
        interval_s: f64,
    },
    /// Run a command that prints operations per second.
    Command {
        /// Where it runs: the mounted file system.
        folder: PathBuf,
        /// The program and its arguments.
        words: Vec<String>,
        /// Time of the run, in seconds.
        time_s: f64,
    },
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Answer {
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// How long the run was, in seconds.
    pub duration_s: f64,
    /// Operations of all kinds.
    pub operations: u64,
    /// Operations per second.
    pub operations_per_s: f64,
    /// Length of a window, in seconds.
    pub interval_s: f64,
    /// Operations in each window.
    pub windows: Vec<u64>,
    /// Latencies by operation.
    pub latencies: Vec<Latency>,
    /// Bytes of the data set, where the job was to make it.
    pub data_bytes: u64,
}

/// Latencies of one kind of operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Its name.
    pub operation: String,
    /// How many there were.
    pub operations: u64,
    /// Mean in seconds.
    pub mean_s: f64,
    /// Median in seconds.
    pub p50_s: f64,
    /// 99th percentile in seconds.
    pub p99_s: f64,
    /// 99.9th percentile in seconds.
    pub p999_s: f64,
    /// The longest in seconds.
    pub max_s: f64,
    /// HdrHistogram V2, in nanoseconds.
    pub histogram: Vec<u8>,
}

/// Does a job; what fails is part of the answer.
pub fn work(job: &Job) -> Answer {
    let done = match job {
        Job::MakeData { folder, files, data_seed } => open(folder).and_then(|folder| {
            let data_bytes = engine::make(files, *data_seed, &folder).map_err(|error| error.to_string())?;
            Ok(Answer { data_bytes, ..Answer::default() })
        }),
        Job::Files { folder, files, data_seed, run_seed, time_s, interval_s } => {
            let timing = Timing { time_s: *time_s, interval_s: *interval_s };
            open(folder).and_then(|folder| {
                let counts = engine::run(files, *data_seed, *run_seed, timing, &folder);
                counts.map(|counts| answer(&counts, timing)).map_err(|error| error.to_string())
            })
        }
        Job::Fio { folder, job, time_s, interval_s } => external::fio(
            folder,
            job,
            Timing { time_s: *time_s, interval_s: *interval_s },
            &Interrupt::default(),
        ),
        Job::Command { folder, words, time_s } => {
            external::command(folder, words, *time_s, &Interrupt::default())
        }
    };
    done.unwrap_or_else(|failure| Answer { failure: Some(failure), ..Answer::default() })
}

fn open(folder: &Path) -> Result<DataFolder, String> {
    DataFolder::at(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

/// What was counted, as it is kept.
pub(super) fn answer(counts: &Counts, timing: Timing) -> Answer {
    let operations = counts.windows.iter().sum();
    Answer {
        duration_s: timing.time_s,
        operations,
        operations_per_s: operations as f64 / timing.time_s,
        interval_s: timing.interval_s,
        windows: counts.windows.clone(),
        latencies: latencies(counts),
        ..Answer::default()
    }
}

/// The latencies of each kind that there was.
pub(super) fn latencies(counts: &Counts) -> Vec<Latency> {
    let each = Operation::ALL.into_iter().filter_map(|operation| {
        let histogram = counts.latencies[operation as usize].as_ref()?;
        let operations = histogram.len();
        let max_ns = counts.longest_ns[operation as usize];
        let seconds = |ns: u64| ns.min(max_ns) as f64 * 1e-9;
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(histogram, &mut bytes)
            .expect("a histogram of known bounds can be written");
        Some(Latency {
            operation: operation.name().to_owned(),
            operations,
            mean_s: counts.sums_ns[operation as usize] as f64 / operations.max(1) as f64 * 1e-9,
            p50_s: seconds(histogram.value_at_quantile(0.5)),
            p99_s: seconds(histogram.value_at_quantile(0.99)),
            p999_s: seconds(histogram.value_at_quantile(0.999)),
            max_s: max_ns as f64 * 1e-9,
            histogram: bytes,
        })
    });
    each.collect()
}
