//! Into the buffer, and what asks for its contents.

use super::buffer::SlotState;
use super::ftl::{NONE, SLOT};
use super::{Flash, Operation, Request};

impl Flash {
    /// Whether a write is done only when it is in the cells.
    fn is_through(&self, request: &Request) -> bool {
        let must = request.operation == Operation::DurableWrite || !self.shape.write_cache;
        must && !self.shape.power_loss_protection
    }

    /// A write has crossed the link.
    pub(crate) fn land(&mut self, pending: u32) {
        self.counters.writes += 1;
        let request = self.pending[pending as usize].request;
        // One for its way into the buffer.
        self.pending[pending as usize].left = 1;
        let first = self.frames_of(&request).start;
        if !self.waiting.is_empty() {
            self.waiting.push_back((pending, first));
            return;
        }
        if let Err(next) = self.admit(pending, first) {
            self.waiting.push_back((pending, next));
        }
    }

    /// Lets writes in that wait for slots, in order.
    pub(crate) fn admit_waiting(&mut self) {
        while let Some(&(pending, next)) = self.waiting.front() {
            if let Err(next) = self.admit(pending, next) {
                self.waiting[0].1 = next;
                break;
            }
            self.waiting.pop_front();
        }
        self.kick();
    }

    /// Puts a write's frames from `first` on into the buffer; `Err` tells the first that found no place.
    fn admit(&mut self, pending: u32, first: u32) -> Result<(), u32> {
        let request = self.pending[pending as usize].request;
        for logical in first..self.frames_of(&request).end {
            let Some(slot) = self.admit_frame(&request, logical) else { return Err(logical) };
            let predecessor = self.buffer.slots[slot as usize].predecessor;
            let begins =
                predecessor != NONE && !std::mem::replace(&mut self.buffer.slots[slot as usize].begun, true);
            self.buffer_bytes(pending, logical, slot, begins.then_some(predecessor));
            self.counters.host_frames += 1;
            self.buffer.name_stream(slot, request.stream);
            if self.is_through(&request) {
                self.wait_for(slot, pending);
            }
        }
        self.release_write(pending);
        self.advance(pending);
        Ok(())
    }

    fn admit_frame(&mut self, request: &Request, logical: u32) -> Option<u32> {
        let mask = self.mask_of(request, logical);
        let place = self.ftl.map[logical as usize];
        if place == NONE || place & SLOT == 0 {
            let slot = self.buffer.take(logical, self.now_ns)?;
            let at = &mut self.buffer.slots[slot as usize];
            at.old = place;
            at.mask = mask;
            self.ftl.map[logical as usize] = SLOT | slot;
            self.buffer.enqueue(slot, SlotState::Dirty);
            return Some(slot);
        }
        let slot = place & !SLOT;
        let at = &mut self.buffer.slots[slot as usize];
        if at.state != SlotState::Programming {
            at.mask |= mask;
            self.counters.buffer_write_hits += 1;
            return Some(slot);
        }
        let (old, mask) = (at.old, at.mask | mask);
        let behind = self.buffer.take(logical, self.now_ns)?;
        let at = &mut self.buffer.slots[behind as usize];
        (at.old, at.mask, at.state, at.predecessor) = (old, mask, SlotState::Behind, slot);
        self.buffer.slots[slot as usize].successor = behind;
        self.ftl.map[logical as usize] = SLOT | behind;
        Some(behind)
    }

    /// A request waits for a slot to be in the cells, and asks for it.
    fn wait_for(&mut self, slot: u32, pending: u32) {
        self.pending[pending as usize].left += 1;
        self.buffer.wait(slot, pending);
        self.ask(slot);
    }

    fn ask(&mut self, slot: u32) {
        let at = &mut self.buffer.slots[slot as usize];
        at.asked = true;
        if at.state == SlotState::Dirty {
            self.buffer.dequeue(slot);
            self.buffer.enqueue(slot, SlotState::Urgent);
        }
    }

    pub(crate) fn flush(&mut self, pending: u32, request: &Request) {
        self.counters.flushes += 1;
        self.pending[pending as usize].left = 1;
        if let Some(contents) = &mut self.contents {
            contents.make_discards_durable();
        }
        if !self.shape.power_loss_protection {
            let mut slots = std::mem::take(&mut self.scratch);
            slots.clear();
            match request.operation {
                Operation::Flush => self.all_slots(&mut slots),
                Operation::FlushStream => self.buffer.of_stream(request.stream, &mut slots),
                _ => self.slots_of(request, &mut slots),
            }
            for slot in slots.drain(..) {
                // What is before it in the same frame is older, and may be what the flush is about.
                let predecessor = self.buffer.slots[slot as usize].predecessor;
                if predecessor != NONE && request.operation != Operation::Flush {
                    self.wait_for(predecessor, pending);
                }
                self.wait_for(slot, pending);
            }
            self.scratch = slots;
        }
        self.advance(pending);
        self.kick();
    }

    /// All slots in use: those that wait for someone to ask in the order in which they came, then the others.
    fn all_slots(&self, into: &mut Vec<u32>) {
        let mut next = self.buffer.first(SlotState::Dirty);
        while let Some(slot) = next {
            into.push(slot);
            next = self.buffer.after(slot);
        }
        let is_other = |slot: &u32| self.buffer.slots[*slot as usize].state != SlotState::Dirty;
        into.extend(self.buffer.used().iter().copied().filter(is_other));
    }

    fn slots_of(&self, request: &Request, into: &mut Vec<u32>) {
        let frames = self.frames_of(request);
        if frames.len() > self.buffer.used().len() {
            let is_within = |slot: &u32| {
                let at = &self.buffer.slots[*slot as usize];
                frames.contains(&at.logical) && self.ftl.map[at.logical as usize] == SLOT | *slot
            };
            into.extend(self.buffer.used().iter().copied().filter(is_within));
            return;
        }
        for logical in frames {
            let place = self.ftl.map[logical as usize];
            if place != NONE && place & SLOT != 0 {
                into.push(place & !SLOT);
            }
        }
    }

    pub(crate) fn discard(&mut self, pending: u32, request: &Request) {
        self.pending[pending as usize].left = 1;
        let full = self.full_mask();
        for logical in self.frames_of(request) {
            // Of a frame that is discarded in part nothing is given up.
            if self.mask_of(request, logical) != full {
                continue;
            }
            if let Some(contents) = &mut self.contents {
                contents.discard(logical);
            }
            let place = std::mem::replace(&mut self.ftl.map[logical as usize], NONE);
            if place == NONE || place & SLOT == 0 {
                self.ftl.invalidate(place);
                continue;
            }
            self.forget(place & !SLOT);
        }
        self.advance(pending);
        self.admit_waiting();
    }

    /// Nobody needs the newest slot of a frame any more.
    fn forget(&mut self, slot: u32) {
        let at = &mut self.buffer.slots[slot as usize];
        at.logical = NONE;
        let old = std::mem::replace(&mut at.old, NONE);
        let (state, predecessor) = (at.state, at.predecessor);
        self.ftl.invalidate(old);
        match state {
            SlotState::Dirty | SlotState::Urgent | SlotState::Ready => {
                self.buffer.dequeue(slot);
                self.drop_slot(slot);
            }
            SlotState::Behind => {
                let before = &mut self.buffer.slots[predecessor as usize];
                (before.logical, before.successor) = (NONE, NONE);
                self.drop_slot(slot);
            }
            // Whoever has it in hand drops it.
            _ => {}
        }
    }
}
