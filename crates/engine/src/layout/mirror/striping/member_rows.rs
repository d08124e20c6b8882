//! What a member that is made whole is to hold, from what others do.
//!
//! 1. Rows are read together, and computed together ([`super::span`]).
//! 2. Rows of which each data page is known to have no contents hold anything on each member: where no others are beside
//!    them it is given none. Their first change puts them on it whole, and makes them one version ([`super::rows`]).
//!    Of what the volume cannot tell it is given what is there.

use std::collections::BTreeSet;
use std::rc::Weak;

use super::super::Inner;
use super::Striping;
use super::right_page::{Care, Found};
use super::span::Span;
use crate::device::{Drive, Extent};
use crate::env::Env;
use crate::error::DeviceError;
use crate::format::PAGE;
use crate::layout::Verifier;
use crate::layout::erasure::geometry::Shard;
use crate::ring::Urgency;

impl<E: Env, M: Drive> Inner<E, M> {
    /// Whether a data page of any of these rows has contents, or may have.
    pub(in crate::layout::mirror) async fn is_any_row_needed(
        &self,
        striping: &Striping,
        rows: Extent,
        verifier: &dyn Verifier,
    ) -> bool {
        let stripes = striping.stripes;
        for offset in (rows.offset..rows.end()).step_by(PAGE) {
            let stripe = stripes.stripe_on_member(offset);
            for number in 0..stripes.data() {
                let home = stripes.home_of(Shard { stripe, number }, offset);
                if !verifier.expects(home).await.is_empty {
                    return true;
                }
            }
        }
        false
    }

    /// What the member at `place` is to hold in these rows of one stripe; answers where those begin in which it is made of what
    /// is wrong.
    pub(in crate::layout::mirror) async fn compute_member(
        &self,
        striping: &Striping,
        place: usize,
        rows: Extent,
        into: &mut [u8],
    ) -> Result<BTreeSet<u64>, DeviceError> {
        let stripes = striping.stripes;
        let Shard { stripe, number } = stripes.shard_on(stripes.stripe_on_member(rows.offset), place);
        let is_parity = number >= stripes.data();
        let numbers = if is_parity { 0..stripes.data() } else { number..number + 1 };
        let offsets = || (rows.offset..rows.end()).step_by(PAGE);
        let pages = numbers.clone().flat_map(|number| offsets().map(move |offset| (number, offset)));
        let span = Span { rows, numbers: numbers.clone().collect(), pages: pages.collect() };
        let care = (Care::Stored, Urgency::Copy);
        let mut shards = vec![vec![0; rows.len as usize]; numbers.len()];
        let mut wrong = BTreeSet::new();
        for ((of, offset), found) in self.read_span(striping, stripe, &span, care).await {
            let (page, is_wrong) = found?.page()?;
            shards[of - numbers.start][(offset - rows.offset) as usize..][..PAGE].copy_from_slice(&page);
            wrong.extend(is_wrong.then_some(offset));
        }
        if !is_parity {
            into.copy_from_slice(&shards[0]);
            return Ok(wrong);
        }
        let mut parity = vec![vec![0; rows.len as usize]; stripes.parity()];
        let inputs: Vec<&[u8]> = shards.iter().map(|shard| &shard[..]).collect();
        let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(|shard| &mut shard[..]).collect();
        self.encode(striping, &inputs, &mut outputs)?;
        into.copy_from_slice(&parity[number - stripes.data()]);
        Ok(wrong)
    }

    /// Pages of the data shards in this row that nobody has right any more, and that nobody is about to write anew.
    pub(in crate::layout::mirror) async fn damaged_pages(&self, striping: &Striping, offset: u64) -> u64 {
        let stripes = striping.stripes;
        let stripe = stripes.stripe_on_member(offset);
        let mut damaged = 0;
        for number in 0..stripes.data() {
            let shard = Shard { stripe, number };
            let found = self.right_page(striping, shard, offset, (Care::Stored, Urgency::Copy)).await;
            let Some(verifier) = self.verifier.borrow().as_ref().and_then(Weak::upgrade) else {
                return damaged;
            };
            let is_settled = verifier.expects(stripes.home_of(shard, offset)).await.is_settled;
            damaged += u64::from(is_settled && matches!(found, Ok(Found::Wrong(_))));
        }
        damaged
    }
}
