//! What outlives a life, and a life within the redundancy.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_engine::device::{Durability, Extent};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::format::layout::{
    LOG_COPIES, Layout, Size, log_bytes_with_superblocks, log_copy_offset,
};
use evenkeel_engine::format::superblock::Superblock;
use evenkeel_engine::format::{PAGE, PAGE_BYTES, log_head, ring_head};
use evenkeel_engine::layout::mirror::MirrorPages;
use evenkeel_engine::layout::mirror::log_devices::found_log;
use evenkeel_engine::ring::Standing;
use evenkeel_engine::volume::{Mending, Volume, check, create};

use super::account::{Account, Disk, InLife, Kind};
use super::mishaps::{Mishap, Scene, any_zone, harm};
use super::watch::{Member, RingVolume, SimLogs, SimRing, can_watch};
use super::{Outcome, Setup};
use crate::arena::{ArenaBytes, SimArena};
use crate::cuts::{CutKind, CutPlan, Cuts};
use crate::drive::{Counters, DriveOptions, SimDrive};
use crate::executor::{Executor, Halt};
use crate::faults::Faults;
use crate::growing::{Grower, KnownSize};
use crate::image::{Image, Payload};
use crate::oracle::{Oracle, Violation};
use crate::random::Random;
use crate::workload::{Stage, read_known, run_clients};

/// Polls after which a life counts as one that does not end.
const POLLS_MAX: u64 = 3_000_000;

/// Virtual time after which a rebuild counts as one that does not end.
const REBUILD_MAX_NS: u64 = 60_000_000_000;

/// Pages that a member may have more than it needs.
const EXTRA_PAGES_MAX: u64 = 4;

/// How a device comes into a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is there.
    Well,
    /// It is not.
    Gone,
    /// It is there, and this is about to befall it.
    Ill(Mishap),
}

/// What a life does once its volume is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Clients work.
    Clients,
    /// Everything is made whole: from then on every device has everything.
    Heal,
}

/// How a life ended.
pub(super) enum End {
    /// Its work was done.
    Done,
    /// A cut struck.
    Cut(CutKind),
    /// The volume did not open, and may not.
    Refused,
}

/// What outlives a life.
pub(super) struct Machine {
    pub(super) setup: Setup,
    pub(super) random: Random,
    pub(super) devices: Vec<(Kind, Disk)>,
    pub(super) arena: ArenaBytes,
    pub(super) oracle: Rc<RefCell<Oracle>>,
    /// The size of the volume.
    pub(super) known_size: KnownSize,
    /// Whether the power was cut since the oracle last judged.
    pub(super) power_was_cut: bool,
    pub(super) last_cut: Option<CutKind>,
    /// How many events a life has, as far as is known.
    pub(super) life_events: u64,
    /// Operations that clients have done, those of a life that is cut too.
    pub(super) operations_done: Rc<Cell<u64>>,
    pub(super) outcome: Outcome,
    /// Whether a member was replaced, with the log that it held, since the volume was last open.
    pub(super) may_have_lost: bool,
    /// What happened so far, if anyone wants to know.
    pub(super) story: Option<Vec<String>>,
    /// What some device was before some life.
    past: Option<(usize, Image)>,
    /// Of devices that are what they were.
    past_random: Random,
}

/// A life about to begin.
pub(super) struct Life {
    pub(super) executor: Executor,
    pub(super) arena: SimArena,
    pub(super) scene: Rc<Scene>,
}

