//! Operations under way, and the memory that is the kernel's meanwhile.
//!
//! 1. Memory and descriptor of an operation are the reactor's from the request to its completion. Whoever drops
//!    the future gives up the answer, not the operation: it is cancelled where it might wait for ever, and what
//!    it holds is dropped after its completion.
//! 2. So no buffer is freed or used again, and no descriptor's number is taken by another file, while the kernel
//!    may still act on it.
//! 3. What cannot be waited for (the ring itself fails) is leaked; slots, which cannot be cancelled, are dropped behind the ring.
//! 4. Wakers are called and memory is dropped outside of every borrow.
//! 5. What is asked of a file whose file system may not answer is carried out by threads of its own ([`Reactor::carry_out_aside`]):
//!    the ring would wait for some of them where it is asked, and what all files share would be used up.

#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::mem;
use std::os::fd::{FromRawFd, OwnedFd};
use std::pin::Pin;
use std::ptr;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use slab::Slab;

use super::buffer::Held;
use super::foreign::Foreign;
use super::request::{Completion, Request, Sync, Wait};
use super::spin::Awaited;
use super::threads::Threads;
use super::uring::Uring;
use super::workers::{Job, Workers};

/// A descriptor that operations under way keep open.
pub type SharedFd = Rc<OwnedFd>;

pub(super) enum Driver {
    Uring(Box<Uring>),
    Threads(Threads),
    /// None any more.
    Closed,
}

enum Stage {
    UnderWay(Option<Waker>),
    /// Nobody wants the answer.
    Abandoned,
    Done,
}

struct Operation {
    held: Held,
    file: SharedFd,
    stage: Stage,
    /// Completions that are still to come.
    parts: u8,
    result: i32,
    /// Of the fsync after a linked write of `linked_len` bytes.
    sync_result: i32,
    linked_len: Option<u32>,
    accepts: bool,
    may_wait_for_ever: bool,
    stays_until_closed: bool,
}

struct State {
    driver: Driver,
    operations: Slab<Operation>,
    under_way: usize,
    /// Those of them that are for drives, not for peers.
    drives_under_way: usize,
    /// Those that end with what they are for, or with the ring.
    until_closed: usize,
    closed: bool,
    /// Files whose requests are carried out on threads of their own.
    aside: Vec<Aside>,
    /// Kept between turns, so that a turn allocates nothing.
    completions: Vec<Completion>,
}

/// A file, and the threads that carry out what is asked of it.
struct Aside {
    /// Dead once it is closed, when another may have its place in memory.
    file: Weak<OwnedFd>,
    workers: Rc<Workers>,
    foreign: Arc<Foreign>,
}

pub(super) struct Reactor {
    state: RefCell<State>,
    /// How often somebody asked.
    requests: Cell<u64>,
}

impl Reactor {
    pub(super) fn new(driver: Driver) -> Self {
        let (operations, completions) = (Slab::with_capacity(256), Vec::with_capacity(256));
        let state = State {
            driver,
            operations,
            under_way: 0,
            drives_under_way: 0,
            until_closed: 0,
            closed: false,
            aside: Vec::new(),
            completions,
        };
        Self { state: RefCell::new(state), requests: Cell::new(0) }
    }

