//! What a ring with stripes offers, as drives that hold the same: each is made by another choice of members.
//!
//! 1. A shard is read from its own member where the choice takes that one, and computed from K others that it takes
//!    otherwise.
//! 2. What the stripe log says that a shard is to hold counts more than what its member does, unless the choice is without
//!    it: an opening would write it home.
//! 3. Nothing is written.

use std::collections::BTreeMap;
use std::rc::Rc;

use evenkeel_erasure::Code;

use super::copies::Part;
use crate::device::{Device, Durability, Extent, FlushScope, Geometry};
use crate::error::DeviceError;
use crate::format::stripes::Stripes;
use crate::format::{PAGE, PAGE_BYTES};
use crate::layout::erasure::geometry::{Piece, Shard};

/// Input or output error, as in errno(3).
const EIO: i32 = 5;

/// Read-only file system.
const EROFS: i32 = 30;

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

/// Which members are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    /// Those that are not, a bit each.
    pub(super) left_out: u64,
    /// Whether the stripe log counts.
    pub(super) is_logged: bool,
}

/// The members of a ring with stripes.
#[derive(Debug)]
pub(super) struct Members<D> {
    stripes: Stripes,
    code: Code,
    /// Those that are there, each at its place.
    parts: Vec<Option<Part<D>>>,
    /// The places of these, the one that is most trusted first.
    trusted: Vec<usize>,
    size_bytes: u64,
    changes: Changes,
}

/// What they hold, by one choice. A clone is another handle to the same.
#[derive(Debug)]
pub struct StripedCopy<D> {
    members: Rc<Members<D>>,
    choice: Choice,
}

impl<D> Clone for StripedCopy<D> {
    fn clone(&self) -> Self {
        Self { members: Rc::clone(&self.members), choice: self.choice }
    }
}

impl<D: Device> Members<D> {
    /// These, the one that is most trusted first, of a ring that offers `size_bytes`.
    pub(super) fn new(stripes: Stripes, there: Vec<Part<D>>, size_bytes: u64, changes: Changes) -> Rc<Self> {
        let code = Code::new(stripes.data(), stripes.parity()).expect("a shape of stripes is one of a code");
        let trusted = there.iter().map(|part| part.place).collect();
        let mut parts: Vec<Option<Part<D>>> = (0..stripes.members()).map(|_| None).collect();
        for part in there {
            let place = part.place;
            parts[place] = Some(part);
        }
        Rc::new(Self { stripes, code, parts, trusted, size_bytes, changes })
    }

    /// What they hold, by this choice.
    pub(super) fn by(self: &Rc<Self>, choice: Choice) -> StripedCopy<D> {
        StripedCopy { members: Rc::clone(self), choice }
    }

    /// What a member is to hold in these rows of a shard.
    async fn read_member(
        &self,
        place: usize,
        shard: Shard,
        rows: Extent,
        is_logged: bool,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        let part = self.parts[place].as_ref().ok_or(TOO_FEW)?;
        let begin = shard.stripe * self.stripes.shard_bytes();
        let logged: Vec<Option<&[u8; PAGE]>> = (rows.offset..rows.end())
            .step_by(PAGE)
            .map(|at| self.changes.get(&(shard, at - begin)).map(|page| &**page).filter(|_| is_logged))
            .collect();
        if logged.iter().any(Option::is_none) {
            part.read(rows.offset, into).await?;
        }
        for (page, logged) in into.chunks_exact_mut(PAGE).zip(logged) {
            if let Some(logged) = logged {
                page.copy_from_slice(logged);
            }
        }
        Ok(())
    }

    /// Fills `into` with a piece of what the ring offers.
    async fn read_piece(&self, choice: Choice, piece: Piece, into: &mut [u8]) -> Result<(), DeviceError> {
        let Piece { shard, place, on_member: rows, .. } = piece;
        let is_taken = |place: usize| choice.left_out >> place & 1 == 0;
        if self.parts[place].is_some() && is_taken(place) {
            return self.read_member(place, shard, rows, choice.is_logged, into).await;
        }
        let mut present: Vec<(usize, Vec<u8>)> = Vec::new();
        let others = self.trusted.iter().copied().filter(|&other| other != place && is_taken(other));
        for other in others.take(self.stripes.data()) {
            let shard = self.stripes.shard_on(shard.stripe, other);
            let mut bytes = vec![0; into.len()];
            self.read_member(other, shard, rows, choice.is_logged, &mut bytes).await?;
            present.push((shard.number, bytes));
        }
        let present: Vec<(usize, &[u8])> =
            present.iter().map(|(number, bytes)| (*number, &bytes[..])).collect();
        let computed = self.code.reconstruct(&present, &mut [(shard.number, into)]);
        computed.map_err(|_too_few| TOO_FEW)
    }
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
            self.members.read_piece(self.choice, piece, this).await?;
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
            Self::Stripes(copy) => copy.read(offset, into).await,
        }
    }

    async fn write(&self, _offset: u64, _bytes: &[u8], _durability: Durability) -> Result<(), DeviceError> {
        Err(DeviceError { doing: "write what is only read", errno: EROFS })
    }

    async fn flush(&self, _scope: FlushScope<'_>) -> Result<(), DeviceError> {
        Ok(())
    }

    async fn discard(&self, _extent: Extent) -> Result<(), DeviceError> {
        Err(DeviceError { doing: "discard what is only read", errno: EROFS })
    }
}
