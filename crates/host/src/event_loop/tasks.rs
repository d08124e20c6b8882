//! The tasks of a loop, and who of them is ready.
//!
//! 1. Ready tasks of a class run in the order in which they were woken. Where both classes are ready, they run in turns: a client's
//!    task waits for one of the background at a time, however many thousands a checkpoint has.
//! 2. A task that was woken on the loop's thread is put into a list of that thread: no lock, no system call.
//!    From any other thread, and while the loop does not run, it goes through the inbox.
//! 3. A task is in the list at most once. Wakes of a task that has ended do nothing, also once its slot has
//!    another task: the generation tells them apart.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use super::foreign::Foreign;

/// The place of a task, with its generation above, and whether it is of the background in the highest bit.
pub(super) type Key = u64;

/// The key of what [`block_on`](super::EventLoop::block_on) runs; it has no slot.
pub(super) const ROOT: Key = u64::MAX;

const BACKGROUND: Key = 1 << 63;
const GENERATION_MAX: u32 = u32::MAX >> 2;

/// In which line a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// A client may wait for it.
    Foreground,
    /// There may be thousands of the kind.
    Background,
}

fn is_background(key: Key) -> bool {
    key != ROOT && key & BACKGROUND != 0
}

/// The tasks that are ready.
#[derive(Default)]
struct Lists {
    foreground: VecDeque<Key>,
    background: VecDeque<Key>,
    /// The last one was of the foreground.
    is_turn_of_background: bool,
}

impl Lists {
    const NONE: Self =
        Self { foreground: VecDeque::new(), background: VecDeque::new(), is_turn_of_background: false };

    fn push(&mut self, key: Key) {
        match is_background(key) {
            false => self.foreground.push_back(key),
            true => self.background.push_back(key),
        }
    }

    fn pop(&mut self) -> Option<Key> {
        let key = match self.is_turn_of_background {
            false => self.foreground.pop_front().or_else(|| self.background.pop_front()),
            true => self.background.pop_front().or_else(|| self.foreground.pop_front()),
        }?;
        self.is_turn_of_background = !is_background(key);
        Some(key)
    }

    fn is_empty(&self) -> bool {
        self.foreground.is_empty() && self.background.is_empty()
    }
}

struct Ready {
    /// The loop that runs on this thread; 0 where none does.
    loop_id: Cell<u64>,
    lists: RefCell<Lists>,
}

thread_local! {
    static READY: Ready = const { Ready { loop_id: Cell::new(0), lists: RefCell::new(Lists::NONE) } };
}

/// What a waker holds.
pub(super) struct Handle {
    key: Key,
    /// In the list, or retired and never to enter it again.
    queued: AtomicBool,
    foreign: Arc<Foreign>,
}

impl Handle {
    /// The handle of a task that is ready.
    pub(super) fn ready(key: Key, foreign: &Arc<Foreign>) -> Arc<Self> {
        let handle = Arc::new(Self { key, queued: AtomicBool::new(false), foreign: Arc::clone(foreign) });
        handle.wake_by_ref();
        handle
    }

    /// The task is about to be polled: a wake from here on is a new one.
    pub(super) fn begin_poll(&self) {
        self.queued.swap(false, Ordering::AcqRel);
    }

    /// The task has ended.
    pub(super) fn retire(&self) {
        self.queued.store(true, Ordering::Release);
    }
}

impl Wake for Handle {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) && !push(self.foreign.loop_id, self.key) {
            self.foreign.wake(self.key);
        }
    }
}

/// Puts a task into this thread's list of its class, if the list is that of the loop.
fn push(loop_id: u64, key: Key) -> bool {
    READY
        .try_with(|ready| {
            let ours = ready.loop_id.get() == loop_id;
            if ours {
                ready.lists.borrow_mut().push(key);
            }
            ours
        })
        .unwrap_or(false)
}

/// The next task that is ready.
pub(super) fn pop() -> Option<Key> {
    READY.with(|ready| ready.lists.borrow_mut().pop())
}

/// Whether no task is ready.
pub(super) fn none_is_ready() -> bool {
    READY.with(|ready| ready.lists.borrow().is_empty())
}

