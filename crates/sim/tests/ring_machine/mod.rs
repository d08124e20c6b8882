//! What the ring's stories share: a machine with several members and log devices, life after life.
#![allow(dead_code, unreachable_pub)] // Each story file uses its own part of this.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_engine::device::{Device, Durability, Extent, Geometry};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::format::layout::{Layout, log_bytes_with_superblocks};
use evenkeel_engine::format::{log_head, ring_head};
use evenkeel_engine::layout::mirror::MirrorJournal;
use evenkeel_engine::layout::mirror::MirrorPages;
use evenkeel_engine::options::{CreateOptions, OpenOptions};
use evenkeel_engine::ring::{RingOptions, Standing, WindowOptions};
use evenkeel_engine::volume::{Volume, create};
use evenkeel_sim::arena::{ArenaBytes, SimArena};
use evenkeel_sim::cuts::{CutKind, CutPlan, Cuts};
use evenkeel_sim::drive::{DriveOptions, SimDrive};
use evenkeel_sim::executor::{Executor, Halt, SimEnv};
use evenkeel_sim::faults::Faults;
use evenkeel_sim::image::{Image, SharedImage};
use evenkeel_sim::random::Random;

pub const PAGE: u64 = 4096;

/// No cut.
pub const WHOLE_LIFE: CutPlan = CutPlan { at_event: None, kind: CutKind::PowerCut };

pub type SimRing = MirrorPages<SimEnv, SimDrive>;
pub type SimLogs = MirrorJournal<SimEnv, SimDrive, SimDrive>;
pub type RingVolume = Volume<SimEnv, SimArena, SimRing, SimLogs>;

/// What a machine is made of.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub members: usize,
    pub logs: usize,
    pub create: CreateOptions,
    pub open: OpenOptions,
    pub ring: RingOptions,
    pub arena_bytes: usize,
    /// Pages that the members have more than they need.
    pub extra_pages: [u64; 3],
}

impl Plan {
    /// A small mirror.
    pub fn mirror(members: usize, logs: usize) -> Self {
        let ring = RingOptions {
            turn_ns: 5_000_000,
            rest_ns: 200_000,
            rest_max_ns: 5_000_000,
            depth_max: 4,
            answer_max_ns: 1_000_000_000,
            rebuild_bytes_per_s: 1 << 40,
            window: WindowOptions::default(),
            ..RingOptions::default()
        };
        Self {
            members,
            logs,
            create: CreateOptions { size_bytes: 64 * PAGE, log_bytes: 256 << 10, atomic_max_bytes: 16384 },
            open: OpenOptions { cached_pages_max: 16, ..OpenOptions::default() },
            ring,
            arena_bytes: 256 << 10,
            extra_pages: [0; 3],
        }
    }

    /// The same with its log on the members.
    pub fn with_log_on_members(members: usize) -> Self {
        let mut plan = Self::mirror(members, 0);
        plan.ring.log_bytes = log_bytes_with_superblocks(plan.create.log_bytes);
        plan
    }

    /// Where on a member its pages begin.
    pub fn data_offset(&self) -> u64 {
        ring_head::DATA_OFFSET + self.ring.log_bytes
    }
}

/// What outlives a life.
pub struct Machine {
    pub plan: Plan,
    pub members: Vec<SharedImage>,
    pub logs: Vec<SharedImage>,
    pub arena: ArenaBytes,
    pub random: Random,
    /// Which are not there in the next lives.
    pub members_gone: Vec<usize>,
    pub logs_gone: Vec<usize>,
    /// What members do wrong in the next lives.
    pub member_faults: Vec<Faults>,
    pub log_faults: Vec<Faults>,
}

/// What a story has at hand.
pub struct Life {
    pub env: SimEnv,
    pub members: Vec<SimDrive>,
    pub logs: Vec<SimDrive>,
    cuts: Cuts,
    arena: RefCell<Option<SimArena>>,
    plan: Plan,
    members_gone: Vec<usize>,
    logs_gone: Vec<usize>,
}