impl Machine {
    /// A machine with a new volume on it.
    pub(super) fn new(setup: Setup) -> Result<Self, Violation> {
        let mut random = Random::new(setup.seed ^ 0x41b5);
        let create = setup.create;
        let home_bytes = Layout::home_bytes_for(create.size_bytes / PAGE_BYTES, create.log_bytes, true);
        let log_bytes = log_bytes_with_superblocks(create.log_bytes.next_multiple_of(PAGE_BYTES));
        let mut devices = Vec::new();
        let mut add = |kind: Kind, bytes: u64| {
            let extra = random.below(EXTRA_PAGES_MAX + 1) * PAGE_BYTES;
            let image = Image::shared(setup.geometry(bytes + extra));
            devices.push((kind, Disk { image, is_clean: true, is_complete: true, is_fresh: false }));
        };
        (0..setup.members).for_each(|_| add(Kind::Member, home_bytes + setup.data_offset()));
        (0..setup.logs).for_each(|_| add(Kind::Log, log_bytes + log_head::DATA_OFFSET));
        let mut machine = Self {
            setup,
            random,
            devices,
            arena: ArenaBytes::new(setup.arena_bytes),
            oracle: Rc::new(RefCell::new(Oracle::new(setup.habits.places.known_bytes as usize))),
            known_size: KnownSize::new(setup.growths.sizes(setup.habits.places)),
            power_was_cut: true,
            last_cut: None,
            life_events: 400,
            operations_done: Rc::default(),
            outcome: Outcome::default(),
            may_have_lost: false,
            story: None,
            past: None,
            past_random: Random::new(setup.seed ^ 0x9a57),
        };
        machine.create()?;
        machine.outcome.tally.logs_on_members = u64::from(setup.has_log_on_members());
        Ok(machine)
    }

    fn create(&mut self) -> Result<(), Violation> {
        let mut life = self.life(CutPlan::default(), &self.all(Fate::Well), None);
        let (setup, scene) = (self.setup, Rc::clone(&life.scene));
        let made = life.executor.block_on(async move {
            let (env, answer_max_ns) = (scene.env.clone(), setup.ring.answer_max_ns);
            let ring = MirrorPages::new(env.clone(), scene.members(), setup.ring)?;
            let logs = SimLogs::new(env, scene.log_devices(), ring.clone(), answer_max_ns)?;
            create(&ring, &logs, true, setup.create, setup.seed | 1).await
        });
        drop(life);
        self.settle(CutKind::PowerCut);
        self.last_cut = None;
        made.map_err(Violation::of)?.map_err(Violation::of)?;
        self.begin_log_late();
        Ok(())
    }

    /// Where the zones lie.
    pub(super) fn layout(&self) -> Layout {
        let create = self.setup.create;
        let pages = create.size_bytes / PAGE_BYTES;
        let home_bytes = Layout::home_bytes_for(pages, create.log_bytes, true);
        let made =
            Layout::plan(pages, home_bytes, create.log_bytes, true).expect("the volume was made with it");
        self.known_size.so_far()[1..].iter().fold(made, |layout, size_bytes| {
            let pages = size_bytes / PAGE_BYTES;
            let home_bytes = layout.home_bytes_to_grow(pages).expect("it has grown so");
            layout.grown(Size { pages, home_bytes }).expect("it has grown so")
        })
    }

    /// Lets the log of the new volume begin in its last quarter, as one may that was used before: so its end comes soon.
    fn begin_log_late(&mut self) {
        let layout = self.layout();
        let sector = u64::from(self.setup.sector_bytes);
        let late = self.random.below(layout.log.len / 4 / sector);
        let (kind, log_offset) = match self.setup.has_log_on_members() {
            true => (Kind::Member, ring_head::DATA_OFFSET),
            false => (Kind::Log, log_head::DATA_OFFSET),
        };
        for (_, disk) in self.devices.iter().filter(|(found, _)| *found == kind) {
            for copy in 0..LOG_COPIES {
                let offset = log_copy_offset(copy) + log_offset;
                let mut image = disk.image.borrow_mut();
                let mut page = [0; PAGE];
                image.read(offset, &mut page);
                let Some(superblock) = Superblock::decode(&page) else { continue };
                let tail_offset = layout.log.len - sector - late * sector;
                let moved = Superblock { tail_offset, ..superblock }.encode();
                let extent = Extent::new(offset, PAGE_BYTES);
                let payload = Payload::Bytes(moved.as_slice().into());
                let id = image.begin_write(extent, payload, Durability::Durable);
                image.complete_write(id);
            }
        }
    }

    /// The same for every device.
    pub(super) fn all(&self, fate: Fate) -> Vec<Fate> {
        vec![fate; self.devices.len()]
    }

    /// Some device of this kind that has everything.
    pub(super) fn keeper(&mut self, kind: Kind) -> usize {
        let has_all = |&number: &usize| self.devices[number].0 == kind && self.devices[number].1.is_complete;
        let keepers: Vec<usize> = (0..self.devices.len()).filter(has_all).collect();
        assert!(!keepers.is_empty(), "the account keeps one {kind:?} that has everything");
        // Who has everything for the first time is relied on first.
        let fresh: Vec<usize> =
            keepers.iter().copied().filter(|&number| self.devices[number].1.is_fresh).collect();
        let relied_on = if fresh.is_empty() || self.random.chance(0.3) { &keepers } else { &fresh };
        *self.random.pick(relied_on)
    }

