//! Pages of data shards that are read together, each as it should be.
//!
//! 1. Those of which it is known what is right come from their members, or from K others where one of those writes. Those of
//!    which nothing is known come from their members, if these take part. A request asks for all rows of a shard.
//! 2. What is not right then is looked for page by page ([`super::right_page`]).
//! 3. No more memory is taken at once than [`Striping`] has for it, beside what is asked for.

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

/// Pages, with what is known of them.
type Told = Vec<(ShardPage, Expected)>;

/// Pages that are read in one way.
struct Together {
    rows: Extent,
    told: Told,
    /// What the shards with these pages hold in the rows.
    shards: BTreeMap<usize, Vec<u8>>,
}

impl Together {
    fn new(rows: Extent) -> Self {
        Self { rows, told: Told::new(), shards: BTreeMap::new() }
    }

    fn numbers(&self) -> BTreeSet<usize> {
        self.told.iter().map(|((number, _), _)| *number).collect()
    }

    /// What it takes of memory.
    fn bytes(&self) -> u64 {
        self.numbers().len() as u64 * self.rows.len
    }

    fn make_room(&mut self) {
        let len = self.rows.len as usize;
        self.shards = self.numbers().into_iter().map(|number| (number, vec![0; len])).collect();
    }

    /// Those pages that were read and are as they should be.
    fn right(self) -> ReadPages {
        let Self { rows, told, shards } = self;
        let right = |((number, offset), expected): (ShardPage, Expected)| {
            let at = (offset - rows.offset) as usize;
            let page: &[u8; PAGE] = shards.get(&number)?[at..at + PAGE].try_into().expect("a page");
            let is_newest = expected.is_what_comes(page) || is_planted(Bug::StripesTakeOlder);
            (expected.is_right(page) && is_newest).then_some(((number, offset), Ok(Found::Page(*page))))
        };
        told.into_iter().filter_map(right).collect()
    }
}

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
            Care::RightBytes | Care::Stored => self.read_together(striping, stripe, span, urgency).await,
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
        let rows = span.rows;
        let mut known = Together::new(rows);
        let (mut there, mut lacking) = (Together::new(rows), Together::new(rows));
        for (page, expected) in self.told_of(striping, stripe, &span.pages).await {
            let place = striping.stripes.place_of(Shard { stripe, number: page.0 });
            match expected.is_known() {
                true => known.told.push((page, expected)),
                false if self.is_idle(place) => there.told.push((page, expected)),
                false if !self.ring.members[place].is_in_sync() => lacking.told.push((page, expected)),
                // Who waits for its turn to end holds neither memory nor turns meanwhile.
                false => {}
            }
        }
        let bytes = known.bytes() + there.bytes() + lacking.bytes();
        let coming = (urgency == Urgency::Change).then(|| self.coming(striping));
        let memory = match urgency {
            Urgency::Change => &striping.change_spans,
            Urgency::Client | Urgency::Copy => &striping.copy_spans,
        };
        let _room = memory.take(bytes).await;
        let of_known = async {
            self.read_shards(striping, stripe, urgency, &mut known).await;
            drop(coming);
        };
        let of_unknown = join::both(
            self.read_members(striping, stripe, urgency, &mut there),
            self.read_shards(striping, stripe, urgency, &mut lacking),
        );
        join::both(of_known, of_unknown).await;
        [known, there, lacking].into_iter().flat_map(Together::right).collect()
    }

    /// Reads what these shards hold: from their members, or from K others where one of those writes or takes no part. None of
    /// them where a member could not read what it holds.
    async fn read_shards(&self, striping: &Striping, stripe: u64, urgency: Urgency, it: &mut Together) {
        let rows = it.rows;
        it.make_room();
        if it.shards.is_empty() {
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
            it.shards.iter_mut().map(|(&number, bytes)| (piece(number), &mut bytes[..])).collect();
        if !matches!(self.read_rows(striping, &mut parts, urgency).await, Ok(true)) {
            it.shards.clear();
        }
    }

    /// Reads what the members of these shards hold; nothing of one that has its turn by then, or cannot read it.
    async fn read_members(&self, striping: &Striping, stripe: u64, urgency: Urgency, it: &mut Together) {
        let rows = it.rows;
        it.make_room();
        let unread = RefCell::new(Vec::new());
        join::all(it.shards.iter_mut().map(|(&number, bytes)| {
            let (unread, place) = (&unread, striping.stripes.place_of(Shard { stripe, number }));
            async move {
                let _admitted = self.ring.admit(urgency, place).await;
                if !self.is_idle(place) || self.ring.read_from(place, rows.offset, bytes).await.is_err() {
                    unread.borrow_mut().push(number);
                }
            }
        }))
        .await;
        unread.into_inner().iter().for_each(|number| drop(it.shards.remove(number)));
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
