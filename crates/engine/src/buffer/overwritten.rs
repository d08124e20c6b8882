//! What newer units leave of older ones.

use std::cmp::Reverse;

use smallvec::SmallVec;

use super::fragments::{Fragment, pages_of, take_out};
use super::ring::Mark;
use super::{Batch, Buffer, State};
use crate::device::Extent;
use crate::env::Arena;
use crate::format::PAGE_BYTES;
use crate::planted::{Bug, is_planted};
use crate::ranges::PageRanges;

/// Units of a page, from the newest on, among which one that a new write overwrites is looked for.
const ABSORB_LOOK_BACK: usize = 4;

/// Extents of a write beyond which nothing is looked for that it overwrites.
const ABSORB_EXTENTS_MAX: usize = 8;

/// Memory that is used again by each commit.
#[derive(Default)]
pub(super) struct Scratch {
    /// What counts more than all that is older; see [`Buffer::take_overwritten`].
    pieces: Vec<Piece>,
    /// The part of one page that the pieces of newer units hold.
    covered: PageRanges,
    /// Idle units of which nothing is left.
    emptied: Vec<u64>,
    pub(super) pages: Vec<u64>,
}

/// Bytes of one page that a unit wrote.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    page: u64,
    sequence: u64,
    start: u16,
    end: u16,
}

impl Piece {
    /// What `extent` of a unit holds of a page that it touches.
    fn of(sequence: u64, page: u64, extent: &Extent) -> Self {
        let start = extent.offset.saturating_sub(page * PAGE_BYTES) as u16;
        let end = (extent.end() - page * PAGE_BYTES).min(PAGE_BYTES) as u16;
        Self { page, sequence, start, end }
    }
}

impl<A: Arena> Buffer<A> {
    /// Lets idle units go that the newest one overwrites whole, as far as they are found at once, and on a page that has
    /// become crowded all those that newer ones overwrite between them.
    pub(super) fn absorb(&mut self, sequence: u64) {
        let newer = self.unit(sequence);
        if newer.extents.len() > ABSORB_EXTENTS_MAX {
            return;
        }
        let holds = |part: &Fragment| {
            let is_held = |extent: &Extent| match is_planted(Bug::AbsorbsWhatItTouches) {
                true => extent.overlaps(&part.extent()),
                false => extent.holds(&part.extent()),
            };
            newer.extents.iter().any(is_held)
        };
        let mut found: SmallVec<[u64; ABSORB_LOOK_BACK]> = SmallVec::new();
        let mut crowded: SmallVec<[u64; 2]> = SmallVec::new();
        for page in newer.extents.iter().flat_map(pages_of) {
            let Some(on_page) = self.index.get(page) else { continue };
            if on_page.is_crowded(self.tuning.crowded_min) {
                crowded.push(page);
            }
            for &older in on_page.all().iter().rev().skip(1).take(ABSORB_LOOK_BACK) {
                self.steps.add(1);
                let Some(unit) = self.counting(older) else { continue };
                if unit.state == State::Idle
                    && unit.live.len() <= ABSORB_EXTENTS_MAX
                    && unit.live.iter().all(holds)
                    && !found.contains(&older)
                {
                    found.push(older);
                }
            }
        }
        for &older in &found {
            self.release(older, Mark::No);
        }
        let mut has_room = !found.is_empty();
        for page in crowded {
            has_room |= self.drop_overwritten(page);
        }
        if has_room {
            self.advance();
        }
    }

    /// Lets the idle units of a page go of which newer ones hold every byte; answers whether there were any. Units that are
    /// on other pages too stay.
    fn drop_overwritten(&mut self, page: u64) -> bool {
        let mut emptied = std::mem::take(&mut self.scratch.emptied);
        let mut covered = std::mem::take(&mut self.scratch.covered);
        emptied.clear();
        covered.clear();
        let on_page = self.index.get(page).map_or(&[][..], |units| units.all());
        for &sequence in on_page.iter().rev() {
            self.steps.add(1);
            let Some(unit) = self.counting(sequence) else { continue };
            let on_this_page = |part: &Fragment| pages_of(&part.extent()).eq([page]);
            let holds = |part: &Fragment| {
                let Piece { start, end, .. } = Piece::of(sequence, page, &part.extent());
                match is_planted(Bug::AbsorbsWhatItTouches) {
                    true => covered.overlapping(start.into(), end.into()).next().is_some(),
                    false => covered.holds(start.into(), end.into()),
                }
            };
            let is_overwritten = unit.live.iter().all(|part| on_this_page(part) && holds(part));
            if unit.state == State::Idle && is_overwritten && !unit.live.is_empty() {
                emptied.push(sequence);
                continue;
            }
            for part in &unit.live {
                if pages_of(&part.extent()).contains(&page) {
                    let Piece { start, end, .. } = Piece::of(sequence, page, &part.extent());
                    covered.insert(start, end);
                }
            }
        }
        for &sequence in &emptied {
            self.release(sequence, Mark::No);
        }
        self.index.thinned(page);
        let has_let_go = !emptied.is_empty();
        (self.scratch.emptied, self.scratch.covered) = (emptied, covered);
        has_let_go
    }

