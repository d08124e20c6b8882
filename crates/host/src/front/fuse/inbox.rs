//! Requests on their way from the session's thread to the event loop.
//!
//! 1. Requests that are not answered yet take at most [`UNDER_WAY_MAX_BYTES`], or are one: the session's thread waits with
//!    the next, and so does the kernel.
//! 2. The loop is woken once for all requests that came since it last looked.
//! 3. Once the inbox is closed nothing stays in it: requests are dropped, and the kernel is told of an error.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// Bytes of requests that may be under way.
pub(super) const UNDER_WAY_MAX_BYTES: usize = 32 << 20;

/// What a request takes besides the bytes that it brings or wants.
const REQUEST_BYTES: usize = 1024;

/// A request that is carried out.
type Run = Pin<Box<dyn Future<Output = ()>>>;

/// A request: what begins it, on the loop's thread, with what `H` it works on.
type Job<H> = Box<dyn FnOnce(H) -> Run + Send>;

/// The inbox of whatever carries out requests with a handle `H`.
pub(super) struct Inbox<H> {
    state: Mutex<State<H>>,
    has_room: Condvar,
}

struct State<H> {
    jobs: Vec<(Job<H>, Room<H>)>,
    under_way_bytes: usize,
    peak_bytes: usize,
    requests: u64,
    /// The loop, where it found nothing.
    taker: Option<Waker>,
    is_closed: bool,
}

/// Room for a request, given back when it is dropped.
pub(super) struct Room<H> {
    inbox: Arc<Inbox<H>>,
    bytes: usize,
}

impl<H> Drop for Room<H> {
    fn drop(&mut self) {
        let mut state = self.inbox.lock();
        state.under_way_bytes -= self.bytes;
        state.requests -= 1;
        drop(state);
        self.inbox.has_room.notify_one();
    }
}

impl<H> fmt::Debug for Inbox<H> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (bytes, _) = self.under_way_bytes();
        out.debug_struct("Inbox").field("under_way_bytes", &bytes).finish_non_exhaustive()
    }
}

impl<H: 'static> Inbox<H> {
    pub(super) fn new() -> Arc<Self> {
        let state = State {
            jobs: Vec::new(),
            under_way_bytes: 0,
            peak_bytes: 0,
            requests: 0,
            taker: None,
            is_closed: false,
        };
        Arc::new(Self { state: Mutex::new(state), has_room: Condvar::new() })
    }

    /// Hands a request over that brings or wants so many `bytes`. Waits for room: never on the loop's thread.
    pub(super) fn put<F>(inbox: &Arc<Self>, bytes: usize, begin: impl FnOnce(H) -> F + Send + 'static)
    where
        F: Future<Output = ()> + 'static,
    {
        let bytes = bytes.saturating_add(REQUEST_BYTES);
        let mut state = inbox.lock();
        while !state.is_closed
            && state.under_way_bytes > 0
            && state.under_way_bytes.saturating_add(bytes) > UNDER_WAY_MAX_BYTES
        {
            state = inbox.has_room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_closed {
            return;
        }
        state.under_way_bytes += bytes;
        state.peak_bytes = state.peak_bytes.max(state.under_way_bytes);
        state.requests += 1;
        let room = Room { inbox: Arc::clone(inbox), bytes };
        state.jobs.push((Box::new(move |handle| Box::pin(begin(handle))), room));
        let taker = state.taker.take();
        drop(state);
        if let Some(taker) = taker {
            taker.wake();
        }
    }

    /// Waits for requests and takes all of them out into `into`; false once the inbox is closed.
    pub(super) async fn take(&self, into: &mut Vec<(Job<H>, Room<H>)>) -> bool {
        poll_fn(|context| {
            let mut state = self.lock();
            if state.is_closed {
                return Poll::Ready(false);
            }
            if state.jobs.is_empty() {
                match &mut state.taker {
                    Some(taker) => taker.clone_from(context.waker()),
                    None => state.taker = Some(context.waker().clone()),
                }
                return Poll::Pending;
            }
            std::mem::swap(&mut state.jobs, into);
            Poll::Ready(true)
        })
        .await
    }

    /// Takes nothing more; what was not begun is dropped.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let (jobs, taker) = (std::mem::take(&mut state.jobs), state.taker.take());
        drop(state);
        self.has_room.notify_all();
        // Gives its room back, and answers it: outside of the lock.
        drop(jobs);
        if let Some(taker) = taker {
            taker.wake();
        }
    }
}

impl<H> Inbox<H> {
    fn lock(&self) -> MutexGuard<'_, State<H>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of requests under way, and the most there were.
    pub(super) fn under_way_bytes(&self) -> (usize, usize) {
        let state = self.lock();
        (state.under_way_bytes, state.peak_bytes)
    }

    /// Requests that are not answered yet.
    pub(super) fn requests(&self) -> u64 {
        self.lock().requests
    }
}
