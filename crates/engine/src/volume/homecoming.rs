//! Room that comes back while a checkpoint is under way: to a ring, whose members take long, page by page.
//!
//! A page may leave memory, and a record the log, once what they hold is durable on every member that counts, and each of
//! those says so by its head. The superblock that moves the tail names the root from before the checkpoint. So:
//!
//! 1. The tail moves up to the first record with a change that is not home, and no further. What the root lacks of sums is in
//!    records of this checkpoint, which lie behind every change that it takes home.
//! 2. It does not move where a sum is in an older record alone, as a recovery leaves it, or where a page cannot go home.
//! 3. What the ring wants remembered goes with it: who counts, and how far each of those came at least.
//! 4. The oldest changes go home first, in groups; within a group pages go in order of address. Groups are as small as the
//!    steps of the tail, unless neighbours would be torn apart. What is in one unit of the store is in one group.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use super::Inner;
use super::home_writes::HomeWrites;
use crate::env::{Arena, Env};
use crate::error::Error;
use crate::format::PAGE_BYTES;
use crate::home::Outgoing;
use crate::join;
use crate::layout::{JournalStore, PageStore};
use crate::planted::{Bug, is_planted};

/// Of the room for commits in the log, what a step of the tail is at least, where that is more than the pages of one.
const STEP_SHARE: u64 = 24;

/// One of so many pages may go home without the neighbour that goes home with the same checkpoint. A flash drive collects less
/// garbage where what is written together is overwritten together: tpcc goes home at 36 MB/s in order of address, and at
/// 20 MB/s in groups of a step (`sata-2011`).
const APART_MAX_ONE_IN: usize = 16;

/// The pages of a checkpoint, some of them home already.
pub(super) struct Homecoming {
    /// `None` once a page is home, and its memory given back.
    pages: Vec<Option<Outgoing>>,
    /// Those with contents by their oldest change, with their places in `pages`.
    by_age: Vec<(u64, usize)>,
    /// Before this place of `by_age` all are home.
    oldest: usize,
}

impl Homecoming {
    /// None is home yet.
    pub(super) fn new(outgoing: Vec<Outgoing>) -> Self {
        // What has no contents is nowhere: that its sum says so in the log is enough.
        let stored = outgoing.iter().enumerate().filter(|(_, page)| !page.empty);
        let mut by_age: Vec<(u64, usize)> = stored.map(|(place, page)| (page.dirty_since, place)).collect();
        by_age.sort_unstable();
        Self { pages: outgoing.into_iter().map(Some).collect(), by_age, oldest: 0 }
    }

    /// Those at these places are home.
    fn take(&mut self, places: Range<usize>) -> impl Iterator<Item = Outgoing> {
        self.pages[places].iter_mut().filter_map(Option::take)
    }

    /// The first record with a change that is not home, if there is one.
    fn oldest_change(&mut self) -> Option<u64> {
        let is_home = |&&(_, place): &&(u64, usize)| self.pages[place].is_none();
        self.oldest += self.by_age[self.oldest..].iter().take_while(is_home).count();
        self.by_age.get(self.oldest).map(|&(record, _)| record)
    }

    /// The one at this place does not come home now.
    pub(super) fn stays(&mut self, place: usize) -> Option<Outgoing> {
        self.pages[place].take()
    }

    /// What is left.
    pub(super) fn into_left(self) -> impl Iterator<Item = Outgoing> {
        self.pages.into_iter().flatten()
    }
}

