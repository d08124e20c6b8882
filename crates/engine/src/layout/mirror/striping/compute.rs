//! What a shard holds, from K others of one version.
//!
//! 1. What is under way is taken from memory, as it was when the computing began. Where a change of the rows begins meanwhile,
//!    they are computed again.
//! 2. K are asked at once, first those that only read. Whoever cannot answer, or is to write before its turn to be read comes,
//!    is replaced by another one.

use std::cell::{Cell, RefCell};

use super::super::Inner;
use super::Striping;
use super::pending::Current;
use crate::device::{Drive, Extent};
use crate::env::Env;
use crate::error::DeviceError;
use crate::format::{PAGE, PAGE_BYTES};
use crate::join;
use crate::layout::erasure::geometry::Shard;
use crate::planted::{Bug, is_planted};
use crate::ring::{EIO, Urgency};

/// Rows of a shard that are computed together: what K others are read for, and held until then.
const RUN_MAX_BYTES: u64 = 128 << 10;

/// Why a shard is computed: who is asked, and when.
#[derive(Clone, Copy)]
pub(super) enum Reason {
    /// Its member has its turn: for no longer than that.
    InTurn,
    /// Its member cannot be read.
    Lacking,
    /// To see it as others have it, those last that are left out, a bit each: each of them when it is in nobody's way.
    Version(u64),
}

/// Rows of a stripe that are computed.
pub(super) struct Computed<'a> {
    pub(super) stripe: u64,
    /// From the begin of the members' shards; whole pages.
    pub(super) rows: Extent,
    pub(super) reason: Reason,
    pub(super) urgency: Urgency,
    /// Shards that are not asked, a bit each.
    pub(super) around: u64,
    /// Which shards, by number, and where their bytes go.
    pub(super) wanted: &'a mut [(usize, &'a mut [u8])],
}

impl Computed<'_> {
    /// Whether these rows can be: others are read by whole pages.
    pub(super) fn is_whole(rows: Extent) -> bool {
        whole_pages(rows) == rows
    }
}

/// The pages that hold these rows.
fn whole_pages(rows: Extent) -> Extent {
    let offset = rows.offset / PAGE_BYTES * PAGE_BYTES;
    Extent::new(offset, rows.end().next_multiple_of(PAGE_BYTES) - offset)
}

impl<E: Env, M: Drive> Inner<E, M> {
    /// Fills `into` with some rows of a shard as others have them, without its own member.
    pub(super) async fn compute_shard(
        &self,
        striping: &Striping,
        shard: Shard,
        rows: Extent,
        why: (Reason, Urgency),
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        let whole = whole_pages(rows);
        if whole == rows {
            return self.compute_pages(striping, shard, rows, why, into).await;
        }
        let mut pages = vec![0; whole.len as usize];
        self.compute_pages(striping, shard, whole, why, &mut pages).await?;
        into.copy_from_slice(&pages[(rows.offset - whole.offset) as usize..][..rows.len as usize]);
        Ok(())
    }

    /// As [`Self::compute_shard`], of whole pages: many together, and each alone where a change begins meanwhile, or where
    /// one of them cannot be read somewhere.
    async fn compute_pages(
        &self,
        striping: &Striping,
        shard: Shard,
        rows: Extent,
        (reason, urgency): (Reason, Urgency),
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        let compute = async |rows: Extent, into: &mut [u8]| {
            let mut wanted = [(shard.number, into)];
            let around = 1 << shard.number;
            let rows = Computed { stripe: shard.stripe, rows, reason, urgency, around, wanted: &mut wanted };
            self.compute(striping, rows).await
        };
        let runs = into.chunks_mut(RUN_MAX_BYTES as usize);
        for (into, offset) in runs.zip((rows.offset..).step_by(RUN_MAX_BYTES as usize)) {
            let is_one = into.len() == PAGE;
            if !is_one && let Ok(true) = compute(Extent::new(offset, into.len() as u64), into).await {
                continue;
            }
            for (page, offset) in into.chunks_mut(PAGE).zip((offset..).step_by(PAGE)) {
                while !compute(Extent::new(offset, PAGE_BYTES), page).await? {}
            }
        }
        Ok(())
    }

    /// Fills what is wanted of these rows from K shards; false where a change of them began meanwhile: they may be of two
    /// versions.
    pub(super) async fn compute(&self, striping: &Striping, it: Computed<'_>) -> Result<bool, DeviceError> {
        let computing = striping.begin_computing(it.stripe, it.rows);
        let present = Asking::new(self, striping, &it).all().await?;
        let present: Vec<(usize, &[u8])> =
            present.iter().map(|(number, bytes)| (*number, &bytes[..])).collect();
        let mut missing: Vec<(usize, &mut [u8])> = Vec::with_capacity(it.wanted.len());
        for (number, into) in it.wanted {
            match present.iter().find(|(there, _)| there == number) {
                Some((_, bytes)) => into.copy_from_slice(bytes),
                None => missing.push((*number, into)),
            }
        }
        let reconstructed = striping.code.reconstruct(&present, &mut missing);
        reconstructed.map_err(|_| DeviceError { doing: "compute what a member holds", errno: EIO })?;
        Ok(!computing.is_spoiled() || is_planted(Bug::StripesMixVersions))
    }
}

