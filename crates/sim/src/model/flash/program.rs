//! From the buffer into the cells.

use super::super::schedule::NEVER;
use super::Flash;
use super::buffer::SlotState;
use super::ftl::{NONE, SLOT, Writer};
use super::shape::Collection;
use super::units::{ReadJob, State};
use super::{AGE, SECTOR_BYTES};

impl Flash {
    /// Whether the queue of the rest is to be written back without anyone asking.
    fn writes_back(&self) -> bool {
        if !self.waiting.is_empty() {
            return true;
        }
        if self.reads_have_it() {
            return false;
        }
        if self.buffer.used().len() > self.write_back_above {
            return true;
        }
        let (Some(first), Some(after_ns)) =
            (self.buffer.first(SlotState::Dirty), self.shape.write_back_after_ns)
        else {
            return false;
        };
        self.buffer.slots[first as usize].since_ns + after_ns <= self.now_ns
    }

    /// Whether all that nobody waits for gives way to reads.
    pub(crate) fn reads_have_it(&self) -> bool {
        self.waiting.is_empty() && self.reads_until_ns().is_some_and(|until_ns| self.now_ns < until_ns)
    }

    /// Up to when what nobody waits for gives way to the last read.
    fn reads_until_ns(&self) -> Option<u64> {
        Some(self.last_read_ns? + self.shape.yields_to_reads_ns?)
    }

    /// The queue whose first slot goes next.
    fn next_queue(&self) -> Option<SlotState> {
        if self.buffer.first(SlotState::Ready).is_some() {
            return Some(SlotState::Ready);
        }
        if self.buffer.first(SlotState::Urgent).is_some() {
            return Some(SlotState::Urgent);
        }
        (self.buffer.first(SlotState::Dirty).is_some() && self.writes_back()).then_some(SlotState::Dirty)
    }

    /// Whether a frame must be read before the slot's part of it can be programmed.
    fn must_fetch(&self, slot: u32) -> bool {
        let slot = &self.buffer.slots[slot as usize];
        slot.mask != self.full_mask() && slot.old != NONE
    }

    /// Takes the next slot that can be programmed out of its queue; those before it are fetched.
    fn next_slot(&mut self) -> Option<u32> {
        // More fetches at a time would stand in the way of the host's reads and gain nothing.
        let fetching_max = 2 * self.units.len() as u32;
        while let Some(queue) = self.next_queue() {
            let slot = self.buffer.first(queue).expect("the queue is not empty");
            if !self.must_fetch(slot) {
                self.buffer.dequeue(slot);
                return Some(slot);
            }
            if self.fetching == fetching_max {
                return None;
            }
            self.buffer.dequeue(slot);
            let full = self.full_mask();
            let at = &mut self.buffer.slots[slot as usize];
            at.state = SlotState::Fetching;
            let bytes = u64::from((full & !at.mask).count_ones()) * SECTOR_BYTES;
            let job = ReadJob { frame: at.old, bytes: bytes as u32, owner: SLOT | slot };
            self.fetching += 1;
            self.enqueue_read(job);
        }
        None
    }

    /// An idle unit with room, the one whose turn it is if possible.
    fn idle_unit(&mut self) -> Option<usize> {
        let units = self.units.len();
        let mut at = self.next_unit;
        let mut looked_at = 0;
        while looked_at < units {
            let word = self.idle[at / 64] >> (at % 64);
            let skip = if word == 0 { 64 - at % 64 } else { word.trailing_zeros() as usize };
            looked_at += skip;
            at += skip;
            if at >= units {
                looked_at -= at - units;
                at = 0;
                continue;
            }
            if word != 0 && looked_at < units {
                if self.plane_with_room(at).is_some() {
                    self.next_unit = (at + 1) % units;
                    return Some(at);
                }
                looked_at += 1;
                at = (at + 1) % units;
            }
        }
        None
    }

    /// A plane of the unit that takes a page of the host's, the one whose turn it is if possible.
    pub(crate) fn plane_with_room(&self, unit: usize) -> Option<u32> {
        let planes = self.shape.unit_planes();
        let first = unit as u32 * planes;
        let next = self.units[unit].next_plane;
        (0..planes)
            .map(|plane| first + (next + plane) % planes)
            .find(|&plane| self.ftl.has_room(plane, Writer::Host))
    }

    /// Gives idle units what there is to program.
    pub(crate) fn kick(&mut self) {
        while !self.is_stopped() && self.idle.iter().any(|&word| word != 0) {
            let Some(slot) = self.next_slot() else { break };
            let Some(unit) = self.idle_unit() else {
                self.buffer.enqueue(slot, SlotState::Ready);
                self.make_room();
                self.stop_without_room();
                break;
            };
            self.start_program(unit, slot);
        }
        self.set_age_timer();
    }

    /// Idle units without room, which found nothing worth collecting when they became idle, look again.
    fn make_room(&mut self) {
        for unit in 0..self.units.len() {
            if self.units[unit].state == State::Idle {
                self.collect_meanwhile(unit);
            }
        }
    }

