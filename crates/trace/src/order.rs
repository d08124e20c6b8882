//! Accesses in the order of their time: recorders write them down a little out of it, when they complete for instance.
//!
//! Memory is bounded, so order is made within a window. What comes later than that keeps its place, takes the time of
//! the one before it, and is counted: no latency is measured from a moment that had passed before it was read.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{Access, TraceError};

/// Accesses that are looked ahead.
pub const WINDOW: usize = 1 << 14;

/// An iterator in the order of time.
#[derive(Debug)]
pub struct InOrder<I> {
    accesses: I,
    window: usize,
    ahead: BinaryHeap<Reverse<Ahead>>,
    /// Of those that were read.
    count: u64,
    last_ns: u64,
    retimed: u64,
    failure: Option<TraceError>,
    is_at_end: bool,
}

/// Ordered by time, and by place where times are the same.
#[derive(Debug)]
struct Ahead {
    place: (u64, u64),
    access: Access,
}

impl PartialEq for Ahead {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
    }
}

impl Eq for Ahead {}

impl PartialOrd for Ahead {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ahead {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.place.cmp(&other.place)
    }
}

impl<I: Iterator<Item = Result<Access, TraceError>>> InOrder<I> {
    /// `accesses` in order, as far as `window` of them allow.
    pub fn new(accesses: I, window: usize) -> Self {
        Self {
            accesses,
            window,
            ahead: BinaryHeap::new(),
            count: 0,
            last_ns: 0,
            retimed: 0,
            failure: None,
            is_at_end: false,
        }
    }

    /// How many were so far out of order that they took another's time.
    pub fn retimed(&self) -> u64 {
        self.retimed
    }

    fn look_ahead(&mut self) {
        while !self.is_at_end && self.ahead.len() < self.window {
            match self.accesses.next() {
                Some(Ok(access)) => {
                    self.ahead.push(Reverse(Ahead { place: (access.time_ns, self.count), access }));
                    self.count += 1;
                }
                Some(Err(error)) => (self.failure, self.is_at_end) = (Some(error), true),
                None => self.is_at_end = true,
            }
        }
    }
}

impl<I: Iterator<Item = Result<Access, TraceError>>> Iterator for InOrder<I> {
    type Item = Result<Access, TraceError>;

    /// Errors come behind all that was read before them.
    fn next(&mut self) -> Option<Self::Item> {
        self.look_ahead();
        let Some(Reverse(Ahead { mut access, .. })) = self.ahead.pop() else {
            return self.failure.take().map(Err);
        };
        if access.time_ns < self.last_ns {
            access.time_ns = self.last_ns;
            self.retimed += 1;
        }
        self.last_ns = access.time_ns;
        Some(Ok(access))
    }
}
