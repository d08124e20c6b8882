//! What a member is asked to write: a queue, and a gate that lets its head out.
//!
//! 1. Requests leave in the order of their coming, each once, while the gate is open and fewer than so many are under
//!    way.
//! 2. A request that is given up leaves its place to the next; one that is given up while it is under way is noted: what
//!    the member holds is not known any more.
//! 3. When the member fails, all who wait are told.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use crate::notify::Notify;

/// The gate of one member.
#[derive(Debug)]
pub(crate) struct Gate {
    state: RefCell<State>,
    depth_max: usize,
    /// While the member makes so many bytes durable, no more than twice as many leave that are not.
    settled_bytes: u64,
    /// Something left the queue, ended, or came.
    pub(crate) changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    open: bool,
    failed: bool,
    under_way: usize,
    under_way_bytes: u64,
    /// Bytes of those that ended since the member was last asked to make them durable.
    unsettled_bytes: u64,
    /// Bytes that it makes durable now.
    settling_bytes: u64,
    /// Sequence numbers of those of them that have one.
    numbered: BTreeSet<u64>,
    waiting: VecDeque<Rc<Place>>,
    queued_bytes: u64,
    /// Bytes that ever came.
    came_bytes: u64,
    /// Sequence number of the last request that was let out.
    dispatch: u64,
    /// Whether one was given up while it was under way.
    abandoned: bool,
}

#[derive(Debug)]
struct Place {
    /// 0 for what is no write of the ring's own: bytes that are there already, put there once more.
    sequence: u64,
    len: u64,
    granted: Cell<bool>,
    given_up: Cell<bool>,
    /// Whether the member failed while this waited.
    refused: Cell<bool>,
    waker: RefCell<Waker>,
}

/// A place in the queue, and from its turn on, one among those under way.
#[derive(Debug)]
pub(crate) struct Ticket {
    gate: Rc<Gate>,
    place: Rc<Place>,
    done: bool,
}

/// Bytes that a member makes durable.
#[derive(Debug)]
pub(crate) struct Settling {
    gate: Rc<Gate>,
    bytes: u64,
}

impl Gate {
    pub(crate) fn new(depth_max: usize, settled_bytes: u64) -> Rc<Self> {
        Rc::new(Self {
            state: RefCell::default(),
            depth_max: depth_max.max(1),
            settled_bytes,
            changed: Notify::default(),
        })
    }

    /// A place at the end of the queue.
    pub(crate) fn enqueue(self: &Rc<Self>, sequence: u64, len: u64) -> Ticket {
        let place = Rc::new(Place {
            sequence,
            len,
            granted: Cell::default(),
            given_up: Cell::default(),
            refused: Cell::default(),
            waker: RefCell::new(Waker::noop().clone()),
        });
        let mut state = self.state.borrow_mut();
        state.queued_bytes += len;
        state.came_bytes += len;
        state.waiting.push_back(Rc::clone(&place));
        drop(state);
        self.dispatch();
        self.changed.all();
        Ticket { gate: Rc::clone(self), place, done: false }
    }

    pub(crate) fn open(&self) {
        self.state.borrow_mut().open = true;
        self.dispatch();
    }

    pub(crate) fn close(&self) {
        self.state.borrow_mut().open = false;
    }

    /// The member takes part no more, or does again.
    pub(crate) fn set_failed(&self, failed: bool) {
        let mut state = self.state.borrow_mut();
        state.failed = failed;
        if failed {
            state.open = false;
            for place in std::mem::take(&mut state.waiting) {
                place.refused.set(true);
                place.waker.borrow().wake_by_ref();
            }
            state.queued_bytes = 0;
        } else {
            state.abandoned = false;
        }
        drop(state);
        self.changed.all();
    }

    /// Whoever comes from here on finds that everything up to this request is there.
    pub(crate) fn begin_behind(&self, sequence: u64) {
        self.state.borrow_mut().dispatch = sequence;
    }

    /// Whether requests wait in the queue.
    pub(crate) fn has_queued(&self) -> bool {
        self.state.borrow().waiting.iter().any(|place| !place.given_up.get())
    }

    /// Bytes of the requests in the queue.
    pub(crate) fn queued_bytes(&self) -> u64 {
        self.state.borrow().queued_bytes
    }

    /// Bytes of all requests that ever came.
    pub(super) fn came_bytes(&self) -> u64 {
        self.state.borrow().came_bytes
    }

    /// Requests under way.
    pub(crate) fn under_way(&self) -> usize {
        self.state.borrow().under_way
    }

    /// Whether so much has ended that the member should make it durable, where it does not at the end of a turn.
    pub(super) fn is_settle_due(&self) -> bool {
        let state = self.state.borrow();
        state.settling_bytes == 0 && state.unsettled_bytes >= self.settled_bytes
    }

