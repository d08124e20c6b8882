//! The same small write for hours: latency over time, and what the machine did when writes stalled.
//!
//! Writes are made in windows of about a second, each over a file of its own state as in the probe. Each window has its
//! figures, what the device moved and what processors did meanwhile.
//!
//! 1. A stall is a write that takes ten times the median of all writes, or more; the document counts all of them and keeps
//!    the first [`STALLS_KEPT`].
//! 2. The histogram holds every write, to three digits.
//! 3. Ended early by Ctrl-C or an error, what was measured until then is kept.
//! 4. Each window has as many writes as took about a second before: a slow one makes the next one smaller.
//! 5. No window is larger than the room that was looked for.

use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel_host::interrupt::Interrupt;
use evenkeel_host::method::{FileState, Method};
use evenkeel_host::stack::Stack;
use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::credits::{self, Fall};
use super::disturbance;
use super::session::Run;
use super::settings::{LARGEST_RUN_BYTES, Settings, WRITES_PER_RUN_MAX, short_run_writes};
use super::soak_window::Window;
use super::target::{RunOrder, Target, TargetError};
use super::{Observer, Progress, Stage};

/// The value of `schema` in every document of this shape.
pub const SCHEMA: &str = "evenkeel.soak/1";

/// Stalls that a document keeps, in the order in which they happened.
pub const STALLS_KEPT: usize = 10_000;

/// A write is a stall from this many times the median on, and a long one from that many on.
const STALL: f64 = 10.0;
const LONG_STALL: f64 = 100.0;

/// About how long a window is.
const WINDOW_S: f64 = 1.0;

/// Largest file that a window writes.
pub(super) const WINDOW_BYTES: u64 = LARGEST_RUN_BYTES / 4;

/// A slower write than an hour counts as one of an hour.
const LATENCY_MAX_NS: u64 = 3_600_000_000_000;

/// What hours of writes showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SoakReport {
    /// Always [`SCHEMA`].
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// The version of evenkeel that measured.
    pub evenkeel_version: String,
    /// The machine that measured, by its name in the network.
    pub host: Option<String>,
    /// The command as it was typed.
    pub command: Option<String>,
    /// When it began, in seconds since 1970-01-01 UTC.
    pub started_unix_s: u64,
    /// How long it took, wall clock.
    pub duration_s: f64,
    /// What was measured.
    pub stack: Stack,
    /// How each write was made durable.
    pub method: Method,
    /// The state of the file before each window.
    pub file_state: FileState,
    /// Concurrent writers, each with a file of its own.
    pub writers: u32,
    /// Bytes handed to each synchronous write.
    pub buffer_bytes: u64,
    /// Writes in all.
    pub writes: u64,
    /// Median latency of all writes.
    pub p50_s: f64,
    /// 99th percentile; `null` below 1,000 writes.
    pub p99_s: Option<f64>,
    /// 99.9th percentile; `null` below 10,000 writes.
    pub p999_s: Option<f64>,
    /// 99.99th percentile; `null` below 100,000 writes.
    pub p9999_s: Option<f64>,
    /// The slowest write.
    pub max_s: f64,
    /// Writes of at least 10 times the median.
    pub stalls_10x: u64,
    /// Writes of at least 100 times the median.
    pub stalls_100x: u64,
    /// What went wrong in the end; `null` where nothing did.
    #[serde(default)]
    pub failure: Option<String>,
    /// Throughput that fell and stayed low, as where credits for bursts run out; `null` where it did not.
    #[serde(default)]
    pub fall: Option<Fall>,
    /// Median throughput of the windows in each tenth of the time, in bytes per second.
    pub throughput_by_tenth_bytes_per_s: Vec<Option<f64>>,
    /// The first stalls.
    pub stalls: Vec<Stall>,
    /// Every window, in order.
    pub windows: Vec<Window>,
    /// Every write: its latency in seconds, to three digits, and how many took so long.
    pub histogram: Vec<(f64, u64)>,
}

/// A write that took long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stall {
    /// Seconds from the start to the start of the write; of several writers, by the first one's clock.
    pub started_s: f64,
    /// How long it took.
    pub latency_s: f64,
    /// That over the median of all writes.
    pub times_median: f64,
    /// What others did in its window, in words; `null` where nothing was seen.
    pub meanwhile: Option<String>,
}

