//! The ring of units in the arena.
//!
//! 1. Units lie one behind another in the order of their sequence numbers; one that does not fit before the
//!    end begins at the start, and so does the first after all are released.
//! 2. No byte of a unit at or behind the stored tail is overwritten: the tail is stored before its room is
//!    used again.
//! 3. So a reader that follows the sequence from the stored tail finds every unit that is not released.
//! 4. Bytes count as used until their unit is released. Behind one that is not, those of released ones cannot be used
//!    again yet, though they do not count: whoever finds no room asks for the oldest units to go, whatever is used.
//! 5. The arena may hold anything. A head that points outside of the ring is no head of ours, and the arena is begun
//!    anew; a unit that lies over another, or that the caller finds unsound, ends the sequence.
//! 6. Writes of somebody else are left alone: an arena that holds such of another volume is not opened. What an earlier
//!    opening left is nothing any more, since the volume went on without it.
//! 7. The head names the newest record that was acknowledged, before anybody is told of it. An arena that knows of a later
//!    opening of this volume, or of a record that its log does not hold, is not opened: the devices hold an older state,
//!    over which its writes would be wrong, and lack what was durable. Power cuts take the arena, so they never refuse.

#[cfg(test)]
pub(super) mod tests;

use std::collections::VecDeque;

use super::arena_contents::ArenaContents;
use super::stored::{Stored, capacity_of, newest_head, unit_at};
use crate::env::Arena;
use crate::format::PAGE_BYTES;
use crate::format::unit::{
    ArenaHead, HEAD_BYTES, RING_OFFSET, UNIT_DURABLE, UNIT_EXTENT_BYTES, UNIT_HEADER_BYTES, UNIT_MARK_OFFSET,
    UnitExtent, encode_unit_head, unit_bytes,
};
use crate::planted::{Bug, is_planted};

/// What an arena is opened for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opening {
    pub(crate) volume: u64,
    /// The last opening of the volume.
    pub(crate) epoch: u64,
    /// The one that is about to be.
    pub(crate) next_epoch: u64,
    /// The newest record of the log, acknowledged or not.
    pub(crate) log_end: u64,
}

/// The ring, and the head that says where it begins.
pub(crate) struct Ring<A> {
    arena: A,
    head: ArenaHead,
    /// Where the next unit goes if it fits.
    end: usize,
    next_sequence: u64,
    slots: VecDeque<Slot>,
    /// Bytes of units that are not released: no more than what cannot be used again.
    used_bytes: usize,
    /// The newest record that the opening found.
    log_end: u64,
    scratch: Vec<u8>,
}

struct Slot {
    offset: usize,
    len: usize,
    released: bool,
}

/// What the arena is told of a unit that is released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// That it is durable.
    Durable,
    /// Nothing: a newer unit holds all that counts of it.
    No,
}

/// A unit that was found when the arena was opened again.
pub(crate) struct Found {
    pub(crate) sequence: u64,
    pub(crate) extents: Vec<UnitExtent>,
    /// Where its payload begins in the arena.
    pub(crate) payload_at: usize,
    /// Whether it is durable already.
    pub(crate) durable: bool,
}