    /// What becomes of each device before the next life: one of each kind that has everything is well.
    pub(super) fn fates(&mut self) -> Vec<Fate> {
        let mut fates = self.all(Fate::Well);
        if !self.random.chance(self.setup.mishaps) {
            return fates;
        }
        let mut keepers = vec![self.keeper(Kind::Member)];
        if !self.setup.has_log_on_members() {
            keepers.push(self.keeper(Kind::Log));
        }
        let relies_on_fresh = keepers.iter().any(|&keeper| self.devices[keeper].1.is_fresh);
        let are_alone = self.random.chance(if relies_on_fresh { 0.6 } else { 0.25 });
        for (number, fate) in fates.iter_mut().enumerate() {
            if keepers.contains(&number) {
                continue;
            }
            *fate = match self.random.below(10) {
                _ if are_alone => Fate::Gone,
                0..2 => Fate::Gone,
                2 if self.setup.has_log_on_members() => Fate::Well,
                2 => {
                    self.replace_blank(number);
                    Fate::Well
                }
                3..5 => self.befall(number),
                _ => Fate::Well,
            };
        }
        self.rot_beneath_a_rebuild(&fates, keepers[0]);
        fates
    }

    /// Where a member is about to be rebuilt, pages may rot on another, though not on the one that is relied on.
    fn rot_beneath_a_rebuild(&mut self, fates: &[Fate], relied_on: usize) {
        let there = |number: &usize| fates[*number] == Fate::Well && *number != relied_on;
        let (complete, lacking): (Vec<usize>, Vec<usize>) =
            (0..self.setup.members).filter(there).partition(|&number| self.devices[number].1.is_complete);
        if complete.is_empty() || lacking.is_empty() || self.random.coin() {
            return;
        }
        let source = *self.random.pick(&complete);
        self.note(|| format!("device {source} rots, and another is about to be rebuilt"));
        let data = self.layout().segments[0].data;
        for page in (0..data.len).step_by(PAGE).filter(|_| self.random.coin()).collect::<Vec<_>>() {
            let zone = Extent::new(self.setup.data_offset() + data.offset + page, PAGE_BYTES);
            harm(&self.devices[source].1.image, Mishap::Rots, zone, &mut self.random);
        }
        self.outcome.tally.count(Mishap::Rots);
        let disk = &mut self.devices[source].1;
        (disk.is_clean, disk.is_complete) = (false, false);
    }

    /// Something befalls a device that is switched off, or soon after.
    fn befall(&mut self, number: usize) -> Fate {
        let mishap = match self.setup.has_log_on_members() {
            true => Mishap::draw_sparing_log(&mut self.random),
            false => Mishap::draw(&mut self.random),
        };
        self.outcome.tally.count(mishap);
        let (kind, layout) = (self.devices[number].0, self.layout());
        self.note(|| format!("device {number}, a {kind:?}: {mishap:?}"));
        match mishap {
            Mishap::Rots | Mishap::CannotRead => {
                for _ in 0..1 + self.random.below(3) {
                    let zone = any_zone(kind, &layout, self.setup.data_offset(), &mut self.random);
                    harm(&self.devices[number].1.image, mishap, zone, &mut self.random);
                }
                let disk = &mut self.devices[number].1;
                (disk.is_clean, disk.is_complete) = (false, false);
                Fate::Well
            }
            _ => Fate::Ill(mishap),
        }
    }

