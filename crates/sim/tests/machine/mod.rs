//! What the engine's stories share: a machine with its drives and its arena, life after life.
#![allow(dead_code, unreachable_pub)] // Each story file uses its own part of this.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_engine::device::{Durability, Extent, Geometry};
use evenkeel_engine::env::Arena;
use evenkeel_engine::error::Error;
use evenkeel_engine::format::layout::Layout;
use evenkeel_engine::options::{CreateOptions, Journaling, OpenOptions};
use evenkeel_engine::volume::{Volume, create};
use evenkeel_sim::arena::{ArenaBytes, SimArena};
use evenkeel_sim::cuts::{CutKind, CutPlan, Cuts};
use evenkeel_sim::drive::{DriveOptions, SimDrive};
use evenkeel_sim::executor::{Executor, Halt, SimEnv};
use evenkeel_sim::image::{Image, Payload, SharedImage};
use evenkeel_sim::random::Random;

pub const PAGE: u64 = 4096;

/// No cut.
pub const WHOLE_LIFE: CutPlan = CutPlan { at_event: None, kind: CutKind::PowerCut };

pub type SimVolume = Volume<SimEnv, SimArena, SimDrive, SimDrive>;

/// What a machine is made of.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub separate_log: bool,
    pub sector_bytes: u32,
    pub atomic_sectors: bool,
    pub create: CreateOptions,
    pub open: OpenOptions,
    pub arena_bytes: usize,
}

impl Plan {
    /// A small volume of `pages` pages with a log of its own.
    pub fn of_pages(pages: u64) -> Self {
        Self {
            separate_log: true,
            sector_bytes: 512,
            atomic_sectors: true,
            create: CreateOptions { size_bytes: pages * PAGE, log_bytes: 256 << 10, atomic_max_bytes: 16384 },
            open: OpenOptions::default(),
            arena_bytes: 256 << 10,
        }
    }

    /// The same volume in every way that the promises must not depend on.
    pub fn every_kind(pages: u64) -> Vec<Self> {
        let mut plans = Vec::new();
        let journalings = [
            Journaling::Wasteless,
            Journaling::Selective { threshold_bytes: 16384 },
            Journaling::WholePages,
            Journaling::Ordered,
        ];
        for journaling in journalings {
            for (separate_log, sector_bytes) in [(true, 512), (false, 4096)] {
                for (atomic_sectors, log_bytes) in [(true, 256 << 10), (false, 1 << 20)] {
                    let mut plan = Self::of_pages(pages);
                    plan.separate_log = separate_log;
                    plan.sector_bytes = sector_bytes;
                    plan.atomic_sectors = atomic_sectors;
                    plan.create.log_bytes = log_bytes;
                    plan.open.journaling = journaling;
                    plan.open.cached_pages_max = 4;
                    plans.push(plan);
                }
            }
        }
        plans
    }

    /// Where the zones lie.
    pub fn layout(&self) -> Layout {
        let CreateOptions { size_bytes, log_bytes, .. } = self.create;
        Layout::plan(size_bytes / PAGE, self.home_bytes(), log_bytes, self.separate_log).expect("it fits")
    }

    fn home_bytes(&self) -> u64 {
        Layout::home_bytes_for(self.create.size_bytes / PAGE, self.create.log_bytes, self.separate_log)
    }

    fn geometry(&self, size_bytes: u64) -> Geometry {
        let Self { sector_bytes, atomic_sectors, .. } = *self;
        Geometry { size_bytes, sector_bytes, atomic_sectors }
    }
}

/// What outlives a life.
pub struct Machine {
    pub plan: Plan,
    pub home: SharedImage,
    pub log: SharedImage,
    pub arena: ArenaBytes,
    random: Random,
}

/// What a story has at hand.
pub struct Life {
    pub env: SimEnv,
    pub home: Rc<SimDrive>,
    pub log: Rc<SimDrive>,
    arena: RefCell<Option<SimArena>>,
    plan: Plan,
}

impl Life {
    /// Opens the volume, once a life.
    pub async fn open(&self) -> Result<SimVolume, Error> {
        let arena = self.arena.take().expect("a life opens its volume once");
        let (home, log) = (Rc::clone(&self.home), Rc::clone(&self.log));
        Volume::open(self.env.clone(), arena, home, log, self.plan.separate_log, self.plan.open).await
    }
}

impl Machine {
    /// A machine with a new volume on it.
    pub fn new(plan: Plan, seed: u64) -> Self {
        let log_device_bytes = plan.create.log_bytes.next_multiple_of(PAGE) + 2 * PAGE;
        let mut machine = Self {
            plan,
            home: Image::shared(plan.geometry(plan.home_bytes())),
            log: Image::shared(plan.geometry(log_device_bytes)),
            arena: ArenaBytes::new(plan.arena_bytes),
            random: Random::new(seed),
        };
        let made = machine.live(WHOLE_LIFE, async |life| {
            create(&*life.home, &*life.log, plan.separate_log, plan.create, seed | 1).await
        });
        made.0.expect("no cut").expect("the volume fits");
        machine.power_cut();
        machine
    }

