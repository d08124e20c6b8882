//! What the engine's stories share: a machine with its drives and its arena, run after run, over any testbed.
//!
//! What is special about the machines of a layout is in [`single`], which is here too, and [`mirror`].
#![allow(dead_code, unreachable_pub, unused_imports)] // Each story file uses its own part of this.

pub mod mirror;
mod single;

use std::cell::RefCell;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use evenkeel_engine::device::{Durability, Extent, Geometry};
use evenkeel_engine::env::Arena;
use evenkeel_engine::error::Error;
use evenkeel_engine::options::{CreateOptions, OpenOptions};
use evenkeel_sim::arena::{ArenaBytes, SimArena};
use evenkeel_sim::cuts::{CutKind, CutPlan, Cuts};
use evenkeel_sim::drive::{DriveOptions, SimDrive};
use evenkeel_sim::executor::{Executor, Halt, SimEnv};
use evenkeel_sim::faults::Faults;
use evenkeel_sim::image::{Image, Payload, SharedImage};
use evenkeel_sim::latency::Latency;
use evenkeel_sim::random::Random;
use evenkeel_sim::testbed::{Kind, Testbed, VolumeOn};

pub use single::{Machine, Plan, Run, SimVolume, read};

pub const PAGE: u64 = 4096;

/// No cut.
pub const WHOLE_RUN: CutPlan = CutPlan { at_event: None, kind: CutKind::PowerCut };

/// What a machine is made of.
#[derive(Debug, Clone, Copy)]
pub struct PlanOn<T> {
    pub testbed: T,
    pub sector_bytes: u32,
    pub atomic_sectors: bool,
    pub create: CreateOptions,
    pub open: OpenOptions,
    pub arena_bytes: usize,
    /// Pages that the first drives have more than they need.
    pub extra_pages: [u64; 3],
    /// How long drives take in runs.
    pub latency: Latency,
}

impl<T> PlanOn<T> {
    /// A small volume of `pages` pages.
    pub fn of_pages_on(testbed: T, pages: u64) -> Self {
        Self {
            testbed,
            sector_bytes: 512,
            atomic_sectors: true,
            create: CreateOptions { size_bytes: pages * PAGE, log_bytes: 256 << 10, atomic_max_bytes: 16384 },
            open: OpenOptions::default(),
            arena_bytes: 256 << 10,
            extra_pages: [0; 3],
            latency: Latency::default(),
        }
    }
}

impl<T> Deref for PlanOn<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.testbed
    }
}

impl<T> DerefMut for PlanOn<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.testbed
    }
}

/// A layout whose drives have names.
pub trait Layout: Testbed {
    /// The drives between two runs.
    type Disks: Disks;
    /// The drives in a run.
    type Drives;
    /// An open volume, and what tells of its drives.
    type Volume;

    fn disks(&self, images: Vec<SharedImage>) -> Self::Disks;
    fn named(&self, drives: &[SimDrive]) -> Self::Drives;
    fn volume(&self, volume: VolumeOn<Self>, opened: Self::Opened) -> Self::Volume;
    fn of(volume: &Self::Volume) -> &VolumeOn<Self>;
}

/// The drives of a machine between two runs.
pub trait Disks {
    fn images(&self) -> Vec<SharedImage>;

    /// What a drive does wrong in the next runs; `None` if it is not there.
    fn faults(&self, _number: usize) -> Option<Faults> {
        Some(Faults::default())
    }
}

/// What outlives a run.
pub struct MachineOn<L: Layout> {
    pub plan: PlanOn<L>,
    disks: L::Disks,
    pub arena: ArenaBytes,
    pub random: Random,
}

impl<L: Layout> Deref for MachineOn<L> {
    type Target = L::Disks;

    fn deref(&self) -> &L::Disks {
        &self.disks
    }
}

impl<L: Layout> DerefMut for MachineOn<L> {
    fn deref_mut(&mut self) -> &mut L::Disks {
        &mut self.disks
    }
}

/// What a story has at hand.
pub struct RunOn<L: Layout> {
    pub env: SimEnv,
    named: L::Drives,
    drives: Vec<Option<SimDrive>>,
    cuts: Cuts,
    arena: RefCell<Option<SimArena>>,
    plan: PlanOn<L>,
}

impl<L: Layout> Deref for RunOn<L> {
    type Target = L::Drives;

    fn deref(&self) -> &L::Drives {
        &self.named
    }
}

impl<L: Layout> RunOn<L> {
    /// Opens the volume, once a run.
    pub async fn open(&self) -> Result<L::Volume, Error> {
        let arena = self.arena.take().expect("a run opens its volume once");
        let (env, drives, options) = (self.env.clone(), self.drives.clone(), self.plan.open);
        let (volume, opened) = self.plan.testbed.open(env, arena, drives, options).await?;
        Ok(self.plan.volume(volume, opened))
    }

