//! Admission: whether a request may come now, or waits for others to leave room.
//!
//! 1. A request is admitted before anything is allocated for it, and released when the last byte of its reply
//!    has left.
//! 2. Every connection may have its own share in flight whatever the others do; what goes beyond comes out of
//!    what all share. Memory is bounded by the shared part and one share for each connection.
//! 3. A connection that is not admitted waits, and reads nothing meanwhile: the client's sends wait too.
//! 4. Who waits for shared bytes gets them in the order of arrival, one request at a time: a connection that has many
//!    requests, or small ones, does not pass one that has few, or a large one.
//! 5. Nobody waits for others for longer than [`Limits::room_wait_max_ns`]: then a request goes on in pieces, each of
//!    which fits what is its connection's own.
//! 6. Who holds shared bytes that another waited for in vain, and hardly moves, is ended; who moves is not.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use evenkeel_engine::env::Env;

use super::limits::{Limits, REQUEST_BYTES};
use crate::wait::{Notify, Raced, Signal, race};

/// The part of admission that all connections share.
#[derive(Debug, Default)]
pub(crate) struct SharedAdmission {
    shared_bytes: Cell<u64>,
    in_flight_bytes: Cell<u64>,
    in_flight_peak_bytes: Cell<u64>,
    /// The places of connections that wait for shared bytes, in the order of arrival.
    queue: RefCell<VecDeque<u64>>,
    next_place: Cell<u64>,
    released: Notify,
    /// How often a request waited for as long as one does, and got no room.
    failed_waits: Cell<u64>,
}

impl SharedAdmission {
    /// Bytes in flight now, and the most there ever were.
    pub(crate) fn in_flight_bytes(&self) -> (u64, u64) {
        (self.in_flight_bytes.get(), self.in_flight_peak_bytes.get())
    }
}

/// The admission of one connection's requests.
#[derive(Debug)]
pub(crate) struct Admission {
    shared: Rc<SharedAdmission>,
    limits: Limits,
    requests: Cell<u32>,
    bytes: Cell<u64>,
    /// The connection's reader waits for room here.
    room: Signal,
    /// Whoever waits for everything to be released.
    idle: Signal,
}

impl Admission {
    pub(crate) fn new(shared: Rc<SharedAdmission>, limits: Limits) -> Rc<Self> {
        Rc::new(Self {
            shared,
            limits,
            requests: Cell::new(0),
            bytes: Cell::new(0),
            room: Signal::default(),
            idle: Signal::default(),
        })
    }

    pub(crate) fn in_flight(&self) -> (u32, u64) {
        (self.requests.get(), self.bytes.get())
    }

