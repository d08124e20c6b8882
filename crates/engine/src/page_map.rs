//! A map by the numbers of pages: what it holds is found at the same cost however much it is.
//!
//! 1. Its hash is fixed, so that it is the same in every run; nothing may depend on its order all the same.
//! 2. It consists of parts, of which each grows by itself: who puts a page into it never waits for all others to be moved.

#![allow(clippy::disallowed_types, reason = "its hash is fixed, and where order matters it is sorted")]

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

/// Parts of a map. Of a million pages each has some 4,000.
const PARTS: usize = 256;

type Part<T> = HashMap<u64, T, BuildHasherDefault<PageHasher>>;

/// What is known by page.
#[derive(Debug)]
pub(crate) struct PageMap<T> {
    parts: Box<[Part<T>]>,
}

impl<T> Default for PageMap<T> {
    fn default() -> Self {
        Self { parts: (0..PARTS).map(|_| Part::default()).collect() }
    }
}

impl<T> PageMap<T> {
    /// Those it knows, in no order.
    pub(crate) fn pages(&self) -> impl Iterator<Item = u64> {
        self.parts.iter().flat_map(|part| part.keys().copied())
    }

    pub(crate) fn get(&self, page: u64) -> Option<&T> {
        self.parts[part_of(page)].get(&page)
    }

    pub(crate) fn get_mut(&mut self, page: u64) -> Option<&mut T> {
        self.parts[part_of(page)].get_mut(&page)
    }

    pub(crate) fn entry(&mut self, page: u64) -> Entry<'_, u64, T> {
        self.parts[part_of(page)].entry(page)
    }

    pub(crate) fn insert(&mut self, page: u64, value: T) {
        self.parts[part_of(page)].insert(page, value);
    }

    pub(crate) fn remove(&mut self, page: u64) -> Option<T> {
        self.parts[part_of(page)].remove(&page)
    }
}

/// By bits of the hash that a part does not look at: it takes the lowest for the place, and the highest to tell pages apart.
fn part_of(page: u64) -> usize {
    let mut hasher = PageHasher::default();
    hasher.write_u64(page);
    (hasher.finish() >> 32) as usize % PARTS
}

/// Spreads page numbers, which come in runs and strides, over a map: the finaliser of splitmix64.
#[derive(Default)]
pub(crate) struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let mut mixed = self.0 ^ number;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.0 = mixed ^ (mixed >> 31);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_is_found_until_it_is_removed() {
        let mut map = PageMap::default();
        (0..1000u64).for_each(|page| map.insert(page * 7, page));
        *map.get_mut(7).unwrap() = 100;
        *map.entry(14).or_insert(0) += 100;
        assert_eq!(
            [0, 7, 14, 21].map(|page| map.get(page).copied()),
            [Some(0), Some(100), Some(102), Some(3)]
        );
        assert_eq!((map.remove(1), map.remove(7), map.remove(7)), (None, Some(100), None));
    }

    #[test]
    fn nobody_who_puts_a_page_in_moves_more_than_a_few_of_the_others() {
        let mut map = PageMap::default();
        let (mut moved, mut most) = (0, 0);
        for page in 0..300_000u64 {
            let part = part_of(page * 3);
            let (len, capacity) = (map.parts[part].len(), map.parts[part].capacity());
            map.insert(page * 3, ());
            if map.parts[part].capacity() != capacity {
                moved += len;
                most = most.max(len);
            }
        }
        assert!(moved > 100_000 && most < 2000, "{most} at once of {moved}");
    }

    #[test]
    fn it_mixes_as_splitmix64_does() {
        // The first numbers that splitmix64 makes of the seed 1234567.
        for (number, made) in (1..).zip([6_457_827_717_110_365_317, 3_203_168_211_198_807_973u64]) {
            let mut hasher = PageHasher::default();
            hasher.write_u64(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(number).wrapping_add(1_234_567));
            assert_eq!(hasher.finish(), made);
        }
    }

    #[test]
    fn bytes_are_mixed_one_behind_another() {
        let (mut first, mut both, mut second) =
            (PageHasher::default(), PageHasher::default(), PageHasher::default());
        first.write(&[1]);
        both.write(&[1, 5]);
        second.write_u64(first.finish() ^ 5);
        assert_eq!(both.finish(), second.finish());
        assert_ne!(both.finish(), 0);
    }
}
