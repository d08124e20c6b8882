//! Right bytes from a store that keeps several replicas of them.

use super::Replicated;
use crate::error::DeviceError;
use crate::planted::{Bug, is_planted};

/// Reads `into` from `offset`: the first replica that `is_right` says yes to. Where it was not the one that the device would
/// have given, the others are repaired with it. Answers whether there was one; if not, `into` holds any.
///
/// # Errors
///
/// That of the device, where no replica can be read.
pub(crate) async fn read_right<D: Replicated>(
    device: &D,
    offset: u64,
    into: &mut [u8],
    is_right: impl Fn(&[u8]) -> bool,
) -> Result<bool, DeviceError> {
    let read = device.read(offset, into).await;
    if read.is_ok() && is_right(into) {
        return Ok(true);
    }
    // Boxed: it is rare, and every read would carry room for it.
    Box::pin(read_another(device, offset, into, is_right, read)).await
}

/// As [`read_right`], where what the device gave was this, and not right.
pub(crate) async fn read_another<D: Replicated>(
    device: &D,
    offset: u64,
    into: &mut [u8],
    is_right: impl Fn(&[u8]) -> bool,
    mut read: Result<(), DeviceError>,
) -> Result<bool, DeviceError> {
    let replicas = device.replicas();
    for replica in (0..replicas).filter(|_| replicas > 1) {
        let this = device.read_replica(replica, offset, into).await;
        if this.is_ok() && (is_right(into) || is_planted(Bug::CopyUnchecked)) {
            device.repair(offset, into).await?;
            return Ok(true);
        }
        read = read.and(Ok(())).or(this);
    }
    read.map(|()| false)
}
