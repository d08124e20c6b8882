//! Stripes over the members: what is read, written and put once more where each member holds a part.
//!
//! ```text
//!   row_write.rs   writes as changes: those of one stripe are one
//!   change.rs      a change of a stripe: logged, then on each member in its turn
//!   pending.rs     changes under way, and reads that a change may spoil
//!   rows.rs        what a change does not write of its rows
//!   member_rows.rs what a member that is made whole is to hold of rows
//!   span.rs        pages of data shards that are read together
//!   read.rs        what shards hold: from their members, or computed
//!   compute.rs     what a shard holds, from K others
//!   right_page.rs  which of what can be read is right, for parity and rebuilds
//!   one_version.rs whether members hold one version of a row that is known in part
//!   replay.rs      what an opening does with the stripe log
//!   live_records.rs what another log device is given of it
//! ```
//!
//! 1. A change of a stripe is one write of the ring: the data shards and all parity shards, each on its member in its turn.
//!    It is in the stripe log before ([`super::stripe_log`]).
//! 2. Of two changes of the same rows the second begins when the first has ended. So members in sync hold one version of a row,
//!    or a change of it is under way, of which all new bytes are in memory.
//! 3. What a member holds that is not to be read is computed from K others of one version: what is under way is taken from
//!    memory. Where a change began meanwhile, it is read again.

mod change;
mod compute;
mod live_records;
mod member_rows;
mod one_version;
mod pending;
mod read;
mod replay;
mod right_page;
mod row_write;
mod rows;
mod span;

use std::cell::Cell;

use evenkeel_erasure::Code;

pub(super) use self::live_records::LoggedStripes;
use self::pending::{ByStripe, Computing, Pending};
use self::row_write::RowWrite;
pub(super) use self::rows::SPAN_MAX_BYTES;
use super::Inner;
use super::stripe_log::StripeLog;
use crate::byte_budget::ByteBudget;
use crate::device::Drive;
use crate::env::Env;
use crate::error::DeviceError;
use crate::format::stripes::Stripes;
use crate::notify::Notify;
use crate::ring::EIO;
use crate::shared_step::SharedStep;

/// What changes of a checkpoint under way take of memory, at most: at 4+2 as many as two members at a time take home in two
/// rotations of turns, at 10 MB/s.
const HELD_MAX_BYTES: u64 = 512 << 20;

/// What is read at once for changes, in spans: far more than the members read at once.
const CHANGE_SPANS_MAX_BYTES: u64 = 64 << 20;

/// The same for rebuilds: what two members lack of some stripes of 28 data shards.
const COPY_SPANS_MAX_BYTES: u64 = 16 << 20;

/// What a ring with stripes has beside that of a mirror.
pub(super) struct Striping {
    pub(super) stripes: Stripes,
    pub(super) code: Code,
    pub(super) log: StripeLog,
    /// Room in the log comes back for all who wait for it.
    room: SharedStep<()>,
    /// Changes that not all members have.
    pending: ByStripe<Pending>,
    /// Reads that compute what a member holds.
    computing: ByStripe<Computing>,
    /// Changes that come for the members before long: what they lack is read now, or they are logged.
    coming: Cell<usize>,
    /// Memory for spans that are read for changes,
    change_spans: ByteBudget,
    /// and for rebuilds, which do not wait behind all that goes home.
    copy_spans: ByteBudget,
}

/// A change comes for the members before long, until this is dropped.
struct Coming<'a> {
    changes: &'a Cell<usize>,
    ring_changed: &'a Notify,
}

impl Drop for Coming<'_> {
    fn drop(&mut self) {
        self.changes.set(self.changes.get() - 1);
        if self.changes.get() == 0 {
            self.ring_changed.all();
        }
    }
}

impl Striping {
    pub(super) fn new(stripes: Stripes) -> Self {
        let code = Code::new(stripes.data(), stripes.parity()).expect("a shape of stripes is one of a code");
        Self {
            stripes,
            code,
            log: StripeLog::default(),
            room: SharedStep::default(),
            pending: ByStripe::default(),
            computing: ByStripe::default(),
            coming: Cell::default(),
            change_spans: ByteBudget::of(CHANGE_SPANS_MAX_BYTES),
            copy_spans: ByteBudget::of(COPY_SPANS_MAX_BYTES),
        }
    }

