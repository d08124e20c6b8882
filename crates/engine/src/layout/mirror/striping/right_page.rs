//! Which bytes of a page are right, of those that can be read: what parity and rebuilt members are made of.

use std::rc::Weak;

use super::super::Inner;
use super::Striping;
use super::read::From;
use crate::device::{Drive, Extent};
use crate::env::Env;
use crate::error::DeviceError;
use crate::format::{PAGE, PAGE_BYTES};
use crate::layout::Expected;
use crate::layout::erasure::geometry::Shard;
use crate::planted::{Bug, is_planted};
use crate::ring::{EIO, Urgency};

/// How closely a page is looked at that is read for others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Care {
    /// Right bytes are enough, from whoever is not busy.
    RightBytes,
    /// The same, of what is stored: where what is about to be written cannot come for now, parity stays that of what was there.
    Stored,
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
    pub(super) fn page(self) -> Result<([u8; PAGE], bool), DeviceError> {
        match self {
            Self::Page(page) | Self::Instead(page) => Ok((page, false)),
            Self::Wrong(page) => Ok((page, true)),
            Self::NothingNeeded => Err(UNKNOWN),
        }
    }
}

impl<E: Env, M: Drive> Inner<E, M> {
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
        let mut page = [0; PAGE];
        // Bytes that are wrong, and whether its member holds them.
        let mut found = None;
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
            found = Some((page, from == From::Member));
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
                found = found.filter(|_| version > 0).or(Some((page, version == 0)));
            }
        }
        if before.is_none() && expected.is_known() && care != Care::Stored {
            // Nobody has it right any more. But where it is about to be written, memory has what it is to hold.
            let verifier = self.verifier.borrow().as_ref().and_then(Weak::upgrade);
            let coming = verifier.and_then(|verifier| verifier.coming(home));
            if let Some(page) = coming.filter(|page| expected.is_right(page)) {
                return Ok(if is_there() { Found::Instead(page) } else { Found::Page(page) });
            }
        }
        match (before, found) {
            (Some(right), _) => Ok(right),
            // Parity of what others make of it would not be that of what its member holds, which may read it later.
            (None, Some((_, false))) if is_there() && care != Care::Stored => Err(UNKNOWN),
            (None, Some((page, _))) => Ok(Found::Wrong(page)),
            (None, None) if !expected.is_known() && !expected.is_untold => Ok(Found::NothingNeeded),
            // What is not known must not become a part of parity.
            (None, None) => Err(UNKNOWN),
        }
    }
}
