//! A single-threaded executor in virtual time.
//!
//! 1. Of the tasks that are ready, a seeded choice runs next: one seed, one order; many seeds, many orders.
//! 2. Time stands still while a task is ready, then jumps to the earliest timer.
//! 3. Once the [`Stop`] is raised nothing is polled any more. The poll in which it was raised runs to its
//!    end, so whatever keeps state (drives, arenas, oracles) ignores what it is told after that.
//! 4. Dropping the executor is kill -9: the stop is raised, then all tasks are dropped. Only their `Drop`
//!    impls run; what these spawn is dropped too, whom they wake sleeps on.
//! 5. A run that cannot go on is reported, never waited for: [`Halt`].

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use evenkeel_engine::env::Env;

use crate::random::Random;
use crate::timers::{TimerId, Timers};
use crate::trace;

/// The flag that ends a run. A clone is another handle to the same flag.
#[derive(Debug, Clone, Default)]
pub struct Stop(Rc<Cell<bool>>);

impl Stop {
    /// A flag that is not raised.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the run: nothing has an effect from here on.
    pub fn raise(&self) {
        self.0.set(true);
    }

    /// Whether the run has ended.
    pub fn is_raised(&self) -> bool {
        self.0.get()
    }
}

/// Why a run ended before its root future did. The stop is raised then, whatever the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halt {
    /// The [`Stop`] was raised: a cut.
    Stopped {
        /// Virtual time.
        at_ns: u64,
    },
    /// No task is ready and no timer is set: those that are left wait for each other.
    Deadlock {
        /// Virtual time.
        at_ns: u64,
        /// Tasks that are left, with the root.
        tasks: usize,
    },
    /// The limit of [`Executor::limit_polls`] was reached: tasks that wake each other for ever.
    Runaway {
        /// Virtual time.
        at_ns: u64,
        /// Tasks that are left, with the root.
        tasks: usize,
    },
}

impl fmt::Display for Halt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped { at_ns } => write!(out, "stopped at {at_ns} ns"),
            Self::Deadlock { at_ns, tasks } => {
                write!(out, "deadlock at {at_ns} ns: {tasks} tasks wait, none is ready and no timer is set")
            }
            Self::Runaway { at_ns, tasks } => {
                write!(out, "runaway at {at_ns} ns: {tasks} tasks are left and the polls are used up")
            }
        }
    }
}

impl std::error::Error for Halt {}

/// The root's place in the ready list; it has no slot because it need not be `'static`.
const ROOT: usize = usize::MAX;

type Ready = Mutex<Vec<usize>>;

/// A list of numbers stays usable whatever panicked while it was locked.
fn locked(ready: &Ready) -> MutexGuard<'_, Vec<usize>> {
    ready.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a task's waker holds. `Wake` asks for `Send`, hence a mutex that no second thread ever locks.
struct Handle {
    slot: usize,
    /// In the ready list, or retired and never to enter it again.
    queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Handle {
    /// A new task's handle; the task is ready.
    fn queued(slot: usize, ready: &Arc<Ready>) -> Arc<Self> {
        locked(ready).push(slot);
        Arc::new(Self { slot, queued: AtomicBool::new(true), ready: Arc::clone(ready) })
    }

    /// The task has ended: later wakes do nothing, and a wake it gave itself is taken back.
    fn retire(&self) {
        if self.queued.swap(true, Ordering::Relaxed) {
            locked(&self.ready).retain(|&slot| slot != self.slot);
        }
    }
}

impl Wake for Handle {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            locked(&self.ready).push(self.slot);
        }
    }
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    number: u64,
    handle: Arc<Handle>,
    /// Made once: a poll then allocates nothing.
    waker: Waker,
}

#[derive(Default)]
struct Tasks {
    /// A task is out of its slot while it is polled.
    slots: Vec<Option<Task>>,
    free: Vec<usize>,
    started: u64,
    live: usize,
}

