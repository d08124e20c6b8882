//! Ranges of a volume that are not what they should be, each with its cause.
//!
//! 1. A list grows no longer than [`RANGES_MAX`]: beyond that neighbours of one kind become one range, with what is between
//!    them. It then names more than it has to, never less.

use std::fmt;

use crate::device::Extent;

/// Most ranges of a list.
pub const RANGES_MAX: usize = 32_768;

/// What became of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// Its bytes cannot be had. They read as an error, and are zeros where they are copied.
    Lost,
    /// Its bytes may be older than what was acknowledged.
    Stale,
    /// Its bytes are what the drive holds, and nothing vouches for them.
    Uncertain,
}

impl Condition {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Stale => "stale",
            Self::Uncertain => "uncertain",
        }
    }
}

/// Why a range is not what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// A page's bytes do not have its sum.
    PageDamaged,
    /// A page cannot be read, or lies beyond the end of the drive.
    PageUnreadable,
    /// The page of the table with the sums is damaged or cannot be read.
    TableDamaged,
    /// The root that vouches for the page of the table is damaged.
    RootDamaged,
    /// This record of the log is damaged, and was acknowledged. What it changed is not known.
    RecordDamaged(u64),
    /// The log is gone, and the volume was not stopped in order.
    LogLost,
    /// The log is gone, and every superblock with it: nothing says whether the volume was stopped in order.
    LogGone,
    /// The log device is there, and holds no superblock of this volume: what it lost is not known.
    LogUnknown,
    /// The log is older than the home device.
    LogOlder,
    /// The home device is older than its log, or the newest state of it cannot be read.
    HomeOlder,
    /// The members that are there lack writes that another one holds.
    MembersStale,
    /// A member or log device is not there, or not readable, that may alone hold what was written last.
    MemberMissing,
    /// Writes that were acknowledged and kept in memory do not fit to what the drives hold.
    ArenaRefused,
    /// Another version of this program used the memory: whether acknowledged writes wait in it is not known.
    ArenaOfOtherVersion,
    /// A large write was interrupted here.
    WriteInterrupted,
    /// No superblock can be read: what the description says was taken for it.
    NoSuperblock,
    /// The log holds what no volume of this size writes.
    LogUnsound,
}

impl fmt::Display for Cause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::PageDamaged => "its checksum does not match",
            Self::PageUnreadable => "it cannot be read",
            Self::TableDamaged => "its checksums are damaged",
            Self::RootDamaged => "the root that vouches for its checksums is damaged",
            Self::RecordDamaged(record) => {
                return write!(
                    out,
                    "record {record} of the log is damaged; which bytes it changed is not known"
                );
            }
            Self::LogLost => "the log is gone, and the volume was not stopped in order",
            Self::LogGone => "the log is gone, and with it what says whether the volume was stopped in order",
            Self::LogUnknown => "the log holds no superblock of this volume; what it lost is not known",
            Self::LogOlder => "the log is older than the pages",
            Self::HomeOlder => "the pages are older than the log, or their newest state cannot be read",
            Self::MembersStale => {
                "the members that are there lack writes, and the one that holds them is not there"
            }
            Self::MemberMissing => "a member or log device that may alone hold the last writes is not there",
            Self::ArenaRefused => "writes that were kept in memory do not fit to what the drives hold",
            Self::ArenaOfOtherVersion => {
                "the memory was used by another version, and may hold newer writes: open the volume with that one"
            }
            Self::WriteInterrupted => "a large write was interrupted here; it may be old or new",
            Self::NoSuperblock => "no superblock can be read",
            Self::LogUnsound => "the log holds what no volume of this size writes",
        })
    }
}

/// A range that is not what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DamagedRange {
    /// The bytes of the volume.
    pub extent: Extent,
    /// What became of them.
    pub condition: Condition,
    /// Why.
    pub cause: Cause,
}