impl Life {
    pub fn ring(&self) -> SimRing {
        let member = |(place, drive): (usize, &SimDrive)| {
            Some(drive.clone()).filter(|_| !self.members_gone.contains(&place))
        };
        let members = self.members.iter().enumerate().map(member).collect();
        MirrorPages::new(self.env.clone(), members, self.plan.ring).expect("there are members")
    }

    /// Another drive, over this image.
    pub fn another(&self, image: &SharedImage) -> SimDrive {
        SimDrive::open(Rc::clone(image), self.env.clone(), self.cuts.clone(), DriveOptions::default())
    }

    fn log_devices(&self) -> Vec<Option<SimDrive>> {
        let log = |(place, drive): (usize, &SimDrive)| {
            Some(drive.clone()).filter(|_| !self.logs_gone.contains(&place))
        };
        self.logs.iter().enumerate().map(log).collect()
    }

    /// Opens the volume, once a life.
    pub async fn open(&self) -> Result<(RingVolume, SimRing, SimLogs), Error> {
        let arena = self.arena.take().expect("a life opens its volume once");
        let ring = self.ring();
        let answer_max_ns = self.plan.ring.answer_max_ns;
        let logs = SimLogs::open(self.env.clone(), self.log_devices(), ring.clone(), answer_max_ns).await?;
        let (home, log) = (Rc::new(ring.clone()), Rc::new(logs.clone()));
        let volume = Volume::open(self.env.clone(), arena, home, log, true, self.plan.open).await?;
        Ok((volume, ring, logs))
    }
}

