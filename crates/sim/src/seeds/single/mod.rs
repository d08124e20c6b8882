//! Seeds of volumes on one drive, with a log in it or on a drive of its own.

mod endings;
mod medium;
mod setup;
pub mod trouble;

use evenkeel_engine::error::Error;
use evenkeel_engine::format::layout::Layout;

use super::{Machine, Outcome, Seeded, Setup, simulate};
use crate::cuts::{CutKind, CutPlan};
use crate::oracle::Violation;
use crate::testbed::Single;
use trouble::Trouble;

impl Seeded for Single {
    type Ending = Trouble;

    const SALT: u64 = 0x5eed;

    const RECOVERY_EVENTS: u64 = 60;

    fn draw(seed: u64, cuts: u32, _page_drives: Option<usize>) -> Setup<Self> {
        Setup::draw_single(seed, cuts)
    }

    fn simulate(setup: Setup<Self>, is_told: bool) -> (Vec<String>, Result<Outcome, Violation>) {
        simulate(setup, is_told)
    }

    fn end(machine: &mut Machine<Self>) -> Result<(), Violation> {
        machine.make_trouble()
    }

    /// To sectors that are whole after a cut or may not be, and, for the home drive, larger or smaller ones. A log that its
    /// drive would write in larger sectors is refused, and nothing has changed.
    fn move_elsewhere(machine: &mut Machine<Self>) -> Result<(), Violation> {
        let (made_for, separate_log) = (machine.setup.sector_bytes, machine.setup.testbed.separate_log);
        let atomic_sectors = machine.random.coin();
        let home_bytes = if separate_log { *machine.random.pick(&[512, 4096]) } else { made_for };
        machine.note(|| format!("moved to sectors of {home_bytes}, atomic: {atomic_sectors}"));
        if made_for < 4096 && machine.random.chance(0.2) {
            let log = machine.log();
            log.borrow_mut().move_to(4096, atomic_sectors);
            let before = log.borrow().durable_digest();
            let mut run = machine.begin_run(CutPlan::default(), &machine.all_well());
            let (fixture, options) = (run.fixture, machine.setup.open);
            let opened =
                run.executor.block_on(async move { fixture.open(run.arena, options).await.map(drop) });
            drop(run.executor);
            match opened.map_err(Violation::of)? {
                Err(Error::Unsuited(why)) if why.contains("sectors of 512 bytes") => {}
                other => return Err(Violation::of(format!("its log is in larger sectors: {other:?}"))),
            }
            machine.settle(CutKind::PowerCut);
            if log.borrow().durable_digest() != before {
                return Err(Violation::of("a volume that is refused is changed"));
            }
            machine.outcome.drives.refusals += 1;
        }
        machine.home().borrow_mut().move_to(home_bytes, atomic_sectors);
        let atomic_sectors = machine.random.coin();
        match separate_log {
            true => machine.log().borrow_mut().move_to(made_for, atomic_sectors),
            false => machine.unused.move_to(made_for, atomic_sectors),
        }
        machine.outcome.drives.moved += 1;
        Ok(())
    }

    fn layout_of(machine: &Machine<Self>) -> Layout {
        machine.layout_on_medium()
    }
}
