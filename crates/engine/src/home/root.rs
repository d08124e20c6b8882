//! The root of the table in memory, and what each of its two places on the device holds of it.
//!
//! 1. Of each place it is known, page by page, which sum was written there last. A checkpoint writes the pages that
//!    differ from memory, and no others.
//! 2. The place that the superblock names is not written. Once another superblock names the other place, this one is
//!    brought up to date too: so both hold the current root when a checkpoint is done, but behind a ring, whose members
//!    hold it each, where that waits for the next checkpoint or the end.
//! 3. What a place holds that was not written in this opening is known only if it was read, on every copy that the
//!    device keeps. All else is written anew.
//! 4. What the superblock in force vouches for in its place is right there, also where a copy is wrong: until it is written
//!    anew, nothing else is taken for right.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::layout::SUMS_PER_TABLE_PAGE;
use crate::format::root::RootSums;
use crate::format::{PAGE, page_sum};
use crate::layout::Expected;
use crate::planted::{Bug, is_planted};

const SUMS: usize = SUMS_PER_TABLE_PAGE as usize;

/// The root of one volume.
pub(crate) struct Root {
    /// The sums of the table's pages, with zeros up to the end of the last page.
    sums: Vec<u64>,
    /// The sums of its own pages, as they were when those of `touched` were changed.
    page_sums: Vec<u64>,
    touched: BTreeSet<usize>,
    /// Of each place the sum of every page there; 0 where that is not known.
    places: [Vec<u64>; 2],
    /// What is right there though a copy is wrong, of pages of which 0 is said.
    vouched: BTreeMap<(u8, usize), u64>,
    /// What was there before, of pages that are being written.
    replaced: BTreeMap<(u8, usize), u64>,
}

impl Root {
    /// Of these bytes, whole pages. Of what is in the two places nothing is known.
    pub(crate) fn of(sums: Vec<u64>) -> Self {
        debug_assert!(sums.len().is_multiple_of(SUMS));
        let pages = sums.len() / SUMS;
        let mut root = Self {
            sums,
            page_sums: vec![0; pages],
            touched: (0..pages).collect(),
            places: [vec![0; pages], vec![0; pages]],
            vouched: BTreeMap::new(),
            replaced: BTreeMap::new(),
        };
        root.sum_pages();
        root
    }

    /// It has so many pages from now on, more than before, in two places of which nothing is known.
    pub(super) fn move_to_places_of(&mut self, pages: usize) {
        let mut sums = std::mem::take(&mut self.sums);
        sums.resize(pages * SUMS, 0);
        *self = Self::of(sums);
    }

    /// The sum of a page of the table.
    pub(super) fn sum(&self, table_page: u64) -> u64 {
        self.sums[table_page as usize]
    }

    /// Changes it; answers what it was.
    pub(super) fn set_sum(&mut self, table_page: u64, sum: u64) -> u64 {
        let before = std::mem::replace(&mut self.sums[table_page as usize], sum);
        if before != sum {
            self.touched.insert(table_page as usize / SUMS);
        }
        before
    }

    /// Its pages.
    pub(crate) fn pages(&self) -> usize {
        self.page_sums.len()
    }

    /// What the superblock has to say of it.
    pub(crate) fn root_sums(&mut self) -> RootSums {
        self.sum_pages();
        RootSums::of(&self.page_sums)
    }

    /// The sums of its pages.
    pub(crate) fn page_sums(&mut self) -> &[u64] {
        self.sum_pages();
        &self.page_sums
    }

    /// What a page of a place holds now; 0 where that is not known.
    pub(super) fn page_sum_at(&self, slot: u8, page: usize) -> u64 {
        self.places[usize::from(slot)][page]
    }

    /// A place holds this there, on every copy of the device.
    pub(crate) fn found_at(&mut self, slot: u8, page: usize, sum: u64) {
        self.places[usize::from(slot)][page] = sum;
    }

    /// The superblock says that a place holds this there, and not every copy of the device does.
    pub(crate) fn vouch_for(&mut self, slot: u8, page: usize, sum: u64) {
        self.vouched.insert((slot, page), sum);
    }

