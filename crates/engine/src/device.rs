//! What every leaf and every layer is: a [`Device`]. What lies below a volume says more: [`crate::layout`].
//!
//! A device has a geometry; it reads, writes, flushes, discards and zeroes. The same words serve the prober, the
//! engine, an open volume and the simulator, which breaks only what is not promised.

use std::future::Future;

use crate::error::{DeviceError, Error};

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

/// Bytes of zeros that [`Device::write_zeroes`] writes at once.
const ZEROES_BYTES: u64 = 256 << 10;

/// A block device. Calls may be made concurrently; those on overlapping ranges take effect in some order.
pub trait Device: 'static {
    /// Size and promises. They change only where the device is made larger.
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

    /// As [`Self::try_read_cached`], of what the system has in memory by now: it is not made to read anything in, as it may
    /// be by a look at what it lacks. For whoever asks the medium for that.
    fn try_read_kept(&self, offset: u64, into: &mut [u8]) -> usize {
        self.try_read_cached(offset, into)
    }

    /// What was read of `extent` by [`Self::read_cached`] and its like is kept by whoever asked for it: the system need not
    /// have it in memory too.
    fn give_up_kept(&self, _extent: Extent) {}

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

    /// Tells that the contents of `extent` are no longer needed; what a read finds there is not defined. A hint: an error
    /// says that the drive could not take it, and nothing more of the drive.
    fn discard(&self, extent: Extent) -> impl Future<Output = Result<(), DeviceError>>;

    /// Zeroes `extent`. Unless the device knows better, the zeros are written: what was written before use is allocated
    /// below, and a later durable write there changes no metadata.
    fn write_zeroes(
        &self,
        extent: Extent,
        durability: Durability,
    ) -> impl Future<Output = Result<(), DeviceError>> {
        async move {
            let zeros = vec![0; ZEROES_BYTES.min(extent.len) as usize];
            let mut offset = extent.offset;
            while offset < extent.end() {
                let piece = &zeros[..(extent.end() - offset).min(ZEROES_BYTES) as usize];
                self.write(offset, piece, durability).await?;
                offset += piece.len() as u64;
            }
            Ok(())
        }
    }
}

/// A device at the bottom: what a volume's pages, its journal or a member of a mirror is on.
pub trait Drive: Device {
    /// Offers `size_bytes` from now on, more than before: whoever provides it has made the room, of which the contents
    /// are not defined. It may offer even more.
    fn enlarge(&self, size_bytes: u64) -> impl Future<Output = Result<(), Error>> {
        let found_bytes = self.geometry().size_bytes;
        std::future::ready(match found_bytes >= size_bytes {
            true => Ok(()),
            false => Err(Error::Unusable(format!(
                "the drive has {found_bytes} bytes, and {size_bytes} are needed"
            ))),
        })
    }
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
