//! Which bytes of a page are meant: a sorted list of ranges that neither touch nor overlap.

use smallvec::SmallVec;

use crate::format::PAGE;

/// Byte ranges within one page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PageRanges {
    ranges: SmallVec<[(u16, u16); 4]>,
}

impl PageRanges {
    /// Every byte of the page.
    pub(crate) fn full() -> Self {
        Self { ranges: SmallVec::from_slice(&[(0, PAGE as u16)]) }
    }

    /// Whether it holds every byte of the page.
    pub(crate) fn is_full(&self) -> bool {
        self.ranges[..] == [(0, PAGE as u16)]
    }

    /// Holds nothing any more.
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Whether every byte from `start` to before `end` is held.
    pub(crate) fn holds(&self, start: usize, end: usize) -> bool {
        self.overlapping(start, end).next().is_some_and(|held| held.0 <= start && end <= held.1)
    }

    /// The ranges that it holds and that share a byte with those from `start` to before `end`, ascending.
    pub(crate) fn overlapping(&self, start: usize, end: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let first = self.ranges.partition_point(|&(_, range_end)| usize::from(range_end) <= start);
        let before_end = move |&&(range_start, _): &&(u16, u16)| usize::from(range_start) < end;
        let met = self.ranges[first..].iter().take_while(before_end);
        met.map(|&(start, end)| (start.into(), end.into()))
    }

    /// Adds the bytes from `start` to before `end`.
    pub(crate) fn insert(&mut self, start: u16, end: u16) {
        if self.is_full() {
            return;
        }
        let first = self.ranges.partition_point(|&(_, range_end)| range_end < start);
        let last = self.ranges.partition_point(|&(range_start, _)| range_start <= end);
        let mut merged = (start, end);
        if let Some(&[(low, _), ..]) = self.ranges.get(first..last) {
            merged.0 = merged.0.min(low);
        }
        if let Some(&[.., (_, high)]) = self.ranges.get(first..last) {
            merged.1 = merged.1.max(high);
        }
        if first == last {
            self.ranges.insert(first, merged);
        } else {
            self.ranges[first] = merged;
            self.ranges.drain(first + 1..last);
        }
    }

    /// The ranges that it holds, ascending.
    pub(crate) fn held(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.ranges.iter().map(|&(start, end)| (start.into(), end.into()))
    }

    /// The ranges that it does not hold, ascending.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let starts = std::iter::once(0).chain(self.ranges.iter().map(|&(_, end)| end));
        let ends = self.ranges.iter().map(|&(start, _)| start).chain([PAGE as u16]);
        starts.zip(ends).filter(|(start, end)| start < end).map(|(start, end)| (start.into(), end.into()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_holds_exactly_what_was_inserted(inserted in proptest::collection::vec((0..4096u16, 1..300u16), 0..40)) {
            let (mut ranges, mut model) = (PageRanges::default(), vec![false; PAGE]);
            for (start, len) in inserted {
                let end = (start + len).min(PAGE as u16);
                ranges.insert(start, end);
                model[start.into()..end.into()].fill(true);
            }
            let mut gaps = vec![true; PAGE];
            for (start, end) in ranges.gaps() {
                gaps[start..end].fill(false);
            }
            prop_assert_eq!(&gaps, &model);
            prop_assert_eq!(ranges.is_full(), model.iter().all(|&held| held));
            prop_assert!(ranges.ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }
}