/// K shards that are asked for some rows.
struct Asking<'a, E: Env, M: Drive> {
    inner: &'a Inner<E, M>,
    striping: &'a Striping,
    stripe: u64,
    rows: Extent,
    reason: Reason,
    urgency: Urgency,
    wanted: Vec<usize>,
    /// Those that may be asked.
    others: RefCell<Vec<usize>>,
    /// As it was in the beginning: a change that ends while others are read is on its members by then, and not on those read
    /// before.
    changes: Vec<Current>,
    present: RefCell<Vec<(usize, Vec<u8>)>>,
    failure: Cell<DeviceError>,
}

impl<'a, E: Env, M: Drive> Asking<'a, E, M> {
    fn new(inner: &'a Inner<E, M>, striping: &'a Striping, it: &Computed<'_>) -> Self {
        let Computed { stripe, rows, reason, urgency, around, .. } = *it;
        let stripes = striping.stripes;
        let mut others: Vec<usize> =
            (0..stripes.members()).filter(|number| around >> number & 1 == 0).collect();
        // Where a shard cannot be read, none that is left out stands in for it: a scrub is to see that.
        let is_asked = |&number: &usize| left_out(reason) >> number & 1 == 0;
        let is_there =
            |&&number: &&usize| inner.ring.members[stripes.place_of(Shard { stripe, number })].is_in_sync();
        let asked_there = others.iter().filter(is_there).filter(|number| is_asked(number)).count();
        if asked_there >= stripes.data() {
            others.retain(is_asked);
        }
        Self {
            inner,
            striping,
            stripe,
            rows,
            reason,
            urgency,
            wanted: it.wanted.iter().map(|(number, _)| *number).collect(),
            others: RefCell::new(others),
            changes: striping.changes_of(stripe, rows),
            present: RefCell::default(),
            failure: Cell::new(DeviceError { doing: "compute what a member holds", errno: EIO }),
        }
    }

    fn place_of(&self, number: usize) -> usize {
        self.striping.stripes.place_of(Shard { stripe: self.stripe, number })
    }

    /// Whether a change has all of its rows.
    fn in_memory(&self, number: usize) -> bool {
        self.changes.iter().map(|change| change.bytes_of(number)).sum::<u64>() == self.rows.len
    }

    fn is_idle(&self, number: usize) -> bool {
        self.inner.is_idle(self.place_of(number))
    }

    /// The least is asked first: what is in memory, then who is not busy, then what is wanted anyway, then data.
    fn rank(&self, number: usize) -> impl Ord + use<E, M> {
        let busyness = self.inner.ring.busyness(&self.inner.ring.members[self.place_of(number)]);
        let is_left_out = left_out(self.reason) >> number & 1;
        let is_wanted = self.wanted.contains(&number);
        (is_left_out, !self.in_memory(number), busyness.0, !is_wanted, busyness, number)
    }

    /// The rows of K shards.
    async fn all(self) -> Result<Vec<(usize, Vec<u8>)>, DeviceError> {
        // Who is next is asked each time: whose turn it is changes meanwhile.
        loop {
            let lacking = self.striping.stripes.data() - self.present.borrow().len();
            if lacking == 0 {
                return Ok(self.present.into_inner());
            }
            if self.others.borrow().len() < lacking {
                return Err(self.failure.get());
            }
            self.others.borrow_mut().sort_by_cached_key(|&number| self.rank(number));
            let chosen: Vec<usize> = self.others.borrow_mut().drain(..lacking).collect();
            let is_busy = |&number: &usize| !self.in_memory(number) && !self.is_idle(number);
            if chosen.iter().any(is_busy) && self.is_over() {
                return Err(self.failure.get());
            }
            join::all(chosen.into_iter().map(|number| self.ask(number))).await;
        }
    }

    /// Whether those around whose turn this is done only read again.
    fn is_over(&self) -> bool {
        matches!(self.reason, Reason::InTurn) && self.wanted.iter().all(|&number| self.is_idle(number))
    }

    async fn ask(&self, number: usize) {
        let (place, mut bytes) = (self.place_of(number), Vec::new());
        if self.in_memory(number) {
            bytes.resize(self.rows.len as usize, 0);
        } else {
            let was_idle = self.is_idle(number);
            let _admitted = match self.reason {
                Reason::Version(_) => self.inner.admit_idle(self.striping, place, self.urgency).await,
                Reason::InTurn | Reason::Lacking => self.inner.ring.admit(self.urgency, place).await,
            };
            // Its turn has begun meanwhile: another is asked, where one only reads.
            let is_late = was_idle && !self.is_idle(number);
            let is_other_idle = || self.others.borrow().iter().any(|&other| self.is_idle(other));
            if is_late && (is_other_idle() || self.is_over()) {
                return self.others.borrow_mut().push(number);
            }
            bytes.resize(self.rows.len as usize, 0);
            if let Err(error) = self.inner.ring.read_from(place, self.rows.offset, &mut bytes).await {
                return self.failure.set(error);
            }
        }
        self.changes.iter().for_each(|change| change.lay_over(number, &mut bytes));
        self.present.borrow_mut().push((number, bytes));
    }
}

fn left_out(reason: Reason) -> u64 {
    match reason {
        Reason::Version(left_out) => left_out,
        Reason::InTurn | Reason::Lacking => 0,
    }
}
