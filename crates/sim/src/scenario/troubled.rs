//! Lives with drives that do worse than lose power, judged by what [`super::trouble`] says that remains.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_engine::device::Extent;
use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::options::Journaling;
use evenkeel_engine::volume::Volume;

use super::machine::{End, Life, Machine, Work};
use super::rules::{Rules, look, pages_of};
use super::trouble::{Damage, Failing, Place, PutBack, Trouble, Zone};
use crate::cuts::{CutKind, CutPlan};
use crate::executor::Halt;
use crate::faults::{Faults, Stray};
use crate::image::Image;
use crate::oracle::{Floor, Violation};
use crate::workload::{Stage, run_clients};

/// How a life with trouble ended.
struct Troubled {
    /// Whether the volume refused to open.
    refused: bool,
    /// Pages that lost or misplaced writes left wrong.
    harmed: Vec<bool>,
}

impl Machine {
    /// What the drives do wrong in the end.
    pub(super) fn trouble(&mut self) -> Result<(), Violation> {
        // What remains is judged by what was done to the drives: nothing else lands on them.
        self.setup.has_network = false;
        for image in [&self.home, &self.log] {
            image.borrow_mut().fence(&mut self.random);
        }
        match self.setup.trouble {
            Trouble::None => Ok(()),
            Trouble::LostRecord(damage) => self.lost_record(damage),
            Trouble::DamagedHome { zone, damage, at_rest } => self.damaged_home(zone, damage, at_rest),
            Trouble::StrayWrite { zone, misdirected } => self.stray_write(zone, misdirected),
            Trouble::Failing(place, failing) => self.failing(place, failing),
            Trouble::Lying(place) => self.lying(place),
            Trouble::Restored(what) => self.restored(what),
            Trouble::StaleLog => self.stale_log(),
        }
    }

    fn pages(&self) -> usize {
        self.setup.habits.places.pages()
    }

    /// Nothing goes wrong, and nothing is excused.
    fn rules(&self, floor: Floor) -> Rules {
        let none = vec![false; self.pages()];
        Rules {
            may_refuse: false,
            may_fail: false,
            harmed: none.clone(),
            unjudged: none,
            floor,
            works: false,
            at_rest: false,
            places: self.setup.habits.places,
        }
    }

    /// Whether large writes go straight home.
    fn writes_direct(&self) -> bool {
        matches!(self.setup.open.journaling, Journaling::Selective { .. } | Journaling::Ordered)
            && (self.setup.atomic_sectors || self.setup.moves)
    }

    /// Pages that recovery takes as it finds them: those of a large write that a cut interrupted.
    fn interrupted_pages(&self) -> Vec<bool> {
        match self.writes_direct() {
            true => self.oracle.borrow().pages_written(true),
            false => vec![false; self.pages()],
        }
    }

    fn any_event(&mut self) -> u64 {
        self.random.below(self.life_events)
    }

    /// A life that is cut while clients work.
    fn live_and_cut(&mut self, kind: CutKind) -> Result<(), Violation> {
        let plan = CutPlan { at_event: Some(self.any_event()), kind };
        let end = self.live(plan, Work::Clients)?;
        self.settle(match end {
            End::Done => CutKind::PowerCut,
            End::Cut(kind) => kind,
        });
        Ok(())
    }

    fn lost_record(&mut self, damage: Damage) -> Result<(), Violation> {
        self.live_and_cut(CutKind::PowerCut)?;
        self.settle(CutKind::PowerCut);
        if !self.lose_record(damage) {
            return Ok(());
        }
        match self.live(CutPlan::default(), Work::Checkpoint) {
            Err(violation) if violation.what.contains("of the log is damaged") => {
                self.outcome.faults.refusals += 1;
                Ok(())
            }
            Err(violation) => Err(violation),
            Ok(_) => Err(Violation::of("an acknowledged record was lost, and nobody said so")),
        }
    }