impl<A: Arena> Ring<A> {
    /// Opens the arena. The units of one that belongs to this volume and opening are found, up to the first that is not
    /// sound; one that holds no writes, or such that the volume went on without, is begun anew.
    ///
    /// # Errors
    ///
    /// What it holds, where that is somebody else's; then nothing in it has changed.
    pub(crate) fn open(
        arena: A,
        opening: Opening,
        is_sound: impl Fn(&[UnitExtent]) -> bool,
    ) -> Result<(Self, Vec<Found>), ArenaContents> {
        let Opening { volume, epoch, next_epoch, log_end } = opening;
        let is_foreign = |found: &ArenaContents| {
            (found.writes > 0 && !found.are_of(volume, epoch) && !found.are_superseded(volume, epoch))
                || found.know_a_later_state(volume, epoch, log_end)
        };
        if let Some(foreign) = ArenaContents::of(&arena).filter(is_foreign) {
            return Err(foreign);
        }
        let newest = newest_head(&arena);
        let capacity = capacity_of(arena.len()) as u64;
        let ours = newest
            .filter(|head| head.volume == volume && [head.epoch, head.next_epoch].contains(&epoch))
            .filter(|head| head.tail_offset <= capacity && head.tail_offset.is_multiple_of(8));
        let generation = newest.map_or(0, |head| head.generation);
        let head = ours.unwrap_or(ArenaHead {
            volume,
            generation,
            epoch,
            next_epoch,
            acknowledged: 0,
            tail_offset: 0,
            // What an earlier life left in the ring has lower numbers, and so cannot pass for a unit of this one.
            tail_sequence: next_epoch << 32,
        });
        let mut ring = Self {
            arena,
            head,
            end: head.tail_offset as usize,
            next_sequence: head.tail_sequence,
            slots: VecDeque::new(),
            used_bytes: 0,
            log_end,
            scratch: Vec::new(),
        };
        let mut found = Vec::new();
        if ours.is_some() {
            while let Some(unit) = ring.find_next(&is_sound) {
                found.push(unit);
            }
        }
        // By both numbers: this opening may end before the volume knows of it, and the one before may have ended before
        // the arena was told that it had begun.
        (ring.head.epoch, ring.head.next_epoch) = (epoch, next_epoch);
        ring.store_head();
        Ok((ring, found))
    }

    /// Records that the opening announced as `next_epoch` has begun: what it found counts as acknowledged.
    pub(crate) fn begin_epoch(&mut self) {
        self.head.epoch = self.head.next_epoch;
        self.head.acknowledged = self.log_end;
        self.store_head();
    }

    /// Every record up to this one is durable. Nobody was told yet.
    pub(crate) fn note_acknowledged(&mut self, record: u64) {
        if record > self.head.acknowledged {
            self.head.acknowledged = record;
            if !is_planted(Bug::AcknowledgedWithTail) {
                self.store_head();
            }
        }
    }

    fn capacity(&self) -> usize {
        capacity_of(self.arena.len())
    }

    /// Bytes of units that are not released, and of the ring.
    pub(crate) fn fill(&self) -> (usize, usize) {
        (self.used_bytes, self.capacity())
    }

    /// Sequence number of the oldest unit in the ring; that of the next one where there is none.
    pub(crate) fn oldest(&self) -> u64 {
        self.next_sequence - self.slots.len() as u64
    }

    /// Largest unit that fits an empty ring wherever its end is.
    pub(crate) fn unit_bytes_max(&self) -> usize {
        unit_bytes_max_of(self.arena.len())
    }

