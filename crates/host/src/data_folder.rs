//! A folder of files as a workload uses them: named relative to it, one call of the kernel for each thing done.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

/// The folder.
#[derive(Debug)]
pub struct DataFolder(OwnedFd);

impl DataFolder {
    /// One that is there.
    ///
    /// # Errors
    ///
    /// Those of `open`.
    pub fn at(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::openat(CWD, path, flags, Mode::empty())?))
    }

    /// Makes a folder in it.
    ///
    /// # Errors
    ///
    /// Those of `mkdir`.
    pub fn make_folder(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o755))?)
    }

    /// Makes a file that is not there, for writing.
    ///
    /// # Errors
    ///
    /// Those of `open`.
    pub fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::APPEND | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.0, name, flags, Mode::from_raw_mode(0o644))?.into())
    }

    /// Opens a file for reading and, if `writable`, for appending.
    ///
    /// # Errors
    ///
    /// Those of `open`.
    pub fn open(&self, name: &str, writable: bool) -> io::Result<File> {
        let access = if writable { OFlags::RDWR | OFlags::APPEND } else { OFlags::RDONLY };
        Ok(rustix::fs::openat(&self.0, name, access | OFlags::CLOEXEC, Mode::empty())?.into())
    }

    /// Writes all of `bytes` at the end of a file.
    ///
    /// # Errors
    ///
    /// Those of `write`.
    pub fn append(file: &File, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match rustix::io::write(file, bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads a file from its first byte to its last, a buffer at a time.
    ///
    /// # Errors
    ///
    /// Those of `pread`.
    pub fn read_whole(file: &File, buffer: &mut [u8]) -> io::Result<u64> {
        let mut at = 0;
        loop {
            match rustix::io::pread(file, &mut *buffer, at) {
                // Less than there was room for is the rest of a file.
                Ok(read) if read < buffer.len() => return Ok(at + read as u64),
                Ok(read) => at += read as u64,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Makes a file durable.
    ///
    /// # Errors
    ///
    /// Those of `fsync`.
    pub fn fsync(file: &File) -> io::Result<()> {
        Ok(rustix::fs::fsync(file)?)
    }

    /// Cuts a file to nothing.
    ///
    /// # Errors
    ///
    /// Those of `ftruncate`.
    pub fn empty(file: &File) -> io::Result<()> {
        Ok(rustix::fs::ftruncate(file, 0)?)
    }

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// Those of `unlink`.
    pub fn delete(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    /// The size of a file.
    ///
    /// # Errors
    ///
    /// Those of `stat`.
    pub fn stat(&self, name: &str) -> io::Result<u64> {
        Ok(rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?.st_size as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_made_appended_to_read_and_removed() {
        let place = tempfile::tempdir().unwrap();
        let folder = DataFolder::at(place.path()).unwrap();
        folder.make_folder("d").unwrap();
        let file = folder.create("d/f").unwrap();
        assert_eq!(folder.create("d/f").unwrap_err().kind(), ErrorKind::AlreadyExists);
        DataFolder::append(&file, b"one").unwrap();
        DataFolder::append(&folder.open("d/f", true).unwrap(), b"more").unwrap();
        let mut buffer = [0; 4];
        assert_eq!(DataFolder::read_whole(&file, &mut buffer).unwrap(), 7);
        DataFolder::fsync(&file).unwrap();
        assert_eq!(folder.stat("d/f").unwrap(), 7);
        let reader = folder.open("d/f", false).unwrap();
        assert!(DataFolder::append(&reader, b"x").is_err());
        DataFolder::empty(&file).unwrap();
        assert_eq!(DataFolder::read_whole(&file, &mut buffer).unwrap(), 0);
        folder.delete("d/f").unwrap();
        assert_eq!(folder.stat("d/f").unwrap_err().kind(), ErrorKind::NotFound);
    }
}
