//! One study at a time in a folder.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Held as long as the study runs; the file goes with it.
pub(super) struct FolderLock {
    path: PathBuf,
    _file: File,
}

impl FolderLock {
    /// Takes the lock.
    pub(super) fn take(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join("study.lock");
        let file = File::create(&path).map_err(|error| Failure::about(&path, error))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path, _file: file }),
            Err(TryLockError::WouldBlock) => Err(Failure::about(
                folder,
                "a study is running here; wait for its end, or name another folder",
            )),
            Err(TryLockError::Error(error)) => Err(Failure::about(&path, error)),
        }
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        let _gone_already_is_fine = std::fs::remove_file(&self.path);
    }
}
