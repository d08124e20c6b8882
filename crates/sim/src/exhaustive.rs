//! Every crash of a small workload: each moment between two events of its drives, times each outcome of a cut
//! there.
//!
//! 1. Each state is made from a copy of the drives at that moment, so the life before it is lived once. Which
//!    outcomes are tried says [`mod@states`].
//! 2. Recovery follows from what is durable alone: of states that leave the same bytes, one is recovered. Each is
//!    judged by what was promised at its moment.
//! 3. Of every 101 states, the recovery of one is cut at each of its own moments too, unless its bytes were recovered
//!    before; each moment in a few outcomes drawn from those of 1. At the end of a recovery, what it served must be there
//!    again.
//! 4. A seed and the number of a state name that state: [`run`] can be asked for it alone. A panic breaks a promise of
//!    the state in which it is.

mod small;
pub mod states;

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::rc::Rc;

use crate::caught::caught;
use crate::image::{Fate, Image};
use crate::oracle::{Floor, Violation};
use crate::random::Random;
use crate::trace;
use small::{Recovered, Small, World};

/// Of so many states, the recovery of one is cut too, unless its bytes were recovered before.
const RECOVERIES_CUT: u64 = 101;

/// Operations of a workload, of all its clients together.
const OPERATIONS: u64 = 24;

/// Outcomes tried of a cut within a recovery.
const RECOVERY_OUTCOMES_MAX: usize = 8;

/// What was tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tried {
    /// Workloads tried to their end.
    pub workloads: u64,
    /// Moments between two events of the drives at which the power was cut.
    pub moments: u64,
    /// Of these, with too many sectors pending to try every outcome.
    pub sampled_moments: u64,
    /// Crash states judged: moments times outcomes.
    pub states: u64,
    /// Of these, with a sector torn.
    pub torn_states: u64,
    /// States whose recovery was cut too.
    pub recoveries_cut: u64,
    /// Crash states judged that these cuts left, beside `states`.
    pub recovery_states: u64,
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
        self.recoveries_cut += other.recoveries_cut;
        self.recovery_states += other.recovery_states;
        self.recoveries += other.recoveries;
    }
}