/// Puts pages in the order in which they go home: the oldest changes first, in groups, and each group in order of address.
/// Groups are of `step_pages` where that tears few neighbours apart, else of `group_pages`. What is in one unit of the store by
/// `unit_of` is in one group, with the oldest of it: a unit that comes again has to wait until it is home.
pub(super) fn in_order_of_age(
    outgoing: &mut [Outgoing],
    step_pages: usize,
    group_pages: usize,
    unit_of: Option<&dyn Fn(&Outgoing) -> u64>,
) {
    let mut oldest: BTreeMap<u64, u64> = BTreeMap::new();
    for page in unit_of.iter().flat_map(|_| &*outgoing) {
        let known = oldest.entry(unit(unit_of, page)).or_insert(page.dirty_since);
        *known = page.dirty_since.min(*known);
    }
    let in_groups = |outgoing: &mut [Outgoing], pages: usize| {
        match unit_of {
            None => outgoing.sort_unstable_by_key(|page| page.dirty_since),
            Some(unit_of) => outgoing.sort_by_cached_key(|page| {
                let unit = unit_of(page);
                (oldest[&unit], unit)
            }),
        }
        let mut left = outgoing;
        while !left.is_empty() {
            let (asked_for, beyond) = left.split_at(pages.clamp(1, left.len()));
            let last = asked_for.last().filter(|_| unit_of.is_some()).map(|page| unit(unit_of, page));
            let more = beyond.iter().take_while(|page| last == Some(unit(unit_of, page))).count();
            let (group, rest) = left.split_at_mut(asked_for.len() + more);
            sort_by_place(group, unit_of);
            left = rest;
        }
    };
    sort_by_place(outgoing, unit_of);
    let together = neighbours(outgoing);
    in_groups(outgoing, step_pages);
    if together - neighbours(outgoing) > outgoing.len() / APART_MAX_ONE_IN {
        in_groups(outgoing, group_pages);
    }
}

/// The unit of a page; itself, where the store has none.
fn unit(unit_of: Option<&dyn Fn(&Outgoing) -> u64>, page: &Outgoing) -> u64 {
    unit_of.map_or(page.page, |unit_of| unit_of(page))
}

/// In order of address, but for what has no contents in a unit: that is not written, and tears nothing apart.
fn sort_by_place(pages: &mut [Outgoing], unit_of: Option<&dyn Fn(&Outgoing) -> u64>) {
    match unit_of {
        None => pages.sort_unstable_by_key(|page| page.page),
        Some(unit_of) => pages.sort_by_cached_key(|page| (unit_of(page), page.empty, page.page)),
    }
}

