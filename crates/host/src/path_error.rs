//! An error of the system with the path that it is about.

use std::io;
use std::path::{Path, PathBuf};

/// What could not be done, where, and why.
#[derive(Debug, thiserror::Error)]
#[error("{}: {doing}: {source}", path.display())]
pub struct PathError {
    /// The file, socket or device.
    pub path: PathBuf,
    /// What was to be done with it.
    pub doing: &'static str,
    /// The cause.
    pub source: io::Error,
}

impl PathError {
    /// The three together.
    pub fn new(path: &Path, doing: &'static str, source: io::Error) -> Self {
        Self { path: path.to_owned(), doing, source }
    }
}
