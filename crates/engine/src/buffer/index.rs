//! Which units touch a page.
//!
//! 1. A page is in the index exactly while a unit that is not released touches it.
//! 2. A unit that is released leaves the list of its page later, with others: the work for each is bounded, and after a
//!    release more than half of each list counts, short ones aside.

use std::collections::BTreeMap;
use std::ops::RangeBounds;

use smallvec::SmallVec;

use super::queue::Tickets;
use crate::planted::{Bug, is_planted};

/// Lists shorter than this are never cleared of released units before their last one goes.
const SWEEP_MIN: usize = 8;

/// Units by each page they touch.
#[derive(Default)]
pub(super) struct Index {
    pages: BTreeMap<u64, PageUnits>,
}

/// The units of one page.
#[derive(Default)]
pub(super) struct PageUnits {
    /// Oldest first, with some that are released.
    units: SmallVec<[u64; 3]>,
    /// So many from the oldest on are released.
    gone: u32,
    /// How many of them are not released.
    counting: u32,
    /// How many those were when they were last thinned out.
    thinned: u32,
    /// So many from the oldest on are no longer idle, those released included.
    settled: u32,
    /// The last tickets of any of those.
    settled_tickets: Tickets,
}

impl Index {
    /// Notes that the newest unit touches a page.
    pub(super) fn add(&mut self, page: u64, sequence: u64) -> &PageUnits {
        let on_page = self.pages.entry(page).or_default();
        if on_page.units.last() != Some(&sequence) {
            on_page.units.push(sequence);
            on_page.counting += 1;
        }
        on_page
    }

    /// Notes that a unit of a page is released, as `is_released` says already; answers how many were looked at.
    pub(super) fn release(&mut self, page: u64, is_released: impl Fn(u64) -> bool) -> usize {
        let Some(on_page) = self.pages.get_mut(&page) else { return 0 };
        on_page.counting -= 1;
        let (counting, len) = (on_page.counting as usize, on_page.units.len());
        if counting == 0 {
            self.pages.remove(&page);
            return 0;
        }
        let was_gone = on_page.gone;
        while is_released(on_page.units[on_page.gone as usize]) {
            on_page.gone += 1;
        }
        if len < SWEEP_MIN || counting * 2 > len {
            return (on_page.gone - was_gone) as usize;
        }
        let (mut place, mut settled) = (0, 0);
        on_page.units.retain(|sequence| {
            let stays = !is_released(*sequence);
            settled += u32::from(stays && place < on_page.settled);
            place += 1;
            stays
        });
        (on_page.settled, on_page.gone) = (settled, 0);
        len
    }

    /// Notes that nothing more of a page can be let go.
    pub(super) fn thinned(&mut self, page: u64) {
        if let Some(on_page) = self.pages.get_mut(&page) {
            on_page.thinned = on_page.counting;
        }
    }

    /// The units of a page.
    pub(super) fn get(&self, page: u64) -> Option<&PageUnits> {
        self.pages.get(&page)
    }

    /// Pages within `range`, ascending, with their units.
    pub(super) fn range(&self, range: impl RangeBounds<u64>) -> impl Iterator<Item = (u64, &PageUnits)> {
        self.pages.range(range).map(|(&page, units)| (page, units))
    }

    /// As [`Self::range`].
    pub(super) fn range_mut(&mut self, range: impl RangeBounds<u64>) -> impl Iterator<Item = &mut PageUnits> {
        self.pages.range_mut(range).map(|(_, units)| units)
    }

    /// Number of pages.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }
}

impl PageUnits {
    /// All of them, oldest first, with some that are released.
    pub(super) fn all(&self) -> &[u64] {
        &self.units[self.gone as usize..]
    }

    /// Whether there are so many, and twice as many as were left when they were last thinned out.
    pub(super) fn is_crowded(&self, min: usize) -> bool {
        self.counting as usize >= min && self.counting / 2 >= self.thinned
    }

