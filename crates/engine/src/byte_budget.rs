//! Bytes that may be under way, or in budget, at once: no more than so many, in the order of asking.
//!
//! 1. One that is larger than all of the budget has it alone; one without bytes waits for nobody.
//! 2. A checkpoint may have ten thousand who wait: one that ends wakes those alone for whom there is room then.
//! 3. Who gives up waiting keeps nobody waiting.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The budget.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    max_bytes: u64,
    taken_bytes: Cell<u64>,
    waiting: RefCell<VecDeque<Rc<Wish>>>,
}

/// What one asked for.
#[derive(Debug)]
struct Wish {
    bytes: u64,
    is_granted: Cell<bool>,
    is_given_up: Cell<bool>,
    waker: RefCell<Waker>,
}

/// Bytes of the budget, or a wish for them, until this is dropped.
#[derive(Debug)]
pub(crate) struct Taken<'a> {
    budget: &'a ByteBudget,
    wish: Rc<Wish>,
}

impl ByteBudget {
    /// So many bytes.
    pub(crate) fn of(max_bytes: u64) -> Self {
        Self { max_bytes, taken_bytes: Cell::default(), waiting: RefCell::default() }
    }

    /// So many bytes, once there is room for them.
    pub(crate) async fn take(&self, bytes: u64) -> Taken<'_> {
        let waker = RefCell::new(Waker::noop().clone());
        let wish =
            Rc::new(Wish { bytes, is_granted: Cell::new(bytes == 0), is_given_up: Cell::default(), waker });
        let taken = Taken { budget: self, wish };
        if bytes > 0 {
            self.waiting.borrow_mut().push_back(Rc::clone(&taken.wish));
            self.grant();
        }
        poll_fn(|context| {
            if taken.wish.is_granted.get() {
                return Poll::Ready(());
            }
            taken.wish.waker.borrow_mut().clone_from(context.waker());
            Poll::Pending
        })
        .await;
        taken
    }

    /// Lets those at the front of the line through for whom there is room.
    fn grant(&self) {
        let mut waiting = self.waiting.borrow_mut();
        while let Some(wish) = waiting.front() {
            let taken_bytes = self.taken_bytes.get();
            if !wish.is_given_up.get() {
                if taken_bytes > 0 && taken_bytes.saturating_add(wish.bytes) > self.max_bytes {
                    return;
                }
                self.taken_bytes.set(taken_bytes.saturating_add(wish.bytes));
                wish.is_granted.set(true);
                wish.waker.borrow().wake_by_ref();
            }
            waiting.pop_front();
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        match self.wish.is_granted.get() {
            true => self.budget.taken_bytes.set(self.budget.taken_bytes.get() - self.wish.bytes),
            false => self.wish.is_given_up.set(true),
        }
        self.budget.grant();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    use super::*;

    /// Counts how often it was woken.
    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    type Asking<'a> = Pin<Box<dyn Future<Output = Taken<'a>> + 'a>>;

    fn ask(budget: &ByteBudget, bytes: u64) -> Asking<'_> {
        Box::pin(budget.take(bytes))
    }

    fn poll<'a>(asking: &mut Asking<'a>, waker: &Waker) -> Option<Taken<'a>> {
        match asking.as_mut().poll(&mut Context::from_waker(waker)) {
            Poll::Ready(room) => Some(room),
            Poll::Pending => None,
        }
    }

    fn begin<'a>(budget: &'a ByteBudget, bytes: u64) -> (Asking<'a>, Option<Taken<'a>>) {
        let mut asking = ask(budget, bytes);
        let room = poll(&mut asking, Waker::noop());
        (asking, room)
    }

    #[test]
    fn there_is_room_for_so_much_and_the_next_ones_come_in_their_order() {
        let budget = ByteBudget::of(4);
        let (_, first) = begin(&budget, 3);
        let ((mut large, no_room), (mut small, nor_room)) = (begin(&budget, 2), begin(&budget, 1));
        assert!(no_room.is_none() && nor_room.is_none(), "none passes another");
        assert!(begin(&budget, 0).1.is_some(), "nothing is there always");
        drop(first.expect("nobody else asked"));
        let (large, small) = (poll(&mut large, Waker::noop()), poll(&mut small, Waker::noop()));
        assert!(large.is_some() && small.is_some());
        let (mut all, no_room) = begin(&budget, 9);
        drop((large, no_room));
        assert!(poll(&mut all, Waker::noop()).is_none(), "one has some still");
        drop(small);
        assert!(poll(&mut all, Waker::noop()).is_some(), "one alone is let through, however large");
    }

    #[test]
    fn one_that_gives_up_waiting_lets_through_whom_there_is_room_for() {
        let budget = ByteBudget::of(4);
        let (_, first) = begin(&budget, 3);
        let (gives_up, (mut next, _)) = (begin(&budget, 2), begin(&budget, 1));
        let (mut waits, last) = (begin(&budget, 2).0, begin(&budget, 2));
        drop((gives_up, last));
        assert!(first.is_some() && poll(&mut next, Waker::noop()).is_some());
        assert!(poll(&mut waits, Waker::noop()).is_none(), "whoever gave up behind it had nothing");
    }

    #[test]
    fn each_of_thousands_is_woken_once() {
        let budget = ByteBudget::of(400);
        let woken: Vec<Arc<Woken>> = (0..4000).map(|_| Arc::default()).collect();
        let mut asking: Vec<Asking<'_>> = woken.iter().map(|_| ask(&budget, 1)).collect();
        let of = |woken: &Arc<Woken>| Waker::from(Arc::clone(woken));
        let began: Vec<_> = asking.iter_mut().zip(&woken).map(|(one, woken)| poll(one, &of(woken))).collect();
        let mut held: VecDeque<Taken<'_>> = began.into_iter().flatten().collect();
        assert_eq!(held.len(), 400);
        for (number, one) in asking.iter_mut().enumerate().skip(400) {
            drop(held.pop_front());
            held.push_back(poll(one, Waker::noop()).unwrap_or_else(|| panic!("{number} has its turn")));
        }
        let wakes: Vec<usize> = woken.iter().map(|one| one.0.load(Ordering::Relaxed)).collect();
        assert!(wakes[..400].iter().all(|&wakes| wakes == 0) && wakes[400..].iter().all(|&wakes| wakes == 1));
    }
}
