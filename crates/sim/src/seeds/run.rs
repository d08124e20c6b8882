//! A run within what the layout bears: nothing that was promised is lost, whatever goes wrong meanwhile.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_engine::device::{Extent, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::volume::check;

use super::machine::{End, Fate, Machine, Work};
use super::{OPERATIONS_MIN, Seeded, Setup};
use crate::cuts::{CutKind, CutPlan};
use crate::executor::Halt;
use crate::fixture::{Fixture, Run};
use crate::growing::Grower;
use crate::oracle::{Oracle, Violation};
use crate::random::Random;
use crate::testbed::{Kind, VolumeOn};
use crate::workload::{Habits, Workload, read_known, run_clients};

/// What happens in a run beside its work, on drives that stand in for each other.
struct Background {
    /// Faults that come while the volume is open.
    faults: u64,
    /// Whether it ends soon after a device was rebuilt.
    ends_rebuilt: bool,
    /// Whether it ends soon after one failed.
    ends_failed: bool,
    /// Whether it ends while one that lacked writes is copied to; by which chance.
    ends_copying: Option<Random>,
    /// Whether it ends soon after one of the log was replaced; by which chance.
    ends_log_replaced: Option<Random>,
    /// What becomes of devices that are away, if they come back while it goes on.
    comes_back: Option<Random>,
    /// What becomes of those of the log, if they are replaced meanwhile.
    replaces_logs: Option<Random>,
    random: Random,
}

impl Background {
    fn draw<T: Seeded>(setup: &Setup<T>, plan: CutPlan, work: Work, mut random: Random) -> Self {
        let faults = match work == Work::Clients && random.chance(setup.fault_share) {
            true => 1 + random.below(6),
            false => 0,
        };
        let ends_rebuilt = plan.at_event.is_some() && random.chance(0.5);
        let ends_failed = plan.at_event.is_some() && setup.ends_failed();
        let comes_back = random.clone().chance(setup.comes_back_share()).then(|| random.clone().fork());
        let mut of_logs = Random::new(random.clone().number() ^ 0x10c5);
        let replaces_logs = of_logs.chance(setup.logs_replaced_share()).then_some(of_logs);
        let of_copies = Random::new(random.clone().number() ^ 0xc0b1);
        let ends_copying = (plan.at_event.is_some() && setup.ends_copying()).then_some(of_copies);
        let of_ends = Random::new(random.clone().number() ^ 0x10ed);
        let ends_log_replaced = (plan.at_event.is_some() && setup.ends_log_replaced()).then_some(of_ends);
        Self {
            faults,
            ends_rebuilt,
            ends_failed,
            ends_copying,
            ends_log_replaced,
            comes_back,
            replaces_logs,
            random,
        }
    }

    fn begin<T: Seeded>(&mut self, fixture: &Rc<Fixture<T>>) {
        let (env, random) = (&fixture.env, &mut self.random);
        env.spawn(Rc::clone(fixture).fail_some(self.faults, random.fork(), Vec::new()));
        if let Some(random) = self.comes_back.take() {
            env.spawn(Rc::clone(fixture).take_back(random));
        }
        if let Some(random) = self.replaces_logs.take() {
            env.spawn(Rc::clone(fixture).replace_logs(random));
        }
        if self.ends_rebuilt {
            env.spawn(Rc::clone(fixture).end_with_a_rebuild(random.fork()));
        }
        if let Some(random) = self.ends_copying.take() {
            env.spawn(Rc::clone(fixture).end_in_a_copy(random));
        }
        if let Some(random) = self.ends_log_replaced.take() {
            env.spawn(Rc::clone(fixture).end_with_a_log_replaced(random));
        }
        if self.ends_failed {
            env.spawn(Rc::clone(fixture).end_with_one_failed(random.fork()));
        }
    }
}

/// What a run has at hand once its volume is open and was judged.
struct OpenRun<T: Seeded> {
    setup: Setup<T>,
    fixture: Rc<Fixture<T>>,
    volume: VolumeOn<T>,
    oracle: Rc<RefCell<Oracle>>,
    background: Option<Background>,
}

impl<T: Seeded> Machine<T> {
    /// One run, judged at its beginning by what the last cut must have left. A start that is given up as a log device fails
    /// within it is tried again without that one, and then the volume opens.
    pub(super) fn run(&mut self, plan: CutPlan, work: Work, fates: &[Fate]) -> Result<End, Violation> {
        let mut fates = fates.to_vec();
        loop {
            if let Some(end) = self.start(plan, work, &mut fates)? {
                return Ok(end);
            }
            self.outcome.given_up_starts += 1;
            self.settle(CutKind::Kill);
        }
    }

