//! Changes under way, and reads that compute what a member holds: a change that begins meanwhile spoils them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use super::Striping;
use crate::device::Extent;
use crate::format::stripe_record::ShardRange;
use crate::planted::{Bug, is_planted};

/// What is under way, by stripes.
#[derive(Debug)]
pub(super) struct ByStripe<T>(RefCell<BTreeMap<u64, Vec<Rc<T>>>>);

impl<T> Default for ByStripe<T> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<T> ByStripe<T> {
    fn add(&self, stripe: u64, it: &Rc<T>) {
        self.0.borrow_mut().entry(stripe).or_default().push(Rc::clone(it));
    }

    fn remove(&self, stripe: u64, it: &Rc<T>) {
        let mut all = self.0.borrow_mut();
        let Some(of_stripe) = all.get_mut(&stripe) else { return };
        of_stripe.retain(|other| !Rc::ptr_eq(other, it));
        if of_stripe.is_empty() {
            all.remove(&stripe);
        }
    }

    fn of(&self, stripe: u64) -> Vec<Rc<T>> {
        self.0.borrow().get(&stripe).cloned().unwrap_or_default()
    }
}

/// A change under way: the new bytes of some shards.
pub(super) struct Pending {
    pub(super) stripe: u64,
    pub(super) ranges: Vec<ShardRange>,
    /// Their bytes, one after the other.
    pub(super) body: Vec<u8>,
}

impl Pending {
    /// Each range with its bytes.
    pub(super) fn shards(&self) -> impl Iterator<Item = (&ShardRange, &[u8])> {
        let mut rest = &self.body[..];
        self.ranges.iter().map(move |range| {
            let (bytes, next) = rest.split_at(range.len as usize);
            rest = next;
            (range, bytes)
        })
    }
}

/// What a change under way has of the rows that are computed.
pub(super) struct Current {
    change: Rc<Pending>,
    /// The rows, from the begin of the shard.
    within: Extent,
}

impl Current {
    /// The parts of the rows of a shard that it changes, and their new bytes.
    fn parts(&self, number: usize) -> impl Iterator<Item = (Extent, &[u8])> {
        let ranges = self.change.shards().filter(move |(range, _)| range.number == number);
        ranges.filter_map(|(range, bytes)| {
            let part = Extent::new(range.within, range.len).intersection(&self.within)?;
            Some((part, &bytes[(part.offset - range.within) as usize..][..part.len as usize]))
        })
    }

    /// How many bytes of the rows of a shard it changes.
    pub(super) fn bytes_of(&self, number: usize) -> u64 {
        self.parts(number).map(|(part, _)| part.len).sum()
    }

    /// Puts them over what its member holds of the rows.
    pub(super) fn lay_over(&self, number: usize, rows: &mut [u8]) {
        for (part, bytes) in self.parts(number) {
            rows[(part.offset - self.within.offset) as usize..][..bytes.len()].copy_from_slice(bytes);
        }
    }
}

/// Rows that are computed.
pub(super) struct Computing {
    stripe: u64,
    /// From the begin of the members' shards.
    rows: Extent,
    is_spoiled: Cell<bool>,
}

/// A read that computes rows, until this is dropped.
pub(super) struct BegunComputing<'a> {
    striping: &'a Striping,
    computing: Rc<Computing>,
}

impl BegunComputing<'_> {
    /// Whether a change of the rows began meanwhile.
    pub(super) fn is_spoiled(&self) -> bool {
        self.computing.is_spoiled.get()
    }
}

impl Drop for BegunComputing<'_> {
    fn drop(&mut self) {
        self.striping.computing.remove(self.computing.stripe, &self.computing);
    }
}

impl Striping {
    /// The changes under way of these rows of a stripe. No two of them are of the same rows.
    pub(super) fn changes_of(&self, stripe: u64, rows: Extent) -> Vec<Current> {
        if is_planted(Bug::StripesMixVersions) {
            return Vec::new();
        }
        let within = Extent::new(rows.offset - stripe * self.stripes.shard_bytes(), rows.len);
        self.pending.of(stripe).into_iter().map(|change| Current { change, within }).collect()
    }

    pub(super) fn begin_computing(&self, stripe: u64, rows: Extent) -> BegunComputing<'_> {
        let computing = Rc::new(Computing { stripe, rows, is_spoiled: Cell::default() });
        self.computing.add(stripe, &computing);
        BegunComputing { striping: self, computing }
    }

    /// Changes these rows from now on.
    pub(super) fn begin_pending(&self, pending: &Rc<Pending>, rows: &[Extent]) {
        self.pending.add(pending.stripe, pending);
        let is_of_them = |it: &&Rc<Computing>| rows.iter().any(|rows| it.rows.overlaps(rows));
        for computing in self.computing.of(pending.stripe).iter().filter(is_of_them) {
            computing.is_spoiled.set(true);
        }
    }

    pub(super) fn end_pending(&self, pending: &Rc<Pending>) {
        self.pending.remove(pending.stripe, pending);
    }
}