    fn damaged_home(&mut self, zone: Zone, damage: Damage, at_rest: bool) -> Result<(), Violation> {
        if at_rest {
            self.live(CutPlan::default(), Work::Close)?;
        } else {
            self.live_and_cut(CutKind::PowerCut)?;
        }
        // What was home before is in the system's memory still, unless the power goes too.
        let keeps_power = at_rest && self.random.coin();
        self.settle(if keeps_power { CutKind::Kill } else { CutKind::PowerCut });
        let mut rules = self.rules(Floor::Durable);
        rules.unjudged = self.interrupted_pages();
        let (home, extent) = (Rc::clone(&self.home), self.zone(zone));
        let has_two_roots = self.has_two_roots();
        if at_rest && !has_two_roots {
            return Err(Violation::of("a volume that was closed holds its root only once"));
        }
        if zone == Zone::Pages {
            for _ in 0..1 + self.random.below(3) {
                let page = self.random.index(self.pages());
                rules.harmed[page] = true;
                let on_volume = self.setup.habits.places.page_on_volume(page);
                let place = Extent::new(self.layout().page_offset(on_volume), PAGE_BYTES);
                self.damage(&home, place, damage);
            }
        } else {
            self.damage(&home, extent, damage);
        }
        let is_lost = zone == Zone::Table || (zone == Zone::Root && !has_two_roots);
        if is_lost {
            rules.harmed.fill(true);
        }
        let is_needed = zone == Zone::Pages && !at_rest;
        rules.may_refuse = is_needed || is_lost;
        (rules.works, rules.at_rest) = (at_rest, at_rest);
        let harmed = rules.harmed.clone();
        let lived = self.live_troubled(CutPlan::default(), [Faults::default(), Faults::default()], rules)?;
        self.settle(CutKind::PowerCut);
        if lived.refused {
            return Ok(());
        }
        // What clients wrote over a part of a damaged page cannot go home: the volume may stay shut.
        let mut rules = self.rules(Floor::Durable);
        rules.may_refuse = harmed.contains(&true);
        rules.harmed = harmed;
        rules.unjudged = self.interrupted_pages();
        self.live_troubled(CutPlan::default(), [Faults::default(), Faults::default()], rules).map(drop)
    }

    fn stray_write(&mut self, zone: Zone, misdirected: bool) -> Result<(), Violation> {
        let after = self.random.below(12);
        // The root in force is not written; the other one is next.
        let layout = self.layout();
        let within = match zone {
            Zone::Root => Extent::new(layout.roots[0].offset, 2 * layout.roots[0].len),
            zone => self.zone(zone),
        };
        let stray = Stray { within, after, misdirected: misdirected && zone == Zone::Pages };
        let faults = Faults { stray: Some(stray), ..Faults::default() };
        let plan = CutPlan { at_event: Some(self.any_event()), kind: CutKind::PowerCut };
        let rules = Rules { works: true, ..self.rules(Floor::Durable) };
        let lived = self.live_troubled(plan, [faults, Faults::default()], rules)?;
        self.settle(CutKind::PowerCut);
        let mut rules = self.rules(Floor::Durable);
        rules.may_refuse = lived.harmed.contains(&true);
        rules.harmed = lived.harmed;
        rules.unjudged = self.interrupted_pages();
        self.live_troubled(CutPlan::default(), [Faults::default(), Faults::default()], rules).map(drop)
    }

    fn failing(&mut self, place: Place, failing: Failing) -> Result<(), Violation> {
        // After a kill, an opening flushes what may not be durable: that too must be allowed to fail.
        if self.random.coin() {
            self.live_and_cut(CutKind::Kill)?;
        }
        let first = self.random.below(if failing == Failing::Flush { 12 } else { 60 });
        let (once, from_now_on) = (first..first + 1, first..u64::MAX);
        let faults = match failing {
            Failing::Write => Faults { failing_writes: once, ..Faults::default() },
            Failing::Full => Faults { full_writes: from_now_on, ..Faults::default() },
            Failing::Flush => Faults { failing_flushes: once, ..Faults::default() },
            Failing::Everything => Faults { failing_operations: 10 * first..u64::MAX, ..Faults::default() },
        };
        let kind = if self.random.coin() { CutKind::PowerCut } else { CutKind::Kill };
        let plan = CutPlan { at_event: Some(self.any_event()), kind };
        let mut rules = self.rules(Floor::Durable);
        (rules.may_fail, rules.may_refuse, rules.works) = (true, true, true);
        self.live_troubled(plan, self.at(place, faults), rules)?;
        self.settle(kind);
        self.live(CutPlan::default(), Work::Clients)?;
        self.settle(CutKind::PowerCut);
        self.live(CutPlan::default(), Work::Checkpoint).map(drop)
    }

    fn lying(&mut self, place: Place) -> Result<(), Violation> {
        let first = self.random.below(20);
        let faults = Faults {
            lying_durable_writes: first..u64::MAX,
            lying_flushes: first / 4..u64::MAX,
            ..Faults::default()
        };
        let plan = CutPlan { at_event: Some(self.any_event()), kind: CutKind::PowerCut };
        let rules = Rules { works: true, ..self.rules(Floor::Durable) };
        self.live_troubled(plan, self.at(place, faults), rules)?;
        self.settle(CutKind::PowerCut);
        let has_honest_log = self.setup.separate_log && place == Place::Home;
        let mut rules = self.rules(if has_honest_log { Floor::Durable } else { Floor::Nothing });
        rules.unjudged = match has_honest_log {
            true => self.interrupted_pages(),
            false if self.writes_direct() => self.oracle.borrow().pages_written(false),
            false => rules.unjudged,
        };
        rules.may_refuse = true;
        rules.harmed.fill(true);
        self.live_troubled(CutPlan::default(), [Faults::default(), Faults::default()], rules).map(drop)
    }

