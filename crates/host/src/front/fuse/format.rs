//! Makes a file system on a new volume.

use std::path::Path;

use evenkeel_engine::env::Env;
pub use evenkeel_ext2::MountOptions;
use evenkeel_ext2::{FormatOptions, format};

use super::attributes::now;
use crate::event_loop::Loop;
use crate::volume::{OpenVolume, RunOptions, VolumeError};

/// Makes a file system on the volume in `folder`, which is open to nobody; its root belongs to who runs this. What the volume
/// holds is lost.
///
/// # Errors
///
/// Those of opening and closing it; it is too small, or its log is.
pub async fn format_volume(event_loop: &Loop, folder: &Path, run: RunOptions) -> Result<(), VolumeError> {
    let open = OpenVolume::open(event_loop, folder, run).await?;
    let random = || {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&event_loop.random().to_le_bytes()[..8]);
        bytes[8..].copy_from_slice(&event_loop.random().to_le_bytes()[..8]);
        bytes
    };
    let options = FormatOptions {
        uuid: random(),
        hash_seed: random(),
        now: now(),
        owner: (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw()),
        ..FormatOptions::default()
    };
    let made = format(&open.volume, &options).await;
    open.close().await?;
    made.map_err(|error| VolumeError::Refused(format!("{}: {error}", folder.display())))
}
