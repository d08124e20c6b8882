//! One action for all who need it: those who come while it is under way share the next.
//!
//! Nobody counts as served by an action that had begun when they came.

use std::cell::{Cell, RefCell};

use crate::notify::Notify;
use crate::planted::{Bug, is_planted};

/// What several tasks need done.
pub(crate) struct SharedStep<T> {
    waiting: RefCell<Vec<T>>,
    /// The group that gathers now.
    number: Cell<u64>,
    /// Groups that are done: all below this.
    done: Cell<u64>,
    is_under_way: Cell<bool>,
    changed: Notify,
}

impl<T> Default for SharedStep<T> {
    fn default() -> Self {
        Self {
            waiting: RefCell::default(),
            number: Cell::default(),
            done: Cell::default(),
            is_under_way: Cell::default(),
            changed: Notify::default(),
        }
    }
}

/// What one of a group does.
enum Role<E> {
    /// Acts for all of it.
    Leader,
    /// Nothing any more.
    Served,
    Failed(E),
}

/// An action under way, until this is dropped.
struct UnderWay<'a, T>(&'a SharedStep<T>);

impl<T> Drop for UnderWay<'_, T> {
    fn drop(&mut self) {
        self.0.is_under_way.set(false);
        self.0.changed.all();
    }
}

impl<T> SharedStep<T> {
    /// Has `item` among those for which `act` is called once, with all that gathered. `alive` fails from the time on at
    /// which an action failed or was given up halfway.
    pub(crate) async fn join<E>(
        &self,
        item: T,
        alive: impl Fn() -> Result<(), E>,
        act: impl AsyncFnOnce(Vec<T>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut mine = self.number.get();
        self.waiting.borrow_mut().push(item);
        if is_planted(Bug::DirectJoinsLate) && self.is_under_way.get() {
            mine = mine.saturating_sub(1);
        }
        let role = self
            .changed
            .until(|| {
                if let Err(error) = alive() {
                    return Some(Role::Failed(error));
                }
                if self.done.get() > mine {
                    return Some(Role::Served);
                }
                (!self.is_under_way.replace(true)).then_some(Role::Leader)
            })
            .await;
        match role {
            Role::Failed(error) => return Err(error),
            Role::Served => return Ok(()),
            Role::Leader => {}
        }
        let under_way = UnderWay(self);
        let items = self.waiting.take();
        self.number.set(self.number.get() + 1);
        let acted = act(items).await;
        if acted.is_ok() {
            self.done.set(self.number.get());
        }
        drop(under_way);
        acted
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::rc::Rc;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::error::Error;

    #[test]
    fn those_who_come_while_it_is_under_way_share_the_next() {
        let step: SharedStep<u32> = SharedStep::default();
        let (acts, gate) = (RefCell::new(Vec::new()), Rc::new((Cell::new(0), Notify::default())));
        let act = async |items: Vec<u32>| {
            acts.borrow_mut().push(items);
            let number = acts.borrow().len();
            gate.1.until(|| (gate.0.get() >= number).then_some(())).await;
            Ok::<(), Error>(())
        };
        let mut context = Context::from_waker(Waker::noop());
        let mut joined: Vec<_> = (1..=3).map(|item| Box::pin(step.join(item, || Ok(()), &act))).collect();
        let mut poll = |at: usize| joined[at].as_mut().poll(&mut context);
        assert!((0..3).all(|at| poll(at).is_pending()));
        assert_eq!(*acts.borrow(), [vec![1]]);
        gate.0.set(1);
        assert_eq!(poll(0), Poll::Ready(Ok(())));
        assert!(poll(2).is_pending() && poll(1).is_pending(), "the first action had begun when they came");
        assert_eq!(*acts.borrow(), [vec![1], vec![2, 3]]);
        gate.0.set(2);
        assert_eq!((poll(2), poll(1)), (Poll::Ready(Ok(())), Poll::Ready(Ok(()))));
    }

    #[test]
    fn all_of_a_group_fail_with_its_action() {
        let step: SharedStep<u32> = SharedStep::default();
        let failure = RefCell::new(None);
        let alive = || failure.borrow().clone().map_or(Ok(()), Err);
        let act = async |_| {
            let error = Error::OutOfRange;
            failure.replace(Some(error.clone()));
            Err(error)
        };
        let mut context = Context::from_waker(Waker::noop());
        let mut waits = pin!(step.join(1, alive, async |_| std::future::pending().await));
        assert!(waits.as_mut().poll(&mut context).is_pending());
        let mut second = pin!(step.join(2, alive, &act));
        let mut third = pin!(step.join(3, alive, &act));
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert!(third.as_mut().poll(&mut context).is_pending());
        step.is_under_way.set(false); // as if the first were done
        assert_eq!(second.as_mut().poll(&mut context), Poll::Ready(Err(Error::OutOfRange)));
        assert_eq!(third.as_mut().poll(&mut context), Poll::Ready(Err(Error::OutOfRange)));
    }
}
