//! What was asked for, on its way to the volume's thread.
//!
//! 1. The requests under way, queued or being carried out, take at most the bound in bytes, or are one.
//! 2. Who finds no room gets it in the order of asking: a large request is not passed by small ones for ever.
//! 3. The volume's thread is woken once for all requests that came since it last looked.
//! 4. Once the queue has ended nothing stays in it: requests are dropped, and so answered.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::{fmt, mem};

use evenkeel_engine::device::{Durability, Extent};

use super::Status;
use super::reply::Reply;

/// What a request costs besides its bytes, about.
const REQUEST_BYTES: usize = 512;

/// One request.
#[derive(Debug)]
pub(super) enum Job {
    Write { offset: u64, bytes: Vec<u8>, durability: Durability, reply: Reply<()> },
    Commit { parts: Vec<(u64, usize)>, bytes: Vec<u8>, reply: Reply<()> },
    Flush { extents: Vec<Extent>, reply: Reply<()> },
    Read { offset: u64, len: usize, reply: Reply<Vec<u8>> },
    Zero { extent: Extent, durability: Durability, reply: Reply<()> },
    Checkpoint { reply: Reply<()> },
    Status { reply: Reply<Status> },
}

/// How the volume ends.
#[derive(Debug)]
pub(super) enum Ending {
    /// Nobody has a handle any more.
    Dropped,
    /// Somebody closes it, and waits for that.
    Close(Reply<()>),
}

/// The queue.
pub(super) struct Queue {
    max_bytes: usize,
    state: Mutex<State>,
}

struct State {
    jobs: Vec<Admitted>,
    used_bytes: usize,
    /// Who waits for room.
    waiting: VecDeque<Arc<Place>>,
    /// The volume's thread, where it found nothing.
    taker: Option<Waker>,
    ending: Option<Ending>,
    /// Nothing goes in any more.
    ended: bool,
}

/// A request that has its room.
#[derive(Debug)]
pub(super) struct Admitted {
    pub(super) job: Job,
    pub(super) room: Room,
}

/// Room for a request, given back when it is dropped.
pub(super) struct Room {
    queue: Arc<Queue>,
    bytes: usize,
}

impl fmt::Debug for Room {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Room").field("bytes", &self.bytes).finish()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.queue.release(self.bytes);
    }
}

/// A place in the line of those who wait for room.
struct Place {
    bytes: usize,
    stage: Mutex<Stage>,
}

enum Stage {
    Waiting(Option<Waker>),
    Granted,
}