/// Measures the first combination and size of `settings` for `time_s` seconds.
///
/// # Errors
///
/// Whatever stops the measuring before a single window; [`TargetError::Interrupted`] only then.
pub fn soak<T: Target>(
    settings: &Settings,
    target: &mut T,
    stack: Stack,
    time_s: f64,
    interrupt: &Interrupt,
    observer: &mut dyn Observer,
) -> Result<SoakReport, TargetError> {
    let started_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
    let (combination, buffer_bytes) = (settings.combinations[0], settings.buffer_sizes[0]);
    let writes_max = writes_max(settings);
    let mut writes = first_writes(settings, target)?;
    let mut prepared = 0;
    let (mut soak, mut failure) = (Soak::new(), None);
    let started_s = target.now_s();
    loop {
        let passed_s = target.now_s() - started_s;
        if passed_s >= time_s && !soak.runs.is_empty() {
            break;
        }
        if interrupt.is_asked() {
            if soak.runs.is_empty() {
                return Err(TargetError::Interrupted);
            }
            break;
        }
        let left_s = (time_s - passed_s).max(0.0);
        let (done, expected) = (passed_s as u32, time_s.ceil() as u32);
        observer.progress(Progress { stage: Stage::Soak, done, expected, left_s, buffer_bytes });
        // Seldom: in place, what is prepared is written.
        let ready = match writes > prepared {
            true => {
                prepared = (2 * writes).min(writes_max);
                target.prepare(&settings.combinations, buffer_bytes * prepared)
            }
            false => Ok(()),
        };
        match ready.and_then(|()| target.run(&RunOrder { combination, buffer_bytes, writes })) {
            Ok(observation) => {
                let next = writes_of(writes, observation.elapsed_s).clamp(writes / 2, 2 * writes);
                soak.take(passed_s, (buffer_bytes, writes), observation);
                writes = next.clamp(1, writes_max);
            }
            Err(error) if soak.runs.is_empty() => return Err(error),
            Err(TargetError::Interrupted) => break,
            Err(error) => {
                failure = Some(error.to_string());
                break;
            }
        }
    }
    Ok(soak.conclude(Measured {
        started_unix_s,
        duration_s: target.now_s() - started_s,
        stack,
        method: target.method_for(combination.method, buffer_bytes),
        file_state: combination.file_state,
        writers: settings.writers,
        buffer_bytes,
        failure,
    }))
}

/// What was measured, and when.
struct Measured {
    started_unix_s: u64,
    duration_s: f64,
    stack: Stack,
    method: Method,
    file_state: FileState,
    writers: u32,
    buffer_bytes: u64,
    failure: Option<String>,
}

/// Writes in a window, at most.
fn writes_max(settings: &Settings) -> u64 {
    let window_bytes = settings.window_max_bytes.unwrap_or(WINDOW_BYTES);
    (window_bytes / settings.buffer_sizes[0]).clamp(1, WRITES_PER_RUN_MAX)
}

/// Writes in a window, where so many took so long.
fn writes_of(writes: u64, elapsed_s: f64) -> u64 {
    (WINDOW_S / (elapsed_s / writes as f64).max(1e-7)) as u64
}

/// Writes in the first window, by a short look.
fn first_writes<T: Target>(settings: &Settings, target: &mut T) -> Result<u64, TargetError> {
    let (combination, buffer_bytes) = (settings.combinations[0], settings.buffer_sizes[0]);
    let writes = short_run_writes(buffer_bytes);
    target.prepare(&settings.combinations, buffer_bytes * writes)?;
    let seen = target.run(&RunOrder { combination, buffer_bytes, writes })?;
    Ok(writes_of(writes, seen.elapsed_s).clamp(1, writes_max(settings)))
}

/// What is remembered while it goes on.
struct Soak {
    histogram: Histogram<u64>,
    runs: Vec<Window>,
    /// Bytes that windows wrote to the device so far, ascending.
    written: Vec<u64>,
    /// Candidates: at least ten times the median at their time, as window, nanoseconds into it and latency.
    slow: Vec<(usize, u64, u64)>,
}