/// How many pages follow the one before.
fn neighbours(pages: &[Outgoing]) -> usize {
    pages.windows(2).filter(|pair| pair[1].page == pair[0].page + 1).count()
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Inner<E, A, H, L> {
    /// Pages that come home before the tail moves.
    pub(super) fn homecoming_step_pages(&self) -> usize {
        let of_log = self.admission.limits.get().commit_used_max / STEP_SHARE / PAGE_BYTES;
        self.options.tuning.homecoming_pages_min.max(usize::try_from(of_log).unwrap_or(usize::MAX))
    }

    /// Pages of a group, where neighbours are worth more than room that comes back early: as many as a checkpoint takes that
    /// comes in time.
    pub(super) fn homecoming_group_pages(&self) -> usize {
        self.homecoming_step_pages().max(self.admission.limits.get().dirty_pages_max / 2)
    }

    /// Gives room back as pages come home, until all writes have ended.
    pub(super) async fn give_back_as_they_come(
        self: &Rc<Self>,
        writes: &HomeWrites<'_, E, A, H, L>,
        coming: &mut Homecoming,
    ) -> Result<(), Error> {
        let step_pages = self.homecoming_step_pages();
        let mut settled = 0;
        let mut ended: Vec<(u64, Range<usize>)> = Vec::new();
        loop {
            let waiting: usize = ended.iter().map(|(_, places)| places.len()).sum();
            if !writes.more_ended(step_pages.saturating_sub(waiting)).await {
                return Ok(());
            }
            let next = join::first(self.home.device.settled_beyond(settled), writes.until_ended()).await;
            let Some(next) = next else { return Ok(()) };
            settled = next;
            ended.extend(writes.take_ended());
            let is_home = |(number, _): &mut (u64, Range<usize>)| *number <= settled;
            let home: Vec<Range<usize>> = ended.extract_if(.., is_home).map(|(_, places)| places).collect();
            self.give_back(coming, home).await?;
        }
    }

    /// Those at these places are home, durably.
    async fn give_back(
        self: &Rc<Self>,
        coming: &mut Homecoming,
        home: Vec<Range<usize>>,
    ) -> Result<(), Error> {
        for places in home {
            self.home.done_outgoing(coming.take(places));
        }
        let tail = match is_planted(Bug::RingTailTooSoon) {
            false => coming.oldest_change(),
            true => coming.oldest_change().map(|record| record + 1),
        };
        if let Some(tail) = tail.filter(|&tail| tail > self.superblocks.current().tail_sequence) {
            self.move_tail(tail).await?;
        }
        self.note_fill();
        self.changed.all();
        self.pump_soon();
        Ok(())
    }

    /// Gives the room of the records before this one back, whose changes are home.
    async fn move_tail(&self, tail: u64) -> Result<(), Error> {
        let tail = self.log.position_of(tail);
        let acknowledged = self.log.acknowledged();
        let home_state = self.home.device.state();
        self.superblocks
            .advance(|superblock| {
                superblock.move_tail(tail.offset, tail.sequence);
                superblock.acknowledged = acknowledged;
                superblock.home_state = home_state;
            })
            .await?;
        self.note_given_back(self.log.advance_tail(tail.sequence), false);
        Ok(())
    }

    /// So many bytes of the log have room again; `is_last` at the end of a checkpoint.
    pub(super) fn note_given_back(&self, bytes: u64, is_last: bool) {
        self.admission.throttle.note_given_back(self.env.now_ns(), bytes, is_last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::test_page;

    /// Pages with the records of their oldest changes.
    fn outgoing(pages: impl IntoIterator<Item = (u64, u64)>) -> Vec<Outgoing> {
        let one = |(page, dirty_since)| Outgoing {
            page,
            bytes: test_page(),
            empty: false,
            covered: true,
            logged_sum: None,
            dirty_since,
        };
        pages.into_iter().map(one).collect()
    }

    fn in_order(pages: impl IntoIterator<Item = (u64, u64)>, step: usize, group: usize) -> Vec<u64> {
        let mut outgoing = outgoing(pages);
        in_order_of_age(&mut outgoing, step, group, None);
        outgoing.iter().map(|page| page.page).collect()
    }

    #[test]
    fn the_oldest_go_first_where_no_neighbours_are_torn_apart() {
        let apart = [(90, 1), (10, 4), (70, 2), (30, 3)];
        assert_eq!(in_order(apart, 2, 9), [70, 90, 10, 30]);
        let runs = [(8, 5), (9, 5), (2, 7), (3, 7)];
        assert_eq!(in_order(runs, 2, 9), [8, 9, 2, 3]);
    }

    #[test]
    fn neighbours_stay_together_within_a_group() {
        let mixed = [(1, 9), (2, 1), (3, 8), (4, 2), (5, 7), (6, 3)];
        assert_eq!(in_order(mixed, 2, 6), [1, 2, 3, 4, 5, 6]);
        assert_eq!(in_order(mixed, 2, 3), [2, 4, 6, 1, 3, 5]);
    }

    #[test]
    fn what_is_in_one_unit_goes_with_the_oldest_of_it() {
        let mut pages = outgoing([(80, 1), (17, 9), (40, 2), (12, 3), (81, 8), (50, 4)]);
        in_order_of_age(&mut pages, 2, 9, Some(&|page: &Outgoing| page.page / 10));
        assert_eq!(pages.iter().map(|page| page.page).collect::<Vec<_>>(), [80, 81, 12, 17, 40, 50]);
        let mut pages = outgoing([(80, 1), (10, 2), (81, 3), (82, 4), (30, 5)]);
        in_order_of_age(&mut pages, 2, 2, Some(&|page: &Outgoing| page.page / 10));
        let order: Vec<u64> = pages.iter().map(|page| page.page).collect();
        assert_eq!(order, [80, 81, 82, 10, 30], "a group is larger than asked for rather than cut a unit");
    }

    #[test]
    fn the_tail_stays_where_the_oldest_change_is_that_is_not_home() {
        let mut coming = Homecoming::new(outgoing([(7, 3), (8, 2), (9, 5), (1, 2)]));
        assert_eq!(coming.oldest_change(), Some(2));
        assert_eq!(coming.take(0..2).count(), 2);
        assert_eq!(coming.oldest_change(), Some(2), "another page has a change of the same record");
        assert_eq!(coming.take(3..4).count(), 1);
        assert_eq!(coming.oldest_change(), Some(5));
        assert_eq!(coming.take(0..4).count(), 1, "each comes home once");
        assert_eq!(coming.oldest_change(), None);
        assert_eq!(coming.into_left().count(), 0);
    }

    #[test]
    fn what_has_no_contents_holds_no_tail_back() {
        let mut pages = outgoing([(7, 3), (8, 2)]);
        pages[1].empty = true;
        let mut coming = Homecoming::new(pages);
        assert_eq!(coming.oldest_change(), Some(3));
    }
}
