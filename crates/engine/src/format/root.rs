//! The sums by which the superblock vouches for the root.
//!
//! The root is cut into pieces of equally many pages, a power of two, as many as the superblock has room for. Each piece
//! has a sum of its own: so a part of the root that is damaged is found in one piece, and taken from another copy of the
//! root. The sum of a piece is that of its pages' sums: whoever changes a page sums this page anew, and no other.

use std::fmt;

use twox_hash::XxHash3_64;

use super::page_sum;

/// Pieces of a root, at most.
pub const ROOT_PIECES_MAX: usize = 384;

/// The sums of a root's pieces; zeros where there is none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RootSums([u64; ROOT_PIECES_MAX]);

impl RootSums {
    /// Of no root.
    pub const NONE: Self = Self([0; ROOT_PIECES_MAX]);

    /// Of a root whose pages have these sums.
    pub fn of(page_sums: &[u64]) -> Self {
        let mut sums = Self::NONE;
        for (sum, piece) in sums.0.iter_mut().zip(page_sums.chunks(piece_pages(page_sums.len()))) {
            *sum = piece_sum(piece);
        }
        sums
    }

    /// Whether the pages of the piece of this number, with these sums, are what they should be.
    pub fn is_right(&self, piece: usize, page_sums: &[u64]) -> bool {
        self.0.get(piece).is_some_and(|&sum| sum == piece_sum(page_sums))
    }

    /// As many words as the superblock keeps for them.
    pub(super) fn of_words(words: impl Iterator<Item = u64>) -> Self {
        let mut sums = Self::NONE;
        sums.0.iter_mut().zip(words).for_each(|(sum, word)| *sum = word);
        sums
    }

    pub(super) fn words(&self) -> impl Iterator<Item = u64> {
        self.0.into_iter()
    }
}

impl fmt::Debug for RootSums {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.0.iter().filter(|&&sum| sum != 0)).finish()
    }
}

/// Pages of a piece of a root of so many pages.
pub fn piece_pages(root_pages: usize) -> usize {
    root_pages.div_ceil(ROOT_PIECES_MAX).max(1).next_power_of_two()
}

fn piece_sum(page_sums: &[u64]) -> u64 {
    let bytes: Vec<u8> = page_sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
    page_sum(&bytes)
}

/// The sum of a whole root, taken piecewise, as version 1 of the format has it.
#[derive(Default)]
pub struct WholeSum(XxHash3_64);

impl WholeSum {
    /// Takes the next bytes.
    pub fn take(&mut self, bytes: &[u8]) {
        std::hash::Hasher::write(&mut self.0, bytes);
    }

    /// The sum of all that was taken.
    pub fn sum(&self) -> u64 {
        std::hash::Hasher::finish(&self.0).max(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_page_is_in_a_piece_and_a_wrong_one_is_found_in_its_own(
            root_pages in 1..3000usize, wrong in any::<proptest::sample::Index>(),
        ) {
            let pages = piece_pages(root_pages);
            prop_assert!(root_pages.div_ceil(pages) <= ROOT_PIECES_MAX);
            let mut page_sums: Vec<u64> = (1..).take(root_pages).collect();
            let sums = RootSums::of(&page_sums);
            let wrong = wrong.index(root_pages);
            page_sums[wrong] ^= 1 << 63;
            for (piece, page_sums) in page_sums.chunks(pages).enumerate() {
                prop_assert_eq!(sums.is_right(piece, page_sums), piece != wrong / pages);
            }
        }

        #[test]
        fn a_sum_taken_piecewise_is_that_of_the_whole(
            bytes in proptest::collection::vec(any::<u8>(), 0..9000), piece in 1..5000usize,
        ) {
            let mut sum = WholeSum::default();
            bytes.chunks(piece).for_each(|piece| sum.take(piece));
            prop_assert_eq!(sum.sum(), page_sum(&bytes));
        }
    }

    #[test]
    fn a_root_of_any_size_has_few_pieces() {
        for root_pages in [1, 384, 385, 12_288, usize::MAX / 4] {
            assert!(root_pages.div_ceil(piece_pages(root_pages)) <= ROOT_PIECES_MAX);
        }
        assert_eq!([1, 384, 385, 12_288].map(piece_pages), [1, 1, 2, 32]);
        assert!(!RootSums::NONE.is_right(ROOT_PIECES_MAX, &[]));
    }
}
