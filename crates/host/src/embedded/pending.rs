//! An answer to come: for whoever awaits it, in any runtime, and for threads that wait.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::{fmt, mem};

use super::Error;
use super::queue::Held;
use super::reply::{Reply, Shared, Slot, lock};

/// The answer to a request: await it, or [`wait`](Self::wait) for it.
#[must_use = "what was asked for may fail, and is not done before its answer came"]
pub struct Pending<T> {
    shared: Shared<T>,
    /// The request, where the queue had no room for it.
    held: Option<Held>,
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Pending").finish_non_exhaustive()
    }
}

/// Both ends.
pub(super) fn pair<T>() -> (Reply<T>, Pending<T>) {
    let shared = Arc::new(Mutex::new(Slot::Empty));
    (Reply::new(&shared), Pending { shared, held: None })
}

impl<T> Pending<T> {
    /// One that is answered already.
    pub(super) fn ready(answer: Result<T, Error>) -> Self {
        Self { shared: Arc::new(Mutex::new(Slot::Answered(answer))), held: None }
    }

    /// With what became of its request.
    pub(super) fn handed_to(self, outcome: Option<Held>) -> Self {
        Self { held: outcome, ..self }
    }

    /// Waits for the answer; the thread sleeps meanwhile. Not for async code: there, `.await` it.
    ///
    /// # Errors
    ///
    /// Those of the request.
    pub fn wait(mut self) -> Result<T, Error> {
        PARKER.with(|(parker, waker)| {
            let mut context = Context::from_waker(waker);
            loop {
                if let Poll::Ready(answer) = Pin::new(&mut self).poll(&mut context) {
                    return answer;
                }
                parker.park();
            }
        })
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(held) = self.held.take() {
            self.held = held.try_again(context.waker());
        }
        if self.held.is_some() {
            return Poll::Pending;
        }
        let mut slot = lock(&self.shared);
        match &mut *slot {
            Slot::Empty => *slot = Slot::Awaited(context.waker().clone()),
            Slot::Awaited(waker) => waker.clone_from(context.waker()),
            Slot::Answered(_) => {
                let Slot::Answered(answer) = mem::replace(&mut *slot, Slot::Taken) else { unreachable!() };
                return Poll::Ready(answer);
            }
            Slot::Taken => panic!("an answer is polled after it was given"),
        }
        Poll::Pending
    }
}

/// Wakes a thread.
struct Parker {
    thread: Thread,
    woken: AtomicBool,
}

thread_local! {
    /// This thread's, with a waker that is made once.
    static PARKER: (Arc<Parker>, Waker) = {
        let parker = Arc::new(Parker { thread: thread::current(), woken: AtomicBool::new(false) });
        (Arc::clone(&parker), Waker::from(parker))
    };
}

impl Parker {
    /// Sleeps until it was woken since the last time.
    fn park(&self) {
        while !self.woken.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::Release) {
            self.thread.unpark();
        }
    }
}
