//! One seed's simulation of a volume on a ring: members that mirror each other, several log devices, and everything that
//! may befall them while power and process are cut.
//!
//! 1. Within the redundancy ([`account`]: at every moment one member and one log device that have everything) nothing
//!    acknowledged is lost, nothing wrong is served, commits are whole, no client sees an error, and no device that is
//!    well is left out.
//!    Where the log is on the members, a member that is lost together with a cut may have held what no other has: then the
//!    volume may refuse to open. If it opens, nothing is lost, whoever is missing.
//! 2. Beyond it ([`beyond`]) the volume refuses, stops, or serves right bytes.
//! 3. While nothing is wrong with any device, no read waits behind writes where turns are kept ([`watch`]).

mod account;
pub mod beyond;
mod growing;
mod life;
mod mishaps;
mod setup;
mod watch;

use crate::cuts::{CutKind, CutPlan};
use crate::oracle::Violation;
use crate::scenario;
use crate::tally::tally;
use life::{End, Fate, Machine, Work};
use mishaps::Mishap;
pub use setup::Setup;
pub(crate) use setup::draw_ring;

tally! {
    "What befell members and log devices, and what came of it.",

    /// Devices that died.
    died = "devices died",
    /// Devices that fell silent.
    fell_silent = "fell silent",
    /// Devices of which a write or a flush failed, or that were full.
    failed = "failed a write or a flush",
    /// Devices that were left out by whoever provides them.
    left_out = "left out from outside",
    /// Devices that lied about durability.
    lied = "lied about durability",
    /// Devices that lost a write.
    lost_writes = "lost a write",
    /// Devices that misdirected one.
    misdirected_writes = "misdirected a write",
    /// Devices of which something rotted.
    rotten = "rotted",
    /// Devices of which a sector could not be read.
    unreadable = "had an unreadable sector",
    /// Devices that were what they had been before.
    rolled_back = "were what they had been",
    /// Devices that were replaced.
    replaced = "replaced",
    /// Members that were rebuilt.
    rebuilt = "rebuilt",
    /// Devices to which a killed process still had writes on their way.
    late = "had writes of a killed process on their way",
    /// Scrubs to their end.
    scrubs = "scrubs",
    /// Set-ups with the log on the members.
    logs_on_members = "logs on members",
    /// Lives in which such a volume refused to open, for want of a member that may alone have held records.
    refused_in_parts = "refusals for want of a part of the log",
    /// Lives in which it opened without a member.
    opened_in_parts = "openings without a part of it",
    /// Discards that failed on members that are well.
    refused_discards = "discards that failed on members that are well",
    /// Copies that they found wrong.
    scrubbed_wrong = "wrong copies found by them",
    /// Lives after which every device had everything.
    healed = "times all healed",
    /// Reads of members that were watched.
    watched_reads = "reads watched",
    /// Starts between two lives without those that had everything, which were refused.
    false_starts = "starts refused between lives",
    /// Volumes beyond their redundancy that refused to open.
    refusals = "volumes refused beyond the redundancy",
    /// Those that opened, and served right bytes.
    served = "served right bytes beyond it",
    /// Those that stopped while they were used.
    stopped = "stopped beyond it",
}

impl Tally {
    fn count(&mut self, mishap: Mishap) {
        *match mishap {
            Mishap::Dies => &mut self.died,
            Mishap::FallsSilent => &mut self.fell_silent,
            Mishap::FailsWrite | Mishap::IsFull | Mishap::FailsFlush => &mut self.failed,
            Mishap::IsLeftOut => &mut self.left_out,
            Mishap::Lies => &mut self.lied,
            Mishap::LosesWrite => &mut self.lost_writes,
            Mishap::MisdirectsWrite => &mut self.misdirected_writes,
            Mishap::Rots => &mut self.rotten,
            Mishap::CannotRead => &mut self.unreadable,
        } += 1;
    }
}

/// What a simulation did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What its lives did.
    pub lives: scenario::Outcome,
    /// What befell the devices.
    pub tally: Tally,
}

impl Outcome {
    /// Adds what another simulation did.
    pub fn add(&mut self, other: &Self) {
        self.lives.add(&other.lives);
        self.tally.add(&other.tally);
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

/// As [`run`], and tells what happened, a line for each life and each thing that befell a device.
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

/// How often somebody tries to start the volume without those that have everything.
const FALSE_STARTS: f64 = 0.06;

fn live_all(machine: &mut Machine) -> Result<(), Violation> {
    let setup = machine.setup;
    for life in 0..=setup.cuts {
        let kind = if machine.random.chance(0.7) { CutKind::PowerCut } else { CutKind::Kill };
        let is_last = life == setup.cuts;
        // Some cuts strike while the volume recovers from the one before.
        let at_event = (!is_last).then(|| match machine.random.chance(0.3) {
            true => machine.random.below(100),
            false => machine.random.below(machine.life_events),
        });
        if life > 0 && machine.random.chance(FALSE_STARTS) && !machine.false_start()? {
            return Ok(()); // it was served, and what it served was right: nobody else has everything any more
        }
        machine.roll_back();
        let heals = machine.random.chance(if is_last { 0.5 } else { 0.1 });
        let (work, fates) = match heals {
            true => (Work::Heal, machine.all(Fate::Well)),
            false => (Work::Clients, machine.fates()),
        };
        let last_cut = machine.last_cut;
        let end = machine
            .live(CutPlan { at_event, kind }, work, &fates)
            .map_err(|violation| violation.within(&format!("life {life}, after {last_cut:?}")))?;
        machine.settle(match end {
            End::Done => CutKind::PowerCut, // the machine is switched off
            End::Cut(kind) => kind,
            End::Refused => CutKind::PowerCut,
        });
    }
    machine.outcome.lives.unwrapped = u64::from(machine.outcome.lives.log_wraps == 0);
    machine.note(|| format!("beyond: {:?}", setup.beyond));
    machine.go_beyond().map_err(|violation| violation.within(&format!("{:?}", setup.beyond)))
}
