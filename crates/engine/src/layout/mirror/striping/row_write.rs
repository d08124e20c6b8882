//! Writes as changes of stripes: those of one stripe are one change.
//!
//! ```text
//!              shard 0  1  2  3  P  Q
//!     a row         x  .  .  .  x  x    \ a run: data is read where nothing is written,
//!                   .  .  x  .  x  x    / parity is written in each of its rows
//!                   .  .  .  .  .  .      between two runs nothing is read or written
//!                   .  x  .  .  x  x    another run of the same change
//! ```
//!
//! 1. No two changes of one call are of the same rows: each is begun without waiting for another.
//! 2. What a change writes of its stripe has room in one record of the stripe log, whatever shards it is of.

use std::collections::BTreeSet;

use crate::device::Extent;
use crate::format::stripe_record::{RANGES_MAX, ShardRange};
use crate::format::stripes::Stripes;
use crate::format::{PAGE, PAGE_BYTES};
use crate::layout::PlacedWrite;
use crate::layout::erasure::geometry::Piece;

/// A page of a data shard: which shard, and where it is, from the begin of the members' shards.
pub(super) type ShardPage = (usize, u64);

/// What is new in some rows of a stripe.
pub(super) struct RowWrite<'a> {
    pub(super) stripe: u64,
    /// Rows of which something is written, from the begin of the members' shards: whole pages, in order, with others between.
    runs: Vec<Extent>,
    /// Parts of data shards, and the writes that have their bytes.
    pieces: Vec<(Piece, &'a PlacedWrite<'a>)>,
    /// The pages that these are.
    written: BTreeSet<ShardPage>,
}

impl<'a> RowWrite<'a> {
    /// Rows that are written once more as they are.
    pub(super) fn of_nothing(stripe: u64, rows: Extent) -> Self {
        Self { stripe, runs: vec![rows], pieces: Vec::new(), written: BTreeSet::new() }
    }

    /// The changes that these writes of whole pages are.
    pub(super) fn all_of(stripes: &Stripes, writes: &'a [PlacedWrite<'a>]) -> Vec<Self> {
        let of = |write: &'a PlacedWrite<'a>| stripes.pieces(write.extent()).map(move |piece| (piece, write));
        let mut pieces: Vec<(Piece, &PlacedWrite<'_>)> = writes.iter().flat_map(of).collect();
        pieces.sort_by_key(|(piece, _)| (piece.on_member.offset, piece.shard.number));
        let mut changes: Vec<Self> = Vec::new();
        for (piece, write) in pieces {
            match changes.last_mut().filter(|change| change.has_room_for(stripes, &piece)) {
                Some(change) => change.add(piece, write),
                None => changes.push(Self::of_piece(piece, write)),
            }
        }
        changes
    }

    fn of_piece(piece: Piece, write: &'a PlacedWrite<'a>) -> Self {
        let mut change = Self {
            stripe: piece.shard.stripe,
            runs: Vec::new(),
            pieces: Vec::new(),
            written: BTreeSet::new(),
        };
        change.add(piece, write);
        change
    }

    /// Whether a piece that comes behind the others is of this change: of the same stripe, and with no more runs than have room
    /// in a record, a range of each shard for each of them.
    fn has_room_for(&self, stripes: &Stripes, piece: &Piece) -> bool {
        let is_more = self.runs.last().is_none_or(|last| last.end() < piece.on_member.offset);
        self.stripe == piece.shard.stripe && (!is_more || self.runs.len() < RANGES_MAX / stripes.members())
    }

    fn add(&mut self, piece: Piece, write: &'a PlacedWrite<'a>) {
        let rows = piece.on_member;
        debug_assert!((rows.offset | rows.len).is_multiple_of(PAGE_BYTES), "whole pages are written");
        match self.runs.last_mut().filter(|last| rows.offset <= last.end()) {
            Some(last) => last.len = last.end().max(rows.end()) - last.offset,
            None => self.runs.push(rows),
        }
        self.written.extend(pages_of(rows).map(|offset| (piece.shard.number, offset)));
        self.pieces.push((piece, write));
    }

    /// Rows of which something is written: in order, with others between.
    pub(super) fn runs(&self) -> &[Extent] {
        &self.runs
    }

    /// From the first of these rows to the last, those between with them.
    pub(super) fn hull(&self) -> Extent {
        let (first, last) = (self.runs[0].offset, self.runs[self.runs.len() - 1].end());
        Extent::new(first, last - first)
    }

    /// Its rows, each by its begin.
    pub(super) fn rows(&self) -> impl Iterator<Item = u64> {
        self.runs.iter().copied().flat_map(pages_of)
    }

    /// Whether this page is written.
    pub(super) fn overwrites(&self, page: ShardPage) -> bool {
        self.written.contains(&page)
    }

    /// Puts what is written of a data shard over what it holds, from the begin of [`Self::hull`].
    pub(super) fn lay_over(&self, number: usize, bytes: &mut [u8]) {
        let start = self.hull().offset;
        for (piece, write) in self.pieces.iter().filter(|(piece, _)| piece.shard.number == number) {
            let at = (piece.on_member.offset - start) as usize;
            write.copy_from(piece.extent.offset, &mut bytes[at..at + piece.extent.len as usize]);
        }
    }

    /// What changes of each shard: the data pages that are written, those of which `is_too` says so, and all parity of its rows.
    pub(super) fn ranges(&self, stripes: &Stripes, is_too: impl Fn(ShardPage) -> bool) -> Vec<ShardRange> {
        let shard_start = self.stripe * stripes.shard_bytes();
        let range =
            |number, rows: Extent| ShardRange { number, within: rows.offset - shard_start, len: rows.len };
        let mut data: Vec<ShardRange> = Vec::new();
        for number in 0..stripes.data() {
            for run in &self.runs {
                let changes = |&offset: &u64| self.overwrites((number, offset)) || is_too((number, offset));
                let pages = pages_of(*run).filter(changes);
                data.extend(joined(pages).into_iter().map(|rows| range(number, rows)));
            }
        }
        let parity_runs = stripes.parity() * self.runs.len();
        if data.len() + parity_runs > RANGES_MAX {
            // What lies between two of them in a run is put there once more as it is.
            data.clear();
            for number in 0..stripes.data() {
                data.extend(self.runs.iter().map(|run| range(number, *run)));
            }
        }
        let parity = stripes.data()..stripes.members();
        data.extend(parity.flat_map(|number| self.runs.iter().map(move |run| range(number, *run))));
        data
    }
}

