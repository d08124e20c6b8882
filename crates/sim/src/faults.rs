//! What a simulated drive does wrong, beyond losing power: the one list of it ([`Fault`]), and when a drive does it
//! ([`Faults`]).
//!
//! 1. Every fault is off by default, and a drive without one keeps all promises of its geometry.
//! 2. Faults are given as ranges of operation numbers, counted from 0 since the drive was opened: `7..8` is
//!    the eighth alone, `7..u64::MAX` that and all later ones.
//!
//! Damage of the medium, as apart from what the drive does, is done to the image:
//! [`crate::image::Image::rot`] and [`crate::image::Image::make_unreadable`].
//!
//! This file and `drive` import each other: a fault is due by what a drive counted.

use std::ops::Range;

use evenkeel_engine::device::Extent;

use crate::drive::Counters;
use crate::image::SharedImage;
use crate::random::Random;

/// Bytes that rot together, at most.
const ROT_BYTES_MAX: u64 = 48;

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

/// What goes wrong with a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Everything that it is asked fails from now on.
    Dies,
    /// It answers no more.
    FallsSilent,
    /// A write fails, and part of it arrived.
    FailsWrite,
    /// From some write on it is full.
    IsFull,
    /// A flush fails, and what it should have covered may never be durable.
    FailsFlush,
    /// Whoever provides it says that it failed.
    IsFailed,
    /// What it calls durable is not.
    Lies,
    /// A write never happens.
    LosesWrite,
    /// A write lands at another place.
    MisdirectsWrite,
    /// Bits change.
    Rots,
    /// A sector cannot be read until it is written again.
    CannotRead,
}

impl Fault {
    /// Any.
    pub(crate) fn draw(random: &mut Random) -> Self {
        match random.below(14) {
            0..4 => Self::draw_death(random),
            4 => Self::IsFailed,
            5 | 6 => Self::Lies,
            7 => Self::LosesWrite,
            8 => Self::MisdirectsWrite,
            9..12 => Self::Rots,
            _ => Self::CannotRead,
        }
    }

    /// Any that takes nothing from a log of which each record is on one device only.
    pub(crate) fn draw_sparing_log(random: &mut Random) -> Self {
        match Self::draw(random) {
            Self::Lies | Self::LosesWrite | Self::MisdirectsWrite => Self::Rots,
            other => other,
        }
    }

    /// One after which the device takes part no more, and which it does not hide.
    pub(crate) fn draw_death(random: &mut Random) -> Self {
        let ways = [Self::Dies, Self::FallsSilent, Self::FailsWrite, Self::IsFull, Self::FailsFlush];
        *random.pick(&ways)
    }

    /// Whether it makes wrong what the device holds, and nobody is told.
    pub(crate) fn harms(self) -> bool {
        matches!(self, Self::Lies | Self::LosesWrite | Self::MisdirectsWrite) || self.is_of_medium()
    }

    /// Whether it is done to the medium, not by the drive: see [`Self::harm`].
    pub(crate) fn is_of_medium(self) -> bool {
        matches!(self, Self::Rots | Self::CannotRead)
    }

    /// What a drive does wrong then, up to so many operations from `now` on.
    pub(crate) fn draw_faults(self, now: Counters, after_max: u64, random: &mut Random) -> Faults {
        let after = match self {
            Self::IsFailed | Self::Lies | Self::Rots | Self::CannotRead => 0,
            Self::FailsFlush => random.below(after_max) / 4,
            _ => random.below(after_max),
        };
        self.faults(now, after)
    }

    /// What a drive does wrong then, so many operations from `now` on.
    pub(crate) fn faults(self, now: Counters, after: u64) -> Faults {
        let mut faults = Faults::default();
        let (of_writes, of_flushes) = (now.writes + after, now.flushes + after);
        let once = |number: u64| number..number + 1;
        match self {
            Self::Dies => faults.failing_operations = now.operations + after..u64::MAX,
            Self::FallsSilent => faults.silent_operations = now.operations + after..u64::MAX,
            Self::FailsWrite => faults.failing_writes = once(of_writes),
            Self::IsFull => faults.full_writes = of_writes..u64::MAX,
            Self::FailsFlush => faults.failing_flushes = once(of_flushes),
            Self::Lies => {
                faults.lying_durable_writes = of_writes..u64::MAX;
                faults.lying_flushes = now.flushes + after / 4..u64::MAX;
            }
            Self::LosesWrite => faults.lost_writes = once(of_writes),
            Self::MisdirectsWrite => faults.misdirected_writes = once(of_writes),
            Self::IsFailed | Self::Rots | Self::CannotRead => {}
        }
        faults
    }

    /// Does to some place of `zone` what needs no drive.
    pub(crate) fn harm(self, image: &SharedImage, zone: Extent, random: &mut Random) {
        match self {
            Self::Rots => {
                let len = 1 + random.below(ROT_BYTES_MAX.min(zone.len));
                let offset = zone.offset + random.below(zone.len - len + 1);
                image.borrow_mut().rot(offset, len, random);
            }
            Self::CannotRead => {
                let offset = zone.offset + random.below(zone.len);
                image.borrow_mut().make_unreadable(Extent::new(offset, 1));
            }
            _ => {}
        }
    }
}
