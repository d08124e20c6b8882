//! A map by the numbers of pages: what it holds is found at the same cost however much it is.
//!
//! Its hash is fixed, so that it is the same in every run; nothing may depend on its order all the same.

#![allow(clippy::disallowed_types, reason = "its hash is fixed, and where order matters it is sorted")]

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// What is known by page.
pub(crate) type PageMap<T> = HashMap<u64, T, BuildHasherDefault<PageHasher>>;

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