/// The pages of these rows, each by its begin.
fn pages_of(rows: Extent) -> impl Iterator<Item = u64> {
    (rows.offset..rows.end()).step_by(PAGE)
}

/// Pages that follow one another, together.
fn joined(pages: impl Iterator<Item = u64>) -> Vec<Extent> {
    let mut joined: Vec<Extent> = Vec::new();
    for offset in pages {
        match joined.last_mut().filter(|last| last.end() == offset) {
            Some(last) => last.len += PAGE_BYTES,
            None => joined.push(Extent::new(offset, PAGE_BYTES)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    /// Each data page that changes write, with its bytes.
    fn written(stripes: &Stripes, changes: &[RowWrite<'_>]) -> BTreeMap<ShardPage, Vec<u8>> {
        let mut written = BTreeMap::new();
        for change in changes {
            let hull = change.hull();
            for number in 0..stripes.data() {
                let mut bytes = vec![0; hull.len as usize];
                change.lay_over(number, &mut bytes);
                for (page, offset) in bytes.chunks(PAGE).zip(pages_of(hull)) {
                    if change.overwrites((number, offset)) {
                        assert!(written.insert((number, offset), page.to_vec()).is_none());
                    }
                }
            }
        }
        written
    }

    /// The pages of ranges of a change.
    fn pages_of_ranges(
        stripes: &Stripes,
        change: &RowWrite<'_>,
        ranges: &[ShardRange],
    ) -> BTreeSet<ShardPage> {
        let start = change.stripe * stripes.shard_bytes();
        let pages = |range: &ShardRange| pages_of(Extent::new(start + range.within, range.len));
        let all: Vec<ShardPage> =
            ranges.iter().flat_map(|range| pages(range).map(|at| (range.number, at))).collect();
        let pages: BTreeSet<ShardPage> = all.iter().copied().collect();
        assert_eq!(pages.len(), all.len(), "no page is in two ranges");
        pages
    }

    proptest! {
        #[test]
        fn every_page_is_in_one_change_with_the_parity_of_its_row_and_none_between_the_rows_of_another(
            pages in proptest::collection::btree_set(0..960u64, 1..60), data in 2..29usize,
            wrong in 0..8u64, shard_pages in 2..6u32,
        ) {
            let stripes = Stripes::new(data, 2, PAGE_BYTES << shard_pages).expect("sound");
            let bytes: Vec<Vec<u8>> = pages.iter().map(|&page| vec![page as u8; PAGE]).collect();
            let offsets = pages.iter().map(|page| page * PAGE_BYTES);
            let writes: Vec<PlacedWrite<'_>> =
                offsets.clone().zip(&bytes).map(|(offset, bytes)| PlacedWrite { offset, parts: vec![bytes] }).collect();
            let changes = RowWrite::all_of(&stripes, &writes);
            let mut expected = BTreeMap::new();
            for (offset, bytes) in offsets.zip(&bytes) {
                let piece = stripes.pieces(Extent::new(offset, PAGE_BYTES)).next().expect("a page");
                expected.insert((piece.shard.number, piece.on_member.offset), bytes.clone());
            }
            prop_assert_eq!(written(&stripes, &changes), expected.clone());
            let rows: BTreeSet<u64> = expected.keys().map(|&(_, offset)| offset).collect();
            prop_assert_eq!(changes.iter().flat_map(RowWrite::rows).collect::<Vec<_>>(), Vec::from_iter(rows));
            for pair in changes.windows(2) {
                prop_assert!(pair[0].hull().end() <= pair[1].hull().offset);
            }
            // Now and then another page is put there again.
            let is_wrong = |(number, offset): ShardPage| wrong > 0 && (offset / PAGE_BYTES + number as u64).is_multiple_of(wrong);
            for change in &changes {
                prop_assert_eq!(stripes.stripe_on_member(change.hull().end() - 1), change.stripe);
                let ranges = change.ranges(&stripes, is_wrong);
                prop_assert!(ranges.len() <= RANGES_MAX);
                let changed = pages_of_ranges(&stripes, change, &ranges);
                for offset in change.rows() {
                    for number in 0..stripes.members() {
                        let page = (number, offset);
                        let is_needed = number >= data || expected.contains_key(&page) || is_wrong(page);
                        prop_assert!(!is_needed || changed.contains(&page), "{page:?}");
                    }
                }
                let rows: BTreeSet<u64> = change.rows().collect();
                prop_assert!(changed.iter().all(|(_, offset)| rows.contains(offset)));
                let is_joined = ranges.len() == change.runs().len() * stripes.members();
                let is_needed = |&(number, offset): &ShardPage| {
                    number >= data || expected.contains_key(&(number, offset)) || is_wrong((number, offset))
                };
                prop_assert!(is_joined || changed.iter().all(is_needed), "no more than that is written");
            }
        }
    }

    #[test]
    fn a_write_from_the_end_of_a_shard_to_the_begin_of_the_next_is_two_runs_of_one_change() {
        let stripes = Stripes::new(4, 2, 4 * PAGE_BYTES).expect("sound");
        let bytes = vec![7; 2 * PAGE];
        let (first, second) = bytes.split_at(100);
        let write = [PlacedWrite { offset: 3 * PAGE_BYTES, parts: vec![first, second] }];
        let changes = RowWrite::all_of(&stripes, &write);
        assert_eq!(changes.len(), 1);
        let runs = [Extent::new(0, PAGE_BYTES), Extent::new(3 * PAGE_BYTES, PAGE_BYTES)];
        assert_eq!(changes[0].runs(), runs);
        assert_eq!(written(&stripes, &changes).len(), 2);
    }

    #[test]
    fn rows_of_two_stripes_are_two_changes_though_they_lie_together_on_the_members() {
        let stripes = Stripes::new(2, 1, 4 * PAGE_BYTES).expect("sound");
        let bytes = vec![7; 8 * PAGE];
        let write = [PlacedWrite { offset: 4 * PAGE_BYTES, parts: vec![&bytes] }];
        let changes = RowWrite::all_of(&stripes, &write);
        let of = |change: &RowWrite<'_>| (change.stripe, change.hull());
        let expected =
            [(0, Extent::new(0, 4 * PAGE_BYTES)), (1, Extent::new(4 * PAGE_BYTES, 4 * PAGE_BYTES))];
        assert_eq!(changes.iter().map(of).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_lies_between_two_pages_of_a_shard_is_not_written() {
        let stripes = Stripes::new(2, 1, 4 * PAGE_BYTES).expect("sound");
        let bytes = vec![7; 4 * PAGE];
        let write = |page: u64, pages: usize| PlacedWrite {
            offset: page * PAGE_BYTES,
            parts: vec![&bytes[..pages * PAGE]],
        };
        let writes = [write(0, 1), write(3, 1), write(4, 4)];
        let changes = RowWrite::all_of(&stripes, &writes);
        assert_eq!(changes.len(), 1);
        let range = |number, page: u64, pages: u64| ShardRange {
            number,
            within: page * PAGE_BYTES,
            len: pages * PAGE_BYTES,
        };
        let ranges = changes[0].ranges(&stripes, |_| false);
        assert_eq!(ranges, [range(0, 0, 1), range(0, 3, 1), range(1, 0, 4), range(2, 0, 4)]);
        let ranges = changes[0].ranges(&stripes, |page| page == (0, PAGE_BYTES));
        assert_eq!(ranges[..2], [range(0, 0, 2), range(0, 3, 1)]);
    }
}
