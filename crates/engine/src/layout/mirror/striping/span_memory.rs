//! Memory for spans that are read: no more than [`SPANS_MAX_BYTES`] at once, in the order of asking.
//!
//! A checkpoint may have ten thousand who wait: one that ends wakes those alone for whom there is room then.

use std::cell::Cell;

use crate::notify::Line;

/// What is read at once for changes and rebuilds, in spans: far more than the members read at once.
pub(super) const SPANS_MAX_BYTES: u64 = 64 << 20;

/// The memory.
#[derive(Debug, Default)]
pub(super) struct SpanMemory {
    /// Bytes that were ever asked for.
    asked: Cell<u64>,
    /// Of those, bytes that were given back, or are not wanted any more.
    given_back: Cell<u64>,
    waiting: Line,
}

/// Memory for one, or a wish for it, until this is dropped.
pub(super) struct SpanRoom<'a> {
    memory: &'a SpanMemory,
    bytes: u64,
}

impl SpanMemory {
    /// Memory for a span, once there is some. A span that is larger than all of it has it alone.
    pub(super) async fn room(&self, bytes: u64) -> SpanRoom<'_> {
        let room = SpanRoom { memory: self, bytes };
        let asked = self.asked.get() + bytes;
        self.asked.set(asked);
        let enough = asked.saturating_sub(bytes.max(SPANS_MAX_BYTES));
        self.waiting.until(enough, || (self.given_back.get() >= enough).then_some(())).await;
        room
    }
}

impl Drop for SpanRoom<'_> {
    fn drop(&mut self) {
        let given_back = self.memory.given_back.get() + self.bytes;
        self.memory.given_back.set(given_back);
        self.memory.waiting.through(given_back);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake, Waker};

    use super::*;

    const QUARTER: u64 = SPANS_MAX_BYTES / 4;

    /// Counts how often it was woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    type Asking<'a> = Pin<Box<dyn Future<Output = SpanRoom<'a>> + 'a>>;

    fn ask(memory: &SpanMemory, bytes: u64) -> Asking<'_> {
        Box::pin(memory.room(bytes))
    }

    fn poll<'a>(asking: &mut Asking<'a>, waker: &Waker) -> Option<SpanRoom<'a>> {
        match asking.as_mut().poll(&mut Context::from_waker(waker)) {
            Poll::Ready(room) => Some(room),
            Poll::Pending => None,
        }
    }

    #[test]
    fn there_is_room_for_so_much_and_the_next_ones_come_in_their_order() {
        let memory = SpanMemory::default();
        let noop = Waker::noop();
        let mut first = poll(&mut ask(&memory, 3 * QUARTER), noop);
        let (mut large, mut small) = (ask(&memory, 2 * QUARTER), ask(&memory, QUARTER));
        assert!(poll(&mut large, noop).is_none() && poll(&mut small, noop).is_none(), "none passes another");
        drop(first.take().expect("nobody else asked"));
        assert!(poll(&mut large, noop).is_some_and(|_| poll(&mut small, noop).is_some()));
        assert!(
            poll(&mut ask(&memory, 9 * QUARTER), noop).is_some(),
            "one alone is let through, however large"
        );
    }

    #[test]
    fn one_that_gives_up_waiting_lets_those_behind_it_through() {
        let memory = SpanMemory::default();
        let first = poll(&mut ask(&memory, 3 * QUARTER), Waker::noop());
        let (mut gives_up, mut next) = (ask(&memory, 2 * QUARTER), ask(&memory, QUARTER));
        assert!([&mut gives_up, &mut next].into_iter().all(|asking| poll(asking, Waker::noop()).is_none()));
        drop(gives_up);
        assert!(poll(&mut next, Waker::noop()).is_some() && first.is_some());
    }

    #[test]
    fn each_of_thousands_is_woken_once() {
        let memory = SpanMemory::default();
        let mut held: Vec<SpanRoom<'_>> = Vec::new();
        let woken: Vec<Arc<Woken>> = (0..4000).map(|_| Arc::default()).collect();
        let mut asking: Vec<Asking<'_>> = woken.iter().map(|_| ask(&memory, QUARTER / 100)).collect();
        for (asking, woken) in asking.iter_mut().zip(&woken) {
            held.extend(poll(asking, &Waker::from(Arc::clone(woken))));
        }
        let at_once = held.len();
        assert!((400..=401).contains(&at_once));
        for (number, asking) in asking.iter_mut().enumerate().skip(at_once) {
            drop(held.remove(0));
            held.push(poll(asking, Waker::noop()).unwrap_or_else(|| panic!("{number} has its turn")));
        }
        let wakes =
            |woken: &[Arc<Woken>]| woken.iter().map(|one| one.0.load(Ordering::Relaxed)).collect::<Vec<_>>();
        assert!(wakes(&woken[..at_once]).iter().all(|&wakes| wakes == 0));
        assert!(wakes(&woken[at_once..]).iter().all(|&wakes| wakes == 1));
    }
}