    /// One life, up to the end of `story` or the cut. How it ended, and the events in it.
    pub fn live<T, F: Future<Output = T>>(
        &mut self,
        cut: CutPlan,
        story: impl FnOnce(Life) -> F,
    ) -> (Result<T, Halt>, u64) {
        let mut executor = Executor::new(self.random.number());
        executor.limit_polls(1_000_000);
        let cuts = Cuts::new(cut, executor.stop());
        let env = executor.env();
        let mut drive = |image: &SharedImage| {
            let options = DriveOptions { seed: self.random.number(), ..DriveOptions::default() };
            Rc::new(SimDrive::open(Rc::clone(image), env.clone(), cuts.clone(), options))
        };
        let home = drive(&self.home);
        let log = if self.plan.separate_log { drive(&self.log) } else { Rc::clone(&home) };
        let arena = SimArena::open(self.arena.clone(), env.clone(), cuts.clone(), self.random.number());
        let life = Life { env, home, log, arena: RefCell::new(Some(arena)), plan: self.plan };
        let ended = executor.block_on(story(life));
        (ended, cuts.events_so_far())
    }

    /// As [`Self::live`], to the end.
    pub fn live_whole<T, F: Future<Output = T>>(&mut self, story: impl FnOnce(Life) -> F) -> T {
        self.live(WHOLE_LIFE, story).0.expect("nothing cuts it")
    }

    /// What the volume holds, opened anew.
    pub fn contents(&mut self) -> Vec<u8> {
        let size_bytes = self.plan.create.size_bytes as usize;
        self.live_whole(async |life| {
            let volume = life.open().await.expect("it opens");
            let mut found = vec![0; size_bytes];
            volume.read(0, &mut found).await.expect("it can be read");
            found
        })
    }

    /// The power fails.
    pub fn power_cut(&mut self) {
        self.home.borrow_mut().power_cut(&mut self.random);
        self.log.borrow_mut().power_cut(&mut self.random);
        self.arena.clear();
    }

    /// The process is killed.
    pub fn kill(&mut self) {
        self.home.borrow_mut().kill(&mut self.random);
        self.log.borrow_mut().kill(&mut self.random);
    }

    /// What `kind` stands for.
    pub fn strike(&mut self, kind: CutKind) {
        match kind {
            CutKind::PowerCut => self.power_cut(),
            CutKind::Kill => self.kill(),
        }
    }

    /// Another machine in the same state, with chance of its own.
    pub fn fork(&self, seed: u64) -> Self {
        let copy = |image: &SharedImage| Rc::new(RefCell::new(image.borrow().clone()));
        let arena = ArenaBytes::new(self.plan.arena_bytes);
        let executor = Executor::new(0);
        let cuts = Cuts::none(executor.stop());
        SimArena::open(arena.clone(), executor.env(), cuts, 0).store(0, &self.arena.to_vec());
        let (home, log) = (copy(&self.home), copy(&self.log));
        Self { plan: self.plan, home, log, arena, random: Random::new(seed) }
    }
}

/// Bytes that nobody expects.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Random::new(seed).fill(&mut bytes);
    bytes
}

/// A volume of noise, all of it home, as bytes beside it.
pub fn filled(plan: Plan, seed: u64) -> (Machine, Vec<u8>) {
    let mut machine = Machine::new(plan, seed);
    let bytes = noise(seed ^ 0xF1, plan.create.size_bytes as usize);
    machine.live_whole(async |life| {
        let volume = life.open().await.unwrap();
        volume.write(0, &bytes, Durability::Buffered).await.unwrap();
        volume.close().await.unwrap();
    });
    machine.power_cut();
    (machine, bytes)
}

/// Overwrites bytes of the medium.
pub fn overwrite(image: &SharedImage, offset: u64, change: impl FnOnce(&mut [u8]), len: u64) {
    let mut image = image.borrow_mut();
    let Geometry { size_bytes, sector_bytes, .. } = image.geometry();
    let sector = u64::from(sector_bytes);
    let (first, end) = (offset / sector * sector, (offset + len).next_multiple_of(sector).min(size_bytes));
    let mut bytes = vec![0; (end - first) as usize];
    image.read_durable(first, &mut bytes);
    let within = (len.min(size_bytes - offset)) as usize;
    change(&mut bytes[(offset - first) as usize..][..within]);
    let extent = Extent::new(first, bytes.len() as u64);
    let write = image.begin_write(extent, Payload::Bytes(bytes.into()), Durability::Durable);
    image.complete_write(write);
}

/// Puts `part` at `offset`.
pub fn patch(bytes: &mut [u8], offset: u64, part: &[u8]) {
    bytes[offset as usize..offset as usize + part.len()].copy_from_slice(part);
}

/// What is there.
pub async fn read(volume: &SimVolume, offset: u64, len: usize) -> Result<Vec<u8>, Error> {
    let mut found = vec![0; len];
    volume.read(offset, &mut found).await.map(|()| found)
}
