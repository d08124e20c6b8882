//! What goes wrong in the end, beyond what the redundancy bears, and what remains.
//!
//! | what | what remains |
//! |---|---|
//! | only members are there that lack writes, or rotted | the volume refuses, or what it serves is right |
//! | only log devices are there that were left out | the same |
//! | the same pages rot on every member | these pages are reported, the others are served |
//! | all members, all log devices, or both die or fall silent while it is used | it stops, and acknowledges nothing any more; once they are well, everything is there |
//! | all log devices are what they were at some moment of the last opening, and it ended in order or went on for some checkpoints | it refuses; with what they were in the end, everything is there |
//! | a start without those that have everything ([`Machine::false_start`]), between any two lives | as of the first two; where it refuses, the game goes on as if it had not been tried |

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use evenkeel_engine::device::{Extent, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::format::layout::{LOG_COPIES, log_copy_offset};
use evenkeel_engine::format::superblock::Superblock;
use evenkeel_engine::format::{PAGE, PAGE_BYTES, log_head};

use super::account::{Disk, Kind};
use super::life::{End, Fate, Machine, Work};
use super::mishaps::{Mishap, harm};
use crate::cuts::{CutKind, CutPlan};
use crate::executor::Halt;
use crate::image::{Image, SharedImage};
use crate::oracle::{Floor, Violation};
use crate::random::Random;
use crate::scenario::rules::look;
use crate::workload::{Stage, read_known, run_clients};

/// What goes wrong in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beyond {
    /// Nothing more than the redundancy bears.
    Nothing,
    /// Every member that has everything is gone, the others are there.
    OnlyStaleMembers,
    /// Every log device that has everything is gone, the others are there.
    OnlyStaleLogs,
    /// Pages rot on every member.
    RotEverywhere,
    /// All of these die while the volume is used.
    AllDie {
        /// Members.
        members: bool,
        /// Log devices.
        logs: bool,
    },
    /// All log devices are what they were in the middle of the last opening.
    LogsPutBack {
        /// Whether that opening ended in order.
        ended_in_order: bool,
    },
}

impl Beyond {
    pub(super) fn draw(random: &mut Random) -> Self {
        match random.below(20) {
            0..2 => Self::OnlyStaleMembers,
            2..4 => Self::OnlyStaleLogs,
            4 => Self::RotEverywhere,
            5 => Self::AllDie { members: true, logs: false },
            6 => Self::AllDie { members: false, logs: true },
            7 => Self::AllDie { members: true, logs: true },
            8 => Self::LogsPutBack { ended_in_order: random.coin() },
            _ => Self::Nothing,
        }
    }
}

/// Checkpoints behind which the members know that the log went on.
const CHECKPOINTS_TOLD: usize = 3;

/// What a volume beyond its redundancy came to.
enum Came {
    /// It refused to open.
    Refused,
    /// It was served.
    Served,
}

impl Machine {
    /// What goes wrong in the end.
    pub(super) fn go_beyond(&mut self) -> Result<(), Violation> {
        match self.setup.beyond {
            Beyond::Nothing => Ok(()),
            Beyond::OnlyStaleMembers => self.only_stale(Kind::Member),
            Beyond::OnlyStaleLogs => self.only_stale(Kind::Log),
            Beyond::RotEverywhere => self.rot_everywhere(),
            Beyond::AllDie { members, logs } => {
                let kinds = [(members, Kind::Member), (logs, Kind::Log)];
                self.all_die(kinds.into_iter().filter(|(dies, _)| *dies).map(|(_, kind)| kind).collect())
            }
            Beyond::LogsPutBack { ended_in_order } => self.put_logs_back(ended_in_order),
        }
    }

    fn kind_of(&self, number: usize) -> Kind {
        self.devices[number].0
    }

    /// A life that ends in a power cut, with devices of these fates.
    fn live_and_cut(&mut self, fates: &[Fate]) -> Result<(), Violation> {
        let at_event = Some(self.random.below(self.life_events));
        let plan = CutPlan { at_event, kind: CutKind::PowerCut };
        self.live(plan, Work::Clients, fates)?;
        self.settle(CutKind::PowerCut);
        Ok(())
    }

