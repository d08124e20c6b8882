//! One device or another: whichever it is, it is asked.

use std::rc::{Rc, Weak};

use crate::device::{Device, DeviceState, Durability, Extent, FlushScope, Geometry, Judge, Remembered};
use crate::error::{DeviceError, Error};

/// A device of one kind or of another, which others may have a hold of too. A clone is another handle to the same.
#[derive(Debug)]
pub enum Either<A, B> {
    /// Of the one kind.
    One(Rc<A>),
    /// Of the other.
    Other(Rc<B>),
}

impl<A, B> Clone for Either<A, B> {
    fn clone(&self) -> Self {
        match self {
            Self::One(device) => Self::One(Rc::clone(device)),
            Self::Other(device) => Self::Other(Rc::clone(device)),
        }
    }
}

macro_rules! of_either {
    ($device:ident, $it:ident => $call:expr) => {
        match $device {
            Self::One($it) => $call,
            Self::Other($it) => $call,
        }
    };
}

impl<A: Device, B: Device> Device for Either<A, B> {
    fn geometry(&self) -> Geometry {
        of_either!(self, it => it.geometry())
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        of_either!(self, it => it.read(offset, into).await)
    }

    async fn read_cached(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        of_either!(self, it => it.read_cached(offset, into).await)
    }

    fn try_read_cached(&self, offset: u64, into: &mut [u8]) -> usize {
        of_either!(self, it => it.try_read_cached(offset, into))
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), DeviceError> {
        of_either!(self, it => it.write(offset, bytes, durability).await)
    }

    async fn write_parts(
        &self,
        offset: u64,
        parts: &[&[u8]],
        durability: Durability,
    ) -> Result<(), DeviceError> {
        of_either!(self, it => it.write_parts(offset, parts, durability).await)
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), DeviceError> {
        of_either!(self, it => it.flush(scope).await)
    }

    async fn enlarge(&self, size_bytes: u64) -> Result<(), Error> {
        of_either!(self, it => it.enlarge(size_bytes).await)
    }

    async fn discard(&self, extent: Extent) -> Result<(), DeviceError> {
        of_either!(self, it => it.discard(extent).await)
    }

    fn copies(&self) -> usize {
        of_either!(self, it => it.copies())
    }

    async fn read_copy(&self, copy: usize, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        of_either!(self, it => it.read_copy(copy, offset, into).await)
    }

    fn has_copy(&self, copy: usize) -> bool {
        of_either!(self, it => it.has_copy(copy))
    }

    async fn copy_at_rest(&self, copy: usize) {
        of_either!(self, it => it.copy_at_rest(copy).await);
    }

    async fn mend(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        of_either!(self, it => it.mend(offset, bytes).await)
    }

    fn rely_on(&self, judge: Weak<dyn Judge>) {
        of_either!(self, it => it.rely_on(judge));
    }

    fn state(&self) -> Option<DeviceState> {
        of_either!(self, it => it.state())
    }

    fn is_in_parts(&self) -> bool {
        of_either!(self, it => it.is_in_parts())
    }

    fn wants_checkpoint(&self) -> bool {
        of_either!(self, it => it.wants_checkpoint())
    }

    fn goes_on_with(&self, sequence: u64) {
        of_either!(self, it => it.goes_on_with(sequence));
    }

    fn is_about_to_close(&self) {
        of_either!(self, it => it.is_about_to_close());
    }

    async fn is_all_there(&self) -> Result<(), Error> {
        of_either!(self, it => it.is_all_there().await)
    }

    async fn format(&self, volume: u64) -> Result<(), DeviceError> {
        of_either!(self, it => it.format(volume).await)
    }

    async fn resume(&self, remembered: Remembered, epoch: u64) -> Result<(), Error> {
        of_either!(self, it => it.resume(remembered, epoch).await)
    }

    fn note_superblock(&self, generation: u64) {
        of_either!(self, it => it.note_superblock(generation));
    }

    fn note_fill(&self, fill: f64) {
        of_either!(self, it => it.note_fill(fill));
    }

    async fn begins(&self) -> Result<(), DeviceError> {
        of_either!(self, it => it.begins().await)
    }

    async fn ends(&self, left: Option<(u64, &[u8])>) -> Result<(), DeviceError> {
        of_either!(self, it => it.ends(left).await)
    }
}
