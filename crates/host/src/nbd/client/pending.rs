//! Requests that are not answered yet, each in a slot that its cookie names.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use evenkeel_engine::device::Extent;

use super::{ClientError, Inner};
use crate::net::ByteStream;

/// What a request's reply is to carry, and what of it has come.
pub(super) enum Expected {
    Nothing,
    Data { bytes: Vec<u8>, covered: Covered },
    Status { context: u32, extents: Vec<(u64, u32)> },
}

impl Expected {
    pub(super) fn data(len: usize) -> Self {
        Self::Data { bytes: vec![0; len], covered: Covered::default() }
    }
}

/// What a reply carried.
pub(super) enum Answer {
    Done,
    Data(Vec<u8>),
    Status(Vec<(u64, u32)>),
}

/// Which bytes of a read have come: ranges in order, apart from each other.
#[derive(Debug, Default)]
pub(super) struct Covered(Vec<(u64, u64)>);

/// Pieces that a read's reply may be in, as far apart as the server likes.
const PIECES_MAX: usize = 1024;

impl Covered {
    /// Adds `start..end`; false where a part of it has come before, or there are too many pieces.
    pub(super) fn add(&mut self, start: u64, end: u64) -> bool {
        let at = self.0.partition_point(|&(_, before)| before < start);
        let joins_before = self.0.get(at).is_some_and(|&(_, before)| before == start);
        let next = self.0.get(at + usize::from(joins_before)).copied();
        if next.is_some_and(|(first, _)| first < end) || self.0.len() >= PIECES_MAX {
            return false;
        }
        let joins_after = next.is_some_and(|(first, _)| first == end);
        match (joins_before, joins_after) {
            (true, true) => {
                self.0[at].1 = self.0.remove(at + 1).1;
            }
            (true, false) => self.0[at].1 = end,
            (false, true) => self.0[at].0 = start,
            (false, false) => self.0.insert(at, (start, end)),
        }
        true
    }

    /// Whether all of `len` bytes have come.
    pub(super) fn is_all(&self, len: u64) -> bool {
        len == 0 || self.0 == [(0, len)]
    }
}

/// A request under way.
pub(super) struct Entry {
    pub(super) extent: Extent,
    pub(super) expected: Expected,
    /// What an earlier chunk of the reply said.
    pub(super) error: Option<ClientError>,
    waker: Option<Waker>,
    outcome: Option<Result<Answer, ClientError>>,
    is_abandoned: bool,
    /// How often it was found unanswered.
    looks: u32,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    entry: Option<Entry>,
}

/// All of them.
#[derive(Default)]
pub(super) struct Pending {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Pending {
    /// A new one; answers its cookie.
    pub(super) fn add(&mut self, extent: Extent, expected: Expected) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.entry = Some(Entry {
            extent,
            expected,
            error: None,
            waker: None,
            outcome: None,
            is_abandoned: false,
            looks: 0,
        });
        u64::from(slot.generation) << 32 | u64::from(index)
    }

    fn slot(&mut self, cookie: u64) -> Option<&mut Slot> {
        let slot = self.slots.get_mut((cookie & u64::from(u32::MAX)) as usize)?;
        (u64::from(slot.generation) == cookie >> 32).then_some(slot)
    }

    /// The request that the server means, if it is one that is not answered yet.
    pub(super) fn get(&mut self, cookie: u64) -> Option<&mut Entry> {
        self.slot(cookie)?.entry.as_mut().filter(|entry| entry.outcome.is_none())
    }

    /// The request is answered.
    pub(super) fn complete(&mut self, cookie: u64, outcome: Result<Answer, ClientError>) {
        let Some(entry) = self.get(cookie) else {
            return;
        };
        entry.outcome = Some(outcome);
        if let Some(waker) = entry.waker.take() {
            waker.wake();
        }
        if entry.is_abandoned {
            self.remove(cookie);
        }
    }

