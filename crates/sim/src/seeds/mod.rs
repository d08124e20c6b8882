//! One seed's simulation: a volume on some layout, several runs of a process that follow one another, a cut at the end of
//! most, faults of its drives meanwhile, and perhaps more of them in the end than the layout bears.
//!
//! 1. Drives lose and tear what was not flushed, in any order, because drives do. Otherwise they do what they promise,
//!    but for the faults that the redundancy bears (`ground_truth.rs`): nothing acknowledged is lost then, nothing
//!    wrong is served, commits are whole, no client sees an error, and no device that is well fails.
//! 2. Where a record is on some drives only, one that is lost together with a cut may have held what no other has: then
//!    the volume may refuse to open. If it opens, nothing is lost, whoever is missing.
//! 3. In the end drives do worse. Which promises remain then, say [`mod@trouble`] for drives that nothing stands in for, and
//!    [`mod@beyond`] for the others.
//! 4. While nothing is wrong with any device, no read waits behind writes where turns are kept.

pub mod beyond;
mod fates;
mod judged;
mod machine;
mod mirror;
mod rules;
mod run;
pub mod setup;
mod single;

use std::fmt::Debug;

use evenkeel_engine::counters::Snapshot;
use evenkeel_engine::format::layout::Layout;

use crate::cuts::{CutKind, CutPlan};
use crate::oracle::Violation;
use crate::tally::{DriveTally, Tally};
use crate::testbed::Testbed;
pub use machine::Machine;
use machine::Work;
pub(crate) use mirror::draw_ring;
pub use mirror::{STRIPED_BROKEN_SINCE, STRIPED_ONCE_BROKEN, draw_striped};
pub use setup::Setup;
pub use single::trouble;

/// Operations of each seed that goes on until enough happened, at least.
pub const OPERATIONS_MIN: u64 = 200;

/// Runs after which a seed is left as it is, for each cut.
const RUNS_MAX: u32 = 32;

/// How often somebody tries to start the volume without those that have everything.
const FALSE_STARTS: f64 = 0.06;

/// A layout whose seeds are drawn.
pub trait Seeded: Testbed {
    /// What may go wrong in the end.
    type Ending: Debug + Copy;

    /// Tells what a machine draws from everything else that follows from a seed.
    const SALT: u64;

    /// Events among which a cut strikes that is to meet a recovery.
    const RECOVERY_EVENTS: u64;

    /// What `seed` stands for with so many cuts; on so many drives with pages, or as many as the seed says.
    fn draw(seed: u64, cuts: u32, page_drives: Option<usize>) -> Setup<Self>;

    /// What goes wrong in the end.
    ///
    /// # Errors
    ///
    /// The promise that was broken.
    fn end(machine: &mut Machine<Self>) -> Result<(), Violation>;

    /// Moves the volume to other drives, where seeds of this layout do so.
    ///
    /// # Errors
    ///
    /// The promise that was broken.
    fn move_elsewhere(_machine: &mut Machine<Self>) -> Result<(), Violation> {
        Ok(())
    }

    /// [`tell`], or [`run`], which has no story.
    ///
    /// Each layout has one that is not generic: all that it calls is then compiled in this crate once, and not again in
    /// every program that runs seeds.
    fn simulate(setup: Setup<Self>, is_told: bool) -> (Vec<String>, Result<Outcome, Violation>);

    /// Where the zones of the volume lie now.
    fn layout_of(machine: &Machine<Self>) -> Layout {
        machine.layout_by_size()
    }
}

/// What a simulation did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Power cuts and kills.
    pub cuts: u64,
    /// Times that the volume was opened after a cut.
    pub recoveries: u64,
    /// Operations that clients did in all runs together.
    pub operations: u64,
    /// A hash over everything that happened.
    pub trace: u64,
    /// Checkpoints of all runs together, those that were cut too.
    pub checkpoints: u64,
    /// Commits of all runs together.
    pub commits: u64,
    /// Direct writes of all runs together.
    pub direct_writes: u64,
    /// Times that the log went on from its start, in all runs together.
    pub log_wraps: u64,
    /// Seeds in which it never did.
    pub unwrapped: u64,
    /// Times that a volume grew.
    pub growths: u64,
    /// Starts that were given up as a log device failed within them, and tried again without it.
    pub given_up_starts: u64,
    /// Seeds that ended with less than each should have.
    pub short: u64,
    /// Pages of the table of sums that were read, once others had taken their room.
    pub table_reads: u64,
    /// Pages that were served from what the system in front of the drive had in memory.
    pub cached_reads: u64,
    /// What drives did wrong that nothing stands in for, and what came of it.
    pub drives: DriveTally,
    /// What went wrong with drives that others stand in for.
    pub members: Tally,
}

