//! What is under way on a log device: no more at a time than a slow one answers within the time that it has.
//!
//! 1. Writes begin in the order of their coming.
//! 2. No more than [`UNDER_WAY_MAX_BYTES`] are under way, or one write.
//! 3. Who gives up waiting keeps nobody waiting.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use crate::notify::Line;

/// Bytes under way. A device that writes 1 MB/s answers them within five seconds, whatever it does first; one that writes 4 GB/s is
/// still at work for a millisecond.
const UNDER_WAY_MAX_BYTES: u64 = 4 << 20;

/// Bytes of a write, at most: a larger one is several. Each may cost a flush of its own, so they are not small.
pub(super) const PIECE_BYTES: usize = UNDER_WAY_MAX_BYTES as usize;

/// The writes of one device.
#[derive(Debug, Default)]
pub(super) struct LogQueue {
    under_way_bytes: Cell<u64>,
    came: Cell<u64>,
    /// Those that have not begun, by their numbers.
    waiting: RefCell<BTreeSet<u64>>,
    line: Line,
}

/// A write that waits, or is under way, until this is dropped.
#[derive(Debug)]
pub(super) struct Place<'a> {
    queue: &'a LogQueue,
    number: u64,
    len: u64,
    has_begun: Cell<bool>,
}

impl LogQueue {
    /// Waits until a write of so many bytes may begin.
    pub(super) async fn begin(&self, len: u64) -> Place<'_> {
        let number = self.came.replace(self.came.get() + 1);
        let place = Place { queue: self, number, len, has_begun: Cell::new(false) };
        if !self.may_begin(&place) {
            self.waiting.borrow_mut().insert(number);
            self.line.until(number, || self.may_begin(&place).then_some(())).await;
            self.waiting.borrow_mut().remove(&number);
        }
        place.has_begun.set(true);
        self.under_way_bytes.set(self.under_way_bytes.get() + len);
        self.wake_next();
        place
    }

    fn may_begin(&self, place: &Place<'_>) -> bool {
        let is_next = self.waiting.borrow().first().is_none_or(|&first| place.number <= first);
        let under_way_bytes = self.under_way_bytes.get();
        is_next && (under_way_bytes == 0 || under_way_bytes.saturating_add(place.len) <= UNDER_WAY_MAX_BYTES)
    }

    fn wake_next(&self) {
        let next = self.waiting.borrow().first().copied();
        if let Some(next) = next {
            self.line.through(next);
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.has_begun.get() {
            self.queue.under_way_bytes.set(self.queue.under_way_bytes.get() - self.len);
        } else {
            self.queue.waiting.borrow_mut().remove(&self.number);
        }
        self.queue.wake_next();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    type Beginning<'a> = Pin<Box<dyn Future<Output = Place<'a>> + 'a>>;

    fn ask<'a>(beginning: &mut Beginning<'a>) -> Option<Place<'a>> {
        match beginning.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(place) => Some(place),
            Poll::Pending => None,
        }
    }

    #[test]
    fn writes_begin_in_order_and_no_more_at_a_time_than_may_be_under_way() {
        let queue = LogQueue::default();
        let lens = [UNDER_WAY_MAX_BYTES / 2, UNDER_WAY_MAX_BYTES / 2, 1, 3 * UNDER_WAY_MAX_BYTES, 1];
        let mut writes: Vec<Beginning<'_>> =
            lens.iter().map(|&len| Box::pin(queue.begin(len)) as _).collect();
        let [first, second] = [ask(&mut writes[0]).unwrap(), ask(&mut writes[1]).unwrap()];
        assert!((2..5).all(|at| ask(&mut writes[at]).is_none()), "there is no room");
        drop(first);
        let third = ask(&mut writes[2]).expect("it is next");
        assert!(ask(&mut writes[3]).is_none() && ask(&mut writes[4]).is_none(), "small ones do not overtake");
        drop((second, third));
        let large = ask(&mut writes[3]).expect("alone");
        assert!(ask(&mut writes[4]).is_none());
        drop(large);
        assert!(ask(&mut writes[4]).is_some());
    }

    #[test]
    fn who_gives_up_waiting_keeps_nobody_waiting() {
        let queue = LogQueue::default();
        let mut writes: Vec<Beginning<'_>> =
            [UNDER_WAY_MAX_BYTES, UNDER_WAY_MAX_BYTES, 1].map(|len| Box::pin(queue.begin(len)) as _).into();
        let first = ask(&mut writes[0]).unwrap();
        assert!(ask(&mut writes[1]).is_none() && ask(&mut writes[2]).is_none());
        drop(writes.remove(1));
        drop(first);
        assert!(ask(&mut writes[1]).is_some());
    }
}
