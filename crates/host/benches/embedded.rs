//! What the handle of an embedded volume costs: `cargo bench -p evenkeel-host --bench embedded [-- FOLDER]`.
//!
//! Nothing here waits for a disk: requests that the volume's thread answers at once, from one thread that waits for
//! each, and many at a time.

#![allow(clippy::print_stdout, reason = "a benchmark's output is its figures")]

use std::thread;
use std::time::{Duration, Instant};

use evenkeel_host::embedded::{Creation, Durability, Options, Volume};

const ROUNDS: usize = 20_000;

fn report(what: &str, times: &mut [Duration], each: usize) {
    times.sort_unstable();
    let us = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e6 / each as f64;
    println!("{what:<58} median {:8.2} us each, 10 % {:8.2}, 99 % {:8.2}", us(50), us(10), us(99));
}

fn timed(mut round: impl FnMut(usize)) -> Vec<Duration> {
    let rounds = (0..ROUNDS).map(|number| {
        let began = Instant::now();
        round(number);
        began.elapsed()
    });
    rounds.collect()
}

fn main() {
    let folder =
        std::env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_else(|| ".".to_owned());
    let parent = tempfile::tempdir_in(folder).expect("a folder in the folder that was named");
    let folder = parent.path().join("volume");
    let creation = Creation { log_bytes: 64 << 20, sparse: true, ..Creation::new(&folder, 1 << 30) };
    Volume::create(creation).wait().expect("a new volume");
    let volume = Volume::open(&folder, Options::default()).wait().expect("it opens");

    let mut times = timed(|_| {
        volume.status().wait().expect("an answer");
    });
    report("status, one thread that waits for each", &mut times, 1);
    let offset = |number: usize| number as u64 % 1024 * 4096;
    let mut times = timed(|number| {
        let write = volume.write(offset(number), [number as u8; 1024], Durability::Buffered);
        write.wait().expect("a healthy write");
    });
    report("buffered write of 1 KiB, one thread that waits for each", &mut times, 1);
    volume.flush(..).wait().expect("a healthy flush");
    let mut times = timed(|number| drop(volume.read(offset(number), 1024).wait().expect("a healthy read")));
    report("read of 1 KiB from memory, one thread that waits for each", &mut times, 1);
    let mut times = timed(|_| {
        let asked: [_; 100] = std::array::from_fn(|_| volume.status());
        for answer in asked {
            answer.wait().expect("an answer");
        }
    });
    report("status, 100 at a time", &mut times, 100);

    for threads in [8, 100] {
        let began = Instant::now();
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    (0..ROUNDS / 10).for_each(|_| {
                        volume.status().wait().expect("an answer");
                    });
                });
            }
        });
        let each = began.elapsed().as_secs_f64() * 1e6 / (threads * ROUNDS / 10) as f64;
        println!("{:<58}        {each:8.2} us each", format!("status, {threads} threads that wait for each"));
    }
    drop(volume);
}
