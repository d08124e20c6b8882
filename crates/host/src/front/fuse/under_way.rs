//! Requests that are not answered yet.
//!
//! 1. They take at most [`UNDER_WAY_MAX_BYTES`], what carries them out counted: the next is not taken from the kernel before
//!    there is room for the largest. Requests in slots wait there.
//! 2. Once it is closed nothing more is carried out.

use std::cell::Cell;
use std::rc::Rc;

use crate::wait::Notify;

/// Bytes of requests that may be under way.
pub(super) const UNDER_WAY_MAX_BYTES: usize = 32 << 20;

/// What a request takes at most, with what carries it out.
const REQUEST_MAX_BYTES: usize = 1 << 20;

/// What a request takes besides the bytes that it brings or wants, and besides what carries it out.
const REQUEST_BYTES: usize = 1024;

/// How many requests are under way.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    bytes: Cell<usize>,
    peak_bytes: Cell<usize>,
    requests: Cell<u64>,
    is_closed: Cell<bool>,
    has_room: Notify,
}

/// Room of a request, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Room {
    of: Rc<UnderWay>,
    bytes: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        let of = &self.of;
        of.bytes.set(of.bytes.get() - self.bytes);
        of.requests.set(of.requests.get() - 1);
        of.has_room.all();
    }
}

impl UnderWay {
    /// Waits for room for the largest request.
    pub(super) async fn has_room(&self) {
        let is_there = || self.bytes.get() <= UNDER_WAY_MAX_BYTES - REQUEST_MAX_BYTES;
        if !is_there() {
            self.has_room.until(|| is_there().then_some(())).await;
        }
    }

    /// Counts a request that takes so many `bytes`; `None` once nothing more is carried out.
    pub(super) fn enter(self: &Rc<Self>, bytes: usize) -> Option<Room> {
        if self.is_closed.get() {
            return None;
        }
        let bytes = bytes.saturating_add(REQUEST_BYTES);
        self.bytes.set(self.bytes.get().saturating_add(bytes));
        self.peak_bytes.set(self.peak_bytes.get().max(self.bytes.get()));
        self.requests.set(self.requests.get() + 1);
        Some(Room { of: Rc::clone(self), bytes })
    }

    /// Nothing more is carried out.
    pub(super) fn close(&self) {
        self.is_closed.set(true);
    }

    /// Bytes of requests under way, and the most there were.
    pub(super) fn bytes(&self) -> (usize, usize) {
        (self.bytes.get(), self.peak_bytes.get())
    }

    /// Requests that are not answered yet.
    pub(super) fn requests(&self) -> u64 {
        self.requests.get()
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn the_next_request_waits_until_the_largest_has_room() {
        let under_way = Rc::<UnderWay>::default();
        let mut rooms = Vec::new();
        while pin!(under_way.has_room()).poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            rooms.extend(under_way.enter(REQUEST_MAX_BYTES - REQUEST_BYTES));
        }
        assert_eq!(rooms.len(), UNDER_WAY_MAX_BYTES / REQUEST_MAX_BYTES);
        assert_eq!(under_way.bytes(), (UNDER_WAY_MAX_BYTES, UNDER_WAY_MAX_BYTES));
        let mut waits = pin!(under_way.has_room());
        assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        rooms.pop();
        assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        drop(rooms);
        assert_eq!((under_way.bytes().0, under_way.requests()), (0, 0));
    }

    #[test]
    fn nothing_is_begun_once_it_is_closed_and_what_is_under_way_is_still_counted() {
        let under_way = Rc::<UnderWay>::default();
        let room = under_way.enter(10);
        under_way.close();
        assert!(under_way.enter(10).is_none());
        assert_eq!(under_way.requests(), 1);
        drop(room);
        assert_eq!(under_way.requests(), 0);
    }
}
