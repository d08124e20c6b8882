//! Who has how many bytes in flight.
//!
//! 1. A request is admitted before anything is allocated for it, and released when the last byte of its reply
//!    has left.
//! 2. Every connection may have its own share in flight whatever the others do; what goes beyond comes out of
//!    what all share. Memory is bounded by the shared part and one share for each connection. Only a request that is
//!    larger than the shared part goes beyond it, alone.
//! 3. A connection that is not admitted waits, and reads nothing meanwhile: the client's sends wait too.
//! 4. Who waits for shared bytes gets them in the order of coming, one request at a time: a connection that has many
//!    requests, or small ones, does not pass one that has few, or a large one.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use evenkeel_engine::env::Env;

use super::limits::Limits;
use super::wait::{Either, Notify, Signal, race};

/// What all connections share.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    shared_bytes: Cell<u64>,
    in_flight_bytes: Cell<u64>,
    in_flight_peak_bytes: Cell<u64>,
    /// The places of connections that wait for shared bytes, in the order of coming.
    line: RefCell<VecDeque<u64>>,
    next_place: Cell<u64>,
    released: Notify,
}

impl Accounts {
    /// Bytes in flight now, and the most there ever were.
    pub(crate) fn in_flight_bytes(&self) -> (u64, u64) {
        (self.in_flight_bytes.get(), self.in_flight_peak_bytes.get())
    }
}

/// One connection's part.
#[derive(Debug)]
pub(crate) struct Account {
    all: Rc<Accounts>,
    limits: Limits,
    requests: Cell<u32>,
    bytes: Cell<u64>,
    /// The connection's reader waits for room here.
    room: Signal,
    /// Whoever waits for everything to be released.
    idle: Signal,
}

impl Account {
    pub(crate) fn new(all: Rc<Accounts>, limits: Limits) -> Rc<Self> {
        Rc::new(Self {
            all,
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

    /// One more request with `bytes` of whoever has this place in the line, if there is room; whether the shared part
    /// is what lacks otherwise.
    fn try_admit(self: &Rc<Self>, bytes: u64, place: Option<u64>) -> Result<Ticket, bool> {
        let held = self.bytes.get();
        let wanted = held + bytes;
        if self.requests.get() >= self.limits.requests_in_flight_max
            || wanted > self.limits.connection_in_flight_max_bytes
        {
            return Err(false);
        }
        let more = self.shared_part(wanted) - self.shared_part(held);
        let shared = self.all.shared_bytes.get() + more;
        if more > 0 {
            let is_first = self.all.line.borrow().front().is_none_or(|first| place == Some(*first));
            let has_room = shared <= self.limits.in_flight_max_bytes || self.all.shared_bytes.get() == 0;
            if !is_first || !has_room {
                return Err(true);
            }
        }
        self.all.shared_bytes.set(shared);
        let in_flight = self.all.in_flight_bytes.get() + bytes;
        self.all.in_flight_bytes.set(in_flight);
        self.all.in_flight_peak_bytes.set(self.all.in_flight_peak_bytes.get().max(in_flight));
        self.bytes.set(wanted);
        self.requests.set(self.requests.get() + 1);
        Ok(Ticket { account: Some(Rc::clone(self)), requests: 1, bytes })
    }

    /// Waits for room for one more request with `bytes`, which are no more than one request may have.
    pub(crate) async fn admit(self: &Rc<Self>, bytes: u64) -> Ticket {
        let mut waiting = Waiting { all: &self.all, place: None };
        poll_fn(|context| match self.try_admit(bytes, waiting.place) {
            Ok(ticket) => Poll::Ready(ticket),
            Err(lacks_shared) => {
                self.room.register(context);
                if lacks_shared {
                    self.all.released.register(context);
                }
                waiting.queue(lacks_shared);
                Poll::Pending
            }
        })
        .await
    }

    /// Does `work`, unless it makes no progress while others wait for what this connection holds.
    pub(crate) async fn unless_stalled<T>(&self, env: &impl Env, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        loop {
            match race(work.as_mut(), env.sleep(self.limits.stall_max_ns)).await {
                Either::First(done) => return Some(done),
                Either::Second(()) => {
                    let holds_shared = self.shared_part(self.bytes.get()) > 0;
                    if holds_shared && !self.all.line.borrow().is_empty() {
                        return None;
                    }
                }
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
        self.all.in_flight_bytes.set(self.all.in_flight_bytes.get() - bytes);
        self.room.raise();
        if less > 0 {
            self.all.shared_bytes.set(self.all.shared_bytes.get() - less);
            self.all.released.all();
        }
        if self.requests.get() == 0 {
            self.idle.raise();
        }
    }
}

/// A connection's place in the line for shared bytes, for as long as it waits for them.
struct Waiting<'a> {
    all: &'a Accounts,
    place: Option<u64>,
}

impl Waiting<'_> {
    fn queue(&mut self, waits: bool) {
        match (self.place, waits) {
            (None, true) => {
                let place = self.all.next_place.get();
                self.all.next_place.set(place + 1);
                self.all.line.borrow_mut().push_back(place);
                self.place = Some(place);
            }
            (Some(place), false) => {
                self.all.line.borrow_mut().retain(|waiting| *waiting != place);
                self.place = None;
                // The next one may have room.
                self.all.released.all();
            }
            _ => {}
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.queue(false);
    }
}

/// What requests have been admitted with; released when it is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    account: Option<Rc<Account>>,
    requests: u32,
    bytes: u64,
}

impl super::outbox::Merge for Ticket {
    fn merge(&mut self, mut other: Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        other.account = None;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(account) = self.account.take() {
            account.release(self.requests, self.bytes);
        }
    }
}
