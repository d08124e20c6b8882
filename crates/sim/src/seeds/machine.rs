//! What outlives a run, and how a run begins and ends.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use evenkeel_engine::device::{Durability, Extent};
use evenkeel_engine::format::layout::{Layout, Size};
use evenkeel_engine::format::superblock::Superblock;
use evenkeel_engine::format::{PAGE, PAGE_BYTES};
use evenkeel_engine::ring::MemberState;

use super::{Outcome, Seeded, Setup};
use crate::arena::{ArenaBytes, SimArena};
use crate::cuts::{CutKind, CutPlan, Cuts};
use crate::drive::{Counters, DriveOptions, SimDrive};
use crate::executor::Executor;
use crate::faults::{Fault, Faults};
use crate::fixture::{Fixture, Run};
use crate::ground_truth::{Device, Disk};
use crate::growing::KnownSize;
use crate::image::{Image, Payload};
use crate::oracle::{Oracle, Violation};
use crate::page_cache::{PageCache, SharedCache};
use crate::random::Random;
use crate::testbed::Kind;

/// Polls after which a run counts as one that does not end.
const POLLS_MAX: u64 = 3_000_000;

/// Pages that a drive may have more than it needs, where others stand in for it.
const EXTRA_PAGES_MAX: u64 = 4;

/// Operations after which a fault comes that a device has from the beginning, at most.
const FAULT_AFTER_MAX: u64 = 60;

/// How a device comes into a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fate {
    /// It is there.
    Well,
    /// It is not.
    Gone,
    /// It is there, and this is about to go wrong with it.
    Faulty(Fault),
    /// It is there, and does just this wrong.
    With(Box<Faults>),
}

/// What a run does once its volume is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Clients work; then every page is checked.
    Clients,
    /// What is committed is taken home.
    Checkpoint,
    /// Everything is made durable and taken home.
    Close,
    /// Everything is made whole: from then on every device has everything.
    Heal,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// Its work was done.
    Done,
    /// A cut struck.
    Cut(CutKind),
    /// The volume did not open, and may not.
    Refused,
}

/// What outlives a run.
pub struct Machine<T: Seeded> {
    pub(super) setup: Setup<T>,
    pub(super) random: Random,
    /// The drives, by their numbers.
    pub(super) disks: Vec<Disk>,
    /// What the system keeps of the first drive in memory.
    cache: Option<SharedCache>,
    pub(super) arena: ArenaBytes,
    pub(super) oracle: Rc<RefCell<Oracle>>,
    /// The size of the volume.
    pub(super) known_size: KnownSize,
    /// Whether the power was cut since the oracle last judged: a run that is cut while it opens is not judged.
    pub(super) power_was_cut: bool,
    /// How the last run ended; `None` before the first.
    pub(super) last_cut: Option<CutKind>,
    /// How many events a run has, as far as is known: that is only seen once there was one.
    pub(super) run_events: u64,
    /// Operations that clients have done, those of a run that is cut too.
    pub(super) operations_done: Rc<Cell<u64>>,
    pub(super) outcome: Outcome,
    /// Whether a device was replaced, with the log that it held, since the volume was last open.
    pub(super) lacks: bool,
    /// What happened so far, if anyone wants to know.
    pub(super) story: Option<Vec<String>>,
    /// What was of the log until another one took its place in the last run, and its place.
    pub(super) retired: Option<(usize, Image)>,
    /// What some device was before some run.
    pub(super) past: Option<(usize, Image)>,
    /// Of devices that are what they were.
    pub(super) past_random: Random,
    /// At which event of the next run its drives are copied.
    pub(super) copy_at: Option<u64>,
    /// A drive of which nothing is used, where nothing stands in for the home drive and the log is on it: what its cuts
    /// draw keeps those seeds what they were when each machine had two drives.
    pub(super) unused: Image,
    /// What they held then, writes in flight included.
    pub(super) copied: Rc<RefCell<Option<Vec<Image>>>>,
}

impl<T: Seeded> fmt::Debug for Machine<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Machine").field("setup", &self.setup).finish_non_exhaustive()
    }
}