    /// Older units do not count any more for the bytes of these ones, which are durable, or marks that they went
    /// home by another way. They are released at once: each stays in the ring, for a reader to find, as long as any
    /// older unit does.
    pub(super) fn supersede_older_than(&mut self, units: &[u64]) {
        for &sequence in units {
            let extents = &self.units[(sequence - self.first) as usize].extents;
            for extent in extents {
                let pages = pages_of(extent);
                let known = self.index.range(pages).map(|(page, _)| Piece::of(sequence, page, extent));
                self.scratch.pieces.extend(known);
            }
        }
        self.take_overwritten(|_, _| true);
        let emptied = std::mem::take(&mut self.scratch.emptied);
        for &sequence in emptied.iter().chain(units) {
            self.release(sequence, Mark::Durable);
        }
        self.scratch.emptied = emptied;
        self.advance();
    }

    /// Takes from each older unit that `loses` what the pieces noted in `scratch` overwrite, going over each page once
    /// from the newest to the oldest; tells in `scratch` the idle ones of which nothing is left.
    fn take_overwritten(&mut self, loses: impl Fn(u64, State) -> bool) {
        let Scratch { pieces, covered, emptied, .. } = &mut self.scratch;
        emptied.clear();
        pieces.sort_unstable_by_key(|piece| (piece.page, Reverse(piece.sequence)));
        for pieces in pieces.chunk_by(|one, next| one.page == next.page) {
            let Piece { page, sequence: newest, .. } = pieces[0];
            let Some(on_page) = self.index.get(page) else { continue };
            covered.clear();
            let mut pieces = pieces.iter().peekable();
            for &sequence in on_page.through(newest).iter().rev() {
                self.steps.add(1);
                while let Some(newer) = pieces.next_if(|piece| piece.sequence > sequence) {
                    covered.insert(newer.start, newer.end);
                    self.steps.add(1);
                }
                let Some(place) = sequence.checked_sub(self.first) else { continue };
                let unit = &mut self.units[place as usize];
                if unit.live.is_empty() || !loses(sequence, unit.state) {
                    continue;
                }
                self.steps.add(take_out(&mut unit.live, page, covered));
                if unit.live.is_empty() && unit.state == State::Idle {
                    emptied.push(sequence);
                }
            }
        }
        pieces.clear();
    }

    /// Takes from every older unit that has no commit yet what the batch overwrites (invariant 2).
    pub(super) fn trim_older(&mut self, batch: &mut Batch) {
        if is_planted(Bug::NoTrim) {
            return;
        }
        let Some(ticket) = batch.taken.tickets.any() else { return };
        for &sequence in &batch.units {
            for part in &self.units[(sequence - self.first) as usize].live {
                let extent = part.extent();
                self.scratch.pieces.extend(pages_of(&extent).map(|page| Piece::of(sequence, page, &extent)));
            }
        }
        // Of others under way an earlier record carries what they hold.
        let units = &batch.units;
        self.take_overwritten(|sequence, state| {
            let is_overtaken = matches!(state, State::Queued { .. });
            let loses = !matches!(state, State::Committing { .. }) || units.binary_search(&sequence).is_ok();
            loses && !(is_overtaken && is_planted(Bug::OvertakenNotTrimmed))
        });
        let emptied = std::mem::take(&mut self.scratch.emptied);
        for &sequence in &emptied {
            self.leave_idle(sequence, State::Absorbed { ticket });
        }
        batch.absorbed.extend(&emptied);
        self.scratch.emptied = emptied;
    }
}