    /// Looks at all that are not answered; the most looks that one of them has had.
    pub(super) fn look(&mut self) -> u32 {
        let entries = self.slots.iter_mut().filter_map(|slot| slot.entry.as_mut());
        let unanswered = entries.filter(|entry| entry.outcome.is_none());
        unanswered
            .map(|entry| {
                entry.looks += 1;
                entry.looks
            })
            .max()
            .unwrap_or(0)
    }

    /// Every request is answered with `error`.
    pub(super) fn fail_all(&mut self, error: &ClientError) {
        for index in 0..self.slots.len() {
            let cookie = u64::from(self.slots[index].generation) << 32 | index as u64;
            self.complete(cookie, Err(error.clone()));
        }
    }

    fn remove(&mut self, cookie: u64) -> Option<Entry> {
        let entry = self.slot(cookie)?.entry.take();
        self.free.push((cookie & u64::from(u32::MAX)) as u32);
        entry
    }

    fn poll(&mut self, cookie: u64, context: &mut Context<'_>) -> Poll<Result<Answer, ClientError>> {
        let slot = self.slot(cookie).expect("a reply has its slot until it is taken");
        let entry = slot.entry.as_mut().expect("a reply is taken once");
        match entry.outcome.take() {
            Some(outcome) => {
                self.remove(cookie);
                Poll::Ready(outcome)
            }
            None => {
                entry.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    fn abandon(&mut self, cookie: u64) {
        if let Some(entry) = self.slot(cookie).and_then(|slot| slot.entry.as_mut()) {
            entry.is_abandoned = true;
            if entry.outcome.is_some() {
                self.remove(cookie);
            }
        }
    }
}

enum State<S: ByteStream> {
    Waiting(Rc<Inner<S>>, u64),
    Failed(ClientError),
    Taken,
}

/// The answer to a request, to be awaited.
pub(super) struct Reply<S: ByteStream>(State<S>);

impl<S: ByteStream> Reply<S> {
    pub(super) fn failed(error: ClientError) -> Self {
        Self(State::Failed(error))
    }

    pub(super) fn to(inner: Rc<Inner<S>>, cookie: u64) -> Self {
        Self(State::Waiting(inner, cookie))
    }
}

impl<S: ByteStream> Unpin for Reply<S> {}

impl<S: ByteStream> Future for Reply<S> {
    type Output = Result<Answer, ClientError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let polled = match &self.0 {
            State::Waiting(inner, cookie) => inner.pending.borrow_mut().poll(*cookie, context),
            State::Failed(error) => Poll::Ready(Err(error.clone())),
            State::Taken => panic!("a reply is awaited once"),
        };
        if polled.is_ready() {
            self.0 = State::Taken;
        }
        polled
    }
}

impl<S: ByteStream> Drop for Reply<S> {
    fn drop(&mut self) {
        if let State::Waiting(inner, cookie) = &self.0 {
            inner.pending.borrow_mut().abandon(*cookie);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_that_do_not_overlap_cover_what_they_hold(
            cuts in proptest::collection::btree_set(1..200u64, 0..20),
            seed in any::<u64>(),
        ) {
            let mut bounds: Vec<u64> = std::iter::once(0).chain(cuts).chain([200]).collect();
            bounds.dedup();
            let mut pieces: Vec<_> = bounds.windows(2).map(|pair| (pair[0], pair[1])).collect();
            evenkeel_sim::random::Random::new(seed).shuffle(&mut pieces);
            let mut covered = Covered::default();
            for (number, &(start, end)) in pieces.iter().enumerate() {
                prop_assert!(!covered.is_all(200));
                prop_assert!(covered.add(start, end));
                let (earlier_start, earlier_end) = pieces[seed as usize % (number + 1)];
                prop_assert!(!covered.add(earlier_start, earlier_end));
            }
            prop_assert!(covered.is_all(200));
        }
    }
}
