//! Making a file for a drive, with all the room that it will need.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use evenkeel_engine::device::{Device, Durability, Extent, FlushScope};
use evenkeel_engine::error::DeviceError;
use rustix::fs::{FallocateFlags, IFlags, ioctl_getflags};

use super::{DriveOptions, FileDrive};
use crate::durable_file::is_block_device;
use crate::event_loop::Loop;
use crate::path_error::PathError;
use crate::scratch::{ScratchFile, give, settle_folder};
use crate::stack::mounts::{Mount, mount_of};
use crate::stack::stored_in_place;
use crate::stack::{StackProbe, check_space};

/// Asks a file system that writes elsewhere what was written before to write this file, which is empty, in place: else
/// reserved room is none.
fn write_in_place(file: &File, path: &Path) {
    if !is_written_in_place(file, path) {
        stored_in_place::exempt(file);
    }
}

/// Whether a write to the file at `path` needs no room but what the file has. A device has all of its own.
pub fn needs_no_more_room(path: &Path) -> bool {
    is_block_device(path) || File::open(path).is_ok_and(|file| is_written_in_place(&file, path))
}

/// Where the system keeps the nodes of devices.
const DEVICES: &str = "/dev";

/// Whether a file at `path`, where nothing is yet, would lie among the nodes of devices: it is gone with the machine's next
/// start, and whoever names one there means a device.
pub fn is_among_devices(path: &Path) -> bool {
    let Some((folder, mount)) = mount_for(path) else { return false };
    // Other file systems may be mounted below, as /dev/shm is.
    let is_below = mount.mount_point != Path::new(DEVICES) && mount.mount_point.starts_with(DEVICES);
    mount.file_system == "devtmpfs" || folder.starts_with(DEVICES) && !is_below
}

/// The file system of a file at `path`, there or not, where it is in the machine's memory.
pub fn memory_file_system(path: &Path) -> Option<String> {
    let mount = mount_for(path).filter(|_| !is_block_device(path))?.1;
    ["tmpfs", "ramfs", "devtmpfs"].contains(&mount.file_system.as_str()).then_some(mount.file_system)
}

/// The folder that `path` is in, or the nearest above that is there; and what is mounted there.
fn mount_for(path: &Path) -> Option<(PathBuf, Mount)> {
    let path = std::path::absolute(path).ok()?;
    let above = path.canonicalize().ok().and_then(|path| Some(path.parent()?.to_owned()));
    let folder = above.or_else(|| path.ancestors().skip(1).find_map(|above| above.canonicalize().ok()))?;
    let mount = mount_of(&folder).ok()?;
    Some((folder, mount))
}

/// Whether a write to that of an open file needs no more.
fn is_written_in_place(file: &File, path: &Path) -> bool {
    let copies = StackProbe::of(path).is_ok_and(|found| found.stack.copies_on_write());
    !copies || ioctl_getflags(file).is_ok_and(|flags| flags.contains(IFlags::NOCOW))
}

/// Bytes that are written between two reports of progress.
const STRIDE_BYTES: u64 = 8 << 20;

/// What a new file is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Blocks are reserved (`fallocate`): the first write to each still changes metadata.
    Reserved,
    /// All of it is written: no later write changes metadata.
    Written,
    /// Nothing: it takes room where something is written, if there is any then.
    Sparse,
}

impl FileDrive {
    /// Makes the file `path` of `size_bytes`, durably, and opens it. `progress` is told bytes that are written
    /// and bytes in all. If it fails, is given up, or a second signal ends the process, nothing is left.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` over anything that exists; `StorageFull`; as [`Self::open`].
    pub async fn create(
        event_loop: &Loop,
        path: &Path,
        size_bytes: u64,
        fill: Fill,
        options: DriveOptions,
        progress: impl FnMut(u64, u64),
    ) -> Result<Self, PathError> {
        let made = Self::create_scratch(event_loop, path, size_bytes, fill, options, progress).await;
        made.map(|(drive, guard)| {
            guard.keep();
            drive
        })
    }

    /// As [`Self::create`], of a file that goes with its guard unless that is told to keep it.
    ///
    /// # Errors
    ///
    /// As [`Self::create`].
    pub async fn create_scratch(
        event_loop: &Loop,
        path: &Path,
        size_bytes: u64,
        fill: Fill,
        options: DriveOptions,
        progress: impl FnMut(u64, u64),
    ) -> Result<(Self, ScratchFile), PathError> {
        Self::create_scratch_like(event_loop, path, size_bytes, fill, options, None, progress).await
    }