    /// A life that ends by this, and of which the drives are copied at some moment.
    fn live_copied(&mut self, kind: CutKind) -> Result<(), Violation> {
        let plan = CutPlan { at_event: Some(self.any_event()), kind };
        self.copy_at = plan.at_event.map(|end| self.random.below(end + 1));
        self.live(plan, Work::Clients)?;
        self.settle(kind);
        Ok(())
    }

    /// Puts drives back to what they held when they were copied; answers what they held now.
    fn put_back(&mut self, what: PutBack) -> Option<[Image; 2]> {
        let [mut home, mut log] = self.copied.take()?;
        let held = [self.home.borrow().clone(), self.log.borrow().clone()];
        home.kill(&mut self.random);
        log.kill(&mut self.random);
        if what != PutBack::Log || !self.setup.separate_log {
            self.home.replace(home);
            self.clear_cache();
            self.outcome.faults.put_back += 1;
        }
        if what != PutBack::Home && self.setup.separate_log {
            self.log.replace(log);
            self.outcome.faults.put_back += 1;
        }
        self.note(|| format!("put back: {what:?}"));
        Some(held)
    }

    fn restored(&mut self, what: PutBack) -> Result<(), Violation> {
        self.live_copied(CutKind::Kill)?;
        let Some([home, log]) = self.put_back(what) else { return Ok(()) };
        let mut rules = self.rules(Floor::Durable);
        rules.may_refuse = true;
        if what == PutBack::Home && self.setup.separate_log {
            // Its pages are older than their sums, but for those of large writes that were under way.
            rules.harmed.fill(true);
            rules.unjudged = self.interrupted_pages();
        }
        let lived = self.live_troubled(CutPlan::default(), [Faults::default(), Faults::default()], rules)?;
        if lived.refused {
            self.settle(CutKind::Kill);
            self.home.replace(home);
            self.log.replace(log);
            self.clear_cache();
            self.live(CutPlan::default(), Work::Checkpoint)?;
        }
        Ok(())
    }

    fn stale_log(&mut self) -> Result<(), Violation> {
        if !self.setup.separate_log {
            return Ok(());
        }
        self.live_copied(CutKind::PowerCut)?;
        let copied = self.copied.take();
        self.live_and_cut(CutKind::PowerCut)?;
        self.settle(CutKind::PowerCut);
        self.copied.replace(copied);
        if self.put_back(PutBack::Log).is_none() {
            return Ok(());
        }
        let lag = self.log_lag();
        let mut rules = self.rules(Floor::Nothing);
        rules.may_refuse = true;
        rules.harmed.fill(true);
        if self.writes_direct() {
            rules.unjudged = self.oracle.borrow().pages_written(false);
        }
        let lived = self.live_troubled(CutPlan::default(), [Faults::default(), Faults::default()], rules)?;
        match lived.refused || lag <= 1 {
            true => Ok(()),
            false => Err(Violation::of(format!("a log was taken that lacks {lag} superblocks"))),
        }
    }

    fn at(&self, place: Place, faults: Faults) -> [Faults; 2] {
        match place {
            Place::Log if self.setup.separate_log => [Faults::default(), faults],
            _ => [faults, Faults::default()],
        }
    }

