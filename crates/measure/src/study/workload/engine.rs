//! Makes a data set and lets threads use it for a time.
//!
//! 1. The data set follows from its seed, and what each thread does from the run's: which of two threads comes first is
//!    the only chance there is.
//! 2. Nothing waits for what may never come: a thread that finds no file to work on ends the run with an error. A
//!    [`FileWorkload`] that passed its check has always one.
//! 3. Only operations that ended within the time count; the time of one is that of its system calls.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::files::Files;
use super::operation::Step;
use super::payload::{Payload, UNIT_BYTES_MAX};
use super::pool::Pool;
use super::recorder::{Counts, Recorder};
use super::spec::FileWorkload;
use super::tree::{self, Tree};

/// The log that webserver's threads share.
const LOG: &str = "log";
/// Threads are many and need little.
const STACK_BYTES: usize = 256 << 10;
/// Recorders there are at most.
const RECORDERS_MAX: usize = 8;

/// How long a run takes and how finely it is recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// Time of the run, in seconds.
    pub time_s: f64,
    /// Length of a window, in seconds.
    pub interval_s: f64,
}

impl Timing {
    /// How many windows there are; the last may be shorter.
    pub fn windows(&self) -> usize {
        // A time that is a multiple of the interval but for rounding has no window of a rounding error.
        ((self.time_s / self.interval_s - 1e-9).ceil() as usize).max(1)
    }
}

/// What could not be done, with what, and why.
#[derive(Debug, thiserror::Error)]
#[error("{doing} {name}: {source}")]
pub struct WorkloadError {
    /// The operation.
    doing: &'static str,
    /// The file.
    name: String,
    /// The cause.
    source: io::Error,
}

fn about(doing: &'static str, name: &str) -> impl FnOnce(io::Error) -> WorkloadError {
    move |source| WorkloadError { doing, name: name.to_owned(), source }
}

/// Makes the data set: folders, and the files that are there when a run begins. Answers the bytes written.
///
/// # Errors
///
/// The first operation that failed.
pub fn make<F: Files>(spec: &FileWorkload, seed: u64, files: &F) -> Result<u64, WorkloadError> {
    let tree = Tree::new(spec, seed);
    let payload = Payload::new(seed, spec.compressible);
    let mut random = StdRng::seed_from_u64(seed);
    for folder in tree.folders() {
        files.make_folder(folder).map_err(about("make folder", folder))?;
    }
    let (mut name, mut written) = (String::new(), 0);
    for file in (0..tree.len()).filter(|&file| tree.is_preallocated(file)) {
        tree.name(file, &mut name);
        let open = files.create(&name).map_err(about("create", &name))?;
        let size_bytes = tree.size_bytes(file);
        fill(files, &open, &payload, &mut random, size_bytes).map_err(about("write", &name))?;
        files.close(open).map_err(about("close", &name))?;
        written += size_bytes;
    }
    if spec.personality.steps().contains(&Step::AppendToLog) {
        let log = files.create(LOG).map_err(about("create", LOG))?;
        files.close(log).map_err(about("close", LOG))?;
    }
    Ok(written)
}

fn fill<F: Files>(
    files: &F,
    open: &F::File,
    payload: &Payload,
    random: &mut StdRng,
    bytes: u64,
) -> io::Result<()> {
    let mut left = bytes;
    while left > 0 {
        let unit = left.min(UNIT_BYTES_MAX as u64);
        files.append(open, payload.cut(random.next_u64(), unit as usize))?;
        left -= unit;
    }
    Ok(())
}

/// What all threads of a run share.
struct Shared<'a, F: Files> {
    spec: &'a FileWorkload,
    files: &'a F,
    tree: Tree,
    pool: Pool,
    payload: Payload,
    log: Option<Log<F::File>>,
    recorders: Vec<Recorder>,
    is_over: AtomicBool,
    time_ns: u64,
}

/// The log: emptied when it has grown to its bound, or it would fill the device.
struct Log<File> {
    file: File,
    bytes: AtomicU64,
    bytes_max: u64,
}

