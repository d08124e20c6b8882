//! What newer units leave of older ones.

use std::cmp::Reverse;

use smallvec::SmallVec;

use super::parts::{Part, pages_of, take_out};
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
    /// Lets idle units go that the newest one overwrites whole, as far as they are found at once.
    pub(super) fn absorb(&mut self, sequence: u64) {
        let newer = self.unit(sequence);
        if newer.extents.len() > ABSORB_EXTENTS_MAX {
            return;
        }
        let holds = |part: &Part| {
            let is_held = |extent: &Extent| match is_planted(Bug::AbsorbsWhatItTouches) {
                true => extent.overlaps(&part.extent()),
                false => extent.holds(&part.extent()),
            };
            newer.extents.iter().any(is_held)
        };
        let mut found: SmallVec<[u64; ABSORB_LOOK_BACK]> = SmallVec::new();
        for page in newer.extents.iter().flat_map(pages_of) {
            let on_page = self.index.get(page).map_or(&[][..], |units| units.all());
            for &older in on_page.iter().rev().skip(1).take(ABSORB_LOOK_BACK) {
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
        if !found.is_empty() {
            self.advance();
        }
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
