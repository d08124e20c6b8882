//! The folder on which a file system is mounted.
//!
//! 1. Nothing is hidden that the user did not name: a folder that holds something is refused unless that is asked for.
//! 2. What a server of the same volume left there that was killed is replaced; any other mount, or one that is served, is
//!    not.
//! 3. The kernel reads ahead as far as pages are away: [`reads_ahead`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::statfs;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use super::FILE_SYSTEM_TYPE;
use crate::path_error::PathError;
use crate::stack::mounts;
use crate::volume::VolumeError;

/// A folder on which a file system can be mounted.
#[derive(Debug)]
pub(super) struct MountPoint {
    /// Where it is, absolute and free of links.
    pub(super) at: PathBuf,
    /// Whether the mount of a server that is gone is there, to be replaced.
    pub(super) is_taken_by_dead: bool,
}

/// Looks whether the file system of `source` can be mounted at `path`.
///
/// # Errors
///
/// It is no folder, something is mounted there, or it holds something and `covers_files` is not set.
pub(super) fn look(path: &Path, source: &str, covers_files: bool) -> Result<MountPoint, VolumeError> {
    let refused = |why: &str| VolumeError::Refused(format!("{}: {why}", path.display()));
    // The kernel remembers for long what a folder is like; how full a file system is it asks its server each time.
    if let Err(Errno::NOTCONN | Errno::CONNABORTED) = statfs(path) {
        return dead(path, source);
    }
    let metadata = fs::metadata(path).map_err(|error| PathError::new(path, "cannot be mounted on", error))?;
    if !metadata.is_dir() {
        return Err(refused("it is no folder; name an empty one"));
    }
    let at = path.canonicalize().map_err(|error| PathError::new(path, "cannot be found", error))?;
    let is_taken =
        mounts::is_mount_point(&at).map_err(|error| PathError::new(path, "cannot be looked at", error))?;
    if is_taken {
        return Err(refused("something is mounted there; unmount that first, or name another folder"));
    }
    let mut entries = fs::read_dir(&at).map_err(|error| PathError::new(path, "cannot be read", error))?;
    if !covers_files && entries.next().is_some() {
        return Err(refused(
            "it is not empty, and would be hidden; name an empty folder, or add -o nonempty",
        ));
    }
    Ok(MountPoint { at, is_taken_by_dead: false })
}

/// The same where the server of what is mounted there is gone: it must have been one of `source`.
fn dead(path: &Path, source: &str) -> Result<MountPoint, VolumeError> {
    let cannot_be_looked_at = |error| PathError::new(path, "cannot be looked at", error);
    let at = without_entering(path).map_err(cannot_be_looked_at)?;
    let mount = mounts::mounted_at(&at).map_err(cannot_be_looked_at)?;
    let is_ours = mount.as_ref().is_some_and(|mount| {
        mount.source == source && [FILE_SYSTEM_TYPE, "fuse"].contains(&mount.file_system.as_str())
    });
    if !is_ours {
        let what = mount.map_or_else(|| "something".to_owned(), |mount| mount.source);
        return Err(VolumeError::Refused(format!(
            "{}: {what} is mounted there, and its server is gone; unmount that first: umount {}",
            path.display(),
            path.display()
        )));
    }
    Ok(MountPoint { at, is_taken_by_dead: true })
}

/// Where a folder is, absolute and free of links, though what is mounted there does not answer.
fn without_entering(path: &Path) -> io::Result<PathBuf> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    Ok(parent.canonicalize()?.join(name))
}

/// Has the kernel read this far ahead of programs in what is mounted at `path`, if it would not by itself. By itself it asks for
/// 128 KiB, and for the next ones only when they have come.
///
/// # Errors
///
/// Only root may say so; the mount table cannot be read.
pub(super) fn reads_ahead(path: &Path, bytes: u64) -> io::Result<()> {
    let mount = mounts::mounted_at(path)?.ok_or(io::ErrorKind::NotFound)?;
    // A setting of the mount: it goes with it.
    let setting = Path::new("/sys/class/bdi").join(mount.device_number).join("read_ahead_kb");
    let is_kib = fs::read_to_string(&setting)?.trim().parse::<u64>().map_err(io::Error::other)?;
    match bytes / 1024 {
        kib if kib > is_kib => fs::write(&setting, kib.to_string()),
        _ => Ok(()),
    }
}

/// Unmounts what is at `path` from there; what is open stays until it is closed.
pub(super) fn detach(path: &Path) -> io::Result<()> {
    match unmount(path, UnmountFlags::DETACH) {
        Ok(()) => Ok(()),
        // Only the helper, which is set-user-ID, may do that for a user.
        Err(Errno::PERM) => {
            let done = std::process::Command::new("fusermount3").arg("-uz").arg("--").arg(path).output()?;
            match done.status.success() {
                true => Ok(()),
                false => Err(io::Error::other(String::from_utf8_lossy(&done.stderr).trim().to_owned())),
            }
        }
        Err(error) => Err(error.into()),
    }
}