/// Puts a task that another thread has woken into the list.
pub(super) fn push_woken(key: Key) {
    READY.with(|ready| ready.lists.borrow_mut().push(key));
}

/// Takes a wake back that the root gave itself: the next root has the same key.
pub(super) fn forget_root() {
    READY.with(|ready| ready.lists.borrow_mut().foreground.retain(|&key| key != ROOT));
}

struct Task {
    future: Pin<Box<dyn Future<Output = ()>>>,
    handle: Arc<Handle>,
    /// Made once: a poll then allocates nothing.
    waker: Waker,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    /// Out of its slot while it is polled.
    task: Option<Task>,
}

#[derive(Default)]
struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    live: usize,
    closed: bool,
}

/// The tasks of one loop.
#[derive(Default)]
pub(super) struct Tasks {
    slots: RefCell<Slots>,
    /// Who was ready when the loop last stopped running.
    parked: RefCell<Lists>,
}

impl Tasks {
    pub(super) fn spawn(
        &self,
        future: Pin<Box<dyn Future<Output = ()>>>,
        class: Class,
        foreign: &Arc<Foreign>,
    ) {
        let mut slots = self.slots.borrow_mut();
        if slots.closed {
            // Outside of the borrow: what is dropped may spawn.
            drop(slots);
            drop(future);
            return;
        }
        let place = slots.free.pop().unwrap_or_else(|| {
            slots.slots.push(Slot::default());
            u32::try_from(slots.slots.len() - 1).expect("fewer than 2^32 tasks")
        });
        slots.live += 1;
        let slot = &mut slots.slots[place as usize];
        // Two bits less than 32, so that no key is the root's.
        slot.generation = (slot.generation + 1) & GENERATION_MAX;
        let class = if class == Class::Background { BACKGROUND } else { 0 };
        let handle = Handle::ready(class | u64::from(slot.generation) << 32 | u64::from(place), foreign);
        let waker = Waker::from(Arc::clone(&handle));
        slot.task = Some(Task { future, handle, waker });
    }

    /// Polls the task of `key` once, if it still is.
    pub(super) fn poll(&self, key: Key) {
        let (place, generation) = (key as u32, (key >> 32) as u32 & GENERATION_MAX);
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.slots.get_mut(place as usize).filter(|slot| slot.generation == generation)
        else {
            return;
        };
        let Some(mut task) = slot.task.take() else { return };
        drop(slots);
        task.handle.begin_poll();
        let polled = task.future.as_mut().poll(&mut Context::from_waker(&task.waker));
        if polled.is_pending() {
            self.slots.borrow_mut().slots[place as usize].task = Some(task);
            return;
        }
        task.handle.retire();
        // Before the slot is free: dropping the future may spawn.
        drop(task);
        let mut slots = self.slots.borrow_mut();
        slots.free.push(place);
        slots.live -= 1;
    }

    pub(super) fn live(&self) -> usize {
        self.slots.borrow().live
    }

    /// Makes this thread's list that of the loop, until the guard is dropped.
    pub(super) fn enter(&self, loop_id: u64) -> Entered<'_> {
        READY.with(|ready| {
            assert_ne!(ready.loop_id.get(), loop_id, "a task of a loop cannot block on the same loop");
            let lists = mem::replace(&mut *ready.lists.borrow_mut(), self.parked.take());
            Entered { tasks: self, before: (ready.loop_id.replace(loop_id), lists) }
        })
    }

    /// Drops all tasks; there will be none any more.
    pub(super) fn close(&self) {
        let dropped = {
            let mut slots = self.slots.borrow_mut();
            slots.closed = true;
            slots.live = 0;
            mem::take(&mut slots.slots)
        };
        for task in dropped.iter().filter_map(|slot| slot.task.as_ref()) {
            task.handle.retire();
        }
        drop(dropped);
    }
}

/// While it lives, its loop runs on this thread.
pub(super) struct Entered<'a> {
    tasks: &'a Tasks,
    before: (u64, Lists),
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        READY.with(|ready| {
            ready.loop_id.set(self.before.0);
            let lists = mem::replace(&mut *ready.lists.borrow_mut(), mem::take(&mut self.before.1));
            *self.tasks.parked.borrow_mut() = lists;
        });
    }
}
