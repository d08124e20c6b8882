//! What the heads of a ring say of the log on its members, and which of it is in force.
//!
//! ```text
//!   empty on {0,1,2} ──► needed {0,1} ──► needed {0,1,2} ──► needed {0,2} ──► empty on {0,2} ──►
//!                   first named      one joins          one is passed     closed
//! ```
//!
//! 1. Behind an empty log the first are named on one member after the other. That is in force, and the first record is
//!    written, only once enough of those have it that hold the empty log: any two who are enough have a member in
//!    common, so of two namings that know nothing of each other one never is.
//! 2. Everything else is decided with all there that are needed: it is in force as soon as anyone says it, and nobody
//!    who is enough to go on misses it.
//! 3. A naming that a cut ended before it was in force is passed over, since nothing was written under it. One of which
//!    that cannot be told without those that are not there keeps the volume shut until they are.
//! 4. What is in force counts up from one empty log to the next. Versions need not: those of namings that are passed
//!    over may be higher.

use crate::format::ring_head::LogPlaces;
use crate::planted::{Bug, is_planted};

/// Why nobody can say which is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unclear {
    /// Nobody says anything.
    Silence,
    /// These may know of records that others do not, a bit each.
    Missing(u64),
    /// Two say what excludes each other.
    Split,
}

/// Whether these, a bit each, of the members that hold an empty log are enough to go on: no others could be, too.
pub(super) fn is_enough(there: u64, empty_on: u64) -> bool {
    let (held_by, found) = (empty_on.count_ones(), (there & empty_on).count_ones());
    let has_first = there & empty_on & empty_on.wrapping_neg() != 0;
    2 * found > held_by || (2 * found == held_by && has_first) || is_planted(Bug::RingLogOpensWithout)
}

/// Which is in force of what members say, each at its place; `None` is one that is not there, or no part of the log.
pub(super) fn in_force(said: &[Option<LogPlaces>]) -> Result<LogPlaces, Unclear> {
    // Whoever heard of an empty log knows that all before it is over.
    let emptied = said.iter().flatten().map(|said| said.emptied).max().ok_or(Unclear::Silence)?;
    let current = || said.iter().flatten().filter(move |said| said.emptied == emptied);
    let newest = current().filter(|said| !is_first(said)).max_by_key(|said| said.version);
    if let Some(newest) = newest {
        if current().any(|said| !is_first(said) && said.version == newest.version && said != newest) {
            return Err(Unclear::Split);
        }
        if newest.needed != 0 {
            return Ok(*newest);
        }
    }
    let sayers = |is_meant: &dyn Fn(&LogPlaces) -> bool| -> u64 {
        let meant = said.iter().enumerate().filter(|(_, said)| said.as_ref().is_some_and(is_meant));
        meant.map(|(place, _)| 1u64 << place).sum()
    };
    let absent = !sayers(&|_| true);
    for first in current().filter(|said| is_first(said)) {
        let told = sayers(&|said| said == first);
        if is_enough(told, first.empty_on) {
            return Ok(*first);
        }
        if is_enough(told | absent & first.needed, first.empty_on) {
            return Err(Unclear::Missing(absent & first.needed));
        }
    }
    let empty = newest.or(current().next()).ok_or(Unclear::Silence)?;
    Ok(LogPlaces { needed: 0, ..*empty })
}

