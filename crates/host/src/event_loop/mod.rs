//! One thread's tasks, timers and I/O: what stands behind [`Env`](evenkeel_engine::env::Env) on a real
//! machine.
//!
//! ```text
//! mod         EventLoop, Loop: tasks run until none is ready, then the kernel is entered once
//!   tasks     who is ready; wakers that take no lock on the loop's own thread
//!   timers    in the order in which they fire             environment: time, sleep, spawn, chance
//!   foreign   what other threads have for the loop          remote: their handle
//!   reactor   operations under way, and what they hold
//!     uring   one io_uring_enter a turn; spin: a look before it sleeps; trial: whether that gains; idle: whether a
//!             processor is idle for it
//!     threads workers and epoll, where io_uring is forbidden
//!   ops       what tasks can ask for
//!   buffer, pool, slot   memory that is the kernel's meanwhile
//!   signals   SIGTERM and its like, as something to wait for
//! ```
//!
//! 1. Everything runs on the thread that made the loop; only [`Remote`] and wakers may be used elsewhere.
//! 2. In a steady state an operation allocates nothing: tasks and operations have places that are used again.
//! 3. Tasks that keep each other ready do not starve I/O: the kernel is entered after [`POLLS_MAX`] polls, or
//!    [`POLLS_MAX_TIME`].
//! 4. When the loop is dropped, its tasks are dropped and operations under way are waited for; those that might
//!    wait for ever are cancelled, or end with the ring. What is asked of a [`Loop`] after that fails with `ECANCELED`.

mod buffer;
mod environment;
mod foreign;
mod idle;
mod ops;
pub mod pool;
mod reactor;
mod remote;
mod request;
mod signals;
mod slot;
mod spin;
mod tasks;
mod threads;
mod timers;
mod trial;
mod uring;
mod workers;

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

pub use buffer::IoBuffer;
pub(crate) use ops::{Aside, Transfer};
pub use ops::{PollFlags, race};
pub use reactor::SharedFd;
pub use remote::{Gone, Remote};
pub use request::Sync;
pub use signals::Signals;
pub(crate) use slot::Slot;

use buffer::Held;
use foreign::{Foreign, Inbox};
use reactor::{Driver, Reactor, Ticket};
use request::{Request, Wait};
use tasks::{Handle, Tasks};
use threads::Threads;
use timers::Timers;
use uring::Uring;
use workers::Workers;

/// Polls between two looks at the kernel while tasks stay ready. A look without anything to hand over costs about as much
/// as a poll or two, so more polls would save next to nothing; and what has come waits for all of them.
const POLLS_MAX: usize = 64;

/// How long tasks run between two looks at the kernel, for those that take long; and polls between two looks at the clock.
const POLLS_MAX_TIME: Duration = Duration::from_micros(200);
const POLLS_BETWEEN_CLOCKS: usize = 4;

/// How the kernel is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// Through io_uring, or with threads where that is forbidden or not there.
    Auto,
    /// Through io_uring.
    Uring,
    /// As [`Self::Auto`], with submissions of 128 bytes where that can be had: slots of FUSE take them.
    Slots,
    /// Files by threads that block, sockets through epoll. Timers have a resolution of 1 ms.
    Threads,
}

struct Core {
    backend: Backend,
    started: Instant,
    tasks: Tasks,
    timers: RefCell<Timers>,
    reactor: Rc<Reactor>,
    workers: Rc<Workers>,
    foreign: Arc<Foreign>,
    /// Kept between turns, so that a turn allocates nothing.
    inbox: RefCell<Inbox>,
    randoms: RefCell<Vec<u64>>,
}

/// The loop. It belongs to the thread that made it.
pub struct EventLoop {
    core: Rc<Core>,
}

/// A handle to an [`EventLoop`], for its tasks. A clone is another handle to the same loop.
#[derive(Clone)]
pub struct Loop {
    core: Rc<Core>,
}

