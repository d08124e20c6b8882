//! A volume's description, locked: nobody else opens the volume meanwhile.
//!
//! 1. Who holds the lock holds that of the file that is there now, also after it was written anew.

use std::cell::RefCell;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use super::arenas::holder::{Holder, holder};
use super::description::{Description, FILE_NAME};
use super::{STATUS_SOCKET, VolumeError};
use crate::drive::OpenFile;
use crate::net::connect_unix_at_once;
use crate::path_error::PathError;
use crate::scratch::give;

/// How long a process that was just killed is waited for: the kernel ends its I/O after its death is told.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the server of a volume has to say something.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// The description, and its lock.
#[derive(Debug)]
pub(crate) struct Described {
    folder: PathBuf,
    description: RefCell<Description>,
    lock: RefCell<File>,
}

impl Described {
    /// Reads the description and keeps every other process from opening the volume.
    ///
    /// # Errors
    ///
    /// As [`Description::read`]; [`VolumeError::InUse`].
    pub(super) fn lock(folder: &Path) -> Result<Self, VolumeError> {
        Self::lock_within(folder, PATIENCE)
    }

    /// The same without waiting for anybody.
    pub(super) fn lock_at_once(folder: &Path) -> Result<Self, VolumeError> {
        Self::lock_within(folder, Duration::ZERO)
    }

    fn lock_within(folder: &Path, patience: Duration) -> Result<Self, VolumeError> {
        let began = Instant::now();
        loop {
            // Anew each time: it may be another one by now, after a member was replaced.
            let (description, file) = Description::read(folder)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if is_current(folder, &file) => {
                    let (description, lock) = (RefCell::new(description), RefCell::new(file));
                    return Ok(Self { folder: folder.to_owned(), description, lock });
                }
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) if began.elapsed() >= patience || is_served(folder) => {
                    return Err(VolumeError::InUse(folder.to_owned()));
                }
                Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(10)),
                Err(error) => {
                    let path = folder.join(FILE_NAME);
                    return Err(PathError::new(&path, "cannot lock", io::Error::from(error)).into());
                }
            }
        }
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The description.
    pub(super) fn description(&self) -> Description {
        self.description.borrow().clone()
    }

    /// Writes a changed one, durably.
    ///
    /// # Errors
    ///
    /// As [`Description::rewrite`]; then the one before stays, but with [`VolumeError::Undescribed`].
    pub(super) fn change(&self, change: impl FnOnce(&mut Description)) -> Result<(), VolumeError> {
        let mut changed = self.description();
        change(&mut changed);
        let file = match changed.rewrite(&self.folder) {
            Ok(file) => file,
            Err(error) => return Err(self.stays(error)),
        };
        self.lock.replace(file);
        self.description.replace(changed);
        Ok(())
    }

    /// Has the one before stay after another was not written to its end: it may have its name already.
    fn stays(&self, error: VolumeError) -> VolumeError {
        if is_current(&self.folder, &self.lock.borrow()) {
            return error;
        }
        match self.description.borrow().rewrite(&self.folder) {
            Ok(file) => {
                self.lock.replace(file);
                error
            }
            Err(again) => {
                VolumeError::Undescribed(format!("{error}; what it said before cannot be put back: {again}"))
            }
        }
    }

    /// Its file, which this process holds open.
    ///
    /// # Errors
    ///
    /// Those of `fstat`.
    pub(crate) fn open_file(&self) -> io::Result<OpenFile> {
        OpenFile::of(self.folder.join(FILE_NAME), &*self.lock.borrow())
    }

    /// Whether its file was removed, and nothing is in its place.
    pub(crate) fn is_removed(&self) -> bool {
        let is_nameless = self.lock.borrow().metadata().is_ok_and(|found| found.nlink() == 0);
        let there = self.folder.join(FILE_NAME).symlink_metadata();
        is_nameless && there.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Writes it anew where it was removed.
    ///
    /// # Errors
    ///
    /// As [`Description::rewrite`]: where its folder is gone, too.
    pub(crate) fn put_back(&self) -> Result<(), VolumeError> {
        let failed = |error| PathError::new(&self.folder.join(FILE_NAME), "cannot write it anew", error);
        let before = self.lock.borrow().metadata().map_err(failed)?;
        let file = self.description.borrow().rewrite(&self.folder)?;
        give(&file, &before).map_err(failed)?;
        self.lock.replace(file);
        Ok(())
    }
}

/// Whether a process has the volume in `folder` open, be it to serve it or for anything else.
pub fn is_in_use(folder: &Path) -> bool {
    let Ok((_, file)) = Description::read(folder) else { return false };
    let shared = rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared);
    matches!(shared, Err(rustix::io::Errno::WOULDBLOCK))
}

/// Which process has the volume in `folder` open, where that is seen from here.
pub fn user_of(folder: &Path) -> Option<u32> {
    let (_, file) = Description::read(folder).ok()?;
    match holder(&file) {
        Holder::Process(process) => Some(process),
        Holder::Nobody | Holder::Unknown => None,
    }
}

/// Whether that is the description that is there now.
fn is_current(folder: &Path, file: &File) -> bool {
    let inode = |found: &Metadata| (found.dev(), found.ino());
    let there = folder.join(FILE_NAME).metadata();
    matches!((&there, &file.metadata()), (Ok(there), Ok(ours)) if inode(there) == inode(ours))
}

/// Whether a living process answers for the volume: one that is dying may still be connected to, and says nothing.
fn is_served(folder: &Path) -> bool {
    let Ok(mut stream) = connect_unix_at_once(&folder.join(STATUS_SOCKET)) else { return false };
    stream.set_read_timeout(Some(ANSWER_MAX)).is_ok() && matches!(stream.read(&mut [0]), Ok(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::description::VolumeId;
    use crate::volume::description::tests::sample;

    #[test]
    fn one_that_got_the_name_and_was_not_settled_is_taken_back_and_the_lock_is_that_of_the_file_there() {
        let folder = tempfile::tempdir().unwrap();
        sample().write(folder.path()).unwrap();
        let described = Described::lock(folder.path()).unwrap();
        let mut changed = described.description();
        changed.id = VolumeId(8);
        // The rename was done, and the folder's fsync failed.
        drop(changed.rewrite(folder.path()).unwrap());
        let failed = || VolumeError::Refused("as the drive fails".to_owned());
        assert!(matches!(described.stays(failed()), VolumeError::Refused(_)));
        assert_eq!(Description::read(folder.path()).unwrap().0.id, sample().id);
        assert!(matches!(Described::lock_at_once(folder.path()), Err(VolumeError::InUse(_))));
        // Where nothing got the name, nothing is written.
        let now = folder.path().join(FILE_NAME).metadata().unwrap().ino();
        described.stays(failed());
        assert_eq!(folder.path().join(FILE_NAME).metadata().unwrap().ino(), now);
    }
}
