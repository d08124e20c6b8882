//! Every crash of a small workload: each moment between two events of its drives, times each outcome of a cut
//! there.
//!
//! 1. Each state is made from a copy of the drives at that moment, so the run before it happens once. Which
//!    outcomes are tried says [`mod@states`].
//! 2. Recovery follows from what is durable alone: of states that leave the same bytes, one is recovered. Each is
//!    judged by what was promised at its moment.
//! 3. Of every 101 states, the recovery of one is cut at each of its own moments too, unless its bytes were recovered
//!    before; each moment in a few outcomes drawn from those of 1. Once a recovery has served all bytes, they must be
//!    there again.
//! 4. Of a ring, each state is tried with each choice of drives that may remain: as many members as are needed and one log
//!    device that have everything, and any of the others; or, of one kind, only such as lack something: then it may refuse. Cuts within
//!    recoveries too, so that who was gone comes back, and who was there is lost. A recovery that is cut goes on until every
//!    member counts again, and all copies are looked at.
//! 5. A seed and the number of a state name that state: [`run`] can be asked for it alone. A panic breaks a promise of
//!    the state in which it is.

mod choices;
mod event;
mod runs;
mod search;
mod small;
pub mod states;

use std::panic::AssertUnwindSafe;

use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::format::stripes::Stripes;
use evenkeel_engine::ring::RingOptions;

use crate::caught::caught;
use crate::oracle::Violation;
use crate::random::Random;
use crate::seeds::draw_ring;
use crate::testbed::{Mirror, Single, Testbed};
use event::Event;
use runs::Runs;
use search::Search;
use small::Small;

/// Operations of a workload, of all its clients together.
const OPERATIONS: u64 = 24;

/// Those of a workload on a ring, of which each asks for more events.
const RING_OPERATIONS: u64 = 12;

/// Log devices of a ring, where there are any.
const LOGS: usize = 2;

/// What the volumes of the workloads lie on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// A drive, and perhaps another for the log.
    Single,
    /// So many members, and two log devices, or the log on the members.
    Mirror {
        /// Members of the ring.
        members: usize,
    },
    /// Stripes of so many shards, one on each member, and two log devices.
    Striped {
        /// Data shards of a stripe.
        data: usize,
        /// Parity shards.
        parity: usize,
    },
}

/// What was tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tried {
    /// Workloads tried to their end.
    pub workloads: u64,
    /// Moments between two events of the drives at which the power was cut.
    pub moments: u64,
    /// Of these, with too many sectors pending to try every outcome.
    pub sampled_moments: u64,
    /// Crash states judged: moments times outcomes, times choices of drives that remain.
    pub states: u64,
    /// Of these, with a sector torn.
    pub torn_states: u64,
    /// Of these, with a drive lost.
    pub states_without: u64,
    /// States whose recovery was cut too.
    pub recoveries_cut: u64,
    /// Crash states judged that these cuts left, beside `states`.
    pub recovery_states: u64,
    /// States, of either, in which the volume refused to open, as it may.
    pub refusals: u64,
    /// Drives recovered from, each of another content.
    pub recoveries: u64,
}

impl Tried {
    /// Adds what was tried elsewhere.
    pub fn add(&mut self, other: &Self) {
        self.workloads += other.workloads;
        self.moments += other.moments;
        self.sampled_moments += other.sampled_moments;
        self.states += other.states;
        self.torn_states += other.torn_states;
        self.states_without += other.states_without;
        self.recoveries_cut += other.recoveries_cut;
        self.recovery_states += other.recovery_states;
        self.refusals += other.refusals;
        self.recoveries += other.recoveries;
    }
}

/// A state that breaks a promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Its number; `None` where the run broke it before any cut.
    pub state: Option<u64>,
    /// How.
    pub violation: Violation,
}

/// Tries every crash of the workload that `seed` stands for, or `only_state` alone, with every cut within its
/// recovery. `goes_on` is asked after each moment, with what was tried so far.
///
/// # Errors
///
/// The first state that breaks a promise.
pub fn run(
    layout: Layout,
    seed: u64,
    only_state: Option<u64>,
    goes_on: &mut dyn FnMut(&Tried) -> bool,
) -> Result<Tried, Broken> {
    match layout {
        Layout::Single => try_all(on_a_single_drive(seed), only_state, goes_on),
        Layout::Mirror { members } => try_all(on_a_ring(seed, members, None), only_state, goes_on),
        Layout::Striped { data, parity } => {
            let stripes = Stripes::new(data, parity, PAGE_BYTES);
            try_all(on_a_ring(seed, data + parity, stripes), only_state, goes_on)
        }
    }
}

fn on_a_single_drive(seed: u64) -> Runs<Single> {
    let testbed = Single { separate_log: seed.is_multiple_of(2) };
    Runs::new(Small::draw(seed, OPERATIONS), testbed, Event::nothing(&testbed))
}

/// About one in four rings without stripes holds its log on its members.
fn on_a_ring(seed: u64, members: usize, stripes: Option<Stripes>) -> Runs<Mirror> {
    let mut small = Small::draw(seed, RING_OPERATIONS).together();
    let mut random = Random::new(seed ^ 0x4147);
    let has_log_on_members = random.chance(0.25);
    let ring = RingOptions { stripes, ..draw_ring(&mut random) };
    let mirror = Mirror { members, logs: LOGS, ring, journal_bytes: 0 }.with_journal_of(&small.create);
    let testbed = if has_log_on_members && stripes.is_none() {
        mirror.with_log_on_members(&small.create)
    } else {
        mirror
    };
    let event = Event::draw(&testbed, &mut random);
    small.begins_crashed &= event.may_begin_crashed(&testbed);
    Runs::new(small, testbed, event)
}

fn try_all<T: Testbed>(
    runs: Runs<T>,
    only_state: Option<u64>,
    goes_on: &mut dyn FnMut(&Tried) -> bool,
) -> Result<Tried, Broken> {
    let seed = runs.small.seed;
    let moments = caught(AssertUnwindSafe(|| runs.moments(&runs.begin()?)));
    let moments = moments.map_err(|violation| Broken { state: None, violation })?;
    let mut search = Search::new(runs, only_state);
    for (moment, world) in moments.iter().enumerate() {
        let mut random = Random::new(seed ^ (moment as u64) << 20);
        search.try_moment(moment, world, &mut random)?;
        if !goes_on(&search.tried) {
            return Ok(search.tried);
        }
    }
    search.tried.workloads = 1;
    Ok(search.tried)
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::oracle::Oracle;

    #[test]
    fn a_panic_is_told_with_the_state_that_shows_it_alone() {
        let drawn = || on_a_single_drive(4);
        let runs = drawn();
        let mut moments = runs.moments(&runs.begin().unwrap()).unwrap();
        // Nothing can be judged by what a volume of no bytes may hold.
        moments[30].oracle = Rc::new(Oracle::new(0));
        let first_broken = |only_state| {
            let mut search = Search::new(drawn(), only_state);
            let try_moment =
                |(moment, world)| search.try_moment(moment, world, &mut Random::new(moment as u64));
            moments.iter().enumerate().map(try_moment).find_map(Result::err)
        };
        let broken = first_broken(None).unwrap();
        assert!(broken.violation.what.starts_with("cut at moment 30, "), "{broken:?}");
        assert!(broken.violation.what.contains(": panic: "), "{broken:?}");
        assert!(broken.state.is_some_and(|state| state >= 30), "{broken:?}");
        assert_eq!(first_broken(broken.state), Some(broken));
    }
}
