//! Right bytes from a device that keeps several copies of them.

use crate::device::Device;
use crate::error::DeviceError;
use crate::planted::{Bug, is_planted};

/// Reads `into` from `offset`: the first copy that `is_right` says yes to. Where it was not the one that the device would
/// have given, the others are mended with it. Answers whether there was one; if not, `into` holds any.
///
/// # Errors
///
/// That of the device, where no copy can be read.
pub(crate) async fn read_right<D: Device>(
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
pub(crate) async fn read_another<D: Device>(
    device: &D,
    offset: u64,
    into: &mut [u8],
    is_right: impl Fn(&[u8]) -> bool,
    mut read: Result<(), DeviceError>,
) -> Result<bool, DeviceError> {
    let copies = device.copies();
    for copy in (0..copies).filter(|_| copies > 1) {
        let this = device.read_copy(copy, offset, into).await;
        if this.is_ok() && (is_right(into) || is_planted(Bug::CopyUnchecked)) {
            device.mend(offset, into).await?;
            return Ok(true);
        }
        read = read.and(Ok(())).or(this);
    }
    read.map(|()| false)
}
