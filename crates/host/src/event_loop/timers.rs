//! The timers of a loop, in the order in which they fire.

use std::collections::BTreeMap;
use std::task::Waker;

/// When a timer fires, and its number among those of the same time.
pub(super) type TimerId = (u64, u64);

/// Timers that have not fired.
#[derive(Default)]
pub(super) struct Timers {
    set: BTreeMap<TimerId, Waker>,
    count: u64,
}

impl Timers {
    pub(super) fn set(&mut self, at_ns: u64, waker: Waker) -> TimerId {
        self.count += 1;
        self.set.insert((at_ns, self.count), waker);
        (at_ns, self.count)
    }

    /// Whether the timer has not fired yet; then `waker` is whom it will wake.
    pub(super) fn is_set(&mut self, timer: TimerId, waker: &Waker) -> bool {
        let Some(held) = self.set.get_mut(&timer) else { return false };
        held.clone_from(waker);
        true
    }

    pub(super) fn cancel(&mut self, timer: TimerId) {
        self.set.remove(&timer);
    }

    pub(super) fn next_at_ns(&self) -> Option<u64> {
        self.set.first_key_value().map(|(&(at_ns, _), _)| at_ns)
    }

    /// Takes out the earliest timer if its time has come.
    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<Waker> {
        let first = self.set.first_entry()?;
        (first.key().0 <= now_ns).then(|| first.remove())
    }
}
