//! What lies below a volume: one drive, or several behind which each byte has copies.

use std::rc::{Rc, Weak};

use evenkeel_engine::device::{Device, DeviceState, Durability, Extent, FlushScope, Geometry, Judge};
use evenkeel_engine::error::{DeviceError, Error};
use evenkeel_engine::mirror_log::MirrorLog;
use evenkeel_engine::ring::Ring;

use super::member::MemberDrive;
use super::mirror::MirrorDrive;
use crate::event_loop::Loop;

/// The ring of a mirror's members.
pub type MemberRing = Ring<Loop, MirrorDrive>;

/// The log of a mirror: on devices of its own, or on the members.
pub type LogDevices = MirrorLog<Loop, MirrorDrive, MirrorDrive>;

/// Where a volume's pages are.
pub type HomeDevice = OneOrSeveral<MemberDrive, MemberRing>;

/// Where its log is.
pub type LogDevice = OneOrSeveral<MemberDrive, LogDevices>;

/// One device, or a device that stands for several.
#[derive(Debug)]
pub enum OneOrSeveral<D, S> {
    /// One, which may be more than one thing to its volume.
    One(Rc<D>),
    /// Several.
    Several(S),
}

macro_rules! of_either {
    ($device:ident, $it:ident => $call:expr) => {
        match $device {
            Self::One($it) => $call,
            Self::Several($it) => $call,
        }
    };
}

impl<D: Device, S: Device> Device for OneOrSeveral<D, S> {
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

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), DeviceError> {
        of_either!(self, it => it.flush(scope).await)
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

    async fn resume(&self, volume: u64, state: DeviceState, epoch: u64) -> Result<(), Error> {
        of_either!(self, it => it.resume(volume, state, epoch).await)
    }
}