    fn shared_part(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.limits.connection_own_bytes)
    }

    /// `requests` more with `bytes` of whoever has this place in the line, if there is room.
    fn try_admit(self: &Rc<Self>, requests: u32, bytes: u64, place: Option<u64>) -> Result<Ticket, Lacks> {
        let held = self.bytes.get();
        let wanted = held + bytes;
        if self.requests.get() + requests > self.limits.requests_in_flight_max
            || wanted > self.limits.connection_in_flight_max_bytes
        {
            return Err(Lacks::Own);
        }
        let more = self.shared_part(wanted) - self.shared_part(held);
        let shared = self.shared.shared_bytes.get() + more;
        if more > 0 {
            let is_first = self.shared.queue.borrow().front().is_none_or(|first| place == Some(*first));
            if !is_first || shared > self.limits.in_flight_max_bytes {
                return Err(Lacks::Shared);
            }
        }
        self.shared.shared_bytes.set(shared);
        let in_flight = self.shared.in_flight_bytes.get() + bytes;
        self.shared.in_flight_bytes.set(in_flight);
        self.shared.in_flight_peak_bytes.set(self.shared.in_flight_peak_bytes.get().max(in_flight));
        self.bytes.set(wanted);
        self.requests.set(self.requests.get() + requests);
        Ok(Ticket { admission: Some(Rc::clone(self)), requests, bytes })
    }

    /// Waits for room for one more request with `bytes`. `None` where it is to go on in pieces, if it `is_divisible`:
    /// it is larger than what there ever is, or others hold what it needs for too long.
    pub(crate) async fn admit(
        self: &Rc<Self>,
        env: &impl Env,
        bytes: u64,
        is_divisible: bool,
    ) -> Option<Ticket> {
        if !self.limits.has_room_for(bytes) {
            assert!(is_divisible, "what is not to be divided is within the limits");
            return None;
        }
        // Until this connection's own requests leave room: they will.
        let own = self.room.until(|| match self.try_admit(1, bytes, None) {
            Ok(ticket) => Some(Some(ticket)),
            Err(Lacks::Own) => None,
            Err(Lacks::Shared) => Some(None),
        });
        if let Some(ticket) = own.await {
            return Some(ticket);
        }
        let waiting = Waiting::new(&self.shared);
        let mut admitted = pin!(poll_fn(|context| match self.try_admit(1, bytes, Some(waiting.place)) {
            Ok(ticket) => Poll::Ready(ticket),
            Err(_) => {
                self.room.register(context);
                self.shared.released.register(context);
                Poll::Pending
            }
        }));
        loop {
            match race(admitted.as_mut(), env.sleep(self.limits.room_wait_max_ns)).await {
                Raced::First(ticket) => return Some(ticket),
                Raced::Second(()) => self.count_failed_wait(),
            }
            if is_divisible {
                return None;
            }
        }
    }

    /// A request has done without shared bytes for as long as one waits for them.
    pub(crate) fn count_failed_wait(&self) {
        self.shared.failed_waits.set(self.shared.failed_waits.get() + 1);
    }

    /// Waits until nothing of this connection is in flight, and admits a request that goes on in pieces.
    pub(crate) async fn admit_alone(self: &Rc<Self>) -> Ticket {
        self.until_idle().await;
        self.try_admit(1, REQUEST_BYTES, None).expect("an answer fits what is the connection's own")
    }

    /// Room for a piece of `bytes` out of what all share, if nobody waits for it.
    pub(crate) fn try_admit_piece(self: &Rc<Self>, bytes: u64) -> Option<Ticket> {
        self.try_admit(0, bytes, None).ok()
    }

    /// Waits for room for a piece of `bytes` out of what is the connection's own, once its other pieces have left.
    pub(crate) async fn admit_piece(self: &Rc<Self>, bytes: u64) -> Ticket {
        self.room
            .until(|| {
                let has_room = self.bytes.get() + bytes <= self.limits.connection_own_bytes;
                if has_room { self.try_admit(0, bytes, None).ok() } else { None }
            })
            .await
    }

    /// Does `work`, of which `moved_bytes` counts what is done, unless it hardly moves while others wait in vain for
    /// what this connection holds.
    pub(crate) async fn unless_stalled<T>(
        &self,
        env: &impl Env,
        moved_bytes: &Cell<u64>,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let mut work = pin!(work);
        loop {
            let (moved, waits) = (moved_bytes.get(), self.shared.failed_waits.get());
            if let Raced::First(done) = race(work.as_mut(), env.sleep(self.limits.stall_max_ns)).await {
                return Some(done);
            }
            let holds_shared = self.shared_part(self.bytes.get()) > 0;
            let hardly_moves = moved_bytes.get() - moved < self.limits.stall_min_bytes;
            if holds_shared && hardly_moves && self.shared.failed_waits.get() > waits {
                return None;
            }
        }
    }

    /// Waits until nothing is in flight.
    pub(crate) async fn until_idle(&self) {
        self.idle.until(|| (self.requests.get() == 0).then_some(())).await;
    }

    fn release(&self, requests: u32, bytes: u64) {
        let held = self.bytes.get();
        let less = self.shared_part(held) - self.shared_part(held - bytes);
        self.bytes.set(held - bytes);
        self.requests.set(self.requests.get() - requests);
        self.shared.in_flight_bytes.set(self.shared.in_flight_bytes.get() - bytes);
        self.room.raise();
        if less > 0 {
            self.shared.shared_bytes.set(self.shared.shared_bytes.get() - less);
            self.shared.released.all();
        }
        if self.requests.get() == 0 {
            self.idle.raise();
        }
    }
}

/// Which limits leave no room.
#[derive(Debug)]
enum Lacks {
    /// The connection's own limits.
    Own,
    /// What all share.
    Shared,
}

/// A connection's place in the line for shared bytes, for as long as it waits for them.
struct Waiting<'a> {
    shared: &'a SharedAdmission,
    place: u64,
}

impl<'a> Waiting<'a> {
    fn new(shared: &'a SharedAdmission) -> Self {
        let place = shared.next_place.get();
        shared.next_place.set(place + 1);
        shared.queue.borrow_mut().push_back(place);
        Self { shared, place }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.queue.borrow_mut().retain(|waiting| *waiting != self.place);
        // The next one may have room.
        self.shared.released.all();
    }
}

/// What requests have been admitted with; released when it is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    admission: Option<Rc<Admission>>,
    requests: u32,
    bytes: u64,
}

impl crate::nbd::send_queue::Merge for Ticket {
    fn merge(&mut self, mut other: Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        other.admission = None;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(admission) = self.admission.take() {
            admission.release(self.requests, self.bytes);
        }
    }
}