impl EventLoop {
    /// A loop without tasks.
    ///
    /// # Errors
    ///
    /// Those of `io_uring_setup` where io_uring was asked for, with `EOPNOTSUPP` for kernels before 5.11; where
    /// there are no descriptors left.
    pub fn new(backend: Backend) -> io::Result<Self> {
        let foreign = Arc::new(Foreign::new()?);
        let workers = Rc::new(Workers::default());
        let ring = match backend {
            Backend::Threads => None,
            _ => match Uring::new(Arc::clone(&foreign), backend == Backend::Slots) {
                Ok(ring) => Some(ring),
                Err(error) if backend != Backend::Uring && uring::is_forbidden(&error) => None,
                Err(error) => return Err(error),
            },
        };
        let (backend, driver) = match ring {
            Some(ring) => (Backend::Uring, Driver::Uring(Box::new(ring))),
            None => {
                let threads = Threads::new(Arc::clone(&foreign), Rc::clone(&workers))?;
                (Backend::Threads, Driver::Threads(threads))
            }
        };
        let core = Core {
            backend,
            started: Instant::now(),
            tasks: Tasks::default(),
            timers: RefCell::default(),
            reactor: Rc::new(Reactor::new(driver)),
            workers,
            foreign,
            inbox: RefCell::default(),
            randoms: RefCell::default(),
        };
        Ok(Self { core: Rc::new(core) })
    }

    /// How the kernel is asked: [`Backend::Uring`] or [`Backend::Threads`].
    pub fn backend(&self) -> Backend {
        self.core.backend
    }

    /// A handle for tasks.
    pub fn handle(&self) -> Loop {
        Loop { core: Rc::clone(&self.core) }
    }

    /// Tasks that have not ended.
    pub fn tasks(&self) -> usize {
        self.core.tasks.live()
    }

    /// Runs `root` and every task until `root` is complete. Other tasks stay as they are then, and go on with
    /// the next call.
    ///
    /// # Panics
    ///
    /// When a task does; and when the kernel refuses to go on with the ring, for no task could then.
    pub fn block_on<T>(&self, root: impl Future<Output = T>) -> T {
        let core = &*self.core;
        let _entered = core.tasks.enter(core.foreign.loop_id);
        let mut root = pin!(root);
        let handle = Handle::ready(tasks::ROOT, &core.foreign);
        let waker = Waker::from(Arc::clone(&handle));
        loop {
            let began = Instant::now();
            for polls in 1..=POLLS_MAX {
                let Some(key) = tasks::pop() else { break };
                if key != tasks::ROOT {
                    core.tasks.poll(key);
                    if polls.is_multiple_of(POLLS_BETWEEN_CLOCKS) && began.elapsed() > POLLS_MAX_TIME {
                        break;
                    }
                    continue;
                }
                handle.begin_poll();
                if let Poll::Ready(value) = root.as_mut().poll(&mut Context::from_waker(&waker)) {
                    handle.retire();
                    tasks::forget_root();
                    // What was begun is handed over: nobody may come back for long.
                    self.turn(Wait::No);
                    return value;
                }
            }
            let wait = if tasks::none_is_ready() { self.until_next_timer() } else { Wait::No };
            self.turn(wait);
        }
    }

    fn until_next_timer(&self) -> Wait {
        match self.core.timers.borrow().next_at_ns() {
            None => Wait::ForEver,
            Some(at_ns) => match at_ns.saturating_sub(self.core.now_ns()) {
                0 => Wait::No,
                ns => Wait::ForNs(ns),
            },
        }
    }

    fn turn(&self, wait: Wait) {
        if let Err(error) = self.core.wait(wait) {
            panic!("the kernel does no I/O any more: {error}");
        }
        self.take_inbox();
        self.fire_timers();
    }

    fn take_inbox(&self) {
        let mut inbox = self.core.inbox.take();
        if self.core.foreign.take(&mut inbox) {
            inbox.woken.drain(..).for_each(tasks::push_woken);
            inbox.completions.drain(..).for_each(|completion| self.core.reactor.complete(completion));
            for posted in inbox.posted.drain(..) {
                posted(&self.handle());
            }
        }
        self.core.inbox.replace(inbox);
    }

