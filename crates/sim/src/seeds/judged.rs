//! A run in which more goes wrong than the layout bears, under rules that say what remains.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_engine::device::Extent;
use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::options::Journaling;

use super::Seeded;
use super::machine::Machine;
use super::rules::{Rules, look, pages_of};
use crate::cuts::CutPlan;
use crate::executor::Halt;
use crate::fixture::{Fixture, Run};
use crate::oracle::{Floor, Violation};
use crate::places::Places;
use crate::random::Random;
use crate::testbed::Kind;
use crate::workload::run_clients;

/// What came of such a run.
#[derive(Default)]
pub(super) struct Judged {
    /// Whether the volume refused to open.
    pub(super) refused: bool,
    /// Whether it was judged by its first look at all pages, and clients went on from there.
    went_on: bool,
    /// Whether it failed, and acknowledged nothing any more.
    pub(super) has_latched: bool,
    /// Pages that could not be read at first, and in the end.
    pub(super) reported: [u64; 2],
    /// Whether it had lost what was acknowledged, and could not know.
    pub(super) lost_untold: bool,
    /// Pages that lost or misplaced writes left wrong.
    pub(super) strays: Vec<bool>,
}

/// What else happens in such a run.
#[derive(Default)]
pub(super) struct Beside {
    /// Devices of these kinds that all fail, when it comes to that.
    pub(super) all_fail: Option<(Vec<Kind>, Random)>,
    /// A page that is damaged everywhere, over which the volume grows.
    pub(super) grows_over: Option<(u64, Random)>,
}

impl<T: Seeded> Machine<T> {
    /// A run under these rules: the volume is opened and looked at; clients that follow `seeds` work, and it is looked at
    /// again.
    pub(super) fn run_judged(
        &mut self,
        run: Run<T>,
        seeds: Vec<u64>,
        plan: CutPlan,
        rules: Rules,
        mut beside: Beside,
    ) -> Result<Judged, Violation> {
        let Run { mut executor, arena, fixture } = run;
        let (setup, oracle, places) = (self.setup, Rc::clone(&self.oracle), self.setup.habits.places);
        let floor = if self.power_was_cut { rules.floor } else { Floor::Acknowledged };
        let (writes_direct, operations_done) = (self.writes_direct(), Rc::clone(&self.operations_done));
        let (works, rules) = (rules.works, Rc::new(rules));
        let known_size = self.known_size.clone();
        let came = Rc::new(RefCell::new(Judged::default()));
        let (shared, seen) = (Rc::clone(&fixture), Rc::clone(&came));
        let within_redundancy = beside.all_fail.is_none();
        let ended = executor.block_on(async move {
            let env = shared.env.clone();
            if let Some((kinds, random)) = beside.all_fail.take() {
                env.spawn(Rc::clone(&shared).fail_some(1, random, kinds));
            }
            let volume = match shared.open(arena, setup.open).await {
                Ok(volume) => volume,
                Err(error) => {
                    seen.borrow_mut().refused = true;
                    return rules.judge_refusal(&error, &strays(&shared, places));
                }
            };
            let mut first = look(&volume, places).await;
            if shared.is_over() {
                return Ok(());
            }
            rules.judge_look(&first, &oracle.borrow(), floor, &strays(&shared, places))?;
            if let Some((page, random)) = &mut beside.grows_over {
                known_size.judge(volume.size_bytes())?;
                shared.grow_over_damage(&volume, setup.growths.into_noise, *page, random).await?;
            }
            let reported = first.reported();
            seen.borrow_mut().reported[0] = reported;
            seen.borrow_mut().lost_untold = floor == Floor::Nothing
                && reported == 0
                && oracle.borrow().judge(&first.found, Floor::Durable).is_err();
            if !rules.works || (reported > 0 && !rules.at_rest) {
                return Ok(());
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
            seen.borrow_mut().went_on = true;
            let (excuse, in_excuse) = (Rc::clone(&rules), Rc::clone(&shared));
            let excuses = move |error: &Error| excuse.is_excused(error, &strays(&in_excuse, places));
            let workload = shared.workload(&volume, &oracle, setup.habits, operations_done, excuses);
            run_clients(&workload, &seeds).await;
            if shared.is_over() {
                return Ok(());
            }
            seen.borrow_mut().has_latched = volume.failure().is_some();
            let last = look(&volume, places).await;
            if shared.is_over() {
                return Ok(());
            }
            seen.borrow_mut().reported[1] = last.reported();
            let mut strays = strays(&shared, places);
            if rules.may_fail && writes_direct {
                // A large write that failed on its way home: until the next opening nothing says what is there.
                let failed = oracle.borrow().pages_written(true);
                strays.iter_mut().zip(failed).for_each(|(stray, failed)| *stray |= failed);
            }
            rules.judge_look(&last, &oracle.borrow(), Floor::Acknowledged, &strays)
        });
        // Where nobody works, those that lack something may go on without the others.
        let violation = self.end_run(executor, &fixture, plan, within_redundancy).filter(|_| works);
        let mut came = came.take();
        came.strays = strays(&fixture, places);
        self.power_was_cut &= !came.went_on;
        if let Some(violation) = violation {
            return Err(violation);
        }
        match ended {
            Err(Halt::Stopped { .. }) => self.outcome.cuts += 1,
            Err(halt) => return Err(Violation::of(halt)),
            Ok(ended) => ended?,
        }
        Ok(came)
    }

    /// Whether large writes go straight home.
    pub(super) fn writes_direct(&self) -> bool {
        matches!(self.setup.open.journaling, Journaling::Selective { .. } | Journaling::Ordered)
            && (self.setup.atomic_sectors || self.setup.moves)
    }
}

/// Pages that lost or misplaced writes left wrong so far, where nothing stands in for the drive.
fn strays<T: Seeded>(fixture: &Fixture<T>, places: Places) -> Vec<bool> {
    let truth = fixture.truth.borrow();
    let harmed = if T::IS_REDUNDANT { Vec::new() } else { truth.devices[0].drive.harmed() };
    pages_of(&harmed, &fixture.layout, places)
}
