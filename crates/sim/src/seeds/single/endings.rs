//! Runs with a drive that does worse than lose power, where nothing stands in for it, judged by what [`super::trouble`] says
//! that remains.

use evenkeel_engine::device::Extent;
use evenkeel_engine::format::PAGE_BYTES;

use super::trouble::{Place, PutBack, Trouble, Zone};
use crate::cuts::{CutKind, CutPlan};
use crate::drive::Counters;
use crate::faults::{Fault, Faults, Stray};
use crate::image::Image;
use crate::oracle::{Floor, Violation};
use crate::seeds::Machine;
use crate::seeds::judged::{Beside, Judged};
use crate::seeds::machine::{Fate, Work};
use crate::seeds::rules::Rules;
use crate::testbed::Single;

impl Machine<Single> {
    /// What the drives do wrong in the end.
    pub(super) fn make_trouble(&mut self) -> Result<(), Violation> {
        // What remains is judged by what was done to the drives: nothing else lands on them.
        self.setup.has_network = false;
        for disk in &self.disks {
            disk.image.borrow_mut().fence(&mut self.random);
        }
        match self.setup.ending {
            Trouble::None => Ok(()),
            Trouble::LostRecord(damage) => self.lost_record(damage),
            Trouble::DamagedHome { zone, damage, at_rest } => self.damaged_home(zone, damage, at_rest),
            Trouble::StrayWrite { zone, misdirected } => self.stray_write(zone, misdirected),
            Trouble::Failing(place, fault) => self.failing(place, fault),
            Trouble::Lying(place) => self.lying(place),
            Trouble::Restored(what) => self.restored(what),
            Trouble::StaleLog => self.stale_log(),
        }
    }

    /// Nothing goes wrong, and nothing is excused.
    fn rules(&self, floor: Floor) -> Rules {
        Rules::none(self.setup.habits.places, floor)
    }

    /// Pages that recovery takes as it finds them: those of a large write that a cut interrupted.
    fn interrupted_pages(&self) -> Vec<bool> {
        match self.writes_direct() {
            true => self.oracle.borrow().pages_written(true),
            false => vec![false; self.setup.habits.places.pages()],
        }
    }

    fn any_event(&mut self) -> u64 {
        self.random.below(self.run_events)
    }

    /// A run that is cut while clients work.
    fn run_and_cut(&mut self, kind: CutKind) -> Result<(), Violation> {
        let plan = CutPlan { at_event: Some(self.any_event()), kind };
        let end = self.run_well(plan, Work::Clients)?;
        self.settle_end(end);
        Ok(())
    }

    fn lost_record(&mut self, damage: Fault) -> Result<(), Violation> {
        self.run_and_cut(CutKind::PowerCut)?;
        self.settle(CutKind::PowerCut);
        if !self.lose_record(damage) {
            return Ok(());
        }
        match self.run_well(CutPlan::default(), Work::Checkpoint) {
            Err(violation) if violation.what.contains("of the log is damaged") => {
                self.outcome.drives.refusals += 1;
                Ok(())
            }
            Err(violation) => Err(violation),
            Ok(_) => Err(Violation::of("an acknowledged record was lost, and nobody said so")),
        }
    }