    /// As [`Self::run`]; `None` where the start was given up. The log devices that failed are gone then.
    fn start(&mut self, plan: CutPlan, work: Work, fates: &mut [Fate]) -> Result<Option<End>, Violation> {
        self.note(|| format!("{work:?} with {fates:?}"));
        let Run { mut executor, arena, fixture } = self.begin_run(plan, fates);
        let (setup, oracle, power_was_cut) = (self.setup, Rc::clone(&self.oracle), self.power_was_cut);
        let shared = Rc::clone(&fixture);
        let opened = Rc::new(RefCell::new(None));
        let refused = Rc::new(RefCell::new(None));
        let given_up = Rc::new(Cell::new(None));
        let has_judged = Rc::new(Cell::new(false));
        let (to_count, why_refused, why_given_up, judged_now) =
            (Rc::clone(&opened), Rc::clone(&refused), Rc::clone(&given_up), Rc::clone(&has_judged));
        let (seeds, habits) = (self.client_seeds(), self.habits(plan));
        let mut background = match T::IS_REDUNDANT {
            true => Some(Background::draw(&setup, plan, work, self.random.fork())),
            false => None,
        };
        let operations_done = Rc::clone(&self.operations_done);
        let grower = self.grower(plan, work);
        let (known_size, growths_before) = (self.known_size.clone(), self.known_size.growths());
        let ended = executor.block_on(async move {
            if let Some(background) = &mut background {
                background.begin(&shared);
            }
            let volume = match shared.open(arena, setup.open).await {
                Err(Error::Unusable(why)) if setup.testbed.is_log_spread() => {
                    why_refused.replace(Some(why));
                    return Ok(Ok(()));
                }
                Err(Error::Device(error)) if setup.testbed.stripe_log().is_some() => {
                    why_given_up.set(Some(error));
                    return Ok(Ok(()));
                }
                opened => opened?,
            };
            to_count.replace(Some(volume.clone()));
            if !shared.env.is_stopped() {
                let known = known_size.found(volume.size_bytes());
                if known.is_err() {
                    return Ok(known);
                }
            }
            let found = read_known(&volume, setup.habits.places).await?;
            if shared.env.is_stopped() {
                return Ok(Ok(()));
            }
            let judged = match power_was_cut {
                false => oracle.borrow_mut().judge_kill(&found),
                true => oracle.borrow_mut().judge_power_cut(&found),
            };
            judged_now.set(true);
            if judged.is_err() {
                return Ok(judged);
            }
            let run = OpenRun { setup, fixture: shared, volume, oracle, background };
            match work {
                Work::Checkpoint => run.volume.checkpoint().await.map(Ok),
                Work::Close => run.close().await.map(Ok),
                Work::Heal => run.heal().await,
                Work::Clients => {
                    let workload =
                        run.fixture.workload(&run.volume, &run.oracle, habits, operations_done, |_| false);
                    run.work(workload, &seeds, grower).await
                }
            }
        });
        if let Some(volume) = opened.take() {
            let counters = volume.counters();
            self.outcome.count(&counters);
            if !T::IS_REDUNDANT {
                self.outcome.drives.refused_discards += counters.failed_discards;
            }
        }
        self.outcome.growths += (self.known_size.growths() - growths_before) as u64;
        let may_refuse = fixture.truth.borrow().may_lack_log();
        let fell = fixture.truth.borrow().fallen(Kind::Log);
        let before = self.disks.clone();
        let violation = self.end_run(executor, &fixture, plan, true);
        if let Some(error) = given_up.take() {
            self.note(|| format!("the start is given up: {error}"));
            if let Some(violation) = violation.or(fell.is_empty().then(|| Violation::of(error))) {
                return Err(violation);
            }
            fell.into_iter().for_each(|number| fates[number] = Fate::Gone);
            return Ok(None);
        }
        if let Some(why) = refused.take() {
            self.outcome.members.refused_in_parts += 1;
            self.note(|| format!("it refused to open: {why}"));
            if !may_refuse {
                return Err(Violation::of("it refuses to open though all of its log is there"));
            }
            // Whoever was not there lacks nothing of what did not happen, unless the others were told to go on alone.
            if !self.disks.iter().any(|disk| disk.is_complete) {
                for (disk, before) in self.disks.iter_mut().zip(before) {
                    disk.is_complete = before.is_complete && disk.is_clean;
                }
            }
            return violation.map_or(Ok(Some(End::Refused)), Err);
        }
        if has_judged.get() {
            let is_in_parts = setup.testbed.is_log_spread() && fates.contains(&Fate::Gone);
            self.outcome.members.opened_in_parts += u64::from(is_in_parts);
            self.power_was_cut = false;
        }
        match ended {
            Err(Halt::Stopped { .. }) => {
                self.outcome.cuts += 1;
                violation.map_or(Ok(Some(End::Cut(plan.kind))), Err)
            }
            Err(halt) => Err(violation.unwrap_or(Violation::of(halt))),
            Ok(ended) => {
                if let Some(violation) = violation {
                    return Err(violation);
                }
                ended.map_err(Violation::of)??;
                Ok(Some(End::Done))
            }
        }
    }

