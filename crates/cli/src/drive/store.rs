//! A drive's bytes in a file instead of in memory.
//!
//! 1. The file has no name once it is open: however the command ends, its room is free again.
//! 2. A file that cannot be read or written is told once, and ends the drive for its clients: they get EIO from then
//!    on, never bytes that are not those they wrote.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use evenkeel_sim::model::store::ByteStore;

use crate::failure::Failure;
use crate::stdout::mention;

/// The file.
#[derive(Debug)]
pub(super) struct FileStore {
    file: File,
    path: PathBuf,
    failed: OnceLock<()>,
}

impl FileStore {
    /// Makes it at `path`, where nothing may be.
    pub(super) fn new(path: &Path) -> Result<Self, Failure> {
        let mut options = File::options();
        let made = options.read(true).write(true).create_new(true).open(path);
        let file = made.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                Failure::about(path, "it exists already; name another with --file: a drive begins empty")
            }
            _ => Failure::about(path, error),
        })?;
        fs::remove_file(path).map_err(|error| Failure::about(path, error))?;
        Ok(Self { file, path: path.to_owned(), failed: OnceLock::new() })
    }

    /// Whether bytes were lost.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.get().is_some()
    }

    fn fail(&self, error: &io::Error) {
        if self.failed.set(()).is_ok() {
            mention(&format!(
                "evenkeel: {}: {error}; the drive answers with errors from here on",
                self.path.display()
            ));
        }
    }
}

impl ByteStore for FileStore {
    fn read(&self, offset: u64, into: &mut [u8]) {
        let mut done = 0;
        while done < into.len() {
            match self.file.read_at(&mut into[done..], offset + done as u64) {
                // Beyond what was written.
                Ok(0) => return into[done..].fill(0),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.fail(&error);
                    return into[done..].fill(0);
                }
            }
        }
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        if let Err(error) = self.file.write_all_at(bytes, offset) {
            self.fail(&error);
        }
    }
}
