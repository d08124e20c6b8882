//! What a simulated drive does wrong, beyond losing power.
//!
//! 1. Every fault is off by default, and a drive without one keeps all promises of its geometry.
//! 2. Faults are given as ranges of operation numbers, counted from 0 since the drive was opened: `7..8` is
//!    the eighth alone, `7..u64::MAX` that and all later ones.
//!
//! Damage of the medium, as apart from what the drive does, is done to the image:
//! [`crate::image::Image::rot`] and [`crate::image::Image::make_unreadable`].

use std::ops::Range;

use evenkeel_engine::device::Extent;

use crate::random::Random;

/// errno(3) of an input or output error.
pub const EIO: i32 = 5;
/// errno(3) of what is not supported.
pub const EOPNOTSUPP: i32 = 95;
/// errno(3) of an input or output error far away.
pub const EREMOTEIO: i32 = 121;
/// errno(3) of a device without space.
pub const ENOSPC: i32 = 28;

/// One write that is acknowledged and does not arrive where it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stray {
    /// Only writes that lie here count, and here it stays.
    pub within: Extent,
    /// Of these, so many go well first.
    pub after: u64,
    /// Whether it lands elsewhere, where it does not touch its own place, instead of nowhere.
    pub misdirected: bool,
}

/// Discards that fail, though the drive is well: they may have been carried out, in part or whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailingDiscards {
    /// From which discard on.
    pub from: u64,
    /// With which errno(3).
    pub errno: i32,
}

impl FailingDiscards {
    /// For some drives.
    pub(crate) fn draw(random: &mut Random) -> Option<Self> {
        let (is_so, from) = (random.chance(0.25), random.below(6));
        let errno = *random.pick(&[EIO, EOPNOTSUPP, EREMOTEIO]);
        is_so.then_some(Self { from, errno })
    }
}

/// What goes wrong, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Faults {
    /// Operations of any kind that fail with [`EIO`] and do nothing: a drive that dies, or comes back.
    pub failing_operations: Range<u64>,
    /// Operations of any kind that are never answered. A write among them may arrive, whole or in part, until the run
    /// ends.
    pub silent_operations: Range<u64>,
    /// Writes that fail with [`EIO`]; any prefix of their sectors may have arrived.
    pub failing_writes: Range<u64>,
    /// Writes that fail with [`ENOSPC`]; nothing of them arrived.
    pub full_writes: Range<u64>,
    /// Flushes that fail with [`EIO`]. Some of the writes they should have covered stay readable but will
    /// never be durable, whatever later flushes say: so do kernels that drop the dirty mark of a page they
    /// could not write.
    pub failing_flushes: Range<u64>,
    /// Discards that fail on a drive that is well.
    pub failing_discards: Option<FailingDiscards>,
    /// Writes that are acknowledged and never happen.
    pub lost_writes: Range<u64>,
    /// Writes that are acknowledged and land at another place.
    pub misdirected_writes: Range<u64>,
    /// A write of one zone that is lost or misplaced.
    pub stray: Option<Stray>,
    /// Durable writes that are acknowledged when they are only buffered. Counted among all writes.
    pub lying_durable_writes: Range<u64>,
    /// Flushes that are acknowledged and cover nothing.
    pub lying_flushes: Range<u64>,
}

impl Default for Faults {
    fn default() -> Self {
        const NEVER: Range<u64> = 0..0;
        Self {
            failing_operations: NEVER,
            silent_operations: NEVER,
            failing_writes: NEVER,
            full_writes: NEVER,
            failing_flushes: NEVER,
            failing_discards: None,
            lost_writes: NEVER,
            misdirected_writes: NEVER,
            stray: None,
            lying_durable_writes: NEVER,
            lying_flushes: NEVER,
        }
    }
}