    /// A run with every device there and well.
    pub(super) fn run_well(&mut self, plan: CutPlan, work: Work) -> Result<End, Violation> {
        self.run(plan, work, &self.all_well())
    }

    /// What clients of a run are like: one that is not cut makes up for what cuts kept those before it from, if seeds go on
    /// until enough was done.
    fn habits(&self, plan: CutPlan) -> Habits {
        let habits = self.setup.habits;
        let makes_up = self.setup.goes_on_until_enough && plan.at_event.is_none();
        let lacking = if makes_up { OPERATIONS_MIN.saturating_sub(self.operations_done.get()) } else { 0 };
        Habits { operations: habits.operations.max(lacking.div_ceil(habits.clients)), ..habits }
    }

    /// Who makes the volume grow in a run; one that is not cut sees it grown to its end, if seeds go on until enough was
    /// done.
    fn grower(&mut self, plan: CutPlan, work: Work) -> Grower {
        let grows = self.setup.growths.count > 0 && work == Work::Clients;
        let share = match plan.at_event {
            _ if !grows => 0.0,
            None if self.setup.goes_on_until_enough => 1.0,
            _ => 0.7,
        };
        let random = if grows { Random::new(self.random.number()) } else { Random::new(0) };
        Grower { known: self.known_size.clone(), share, random }
    }
}

impl<T: Seeded> OpenRun<T> {
    /// Clients work, the volume grows, and every page is checked where nothing is wrong.
    async fn work(
        self,
        workload: Rc<Workload<T>>,
        seeds: &[u64],
        grower: Grower,
    ) -> Result<Result<(), Violation>, Error> {
        let Self { setup, fixture, volume, mut background, .. } = self;
        if let Some(bytes_per_s) = setup.scrub_bytes_per_s {
            fixture.env.spawn(Rc::clone(&fixture).scrub(volume.clone(), bytes_per_s));
        }
        if setup.checkpoints {
            fixture.env.spawn(Rc::clone(&fixture).checkpoint(volume.clone()));
        }
        let growing = Rc::new(Cell::new(true));
        let (is_growing, growing_fixture, on) =
            (Rc::clone(&growing), Rc::clone(&fixture), Rc::clone(&workload));
        let into_noise = setup.growths.into_noise;
        fixture.env.spawn(async move {
            growing_fixture.grow(grower, &on, into_noise).await;
            is_growing.set(false);
        });
        run_clients(&workload, seeds).await;
        while growing.get() && !fixture.is_over() {
            fixture.env.sleep(10_000).await;
        }
        if fixture.is_over() {
            return Ok(Ok(()));
        }
        if background.as_mut().is_some_and(|background| background.random.coin()) {
            fixture.wait_for_rebuilds(200_000).await;
        }
        let is_spotless = || fixture.truth.borrow().is_spotless();
        if is_spotless() && !fixture.is_over() {
            let report = check(&volume).await?;
            if !report.is_clean() && is_spotless() {
                return Ok(Err(Violation::of(format!("{report:?}"))));
            }
        }
        Ok(Ok(()))
    }

    /// Makes everything durable and takes it home.
    async fn close(self) -> Result<(), Error> {
        let known_bytes = self.setup.habits.places.within(self.volume.size_bytes()).known_bytes;
        let begun = self.oracle.borrow().begin_flush(Extent::new(0, known_bytes));
        self.volume.flush(FlushScope::Whole).await?;
        self.oracle.borrow_mut().end_flush(begun);
        self.volume.close().await
    }

    /// Makes every device whole, and closes the volume.
    async fn heal(mut self) -> Result<Result<(), Violation>, Error> {
        let Some(background) = &mut self.background else { return Ok(Ok(())) };
        let healed = self.fixture.heal(&self.volume, &mut background.random).await?;
        if healed.is_ok() && !self.fixture.env.is_stopped() {
            let begun =
                self.oracle.borrow().begin_flush(Extent::new(0, self.setup.habits.places.known_bytes));
            self.volume.close().await?;
            if !self.fixture.env.is_stopped() {
                self.oracle.borrow_mut().end_flush(begun);
                self.fixture.is_healed.set(true);
            }
        }
        Ok(healed)
    }
}
