//! An open volume as a [`Device`]: whatever takes a device takes a volume, another volume too.
//!
//! What a caller gets of an error is its number; [`Volume::failure`] and the events keep the words.

use super::Volume;
use crate::device::{Device, Drive, Durability, Extent, FlushScope, Geometry};
use crate::env::{Arena, Env};
use crate::error::{DeviceError, Error};
use crate::layout::{JournalStore, PageStore};

/// No space left on device, and disk quota exceeded, as in errno(3).
const NO_ROOM: [i32; 2] = [28, 122];

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Volume<E, A, H, L> {
    /// The number of an error of this volume, as [`Error::errno`]. Of one that is read-only since a drive was full, it says
    /// so: whoever frees room need not look after the drive.
    pub fn errno(&self, error: &Error) -> i32 {
        match (error, self.failure()) {
            (Error::Latched(_), Some(Error::Device(DeviceError { errno, .. })))
                if NO_ROOM.contains(&errno) =>
            {
                errno
            }
            _ => error.errno(),
        }
    }

    fn failed(&self, doing: &'static str) -> impl Fn(Error) -> DeviceError {
        move |error| match error {
            Error::Device(error) => error,
            error => DeviceError { doing, errno: self.errno(&error) },
        }
    }
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Device for Volume<E, A, H, L> {
    /// Whoever lays something out on it finds sectors as drives have them. It takes any range of bytes all the same.
    fn geometry(&self) -> Geometry {
        Geometry { size_bytes: self.size_bytes(), sector_bytes: 512, atomic_sectors: true }
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.read(offset, into).await.map_err(self.failed("read a volume"))
    }

    fn try_read_cached(&self, offset: u64, into: &mut [u8]) -> usize {
        if self.try_read(offset, into) { into.len() } else { 0 }
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), DeviceError> {
        self.write(offset, bytes, durability).await.map_err(self.failed("write a volume"))
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), DeviceError> {
        self.flush(scope).await.map_err(self.failed("flush a volume"))
    }

    /// What is discarded reads as zeros: a volume gives the places of whole pages back.
    async fn discard(&self, extent: Extent) -> Result<(), DeviceError> {
        self.write_zeroes(extent, Durability::Buffered).await.map_err(self.failed("discard in a volume"))
    }

    async fn write_zeroes(&self, extent: Extent, durability: Durability) -> Result<(), DeviceError> {
        self.write_zeroes(extent, durability).await.map_err(self.failed("zero a volume"))
    }
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Drive for Volume<E, A, H, L> {}