impl Soak {
    fn new() -> Self {
        let histogram =
            Histogram::new_with_max(LATENCY_MAX_NS, 3).expect("the histogram's bounds are constants");
        Self { histogram, runs: Vec::new(), written: Vec::new(), slow: Vec::new() }
    }

    /// Takes a window in which each writer made so many `writes`.
    fn take(
        &mut self,
        started_s: f64,
        (buffer_bytes, writes): (u64, u64),
        observation: super::target::Observation,
    ) {
        let mut own =
            Histogram::<u64>::new_with_max(LATENCY_MAX_NS, 3).expect("the histogram's bounds are constants");
        for &latency_ns in &observation.latencies_ns {
            own.saturating_record(latency_ns);
            self.histogram.saturating_record(latency_ns);
        }
        // The median may still fall, so candidates begin a little lower; the end decides.
        let slow_ns = (self.histogram.value_at_quantile(0.5) as f64 * STALL / 2.0) as u64;
        for of_writer in observation.latencies_ns.chunks(writes.max(1) as usize) {
            let mut passed_ns = 0;
            for &latency_ns in of_writer {
                if latency_ns >= slow_ns.max(1) && self.slow.len() < 4 * STALLS_KEPT {
                    self.slow.push((self.runs.len(), passed_ns, latency_ns));
                }
                passed_ns += latency_ns;
            }
        }
        let usual = self.written.get(self.written.len() / 2).map(|&bytes| bytes as f64);
        if let Some(device) = observation.device {
            let place = self.written.partition_point(|&bytes| bytes < device.written_bytes);
            self.written.insert(place, device.written_bytes);
        }
        let writes = observation.latencies_ns.len() as u64;
        let run = Run {
            order: 0,
            session: 0,
            started_s,
            user_bytes: buffer_bytes * writes,
            observation,
            disturbance: None,
            is_repeat: false,
        };
        let cpu = &run.observation.cpu;
        let share = |part_s: f64| if cpu.all_s > 0.0 { part_s / cpu.all_s } else { 0.0 };
        self.runs.push(Window {
            started_s,
            elapsed_s: run.observation.elapsed_s,
            writes,
            throughput_bytes_per_s: run.throughput_bytes_per_s(),
            p50_s: own.value_at_quantile(0.5) as f64 * 1e-9,
            p99_s: run.latency_p99_s(),
            max_s: own.max() as f64 * 1e-9,
            device_written_bytes: run.observation.device.map(|device| device.written_bytes),
            device_read_bytes: run.observation.device.map(|device| device.read_bytes),
            steal_share: share(cpu.steal_s),
            foreign_cpu_share: share(cpu.foreign_user_s()),
            disturbance: disturbance::judge(&run, usual),
        });
    }

    fn conclude(self, measured: Measured) -> SoakReport {
        let duration_s = measured.duration_s;
        let Self { histogram, runs, slow, .. } = self;
        let percentile = |share: f64| {
            let enough = histogram.len() as f64 * (1.0 - share) >= 10.0 - 1e-6;
            enough.then(|| histogram.value_at_quantile(share) as f64 * 1e-9)
        };
        let p50_s = histogram.value_at_quantile(0.5) as f64 * 1e-9;
        let from = |times: f64| {
            let least = p50_s * times;
            let counts = histogram.iter_recorded();
            counts
                .filter(|step| step.value_iterated_to() as f64 * 1e-9 >= least)
                .map(|step| step.count_at_value())
                .sum::<u64>()
        };
        let mut stalls: Vec<Stall> = slow
            .iter()
            .map(|&(window, passed_ns, latency_ns)| {
                let (window, latency_s) = (&runs[window], latency_ns as f64 * 1e-9);
                Stall {
                    started_s: window.started_s + passed_ns as f64 * 1e-9,
                    latency_s,
                    times_median: latency_s / p50_s.max(1e-9),
                    meanwhile: window.disturbance.clone(),
                }
            })
            .filter(|stall| stall.times_median >= STALL)
            .collect();
        stalls.sort_by(|one, other| one.started_s.total_cmp(&other.started_s));
        stalls.truncate(STALLS_KEPT);
        let tenth = |number: usize| {
            let ends = [number, number + 1].map(|end| duration_s * end as f64 / 10.0);
            let within = runs.iter().filter(|window| (ends[0]..ends[1]).contains(&window.started_s));
            crate::stats::median(&within.map(|window| window.throughput_bytes_per_s).collect::<Vec<_>>())
        };
        SoakReport {
            schema: SCHEMA.to_owned(),
            evenkeel_version: env!("CARGO_PKG_VERSION").to_owned(),
            host: None,
            command: None,
            started_unix_s: measured.started_unix_s,
            duration_s,
            stack: measured.stack,
            method: measured.method,
            file_state: measured.file_state,
            writers: measured.writers,
            buffer_bytes: measured.buffer_bytes,
            writes: histogram.len(),
            p50_s,
            p99_s: percentile(0.99),
            p999_s: percentile(0.999),
            p9999_s: percentile(0.9999),
            max_s: histogram.max() as f64 * 1e-9,
            stalls_10x: from(STALL),
            stalls_100x: from(LONG_STALL),
            failure: measured.failure,
            fall: credits::fall(&runs),
            throughput_by_tenth_bytes_per_s: (0..10).map(tenth).collect(),
            stalls,
            histogram: histogram
                .iter_recorded()
                .map(|step| (step.value_iterated_to() as f64 * 1e-9, step.count_at_value()))
                .collect(),
            windows: runs,
        }
    }
}

