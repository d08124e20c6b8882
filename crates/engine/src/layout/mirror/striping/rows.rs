//! What a change needs of its rows: the data that it does not write, as it should be.
//!
//! 1. Rows whose sums are known are read once, from their members or from K others where one of those writes. Only what is not
//!    right then, or not known to be, is looked for page by page ([`super::right_page`]).
//! 2. Nobody waits for these reads: they come behind those of clients.

use std::cell::RefCell;
use std::rc::Weak;

use super::super::Inner;
use super::Striping;
use super::right_page::{Care, Found};
use super::row_write::RowWrite;
use crate::device::{Drive, Extent};
use crate::env::Env;
use crate::error::DeviceError;
use crate::format::{PAGE, PAGE_BYTES};
use crate::join;
use crate::layout::Expected;
use crate::layout::erasure::geometry::{Piece, Shard};
use crate::planted::{Bug, is_planted};
use crate::ring::{MemberState, Urgency};

/// The data shards' part in some rows, with what changes.
pub(super) struct DataRows {
    pub(super) rows: Vec<Vec<u8>>,
    /// Shards of which something was wrong that nobody writes now, or whose member is being rebuilt: parity is to be that of
    /// what is there.
    pub(super) is_harmed: Vec<bool>,
}

/// Rows of which a change lacks the same data shards.
struct Lacking {
    rows: Extent,
    numbers: Vec<usize>,
}

/// A page that was read: its shard, and its offset on the member.
type ReadPage = (usize, u64, Result<Found, DeviceError>);

impl<E: Env, M: Drive> Inner<E, M> {
    /// What the data shards hold in the rows of a change, once it is there.
    pub(super) async fn data_rows(
        &self,
        striping: &Striping,
        change: &RowWrite<'_>,
        care: Care,
    ) -> Result<DataRows, DeviceError> {
        let stripe = change.stripe;
        // Rows that were never written are not the same whichever members they are computed from: what a rebuild brought to a
        // member need not be what is computed now.
        let is_rebuilding = |number: usize| {
            let place = striping.stripes.place_of(Shard { stripe, number });
            matches!(self.ring.members[place].state.get(), MemberState::Rebuilding { .. })
                && !is_planted(Bug::StripesRebuiltElsewise)
        };
        let rebuilt: Vec<bool> = (0..striping.stripes.data()).map(is_rebuilding).collect();
        let found = RefCell::new(Vec::new());
        let lacking = lacking(change, striping.stripes.data());
        join::all(lacking.iter().map(|lacking| async {
            let pages = self.read_lacking(striping, change.stripe, lacking, care).await;
            found.borrow_mut().extend(pages);
        }))
        .await;
        let mut data = DataRows {
            rows: vec![vec![0; change.rows.len as usize]; striping.stripes.data()],
            is_harmed: rebuilt,
        };
        for (number, offset, page) in found.into_inner() {
            let (is_wrong, right) = match page? {
                Found::Page(page) => (false, page),
                Found::Instead(page) => (true, page),
                // Nobody needs what it held: from now on it holds something again.
                Found::NothingNeeded => (true, [0; PAGE]),
            };
            data.rows[number][(offset - change.rows.offset) as usize..][..PAGE].copy_from_slice(&right);
            data.is_harmed[number] |= is_wrong;
        }
        for (number, row) in data.rows.iter_mut().enumerate() {
            change.lay_over(number, row);
        }
        Ok(data)
    }

