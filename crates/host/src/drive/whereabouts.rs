//! Whether the path of a drive still leads to the file or device that it has open.
//!
//! 1. A file without a name is known from its descriptor alone, at once. Where a path leads is a question to the file
//!    system, which may not answer: [`OpenFile`] can be asked on another thread.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::FileType;

use super::FileDrive;

/// What the kernel writes behind the name of a file that was removed.
const DELETED: &str = " (deleted)";

/// A file or device that is open, and the path by which it was opened.
#[derive(Debug, Clone)]
pub(crate) struct OpenFile {
    path: PathBuf,
    descriptor: RawFd,
    identity: Identity,
}

/// Which file or device it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Identity {
    /// Of a file: the device and the inode.
    File(u64, u64),
    /// Of a block device, which may have several nodes: its number.
    Device(u64),
}

impl FileDrive {
    /// What it has open.
    pub(crate) fn open_file(&self) -> &OpenFile {
        &self.0.opened
    }

    /// Whether its path leads to it, and to no other file; to the same device by another node of it, too. Asked on another thread.
    pub async fn is_still_at_its_path(&self) -> bool {
        let file = self.0.opened.clone();
        let asked = self.0.event_loop.blocking(move || file.is_at_its_path()).await;
        asked.ok().flatten().unwrap_or(false)
    }

    /// Whether it is a file without a name, which is gone once it is closed. Of a file system that may not answer, what the last
    /// write or flush found.
    pub fn is_removed(&self) -> bool {
        match self.0.aside {
            Some(_) => self.0.is_removed.get(),
            None => {
                let found = || rustix::fs::fstat(&self.0.file);
                !self.0.is_block_device && found().is_ok_and(|found| found.st_nlink == 0)
            }
        }
    }
}

impl OpenFile {
    /// `file`, opened by `path`, for as long as it stays open.
    ///
    /// # Errors
    ///
    /// Those of `fstat`.
    pub(crate) fn of(path: PathBuf, file: &impl AsFd) -> io::Result<Self> {
        let file = file.as_fd();
        let found = rustix::fs::fstat(file)?;
        let identity = match FileType::from_raw_mode(found.st_mode) {
            FileType::BlockDevice => Identity::Device(found.st_rdev),
            _ => Identity::File(found.st_dev, found.st_ino),
        };
        Ok(Self { path, descriptor: file.as_raw_fd(), identity })
    }

    /// Whether it is a file, and no device.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.identity, Identity::File(..))
    }

    /// The same with its path below `folder`, unless it has one from the root on.
    pub(crate) fn below(self, folder: &Path) -> Self {
        Self { path: folder.join(&self.path), ..self }
    }

    /// The path by which it was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its descriptor, as /proc names it.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.descriptor
    }

    /// Whether its path leads to it; `None` where that cannot be told.
    pub(crate) fn is_at_its_path(&self) -> Option<bool> {
        match fs::metadata(&self.path) {
            Ok(found) => Some(match self.identity {
                Identity::File(device, inode) => (found.dev(), found.ino()) == (device, inode),
                Identity::Device(number) => found.rdev() == number,
            }),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Some(false)
            }
            Err(_) => None,
        }
    }

    /// Its path by now, as far as the kernel knows one.
    pub(crate) fn path_now(&self) -> Option<PathBuf> {
        let path = fs::read_link(format!("/proc/self/fd/{}", self.descriptor)).ok()?;
        let has_name = !path.as_os_str().as_encoded_bytes().ends_with(DELETED.as_bytes());
        (has_name && path != self.path).then_some(path)
    }
}
