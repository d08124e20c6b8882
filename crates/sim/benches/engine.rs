//! What the engine costs: bytes of journal, time of the processor, time of a flush, time of a recovery.
//!
//! Drives and arena are plain memory here, so that what is timed is the engine, the simulator's executor that
//! runs it, and the copies into that memory. Names of sections as arguments run only these: `bytes`, `write`,
//! `flush`, `recovery`, `trace`. The trace is read from the folder that `EVENKEEL_TRACES` names.

#![allow(clippy::print_stdout, reason = "a benchmark's output is its figures")]

mod ram;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use evenkeel_engine::counters::Snapshot;
use evenkeel_engine::device::{Durability, Extent, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_engine::options::{Journaling, OpenOptions};

use ram::{MIB, Noise, Opened, PAGE, Testbed};

/// `streams` writers, each doing `writes` durable writes of `len` bytes at random multiples of `len`.
async fn write_at_random(opened: &Opened, streams: usize, writes: usize, len: usize) -> (Snapshot, Duration) {
    let mut noise = Noise::new(9);
    let left = Rc::new(Cell::new(streams));
    let before = opened.volume.counters();
    let began = Instant::now();
    for _ in 0..streams {
        let (volume, left, mut noise) = (opened.volume.clone(), Rc::clone(&left), noise.fork());
        opened.env.spawn(async move {
            let places = volume.size_bytes() / len as u64;
            for _ in 0..writes {
                let offset = noise.random.below(places) * len as u64;
                volume.write(offset, noise.slice(len), Durability::Durable).await.expect("a healthy write");
            }
            left.set(left.get() - 1);
        });
    }
    while left.get() > 0 {
        opened.env.sleep(1_000_000).await;
    }
    let took = began.elapsed();
    (since(opened.volume.counters(), before), took)
}

fn since(after: Snapshot, before: Snapshot) -> Snapshot {
    Snapshot {
        user_bytes: after.user_bytes - before.user_bytes,
        writes: after.writes - before.writes,
        equal_bytes: after.equal_bytes - before.equal_bytes,
        delta_bytes: after.delta_bytes - before.delta_bytes,
        commits: after.commits - before.commits,
        committed_units: after.committed_units - before.committed_units,
        log_bytes: after.log_bytes - before.log_bytes,
        home_bytes: after.home_bytes - before.home_bytes,
        table_bytes: after.table_bytes - before.table_bytes,
        checkpoints: after.checkpoints - before.checkpoints,
        ..after
    }
}

const MODES: [(&str, Journaling); 3] = [
    ("wasteless", Journaling::Wasteless),
    ("whole pages", Journaling::WholePages),
    ("ordered", Journaling::Ordered),
];

fn print_bytes(name: &str, done: &Snapshot) {
    let per_user = |bytes: u64| bytes as f64 / done.user_bytes as f64;
    println!(
        "{name:<28} log {:7.3}  deltas {:6.3}  home {:7.3}  table {:7.3}  log+home {:7.3} per user byte; \
         {} writes, {:.1} a commit, {} checkpoints",
        per_user(done.log_bytes),
        per_user(done.delta_bytes),
        per_user(done.home_bytes),
        per_user(done.table_bytes),
        per_user(done.log_bytes + done.home_bytes),
        done.writes,
        done.committed_units as f64 / done.commits.max(1) as f64,
        done.checkpoints,
    );
}

fn bytes() {
    println!("# bytes: random 1 KiB durable writes, 64 streams, volume 64 MiB, log 4 MiB");
    for (name, journaling) in MODES {
        let open = OpenOptions { journaling, cached_pages_max: 16_384, ..OpenOptions::default() };
        let mut testbed = Testbed::new(64 * MIB, 4 * MIB, open, 16 << 20);
        testbed.durable_ns = 400_000;
        let writes = if journaling == Journaling::Ordered { 200 } else { 2000 };
        let done = testbed.run(async |opened| write_at_random(&opened, 64, writes, 1024).await.0);
        print_bytes(name, &done);
    }
}

/// What this thread has had of a processor, where the kernel tells; else the time since the first call.
fn processor_time(began: Instant) -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ns = told.as_deref().and_then(|text| text.split_whitespace().next()?.parse().ok());
    ns.map_or_else(|| began.elapsed(), Duration::from_nanos)
}

/// As [`write_at_random`], by one writer: `batch` buffered writes, then one flush of all.
async fn write_in_batches(opened: &Opened, batches: usize, batch: usize, len: usize) -> (Snapshot, Duration) {
    let mut noise = Noise::new(9);
    let (volume, before, began) = (&opened.volume, opened.volume.counters(), Instant::now());
    let places = volume.size_bytes() / len as u64;
    for _ in 0..batches {
        for _ in 0..batch {
            let offset = noise.random.below(places) * len as u64;
            volume.write(offset, noise.slice(len), Durability::Buffered).await.expect("a healthy write");
        }
        volume.flush(FlushScope::Whole).await.expect("a healthy flush");
    }
    (since(volume.counters(), before), began.elapsed())
}

