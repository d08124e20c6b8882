//! The client of all servers: connections, each with requests under way, for some time.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use evenkeel_engine::device::{Durability, Extent, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_host::event_loop::{Backend, EventLoop, Loop};
use evenkeel_host::nbd::client::{Client, ConnectOptions};
use evenkeel_host::net::{Stream, connect_unix};
use hdrhistogram::Histogram;

use crate::Outcome;

/// Time after the connections are there that is not counted.
const WARM_UP: Duration = Duration::from_millis(300);

/// Bytes that writes are cut from.
const RANDOM_BYTES: usize = 8 << 20;

/// What is done again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A write and, once it is answered, a flush of everything.
    WriteFlush,
    /// A write that is durable when it is answered.
    Fua,
    Read,
}

/// Where the next one goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Anywhere.
    Random,
    /// Behind the last one: each worker in a part of the volume of its own, as logs are written.
    Appended,
}

/// How much of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) operation: Operation,
    pub(crate) place: Place,
    pub(crate) connections: usize,
    /// Under way on each connection.
    pub(crate) depth: usize,
    pub(crate) request_bytes: usize,
    /// Bytes of the volume over which offsets are spread.
    pub(crate) size_bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) seed: u64,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) operations: u64,
    pub(crate) elapsed_s: f64,
    pub(crate) latency_ns: Histogram<u64>,
}

impl Done {
    pub(crate) fn rate_per_s(&self) -> f64 {
        self.operations as f64 / self.elapsed_s
    }

    pub(crate) fn quantile_s(&self, quantile: f64) -> f64 {
        self.latency_ns.value_at_quantile(quantile) as f64 * 1e-9
    }
}

/// SplitMix64: where offsets and bytes come from.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Bytes that look like nothing that was there before: a server that compares finds no equal run.
#[derive(Debug)]
pub(crate) struct Bytes(Vec<u8>);

impl Bytes {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x5eed);
        Self((0..RANDOM_BYTES / 8).flat_map(|_| random.next().to_le_bytes()).collect())
    }

    pub(crate) fn cut(&self, len: usize, random: &mut Random) -> &[u8] {
        let start = random.next() as usize % (self.0.len() - len);
        &self.0[start..start + len]
    }
}

/// What the workers of one load share.
struct Shared {
    load: Load,
    bytes: Bytes,
    counted_from: Cell<Option<Instant>>,
    stops: Cell<bool>,
    operations: Cell<u64>,
    latency_ns: RefCell<Histogram<u64>>,
    failure: RefCell<Option<String>>,
    workers: Cell<usize>,
}

/// Puts the load on the server behind `socket`. `counting` is called when counting begins and when it ends.
pub(crate) fn run(socket: &Path, load: Load, mut counting: impl FnMut()) -> Outcome<Done> {
    let event_loop = EventLoop::new(Backend::Auto).map_err(|error| format!("no event loop: {error}"))?;
    let env = event_loop.handle();
    let latency_ns = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds that are in order");
    let shared = Rc::new(Shared {
        load,
        bytes: Bytes::new(load.seed),
        counted_from: Cell::new(None),
        stops: Cell::new(false),
        operations: Cell::new(0),
        latency_ns: RefCell::new(latency_ns),
        failure: RefCell::default(),
        workers: Cell::new(load.connections * load.depth),
    });
    let elapsed = event_loop.block_on(async {
        for connection in 0..load.connections {
            let client = connect(&env, socket).await?;
            for place in 0..load.depth {
                let number = (connection * load.depth + place) as u64;
                let (client, shared) = (client.clone(), Rc::clone(&shared));
                env.spawn(async move { work(&client, &shared, number).await });
            }
        }
        env.sleep(WARM_UP.as_nanos() as u64).await;
        counting();
        let began = Instant::now();
        shared.counted_from.set(Some(began));
        env.sleep((load.seconds * 1e9) as u64).await;
        shared.stops.set(true);
        let elapsed = began.elapsed();
        counting();
        while shared.workers.get() > 0 {
            env.sleep(1_000_000).await;
        }
        Outcome::Ok(elapsed)
    })?;
    if let Some(failure) = shared.failure.take() {
        return Err(failure);
    }
    Ok(Done {
        operations: shared.operations.get(),
        elapsed_s: elapsed.as_secs_f64(),
        latency_ns: shared.latency_ns.borrow().clone(),
    })
}

