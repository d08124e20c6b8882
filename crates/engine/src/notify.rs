//! Waiting for one another on a single thread.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Wakes everyone who waits for a condition to be looked at again.
#[derive(Debug, Default)]
pub(crate) struct Notify {
    waiting: RefCell<Vec<Waker>>,
}

impl Notify {
    /// Wakes all who wait.
    pub(crate) fn all(&self) {
        for waker in self.waiting.take() {
            waker.wake();
        }
    }

    /// Ends once `ready` answers; it is asked at once and after each [`Self::all`].
    pub(crate) async fn until<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        poll_fn(|context| match ready() {
            Some(answer) => Poll::Ready(answer),
            None => {
                self.waiting.borrow_mut().push(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

/// Wakes those who wait for a number to be reached, and nobody else.
#[derive(Debug, Default)]
pub(crate) struct Line {
    waiting: RefCell<Vec<(u64, Waker)>>,
}

impl Line {
    /// Wakes all who wait for `reached` or less.
    pub(crate) fn through(&self, reached: u64) {
        self.waiting.borrow_mut().retain(|(number, waker)| {
            if *number <= reached {
                waker.wake_by_ref();
            }
            *number > reached
        });
    }

    /// Ends once `ready` answers; it is asked at once and after each [`Self::through`] of `number`.
    pub(crate) async fn until<T>(&self, number: u64, mut ready: impl FnMut() -> Option<T>) -> T {
        poll_fn(|context| match ready() {
            Some(answer) => Poll::Ready(answer),
            None => {
                self.waiting.borrow_mut().push((number, context.waker().clone()));
                Poll::Pending
            }
        })
        .await
    }
}
