//! Waiting for one another on a single thread.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
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

/// Lets one after another, in the order of their coming.
#[derive(Debug, Default)]
pub(crate) struct Order {
    came: Cell<u64>,
    waiting: RefCell<VecDeque<(u64, Waker)>>,
}

/// A place in an [`Order`]; whoever gives it up, at whatever moment, lets the next one be first.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    order: &'a Order,
    number: u64,
}

impl Order {
    /// Whether nobody has a place.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.borrow().is_empty()
    }

    /// A place behind all others.
    pub(crate) fn enter(&self) -> Place<'_> {
        let number = self.came.get();
        self.came.set(number + 1);
        self.waiting.borrow_mut().push_back((number, Waker::noop().clone()));
        Place { order: self, number }
    }
}

impl Place<'_> {
    /// Whether nobody is before it.
    pub(crate) fn is_first(&self) -> bool {
        self.order.waiting.borrow().front().is_some_and(|(number, _)| *number == self.number)
    }

    /// Waits until nobody is before it.
    pub(crate) async fn first(&self) {
        poll_fn(|context| {
            let mut waiting = self.order.waiting.borrow_mut();
            let found = waiting.binary_search_by_key(&self.number, |(number, _)| *number);
            match found {
                Ok(0) | Err(_) => Poll::Ready(()),
                Ok(place) => {
                    waiting[place].1.clone_from(context.waker());
                    Poll::Pending
                }
            }
        })
        .await;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut waiting = self.order.waiting.borrow_mut();
        let Ok(place) = waiting.binary_search_by_key(&self.number, |(number, _)| *number) else { return };
        waiting.remove(place);
        if let (0, Some((_, first))) = (place, waiting.front()) {
            first.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    #[test]
    fn whoever_came_first_is_first_and_who_leaves_in_between_holds_nobody_up() {
        let order = Order::default();
        let is_let =
            |place: &Place<'_>| pin!(place.first()).poll(&mut Context::from_waker(Waker::noop())).is_ready();
        let (first, second, third) = (order.enter(), order.enter(), order.enter());
        assert_eq!([is_let(&first), is_let(&second), is_let(&third)], [true, false, false]);
        drop(second);
        assert!(first.is_first() && !is_let(&third));
        drop(first);
        assert!(is_let(&third) && !order.is_empty());
        let fourth = order.enter();
        assert!(!is_let(&fourth), "one who comes does not overtake");
        drop(third);
        assert!(is_let(&fourth));
        drop(fourth);
        assert!(order.is_empty());
    }
}
