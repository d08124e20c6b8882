//! What a ring with stripes offers, as drives that hold the same: each gets every page in another way.
//!
//! 1. The first way is from a page's own member, if that came as far as K did; the second is from K others. Each further one
//!    leaves some of the others out: first one, then two, up to as many as leave K.
//! 2. A member that cannot be read costs no way: the next one is taken.
//! 3. What the stripe log says that a shard is to hold counts more than what its member does, unless the way is without it: an
//!    opening would write it home.
//! 4. Nothing is written.

use std::collections::BTreeMap;
use std::rc::Rc;

use evenkeel_erasure::Code;

use super::copies::{Part, READ_ONLY};
use crate::device::{Device, Durability, Extent, FlushScope, Geometry};
use crate::error::DeviceError;
use crate::format::stripes::Stripes;
use crate::format::{PAGE, PAGE_BYTES};
use crate::layout::erasure::geometry::{Piece, Shard};

/// Input or output error, as in errno(3).
const EIO: i32 = 5;

const TOO_FEW: DeviceError =
    DeviceError { doing: "compute what a shard holds: too few members are there", errno: EIO };

/// What the stripe log says that pages of shards are to hold, by their begin in the shard.
pub(super) type Changes = BTreeMap<(Shard, u64), Box<[u8; PAGE]>>;

/// What something is salvaged from.
#[derive(Debug)]
pub enum Source<D> {
    /// A drive.
    Drive(D),
    /// What a ring with stripes offers.
    Stripes(StripedCopy<D>),
}

impl<D: Clone> Clone for Source<D> {
    fn clone(&self) -> Self {
        match self {
            Self::Drive(drive) => Self::Drive(drive.clone()),
            Self::Stripes(copy) => Self::Stripes(copy.clone()),
        }
    }
}

/// Most ways in which a page is read: of up to ten data shards every one; of 28 data and 4 parity shards those that leave two
/// out beside the page's own.
const WAYS_MAX: usize = 512;

/// In which way pages are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Way {
    number: usize,
    /// Whether the stripe log counts.
    is_logged: bool,
}

/// The members of a ring with stripes.
#[derive(Debug)]
pub(super) struct Members<D> {
    stripes: Stripes,
    code: Code,
    /// Those that are there, each at its place.
    parts: Vec<Option<Part<D>>>,
    /// All places: those of members that are there, the one that is most trusted first, and then the others.
    trusted: Vec<usize>,
    /// Those that came as far as K did, a bit each.
    as_far: u64,
    size_bytes: u64,
    changes: Changes,
}

/// What they hold, in one way. A clone is another handle to the same.
#[derive(Debug)]
pub struct StripedCopy<D> {
    members: Rc<Members<D>>,
    way: Way,
}

impl<D> Clone for StripedCopy<D> {
    fn clone(&self) -> Self {
        Self { members: Rc::clone(&self.members), way: self.way }
    }
}

impl<D: Device> Members<D> {
    /// These, the one that is most trusted first, of which the first `as_far` came as far as K did; of a ring that offers
    /// `size_bytes`.
    pub(super) fn new(
        stripes: Stripes,
        there: Vec<Part<D>>,
        as_far: usize,
        size_bytes: u64,
        changes: Changes,
    ) -> Self {
        let code = Code::new(stripes.data(), stripes.parity()).expect("a shape of stripes is one of a code");
        let mut trusted: Vec<usize> = there.iter().map(|part| part.place).collect();
        let as_far = trusted.iter().take(as_far).fold(0, |bits, place| bits | 1 << place);
        let mut parts: Vec<Option<Part<D>>> = (0..stripes.members()).map(|_| None).collect();
        for part in there {
            let place = part.place;
            parts[place] = Some(part);
        }
        trusted.extend((0..parts.len()).filter(|&place| parts[place].is_none()));
        Self { stripes, code, parts, trusted, as_far, size_bytes, changes }
    }

    /// What they hold, in each way: those with the stripe log first, if that says anything.
    pub(super) fn in_every_way(self) -> Vec<StripedCopy<D>> {
        // Beside the page's own member, which may be the one that is away.
        let others = self.parts.iter().flatten().count().min(self.parts.len() - 1);
        let ways = (2 + combinations(others, others.saturating_sub(self.stripes.data()))).min(WAYS_MAX);
        let kinds: &[bool] = if self.changes.is_empty() { &[false] } else { &[true, false] };
        let members = Rc::new(self);
        let way = |is_logged: bool| (0..ways).map(move |number| Way { number, is_logged });
        let all = kinds.iter().flat_map(|&is_logged| way(is_logged));
        all.map(|way| StripedCopy { members: Rc::clone(&members), way }).collect()
    }

    /// What a member is to hold in these rows of a shard, though it need not be there.
    async fn read_member(
        &self,
        place: usize,
        shard: Shard,
        rows: Extent,
        is_logged: bool,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        let begin = shard.stripe * self.stripes.shard_bytes();
        let logged: Vec<Option<&[u8; PAGE]>> = (rows.offset..rows.end())
            .step_by(PAGE)
            .map(|at| self.changes.get(&(shard, at - begin)).map(|page| &**page).filter(|_| is_logged))
            .collect();
        if logged.iter().any(Option::is_none) {
            self.parts[place].as_ref().ok_or(TOO_FEW)?.read(rows.offset, into).await?;
        }
        for (page, logged) in into.chunks_exact_mut(PAGE).zip(logged) {
            if let Some(logged) = logged {
                page.copy_from_slice(logged);
            }
        }
        Ok(())
    }