    /// Another drive, over this image.
    pub fn another(&self, image: &SharedImage) -> SimDrive {
        SimDrive::open(Rc::clone(image), self.env.clone(), self.cuts.clone(), DriveOptions::default())
    }
}

impl<L: Layout> MachineOn<L> {
    /// A machine with a new volume on it.
    pub fn new(plan: PlanOn<L>, seed: u64) -> Self {
        let PlanOn { testbed, create, sector_bytes, atomic_sectors, .. } = plan;
        let image = |(number, (_, bytes)): (usize, (Kind, u64))| {
            let size_bytes = bytes + plan.extra_pages.get(number).unwrap_or(&0) * PAGE;
            Image::shared(Geometry { size_bytes, sector_bytes, atomic_sectors })
        };
        let images = testbed.drives(&create).into_iter().enumerate().map(image);
        let (arena, random) = (ArenaBytes::new(plan.arena_bytes), Random::new(seed));
        let mut machine = Self { plan, disks: plan.disks(images.collect()), arena, random };
        machine
            .run_whole(async |run| {
                testbed.create(run.env.clone(), run.drives.clone(), create, seed | 1).await
            })
            .expect("the volume fits");
        machine.power_cut();
        machine
    }

    /// One run, up to the end of `story` or the cut. How it ended, and the events in it.
    pub fn run<T, F: Future<Output = T>>(
        &mut self,
        cut: CutPlan,
        story: impl FnOnce(RunOn<L>) -> F,
    ) -> (Result<T, Halt>, u64) {
        let mut executor = Executor::new(self.random.number());
        executor.limit_polls(10_000_000);
        let cuts = Cuts::new(cut, executor.stop());
        let (env, plan) = (executor.env(), self.plan);
        let (mut all, mut drives) = (Vec::new(), Vec::new());
        for (number, image) in self.images().into_iter().enumerate() {
            let (seed, faults) = (self.random.number(), self.faults(number));
            let is_there = faults.is_some();
            let (faults, latency) = (faults.unwrap_or_default(), plan.latency);
            let options = DriveOptions { seed, faults, latency, ..DriveOptions::default() };
            let drive = SimDrive::open(image, env.clone(), cuts.clone(), options);
            drives.push(is_there.then(|| drive.clone()));
            all.push(drive);
        }
        let arena = SimArena::open(self.arena.clone(), env.clone(), cuts.clone(), self.random.number());
        let (named, arena) = (plan.named(&all), RefCell::new(Some(arena)));
        let run = RunOn { env, named, drives, cuts: cuts.clone(), arena, plan };
        let ended = executor.block_on(story(run));
        (ended, cuts.events_so_far())
    }

    /// As [`Self::run`], to the end.
    pub fn run_whole<T, F: Future<Output = T>>(&mut self, story: impl FnOnce(RunOn<L>) -> F) -> T {
        self.run(WHOLE_RUN, story).0.expect("nothing cuts it")
    }

    /// What the volume holds, opened anew.
    pub fn contents(&mut self) -> Vec<u8> {
        let size_bytes = self.plan.create.size_bytes as usize;
        self.run_whole(async |run| {
            let opened = run.open().await.expect("it opens");
            let mut found = vec![0; size_bytes];
            L::of(&opened).read(0, &mut found).await.expect("it can be read");
            found
        })
    }

    /// Why it does not open.
    pub fn refusal(&mut self) -> String {
        match self.run_whole(async |run| run.open().await.err()) {
            Some(Error::Unusable(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    /// The power fails.
    pub fn power_cut(&mut self) {
        self.images().iter().for_each(|image| image.borrow_mut().power_cut(&mut self.random));
        self.arena.clear();
    }

    /// The process is killed.
    pub fn kill(&mut self) {
        self.images().iter().for_each(|image| image.borrow_mut().kill(&mut self.random));
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
        let disks = self.plan.disks(self.images().iter().map(copy).collect());
        Self { plan: self.plan, disks, arena, random: Random::new(seed) }
    }
}

/// Bytes that nobody expects.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Random::new(seed).fill(&mut bytes);
    bytes
}

/// A volume of noise, all of it home, as bytes beside it.
pub fn filled<L: Layout>(plan: PlanOn<L>, seed: u64) -> (MachineOn<L>, Vec<u8>) {
    let mut machine = MachineOn::new(plan, seed);
    let bytes = noise(seed ^ 0xF1, plan.create.size_bytes as usize);
    machine.run_whole(async |run| {
        let opened = run.open().await.unwrap();
        let volume = L::of(&opened).clone();
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