    /// Perhaps a device is what it was before some life: it had called durable what it never wrote. Another one has
    /// everything.
    pub(super) fn roll_back(&mut self) {
        if let Some((number, mut image)) = self.past.take_if(|_| self.past_random.coin()) {
            let kind = self.devices[number].0;
            let is_other = |at: &usize| *at != number && self.devices[*at].0 == kind;
            let mut others = (0..self.devices.len()).filter(is_other);
            if others.any(|other| self.devices[other].1.is_complete) {
                self.outcome.tally.rolled_back += 1;
                self.note(|| format!("device {number}, a {kind:?}: is what it was"));
                // The drive itself is as large as it is.
                let size_bytes = self.devices[number].1.image.borrow().geometry().size_bytes;
                image.enlarge(size_bytes, None);
                let image = Rc::new(RefCell::new(image));
                self.devices[number].1 = Disk { image, is_clean: false, is_complete: false, is_fresh: false };
            }
        }
        if self.past.is_none() && self.past_random.chance(0.2) {
            let number = self.past_random.index(self.devices.len());
            self.past = Some((number, self.devices[number].1.image.borrow().clone()));
        }
    }

    /// Another drive is put in the place of a device.
    pub(super) fn replace_blank(&mut self, number: usize) {
        self.outcome.tally.replaced += 1;
        let (kind, disk) = self.devices[number].clone();
        let image = Image::shared(disk.image.borrow().geometry());
        self.note(|| format!("device {number}, a {kind:?}: replaced by a blank one"));
        self.devices[number].1 = Disk { image, is_clean: true, is_complete: false, is_fresh: false };
        if kind == Kind::Log {
            let mut life = self.life(CutPlan::default(), &self.all(Fate::Well), None);
            let drive = life.scene.account.borrow().devices[number].drive.clone();
            let (volume, place, places) = (self.setup.seed | 1, number - self.setup.members, self.setup.logs);
            let founded = life
                .executor
                .block_on(async move { found_log(&drive, volume, place as u16, places as u16).await });
            founded.expect("nothing stops it").expect("a blank drive takes a head");
        }
    }

    /// A life of devices with these fates; of these kinds all may be lost in it.
    pub(super) fn life(&mut self, plan: CutPlan, fates: &[Fate], loses_all: Option<Vec<Kind>>) -> Life {
        let mut executor = Executor::new(self.random.number());
        executor.limit_polls(POLLS_MAX);
        let cuts = Cuts::new(plan, executor.stop());
        let env = executor.env();
        let mut devices = Vec::new();
        for (number, ((kind, disk), fate)) in self.devices.iter().zip(fates).enumerate() {
            let (mut is_well, mut is_harmed) = (true, false);
            let faults = match *fate {
                Fate::Ill(mishap) => {
                    (is_well, is_harmed) = (false, mishap.harms());
                    mishap.faults(Counters::default(), 60, &mut self.random)
                }
                _ => Faults::default(),
            };
            let failing_discards = self.setup.failing_discards(number);
            let faults = Faults { failing_discards, ..faults };
            let options = DriveOptions {
                seed: self.random.number(),
                faults,
                latency: self.setup.latency,
                is_away: *fate == Fate::Gone,
                ..DriveOptions::default()
            };
            let drive = SimDrive::open(Rc::clone(&disk.image), env.clone(), cuts.clone(), options);
            let place = if *kind == Kind::Member { number } else { number - self.setup.members };
            devices.push(InLife {
                kind: *kind,
                place,
                before: disk.clone(),
                image: Rc::clone(&disk.image),
                drive,
                is_there: *fate != Fate::Gone,
                is_well,
                is_harmed,
                lacks: false,
                was_replaced: false,
            });
        }
        let arena = SimArena::open(self.arena.clone(), env.clone(), cuts.clone(), self.random.number());
        let scene = Scene {
            env,
            cuts,
            account: RefCell::new(Account { devices, opened: None }),
            watch: Rc::default(),
            layout: self.layout(),
            data_offset: self.setup.data_offset(),
            tally: RefCell::default(),
            violation: Rc::default(),
            loses_all,
            story: RefCell::default(),
            volume_is_closed: Cell::default(),
        };
        scene.watch.data_from.set(self.setup.data_offset());
        if self.setup.has_log_on_members() {
            let superblocks = LOG_COPIES as u64 * PAGE_BYTES;
            scene.watch.in_turns_from.set(ring_head::DATA_OFFSET + superblocks);
        }
        Life { executor, arena, scene: Rc::new(scene) }
    }

    /// What each client of a life follows.
    pub(super) fn client_seeds(&mut self) -> Vec<u64> {
        (0..self.setup.habits.clients).map(|_| self.random.number()).collect()
    }