/// Such ranges, in the order of their coming.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DamageList {
    ranges: Vec<DamagedRange>,
    is_coarse: bool,
}

impl DamageList {
    /// Adds a range; one that goes on where the last of its kind ended makes that longer.
    pub fn add(&mut self, extent: Extent, condition: Condition, cause: Cause) {
        let is_alike = |last: &&mut DamagedRange| {
            (last.condition, last.cause) == (condition, cause) && last.extent.end() == extent.offset
        };
        match self.ranges.last_mut().filter(is_alike) {
            Some(last) => last.extent.len += extent.len,
            None => self.ranges.push(DamagedRange { extent, condition, cause }),
        }
        if self.ranges.len() > RANGES_MAX {
            self.coarsen();
        }
    }

    /// All of another list.
    pub fn append(&mut self, other: &Self) {
        for DamagedRange { extent, condition, cause } in &other.ranges {
            self.add(*extent, *condition, *cause);
        }
        self.is_coarse |= other.is_coarse;
    }

    /// The ranges.
    pub fn ranges(&self) -> &[DamagedRange] {
        &self.ranges
    }

    /// Whether some of them are longer than they have to be, as they were too many.
    pub fn is_coarse(&self) -> bool {
        self.is_coarse
    }

    /// Whether nothing is named.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Bytes in this condition, each counted once.
    pub fn bytes(&self, condition: Condition) -> u64 {
        let mut extents: Vec<Extent> =
            self.ranges.iter().filter(|it| it.condition == condition).map(|it| it.extent).collect();
        extents.sort_unstable();
        let (mut bytes, mut counted_to) = (0, 0);
        for extent in extents {
            let start = extent.offset.max(counted_to);
            bytes += extent.end().saturating_sub(start);
            counted_to = counted_to.max(extent.end());
        }
        bytes
    }

    /// Whether a byte of `extent` is named.
    pub fn touches(&self, extent: &Extent) -> bool {
        self.ranges.iter().any(|named| named.extent.overlaps(extent))
    }

    /// Joins each two neighbours of one kind.
    fn coarsen(&mut self) {
        self.is_coarse = true;
        self.ranges.sort_unstable_by_key(|named| (named.condition, named.cause, named.extent));
        let mut joined: Vec<DamagedRange> = Vec::with_capacity(self.ranges.len() / 2 + 1);
        for pair in self.ranges.chunk_by(|a, b| (a.condition, a.cause) == (b.condition, b.cause)) {
            for two in pair.chunks(2) {
                let end = two.iter().map(|named| named.extent.end()).max().unwrap_or(0);
                let offset = two[0].extent.offset;
                joined.push(DamagedRange { extent: Extent::new(offset, end - offset), ..two[0] });
            }
        }
        self.ranges = joined;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_goes_on_is_one_range_and_bytes_count_once() {
        let mut list = DamageList::default();
        for page in 0..4 {
            list.add(Extent::new(page * 4096, 4096), Condition::Lost, Cause::PageDamaged);
        }
        assert_eq!(list.ranges().len(), 1);
        list.add(Extent::new(8192, 16384), Condition::Lost, Cause::PageUnreadable);
        list.add(Extent::new(0, 100), Condition::Stale, Cause::LogLost);
        assert_eq!((list.bytes(Condition::Lost), list.bytes(Condition::Stale)), (24576, 100));
    }

    proptest! {
        #[test]
        fn a_list_that_is_too_long_names_no_less(step in 2..5_u64, count in 1..200_000_u64) {
            let mut list = DamageList::default();
            for at in 0..count {
                list.add(Extent::new(at * step, 1), Condition::Lost, Cause::PageDamaged);
            }
            prop_assert!(list.ranges().len() <= RANGES_MAX);
            prop_assert!(list.bytes(Condition::Lost) >= count);
            for at in (0..count).step_by(997) {
                prop_assert!(list.touches(&Extent::new(at * step, 1)));
            }
        }
    }
}
