//! What a change needs of its rows: the data that it does not write, as it should be.
//!
//! 1. Pages are read together, as many of a stripe as pay for one request to each member ([`super::span`]).
//! 2. They come behind those of clients.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::super::Inner;
use super::Striping;
use super::right_page::{Care, Found};
use super::row_write::{RowWrite, ShardPage};
use super::span::{ReadPages, Span};
use crate::device::{Drive, Extent};
use crate::env::Env;
use crate::error::DeviceError;
use crate::format::{PAGE, PAGE_BYTES};
use crate::join;
use crate::layout::erasure::geometry::Shard;
use crate::planted::{Bug, is_planted};
use crate::ring::{MemberState, Urgency};

/// So many bytes that nobody needs are read rather than ask a drive once more: what a SATA SSD reads in the time that a request
/// takes beside its bytes.
const REQUEST_BYTES: u64 = 32 << 10;

/// No more is read at once of a member: clients wait behind that.
pub(in crate::layout::mirror) const SPAN_MAX_BYTES: u64 = 128 << 10;

/// What the data shards hold in the rows of a change, with what that writes.
pub(super) struct DataRows {
    /// The bytes of each, from the begin of the change's hull; between its runs, anything.
    pub(super) shards: Vec<Vec<u8>>,
    /// Pages of which something was wrong: parity is to be that of what is there.
    wrong: BTreeSet<ShardPage>,
    /// Whether the member of each is being rebuilt.
    is_rebuilt: Vec<bool>,
}

impl DataRows {
    /// Whether a page is written though nobody changes it.
    pub(super) fn is_put_again(&self, page: ShardPage) -> bool {
        self.is_rebuilt[page.0] || self.wrong.contains(&page)
    }
}

impl<E: Env, M: Drive> Inner<E, M> {
    /// What the data shards hold in the rows of a change, once it is there.
    pub(super) async fn data_rows(
        &self,
        striping: &Striping,
        change: &RowWrite<'_>,
        care: Care,
    ) -> Result<DataRows, DeviceError> {
        let (stripe, data) = (change.stripe, striping.stripes.data());
        // Rows that were never written are not the same whichever members they are computed from: what a member that is being
        // rebuilt holds of them, from that or from before, need not be what is computed now.
        let is_rebuilding = |number: usize| {
            let place = striping.stripes.place_of(Shard { stripe, number });
            matches!(self.ring.members[place].state.get(), MemberState::Rebuilding { .. })
                && !is_planted(Bug::StripesRebuiltElsewise)
        };
        let is_rebuilt: Vec<bool> = (0..data).map(is_rebuilding).collect();
        let found = RefCell::new(ReadPages::new());
        join::all(spans(change, data).iter().map(|span| async {
            let pages = self.read_span(striping, stripe, span, (care, Urgency::Change)).await;
            found.borrow_mut().extend(pages);
        }))
        .await;
        let hull = change.hull();
        let mut shards = vec![vec![0; hull.len as usize]; data];
        let mut wrong = BTreeSet::new();
        for ((number, offset), page) in found.into_inner() {
            let (is_wrong, right) = match page? {
                Found::Page(page) | Found::Wrong(page) => (false, page),
                Found::Instead(page) => (true, page),
                // Nobody needs what it held: from now on it holds something again.
                Found::NothingNeeded => (true, [0; PAGE]),
            };
            shards[number][(offset - hull.offset) as usize..][..PAGE].copy_from_slice(&right);
            wrong.extend(is_wrong.then_some((number, offset)));
        }
        for (number, shard) in shards.iter_mut().enumerate() {
            change.lay_over(number, shard);
        }
        Ok(DataRows { shards, wrong, is_rebuilt })
    }
}

/// What a change does not overwrite of its rows, in spans: two are one where that is no dearer than both.
fn spans(change: &RowWrite<'_>, data: usize) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for next in lacking(change, data) {
        match spans.last_mut().and_then(|last| Some((last.with(&next)?, last))) {
            Some((both, last)) => *last = both,
            None => spans.push(next),
        }
    }
    spans
}