    fn only_stale(&mut self, kind: Kind) -> Result<(), Violation> {
        if kind == Kind::Log && self.setup.has_log_on_members() {
            return Ok(());
        }
        let keeper = self.keeper(kind);
        let is_other = |machine: &Self, number: usize| machine.kind_of(number) == kind && number != keeper;
        let numbers = 0..self.devices.len();
        if !numbers.clone().any(|number| is_other(self, number)) {
            return Ok(());
        }
        let without = |machine: &Self, is_gone: &dyn Fn(usize) -> bool| -> Vec<Fate> {
            let fate = |number| if is_gone(number) { Fate::Gone } else { Fate::Well };
            (0..machine.devices.len()).map(fate).collect()
        };
        let fates = without(self, &|number| is_other(self, number));
        self.live_and_cut(&fates)?;
        // One that lied, rotted or is what it was may have lost what nobody can know of.
        let is_unclean = |number: &usize| is_other(self, *number) && !self.devices[*number].1.is_clean;
        let unclean: Vec<usize> = numbers.clone().filter(is_unclean).collect();
        match kind {
            Kind::Log => unclean.into_iter().for_each(|number| self.replace_blank(number)),
            Kind::Member if self.setup.has_log_on_members() && !unclean.is_empty() => return Ok(()),
            Kind::Member => {}
        }
        let is_complete = |number: usize| self.kind_of(number) == kind && self.devices[number].1.is_complete;
        let fates = without(self, &is_complete);
        match self.look_without(&fates)? {
            Came::Served => Ok(()),
            Came::Refused => {
                self.settle(CutKind::PowerCut);
                let fates = self.all(Fate::Well);
                self.live(CutPlan::default(), Work::Heal, &fates).map(drop)
            }
        }
    }

    /// Somebody starts the volume though all members, or all log devices, that have everything are away, and some of the
    /// others too; one that could know of it is there. Answers whether it refused: then nothing has changed for whoever
    /// comes back.
    pub(super) fn false_start(&mut self) -> Result<bool, Violation> {
        let (kind, others) = match self.setup.has_log_on_members() || self.random.coin() {
            true => (Kind::Member, Kind::Log),
            false => (Kind::Log, Kind::Member),
        };
        let knowing = (!self.setup.has_log_on_members()).then(|| self.keeper(others));
        let mut fate_of = |(number, (found, disk)): (usize, &(Kind, Disk))| {
            let is_away = match *found == kind {
                true => disk.is_complete || !disk.is_clean,
                false => Some(number) != knowing && self.random.chance(0.4),
            };
            if is_away { Fate::Gone } else { Fate::Well }
        };
        let fates: Vec<Fate> = self.devices.iter().enumerate().map(&mut fate_of).collect();
        let before = self.devices.clone();
        match self.look_without(&fates)? {
            Came::Served => Ok(false),
            Came::Refused => {
                self.devices = before;
                self.outcome.tally.false_starts += 1;
                self.settle(CutKind::Kill);
                Ok(true)
            }
        }
    }

    /// Opens the volume without those that have everything.
    fn look_without(&mut self, fates: &[Fate]) -> Result<Came, Violation> {
        self.look_beyond(fates, &vec![false; self.setup.habits.places.pages()], true)
    }