/// Lets the threads work on a data set that [`make`] made with the same `data_seed`.
///
/// # Errors
///
/// The first operation that failed; it ends the run.
pub fn run<F: Files>(
    spec: &FileWorkload,
    data_seed: u64,
    run_seed: u64,
    timing: Timing,
    files: &F,
) -> Result<Counts, WorkloadError> {
    let tree = Tree::new(spec, data_seed);
    let log = match spec.personality.steps().contains(&Step::AppendToLog) {
        false => None,
        true => Some(Log {
            file: files.open(LOG, true).map_err(about("open", LOG))?,
            bytes: AtomicU64::new(0),
            bytes_max: (spec.data_bytes() / 8).max(1 << 20),
        }),
    };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let recorder = || Recorder::new((timing.interval_s * 1e9) as u64, timing.windows());
    let shared = Shared {
        spec,
        files,
        pool: Pool::new(&tree),
        tree,
        payload: Payload::new(run_seed, spec.compressible),
        log,
        recorders: (0..processors.min(RECORDERS_MAX)).map(|_| recorder()).collect(),
        is_over: AtomicBool::new(false),
        time_ns: (timing.time_s * 1e9) as u64,
    };
    // Threads wait to read when they shall have begun, which is written once all of them are there.
    let gate = RwLock::new(Instant::now());
    let outcome = thread::scope(|scope| {
        let mut start = gate.write().unwrap_or_else(PoisonError::into_inner);
        let (shared, gate) = (&shared, &gate);
        let mut threads = Vec::new();
        let mut unstarted = Ok(());
        for number in 0..spec.threads {
            let work = move || {
                let seed = tree::seed_of(run_seed, &["thread", &number.to_string()]);
                let mut worker = Worker::new(shared, number, seed);
                let start = *gate.read().unwrap_or_else(PoisonError::into_inner);
                let worked = worker.work(start);
                if worked.is_err() {
                    shared.is_over.store(true, Ordering::Relaxed);
                }
                worked
            };
            match thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    shared.is_over.store(true, Ordering::Relaxed);
                    unstarted = Err(about("start", "a thread")(error));
                    break;
                }
            }
        }
        *start = Instant::now();
        drop(start);
        let ends: Vec<_> =
            threads.into_iter().map(|thread| thread.join().expect("workers do not panic")).collect();
        unstarted.and(ends.into_iter().collect::<Result<(), _>>())
    });
    outcome?;
    Ok(Recorder::sum(shared.recorders).expect("there is at least one recorder"))
}

/// One thread.
struct Worker<'a, F: Files> {
    shared: &'a Shared<'a, F>,
    recorder: &'a Recorder,
    random: StdRng,
    number: usize,
    name: String,
    /// The file that is open, and its number.
    open: Option<(u32, F::File)>,
}

impl<'a, F: Files> Worker<'a, F> {
    fn new(shared: &'a Shared<'a, F>, number: u32, seed: u64) -> Self {
        Self {
            shared,
            recorder: &shared.recorders[number as usize % shared.recorders.len()],
            random: StdRng::seed_from_u64(seed),
            number: number as usize,
            name: String::with_capacity(256),
            open: None,
        }
    }

    fn work(&mut self, start: Instant) -> Result<(), WorkloadError> {
        let end = Duration::from_nanos(self.shared.time_ns);
        loop {
            for &step in self.shared.spec.personality.steps() {
                let took = self.step(step)?;
                let at = start.elapsed();
                if at >= end || self.shared.is_over.load(Ordering::Relaxed) {
                    return Ok(());
                }
                self.recorder.record(step.operation(), at.as_nanos() as u64, took.as_nanos() as u64);
            }
        }
    }