fn write() {
    println!(
        "# write: 4 KiB durable writes at random, one thread, log 64 MiB, one commit under way at a time"
    );
    for (name, size_bytes, writers) in [
        ("32 writers, 64 MiB", 64 * MIB, 32),
        ("32 writers, 4 MiB", 4 * MIB, 32),
        ("64 writers, 64 MiB", 64 * MIB, 64),
        ("flush after 32, 64 MiB", 64 * MIB, 0),
        ("flush after 32, 4 MiB", 4 * MIB, 0),
    ] {
        let open =
            OpenOptions { commits_in_flight_max: 1, batch_max_bytes: 512 << 10, ..OpenOptions::default() };
        let testbed = Testbed::new(size_bytes, 64 * MIB, open, 16 << 20);
        for _ in 0..3 {
            let (done, drives, processor) = testbed.run(async |opened| {
                let began = Instant::now();
                let before = processor_time(began);
                testbed.busy.take();
                let (done, _) = match writers {
                    0 => write_in_batches(&opened, 4000, 32, 4096).await,
                    _ => write_at_random(&opened, writers, 128_000 / writers, 4096).await,
                };
                (done, testbed.busy.take(), processor_time(began) - before)
            });
            let us = |time: Duration| time.as_secs_f64() * 1e6 / done.writes as f64;
            println!(
                "{name:<23} {:.2} us of processor a write, and {:.2} us more in the drives; {} writes, \
                 {:.1} a commit, {:.2} home bytes a byte",
                us(processor.saturating_sub(drives)),
                us(drives),
                done.writes,
                done.committed_units as f64 / done.commits as f64,
                done.home_bytes as f64 / done.user_bytes as f64,
            );
        }
    }
}

fn flush() {
    println!(
        "# flush: a range flush of one page of 64 dirty bytes, beside others all of whose bytes are dirty"
    );
    for others in [256, 8192, 131_072, 524_288] {
        // Beyond half of the arena the oldest would leave by themselves.
        let arena_bytes = (others * PAGE) as usize * 9 / 4 + (16 << 20);
        let testbed = Testbed::new((others + 1) * PAGE, 16 * MIB, OpenOptions::default(), arena_bytes);
        let mut times = testbed.run(async |opened| {
            let volume = opened.volume;
            let mut noise = Noise::new(3);
            for page in 0..others {
                let bytes = noise.slice(PAGE as usize);
                volume.write(page * PAGE, bytes, Durability::Buffered).await.expect("there is room");
            }
            assert_eq!(volume.counters().commits, 0, "all of them are still dirty");
            let mut times = Vec::new();
            for _ in 0..2000 {
                let offset = others * PAGE + 128;
                let bytes = noise.slice(64);
                volume.write(offset, bytes, Durability::Buffered).await.expect("there is room");
                let began = Instant::now();
                let flushed = volume.flush(FlushScope::Ranges(&[Extent::new(offset, 64)])).await;
                times.push(began.elapsed());
                flushed.expect("a healthy flush");
            }
            assert_eq!(volume.counters().committed_units, 2000, "only what was flushed");
            times
        });
        times.sort_unstable();
        let us = |share: usize| times[times.len() * share / 100].as_secs_f64() * 1e6;
        let mib = others * PAGE / MIB;
        println!(
            "{mib:>5} MiB in {others:>6} others: median {:.2} us, 90 % {:.2} us, 99 % {:.2} us",
            us(50),
            us(90),
            us(99)
        );
    }
}

fn recovery() {
    println!("# recovery: a log of 64 MiB, filled as far as commits may, then a power cut");
    const WRITTEN: u64 = 32 * MIB;
    for (len, volume_bytes) in [(4096_usize, WRITTEN), (4096, 64 * WRITTEN), (512, WRITTEN)] {
        let open = OpenOptions::default();
        let testbed = Testbed::new(volume_bytes, 64 * MIB, open, 16 << 20);
        let log_bytes = testbed.run(async |opened| {
            opened.home.stalled.set(true);
            let mut noise = Noise::new(5);
            for _ in 0..32 {
                let (volume, mut noise) = (opened.volume.clone(), noise.fork());
                opened.env.spawn(async move {
                    loop {
                        let offset = noise.random.below(WRITTEN / len as u64) * len as u64;
                        let bytes = noise.slice(len);
                        volume.write(offset, bytes, Durability::Durable).await.expect("a healthy write");
                    }
                });
            }
            while opened.volume.counters().log_waits == 0 {
                opened.env.sleep(100_000).await;
            }
            opened.env.sleep(10_000_000).await;
            opened.volume.counters().log_bytes
        });
        // The drives as the cut left them; each opening works on a copy.
        let (home, log) = (testbed.home.borrow().clone(), testbed.log.borrow().clone());
        for _ in 0..3 {
            testbed.home.borrow_mut().copy_from_slice(&home);
            testbed.log.borrow_mut().copy_from_slice(&log);
            let (opening, replay, records) = testbed.run(async |opened| {
                (opened.open_time, opened.replay_time, opened.volume.counters().replayed_records)
            });
            let rate = |time: Duration| log_bytes as f64 / time.as_secs_f64() / 1e9;
            println!(
                "writes of {len:>4}, volume of {:>4} MiB: {:.1} MiB in {records} records; open {:.1} ms, {:.2} GB of log a second; \
                 without its checkpoint {:.1} ms, {:.2} GB a second",
                volume_bytes / MIB,
                log_bytes as f64 / MIB as f64,
                opening.as_secs_f64() * 1e3,
                rate(opening),
                replay.as_secs_f64() * 1e3,
                rate(replay),
            );
        }
    }
}