impl SoakReport {
    /// Every window as CSV with a header; a figure that could not be had is empty.
    ///
    /// # Errors
    ///
    /// None in practice: it writes to memory.
    pub fn windows_csv(&self) -> Result<String, csv::Error> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for window in &self.windows {
            writer.serialize(window)?;
        }
        let bytes = writer.into_inner().map_err(|error| error.into_error())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io;
    use std::path::Path;

    use super::*;
    use crate::probe::settings::Combination;
    use crate::probe::target::Observation;
    use crate::probe::tests::{Nobody, PLAIN, honest_disk};

    /// A disk of 1 ms a write whose credits end after ten minutes; one write in 5,000 takes 30 ms, one in 200,000 half a
    /// second, while others compute.
    struct Disk {
        now_s: f64,
        writes: u64,
        /// Bytes that were prepared, in all, and the most that a run wrote.
        prepared_bytes: Cell<u64>,
        longest_bytes: u64,
        /// When it fails.
        fails_s: f64,
        interrupt: Option<(f64, Interrupt)>,
    }

    impl Target for Disk {
        fn method_for(&self, method: Method, _: u64) -> Method {
            method
        }

        fn prepare(&mut self, _: &[Combination], bytes: u64) -> Result<(), TargetError> {
            self.prepared_bytes.set(self.prepared_bytes.get() + bytes);
            Ok(())
        }

        fn run(&mut self, order: &RunOrder) -> Result<Observation, TargetError> {
            let mut seen = Observation::default();
            if self.now_s > self.fails_s {
                return Err(TargetError::io("writing", Path::new("disk"), io::Error::other("it broke")));
            }
            self.longest_bytes = self.longest_bytes.max(order.writes * order.buffer_bytes);
            for _ in 0..order.writes {
                self.writes += 1;
                let long = self.writes.is_multiple_of(200_000);
                let usual_ns = if self.now_s > 600.0 { 3_000_000 } else { 1_000_000 };
                let latency_ns = match self.writes {
                    _ if long => 500_000_000,
                    number if number.is_multiple_of(5_000) => 31_000_000,
                    _ => usual_ns,
                };
                seen.cpu.user_s += if long { 0.6 } else { 0.0 };
                seen.latencies_ns.push(latency_ns);
            }
            seen.elapsed_s = seen.latencies_ns.iter().sum::<u64>() as f64 * 1e-9;
            seen.cpu.all_s = 2.0 * seen.elapsed_s;
            self.now_s += seen.elapsed_s;
            if let Some((at_s, interrupt)) = &self.interrupt
                && self.now_s > *at_s
            {
                interrupt.ask();
            }
            Ok(seen)
        }

        fn now_s(&self) -> f64 {
            self.now_s
        }

        fn wait_s(&mut self, seconds: f64) {
            self.now_s += seconds;
        }
    }

    fn disk() -> Disk {
        Disk {
            now_s: 0.0,
            writes: 0,
            prepared_bytes: Cell::new(0),
            longest_bytes: 0,
            fails_s: f64::INFINITY,
            interrupt: None,
        }
    }

