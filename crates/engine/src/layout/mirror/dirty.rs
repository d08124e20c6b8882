//! What a member lacks that is away: the regions of the ring that changed since it held everything.
//!
//! 1. A write is noted as it is issued, before any member has it. Each head that is written says what changed since the
//!    write up to which all members have everything, those away included ([`Inner::told_regions`]). A write counts as home
//!    only when heads say so, and these heads tell of its region: nothing more has to be made durable for it.
//! 2. What a cut left under way is in the journal, and is issued once more by the next opening: then it is noted there. So
//!    of the regions that heads tell of, those of any member that counts are enough.
//! 3. Nothing is forgotten of a member that is away until it is in sync again: the write from which regions are told stays
//!    where its head says that it was. Another device in its place holds nothing, and needs no regions.

use std::cell::RefCell;

use super::{Inner, MirrorPages};
use crate::device::{Device, Drive, Extent};
use crate::env::Env;
use crate::format::dirty_regions::{DirtyRegions, region_bytes_for};
use crate::format::ring_head::{Mark, RingHead};
use crate::planted::{Bug, is_planted};
use crate::ring::MemberState;

/// From where on the regions of a member are kept in mind that is not in sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Kept {
    /// It holds nothing that counts: it is rebuilt whole.
    #[default]
    Nothing,
    /// From its mark on.
    FromMark,
    /// It was not seen in this opening: from here on, as the heads of the others know no more.
    From(Mark),
}

/// Which regions changed, and when.
#[derive(Debug, Default)]
pub(super) struct Dirty(RefCell<State>);

#[derive(Debug, Default)]
struct State {
    /// This opening.
    epoch: u64,
    region_bytes: u64,
    /// The newest write of this opening to each region; 0 for none.
    newest: Vec<u64>,
    /// Whether an earlier opening changed it behind `known_since`.
    before: Vec<bool>,
    /// From which write on all of it is known.
    known_since: Mark,
}

/// Regions that a member lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lacking {
    region_bytes: u64,
    lacks: Vec<bool>,
}

impl Lacking {
    /// Whether any of it lies there.
    pub(super) fn overlaps(&self, extent: Extent) -> bool {
        self.regions(extent).any(|region| self.lacks.get(region).copied().unwrap_or(true))
    }

    /// The regions in which any of this lies.
    fn regions(&self, extent: Extent) -> std::ops::Range<usize> {
        let (first, end) = (extent.offset / self.region_bytes, extent.end().div_ceil(self.region_bytes));
        first as usize..end as usize
    }

    /// Bytes of them, of so many.
    pub(super) fn bytes(&self, size_bytes: u64) -> u64 {
        let regions = self.lacks.iter().filter(|lacks| **lacks).count() as u64;
        (regions * self.region_bytes).min(size_bytes)
    }

    /// It lacks what lies there, too.
    fn add(&mut self, extent: Extent) {
        for region in self.regions(extent) {
            if let Some(lacks) = self.lacks.get_mut(region) {
                *lacks = true;
            }
        }
    }

    /// All but the last of them.
    fn without_last(mut self) -> Self {
        if let Some(last) = self.lacks.iter_mut().rev().find(|lacks| **lacks) {
            *last = false;
        }
        self
    }
}

impl Dirty {
    /// An opening begins. `told` is what the head of a member that counts said; where none said anything, all that count
    /// hold everything up to `held_by_all`.
    pub(super) fn begin(
        &self,
        epoch: u64,
        (size_bytes, least_bytes): (u64, u64),
        told: Option<&DirtyRegions>,
        held_by_all: Mark,
    ) {
        let region_bytes = region_bytes_for(size_bytes, least_bytes);
        let regions = size_bytes.div_ceil(region_bytes) as usize;
        let mut state = State {
            epoch,
            region_bytes,
            newest: vec![0; regions],
            before: vec![false; regions],
            known_since: told.map_or(held_by_all, |told| told.since),
        };
        let changed = told.into_iter().flat_map(|told| {
            let regions = (0u64..).zip(&told.changed).filter(|(_, is_changed)| **is_changed);
            regions.map(|(region, _)| (region * told.region_bytes, told.region_bytes))
        });
        for (offset, len) in changed.filter(|_| !is_planted(Bug::RingDirtyForgotten)) {
            let (first, end) = (offset / region_bytes, (offset + len).div_ceil(region_bytes));
            state.before.iter_mut().take(end as usize).skip(first as usize).for_each(|before| *before = true);
        }
        self.0.replace(state);
    }

    /// The ring has another size.
    pub(super) fn resize(&self, size_bytes: u64, least_bytes: u64) {
        let mut state = self.0.borrow_mut();
        if state.region_bytes == 0 {
            return; // no opening has begun
        }
        let region_bytes = region_bytes_for(size_bytes, least_bytes).max(state.region_bytes);
        let merged = (region_bytes / state.region_bytes) as usize;
        let regions = size_bytes.div_ceil(region_bytes) as usize;
        let newest = state.newest.chunks(merged).map(|part| part.iter().copied().max().unwrap_or(0));
        let newest: Vec<u64> = newest.chain(std::iter::repeat(0)).take(regions).collect();
        let before = state.before.chunks(merged).map(|part| part.contains(&true));
        let before: Vec<bool> = before.chain(std::iter::repeat(false)).take(regions).collect();
        (state.region_bytes, state.newest, state.before) = (region_bytes, newest, before);
    }