struct World {
    now_ns: Cell<u64>,
    trace: Cell<u64>,
    stop: Stop,
    dropped: Cell<bool>,
    random: RefCell<Random>,
    tasks: RefCell<Tasks>,
    timers: RefCell<Timers>,
    ready: Arc<Ready>,
}

impl World {
    fn trace(&self, event: u64) {
        self.trace.set(trace::fold(self.trace.get(), event));
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()>>>) {
        if self.dropped.get() {
            return;
        }
        let mut tasks = self.tasks.borrow_mut();
        let slot = tasks.free.pop().unwrap_or_else(|| {
            tasks.slots.push(None);
            tasks.slots.len() - 1
        });
        tasks.started += 1;
        tasks.live += 1;
        let handle = Handle::queued(slot, &self.ready);
        let waker = Waker::from(Arc::clone(&handle));
        tasks.slots[slot] = Some(Task { future, number: tasks.started, handle, waker });
    }

    /// Polls the task in `slot` once.
    fn poll(&self, slot: usize) {
        let Some(mut task) = self.tasks.borrow_mut().slots[slot].take() else {
            return;
        };
        self.trace(task.number);
        self.trace(self.now_ns.get());
        task.handle.queued.store(false, Ordering::Relaxed);
        let polled = task.future.as_mut().poll(&mut Context::from_waker(&task.waker));
        if polled.is_pending() {
            self.tasks.borrow_mut().slots[slot] = Some(task);
            return;
        }
        task.handle.retire();
        // Before the slot is free: dropping the future may spawn.
        drop(task);
        let mut tasks = self.tasks.borrow_mut();
        tasks.free.push(slot);
        tasks.live -= 1;
    }
}

/// Runs futures in virtual time.
pub struct Executor {
    world: Rc<World>,
    scheduling: Random,
    fired: Vec<Waker>,
    polls: u64,
    poll_limit: u64,
}

impl fmt::Debug for Executor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Executor")
            .field("now_ns", &self.now_ns())
            .field("tasks", &self.tasks())
            .field("polls", &self.polls)
            .finish_non_exhaustive()
    }
}