/// A state that breaks a promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Its number; `None` where the life broke it before any cut.
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
    seed: u64,
    only_state: Option<u64>,
    mut goes_on: impl FnMut(&Tried) -> bool,
) -> Result<Tried, Broken> {
    let small = Small::draw(seed, OPERATIONS);
    let lived = caught(|| small.moments(&small.begin()?));
    let moments = lived.map_err(|violation| Broken { state: None, violation })?;
    let mut search = Search::new(small, only_state);
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

/// What a recovery served, by the number of its bytes.
type Found = (u64, Rc<[u8]>);

struct Search {
    small: Small,
    only_state: Option<u64>,
    /// What was served, by the digest of the drives.
    founds: HashMap<u64, Found>,
    /// What was judged: state of the oracle, and what was served.
    judged: HashSet<(u64, u64)>,
    next_state: u64,
    tried: Tried,
}

impl Search {
    fn new(small: Small, only_state: Option<u64>) -> Self {
        Self {
            small,
            only_state,
            founds: HashMap::new(),
            judged: HashSet::new(),
            next_state: 0,
            tried: Tried::default(),
        }
    }

    /// Tries the outcomes of a cut at one moment.
    fn try_moment(&mut self, moment: usize, world: &World, random: &mut Random) -> Result<(), Broken> {
        self.tried.moments += 1;
        let at_home = world.home.pending_len();
        let pending = at_home + world.log.pending_len();
        let may_tear = !self.small.atomic_sectors;
        self.tried.sampled_moments += u64::from(!states::are_all_tried(pending, may_tear));
        let digest = drives_digest(world.home.durable_digest(), world.log.durable_digest());
        for fates in states::outcomes(pending, may_tear, random) {
            let state = self.next_state;
            self.next_state += 1;
            if self.only_state.is_some_and(|only| only != state) {
                continue;
            }
            let is_torn = fates.iter().any(|fate| matches!(fate, Fate::Torn(_)));
            let judged = caught(AssertUnwindSafe(|| self.try_state(world, digest, &fates, at_home)));
            judged.map_err(|violation| {
                let what =
                    format!("cut at moment {moment}, {}: {}", in_words(&fates, at_home), violation.what);
                Broken { state: Some(state), violation: Violation { what } }
            })?;
            self.tried.states += 1;
            self.tried.torn_states += u64::from(is_torn);
        }
        Ok(())
    }

    fn try_state(
        &mut self,
        world: &World,
        digest: u64,
        fates: &[Fate],
        at_home: usize,
    ) -> Result<(), Violation> {
        let (home, log, digest) = struck(&world.home, &world.log, digest, fates, at_home);
        if let Some(found) = self.founds.get(&digest) {
            let found = found.clone();
            return self.judge(world, &found);
        }
        let is_cut_too = self.only_state.is_some() || self.next_state.is_multiple_of(RECOVERIES_CUT);
        let (found, moments) = self.recover(home, log, digest, is_cut_too)?;
        self.judge(world, &found)?;
        self.try_recovery(world, &found, &moments, &mut Random::new(digest))
    }

    fn recover(
        &mut self,
        home: Image,
        log: Image,
        digest: u64,
        watch: bool,
    ) -> Result<(Found, Vec<(Image, Image)>), Violation> {
        self.tried.recoveries += 1;
        let Recovered { found, moments } = self.small.recover(home, log, watch)?;
        let found: Found = (trace::digest(&found), found.into());
        self.founds.insert(digest, found.clone());
        Ok((found, moments))
    }

    fn judge(&mut self, world: &World, found: &Found) -> Result<(), Violation> {
        if self.judged.insert((world.oracle.changes(), found.0)) {
            world.oracle.judge(&found.1, Floor::Durable)?;
        }
        Ok(())
    }

    /// Cuts a recovery at each of its moments. At the last one it has served `served`.
    fn try_recovery(
        &mut self,
        world: &World,
        served: &Found,
        moments: &[(Image, Image)],
        random: &mut Random,
    ) -> Result<(), Violation> {
        self.tried.recoveries_cut += u64::from(!moments.is_empty());
        for (moment, (home, log)) in moments.iter().enumerate() {
            let at_home = home.pending_len();
            let mut outcomes =
                states::outcomes(at_home + log.pending_len(), !self.small.atomic_sectors, random);
            random.shuffle(&mut outcomes);
            outcomes.truncate(RECOVERY_OUTCOMES_MAX);
            let digest = drives_digest(home.durable_digest(), log.durable_digest());
            for fates in outcomes {
                let (home, log, digest) = struck(home, log, digest, &fates, at_home);
                let again = match self.founds.get(&digest) {
                    Some(found) => Ok(found.clone()),
                    None => self.recover(home, log, digest, false).map(|(found, _)| found),
                };
                let is_over = moment + 1 == moments.len();
                let judged = again.and_then(|again| {
                    if is_over && again.0 != served.0 {
                        return Err(Violation {
                            what: "what the recovery had served is taken back".to_owned(),
                        });
                    }
                    self.judge(world, &again)
                });
                judged.map_err(|violation| {
                    let cut = in_words(&fates, at_home);
                    Violation {
                        what: format!("recovery cut at its moment {moment}, {cut}: {}", violation.what),
                    }
                })?;
                self.tried.recovery_states += 1;
            }
        }
        Ok(())
    }
}

/// Both drives after the cut, and their digest.
fn struck(home: &Image, log: &Image, digest: u64, fates: &[Fate], at_home: usize) -> (Image, Image, u64) {
    let (mut home, mut log) = (home.clone(), log.clone());
    let (of_home, of_log) = fates.split_at(at_home);
    let changed = drives_digest(home.power_cut_fates(of_home), log.power_cut_fates(of_log));
    (home, log, digest ^ changed)
}

/// Digests of both drives as one; commutes with exclusive or.
fn drives_digest(home: u64, log: u64) -> u64 {
    home ^ log.rotate_left(23)
}

/// Fates as a row: lost `-`, landed `+`, torn `~`; home, then log.
fn in_words(fates: &[Fate], at_home: usize) -> String {
    let sign = |fate: &Fate| match fate {
        Fate::Lost => '-',
        Fate::Landed => '+',
        Fate::Torn(_) => '~',
    };
    let (home, log) = fates.split_at(at_home);
    let row = |fates: &[Fate]| fates.iter().map(sign).collect::<String>();
    format!("sectors of home [{}] and log [{}]", row(home), row(log))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::Oracle;

    #[test]
    fn a_panic_is_told_with_the_state_that_shows_it_alone() {
        let drawn = || Small::draw(4, OPERATIONS);
        let small = drawn();
        let mut moments = small.moments(&small.begin().unwrap()).unwrap();
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
