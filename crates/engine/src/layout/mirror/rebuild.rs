//! Members that lack writes are made whole while the ring serves: one that was away takes the regions that changed, any
//! other takes everything.
//!
//! 1. From its begin on the member takes every write; what was there before is copied piece by piece, each at a moment
//!    when nobody writes there, and again if somebody came meanwhile.
//! 2. It is read, and its head says that it counts, only when all of it is there and durable.
//!    It speaks of the device that it was begun for, and of none that was put in its place since.
//!    A piece that writes spoil again and again is copied while they wait.
//! 3. No more is copied in a second than is allowed, and nothing is read for it from a member that writes.
//!    It ends with the volume ([`crate::ring::work`]).
//! 4. Of stripes the rows are copied that the member holds ([`super::rebuild_rows`]).
//! 5. Nothing is copied before there is a [`Verifier`]. A page that is not what it should be is taken from a member that has
//!    it right; where none has, it is counted. Pages without contents are passed over: what is there is never read.

use std::rc::{Rc, Weak};

use super::dirty::{Kept, Lacking};
use super::rebuild_rows::RowsCopy;
use super::{Inner, MirrorPages};
use crate::device::{Drive, Extent, FlushScope};
use crate::env::Env;
use crate::error::DeviceError;
use crate::events::Event;
use crate::format::ring_head::Mark;
use crate::format::{PAGE, PAGE_BYTES};
use crate::layout::{Expected, Verifier};
use crate::planted::{Bug, is_planted};
use crate::ring::copying::CopyGuard;
use crate::ring::{EIO, MemberState, RebuildFound, Role};

/// How long a piece that cannot be read rests before it is tried again.
pub(super) const PAUSE_NS: u64 = 100_000_000;

/// How often.
pub(super) const TRIES: usize = 3;

/// The mirror, once there is somebody who can tell right bytes of its members from wrong ones; `None` once nobody has it any more.
#[allow(
    clippy::option_option,
    clippy::type_complexity,
    reason = "whether to go on waiting, and then whether there is anything to come"
)]
fn verifier_of<E, M>(mirror: &Weak<Inner<E, M>>) -> Option<Option<(MirrorPages<E, M>, Weak<dyn Verifier>)>> {
    match mirror.upgrade() {
        None => Some(None),
        Some(mirror) => {
            let verifier = mirror.verifier.borrow().clone();
            verifier.map(|verifier| Some((MirrorPages(mirror), verifier)))
        }
    }
}

impl<E: Env, M: Drive> MirrorPages<E, M> {
    /// Begins to rebuild every member that is stale.
    pub(super) fn rebuild_stale(&self) {
        for (place, member) in self.0.ring.members.iter().enumerate() {
            if member.state.get() == MemberState::Stale {
                member.state.set(MemberState::Rebuilding { done_bytes: 0 });
                member.role.set(Role::Writing);
                member.rebuild_found.take();
                member.gate.begin_behind(self.0.progress.issued.get());
                member.gate.set_failed(false);
                member.gate.open();
                let Ok(device) = member.device() else { continue };
                // As of now: what comes later it is given.
                let lacking = self.0.lacking(place);
                let size_bytes = self.0.member_bytes(self.0.ring.geometry.get().size_bytes);
                let lacks_bytes = lacking.as_ref().map(|lacking| lacking.bytes(size_bytes));
                member.lacks_bytes.set(lacks_bytes);
                self.0.ring.events.note(Event::RebuildBegun { place, lacks_bytes });
                let (changed, weak, device) =
                    (Rc::clone(&self.0.ring.changed), Rc::downgrade(&self.0), Rc::downgrade(&device));
                self.0.ring.env.spawn(async move {
                    if let Some((ring, verifier)) = changed.until(|| verifier_of(&weak)).await
                        && let Some(device) = device.upgrade()
                    {
                        ring.rebuild(place, &device, lacking, &verifier).await;
                    }
                });
            }
        }
    }