    /// One life within the redundancy, judged at its beginning by what the last cut must have left.
    pub(super) fn live(&mut self, plan: CutPlan, work: Work, fates: &[Fate]) -> Result<End, Violation> {
        self.note(|| format!("{work:?} with {fates:?}"));
        let mut life = self.life(plan, fates, None);
        let (setup, oracle, power_was_cut) = (self.setup, Rc::clone(&self.oracle), self.power_was_cut);
        let (arena, scene) = (life.arena, Rc::clone(&life.scene));
        let opened = Rc::new(RefCell::new(None));
        let to_count = Rc::clone(&opened);
        let refused = Rc::new(RefCell::new(None));
        let was_refused = Rc::clone(&refused);
        let judged_now = Rc::new(Cell::new(false));
        let has_judged = Rc::clone(&judged_now);
        let (seeds, operations_done) = (self.client_seeds(), Rc::clone(&self.operations_done));
        let mut random = self.random.fork();
        let mishaps = match work == Work::Clients && random.chance(setup.mishaps) {
            true => 1 + random.below(6),
            false => 0,
        };
        let grower = self.grower(work);
        let growths_before = self.known_size.growths();
        let known_size = self.known_size.clone();
        let ends_rebuilt = plan.at_event.is_some() && random.chance(0.5);
        let ends_left_out = plan.at_event.is_some() && setup.ends_left_out();
        let lived = life.executor.block_on(async move {
            scene.env.spawn(Rc::clone(&scene).go_on(mishaps, random.fork()));
            if ends_rebuilt {
                scene.env.spawn(Rc::clone(&scene).end_with_a_rebuild(random.fork()));
            }
            if ends_left_out {
                scene.env.spawn(Rc::clone(&scene).end_with_one_left_out(random.fork()));
            }
            let volume = match scene.open(arena, &setup).await {
                Err(Error::Unusable(why)) if setup.has_log_on_members() => {
                    was_refused.replace(Some(why));
                    return Ok(Ok(()));
                }
                opened => opened?,
            };
            to_count.replace(Some(volume.clone()));
            if !scene.env.is_stopped() {
                let known = known_size.found(volume.size_bytes());
                if known.is_err() {
                    return Ok(known);
                }
            }
            let found = read_known(&volume, setup.habits.places).await?;
            if scene.env.is_stopped() {
                return Ok(Ok(()));
            }
            let judged = match power_was_cut {
                false => oracle.borrow_mut().judge_kill(&found),
                true => oracle.borrow_mut().judge_power_cut(&found),
            };
            has_judged.set(true);
            if judged.is_err() {
                return Ok(judged);
            }
            if work == Work::Heal {
                let healed = scene.heal(&volume, &mut random).await?;
                if healed.is_ok() && !scene.env.is_stopped() {
                    let size = setup.habits.places.known_bytes;
                    let begun = oracle.borrow().begin_flush(Extent::new(0, size));
                    volume.close().await?;
                    if !scene.env.is_stopped() {
                        oracle.borrow_mut().end_flush(begun);
                        scene.volume_is_closed.set(true);
                    }
                }
                return Ok(healed);
            }
            if let Some(bytes_per_s) = setup.scrub_bytes_per_s {
                scene.env.spawn(Rc::clone(&scene).scrub(volume.clone(), bytes_per_s));
            }
            if setup.checkpoints {
                scene.env.spawn(Rc::clone(&scene).take_home(volume.clone()));
            }
            let stage = Rc::new(Stage {
                volume: volume.clone(),
                oracle,
                violation: Rc::clone(&scene.violation),
                env: scene.env.clone(),
                habits: setup.habits,
                operations_done,
                forgives: Box::new(|_| false),
            });
            let growing = Rc::new(Cell::new(true));
            let (has_grown, grown_stage, growing_scene) =
                (Rc::clone(&growing), Rc::clone(&stage), Rc::clone(&scene));
            scene.env.spawn(async move {
                growing_scene.grow(grower, &grown_stage, &setup).await;
                has_grown.set(false);
            });
            run_clients(&stage, &seeds).await;
            while growing.get() && !scene.is_over() {
                scene.env.sleep(10_000).await;
            }
            if scene.is_over() {
                return Ok(Ok(()));
            }
            if random.coin() {
                scene.wait_for_rebuilds().await;
            }
            if scene.account.borrow().is_spotless() && !scene.is_over() {
                let report = check(&volume).await?;
                if !report.is_clean() && scene.account.borrow().is_spotless() {
                    return Ok(Err(Violation::of(format!("{report:?}"))));
                }
            }
            Ok::<Result<(), Violation>, Error>(Ok(()))
        });
        if let Some(volume) = opened.take() {
            self.outcome.lives.count(&volume.counters());
        }
        self.outcome.lives.growths += (self.known_size.growths() - growths_before) as u64;
        let may_refuse = self.may_have_lost || life.scene.account.borrow().may_lack_log();
        let before: Vec<(Kind, Disk)> = self.devices.clone();
        let violation = self.end_life(&life.executor, &life.scene, plan);
        drop(life.executor);
        if let Some(why) = refused.take() {
            self.outcome.tally.refused_in_parts += 1;
            self.note(|| format!("it refused to open: {why}"));
            if !may_refuse {
                return Err(Violation::of("it refuses to open though all of its log is there"));
            }
            // Whoever was not there lacks nothing of what did not happen, unless the others were told to go on alone.
            if !self.devices.iter().any(|(_, disk)| disk.is_complete) {
                for ((_, disk), (_, before)) in self.devices.iter_mut().zip(before) {
                    disk.is_complete = before.is_complete && disk.is_clean;
                }
            }
            return violation.map_or(Ok(End::Refused), Err);
        }
        if judged_now.get() {
            let is_any_gone = fates.contains(&Fate::Gone);
            self.outcome.tally.opened_in_parts += u64::from(setup.has_log_on_members() && is_any_gone);
            self.power_was_cut = false;
        }
        let ended = match lived {
            Err(Halt::Stopped { .. }) => {
                self.outcome.lives.cuts += 1;
                End::Cut(plan.kind)
            }
            Err(halt) => return Err(violation.unwrap_or(Violation::of(halt))),
            Ok(lived) => {
                if let Some(violation) = violation {
                    return Err(violation);
                }
                lived.map_err(Violation::of)??;
                End::Done
            }
        };
        violation.map_or(Ok(ended), Err)
    }