    /// The member is about to make durable what ended so far, until this is dropped.
    pub(crate) fn begin_settle(self: &Rc<Self>) -> Settling {
        let mut state = self.state.borrow_mut();
        let bytes = std::mem::take(&mut state.unsettled_bytes);
        state.settling_bytes += bytes;
        Settling { gate: Rc::clone(self), bytes }
    }

    /// Waits until none is under way.
    pub(crate) async fn drained(&self) {
        self.changed.until(|| (self.under_way() == 0).then_some(())).await;
    }

    /// The last of the requests before which none is left to come or to end; `None` where one was given up.
    pub(crate) fn ended_through(&self) -> Option<u64> {
        let state = self.state.borrow();
        let ended = state.numbered.first().map_or(state.dispatch, |first| first - 1);
        (!state.abandoned).then_some(ended)
    }

    fn dispatch(&self) {
        let mut state = self.state.borrow_mut();
        while state.open && state.under_way < self.depth_max && !state.has_much_unsettled(self.settled_bytes)
        {
            let Some(place) = state.waiting.pop_front() else { return };
            state.queued_bytes = state.queued_bytes.saturating_sub(place.len);
            if place.given_up.get() {
                continue;
            }
            state.under_way += 1;
            state.under_way_bytes += place.len;
            if place.sequence > 0 {
                state.dispatch = state.dispatch.max(place.sequence);
                state.numbered.insert(place.sequence);
            }
            place.granted.set(true);
            place.waker.borrow().wake_by_ref();
        }
    }
}

impl Drop for Settling {
    fn drop(&mut self) {
        self.gate.state.borrow_mut().settling_bytes -= self.bytes;
        self.gate.dispatch();
    }
}

impl State {
    fn has_much_unsettled(&self, settled_bytes: u64) -> bool {
        let not_durable = self.settling_bytes + self.unsettled_bytes + self.under_way_bytes;
        self.settling_bytes > 0 && not_durable >= settled_bytes.saturating_mul(2)
    }
}

impl Ticket {
    /// Waits for the turn of this request; false if the member fails.
    pub(crate) async fn turn(&self) -> bool {
        poll_fn(|context| {
            if self.place.granted.get() {
                return Poll::Ready(true);
            }
            if self.place.refused.get() || self.gate.state.borrow().failed {
                return Poll::Ready(false);
            }
            self.place.waker.borrow_mut().clone_from(context.waker());
            Poll::Pending
        })
        .await
    }

    /// The request has ended, one way or the other.
    pub(crate) fn done(mut self) {
        self.done = true;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.gate.state.borrow_mut();
        if self.place.granted.get() {
            state.under_way -= 1;
            state.under_way_bytes -= self.place.len;
            state.unsettled_bytes += self.place.len;
            state.numbered.remove(&self.place.sequence);
            state.abandoned |= !self.done;
        } else {
            self.place.given_up.set(true);
            // A member that lacks a write must not say that it has all.
            state.abandoned |= !state.failed && self.place.sequence > 0;
        }
        drop(state);
        self.gate.dispatch();
        self.gate.changed.all();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::Context;

    use proptest::prelude::*;

    use super::*;

    fn is_dispatched(ticket: &Ticket) -> Option<bool> {
        match pin!(ticket.turn()).as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(is_dispatched) => Some(is_dispatched),
            Poll::Pending => None,
        }
    }

    #[test]
    fn nobody_leaves_a_closed_gate_and_all_do_in_their_order_once_it_is_open() {
        let gate = Gate::new(2, u64::MAX);
        let tickets: Vec<Ticket> = (1..=3).map(|sequence| gate.enqueue(sequence, 100)).collect();
        assert!(tickets.iter().all(|ticket| is_dispatched(ticket).is_none()));
        assert_eq!((gate.queued_bytes(), gate.under_way(), gate.ended_through()), (300, 0, Some(0)));
        gate.open();
        assert_eq!(tickets.iter().map(is_dispatched).collect::<Vec<_>>(), [Some(true), Some(true), None]);
        assert_eq!((gate.queued_bytes(), gate.under_way(), gate.ended_through()), (100, 2, Some(0)));
    }

    #[test]
    fn what_ended_behind_one_that_is_under_way_is_not_named() {
        let gate = Gate::new(8, u64::MAX);
        gate.open();
        let mut tickets: Vec<Ticket> = (1..=4).map(|sequence| gate.enqueue(sequence, 1)).collect();
        tickets.pop().expect("four").done();
        tickets.remove(1).done();
        assert_eq!(gate.ended_through(), Some(0));
        tickets.remove(0).done();
        assert_eq!(gate.ended_through(), Some(2), "the third is under way");
        tickets.remove(0).done();
        assert_eq!(gate.ended_through(), Some(4));
    }

