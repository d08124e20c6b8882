//! Which bytes of a page are right, of those that can be read: what parity and rebuilt members are made of.

use std::cell::{Cell, RefCell};
use std::rc::Weak;

use super::super::Inner;
use super::Striping;
use super::read::From;
use crate::device::{Drive, Extent};
use crate::env::Env;
use crate::error::DeviceError;
use crate::format::{PAGE, PAGE_BYTES};
use crate::join;
use crate::layout::Expected;
use crate::layout::erasure::geometry::Shard;
use crate::planted::{Bug, is_planted};
use crate::ring::{EIO, Urgency};

/// How closely a page is looked at that is read for others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Care {
    /// Right bytes are enough, from whoever is not busy.
    RightBytes,
    /// Its member is to hold them too: it is looked at, when it is in nobody's way.
    EachMember,
}

/// What a page of a data shard holds.
pub(super) enum Found {
    /// These bytes.
    Page([u8; PAGE]),
    /// These, and its member is to be given them.
    Instead([u8; PAGE]),
    /// These, and what is known of them says that they are wrong: nobody has right ones.
    Wrong([u8; PAGE]),
    /// Nobody can read it, and it is not known that anybody needs it.
    NothingNeeded,
}

const UNKNOWN: DeviceError = DeviceError { doing: "read what a stripe holds", errno: EIO };

impl Found {
    /// The bytes, and whether they are wrong.
    fn page(self) -> Result<([u8; PAGE], bool), DeviceError> {
        match self {
            Self::Page(page) | Self::Instead(page) => Ok((page, false)),
            Self::Wrong(page) => Ok((page, true)),
            Self::NothingNeeded => Err(UNKNOWN),
        }
    }
}

impl<E: Env, M: Drive> Inner<E, M> {
    /// What the member at `place` is to hold in these rows; answers where they begin in which it is made of what is wrong.
    pub(in crate::layout::mirror) async fn compute_member(
        &self,
        striping: &Striping,
        place: usize,
        rows: Extent,
        into: &mut [u8],
    ) -> Result<Vec<u64>, DeviceError> {
        let (failure, wrong) = (Cell::new(None), RefCell::new(Vec::new()));
        let pages = into.chunks_exact_mut(PAGE).zip((rows.offset..).step_by(PAGE));
        join::all(pages.map(|(page, offset)| {
            let (failure, wrong) = (&failure, &wrong);
            async move {
                match self.compute_member_page(striping, place, offset).await {
                    Ok((bytes, is_wrong)) => {
                        page.copy_from_slice(&bytes);
                        wrong.borrow_mut().extend(is_wrong.then_some(offset));
                    }
                    Err(error) => failure.set(Some(error)),
                }
            }
        }))
        .await;
        failure.take().map_or(Ok(wrong.into_inner()), Err)
    }

    /// Pages of the data shards in this row that nobody has right any more, and that nobody is about to write anew.
    pub(in crate::layout::mirror) async fn damaged_pages(&self, striping: &Striping, offset: u64) -> u64 {
        let stripes = striping.stripes;
        let stripe = stripes.stripe_on_member(offset);
        let mut damaged = 0;
        for number in 0..stripes.data() {
            let shard = Shard { stripe, number };
            let found = self.right_page(striping, shard, offset, (Care::RightBytes, Urgency::Copy)).await;
            let Some(verifier) = self.verifier.borrow().as_ref().and_then(Weak::upgrade) else {
                return damaged;
            };
            let is_settled = verifier.expects(stripes.home_of(shard, offset)).await.is_settled;
            damaged += u64::from(is_settled && matches!(found, Ok(Found::Wrong(_))));
        }
        damaged
    }

