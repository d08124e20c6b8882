//! The RAM buffer: a slot for each dirty frame, and who waits for it.
//!
//! 1. A slot that is dirty is in one of three queues: ready (its frame was completed from the cells), urgent (asked
//!    for), and the rest. They go in this order; within a queue the oldest goes first.
//! 2. A slot of a stream is in that stream's list from the write that named it until it is in the cells.
//! 3. Whoever waits for a slot is told once, when it is in the cells or no longer needed.

use std::collections::BTreeMap;

use super::ftl::NONE;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotState {
    Free,
    /// In the queue of the rest.
    Dirty,
    /// In the queue of what was asked for.
    Urgent,
    /// In the queue of what was completed from the cells.
    Ready,
    /// The rest of its frame is being read.
    Fetching,
    /// On its way into the cells; later writes take another slot.
    Programming,
    /// Another slot of the same frame is on its way into the cells: this one comes after it.
    Behind,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) logical: u32,
    /// The frame that holds the last durable version; [`NONE`] if there is none. Only the newest slot of a logical
    /// frame knows it.
    pub(crate) old: u32,
    /// Its sectors that were written, a bit each.
    pub(crate) mask: u32,
    pub(crate) state: SlotState,
    /// Whether someone asked for it while it was behind another or fetching.
    pub(crate) asked: bool,
    /// Whether it has taken over what the slot before it holds.
    pub(crate) begun: bool,
    pub(crate) since_ns: u64,
    /// The slot behind it, if any.
    pub(crate) successor: u32,
    /// The slot before it, if it is behind one.
    pub(crate) predecessor: u32,
    /// Where it is in the list of those in use.
    place: u32,
    previous: u32,
    next: u32,
    pub(crate) stream: u32,
    stream_previous: u32,
    stream_next: u32,
    waiters: u32,
}

const BLANK: Slot = Slot {
    logical: NONE,
    old: NONE,
    mask: 0,
    state: SlotState::Free,
    asked: false,
    begun: false,
    since_ns: 0,
    successor: NONE,
    predecessor: NONE,
    place: NONE,
    previous: NONE,
    next: NONE,
    stream: 0,
    stream_previous: NONE,
    stream_next: NONE,
    waiters: NONE,
};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    first: u32,
    last: u32,
}

const EMPTY: Queue = Queue { first: NONE, last: NONE };

#[derive(Debug, Clone)]
pub(crate) struct Buffer {
    pub(crate) slots: Vec<Slot>,
    free: Vec<u32>,
    used: Vec<u32>,
    rest: Queue,
    urgent: Queue,
    ready: Queue,
    /// By stream, its first slot.
    streams: BTreeMap<u32, u32>,
    /// Requests that wait for slots: (request, the next place in the list).
    waiters: Vec<(u32, u32)>,
    waiters_free: u32,
}

impl Buffer {
    pub(crate) fn new(slots: u32) -> Self {
        Self {
            slots: vec![BLANK; slots as usize],
            free: (0..slots).rev().collect(),
            used: Vec::new(),
            rest: EMPTY,
            urgent: EMPTY,
            ready: EMPTY,
            streams: BTreeMap::new(),
            waiters: Vec::new(),
            waiters_free: NONE,
        }
    }

    /// Slots in use.
    pub(crate) fn used(&self) -> &[u32] {
        &self.used
    }

    pub(crate) fn take(&mut self, logical: u32, now_ns: u64) -> Option<u32> {
        let slot = self.free.pop()?;
        let place = self.used.len() as u32;
        self.used.push(slot);
        self.slots[slot as usize] = Slot { logical, since_ns: now_ns, place, ..BLANK };
        Some(slot)
    }

    /// Frees a slot that is in no queue; its waiters must have been told.
    pub(crate) fn release(&mut self, slot: u32) {
        self.leave_stream(slot);
        debug_assert_eq!(self.slots[slot as usize].waiters, NONE);
        let Slot { place, .. } = self.slots[slot as usize];
        self.used.swap_remove(place as usize);
        if let Some(&moved) = self.used.get(place as usize) {
            self.slots[moved as usize].place = place;
        }
        self.slots[slot as usize].state = SlotState::Free;
        self.free.push(slot);
    }