/// One write of a trace, its place within the volume.
struct Traced {
    at_ns: u64,
    offset: u64,
    len: usize,
}

/// The writes of the trace, its devices laid one behind another; and the bytes that they span.
fn read_trace(text: &str) -> (Vec<Traced>, u64) {
    let rows = text.lines().filter_map(|line| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [at_ns, device, lba, sectors, op] = numbers[..] else { return None };
        (op == 0).then_some((at_ns, device, lba * 512, sectors * 512))
    });
    let rows: Vec<_> = rows.collect();
    let mut sizes: BTreeMap<u64, u64> = BTreeMap::new();
    for &(_, device, offset, len) in &rows {
        let size = sizes.entry(device).or_default();
        *size = (*size).max((offset + len).next_multiple_of(PAGE));
    }
    let (mut base, mut bases) = (0, BTreeMap::new());
    for (device, size) in sizes {
        bases.insert(device, base);
        base += size;
    }
    let writes = rows.into_iter().map(|(at_ns, device, offset, len)| Traced {
        at_ns,
        offset: bases[&device] + offset,
        len: len as usize,
    });
    (writes.collect(), base)
}

fn trace() {
    let Some(folder) = std::env::var_os("EVENKEEL_TRACES") else {
        println!("# trace: skipped, EVENKEEL_TRACES names no folder");
        return;
    };
    let text = match std::fs::read_to_string(std::path::Path::new(&folder).join("financial1-head.ascii")) {
        Ok(text) => text,
        Err(error) => {
            println!("# trace: skipped, {error}");
            return;
        }
    };
    let (writes, size_bytes) = read_trace(&text);
    let writes = Rc::new(writes);
    println!(
        "# trace: Financial1, first {} writes, each durable, over {} MiB; log 64 MiB",
        writes.len(),
        size_bytes / MIB
    );
    for (pace, streams) in [("as recorded", 0), ("32 at a time", 32)] {
        for (name, journaling) in MODES {
            let open = OpenOptions { journaling, ..OpenOptions::default() };
            let mut testbed = Testbed::new(size_bytes, 64 * MIB, open, 16 << 20);
            testbed.durable_ns = 400_000;
            let done = testbed.run(async |opened| replay(&opened, &writes, streams).await);
            print_bytes(&format!("{name}, {pace}"), &done);
        }
    }
}

/// Writes them at their times, or `streams` at a time where that is not 0.
async fn replay(opened: &Opened, writes: &Rc<Vec<Traced>>, streams: usize) -> Snapshot {
    let (next, done) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let mut noise = Noise::new(13);
    let before = opened.volume.counters();
    let began_ns = opened.env.now_ns();
    let tasks = if streams == 0 { writes.len() } else { streams };
    for _ in 0..tasks {
        let (volume, env, writes) = (opened.volume.clone(), opened.env.clone(), Rc::clone(writes));
        let (next, done, mut noise) = (Rc::clone(&next), Rc::clone(&done), noise.fork());
        opened.env.spawn(async move {
            while let Some(write) = writes.get(next.replace(next.get() + 1)) {
                if streams == 0 {
                    env.sleep((began_ns + write.at_ns).saturating_sub(env.now_ns())).await;
                }
                let bytes = noise.slice(write.len);
                volume.write(write.offset, bytes, Durability::Durable).await.expect("a healthy write");
                done.set(done.get() + 1);
            }
        });
    }
    while done.get() < writes.len() {
        opened.env.sleep(1_000_000).await;
    }
    since(opened.volume.counters(), before)
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let sections: [(&str, fn()); 5] =
        [("bytes", bytes), ("write", write), ("flush", flush), ("recovery", recovery), ("trace", trace)];
    for (name, section) in sections {
        if wanted.is_empty() || wanted.iter().any(|word| word == name) {
            section();
        }
    }
}