    /// Begins an operation; its answer is the ticket's. `held` has the memory that `request` names, `file` is
    /// its descriptor.
    pub(super) fn begin(self: &Rc<Self>, request: Request, held: Held, file: SharedFd) -> Ticket {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let key = state.operations.insert(Operation {
            held,
            file,
            stage: Stage::UnderWay(None),
            parts: 1,
            result: 0,
            sync_result: 0,
            linked_len: match request {
                Request::Write { memory, sync: Sync::Linked, .. } => Some(memory.len),
                _ => None,
            },
            accepts: matches!(request, Request::Accept { .. }),
            may_wait_for_ever: request.may_wait_for_ever(),
            stays_until_closed: request.stays_until_closed(),
        });
        let operation = &mut state.operations[key];
        let aside =
            state.aside.iter().find(|aside| ptr::eq(aside.file.as_ptr(), Rc::as_ptr(&operation.file)));
        let pushed = if state.closed {
            Err(io::Error::from_raw_os_error(libc::ECANCELED))
        } else if let Some(aside) = aside {
            aside.workers.put(Job::Request(key, request, Arc::clone(&aside.foreign)))
        } else {
            match &mut state.driver {
                Driver::Uring(uring) => {
                    operation.parts = request.parts();
                    // SAFETY: memory and descriptor stay in the slab until the last completion (invariant 1).
                    unsafe { uring.push(key, request) }
                }
                // SAFETY: as above.
                Driver::Threads(threads) => unsafe { threads.push(key, request, &operation.file) },
                Driver::Closed => Err(io::Error::from_raw_os_error(libc::ECANCELED)),
            }
        };
        match pushed {
            Ok(()) => {
                state.under_way += 1;
                state.drives_under_way += usize::from(!operation.may_wait_for_ever);
                state.until_closed += usize::from(operation.stays_until_closed);
            }
            Err(error) => {
                operation.stage = Stage::Done;
                operation.result = -error.raw_os_error().unwrap_or(libc::EIO);
            }
        }
        Ticket { reactor: Rc::clone(self), key }
    }

    /// Hands over what was begun, waits for completions, and tells whom they are for.
    pub(super) fn turn(&self, wait: Wait) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        let mut completions = mem::take(&mut state.completions);
        let awaited = if state.drives_under_way == 0 { Awaited::Client } else { Awaited::Drive };
        let turned = match &mut state.driver {
            Driver::Uring(uring) => uring.turn(wait, awaited, &mut completions),
            Driver::Threads(threads) => threads.turn(wait, &mut completions),
            Driver::Closed => Ok(()),
        };
        drop(state);
        for completion in completions.drain(..) {
            self.complete(completion);
        }
        self.state.borrow_mut().completions = completions;
        turned
    }

    pub(super) fn complete(&self, completion: Completion) {
        let mut state = self.state.borrow_mut();
        let operation = &mut state.operations[completion.key];
        operation.parts -= 1;
        if completion.is_sync {
            operation.sync_result = completion.result;
        } else {
            operation.result = completion.result;
        }
        if operation.parts > 0 {
            return;
        }
        // A short write breaks the link: the fsync was not made, and whoever writes the rest makes it.
        if operation.sync_result < 0 && operation.linked_len == u32::try_from(operation.result).ok() {
            operation.result = operation.sync_result;
        }
        let stage = mem::replace(&mut operation.stage, Stage::Done);
        let of_drive = usize::from(!operation.may_wait_for_ever);
        let stays = usize::from(operation.stays_until_closed);
        state.under_way -= 1;
        state.drives_under_way -= of_drive;
        state.until_closed -= stays;
        match stage {
            Stage::UnderWay(waker) => {
                drop(state);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            Stage::Abandoned => {
                let operation = state.operations.remove(completion.key);
                drop(state);
                operation.discard();
            }
            Stage::Done => unreachable!("an operation is completed once"),
        }
    }

    /// Registers memory with the ring; `None` where that cannot be had.
    ///
    /// # Safety
    ///
    /// The memory stays valid until [`Self::unregister`], or longer than the reactor.
    pub(super) unsafe fn register(&self, start: *mut u8, len: usize) -> Option<u16> {
        match &mut self.state.borrow_mut().driver {
            // SAFETY: by this function's own condition.
            Driver::Uring(uring) => unsafe { uring.register(start, len) },
            Driver::Threads(_) | Driver::Closed => None,
        }
    }

    pub(super) fn unregister(&self, place: u16) {
        if let Driver::Uring(uring) = &mut self.state.borrow_mut().driver {
            uring.unregister(place);
        }
    }

    /// Has all requests of a file carried out by `workers`, which answer through `foreign`.
    pub(super) fn carry_out_aside(&self, file: &SharedFd, workers: &Rc<Workers>, foreign: &Arc<Foreign>) {
        let mut state = self.state.borrow_mut();
        state.aside.retain(|aside| aside.file.strong_count() > 0);
        let (workers, foreign) = (Rc::clone(workers), Arc::clone(foreign));
        state.aside.push(Aside { file: Rc::downgrade(file), workers, foreign });
    }

    /// Operations that have no completion yet.
    pub(super) fn under_way(&self) -> usize {
        self.state.borrow().under_way
    }

    /// Those of them that are waited for in vain: they end with what they are for, or with the ring.
    pub(super) fn until_closed(&self) -> usize {
        self.state.borrow().until_closed
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.get()
    }

    pub(super) fn note_asker(&self, asker: u32) {
        self.requests.set(self.requests.get() + 1);
        if let Driver::Uring(uring) = &mut self.state.borrow_mut().driver {
            uring.note_asker(asker);
        }
    }

    pub(super) fn takes_slots(&self) -> bool {
        matches!(&self.state.borrow().driver, Driver::Uring(uring) if uring.takes_slots())
    }

    /// Closes the ring, and drops what those hold that have no completion. The kernel cancels them later, but writes to none of
    /// it from then on: to a slot it writes on this thread alone, when the thread enters the ring ([`Uring::takes_slots`]).
    pub(super) fn close_ring(&self) {
        let mut state = self.state.borrow_mut();
        let driver = mem::replace(&mut state.driver, Driver::Closed);
        let operations = mem::take(&mut state.operations);
        (state.under_way, state.drives_under_way, state.until_closed) = (0, 0, 0);
        drop(state);
        drop(driver);
        drop(operations);
    }

    /// From here on nothing is begun, and what might wait for ever is cancelled.
    pub(super) fn close(&self) {
        let mut state = self.state.borrow_mut();
        state.closed = true;
        let State { operations, driver, .. } = &mut *state;
        for (key, operation) in operations.iter() {
            let can_be_cancelled = operation.may_wait_for_ever && !operation.stays_until_closed;
            if can_be_cancelled && !matches!(operation.stage, Stage::Done) {
                cancel(driver, key);
            }
        }
    }

    /// Gives up everything that has no completion (invariant 3).
    pub(super) fn leak(&self) {
        mem::forget(mem::take(&mut self.state.borrow_mut().operations));
    }

    fn abandon(&self, key: usize) {
        let mut state = self.state.borrow_mut();
        let State { operations, driver, .. } = &mut *state;
        let Some(operation) = operations.get_mut(key) else { return };
        if matches!(operation.stage, Stage::Done) {
            let operation = operations.remove(key);
            drop(state);
            operation.discard();
            return;
        }
        let waker = mem::replace(&mut operation.stage, Stage::Abandoned);
        if operation.may_wait_for_ever && !operation.stays_until_closed {
            cancel(driver, key);
        }
        drop(state);
        drop(waker);
    }
}

