//! What outlives a life, and a life in which drives keep their promises.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_engine::device::{Extent, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::format::layout::Layout;
use evenkeel_engine::volume::{Volume, check, create};

use super::{OPERATIONS_MIN, Outcome, Setup};
use crate::arena::{ArenaBytes, SimArena};
use crate::cuts::{CutKind, CutPlan, Cuts};
use crate::drive::{DriveOptions, SimDrive};
use crate::executor::{Executor, Halt};
use crate::faults::Faults;
use crate::growing::{Grower, KnownSize};
use crate::image::{Image, SharedImage};
use crate::latency::Latency;
use crate::oracle::{Oracle, Violation};
use crate::page_cache::{PageCache, SharedCache};
use crate::random::Random;
use crate::workload::{Habits, Stage, read_known, run_clients};

/// Polls after which a life counts as one that does not end.
const POLLS_MAX: u64 = 200_000;

/// What outlives a life.
pub(super) struct Machine {
    pub(super) setup: Setup,
    pub(super) random: Random,
    pub(super) home: SharedImage,
    pub(super) log: SharedImage,
    /// What the system keeps of the home drive in memory.
    cache: Option<SharedCache>,
    pub(super) arena: ArenaBytes,
    pub(super) oracle: Rc<RefCell<Oracle>>,
    /// Whether the power was cut since the oracle last judged: a life that is cut while it opens is not judged.
    pub(super) power_was_cut: bool,
    /// How the last life ended; `None` before the first.
    pub(super) last_cut: Option<CutKind>,
    /// How many events a life has, as far as is known: that is only seen once one was lived.
    pub(super) life_events: u64,
    /// The size of the volume.
    known_size: KnownSize,
    /// Operations that clients have done, those of a life that is cut too.
    pub(super) operations_done: Rc<Cell<u64>>,
    pub(super) outcome: Outcome,
    /// What happened so far, if anyone wants to know.
    pub(super) story: Option<Vec<String>>,
    /// At which event of the next life its drives are copied.
    pub(super) copy_at: Option<u64>,
    /// What they held then, writes in flight included: home and log.
    pub(super) copied: Rc<RefCell<Option<[Image; 2]>>>,
}

/// What a life does once its volume is open.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Clients work; then every page is checked.
    Clients,
    /// What is committed is taken home.
    Checkpoint,
    /// Everything is made durable and taken home.
    Close,
}

/// How a life ended.
pub(super) enum End {
    /// Its work was done.
    Done,
    /// A cut struck.
    Cut(CutKind),
}

/// A life about to begin.
pub(super) struct Life {
    pub(super) executor: Executor,
    pub(super) cuts: Cuts,
    pub(super) home: Rc<SimDrive>,
    pub(super) log: Rc<SimDrive>,
    pub(super) arena: SimArena,
}

impl Machine {
    /// A machine with a new volume on it.
    pub(super) fn new(setup: Setup) -> Result<Self, Violation> {
        let create = setup.create;
        let pages = create.size_bytes / 4096;
        let home_bytes = Layout::home_bytes_for(pages, create.log_bytes, setup.separate_log);
        let log_device_bytes = create.log_bytes.next_multiple_of(4096) + 2 * 4096;
        let mut machine = Self {
            setup,
            random: Random::new(setup.seed ^ 0x5eed),
            home: Image::shared(setup.geometry(home_bytes)),
            log: Image::shared(setup.geometry(log_device_bytes)),
            cache: setup.stale_share.map(PageCache::shared),
            arena: ArenaBytes::new(setup.arena_bytes),
            oracle: Rc::new(RefCell::new(Oracle::new(setup.habits.places.known_bytes as usize))),
            power_was_cut: true,
            last_cut: None,
            life_events: 400,
            known_size: KnownSize::new(setup.sizes()),
            operations_done: Rc::default(),
            outcome: Outcome::default(),
            story: None,
            copy_at: None,
            copied: Rc::default(),
        };
        machine.create()?;
        Ok(machine)
    }

    fn create(&mut self) -> Result<(), Violation> {
        let mut life = self.life(CutPlan::default(), [Faults::default(), Faults::default()]);
        let (home, log, setup) = (life.home, life.log, self.setup);
        let made = life.executor.block_on(async move {
            let volume = setup.seed | 1;
            create(&*home, &*log, setup.separate_log, setup.create, volume).await
        });
        drop(life.executor);
        self.settle(CutKind::PowerCut);
        self.last_cut = None;
        made.map_err(Violation::of)?.map_err(Violation::of)?;
        self.begin_log_late();
        Ok(())
    }