/// What a change does not overwrite of its rows: those that follow one another and lack the same shards together.
fn lacking(change: &RowWrite<'_>, data: usize) -> Vec<Span> {
    let mut found: Vec<Span> = Vec::new();
    for offset in change.rows() {
        let numbers: BTreeSet<usize> =
            (0..data).filter(|&number| !change.overwrites((number, offset))).collect();
        let pages = numbers.iter().map(|&number| (number, offset));
        match found.last_mut() {
            _ if numbers.is_empty() => {}
            Some(last) if last.follows(offset, &numbers) => {
                last.rows.len += PAGE_BYTES;
                last.pages.extend(pages);
            }
            _ => {
                let (rows, pages) = (Extent::new(offset, PAGE_BYTES), pages.collect());
                found.push(Span { rows, numbers, pages });
            }
        }
    }
    found
}

impl Span {
    /// Whether the row there is the next one, and lacks the same.
    fn follows(&self, offset: u64, numbers: &BTreeSet<usize>) -> bool {
        self.rows.end() == offset && self.numbers == *numbers && self.rows.len < SPAN_MAX_BYTES
    }

    /// What it takes of the drives, told in bytes.
    fn cost(&self) -> u64 {
        self.numbers.len() as u64 * (REQUEST_BYTES + self.rows.len)
    }

    /// This one and one behind it as one, if that is no dearer.
    fn with(&self, next: &Self) -> Option<Self> {
        let rows = Extent::new(self.rows.offset, next.rows.end() - self.rows.offset);
        let numbers = &self.numbers | &next.numbers;
        let mut both = Self { rows, numbers, pages: Vec::new() };
        let is_cheaper = rows.len <= SPAN_MAX_BYTES && both.cost() <= self.cost() + next.cost();
        is_cheaper.then(|| {
            both.pages = self.pages.iter().chain(&next.pages).copied().collect();
            both
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::stripes::Stripes;
    use crate::layout::PlacedWrite;

    /// The spans of a change that writes these pages of a stripe of four shards of 16 pages, as rows, shards and pages lacking.
    fn spans_beside(written: &[(usize, u64)]) -> Vec<(u64, u64, Vec<usize>, usize)> {
        let stripes = Stripes::new(4, 2, 16 * PAGE_BYTES).expect("sound");
        let bytes = vec![7; PAGE];
        let place = |&(number, row): &(usize, u64)| (number as u64 * 16 + row) * PAGE_BYTES;
        let writes: Vec<PlacedWrite<'_>> =
            written.iter().map(|page| PlacedWrite { offset: place(page), parts: vec![&bytes] }).collect();
        let changes = RowWrite::all_of(&stripes, &writes);
        assert_eq!(changes.len(), 1);
        let told = |span: Span| {
            let rows = (span.rows.offset / PAGE_BYTES, span.rows.len / PAGE_BYTES);
            (rows.0, rows.1, Vec::from_iter(span.numbers), span.pages.len())
        };
        spans(&changes[0], 4).into_iter().map(told).collect()
    }

    #[test]
    fn pages_here_and_there_are_lacked_in_one_read_of_each_member() {
        assert_eq!(spans_beside(&[(0, 3)]), [(3, 1, vec![1, 2, 3], 3)]);
        assert_eq!(spans_beside(&[(0, 3), (1, 4), (2, 6)]), [(3, 4, vec![0, 1, 2, 3], 9)]);
    }

    #[test]
    fn what_lies_far_apart_is_read_apart() {
        assert_eq!(spans_beside(&[(0, 0), (0, 15)]), [(0, 1, vec![1, 2, 3], 3), (15, 1, vec![1, 2, 3], 3)]);
    }

    #[test]
    fn a_run_of_one_shard_is_not_read_of_another_for_a_page_of_that() {
        let written: Vec<(usize, u64)> =
            (0..16).flat_map(|row| [(0, row), (1, row), (2, row)]).skip(1).collect();
        assert_eq!(spans_beside(&written), [(0, 1, vec![0, 3], 2), (1, 15, vec![3], 15)]);
    }

    #[test]
    fn a_whole_stripe_lacks_nothing() {
        let written: Vec<(usize, u64)> =
            (0..4).flat_map(|number| (0..16).map(move |row| (number, row))).collect();
        assert_eq!(spans_beside(&written), []);
    }
}
