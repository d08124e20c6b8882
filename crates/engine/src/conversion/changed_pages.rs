//! Which pages of a volume changed: a bit for each, or for several of a large volume.
//!
//! 1. It takes no more than [`MARKS_MAX`] bits, however large the volume.
//! 2. A mark is taken off only by whoever copies its pages after that.

use crate::device::Extent;
use crate::format::PAGE_BYTES;

/// Marks of a volume, at most: 16 MiB of memory. A page each up to 512 GiB.
const MARKS_MAX: u64 = 1 << 27;

const WORD_BITS: u64 = 64;

/// The marks.
#[derive(Debug)]
pub(super) struct ChangedPages {
    size_bytes: u64,
    /// Bytes that one mark stands for.
    mark_bytes: u64,
    words: Vec<u64>,
    marked: u64,
}

impl ChangedPages {
    /// Of a volume of so many bytes: nothing is marked.
    pub(super) fn of(size_bytes: u64) -> Self {
        Self::with_marks(size_bytes, MARKS_MAX)
    }

    fn with_marks(size_bytes: u64, marks_max: u64) -> Self {
        let pages = size_bytes.div_ceil(PAGE_BYTES);
        let mark_bytes = PAGE_BYTES * pages.div_ceil(marks_max).next_power_of_two();
        let words = size_bytes.div_ceil(mark_bytes).div_ceil(WORD_BITS);
        Self { size_bytes, mark_bytes, words: vec![0; words as usize], marked: 0 }
    }

    /// Marks that are set.
    pub(super) fn marked(&self) -> u64 {
        self.marked
    }

    /// Marks every page that has a byte in `extent`; what lies beyond the end is of no account.
    pub(super) fn mark(&mut self, extent: Extent) {
        let Some((first, end)) = self.marks_of(extent) else { return };
        for mark in first..end {
            let bit = self.bit(mark);
            self.marked += u64::from(self.words[bit.0] & bit.1 == 0);
            self.words[bit.0] |= bit.1;
        }
    }

    /// Bytes that one mark stands for.
    pub(super) fn mark_bytes(&self) -> u64 {
        self.mark_bytes
    }

    /// Takes the marks off the pages of `extent`, but for one that stands for pages before it, too.
    pub(super) fn unmark(&mut self, extent: Extent) {
        let Some((_, end)) = self.marks_of(extent) else { return };
        let first = extent.offset.div_ceil(self.mark_bytes);
        for mark in first..end {
            let bit = self.bit(mark);
            self.marked -= u64::from(self.words[bit.0] & bit.1 != 0);
            self.words[bit.0] &= !bit.1;
        }
    }

    /// Takes the marks off the next marked pages from `offset` on, around the end, of `max_bytes` at most but one mark; `None`
    /// where none is.
    pub(super) fn take(&mut self, offset: u64, max_bytes: u64) -> Option<Extent> {
        if self.marked == 0 {
            return None;
        }
        let from = offset / self.mark_bytes;
        let first = self.next_from(from).or_else(|| self.next_from(0)).expect("one is marked");
        let most = (max_bytes / self.mark_bytes).max(1);
        let is_marked = |mark: u64| mark * self.mark_bytes < self.size_bytes && self.is_marked(mark);
        let end = (first + 1..first + most).find(|&mark| !is_marked(mark)).unwrap_or(first + most);
        let offset = first * self.mark_bytes;
        let extent = Extent::new(offset, (end * self.mark_bytes).min(self.size_bytes) - offset);
        self.unmark(extent);
        Some(extent)
    }

    fn is_marked(&self, mark: u64) -> bool {
        let bit = self.bit(mark);
        self.words[bit.0] & bit.1 != 0
    }

    /// The first mark from this one on.
    fn next_from(&self, mark: u64) -> Option<u64> {
        let (first, bits) = ((mark / WORD_BITS) as usize, mark % WORD_BITS);
        let words = self.words.iter().enumerate().skip(first);
        let mut left = words.map(|(at, &word)| (at, if at == first { word >> bits << bits } else { word }));
        left.find(|&(_, word)| word != 0)
            .map(|(at, word)| at as u64 * WORD_BITS + u64::from(word.trailing_zeros()))
    }

