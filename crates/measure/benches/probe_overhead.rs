//! What the probe adds to each write, over a bare loop of the same system calls.
//!
//! Both loops write 4 KiB with `pwrite` to a file opened with `O_DSYNC` in memory (`/dev/shm`), where the
//! system call is cheapest and so the probe's share largest. The loops alternate, and each pair gives one
//! difference; the median and the middle half of the differences are printed, in nanoseconds a write.

#![allow(clippy::print_stdout, reason = "a benchmark's output is its figure")]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use evenkeel_host::durable_file::{DurableFile, Open};
use evenkeel_host::interrupt::Interrupt;
use evenkeel_host::method::Method;
use evenkeel_measure::probe::timed_loop::{Source, timed_writes};

const BUFFER_BYTES: usize = 4096;
const WRITES: u64 = 4096;
const PAIRS: usize = 300;

/// `O_DSYNC` of Linux on x86-64 and arm64.
const O_DSYNC: i32 = 0o10000;

fn main() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory can be made");
    let path = folder.path().join("file");
    let source = Source::random(BUFFER_BYTES, 1);
    let mut probed = DurableFile::open(&path, Method::Dsync, Open::New).expect("the file can be made");
    let bare = open_bare(&path);

    let (mut bare_ns, mut differences_ns) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        let bare_s = bare_loop(&bare, &source);
        let probe_s = probe_loop(&mut probed, &source);
        bare_ns.push(bare_s / WRITES as f64 * 1e9);
        differences_ns.push((probe_s - bare_s) / WRITES as f64 * 1e9);
    }
    let [_, bare_median, _] = quartiles(&mut bare_ns);
    let [low, median, high] = quartiles(&mut differences_ns);
    println!("bare loop          {bare_median:8.0} ns a write");
    println!(
        "the probe adds     {median:8.0} ns a write (middle half of {PAIRS} pairs: {low:.0} to {high:.0})"
    );
}

fn open_bare(path: &Path) -> File {
    OpenOptions::new().write(true).custom_flags(O_DSYNC).open(path).expect("the file can be opened")
}

fn bare_loop(file: &File, source: &Source) -> f64 {
    let window = source.window();
    let started = Instant::now();
    let (mut place, mut offset) = (0, 0);
    for _ in 0..WRITES {
        if place + BUFFER_BYTES > window.len() {
            place = 0;
        }
        file.write_at(&window[place..place + BUFFER_BYTES], offset).expect("memory takes the write");
        place += BUFFER_BYTES;
        offset += BUFFER_BYTES as u64;
    }
    started.elapsed().as_secs_f64()
}

fn probe_loop(file: &mut DurableFile, source: &Source) -> f64 {
    let mut latencies_ns = vec![u64::MAX; WRITES as usize];
    latencies_ns.clear();
    let interrupt = Interrupt::default();
    let timed = timed_writes(file, source, 0, BUFFER_BYTES, WRITES, &interrupt, &mut latencies_ns)
        .expect("memory takes the writes");
    (timed.ended - timed.started).as_secs_f64()
}

fn quartiles(values: &mut [f64]) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [values.len() / 4, values.len() / 2, values.len() * 3 / 4].map(|place| values[place])
}