    /// A life whose home drive and log drive have these faults; those of the log count for nothing where it has
    /// no drive of its own.
    pub(super) fn life(&mut self, plan: CutPlan, faults: [Faults; 2]) -> Life {
        let mut executor = Executor::new(self.random.number());
        executor.limit_polls(POLLS_MAX);
        let cuts = Cuts::new(plan, executor.stop());
        if let Some(at) = self.copy_at.take() {
            self.copied.take();
            let (home, log, copied) = (self.home.clone(), self.log.clone(), Rc::clone(&self.copied));
            let seen = cuts.clone();
            cuts.observe(move || {
                if seen.events_so_far() >= at && copied.borrow().is_none() {
                    copied.replace(Some([home.borrow().clone(), log.borrow().clone()]));
                }
            });
        }
        let mut open = |image: &SharedImage, faults: Faults, cache: Option<SharedCache>| {
            let (latency, seed) = (Latency::default(), self.random.number());
            let options = DriveOptions { latency, faults, seed, cache, is_away: false };
            Rc::new(SimDrive::open(Rc::clone(image), executor.env(), cuts.clone(), options))
        };
        let [of_home, of_log] = faults;
        let of_home = Faults { failing_discards: self.setup.failing_discards, ..of_home };
        let home = open(&self.home, of_home, self.cache.clone());
        let log = if self.setup.separate_log { open(&self.log, of_log, None) } else { Rc::clone(&home) };
        let seed = self.random.number();
        let arena = SimArena::open(self.arena.clone(), executor.env(), cuts.clone(), seed);
        Life { executor, cuts, home, log, arena }
    }

    /// What each client of a life follows.
    pub(super) fn client_seeds(&mut self) -> Vec<u64> {
        (0..self.setup.habits.clients).map(|_| self.random.number()).collect()
    }

    /// What clients of a life are like: one that is not cut makes up for what cuts kept those before it from.
    fn habits(&self, plan: CutPlan) -> Habits {
        let habits = self.setup.habits;
        let lacking = match plan.at_event {
            Some(_) => 0,
            None => OPERATIONS_MIN.saturating_sub(self.operations_done.get()).div_ceil(habits.clients),
        };
        Habits { operations: habits.operations.max(lacking), ..habits }
    }

