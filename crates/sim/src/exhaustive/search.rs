//! The search: each moment of a run, each choice of drives that remain, each outcome of the cut, recovered and judged.

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::rc::Rc;

use super::choices::choices;
use super::runs::{Recovered, Runs, World};
use super::{Broken, Tried, states};
use crate::caught::caught;
use crate::ground_truth::Drives;
use crate::image::{Fate, Image};
use crate::oracle::{Floor, Violation};
use crate::random::Random;
use crate::testbed::Testbed;
use crate::trace;

/// Of so many states, the recovery of one is cut too, unless its bytes were recovered before.
const RECOVERIES_CUT: u64 = 101;

/// Outcomes tried of a cut within a recovery.
const RECOVERY_OUTCOMES_MAX: usize = 8;

/// What a recovery served, by the number of its bytes, or why the volume refused to open.
type Found = Result<(u64, Rc<[u8]>), String>;

/// A cut: which drives are there afterwards, and what became of each sector that was pending on these.
struct Crash {
    there: Vec<bool>,
    fates: Vec<Fate>,
}

/// Drives that may be cut, with what follows from them alone.
struct Cut<'a> {
    drives: &'a Drives,
    /// Of each sector pending on each, whether it matters what becomes of it.
    pending: Vec<Vec<bool>>,
    /// What is durable on each.
    digests: Vec<u64>,
}

/// The search through the crashes of one workload.
pub(super) struct Search<T: Testbed> {
    runs: Runs<T>,
    only_state: Option<u64>,
    /// What was served, by the digest of the drives.
    founds: HashMap<u64, Found>,
    /// What was judged: state of the oracle, and what was served.
    judged: HashSet<(u64, u64)>,
    next_state: u64,
    pub(super) tried: Tried,
}

impl<T: Testbed> Search<T> {
    pub(super) fn new(runs: Runs<T>, only_state: Option<u64>) -> Self {
        Self {
            runs,
            only_state,
            founds: HashMap::new(),
            judged: HashSet::new(),
            next_state: 0,
            tried: Tried::default(),
        }
    }

    /// Tries the outcomes of a cut at one moment.
    pub(super) fn try_moment(
        &mut self,
        moment: usize,
        world: &World,
        random: &mut Random,
    ) -> Result<(), Broken> {
        self.tried.moments += 1;
        let cut = Cut::of::<T>(&world.drives, self.may_tear());
        let mut is_sampled = false;
        for there in choices(&self.runs.testbed, &world.drives.have_all) {
            let groups = cut.groups::<T>(&there);
            is_sampled |= !states::are_all_tried(&groups, self.may_tear());
            for fates in states::outcomes(&groups, self.may_tear(), random) {
                let state = self.next_state;
                self.next_state += 1;
                if self.only_state.is_some_and(|only| only != state) {
                    continue;
                }
                let crash = Crash { there: there.clone(), fates };
                let judged = caught(AssertUnwindSafe(|| self.try_state(world, &cut, &crash)));
                judged.map_err(|violation| {
                    let cut = cut.in_words(&self.runs.testbed, &crash);
                    let what = format!("cut at moment {moment}, {cut}: {}", violation.what);
                    Broken { state: Some(state), violation: Violation { what } }
                })?;
                self.tried.states += 1;
                let is_torn = crash.fates.iter().any(|fate| matches!(fate, Fate::Torn(_)));
                self.tried.torn_states += u64::from(is_torn);
                self.tried.states_without += u64::from(crash.there.contains(&false));
            }
        }
        self.tried.sampled_moments += u64::from(is_sampled);
        Ok(())
    }

    fn may_tear(&self) -> bool {
        !self.runs.small.atomic_sectors
    }

    fn try_state(&mut self, world: &World, cut: &Cut<'_>, crash: &Crash) -> Result<(), Violation> {
        let (drives, digest) = cut.struck(crash);
        if let Some(found) = self.founds.get(&digest) {
            let found = found.clone();
            return self.judge(world, &drives, crash, &found);
        }
        let is_cut_too = self.only_state.is_some() || self.next_state.is_multiple_of(RECOVERIES_CUT);
        let (found, moments) = self.recover(drives.clone(), crash, digest, is_cut_too)?;
        self.judge(world, &drives, crash, &found)?;
        self.try_recovery(world, &found, &moments, &mut Random::new(digest))
    }

    fn recover(
        &mut self,
        drives: Drives,
        crash: &Crash,
        digest: u64,
        watch: bool,
    ) -> Result<(Found, Vec<(Drives, bool)>), Violation> {
        self.tried.recoveries += 1;
        let Recovered { found, moments } = self.runs.recover(drives, &crash.there, watch)?;
        let found: Found = found.map(|found| (trace::digest(&found), found.into()));
        self.founds.insert(digest, found.clone());
        Ok((found, moments))
    }

    fn judge(
        &mut self,
        world: &World,
        drives: &Drives,
        crash: &Crash,
        found: &Found,
    ) -> Result<(), Violation> {
        let (number, found) = match found {
            Ok(found) => found,
            Err(why) => {
                self.tried.refusals += 1;
                return match self.runs.may_refuse(drives, &crash.there) {
                    true => Ok(()),
                    false => Err(Violation::of(format!(
                        "it refuses to open though all that it needs is there: {why}"
                    ))),
                };
            }
        };
        if self.judged.insert((world.oracle.changes(), *number)) {
            world.oracle.judge(found, Floor::Durable)?;
        }
        Ok(())
    }