    fn queue(&mut self, state: SlotState) -> &mut Queue {
        match state {
            SlotState::Dirty => &mut self.rest,
            SlotState::Urgent => &mut self.urgent,
            SlotState::Ready => &mut self.ready,
            _ => unreachable!("no queue of slots that are {state:?}"),
        }
    }

    /// Puts a slot at the end of the queue of `state`.
    pub(crate) fn enqueue(&mut self, slot: u32, state: SlotState) {
        let queue = self.queue(state);
        let last = std::mem::replace(&mut queue.last, slot);
        if last == NONE {
            queue.first = slot;
        } else {
            self.slots[last as usize].next = slot;
        }
        let at = &mut self.slots[slot as usize];
        at.state = state;
        at.previous = last;
        at.next = NONE;
    }

    /// Takes a slot out of its queue.
    pub(crate) fn dequeue(&mut self, slot: u32) {
        let Slot { previous, next, state, .. } = self.slots[slot as usize];
        let queue = self.queue(state);
        if previous == NONE {
            queue.first = next;
        }
        if next == NONE {
            queue.last = previous;
        }
        if previous != NONE {
            self.slots[previous as usize].next = next;
        }
        if next != NONE {
            self.slots[next as usize].previous = previous;
        }
    }

    pub(crate) fn first(&self, state: SlotState) -> Option<u32> {
        let queue = match state {
            SlotState::Ready => &self.ready,
            SlotState::Urgent => &self.urgent,
            _ => &self.rest,
        };
        (queue.first != NONE).then_some(queue.first)
    }

    /// The slot after `slot` in its queue.
    pub(crate) fn after(&self, slot: u32) -> Option<u32> {
        let next = self.slots[slot as usize].next;
        (next != NONE).then_some(next)
    }

    /// The slot was written for `stream`: the last one that names it has it.
    pub(crate) fn name_stream(&mut self, slot: u32, stream: u32) {
        if stream == 0 || self.slots[slot as usize].stream == stream {
            return;
        }
        self.leave_stream(slot);
        let first = self.streams.insert(stream, slot).unwrap_or(NONE);
        let at = &mut self.slots[slot as usize];
        at.stream = stream;
        at.stream_previous = NONE;
        at.stream_next = first;
        if first != NONE {
            self.slots[first as usize].stream_previous = slot;
        }
    }

    fn leave_stream(&mut self, slot: u32) {
        let Slot { stream, stream_previous, stream_next, .. } = self.slots[slot as usize];
        if stream == 0 {
            return;
        }
        if stream_next != NONE {
            self.slots[stream_next as usize].stream_previous = stream_previous;
        }
        if stream_previous != NONE {
            self.slots[stream_previous as usize].stream_next = stream_next;
        } else if stream_next != NONE {
            self.streams.insert(stream, stream_next);
        } else {
            self.streams.remove(&stream);
        }
        self.slots[slot as usize].stream = 0;
    }

    /// The slots of a stream.
    pub(crate) fn of_stream(&self, stream: u32, into: &mut Vec<u32>) {
        let mut at = self.streams.get(&stream).copied().unwrap_or(NONE);
        while at != NONE {
            into.push(at);
            at = self.slots[at as usize].stream_next;
        }
    }

    /// `request` waits for the slot.
    pub(crate) fn wait(&mut self, slot: u32, request: u32) {
        let next = self.slots[slot as usize].waiters;
        let place = match self.waiters_free {
            NONE => {
                self.waiters.push((request, next));
                (self.waiters.len() - 1) as u32
            }
            free => {
                self.waiters_free = self.waiters[free as usize].1;
                self.waiters[free as usize] = (request, next);
                free
            }
        };
        self.slots[slot as usize].waiters = place;
    }

    /// One of those who wait for the slot, who no longer does.
    pub(crate) fn next_waiter(&mut self, slot: u32) -> Option<u32> {
        let place = self.slots[slot as usize].waiters;
        if place == NONE {
            return None;
        }
        let (request, next) = self.waiters[place as usize];
        self.slots[slot as usize].waiters = next;
        self.waiters[place as usize].1 = self.waiters_free;
        self.waiters_free = place;
        Some(request)
    }
}