impl Queue {
    /// A queue for `max_bytes`.
    pub(super) fn new(max_bytes: usize) -> Arc<Self> {
        let state = State {
            jobs: Vec::new(),
            used_bytes: 0,
            waiting: VecDeque::new(),
            taker: None,
            ending: None,
            ended: false,
        };
        Arc::new(Self { max_bytes, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a request over; where there is no room, it comes back with a place in the line.
    pub(super) fn submit(queue: &Arc<Self>, job: Job, bytes: usize) -> Option<Held> {
        let bytes = bytes.saturating_add(REQUEST_BYTES);
        let mut state = queue.lock();
        let may_enter = state.waiting.is_empty() && state.fits(bytes, queue.max_bytes);
        if !state.ended && !may_enter {
            let place = Arc::new(Place { bytes, stage: Mutex::new(Stage::Waiting(None)) });
            state.waiting.push_back(Arc::clone(&place));
            drop(state);
            return Some(Held { queue: Arc::clone(queue), place, job: Some(job) });
        }
        state.used_bytes += bytes;
        queue.put(state, Admitted { job, room: Room { queue: Arc::clone(queue), bytes } });
        None
    }

    fn put(&self, mut state: MutexGuard<'_, State>, admitted: Admitted) {
        if state.ended {
            drop(state);
            // Answers it, and takes the lock.
            drop(admitted);
            return;
        }
        state.jobs.push(admitted);
        let taker = state.taker.take();
        drop(state);
        if let Some(taker) = taker {
            taker.wake();
        }
    }

    fn release(&self, bytes: usize) {
        let mut state = self.lock();
        state.used_bytes -= bytes;
        self.grant(state);
    }

    /// Gives room to those who wait, as far as it goes.
    fn grant(&self, mut state: MutexGuard<'_, State>) {
        if state.waiting.is_empty() {
            return;
        }
        let mut wakers = Vec::new();
        while let Some(first) = state.waiting.front() {
            if !state.ended && !state.fits(first.bytes, self.max_bytes) {
                break;
            }
            let bytes = first.bytes;
            let stage = mem::replace(&mut *lock_stage(first), Stage::Granted);
            if let Stage::Waiting(Some(waker)) = stage {
                wakers.push(waker);
            }
            state.used_bytes += bytes;
            state.waiting.pop_front();
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits for requests and takes all of them out into `into`; answers how it ends, once it does.
    pub(super) async fn take(&self, into: &mut Vec<Admitted>) -> Option<Ending> {
        poll_fn(|context| {
            let mut state = self.lock();
            if state.jobs.is_empty() && state.ending.is_none() {
                match &mut state.taker {
                    Some(taker) => taker.clone_from(context.waker()),
                    None => state.taker = Some(context.waker().clone()),
                }
                return Poll::Pending;
            }
            mem::swap(&mut state.jobs, into);
            let ending = if into.is_empty() { state.ending.take() } else { None };
            drop(state);
            Poll::Ready(ending)
        })
        .await
    }

    /// Nobody has a handle any more.
    pub(super) fn stop(&self) {
        self.end_with(Ending::Dropped);
    }

    /// Somebody closes the volume. What was asked for before comes first.
    pub(super) fn close(&self, reply: Reply<()>) {
        self.end_with(Ending::Close(reply));
    }

    fn end_with(&self, ending: Ending) {
        let mut state = self.lock();
        if state.ended {
            // Answers it outside of the lock, where it is owed an answer.
            drop(state);
            drop(ending);
            return;
        }
        state.ended = true;
        state.ending = Some(ending);
        let taker = state.taker.take();
        self.grant(state);
        if let Some(taker) = taker {
            taker.wake();
        }
    }

    /// The volume's thread is gone.
    pub(super) fn abandon(&self) {
        self.end_with(Ending::Dropped);
        let (jobs, ending) = {
            let mut state = self.lock();
            (mem::take(&mut state.jobs), state.ending.take())
        };
        drop((jobs, ending));
    }
}

impl State {
    fn fits(&self, bytes: usize, max_bytes: usize) -> bool {
        self.used_bytes == 0 || self.used_bytes.saturating_add(bytes) <= max_bytes
    }
}

fn lock_stage(place: &Place) -> MutexGuard<'_, Stage> {
    place.stage.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request that waits for room.
pub(super) struct Held {
    queue: Arc<Queue>,
    place: Arc<Place>,
    job: Option<Job>,
}

impl Held {
    /// Hands the request over if there is room for it now; else `waker` is whom to wake.
    pub(super) fn try_again(mut self, waker: &Waker) -> Option<Self> {
        if let Stage::Waiting(waiting) = &mut *lock_stage(&self.place) {
            match waiting {
                Some(waiting) => waiting.clone_from(waker),
                None => *waiting = Some(waker.clone()),
            }
        } else if let Some(job) = self.job.take() {
            let room = Room { queue: Arc::clone(&self.queue), bytes: self.place.bytes };
            self.queue.put(self.queue.lock(), Admitted { job, room });
            return None;
        }
        Some(self)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.job.is_none() {
            return;
        }
        let mut state = self.queue.lock();
        let granted = matches!(&*lock_stage(&self.place), Stage::Granted);
        if granted {
            state.used_bytes -= self.place.bytes;
        } else {
            state.waiting.retain(|place| !Arc::ptr_eq(place, &self.place));
        }
        // Whoever stood behind it may have room now.
        self.queue.grant(state);
    }
}
