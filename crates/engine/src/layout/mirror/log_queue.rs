//! What is under way on a log device: no more at a time than a slow one answers within the time that it has.
//!
//! 1. Writes of a lane begin in the order of their coming.
//! 2. No more than a lane's bytes are under way of it, or one write.
//! 3. Clients wait behind what is under way of the log of stripes, and not behind what waits of it: a checkpoint may have a
//!    hundred times as much.
//! 4. Who gives up waiting keeps nobody waiting.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use crate::notify::Line;

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Records and superblocks of the journal: clients wait for them.
    Journal,
    /// Records of the log of stripes, on their way home.
    Stripes,
}

impl Lane {
    /// Bytes under way. A device that writes 1 MB/s answers those of both within seven seconds, whatever it does first; one that
    /// writes 4 GB/s is still at work for half a millisecond.
    const fn under_way_max_bytes(self) -> u64 {
        match self {
            Self::Journal => 4 << 20,
            Self::Stripes => 2 << 20,
        }
    }

    /// Bytes of a write, at most: a larger one is several. Each may cost a flush of its own, so they are not small.
    pub(super) const fn piece_bytes(self) -> usize {
        match self {
            Self::Journal => 4 << 20,
            // Two at a time: one is there while the next is on its way.
            Self::Stripes => 1 << 20,
        }
    }
}

/// The writes of one device.
#[derive(Debug)]
pub(super) struct LogQueue {
    journal: Queue,
    stripes: Queue,
}

impl Default for LogQueue {
    fn default() -> Self {
        Self { journal: Queue::of(Lane::Journal), stripes: Queue::of(Lane::Stripes) }
    }
}

impl LogQueue {
    /// Waits until a write of so many bytes may begin.
    pub(super) async fn begin(&self, lane: Lane, len: u64) -> Place<'_> {
        match lane {
            Lane::Journal => self.journal.begin(len).await,
            Lane::Stripes => self.stripes.begin(len).await,
        }
    }
}

/// The writes of a lane.
#[derive(Debug)]
struct Queue {
    under_way_max_bytes: u64,
    under_way_bytes: Cell<u64>,
    came: Cell<u64>,
    /// Those that have not begun, by their numbers.
    waiting: RefCell<BTreeSet<u64>>,
    line: Line,
}

/// A write that waits, or is under way, until this is dropped.
#[derive(Debug)]
pub(super) struct Place<'a> {
    queue: &'a Queue,
    number: u64,
    len: u64,
    has_begun: Cell<bool>,
}

impl Queue {
    fn of(lane: Lane) -> Self {
        Self {
            under_way_max_bytes: lane.under_way_max_bytes(),
            under_way_bytes: Cell::default(),
            came: Cell::default(),
            waiting: RefCell::default(),
            line: Line::default(),
        }
    }

    async fn begin(&self, len: u64) -> Place<'_> {
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
        let has_room = under_way_bytes.saturating_add(place.len) <= self.under_way_max_bytes;
        is_next && (under_way_bytes == 0 || has_room)
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

    const MAX_BYTES: u64 = Lane::Journal.under_way_max_bytes();

    type Beginning<'a> = Pin<Box<dyn Future<Output = Place<'a>> + 'a>>;

    fn ask<'a>(beginning: &mut Beginning<'a>) -> Option<Place<'a>> {
        match beginning.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(place) => Some(place),
            Poll::Pending => None,
        }
    }

    #[test]
    fn writes_begin_in_order_and_no_more_at_a_time_than_may_be_under_way() {
        let queue = Queue::of(Lane::Journal);
        let lens = [MAX_BYTES / 2, MAX_BYTES / 2, 1, 3 * MAX_BYTES, 1];
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
        let queue = Queue::of(Lane::Journal);
        let mut writes: Vec<Beginning<'_>> =
            [MAX_BYTES, MAX_BYTES, 1].map(|len| Box::pin(queue.begin(len)) as _).into();
        let first = ask(&mut writes[0]).unwrap();
        assert!(ask(&mut writes[1]).is_none() && ask(&mut writes[2]).is_none());
        drop(writes.remove(1));
        drop(first);
        assert!(ask(&mut writes[1]).is_some());
    }

    #[test]
    fn a_record_of_the_journal_waits_for_none_of_the_stripes() {
        let queue = LogQueue::default();
        let piece_bytes = Lane::Stripes.piece_bytes() as u64;
        let mut stripes: Vec<Beginning<'_>> =
            (0..60).map(|_| Box::pin(queue.begin(Lane::Stripes, piece_bytes)) as _).collect();
        let under_way: Vec<Place<'_>> = stripes.iter_mut().filter_map(ask).collect();
        assert_eq!(under_way.len(), 2);
        let mut record: Beginning<'_> = Box::pin(queue.begin(Lane::Journal, 4096));
        assert!(ask(&mut record).is_some());
    }
}
