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

use crate::format::ring_head::{DurableOpening, LogPlaces, RingHead};
use crate::planted::{Bug, is_planted};

/// Why nobody can say which is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undecided {
    /// Nobody says anything.
    Silence,
    /// These may know of records that others do not, a bit each.
    Missing(u64),
    /// These do not know of an opening that others know to have begun, a bit each: they are not what they were.
    Older(u64),
    /// Two say what excludes each other.
    Split,
}

/// Whether the member at `place` is among these, a bit each.
pub(crate) fn has(bits: u64, place: usize) -> bool {
    bits >> place & 1 == 1
}

/// Whether these, a bit each, of the members that hold an empty log are enough to go on: no others could be, too.
pub(crate) fn is_enough(there: u64, empty_on: u64) -> bool {
    let (held_by, found) = (empty_on.count_ones(), (there & empty_on).count_ones());
    let has_first = there & empty_on & empty_on.wrapping_neg() != 0;
    2 * found > held_by || (2 * found == held_by && has_first) || is_planted(Bug::RingLogOpensWithout)
}

/// What a member says, if it is a part of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Vote {
    pub(crate) places: LogPlaces,
    /// The opening in which it was told so.
    pub(crate) opening: u64,
    /// The newest that it knows to have begun.
    pub(crate) begun: DurableOpening,
}

/// Whose parts of the log count, as far as their heads tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogNeeds {
    /// Those whose regions hold records or the empty log, a bit each.
    pub(crate) counting: u64,
    /// Whether nobody is missing that may alone hold what was acknowledged.
    pub(crate) is_all_there: bool,
}

/// What the heads of members, each at its place, say of the log on them. Where it cannot be told who counts, all do.
pub(crate) fn log_needs(heads: &[Option<RingHead>]) -> LogNeeds {
    let vote = |head: &RingHead| Vote { places: head.log_places, opening: head.opening, begun: head.begun };
    let votes: Vec<Option<Vote>> =
        heads.iter().map(|head| head.as_ref().filter(|head| head.is_in_log).map(vote)).collect();
    let there =
        (0..votes.len()).filter(|&place| votes[place].is_some()).map(|place| 1u64 << place).sum::<u64>();
    match in_force(&votes) {
        Ok(LogPlaces { needed: 0, empty_on, .. }) => {
            let counting = empty_on & there;
            LogNeeds { counting, is_all_there: is_enough(counting, empty_on) }
        }
        Ok(LogPlaces { needed, .. }) => {
            LogNeeds { counting: needed & there, is_all_there: needed & !there == 0 }
        }
        Err(_) => LogNeeds { counting: there, is_all_there: false },
    }
}

/// Which is in force of what members say, each at its place; `None` is one that is not there, or no part of the log.
pub(crate) fn in_force(votes: &[Option<Vote>]) -> Result<LogPlaces, Undecided> {
    let places = newest(votes)?;
    let there = || votes.iter().enumerate().filter_map(|(place, vote)| Some((place, (*vote)?)));
    let begun = there().map(|(_, vote)| vote.begun).max().ok_or(Undecided::Silence)?;
    let is_older =
        |&(place, vote): &(usize, Vote)| has(places.needed, place) && vote.opening < begun.told[place];
    match there().filter(is_older).map(|(place, _)| 1u64 << place).sum() {
        0 => Ok(places),
        _ if is_planted(Bug::RingLogRolledBack) => Ok(places),
        older => Err(Undecided::Older(older)),
    }
}

