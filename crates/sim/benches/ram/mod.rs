//! Drives and an arena that are plain memory: what is timed or counted over them is the engine.

#![allow(dead_code, unreachable_pub, missing_docs)] // Each user takes its own part of this.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use evenkeel_engine::device::{Device, Drive, Durability, Extent, FlushScope, Geometry};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::DeviceError;
use evenkeel_engine::format::layout::Layout;
use evenkeel_engine::options::{CreateOptions, OpenOptions};
use evenkeel_engine::salvage::MemoryArena;
use evenkeel_engine::volume::{Volume, create};
use evenkeel_sim::executor::{Executor, SimEnv};
use evenkeel_sim::random::Random;

pub const PAGE: u64 = 4096;
pub const MIB: u64 = 1 << 20;

pub type Memory = Rc<RefCell<Vec<u8>>>;
pub type RamVolume = Volume<SimEnv, MemoryArena, RamDrive, RamDrive>;

/// A drive in memory. It takes virtual time, so that writers meet in a commit, and no other but for a copy.
pub struct RamDrive {
    pub env: SimEnv,
    pub bytes: Memory,
    pub durable_ns: u64,
    /// Writes never end: a home device too slow for any checkpoint.
    pub stalled: Cell<bool>,
    /// Time of its copies.
    pub busy: Rc<Cell<Duration>>,
    pub first_write: Cell<Option<Instant>>,
    /// What the system has of it in memory, right or wrong; nothing unless a story puts something there.
    pub cached: RefCell<Option<Vec<u8>>>,
    /// What it was told of that the system need not keep.
    pub given_up: RefCell<Vec<Extent>>,
}

impl Device for RamDrive {
    fn geometry(&self) -> Geometry {
        let size_bytes = self.bytes.borrow().len() as u64;
        Geometry { size_bytes, sector_bytes: 512, atomic_sectors: true }
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        into.copy_from_slice(&self.bytes.borrow()[offset as usize..offset as usize + into.len()]);
        Ok(())
    }

    async fn read_cached(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let found = self.try_read_cached(offset, into);
        if found < into.len() { self.read(offset, into).await } else { Ok(()) }
    }

    fn try_read_cached(&self, offset: u64, into: &mut [u8]) -> usize {
        let cached = self.cached.borrow();
        let Some(bytes) = &*cached else { return 0 };
        into.copy_from_slice(&bytes[offset as usize..offset as usize + into.len()]);
        into.len()
    }

    fn give_up_kept(&self, extent: Extent) {
        self.given_up.borrow_mut().push(extent);
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), DeviceError> {
        if self.stalled.get() {
            return std::future::pending().await;
        }
        if self.first_write.get().is_none() {
            self.first_write.set(Some(Instant::now()));
        }
        let began = Instant::now();
        self.bytes.borrow_mut()[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
        self.busy.set(self.busy.get() + began.elapsed());
        if durability == Durability::Durable {
            self.env.sleep(self.durable_ns).await;
        }
        Ok(())
    }

    async fn flush(&self, _: FlushScope<'_>) -> Result<(), DeviceError> {
        self.env.sleep(self.durable_ns).await;
        Ok(())
    }

    async fn discard(&self, _: Extent) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl Drive for RamDrive {}

/// A volume in memory with a log of its own.
pub struct Testbed {
    pub create: CreateOptions,
    pub open: OpenOptions,
    pub arena_bytes: usize,
    pub durable_ns: u64,
    /// Time of the copies of all its drives.
    pub busy: Rc<Cell<Duration>>,
    pub home: Memory,
    pub log: Memory,
}

/// What a section works with.
pub struct Opened {
    pub env: SimEnv,
    pub volume: RamVolume,
    pub home: Rc<RamDrive>,
    pub open_time: Duration,
    /// Until the first byte was written: the log is read and every page of it whole.
    pub replay_time: Duration,
}

impl Testbed {
    pub fn new(size_bytes: u64, log_bytes: u64, open: OpenOptions, arena_bytes: usize) -> Self {
        let create = CreateOptions { size_bytes, log_bytes, atomic_max_bytes: 16384 };
        let home_bytes = Layout::home_bytes_for(size_bytes / PAGE, log_bytes, true);
        let memory = |len: u64| Rc::new(RefCell::new(vec![0; len as usize]));
        let (home, log) = (memory(home_bytes), memory(log_bytes + 2 * PAGE));
        let testbed = Self { create, open, arena_bytes, durable_ns: 1000, busy: Rc::default(), home, log };
        let mut executor = Executor::new(1);
        let (home, log) = testbed.drives(&executor.env());
        let made = executor.block_on(async { create_on(&home, &log, testbed.create).await });
        made.expect("it goes on");
        testbed
    }

    pub fn drives(&self, env: &SimEnv) -> (Rc<RamDrive>, Rc<RamDrive>) {
        let drive = |bytes: &Memory| {
            let (bytes, env) = (Rc::clone(bytes), env.clone());
            let (durable_ns, busy) = (self.durable_ns, Rc::clone(&self.busy));
            Rc::new(RamDrive {
                env,
                bytes,
                durable_ns,
                stalled: Cell::default(),
                busy,
                first_write: Cell::default(),
                cached: RefCell::default(),
                given_up: RefCell::default(),
            })
        };
        (drive(&self.home), drive(&self.log))
    }

    /// Opens the volume with an empty arena and runs `story` on it.
    pub fn run<T, F: Future<Output = T>>(&self, story: impl FnOnce(Opened) -> F) -> T {
        let mut executor = Executor::new(2);
        let env = executor.env();
        let (home, log) = self.drives(&env);
        let arena = MemoryArena::empty(self.arena_bytes);
        let ended = executor.block_on(async {
            let began = Instant::now();
            let volume = Volume::open(env.clone(), arena, Rc::clone(&home), log, true, self.open)
                .await
                .expect("it opens");
            let open_time = began.elapsed();
            let replay_time = home.first_write.get().expect("an epoch began") - began;
            story(Opened { env, volume, home, open_time, replay_time }).await
        });
        ended.expect("it goes on")
    }
}

async fn create_on(home: &RamDrive, log: &RamDrive, options: CreateOptions) {
    create(home, log, true, options, 77).await.expect("it fits");
}

/// Bytes that never come twice at one place: a slice of noise from anywhere in it.
pub struct Noise {
    pub bytes: Rc<Vec<u8>>,
    pub random: Random,
}

impl Noise {
    pub fn new(seed: u64) -> Self {
        let mut bytes = vec![0; 4 << 20];
        Random::new(seed).fill(&mut bytes);
        Self { bytes: Rc::new(bytes), random: Random::new(seed + 1) }
    }

    pub fn fork(&mut self) -> Self {
        Self { bytes: Rc::clone(&self.bytes), random: self.random.fork() }
    }

    pub fn slice(&mut self, len: usize) -> &[u8] {
        let at = self.random.index(self.bytes.len() - len);
        &self.bytes[at..at + len]
    }
}