    async fn read_lacking(
        &self,
        striping: &Striping,
        stripe: u64,
        lacking: &Lacking,
        care: Care,
    ) -> Vec<ReadPage> {
        let offsets = || (lacking.rows.offset..lacking.rows.end()).step_by(PAGE);
        let pages = || lacking.numbers.iter().flat_map(|&number| offsets().map(move |at| (number, at)));
        let mut found = match care {
            Care::RightBytes => self.read_known(striping, stripe, lacking).await,
            Care::EachMember => Vec::new(),
        };
        let is_left =
            |&(number, at): &(usize, u64)| !found.iter().any(|&(one, other, _)| (one, other) == (number, at));
        let left: Vec<(usize, u64)> = pages().filter(is_left).collect();
        let looked_for = RefCell::new(Vec::with_capacity(left.len()));
        join::all(left.into_iter().map(|(number, offset)| {
            let looked_for = &looked_for;
            async move {
                let page = self
                    .right_page(striping, Shard { stripe, number }, offset, (care, Urgency::Change))
                    .await;
                looked_for.borrow_mut().push((number, offset, page));
            }
        }))
        .await;
        found.extend(looked_for.into_inner());
        found
    }

    /// Those pages of what is lacking that are right as they are read together; none where it is not known what is right.
    async fn read_known(&self, striping: &Striping, stripe: u64, lacking: &Lacking) -> Vec<ReadPage> {
        let rows = lacking.rows;
        let Some(verifier) = self.verifier.borrow().as_ref().and_then(Weak::upgrade) else {
            return Vec::new();
        };
        if is_planted(Bug::StripesUnchecked) {
            return Vec::new();
        }
        let piece = |number: usize| {
            let shard = Shard { stripe, number };
            let home = striping.stripes.home_of(shard, rows.offset);
            Piece {
                extent: Extent::new(home, rows.len),
                shard,
                place: striping.stripes.place_of(shard),
                on_member: rows,
            }
        };
        let pieces: Vec<Piece> = lacking.numbers.iter().map(|&number| piece(number)).collect();
        let mut expected: Vec<Expected> = Vec::new();
        for piece in &pieces {
            for home in (piece.extent.offset..piece.extent.end()).step_by(PAGE) {
                expected.push(verifier.expects(home).await);
            }
        }
        if !expected.iter().all(Expected::is_known) {
            return Vec::new();
        }
        drop(verifier);
        let mut bytes = vec![vec![0; rows.len as usize]; pieces.len()];
        let mut parts: Vec<(Piece, &mut [u8])> =
            pieces.iter().copied().zip(bytes.iter_mut().map(Vec::as_mut_slice)).collect();
        if !matches!(self.read_rows(striping, &mut parts, Urgency::Change).await, Ok(true)) {
            return Vec::new();
        }
        let pages = pieces.iter().zip(&bytes).flat_map(|(piece, bytes)| {
            let offsets = (rows.offset..).step_by(PAGE);
            bytes.chunks_exact(PAGE).zip(offsets).map(|(page, offset)| (piece.shard.number, offset, page))
        });
        let is_right = |expected: &Expected, page: &[u8]| {
            let is_newest = expected.is_what_comes(page) || is_planted(Bug::StripesTakeOlder);
            expected.is_right(page) && is_newest
        };
        let right = pages.zip(&expected).filter(|((_, _, page), expected)| is_right(expected, page));
        let found = |((number, offset, page), _): ((usize, u64, &[u8]), _)| {
            (number, offset, Ok(Found::Page(page.try_into().expect("a page"))))
        };
        right.map(found).collect()
    }
}

/// What a change does not overwrite of its rows, in as few pieces as that has.
fn lacking(change: &RowWrite<'_>, data: usize) -> Vec<Lacking> {
    let mut found: Vec<Lacking> = Vec::new();
    for offset in (change.rows.offset..change.rows.end()).step_by(PAGE) {
        let page = Extent::new(offset, PAGE_BYTES);
        let numbers: Vec<usize> = (0..data).filter(|&number| !change.overwrites(number, &page)).collect();
        match found.last_mut() {
            _ if numbers.is_empty() => {}
            Some(last) if last.rows.end() == offset && last.numbers == numbers => last.rows.len += PAGE_BYTES,
            _ => found.push(Lacking { rows: page, numbers }),
        }
    }
    found
}