    async fn compute_member_page(
        &self,
        striping: &Striping,
        place: usize,
        offset: u64,
    ) -> Result<([u8; PAGE], bool), DeviceError> {
        let stripes = striping.stripes;
        let shard = stripes.shard_on(stripes.stripe_on_member(offset), place);
        if shard.number < stripes.data() {
            return self.right_page(striping, shard, offset, (Care::RightBytes, Urgency::Copy)).await?.page();
        }
        let (mut data, mut is_wrong) = (Vec::with_capacity(stripes.data()), false);
        for number in 0..stripes.data() {
            let shard = Shard { stripe: shard.stripe, number };
            let found = self.right_page(striping, shard, offset, (Care::RightBytes, Urgency::Copy)).await?;
            let (page, is_page_wrong) = found.page()?;
            data.push(page);
            is_wrong |= is_page_wrong;
        }
        let mut parity = vec![[0; PAGE]; stripes.parity()];
        let inputs: Vec<&[u8]> = data.iter().map(|page| &page[..]).collect();
        let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(|page| &mut page[..]).collect();
        self.encode(striping, &inputs, &mut outputs)?;
        Ok((parity[shard.number - stripes.data()], is_wrong))
    }

    /// A page of a data shard as it should be, where any way to get it gives that; else as it is found.
    pub(super) async fn right_page(
        &self,
        striping: &Striping,
        shard: Shard,
        offset: u64,
        (care, urgency): (Care, Urgency),
    ) -> Result<Found, DeviceError> {
        let stripes = striping.stripes;
        let home = stripes.home_of(shard, offset);
        let verifier = self.verifier.borrow().as_ref().and_then(Weak::upgrade);
        let expected = match verifier {
            Some(verifier) if !is_planted(Bug::StripesUnchecked) => verifier.expects(home).await,
            _ => Expected::NOTHING,
        };
        let rows = Extent::new(offset, PAGE_BYTES);
        let (mut page, mut found) = ([0; PAGE], None);
        let place = stripes.place_of(shard);
        let is_there = || self.ring.members[place].is_in_sync();
        // What it held before is right only where nobody has what it is to hold: its member may have lost that silently.
        let mut before = None;
        let mut is_member_wrong = false;
        if (!expected.is_known() || care == Care::EachMember) && is_there() {
            // Where nothing says what is right, parity is to be that of what is there.
            let admitted = self.admit_idle(striping, place, urgency).await;
            let read = self.ring.read_from(place, offset, &mut page).await;
            drop(admitted);
            is_member_wrong = read.is_err() || !expected.is_right(&page);
            if !is_member_wrong {
                if expected.is_what_comes(&page) || is_planted(Bug::StripesTakeOlder) {
                    return Ok(Found::Page(page));
                }
                before = Some(Found::Page(page));
            }
        }
        if let Ok(from) = self.read_shard(striping, shard, rows, urgency, &mut page).await {
            if expected.is_right(&page) {
                // Its member is to hold the same.
                let is_guess = from != From::Member && !expected.is_known();
                let is_instead = is_guess || is_member_wrong || from == From::OthersAsItFailed;
                let right = if is_instead && is_there() { Found::Instead(page) } else { Found::Page(page) };
                if expected.is_what_comes(&page) || is_planted(Bug::StripesTakeOlder) {
                    return Ok(right);
                }
                before = before.or(Some(right));
            }
            found = Some(page);
        }
        // Its member last: it was read already, if it is not busy.
        for version in (1..striping.versions()).chain([0]) {
            let read = self.read_version(striping, version, home, urgency, &mut page).await;
            if read.is_ok() {
                if expected.is_right(&page) {
                    let is_instead = version > 0 && is_there();
                    let right = if is_instead { Found::Instead(page) } else { Found::Page(page) };
                    if expected.is_what_comes(&page) {
                        return Ok(right);
                    }
                    before = before.or(Some(right));
                }
                found = found.or(Some(page));
            }
        }
        if before.is_none() && expected.is_known() {
            // Nobody has it right any more. But where it is about to be written, memory has what it is to hold.
            let verifier = self.verifier.borrow().as_ref().and_then(Weak::upgrade);
            let coming = verifier.and_then(|verifier| verifier.coming(home));
            if let Some(page) = coming.filter(|page| expected.is_right(page)) {
                return Ok(if is_there() { Found::Instead(page) } else { Found::Page(page) });
            }
        }
        match (before, found) {
            (Some(right), _) => Ok(right),
            (None, Some(page)) => Ok(Found::Wrong(page)),
            (None, None) if !expected.is_known() && !expected.is_untold => Ok(Found::NothingNeeded),
            // What is not known must not become a part of parity.
            (None, None) => Err(UNKNOWN),
        }
    }
}