impl<T: Seeded> Machine<T> {
    /// A machine with a new volume on it.
    pub(super) fn new(setup: Setup<T>) -> Result<Self, Violation> {
        let mut random = Random::new(setup.seed ^ T::SALT);
        let mut used = setup.has_used_drives().then(|| Random::new(setup.seed ^ 0x05ed));
        let disk = |(_, bytes): (Kind, u64)| {
            let extra = if T::IS_REDUNDANT { random.below(EXTRA_PAGES_MAX + 1) * PAGE_BYTES } else { 0 };
            let geometry = setup.geometry(bytes + extra);
            let image = match &mut used {
                Some(random) => Image::used(geometry, random),
                None => Image::new(geometry),
            };
            Disk::clean(Rc::new(RefCell::new(image)), true)
        };
        let disks = setup.testbed.drives(&setup.create).into_iter().map(disk).collect();
        let mut machine = Self {
            setup,
            random,
            disks,
            cache: setup.stale_share.map(PageCache::shared),
            arena: ArenaBytes::new(setup.arena_bytes),
            oracle: Rc::new(RefCell::new(Oracle::new(setup.habits.places.known_bytes as usize))),
            known_size: KnownSize::new(setup.growths.sizes(setup.habits.places)),
            power_was_cut: true,
            last_cut: None,
            run_events: 400,
            operations_done: Rc::default(),
            outcome: Outcome::default(),
            lacks: false,
            story: None,
            retired: None,
            past: None,
            past_random: Random::new(setup.seed ^ 0x9a57),
            copy_at: None,
            copied: Rc::default(),
            unused: Image::new(setup.geometry(PAGE_BYTES)),
        };
        machine.create()?;
        machine.outcome.members.logs_on_members = u64::from(setup.testbed.is_log_spread());
        Ok(machine)
    }

    fn create(&mut self) -> Result<(), Violation> {
        let Run { mut executor, fixture, .. } = self.begin_run(CutPlan::default(), &self.all_well());
        let setup = self.setup;
        let made = executor.block_on(async move {
            setup.testbed.create(fixture.env.clone(), fixture.drives(), setup.create, setup.seed | 1).await
        });
        drop(executor);
        self.settle(CutKind::PowerCut);
        self.last_cut = None;
        made.map_err(Violation::of)?.map_err(Violation::of)?;
        self.begin_log_late();
        Ok(())
    }

    /// Lets the log of the new volume begin in its last quarter, as one may that was used before: so its end comes soon.
    fn begin_log_late(&mut self) {
        let layout = T::layout_of(self);
        let sector = u64::from(self.setup.sector_bytes);
        let late = self.random.below(layout.log.len / 4 / sector);
        for (number, disk) in self.disks.iter().enumerate() {
            let testbed = self.setup.testbed;
            for offset in testbed.superblocks(testbed.kind(number), &layout) {
                let mut image = disk.image.borrow_mut();
                let mut page = [0; PAGE];
                image.read(offset, &mut page);
                let Some(superblock) = Superblock::decode(&page) else { continue };
                let tail_offset = layout.log.len - sector - late * sector;
                let moved = Superblock { tail_offset, ..superblock }.encode();
                let payload = Payload::Bytes(moved.as_slice().into());
                let id = image.begin_write(Extent::new(offset, PAGE_BYTES), payload, Durability::Durable);
                image.complete_write(id);
            }
        }
    }

    /// Where the zones lie of a volume that was made and has grown as is known.
    pub(super) fn layout_by_size(&self) -> Layout {
        let made = self.setup.testbed.layout(&self.setup.create);
        self.known_size.so_far()[1..].iter().fold(made, |layout, size_bytes| {
            let pages = size_bytes / PAGE_BYTES;
            let home_bytes = layout.home_bytes_to_grow(pages).expect("it has grown so");
            layout.grown(Size { pages, home_bytes }).expect("it has grown so")
        })
    }

    /// Every device is there and well.
    pub(super) fn all_well(&self) -> Vec<Fate> {
        vec![Fate::Well; self.disks.len()]
    }

