//! Moments of the volume, asked for by one event loop and taken by another.
//!
//! 1. A moment is of after the question: who asked while one was taken gets that one or the next.
//! 2. All who ask at one time share one. The volume's loop takes one in [`PAUSE_NS`] at most, however many ask.
//! 3. Once it is closed nobody waits any more. Who gives up leaves nothing behind.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use evenkeel_engine::env::Env;

use super::super::scrape::Scrape;
use crate::event_loop::Loop;

/// Between two moments.
const PAUSE_NS: u64 = 20_000_000;

/// What both sides hold.
#[derive(Default)]
pub(super) struct Exchange(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    is_asked: bool,
    is_closed: bool,
    taker: Option<Waker>,
    /// Moments so far, and the last.
    taken: u64,
    last: Option<Arc<Scrape>>,
    /// Who waits, each by a number of its own.
    waiting: BTreeMap<u64, Waker>,
    next_place: u64,
}

/// A place among those who wait.
struct Place<'a> {
    exchange: &'a Exchange,
    number: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.exchange.inner().waiting.remove(&self.number);
    }
}

impl Exchange {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `look` finds something.
    async fn wait<T>(&self, look: impl Fn(&Inner) -> Option<T>) -> T {
        let number = {
            let mut inner = self.inner();
            inner.next_place += 1;
            inner.next_place
        };
        let place = Place { exchange: self, number };
        poll_fn(|context| {
            let mut inner = place.exchange.inner();
            match look(&inner) {
                Some(found) => Poll::Ready(found),
                None => {
                    inner.waiting.insert(place.number, context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// A moment of after the call; `None` once it is closed.
    pub(super) async fn ask(&self) -> Option<Arc<Scrape>> {
        let (before, taker) = {
            let mut inner = self.inner();
            inner.is_asked = true;
            (inner.taken, inner.taker.take())
        };
        if let Some(taker) = taker {
            taker.wake();
        }
        self.wait(|inner| match inner.is_closed {
            true => Some(None),
            false => (inner.taken > before).then(|| inner.last.clone()),
        })
        .await
    }

    /// Waits until it is closed.
    pub(super) async fn closed(&self) {
        self.wait(|inner| inner.is_closed.then_some(())).await;
    }

    /// Takes moments for whoever asks, until it is closed.
    pub(super) async fn give(&self, event_loop: &Loop, take: impl Fn() -> Scrape) {
        while self.is_asked().await {
            let taken = Arc::new(take());
            let waiting = {
                let mut inner = self.inner();
                inner.taken += 1;
                inner.last = Some(taken);
                std::mem::take(&mut inner.waiting)
            };
            waiting.into_values().for_each(Waker::wake);
            event_loop.sleep(PAUSE_NS).await;
        }
    }

    /// Waits for a question; `false` once it is closed.
    async fn is_asked(&self) -> bool {
        poll_fn(|context| {
            let mut inner = self.inner();
            if inner.is_closed {
                return Poll::Ready(false);
            }
            if std::mem::take(&mut inner.is_asked) {
                return Poll::Ready(true);
            }
            inner.taker = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Ends it: whoever waits is woken.
    pub(super) fn close(&self) {
        let (waiting, taker) = {
            let mut inner = self.inner();
            inner.is_closed = true;
            inner.last = None;
            (std::mem::take(&mut inner.waiting), inner.taker.take())
        };
        waiting.into_values().chain(taker).for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::event_loop::{Backend, EventLoop, race};
    use crate::service::samples::scrape;

    #[test]
    fn all_who_ask_at_one_time_share_a_moment_and_who_asks_later_gets_a_later_one() {
        let event_loop = EventLoop::new(Backend::Threads).unwrap();
        let env = event_loop.handle();
        let (exchange, taken) = (Arc::new(Exchange::default()), Rc::new(Cell::new(0)));
        let answered = Rc::new(Cell::new(0));
        for _ in 0..100 {
            let (exchange, answered) = (Arc::clone(&exchange), Rc::clone(&answered));
            env.spawn(async move {
                assert!(exchange.ask().await.is_some());
                answered.set(answered.get() + 1);
            });
        }
        let giver = {
            let (exchange, taken, env) = (Arc::clone(&exchange), Rc::clone(&taken), env.clone());
            async move {
                let take = || {
                    taken.set(taken.get() + 1);
                    scrape()
                };
                exchange.give(&env, take).await;
            }
        };
        env.spawn(giver);
        event_loop.block_on(async {
            assert!(exchange.ask().await.is_some());
            assert!(exchange.ask().await.is_some());
        });
        assert_eq!((answered.get(), taken.get()), (100, 2));
    }

    #[test]
    fn who_gives_up_leaves_nothing_behind_and_at_the_end_nobody_waits() {
        let event_loop = EventLoop::new(Backend::Threads).unwrap();
        let exchange = Exchange::default();
        event_loop.block_on(async {
            for _ in 0..100 {
                let given_up = race(async { exchange.ask().await.is_some() }, async { true }).await;
                assert!(given_up);
            }
            assert!(exchange.inner().waiting.is_empty());
            let close = async {
                exchange.close();
                exchange.closed().await;
                false
            };
            assert!(!race(async { exchange.ask().await.is_some() }, close).await);
            assert!(exchange.ask().await.is_none(), "nor does anybody who comes later");
        });
    }

    #[test]
    fn another_thread_is_answered() {
        let exchange = Arc::new(Exchange::default());
        let asker = {
            let exchange = Arc::clone(&exchange);
            std::thread::spawn(move || {
                let event_loop = EventLoop::new(Backend::Threads).unwrap();
                let uptime_s =
                    event_loop.block_on(exchange.ask()).map(|scrape| scrape.document.server.uptime_s);
                exchange.close();
                uptime_s
            })
        };
        let event_loop = EventLoop::new(Backend::Threads).unwrap();
        event_loop.block_on(exchange.give(&event_loop.handle(), scrape));
        assert_eq!(asker.join().unwrap(), Some(scrape().document.server.uptime_s));
    }
}
