//! Writes as changes of stripes: those whose rows overlap are one change.
//!
//! 1. No two changes of one call are of the same rows: each is begun without waiting for another, and the parity of its rows is
//!    written once.
//! 2. Rows of which nothing is written belong to no change.

use crate::device::Extent;
use crate::format::stripes::Stripes;
use crate::layout::PlacedWrite;
use crate::layout::erasure::geometry::Piece;

/// What is new in some rows of a stripe.
pub(super) struct RowWrite<'a> {
    pub(super) stripe: u64,
    /// From the begin of the members' shards.
    pub(super) rows: Extent,
    /// Parts of data shards, and the writes that have their bytes.
    pieces: Vec<(Piece, &'a PlacedWrite<'a>)>,
}

impl<'a> RowWrite<'a> {
    /// Rows that are written once more as they are.
    pub(super) fn of_nothing(stripe: u64, rows: Extent) -> Self {
        Self { stripe, rows, pieces: Vec::new() }
    }

    /// The changes that these writes are.
    pub(super) fn all_of(stripes: &Stripes, writes: &'a [PlacedWrite<'a>]) -> Vec<Self> {
        let of = |write: &'a PlacedWrite<'a>| stripes.pieces(write.extent()).map(move |piece| (piece, write));
        let mut pieces: Vec<(Piece, &PlacedWrite<'_>)> = writes.iter().flat_map(of).collect();
        // A member's shards lie one after another: rows of two stripes do not overlap.
        pieces.sort_by_key(|(piece, _)| (piece.on_member.offset, piece.shard.number));
        let mut changes: Vec<Self> = Vec::new();
        for (piece, write) in pieces {
            match changes.last_mut().filter(|change| change.rows.overlaps(&piece.on_member)) {
                Some(change) => {
                    let end = change.rows.end().max(piece.on_member.end());
                    change.rows.len = end - change.rows.offset;
                    change.pieces.push((piece, write));
                }
                None => changes.push(Self {
                    stripe: piece.shard.stripe,
                    rows: piece.on_member,
                    pieces: vec![(piece, write)],
                }),
            }
        }
        changes
    }

    /// Whether all of `extent` of this data shard is written.
    pub(super) fn overwrites(&self, number: usize, extent: &Extent) -> bool {
        self.of_shard(number).any(|(piece, _)| piece.on_member.holds(extent))
    }

    /// The least rows of a data shard that hold all that is written of it.
    pub(super) fn written_rows(&self, number: usize) -> Option<Extent> {
        let first = self.of_shard(number).map(|(piece, _)| piece.on_member.offset).min()?;
        let end = self.of_shard(number).map(|(piece, _)| piece.on_member.end()).max()?;
        Some(Extent::new(first, end - first))
    }

    /// Puts what is written of a data shard over what it holds in these rows.
    pub(super) fn lay_over(&self, number: usize, row: &mut [u8]) {
        for (piece, write) in self.of_shard(number) {
            let at = (piece.on_member.offset - self.rows.offset) as usize;
            write.copy_from(piece.extent.offset, &mut row[at..at + piece.extent.len as usize]);
        }
    }

    fn of_shard(&self, number: usize) -> impl Iterator<Item = &(Piece, &'a PlacedWrite<'a>)> {
        self.pieces.iter().filter(move |(piece, _)| piece.shard.number == number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;
    use crate::format::{PAGE, PAGE_BYTES};

    /// Each data page that a change writes, by its offset on the member and its shard, with its bytes.
    fn written(stripes: &Stripes, changes: &[RowWrite<'_>]) -> BTreeMap<(u64, usize), Vec<u8>> {
        let mut written = BTreeMap::new();
        for change in changes {
            for number in 0..stripes.data() {
                let mut row = vec![0; change.rows.len as usize];
                change.lay_over(number, &mut row);
                for (page, offset) in row.chunks(PAGE).zip((change.rows.offset..).step_by(PAGE)) {
                    if change.overwrites(number, &Extent::new(offset, PAGE_BYTES)) {
                        assert!(written.insert((offset, number), page.to_vec()).is_none());
                    }
                }
            }
        }
        written
    }

    proptest! {
        #[test]
        fn every_page_is_in_one_change_and_no_two_changes_are_of_the_same_rows(
            pages in proptest::collection::btree_set(0..96u64, 1..40), data in 2..5usize,
        ) {
            let stripes = Stripes::new(data, 2, 4 * PAGE_BYTES).expect("sound");
            let bytes: Vec<Vec<u8>> = pages.iter().map(|&page| vec![page as u8 + 1; PAGE]).collect();
            let offsets = pages.iter().map(|page| page * PAGE_BYTES);
            let writes: Vec<PlacedWrite<'_>> =
                offsets.clone().zip(&bytes).map(|(offset, bytes)| PlacedWrite { offset, parts: vec![bytes] }).collect();
            let changes = RowWrite::all_of(&stripes, &writes);
            let mut expected = BTreeMap::new();
            for (offset, bytes) in offsets.zip(&bytes) {
                let piece = stripes.pieces(Extent::new(offset, PAGE_BYTES)).next().expect("a page");
                expected.insert((piece.on_member.offset, piece.shard.number), bytes.clone());
            }
            let rows: BTreeSet<u64> = expected.keys().map(|&(offset, _)| offset).collect();
            let of_changes = changes.iter().flat_map(|change| (change.rows.offset..change.rows.end()).step_by(PAGE));
            prop_assert_eq!(of_changes.collect::<Vec<_>>(), rows.into_iter().collect::<Vec<_>>());
            prop_assert_eq!(written(&stripes, &changes), expected);
        }
    }

    #[test]
    fn a_write_from_the_end_of_a_shard_to_the_begin_of_the_next_is_two_changes() {
        let stripes = Stripes::new(4, 2, 4 * PAGE_BYTES).expect("sound");
        let bytes = vec![7; 2 * PAGE];
        let (first, second) = bytes.split_at(100);
        let write = [PlacedWrite { offset: 3 * PAGE_BYTES, parts: vec![first, second] }];
        let changes = RowWrite::all_of(&stripes, &write);
        let rows = changes.iter().map(|change| change.rows).collect::<Vec<_>>();
        assert_eq!(rows, [Extent::new(0, PAGE_BYTES), Extent::new(3 * PAGE_BYTES, PAGE_BYTES)]);
        assert_eq!(written(&stripes, &changes).len(), 2);
    }

    #[test]
    fn what_a_shard_has_between_two_pages_is_written_again_and_rows_that_are_whole_need_nothing() {
        let stripes = Stripes::new(2, 1, 4 * PAGE_BYTES).expect("sound");
        let bytes = vec![7; 4 * PAGE];
        let write = |page: u64, pages: usize| PlacedWrite {
            offset: page * PAGE_BYTES,
            parts: vec![&bytes[..pages * PAGE]],
        };
        let writes = [write(0, 1), write(3, 1), write(4, 4)];
        let changes = RowWrite::all_of(&stripes, &writes);
        assert_eq!(changes.len(), 1);
        let all = Extent::new(0, 4 * PAGE_BYTES);
        assert_eq!((changes[0].written_rows(0), changes[0].written_rows(1)), (Some(all), Some(all)));
        assert!(!changes[0].overwrites(0, &Extent::new(PAGE_BYTES, PAGE_BYTES)));
        assert!(changes[0].overwrites(1, &all));
    }
}