    /// One operation, and the time that its system calls took.
    fn step(&mut self, step: Step) -> Result<Duration, WorkloadError> {
        let (shared, draw) = (self.shared, self.random.next_u64());
        match step {
            Step::Create => {
                let file = shared.pool.take_absent(draw).ok_or_else(|| none_left("create"))?;
                shared.tree.name(file, &mut self.name);
                let (made, took) = timed(|| shared.files.create(&self.name));
                self.open = Some((file, made.map_err(about("create", &self.name))?));
                shared.pool.created(file);
                Ok(took)
            }
            Step::Open => {
                let file = shared.pool.hold(draw).ok_or_else(|| none_left("open"))?;
                shared.tree.name(file, &mut self.name);
                let writable = shared.log.is_none();
                let (opened, took) = timed(|| shared.files.open(&self.name, writable));
                self.open = Some((file, opened.map_err(about("open", &self.name))?));
                Ok(took)
            }
            Step::WriteWhole => {
                let (shared, random) = (self.shared, &mut self.random);
                let Some((file, open)) = &self.open else { return Ok(Duration::ZERO) };
                let bytes = shared.tree.size_bytes(*file);
                let (written, took) = timed(|| fill(shared.files, open, &shared.payload, random, bytes));
                written.map_err(about("write", &self.name)).map(|()| took)
            }
            Step::ReadWhole => {
                let Some((_, open)) = &self.open else { return Ok(Duration::ZERO) };
                let (read, took) = timed(|| shared.files.read_whole(open, self.number));
                read.map_err(about("read", &self.name)).map(|_| took)
            }
            Step::Append => {
                let bytes = tree::append_bytes(&mut self.random, shared.spec.append_bytes_max);
                let Some((_, open)) = &self.open else { return Ok(Duration::ZERO) };
                let (appended, took) = timed(|| shared.files.append(open, shared.payload.cut(draw, bytes)));
                appended.map_err(about("append to", &self.name)).map(|()| took)
            }
            Step::AppendToLog => self.append_to_log(draw),
            Step::Fsync => {
                let Some((_, open)) = &self.open else { return Ok(Duration::ZERO) };
                let (synced, took) = timed(|| shared.files.fsync(open));
                synced.map_err(about("fsync", &self.name)).map(|()| took)
            }
            Step::Close => {
                let Some((file, open)) = self.open.take() else { return Ok(Duration::ZERO) };
                let (closed, took) = timed(|| shared.files.close(open));
                shared.pool.release(file);
                closed.map_err(about("close", &self.name)).map(|()| took)
            }
            Step::Delete => {
                let file = shared.pool.take_for_deletion(draw).ok_or_else(|| none_left("delete"))?;
                shared.tree.name(file, &mut self.name);
                let (gone, took) = timed(|| shared.files.delete(&self.name));
                shared.pool.deleted(file);
                gone.map_err(about("delete", &self.name)).map(|()| took)
            }
            Step::Stat => {
                let file = shared.pool.hold(draw).ok_or_else(|| none_left("stat"))?;
                shared.tree.name(file, &mut self.name);
                let (told, took) = timed(|| shared.files.stat(&self.name));
                shared.pool.release(file);
                told.map_err(about("stat", &self.name)).map(|_| took)
            }
        }
    }

    fn append_to_log(&mut self, draw: u64) -> Result<Duration, WorkloadError> {
        let shared = self.shared;
        let bytes = tree::append_bytes(&mut self.random, shared.spec.append_bytes_max);
        let Some(log) = &shared.log else { return Ok(Duration::ZERO) };
        let (appended, took) = timed(|| {
            let before = log.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            // One thread crosses the bound, and that one empties the log.
            if before < log.bytes_max && before + bytes as u64 >= log.bytes_max {
                shared.files.empty(&log.file)?;
                log.bytes.store(0, Ordering::Relaxed);
            }
            shared.files.append(&log.file, shared.payload.cut(draw, bytes))
        });
        appended.map_err(about("append to", LOG)).map(|()| took)
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let started = Instant::now();
    let done = work();
    (done, started.elapsed())
}

fn none_left(doing: &'static str) -> WorkloadError {
    about(doing, "a file")(io::Error::new(io::ErrorKind::NotFound, "none is left that no thread holds"))
}