    fn damaged_home(&mut self, zone: Zone, damage: Fault, at_rest: bool) -> Result<(), Violation> {
        if at_rest {
            self.run_well(CutPlan::default(), Work::Close)?;
        } else {
            self.run_and_cut(CutKind::PowerCut)?;
        }
        // What was home before is in the system's memory still, unless the power goes too.
        let keeps_power = at_rest && self.random.coin();
        self.settle(if keeps_power { CutKind::Kill } else { CutKind::PowerCut });
        let mut rules = self.rules(Floor::Durable);
        rules.unjudged = self.interrupted_pages();
        let (home, extent) = (self.home(), self.zone(zone));
        let has_two_roots = self.has_two_roots();
        if at_rest && !has_two_roots {
            return Err(Violation::of("a volume that was closed holds its root only once"));
        }
        if zone == Zone::Pages {
            for _ in 0..1 + self.random.below(3) {
                let page = self.random.index(self.setup.habits.places.pages());
                rules.harmed[page] = true;
                let on_volume = self.setup.habits.places.page_on_volume(page);
                let place = Extent::new(self.layout_on_medium().page_offset(on_volume), PAGE_BYTES);
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
        let ended = self.run_well_under(rules)?;
        self.settle(CutKind::PowerCut);
        if ended.refused {
            return Ok(());
        }
        // What clients wrote over a part of a damaged page cannot go home: the volume may stay shut.
        let mut rules = self.rules(Floor::Durable);
        rules.may_refuse = harmed.contains(&true);
        rules.harmed = harmed;
        rules.unjudged = self.interrupted_pages();
        self.run_well_under(rules).map(drop)
    }

    fn stray_write(&mut self, zone: Zone, misdirected: bool) -> Result<(), Violation> {
        let after = self.random.below(12);
        // The root in force is not written; the other one is next.
        let layout = self.layout_on_medium();
        let within = match zone {
            Zone::Root => Extent::new(layout.roots[0].offset, 2 * layout.roots[0].len),
            zone => self.zone(zone),
        };
        let stray = Stray { within, after, misdirected: misdirected && zone == Zone::Pages };
        let faults = Faults { stray: Some(stray), ..Faults::default() };
        let plan = CutPlan { at_event: Some(self.any_event()), kind: CutKind::PowerCut };
        let rules = Rules { works: true, ..self.rules(Floor::Durable) };
        let ended = self.run_faulty(plan, Place::Home, faults, rules)?;
        self.settle(CutKind::PowerCut);
        let mut rules = self.rules(Floor::Durable);
        rules.may_refuse = ended.strays.contains(&true);
        rules.harmed = ended.strays;
        rules.unjudged = self.interrupted_pages();
        self.run_well_under(rules).map(drop)
    }

    fn failing(&mut self, place: Place, fault: Fault) -> Result<(), Violation> {
        // After a kill, an opening flushes what may not be durable: that too must be allowed to fail.
        if self.random.coin() {
            self.run_and_cut(CutKind::Kill)?;
        }
        let after = match fault {
            Fault::FailsFlush => self.random.below(12),
            Fault::Dies => 10 * self.random.below(60),
            _ => self.random.below(60),
        };
        let faults = fault.faults(Counters::default(), after);
        let kind = if self.random.coin() { CutKind::PowerCut } else { CutKind::Kill };
        let plan = CutPlan { at_event: Some(self.any_event()), kind };
        let mut rules = self.rules(Floor::Durable);
        (rules.may_fail, rules.may_refuse, rules.works) = (true, true, true);
        self.run_faulty(plan, place, faults, rules)?;
        self.settle(kind);
        self.run_well(CutPlan::default(), Work::Clients)?;
        self.settle(CutKind::PowerCut);
        self.run_well(CutPlan::default(), Work::Checkpoint).map(drop)
    }

    fn lying(&mut self, place: Place) -> Result<(), Violation> {
        let faults = Fault::Lies.faults(Counters::default(), self.random.below(20));
        let plan = CutPlan { at_event: Some(self.any_event()), kind: CutKind::PowerCut };
        let rules = Rules { works: true, ..self.rules(Floor::Durable) };
        self.run_faulty(plan, place, faults, rules)?;
        self.settle(CutKind::PowerCut);
        let has_honest_log = self.setup.testbed.separate_log && place == Place::Home;
        let mut rules = self.rules(if has_honest_log { Floor::Durable } else { Floor::Nothing });
        rules.unjudged = match has_honest_log {
            true => self.interrupted_pages(),
            false if self.writes_direct() => self.oracle.borrow().pages_written(false),
            false => rules.unjudged,
        };
        rules.may_refuse = true;
        rules.harmed.fill(true);
        self.run_well_under(rules).map(drop)
    }

    /// A run that ends by this, and of which the drives are copied at some moment.
    fn run_copied(&mut self, kind: CutKind) -> Result<(), Violation> {
        let plan = CutPlan { at_event: Some(self.any_event()), kind };
        self.copy_at = plan.at_event.map(|end| self.random.below(end + 1));
        self.run_well(plan, Work::Clients)?;
        self.settle(kind);
        Ok(())
    }

    /// Puts drives back to what they held when they were copied; answers what they held now.
    fn put_back(&mut self, what: PutBack) -> Option<Vec<Image>> {
        let mut copied = self.copied.take()?;
        let held = self.disks.iter().map(|disk| disk.image.borrow().clone()).collect();
        copied.iter_mut().for_each(|image| image.kill(&mut self.random));
        let separate_log = self.setup.testbed.separate_log;
        for (number, image) in copied.into_iter().enumerate() {
            let is_meant = match number {
                0 => what != PutBack::Log || !separate_log,
                _ => what != PutBack::Home,
            };
            if is_meant {
                self.disks[number].image.replace(image);
                self.outcome.drives.put_back += 1;
                if number == 0 {
                    self.clear_cache();
                }
            }
        }
        self.note(|| format!("put back: {what:?}"));
        Some(held)
    }

    fn restored(&mut self, what: PutBack) -> Result<(), Violation> {
        self.run_copied(CutKind::Kill)?;
        let Some(held) = self.put_back(what) else { return Ok(()) };
        let mut rules = self.rules(Floor::Durable);
        rules.may_refuse = true;
        if what == PutBack::Home && self.setup.testbed.separate_log {
            // Its pages are older than their sums, but for those of large writes that were under way.
            rules.harmed.fill(true);
            rules.unjudged = self.interrupted_pages();
        }
        let ended = self.run_well_under(rules)?;
        if ended.refused {
            self.settle(CutKind::Kill);
            for (disk, image) in self.disks.iter().zip(held) {
                disk.image.replace(image);
            }
            self.clear_cache();
            self.run_well(CutPlan::default(), Work::Checkpoint)?;
        }
        Ok(())
    }

    fn stale_log(&mut self) -> Result<(), Violation> {
        if !self.setup.testbed.separate_log {
            return Ok(());
        }
        self.run_copied(CutKind::PowerCut)?;
        let copied = self.copied.take();
        self.run_and_cut(CutKind::PowerCut)?;
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
        let ended = self.run_well_under(rules)?;
        match ended.refused || lag <= 1 {
            true => Ok(()),
            false => Err(Violation::of(format!("a log was taken that lacks {lag} superblocks"))),
        }
    }

    /// A run under these rules, with drives that are well from now on.
    fn run_well_under(&mut self, rules: Rules) -> Result<Judged, Violation> {
        let seeds = self.client_seeds();
        let fates = self.all_well();
        self.run_under(CutPlan::default(), seeds, &fates, rules)
    }

    /// A run under these rules, with a drive that does this wrong.
    fn run_faulty(
        &mut self,
        plan: CutPlan,
        place: Place,
        faults: Faults,
        rules: Rules,
    ) -> Result<Judged, Violation> {
        let seeds = self.client_seeds();
        let mut fates = self.all_well();
        let number = if place == Place::Log { fates.len() - 1 } else { 0 };
        fates[number] = Fate::With(Box::new(faults));
        self.run_under(plan, seeds, &fates, rules)
    }

    fn run_under(
        &mut self,
        plan: CutPlan,
        seeds: Vec<u64>,
        fates: &[Fate],
        rules: Rules,
    ) -> Result<Judged, Violation> {
        let run = self.begin_run(plan, fates);
        let drives: Vec<_> = run.fixture.drives().into_iter().flatten().collect();
        let judged = self.run_judged(run, seeds, plan, rules, Beside::default())?;
        let tally = &mut self.outcome.drives;
        tally.refusals += u64::from(judged.refused);
        tally.pages_reported += judged.reported.iter().sum::<u64>();
        tally.untold_losses += u64::from(judged.lost_untold);
        tally.latched += u64::from(judged.has_latched);
        for drive in &drives {
            tally.failed_operations += drive.failed();
            tally.lies += drive.lied();
            match drive.harmed().len() {
                0 => {}
                1 => tally.lost_writes += 1,
                _ => tally.misdirected_writes += 1,
            }
        }
        Ok(judged)
    }
}