fn newest(votes: &[Option<Vote>]) -> Result<LogPlaces, Undecided> {
    // Whoever heard of an empty log knows that all before it is over.
    let emptied = votes.iter().flatten().map(|vote| vote.places.emptied).max().ok_or(Undecided::Silence)?;
    let current = || votes.iter().flatten().map(|vote| vote.places).filter(move |it| it.emptied == emptied);
    let newest = current().filter(|places| !is_first(places)).max_by_key(|places| places.version);
    if let Some(newest) = newest {
        if current().any(|places| !is_first(&places) && places.version == newest.version && places != newest)
        {
            return Err(Undecided::Split);
        }
        if newest.needed != 0 {
            return Ok(newest);
        }
    }
    let voters = |is_meant: &dyn Fn(&Vote) -> bool| -> u64 {
        let meant = votes.iter().enumerate().filter(|(_, vote)| vote.as_ref().is_some_and(is_meant));
        meant.map(|(place, _)| 1u64 << place).sum()
    };
    let absent = !voters(&|_| true);
    let mut found = None;
    for first in current().filter(is_first) {
        let told = voters(&|vote| vote.places == first);
        let has_begun = voters(&|vote| vote.places == first && vote.begun.version >= first.version) != 0;
        if has_begun || is_enough(told, first.empty_on) {
            if found.is_some_and(|found| found != first) {
                return Err(Undecided::Split);
            }
            found = Some(first);
        } else if is_enough(told | absent & first.needed, first.empty_on) {
            return Err(Undecided::Missing(absent & first.needed));
        }
    }
    if let Some(found) = found {
        return Ok(found);
    }
    let empty = newest.or(current().next()).ok_or(Undecided::Silence)?;
    Ok(LogPlaces { needed: 0, ..empty })
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
        /// Who takes no head, of those, a bit each.
        fails: u64,
        /// Heads that are written before the cut.
        heads: usize,
        /// Whether those that are there and lack something are rebuilt.
        rebuilds: bool,
        /// Whether it ends in order, if no cut comes before.
        closes: bool,
        /// A member that is then what it was before some start, if any; the first counts.
        rolls_back: Option<(usize, usize)>,
    }

    /// What is on a member.
    #[derive(Debug, Clone, Copy)]
    struct Member {
        vote: Vote,
        /// The opening of the newest record that it has.
        record: u64,
    }

    /// The members of a ring, and what must be.
    #[derive(Debug, Clone)]
    struct Ring {
        members: Vec<Member>,
        /// The opening of the newest record that was acknowledged and is on this member alone; 0 where all is home.
        must_have: Vec<u64>,
        /// The opening of the newest record that was acknowledged.
        acknowledged: u64,
        heads_left: usize,
        version: u64,
        /// Whether some go on that cannot know of others who did.
        is_split: bool,
    }

    #[derive(Debug)]
    struct Cut;

    fn places_in(bits: u64, members: usize) -> Vec<usize> {
        (0..members).filter(|&place| has(bits, place)).collect()
    }

    impl Ring {
        fn new(members: usize) -> Self {
            let empty = LogPlaces { empty_on: (1 << members) - 1, ..LogPlaces::default() };
            let vote = Vote { places: empty, opening: 0, begun: DurableOpening::default() };
            Self {
                members: vec![Member { vote, record: 0 }; members],
                must_have: vec![0; members],
                acknowledged: 0,
                heads_left: 0,
                version: 0,
                is_split: false,
            }
        }

        fn tell(&mut self, place: usize, vote: Vote) -> Result<(), Cut> {
            self.heads_left = self.heads_left.checked_sub(1).ok_or(Cut)?;
            self.members[place].vote = vote;
            Ok(())
        }

        fn next(&mut self, before: LogPlaces, needed: u64, empty_on: u64) -> LogPlaces {
            self.version += 1;
            let emptied = before.emptied + u64::from(needed == 0);
            LogPlaces { version: self.version, needed, empty_on, emptied }
        }

        /// Whether it opens; what is then written ends with a cut, or in order.
        fn starts(&mut self, start: &Start) -> bool {
            let count = self.members.len();
            let votes: Vec<Option<Vote>> = self
                .members
                .iter()
                .enumerate()
                .map(|(place, member)| has(start.there, place).then_some(member.vote))
                .collect();
            let Ok(places) = in_force(&votes) else { return false };
            let is_refused = match places.needed {
                0 => !is_enough(start.there, places.empty_on),
                needed => needed & !start.there != 0,
            };
            if is_refused {
                return false;
            }
            let counting = if places.needed == 0 { places.empty_on } else { places.needed } & start.there;
            let known = votes.iter().flatten().map(|vote| vote.begun.opening).max().unwrap_or(0);
            // Where nobody knows of an opening, nobody can tell that it is missing.
            let knows_all =
                places_in(counting, count).iter().any(|&it| self.members[it].record >= self.acknowledged);
            self.is_split = !knows_all || self.must_have.iter().any(|&must_have| must_have > known);
            if self.is_split {
                return true;
            }
            for (place, &must_have) in self.must_have.iter().enumerate().filter(|(_, opening)| **opening > 0)
            {
                assert!(has(counting, place), "{places:?} does without records of member {place}");
                assert!(self.members[place].record >= must_have, "member {place} lacks records, unseen");
            }
            self.heads_left = start.heads;
            self.version = votes.iter().flatten().map(|vote| vote.places.version).max().unwrap_or(0);
            let opening = votes.iter().flatten().map(|vote| vote.opening).max().unwrap_or(0) + 1;
            let begun = votes.iter().flatten().map(|vote| vote.begun).max().unwrap_or_default();
            let fails = places_in(counting & start.fails, count);
            let in_sync = places_in(counting, count).into_iter().filter(|place| !fails.contains(place));
            let _cut = self.goes_on(places, counting, in_sync.collect(), (opening, begun), start);
            true
        }

        fn goes_on(
            &mut self,
            mut places: LogPlaces,
            counting: u64,
            mut in_sync: Vec<usize>,
            (opening, begun): (u64, DurableOpening),
            start: &Start,
        ) -> Result<(), Cut> {
            let bits = |places: &[usize]| places.iter().map(|place| 1u64 << place).sum::<u64>();
            let before = |places| Vote { places, opening, begun };
            if places.needed == 0 {
                places = self.next(places, counting, places.empty_on);
                for &place in &in_sync {
                    self.tell(place, before(places))?;
                }
                if !is_enough(bits(&in_sync), places.empty_on) {
                    return Err(Cut);
                }
            }
            for &place in &in_sync {
                self.tell(place, before(places))?;
            }
            if in_sync.is_empty() {
                return Err(Cut);
            }
            // Its superblock comes.
            let mut begun = DurableOpening { opening, version: places.version, told: begun.told };
            in_sync.iter().for_each(|&place| begun.told[place] = opening);
            let now = |places, begun| Vote { places, opening, begun };
            for &place in &in_sync {
                self.tell(place, now(places, begun))?;
            }
            let records_come = |ring: &mut Self, in_sync: &[usize]| {
                ring.acknowledged = opening;
                for &place in in_sync {
                    (ring.members[place].record, ring.must_have[place]) = (opening, opening);
                }
            };
            records_come(self, &in_sync);
            let lacking = start.there & !bits(&in_sync) & !places.needed & !start.fails;
            for place in places_in(lacking, self.members.len()).into_iter().filter(|_| start.rebuilds) {
                self.tell(place, now(places, begun))?;
                self.members[place].record = opening;
                places = self.next(places, places.needed | 1 << place, 0);
                begun.told[place] = opening;
                for &other in &in_sync {
                    self.tell(other, now(places, begun))?;
                }
                in_sync.push(place);
                self.tell(place, now(places, begun))?;
                records_come(self, &in_sync);
            }
            if start.closes {
                self.must_have.fill(0);
                places = self.next(places, 0, bits(&in_sync));
                for &place in &in_sync {
                    self.tell(place, now(places, begun))?;
                }
            }
            Ok(())
        }
    }

    fn any_start(members: usize) -> impl Strategy<Value = Start> {
        let there = prop_oneof![2 => any::<u64>(), 1 => Just(u64::MAX)];
        let fails = prop_oneof![3 => Just(0), 1 => any::<u64>()];
        let rolls_back = prop_oneof![4 => Just(None), 1 => (0..members, 0..8_usize).prop_map(Some)];
        (there, fails, 0..40_usize, any::<bool>(), any::<bool>(), rolls_back).prop_map(
            |(there, fails, heads, rebuilds, closes, rolls_back)| Start {
                there,
                fails,
                heads,
                rebuilds,
                closes,
                rolls_back,
            },
        )
    }

    fn any_starts() -> impl Strategy<Value = (usize, Vec<Start>)> {
        (1..6_usize)
            .prop_flat_map(|members| (Just(members), proptest::collection::vec(any_start(members), 0..12)))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn whoever_is_there_opens_with_everything_or_not_at_all_and_all_together_always_open(
            (members, starts) in any_starts(),
        ) {
            let mut ring = Ring::new(members);
            let (mut past, mut is_as_it_was) = (Vec::new(), true);
            for start in &starts {
                past.push(ring.clone());
                ring.starts(start);
                if let Some((place, before)) = start.rolls_back
                    && let Some(before) = past.get(before).filter(|_| is_as_it_was)
                {
                    ring.members[place] = before.members[place];
                    is_as_it_was = false;
                }
                let all = Start { there: u64::MAX, fails: 0, heads: 0, rebuilds: false, closes: false, rolls_back: None };
                let opens = ring.clone().starts(&all);
                if ring.is_split {
                    prop_assert!(!is_as_it_was);
                    break;
                }
                prop_assert!(opens || !is_as_it_was, "{:?} keep it shut", ring.members);
            }
        }
    }
}