impl Outcome {
    /// Adds what another simulation did.
    pub fn add(&mut self, other: &Self) {
        self.cuts += other.cuts;
        self.recoveries += other.recoveries;
        self.operations += other.operations;
        self.checkpoints += other.checkpoints;
        self.commits += other.commits;
        self.direct_writes += other.direct_writes;
        self.log_wraps += other.log_wraps;
        self.unwrapped += other.unwrapped;
        self.growths += other.growths;
        self.given_up_starts += other.given_up_starts;
        self.short += other.short;
        self.table_reads += other.table_reads;
        self.cached_reads += other.cached_reads;
        self.trace = crate::trace::fold(self.trace, other.trace);
        self.drives.add(&other.drives);
        self.members.add(&other.members);
    }

    /// Whether as much happened as should in a seed with so many cuts.
    fn is_enough(&self, cuts: u32) -> bool {
        self.cuts >= u64::from(cuts)
            && self.operations >= OPERATIONS_MIN
            && self.checkpoints > 0
            && self.log_wraps > 0
    }

    /// Adds what one run did.
    fn count(&mut self, run: &Snapshot) {
        self.checkpoints += run.checkpoints;
        self.commits += run.commits;
        self.direct_writes += run.direct_writes;
        self.log_wraps += run.log_wraps;
        self.table_reads += run.table_reads;
        self.cached_reads += run.cached_reads;
    }
}

/// Simulates one seed.
///
/// # Errors
///
/// The violation found, with the run in which it was.
pub fn run<T: Seeded>(setup: Setup<T>) -> Result<Outcome, Violation> {
    T::simulate(setup, false).1
}

/// As [`run`], and tells what happened, a line for each run and each fault.
///
/// # Errors
///
/// As [`run`], beside the story up to there.
pub fn tell<T: Seeded>(setup: Setup<T>) -> (Vec<String>, Result<Outcome, Violation>) {
    T::simulate(setup, true)
}

/// [`run`] or [`tell`].
fn simulate<T: Seeded>(setup: Setup<T>, is_told: bool) -> (Vec<String>, Result<Outcome, Violation>) {
    let mut machine = match Machine::new(setup) {
        Ok(machine) => machine,
        Err(violation) => return (Vec::new(), Err(violation)),
    };
    machine.story = is_told.then(Vec::new);
    let ended = run_all(&mut machine);
    (machine.story.take().unwrap_or_default(), ended.map(|()| machine.outcome))
}

fn run_all<T: Seeded>(machine: &mut Machine<T>) -> Result<(), Violation> {
    let setup = machine.setup;
    for number in 0..RUNS_MAX * setup.cuts.max(1) {
        let kind = if machine.random.chance(0.7) { CutKind::PowerCut } else { CutKind::Kill };
        let is_to_be_cut = match setup.goes_on_until_enough {
            true => machine.outcome.cuts < u64::from(setup.cuts),
            false => number < setup.cuts,
        };
        // Some cuts strike while the volume recovers from the one before.
        let at_event = is_to_be_cut.then(|| match machine.random.chance(0.3) {
            true => machine.random.below(T::RECOVERY_EVENTS),
            false => machine.random.below(machine.run_events),
        });
        let is_idle = setup.idle_runs && number % 2 == 1 && is_to_be_cut;
        let plan = CutPlan { at_event: at_event.filter(|_| !is_idle), kind };
        let (mut work, mut fates) = (Work::Clients, machine.all_well());
        if T::IS_REDUNDANT {
            if number > 0 && machine.random.chance(FALSE_STARTS) && !machine.false_start()? {
                return Ok(()); // it was served, and what it served was right: nobody else has everything any more
            }
            if number > 0 && !machine.start_with_retired()? {
                return Ok(()); // as above
            }
            machine.roll_back();
            match machine.random.chance(if is_to_be_cut { 0.1 } else { 0.5 }) {
                true => work = Work::Heal,
                false => fates = machine.fates(),
            }
        } else if is_idle {
            work = Work::Checkpoint;
        }
        let last_cut = machine.last_cut;
        let end = machine
            .run(plan, work, &fates)
            .map_err(|violation| violation.within(&format!("run {number}, after {last_cut:?}")))?;
        let ended_by = machine.settle_end(end);
        if setup.moves && ended_by == CutKind::PowerCut {
            T::move_elsewhere(machine).map_err(|violation| violation.within(&format!("run {number}")))?;
        }
        if !is_to_be_cut && (!setup.goes_on_until_enough || machine.outcome.is_enough(setup.cuts)) {
            break;
        }
    }
    machine.outcome.short = u64::from(setup.goes_on_until_enough && !machine.outcome.is_enough(setup.cuts));
    machine.outcome.unwrapped = u64::from(machine.outcome.log_wraps == 0);
    machine.note(|| format!("in the end: {:?}", setup.ending));
    T::end(machine).map_err(|violation| violation.within(&format!("{:?}", setup.ending)))
}
