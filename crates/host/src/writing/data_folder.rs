//! A folder of files as a workload uses them: named relative to it, one call of the kernel for each thing done.
//!
//! What is read goes into memory that nobody looks at and that readers share: a hundred readers with a buffer each would
//! take more memory than a workload may have together with its page cache.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::ptr::{NonNull, null_mut};
use std::thread;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// A file is read in units of up to this.
const UNIT_BYTES: usize = 1 << 20;
/// Sinks there are at most.
const SINKS_MAX: usize = 8;

/// The folder.
#[derive(Debug)]
pub struct DataFolder {
    folder: OwnedFd,
    /// As many as there are processors, so that they do not take lines of their caches from one another.
    sinks: Vec<Sink>,
}

/// Memory that the kernel writes what is read to, and that is never read.
#[derive(Debug)]
struct Sink(NonNull<c_void>);

// SAFETY: the memory is only ever handed to the kernel to write to; that several threads do so at once leaves in it what
// it may, since nobody reads it.
unsafe impl Send for Sink {}
// SAFETY: as above.
unsafe impl Sync for Sink {}

impl Sink {
    fn new() -> io::Result<Self> {
        // SAFETY: a new mapping at a place of the kernel's choice touches no memory that anybody has.
        let memory = unsafe {
            mmap_anonymous(null_mut(), UNIT_BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        }?;
        NonNull::new(memory).map(Self).ok_or_else(|| ErrorKind::OutOfMemory.into())
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nobody else knows.
        let _nothing_to_do_about_it = unsafe { munmap(self.0.as_ptr(), UNIT_BYTES) };
    }
}

impl DataFolder {
    /// One that is there.
    ///
    /// # Errors
    ///
    /// Those of `open`.
    pub fn at(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        let sinks = thread::available_parallelism().map_or(1, usize::from).min(SINKS_MAX);
        Ok(Self { folder, sinks: (0..sinks).map(|_| Sink::new()).collect::<io::Result<_>>()? })
    }

    /// Makes a folder in it.
    ///
    /// # Errors
    ///
    /// Those of `mkdir`.
    pub fn make_folder(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::mkdirat(&self.folder, name, Mode::from_raw_mode(0o755))?)
    }

    /// Makes a file that is not there, for writing.
    ///
    /// # Errors
    ///
    /// Those of `open`.
    pub fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::APPEND | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.folder, name, flags, Mode::from_raw_mode(0o644))?.into())
    }

    /// Opens a file for reading and, if `writable`, for appending.
    ///
    /// # Errors
    ///
    /// Those of `open`.
    pub fn open(&self, name: &str, writable: bool) -> io::Result<File> {
        let access = if writable { OFlags::RDWR | OFlags::APPEND } else { OFlags::RDONLY };
        Ok(rustix::fs::openat(&self.folder, name, access | OFlags::CLOEXEC, Mode::empty())?.into())
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

    /// Reads a file from its first byte to its last, in units of up to 1 MiB, and says how many there were; `reader` is
    /// the number of the caller's thread.
    ///
    /// # Errors
    ///
    /// Those of `pread`.
    pub fn read_whole(&self, file: &File, reader: usize) -> io::Result<u64> {
        let sink = &self.sinks[reader % self.sinks.len()];
        let mut at: u64 = 0;
        loop {
            let from = libc::off_t::try_from(at).map_err(|_| ErrorKind::FileTooLarge)?;
            // SAFETY: the sink has as many bytes as are asked for, and nobody reads them.
            let read = unsafe { libc::pread(file.as_raw_fd(), sink.0.as_ptr(), UNIT_BYTES, from) };
            match usize::try_from(read) {
                // Less than there was room for is the rest of a file.
                Ok(read) if read < UNIT_BYTES => return Ok(at + read as u64),
                Ok(read) => at += read as u64,
                Err(_) => match io::Error::last_os_error() {
                    error if error.kind() == ErrorKind::Interrupted => {}
                    error => return Err(error),
                },
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
        Ok(rustix::fs::unlinkat(&self.folder, name, AtFlags::empty())?)
    }

    /// The size of a file.
    ///
    /// # Errors
    ///
    /// Those of `stat`.
    pub fn stat(&self, name: &str) -> io::Result<u64> {
        Ok(rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW)?.st_size as u64)
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
        assert_eq!(folder.read_whole(&file, 5).unwrap(), 7);
        DataFolder::append(&file, &vec![1; 2 * UNIT_BYTES - 7]).unwrap();
        assert_eq!(folder.read_whole(&file, 0).unwrap(), 2 * UNIT_BYTES as u64);
        DataFolder::fsync(&file).unwrap();
        assert_eq!(folder.stat("d/f").unwrap(), 2 * UNIT_BYTES as u64);
        let reader = folder.open("d/f", false).unwrap();
        assert!(DataFolder::append(&reader, b"x").is_err());
        DataFolder::empty(&file).unwrap();
        assert_eq!(folder.read_whole(&file, 0).unwrap(), 0);
        folder.delete("d/f").unwrap();
        assert_eq!(folder.stat("d/f").unwrap_err().kind(), ErrorKind::NotFound);
    }
}
