//! Pages of data shards that are read together, each as it should be.
//!
//! 1. Those of which it is known what is right come from their members, or from K others where one of those writes. Those of
//!    which nothing is known come from their members. One request asks a member for all of its rows.
//! 2. What is not right then is looked for page by page ([`super::right_page`]).
//! 3. No more memory is taken at once than [`super::SPANS_MAX_BYTES`], beside what is asked for.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Weak;

use super::super::Inner;
use super::Striping;
use super::right_page::{Care, Found};
use super::row_write::ShardPage;
use crate::device::{Drive, Extent};
use crate::env::Env;
use crate::error::DeviceError;
use crate::format::PAGE;
use crate::join;
use crate::layout::Expected;
use crate::layout::erasure::geometry::{Piece, Shard};
use crate::planted::{Bug, is_planted};
use crate::ring::Urgency;

/// Rows of some data shards of a stripe that are read together for the pages in them that somebody lacks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) rows: Extent,
    pub(super) numbers: BTreeSet<usize>,
    pub(super) pages: Vec<ShardPage>,
}

/// Pages that were read, or why not.
pub(super) type ReadPages = BTreeMap<ShardPage, Result<Found, DeviceError>>;

/// The same rows of some data shards.
type ShardRows = BTreeMap<usize, Vec<u8>>;

/// Pages, with what is known of them.
type Told = Vec<(ShardPage, Expected)>;

impl<E: Env, M: Drive> Inner<E, M> {
    /// The pages of a span.
    pub(super) async fn read_span(
        &self,
        striping: &Striping,
        stripe: u64,
        span: &Span,
        (care, urgency): (Care, Urgency),
    ) -> ReadPages {
        let mut found = match care {
            Care::RightBytes => self.read_together(striping, stripe, span, urgency).await,
            Care::EachMember => ReadPages::new(),
        };
        let left: Vec<ShardPage> =
            span.pages.iter().copied().filter(|page| !found.contains_key(page)).collect();
        let looked_for = RefCell::new(ReadPages::new());
        join::all(left.into_iter().map(|(number, offset)| {
            let looked_for = &looked_for;
            async move {
                let shard = Shard { stripe, number };
                let page = self.right_page(striping, shard, offset, (care, urgency)).await;
                looked_for.borrow_mut().insert((number, offset), page);
            }
        }))
        .await;
        found.append(&mut looked_for.into_inner());
        found
    }

    /// Those pages of a span that are as they should be when they are read together.
    async fn read_together(
        &self,
        striping: &Striping,
        stripe: u64,
        span: &Span,
        urgency: Urgency,
    ) -> ReadPages {
        let told = self.told_of(striping, stripe, &span.pages).await;
        let (known, unknown): (Told, Told) = told.into_iter().partition(|(_, expected)| expected.is_known());
        let numbers_of =
            |told: &Told| told.iter().map(|((number, _), _)| *number).collect::<BTreeSet<usize>>();
        let (of_known, of_unknown) = (numbers_of(&known), numbers_of(&unknown));
        let _coming = (urgency == Urgency::Change).then(|| self.coming(striping));
        let rows = span.rows;
        let _memory = striping.span_memory((of_known.len() + of_unknown.len()) as u64 * rows.len).await;
        let room_for = |numbers: BTreeSet<usize>| -> ShardRows {
            numbers.into_iter().map(|number| (number, vec![0; rows.len as usize])).collect()
        };
        let (mut of_known, mut of_unknown) = (room_for(of_known), room_for(of_unknown));
        join::both(
            self.read_shards(striping, stripe, rows, urgency, &mut of_known),
            self.read_members(striping, stripe, rows, urgency, &mut of_unknown),
        )
        .await;
        let mut found = ReadPages::new();
        for (told, bytes) in [(known, of_known), (unknown, of_unknown)] {
            for ((number, offset), expected) in told {
                let Some(bytes) = bytes.get(&number) else { continue };
                let at = (offset - rows.offset) as usize;
                let page: &[u8; PAGE] = bytes[at..at + PAGE].try_into().expect("a page");
                let is_newest = expected.is_what_comes(page) || is_planted(Bug::StripesTakeOlder);
                if expected.is_right(page) && is_newest {
                    found.insert((number, offset), Ok(Found::Page(*page)));
                }
            }
        }
        found
    }

    /// Fills these shards' rows from their members, or from K others where one of those writes; none of them where a member
    /// could not read what it holds.
    async fn read_shards(
        &self,
        striping: &Striping,
        stripe: u64,
        rows: Extent,
        urgency: Urgency,
        bytes: &mut ShardRows,
    ) {
        if bytes.is_empty() {
            return;
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
        let mut parts: Vec<(Piece, &mut [u8])> =
            bytes.iter_mut().map(|(&number, bytes)| (piece(number), &mut bytes[..])).collect();
        if !matches!(self.read_rows(striping, &mut parts, urgency).await, Ok(true)) {
            bytes.clear();
        }
    }

    /// Fills these shards' rows from their members, in nobody's way; none of one that is not in sync, or cannot read them.
    async fn read_members(
        &self,
        striping: &Striping,
        stripe: u64,
        rows: Extent,
        urgency: Urgency,
        bytes: &mut ShardRows,
    ) {
        let unread = RefCell::new(Vec::new());
        join::all(bytes.iter_mut().map(|(&number, bytes)| {
            let (unread, place) = (&unread, striping.stripes.place_of(Shard { stripe, number }));
            async move {
                let admitted = self.admit_idle(striping, place, urgency).await;
                if self.ring.read_from(place, rows.offset, bytes).await.is_err() {
                    unread.borrow_mut().push(number);
                }
                drop(admitted);
            }
        }))
        .await;
        unread.into_inner().iter().for_each(|number| drop(bytes.remove(number)));
    }

    /// What is known of these pages.
    async fn told_of(&self, striping: &Striping, stripe: u64, pages: &[ShardPage]) -> Told {
        let verifier = self.verifier.borrow().as_ref().and_then(Weak::upgrade);
        let verifier = verifier.filter(|_| !is_planted(Bug::StripesUnchecked));
        let mut told = Told::with_capacity(pages.len());
        for &(number, offset) in pages {
            let home = striping.stripes.home_of(Shard { stripe, number }, offset);
            told.push((
                (number, offset),
                match &verifier {
                    Some(verifier) => verifier.expects(home).await,
                    None => Expected::NOTHING,
                },
            ));
        }
        told
    }
}