    /// The pages of a place that differ from memory, ascending. They are being written from now on.
    pub(super) fn begin_writing(&mut self, slot: u8) -> Vec<usize> {
        self.sum_pages();
        let place = usize::from(slot);
        let is_other = |&page: &usize| self.places[place][page] != self.page_sums[page];
        let differ: Vec<usize> = (0..self.page_sums.len()).filter(is_other).collect();
        for &page in &differ {
            let vouched = self.vouched.remove(&(slot, page)).unwrap_or(0);
            let before = std::mem::replace(&mut self.places[place][page], self.page_sums[page]);
            self.replaced.insert((slot, page), before.max(vouched));
            if is_planted(Bug::RootLacksBefore) {
                self.places[1 - place][page] = self.page_sums[page];
            }
        }
        differ
    }

    /// All that was being written is where it belongs.
    pub(super) fn written(&mut self) {
        self.replaced.clear();
    }

    /// What a page of a place is known to hold.
    pub(super) fn expected_at(&self, slot: u8, page: usize) -> Expected {
        let Some(&now) = self.places[usize::from(slot)].get(page) else { return Expected::NOTHING };
        match (self.replaced.get(&(slot, page)), self.vouched.get(&(slot, page))) {
            (Some(&before), _) => Expected::of([before, now], false),
            (None, Some(&vouched)) => Expected::of([vouched; 2], false),
            (None, None) => Expected::of([now; 2], now != 0),
        }
    }

    /// The bytes of a page.
    pub(crate) fn page(&self, page: usize) -> [u8; PAGE] {
        let mut bytes = [0; PAGE];
        for (word, sum) in bytes.chunks_exact_mut(8).zip(&self.sums[page * SUMS..][..SUMS]) {
            word.copy_from_slice(&sum.to_le_bytes());
        }
        bytes
    }

    fn sum_pages(&mut self) {
        for page in std::mem::take(&mut self.touched) {
            self.page_sums[page] = page_sum(&self.page(page));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_written_what_it_lacks_and_no_more() {
        let mut root = Root::of(vec![0; 4 * SUMS]);
        assert_eq!(root.begin_writing(0), [0, 1, 2, 3], "nothing is known of it");
        root.written();
        assert_eq!(root.set_sum(SUMS as u64 + 5, 9), 0);
        assert_eq!((root.begin_writing(0), root.begin_writing(0)), (vec![1], vec![]));
        root.set_sum(3 * SUMS as u64, 7);
        let sums = root.page_sums().to_vec();
        for page in [0, 2] {
            root.found_at(1, page, sums[page]);
        }
        assert_eq!(root.begin_writing(1), [1, 3]);
        assert_eq!(root.begin_writing(0), [3], "what the other one lacked");
        root.written();
        assert_eq!(root.set_sum(3 * SUMS as u64, 7), 7);
        assert_eq!((root.begin_writing(0), root.begin_writing(1)), (vec![], vec![]));
    }

    #[test]
    fn while_a_page_is_written_it_is_old_or_new() {
        let mut root = Root::of(vec![0; SUMS]);
        assert!(!root.expected_at(0, 0).is_empty && !root.expected_at(0, 0).is_settled, "not known");
        let old = root.page(0);
        root.begin_writing(0);
        root.written();
        root.set_sum(3, 4);
        let new = root.page(0);
        let expected = root.expected_at(0, 0);
        assert!(expected.is_settled && expected.is_right(&old) && !expected.is_right(&new));
        root.begin_writing(0);
        let expected = root.expected_at(0, 0);
        assert!(!expected.is_settled && expected.is_right(&old) && expected.is_newest(&new));
        root.written();
        let expected = root.expected_at(0, 0);
        assert!(expected.is_settled && !expected.is_right(&old) && expected.is_right(&new));
        assert!(root.expected_at(0, 1) == Expected::NOTHING);
    }

    #[test]
    fn what_the_superblock_vouches_for_is_right_until_it_was_written_anew() {
        let mut root = Root::of(vec![0; SUMS]);
        let (old, old_sum) = (root.page(0), root.page_sums()[0]);
        root.vouch_for(1, 0, old_sum);
        root.set_sum(3, 4);
        let new = root.page(0);
        let expected = root.expected_at(1, 0);
        assert!(expected.is_known() && expected.is_right(&old) && !expected.is_right(&new));
        assert_eq!(root.begin_writing(1), [0], "a copy is wrong");
        let expected = root.expected_at(1, 0);
        assert!(expected.is_right(&old) && expected.is_right(&new) && !expected.is_settled);
        root.written();
        assert!(!root.expected_at(1, 0).is_right(&old));
    }
}
