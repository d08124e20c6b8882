//! What a workload needs of a file system.

use std::io;

use evenkeel_host::data_folder::DataFolder;

/// A folder of files, named relative to it.
pub trait Files: Sync {
    /// An open file.
    type File: Send + Sync;

    /// Makes a folder.
    ///
    /// # Errors
    ///
    /// Those of the system, as with all of these.
    fn make_folder(&self, name: &str) -> io::Result<()>;
    /// Makes a file that is not there, and opens it for writing.
    fn create(&self, name: &str) -> io::Result<Self::File>;
    /// Opens a file that is there, for reading and, if so told, for appending.
    fn open(&self, name: &str, writable: bool) -> io::Result<Self::File>;
    /// Writes all of `bytes` at the file's end.
    fn append(&self, file: &Self::File, bytes: &[u8]) -> io::Result<()>;
    /// Reads the file from its first byte to its last, and says how many there were; `thread` is the caller's number.
    fn read_whole(&self, file: &Self::File, thread: usize) -> io::Result<u64>;
    /// Makes the file durable.
    fn fsync(&self, file: &Self::File) -> io::Result<()>;
    /// Closes it.
    fn close(&self, file: Self::File) -> io::Result<()>;
    /// Cuts it to nothing.
    fn empty(&self, file: &Self::File) -> io::Result<()>;
    /// Removes a file.
    fn delete(&self, name: &str) -> io::Result<()>;
    /// The size of a file.
    fn stat(&self, name: &str) -> io::Result<u64>;
}

impl Files for DataFolder {
    type File = std::fs::File;

    fn make_folder(&self, name: &str) -> io::Result<()> {
        DataFolder::make_folder(self, name)
    }

    fn create(&self, name: &str) -> io::Result<Self::File> {
        DataFolder::create(self, name)
    }

    fn open(&self, name: &str, writable: bool) -> io::Result<Self::File> {
        DataFolder::open(self, name, writable)
    }

    fn append(&self, file: &Self::File, bytes: &[u8]) -> io::Result<()> {
        DataFolder::append(file, bytes)
    }

    fn read_whole(&self, file: &Self::File, thread: usize) -> io::Result<u64> {
        DataFolder::read_whole(self, file, thread)
    }

    fn fsync(&self, file: &Self::File) -> io::Result<()> {
        DataFolder::fsync(file)
    }

    fn close(&self, file: Self::File) -> io::Result<()> {
        drop(file);
        Ok(())
    }

    fn empty(&self, file: &Self::File) -> io::Result<()> {
        DataFolder::empty(file)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        DataFolder::delete(self, name)
    }

    fn stat(&self, name: &str) -> io::Result<u64> {
        DataFolder::stat(self, name)
    }
}
