//! Volumes that become others while their clients go on, and are cut meanwhile.
//!
//! ```text
//!   a run    the volume that is described is opened and judged; clients work
//!            beside them another one is made on other drives, copied to, described, and takes its place
//!            a cut, or its own end
//! ```
//!
//! 1. What is described, before or after, is the volume: it opens after any cut, and nothing acknowledged is lost, no commit is in
//!    parts, no client sees an error.
//! 2. Who gives a conversion up, or fails on the new drives, leaves the volume what it was.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_engine::conversion::{CopyError, CopyProgress, SwitchedVolume, VolumeCopy};
use evenkeel_engine::device::{Extent, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::join::first;
use evenkeel_engine::volume::check;

use crate::arena::{ArenaBytes, SimArena};
use crate::cuts::{CutKind, CutPlan, Cuts};
use crate::drive::{DriveOptions, SimDrive};
use crate::executor::{Executor, Halt, SimEnv};
use crate::faults::Faults;
use crate::image::{Image, SharedImage};
use crate::oracle::{Oracle, Violation};
use crate::random::Random;
use crate::seeds::{Seeded, Setup};
use crate::testbed::{Mirror, Single, SwitchedOn, VolumeOn};
use crate::workload::{Habits, Workload, read_known, run_clients};

/// Runs of a seed that are cut; one more is not.
const CUTS: u32 = 3;

/// Operations of all clients of a run together.
const OPERATIONS: u64 = 120;

/// Polls after which a run counts as one that does not end.
const POLLS_MAX: u64 = 3_000_000;

/// Events that a run is taken to have until one was seen to have more.
const EVENTS: u64 = 1500;

/// What came of conversions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Volumes that became others.
    pub converted: u64,
    /// Conversions that were given up.
    pub given_up: u64,
    /// Those that ended as a new drive failed.
    pub failed: u64,
    /// Cuts beside a copy.
    pub cut_copying: u64,
    /// Cuts while clients were held, or the old volume was not closed yet.
    pub cut_switching: u64,
    /// Cuts after that.
    pub cut_behind: u64,
}

impl Tally {
    /// Adds what came of others.
    pub fn add(&mut self, other: &Self) {
        self.converted += other.converted;
        self.given_up += other.given_up;
        self.failed += other.failed;
        self.cut_copying += other.cut_copying;
        self.cut_switching += other.cut_switching;
        self.cut_behind += other.cut_behind;
    }
}

/// What `seed` stands for: volumes on one drive, or of odd seeds on rings.
///
/// # Errors
///
/// The promise that was broken.
pub fn run(seed: u64) -> Result<Tally, Violation> {
    if seed.is_multiple_of(2) { Life::<Single>::live(seed) } else { Life::<Mirror>::live(seed) }
}

/// Where a volume is.
#[derive(Clone)]
struct Place<T: Seeded> {
    setup: Setup<T>,
    images: Vec<SharedImage>,
    arena: ArenaBytes,
}

impl<T: Seeded> Place<T> {
    /// Drives that nobody used yet.
    fn new(setup: Setup<T>, random: &mut Random) -> Self {
        let drives = setup.testbed.drives(&setup.create).into_iter();
        let image = |(_, bytes)| match random.coin() {
            true => Image::used(setup.geometry(bytes), random),
            false => Image::new(setup.geometry(bytes)),
        };
        let images = drives.map(image).map(|image| Rc::new(RefCell::new(image))).collect();
        Self { setup, images, arena: ArenaBytes::new(setup.arena_bytes) }
    }

    fn drives(&self, world: &World, fails_after: Option<u64>) -> Vec<Option<SimDrive>> {
        let open = |image: &SharedImage| {
            let failing_operations = fails_after.map_or(0..0, |after| after..u64::MAX);
            let options = DriveOptions {
                latency: self.setup.latency,
                faults: Faults { failing_operations, ..Faults::default() },
                seed: world.env.random(),
                ..DriveOptions::default()
            };
            Some(SimDrive::open(Rc::clone(image), world.env.clone(), world.cuts.clone(), options))
        };
        self.images.iter().map(open).collect()
    }

