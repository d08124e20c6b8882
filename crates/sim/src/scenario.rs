//! One seed's simulation: a volume, its drives, several lives, a cut at the end of most, and perhaps trouble.
//!
//! Lives follow one another until as many cuts struck as were asked for, clients did [`OPERATIONS_MIN`] operations,
//! a checkpoint was taken and the log went on from its start. What a seed lacks of that in the end is counted.
//!
//! Drives lose and tear what was not flushed, in any order, because drives do. In most seeds they keep what they
//! promise (sectors old or new, where they promise it) and what they acknowledged as durable, and the volume must
//! keep all of its promises. In the others they do worse in the end; which promises remain then, says
//! [`mod@trouble`].

mod machine;
mod medium;
pub(crate) mod rules;
pub mod setup;
pub mod trouble;
mod troubled;

use evenkeel_engine::counters::Snapshot;

use crate::cuts::{CutKind, CutPlan};
use crate::oracle::Violation;
use machine::{End, Machine, Work};
pub use setup::Setup;
pub use trouble::{Tally, Trouble};

/// Operations of each seed, at least.
pub const OPERATIONS_MIN: u64 = 200;

/// Lives after which a seed is left as it is, for each cut.
const LIVES_MAX: u32 = 32;

/// What a simulation did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Power cuts and kills.
    pub cuts: u64,
    /// Times that the volume was opened after a cut.
    pub recoveries: u64,
    /// Operations that clients did in all lives together.
    pub operations: u64,
    /// A hash over everything that happened.
    pub trace: u64,
    /// Checkpoints of all lives together, those that were cut too.
    pub checkpoints: u64,
    /// Commits of all lives together.
    pub commits: u64,
    /// Direct writes of all lives together.
    pub direct_writes: u64,
    /// Times that the log went on from its start, in all lives together.
    pub log_wraps: u64,
    /// Seeds in which it never did.
    pub unwrapped: u64,
    /// Times that a volume grew.
    pub growths: u64,
    /// Seeds that ended with less than each should have.
    pub short: u64,
    /// Pages of the table of sums that were read, once others had taken their room.
    pub table_reads: u64,
    /// Pages that were served from what the system in front of the drive had in memory.
    pub cached_reads: u64,
    /// What the drives did wrong, and what came of it.
    pub faults: Tally,
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
        self.short += other.short;
        self.table_reads += other.table_reads;
        self.cached_reads += other.cached_reads;
        self.trace = crate::trace::fold(self.trace, other.trace);
        self.faults.add(&other.faults);
    }

    /// Whether as much happened as should in a seed with so many cuts.
    fn is_enough(&self, cuts: u32) -> bool {
        self.cuts >= u64::from(cuts)
            && self.operations >= OPERATIONS_MIN
            && self.checkpoints > 0
            && self.log_wraps > 0
    }

    /// Adds what one life did.
    pub(crate) fn count(&mut self, life: &Snapshot) {
        self.checkpoints += life.checkpoints;
        self.commits += life.commits;
        self.direct_writes += life.direct_writes;
        self.log_wraps += life.log_wraps;
        self.table_reads += life.table_reads;
        self.cached_reads += life.cached_reads;
    }
}

/// Simulates one seed.
///
/// # Errors
///
/// The violation found, with the life in which it was.
pub fn run(setup: Setup) -> Result<Outcome, Violation> {
    let mut machine = Machine::new(setup)?;
    live_all(&mut machine)?;
    Ok(machine.outcome)
}

/// As [`run`], and tells what happened, a line for each life and each fault of the medium.
///
/// # Errors
///
/// As [`run`], beside the story up to there.
pub fn tell(setup: Setup) -> (Vec<String>, Result<Outcome, Violation>) {
    let mut machine = match Machine::new(setup) {
        Ok(machine) => machine,
        Err(violation) => return (Vec::new(), Err(violation)),
    };
    machine.story = Some(Vec::new());
    let lived = live_all(&mut machine);
    (machine.story.take().unwrap_or_default(), lived.map(|()| machine.outcome))
}

fn live_all(machine: &mut Machine) -> Result<(), Violation> {
    let setup = machine.setup;
    for life in 0..LIVES_MAX * setup.cuts.max(1) {
        let kind = if machine.random.chance(0.7) { CutKind::PowerCut } else { CutKind::Kill };
        let is_to_be_cut = machine.outcome.cuts < u64::from(setup.cuts);
        // Some cuts strike while the volume recovers from the one before.
        let at_event = is_to_be_cut.then(|| match machine.random.chance(0.3) {
            true => machine.random.below(60),
            false => machine.random.below(machine.life_events),
        });
        let is_idle = setup.idle_lives && life % 2 == 1 && is_to_be_cut;
        let plan = CutPlan { at_event: at_event.filter(|_| !is_idle), kind };
        let last_cut = machine.last_cut;
        let end = machine
            .live(plan, if is_idle { Work::Checkpoint } else { Work::Clients })
            .map_err(|violation| violation.within(&format!("life {life}, after {last_cut:?}")))?;
        let ended_by = match end {
            End::Done => CutKind::PowerCut, // the machine is switched off
            End::Cut(kind) => kind,
        };
        machine.settle(ended_by);
        if setup.moves && ended_by == CutKind::PowerCut {
            machine.move_to_other_drives().map_err(|violation| violation.within(&format!("life {life}")))?;
        }
        if !is_to_be_cut && machine.outcome.is_enough(setup.cuts) {
            break;
        }
    }
    machine.outcome.short = u64::from(!machine.outcome.is_enough(setup.cuts));
    machine.outcome.unwrapped = u64::from(machine.outcome.log_wraps == 0);
    machine.note(|| format!("trouble: {:?}", setup.trouble));
    machine.trouble().map_err(|violation| violation.within(&format!("{:?}", setup.trouble)))
}
