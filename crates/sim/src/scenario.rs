//! One seed's simulation: a volume, its drives, several lives, a cut at the end of each.
//!
//! Which faults are fair, and why: drives lose and tear what was not flushed, in any order, because drives do.
//! They keep what they promise (sectors old or new, where they promise it) and what they acknowledged as
//! durable: without redundancy nothing can be demanded of a volume whose only drive lies.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_engine::counters::Snapshot;
use evenkeel_engine::device::Geometry;
use evenkeel_engine::error::Error;
use evenkeel_engine::format::PAGE;
use evenkeel_engine::format::layout::{HOME_COPIES, Layout, home_copy_offset};
use evenkeel_engine::format::superblock::Superblock;
use evenkeel_engine::options::{CreateOptions, Journaling, OpenOptions};
use evenkeel_engine::volume::{Volume, check, create};

use crate::arena::{ArenaBytes, SimArena};
use crate::cuts::{CutKind, CutPlan, Cuts};
use crate::drive::{DriveOptions, SimDrive};
use crate::executor::{Executor, Halt};
use crate::faults::Faults;
use crate::image::{Image, SharedImage};
use crate::latency::Latency;
use crate::oracle::{Oracle, Violation};
use crate::random::Random;
use crate::workload::{Habits, Stage, run_clients};

/// What is simulated, all of it drawn from a seed.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// The seed.
    pub seed: u64,
    /// Lives that end in a cut.
    pub cuts: u32,
    /// Whether the log has a device of its own.
    pub separate_log: bool,
    /// Sector of both drives.
    pub sector_bytes: u32,
    /// Whether the drives promise old or new sectors.
    pub atomic_sectors: bool,
    /// How the volume is made.
    pub create: CreateOptions,
    /// How it is opened.
    pub open: OpenOptions,
    /// Bytes of the arena.
    pub arena_bytes: usize,
    /// What its clients do.
    pub habits: Habits,
    /// Whether every other life only opens the volume and takes it home, and is then switched off: what an
    /// earlier life left behind the end of the log is then still there.
    pub idle_lives: bool,
    /// Whether the medium loses an acknowledged record of the log before the last life: the volume must refuse
    /// to open then, not serve what is left.
    pub loses_record: bool,
}

/// What a simulation did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Power cuts and kills.
    pub cuts: u64,
    /// Times that the volume was opened after a cut.
    pub recoveries: u64,
    /// A hash over everything that happened.
    pub trace: u64,
    /// The engine's counters, of all lives together.
    pub checkpoints: u64,
    /// Commits of all lives together.
    pub commits: u64,
    /// Direct writes of all lives together.
    pub direct_writes: u64,
}

impl Outcome {
    /// Adds what another simulation did.
    pub fn add(&mut self, other: &Self) {
        self.cuts += other.cuts;
        self.recoveries += other.recoveries;
        self.checkpoints += other.checkpoints;
        self.commits += other.commits;
        self.direct_writes += other.direct_writes;
        self.trace = crate::trace::fold(self.trace, other.trace);
    }
}

impl Setup {
    /// What `seed` stands for.
    pub fn draw(seed: u64, cuts: u32) -> Self {
        let mut random = Random::new(seed);
        let atomic_sectors = random.chance(0.75);
        let sector_bytes = *random.pick(&[512, 512, 4096]);
        let pages = 24 + random.below(60);
        let log_bytes = match atomic_sectors {
            true => (96 + random.below(160)) << 10,
            false => (1 << 20) + (random.below(256) << 10),
        };
        let atomic_max_bytes = *random.pick(&[8192, 16384]);
        let journaling = match random.below(10) {
            0..6 => Journaling::Wasteless,
            6..8 => Journaling::Selective { threshold_bytes: atomic_max_bytes },
            8 => Journaling::WholePages,
            _ => Journaling::Ordered,
        };
        let stripe_bytes = 3000 + random.below(40_000);
        let clients = (1 + random.below(4)).min((pages * 4096).div_ceil(stripe_bytes));
        Self {
            seed,
            cuts,
            separate_log: random.coin(),
            sector_bytes,
            atomic_sectors,
            create: CreateOptions { size_bytes: pages * 4096, log_bytes, atomic_max_bytes },
            open: OpenOptions {
                journaling,
                batch_max_bytes: 4096 << random.below(5),
                commits_in_flight_max: 1 + random.index(3),
                cached_pages_max: 1 << random.below(7),
            },
            arena_bytes: (80 << 10) + (random.index(10) << 13),
            habits: Habits {
                clients,
                operations: 200 / clients / u64::from(cuts).max(1),
                stripe_bytes,
                size_bytes: pages * 4096,
                atomic_max_bytes,
                large_share: 0.15,
                // The baselines write whole pages, and with them what others wrote there: they promise less.
                atomic_writes: matches!(journaling, Journaling::Wasteless | Journaling::Selective { .. }),
                may_fail: false,
            },
            idle_lives: random.chance(0.2),
            loses_record: random.chance(0.05),
        }
    }

