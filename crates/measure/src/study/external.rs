//! Workloads of others: fio's job files, and commands that print operations per second.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use evenkeel_host::interrupt::Interrupt;
use evenkeel_host::program::Program;
use serde::Deserialize;

use super::answer::{Answer, latencies};
use super::workload::engine::Timing;
use super::workload::operation::Operation;
use super::workload::recorder::Counts;

/// How much longer than its time a workload may take, in seconds: it may make its data first.
const PATIENCE_S: f64 = 3600.0;
/// More operations than this in a run are a number of something else.
const OPERATIONS_MAX: f64 = 1e15;
/// fio's files of ours, in the folder that it works in.
const JOB_FILE: &str = "evenkeel.fio";
const LOG_PREFIX: &str = "evenkeel";
const LOG_FILE: &str = "evenkeel_iops.log";

/// Runs a job file of fio within a folder, for a time.
///
/// # Errors
///
/// Why it failed, in one line.
pub fn fio(folder: &Path, job: &str, timing: Timing, interrupt: &Interrupt) -> Result<Answer, String> {
    let shown = |error: std::io::Error| format!("{}: {error}", folder.display());
    // In front, so that the job file can say otherwise.
    let global = format!(
        "[global]\ndirectory={}\nruntime={:.3}\ntime_based=1\nwrite_iops_log={}\nlog_avg_msec={}\nper_job_logs=0\n",
        folder.display(),
        timing.time_s,
        folder.join(LOG_PREFIX).display(),
        (timing.interval_s * 1e3).round().max(1.0)
    );
    let path = folder.join(JOB_FILE);
    fs::write(&path, global + job).map_err(shown)?;
    let words = ["fio".into(), "--output-format=json+".into(), path.into_os_string()];
    let said = Program::new(words, patience(timing.time_s))
        .in_folder(folder)
        .run(None, interrupt)
        .map_err(|error| error.to_string())?;
    let log = fs::read_to_string(folder.join(LOG_FILE)).unwrap_or_default();
    fio_answer(&said, &log, timing)
}

fn patience(time_s: f64) -> Duration {
    Duration::from_secs_f64(time_s + PATIENCE_S)
}

#[derive(Deserialize)]
struct FioOutput {
    jobs: Vec<FioJob>,
}

#[derive(Deserialize)]
struct FioJob {
    #[serde(default)]
    error: i64,
    read: FioDirection,
    write: FioDirection,
    #[serde(default)]
    trim: Option<FioDirection>,
    #[serde(default)]
    sync: Option<FioDirection>,
}

#[derive(Deserialize)]
struct FioDirection {
    #[serde(default)]
    total_ios: u64,
    #[serde(default)]
    runtime: u64,
    #[serde(default)]
    lat_ns: Option<FioTimes>,
    #[serde(default)]
    clat_ns: Option<FioTimes>,
}

#[derive(Deserialize)]
struct FioTimes {
    #[serde(default)]
    mean: f64,
    #[serde(default)]
    max: u64,
    #[serde(default)]
    bins: BTreeMap<String, u64>,
}

/// What fio's JSON and its log of operations say.
fn fio_answer(said: &[u8], log: &str, timing: Timing) -> Result<Answer, String> {
    // Notes of fio may stand before the document.
    let from = said.iter().position(|&byte| byte == b'{').unwrap_or(0);
    let output: FioOutput = serde_json::from_slice(&said[from..])
        .map_err(|error| format!("fio's answer cannot be read: {error}"))?;
    let mut counts = Counts::new(timing.windows());
    let mut runtime_ms = 0;
    for job in &output.jobs {
        if job.error != 0 {
            return Err(format!("fio ended with error {}", job.error));
        }
        // A trim is a discard of data, as close to a deletion as a block gets.
        let directions = [
            (Operation::Read, Some(&job.read)),
            (Operation::Write, Some(&job.write)),
            (Operation::Delete, job.trim.as_ref()),
            (Operation::Fsync, job.sync.as_ref()),
        ];
        for (operation, direction) in directions {
            let Some(direction) = direction else { continue };
            if direction.total_ios == 0 {
                continue;
            }
            runtime_ms = runtime_ms.max(direction.runtime);
            let times = [&direction.clat_ns, &direction.lat_ns].into_iter().flatten();
            if let Some(times) = times.into_iter().find(|times| !times.bins.is_empty()) {
                add(&mut counts, operation, times);
            }
        }
    }
    fill_windows(&mut counts.windows, log, timing.interval_s);
    let operations: u64 = output
        .jobs
        .iter()
        .map(|job| {
            job.read.total_ios + job.write.total_ios + job.trim.as_ref().map_or(0, |trim| trim.total_ios)
        })
        .sum();
    let duration_s = if runtime_ms > 0 { runtime_ms as f64 * 1e-3 } else { timing.time_s };
    Ok(Answer {
        duration_s,
        operations,
        operations_per_s: operations as f64 / duration_s,
        interval_s: timing.interval_s,
        latencies: latencies(&counts),
        windows: counts.windows,
        ..Answer::default()
    })
}

