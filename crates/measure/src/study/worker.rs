//! The workload's own process: it is put into a bound of memory before it is told what to do, so that the bound holds the
//! workload and its page cache and nothing else of the study.
//!
//! The job comes as one line of JSON on standard input, the answer goes as JSON to standard output. The end of the input
//! is the end of the process: no workload outlives the study that asked for it.

use std::path::{Path, PathBuf};

use evenkeel_host::data_folder::DataFolder;
use evenkeel_host::interrupt::Interrupt;
use serde::{Deserialize, Serialize};

use super::answer::{Answer, answer};
use super::external;
use super::workload::engine::{self, Timing};
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