    /// One life, judged at its beginning by what the last cut must have left.
    pub(super) fn live(&mut self, plan: CutPlan, work: Work) -> Result<End, Violation> {
        let mut life = self.life(plan, [Faults::default(), Faults::default()]);
        let (setup, oracle, power_was_cut) = (self.setup, Rc::clone(&self.oracle), self.power_was_cut);
        let (env, home, log, arena) = (life.executor.env(), life.home, life.log, life.arena);
        let opened = Rc::new(RefCell::new(None));
        let to_count = Rc::clone(&opened);
        let judged_now = Rc::new(Cell::new(false));
        let has_judged = Rc::clone(&judged_now);
        let violation = Rc::new(RefCell::new(None));
        let seen = Rc::clone(&violation);
        let (seeds, habits) = (self.client_seeds(), self.habits(plan));
        let operations_done = Rc::clone(&self.operations_done);
        let grower = self.grower(plan, work);
        let (known_size, growths_before) = (self.known_size.clone(), self.known_size.growths());
        let image = Rc::clone(&self.home);
        let lived = life.executor.block_on(async move {
            let volume = Volume::open(env.clone(), arena, home, log, setup.separate_log, setup.open).await?;
            to_count.replace(Some(volume.clone()));
            if !env.is_stopped() {
                let known = known_size.found(volume.size_bytes());
                if known.is_err() {
                    return Ok(known);
                }
            }
            let found = read_known(&volume, setup.habits.places).await?;
            if env.is_stopped() {
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
            match work {
                Work::Checkpoint => volume.checkpoint().await?,
                Work::Close => {
                    let known_bytes = setup.habits.places.within(volume.size_bytes()).known_bytes;
                    let begun = oracle.borrow().begin_flush(Extent::new(0, known_bytes));
                    volume.flush(FlushScope::Whole).await?;
                    oracle.borrow_mut().end_flush(begun);
                    volume.clone().close().await?;
                }
                Work::Clients => {
                    let stage = Stage {
                        volume: volume.clone(),
                        oracle,
                        violation: seen,
                        env,
                        habits,
                        operations_done,
                        forgives: Box::new(|_| false),
                    };
                    let stage = Rc::new(stage);
                    let growing = Rc::new(Cell::new(true));
                    let (grown, on) = (Rc::clone(&growing), Rc::clone(&stage));
                    stage.env.spawn(async move {
                        let make_room = |needed_bytes: u64, random: &mut Random| {
                            if image.borrow().geometry().size_bytes < needed_bytes {
                                let noise = setup.growths.into_noise.then_some(random);
                                image.borrow_mut().enlarge(needed_bytes, noise);
                            }
                        };
                        let judge = |error: &Error| Err(Violation::of(format!("it does not grow: {error}")));
                        grower.grow(&on, make_room, judge).await;
                        grown.set(false);
                    });
                    run_clients(&stage, &seeds).await;
                    while growing.get() {
                        stage.env.sleep(10_000).await;
                    }
                    let is_over = stage.violation.borrow().is_some() || stage.env.is_stopped();
                    if !is_over {
                        let report = check(&volume).await?;
                        if !report.is_clean() {
                            return Ok(Err(Violation::of(format!("{report:?}"))));
                        }
                    }
                }
            }
            Ok::<Result<(), Violation>, Error>(Ok(()))
        });
        if let Some(volume) = opened.take() {
            self.outcome.count(&volume.counters());
            self.outcome.faults.refused_discards += volume.counters().failed_discards;
        }
        self.end_life(&life.executor, &life.cuts, plan);
        drop(life.executor);
        if judged_now.get() {
            self.power_was_cut = false;
        }
        self.outcome.growths += (self.known_size.growths() - growths_before) as u64;
        if let Some(violation) = violation.borrow_mut().take() {
            return Err(violation);
        }
        match lived {
            Err(Halt::Stopped { .. }) => {
                self.outcome.cuts += 1;
                Ok(End::Cut(plan.kind))
            }
            Err(halt) => Err(Violation::of(halt)),
            Ok(lived) => {
                lived.map_err(Violation::of)??;
                Ok(End::Done)
            }
        }
    }

    /// Who makes the volume grow in a life; one that is not cut sees it grown to its end.
    fn grower(&mut self, plan: CutPlan, work: Work) -> Grower {
        let grows = self.setup.growths.count > 0 && work == Work::Clients;
        let share = match plan.at_event {
            _ if !grows => 0.0,
            None => 1.0,
            Some(_) => 0.7,
        };
        let random = if grows { Random::new(self.random.number()) } else { Random::new(0) };
        Grower { known: self.known_size.clone(), share, random }
    }

    /// Moves what the drives hold to others: sectors that are whole after a cut or may not be, and, for the home drive,
    /// larger or smaller ones. A log that its drive would write in larger sectors is refused, and nothing has changed.
    pub(super) fn move_to_other_drives(&mut self) -> Result<(), Violation> {
        let (made_for, atomic_sectors) = (self.setup.sector_bytes, self.random.coin());
        let home_bytes = if self.setup.separate_log { *self.random.pick(&[512, 4096]) } else { made_for };
        self.note(|| format!("moved to sectors of {home_bytes}, atomic: {atomic_sectors}"));
        if made_for < 4096 && self.random.chance(0.2) {
            let log = if self.setup.separate_log { self.log.clone() } else { self.home.clone() };
            log.borrow_mut().move_to(4096, atomic_sectors);
            let before = log.borrow().durable_digest();
            let mut life = self.life(CutPlan::default(), [Faults::default(), Faults::default()]);
            let (env, setup) = (life.executor.env(), self.setup);
            let opened = life.executor.block_on(async move {
                Volume::open(env, life.arena, life.home, life.log, setup.separate_log, setup.open)
                    .await
                    .map(drop)
            });
            drop(life.executor);
            match opened.map_err(Violation::of)? {
                Err(Error::Unsuited(why)) if why.contains("sectors of 512 bytes") => {}
                other => return Err(Violation::of(format!("its log is in larger sectors: {other:?}"))),
            }
            self.settle(CutKind::PowerCut);
            if log.borrow().durable_digest() != before {
                return Err(Violation::of("a volume that is refused is changed"));
            }
            self.outcome.faults.refusals += 1;
        }
        self.home.borrow_mut().move_to(home_bytes, atomic_sectors);
        self.log.borrow_mut().move_to(made_for, self.random.coin());
        self.outcome.faults.moved += 1;
        Ok(())
    }

    /// Tells what happened, if anyone wants to know.
    pub(super) fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            story.push(what());
        }
    }

    /// Notes what a life was.
    pub(super) fn end_life(&mut self, executor: &Executor, cuts: &Cuts, plan: CutPlan) {
        let last_cut = self.last_cut;
        self.note(|| {
            let end = if cuts.has_struck() { format!("{:?}", plan.kind) } else { "its own end".to_owned() };
            let (events, now_ns) = (cuts.events_so_far(), executor.now_ns());
            format!("a life after {last_cut:?}: {events} events in {now_ns} ns, up to {end}")
        });
        self.outcome.trace = crate::trace::fold(self.outcome.trace, executor.trace_hash());
        self.outcome.operations = self.operations_done.get();
        self.life_events = self.life_events.max(cuts.events_so_far() + 1);
        self.outcome.recoveries += u64::from(self.last_cut.is_some());
    }

    /// Forgets what the system kept of the home drive: somebody else wrote there.
    pub(super) fn clear_cache(&mut self) {
        if let Some(cache) = &self.cache {
            cache.borrow_mut().clear();
        }
    }

    /// What the end of a life leaves on the drives and in the arena.
    pub(super) fn settle(&mut self, cut: CutKind) {
        match cut {
            CutKind::Kill => {
                if let Some(cache) = self.cache.as_ref().filter(|_| !self.setup.keeps_cache) {
                    cache.borrow_mut().clear();
                }
                for image in [&self.home, &self.log] {
                    match self.setup.has_network {
                        true => image.borrow_mut().kill_connected(),
                        false => image.borrow_mut().kill(&mut self.random),
                    }
                }
            }
            CutKind::PowerCut => {
                if let Some(cache) = &self.cache {
                    cache.borrow_mut().clear();
                }
                self.home.borrow_mut().power_cut(&mut self.random);
                self.log.borrow_mut().power_cut(&mut self.random);
                self.arena.clear();
                self.power_was_cut = true;
            }
        }
        self.last_cut = Some(cut);
    }
}