    /// A run of devices with these fates.
    pub(super) fn begin_run(&mut self, plan: CutPlan, fates: &[Fate]) -> Run<T> {
        let setup = self.setup;
        let mut executor = Executor::new(self.random.number());
        executor.limit_polls(POLLS_MAX);
        let cuts = Cuts::new(plan, executor.stop());
        let env = executor.env();
        self.copy_in_run(&cuts);
        let mut devices = Vec::new();
        for (number, (disk, fate)) in self.disks.iter().zip(fates).enumerate() {
            let faults = match fate {
                Fate::Well | Fate::Gone => Faults::default(),
                Fate::Faulty(fault) => {
                    fault.draw_faults(Counters::default(), FAULT_AFTER_MAX, &mut self.random)
                }
                Fate::With(faults) => (**faults).clone(),
            };
            let options = DriveOptions {
                latency: setup.latency,
                faults: Faults { failing_discards: setup.failing_discards(number), ..faults },
                seed: self.random.number(),
                cache: self.cache.clone().filter(|_| number == 0),
                is_away: *fate == Fate::Gone,
            };
            let drive = SimDrive::open(Rc::clone(&disk.image), env.clone(), cuts.clone(), options);
            let kind = setup.testbed.kind(number);
            let mut device = Device::new(kind, disk.clone(), drive, *fate != Fate::Gone);
            device.is_well = matches!(fate, Fate::Well | Fate::Gone);
            device.is_harmed = matches!(fate, Fate::Faulty(fault) if fault.harms());
            devices.push(device);
        }
        let arena = SimArena::open(self.arena.clone(), env.clone(), cuts.clone(), self.random.number());
        let layout = Rc::new(T::layout_of(self));
        let fixture = Rc::new(Fixture::new(env, cuts, layout, setup.testbed, devices, self.lacks));
        Run { executor, arena, fixture }
    }

    /// Sees to it that the drives are copied in a run, if they are to be.
    fn copy_in_run(&mut self, cuts: &Cuts) {
        let Some(at) = self.copy_at.take() else { return };
        self.copied.take();
        let images: Vec<_> = self.disks.iter().map(|disk| Rc::clone(&disk.image)).collect();
        let (copied, seen) = (Rc::clone(&self.copied), cuts.clone());
        cuts.observe(move || {
            if seen.events_so_far() >= at && copied.borrow().is_none() {
                copied.replace(Some(images.iter().map(|image| image.borrow().clone()).collect()));
            }
        });
    }

    /// What each client of a run follows.
    pub(super) fn client_seeds(&mut self) -> Vec<u64> {
        (0..self.setup.habits.clients).map(|_| self.random.number()).collect()
    }

