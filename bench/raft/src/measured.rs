//! What a run took, and how runs are compared.

use std::fs;
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_host::stack::StackProbe;

use crate::ENTRY_BYTES;

/// One run.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    pub streams: usize,
    pub discards: bool,
    pub time: Duration,
    /// No other run has the same: what was written before is not written again.
    pub part: usize,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Measured {
    pub appends_per_s: f64,
    pub p50_s: f64,
    pub p99_s: f64,
    pub max_s: f64,
    /// Of this process, for each append.
    pub processor_s: f64,
    /// That reached the device under the folder, from whomever, for each byte appended; `None` where there is no such
    /// device.
    pub device_bytes: Option<f64>,
    /// That the kernel put down to this process, for each byte appended. It leaves out the file system's journal.
    pub process_bytes: f64,
}

/// How long each append took.
pub type Times = Vec<Duration>;

/// What was written up to a moment.
#[derive(Debug, Clone, Copy)]
pub struct Written {
    device: Option<u64>,
    process: u64,
}

impl Written {
    /// Now, after everything that lies in caches was written.
    pub fn now(folder: &Path) -> Self {
        let file = fs::File::open(folder).expect("the folder is there");
        rustix::fs::syncfs(&file).expect("the file system syncs");
        let stack = StackProbe::of(folder).ok();
        let device = stack.and_then(|stack| stack.counters()).map(|counters| counters.written_bytes);
        let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
        let process = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok());
        Self { device, process: process.unwrap_or(0) }
    }
}

/// Time of a processor that this process has had, all threads together.
pub fn processor_time() -> Duration {
    let usage = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(usage.tv_sec as u64, usage.tv_nsec as u32)
}

/// Runs `streams` threads at the same time, until the time is over; each does one append after the other with what
/// `stream` makes of its number.
pub fn in_threads<S: FnMut(u64)>(
    run: &Run,
    stream: impl Fn(usize) -> S + Sync,
) -> (Times, Duration, Duration) {
    let barrier = Barrier::new(run.streams + 1);
    thread::scope(|scope| {
        let (barrier, stream) = (&barrier, &stream);
        let threads: Vec<_> = (0..run.streams)
            .map(|number| {
                scope.spawn(move || {
                    let mut append = stream(number);
                    let mut times = Times::with_capacity(1 << 16);
                    barrier.wait();
                    let end = Instant::now() + run.time;
                    let mut before = Instant::now();
                    for entry in 0.. {
                        append(entry);
                        let now = Instant::now();
                        times.push(now - before);
                        before = now;
                        if now >= end {
                            break;
                        }
                    }
                    times
                })
            })
            .collect();
        barrier.wait();
        let (began, processor) = (Instant::now(), processor_time());
        let times = threads.into_iter().flat_map(|thread| thread.join().expect("a stream")).collect();
        (times, began.elapsed(), processor_time() - processor)
    })
}

impl Measured {
    pub fn of(
        (mut times, took, processor): (Times, Duration, Duration),
        before: Written,
        after: Written,
    ) -> Self {
        times.sort_unstable();
        let count = times.len() as f64;
        let share = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64();
        let user_bytes = count * ENTRY_BYTES as f64;
        let device = after.device.zip(before.device).map(|(after, before)| after - before);
        Self {
            appends_per_s: count / took.as_secs_f64(),
            p50_s: share(50),
            p99_s: share(99),
            max_s: share(100),
            processor_s: processor.as_secs_f64() / count,
            device_bytes: device.map(|bytes| bytes as f64 / user_bytes),
            process_bytes: (after.process - before.process) as f64 / user_bytes,
        }
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Medians of the runs; against those of another store in the same rounds, the ratio in each.
pub fn row(runs: &[Measured], against: Option<&[Measured]>) -> String {
    let of = |value: fn(&Measured) -> f64| median(runs.iter().map(value));
    let device = match runs.iter().map(|run| run.device_bytes).collect::<Option<Vec<_>>>() {
        Some(bytes) => format!("{:.2}", median(bytes.into_iter())),
        None => "-".to_owned(),
    };
    let figures = format!(
        "{:>9.0} {:>8.3} {:>8.3} {:>8.2} {:>8.1} {device:>9} {:>9.2}",
        of(|run| run.appends_per_s),
        of(|run| run.p50_s) * 1e3,
        of(|run| run.p99_s) * 1e3,
        of(|run| run.max_s) * 1e3,
        of(|run| run.processor_s) * 1e6,
        of(|run| run.process_bytes),
    );
    let Some(against) = against else { return figures };
    let ratios = |value: fn(&Measured) -> f64| {
        let mut ratios: Vec<f64> =
            runs.iter().zip(against).map(|(run, peer)| value(run) / value(peer)).collect();
        ratios.sort_by(f64::total_cmp);
        (ratios[ratios.len() / 2], ratios[0], ratios[ratios.len() - 1])
    };
    let (rate, p99) = (ratios(|run| run.appends_per_s), ratios(|run| run.p99_s));
    format!(
        "{figures}   {:.2}x ({:.2}-{:.2}), {:.2}x ({:.2}-{:.2})",
        rate.0, rate.1, rate.2, p99.0, p99.1, p99.2
    )
}