    /// Appends a unit; answers its sequence number and where its payload begins in the arena. `None` where
    /// there is no room now.
    pub(crate) fn append<'a>(
        &mut self,
        extents: &[UnitExtent],
        payload: impl IntoIterator<Item = &'a [u8]> + Clone,
        payload_bytes: usize,
    ) -> Option<(u64, usize)> {
        let len = unit_bytes(extents.len(), payload_bytes);
        let offset = self.place(len)?;
        let sequence = self.next_sequence;
        encode_unit_head(self.head.volume, sequence, extents, payload.clone(), &mut self.scratch);
        self.arena.store(RING_OFFSET + offset, &self.scratch);
        let payload_at = RING_OFFSET + offset + self.scratch.len();
        let mut next = payload_at;
        for bytes in payload {
            self.arena.store(next, bytes);
            next += bytes.len();
        }
        self.add_slot(offset, len);
        Some((sequence, payload_at))
    }

    /// Copies bytes of a payload.
    pub(crate) fn load(&self, at: usize, into: &mut [u8]) {
        self.arena.load(at, into);
    }

    /// Bytes that a unit takes.
    pub(crate) fn bytes_of(&self, sequence: u64) -> usize {
        self.slots[(sequence - self.oldest()) as usize].len
    }

    /// A unit counts no more: its room comes back with [`Self::advance`].
    pub(crate) fn release(&mut self, sequence: u64, mark: Mark) {
        let place = (sequence - self.oldest()) as usize;
        let slot = &mut self.slots[place];
        debug_assert!(!slot.released, "a unit is released once");
        slot.released = true;
        if mark == Mark::Durable {
            self.arena.store(RING_OFFSET + slot.offset + UNIT_MARK_OFFSET, &UNIT_DURABLE);
        }
        self.used_bytes -= slot.len;
    }

    /// Gives the room of the oldest units back, up to the first that is not released.
    pub(crate) fn advance(&mut self) {
        let before = self.slots.len();
        while self.slots.front().is_some_and(|slot| slot.released) {
            self.slots.pop_front();
        }
        if self.slots.len() != before {
            self.head.tail_offset = self.slots.front().map_or(self.end, |slot| slot.offset) as u64;
            self.head.tail_sequence = self.oldest();
            if !is_planted(Bug::ArenaTailLate) {
                self.store_head();
            }
        }
    }

    fn place(&self, len: usize) -> Option<usize> {
        let capacity = self.capacity();
        let Some(oldest) = self.slots.front() else {
            // From the start each time: what little is in use then stays in the processor's cache.
            return (len <= capacity).then_some(0);
        };
        let tail = oldest.offset;
        if self.end > tail {
            if self.end + len <= capacity { Some(self.end) } else { (len < tail).then_some(0) }
        } else {
            (self.end + len < tail).then_some(self.end)
        }
    }

    fn add_slot(&mut self, offset: usize, len: usize) {
        self.slots.push_back(Slot { offset, len, released: false });
        self.end = offset + len;
        self.next_sequence += 1;
        self.used_bytes += len;
    }

    fn store_head(&mut self) {
        self.head.generation += 1;
        let copy = (self.head.generation % 2) as usize * HEAD_BYTES;
        self.arena.store(copy, &self.head.encode());
    }

    /// The next unit of the sequence, at the end or at the start of the ring.
    fn find_next(&mut self, is_sound: impl Fn(&[UnitExtent]) -> bool) -> Option<Found> {
        let places = [self.end, if is_planted(Bug::ArenaWrapMissed) { self.end } else { 0 }];
        let unit_at = |offset| unit_at(&self.arena, self.head.volume, offset, self.next_sequence);
        let (offset, Stored { extents, len, durable }) =
            places.into_iter().find_map(|offset| Some((offset, unit_at(offset)?)))?;
        if !self.is_free(offset, len) || !is_sound(&extents) {
            return None;
        }
        let (sequence, payload_at) = (self.next_sequence, payload_at(offset, extents.len()));
        self.add_slot(offset, len);
        Some(Found { sequence, extents, payload_at, durable })
    }

    /// Whether a unit at the end or at the start of the ring lies over none before it.
    fn is_free(&self, offset: usize, len: usize) -> bool {
        let Some(oldest) = self.slots.front() else { return true };
        let is_behind = offset >= self.end && self.end > oldest.offset;
        is_behind || offset + len <= oldest.offset
    }
}

/// Largest unit that fits an empty ring in such an arena wherever its end is.
pub(crate) fn unit_bytes_max_of(arena_bytes: usize) -> usize {
    (capacity_of(arena_bytes) / 2).saturating_sub(8)
}

/// Bytes of the smallest arena for writes of `atomic_max_bytes`: one such, wherever it begins in a page, in whole pages,
/// with what says of it where it goes.
pub(crate) fn arena_bytes_min(atomic_max_bytes: u64) -> u64 {
    // Twice what `unit_bytes_max_of` takes off, what rounding does, and what says of the write.
    const BESIDE_BYTES: usize = RING_OFFSET + 24 + UNIT_HEADER_BYTES + UNIT_EXTENT_BYTES;
    atomic_max_bytes.saturating_add(2 * PAGE_BYTES + BESIDE_BYTES as u64)
}

fn payload_at(offset: usize, extents: usize) -> usize {
    RING_OFFSET + offset + UNIT_HEADER_BYTES + extents * UNIT_EXTENT_BYTES
}
