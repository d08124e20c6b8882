//! What other threads have for the loop, and how they wake it.
//!
//! 1. Whatever was put in before the loop closed the inbox is taken out or dropped by the loop, never lost in
//!    sleep: who puts something into an inbox that was not marked marks it and writes to the event descriptor.
//! 2. A closed inbox takes nothing.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{io, mem};

use rustix::event::{EventfdFlags, eventfd};

use super::Loop;
use super::request::Completion;

/// A closure for the loop.
pub(super) type Posted = Box<dyn FnOnce(&Loop) + Send>;

/// What lies there for the loop.
#[derive(Default)]
pub(super) struct Inbox {
    pub(super) woken: Vec<u64>,
    pub(super) completions: Vec<Completion>,
    pub(super) posted: Vec<Posted>,
    closed: bool,
}

/// The loop as other threads see it.
pub(super) struct Foreign {
    /// No two loops of a process have the same.
    pub(super) loop_id: u64,
    pub(super) event: OwnedFd,
    marked: AtomicBool,
    inbox: Mutex<Inbox>,
}

impl Foreign {
    pub(super) fn new() -> io::Result<Self> {
        static LOOPS: AtomicU64 = AtomicU64::new(1);
        Ok(Self {
            loop_id: LOOPS.fetch_add(1, Ordering::Relaxed),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            marked: AtomicBool::new(false),
            inbox: Mutex::default(),
        })
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts something in; false where the loop is gone.
    fn put(&self, put: impl FnOnce(&mut Inbox)) -> bool {
        let mut inbox = self.inbox();
        if inbox.closed {
            return false;
        }
        put(&mut inbox);
        drop(inbox);
        if !self.marked.swap(true, Ordering::AcqRel) {
            // It fails only where the counter is full, and then the loop is awake.
            let _awake_already = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
        true
    }

    pub(super) fn wake(&self, key: u64) {
        self.put(|inbox| inbox.woken.push(key));
    }

    pub(super) fn complete(&self, completion: Completion) {
        self.put(|inbox| inbox.completions.push(completion));
    }

    pub(super) fn post(&self, posted: Posted) -> bool {
        self.put(|inbox| inbox.posted.push(posted))
    }

    /// Takes everything out into `into`, which is empty; false where there was nothing.
    pub(super) fn take(&self, into: &mut Inbox) -> bool {
        if !self.marked.load(Ordering::Relaxed) || !self.marked.swap(false, Ordering::AcqRel) {
            return false;
        }
        let mut inbox = self.inbox();
        mem::swap(&mut inbox.woken, &mut into.woken);
        mem::swap(&mut inbox.completions, &mut into.completions);
        mem::swap(&mut inbox.posted, &mut into.posted);
        true
    }

    /// The event descriptor has served its purpose; it will be needed again.
    pub(super) fn acknowledge(&self) {
        let mut count = [0; 8];
        let _nothing_to_read_is_fine = rustix::io::read(&self.event, &mut count);
    }

    /// From here on nothing goes in. What was there is dropped.
    pub(super) fn close(&self) {
        let dropped = {
            let mut inbox = self.inbox();
            inbox.closed = true;
            mem::take(&mut inbox.posted)
        };
        drop(dropped);
    }
}
