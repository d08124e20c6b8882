//! Files that must not outlive the work: removed when their guard is dropped (at the end, at an error, at a
//! panic) and when a second signal ends the process.

pub mod device_image;
pub mod kernel_setting;
pub mod loop_device;
pub mod mounted;
pub mod undo;

use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static LIVE: Mutex<Live> = Mutex::new(Live { paths: Vec::new(), closed: false });

struct Live {
    paths: Vec<PathBuf>,
    /// Set when the process is about to leave: nothing is made any more.
    closed: bool,
}

fn live() -> MutexGuard<'static, Live> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The promise that the file at a path will be removed.
#[derive(Debug)]
pub struct ScratchFile {
    path: PathBuf,
}

impl ScratchFile {
    /// Makes the file at `path` by `create` and takes charge of it. No instant leaves it behind: whoever
    /// removes all files waits until it is made, or finds nothing being made. What a failing `create` left is
    /// removed too, unless it was there first.
    ///
    /// # Errors
    ///
    /// Those of `create`; `Interrupted` when the process is about to leave.
    pub fn make<T>(path: &Path, create: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<(Self, T)> {
        let mut live = live();
        if live.closed {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if path.symlink_metadata().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        match create(path) {
            Ok(made) => {
                live.paths.push(path.to_owned());
                Ok((Self { path: path.to_owned() }, made))
            }
            Err(error) => {
                // Made by someone else between the look and the creation: not ours.
                if error.kind() != io::ErrorKind::AlreadyExists {
                    let _not_made_is_fine = fs::remove_file(path);
                }
                Err(error)
            }
        }
    }

    /// Leaves the file where it is: it is whole, and no longer scratch.
    pub fn keep(self) {
        forget(&self.path);
        // Nothing is left to do for `drop`, which would remove the file.
        drop(std::mem::take(&mut std::mem::ManuallyDrop::new(self).path));
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        let _gone_already_is_fine = fs::remove_file(&self.path);
        forget(&self.path);
    }
}

fn forget(path: &Path) {
    live().paths.retain(|other| other != path);
}

/// Removes every scratch file there is, for a process that is about to leave without unwinding; none is made
/// after it.
pub fn remove_all() {
    let mut live = live();
    live.closed = true;
    for path in live.paths.drain(..) {
        let _gone_already_is_fine = fs::remove_file(path);
    }
}

/// Gives a new file the owner, the group and the mode of `like`, durably.
pub(crate) fn give(file: &File, like: &Metadata) -> io::Result<()> {
    let mut mode = like.mode() & 0o777;
    let found = file.metadata()?;
    if (found.uid(), found.gid()) != (like.uid(), like.gid()) {
        match fchown(file, Some(like.uid()), Some(like.gid())) {
            // A group that its owner is not in: it stays this user's, and of no use to another group.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && found.uid() == like.uid() => {
                mode &= !0o070;
            }
            given => given?,
        }
    }
    file.set_permissions(Permissions::from_mode(mode))?;
    file.sync_all()
}

/// Makes a folder's entries durable, so that the work of a creation or removal is done now and not during a
/// later measurement.
///
/// # Errors
///
/// Those of `open` and `fsync`.
pub fn settle_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        // Some file systems (9p, FUSE) cannot sync a folder.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_file_goes_with_its_guard_even_when_its_creation_fails_halfway() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scratch");
        let (guard, ()) = ScratchFile::make(&path, |path| fs::write(path, "x")).unwrap();
        assert!(path.exists());
        drop(guard);
        assert!(!path.exists());

        let halfway = ScratchFile::make(&path, |path| {
            fs::write(path, "x")?;
            Err::<(), _>(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(halfway.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_was_there_before_is_refused_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious");
        fs::write(&path, "precious").unwrap();
        let refused = ScratchFile::make(&path, |path| fs::write(path, "x"));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }
}
