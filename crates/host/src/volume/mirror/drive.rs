//! A drive as one of several that hold the same: all of them look alike.

use std::cell::Cell;
use std::rc::Rc;

use evenkeel_engine::device::{Device, Drive, Durability, Extent, FlushScope, Geometry};
use evenkeel_engine::error::{DeviceError, Error};

use crate::remedy::Remedy;
use crate::size_text::exact_size;
use crate::volume::VolumeError;
use crate::volume::member::{MemberDrive, Place};

/// Why a drive cannot be taken for a member or log device of a mirror.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unfit {
    /// What is wrong, in one line.
    pub(in crate::volume) why: String,
    remedy: Option<Remedy>,
}

impl Unfit {
    fn new(why: String) -> Self {
        Self { why, remedy: None }
    }

    /// The error that the drive at `place` is refused for it.
    pub(in crate::volume) fn at(self, place: &Place) -> VolumeError {
        let problem = VolumeError::Refused(format!("{place}: {}", self.why));
        match self.remedy {
            Some(remedy) => problem.with(remedy),
            None => problem,
        }
    }
}

/// A drive of which only as much is used, in sectors as large, as of all its like.
#[derive(Debug, Clone)]
pub struct MirrorDrive {
    drive: Rc<MemberDrive>,
    geometry: Cell<Geometry>,
}

impl MirrorDrive {
    /// `drive`, taken for a drive of this geometry.
    ///
    /// # Errors
    ///
    /// In one line, why it cannot be taken for one.
    pub fn new(drive: Rc<MemberDrive>, geometry: Geometry) -> Result<Self, Unfit> {
        Self::check(drive.geometry(), geometry)?;
        Ok(Self { drive, geometry: Cell::new(geometry) })
    }

    /// That a drive of the geometry `found` can be taken for one of `geometry`.
    pub(in crate::volume) fn check(found: Geometry, geometry: Geometry) -> Result<(), Unfit> {
        if found.size_bytes < geometry.size_bytes {
            let (found, needed) = (found.size_bytes, geometry.size_bytes);
            return Err(Unfit::new(format!(
                "it has {}, and {} are needed",
                exact_size(found),
                exact_size(needed)
            )));
        }
        if found.sector_bytes > geometry.sector_bytes {
            let (found, needed) = (found.sector_bytes, geometry.sector_bytes);
            return Err(Unfit::new(format!(
                "it has sectors of {found} bytes, and {needed} at most are of use"
            )));
        }
        if geometry.atomic_sectors && !found.atomic_sectors {
            let why = "it is not known to keep sectors whole in a power cut, as the others are".to_owned();
            return Err(Unfit { why, remedy: Some(Remedy::SayAtomicSectors) });
        }
        Ok(())
    }

    /// The drive itself.
    pub fn drive(&self) -> &Rc<MemberDrive> {
        &self.drive
    }
}

impl Device for MirrorDrive {
    fn geometry(&self) -> Geometry {
        self.geometry.get()
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.drive.read(offset, into).await
    }

    async fn read_cached(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.drive.read_cached(offset, into).await
    }

    fn try_read_cached(&self, offset: u64, into: &mut [u8]) -> usize {
        self.drive.try_read_cached(offset, into)
    }

    fn try_read_kept(&self, offset: u64, into: &mut [u8]) -> usize {
        self.drive.try_read_kept(offset, into)
    }

    fn give_up_kept(&self, extent: Extent) {
        self.drive.give_up_kept(extent);
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), DeviceError> {
        self.drive.write(offset, bytes, durability).await
    }

    async fn write_parts(
        &self,
        offset: u64,
        parts: &[&[u8]],
        durability: Durability,
    ) -> Result<(), DeviceError> {
        self.drive.write_parts(offset, parts, durability).await
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), DeviceError> {
        self.drive.flush(scope).await
    }

    async fn discard(&self, extent: Extent) -> Result<(), DeviceError> {
        self.drive.discard(extent).await
    }

    async fn write_zeroes(&self, extent: Extent, durability: Durability) -> Result<(), DeviceError> {
        self.drive.write_zeroes(extent, durability).await
    }
}

impl Drive for MirrorDrive {
    async fn enlarge(&self, size_bytes: u64) -> Result<(), Error> {
        let geometry = self.geometry.get();
        if geometry.size_bytes < size_bytes {
            self.drive.enlarge(size_bytes).await?;
            self.geometry.set(Geometry { size_bytes, ..geometry });
        }
        Ok(())
    }
}
