//! Whether the members hold one version of a row of which a page is not known.
//!
//! A page that was never written has no sum. Where a member has lost a write silently, what such a page is computed to be depends
//! on who is asked. Nobody needs it, but the others of its row are computed with it, once more members are lost.

use std::rc::Weak;

use super::super::Inner;
use super::Striping;
use crate::device::{Drive, Extent};
use crate::env::Env;
use crate::format::{PAGE, PAGE_BYTES};
use crate::layout::erasure::geometry::Shard;
use crate::planted::{Bug, is_planted};
use crate::ring::Urgency;

impl<E: Env, M: Drive> Inner<E, M> {
    /// Whether `bytes`, for the member at `place`, and what those in sync hold of these rows is one version. True where all data
    /// of a row is known, as its sums tell what is right, and where too few are there to tell.
    pub(in crate::layout::mirror) async fn is_one_version(
        &self,
        striping: &Striping,
        place: usize,
        rows: Extent,
        bytes: &[u8],
    ) -> bool {
        if is_planted(Bug::StripesRebuiltApart) {
            return true;
        }
        for (page, offset) in bytes.chunks_exact(PAGE).zip((rows.offset..).step_by(PAGE)) {
            if !self.is_known_row(striping, offset).await
                && !self.is_one_row(striping, place, offset, page).await
            {
                return false;
            }
        }
        true
    }

    /// Whether it is known of all data pages of a row what is right.
    async fn is_known_row(&self, striping: &Striping, offset: u64) -> bool {
        let Some(verifier) = self.verifier.borrow().as_ref().and_then(Weak::upgrade) else { return true };
        let (stripes, stripe) = (striping.stripes, striping.stripes.stripe_on_member(offset));
        for number in 0..stripes.data() {
            if !verifier.expects(stripes.home_of(Shard { stripe, number }, offset)).await.is_known() {
                return false;
            }
        }
        true
    }

    async fn is_one_row(&self, striping: &Striping, place: usize, offset: u64, own: &[u8]) -> bool {
        let (stripes, stripe) = (striping.stripes, striping.stripes.stripe_on_member(offset));
        let mut there: Vec<(usize, Vec<u8>)> = vec![(stripes.shard_on(stripe, place).number, own.to_vec())];
        for other in self.ring.places_in_sync().into_iter().filter(|&other| other != place) {
            let mut page = vec![0; PAGE];
            let admitted = self.admit_idle(striping, other, Urgency::Copy).await;
            let read = self.ring.read_from(other, offset, &mut page).await;
            drop(admitted);
            if read.is_ok() {
                there.push((stripes.shard_on(stripe, other).number, page));
            }
        }
        if there.len() <= stripes.data() {
            return true;
        }
        let (present, others) = there.split_at(stripes.data());
        let present: Vec<(usize, &[u8])> =
            present.iter().map(|(number, page)| (*number, &page[..])).collect();
        let mut computed: Vec<Vec<u8>> = vec![vec![0; PAGE_BYTES as usize]; others.len()];
        let mut missing: Vec<(usize, &mut [u8])> =
            others.iter().zip(&mut computed).map(|((number, _), into)| (*number, &mut into[..])).collect();
        let is_computed = striping.code.reconstruct(&present, &mut missing).is_ok();
        is_computed && others.iter().zip(&computed).all(|((_, page), computed)| page == computed)
    }
}
