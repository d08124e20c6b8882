//! What other threads have for the loop, and how they wake it.
//!
//! 1. Whatever was put in before the loop closed the inbox is taken out or dropped by the loop, never lost in
//!    sleep: who puts something in marks the inbox, then looks whether the loop sleeps; the loop says that it will
//!    sleep, then looks whether the inbox is marked. Both in one order for all threads, so one of them sees the other.
//! 2. A loop that is awake costs whoever puts something in no system call.
//! 3. A closed inbox takes nothing but completions: a loop that ends waits for those that are under way.

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
    /// The loop sleeps, or is about to, and nobody has woken it.
    asleep: AtomicBool,
    inbox: Mutex<Inbox>,
}

impl Foreign {
    pub(super) fn new() -> io::Result<Self> {
        static LOOPS: AtomicU64 = AtomicU64::new(1);
        Ok(Self {
            loop_id: LOOPS.fetch_add(1, Ordering::Relaxed),
            event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            marked: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            inbox: Mutex::default(),
        })
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts something in; false where the loop takes no more.
    fn put(&self, put: impl FnOnce(&mut Inbox)) -> bool {
        let mut inbox = self.inbox();
        if inbox.closed {
            return false;
        }
        put(&mut inbox);
        drop(inbox);
        self.mark();
        true
    }

    fn mark(&self) {
        if !self.marked.swap(true, Ordering::SeqCst) && self.asleep.swap(false, Ordering::SeqCst) {
            // It fails only where the counter is full, and then the loop is awake.
            let _awake_already = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
        }
    }

    pub(super) fn wake(&self, key: u64) {
        self.put(|inbox| inbox.woken.push(key));
    }

    pub(super) fn complete(&self, completion: Completion) {
        self.inbox().completions.push(completion);
        self.mark();
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

    /// Says that the loop will sleep; false where something is there already, and it must not.
    pub(super) fn fall_asleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        let may = !self.marked.load(Ordering::SeqCst);
        if !may {
            self.awake();
        }
        may
    }

    /// The loop is awake.
    pub(super) fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
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