    fn rot_everywhere(&mut self) -> Result<(), Violation> {
        let fates = self.all(Fate::Well);
        if !matches!(self.live(CutPlan::default(), Work::Heal, &fates)?, End::Done) {
            return Ok(());
        }
        self.settle(CutKind::PowerCut);
        let mut harmed = vec![false; self.setup.habits.places.pages()];
        let layout = self.layout();
        let there = self.setup.habits.places.within(layout.pages * PAGE_BYTES).pages();
        for _ in 0..1 + self.random.below(3) {
            let page = self.random.index(there);
            harmed[page] = true;
            let on_volume = self.setup.habits.places.page_on_volume(page);
            let zone = Extent::new(layout.page_offset(on_volume) + self.setup.data_offset(), PAGE_BYTES);
            for number in 0..self.setup.members {
                let mishap = *self.random.pick(&[Mishap::Rots, Mishap::CannotRead]);
                harm(&self.devices[number].1.image, mishap, zone, &mut self.random);
            }
        }
        self.note(|| format!("pages that rot everywhere: {harmed:?}"));
        match self.look_beyond(&fates, &harmed, false)? {
            Came::Served => Ok(()),
            Came::Refused => Err(Violation::of("it refuses to open for some pages that rotted")),
        }
    }

    /// Opens the volume and looks at every page. Those of `harmed` may be reported, any if `may_report`; all others are
    /// right.
    fn look_beyond(&mut self, fates: &[Fate], harmed: &[bool], may_report: bool) -> Result<Came, Violation> {
        self.note(|| format!("beyond the redundancy with {fates:?}"));
        let mut life = self.life(CutPlan::default(), fates, None);
        let (arena, scene, setup) = (life.arena, Rc::clone(&life.scene), self.setup);
        let (known_size, mut random) = (self.known_size.clone(), Random::new(self.setup.seed ^ 0x6f4e));
        let grown_over = harmed.iter().position(|&is_harmed| is_harmed);
        let lived = life.executor.block_on(async move {
            let volume = scene.open(arena, &setup).await?;
            let looked = look(&volume, setup.habits.places).await;
            let mut judged = known_size.judge(volume.size_bytes()).map(drop);
            if let Some(page) = grown_over.filter(|_| judged.is_ok()) {
                let page = setup.habits.places.page_on_volume(page);
                judged = scene.grow_over_damage(&volume, &setup, page, &mut random).await;
            }
            Ok::<_, Error>(judged.map(|()| looked))
        });
        self.end_life(&life.executor, &life.scene, CutPlan::default());
        drop(life.executor);
        let looked = match lived.map_err(Violation::of)? {
            Ok(looked) => looked?,
            Err(
                Error::Unusable(_)
                | Error::Damaged { .. }
                | Error::Device(_)
                | Error::ForeignWrites { .. }
                | Error::OlderDevices { .. },
            ) => {
                self.outcome.tally.refusals += 1;
                return Ok(Came::Refused);
            }
            Err(error) => return Err(Violation::of(format!("it refuses for a wrong reason: {error}"))),
        };
        for (page, error) in looked.failed.iter().enumerate() {
            if let Some(error) = error.as_ref().filter(|_| !may_report && !harmed[page]) {
                return Err(Violation::of(format!("page {page} cannot be read: {error}")));
            }
        }
        self.outcome.tally.served += 1;
        let floor = if self.power_was_cut { Floor::Durable } else { Floor::Acknowledged };
        let is_judged = |page: usize| looked.failed[page].is_none();
        self.oracle.borrow().judge_pages(&looked.found, floor, is_judged)?;
        Ok(Came::Served)
    }

    /// Makes everything whole, and switches the machine off; answers whether every device has everything.
    fn heal_all(&mut self) -> Result<bool, Violation> {
        let fates = self.all(Fate::Well);
        self.live(CutPlan::default(), Work::Heal, &fates)?;
        self.settle(CutKind::PowerCut);
        Ok(self.devices.iter().all(|(_, disk)| disk.is_complete))
    }

    /// The generation of the newest superblock on any log device.
    fn newest_superblock(&self) -> Option<u64> {
        let on_log = |(kind, disk): &(Kind, Disk)| {
            let copies = if *kind == Kind::Log { 0..LOG_COPIES } else { 0..0 };
            let image = disk.image.borrow();
            let found = copies.filter_map(|copy| {
                let mut page = [0; PAGE];
                image.read(log_head::DATA_OFFSET + log_copy_offset(copy), &mut page);
                Superblock::decode(&page).map(|superblock| superblock.generation)
            });
            found.max()
        };
        self.devices.iter().filter_map(on_log).max()
    }

