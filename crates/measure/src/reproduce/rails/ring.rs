//! The testbed of rings: the engine's own ring over the paper's drives by model, and streams on it as fast as they can.
//!
//! 1. Only times are of interest: members keep their heads, and no other bytes.
//! 2. A write is accepted as soon as the cache has room for it, and leaves the cache when every drive has it: then it is home.
//!    Without turns there is no cache: a write is accepted when it is home.
//! 3. A run in which less was accepted than the cache holds shows the cache and not the drives: it bears no claim out
//!    ([`Ran::judged`]).
//! 4. The same seed and load give the same times.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_engine::device::{self, Device, Durability, Extent, FlushScope, Geometry};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::DeviceError;
use evenkeel_engine::format::ring_head::DATA_OFFSET;
use evenkeel_engine::layout::mirror::MirrorPages;
use evenkeel_engine::layout::{PageStore, Remembered};
use evenkeel_engine::ring::{Policy, RingOptions, WindowOptions};
use evenkeel_sim::cuts::Cuts;
use evenkeel_sim::executor::{Executor, SimEnv};
use evenkeel_sim::model::device::{ModelDevice, SharedStorage};
use evenkeel_sim::random::Random;

use super::super::{Claim, Halted, Settings};
use super::bed::{DEPTH, REQUEST_BYTES, SECOND_NS};
use super::drive::Drive;
use super::log::Log;

/// Streams of the log: reads; writes when they were accepted, and when every drive had them.
pub(super) const READS: [usize; 1] = [0];
pub(super) const ACCEPTED: [usize; 1] = [1];
pub(super) const HOME: [usize; 1] = [2];
const STREAMS: usize = 3;

/// How long the streams run before figures are taken.
const WARM_TURNS: u64 = 4;

/// What runs on a ring.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) drive: Drive,
    pub(super) members: usize,
    pub(super) policy: Policy,
    /// Members that read.
    pub(super) readers: usize,
    /// How long a turn is.
    pub(super) turn_s: u64,
    /// For how long a drive must have been quick before it is read again, in ms.
    pub(super) rest_ms: u64,
    /// Of the drive, in the paper's gigabytes, what requests lie in.
    pub(super) gigabytes: u64,
    /// Bytes of the cache.
    pub(super) cache_bytes: u64,
    /// Writes that come in a second, whether those before them were accepted or not; `None` for as many as are accepted.
    pub(super) writes_per_s: Option<f64>,
    pub(super) until: Until,
}

/// When it ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    /// After so many seconds in which figures are taken.
    Seconds(u64),
    /// When so many reads and so many writes are done.
    Done { reads: u64, writes: u64 },
}

/// What came of a load.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) log: Log,
    /// Bytes of the cache; none where there are no turns.
    cache_bytes: Option<u64>,
    /// Bytes of writes that were accepted, from the first on.
    accepted_bytes: u64,
    /// What the cache held at most and on average, while figures were taken.
    pub(super) cached_bytes_max: u64,
    pub(super) cached_bytes_mean: f64,
}

impl Ran {
    /// How often the cache was filled by what was accepted; no end of times where there is no cache.
    pub(super) fn cache_fills(&self) -> f64 {
        self.cache_bytes.map_or(f64::INFINITY, |bytes| self.accepted_bytes as f64 / bytes as f64)
    }

    /// The claim, which cannot hold if the run is shorter than the cache takes to fill.
    pub(super) fn judged(&self, claim: Claim) -> Claim {
        match self.cache_fills() >= 1.0 {
            true => claim,
            false => claim.never("less was written than the cache in front of the drives holds"),
        }
    }
}

/// A member of which only the times count.
struct Timed {
    device: ModelDevice,
    heads: RefCell<Vec<u8>>,
}

impl Device for Timed {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.device.read(offset, into).await?;
        if let Some(head) = self.heads.borrow().get(offset as usize..offset as usize + into.len()) {
            into.copy_from_slice(head);
        }
        Ok(())
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), DeviceError> {
        if let Some(head) = self.heads.borrow_mut().get_mut(offset as usize..offset as usize + bytes.len()) {
            head.copy_from_slice(bytes);
        }
        self.device.write(offset, bytes, durability).await
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), DeviceError> {
        self.device.flush(scope).await
    }

    async fn discard(&self, extent: Extent) -> Result<(), DeviceError> {
        self.device.discard(extent).await
    }
}