    async fn create(&self, world: &World, fails_after: Option<u64>) -> Result<(), Error> {
        let setup = &self.setup;
        let drives = self.drives(world, fails_after);
        setup.testbed.create(world.env.clone(), drives, setup.create, world.env.random() | 1).await
    }

    async fn open(&self, world: &World, fails_after: Option<u64>) -> Result<VolumeOn<T>, Error> {
        let arena =
            SimArena::open(self.arena.clone(), world.env.clone(), world.cuts.clone(), world.env.random());
        let drives = self.drives(world, fails_after);
        Ok(self.setup.testbed.open(world.env.clone(), arena, drives, self.setup.open).await?.0)
    }

    /// What this end of a run leaves.
    fn settle(&self, cut: CutKind, random: &mut Random) {
        for image in &self.images {
            match cut {
                CutKind::Kill => image.borrow_mut().kill(random),
                CutKind::PowerCut => image.borrow_mut().power_cut(random),
            }
        }
        if cut == CutKind::PowerCut {
            self.arena.clear();
        }
    }
}

/// The world of a run.
#[derive(Clone)]
struct World {
    env: SimEnv,
    cuts: Cuts,
}

/// What outlives a run.
struct Life<T: Seeded> {
    random: Random,
    /// What clients do, whatever becomes of the volume.
    habits: Habits,
    /// The volume that is described.
    described: Place<T>,
    oracle: Rc<RefCell<Oracle>>,
    /// Whether the power was cut since the volume was last judged: a run that is cut while it opens does not judge it.
    power_was_cut: Rc<Cell<bool>>,
    run_events: u64,
    tally: Tally,
}

/// Where a conversion is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Before,
    Copying,
    Switching,
    Over,
}

/// A conversion, which is to come while clients work.
struct Converting<T: Seeded> {
    world: World,
    switched: SwitchedOn<T>,
    to: Place<T>,
    /// It begins after so many operations of clients.
    begins_after: u64,
    operations_done: Rc<Cell<u64>>,
    bytes_per_s: u64,
    given_up_after_ns: Option<u64>,
    /// The new drives fail after so many operations.
    fails_after: Option<u64>,
    stage: Rc<Cell<Stage>>,
    /// Whether the new place is the one that is described.
    is_described: Rc<Cell<bool>>,
}

/// How a conversion ended that nothing cut short.
enum Ended {
    Converted,
    GivenUp,
    Failed(Error),
}

impl<T: Seeded> Converting<T> {
    async fn convert(&self) -> Result<Ended, Error> {
        let world = &self.world;
        while self.operations_done.get() < self.begins_after && !world.env.is_stopped() {
            world.env.sleep(10_000).await;
        }
        self.stage.set(Stage::Copying);
        let made = async {
            self.to.create(world, self.fails_after).await?;
            self.to.open(world, self.fails_after).await
        };
        let new = match made.await {
            Ok(new) => new,
            Err(error) => return Ok(Ended::Failed(error)),
        };
        let copy = VolumeCopy::begin(world.env.clone(), &self.switched, new.clone()).await;
        let untold = |_: CopyProgress| ();
        let copied = copy.copy(self.bytes_per_s, &untold);
        let copied = match self.given_up_after_ns {
            None => copied.await,
            Some(after_ns) => match first(copied, world.env.sleep(after_ns)).await {
                Some(copied) => copied,
                None => return Ok(Ended::GivenUp),
            },
        };
        match copied {
            Ok(_) => {}
            Err(CopyError::New(error)) => return Ok(Ended::Failed(error)),
            Err(CopyError::Old(error)) => return Err(error),
        }
        self.stage.set(Stage::Switching);
        let hold = self.switched.hold().await;
        match copy.finish(&hold, &untold).await {
            Ok(()) => {}
            Err(CopyError::New(error)) => return Ok(Ended::Failed(error)),
            Err(CopyError::Old(error)) => return Err(error),
        }
        drop(copy);
        if let Err(error) = new.close().await {
            return Ok(Ended::Failed(error));
        }
        if !world.env.is_stopped() {
            self.is_described.set(true);
        }
        // Nobody needs what its arena held.
        self.to.arena.clear();
        let old = self.switched.now();
        hold.switch(self.to.open(world, None).await?);
        drop(hold);
        old.close().await?;
        self.stage.set(Stage::Over);
        Ok(Ended::Converted)
    }
}