    /// Who makes the volume grow in a life.
    fn grower(&mut self, work: Work) -> Grower {
        let grows = self.setup.growths.count > 0 && work == Work::Clients;
        let random = if grows { Random::new(self.random.number()) } else { Random::new(0) };
        Grower { known: self.known_size.clone(), share: if grows { 0.7 } else { 0.0 }, random }
    }

    /// Tells what happened, if anyone wants to know.
    pub(super) fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(what());
        }
    }

    /// Notes what a life was and what it leaves; answers what was seen to be wrong.
    pub(super) fn end_life(
        &mut self,
        executor: &Executor,
        scene: &Scene,
        plan: CutPlan,
    ) -> Option<Violation> {
        scene.watch.end();
        let last_cut = self.last_cut;
        let (cuts, story) = (&scene.cuts, scene.story.take());
        if let Some(told) = &mut self.story {
            told.extend(story);
        }
        self.note(|| {
            let end = if cuts.has_struck() { format!("{:?}", plan.kind) } else { "its own end".to_owned() };
            let (events, now_ns) = (cuts.events_so_far(), executor.now_ns());
            format!("a life after {last_cut:?}: {events} events in {now_ns} ns, up to {end}")
        });
        self.outcome.lives.trace = crate::trace::fold(self.outcome.lives.trace, executor.trace_hash());
        self.outcome.lives.operations = self.operations_done.get();
        self.life_events = self.life_events.max(cuts.events_so_far() + 1);
        self.outcome.lives.recoveries += u64::from(self.last_cut.is_some());
        self.outcome.tally.add(&scene.tally.borrow());
        self.outcome.tally.watched_reads += scene.watch.reads();
        let mut account = scene.account.borrow_mut();
        let refused =
            account.devices.iter().filter(|device| device.is_well).map(|it| it.drive.refused_discards());
        self.outcome.tally.refused_discards += refused.sum::<u64>();
        self.may_have_lost = (self.may_have_lost && account.opened.is_none())
            || (self.setup.has_log_on_members() && account.devices.iter().any(|device| device.was_replaced));
        self.devices = account.settle();
        if scene.volume_is_closed.get() {
            self.outcome.tally.healed += 1;
            for ((_, disk), device) in self.devices.iter_mut().zip(&account.devices) {
                // A log device whose heads rotted stays out until it is replaced.
                if account.is_in_sync(device) {
                    (disk.is_clean, disk.is_complete) = (true, true);
                }
            }
        }
        let left_out = account.devices.iter().find(|device| {
            account.opened.is_some()
                && device.is_there
                && device.is_well
                && !device.is_harmed
                && !device.lacks
                && device.before.is_clean
                && !account.is_in_sync(device)
        });
        let left_out = left_out.map(|device| {
            Violation::of(format!("{:?} {} is well, and was left out", device.kind, device.place))
        });
        let given_up = account.of(Kind::Member).find(|device| {
            let status = account.opened.as_ref().map(|(ring, _)| ring.members()[device.place]);
            let is_well = device.is_there && device.is_well && !device.is_harmed && device.lacks;
            let has_failed = status.is_some_and(|it| it.standing == Standing::Out && it.failure.is_some());
            is_well && has_failed && scene.loses_all.is_none()
        });
        let given_up = given_up.map(|device| {
            Violation::of(format!("member {} is well, and its rebuild was given up", device.place))
        });
        if let Some((ring, _)) = &account.opened {
            let rebuilt = account
                .of(Kind::Member)
                .filter(|device| device.lacks && ring.members()[device.place].standing == Standing::InSync);
            self.outcome.tally.rebuilt += rebuilt.count() as u64;
        }
        // The ring's tasks go with the executor, the handle to it here.
        account.opened = None;
        let offence = scene.watch.offence().map(Violation::of);
        scene.violation.take().or(offence).or(left_out).or(given_up)
    }

    /// What the end of a life leaves on the drives and in the arena.
    pub(super) fn settle(&mut self, cut: CutKind) {
        for (_, disk) in &self.devices {
            match cut {
                CutKind::Kill if self.setup.has_network => {
                    let mut image = disk.image.borrow_mut();
                    image.kill_connected();
                    self.outcome.tally.late += u64::from(image.has_late());
                }
                CutKind::Kill => disk.image.borrow_mut().kill(&mut self.random),
                CutKind::PowerCut => disk.image.borrow_mut().power_cut(&mut self.random),
            }
        }
        if cut == CutKind::PowerCut {
            self.arena.clear();
            self.power_was_cut = true;
        }
        self.last_cut = Some(cut);
    }
}