    fn fire_timers(&self) {
        if self.core.timers.borrow().next_at_ns().is_none() {
            return;
        }
        let now_ns = self.core.now_ns();
        while let Some(waker) = self.core.pop_due(now_ns) {
            waker.wake();
        }
    }
}

impl Drop for EventLoop {
    fn drop(&mut self) {
        self.core.foreign.close();
        self.core.tasks.close();
        drop(self.core.timers.take());
        let reactor = &self.core.reactor;
        reactor.close();
        while reactor.under_way() > reactor.until_closed() {
            if self.core.wait(Wait::ForEver).is_err() {
                reactor.leak();
                return;
            }
            let mut inbox = self.core.inbox.take();
            self.core.foreign.take(&mut inbox);
            inbox.completions.drain(..).for_each(|completion| reactor.complete(completion));
        }
        if reactor.under_way() > 0 {
            reactor.close_ring();
        }
    }
}

impl fmt::Debug for EventLoop {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle().fmt(out)
    }
}

impl fmt::Debug for Loop {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Loop")
            .field("backend", &self.core.backend)
            .field("tasks", &self.core.tasks.live())
            .finish_non_exhaustive()
    }
}

impl Core {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// A turn of the reactor; it does not sleep where other threads have something for the loop.
    fn wait(&self, wait: Wait) -> io::Result<()> {
        if wait == Wait::No || !self.foreign.fall_asleep() {
            return self.reactor.turn(Wait::No);
        }
        let turned = self.reactor.turn(wait);
        self.foreign.awake();
        turned
    }

    fn pop_due(&self, now_ns: u64) -> Option<Waker> {
        self.timers.borrow_mut().pop_due(now_ns)
    }
}

impl Loop {
    /// How the kernel is asked: [`Backend::Uring`] or [`Backend::Threads`].
    pub fn backend(&self) -> Backend {
        self.core.backend
    }

    /// Somebody asks something of this process and waits, who is this one among those who do. A loop looks for its drives where one
    /// asks alone, and one that several keep awake sleeps now and then.
    pub(crate) fn note_asker(&self, asker: u32) {
        self.core.reactor.note_asker(asker);
    }

    /// How often somebody asked.
    pub(crate) fn requests(&self) -> u64 {
        self.core.reactor.requests()
    }

    /// Whether the kernel can be handed slots: [`Self::begin_register`].
    pub(crate) fn takes_slots(&self) -> bool {
        self.core.reactor.takes_slots()
    }

    /// A handle for other threads.
    pub fn remote(&self) -> Remote {
        Remote::new(&self.core.foreign)
    }

    /// `signals` as something to wait for, from here on: they no longer end the process by themselves.
    ///
    /// # Errors
    ///
    /// `EINVAL` for signals that cannot be caught.
    pub fn signals(&self, signals: &[i32]) -> io::Result<Signals> {
        Signals::new(self, signals)
    }

    /// Signals that somebody else in this process passes on: a byte of this pipe is the number of one.
    ///
    /// # Errors
    ///
    /// It is no pipe.
    pub fn passed_on_signals(&self, pipe: OwnedFd) -> io::Result<Signals> {
        Signals::of_pipe(self, pipe)
    }

    fn begin(&self, request: Request, held: Held, file: &SharedFd) -> Ticket {
        self.core.reactor.begin(request, held, Rc::clone(file))
    }

    /// Registers memory with the ring; `None` where that cannot be had.
    ///
    /// # Safety
    ///
    /// The memory stays valid until [`Self::unregister`], or longer than the loop.
    #[allow(unsafe_code)]
    unsafe fn register(&self, start: *mut u8, len: usize) -> Option<u16> {
        // SAFETY: by this function's own condition.
        unsafe { self.core.reactor.register(start, len) }
    }

    fn unregister(&self, place: u16) {
        self.core.reactor.unregister(place);
    }
}