    fn bit(&self, mark: u64) -> (usize, u64) {
        ((mark / WORD_BITS) as usize, 1 << (mark % WORD_BITS))
    }

    fn marks_of(&self, extent: Extent) -> Option<(u64, u64)> {
        let within =
            extent.fits(u64::MAX).then_some(extent)?.intersection(&Extent::new(0, self.size_bytes))?;
        Some((within.offset / self.mark_bytes, within.end().div_ceil(self.mark_bytes)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_large_volume_takes_no_more_marks_than_there_may_be() {
        for pages in [1, 64, 65, MARKS_MAX, MARKS_MAX + 1, 5 * MARKS_MAX] {
            let mut changed = ChangedPages::of(pages * PAGE_BYTES);
            assert!(changed.words.len() as u64 * WORD_BITS <= MARKS_MAX.max(WORD_BITS));
            changed.mark(Extent::new((pages - 1) * PAGE_BYTES + 7, 1));
            let taken = changed.take(0, PAGE_BYTES).unwrap();
            assert!(taken.holds(&Extent::new((pages - 1) * PAGE_BYTES, PAGE_BYTES)), "{pages}: {taken:?}");
            assert_eq!((taken.end(), changed.marked()), (pages * PAGE_BYTES, 0));
        }
    }

    #[test]
    fn what_lies_beyond_the_end_or_overflows_marks_nothing_there() {
        let mut changed = ChangedPages::of(10 * PAGE_BYTES);
        changed.mark(Extent::new(10 * PAGE_BYTES, 1));
        changed.mark(Extent::new(u64::MAX, 2));
        changed.mark(Extent::new(0, 0));
        assert_eq!((changed.marked(), changed.take(0, 1 << 20)), (0, None));
        changed.mark(Extent::new(9 * PAGE_BYTES, u64::MAX - 9 * PAGE_BYTES));
        assert_eq!(changed.take(0, 1 << 20), Some(Extent::new(9 * PAGE_BYTES, PAGE_BYTES)));
    }

    /// A volume of which a mark stands for several pages: none is lost that was marked and not copied since, in whatever
    /// pieces it is copied.
    #[test]
    fn marks_of_several_pages_are_kept_until_all_of_them_are_copied() {
        let mut changed = ChangedPages::with_marks(64 * PAGE_BYTES, 8);
        assert_eq!(changed.mark_bytes(), 8 * PAGE_BYTES);
        changed.mark(Extent::new(5 * PAGE_BYTES, 1));
        changed.unmark(Extent::new(6 * PAGE_BYTES, 2 * PAGE_BYTES));
        assert_eq!(changed.marked(), 1, "page 5 is not in there");
        changed.unmark(Extent::new(0, 8 * PAGE_BYTES));
        assert_eq!(changed.marked(), 0);
    }

    proptest! {
        /// Whatever is marked, unmarked and taken, it is as with a set of pages.
        #[test]
        fn it_is_a_set_of_pages(steps in prop::collection::vec((0..3u8, 0..200u64, 1..40u64), 1..100)) {
            let mut changed = ChangedPages::of(200 * PAGE_BYTES);
            let mut set = BTreeSet::new();
            for (kind, page, pages) in steps {
                let extent = Extent::new(page * PAGE_BYTES, pages * PAGE_BYTES);
                match kind {
                    0 => {
                        changed.mark(extent);
                        set.extend((page..page + pages).filter(|&page| page < 200));
                    }
                    1 => {
                        changed.unmark(extent);
                        set.retain(|&it| it < page || it >= page + pages);
                    }
                    _ => {
                        let first = set.range(page..).next().or_else(|| set.first()).copied();
                        let expected = first.map(|first| {
                            let run = (first..first + pages).take_while(|page| set.contains(page)).count() as u64;
                            set.retain(|&page| page < first || page >= first + run);
                            Extent::new(first * PAGE_BYTES, run * PAGE_BYTES)
                        });
                        prop_assert_eq!(changed.take(page * PAGE_BYTES, pages * PAGE_BYTES), expected);
                    }
                }
                prop_assert_eq!(changed.marked(), set.len() as u64);
            }
        }
    }
}