    /// Lets what waits in the buffer for its time be written back when it has come.
    pub(crate) fn set_age_timer(&mut self) {
        let Some(after_ns) = self.shape.write_back_after_ns else { return };
        let due = self
            .buffer
            .first(SlotState::Dirty)
            .map(|slot| self.buffer.slots[slot as usize].since_ns + after_ns)
            .map(|due| due.max(self.reads_until_ns().unwrap_or(0)));
        self.set_source(AGE, due.filter(|&due| due > self.now_ns).unwrap_or(NEVER));
    }

    /// Whether the unit found something to program.
    pub(crate) fn program_next(&mut self, unit: usize) -> bool {
        if self.plane_with_room(unit).is_none() {
            return false;
        }
        let Some(slot) = self.next_slot() else { return false };
        self.start_program(unit, slot);
        true
    }

    fn start_program(&mut self, unit: usize, slot: u32) {
        let first = self.plane_with_room(unit).expect("the unit has room");
        let planes = self.shape.planes;
        let die = first - first % planes;
        self.units[unit].next_plane = (first + 1) % self.shape.unit_planes();
        let mut batch = std::mem::take(&mut self.units[unit].batch);
        let frames_a_page = self.shape.frames_a_page();
        let mut pages = 0_u32;
        let mut next = Some(slot);
        let group = self.buffer.slots[slot as usize].logical & !(planes - 1);
        for turn in 0..if self.shape.planes_together { planes } else { 1 } {
            let plane = die + (first - die + turn) % planes;
            if turn > 0 {
                if !self.ftl.has_room(plane, Writer::Host) {
                    continue;
                }
                next = if frames_a_page == 1 { self.sibling(group) } else { self.companion() };
            }
            let Some(slot) = next else { break };
            pages += 1;
            let page = self.ftl.take_page(plane, Writer::Host);
            self.add_to_batch(&mut batch, slot, page);
            for frame in 1..frames_a_page {
                let Some(slot) = self.companion() else { break };
                self.add_to_batch(&mut batch, slot, page + frame);
            }
        }
        self.counters.pages_programmed += u64::from(pages);
        self.counters.frames_programmed += batch.len() as u64;
        if self.shape.collection == Collection::Paced {
            self.owe(unit, batch.len() as u32);
        }
        self.units[unit].batch = batch;
        let moved_ns = self.channel(unit, u64::from(pages) * u64::from(self.shape.page_bytes));
        self.units[unit].began_ns = moved_ns;
        self.begin(unit, State::Programming, moved_ns + self.shape.program_ns);
        self.stop_if_short(unit);
    }

    fn add_to_batch(&mut self, batch: &mut Vec<(u32, u32)>, slot: u32, frame: u32) {
        self.buffer.slots[slot as usize].state = SlotState::Programming;
        batch.push((slot, frame));
    }

    /// A whole frame of the same group of neighbours, out of its queue: planes are programmed together with what
    /// belongs together.
    fn sibling(&mut self, group: u32) -> Option<u32> {
        for logical in group..group + self.shape.planes {
            let place = self.ftl.map.get(logical as usize).copied().unwrap_or(NONE);
            if place == NONE || place & SLOT == 0 {
                continue;
            }
            let slot = place & !SLOT;
            let state = self.buffer.slots[slot as usize].state;
            let is_queued = matches!(state, SlotState::Dirty | SlotState::Urgent | SlotState::Ready);
            if is_queued && !self.must_fetch(slot) {
                self.buffer.dequeue(slot);
                return Some(slot);
            }
        }
        None
    }

    /// A slot to fill up a page with, out of its queue: asked for or not, as the place would be lost.
    fn companion(&mut self) -> Option<u32> {
        for queue in [SlotState::Ready, SlotState::Urgent, SlotState::Dirty] {
            if let Some(slot) = self.buffer.first(queue)
                && !self.must_fetch(slot)
            {
                self.buffer.dequeue(slot);
                return Some(slot);
            }
        }
        None
    }

    pub(crate) fn finish_program(&mut self, unit: usize) {
        let mut batch = std::mem::take(&mut self.units[unit].batch);
        for (slot, frame) in batch.drain(..) {
            self.settle(slot, frame);
        }
        self.units[unit].batch = batch;
        self.admit_waiting();
    }

    /// A slot is in the cells, in `frame`.
    fn settle(&mut self, slot: u32, frame: u32) {
        let at = self.buffer.slots[slot as usize];
        if at.logical != NONE {
            self.ftl.set_owner(frame, at.logical);
            self.ftl.validate(frame);
            self.program_bytes(slot, frame);
            if at.successor == NONE {
                debug_assert_eq!(self.ftl.map[at.logical as usize], SLOT | slot);
                self.ftl.invalidate(at.old);
                self.ftl.map[at.logical as usize] = frame;
            } else {
                let successor = &mut self.buffer.slots[at.successor as usize];
                let old = std::mem::replace(&mut successor.old, frame);
                successor.predecessor = NONE;
                let state = if successor.asked { SlotState::Urgent } else { SlotState::Dirty };
                self.ftl.invalidate(old);
                self.buffer.enqueue(at.successor, state);
            }
        }
        self.drop_slot(slot);
    }

    /// A slot that is in no queue is no longer needed: tells those who wait for it.
    pub(crate) fn drop_slot(&mut self, slot: u32) {
        while let Some(pending) = self.buffer.next_waiter(slot) {
            self.advance(pending);
        }
        self.forget_bytes(slot);
        self.buffer.release(slot);
    }
}