    /// Fills `into` with a piece of what the ring offers.
    async fn read_piece(&self, way: Way, piece: Piece, into: &mut [u8]) -> Result<(), DeviceError> {
        let own = usize::from(self.as_far >> piece.place & 1 == 0);
        if way.number == own {
            return self.read_member(piece.place, piece.shard, piece.on_member, way.is_logged, into).await;
        }
        let others: Vec<usize> = self.trusted.iter().copied().filter(|&other| other != piece.place).collect();
        let there = others.iter().filter(|&&other| self.parts[other].is_some()).count();
        let spare = there.saturating_sub(self.stripes.data());
        // Of those that are there: these come first.
        let left_out = left_out(there, spare, way.number.saturating_sub(1)).ok_or(TOO_FEW)?;
        let Piece { shard, on_member: rows, .. } = piece;
        let mut present: Vec<(usize, Vec<u8>)> = Vec::new();
        let taken = others.into_iter().enumerate().filter(|(at, _)| !left_out.contains(at));
        for (_, other) in taken {
            let shard = self.stripes.shard_on(shard.stripe, other);
            let mut bytes = vec![0; into.len()];
            if self.read_member(other, shard, rows, way.is_logged, &mut bytes).await.is_ok() {
                present.push((shard.number, bytes));
            }
            if present.len() == self.stripes.data() {
                break;
            }
        }
        let present: Vec<(usize, &[u8])> =
            present.iter().map(|(number, bytes)| (*number, &bytes[..])).collect();
        let computed = self.code.reconstruct(&present, &mut [(shard.number, into)]);
        computed.map_err(|_too_few| TOO_FEW)
    }
}

/// Ways to choose from one to `most` of so many; as many as a `usize` has at most.
fn combinations(of: usize, most: usize) -> usize {
    let (mut all, mut ways) = (0usize, 1usize);
    for count in 0..most.min(of) {
        ways = ways.saturating_mul(of - count) / (count + 1);
        all = all.saturating_add(ways);
    }
    all
}

/// The choice of this number of those to leave out, of so many: none, then each one of them, then each two, up to `most`.
fn left_out(of: usize, most: usize, number: usize) -> Option<Vec<usize>> {
    let mut before = 0;
    for count in 0..=most.min(of) {
        let mut chosen: Vec<usize> = (0..count).collect();
        loop {
            if before == number {
                return Some(chosen);
            }
            before += 1;
            // The last of them that can be moved is, and those behind it follow.
            let Some(at) = (0..count).rev().find(|&at| chosen[at] < of - count + at) else { break };
            chosen[at] += 1;
            (at + 1..count).for_each(|next| chosen[next] = chosen[next - 1] + 1);
        }
    }
    None
}

impl<D: Device> StripedCopy<D> {
    /// Fills `into`, which is whole pages: so a [`Part`] reads what says that its sectors are pages.
    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let asked = Extent { offset, len: into.len() as u64 };
        let is_whole = (asked.offset | asked.len).is_multiple_of(PAGE_BYTES);
        if !is_whole || !asked.fits(self.members.size_bytes) {
            return Err(DeviceError { doing: "read beyond the end of a drive", errno: EIO });
        }
        let mut rest = into;
        for piece in self.members.stripes.pieces(asked) {
            let (this, next) = rest.split_at_mut(piece.extent.len as usize);
            self.members.read_piece(self.way, piece, this).await?;
            rest = next;
        }
        Ok(())
    }
}

impl<D: Device> Device for Source<D> {
    fn geometry(&self) -> Geometry {
        match self {
            Self::Drive(drive) => drive.geometry(),
            Self::Stripes(copy) => Geometry {
                size_bytes: copy.members.size_bytes,
                sector_bytes: PAGE as u32,
                atomic_sectors: false,
            },
        }
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        match self {
            Self::Drive(drive) => drive.read(offset, into).await,
            // Boxed: every read would carry room for it.
            Self::Stripes(copy) => Box::pin(copy.read(offset, into)).await,
        }
    }

    async fn write(&self, _offset: u64, _bytes: &[u8], _durability: Durability) -> Result<(), DeviceError> {
        Err(READ_ONLY)
    }

    async fn flush(&self, _scope: FlushScope<'_>) -> Result<(), DeviceError> {
        Ok(())
    }

    async fn discard(&self, _extent: Extent) -> Result<(), DeviceError> {
        Err(READ_ONLY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_of_those_to_leave_out_comes_once_and_small_ones_come_first() {
        let all =
            |of, most| -> Vec<Vec<usize>> { (0..).map_while(|number| left_out(of, most, number)).collect() };
        assert_eq!(all(3, 2), [vec![], vec![0], vec![1], vec![2], vec![0, 1], vec![0, 2], vec![1, 2]]);
        assert_eq!(all(3, 0), [Vec::new()]);
        assert_eq!(all(0, 3), [Vec::<usize>::new()]);
        for (of, most) in [(5, 1), (5, 2), (13, 3), (2, 4)] {
            let found = all(of, most);
            assert_eq!(found.len(), 1 + combinations(of, most));
            assert!(found.windows(2).all(|pair| pair[0].len() <= pair[1].len() && pair[0] != pair[1]));
        }
        assert!(combinations(31, 31) > 1 << 30 && combinations(usize::MAX, 3) > 0);
    }
}
