//! The ways to make a write durable, and the states a file can be in before it is written.
//!
//! Both enums are the vocabulary of the command line, of the reports and of the code: one name each, the
//! same everywhere.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How one synchronous write is made: which flags the file is opened with, and what follows the write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// `O_DIRECT | O_DSYNC`, `pwrite`: past the page cache, data durable on return.
    DirectDsync,
    /// `O_DIRECT | O_SYNC`, `pwrite`: as above, and every metadata change too.
    DirectSync,
    /// `O_DSYNC`, `pwrite` through the page cache.
    Dsync,
    /// `O_DIRECT`, `pwritev2` with `RWF_DSYNC`: durability asked for write by write.
    RwfDsync,
    /// `pwrite` through the page cache, then `fdatasync`.
    Fdatasync,
    /// `pwrite` through the page cache, then `fsync`.
    Fsync,
    /// io_uring: an `O_DIRECT` write linked to a data-only fsync, one system call for both.
    Uring,
}

impl Method {
    /// Every method, in the order the help and the matrix show them.
    pub const ALL: [Self; 7] = [
        Self::DirectDsync,
        Self::DirectSync,
        Self::RwfDsync,
        Self::Uring,
        Self::Dsync,
        Self::Fdatasync,
        Self::Fsync,
    ];

    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::DirectDsync => "direct-dsync",
            Self::DirectSync => "direct-sync",
            Self::Dsync => "dsync",
            Self::RwfDsync => "rwf-dsync",
            Self::Fdatasync => "fdatasync",
            Self::Fsync => "fsync",
            Self::Uring => "uring",
        }
    }

    /// Whether the write goes past the page cache and so must be aligned for the device.
    pub fn is_direct(self) -> bool {
        matches!(self, Self::DirectDsync | Self::DirectSync | Self::RwfDsync | Self::Uring)
    }

    /// The method with the same promise that goes through the page cache: what a write falls back to where
    /// the file system cannot do it directly.
    pub fn buffered(self) -> Self {
        match self {
            Self::DirectDsync | Self::RwfDsync | Self::Uring => Self::Dsync,
            Self::DirectSync => Self::Fsync,
            buffered => buffered,
        }
    }
}

/// What the file is before the synchronous writes begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FileState {
    /// A new, empty file: every write appends and allocates.
    Fresh,
    /// A new file whose blocks `fallocate` has reserved: no allocation, but each first write turns an
    /// unwritten extent into a written one.
    Allocated,
    /// A file already written once and made durable: the writes overwrite, as in a recycled log.
    Written,
}

impl FileState {
    /// Every state, from the most to the least work per write.
    pub const ALL: [Self; 3] = [Self::Fresh, Self::Allocated, Self::Written];

    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Allocated => "allocated",
            Self::Written => "written",
        }
    }
}

/// A name that is none of those expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not one of {expected}")]
pub struct UnknownName {
    given: String,
    expected: String,
}

fn by_name<T: Copy>(given: &str, all: &[T], name: impl Fn(T) -> &'static str) -> Result<T, UnknownName> {
    all.iter().copied().find(|&candidate| name(candidate) == given).ok_or_else(|| UnknownName {
        given: given.to_owned(),
        expected: all.iter().map(|&candidate| name(candidate)).collect::<Vec<_>>().join(", "),
    })
}

impl FromStr for Method {
    type Err = UnknownName;

    fn from_str(given: &str) -> Result<Self, UnknownName> {
        by_name(given, &Self::ALL, Self::name)
    }
}

impl FromStr for FileState {
    type Err = UnknownName;

    fn from_str(given: &str) -> Result<Self, UnknownName> {
        by_name(given, &Self::ALL, Self::name)
    }
}

impl fmt::Display for Method {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

impl fmt::Display for FileState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_on_the_command_line_and_in_json_are_the_same() {
        for method in Method::ALL {
            assert_eq!(method.name().parse(), Ok(method));
        }
        for state in FileState::ALL {
            assert_eq!(state.name().parse(), Ok(state));
        }
        let error = "sync".parse::<Method>().unwrap_err();
        assert!(error.to_string().starts_with("`sync` is not one of direct-dsync, "), "{error}");
    }

    #[test]
    fn a_fallback_goes_through_the_page_cache_and_needs_no_further_fallback() {
        for method in Method::ALL {
            assert!(!method.buffered().is_direct());
            assert_eq!(method.buffered().buffered(), method.buffered());
        }
    }
}