fn cancel(driver: &mut Driver, key: usize) {
    match driver {
        // Where not even that can be asked for, the operation stays until it ends by itself.
        Driver::Uring(uring) => drop(uring.cancel(key)),
        Driver::Threads(threads) => threads.cancel(key),
        Driver::Closed => {}
    }
}

impl Operation {
    /// Drops what a completed operation holds, with a connection that was accepted for nobody.
    fn discard(self) {
        if self.accepts && self.result >= 0 {
            // SAFETY: the kernel has just given us this descriptor, and nobody else knows of it.
            drop(unsafe { OwnedFd::from_raw_fd(self.result) });
        }
    }
}

/// The answer to come of an operation: the kernel's result and the memory.
pub(super) struct Ticket {
    reactor: Rc<Reactor>,
    key: usize,
}

/// No operation.
const TAKEN: usize = usize::MAX;

impl Future for Ticket {
    type Output = (io::Result<usize>, Held);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.reactor.state.borrow_mut();
        let operation = &mut state.operations[self.key];
        match &mut operation.stage {
            Stage::UnderWay(Some(waker)) => waker.clone_from(context.waker()),
            Stage::UnderWay(waker) => *waker = Some(context.waker().clone()),
            Stage::Done => {
                let operation = state.operations.remove(self.key);
                drop(state);
                self.key = TAKEN;
                let result = usize::try_from(operation.result)
                    .map_err(|_| io::Error::from_raw_os_error(-operation.result));
                return Poll::Ready((result, operation.held));
            }
            Stage::Abandoned => unreachable!("a ticket that is polled is not abandoned"),
        }
        Poll::Pending
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.key != TAKEN {
            self.reactor.abandon(self.key);
        }
    }
}
