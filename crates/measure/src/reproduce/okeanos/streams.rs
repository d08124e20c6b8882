//! Many writers, each appending to a file of its own; the files lie evenly over the volume.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_sim::executor::SimEnv;
use evenkeel_sim::random::Random;

use super::bed::{Site, VOLUME_BYTES};
use super::written::Traffic;

/// Nanoseconds of a second.
pub(super) const SECOND_NS: u64 = 1_000_000_000;

/// When a stream writes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rhythm {
    /// Once in this time, counted from a random moment, or when the write before is durable if that is later.
    Every(u64),
    /// As soon as the write before is durable and this time has passed.
    After(u64),
}

/// What streams do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) streams: u64,
    pub(super) request_bytes: u64,
    pub(super) rhythm: Rhythm,
    /// When no request begins any more, and what is under way is not counted any more.
    pub(super) until_ns: u64,
    /// As many requests of each stream at most.
    pub(super) requests_max: u64,
}

/// What came of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    /// Of requests that were done in time, in the order in which they were done.
    pub(super) latencies_ns: Vec<u64>,
    pub(super) traffic: Traffic,
    /// Until the last of them was done, or the time was over.
    pub(super) took_ns: u64,
}

impl Outcome {
    /// The mean latency in seconds; no number where nothing was done.
    pub(super) fn mean_s(&self) -> f64 {
        self.latencies_ns.iter().sum::<u64>() as f64 / self.latencies_ns.len() as f64 / 1e9
    }

    /// Whether the streams were served as they came, one request of each in every period, but for a twentieth.
    pub(super) fn is_served(&self, streams: u64, period_ns: u64) -> bool {
        let came = streams as f64 * self.took_ns as f64 / period_ns as f64;
        self.latencies_ns.len() as f64 >= 0.95 * came
    }

    /// Requests done a second.
    pub(super) fn per_s(&self) -> f64 {
        self.latencies_ns.len() as f64 * 1e9 / self.took_ns as f64
    }
}

/// Where the file of a stream begins.
pub(super) fn file_offset(stream: u64, streams: u64) -> u64 {
    stream * file_bytes(streams)
}

/// As much as a file may grow.
pub(super) fn file_bytes(streams: u64) -> u64 {
    VOLUME_BYTES / streams / PAGE_BYTES * PAGE_BYTES
}

/// What streams make their requests of.
pub(super) trait Target: Clone + 'static {
    /// Where time and tasks come from.
    fn env(&self) -> &SimEnv;

    /// A stream of chance of its own.
    fn random(&self) -> Random;

    /// What was written so far.
    fn traffic(&self) -> Traffic;

    /// Bytes that each of so many streams has room for.
    fn room_bytes(&self, streams: u64) -> u64;

    /// Makes the request of that number; answers how long it took.
    async fn request(&self, random: &mut Random, load: &Load, stream: u64, number: u64) -> u64;
}

/// Appends to places on the volume, durably.
#[derive(Clone)]
struct Appends(Site);

/// Reads what was written there, from the beginning.
#[derive(Clone)]
struct Reads(Site);

fn place(load: &Load, stream: u64, number: u64) -> u64 {
    file_offset(stream, load.streams) + number * load.request_bytes
}

impl Target for Appends {
    fn env(&self) -> &SimEnv {
        self.0.env()
    }

    fn random(&self) -> Random {
        self.0.random()
    }

    fn traffic(&self) -> Traffic {
        self.0.traffic()
    }

    fn room_bytes(&self, streams: u64) -> u64 {
        file_bytes(streams)
    }

    async fn request(&self, random: &mut Random, load: &Load, stream: u64, number: u64) -> u64 {
        self.0.write(random, place(load, stream, number), load.request_bytes).await
    }
}

impl Target for Reads {
    fn env(&self) -> &SimEnv {
        self.0.env()
    }

    fn random(&self) -> Random {
        self.0.random()
    }

    fn traffic(&self) -> Traffic {
        self.0.traffic()
    }

    fn room_bytes(&self, streams: u64) -> u64 {
        file_bytes(streams)
    }

    async fn request(&self, _random: &mut Random, load: &Load, stream: u64, number: u64) -> u64 {
        self.0.read(place(load, stream, number), load.request_bytes).await
    }
}

#[derive(Default)]
struct Tally {
    latencies_ns: Vec<u64>,
    last_ns: u64,
    left: u64,
}

/// Lets the streams write.
pub(super) async fn write(site: &Site, load: Load) -> Outcome {
    run(&Appends(site.clone()), load).await
}

/// Lets the streams read what they wrote, from the beginning of their files.
pub(super) async fn read(site: &Site, load: Load) -> Outcome {
    run(&Reads(site.clone()), load).await
}

/// Lets the streams make their requests.
pub(super) async fn run<T: Target>(target: &T, load: Load) -> Outcome {
    let began_ns = target.env().now_ns();
    let before = target.traffic();
    let until_ns = began_ns + load.until_ns;
    let tally = Rc::new(RefCell::new(Tally { left: load.streams, ..Tally::default() }));
    for stream in 0..load.streams {
        let (target, tally) = (target.clone(), Rc::clone(&tally));
        target.env().clone().spawn(async move {
            one(&target, load, stream, until_ns, &tally).await;
            tally.borrow_mut().left -= 1;
        });
    }
    loop {
        let now_ns = target.env().now_ns();
        if tally.borrow().left == 0 || now_ns >= until_ns {
            break;
        }
        target.env().sleep((until_ns - now_ns).min(SECOND_NS / 10)).await;
    }
    let mut tally = tally.borrow_mut();
    let is_over = tally.left > 0;
    Outcome {
        latencies_ns: std::mem::take(&mut tally.latencies_ns),
        traffic: target.traffic() - before,
        took_ns: if is_over { load.until_ns } else { (tally.last_ns - began_ns).max(1) },
    }
}

async fn one<T: Target>(target: &T, load: Load, stream: u64, until_ns: u64, tally: &RefCell<Tally>) {
    let mut random = target.random();
    let mut due_ns = target.env().now_ns();
    if let Rhythm::Every(period_ns) = load.rhythm {
        due_ns += random.below(period_ns);
    }
    let requests = load.requests_max.min(target.room_bytes(load.streams) / load.request_bytes);
    for number in 0..requests {
        let now_ns = target.env().now_ns();
        if due_ns > now_ns {
            target.env().sleep(due_ns - now_ns).await;
        }
        if target.env().now_ns() >= until_ns {
            return;
        }
        let took_ns = target.request(&mut random, &load, stream, number).await;
        let now_ns = target.env().now_ns();
        if now_ns > until_ns {
            return;
        }
        let mut tally = tally.borrow_mut();
        tally.latencies_ns.push(took_ns);
        tally.last_ns = now_ns;
        due_ns = match load.rhythm {
            Rhythm::Every(period_ns) => due_ns + period_ns,
            Rhythm::After(pause_ns) => now_ns + pause_ns,
        };
    }
}