    fn geometry(&self, size_bytes: u64) -> Geometry {
        let Self { sector_bytes, atomic_sectors, .. } = *self;
        Geometry { size_bytes, sector_bytes, atomic_sectors }
    }
}

/// What outlives a life.
struct Machine {
    setup: Setup,
    random: Random,
    home: SharedImage,
    log: SharedImage,
    arena: ArenaBytes,
    oracle: Rc<RefCell<Oracle>>,
    /// Whether the power was cut since the oracle last judged: a life that is cut while it opens is not judged.
    power_was_cut: bool,
    outcome: Outcome,
}

/// How a life ended.
enum End {
    /// Its work was done.
    Done,
    /// A cut struck.
    Cut(CutKind),
}

/// Simulates one seed.
///
/// # Errors
///
/// The violation found, with the life in which it was.
pub fn run(setup: Setup) -> Result<Outcome, Violation> {
    let layout_bytes =
        Layout::home_bytes_for(setup.create.size_bytes / 4096, setup.create.log_bytes, setup.separate_log);
    let log_device_bytes = setup.create.log_bytes.next_multiple_of(4096) + 2 * 4096;
    let mut machine = Machine {
        setup,
        random: Random::new(setup.seed ^ 0x5eed),
        home: Image::shared(setup.geometry(layout_bytes)),
        log: Image::shared(setup.geometry(log_device_bytes)),
        arena: ArenaBytes::new(setup.arena_bytes),
        oracle: Rc::new(RefCell::new(Oracle::new(setup.create.size_bytes as usize))),
        power_was_cut: true,
        outcome: Outcome::default(),
    };
    machine.create()?;
    // How many events a life has is only known once one was lived.
    let mut life_events = 400;
    let mut last_cut = None;
    for life in 0..=setup.cuts {
        let kind = if machine.random.chance(0.7) { CutKind::PowerCut } else { CutKind::Kill };
        let is_last = life == setup.cuts;
        // Some cuts strike while the volume recovers from the one before.
        let at_event = (!is_last).then(|| match machine.random.chance(0.3) {
            true => machine.random.below(60),
            false => machine.random.below(life_events),
        });
        let is_idle = setup.idle_lives && life % 2 == 1 && !is_last;
        let plan = CutPlan { at_event: at_event.filter(|_| !is_idle), kind };
        if is_last && setup.loses_record && machine.lose_record() {
            return match machine.live(plan, last_cut, false) {
                Ok(_) => {
                    Err(Violation { what: "an acknowledged record was lost, and nobody said so".into() })
                }
                Err(violation) if violation.what.contains("of the log is damaged") => Ok(machine.outcome),
                Err(violation) => Err(violation),
            };
        }
        let (end, events) = machine.live(plan, last_cut, is_idle).map_err(|violation| Violation {
            what: format!("life {life}, after {last_cut:?}: {}", violation.what),
        })?;
        life_events = life_events.max(events + 1);
        last_cut = match end {
            End::Done => Some(CutKind::PowerCut), // the machine is switched off
            End::Cut(kind) => Some(kind),
        };
        machine.settle(last_cut);
    }
    Ok(machine.outcome)
}

impl Machine {
    fn create(&mut self) -> Result<(), Violation> {
        let mut executor = Executor::new(self.random.number());
        let cuts = Cuts::none(executor.stop());
        let (home, log) = self.drives(&executor, &cuts);
        let setup = self.setup;
        let made = executor.block_on(async move {
            let volume = setup.seed | 1;
            create(&*home, &*log, setup.separate_log, setup.create, volume).await
        });
        drop(executor);
        self.settle(Some(CutKind::PowerCut));
        finished(made)
    }

    fn drives(&mut self, executor: &Executor, cuts: &Cuts) -> (Rc<SimDrive>, Rc<SimDrive>) {
        let mut open = |image: &SharedImage| {
            let options = DriveOptions {
                latency: Latency::default(),
                faults: Faults::default(),
                seed: self.random.number(),
            };
            Rc::new(SimDrive::open(Rc::clone(image), executor.env(), cuts.clone(), options))
        };
        let home = open(&self.home);
        let log = if self.setup.separate_log { open(&self.log) } else { Rc::clone(&home) };
        (home, log)
    }