impl Machine {
    /// A machine with a new volume on it.
    pub fn new(plan: Plan, seed: u64) -> Self {
        let home_bytes = Layout::home_bytes_for(plan.create.size_bytes / PAGE, plan.create.log_bytes, true);
        let geometry = |size_bytes: u64| Geometry { size_bytes, sector_bytes: 512, atomic_sectors: true };
        let member_bytes = home_bytes + plan.data_offset();
        let log_bytes = plan.create.log_bytes.next_multiple_of(PAGE) + 2 * PAGE + log_head::DATA_OFFSET;
        let member = |place: usize| Image::shared(geometry(member_bytes + plan.extra_pages[place] * PAGE));
        let mut machine = Self {
            plan,
            members: (0..plan.members).map(member).collect(),
            logs: (0..plan.logs).map(|_| Image::shared(geometry(log_bytes))).collect(),
            arena: ArenaBytes::new(plan.arena_bytes),
            random: Random::new(seed),
            members_gone: Vec::new(),
            logs_gone: Vec::new(),
            member_faults: vec![Faults::default(); plan.members],
            log_faults: vec![Faults::default(); plan.logs],
        };
        let made = machine.live(WHOLE_LIFE, async |life| {
            let ring = life.ring();
            let logs = SimLogs::new(life.env.clone(), life.log_devices(), ring.clone(), u64::MAX >> 1)?;
            create(&ring, &logs, true, plan.create, seed | 1).await
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
        executor.limit_polls(10_000_000);
        let cuts = Cuts::new(cut, executor.stop());
        let env = executor.env();
        let mut drives = |images: &[SharedImage], faults: &[Faults]| {
            let drives = images.iter().zip(faults).map(|(image, faults)| {
                let seed = self.random.number();
                let options = DriveOptions { seed, faults: faults.clone(), ..DriveOptions::default() };
                SimDrive::open(Rc::clone(image), env.clone(), cuts.clone(), options)
            });
            drives.collect::<Vec<_>>()
        };
        let members = drives(&self.members, &self.member_faults);
        let logs = drives(&self.logs, &self.log_faults);
        let arena = SimArena::open(self.arena.clone(), env.clone(), cuts.clone(), self.random.number());
        let (members_gone, logs_gone) = (self.members_gone.clone(), self.logs_gone.clone());
        let life = Life {
            env,
            members,
            logs,
            cuts: cuts.clone(),
            arena: RefCell::new(Some(arena)),
            plan: self.plan,
            members_gone,
            logs_gone,
        };
        let ended = executor.block_on(story(life));
        (ended, cuts.events_so_far())
    }

    /// As [`Self::live`], to the end.
    pub fn live_whole<T, F: Future<Output = T>>(&mut self, story: impl FnOnce(Life) -> F) -> T {
        self.live(WHOLE_LIFE, story).0.expect("nothing cuts it")
    }

    /// Why it does not open.
    pub fn refusal(&mut self) -> String {
        match self.live_whole(async |life| life.open().await.err()) {
            Some(Error::Unusable(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    /// The power fails.
    pub fn power_cut(&mut self) {
        for image in self.members.iter().chain(&self.logs) {
            image.borrow_mut().power_cut(&mut self.random);
        }
        self.arena.clear();
    }

    /// Where on a member a page of the volume is.
    pub fn page_on_member(&self, page: u64) -> Extent {
        let CreateOptions { size_bytes, log_bytes, .. } = self.plan.create;
        let home_bytes = Layout::home_bytes_for(size_bytes / PAGE, log_bytes, true);
        let layout = Layout::plan(size_bytes / PAGE, home_bytes, log_bytes, true).expect("it fits");
        Extent::new(self.plan.data_offset() + layout.page_offset(page), PAGE)
    }

    /// What one member holds where the volume's pages are.
    pub fn member_pages(&self, place: usize) -> Vec<u8> {
        let CreateOptions { size_bytes, log_bytes, .. } = self.plan.create;
        let image = self.members[place].borrow();
        let home_bytes = image.geometry().size_bytes - self.plan.data_offset();
        let layout = Layout::plan(size_bytes / PAGE, home_bytes, log_bytes, true).expect("it fits");
        let mut bytes = vec![0; size_bytes as usize];
        image.read_durable(self.plan.data_offset() + layout.segments[0].data.offset, &mut bytes);
        bytes
    }

    /// What the volume holds, opened anew.
    pub fn contents(&mut self) -> Vec<u8> {
        let size_bytes = self.plan.create.size_bytes as usize;
        self.live_whole(async |life| {
            let (volume, ..) = life.open().await.expect("it opens");
            let mut found = vec![0; size_bytes];
            volume.read(0, &mut found).await.expect("it can be read");
            found
        })
    }
}

/// A mirror full of noise, all of it home.
pub fn filled(plan: Plan, seed: u64) -> (Machine, Vec<u8>) {
    let mut machine = Machine::new(plan, seed);
    let bytes = noise(seed ^ 0xF1, plan.create.size_bytes as usize);
    machine.live_whole(async |life| {
        let (volume, ..) = life.open().await.unwrap();
        volume.write(0, &bytes, Durability::Buffered).await.unwrap();
        volume.close().await.unwrap();
    });
    machine.power_cut();
    (machine, bytes)
}

/// A drive that answers no more.
pub fn silent(from: u64) -> Faults {
    Faults { silent_operations: from..u64::MAX, ..Faults::default() }
}

/// Waits until every member counts.
pub async fn whole(ring: &SimRing, env: &impl Env) {
    while ring.members().iter().any(|member| member.standing != Standing::InSync) {
        env.sleep(1_000_000).await;
    }
}

/// Bytes that nobody expects.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Random::new(seed).fill(&mut bytes);
    bytes
}

/// A drive that fails whatever it is asked.
pub fn dead() -> Faults {
    Faults { failing_operations: 0..u64::MAX, ..Faults::default() }
}

/// Bytes that a device offers.
pub fn size_of(device: &impl Device) -> u64 {
    device.geometry().size_bytes
}