    fn put_logs_back(&mut self, ended_in_order: bool) -> Result<(), Violation> {
        if self.setup.has_log_on_members() || !self.heal_all()? {
            return Ok(());
        }
        let fates = self.all(Fate::Well);
        let mut life = self.life(CutPlan::default(), &fates, None);
        let (arena, scene, setup) = (life.arena, Rc::clone(&life.scene), self.setup);
        let (oracle, seeds, mut random) = (Rc::clone(&self.oracle), self.client_seeds(), self.random.fork());
        let operations_done = Rc::clone(&self.operations_done);
        let logs = self.devices.iter().filter(|(kind, _)| *kind == Kind::Log);
        let logs: Vec<SharedImage> = logs.map(|(_, disk)| Rc::clone(&disk.image)).collect();
        // Perhaps not before it ends: then it may be too late.
        let ends_meanwhile = ended_in_order && Random::new(self.setup.seed ^ 0xc105).coin();
        let copies: Rc<OnceCell<Vec<Image>>> = Rc::default();
        let copied = Rc::clone(&copies);
        let copy = move || {
            copied.get_or_init(|| logs.iter().map(|image| image.borrow().clone()).collect());
        };
        let lived = life.executor.block_on(async move {
            let volume = scene.open(arena, &setup).await?;
            let found = read_known(&volume, setup.habits.places).await?;
            if let Err(violation) = oracle.borrow_mut().judge_power_cut(&found) {
                return Ok(Err(violation));
            }
            let stage = Rc::new(Stage {
                volume: volume.clone(),
                oracle: Rc::clone(&oracle),
                violation: Rc::clone(&scene.violation),
                env: scene.env.clone(),
                habits: setup.habits,
                operations_done,
                forgives: Box::new(|_| false),
            });
            let most_ns = 1 << random.below(30);
            let copy_within = |most_ns: u64, mut random: Random| {
                let (env, copy) = (scene.env.clone(), copy.clone());
                scene.env.spawn(async move {
                    env.sleep(random.below(most_ns)).await;
                    copy();
                });
            };
            if !ends_meanwhile {
                copy_within(most_ns, random.fork());
            }
            run_clients(&stage, &seeds).await;
            match ends_meanwhile {
                true => copy_within(1 << (14 + random.below(12)), random.fork()),
                false => copy(),
            }
            let begun = oracle.borrow().begin_flush(Extent::new(0, setup.habits.places.known_bytes));
            if ended_in_order {
                volume.close().await?;
            } else {
                for _ in 0..CHECKPOINTS_TOLD {
                    volume.checkpoint().await?;
                }
                volume.flush(FlushScope::Whole).await?;
            }
            oracle.borrow_mut().end_flush(begun);
            Ok::<_, Error>(Ok(()))
        });
        let violation = self.end_life(&life.executor, &life.scene, CutPlan::default());
        drop(life.executor);
        lived.map_err(Violation::of)?.map_err(Violation::of)??;
        if let Some(violation) = violation {
            return Err(violation);
        }
        self.settle(CutKind::PowerCut);
        let as_they_ended = self.devices.clone();
        let newest_now = self.newest_superblock();
        let Some(copies) = copies.get() else { return Ok(()) };
        let log_disks = self.devices.iter_mut().filter(|(kind, _)| *kind == Kind::Log);
        for ((_, disk), image) in log_disks.zip(copies) {
            let mut image = image.clone();
            image.power_cut(&mut self.random);
            disk.image = Rc::new(RefCell::new(image));
        }
        if self.newest_superblock() == newest_now {
            return Ok(()); // they were copied as it ended, and hold what they do now
        }
        self.note(|| "all log devices are what they were".to_owned());
        let is_harmed = vec![false; self.setup.habits.places.pages()];
        if let Came::Served = self.look_beyond(&fates, &is_harmed, true)? {
            return Err(Violation::of("it opens with a log that its members know to be older"));
        }
        self.devices = as_they_ended;
        self.settle(CutKind::PowerCut);
        self.live(CutPlan::default(), Work::Heal, &fates).map(drop)
    }

