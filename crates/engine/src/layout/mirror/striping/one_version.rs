//! Whether the members hold one version of a row of which some pages are known, and others not.
//!
//! A page that was never written has no sum. Where a member has lost a write silently, what such a page is computed to be depends
//! on who is asked. Nobody needs it, but the others of its row are computed with it, once more members are lost.
//!
//! Rows of which nothing is known hold anything on each member, and nobody needs any of them: their first change makes them one
//! version.

use std::cell::RefCell;
use std::rc::Weak;

use super::super::Inner;
use super::Striping;
use crate::device::{Drive, Extent};
use crate::env::Env;
use crate::format::PAGE;
use crate::join;
use crate::layout::erasure::geometry::Shard;
use crate::planted::{Bug, is_planted};
use crate::ring::Urgency;

impl<E: Env, M: Drive> Inner<E, M> {
    /// Whether `bytes`, for the member at `place`, and what those in sync hold of these rows is one version. True where all data
    /// of a row is known, as its sums tell what is right, or none; and where too few are there to tell.
    pub(in crate::layout::mirror) async fn is_one_version(
        &self,
        striping: &Striping,
        place: usize,
        rows: Extent,
        bytes: &[u8],
    ) -> bool {
        // From no more than K others there is one way to compute it.
        let others = self.ring.places_in_sync().into_iter().filter(|&other| other != place).count();
        if others <= striping.stripes.data() || is_planted(Bug::StripesRebuiltApart) {
            return true;
        }
        let mut partly_known = Vec::new();
        for offset in (rows.offset..rows.end()).step_by(PAGE) {
            if self.is_partly_known(striping, offset).await {
                partly_known.push(offset);
            }
        }
        if partly_known.is_empty() {
            return true;
        }
        let others = self.rows_of_others(striping, place, rows).await;
        let there = || [(place, bytes)].into_iter().chain(others.iter().map(|(at, rows)| (*at, &rows[..])));
        partly_known.into_iter().all(|offset| {
            let at = (offset - rows.offset) as usize;
            let number =
                |place| striping.stripes.shard_on(striping.stripes.stripe_on_member(offset), place).number;
            let row: Vec<(usize, &[u8])> =
                there().map(|(place, bytes)| (number(place), &bytes[at..at + PAGE])).collect();
            is_one_row(striping, &row)
        })
    }

    /// Whether it is known of some data pages of a row what is right, and of others not.
    async fn is_partly_known(&self, striping: &Striping, offset: u64) -> bool {
        let Some(verifier) = self.verifier.borrow().as_ref().and_then(Weak::upgrade) else { return false };
        let (stripes, stripe) = (striping.stripes, striping.stripes.stripe_on_member(offset));
        let (mut is_any_needed, mut is_any_unknown) = (false, false);
        for number in 0..stripes.data() {
            let expected = verifier.expects(stripes.home_of(Shard { stripe, number }, offset)).await;
            // Of what cannot be told now it may be known later.
            is_any_needed |= expected.is_known() || expected.is_untold;
            is_any_unknown |= !expected.is_known();
        }
        is_any_needed && is_any_unknown
    }

    /// What all others that are in sync hold of these rows, with their places; nothing of one that cannot read them.
    async fn rows_of_others(&self, striping: &Striping, place: usize, rows: Extent) -> Vec<(usize, Vec<u8>)> {
        let found = RefCell::new(Vec::new());
        let others = self.ring.places_in_sync().into_iter().filter(|&other| other != place);
        join::all(others.map(|other| {
            let found = &found;
            async move {
                let mut bytes = vec![0; rows.len as usize];
                let admitted = self.admit_idle(striping, other, Urgency::Copy).await;
                let read = self.ring.read_from(other, rows.offset, &mut bytes).await;
                drop(admitted);
                if read.is_ok() {
                    found.borrow_mut().push((other, bytes));
                }
            }
        }))
        .await;
        found.into_inner()
    }
}

/// Whether these shards of a row, by their numbers, fit: what K of them make of the others is what those are.
fn is_one_row(striping: &Striping, row: &[(usize, &[u8])]) -> bool {
    let Some((present, others)) = row.split_at_checked(striping.stripes.data()) else { return true };
    let mut computed = vec![[0; PAGE]; others.len()];
    let mut missing: Vec<(usize, &mut [u8])> =
        others.iter().zip(&mut computed).map(|((number, _), into)| (*number, &mut into[..])).collect();
    let is_computed = striping.code.reconstruct(present, &mut missing).is_ok();
    is_computed && others.iter().zip(&computed).all(|((_, page), computed)| *page == computed)
}