    /// A life under these rules: the volume is opened and looked at; clients work, and it is looked at again.
    fn live_troubled(
        &mut self,
        plan: CutPlan,
        faults: [Faults; 2],
        rules: Rules,
    ) -> Result<Troubled, Violation> {
        let seeds = self.client_seeds();
        let mut life = self.life(plan, faults);
        let (setup, oracle) = (self.setup, Rc::clone(&self.oracle));
        let floor = match (self.power_was_cut, rules.floor) {
            (false, _) => Floor::Acknowledged,
            (true, floor) => floor,
        };
        let Life { arena, home, log, .. } = life;
        let env = life.executor.env();
        let (own_home, own_log) = (Rc::clone(&home), Rc::clone(&log));
        let seen = Rc::new(RefCell::new(None));
        let accused = Rc::clone(&seen);
        let (layout, places, writes_direct) =
            (Rc::new(self.layout()), setup.habits.places, self.writes_direct());
        let (in_life, in_excuse) = (Rc::clone(&layout), Rc::clone(&layout));
        let faults = Rc::new(RefCell::new(self.outcome.faults));
        let tally = Rc::clone(&faults);
        let power_was_cut = Rc::new(Cell::new(self.power_was_cut));
        let was_cut = Rc::clone(&power_was_cut);
        let rules = Rc::new(rules);
        let operations_done = Rc::clone(&self.operations_done);
        let lived = life.executor.block_on(async move {
            let opened =
                Volume::open(env.clone(), arena, Rc::clone(&home), log, setup.separate_log, setup.open).await;
            let volume = match opened {
                Ok(volume) => volume,
                Err(error) => {
                    tally.borrow_mut().refusals += 1;
                    rules.judge_refusal(&error, &pages_of(&home.harmed(), &in_life, places))?;
                    return Ok(true);
                }
            };
            let mut first = look(&volume, places).await;
            if env.is_stopped() {
                return Ok(false);
            }
            rules.judge_look(&first, &oracle.borrow(), floor, &pages_of(&home.harmed(), &in_life, places))?;
            let reported = first.failed.iter().flatten().count() as u64;
            tally.borrow_mut().pages_reported += reported;
            if floor == Floor::Nothing
                && reported == 0
                && oracle.borrow().judge(&first.found, Floor::Durable).is_err()
            {
                tally.borrow_mut().untold_losses += 1;
            }
            if !rules.works || (reported > 0 && !rules.at_rest) {
                return Ok(false);
            }
            for page in (0..first.failed.len()).filter(|&page| first.failed[page].is_some()) {
                // What was taken home is known, though it cannot be seen.
                let place = Extent::new(page as u64 * PAGE_BYTES, PAGE_BYTES);
                let known = oracle.borrow().expected(place).to_vec();
                first.found[page * PAGE_BYTES as usize..][..PAGE_BYTES as usize].copy_from_slice(&known);
            }
            match floor {
                Floor::Acknowledged => oracle.borrow_mut().judge_kill(&first.found)?,
                _ => oracle.borrow_mut().go_on_from(&first.found),
            }
            was_cut.set(false);
            let (judge, habits) = (Rc::clone(&oracle), setup.habits);
            let (excuse, drive) = (Rc::clone(&rules), Rc::clone(&home));
            let stage = Rc::new(Stage {
                volume: volume.clone(),
                oracle: judge,
                violation: accused,
                env: env.clone(),
                habits,
                operations_done,
                forgives: Box::new(move |error| {
                    excuse.is_excused(error, &pages_of(&drive.harmed(), &in_excuse, places))
                }),
            });
            run_clients(&stage, &seeds).await;
            if env.is_stopped() || stage.violation.borrow().is_some() {
                return Ok(false);
            }
            tally.borrow_mut().latched += u64::from(volume.failure().is_some());
            let last = look(&volume, places).await;
            if env.is_stopped() {
                return Ok(false);
            }
            tally.borrow_mut().pages_reported += last.failed.iter().flatten().count() as u64;
            let mut strays = pages_of(&home.harmed(), &in_life, places);
            if rules.may_fail && writes_direct {
                // A large write that failed on its way home: until the next opening nothing says what is there.
                let failed = oracle.borrow().pages_written(true);
                strays.iter_mut().zip(failed).for_each(|(stray, failed)| *stray |= failed);
            }
            rules.judge_look(&last, &oracle.borrow(), Floor::Acknowledged, &strays)?;
            Ok(false)
        });
        self.end_life(&life.executor, &life.cuts, plan);
        self.power_was_cut = power_was_cut.get();
        self.outcome.faults = *faults.borrow();
        let drives = if setup.separate_log { vec![&own_home, &own_log] } else { vec![&own_home] };
        for drive in drives {
            self.outcome.faults.failed_operations += drive.failed();
            self.outcome.faults.lies += drive.lied();
            match drive.harmed().len() {
                0 => {}
                1 => self.outcome.faults.lost_writes += 1,
                _ => self.outcome.faults.misdirected_writes += 1,
            }
        }
        drop(life.executor);
        if let Some(violation) = seen.borrow_mut().take() {
            return Err(violation);
        }
        let harmed = pages_of(&own_home.harmed(), &layout, places);
        match lived {
            Err(Halt::Stopped { .. }) => {
                self.outcome.cuts += 1;
                Ok(Troubled { refused: false, harmed })
            }
            Err(halt) => Err(Violation::of(halt)),
            Ok(lived) => lived.map(|refused| Troubled { refused, harmed }),
        }
    }
}
