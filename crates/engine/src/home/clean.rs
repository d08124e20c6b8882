//! Which clean pages leave memory first: S3-FIFO, by Yang, Zhang, Qiu, Yue and Vigfusson, "FIFO queues are all you need for
//! cache eviction" (SOSP 2023).
//!
//! ```text
//!              used since it came
//!   comes ──► small ─────────────► main ──┐ used since it was here last: behind the others again
//!               │                   │  ▲──┘
//!               │ goes              │ goes
//!               ▼
//!             ghosts: numbers alone; who comes again while it is one stays
//! ```
//!
//! 1. What is read once leaves before what is read again: a scan takes the place of a tenth of the pages.
//! 2. The newest so many that were not used since they came stay whatever comes: what is loaded together is together.
//! 3. No call takes longer the more pages there are. What does not count any more goes a few entries at a time; where thousands
//!    of them are in the way of a choice, it is made later: the next call goes on from there.

use std::cell::Cell;
use std::collections::VecDeque;

use crate::page_map::PageMap;

/// Uses that count.
const USES_MAX: u8 = 3;

/// One of so many clean pages is in `small`, while others are there to go.
const SMALL_ONE_IN: usize = 10;

/// Pages that are passed over, for they were used, before one goes in any case.
const PASSED_MAX: usize = 256;

/// Entries of pages that are clean no more are not looked for below so many.
const TIDY_MIN: usize = 1024;

/// Entries that do not count, before a choice is left to the next call.
const DROPPED_MAX: usize = 4 * TIDY_MIN;

/// Entries that are looked at as one comes, where they are too many: more than come, so that they become fewer.
const TIDIED_AT_ONCE: usize = 4;

/// Numbers of pages that went that are forgotten as one more goes, where they are too many: more than come.
const FORGOTTEN_AT_ONCE: usize = 4;

/// Which page leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// This one.
    Page(u64),
    /// Too many entries that do not count were in the way: the next call goes on behind them.
    Later,
    /// None may.
    Nobody,
}

/// What a page says of its place among the clean ones.
#[derive(Debug, Default)]
pub(super) struct Mark {
    /// When it came; 0 while it is not clean.
    place: Cell<u64>,
    uses: Cell<u8>,
    is_main: Cell<bool>,
}

/// An entry counts while its page has the same place.
type Entry = (u64, u64);

/// Entries in the order of their coming: those that were looked at first, and behind them the others.
#[derive(Debug, Default)]
struct Queue {
    tidy: VecDeque<Entry>,
    others: VecDeque<Entry>,
    /// Entries that count.
    pages: usize,
}

impl Queue {
    fn push(&mut self, entry: Entry) {
        self.others.push_back(entry);
        self.pages += 1;
    }

    fn pop(&mut self) -> Option<Entry> {
        self.tidy.pop_front().or_else(|| self.others.pop_front())
    }

    /// Where more than half of the entries do not count, looks at the next few, and drops those.
    fn tidy(&mut self, counts: impl Fn(&Entry) -> bool) {
        if self.tidy.len() + self.others.len() <= 2 * self.pages.max(TIDY_MIN) {
            return;
        }
        if self.others.is_empty() {
            std::mem::swap(&mut self.tidy, &mut self.others);
        }
        let next = self.others.drain(..TIDIED_AT_ONCE.min(self.others.len()));
        self.tidy.extend(next.filter(counts));
    }
}

/// Clean pages, by number.
#[derive(Debug)]
pub(super) struct CleanPages {
    small: Queue,
    main: Queue,
    /// Pages that went from `small`, in the order of their going.
    ghosts: VecDeque<Entry>,
    ghost_places: PageMap<u64>,
    next_place: u64,
    min: usize,
    last_used: Cell<u64>,
}

impl CleanPages {
    /// None yet; `min` of them stay in any case.
    pub(super) fn new(min: usize) -> Self {
        Self {
            small: Queue::default(),
            main: Queue::default(),
            ghosts: VecDeque::new(),
            ghost_places: PageMap::default(),
            next_place: 1,
            min,
            last_used: Cell::new(u64::MAX),
        }
    }

    fn len(&self) -> usize {
        self.small.pages + self.main.pages
    }

