//! Reads that no client waits for: few at once on each member, so that those of clients find it free.
//!
//! 1. Those of a kind are served in the order in which they came. A rebuild does not wait behind all that goes home.
//! 2. As long as clients read, few are under way on a member; else as many as are good for a drive.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use super::Ring;
use crate::device::Drive;
use crate::env::Env;

/// Who waits for a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// A client, or what one waits for.
    Client,
    /// A change, on its way home.
    Change,
    /// A rebuild or a scrub.
    Copy,
}

/// How many of a kind are under way on a member beside reads of clients: what a drive does at once anyway,
const BESIDE_CLIENTS: u64 = 2;

/// and how many without.
const ALONE: u64 = 16;

/// Clients that have not read for so long do not read.
const CLIENTS_QUIET_NS: u64 = 100_000_000;

/// The reads of a member.
#[derive(Debug, Default)]
pub(super) struct Background {
    changes: Queue,
    copies: Queue,
}

/// Reads of one kind: those that wait, and those under way.
#[derive(Debug, Default)]
struct Queue {
    came: Cell<u64>,
    ended: Cell<u64>,
    /// How many may be under way at once, as it was when it was last looked at.
    at_once: Cell<u64>,
    /// By their numbers, from 0.
    waiting: RefCell<BTreeMap<u64, Waker>>,
}

/// A read under way, or one that waits, until this is dropped.
#[derive(Debug)]
pub(crate) struct Admitted<'a>(&'a Queue);

impl Queue {
    /// Ends once fewer than `at_once` of those that came before are left.
    async fn admit(&self, at_once: impl Fn() -> u64) -> Admitted<'_> {
        let number = self.came.replace(self.came.get() + 1);
        let admitted = Admitted(self);
        poll_fn(|context| {
            let before = self.at_once.replace(at_once());
            if number < self.ended.get() + self.at_once.get() {
                self.waiting.borrow_mut().remove(&number);
                if before < self.at_once.get() {
                    self.wake();
                }
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().insert(number, context.waker().clone());
            Poll::Pending
        })
        .await;
        admitted
    }

    /// Wakes those that may begin.
    fn wake(&self) {
        let behind = self.waiting.borrow_mut().split_off(&(self.ended.get() + self.at_once.get()));
        for (_, waker) in self.waiting.replace(behind) {
            waker.wake();
        }
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        self.0.ended.set(self.0.ended.get() + 1);
        self.0.wake();
    }
}

impl<E: Env, M: Drive> Ring<E, M> {
    /// Waits until a read may begin on this member.
    pub(crate) async fn admit(&self, urgency: Urgency, place: usize) -> Option<Admitted<'_>> {
        let background = &self.members[place].background;
        let queue = match urgency {
            Urgency::Client => return None,
            Urgency::Change => &background.changes,
            Urgency::Copy => &background.copies,
        };
        Some(queue.admit(|| self.background_reads_max()).await)
    }

    fn background_reads_max(&self) -> u64 {
        let quiet_ns = self.env.now_ns().saturating_sub(self.client_read_ns.get());
        if self.client_reads.get() > 0 && quiet_ns < CLIENTS_QUIET_NS { BESIDE_CLIENTS } else { ALONE }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::Context;

    use super::*;

    type Read<'a> = Pin<Box<dyn Future<Output = Admitted<'a>> + 'a>>;

    fn poll<'a>(reads: &mut [Option<Read<'a>>], at: usize) -> Option<Admitted<'a>> {
        let read = reads[at].as_mut().expect("not given up");
        match read.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(admitted) => Some(admitted),
            Poll::Pending => None,
        }
    }

    #[test]
    fn they_come_in_order_and_no_more_at_once_than_may_also_where_one_is_given_up() {
        let (queue, at_once) = (Queue::default(), Cell::new(1));
        let read = || -> Option<Read<'_>> { Some(Box::pin(queue.admit(|| at_once.get()))) };
        let mut reads: Vec<Option<Read<'_>>> = (0..5).map(|_| read()).collect();
        let first = poll(&mut reads, 0).expect("nobody is before it");
        assert!((1..5).all(|at| poll(&mut reads, at).is_none()));
        reads[1] = None;
        assert!(poll(&mut reads, 2).is_none(), "the first one is still under way");
        drop(first);
        let third = poll(&mut reads, 2).expect("the second was given up");
        assert!(poll(&mut reads, 3).is_none());
        at_once.set(2);
        let fourth = poll(&mut reads, 3).expect("two at once");
        assert!(poll(&mut reads, 4).is_none());
        drop((third, fourth));
        assert!(poll(&mut reads, 4).is_some());
    }
}