impl Scene {
    pub(super) fn is_over(&self) -> bool {
        self.env.is_stopped() || self.violation.borrow().is_some()
    }

    fn members(&self) -> Vec<Option<Member>> {
        let account = self.account.borrow();
        let member = |device: &InLife| {
            let (drive, place, watch) = (device.drive.clone(), device.place, Rc::clone(&self.watch));
            device.is_there.then_some(Member { drive, place, watch })
        };
        account.of(Kind::Member).map(member).collect()
    }

    fn log_devices(&self) -> Vec<Option<SimDrive>> {
        let account = self.account.borrow();
        account.of(Kind::Log).map(|device| device.is_there.then(|| device.drive.clone())).collect()
    }

    /// Opens the volume.
    pub(super) async fn open(&self, arena: SimArena, setup: &Setup) -> Result<RingVolume, Error> {
        let (env, answer_max_ns) = (self.env.clone(), setup.ring.answer_max_ns);
        let ring: SimRing = MirrorPages::new(env.clone(), self.members(), setup.ring)?;
        let logs = SimLogs::open(env.clone(), self.log_devices(), ring.clone(), answer_max_ns).await?;
        let (home, log) = (Rc::new(ring.clone()), Rc::new(logs.clone()));
        let volume = Volume::open(env, arena, home, log, true, setup.open).await?;
        if !self.env.is_stopped() {
            let mut account = self.account.borrow_mut();
            account.open(ring.clone(), logs);
            if account.is_spotless() && can_watch(setup.ring.policy) {
                self.watch.begin(ring);
            }
        }
        Ok(volume)
    }