    /// Cuts a recovery at each of its moments. At those at which it has served all bytes, these were `served`.
    fn try_recovery(
        &mut self,
        world: &World,
        served: &Found,
        moments: &[(Drives, bool)],
        random: &mut Random,
    ) -> Result<(), Violation> {
        self.tried.recoveries_cut += u64::from(!moments.is_empty());
        for (moment, (drives, has_served)) in moments.iter().enumerate() {
            let cut = Cut::of::<T>(drives, self.may_tear());
            let mut crashes = Vec::new();
            for there in choices(&self.runs.testbed, &drives.have_all) {
                let outcomes = states::outcomes(&cut.groups::<T>(&there), self.may_tear(), random);
                crashes.extend(outcomes.into_iter().map(|fates| Crash { there: there.clone(), fates }));
            }
            random.shuffle(&mut crashes);
            crashes.truncate(RECOVERY_OUTCOMES_MAX);
            for crash in crashes {
                let (drives, digest) = cut.struck(&crash);
                let again = match self.founds.get(&digest) {
                    Some(found) => Ok(found.clone()),
                    None => self.recover(drives.clone(), &crash, digest, false).map(|(found, _)| found),
                };
                let judged = again.and_then(|again| {
                    self.judge(world, &drives, &crash, &again)?;
                    match (&again, served) {
                        (Ok((again, _)), Ok((served, _))) if *has_served && again != served => {
                            Err(Violation::of("what the recovery had served is taken back"))
                        }
                        _ => Ok(()),
                    }
                });
                judged.map_err(|violation| {
                    let cut = cut.in_words(&self.runs.testbed, &crash);
                    violation.within(&format!("recovery cut at its moment {moment}, {cut}"))
                })?;
                self.tried.recovery_states += 1;
            }
        }
        Ok(())
    }
}

impl<'a> Cut<'a> {
    fn of<T: Testbed>(drives: &'a Drives, may_tear: bool) -> Self {
        // A ring has so many sectors pending that those are left out which are written as they are.
        let pending = |image: &Image| match T::IS_REDUNDANT && !may_tear {
            true => image.pending_changes(),
            false => vec![true; image.pending_len()],
        };
        let pending = drives.images.iter().map(pending).collect();
        let digests = drives.images.iter().map(|image| image.durable_digest()).collect();
        Self { drives, pending, digests }
    }

    /// Sectors whose fates are tried with those of others: on each drive that is there, or, where none can be lost, on all.
    fn groups<T: Testbed>(&self, there: &[bool]) -> Vec<usize> {
        let there = there.iter().zip(&self.pending).filter(|(is_there, _)| **is_there);
        let counts = there.map(|(_, pending)| pending.iter().filter(|matters| **matters).count());
        if T::IS_REDUNDANT { counts.collect() } else { vec![counts.sum()] }
    }

    /// The fates of each drive's sectors. Of one that is not there nothing more landed.
    fn fates(&self, crash: &Crash) -> Vec<Vec<Fate>> {
        let mut rest = crash.fates.iter();
        let mut fate =
            |matters: &bool| if *matters { rest.next().copied() } else { None }.unwrap_or(Fate::Lost);
        let of_drive = |(is_there, pending): (&bool, &Vec<bool>)| match is_there {
            true => pending.iter().map(&mut fate).collect(),
            false => Vec::new(),
        };
        crash.there.iter().zip(&self.pending).map(of_drive).collect()
    }

    /// The drives after the cut, and the digest of those that are there.
    fn struck(&self, crash: &Crash) -> (Drives, u64) {
        let mut drives = self.drives.clone();
        // Two crashes of the same drives differ where not the same are there.
        let lost = crash.there.iter().rev().fold(0, |lost, there| lost << 1 | u64::from(!there));
        let mut digest = if lost == 0 { 0 } else { trace::fold(lost, lost) };
        for (place, (image, fates)) in drives.images.iter_mut().zip(self.fates(crash)).enumerate() {
            let changed = image.power_cut_fates(&fates);
            if crash.there[place] {
                digest ^= (self.digests[place] ^ changed).rotate_left(23 * place as u32);
            }
        }
        (drives, digest)
    }

    /// Fates as a row for each drive: lost `-`, landed `+`, torn `~`.
    fn in_words<T: Testbed>(&self, testbed: &T, crash: &Crash) -> String {
        let sign = |fate: &Fate| match fate {
            Fate::Lost => '-',
            Fate::Landed => '+',
            Fate::Torn(_) => '~',
        };
        let row = |(place, fates): (usize, Vec<Fate>)| match crash.there[place] {
            true => format!("{} [{}]", testbed.name(place), fates.iter().map(sign).collect::<String>()),
            false => format!("{} gone", testbed.name(place)),
        };
        let rows: Vec<String> = self.fates(crash).into_iter().enumerate().map(row).collect();
        format!("sectors of {}", rows.join(" and "))
    }
}