/// Whether these are the first that are named behind an empty log.
fn is_first(places: &LogPlaces) -> bool {
    places.needed != 0 && places.empty_on != 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One start, with what a cut leaves of it.
    #[derive(Debug, Clone)]
    struct Start {
        /// Who is there, a bit each.
        there: u64,
        /// Heads that are written before the cut.
        heads: usize,
        /// Whether those that are there and lack something are rebuilt.
        rebuilds: bool,
        /// Whether it ends in order, if no cut comes before.
        closes: bool,
    }

    /// The members of a ring, and what must be.
    struct Ring {
        heads: Vec<LogPlaces>,
        /// Without whom acknowledged records may be missing; nobody where all are home.
        needed: u64,
        /// Who has everything that was acknowledged.
        holders: u64,
        heads_left: usize,
        version: u64,
    }

    #[derive(Debug)]
    struct Cut;

    impl Ring {
        fn new(members: usize) -> Self {
            let all = (1 << members) - 1;
            let empty = LogPlaces { empty_on: all, ..LogPlaces::default() };
            Self { heads: vec![empty; members], needed: 0, holders: all, heads_left: 0, version: 0 }
        }

        fn members(&self, places: u64) -> Vec<usize> {
            (0..self.heads.len()).filter(|&place| places >> place & 1 == 1).collect()
        }

        fn tell(&mut self, place: usize, places: LogPlaces) -> Result<(), Cut> {
            self.heads_left = self.heads_left.checked_sub(1).ok_or(Cut)?;
            self.heads[place] = places;
            Ok(())
        }

        fn next(&mut self, before: LogPlaces, needed: u64, empty_on: u64) -> LogPlaces {
            self.version += 1;
            let emptied = before.emptied + u64::from(needed == 0);
            LogPlaces { version: self.version, needed, empty_on, emptied }
        }

        /// Whether it opens; what is then written ends with a cut, or in order.
        fn starts(&mut self, start: &Start) -> bool {
            let is_there = |place: usize| start.there >> place & 1 == 1;
            let said: Vec<Option<LogPlaces>> =
                self.heads.iter().enumerate().map(|(place, head)| is_there(place).then_some(*head)).collect();
            let Ok(places) = in_force(&said) else { return false };
            let holds = if places.needed == 0 { places.empty_on } else { places.needed };
            let is_refused = match places.needed {
                0 => !is_enough(start.there, places.empty_on),
                needed => needed & !start.there != 0,
            };
            if is_refused {
                return false;
            }
            let counting = holds & start.there;
            assert_eq!(counting & !self.holders, 0, "{places:?} counts one that lacks writes");
            assert_eq!(self.needed & !counting, 0, "{places:?} does without records");
            self.heads_left = start.heads;
            self.version = said.iter().flatten().map(|said| said.version).max().unwrap_or(0);
            let _cut = self.goes_on(places, counting, start);
            true
        }

        fn goes_on(&mut self, mut places: LogPlaces, mut in_sync: u64, start: &Start) -> Result<(), Cut> {
            if places.needed == 0 {
                places = self.next(places, in_sync, places.empty_on);
                for place in self.members(in_sync) {
                    self.tell(place, places)?;
                }
            }
            // Records come.
            (self.needed, self.holders) = (in_sync, in_sync);
            for place in self.members(start.there & !in_sync).into_iter().filter(|_| start.rebuilds) {
                self.holders |= 1 << place;
                self.tell(place, places)?;
                places = self.next(places, places.needed | 1 << place, 0);
                for other in self.members(in_sync) {
                    self.tell(other, places)?;
                }
                in_sync |= 1 << place;
                self.tell(place, places)?;
                self.needed = in_sync;
            }
            if start.closes {
                self.needed = 0;
                places = self.next(places, 0, in_sync);
                for place in self.members(in_sync) {
                    self.tell(place, places)?;
                }
            }
            Ok(())
        }
    }

    fn any_start() -> impl Strategy<Value = Start> {
        (any::<u64>(), 0..24_usize, any::<bool>(), any::<bool>())
            .prop_map(|(there, heads, rebuilds, closes)| Start { there, heads, rebuilds, closes })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn whoever_is_there_opens_with_everything_or_not_at_all_and_all_together_always_open(
            members in 1..6_usize,
            starts in proptest::collection::vec(any_start(), 0..12),
        ) {
            let mut ring = Ring::new(members);
            for start in &starts {
                ring.starts(start);
                let all = Start { there: u64::MAX, heads: 0, rebuilds: false, closes: false };
                let (heads, needed, holders) = (ring.heads.clone(), ring.needed, ring.holders);
                prop_assert!(ring.starts(&all), "{heads:?} keep it shut");
                ring = Ring { heads, needed, holders, heads_left: 0, version: 0 };
            }
        }
    }
}