    fn of(time_s: f64, stop_s: Option<f64>) -> SoakReport {
        let interrupt = Interrupt::default();
        let mut disk = Disk { interrupt: stop_s.map(|at_s| (at_s, interrupt.clone())), ..disk() };
        let settings = Settings { buffer_sizes: vec![4096], ..Settings::paper(PLAIN) };
        soak(&settings, &mut disk, honest_disk(), time_s, &interrupt, &mut Nobody).unwrap()
    }

    #[test]
    fn no_window_is_larger_than_the_room_and_little_is_written_that_nobody_asked_for() {
        let mut disk = disk();
        let room = Some(400 << 10);
        let settings =
            Settings { buffer_sizes: vec![4096], window_max_bytes: room, ..Settings::paper(PLAIN) };
        soak(&settings, &mut disk, honest_disk(), 300.0, &Interrupt::default(), &mut Nobody).unwrap();
        assert!(disk.longest_bytes <= 400 << 10, "{}", disk.longest_bytes);
        let prepared = disk.prepared_bytes.get();
        assert!(prepared <= 4 * (400 << 10), "{prepared} bytes for {} writes", disk.writes);
    }

    #[test]
    fn an_error_after_a_while_ends_it_with_what_was_measured() {
        let mut disk = Disk { fails_s: 100.0, ..disk() };
        let settings = Settings { buffer_sizes: vec![4096], ..Settings::paper(PLAIN) };
        let found = soak(&settings, &mut disk, honest_disk(), 3600.0, &Interrupt::default(), &mut Nobody);
        let found = found.unwrap();
        assert!(found.failure.is_some_and(|failure| failure.contains("it broke")));
        assert!(found.windows.len() > 80);
        let failed_at_once = soak(
            &settings,
            &mut Disk { fails_s: -1.0, ..disk },
            honest_disk(),
            3600.0,
            &Interrupt::default(),
            &mut Nobody,
        );
        assert!(failed_at_once.is_err());
    }

    #[test]
    fn stalls_are_counted_and_say_what_the_machine_did() {
        let found = of(600.0, None);
        assert!((found.p50_s - 1e-3).abs() < 1e-5);
        assert_eq!(found.writes, found.windows.iter().map(|window| window.writes).sum::<u64>());
        assert_eq!(found.writes, found.histogram.iter().map(|&(_, count)| count).sum::<u64>());
        assert_eq!(found.stalls_10x, found.writes / 5_000);
        assert_eq!(found.stalls_100x, found.writes / 200_000);
        assert_eq!(found.stalls.len() as u64, found.stalls_10x);
        let long: Vec<&Stall> = found.stalls.iter().filter(|stall| stall.times_median > 100.0).collect();
        assert!(!long.is_empty());
        for stall in long {
            assert!(stall.meanwhile.as_ref().is_some_and(|words| words.contains("other processes took")));
        }
        let windows = &found.windows;
        assert!(windows.iter().all(|window| (0.5..2.5).contains(&window.elapsed_s)));
        assert_eq!(found.windows_csv().unwrap().lines().count(), 1 + windows.len());
    }

    #[test]
    fn credits_that_run_out_are_told_of_with_their_time_and_levels() {
        let found = of(1200.0, None);
        let tenths: Vec<f64> = found.throughput_by_tenth_bytes_per_s.iter().flatten().copied().collect();
        assert_eq!(tenths.len(), 10);
        assert!(tenths[9] < 0.4 * tenths[0], "{tenths:?}");
        let fall = found.fall.unwrap();
        assert!((598.0..605.0).contains(&fall.started_s), "{fall:?}");
        let sentence = fall.sentence();
        assert!(sentence.starts_with("after 10 min "), "{sentence}");
        assert!(sentence.contains("fell from 4.1 MB/s to 1.37 MB/s"), "{sentence}");
        assert_eq!(of(550.0, None).fall, None);
    }

    #[test]
    fn what_was_measured_until_ctrl_c_is_kept() {
        let found = of(3600.0, Some(100.0));
        assert!((100.0..105.0).contains(&found.duration_s), "{}", found.duration_s);
        assert!(found.windows.len() > 80);
    }
}
