//! What can go wrong.

/// Why an operation was not done, by the numbers of errno(3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[repr(i32)]
pub enum Errno {
    /// `EPERM`
    #[error("not permitted")]
    NotPermitted = 1,
    /// `ENOENT`
    #[error("no such file or folder")]
    NotFound = 2,
    /// `EINTR`
    #[error("nobody waits for it any more")]
    Interrupted = 4,
    /// `EIO`
    #[error("the volume could not be read or written")]
    Io = 5,
    /// `ENXIO`
    #[error("nothing is there")]
    NothingThere = 6,
    /// `E2BIG`
    #[error("too large")]
    TooBig = 7,
    /// `EEXIST`
    #[error("exists already")]
    Exists = 17,
    /// `ENOTDIR`
    #[error("not a folder")]
    NotFolder = 20,
    /// `EISDIR`
    #[error("is a folder")]
    IsFolder = 21,
    /// `EINVAL`
    #[error("cannot be asked for")]
    Invalid = 22,
    /// `EFBIG`
    #[error("larger than a file may be")]
    FileTooLarge = 27,
    /// `ENOSPC`
    #[error("no room is left")]
    NoSpace = 28,
    /// `EROFS`
    #[error("the file system is read-only")]
    ReadOnly = 30,
    /// `EMLINK`
    #[error("too many links")]
    TooManyLinks = 31,
    /// `ERANGE`
    #[error("the value does not fit the room for it")]
    Range = 34,
    /// `ENAMETOOLONG`
    #[error("the name is too long")]
    NameTooLong = 36,
    /// `ENOTEMPTY`
    #[error("the folder is not empty")]
    NotEmpty = 39,
    /// `ENODATA`
    #[error("no such attribute")]
    NoAttribute = 61,
    /// `EOPNOTSUPP`
    #[error("not supported")]
    NotSupported = 95,
    /// `ESTALE`
    #[error("the file is gone")]
    Stale = 116,
    /// `EUCLEAN`
    #[error("the file system is damaged; run e2fsck -f")]
    Damaged = 117,
}

impl Errno {
    /// The number.
    pub fn number(self) -> i32 {
        self as i32
    }
}

/// What a store says that did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);

/// Why there is no file system to work with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MountError {
    /// The store failed.
    #[error("the volume cannot be read or written: {0}")]
    Store(#[from] StoreError),
    /// What is on it cannot be used: why, and what to do.
    #[error("the file system cannot be mounted: {0}")]
    Unusable(String),
}
