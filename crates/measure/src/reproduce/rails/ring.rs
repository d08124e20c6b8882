//! The testbed of rings: the engine's own ring over the paper's drives by model, and streams on it as fast as they can.
//!
//! 1. Only times are of interest: members keep their heads, and no other bytes.
//! 2. A write is accepted as soon as the cache has room for it, and leaves the cache when every drive has it; that cache is
//!    the 2 T w of the paper. Without turns there is none: a write ends when every drive has it.
//! 3. The same seed and load give the same times.

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

use super::super::{Halted, Settings};
use super::bed::{DEPTH, REQUEST_BYTES, SECOND_NS};
use super::drive::Drive;
use super::log::Log;

/// Streams of the log: reads, writes.
pub(super) const READS: [usize; 1] = [0];
pub(super) const WRITES: [usize; 1] = [1];

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
    /// What a drive writes in a second, roughly: the cache is twice that for a turn.
    pub(super) drive_bytes_per_s: u64,
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
    cache_bytes: u64,
    log: RefCell<Log>,
    /// Bytes that some member has not written yet.
    cached: Cell<u64>,
    /// Requests that are still to be sent, of each kind.
    left: [Cell<u64>; 2],
    under_way: Cell<u64>,
    /// When the next write comes, where they come at a rate.
    write_due_ns: Cell<u64>,
    stopped: Cell<bool>,
    bytes: Vec<u8>,
}

/// Lets a load run; answers what was done when.
pub(super) fn run(load: Load, settings: &Settings) -> Result<Log, Halted> {
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
) -> Result<Log, Halted> {
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
        cache_bytes: 2 * load.turn_s * load.drive_bytes_per_s,
        log: RefCell::new(Log::new(env.now_ns() + warm_ns, env.now_ns() + end_ns.min(1 << 60), 2)),
        cached: Cell::default(),
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
    while state.under_way.get() > 0 && env.now_ns() - began_ns < end_ns {
        env.sleep(SECOND_NS / 10).await;
    }
    state.stopped.set(true);
    let mut log = state.log.take();
    if let Until::Done { .. } = load.until {
        log.end_at(env.now_ns());
    }
    Ok(log)
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
                false => Rc::clone(&self).write(place * REQUEST_BYTES).await,
            }
            self.log.borrow_mut().add_later(usize::from(!is_read), began_ns, self.env.now_ns());
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

    async fn write(self: Rc<Self>, offset: u64) {
        if !matches!(self.load.policy, Policy::Turns) {
            self.ring.write(offset, &self.bytes, Durability::Buffered).await.expect("healthy drives");
            return;
        }
        while self.cached.get() + REQUEST_BYTES > self.cache_bytes {
            self.env.sleep(1_000_000).await;
        }
        self.cached.set(self.cached.get() + REQUEST_BYTES);
        self.ring.note_fill(self.cached.get() as f64 / self.cache_bytes as f64);
        let state = Rc::clone(&self);
        self.env.spawn(async move {
            state.ring.write(offset, &state.bytes, Durability::Buffered).await.expect("healthy drives");
            state.cached.set(state.cached.get() - REQUEST_BYTES);
        });
    }
}
