//! Stripes over the members: what is read, written and put once more where each member holds a part.
//!
//! ```text
//!   change.rs      a change of a stripe: logged, then on each member in its turn
//!   read.rs        what a shard holds: from its member, or computed from others
//!   right_page.rs  which of what can be read is right, for parity and rebuilds
//!   replay.rs      what an opening does with the stripe log
//! ```
//!
//! 1. A change of a stripe is one write of the ring: the data shards and all parity shards, each on its member in its turn.
//!    It is in the stripe log before ([`super::stripe_log`]).
//! 2. Of two changes of the same rows the second begins when the first has ended. So members in sync hold one version of a row,
//!    or a change of it is under way, of which all new bytes are in memory.
//! 3. What a member holds that is not to be read is computed from K others of one version: what is under way is taken from
//!    memory. Where a change began meanwhile, it is read again.

mod change;
mod read;
mod replay;
mod right_page;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_erasure::Code;

use super::Inner;
use super::stripe_log::StripeLog;
use crate::device::{Drive, Extent};
use crate::env::Env;
use crate::error::DeviceError;
use crate::format::PAGE;
use crate::format::stripe_record::ShardRange;
use crate::format::stripes::Stripes;
use crate::layout::erasure::geometry::{Piece, Shard};
use crate::planted::{Bug, is_planted};
use crate::ring::EIO;
use crate::shared_step::SharedStep;

/// What changes of a checkpoint under way take of memory, at most.
const HELD_MAX_BYTES: u64 = 256 << 20;

/// What a ring with stripes has beside that of a mirror.
pub(super) struct Striping {
    pub(super) stripes: Stripes,
    pub(super) code: Code,
    pub(super) log: StripeLog,
    /// Room in the log comes back for all who wait for it.
    room: SharedStep<()>,
    /// Changes that not all members have.
    pending: RefCell<Vec<Rc<Pending>>>,
    /// Reads that compute what a member holds.
    computing: RefCell<Vec<Rc<Computing>>>,
}

/// A change under way: the new bytes of some shards.
struct Pending {
    stripe: u64,
    ranges: Vec<ShardRange>,
    /// Their bytes, one after the other.
    body: Vec<u8>,
}

impl Pending {
    /// Each range with its bytes.
    fn shards(&self) -> impl Iterator<Item = (&ShardRange, &[u8])> {
        let mut rest = &self.body[..];
        self.ranges.iter().map(move |range| {
            let (bytes, next) = rest.split_at(range.len as usize);
            rest = next;
            (range, bytes)
        })
    }
}

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

struct Computing {
    /// From the begin of the members' shards.
    rows: Extent,
    is_spoiled: Cell<bool>,
}

impl Striping {
    pub(super) fn new(stripes: Stripes) -> Self {
        let code = Code::new(stripes.data(), stripes.parity()).expect("a shape of stripes is one of a code");
        Self {
            stripes,
            code,
            log: StripeLog::default(),
            room: SharedStep::default(),
            pending: RefCell::default(),
            computing: RefCell::default(),
        }
    }

    /// Bytes of pages whose changes may be under way at once: one alone takes its own bytes and those of all parity shards,
    /// and once more as many, with a page, while they are logged.
    pub(super) fn deferred_max_bytes(&self) -> u64 {
        HELD_MAX_BYTES / (2 * (1 + self.stripes.parity() as u64) + 1)
    }

    /// The rows that a change of these bytes of one stripe is of.
    fn rows(&self, part: Extent) -> Extent {
        hull(&self.stripes.pieces(part).collect::<Vec<_>>())
    }

    /// The new bytes of a page of a shard, where a change of it is under way.
    fn pending_page(&self, shard: Shard, within: u64) -> Option<[u8; PAGE]> {
        if is_planted(Bug::StripesMixVersions) {
            return None;
        }
        let pending = self.pending.borrow();
        let shards = pending.iter().filter(|it| it.stripe == shard.stripe).flat_map(|it| it.shards());
        let mut found = shards.filter(|(range, _)| range.number == shard.number);
        let (range, bytes) =
            found.find(|(range, _)| (range.within..range.within + range.len).contains(&within))?;
        bytes[(within - range.within) as usize..][..PAGE].try_into().ok()
    }

    /// Ways to get a page: from its member, and from others with each choice of as many left out as may be lost beside it.
    pub(super) fn versions(&self) -> usize {
        let (others, out) = (self.stripes.members() - 1, self.stripes.parity() - 1);
        1 + (0..out).fold(1, |ways, step| ways * (others - step) / (step + 1))
    }

    /// The shards that the choice of this number leaves out, a bit each, of those beside `number`.
    fn left_out(&self, number: usize, choice: usize) -> u64 {
        let out = self.stripes.parity() as u32 - 1;
        let all = 0u64..1 << self.stripes.members();
        let mut choices = all.filter(|bits| bits.count_ones() == out && bits >> number & 1 == 0);
        choices.nth(choice).unwrap_or(0)
    }

    fn begin_pending(&self, pending: &Rc<Pending>, rows: Extent) {
        self.pending.borrow_mut().push(Rc::clone(pending));
        for computing in self.computing.borrow().iter().filter(|it| it.rows.overlaps(&rows)) {
            computing.is_spoiled.set(true);
        }
    }

    fn end_pending(&self, pending: &Rc<Pending>) {
        self.pending.borrow_mut().retain(|it| !Rc::ptr_eq(it, pending));
    }
}

/// The least rows, from the begin of the members' shards, that hold all of these.
fn hull(pieces: &[Piece]) -> Extent {
    let first = pieces.iter().map(|piece| piece.on_member.offset).min().unwrap_or(0);
    let end = pieces.iter().map(|piece| piece.on_member.end()).max().unwrap_or(0);
    Extent::new(first, end - first)
}

impl<E: Env, M: Drive> Inner<E, M> {
    /// As [`MirrorPages::member_device_bytes`](super::MirrorPages::member_device_bytes).
    pub(super) fn member_device_bytes(&self) -> u64 {
        self.member_bytes(self.ring.geometry.get().size_bytes).saturating_add(self.ring.data_offset())
    }

    /// As [`Ring::member_bytes`].
    pub(super) fn member_bytes(&self, size_bytes: u64) -> u64 {
        self.ring.member_bytes(size_bytes)
    }

    pub(super) fn encode(
        &self,
        striping: &Striping,
        data: &[Vec<u8>],
        len: u64,
    ) -> Result<Vec<Vec<u8>>, DeviceError> {
        let mut parity = vec![vec![0; len as usize]; striping.stripes.parity()];
        let inputs: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
        let encoded = striping.code.encode(&inputs, &mut outputs);
        encoded.map_err(|_| DeviceError { doing: "encode a stripe", errno: EIO })?;
        Ok(parity)
    }
}