fn add(counts: &mut Counts, operation: Operation, times: &FioTimes) {
    let kind = operation as usize;
    let histogram = counts.latencies[kind].get_or_insert_with(super::workload::recorder::histogram);
    let mut all = 0;
    for (ns, count) in &times.bins {
        if let Ok(ns) = ns.parse::<u64>() {
            histogram.saturating_record_n(ns.max(1), *count);
            all += count;
        }
    }
    counts.sums_ns[kind] += (times.mean * all as f64) as u128;
    counts.longest_ns[kind] = counts.longest_ns[kind].max(times.max);
}

/// Lines of `milliseconds, operations per second, direction, ...`, the mean of the interval that ends there.
fn fill_windows(windows: &mut [u64], log: &str, interval_s: f64) {
    for line in log.lines() {
        let mut fields = line.split(',').map(str::trim);
        let (Some(at_ms), Some(rate)) = (fields.next(), fields.next()) else { continue };
        let (Ok(at_ms), Ok(rate)) = (at_ms.parse::<f64>(), rate.parse::<f64>()) else { continue };
        // The moment written is the end of the interval, more or less.
        let window = (at_ms * 1e-3 / interval_s - 0.5).floor().max(0.0) as usize;
        if let Some(window) = windows.get_mut(window) {
            *window += (rate * interval_s).round() as u64;
        }
    }
}

/// Runs a command within a folder; the last number that it prints is its operations per second.
///
/// # Errors
///
/// Why it failed, in one line.
pub fn command(
    folder: &Path,
    words: &[String],
    time_s: f64,
    interrupt: &Interrupt,
) -> Result<Answer, String> {
    let started = Instant::now();
    let said = Program::new(words, patience(time_s))
        .in_folder(folder)
        .with_variable("EVENKEEL_FOLDER", folder)
        .with_variable("EVENKEEL_TIME_S", format!("{time_s}"))
        .run(None, interrupt)
        .map_err(|error| error.to_string())?;
    let duration_s = started.elapsed().as_secs_f64();
    let rate = last_number(&String::from_utf8_lossy(&said)).ok_or_else(|| {
        format!("{} printed no number: its last one is its operations per second", words[0])
    })?;
    if rate * duration_s > OPERATIONS_MAX {
        return Err(format!("{} printed {rate:e} operations per second, which cannot be", words[0]));
    }
    let operations = (rate * duration_s).round() as u64;
    Ok(Answer {
        duration_s,
        operations,
        operations_per_s: rate,
        interval_s: duration_s,
        windows: vec![operations],
        ..Answer::default()
    })
}

fn last_number(text: &str) -> Option<f64> {
    let words = text.split_whitespace().rev();
    let number = |word: &str| {
        let plain = word.trim_matches(|c: char| !c.is_ascii_digit() && c != '.');
        plain.parse::<f64>().ok().filter(|rate| rate.is_finite())
    };
    words.filter_map(number).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fio_s_answer_becomes_operations_windows_and_latencies() {
        let said = br#"fio: note
            {"jobs": [{"error": 0,
              "read": {"total_ios": 0, "runtime": 0},
              "write": {"total_ios": 300, "runtime": 2000, "clat_ns":
                {"mean": 2000.0, "max": 9000, "bins": {"1000": 200, "4000": 100}}},
              "sync": {"total_ios": 0}}]}"#;
        let log = "1000, 100, 1, 4096, 0\n2000, 200, 1, 4096, 0\n";
        let answer = fio_answer(said, log, Timing { time_s: 2.0, interval_s: 1.0 }).unwrap();
        assert_eq!((answer.operations, answer.duration_s, answer.operations_per_s), (300, 2.0, 150.0));
        assert_eq!(answer.windows, [100, 200]);
        let [write] = &answer.latencies[..] else { panic!("{answer:?}") };
        assert_eq!((write.operation.as_str(), write.operations), ("write", 300));
        assert!((write.mean_s - 2e-6).abs() < 1e-9 && write.max_s == 9e-6, "{write:?}");
        assert!(fio_answer(b"fio: bad job", "", Timing { time_s: 1.0, interval_s: 1.0 }).is_err());
    }

    #[test]
    fn the_last_number_that_a_command_prints_counts() {
        assert_eq!(last_number("warming up 1\n12345.5 ops/s\n"), Some(12345.5));
        assert_eq!(last_number("rate: 17, done.\n"), Some(17.0));
        assert_eq!(last_number("nothing\n"), None);
        let folder = tempfile::tempdir().unwrap();
        let run = |script: &str| {
            let words = ["sh", "-c", script].map(str::to_owned);
            command(folder.path(), &words, 1.0, &Interrupt::default())
        };
        let answer = run("touch here; echo $EVENKEEL_TIME_S; echo 250 operations per second").unwrap();
        assert_eq!((answer.operations_per_s, answer.windows.len()), (250.0, 1));
        assert!(folder.path().join("here").exists());
        assert!(run("echo none").unwrap_err().contains("no number"));
        assert!(run("echo 1e300").unwrap_err().contains("cannot be"));
        assert!(run("exit 3").unwrap_err().contains("failed"));
    }
}