    /// Tells what happened, if anyone wants to know.
    pub(super) fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(what());
        }
    }

    /// Notes what a run was and what it leaves; answers what was seen to be wrong. Within the redundancy no rebuild of a
    /// device that is well is given up.
    pub(super) fn end_run(
        &mut self,
        executor: Executor,
        fixture: &Fixture<T>,
        plan: CutPlan,
        within_redundancy: bool,
    ) -> Option<Violation> {
        fixture.end_watch();
        let last_cut = self.last_cut;
        if let Some(told) = &mut self.story {
            told.extend(fixture.story.take());
        }
        self.note(|| {
            let has_struck = fixture.cuts.has_struck();
            let end = if has_struck { format!("{:?}", plan.kind) } else { "its own end".to_owned() };
            let (events, now_ns) = (fixture.cuts.events_so_far(), executor.now_ns());
            format!("a run after {last_cut:?}: {events} events in {now_ns} ns, up to {end}")
        });
        self.outcome.trace = crate::trace::fold(self.outcome.trace, executor.trace_hash());
        self.outcome.operations = self.operations_done.get();
        self.run_events = self.run_events.max(fixture.cuts.events_so_far() + 1);
        self.outcome.recoveries += u64::from(self.last_cut.is_some());
        let seen = fixture.violation.take().or(self.judge_devices(fixture, within_redundancy));
        let mut truth = fixture.truth.borrow_mut();
        self.lacks = truth.lacks();
        self.retired = truth.retired.take().map(|(number, image)| (number, image.borrow().clone()));
        self.disks = truth.settle();
        if fixture.is_healed.get() {
            self.outcome.members.healed += 1;
            for (number, disk) in self.disks.iter_mut().enumerate() {
                // A log device whose heads rotted stays out until it is replaced.
                if truth.is_in_sync(number) {
                    (disk.is_clean, disk.is_complete) = (true, true);
                }
            }
        }
        // The tasks of an open layout go with the executor, the handle to it here.
        truth.opened = None;
        seen
    }

    /// Counts what befell the devices of a run; answers what the engine took wrongly for failed.
    fn judge_devices(&mut self, fixture: &Fixture<T>, within_redundancy: bool) -> Option<Violation> {
        let truth = fixture.truth.borrow();
        let tally = &mut self.outcome.members;
        tally.add(&fixture.tally.borrow());
        if T::IS_REDUNDANT {
            let well = truth.devices.iter().filter(|device| device.is_well);
            tally.refused_discards += well.map(|device| device.drive.refused_discards()).sum::<u64>();
        }
        let opened = truth.opened.as_ref()?;
        let (reads, offence) = fixture.testbed.watched(opened);
        tally.watched_reads += reads;
        let lacked = |number: &usize| truth.devices[*number].lacks;
        let rebuilt = truth.of(Kind::Pages).filter(lacked).filter(|&number| truth.is_in_sync(number));
        let rebuilt: Vec<usize> = rebuilt.collect();
        let is_caught_up = |number: &&usize| fixture.testbed.status(opened, **number).is_caught_up;
        tally.caught_up += rebuilt.iter().filter(is_caught_up).count() as u64;
        tally.rebuilt += rebuilt.len() as u64;
        let numbers = 0..truth.devices.len();
        let failed = numbers.clone().find(|&number| {
            let device = &truth.devices[number];
            device.is_fine() && !device.lacks && device.before.is_clean && !truth.is_in_sync(number)
        });
        let given_up = numbers.filter(|_| within_redundancy).find(|&number| {
            let (device, status) = (&truth.devices[number], fixture.testbed.status(opened, number));
            let has_failed = status.state == MemberState::Out && status.has_failed;
            device.is_fine() && device.lacks && has_failed
        });
        let accused = |number: Option<usize>, what: &str| {
            number
                .map(|number| Violation::of(format!("{} is well, and {what}", fixture.testbed.name(number))))
        };
        offence
            .map(Violation::of)
            .or(accused(failed, "failed"))
            .or(accused(given_up, "its rebuild was given up"))
    }

    /// Forgets what the system kept of the first drive: somebody else wrote there.
    pub(super) fn clear_cache(&mut self) {
        if let Some(cache) = &self.cache {
            cache.borrow_mut().clear();
        }
    }

    /// What this end of a run leaves; answers what ended it.
    pub(super) fn settle_end(&mut self, end: End) -> CutKind {
        let ended_by = match end {
            End::Cut(kind) => kind,
            End::Done | End::Refused => CutKind::PowerCut, // the machine is switched off
        };
        self.settle(ended_by);
        ended_by
    }

    /// What the end of a run leaves on the drives and in the arena.
    pub(super) fn settle(&mut self, cut: CutKind) {
        if cut == CutKind::PowerCut || !self.setup.keeps_cache {
            self.clear_cache();
        }
        for disk in &self.disks {
            let mut image = disk.image.borrow_mut();
            match cut {
                CutKind::Kill if self.setup.has_network => {
                    image.kill_connected();
                    self.outcome.members.late += u64::from(T::IS_REDUNDANT && image.has_late());
                }
                CutKind::Kill => image.kill(&mut self.random),
                CutKind::PowerCut => image.power_cut(&mut self.random),
            }
        }
        if cut == CutKind::PowerCut {
            if !T::IS_REDUNDANT && self.disks.len() == 1 {
                self.unused.power_cut(&mut self.random);
            }
            self.arena.clear();
            self.power_was_cut = true;
        }
        self.last_cut = Some(cut);
    }
}
