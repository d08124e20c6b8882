//! Waiting for several at once.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Lets others that are ready run first: on a real machine all of the caller's class.
pub async fn yield_now() {
    let mut has_waited = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Of so few each is looked at whenever any of them is woken: that costs less than to know which.
const FEW: usize = 8;

/// Runs all of them side by side, in the caller's task; ends when all have ended. Only those that were woken are looked at, in their
/// order: a checkpoint may have thousands, each of which waits many times.
pub async fn all<F: Future<Output = ()>>(futures: impl Iterator<Item = F>) {
    let mut under_way: Vec<Option<Pin<Box<F>>>> = futures.map(|future| Some(Box::pin(future))).collect();
    if under_way.len() <= FEW {
        poll_fn(|context| {
            under_way.retain_mut(|future| {
                future.as_mut().is_some_and(|future| future.as_mut().poll(context).is_pending())
            });
            if under_way.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        return;
    }
    let woken =
        Arc::new(Woken { numbers: Mutex::new((0..under_way.len()).collect()), caller: Mutex::default() });
    let one = |number| Arc::new(One { number, is_woken: AtomicBool::new(true), woken: Arc::clone(&woken) });
    let each: Vec<Arc<One>> = (0..under_way.len()).map(one).collect();
    let wakers: Vec<Waker> = each.iter().map(|one| Waker::from(Arc::clone(one))).collect();
    let mut left = under_way.len();
    poll_fn(|context| {
        // Who is woken from here on wakes the caller again.
        *woken.caller() = Some(context.waker().clone());
        let mut numbers = std::mem::take(&mut *woken.numbers());
        numbers.sort_unstable();
        for number in numbers {
            each[number].is_woken.store(false, Ordering::Release);
            let Some(future) = &mut under_way[number] else { continue };
            if future.as_mut().poll(&mut Context::from_waker(&wakers[number])).is_ready() {
                under_way[number] = None;
                left -= 1;
            }
        }
        if left == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Which of several futures were woken.
struct Woken {
    numbers: Mutex<Vec<usize>>,
    /// Whose task they run in.
    caller: Mutex<Option<Waker>>,
}

impl Woken {
    fn numbers(&self) -> MutexGuard<'_, Vec<usize>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn caller(&self) -> MutexGuard<'_, Option<Waker>> {
        self.caller.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of them.
struct One {
    number: usize,
    /// Whether it is among those that were.
    is_woken: AtomicBool,
    woken: Arc<Woken>,
}

impl Wake for One {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_woken.swap(true, Ordering::AcqRel) {
            return;
        }
        let is_first = {
            let mut numbers = self.woken.numbers();
            numbers.push(self.number);
            numbers.len() == 1
        };
        if is_first && let Some(caller) = &*self.woken.caller() {
            caller.wake_by_ref();
        }
    }
}

/// Runs both side by side, in the caller's task; ends when both have ended.
pub async fn both(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut one_ended, mut other_ended) = (false, false);
    poll_fn(|context| {
        one_ended = one_ended || one.as_mut().poll(context).is_ready();
        other_ended = other_ended || other.as_mut().poll(context).is_ready();
        if one_ended && other_ended { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// What comes first: the one's answer, or that the other ended.
pub async fn first<T>(wanted: impl Future<Output = T>, limit: impl Future<Output = ()>) -> Option<T> {
    let (mut wanted, mut limit) = (Box::pin(wanted), Box::pin(limit));
    poll_fn(|context| {
        if let Poll::Ready(answer) = wanted.as_mut().poll(context) {
            return Poll::Ready(Some(answer));
        }
        limit.as_mut().poll(context).map(|()| None)
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use super::*;
    use crate::notify::Line;

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Counted(std::sync::atomic::AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn of_many_only_those_that_are_woken_are_looked_at_and_all_end() {
        for count in [1, FEW, FEW + 1, 1000] {
            let (line, looked, ended) = (Line::default(), Cell::new(0), RefCell::new(Vec::new()));
            let reached = Rc::new(Cell::new(0));
            let mut running = Box::pin(all((1..=count as u64).map(|number| {
                let (line, looked, ended, reached) = (&line, &looked, &ended, Rc::clone(&reached));
                async move {
                    line.until(number, || {
                        looked.set(looked.get() + 1);
                        (reached.get() >= number).then_some(())
                    })
                    .await;
                    ended.borrow_mut().push(number);
                }
            })));
            let counted = Arc::new(Counted::default());
            let waker = Waker::from(Arc::clone(&counted));
            let mut poll = || running.as_mut().poll(&mut Context::from_waker(&waker));
            assert!(poll().is_pending());
            for number in (1..=count as u64).filter(|number| number % 3 == 0 || *number == count as u64) {
                reached.set(number);
                let woken = counted.0.load(Ordering::Relaxed);
                line.through(number);
                assert!(counted.0.load(Ordering::Relaxed) > woken);
                assert_eq!(poll().is_ready(), number == count as u64);
            }
            assert_eq!(ended.take(), (1..=count as u64).collect::<Vec<_>>());
            if count > FEW {
                assert_eq!(looked.get(), 2 * count, "when it began, and when it could end");
            }
        }
    }

    #[test]
    fn one_that_wakes_itself_is_looked_at_again() {
        let passes = Cell::new(0);
        let mut running = Box::pin(all((0..2 * FEW).map(|_| async {
            yield_now().await;
            passes.set(passes.get() + 1);
        })));
        let counted = Arc::new(Counted::default());
        let waker = Waker::from(Arc::clone(&counted));
        assert!(running.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(counted.0.load(Ordering::Relaxed), 1);
        assert!(running.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
        assert_eq!(passes.get(), 2 * FEW);
    }
}
