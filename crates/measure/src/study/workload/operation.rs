//! What a thread of a workload does to files, one operation after the other.

use serde::{Deserialize, Serialize};

/// Kinds of operations there are.
pub const KINDS: usize = 9;

/// One operation of a thread's list. A file that is created or opened is the one of the operations after it, up to the
/// close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Makes a file that is not there.
    Create,
    /// Opens one that is there.
    Open,
    /// Fills the open file up to its size.
    WriteWhole,
    /// Reads it from its first byte to its last.
    ReadWhole,
    /// Writes 1 to 16 KiB at its end.
    Append,
    /// The same, to the log that all threads share.
    AppendToLog,
    /// Makes what was written to it durable.
    Fsync,
    /// Closes it.
    Close,
    /// Removes one that is there and that no thread has open.
    Delete,
    /// Asks for size and times of one that is there.
    Stat,
}

/// What is counted and timed by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// [`Step::Create`].
    Create,
    /// [`Step::Open`].
    Open,
    /// [`Step::WriteWhole`].
    Write,
    /// [`Step::ReadWhole`].
    Read,
    /// [`Step::Append`] and [`Step::AppendToLog`].
    Append,
    /// [`Step::Fsync`].
    Fsync,
    /// [`Step::Close`].
    Close,
    /// [`Step::Delete`].
    Delete,
    /// [`Step::Stat`].
    Stat,
}

impl Operation {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; KINDS] = [
        Self::Create,
        Self::Open,
        Self::Write,
        Self::Read,
        Self::Append,
        Self::Fsync,
        Self::Close,
        Self::Delete,
        Self::Stat,
    ];

    /// As it is called in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Open => "open",
            Self::Write => "write",
            Self::Read => "read",
            Self::Append => "append",
            Self::Fsync => "fsync",
            Self::Close => "close",
            Self::Delete => "delete",
            Self::Stat => "stat",
        }
    }
}

impl Step {
    /// As what it is counted.
    pub fn operation(self) -> Operation {
        match self {
            Self::Create => Operation::Create,
            Self::Open => Operation::Open,
            Self::WriteWhole => Operation::Write,
            Self::ReadWhole => Operation::Read,
            Self::Append | Self::AppendToLog => Operation::Append,
            Self::Fsync => Operation::Fsync,
            Self::Close => Operation::Close,
            Self::Delete => Operation::Delete,
            Self::Stat => Operation::Stat,
        }
    }
}
