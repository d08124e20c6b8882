//! The end of a request that owes the answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::{fmt, mem};

use super::Error;

/// What became of a request so far.
pub(super) enum Slot<T> {
    /// Nobody has asked, and there is no answer.
    Empty,
    /// Who is to be woken.
    Awaited(Waker),
    /// The answer, until it is taken.
    Answered(Result<T, Error>),
    /// It was given.
    Taken,
}

/// What both ends look at.
pub(super) type Shared<T> = Arc<Mutex<Slot<T>>>;

/// What both look at, for one of them alone.
pub(super) fn lock<T>(shared: &Shared<T>) -> MutexGuard<'_, Slot<T>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whoever owes the answer. Dropped without one, the answer is [`Error::Stopped`].
pub(super) struct Reply<T> {
    shared: Shared<T>,
    given: bool,
}

impl<T> fmt::Debug for Reply<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Reply").finish_non_exhaustive()
    }
}

impl<T> Reply<T> {
    /// Owes what the other end waits for.
    pub(super) fn new(shared: &Shared<T>) -> Self {
        Self { shared: Arc::clone(shared), given: false }
    }

    /// Gives the answer.
    pub(super) fn put(mut self, answer: Result<T, Error>) {
        self.give(answer);
    }

    fn give(&mut self, answer: Result<T, Error>) {
        self.given = true;
        let before = mem::replace(&mut *lock(&self.shared), Slot::Answered(answer));
        if let Slot::Awaited(waker) = before {
            waker.wake();
        }
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        if !self.given {
            self.give(Err(Error::Stopped));
        }
    }
}
