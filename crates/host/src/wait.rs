//! Waiting on a single thread: for a signal, for the first of two, for one's turn, for work that is not given up.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use evenkeel_engine::env::Env;
pub(crate) use evenkeel_engine::join::yield_now;

/// Wakes the one task that waits for a condition to be looked at again.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    waiting: RefCell<Option<Waker>>,
}

impl Signal {
    /// Wakes who waits.
    pub(crate) fn raise(&self) {
        if let Some(waker) = self.waiting.take() {
            waker.wake();
        }
    }

    /// From now on the task of `context` is the one that waits.
    pub(crate) fn register(&self, context: &Context<'_>) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *waiting = Some(context.waker().clone());
        }
    }

    /// Ends once `ready` answers; it is asked at once and after each [`Self::raise`].
    pub(crate) async fn until<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        poll_fn(|context| match ready() {
            Some(answer) => Poll::Ready(answer),
            None => {
                self.register(context);
                Poll::Pending
            }
        })
        .await
    }
}

/// Wakes all tasks that wait for a condition to be looked at again.
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

    /// The task of `context` waits, too.
    pub(crate) fn register(&self, context: &Context<'_>) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            waiting.push(context.waker().clone());
        }
    }

    /// Ends once `ready` answers; it is asked at once and after each [`Self::all`].
    pub(crate) async fn until<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        poll_fn(|context| match ready() {
            Some(answer) => Poll::Ready(answer),
            None => {
                self.register(context);
                Poll::Pending
            }
        })
        .await
    }
}

/// A turn that one task has at a time, in the order of asking: whoever comes again stands behind all others.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    taken: Cell<bool>,
    waiting: RefCell<VecDeque<Rc<TurnPlace>>>,
}

#[derive(Debug, Default)]
struct TurnPlace {
    has_turn: Cell<bool>,
    signal: Signal,
}

/// The next in line has its turn when this is dropped: also where whoever stands there gives its place up.
pub(crate) struct TurnGuard<'a> {
    turn: &'a Turn,
    place: Rc<TurnPlace>,
}

impl Turn {
    pub(crate) async fn take(&self) -> TurnGuard<'_> {
        let place = Rc::new(TurnPlace::default());
        let guard = TurnGuard { turn: self, place: Rc::clone(&place) };
        match self.taken.replace(true) {
            false => place.has_turn.set(true),
            true => self.waiting.borrow_mut().push_back(Rc::clone(&place)),
        }
        place.signal.until(|| place.has_turn.get().then_some(())).await;
        guard
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        let mut waiting = self.turn.waiting.borrow_mut();
        if !self.place.has_turn.get() {
            return waiting.retain(|place| !Rc::ptr_eq(place, &self.place));
        }
        let next = waiting.pop_front();
        self.turn.taken.set(next.is_some());
        drop(waiting);
        if let Some(next) = next {
            next.has_turn.set(true);
            next.signal.raise();
        }
    }
}

/// Runs `work` as a task of its own: it comes to its end even if nobody waits for it any more.
pub(crate) fn run_apart<T: 'static>(
    env: &impl Env,
    work: impl Future<Output = T> + 'static,
) -> impl Future<Output = T> {
    let (outcome, done) = (Rc::new(Cell::new(None)), Rc::new(Signal::default()));
    let (theirs, ended) = (Rc::downgrade(&outcome), Rc::clone(&done));
    env.spawn(async move {
        let answer = work.await;
        if let Some(outcome) = theirs.upgrade() {
            outcome.set(Some(answer));
        }
        ended.raise();
    });
    async move { done.until(|| outcome.take()).await }
}

/// Which of two came first.
pub(crate) enum Raced<A, B> {
    First(A),
    Second(B),
}

/// Runs both until one has ended; the other is dropped. The first is asked first.
pub(crate) async fn race<A, B>(
    first: impl Future<Output = A>,
    second: impl Future<Output = B>,
) -> Raced<A, B> {
    let (mut first, mut second) = (pin!(first), pin!(second));
    poll_fn(|context| {
        if let Poll::Ready(answer) = first.as_mut().poll(context) {
            return Poll::Ready(Raced::First(answer));
        }
        second.as_mut().poll(context).map(Raced::Second)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    type Taking<'a> = std::pin::Pin<Box<dyn Future<Output = TurnGuard<'a>> + 'a>>;

    fn ask<'a>(taking: &mut Taking<'a>) -> Option<TurnGuard<'a>> {
        match taking.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(guard) => Some(guard),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_turn_is_had_in_the_order_of_asking_and_passes_over_who_has_left() {
        let turn = Turn::default();
        let mut takings: Vec<Taking<'_>> = (0..4).map(|_| Box::pin(turn.take()) as _).collect();
        let mut fourth = takings.pop().unwrap();
        let mut third = takings.pop().unwrap();
        let mut second = takings.pop().unwrap();
        let first = ask(&mut takings[0]).expect("nobody has it");
        for waiting in [&mut second, &mut third, &mut fourth] {
            assert!(ask(waiting).is_none());
        }
        drop(second);
        drop(first);
        assert!(ask(&mut fourth).is_none(), "the third asked before it");
        let third = ask(&mut third).expect("it is next");
        let mut first_again: Taking<'_> = Box::pin(turn.take());
        assert!(ask(&mut first_again).is_none());
        drop(third);
        assert!(ask(&mut first_again).is_none());
        // It has its turn, and leaves before it knows.
        drop(fourth);
        assert!(ask(&mut first_again).is_some());
        assert!(ask(&mut (Box::pin(turn.take()) as Taking<'_>)).is_some(), "it is free");
    }
}
