//! What goes wrong in the end with drives that others stand in for, beyond what the redundancy bears, and what remains.
//!
//! | what | what remains |
//! |---|---|
//! | of those with pages, only members are there that lack writes, or rotted | the volume refuses, or what it serves is right |
//! | only log devices are there that failed | the same |
//! | the same pages rot on every member | these pages are reported, the others are served |
//! | all members, all log devices, or both die or fall silent while it is used | it stops, and acknowledges nothing any more; once they are well, everything is there, and of stripes without M members too |
//! | all log devices are what they were at some moment of the last opening, and it ended in order or went on for some checkpoints | it refuses; with what they were in the end, everything is there |
//! | after a cut the log of stripes cannot be read whole on any log device | it refuses, or what it serves is right; once it can be read, everything is there |
//! | a start with the log device alone whose place another one took in the last run (`Machine::start_with_retired`) | as of the first two; where it refuses, the game goes on as if it had not been tried |
//! | a start without those that have everything (`Machine::false_start`), between any two runs | as of the first two; where it refuses, the game goes on as if it had not been tried |

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use evenkeel_engine::device::{Extent, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::format::superblock::Superblock;
use evenkeel_engine::format::{PAGE, PAGE_BYTES};

use super::Seeded;
use super::judged::{Beside, Judged};
use super::machine::{End, Fate, Machine, Work};
use super::rules::Rules;
use crate::cuts::{CutKind, CutPlan};
use crate::faults::Fault;
use crate::fixture::Run;
use crate::ground_truth::Disk;
use crate::image::Image;
use crate::oracle::{Floor, Violation};
use crate::random::Random;
use crate::testbed::Kind;
use crate::workload::{read_known, run_clients};

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
    /// After a cut, a part of the log of stripes cannot be read on any log device. It is drawn for stripes alone.
    StripeLogUnread,
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

impl<T: Seeded> Machine<T> {
    /// What goes wrong in the end.
    pub(super) fn go_beyond(&mut self, beyond: Beyond) -> Result<(), Violation> {
        match beyond {
            Beyond::Nothing => Ok(()),
            Beyond::OnlyStaleMembers => self.only_stale(Kind::Pages),
            Beyond::OnlyStaleLogs => self.only_stale(Kind::Log),
            Beyond::RotEverywhere => self.rot_everywhere(),
            Beyond::AllDie { members, logs } => {
                let kinds = [(members, Kind::Pages), (logs, Kind::Log)];
                self.all_die(kinds.into_iter().filter(|(dies, _)| *dies).map(|(_, kind)| kind).collect())
            }
            Beyond::LogsPutBack { ended_in_order } => self.put_logs_back(ended_in_order),
            Beyond::StripeLogUnread => self.leave_stripe_log_unread(),
        }
    }

    /// Those that this speaks of are gone, the others there.
    fn without(&self, is_gone: impl Fn(usize) -> bool) -> Vec<Fate> {
        let fate = |number| if is_gone(number) { Fate::Gone } else { Fate::Well };
        (0..self.disks.len()).map(fate).collect()
    }

    fn only_stale(&mut self, kind: Kind) -> Result<(), Violation> {
        let testbed = self.setup.testbed;
        if kind == Kind::Log && testbed.log_drives() == 0 {
            return Ok(());
        }
        let keepers = self.keepers(kind);
        let others: Vec<usize> = self.of(kind).filter(|number| !keepers.contains(number)).collect();
        if others.is_empty() {
            return Ok(());
        }
        let fates = self.without(|number| others.contains(&number));
        let at_event = Some(self.random.below(self.run_events));
        self.run(CutPlan { at_event, kind: CutKind::PowerCut }, Work::Clients, &fates)?;
        self.settle(CutKind::PowerCut);
        // One that lied, rotted or is what it was may have lost what nobody can know of.
        let unclean: Vec<usize> = others.into_iter().filter(|&number| !self.disks[number].is_clean).collect();
        match kind {
            Kind::Log => unclean.into_iter().for_each(|number| self.replace_blank(number)),
            Kind::Pages if testbed.is_log_spread() && !unclean.is_empty() => return Ok(()),
            Kind::Pages => {}
        }
        let fates = self.without(|number| testbed.kind(number) == kind && self.disks[number].is_complete);
        if !self.look_without(&fates)?.refused {
            return Ok(());
        }
        self.settle(CutKind::PowerCut);
        self.run_well(CutPlan::default(), Work::Heal).map(drop)
    }

    /// Somebody starts the volume though all devices with pages, or all of the log, that have everything are away, and some
    /// of the others too; those that could know of it are there. Answers whether it refused: then nothing has changed for
    /// whoever comes back.
    pub(super) fn false_start(&mut self) -> Result<bool, Violation> {
        let testbed = self.setup.testbed;
        let has_logs = testbed.log_drives() > 0;
        let (kind, others) = match !has_logs || self.random.coin() {
            true => (Kind::Pages, Kind::Log),
            false => (Kind::Log, Kind::Pages),
        };
        let knowing = if has_logs { self.keepers(others) } else { Vec::new() };
        let mut fates = self.all_well();
        for (number, fate) in fates.iter_mut().enumerate() {
            let disk = &self.disks[number];
            let is_away = match testbed.kind(number) == kind {
                true => disk.is_complete || !disk.is_clean,
                false => !knowing.contains(&number) && self.random.chance(0.4),
            };
            if is_away {
                *fate = Fate::Gone;
            }
        }
        let before = self.disks.clone();
        let refused = self.look_without(&fates)?.refused;
        if refused {
            self.disks = before;
            self.outcome.members.false_starts += 1;
            self.settle(CutKind::Kill);
        }
        Ok(refused)
    }

    /// Somebody starts the volume with a log device that another one had taken the place of in the last run, and no other:
    /// it served well for as long as it had the place, and looks like it. Answers whether it refused.
    pub(super) fn start_with_retired(&mut self) -> Result<bool, Violation> {
        let Some((number, mut image)) = self.retired.take() else { return Ok(true) };
        let testbed = self.setup.testbed;
        image.power_cut(&mut self.past_random);
        let before = self.disks.clone();
        self.disks[number] = Disk::clean(Rc::new(RefCell::new(image)), false);
        let fates = self.without(|other| testbed.kind(other) == Kind::Log && other != number);
        self.note(|| format!("{} is the one that was replaced", testbed.name(number)));
        let random = self.random.clone();
        let refused = self.look_without(&fates)?.refused;
        if refused {
            self.disks = before;
            self.outcome.members.refused_retired += 1;
            self.settle(CutKind::Kill);
        }
        self.random = random;
        Ok(refused)
    }

    /// Opens the volume without enough of those that have everything, and looks at every page: it may refuse, and any page
    /// may be reported.
    fn look_without(&mut self, fates: &[Fate]) -> Result<Judged, Violation> {
        let mut rules = Rules::none(self.setup.habits.places, Floor::Durable);
        rules.may_refuse = true;
        rules.harmed.fill(true);
        self.look_beyond(fates, rules, Beside::default())
    }

    /// Opens the volume under these rules, and looks at every page.
    fn look_beyond(&mut self, fates: &[Fate], rules: Rules, beside: Beside) -> Result<Judged, Violation> {
        self.note(|| format!("beyond the redundancy with {fates:?}"));
        let run = self.begin_run(CutPlan::default(), fates);
        let judged = self.run_judged(run, Vec::new(), CutPlan::default(), rules, beside)?;
        match judged.refused {
            true => self.outcome.members.refusals += 1,
            false => self.outcome.members.served += 1,
        }
        Ok(judged)
    }

    fn rot_everywhere(&mut self) -> Result<(), Violation> {
        if self.run_well(CutPlan::default(), Work::Heal)? != End::Done {
            return Ok(());
        }
        self.settle(CutKind::PowerCut);
        let places = self.setup.habits.places;
        let mut rules = Rules::none(places, Floor::Durable);
        let (layout, testbed) = (T::layout_of(self), self.setup.testbed);
        let there = places.within(layout.pages * PAGE_BYTES).pages();
        for _ in 0..1 + self.random.below(3) {
            let page = self.random.index(there);
            rules.harmed[page] = true;
            let offset = layout.page_offset(places.page_on_volume(page)) + testbed.data_offset(Kind::Pages);
            for number in 0..testbed.page_drives() {
                let fault = *self.random.pick(&[Fault::Rots, Fault::CannotRead]);
                fault.harm(&self.disks[number].image, Extent::new(offset, PAGE_BYTES), &mut self.random);
            }
        }
        self.note(|| format!("pages that rot everywhere: {:?}", rules.harmed));
        let random = Random::new(self.setup.seed ^ 0x6f4e);
        let rotten = rules.harmed.iter().position(|&is_harmed| is_harmed);
        let grows_over = rotten.map(|page| (places.page_on_volume(page), random));
        let fates = self.all_well();
        self.look_beyond(&fates, rules, Beside { grows_over, ..Beside::default() }).map(drop)
    }

    /// Makes everything whole, and switches the machine off; answers whether every device has everything.
    fn heal_all(&mut self) -> Result<bool, Violation> {
        self.run_well(CutPlan::default(), Work::Heal)?;
        self.settle(CutKind::PowerCut);
        Ok(self.disks.iter().all(|disk| disk.is_complete))
    }

    fn leave_stripe_log_unread(&mut self) -> Result<(), Violation> {
        let Some(zone) = self.setup.testbed.stripe_log() else { return Ok(()) };
        if !self.heal_all()? {
            return Ok(());
        }
        let at_event = Some(self.random.below(self.run_events));
        self.run_well(CutPlan { at_event, kind: CutKind::PowerCut }, Work::Clients)?;
        self.settle(CutKind::PowerCut);
        // Beside what rotted, or lacks something, more may be missing.
        if !self.disks.iter().all(|disk| disk.is_complete) {
            return Ok(());
        }
        let middle = self.random.below(zone.len / PAGE_BYTES) * PAGE_BYTES;
        let unread = match self.random.coin() {
            true => Extent::new(zone.offset, middle),
            false => Extent::new(zone.offset + middle, zone.len - middle),
        };
        let before = self.disks.clone();
        let logs: Vec<usize> = self.of(Kind::Log).collect();
        for number in logs {
            let mut image = before[number].image.borrow().clone();
            image.make_unreadable(unread);
            self.disks[number].image = Rc::new(RefCell::new(image));
        }
        self.note(|| format!("of the log of stripes {unread:?} cannot be read on any log device"));
        let mut rules = Rules::none(self.setup.habits.places, Floor::Durable);
        rules.may_refuse = true;
        if self.look_beyond(&self.all_well(), rules, Beside::default())?.refused {
            self.disks = before;
            self.settle(CutKind::Kill);
        }
        self.run_well(CutPlan::default(), Work::Heal).map(drop)
    }

    /// The generation of the newest superblock on any log device.
    fn newest_superblock(&self) -> Option<u64> {
        let (layout, testbed) = (T::layout_of(self), self.setup.testbed);
        let places = testbed.superblocks(Kind::Log, &layout);
        let generations = self.of(Kind::Log).flat_map(|number| {
            let image = self.disks[number].image.borrow();
            let found = places.iter().filter_map(|&offset| {
                let mut page = [0; PAGE];
                image.read(offset, &mut page);
                Superblock::decode(&page).map(|superblock| superblock.generation)
            });
            found.max()
        });
        generations.max()
    }

    fn put_logs_back(&mut self, ended_in_order: bool) -> Result<(), Violation> {
        if self.setup.testbed.log_drives() == 0 || !self.heal_all()? {
            return Ok(());
        }
        let Run { mut executor, arena, fixture } = self.begin_run(CutPlan::default(), &self.all_well());
        let (shared, setup, oracle) = (Rc::clone(&fixture), self.setup, Rc::clone(&self.oracle));
        let (seeds, mut random) = (self.client_seeds(), self.random.fork());
        let operations_done = Rc::clone(&self.operations_done);
        let logs: Vec<_> = self.of(Kind::Log).map(|number| Rc::clone(&self.disks[number].image)).collect();
        // Perhaps not before it ends: then it may be too late.
        let ends_meanwhile = ended_in_order && Random::new(self.setup.seed ^ 0xc105).coin();
        let copies: Rc<OnceCell<Vec<Image>>> = Rc::default();
        let copied = Rc::clone(&copies);
        let copy = move || {
            copied.get_or_init(|| logs.iter().map(|image| image.borrow().clone()).collect());
        };
        let ended = executor.block_on(async move {
            let volume = shared.open(arena, setup.open).await?;
            let found = read_known(&volume, setup.habits.places).await?;
            if let Err(violation) = oracle.borrow_mut().judge_power_cut(&found) {
                return Ok(Err(violation));
            }
            let workload = shared.workload(&volume, &oracle, setup.habits, operations_done, |_| false);
            let most_ns = 1 << random.below(30);
            let copy_within = |most_ns: u64, mut random: Random| {
                let (env, copy) = (shared.env.clone(), copy.clone());
                shared.env.spawn(async move {
                    env.sleep(random.below(most_ns)).await;
                    copy();
                });
            };
            if !ends_meanwhile {
                copy_within(most_ns, random.fork());
            }
            run_clients(&workload, &seeds).await;
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
        let violation = self.end_run(executor, &fixture, CutPlan::default(), true);
        ended.map_err(Violation::of)?.map_err(Violation::of)??;
        if let Some(violation) = violation {
            return Err(violation);
        }
        self.settle(CutKind::PowerCut);
        let as_they_ended = self.disks.clone();
        let newest_now = self.newest_superblock();
        let Some(copies) = copies.get() else { return Ok(()) };
        let logs: Vec<usize> = self.of(Kind::Log).collect();
        for (number, image) in logs.into_iter().zip(copies) {
            let mut image = image.clone();
            image.power_cut(&mut self.random);
            self.disks[number].image = Rc::new(RefCell::new(image));
        }
        if self.newest_superblock() == newest_now {
            return Ok(()); // they were copied as it ended, and hold what they do now
        }
        self.note(|| "all log devices are what they were".to_owned());
        if !self.look_without(&self.all_well())?.refused {
            return Err(Violation::of("it opens with a log that its members know to be older"));
        }
        self.disks = as_they_ended;
        self.settle(CutKind::PowerCut);
        self.run_well(CutPlan::default(), Work::Heal).map(drop)
    }

    fn all_die(&mut self, kinds: Vec<Kind>) -> Result<(), Violation> {
        // Who dies last must have everything, whoever it is.
        if !self.heal_all()? {
            return Ok(());
        }
        let kind = if self.random.coin() { CutKind::PowerCut } else { CutKind::Kill };
        let at_event = self.random.coin().then(|| self.random.below(self.run_events));
        let plan = CutPlan { at_event, kind };
        self.note(|| format!("all of {kinds:?} die"));
        let run = self.begin_run(plan, &self.all_well());
        let seeds = self.client_seeds();
        let beside = Beside { all_fail: Some((kinds, self.random.fork())), ..Beside::default() };
        let mut rules = Rules::none(self.setup.habits.places, Floor::Durable);
        (rules.may_refuse, rules.may_fail, rules.works) = (true, true, true);
        let judged = self.run_judged(run, seeds, plan, rules, beside)?;
        let has_stopped = judged.refused || judged.reported[0] > 0 || judged.has_latched;
        self.outcome.members.stopped += u64::from(has_stopped);
        self.settle(kind);
        self.run_well(CutPlan::default(), Work::Clients)?;
        self.settle(CutKind::PowerCut);
        if self.setup.testbed.stripe_log().is_some() {
            self.lose_some()?;
        }
        self.run_well(CutPlan::default(), Work::Heal).map(drop)
    }

    /// Opens the volume without as many members as it needs none of: what was computed as they died must fit what the others
    /// have.
    fn lose_some(&mut self) -> Result<(), Violation> {
        if !self.disks.iter().all(|disk| disk.is_complete) {
            return Ok(());
        }
        let kept = self.keepers(Kind::Pages);
        let fates =
            self.without(|number| self.setup.testbed.kind(number) == Kind::Pages && !kept.contains(&number));
        self.run(CutPlan::default(), Work::Checkpoint, &fates)?;
        self.settle(CutKind::PowerCut);
        Ok(())
    }
}