impl device::Drive for Timed {}

/// What the streams share.
struct State {
    ring: MirrorPages<SimEnv, Timed>,
    env: SimEnv,
    load: Load,
    range_bytes: u64,
    log: RefCell<Log>,
    /// Bytes that some member has not written yet.
    cached: Cell<u64>,
    accepted_bytes: Cell<u64>,
    /// Requests that are still to be sent, of each kind.
    left: [Cell<u64>; 2],
    under_way: Cell<u64>,
    /// When the next write comes, where they come at a rate.
    write_due_ns: Cell<u64>,
    stopped: Cell<bool>,
    bytes: Vec<u8>,
}

/// Lets a load run; answers what was done when.
pub(super) fn run(load: Load, settings: &Settings) -> Result<Ran, Halted> {
    let mut executor = Executor::new(settings.seed);
    let env = executor.env();
    let range_bytes = load.drive.scaled(load.gigabytes, settings);
    let models: Vec<SharedStorage> = (0..load.members as u64)
        .map(|member| {
            let settings = Settings { seed: settings.seed + member, ..*settings };
            let model: SharedStorage = Rc::new(RefCell::new(load.drive.overwritten(range_bytes, &settings)));
            model
        })
        .collect();
    let told = executor.block_on(async { streams(&env, &models, load, range_bytes, settings.seed).await });
    told.map_err(|halt| Halted::Unavailable(format!("the run cannot go on: {halt}")))?
}

async fn streams(
    env: &SimEnv,
    models: &[SharedStorage],
    load: Load,
    range_bytes: u64,
    seed: u64,
) -> Result<Ran, Halted> {
    let unavailable = |error: &dyn std::fmt::Display| Halted::Unavailable(error.to_string());
    let member = |model: &SharedStorage| {
        let device = ModelDevice::open(Rc::clone(model), env.clone(), Cuts::none(env.stop()));
        Some(Timed { device, heads: RefCell::new(vec![0; DATA_OFFSET as usize]) })
    };
    let options = RingOptions {
        policy: load.policy,
        turn_ns: load.turn_s * SECOND_NS,
        rest_ns: load.rest_ms * 1_000_000,
        rest_max_ns: 3 * load.turn_s * SECOND_NS,
        window: WindowOptions { fixed: Some(load.readers), ..WindowOptions::default() },
        ..RingOptions::default()
    };
    let ring = MirrorPages::new(env.clone(), models.iter().map(member).collect(), options);
    let ring = ring.map_err(|error| unavailable(&error))?;
    ring.init(1).await.map_err(|error| unavailable(&error))?;
    let state = ring.state();
    let remembered = Remembered { volume: 1, state, superblock: 0, home_bytes: ring.geometry().size_bytes };
    ring.resume(remembered, 1).await.map_err(|error| unavailable(&error))?;
    let left = match load.until {
        Until::Seconds(_) => [u64::MAX; 2],
        Until::Done { reads, writes } => [reads, writes],
    };
    let warm_ns = match load.until {
        Until::Seconds(_) => WARM_TURNS * load.turn_s * SECOND_NS,
        Until::Done { .. } => 0,
    };
    let end_ns = match load.until {
        Until::Seconds(seconds) => warm_ns + seconds * SECOND_NS,
        Until::Done { .. } => u64::MAX,
    };
    let state = Rc::new(State {
        ring,
        env: env.clone(),
        load,
        range_bytes,
        log: RefCell::new(Log::new(env.now_ns() + warm_ns, env.now_ns() + end_ns.min(1 << 60), STREAMS)),
        cached: Cell::default(),
        accepted_bytes: Cell::default(),
        left: left.map(Cell::new),
        under_way: Cell::default(),
        write_due_ns: Cell::new(env.now_ns()),
        stopped: Cell::default(),
        bytes: vec![0; REQUEST_BYTES as usize],
    });
    let mut random = Random::new(seed);
    // Two streams of each kind, in order and at random, share the depth.
    for number in 0..DEPTH as u64 {
        let (state, random) = (Rc::clone(&state), random.fork());
        state.under_way.set(state.under_way.get() + 1);
        env.spawn(async move { state.stream(number, random).await });
    }
    let began_ns = env.now_ns();
    let (mut cached_max, mut cached_sum, mut looks) = (0, 0, 0);
    let is_done = || match load.until {
        Until::Seconds(_) => env.now_ns() - began_ns >= end_ns,
        Until::Done { .. } => state.under_way.get() == 0 && state.cached.get() == 0,
    };
    while !is_done() {
        env.sleep(SECOND_NS / 10).await;
        if env.now_ns() - began_ns > warm_ns {
            cached_max = state.cached.get().max(cached_max);
            cached_sum += state.cached.get();
            looks += 1;
        }
    }
    state.stopped.set(true);
    let mut log = state.log.take();
    if let Until::Done { .. } = load.until {
        log.end_at(env.now_ns());
    }
    Ok(Ran {
        log,
        cache_bytes: matches!(load.policy, Policy::Turns).then_some(load.cache_bytes),
        accepted_bytes: state.accepted_bytes.get(),
        cached_bytes_max: cached_max,
        cached_bytes_mean: cached_sum as f64 / f64::from(looks.max(1)),
    })
}

