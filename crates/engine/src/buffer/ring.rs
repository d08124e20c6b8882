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

use std::collections::VecDeque;

use crate::env::Arena;
use crate::format::unit::{
    ArenaHead, HEAD_BYTES, RING_OFFSET, UNIT_DURABLE, UNIT_EXTENT_BYTES, UNIT_HEADER_BYTES, UNIT_MARK_OFFSET,
    UnitExtent, decode_unit, decode_unit_header, encode_unit_head, unit_bytes,
};
use crate::planted::{Bug, is_planted};

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
    /// Opens the arena for `volume`, last opened as `epoch` and now to be opened as `next_epoch`. The units of
    /// an arena that belongs to this volume and opening are found, up to the first that is not sound; any other arena
    /// is begun anew.
    pub(crate) fn open(
        arena: A,
        volume: u64,
        epoch: u64,
        next_epoch: u64,
        is_sound: impl Fn(&[UnitExtent]) -> bool,
    ) -> (Self, Vec<Found>) {
        let copies = [0, HEAD_BYTES].map(|offset| {
            let mut bytes = [0; HEAD_BYTES];
            arena.load(offset, &mut bytes);
            ArenaHead::decode(&bytes)
        });
        let newest = copies.into_iter().flatten().max_by_key(|head| head.generation);
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
            scratch: Vec::new(),
        };
        let mut found = Vec::new();
        if ours.is_some() {
            while let Some(unit) = ring.find_next(&is_sound) {
                found.push(unit);
            }
        }
        ring.head.next_epoch = next_epoch;
        ring.store_head();
        (ring, found)
    }

    /// Records that the opening announced as `next_epoch` has begun.
    pub(crate) fn begin_epoch(&mut self) {
        self.head.epoch = self.head.next_epoch;
        self.store_head();
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
        let (offset, (extents, len, durable)) =
            places.into_iter().find_map(|offset| Some((offset, self.unit_at(offset)?)))?;
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

    fn unit_at(&self, offset: usize) -> Option<(Vec<UnitExtent>, usize, bool)> {
        let capacity = self.capacity();
        let mut header = [0; UNIT_HEADER_BYTES];
        if offset + header.len() > capacity {
            return None;
        }
        self.arena.load(RING_OFFSET + offset, &mut header);
        let header = decode_unit_header(&header).filter(|header| header.sequence == self.next_sequence)?;
        let len = header.len_bytes as usize;
        if offset.checked_add(len)? > capacity {
            return None;
        }
        let mut bytes = vec![0; len];
        self.arena.load(RING_OFFSET + offset, &mut bytes);
        let (header, extents, _) = decode_unit(self.head.volume, &bytes)?;
        Some((extents, len, header.durable))
    }
}

fn capacity_of(arena_bytes: usize) -> usize {
    arena_bytes.saturating_sub(RING_OFFSET) / 8 * 8
}

/// Largest unit that fits an empty ring in such an arena wherever its end is.
pub(crate) fn unit_bytes_max_of(arena_bytes: usize) -> usize {
    (capacity_of(arena_bytes) / 2).saturating_sub(8)
}

