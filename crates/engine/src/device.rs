//! What every layer and every leaf is: a [`Device`].
//!
//! A device has a size and makes promises ([`Geometry`]); it reads, writes, flushes, discards and zeroes. The
//! same words serve the prober, the engine and the simulator, which breaks only what is not promised.

use std::future::{Future, ready};
use std::pin::Pin;
use std::rc::Weak;

use crate::error::{DeviceError, Error};
use crate::format::page_sum;

/// A range of bytes on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Extent {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

impl Extent {
    /// `len` bytes from `offset`.
    pub const fn new(offset: u64, len: u64) -> Self {
        Self { offset, len }
    }

    /// The byte after the last one.
    pub const fn end(&self) -> u64 {
        self.offset + self.len
    }

    /// Whether the two share a byte.
    pub const fn overlaps(&self, other: &Self) -> bool {
        self.offset < other.end() && other.offset < self.end()
    }

    /// Whether it has every byte of `other`.
    pub const fn holds(&self, other: &Self) -> bool {
        self.offset <= other.offset && other.end() <= self.end()
    }

    /// The bytes that both hold; `None` where they share none.
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        let offset = self.offset.max(other.offset);
        let end = self.end().min(other.end());
        (offset < end).then(|| Self { offset, len: end - offset })
    }

    /// Whether it lies within `size_bytes`, without overflow.
    pub fn fits(&self, size_bytes: u64) -> bool {
        self.offset.checked_add(self.len).is_some_and(|end| end <= size_bytes)
    }
}

/// What a device is and promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes that can be addressed.
    pub size_bytes: u64,
    /// Offsets and lengths of reads and writes are multiples of this; a power of two.
    pub sector_bytes: u32,
    /// Whether a sector whose write a power cut interrupts holds its old or its new bytes, never others.
    pub atomic_sectors: bool,
}

/// When a write may be acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Once it can be read back; a power cut may lose it until a flush covers it.
    Buffered,
    /// Once a power cut cannot lose it (FUA, `RWF_DSYNC`).
    Durable,
}

/// What a flush makes durable.
#[derive(Debug, Clone, Copy)]
pub enum FlushScope<'a> {
    /// Every write completed before the flush began: the classic FLUSH.
    Whole,
    /// Those of them that overlap these ranges.
    Ranges(&'a [Extent]),
}

/// A block device. Calls may be made concurrently; those on overlapping ranges take effect in some order.
pub trait Device: 'static {
    /// Size and promises. They do not change, but for [`Self::enlarge`].
    fn geometry(&self) -> Geometry;

    /// Fills `into` from `offset`, from the medium: not from what a system keeps of it in memory.
    fn read(&self, offset: u64, into: &mut [u8]) -> impl Future<Output = Result<(), DeviceError>>;

    /// As [`Self::read`], by way of what the system keeps of the medium in memory (the page cache), where there is
    /// such a thing. That may be older than the medium, and does not tell what became of it: only for whoever can
    /// tell right bytes from wrong ones, and then asks the medium.
    fn read_cached(&self, offset: u64, into: &mut [u8]) -> impl Future<Output = Result<(), DeviceError>> {
        self.read(offset, into)
    }

    /// As [`Self::read_cached`], as far as it takes no waiting: how many of the first bytes of `into` were filled.
    /// The others may hold anything.
    fn try_read_cached(&self, _offset: u64, _into: &mut [u8]) -> usize {
        0
    }

    /// Writes `bytes` at `offset`.
    fn write(
        &self,
        offset: u64,
        bytes: &[u8],
        durability: Durability,
    ) -> impl Future<Output = Result<(), DeviceError>>;

    /// As [`Self::write`], of bytes that lie in several places. A device whose writes may have to wait holds no copy of
    /// them meanwhile.
    fn write_parts(
        &self,
        offset: u64,
        parts: &[&[u8]],
        durability: Durability,
    ) -> impl Future<Output = Result<(), DeviceError>> {
        async move {
            match parts {
                [whole] => self.write(offset, whole, durability).await,
                _ => self.write(offset, &parts.concat(), durability).await,
            }
        }
    }

    /// Makes completed writes durable.
    fn flush(&self, scope: FlushScope<'_>) -> impl Future<Output = Result<(), DeviceError>>;

    /// Offers `size_bytes` from now on, more than before: whoever provides it has made the room, of which the contents
    /// are not defined. What it keeps in several copies has that room in all of them, or in none. It may offer even more.
    fn enlarge(&self, size_bytes: u64) -> impl Future<Output = Result<(), Error>> {
        let is_large_enough = self.geometry().size_bytes >= size_bytes;
        ready(match is_large_enough {
            true => Ok(()),
            false => Err(Error::Unusable(format!("the home device has less than {size_bytes} bytes"))),
        })
    }

    /// Tells that the contents of `extent` are no longer needed; what a read finds there is not defined. A hint: an error
    /// says that the drive could not take it, and nothing more of the drive.
    fn discard(&self, extent: Extent) -> impl Future<Output = Result<(), DeviceError>>;

    /// How many copies it keeps of each byte. [`Self::read`] answers from any of them; only who can tell right bytes from
    /// wrong ones knows that another is better.
    fn copies(&self) -> usize {
        1
    }

    /// As [`Self::read`], from the copy of this number, below [`Self::copies`].
    fn read_copy(
        &self,
        _copy: usize,
        offset: u64,
        into: &mut [u8],
    ) -> impl Future<Output = Result<(), DeviceError>> {
        self.read(offset, into)
    }

    /// Whether this copy is there at all, and counts.
    fn has_copy(&self, _copy: usize) -> bool {
        true
    }

    /// Ends when a read of this copy is in nobody's way: for whoever has time.
    fn copy_at_rest(&self, _copy: usize) -> impl Future<Output = ()> {
        ready(())
    }

    /// These are the right bytes: sees to it that every copy holds them, now or in its own time. Nobody writes there
    /// while this is called. A copy that holds them is not written: cut in the middle, it might not any more.
    fn mend(&self, _offset: u64, _bytes: &[u8]) -> impl Future<Output = Result<(), DeviceError>> {
        ready(Ok(()))
    }

    /// Who can tell right bytes from wrong ones, from now on: for a device that copies by itself what it holds. It does
    /// not before it knows.
    fn rely_on(&self, _judge: Weak<dyn Judge>) {}

    /// Whether what is written to it is on some of its copies only, and soon on none of those that are left if more of
    /// them go: then it is better emptied than left behind.
    fn is_in_parts(&self) -> bool {
        false
    }

    /// The first record that is written to it from now on has this number: what it holds of older ones was read.
    fn goes_on_with(&self, _sequence: u64) {}

    /// The next superblock is the last that is written to it, and begins its log behind everything.
    fn is_about_to_close(&self) {}

    /// Whether everything was there that was just read of it.
    fn is_all_there(&self) -> impl Future<Output = Result<(), Error>> {
        ready(Ok(()))
    }

    /// Whether what it holds should be made unnecessary soon, because some of it is on copies that are gone.
    fn wants_checkpoint(&self) -> bool {
        false
    }

    /// What it wants to be remembered of it as of the last flush, on another device, before anything is given up that
    /// the flush made unnecessary. `None` from a device that needs no such thing.
    fn state(&self) -> Option<DeviceState> {
        None
    }

    /// It is to hold a new volume of this number.
    fn format(&self, _volume: u64) -> impl Future<Output = Result<(), DeviceError>> {
        ready(Ok(()))
    }

    /// A volume is opened once more: `epoch` is more than that of any earlier opening. Comes before everything else.
    fn resume(&self, _remembered: Remembered, _epoch: u64) -> impl Future<Output = Result<(), Error>> {
        ready(Ok(()))
    }

    /// The superblock of this generation is durable. Whatever the device writes of itself from now on may say so: whoever
    /// later finds none but older ones knows that it was lost.
    fn note_superblock(&self, _generation: u64) {}

    /// How full, of 1, is what holds the writes that are not home here yet: the log, or memory.
    fn note_fill(&self, _fill: f64) {}

    /// The opening that [`Self::resume`] spoke of has its superblock, and nothing was acknowledged in it yet.
    fn begins(&self) -> impl Future<Output = Result<(), DeviceError>> {
        ready(Ok(()))
    }

    /// Everything is home, and the opening ends in order: this is the last chance to say what is known.
    /// `left` are bytes that belong at an offset where nobody else writes: a device with a state keeps them for whoever
    /// finds nothing else of the volume.
    fn ends(&self, _left: Option<(u64, &[u8])>) -> impl Future<Output = Result<(), DeviceError>> {
        ready(Ok(()))
    }
}

