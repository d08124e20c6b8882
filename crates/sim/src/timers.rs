//! Timers in virtual time.
//!
//! 1. They fire in the order of their time, and at one time in the order in which they were set.
//! 2. A cancelled timer does not fire, and time does not stop at it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::task::Waker;

/// Which timer; its sequence number tells it from a later one in the same slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimerId {
    slot: usize,
    sequence: u64,
}

struct Slot {
    /// The timer that has the slot; [`FREE`] if none does.
    sequence: u64,
    /// `None`: cancelled. The slot stays taken until the heap gives the timer up.
    waker: Option<Waker>,
}

const FREE: u64 = u64::MAX;

#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(u64, u64, usize)>>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    next_sequence: u64,
}

impl Timers {
    pub(crate) fn set(&mut self, at_ns: u64, waker: Waker) -> TimerId {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let taken = Slot { sequence, waker: Some(waker) };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = taken;
                slot
            }
            None => {
                self.slots.push(taken);
                self.slots.len() - 1
            }
        };
        self.heap.push(Reverse((at_ns, sequence, slot)));
        TimerId { slot, sequence }
    }

    /// Whether `timer` is still to fire; then it wakes `waker` from now on.
    pub(crate) fn is_set(&mut self, timer: TimerId, waker: &Waker) -> bool {
        match self.slot(timer) {
            Some(slot) => {
                if !slot.waker.as_ref().is_some_and(|old| old.will_wake(waker)) {
                    slot.waker = Some(waker.clone());
                }
                true
            }
            None => false,
        }
    }

    pub(crate) fn cancel(&mut self, timer: TimerId) {
        if let Some(slot) = self.slot(timer) {
            slot.waker = None;
        }
    }

    fn slot(&mut self, timer: TimerId) -> Option<&mut Slot> {
        self.slots.get_mut(timer.slot).filter(|slot| slot.sequence == timer.sequence)
    }

    /// Takes the earliest timers, all of one time, and adds their wakers to `fired`; returns that time.
    pub(crate) fn fire(&mut self, fired: &mut Vec<Waker>) -> Option<u64> {
        let mut now = None;
        while let Some(&Reverse((at_ns, _, slot))) = self.heap.peek() {
            if now.is_some_and(|now| now != at_ns) {
                break;
            }
            self.heap.pop();
            self.free.push(slot);
            self.slots[slot].sequence = FREE;
            if let Some(waker) = self.slots[slot].waker.take() {
                fired.push(waker);
                now = Some(at_ns);
            }
        }
        now
    }
}