impl Executor {
    /// A world at time 0 without tasks, whose every choice follows from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut scheduling = Random::new(seed);
        let world = World {
            now_ns: Cell::new(0),
            trace: Cell::new(0),
            stop: Stop::new(),
            dropped: Cell::new(false),
            // A stream of its own, so that what the engine draws does not change who runs next.
            random: RefCell::new(scheduling.fork()),
            tasks: RefCell::default(),
            timers: RefCell::default(),
            ready: Arc::default(),
        };
        Self { world: Rc::new(world), scheduling, fired: Vec::new(), polls: 0, poll_limit: u64::MAX }
    }

    /// The world as the engine sees it.
    pub fn env(&self) -> SimEnv {
        SimEnv { world: Rc::clone(&self.world) }
    }

    /// The flag that ends this executor's run.
    pub fn stop(&self) -> Stop {
        self.world.stop.clone()
    }

    /// Ends a run with [`Halt::Runaway`] once `polls` polls were made in all.
    pub fn limit_polls(&mut self, polls: u64) {
        self.poll_limit = polls;
    }

    /// Virtual time.
    pub fn now_ns(&self) -> u64 {
        self.world.now_ns.get()
    }

    /// Polls made so far.
    pub fn polls(&self) -> u64 {
        self.polls
    }

    /// Tasks that have not ended, without the root.
    pub fn tasks(&self) -> usize {
        self.world.tasks.borrow().live
    }

    /// The run so far as one number: see [`crate::trace`].
    pub fn trace_hash(&self) -> u64 {
        self.world.trace.get()
    }

    /// Runs `root` and every task until `root` is complete.
    ///
    /// Other tasks stay as they are then, and go on with the next call.
    pub fn block_on<T>(&mut self, root: impl Future<Output = T>) -> Result<T, Halt> {
        let mut root = pin!(root);
        let handle = Handle::queued(ROOT, &self.world.ready);
        let waker = Waker::from(Arc::clone(&handle));
        let result = self.run(|world| {
            world.trace(0);
            world.trace(world.now_ns.get());
            handle.queued.store(false, Ordering::Relaxed);
            root.as_mut().poll(&mut Context::from_waker(&waker))
        });
        handle.retire();
        if result.is_err() {
            // Before the root is dropped, which may call on drives and arenas.
            self.world.stop.raise();
        }
        result
    }

    fn run<T>(&mut self, mut poll_root: impl FnMut(&World) -> Poll<T>) -> Result<T, Halt> {
        let world = Rc::clone(&self.world);
        loop {
            if world.stop.is_raised() {
                return Err(Halt::Stopped { at_ns: self.now_ns() });
            }
            let Some(slot) = self.pick() else {
                if self.advance() {
                    continue;
                }
                return Err(Halt::Deadlock { at_ns: self.now_ns(), tasks: self.tasks() + 1 });
            };
            if self.polls == self.poll_limit {
                return Err(Halt::Runaway { at_ns: self.now_ns(), tasks: self.tasks() + 1 });
            }
            self.polls += 1;
            if slot != ROOT {
                world.poll(slot);
            } else if let Poll::Ready(value) = poll_root(&world)
                && !world.stop.is_raised()
            {
                return Ok(value);
            }
        }
    }

    /// A seeded choice among the ready tasks.
    fn pick(&mut self) -> Option<usize> {
        let mut ready = locked(&self.world.ready);
        let chosen = match ready.len() {
            0 => return None,
            1 => 0,
            several => self.scheduling.index(several),
        };
        Some(ready.swap_remove(chosen))
    }

    /// Goes to the earliest timers; false if there are none.
    fn advance(&mut self) -> bool {
        let Some(at_ns) = self.world.timers.borrow_mut().fire(&mut self.fired) else {
            return false;
        };
        self.world.now_ns.set(at_ns);
        // Outside of the borrow: a waker may be anyone's.
        for waker in self.fired.drain(..) {
            waker.wake();
        }
        true
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.world.stop.raise();
        self.world.dropped.set(true);
        // Taken out first: the tasks hold the world, and their `Drop` impls may call on it.
        let tasks = self.world.tasks.take();
        drop(tasks);
        drop(self.world.timers.take());
    }
}

/// The engine's view of an [`Executor`]. It may outlive it: time stands still then and spawned tasks are
/// dropped.
#[derive(Clone)]
pub struct SimEnv {
    world: Rc<World>,
}

impl fmt::Debug for SimEnv {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SimEnv").field("now_ns", &self.world.now_ns.get()).finish_non_exhaustive()
    }
}

impl SimEnv {
    /// Folds `event` into the trace of the run.
    pub fn trace(&self, event: u64) {
        self.world.trace(event);
    }

    /// The flag that ends the run.
    pub fn stop(&self) -> Stop {
        self.world.stop.clone()
    }

    /// Whether the run has ended: what a client is told from here on, it was never told.
    pub fn is_stopped(&self) -> bool {
        self.world.stop.is_raised()
    }
}

impl Env for SimEnv {
    fn now_ns(&self) -> u64 {
        self.world.now_ns.get()
    }

    fn sleep(&self, duration_ns: u64) -> impl Future<Output = ()> {
        let at_ns = self.world.now_ns.get().saturating_add(duration_ns);
        Sleep { world: Rc::clone(&self.world), at_ns, timer: None }
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.world.spawn(Box::pin(task));
    }

    fn random(&self) -> u64 {
        self.world.random.borrow_mut().number()
    }
}

/// Ends once its timer has fired; even one of no duration lets every ready task run first.
struct Sleep {
    world: Rc<World>,
    at_ns: u64,
    timer: Option<TimerId>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut timers = self.world.timers.borrow_mut();
        let timer = match self.timer {
            Some(timer) if timers.is_set(timer, context.waker()) => timer,
            Some(_) => return Poll::Ready(()),
            None => timers.set(self.at_ns, context.waker().clone()),
        };
        drop(timers);
        self.timer = Some(timer);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            self.world.timers.borrow_mut().cancel(timer);
        }
    }
}