impl State {
    /// One request after another: of four streams, two read and two write, one of each in order and one at random.
    async fn stream(self: Rc<Self>, number: u64, mut random: Random) {
        let (is_read, in_order) = (number.is_multiple_of(2), (number / 2).is_multiple_of(2));
        let places = self.range_bytes / REQUEST_BYTES;
        let mut place = random.below(places);
        loop {
            let left = &self.left[usize::from(!is_read)];
            if left.get() == 0 || self.stopped.get() {
                break;
            }
            left.set(left.get() - 1);
            if !is_read && let Some(due_ns) = self.next_write_ns() {
                self.env.sleep(due_ns.saturating_sub(self.env.now_ns())).await;
            }
            place = if in_order { (place + 1) % places } else { random.below(places) };
            let began_ns = self.env.now_ns();
            match is_read {
                true => self.read(place * REQUEST_BYTES).await,
                false => Rc::clone(&self).write(place * REQUEST_BYTES, began_ns).await,
            }
            self.note(if is_read { READS } else { ACCEPTED }, began_ns);
        }
        self.under_way.set(self.under_way.get() - 1);
    }

    /// When the next write comes, where they come at a rate. One that finds every stream waiting is as late as they are.
    fn next_write_ns(&self) -> Option<u64> {
        let writes_per_s = self.load.writes_per_s?;
        let due_ns = self.write_due_ns.get();
        self.write_due_ns.set(due_ns + (SECOND_NS as f64 / writes_per_s) as u64);
        Some(due_ns)
    }

    async fn read(&self, offset: u64) {
        let mut into = vec![0; REQUEST_BYTES as usize];
        self.ring.read(offset, &mut into).await.expect("healthy drives");
    }

    fn note(&self, [stream]: [usize; 1], began_ns: u64) {
        self.log.borrow_mut().add_later(stream, began_ns, self.env.now_ns());
    }

    async fn write(self: Rc<Self>, offset: u64, began_ns: u64) {
        let accept = || self.accepted_bytes.set(self.accepted_bytes.get() + REQUEST_BYTES);
        if !matches!(self.load.policy, Policy::Turns) {
            self.ring.write(offset, &self.bytes, Durability::Buffered).await.expect("healthy drives");
            accept();
            self.note(HOME, began_ns);
            return;
        }
        let cache_bytes = self.load.cache_bytes;
        while self.cached.get() + REQUEST_BYTES > cache_bytes {
            self.env.sleep(1_000_000).await;
        }
        self.cached.set(self.cached.get() + REQUEST_BYTES);
        accept();
        self.ring.note_fill(self.cached.get() as f64 / cache_bytes as f64);
        let state = Rc::clone(&self);
        self.env.spawn(async move {
            state.ring.write(offset, &state.bytes, Durability::Buffered).await.expect("healthy drives");
            state.cached.set(state.cached.get() - REQUEST_BYTES);
            state.note(HOME, began_ns);
        });
    }
}