    /// Waits until every member that can be rebuilt is.
    async fn wait_for_rebuilds(&self) {
        let began_ns = self.env.now_ns();
        loop {
            let Some((ring, _)) = self.account.borrow().opened.clone() else { return };
            let is_rebuilding = |account: &Account| {
                account.of(Kind::Member).any(|device| {
                    let standing = ring.members()[device.place].standing;
                    device.is_well && matches!(standing, Standing::Rebuilding { .. } | Standing::Stale)
                })
            };
            if self.is_over() || !is_rebuilding(&self.account.borrow()) {
                return;
            }
            if self.env.now_ns() - began_ns > REBUILD_MAX_NS {
                let what = format!("a rebuild comes to no end: {:?}", ring.members());
                self.violation.borrow_mut().get_or_insert(Violation { what });
                return;
            }
            self.env.sleep(200_000).await;
        }
    }

    /// Cuts the life soon after some member that lacked writes counts again.
    async fn end_with_a_rebuild(self: Rc<Self>, mut random: Random) {
        loop {
            self.env.sleep(random.below(50_000)).await;
            if self.is_over() {
                return;
            }
            let account = self.account.borrow();
            if account.of(Kind::Member).any(|device| device.lacks && account.is_complete(device)) {
                break;
            }
        }
        self.end_soon(&mut random).await;
    }

    /// Cuts the life soon after some member was left out.
    async fn end_with_one_left_out(self: Rc<Self>, mut random: Random) {
        let is_out = || {
            let account = self.account.borrow();
            let Some((ring, _)) = account.opened.as_ref() else { return false };
            account
                .of(Kind::Member)
                .any(|device| device.is_there && ring.members()[device.place].standing == Standing::Out)
        };
        while !is_out() {
            self.env.sleep(random.below(20_000)).await;
            if self.is_over() {
                return;
            }
        }
        self.end_soon(&mut random).await;
    }

    async fn end_soon(&self, random: &mut Random) {
        let soon_ns = 1_000u64 << random.below(14);
        self.env.sleep(random.below(soon_ns)).await;
        self.env.stop().raise();
    }

    /// Takes everything home again and again.
    async fn take_home(self: Rc<Self>, volume: RingVolume) {
        while !self.is_over() && volume.checkpoint().await.is_ok() {
            self.env.sleep(100_000).await;
        }
    }

    /// Looks for rot again and again.
    async fn scrub(self: Rc<Self>, volume: RingVolume, bytes_per_s: u64) {
        while !self.is_over() {
            let scrubbed = volume.scrub(Mending::Mend, bytes_per_s).await;
            if self.is_over() {
                return;
            }
            if let Ok(report) = scrubbed {
                if report.wrong_copies > 0 && self.account.borrow().is_spotless() {
                    let what = format!("a scrub found wrong copies on members that are well: {report:?}");
                    self.violation.borrow_mut().get_or_insert(Violation { what });
                }
                self.tally.borrow_mut().scrubs += 1;
                self.tally.borrow_mut().scrubbed_wrong += report.wrong_copies;
                if !report.damaged_pages.is_empty() || !report.damaged_table_pages.is_empty() {
                    let what = format!("a scrub found what no member has: {report:?}");
                    self.violation.borrow_mut().get_or_insert(Violation { what });
                }
            }
            self.env.sleep(1_000_000).await;
        }
    }

    /// Makes every device whole: what is foreign is replaced, what lacks writes rebuilt, what rotted mended.
    async fn heal(&self, volume: &RingVolume, random: &mut Random) -> Result<Result<(), Violation>, Error> {
        let devices = self.account.borrow().devices.len();
        for number in 0..devices {
            if self.may_be_replaced(number) {
                self.replace(number, random).await;
            }
        }
        self.wait_for_rebuilds().await;
        for round in 0.. {
            if self.is_over() {
                return Ok(Ok(()));
            }
            volume.checkpoint().await?;
            let report = volume.scrub(Mending::Mend, u64::MAX).await?;
            self.tally.borrow_mut().scrubs += 1;
            self.tally.borrow_mut().scrubbed_wrong += report.wrong_copies;
            let is_damaged = !report.damaged_pages.is_empty() || !report.damaged_table_pages.is_empty();
            if is_damaged || (round == 3 && report.wrong_copies > 0) {
                return Ok(Err(Violation::of(format!("round {round} of healing: {report:?}"))));
            }
            if report.wrong_copies == 0 {
                break;
            }
            // What is mended is written in its member's turn.
            self.env.sleep(100_000_000).await;
        }
        volume.checkpoint().await?;
        Ok(Ok(()))
    }
}