    async fn rebuild(
        self,
        place: usize,
        device: &Rc<M>,
        lacking: Option<Lacking>,
        verifier: &Weak<dyn Verifier>,
    ) {
        let (ring, member) = (&self.0.ring, &self.0.ring.members[place]);
        let Some(_at_work) = ring.begin_work() else { return };
        let made_whole = async {
            self.copy_what_it_lacks(place, device, lacking.as_ref(), verifier).await?;
            self.empty_region(place, device).await?;
            let mut is_named = ring.options.log_bytes == 0;
            loop {
                // All that was written meanwhile, and all that was copied: durable before anybody relies on it.
                let ended = member.gate.ended_through();
                ring.limited_at(place, device.flush(FlushScope::Whole)).await?;
                self.check_rebuilds(place, device)?;
                let through = ended.ok_or(DeviceError { doing: "rebuild", errno: EIO })?;
                let mark = Mark { epoch: self.0.opening.epoch.get(), through };
                let next = |before| self.0.head_behind(before, place, mark);
                ring.limited_at(place, self.0.write_head(place, next)).await?;
                self.check_rebuilds(place, device)?;
                if !is_named {
                    self.name_rebuilt(place, device).await?;
                    is_named = true;
                    continue;
                }
                // A flush of the others may have gone further: whoever counts has what it covered.
                if mark >= self.0.progress.flushed.get() {
                    return Ok(());
                }
            }
        };
        match made_whole.await {
            Ok(()) => {
                member.gate.close();
                member.state.set(MemberState::InSync);
                self.0.heads[place].kept.set(Kept::FromMark);
                self.0.note_told(place);
                self.0.log.regions[place].is_joining.set(false);
                if ring.keeps_turns() {
                    member.gate.drained().await;
                } else {
                    member.gate.open();
                }
                member.role.set(Role::Reading);
                ring.events.note(Event::RebuildEnded { place });
                ring.changed.all();
            }
            // It goes on from its begin when the ring is opened again.
            Err(_) if ring.work.ends() => {}
            Err(error) => ring.fail_device(place, device, error),
        }
    }

    /// An error where the member failed, or has another device, since this rebuild began; or where all work ends.
    pub(crate) fn check_rebuilds(&self, place: usize, device: &Rc<M>) -> Result<(), DeviceError> {
        let member = &self.0.ring.members[place];
        if self.0.ring.work.ends() {
            return Err(DeviceError { doing: "rebuild for a volume that is closed", errno: EIO });
        }
        let is_same = member.has(device) || is_planted(Bug::RingRebuildOutlives);
        match is_same && matches!(member.state.get(), MemberState::Rebuilding { .. }) {
            true => Ok(()),
            false => Err(DeviceError { doing: "rebuild a member that failed", errno: EIO }),
        }
    }

    /// Copies the regions that it lacks, or everything where that is not known.
    async fn copy_what_it_lacks(
        &self,
        place: usize,
        device: &Rc<M>,
        lacking: Option<&Lacking>,
        verifier: &Weak<dyn Verifier>,
    ) -> Result<(), DeviceError> {
        let (ring, member) = (&self.0.ring, &self.0.ring.members[place]);
        let began_ns = ring.env.now_ns();
        let piece_bytes = ring.options.rebuild_piece_bytes.max(PAGE_BYTES);
        let size_bytes = self.0.member_bytes(ring.geometry.get().size_bytes);
        let (mut offset, mut copied_bytes, mut done_bytes) = (0, 0, 0);
        let is_forgotten_early =
            is_planted(Bug::RingRejoinClearsEarly) || is_planted(Bug::StripesRegionForgottenEarly);
        if lacking.is_some() && is_planted(Bug::RingRejoinTrustsStale) {
            return Ok(());
        }
        while offset < size_bytes {
            if is_planted(Bug::RingRebuildEndsEarly) && offset > 0 {
                return Ok(());
            }
            let extent = Extent::new(offset, piece_bytes.min(size_bytes - offset));
            offset += extent.len;
            if lacking.is_some_and(|lacking| !lacking.overlaps(extent)) {
                continue;
            }
            if self.is_needed(extent, verifier).await {
                match &self.0.striping {
                    Some(striping) => RowsCopy { pages: self, striping, place, device }.copy(extent).await?,
                    None => self.copy_piece(place, device, extent, verifier).await?,
                }
                copied_bytes += extent.len;
                member.copied_bytes.set(member.copied_bytes.get() + extent.len);
                if lacking.is_some() && is_forgotten_early {
                    self.0.dirty.forget(extent);
                }
            }
            self.check_rebuilds(place, device)?;
            done_bytes += extent.len;
            member.state.set(MemberState::Rebuilding { done_bytes });
            let due_ns = u128::from(copied_bytes) * 1_000_000_000
                / u128::from(ring.options.rebuild_bytes_per_s.max(1));
            let took_ns = ring.env.now_ns().saturating_sub(began_ns);
            ring.rest_at_work(u64::try_from(due_ns).unwrap_or(u64::MAX).saturating_sub(took_ns)).await;
        }
        Ok(())
    }