    /// The page was read. What follows at once, here or behind its coming, is no other use: a scan in small steps is a scan.
    pub(super) fn note_use(&self, page: u64, mark: &Mark) {
        if self.last_used.replace(page) != page {
            mark.uses.set((mark.uses.get() + 1).min(USES_MAX));
        }
    }

    /// The page is clean from now on.
    pub(super) fn add(&mut self, page: u64, mark: &Mark) {
        self.take(mark);
        let place = self.next_place;
        self.next_place += 1;
        mark.place.set(place);
        self.last_used.set(page);
        if self.ghost_places.remove(page).is_some() {
            mark.uses.set(mark.uses.get().max(1));
        }
        self.queue_of(mark).push((page, place));
    }

    /// The page is no clean one any more, if it was.
    pub(super) fn take(&mut self, mark: &Mark) {
        if mark.place.replace(0) > 0 {
            self.queue_of(mark).pages -= 1;
        }
    }

    /// The page that leaves now, whose mark `mark_of` knows.
    pub(super) fn next_out<'a>(&mut self, mark_of: impl Fn(u64) -> Option<&'a Mark>) -> Choice {
        let mark_of = |(page, place): Entry| mark_of(page).filter(|mark| mark.place.get() == place);
        let (mut passed, mut dropped) = (0, 0);
        while self.len() > self.min {
            if dropped == DROPPED_MAX {
                return Choice::Later;
            }
            let is_small = self.main.pages == 0 || self.small.pages > self.min.max(self.len() / SMALL_ONE_IN);
            let Some(entry) = (if is_small { &mut self.small } else { &mut self.main }).pop() else {
                debug_assert!(false, "pages that are counted have entries");
                return Choice::Nobody;
            };
            let Some(mark) = mark_of(entry) else {
                dropped += 1;
                continue;
            };
            let uses = mark.uses.get();
            if uses > 0 && passed < PASSED_MAX {
                passed += 1;
                self.queue_of(mark).pages -= 1;
                mark.uses.set(if is_small { 0 } else { uses - 1 });
                mark.is_main.set(true);
                self.main.push(entry);
                continue;
            }
            self.take(mark);
            if is_small {
                self.remember(entry.0);
            }
            return Choice::Page(entry.0);
        }
        Choice::Nobody
    }

    /// The page went. As many are remembered as there are clean ones, in the end.
    fn remember(&mut self, page: u64) {
        let place = self.next_place;
        self.next_place += 1;
        self.ghost_places.insert(page, place);
        self.ghosts.push_back((page, place));
        for _ in 0..FORGOTTEN_AT_ONCE {
            if self.ghosts.len() <= self.len().max(self.min) {
                return;
            }
            let Some((page, place)) = self.ghosts.pop_front() else { return };
            if self.ghost_places.get(page) == Some(&place) {
                self.ghost_places.remove(page);
            }
        }
    }

    /// Drops entries that do not count, where they are many.
    pub(super) fn tidy<'a>(&mut self, mark_of: impl Fn(u64) -> Option<&'a Mark>) {
        let is_there = |&(page, place): &Entry| mark_of(page).is_some_and(|mark| mark.place.get() == place);
        self.small.tidy(is_there);
        self.main.tidy(is_there);
    }

    fn queue_of(&mut self, mark: &Mark) -> &mut Queue {
        if mark.is_main.get() { &mut self.main } else { &mut self.small }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Pages in memory, as many as `max`.
    struct Memory {
        marks: BTreeMap<u64, Mark>,
        clean: CleanPages,
        max: usize,
    }

    impl Memory {
        fn new(max: usize, min: usize) -> Self {
            Self { marks: BTreeMap::new(), clean: CleanPages::new(min), max }
        }

        /// Reads a page; whether it was there.
        fn read(&mut self, page: u64) -> bool {
            if let Some(mark) = self.marks.get(&page) {
                self.clean.note_use(page, mark);
                return true;
            }
            while self.marks.len() >= self.max {
                let Choice::Page(page) = self.clean.next_out(|page| self.marks.get(&page)) else { break };
                self.marks.remove(&page);
            }
            self.marks.insert(page, Mark::default());
            self.clean.add(page, &self.marks[&page]);
            self.clean.tidy(|page| self.marks.get(&page));
            false
        }
    }

    #[test]
    fn a_scan_leaves_what_is_used_again() {
        let mut memory = Memory::new(100, 4);
        for page in (0..80).chain(0..80) {
            memory.read(page);
        }
        for page in 1000..3000 {
            assert!(!memory.read(page));
        }
        assert_eq!((0..80).filter(|&page| memory.read(page)).count(), 80);
    }

    #[test]
    fn a_scan_in_small_steps_is_a_scan() {
        let mut memory = Memory::new(100, 4);
        for page in (0..80).chain(0..80) {
            memory.read(page);
        }
        for page in 1000..3000 {
            for _ in 0..8 {
                memory.read(page);
            }
        }
        assert_eq!((0..80).filter(|&page| memory.read(page)).count(), 80);
    }

    #[test]
    fn who_comes_again_soon_after_it_went_stays() {
        let mut memory = Memory::new(40, 2);
        for page in 0..60 {
            memory.read(page);
        }
        assert!(!memory.read(10), "it went");
        for page in 100..200 {
            memory.read(page);
        }
        assert!(memory.read(10));
    }

    #[test]
    fn what_changes_all_the_time_goes_last() {
        let mut memory = Memory::new(10, 1);
        for page in 0..10 {
            memory.read(page);
        }
        let mark = &memory.marks[&3];
        memory.clean.take(mark);
        for page in 100..200 {
            memory.read(page);
        }
        assert!(memory.marks.contains_key(&3), "it is dirty");
        memory.clean.add(3, &memory.marks[&3]);
        assert!(memory.marks.contains_key(&3));
        for page in 200..230 {
            memory.read(page);
        }
        assert!(!memory.marks.contains_key(&3));
    }

    #[test]
    fn no_call_looks_at_more_entries_the_more_pages_there_are() {
        for pages in [3 * DROPPED_MAX as u64, 30 * DROPPED_MAX as u64] {
            let marks: BTreeMap<u64, Mark> = (0..pages).map(|page| (page, Mark::default())).collect();
            let (mut clean, looks) = (CleanPages::new(1), Cell::new(0));
            let mark_of = |page| {
                looks.set(looks.get() + 1);
                marks.get(&page)
            };
            // All of them change, three times and once more from a half on.
            for page in (0..pages).cycle().take(4 * pages as usize).chain(pages / 2..pages) {
                clean.add(page, &marks[&page]);
                clean.tidy(mark_of);
                assert!(looks.take() <= TIDIED_AT_ONCE);
                let entries = clean.small.tidy.len() + clean.small.others.len();
                assert!(entries <= 3 * pages as usize, "{entries}");
            }
            // In the order of their last change.
            let mut gone = Vec::new();
            while clean.len() > 1 {
                match clean.next_out(mark_of) {
                    Choice::Page(page) => gone.push(page),
                    Choice::Later => {}
                    Choice::Nobody => panic!("{} may go", clean.len() - 1),
                }
                assert!(looks.take() <= DROPPED_MAX + 1);
            }
            assert!(gone.into_iter().eq(0..pages - 1));
        }
    }

    proptest! {
        #[test]
        fn the_newest_stay_and_counts_are_right(
            reads in proptest::collection::vec((0..40_u64, proptest::bool::weighted(0.2)), 1..400),
            max in 4..20_usize,
            min in 1..4_usize,
        ) {
            let mut memory = Memory::new(max, min);
            let mut came = Vec::new();
            for (page, changes) in reads {
                if !memory.read(page) {
                    came.push(page);
                }
                if changes {
                    let mark = &memory.marks[&page];
                    memory.clean.take(mark);
                    memory.clean.add(page, mark);
                    came.retain(|&one| one != page);
                    if !mark.is_main.get() {
                        came.push(page);
                    }
                }
                for newest in came.iter().rev().take(min) {
                    prop_assert!(memory.marks.contains_key(newest), "{newest} of {came:?}");
                }
                prop_assert!(memory.marks.len() <= max);
                prop_assert_eq!(memory.clean.len(), memory.marks.len());
                prop_assert!(memory.clean.ghost_places.pages().count() <= max);
                for queue in [&memory.clean.small, &memory.clean.main] {
                    let is_there = |entry: &&Entry| {
                        memory.marks.get(&entry.0).is_some_and(|mark| mark.place.get() == entry.1)
                    };
                    let entries = queue.tidy.iter().chain(&queue.others);
                    prop_assert_eq!(entries.filter(is_there).count(), queue.pages);
                }
            }
        }
    }
}