/// A connection to the server behind `socket`.
pub(crate) async fn connect(env: &Loop, socket: &Path) -> Outcome<Client<Stream>> {
    let stream = connect_unix(env, socket).await.map_err(|error| error.to_string())?;
    let client = Client::connect(env, stream, &ConnectOptions::default()).await;
    client.map_err(|error| format!("{}: {error}", socket.display()))
}

async fn work(client: &Client<Stream>, shared: &Shared, number: u64) {
    let load = shared.load;
    let mut random = Random::new(load.seed ^ ((number + 1) << 32));
    let mut into = vec![0; load.request_bytes];
    let places = load.size_bytes / load.request_bytes as u64;
    let own_places = places / (load.connections * load.depth) as u64;
    let mut done_so_far = 0;
    while !shared.stops.get() {
        let place = match load.place {
            Place::Random => random.next() % places,
            Place::Appended => number * own_places + done_so_far % own_places,
        };
        done_so_far += 1;
        let offset = place * load.request_bytes as u64;
        let began = Instant::now();
        let done = match load.operation {
            Operation::Read => client.read(offset, &mut into).await,
            Operation::Fua => {
                let bytes = shared.bytes.cut(load.request_bytes, &mut random);
                client.write(offset, bytes, Durability::Durable).await
            }
            Operation::WriteFlush => {
                let bytes = shared.bytes.cut(load.request_bytes, &mut random);
                match client.write(offset, bytes, Durability::Buffered).await {
                    Ok(()) => client.flush(FlushScope::Whole).await,
                    failed => failed,
                }
            }
        };
        if let Err(error) = done {
            shared.failure.borrow_mut().get_or_insert(error.to_string());
            break;
        }
        if shared.counted_from.get().is_some_and(|from| began >= from) && !shared.stops.get() {
            shared.operations.set(shared.operations.get() + 1);
            shared.latency_ns.borrow_mut().saturating_record(began.elapsed().as_nanos() as u64);
        }
    }
    shared.workers.set(shared.workers.get() - 1);
}

/// Writes all of the volume once, and flushes.
pub(crate) fn fill(socket: &Path, size_bytes: u64) -> Outcome {
    let event_loop = EventLoop::new(Backend::Auto).map_err(|error| format!("no event loop: {error}"))?;
    let env = event_loop.handle();
    let (bytes, mut random) = (Bytes::new(2), Random::new(3));
    event_loop.block_on(async {
        let client = connect(&env, socket).await?;
        write_all(&client, Extent::new(0, size_bytes), &bytes, &mut random, Durability::Buffered).await?;
        client.flush(FlushScope::Whole).await.map_err(|error| error.to_string())
    })
}

/// Reads all of the volume once.
pub(crate) fn read_all(socket: &Path, size_bytes: u64) -> Outcome {
    const PIECE_BYTES: u64 = 1 << 20;
    let event_loop = EventLoop::new(Backend::Auto).map_err(|error| format!("no event loop: {error}"))?;
    let env = event_loop.handle();
    event_loop.block_on(async {
        let client = connect(&env, socket).await?;
        let mut into = vec![0; PIECE_BYTES as usize];
        for at in (0..size_bytes).step_by(PIECE_BYTES as usize) {
            let len = PIECE_BYTES.min(size_bytes - at) as usize;
            client.read(at, &mut into[..len]).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    })
}

/// Writes `extent` in pieces of 1 MiB, 8 at a time.
pub(crate) async fn write_all(
    client: &Client<Stream>,
    extent: Extent,
    bytes: &Bytes,
    random: &mut Random,
    durability: Durability,
) -> Outcome {
    const PIECE_BYTES: u64 = 1 << 20;
    let mut at = extent.offset;
    while at < extent.end() {
        let mut under_way = Vec::new();
        while under_way.len() < 8 && at < extent.end() {
            let len = PIECE_BYTES.min(extent.end() - at);
            under_way.push(client.write(at, bytes.cut(len as usize, random), durability));
            at += len;
        }
        for write in under_way {
            write.await.map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}