/// Who knows what is on a device, by the sums of its pages.
pub trait Judge {
    /// What is known of the page at `offset` at the moment of the answer.
    fn expects(&self, offset: u64) -> Pin<Box<dyn Future<Output = Expected> + '_>>;
}

/// What a page of a device is known to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// The sums of the right bytes: two while the page is written, the newer one last. `None` where any bytes are right.
    sums: Option<[u64; 2]>,
    /// Whether nobody is about to write the page anew: what is wrong now stays so.
    pub is_settled: bool,
    /// Whether the page has no contents, and nobody is about to give it any: what is there is never read.
    pub is_empty: bool,
}

impl Expected {
    /// Nothing is known, or nobody needs the bytes.
    pub const NOTHING: Self = Self { sums: None, is_settled: false, is_empty: false };

    /// The sums of a page before and after it is written; 0 where it has no contents.
    pub fn of(sums: [u64; 2], is_settled: bool) -> Self {
        match sums.contains(&0) {
            true => Self { is_empty: sums == [0; 2] && is_settled, ..Self::NOTHING },
            false => Self { sums: Some(sums), is_settled, is_empty: false },
        }
    }

    /// Whether these bytes are right, as far as is known.
    pub fn is_right(&self, page: &[u8]) -> bool {
        self.sums.is_none_or(|sums| sums.contains(&page_sum(page)))
    }

    /// Whether they are so whatever becomes of a write that is under way.
    pub fn is_newest(&self, page: &[u8]) -> bool {
        self.sums.is_none_or(|[_, newer]| newer == page_sum(page))
    }
}

/// What a device is known by beside what it holds; only the device knows what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceState(pub [u64; 4]);

/// What is known of a volume as it is opened once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Remembered {
    /// Its number.
    pub volume: u64,
    /// The generation of the newest superblock that was found.
    pub superblock: u64,
    /// Bytes of this device that the volume knows of.
    pub home_bytes: u64,
    /// The state of the device that this one holds.
    pub state: DeviceState,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_meet_where_they_share_a_byte() {
        let extent = Extent::new(10, 10);
        assert!(extent.overlaps(&Extent::new(19, 5)));
        assert!(!extent.overlaps(&Extent::new(20, 5)));
        assert_eq!(extent.intersection(&Extent::new(15, 100)), Some(Extent::new(15, 5)));
        assert_eq!(extent.intersection(&Extent::new(0, 10)), None);
        assert!(!Extent::new(u64::MAX, 2).fits(u64::MAX));
    }
}