    /// This write of the opening changes these bytes.
    pub(super) fn note(&self, extent: Extent, sequence: u64) {
        let mut state = self.0.borrow_mut();
        if state.region_bytes == 0 || extent.len == 0 {
            return; // the volume is being made
        }
        let (first, end) = (extent.offset / state.region_bytes, extent.end().div_ceil(state.region_bytes));
        state.newest.iter_mut().take(end as usize).skip(first as usize).for_each(|newest| *newest = sequence);
    }

    /// Forgets that these bytes changed.
    pub(super) fn forget(&self, extent: Extent) {
        let mut state = self.0.borrow_mut();
        let (first, end) = (
            (extent.offset / state.region_bytes) as usize,
            extent.end().div_ceil(state.region_bytes) as usize,
        );
        state.newest.iter_mut().take(end).skip(first).for_each(|newest| *newest = 0);
        state.before.iter_mut().take(end).skip(first).for_each(|before| *before = false);
    }

    /// What a member lacks at most that holds everything up to this write; `None` where that is not known.
    pub(super) fn behind(&self, mark: Mark) -> Option<Lacking> {
        let state = self.0.borrow();
        // Before its first flush a member says nothing of what it holds.
        let is_known = mark.epoch > 0 && (mark >= state.known_since || mark.epoch == state.epoch);
        is_known.then(|| Lacking { region_bytes: state.region_bytes, lacks: state.changed_behind(mark) })
    }

    /// What a head says, if somebody may hold no more than everything up to this write.
    fn told_since(&self, mark: Mark) -> Option<DirtyRegions> {
        let state = self.0.borrow();
        let since = if mark.epoch == state.epoch { mark } else { mark.max(state.known_since) };
        let (region_bytes, changed) = (state.region_bytes, state.changed_behind(since));
        (region_bytes > 0).then_some(DirtyRegions { since, region_bytes, changed })
    }

    /// From which write on all is known.
    pub(super) fn known_since(&self) -> Mark {
        self.0.borrow().known_since
    }
}

impl State {
    fn changed_behind(&self, mark: Mark) -> Vec<bool> {
        match mark.epoch == self.epoch {
            true => self.newest.iter().map(|&newest| newest > mark.through).collect(),
            false => {
                self.newest.iter().zip(&self.before).map(|(&newest, &before)| newest > 0 || before).collect()
            }
        }
    }
}

impl<E: Env, M: Drive> Inner<E, M> {
    /// What the next head of a member says of the regions that changed since somebody that is to be taken back held
    /// everything.
    pub(super) fn told_regions(&self) -> Option<DirtyRegions> {
        let of_place = |place: usize| {
            let (head, member) = (&self.heads[place], &self.ring.members[place]);
            match head.kept.get() {
                _ if member.is_in_sync() => Some(head.mark.get()),
                Kept::Nothing => None,
                Kept::FromMark => Some(head.mark.get()),
                Kept::From(mark) => Some(mark),
            }
        };
        let held_by_all = (0..self.heads.len()).filter_map(of_place).min();
        self.dirty.told_since(held_by_all.unwrap_or_else(|| self.dirty.known_since()))
    }

    /// What the member at `place` lacks at most, which is away or behind; `None` where it is to be rebuilt whole.
    pub(super) fn lacking(&self, place: usize) -> Option<Lacking> {
        let head = &self.heads[place];
        let mut lacking = match head.kept.get() {
            Kept::FromMark => self.dirty.behind(head.mark.get())?,
            Kept::Nothing | Kept::From(_) => return None,
        };
        // A change of stripes that has no number yet may be computed by now: without this one, which is given no more of its
        // rows than what changes.
        if self.striping.is_some() && !is_planted(Bug::StripesNotedLate) {
            self.copies.written().into_iter().for_each(|rows| lacking.add(rows));
        }
        match is_planted(Bug::RingRejoinMissesRegion) {
            true => Some(lacking.without_last()),
            false => Some(lacking),
        }
    }
}

impl<E: Env, M: Drive> MirrorPages<E, M> {
    /// It is known which members count, by these heads: from now on what changes is kept in mind for the others.
    pub(super) fn begin_dirty(&self, heads: &[Option<RingHead>]) {
        let inner = &*self.0;
        let counts = |place: &usize| inner.ring.members[*place].is_in_sync();
        let counting = || (0..inner.heads.len()).filter(counts).map(|place| &inner.heads[place]);
        let told = counting().filter_map(|head| head.told.borrow().clone()).max_by_key(|told| told.since);
        let held_by_all = counting().map(|head| head.mark.get()).min().unwrap_or_default();
        let sizes = (inner.member_bytes(self.geometry().size_bytes), inner.ring.options.rebuild_piece_bytes);
        inner.dirty.begin(inner.opening.epoch.get(), sizes, told.as_ref(), held_by_all);
        for (place, known) in inner.heads.iter().enumerate() {
            let kept = match (inner.ring.members[place].state.get(), heads[place]) {
                (MemberState::Stale, Some(head)) if !inner.was_left_so(place, &head) => Kept::Nothing,
                (MemberState::InSync | MemberState::Stale, _) => Kept::FromMark,
                _ if known.head.get().is_some() => Kept::FromMark,
                _ => Kept::From(inner.dirty.known_since()),
            };
            known.kept.set(kept);
        }
    }

    /// Bytes that a member lacks at most that does not count; `None` where it counts, or is to be rebuilt whole.
    pub(super) fn lacking_bytes(&self, place: usize) -> Option<u64> {
        let is_in_sync = self.0.ring.members[place].is_in_sync();
        let lacking = (!is_in_sync).then(|| self.0.lacking(place)).flatten()?;
        Some(lacking.bytes(self.0.member_bytes(self.geometry().size_bytes)))
    }
}
