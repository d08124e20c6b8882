//! A turn that one task has alone, or several share.
//!
//! It is given in the order of asking: whoever asks again at once does not pass those who wait.

use std::cell::RefCell;
use std::collections::VecDeque;

use crate::notify::Notify;

/// A turn that one task has alone, or several share.
#[derive(Default)]
pub(super) struct Turn {
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

/// The turn, until this is dropped.
pub(super) struct TurnGuard<'a> {
    turn: &'a Turn,
    is_alone: bool,
}

/// A place among those who wait, until this is dropped.
struct Place<'a> {
    turn: &'a Turn,
    number: u64,
}

impl Turn {
    /// Waits for the turn, to have it alone.
    pub(super) async fn take(&self) -> TurnGuard<'_> {
        self.take_as(true).await
    }

    /// Waits for the turn, to have it with others who share it.
    pub(super) async fn share(&self) -> TurnGuard<'_> {
        self.take_as(false).await
    }

    async fn take_as(&self, is_alone: bool) -> TurnGuard<'_> {
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
        TurnGuard { turn: self, is_alone }
    }

    fn wait_behind_all(&self) -> Place<'_> {
        let mut state = self.state.borrow_mut();
        let number = state.next_number;
        state.next_number += 1;
        state.waiting.push_back(number);
        Place { turn: self, number }
    }
}

impl TurnGuard<'_> {
    /// From now on others who share it may come.
    pub(super) fn into_shared(mut self) -> Self {
        if std::mem::take(&mut self.is_alone) {
            let mut state = self.turn.state.borrow_mut();
            state.is_taken_alone = false;
            state.sharers += 1;
            drop(state);
            self.turn.free.all();
        }
        self
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.turn.state.borrow_mut();
        state.waiting.retain(|&number| number != self.number);
        let others_wait = !state.waiting.is_empty();
        drop(state);
        if others_wait {
            self.turn.free.all();
        }
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.turn.state.borrow_mut();
        match self.is_alone {
            true => state.is_taken_alone = false,
            false => state.sharers -= 1,
        }
        drop(state);
        self.turn.free.all();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<'a>(future: &mut Pin<&mut impl Future<Output = TurnGuard<'a>>>) -> Option<TurnGuard<'a>> {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(guard) => Some(guard),
            Poll::Pending => None,
        }
    }

    #[test]
    fn several_share_it_until_somebody_waits_for_it_alone_and_nobody_passes_another() {
        let turn = Turn::default();
        let first = poll(&mut pin!(turn.share())).expect("nobody has it");
        let second = poll(&mut pin!(turn.share())).expect("it is shared");
        let mut alone = pin!(turn.take());
        assert!(poll(&mut alone).is_none());
        let mut late = pin!(turn.share());
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
        assert!(poll(&mut pin!(turn.take())).is_some());
    }

    #[test]
    fn whoever_gives_up_waiting_keeps_nobody_out() {
        let turn = Turn::default();
        let first = poll(&mut pin!(turn.share())).expect("nobody has it");
        {
            let mut alone = pin!(turn.take());
            assert!(poll(&mut alone).is_none());
        }
        assert!(poll(&mut pin!(turn.share())).is_some());
        drop(first);
    }
}