impl<T: Seeded> Life<T> {
    fn live(seed: u64) -> Result<Tally, Violation> {
        let mut random = Random::new(seed ^ 0xc04e);
        let mut setup = T::draw(random.number(), CUTS, None);
        // It does not grow beside a conversion.
        setup.create.size_bytes = setup.habits.places.volume_bytes();
        let known_bytes = setup.habits.places.known_bytes as usize;
        let mut life = Self {
            habits: setup.habits,
            described: Place::new(setup, &mut random),
            random,
            oracle: Rc::new(RefCell::new(Oracle::new(known_bytes))),
            power_was_cut: Rc::new(Cell::new(true)),
            run_events: EVENTS,
            tally: Tally::default(),
        };
        let described = life.described.clone();
        let (mut executor, world) = life.world(CutPlan::default());
        let made = executor.block_on(async move { described.create(&world, None).await });
        drop(executor);
        made.map_err(Violation::of)?.map_err(Violation::of)?;
        life.described.settle(CutKind::PowerCut, &mut life.random);
        for run in 0..=CUTS {
            let kind = if life.random.coin() { CutKind::PowerCut } else { CutKind::Kill };
            let at_event = (run < CUTS).then(|| life.random.below(life.run_events));
            life.run(CutPlan { at_event, kind })
                .map_err(|violation| violation.within(&format!("run {run}")))?;
        }
        Ok(life.tally)
    }

    fn world(&mut self, plan: CutPlan) -> (Executor, World) {
        let mut executor = Executor::new(self.random.number());
        executor.limit_polls(POLLS_MAX);
        let world = World { env: executor.env(), cuts: Cuts::new(plan, executor.stop()) };
        (executor, world)
    }

    /// Where the volume is to go.
    fn draw_place(&mut self) -> Place<T> {
        let before = &self.described.setup;
        let mut setup = T::draw(self.random.number(), CUTS, None);
        setup.create.size_bytes = before.create.size_bytes;
        setup.create.atomic_max_bytes = before.create.atomic_max_bytes;
        Place::new(setup, &mut self.random)
    }