fn payload_at(offset: usize, extents: usize) -> usize {
    RING_OFFSET + offset + UNIT_HEADER_BYTES + extents * UNIT_EXTENT_BYTES
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use proptest::prelude::*;

    use super::*;
    use crate::format::unit::Content;

    #[derive(Clone)]
    pub(in crate::buffer) struct Memory(Rc<RefCell<Vec<u8>>>);

    impl Arena for Memory {
        fn len(&self) -> usize {
            self.0.borrow().len()
        }
        fn store(&self, offset: usize, bytes: &[u8]) {
            self.0.borrow_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        fn load(&self, offset: usize, into: &mut [u8]) {
            into.copy_from_slice(&self.0.borrow()[offset..offset + into.len()]);
        }
    }

    pub(in crate::buffer) fn memory(len: usize) -> Memory {
        Memory(Rc::new(RefCell::new(vec![0; len])))
    }

    fn open(arena: Memory, volume: u64, epoch: u64, next_epoch: u64) -> (Ring<Memory>, Vec<Found>) {
        Ring::open(arena, volume, epoch, next_epoch, |_| true)
    }

    fn data(offset: u64, len: usize) -> UnitExtent {
        UnitExtent { offset, len: len as u64, content: Content::Data }
    }

    #[test]
    fn an_arena_of_another_volume_or_opening_is_begun_anew() {
        let arena = memory(4096);
        let (mut ring, _) = open(arena.clone(), 7, 1, 2);
        ring.begin_epoch();
        ring.append(&[data(0, 3)], [&b"abc"[..]], 3).unwrap();
        assert_eq!(open(memory(4096), 7, 2, 3).1.len(), 0);
        assert_eq!(open(arena.clone(), 8, 2, 3).1.len(), 0);
    }

    fn release_oldest(ring: &mut Ring<Memory>) {
        ring.release(ring.oldest(), Mark::Durable);
        ring.advance();
    }

    /// Appends units of `len` bytes of payload while there is room; answers their number.
    fn fill_up(ring: &mut Ring<Memory>, len: usize) -> usize {
        (0..).take_while(|_| ring.append(&[data(0, len)], [&vec![1; len][..]], len).is_some()).count()
    }

    #[test]
    fn the_ring_is_used_to_its_end_and_from_its_start_again() {
        const PAYLOAD: usize = 56;
        let len = unit_bytes(1, PAYLOAD);
        let (mut ring, _) = open(memory(RING_OFFSET + 8 * len + 64), 7, 1, 2);
        assert_eq!(fill_up(&mut ring, PAYLOAD), 8);
        assert_eq!(ring.fill(), (8 * len, 8 * len + 64));
        // Where the oldest three were, two find room: the end never reaches the tail from behind.
        (0..3).for_each(|_| release_oldest(&mut ring));
        assert_eq!(fill_up(&mut ring, PAYLOAD), 2);
        assert_eq!(ring.fill().0, 7 * len);
        (0..7).for_each(|_| release_oldest(&mut ring));
        assert_eq!(ring.fill().0, 0);
    }

    #[test]
    fn an_empty_ring_takes_the_largest_unit_wherever_it_ends() {
        for payload in (8..900).step_by(8) {
            let (mut ring, _) = open(memory(2048), 7, 1, 2);
            assert!(2 * ring.unit_bytes_max() <= ring.capacity());
            ring.append(&[data(0, payload)], [&vec![1; payload][..]], payload).unwrap();
            release_oldest(&mut ring);
            let largest = ring.unit_bytes_max() / 8 * 8 - unit_bytes(1, 0);
            let appended = ring.append(&[data(0, largest)], [&vec![2; largest][..]], largest);
            assert!(appended.is_some(), "behind {payload} bytes");
        }
    }

    #[test]
    fn a_store_of_the_head_spares_the_one_before() {
        let arena = memory(4096);
        let (mut ring, _) = open(arena.clone(), 7, 1, 2);
        for _ in 0..4 {
            ring.append(&[data(0, 3)], [&b"abc"[..]], 3).unwrap();
            release_oldest(&mut ring);
            let mut generations = [0, HEAD_BYTES].map(|offset| {
                let mut bytes = [0; HEAD_BYTES];
                arena.load(offset, &mut bytes);
                ArenaHead::decode(&bytes).expect("both are whole").generation
            });
            generations.sort_unstable();
            assert_eq!(generations, [ring.head.generation - 1, ring.head.generation]);
        }
    }

    #[test]
    fn units_of_a_life_that_an_arena_was_begun_anew_after_never_come_back() {
        let arena = memory(4096);
        let (mut ring, _) = open(arena.clone(), 7, 1, 2);
        ring.begin_epoch();
        for _ in 0..3 {
            ring.append(&[data(0, 3)], [&b"old"[..]], 3).unwrap();
        }
        // The volume was opened elsewhere meanwhile: as 5, and is now to be opened as 6.
        let (mut ring, found) = open(arena.clone(), 7, 5, 6);
        assert!(found.is_empty());
        ring.begin_epoch();
        assert!(open(arena.clone(), 7, 6, 7).1.is_empty());
        ring.append(&[data(0, 3)], [&b"new"[..]], 3).unwrap();
        assert_eq!(open(arena, 7, 6, 7).1.len(), 1);
    }

    proptest! {
        #[test]
        fn what_is_appended_and_not_released_is_found_in_order(
            steps in proptest::collection::vec((1..200usize, 0..4usize), 1..200),
        ) {
            let arena = memory(2048);
            let (mut ring, found) = open(arena.clone(), 7, 1, 2);
            prop_assert!(found.is_empty());
            ring.begin_epoch();
            let mut live: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
            for (number, (len, releases)) in steps.into_iter().enumerate() {
                let bytes = vec![number as u8; len];
                if let Some((sequence, at)) = ring.append(&[data(number as u64, len)], [&bytes[..]], len) {
                    let mut back = vec![0; len];
                    ring.load(at, &mut back);
                    prop_assert_eq!(&back, &bytes);
                    live.push_back((sequence, bytes));
                }
                for _ in 0..releases {
                    if let Some((sequence, _)) = live.pop_front() {
                        ring.release(sequence, Mark::Durable);
                        ring.advance();
                    }
                }
                let (again, found) = open(arena.clone(), 7, 2, 2);
                prop_assert_eq!(found.len(), live.len());
                for (unit, (sequence, bytes)) in found.iter().zip(&live) {
                    prop_assert_eq!(unit.sequence, *sequence);
                    let mut back = vec![0; bytes.len()];
                    again.load(unit.payload_at, &mut back);
                    prop_assert_eq!(&back, bytes);
                }
                // Opening stored a head of its own generation; go on with that ring.
                ring = again;
            }
        }
    }
}
