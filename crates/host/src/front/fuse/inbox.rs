//! Requests on their way from the session's thread to the event loop.
//!
//! 1. Requests that are not answered yet take at most [`UNDER_WAY_MAX_BYTES`], what carries them out counted, or are one: the
//!    session's thread waits with the next, and so does the kernel.
//! 2. What the kernel forgets is no request: lookups of at most [`FORGETS_MAX`] files wait to be taken back, those of one
//!    file as one number. The session's thread waits with the next.
//! 3. The loop is woken once for all that came since it last looked.
//! 4. Once the inbox is closed nothing stays in it: requests are dropped, and the kernel is told of an error.

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// Bytes of requests that may be under way.
pub(super) const UNDER_WAY_MAX_BYTES: usize = 32 << 20;

/// Files whose lookups may wait to be taken back.
pub(super) const FORGETS_MAX: usize = 1 << 16;

/// What a request takes besides the bytes that it brings or wants, and besides what carries it out.
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
    /// Lookups that the kernel does not count any more, by inode.
    forgotten: BTreeMap<u32, u64>,
    /// Who takes them back, where there were none.
    forgetter: Option<Waker>,
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
            forgotten: BTreeMap::new(),
            forgetter: None,
            is_closed: false,
        };
        Arc::new(Self { state: Mutex::new(state), has_room: Condvar::new() })
    }

    /// Hands a request over that brings or wants so many `bytes`. Waits for room: never on the loop's thread.
    pub(super) fn put<F>(inbox: &Arc<Self>, bytes: usize, begin: impl FnOnce(H) -> F + Send + 'static)
    where
        F: Future<Output = ()> + 'static,
    {
        let own_bytes = REQUEST_BYTES + size_of::<F>() + size_of_val(&begin);
        let bytes = bytes.saturating_add(own_bytes);
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

    /// The kernel takes back so many lookups of an inode. Waits for room: never on the loop's thread.
    pub(super) fn forget(&self, inode: u32, lookups: u64) {
        let mut state = self.lock();
        while !state.is_closed
            && state.forgotten.len() >= FORGETS_MAX
            && !state.forgotten.contains_key(&inode)
        {
            state = self.has_room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_closed {
            return;
        }
        let counted = state.forgotten.entry(inode).or_default();
        *counted = counted.saturating_add(lookups);
        let forgetter = state.forgetter.take();
        drop(state);
        if let Some(forgetter) = forgetter {
            forgetter.wake();
        }
    }

    /// Waits for lookups to take back, and takes those of at most `count` files out into `into`, with room that is theirs
    /// until they are taken back; `None` once the inbox is closed.
    pub(super) async fn take_forgotten(
        inbox: &Arc<Self>,
        count: usize,
        into: &mut Vec<(u32, u64)>,
    ) -> Option<Room<H>> {
        poll_fn(|context| {
            let mut state = inbox.lock();
            if state.is_closed {
                return Poll::Ready(None);
            }
            if state.forgotten.is_empty() {
                state.forgetter = Some(context.waker().clone());
                return Poll::Pending;
            }
            while into.len() < count
                && let Some(forgotten) = state.forgotten.pop_first()
            {
                into.push(forgotten);
            }
            state.requests += 1;
            drop(state);
            inbox.has_room.notify_one();
            Poll::Ready(Some(Room { inbox: Arc::clone(inbox), bytes: 0 }))
        })
        .await
    }

    /// Takes nothing more; what was not begun is dropped.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.forgotten.clear();
        let (jobs, taker) = (std::mem::take(&mut state.jobs), state.taker.take());
        let forgetter = state.forgetter.take();
        drop(state);
        self.has_room.notify_all();
        // Gives its room back, and answers it: outside of the lock.
        drop(jobs);
        taker.into_iter().chain(forgetter).for_each(Waker::wake);
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

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Context;
    use std::thread;

    use super::*;

    /// What a future answers that has nothing to wait for.
    fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        }
    }

    fn waiting(inbox: &Inbox<()>) -> usize {
        inbox.lock().forgotten.len()
    }

    #[test]
    fn what_is_forgotten_waits_as_a_number_for_each_file_and_for_no_more_than_so_many() {
        const FILES: u32 = FORGETS_MAX as u32 + 1000;
        let inbox = Inbox::<()>::new();
        let reader = thread::spawn({
            let inbox = Arc::clone(&inbox);
            move || {
                for (inode, lookups) in (0..FILES).flat_map(|inode| [(inode, 1), (inode, 2)]) {
                    inbox.forget(inode, lookups);
                }
            }
        });
        let (mut part, mut taken) = (Vec::new(), BTreeMap::new());
        while taken.len() < FILES as usize {
            // The reader's thread goes on until it waits for room, or has come to its end.
            while waiting(&inbox) < FORGETS_MAX && !reader.is_finished() {
                thread::yield_now();
            }
            assert!(waiting(&inbox) <= FORGETS_MAX);
            let room = at_once(Inbox::take_forgotten(&inbox, 100, &mut part)).unwrap().unwrap();
            assert!(part.len() <= 100);
            assert_eq!((inbox.requests(), inbox.under_way_bytes()), (1, (0, 0)));
            for (inode, lookups) in part.drain(..) {
                *taken.entry(inode).or_insert(0) += lookups;
            }
            drop(room);
        }
        reader.join().unwrap();
        while let Some(Some(_)) = at_once(Inbox::take_forgotten(&inbox, 100, &mut part)) {
            part.drain(..).for_each(|(inode, lookups)| *taken.entry(inode).or_insert(0) += lookups);
        }
        assert!(taken.into_iter().eq((0..FILES).map(|inode| (inode, 3))));
        assert_eq!((waiting(&inbox), inbox.requests()), (0, 0));
    }

    #[test]
    fn a_closed_inbox_keeps_nothing_and_lets_nobody_wait() {
        let inbox = Inbox::<()>::new();
        let reader = thread::spawn({
            let inbox = Arc::clone(&inbox);
            move || (0..2 * FORGETS_MAX as u32).for_each(|inode| inbox.forget(inode, 1))
        });
        while waiting(&inbox) < FORGETS_MAX {
            thread::yield_now();
        }
        inbox.close();
        reader.join().unwrap();
        assert_eq!(waiting(&inbox), 0);
        assert!(matches!(at_once(Inbox::take_forgotten(&inbox, 100, &mut Vec::new())), Some(None)));
    }

    #[test]
    fn a_request_counts_with_what_carries_it_out() {
        let inbox = Inbox::<()>::new();
        Inbox::put(&inbox, 5000, async move |()| {
            let kept = [1_u8; 30_000];
            std::future::pending::<()>().await;
            std::hint::black_box(&kept);
        });
        let (now, peak) = inbox.under_way_bytes();
        assert!((35_000 + REQUEST_BYTES..80_000).contains(&now), "{now}");
        let mut jobs = Vec::new();
        assert_eq!(at_once(inbox.take(&mut jobs)), Some(true));
        let (begin, room) = jobs.pop().unwrap();
        let mut request = begin(());
        assert!(at_once(request.as_mut()).is_none());
        assert_eq!(inbox.under_way_bytes(), (now, peak));
        drop((request, room));
        assert_eq!((inbox.under_way_bytes(), inbox.requests()), ((0, now), 0));
    }
}
