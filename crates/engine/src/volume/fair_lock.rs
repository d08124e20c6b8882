//! A lock that one task has alone, or several share, in the order of asking.
//!
//! Whoever asks again at once does not pass those who wait.

use std::cell::RefCell;
use std::collections::VecDeque;

use crate::notify::Notify;

/// A lock that one task has alone, or several share.
#[derive(Default)]
pub(super) struct FairLock {
    state: RefCell<State>,
    free: Notify,
}

#[derive(Default)]
struct State {
    is_taken_alone: bool,
    sharers: usize,
    /// Those who wait, by their numbers.
    waiting: VecDeque<u64>,
    next_number: u64,
}

/// The lock, held until this is dropped.
pub(super) struct FairGuard<'a> {
    lock: &'a FairLock,
    is_alone: bool,
}

/// A place among those who wait, until this is dropped.
struct Place<'a> {
    lock: &'a FairLock,
    number: u64,
}

impl FairLock {
    /// Waits for the lock, to have it alone.
    pub(super) async fn take(&self) -> FairGuard<'_> {
        self.take_as(true).await
    }

    /// Waits for the lock, to have it with others who share it.
    pub(super) async fn share(&self) -> FairGuard<'_> {
        self.take_as(false).await
    }

    /// Whether nobody has it, nor waits for it.
    pub(super) fn is_free(&self) -> bool {
        let state = self.state.borrow();
        !state.is_taken_alone && state.sharers == 0 && state.waiting.is_empty()
    }

    async fn take_as(&self, is_alone: bool) -> FairGuard<'_> {
        let place = self.wait_behind_all();
        self.free
            .until(|| {
                let mut state = self.state.borrow_mut();
                let is_first = state.waiting.front() == Some(&place.number);
                if !is_first || state.is_taken_alone || (is_alone && state.sharers > 0) {
                    return None;
                }
                state.is_taken_alone = is_alone;
                state.sharers += usize::from(!is_alone);
                Some(())
            })
            .await;
        drop(place);
        FairGuard { lock: self, is_alone }
    }

    fn wait_behind_all(&self) -> Place<'_> {
        let mut state = self.state.borrow_mut();
        let number = state.next_number;
        state.next_number += 1;
        state.waiting.push_back(number);
        Place { lock: self, number }
    }
}

impl FairGuard<'_> {
    /// From now on others who share it may come.
    pub(super) fn into_shared(mut self) -> Self {
        if std::mem::take(&mut self.is_alone) {
            let mut state = self.lock.state.borrow_mut();
            state.is_taken_alone = false;
            state.sharers += 1;
            drop(state);
            self.lock.free.all();
        }
        self
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.lock.state.borrow_mut();
        state.waiting.retain(|&number| number != self.number);
        let others_wait = !state.waiting.is_empty();
        drop(state);
        if others_wait {
            self.lock.free.all();
        }
    }
}

impl Drop for FairGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.lock.state.borrow_mut();
        match self.is_alone {
            true => state.is_taken_alone = false,
            false => state.sharers -= 1,
        }
        drop(state);
        self.lock.free.all();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<'a>(future: &mut Pin<&mut impl Future<Output = FairGuard<'a>>>) -> Option<FairGuard<'a>> {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(guard) => Some(guard),
            Poll::Pending => None,
        }
    }

    #[test]
    fn several_share_it_until_somebody_waits_for_it_alone_and_nobody_passes_another() {
        let lock = FairLock::default();
        let first = poll(&mut pin!(lock.share())).expect("nobody has it");
        let second = poll(&mut pin!(lock.share())).expect("it is shared");
        let mut alone = pin!(lock.take());
        assert!(poll(&mut alone).is_none());
        let mut late = pin!(lock.share());
        assert!(poll(&mut late).is_none(), "somebody waits before it");
        drop(first);
        assert!(poll(&mut alone).is_none(), "one has it still");
        drop(second);
        assert!(poll(&mut late).is_none(), "not before the one that came first");
        let alone = poll(&mut alone).expect("it is free");
        assert!(poll(&mut late).is_none());
        let shared = alone.into_shared();
        let late = poll(&mut late).expect("it is shared now");
        drop((shared, late));
        assert!(lock.is_free());
        let alone = poll(&mut pin!(lock.take())).expect("it is free");
        assert!(!lock.is_free());
        drop(alone);
        assert!(lock.is_free());
    }

    #[test]
    fn whoever_gives_up_waiting_keeps_nobody_out() {
        let lock = FairLock::default();
        let first = poll(&mut pin!(lock.share())).expect("nobody has it");
        {
            let mut alone = pin!(lock.take());
            assert!(poll(&mut alone).is_none());
        }
        assert!(poll(&mut pin!(lock.share())).is_some());
        drop(first);
    }
}
