//! evenkeel: one volume, a part of it for each stream.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use evenkeel_engine::device::Extent;
use evenkeel_engine::env::Env;
use evenkeel_host::embedded::{Backend, Creation, Durability, OpenOptions, Options as Embedded, Volume};
use evenkeel_host::event_loop::EventLoop;
use evenkeel_host::volume::OpenVolume;
use futures::future::join_all;

use crate::measured::{Measured, Run, Times, Written, in_threads, processor_time};
use crate::options::Options;
use crate::{ENTRY_BYTES, KEPT};

const VOLUME_BYTES: u64 = 8 << 30;
const PAGE_BYTES: u64 = 4096;
const RUNS: usize = 16;

/// Bytes that no compression makes smaller, and that differ each time.
pub struct Noise(u64);

impl Noise {
    pub fn new(seed: usize, stream: usize) -> Self {
        Self(((seed as u64) << 32 | stream as u64) + 1)
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len);
        for _ in 0..len / 8 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            bytes.extend_from_slice(&self.0.to_le_bytes());
        }
        bytes
    }
}

/// Where a stream's log lies.
#[derive(Clone, Copy)]
struct Part {
    start: u64,
    len: u64,
}

impl Part {
    /// Each run has one of [`RUNS`] parts for itself, as long as there are no more.
    fn of(stream: usize, run: &Run) -> Self {
        let len = VOLUME_BYTES / (run.streams * RUNS) as u64 / PAGE_BYTES * PAGE_BYTES;
        Self { start: (stream * RUNS + run.part % RUNS) as u64 * len, len }
    }

    fn place(&self, entry: u64) -> u64 {
        self.start + entry * ENTRY_BYTES as u64 % self.len
    }

    /// What a stream discards after this entry, if anything: what came before the last [`KEPT`], [`KEPT`] at a time.
    fn discarded(&self, entry: u64) -> Option<Extent> {
        let len = KEPT * ENTRY_BYTES as u64;
        let is_due = (entry + 1).is_multiple_of(KEPT) && entry >= KEPT;
        is_due.then(|| Extent::new(self.place(entry + 1 - 2 * KEPT), len))
    }
}

/// Makes the volume of all rounds.
pub fn create(folder: &Path, options: &Options) {
    let atomic_sectors = options.atomic_sectors.then_some(true);
    let creation =
        Creation { log_bytes: options.log_bytes, atomic_sectors, ..Creation::new(folder, VOLUME_BYTES) };
    Volume::create(creation).wait().expect("a new volume");
}

fn open_options(options: &Options) -> OpenOptions {
    OpenOptions { commits_in_flight_max: options.commits_in_flight, ..OpenOptions::default() }
}

fn open(folder: &Path, options: &Options) -> Volume {
    let embedded = Embedded { open: open_options(options), ..Embedded::default() };
    Volume::open(folder, embedded).wait().expect("the volume opens")
}

pub fn run_threads(folder: &Path, run: &Run, options: &Options) -> Measured {
    let before = Written::now(folder);
    let volume = open(folder, options);
    let done = in_threads(run, |stream| {
        let (volume, part) = (&volume, Part::of(stream, run));
        let mut noise = Noise::new(run.part, stream);
        move |entry| {
            let bytes = noise.bytes(ENTRY_BYTES);
            volume.write(part.place(entry), bytes, Durability::Durable).wait().expect("a healthy write");
            if let Some(Extent { offset, len }) = part.discarded(entry).filter(|_| run.discards) {
                // Nobody waits for it. Durable, it joins the next commit: a checkpoint knows only what is committed.
                drop(volume.write_zeroes(offset..offset + len, Durability::Durable));
            }
        }
    });
    volume.close().wait().expect("a healthy close");
    Measured::of(done, before, Written::now(folder))
}

pub fn run_tasks(folder: &Path, run: &Run, options: &Options) -> Measured {
    let before = Written::now(folder);
    let volume = open(folder, options);
    let (began, processor) = (Instant::now(), processor_time());
    let streams = (0..run.streams).map(|stream| {
        let (volume, part) = (&volume, Part::of(stream, run));
        let mut noise = Noise::new(run.part, stream);
        async move {
            let mut times = Times::with_capacity(1 << 16);
            for entry in 0.. {
                let before = Instant::now();
                let bytes = noise.bytes(ENTRY_BYTES);
                volume.write(part.place(entry), bytes, Durability::Durable).await.expect("a healthy write");
                if let Some(Extent { offset, len }) = part.discarded(entry).filter(|_| run.discards) {
                    drop(volume.write_zeroes(offset..offset + len, Durability::Durable));
                }
                times.push(before.elapsed());
                if began.elapsed() >= run.time {
                    break;
                }
            }
            times
        }
    });
    let times = futures::executor::block_on(join_all(streams)).into_iter().flatten().collect();
    let done = (times, began.elapsed(), processor_time() - processor);
    volume.close().wait().expect("a healthy close");
    Measured::of(done, before, Written::now(folder))
}

pub fn run_on_loop(folder: &Path, run: &Run, options: &Options) -> Measured {
    let before = Written::now(folder);
    let event_loop = EventLoop::new(Backend::Auto).expect("an event loop");
    let env = event_loop.handle();
    let done = event_loop.block_on(async {
        let open = OpenVolume::open(&env, folder, open_options(options)).await;
        let open = open.expect("the volume opens");
        let (began, processor) = (Instant::now(), processor_time());
        let (all, left) = (Rc::new(RefCell::new(Times::new())), Rc::new(RefCell::new(run.streams)));
        for stream in 0..run.streams {
            let (volume, part) = (open.volume.clone(), Part::of(stream, run));
            let (env, all, left, run) = (env.clone(), Rc::clone(&all), Rc::clone(&left), *run);
            let mut noise = Noise::new(run.part, stream);
            event_loop.handle().spawn(async move {
                for entry in 0.. {
                    let before = Instant::now();
                    let bytes = noise.bytes(ENTRY_BYTES);
                    let written = volume.write(part.place(entry), &bytes, Durability::Durable).await;
                    written.expect("a healthy write");
                    if let Some(extent) = part.discarded(entry).filter(|_| run.discards) {
                        let volume = volume.clone();
                        env.spawn(async move {
                            volume
                                .write_zeroes(extent, Durability::Durable)
                                .await
                                .expect("a healthy discard");
                        });
                    }
                    all.borrow_mut().push(before.elapsed());
                    if began.elapsed() >= run.time {
                        break;
                    }
                }
                *left.borrow_mut() -= 1;
            });
        }
        while *left.borrow() > 0 {
            env.sleep(1_000_000).await;
        }
        let done = (all.take(), began.elapsed(), processor_time() - processor);
        open.close().await.expect("a healthy close");
        done
    });
    drop(event_loop);
    Measured::of(done, before, Written::now(folder))
}