    fn run(&mut self, plan: CutPlan) -> Result<(), Violation> {
        let to = self.draw_place();
        let described = self.described.clone();
        let (mut executor, world) = self.world(plan);
        let random = &mut self.random;
        // As long as both promise it.
        let atomic_writes = described.setup.habits.atomic_writes && to.setup.habits.atomic_writes;
        let habits = Habits { operations: OPERATIONS / self.habits.clients, atomic_writes, ..self.habits };
        let seeds: Vec<u64> = (0..habits.clients).map(|_| random.number()).collect();
        let fails = !T::IS_REDUNDANT && random.chance(0.15);
        let fails_after = fails.then(|| random.below(200));
        let given_up_after_ns = random.chance(0.2).then(|| 1 << random.below(24));
        let (begins_after, bytes_per_s) = (random.below(OPERATIONS / 2), 1 << (18 + random.below(14)));
        let (stage, is_described) = (Rc::new(Cell::new(Stage::Before)), Rc::new(Cell::new(false)));
        let (oracle, power_was_cut) = (Rc::clone(&self.oracle), Rc::clone(&self.power_was_cut));
        let (told, stage_now, is_described_now, there) =
            (Rc::new(Cell::new(None)), Rc::clone(&stage), Rc::clone(&is_described), to.clone());
        let tell = Rc::clone(&told);
        let cuts = world.cuts.clone();
        let ended = executor.block_on(async move {
            let volume = described.open(&world, None).await?;
            let found = read_known(&volume, habits.places).await?;
            if world.env.is_stopped() {
                return Ok(Ok(()));
            }
            let judged = match power_was_cut.take() {
                false => oracle.borrow_mut().judge_kill(&found),
                true => oracle.borrow_mut().judge_power_cut(&found),
            };
            if judged.is_err() {
                return Ok(judged);
            }
            let switched = SwitchedVolume::new(volume);
            let workload = Rc::new(Workload::<T> {
                volume: switched.clone(),
                oracle: Rc::clone(&oracle),
                violation: Rc::default(),
                env: world.env.clone(),
                habits,
                operations_done: Rc::default(),
                forgives: Box::new(|_| false),
            });
            let converting = Converting {
                world: world.clone(),
                switched: switched.clone(),
                to: there,
                begins_after,
                operations_done: Rc::clone(&workload.operations_done),
                bytes_per_s,
                given_up_after_ns,
                fails_after,
                stage: stage_now,
                is_described: is_described_now,
            };
            let converted = Rc::new(RefCell::new(None));
            let to_tell = Rc::clone(&converted);
            world.env.spawn(async move {
                let ended = converting.convert().await;
                to_tell.replace(Some(ended));
            });
            run_clients(&workload, &seeds).await;
            while converted.borrow().is_none()
                && !world.env.is_stopped()
                && workload.violation.borrow().is_none()
            {
                world.env.sleep(10_000).await;
            }
            if world.env.is_stopped() {
                return Ok(Ok(()));
            }
            if let Some(violation) = workload.violation.take() {
                return Ok(Err(violation));
            }
            tell.set(converted.take());
            let volume = switched.now();
            let found = read_known(&volume, habits.places).await?;
            let known = Extent::new(0, habits.places.known_bytes);
            if world.env.is_stopped() {
                return Ok(Ok(()));
            }
            if found != oracle.borrow().expected(known) {
                return Ok(Err(Violation::of("it holds other bytes than were written")));
            }
            let report = check(&volume).await?;
            if !world.env.is_stopped() && !report.is_clean() {
                return Ok(Err(Violation::of(format!("{report:?}"))));
            }
            let begun = oracle.borrow().begin_flush(known);
            volume.flush(FlushScope::Whole).await?;
            if !world.env.is_stopped() {
                oracle.borrow_mut().end_flush(begun);
            }
            Ok::<_, Error>(Ok(()))
        });
        self.run_events = self.run_events.max(cuts.events_so_far());
        drop(executor);
        if is_described.get() {
            self.described = to;
        }
        let tally = &mut self.tally;
        let cut = match ended {
            Err(Halt::Stopped { .. }) => {
                match stage.get() {
                    Stage::Before => {}
                    Stage::Copying => tally.cut_copying += 1,
                    Stage::Switching => tally.cut_switching += 1,
                    Stage::Over => tally.cut_behind += 1,
                }
                plan.kind
            }
            Err(halt) => return Err(Violation::of(halt)),
            Ok(ended) => {
                ended.map_err(Violation::of)??;
                CutKind::PowerCut // the machine is switched off
            }
        };
        match told.take() {
            None => {}
            Some(Ok(Ended::Converted)) => tally.converted += 1,
            Some(Ok(Ended::GivenUp)) => tally.given_up += 1,
            Some(Ok(Ended::Failed(_))) if fails_after.is_some() => tally.failed += 1,
            Some(Ok(Ended::Failed(error)) | Err(error)) => {
                return Err(Violation::of(format!("it is not converted: {error}")));
            }
        }
        self.power_was_cut.set(self.power_was_cut.get() || cut == CutKind::PowerCut);
        self.described.settle(cut, &mut self.random);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_described_is_the_volume_and_nothing_acknowledged_is_lost() {
        let seeds = std::env::var("SEEDS").map_or(120, |seeds| seeds.parse().unwrap());
        let first = std::env::var("FIRST").map_or(0, |first| first.parse().unwrap());
        let mut total = Tally::default();
        for seed in first..first + seeds {
            match run(seed) {
                Ok(tally) => total.add(&tally),
                Err(violation) => panic!("seed {seed}: {}", violation.what),
            }
        }
        let Tally { converted, given_up, failed, cut_copying, cut_switching, cut_behind } = total;
        for count in [converted, given_up, failed, cut_copying, cut_switching, cut_behind] {
            assert!(count > 0, "{total:?}");
        }
    }
}