    /// The same; it has the owner, the group and the mode of `like`, if that is given.
    ///
    /// # Errors
    ///
    /// As [`Self::create`]; where this user may not give it away.
    pub(crate) async fn create_scratch_like(
        event_loop: &Loop,
        path: &Path,
        size_bytes: u64,
        fill: Fill,
        options: DriveOptions,
        like: Option<&Metadata>,
        progress: impl FnMut(u64, u64),
    ) -> Result<(Self, ScratchFile), PathError> {
        let failed = |doing| move |error: io::Error| PathError::new(path, doing, error);
        let made = ScratchFile::make(path, |path| {
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
        });
        let (guard, file) = made.map_err(failed("cannot make the file"))?;
        if let Some(like) = like {
            give(&file, like).map_err(failed("cannot give the file to the volume's owner"))?;
        }
        write_in_place(&file, path);
        if fill != Fill::Sparse {
            check_space(path, size_bytes).map_err(failed("no room for the file"))?;
        }
        file.set_len(size_bytes).map_err(failed("cannot make it that large"))?;
        if fill != Fill::Sparse {
            match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size_bytes) {
                // Written, it takes its room all the same.
                Err(rustix::io::Errno::OPNOTSUPP) if fill == Fill::Written => {}
                other => other.map_err(|error| failed("cannot reserve room")(error.into()))?,
            }
        }
        let drive = Self::open(event_loop, path, options)?;
        if fill == Fill::Written {
            let all = Extent::new(0, drive.geometry().size_bytes);
            let written = drive.write_zeros(all, progress).await;
            written
                .map_err(|error| failed("cannot fill the file")(io::Error::from_raw_os_error(error.errno)))?;
        }
        // Also what its size and its blocks are, which a data-only fsync may leave.
        event_loop
            .blocking(move || file.sync_all())
            .await
            .flatten()
            .map_err(failed("cannot make the file durable"))?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        settle_folder(folder.unwrap_or(Path::new("."))).map_err(failed("cannot make its name durable"))?;
        Ok((drive, guard))
    }

    /// Makes the existing file at `path` one of `size_bytes` and opens it. What it held is lost; where there is no room
    /// for it, nothing is.
    ///
    /// # Errors
    ///
    /// `StorageFull`; `WouldBlock` where another drive has it open; as [`Self::open`].
    pub async fn overwrite(
        event_loop: &Loop,
        path: &Path,
        size_bytes: u64,
        fill: Fill,
        options: DriveOptions,
    ) -> Result<Self, PathError> {
        let failed = |doing| move |error: io::Error| PathError::new(path, doing, error);
        let locked = Self::open(event_loop, path, options)?;
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(failed("cannot open"))?;
        let found = file.metadata().map_err(failed("cannot look at it"))?;
        let has_bytes = found.blocks().saturating_mul(512);
        if fill != Fill::Sparse {
            check_space(path, size_bytes.saturating_sub(has_bytes))
                .map_err(failed("no room for the file"))?;
        }
        if fill == Fill::Sparse || !is_written_in_place(&file, path) {
            file.set_len(0).map_err(failed("cannot empty it"))?;
            write_in_place(&file, path);
        }
        if fill != Fill::Sparse {
            // Beyond its end at first: without room it stays as it is.
            let reserved = rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, size_bytes);
            if let Err(error) = reserved {
                let _what_was_reserved_may_stay = file.set_len(found.len());
                return Err(failed("cannot reserve room")(error.into()));
            }
        }
        file.set_len(size_bytes).map_err(failed("cannot make it that large"))?;
        event_loop
            .blocking(move || file.sync_all())
            .await
            .flatten()
            .map_err(failed("cannot make the file durable"))?;
        // It was opened with another size.
        drop(locked);
        let drive = Self::open(event_loop, path, options)?;
        if fill == Fill::Written {
            let all = Extent::new(0, drive.geometry().size_bytes);
            let written = drive.write_zeros(all, |_, _| ()).await;
            written
                .map_err(|error| failed("cannot fill the file")(io::Error::from_raw_os_error(error.errno)))?;
        }
        Ok(drive)
    }

    /// Writes zeros over `extent` and flushes. `progress` is told bytes that are written and bytes in all.
    ///
    /// # Errors
    ///
    /// Those of the writes and of the flush.
    pub async fn write_zeros(
        &self,
        extent: Extent,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<(), DeviceError> {
        let zeros = vec![0; extent.len.min(STRIDE_BYTES) as usize];
        let mut done = 0;
        while done < extent.len {
            let len = (extent.len - done).min(STRIDE_BYTES);
            self.write(extent.offset + done, &zeros[..len as usize], Durability::Buffered).await?;
            done += len;
            progress(done, extent.len);
        }
        self.flush(FlushScope::Whole).await
    }
}