    /// One life, judged at its beginning by what the last cut must have left.
    fn live(
        &mut self,
        plan: CutPlan,
        last_cut: Option<CutKind>,
        is_idle: bool,
    ) -> Result<(End, u64), Violation> {
        let mut executor = Executor::new(self.random.number());
        executor.limit_polls(200_000);
        let cuts = Cuts::new(plan, executor.stop());
        let (home, log) = self.drives(&executor, &cuts);
        let env = executor.env();
        let arena = SimArena::open(self.arena.clone(), env.clone(), cuts.clone(), self.random.number());
        let (setup, oracle, power_was_cut) = (self.setup, Rc::clone(&self.oracle), self.power_was_cut);
        let judged_now = Rc::new(Cell::new(false));
        let has_judged = Rc::clone(&judged_now);
        let violation = Rc::new(RefCell::new(None));
        let seen = Rc::clone(&violation);
        let seeds: Vec<u64> = (0..setup.habits.clients).map(|_| self.random.number()).collect();
        let lived = executor.block_on(async move {
            let volume = Volume::open(env.clone(), arena, home, log, setup.separate_log, setup.open).await?;
            let mut found = vec![0; setup.habits.size_bytes as usize];
            volume.read(0, &mut found).await?;
            if env.is_stopped() {
                return Ok((volume.counters(), Ok(())));
            }
            let judged = match power_was_cut {
                false => oracle.borrow_mut().judge_kill(&found),
                true => oracle.borrow_mut().judge_power_cut(&found),
            };
            has_judged.set(true);
            if judged.is_err() {
                return Ok((volume.counters(), judged));
            }
            if is_idle {
                volume.checkpoint().await?;
                return Ok((volume.counters(), Ok(())));
            }
            let stage =
                Rc::new(Stage { volume: volume.clone(), oracle, violation: seen, env, habits: setup.habits });
            run_clients(&stage, &seeds).await;
            let is_over = stage.violation.borrow().is_some() || stage.env.is_stopped();
            if !is_over {
                let report = check(&volume).await?;
                if !report.is_clean() {
                    return Ok((volume.counters(), Err(Violation { what: format!("{report:?}") })));
                }
            }
            Ok::<(Snapshot, Result<(), Violation>), Error>((volume.counters(), Ok(())))
        });
        self.outcome.trace = crate::trace::fold(self.outcome.trace, executor.trace_hash());
        let events = cuts.events_so_far();
        drop(executor);
        if judged_now.get() {
            self.power_was_cut = false;
        }
        if let Some(violation) = violation.borrow_mut().take() {
            return Err(violation);
        }
        if last_cut.is_some() {
            self.outcome.recoveries += 1;
        }
        match lived {
            Err(Halt::Stopped { .. }) => {
                self.outcome.cuts += 1;
                Ok((End::Cut(plan.kind), events))
            }
            Ok(Ok((counters, judged))) => {
                judged?;
                self.outcome.checkpoints += counters.checkpoints;
                self.outcome.commits += counters.commits;
                self.outcome.direct_writes += counters.direct_writes;
                Ok((End::Done, events))
            }
            Ok(Err(error)) => Err(Violation { what: error.to_string() }),
            Err(halt) => Err(Violation { what: halt.to_string() }),
        }
    }

    /// Spoils the record at the tail of the log, if there is one and the superblock says that it was
    /// acknowledged; answers whether it did.
    fn lose_record(&mut self) -> bool {
        let Setup { create, separate_log, .. } = self.setup;
        let copies = (0..HOME_COPIES).filter_map(|copy| {
            let mut page = [0; PAGE];
            let home = self.home.borrow();
            home.read(home_copy_offset(home.geometry().size_bytes, copy), &mut page);
            Superblock::decode(&page)
        });
        let newest = copies.max_by_key(|superblock| superblock.generation);
        let image = if separate_log { &self.log } else { &self.home };
        let home_bytes = self.home.borrow().geometry().size_bytes;
        let layout = Layout::plan(create.size_bytes / 4096, home_bytes, create.log_bytes, separate_log);
        let (Some(superblock), Some(layout)) = (newest, layout) else { return false };
        if superblock.tail_sequence > superblock.acknowledged {
            return false;
        }
        let at = layout.log.offset + superblock.tail_offset;
        image.borrow_mut().rot(at, 32, &mut self.random);
        true
    }

    /// What the end of a life leaves on the drives and in the arena.
    fn settle(&mut self, cut: Option<CutKind>) {
        match cut {
            Some(CutKind::Kill) => {
                self.home.borrow_mut().kill(&mut self.random);
                self.log.borrow_mut().kill(&mut self.random);
            }
            _ => {
                self.home.borrow_mut().power_cut(&mut self.random);
                self.log.borrow_mut().power_cut(&mut self.random);
                self.arena.clear();
                self.power_was_cut = true;
            }
        }
    }
}

fn finished(result: Result<Result<(), Error>, Halt>) -> Result<(), Violation> {
    match result {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Violation { what: error.to_string() }),
        Err(halt) => Err(Violation { what: halt.to_string() }),
    }
}