    /// Those up to `newest`.
    pub(super) fn through(&self, newest: u64) -> &[u64] {
        let all = self.all();
        &all[..all.partition_point(|&sequence| sequence <= newest)]
    }

    /// Those that may be idle, and the tickets with which all others are durable; all of them where no more than `few` are
    /// known to be no longer idle.
    pub(super) fn unsettled(&self, few: usize) -> (&[u64], Tickets) {
        match self.settled.saturating_sub(self.gone) as usize {
            settled if settled > few && is_planted(Bug::SettledIsDurable) => {
                (&self.all()[settled..], Tickets::default())
            }
            settled if settled > few => (&self.all()[settled..], self.settled_tickets),
            _ => (self.all(), Tickets::default()),
        }
    }

    /// Notes that none is idle, and the last tickets of any.
    pub(super) fn settle(&mut self, tickets: Tickets) {
        self.settled = self.units.len() as u32;
        self.settled_tickets = self.settled_tickets.and_all(tickets);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::queue::{Lane, Ticket};
    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Add,
        Release(usize),
        Settle,
    }

    proptest! {
        #[test]
        fn a_page_lists_its_units_and_not_many_more(
            steps in prop::collection::vec(
                prop_oneof![
                    4 => Just(Step::Add),
                    4 => any::<usize>().prop_map(Step::Release),
                    1 => Just(Step::Settle)
                ],
                1..200
            ),
            few in 0..6usize,
        ) {
            const PAGE: u64 = 3;
            let mut index = Index::default();
            // Those that count, and whether they are known to be no longer idle.
            let mut counting: BTreeMap<u64, bool> = BTreeMap::new();
            let (mut tickets, mut settled_through) = (Tickets::default(), 0);
            for (number, step) in (1..).zip(steps) {
                match step {
                    Step::Add => {
                        index.add(PAGE, number);
                        index.add(PAGE, number);
                        counting.insert(number, false);
                    }
                    Step::Release(which) if !counting.is_empty() => {
                        let gone = *counting.keys().nth(which % counting.len()).unwrap();
                        counting.remove(&gone);
                        index.release(PAGE, |unit| !counting.contains_key(&unit));
                        let listed = index.get(PAGE).map_or(0, |on_page| on_page.units.len());
                        prop_assert!(listed < SWEEP_MIN || 2 * counting.len() > listed, "{listed} in the list");
                        if counting.is_empty() {
                            tickets = Tickets::default();
                        }
                    }
                    Step::Release(_) => {}
                    Step::Settle => {
                        let last = Tickets::default().and(Ticket { lane: Lane::Small, number });
                        for on_page in index.range_mut(PAGE..=PAGE) {
                            on_page.settle(last);
                            tickets = tickets.and_all(last);
                        }
                        counting.values_mut().for_each(|settled| *settled = true);
                        settled_through = number;
                    }
                }
                let Some(on_page) = index.get(PAGE) else {
                    prop_assert!(counting.is_empty());
                    continue;
                };
                let live = |units: &[u64]| -> Vec<u64> {
                    units.iter().copied().filter(|unit| counting.contains_key(unit)).collect()
                };
                let expected: Vec<u64> = counting.keys().copied().collect();
                prop_assert!(!expected.is_empty());
                prop_assert_eq!(live(on_page.all()), &expected[..]);
                prop_assert_eq!(on_page.all()[0], expected[0], "those before the oldest that counts are passed over");
                let middle = expected[expected.len() / 2];
                prop_assert_eq!(live(on_page.through(middle)), &expected[..=expected.len() / 2]);
                prop_assert!(on_page.through(middle).iter().all(|&unit| unit <= middle));
                let idle: Vec<u64> = counting.iter().filter(|(_, settled)| !**settled).map(|(&unit, _)| unit).collect();
                let (unsettled, of_others) = on_page.unsettled(few);
                if on_page.through(settled_through).len() > few {
                    prop_assert_eq!((live(unsettled), of_others), (idle, tickets));
                } else {
                    prop_assert_eq!((unsettled, of_others), (on_page.all(), Tickets::default()));
                }
            }
        }
    }
}