    /// Whether any page there has contents. One that gets some from here on is written on the new member too.
    async fn is_needed(&self, extent: Extent, verifier: &Weak<dyn Verifier>) -> bool {
        let Some(verifier) = verifier.upgrade() else { return true };
        if let Some(striping) = &self.0.striping {
            return self.0.is_any_row_needed(striping, extent, &*verifier).await;
        }
        for offset in (extent.offset..extent.end()).step_by(PAGE) {
            if !verifier.expects(offset).await.is_empty {
                return true;
            }
        }
        false
    }

    /// Copies a piece. A page that no member can read is passed over: it is lost wherever it is, and its sum says so.
    async fn copy_piece(
        &self,
        place: usize,
        device: &Rc<M>,
        extent: Extent,
        verifier: &Weak<dyn Verifier>,
    ) -> Result<(), DeviceError> {
        let mut spoiled = 0;
        while !self.try_copy_piece(place, device, extent, verifier, spoiled).await? {
            spoiled += 1;
        }
        Ok(())
    }

    /// As [`Self::copy_piece`], of one that was `spoiled` so often; false where a write came meanwhile.
    async fn try_copy_piece(
        &self,
        place: usize,
        device: &Rc<M>,
        extent: Extent,
        verifier: &Weak<dyn Verifier>,
        spoiled: usize,
    ) -> Result<bool, DeviceError> {
        let judging =
            verifier.upgrade().ok_or(DeviceError { doing: "rebuild without a volume", errno: EIO })?;
        let copy = self.0.copies.copy(extent, spoiled).await;
        let mut bytes = vec![0; extent.len as usize];
        for left in (0..TRIES).rev() {
            match self.0.read(extent.offset, &mut bytes).await {
                Ok(()) => {
                    let found = self.repair_from_others(extent.offset, &mut bytes, &*judging).await;
                    let is_copied = self.copy_to(place, device, &copy, &bytes).await?;
                    if is_copied {
                        self.found(place, found);
                    }
                    return Ok(is_copied);
                }
                Err(_) if left > 0 => self.0.ring.rest_at_work(PAUSE_NS).await,
                Err(_) => self.0.ring.check_alive()?,
            }
        }
        if extent.len <= PAGE_BYTES {
            self.pass_over(place, &copy, judging.expects(extent.offset).await);
            return Ok(true);
        }
        drop(copy);
        for offset in (extent.offset..extent.end()).step_by(PAGE) {
            Box::pin(self.copy_piece(place, device, Extent::new(offset, PAGE_BYTES), verifier)).await?;
        }
        Ok(true)
    }

    /// Puts the pages from `offset` on, as one member holds them, right by what others do.
    async fn repair_from_others(
        &self,
        offset: u64,
        bytes: &mut [u8],
        verifier: &dyn Verifier,
    ) -> RebuildFound {
        let mut found = RebuildFound::default();
        if is_planted(Bug::RingRebuildUnchecked) {
            return found;
        }
        for (page, offset) in bytes.chunks_exact_mut(PAGE).zip((offset..).step_by(PAGE)) {
            let expected = verifier.expects(offset).await;
            if expected.is_newest(page) {
                continue;
            }
            let was_right = expected.is_right(page);
            match self.read_right(offset, expected).await {
                Some(right) => {
                    page.copy_from_slice(&right);
                    found.wrong_copies += u64::from(!was_right);
                }
                None if was_right => {}
                None => found.damaged_pages += u64::from(verifier.expects(offset).await.is_settled),
            }
        }
        found
    }

    /// The page at `offset`, from a member that has it as expected: the newest, if one has that. One that had lost a write
    /// while it was under way would hold what is right until it ends.
    async fn read_right(&self, offset: u64, expected: Expected) -> Option<[u8; PAGE]> {
        let mut right = None;
        for place in 0..self.0.ring.members.len() {
            let mut page = [0; PAGE];
            if self.0.ring.read_from(place, offset, &mut page).await.is_err() {
                continue;
            }
            if expected.is_newest(&page) {
                return Some(page);
            }
            right = right.or(expected.is_right(&page).then_some(page));
        }
        right
    }

    /// A page is copied from nobody.
    fn pass_over(&self, place: usize, copy: &CopyGuard, expected: Expected) {
        let is_lost = expected.is_settled && !copy.is_spoiled();
        self.found(place, RebuildFound { damaged_pages: u64::from(is_lost), ..RebuildFound::default() });
    }

    /// Counts what was found.
    pub(super) fn found(&self, place: usize, more: RebuildFound) {
        let found = &self.0.ring.members[place].rebuild_found;
        let RebuildFound { wrong_copies, damaged_pages } = found.get();
        found.set(RebuildFound {
            wrong_copies: wrong_copies + more.wrong_copies,
            damaged_pages: damaged_pages + more.damaged_pages,
        });
    }
}