    /// Whether changes come for the members before long: a turn that is not too long waits for them.
    pub(super) fn has_coming(&self) -> bool {
        self.coming.get() > 0
    }

    /// Bytes of pages whose changes may be under way at once: one alone takes its own bytes and those of all parity shards,
    /// and once more as many, with a page, while they are logged.
    pub(super) fn deferred_max_bytes(&self) -> u64 {
        HELD_MAX_BYTES / (2 * (1 + self.stripes.parity() as u64) + 1)
    }

    /// Ways to get a page: from its member, and from others with each choice of as many left out as may be lost beside it, but no more
    /// than [`VERSIONS_MAX`].
    pub(super) fn versions(&self) -> usize {
        let (others, out) = (self.stripes.members() - 1, self.stripes.parity() - 1);
        (1 + choices(others, out)).min(VERSIONS_MAX)
    }

    /// The shards that the choice of this number leaves out, a bit each, of those beside `number`.
    fn left_out(&self, number: usize, choice: usize) -> u64 {
        left_out(self.stripes.members(), self.stripes.parity() - 1, number, choice)
    }
}

/// Ways to get a page that are tried, of the thousands that a wide stripe with much parity has: each is read and computed anew.
const VERSIONS_MAX: usize = 512;

/// In how many ways so many of `of` can be chosen.
fn choices(of: usize, count: usize) -> usize {
    if count > of { 0 } else { (0..count).fold(1, |ways, step| ways * (of - step) / (step + 1)) }
}

/// The choice of this number of `out` of so many members without `number`, a bit each: choices are in the order of their bits. Knuth,
/// The Art of Computer Programming 4A, 7.2.1.3, combinadics.
fn left_out(members: usize, out: usize, number: usize, choice: usize) -> u64 {
    let (mut left, mut bits) = (choice, 0);
    for taken in (1..=out).rev() {
        let place = (taken - 1..members - 1).rev().find(|&place| choices(place, taken) <= left);
        let Some(place) = place else { return 0 };
        left -= choices(place, taken);
        bits |= 1 << (place + usize::from(place >= number));
    }
    bits
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

    /// A change comes for the members as soon as this has ended: it waits for no turn and for no room.
    fn coming<'a>(&'a self, striping: &'a Striping) -> Coming<'a> {
        striping.coming.set(striping.coming.get() + 1);
        Coming { changes: &striping.coming, ring_changed: &self.ring.changed }
    }

    /// The parity shards' part in the rows of a change, from what the data shards hold from the begin of its hull.
    fn encode_rows(
        &self,
        striping: &Striping,
        change: &RowWrite<'_>,
        data: &[Vec<u8>],
    ) -> Result<Vec<Vec<u8>>, DeviceError> {
        let hull = change.hull();
        let mut parity = vec![vec![0; hull.len as usize]; striping.stripes.parity()];
        for rows in change.runs() {
            let at = (rows.offset - hull.offset) as usize;
            let part = at..at + rows.len as usize;
            let inputs: Vec<&[u8]> = data.iter().map(|shard| &shard[part.clone()]).collect();
            let mut outputs: Vec<&mut [u8]> =
                parity.iter_mut().map(|shard| &mut shard[part.clone()]).collect();
            self.encode(striping, &inputs, &mut outputs)?;
        }
        Ok(parity)
    }

    fn encode(
        &self,
        striping: &Striping,
        data: &[&[u8]],
        parity: &mut [&mut [u8]],
    ) -> Result<(), DeviceError> {
        let encoded = striping.code.encode(data, parity);
        encoded.map_err(|_| DeviceError { doing: "encode a stripe", errno: EIO })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_all_of_them_in_the_order_of_their_bits() {
        for members in 2..=12usize {
            for out in 0..members - 1 {
                for number in 0..members {
                    let is_one = |bits: &u64| bits.count_ones() as usize == out && bits >> number & 1 == 0;
                    let all: Vec<u64> = (0..1 << members).filter(is_one).collect();
                    assert_eq!(all.len(), choices(members - 1, out));
                    let found = (0..all.len()).map(|choice| left_out(members, out, number, choice));
                    assert!(found.eq(all), "{out} of {members} without {number}");
                }
            }
        }
    }
}
