//! Files that must not outlive the work: removed when their guard is dropped (at the end, at an error, at a
//! panic) and when a second signal ends the process.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn live() -> MutexGuard<'static, Vec<PathBuf>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The promise that the file at a path will be removed.
#[derive(Debug)]
pub struct ScratchFile {
    path: PathBuf,
}

impl ScratchFile {
    /// Takes charge of `path`, which `create` makes. The path is known to be ours before the file exists, so
    /// that no instant leaves it behind; what a failing `create` left is removed too, unless it was there first.
    ///
    /// # Errors
    ///
    /// Those of `create`.
    pub fn make<T>(path: &Path, create: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<(Self, T)> {
        if path.symlink_metadata().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        live().push(path.to_owned());
        match create(path) {
            Ok(made) => Ok((Self { path: path.to_owned() }, made)),
            Err(error) => {
                // Not ours: someone else made it between the look and the creation.
                if error.kind() == io::ErrorKind::AlreadyExists {
                    forget(path);
                } else {
                    drop(Self { path: path.to_owned() });
                }
                Err(error)
            }
        }
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
    live().retain(|other| other != path);
}

/// Removes every scratch file there is: for a process that is about to leave without unwinding.
pub fn remove_all() {
    for path in live().drain(..) {
        let _gone_already_is_fine = fs::remove_file(path);
    }
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