    #[test]
    fn a_member_that_makes_much_durable_is_not_given_much_more() {
        let gate = Gate::new(8, 100);
        gate.open();
        gate.enqueue(1, 60).done();
        assert!(!gate.is_settle_due());
        gate.enqueue(2, 60).done();
        assert!(gate.is_settle_due());
        let settling = gate.begin_settle();
        assert!(!gate.is_settle_due(), "it does so already");
        let tickets: Vec<Ticket> = (3..=5).map(|sequence| gate.enqueue(sequence, 60)).collect();
        assert_eq!(tickets.iter().map(is_dispatched).collect::<Vec<_>>(), [Some(true), Some(true), None]);
        drop(settling);
        assert_eq!(is_dispatched(&tickets[2]), Some(true));
    }

    #[test]
    fn one_that_is_given_up_under_way_leaves_nothing_known() {
        let gate = Gate::new(8, u64::MAX);
        gate.open();
        drop(gate.enqueue(1, 1));
        assert_eq!(gate.ended_through(), None);
        gate.set_failed(true);
        gate.set_failed(false);
        gate.begin_behind(7);
        assert_eq!(gate.ended_through(), Some(7), "it was made whole since");
    }

    #[test]
    fn who_waits_when_the_member_fails_is_told_though_it_takes_part_again_by_then() {
        let gate = Gate::new(1, u64::MAX);
        let waiting = gate.enqueue(1, 1);
        assert_eq!(is_dispatched(&waiting), None);
        gate.set_failed(true);
        gate.set_failed(false);
        gate.open();
        assert_eq!(is_dispatched(&waiting), Some(false));
        assert_eq!(is_dispatched(&gate.enqueue(2, 1)), Some(true));
    }

    /// What is done to a gate.
    #[derive(Debug, Clone)]
    enum Step {
        Enqueue {
            numbered: bool,
            len: u64,
        },
        Open,
        Close,
        /// One of those that were let out ends.
        End(prop::sample::Index),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (any::<bool>(), 1..99u64).prop_map(|(numbered, len)| Step::Enqueue { numbered, len }),
            1 => Just(Step::Open),
            1 => Just(Step::Close),
            3 => any::<prop::sample::Index>().prop_map(Step::End),
        ];
        prop::collection::vec(step, 0..80)
    }

    proptest! {
        #[test]
        fn the_gate_lets_out_in_order_no_more_than_it_may_and_knows_what_ended(
            steps in steps(), depth_max in 1..5usize,
        ) {
            let gate = Gate::new(depth_max, u64::MAX);
            let (mut waiting, mut out) = (VecDeque::new(), Vec::new());
            let (mut issued, mut is_open) = (0, false);
            for step in steps {
                match step {
                    Step::Enqueue { numbered, len } => {
                        issued += u64::from(numbered);
                        let sequence = if numbered { issued } else { 0 };
                        waiting.push_back((sequence, len, gate.enqueue(sequence, len)));
                    }
                    Step::Open => {
                        gate.open();
                        is_open = true;
                    }
                    Step::Close => {
                        gate.close();
                        is_open = false;
                    }
                    Step::End(which) if !out.is_empty() => {
                        let (_, ticket): (u64, Ticket) = out.remove(which.index(out.len()));
                        ticket.done();
                    }
                    Step::End(_) => {}
                }
                // By the model: from the front, as long as it is open and there is room.
                while is_open && out.len() < depth_max && !waiting.is_empty() {
                    let (sequence, _, ticket) = waiting.pop_front().expect("somebody waits");
                    prop_assert_eq!(is_dispatched(&ticket), Some(true));
                    out.push((sequence, ticket));
                }
                prop_assert!(waiting.iter().all(|(_, _, ticket)| is_dispatched(ticket).is_none()));
                prop_assert_eq!(gate.under_way(), out.len());
                prop_assert_eq!(gate.queued_bytes(), waiting.iter().map(|(_, len, _)| len).sum::<u64>());
                let first_waiting = waiting.iter().map(|(sequence, ..)| *sequence).find(|&number| number > 0);
                let dispatch = first_waiting.map_or(issued, |first| first - 1);
                let under_way = out.iter().map(|(sequence, _)| *sequence).filter(|&number| number > 0).min();
                prop_assert_eq!(gate.ended_through(), Some(under_way.map_or(dispatch, |first| first - 1)));
            }
        }
    }

    #[test]
    fn whoever_waits_for_the_end_of_all_is_told() {
        let gate = Gate::new(1, u64::MAX);
        gate.open();
        let ticket = gate.enqueue(1, 1);
        let mut drained: Pin<Box<dyn Future<Output = ()>>> = Box::pin(gate.drained());
        let mut context = Context::from_waker(Waker::noop());
        assert!(drained.as_mut().poll(&mut context).is_pending());
        ticket.done();
        assert!(drained.as_mut().poll(&mut context).is_ready());
    }
}
