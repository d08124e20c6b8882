//! A lock whose waiters come in the order in which they asked, for one thread.

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::collections::VecDeque;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A value that one task has at a time.
#[derive(Debug, Default)]
pub(crate) struct Lock<T> {
    value: RefCell<T>,
    is_held: Cell<bool>,
    next: Cell<u64>,
    waiters: RefCell<VecDeque<(u64, Waker)>>,
}

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: RefCell::new(value),
            is_held: Cell::default(),
            next: Cell::default(),
            waiters: RefCell::default(),
        }
    }

    /// Waits for its turn.
    pub(crate) fn lock(&self) -> Locking<'_, T> {
        Locking { lock: self, ticket: None }
    }

    /// The value, if no task has it.
    pub(crate) fn glance(&self) -> Option<Ref<'_, T>> {
        self.value.try_borrow().ok()
    }

    fn wake_next(&self) {
        if let Some((_, waker)) = self.waiters.borrow().front() {
            waker.wake_by_ref();
        }
    }
}

/// Waits for a [`Lock`].
pub(crate) struct Locking<'a, T> {
    lock: &'a Lock<T>,
    ticket: Option<u64>,
}

impl<'a, T> Future for Locking<'a, T> {
    type Output = Guard<'a, T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Guard<'a, T>> {
        let lock = self.lock;
        let mut waiters = lock.waiters.borrow_mut();
        let is_next = match (self.ticket, waiters.front()) {
            (_, None) => true,
            (Some(ticket), Some((first, _))) => ticket == *first,
            (None, Some(_)) => false,
        };
        if is_next && !lock.is_held.get() {
            if self.ticket.take().is_some() {
                waiters.pop_front();
            }
            lock.is_held.set(true);
            return Poll::Ready(Guard { lock, value: Some(lock.value.borrow_mut()) });
        }
        match self.ticket {
            Some(ticket) => {
                if let Some((_, waker)) = waiters.iter_mut().find(|(number, _)| *number == ticket) {
                    waker.clone_from(context.waker());
                }
            }
            None => {
                let ticket = lock.next.replace(lock.next.get() + 1);
                waiters.push_back((ticket, context.waker().clone()));
                drop(waiters);
                self.ticket = Some(ticket);
            }
        }
        Poll::Pending
    }
}

impl<T> Drop for Locking<'_, T> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.lock.waiters.borrow_mut().retain(|(number, _)| *number != ticket);
            if !self.lock.is_held.get() {
                self.lock.wake_next();
            }
        }
    }
}

/// A held [`Lock`].
#[derive(Debug)]
pub(crate) struct Guard<'a, T> {
    lock: &'a Lock<T>,
    value: Option<RefMut<'a, T>>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("held until it is dropped")
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("held until it is dropped")
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.value = None;
        self.lock.is_held.set(false);
        self.lock.wake_next();
    }
}

/// Gives others a turn.
pub(crate) fn yield_once() -> impl Future<Output = ()> {
    let mut has_yielded = false;
    std::future::poll_fn(move |context| {
        if has_yielded {
            return Poll::Ready(());
        }
        has_yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
}