    fn all_die(&mut self, kinds: Vec<Kind>) -> Result<(), Violation> {
        // Who dies last must have everything, whoever it is.
        let fates = self.all(Fate::Well);
        if !self.heal_all()? {
            return Ok(());
        }
        let kind = if self.random.coin() { CutKind::PowerCut } else { CutKind::Kill };
        let at_event = self.random.coin().then(|| self.random.below(self.life_events));
        let plan = CutPlan { at_event, kind };
        self.note(|| format!("all of {kinds:?} die"));
        let mut life = self.life(plan, &fates, Some(kinds));
        let (arena, scene, setup) = (life.arena, Rc::clone(&life.scene), self.setup);
        let (oracle, seeds, random) = (Rc::clone(&self.oracle), self.client_seeds(), self.random.fork());
        let operations_done = Rc::clone(&self.operations_done);
        let floor = if self.power_was_cut { Floor::Durable } else { Floor::Acknowledged };
        let stopped = Rc::new(RefCell::new(false));
        let has_stopped = Rc::clone(&stopped);
        let judged = Rc::new(RefCell::new(false));
        let was_judged = Rc::clone(&judged);
        let lived = life.executor.block_on(async move {
            scene.env.spawn(Rc::clone(&scene).go_on(1, random));
            let volume = match scene.open(arena, &setup).await {
                Ok(volume) => volume,
                Err(Error::Device(_) | Error::Unusable(_) | Error::Latched(_)) => {
                    has_stopped.replace(true);
                    return Ok(());
                }
                Err(error) => return Err(Violation::of(error)),
            };
            let first = look(&volume, setup.habits.places).await;
            if scene.is_over() {
                return Ok(());
            }
            let is_judged = |page: usize| first.failed[page].is_none();
            oracle.borrow().judge_pages(&first.found, floor, is_judged)?;
            if first.failed.iter().any(Option::is_some) {
                has_stopped.replace(true);
                return Ok(());
            }
            match floor {
                Floor::Acknowledged => oracle.borrow_mut().judge_kill(&first.found)?,
                _ => oracle.borrow_mut().go_on_from(&first.found),
            }
            was_judged.replace(true);
            let stage = Rc::new(Stage {
                volume: volume.clone(),
                oracle: Rc::clone(&oracle),
                violation: Rc::clone(&scene.violation),
                env: scene.env.clone(),
                habits: setup.habits,
                operations_done,
                forgives: Box::new(|error| matches!(error, Error::Device(_) | Error::Latched(_))),
            });
            run_clients(&stage, &seeds).await;
            if scene.is_over() {
                return Ok(());
            }
            has_stopped.replace(volume.failure().is_some());
            let last = look(&volume, setup.habits.places).await;
            if scene.is_over() {
                return Ok(());
            }
            let is_judged = |page: usize| last.failed[page].is_none();
            oracle.borrow().judge_pages(&last.found, Floor::Acknowledged, is_judged)
        });
        let violation = self.end_life(&life.executor, &life.scene, plan);
        drop(life.executor);
        if *judged.borrow() {
            self.power_was_cut = false;
        }
        self.outcome.tally.stopped += u64::from(*stopped.borrow());
        if let Some(violation) = violation {
            return Err(violation);
        }
        let cut = match lived {
            Err(Halt::Stopped { .. }) => {
                self.outcome.lives.cuts += 1;
                kind
            }
            Err(halt) => return Err(Violation::of(halt)),
            Ok(lived) => {
                lived?;
                kind
            }
        };
        self.settle(cut);
        self.live(CutPlan::default(), Work::Clients, &fates)?;
        self.settle(CutKind::PowerCut);
        self.live(CutPlan::default(), Work::Heal, &fates).map(drop)
    }
}
