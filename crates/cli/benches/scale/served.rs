//! One server process: made, loaded, killed, opened again, and what it took.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use evenkeel_host::service::status::Status;

use crate::load::{self, Done, Load, Operation, Place};
use crate::process::{Process, field, run};
use crate::{GIB, MIB, Outcome};

const EVENKEEL: &str = env!("CARGO_BIN_EXE_evenkeel");
const REQUEST_BYTES: usize = 4096;
/// Of a tick of the processor's clock in /proc.
const TICK_US: f64 = 10_000.0;

/// A point of a curve.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) size_bytes: u64,
    pub(crate) log_bytes: u64,
    /// More than one make a mirror, with two log devices.
    pub(crate) members: usize,
    /// Volumes of the process; all have clients.
    pub(crate) volumes: usize,
    /// Connections in all, and requests under way on each.
    pub(crate) connections: usize,
    pub(crate) depth: usize,
    pub(crate) place: Place,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            size_bytes: GIB,
            log_bytes: 256 * MIB,
            members: 1,
            volumes: 1,
            connections: 32,
            depth: 1,
            place: Place::Random,
        }
    }
}

/// What one of them came to.
#[derive(Debug)]
pub(crate) struct Point {
    make_s: f64,
    start_s: f64,
    idle_mib: f64,
    rate_per_s: f64,
    p99_s: f64,
    cpu_us: f64,
    peak_mib: f64,
    arena_mib: f64,
    recovery_s: f64,
}

impl Point {
    pub(crate) const HEAD: &str = "\
| | made, s | started, s | resident, MiB | writes a second | p99, ms | processor, us a write | at the most, MiB | of that arena | \
recovered, s |\n| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |";

    pub(crate) fn row(&self, name: &str) -> String {
        let Self { make_s, start_s, idle_mib, rate_per_s, p99_s, cpu_us, peak_mib, arena_mib, recovery_s } =
            self;
        format!(
            "| {name} | {make_s:.2} | {start_s:.3} | {idle_mib:.0} | {rate_per_s:.0} | {:.2} | {cpu_us:.0} | {peak_mib:.0} | \
             {arena_mib:.0} | {recovery_s:.3} |",
            p99_s * 1e3
        )
    }
}

impl Plan {
    /// Makes its volumes in a folder of their own within `parent`, and measures.
    pub(crate) fn measure(self, parent: &Path, seconds: f64, seed: u64) -> Outcome<Point> {
        let folder =
            tempfile::tempdir_in(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
        let began = Instant::now();
        let volumes: Vec<PathBuf> =
            (0..self.volumes).map(|number| folder.path().join(format!("volume-{number}"))).collect();
        volumes.iter().try_for_each(|volume| self.make(volume))?;
        let make_s = began.elapsed().as_secs_f64();
        let (mut server, start_s) = start(folder.path(), &volumes)?;
        let idle_mib = mib(&server, "VmRSS:");
        let counted = CountedTicks::default();
        let done = self.load(&volumes, seconds, seed, || counted.note(server.cpu_ticks()))?;
        let count = done.iter().map(|it| it.operations).sum::<u64>();
        let (peak_mib, arena_mib) = (mib(&server, "VmHWM:"), mib(&server, "RssShmem:"));
        server.kill()?;
        let (mut server, recovery_s) = start(folder.path(), &volumes)?;
        server.stop()?;
        let elapsed_s = done.iter().map(|it| it.elapsed_s).fold(0.0, f64::max);
        Ok(Point {
            make_s,
            start_s,
            idle_mib,
            rate_per_s: count as f64 / elapsed_s,
            p99_s: done.iter().map(|it| it.quantile_s(0.99)).fold(0.0, f64::max),
            cpu_us: counted.ticks() as f64 * TICK_US / count.max(1) as f64,
            peak_mib,
            arena_mib,
            recovery_s,
        })
    }

    fn make(self, volume: &Path) -> Outcome {
        let mut create = Command::new(EVENKEEL);
        create.arg("create").arg(volume);
        // Files of larger volumes take room as they are written, in the log as well.
        if self.size_bytes > GIB {
            create.arg("--sparse");
        }
        create.args(["--size", &self.size_bytes.to_string(), "--log-size", &self.log_bytes.to_string()]);
        if self.members > 1 {
            create.args(["--layout", "mirror"]);
            for number in 0..self.members {
                create.arg("--member").arg(volume.join(format!("member-{number}")));
            }
            for number in 0..2 {
                create.arg("--log").arg(volume.join(format!("log-{number}")));
            }
            fs::create_dir(volume).map_err(|error| format!("{}: {error}", volume.display()))?;
        }
        run(&mut create).map(drop)
    }

    /// All volumes at once, each by clients of its own.
    fn load(
        self,
        volumes: &[PathBuf],
        seconds: f64,
        seed: u64,
        counting: impl Fn() + Sync,
    ) -> Outcome<Vec<Done>> {
        let load = |number: usize| Load {
            operation: Operation::Fua,
            place: self.place,
            connections: (self.connections / self.volumes).max(1),
            depth: self.depth,
            request_bytes: REQUEST_BYTES,
            size_bytes: self.size_bytes,
            seconds,
            seed: seed + number as u64,
        };
        thread::scope(|scope| {
            let (load, counting) = (&load, &counting);
            let run = |number: usize, volume: &PathBuf| {
                let socket = volume.join("nbd.sock");
                scope.spawn(move || load::run(&socket, load(number), counting))
            };
            let threads: Vec<_> =
                volumes.iter().enumerate().map(|(number, volume)| run(number, volume)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or(Err("a thread panicked".to_owned())))
                .collect()
        })
    }
}

/// Ticks between the first and the last moment at which a client's counting began or ended.
#[derive(Debug, Default)]
struct CountedTicks {
    first_and_last: Mutex<Option<(u64, u64)>>,
}

impl CountedTicks {
    fn note(&self, ticks: u64) {
        let mut seen = self.first_and_last.lock().expect("nobody panics with it");
        let (first, last) = seen.unwrap_or((ticks, ticks));
        *seen = Some((first.min(ticks), last.max(ticks)));
    }

    fn ticks(&self) -> u64 {
        self.first_and_last.lock().expect("as above").map_or(0, |(first, last)| last - first)
    }
}

/// A server of one volume, or a daemon of several; and how long it took until all of them had recovered.
fn start(folder: &Path, volumes: &[PathBuf]) -> Outcome<(Process, f64)> {
    let mut command = Command::new(EVENKEEL);
    match volumes {
        [volume] => command.arg("serve").arg(volume).args(["--connections", "200"]),
        _ => {
            let descriptions = folder.join("descriptions");
            let described = fs::create_dir_all(&descriptions).and_then(|()| {
                volumes.iter().enumerate().try_for_each(|(number, volume)| {
                    let text = format!("volume = '{}'\n", volume.display());
                    fs::write(descriptions.join(format!("{number}.toml")), text)
                })
            });
            described.map_err(|error| format!("{}: {error}", descriptions.display()))?;
            command.arg("daemon").arg(descriptions)
        }
    };
    let began = Instant::now();
    // A socket takes connections before its volume has recovered; this answers behind that.
    let is_ready = || volumes.iter().all(|volume| Status::ask(volume).is_ok());
    let server = Process::start("server", &command, folder, is_ready)?;
    Ok((server, began.elapsed().as_secs_f64()))
}

/// A line of its /proc/PID/status that is in KiB.
fn mib(server: &Process, name: &str) -> f64 {
    field(&server.proc_file("status"), name) as f64 / 1024.0
}
