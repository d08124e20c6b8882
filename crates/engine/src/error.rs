//! What can go wrong, below and here.

use std::rc::Rc;

/// A device did not do what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{doing}: {}", in_words(*.errno))]
pub struct DeviceError {
    /// What was asked.
    pub doing: &'static str,
    /// The system's number for the cause, as in errno(3).
    pub errno: i32,
}

/// Whether it says that a server cannot be reached: `EPIPE`, `ECONNABORTED`, `ECONNRESET`, `ENOTCONN`, `ESHUTDOWN`,
/// `ETIMEDOUT`, `ECONNREFUSED`, `EHOSTDOWN`, `EHOSTUNREACH`.
fn is_of_connection(errno: i32) -> bool {
    matches!(errno, 32 | 103 | 104 | 107 | 108 | 110..=113)
}

impl DeviceError {
    /// Whether the server behind the device cannot be reached: what it has is whole, for all that is known.
    pub fn is_of_connection(&self) -> bool {
        is_of_connection(self.errno)
    }
}

/// What a number of errno(3) means to whoever has to do something about it.
fn in_words(errno: i32) -> String {
    let words = match errno {
        5 => "the drive could not do it; look after the drive, then open the volume anew",
        28 => "no room is left there; make room, then open the volume anew",
        30 => "it is read-only; make it writable, then open the volume anew",
        61 => "its file was made shorter while it was in use, and what it held behind its end is gone",
        122 => "the quota there is used up; make room, then open the volume anew",
        _ if is_of_connection(errno) => {
            "the connection to its server is lost; open the volume anew once that can be reached"
        }
        _ => return std::io::Error::from_raw_os_error(errno).to_string(),
    };
    format!("{words} (errno {errno})")
}

/// A volume did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A device below failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The range does not lie within the volume.
    #[error("the range lies outside the volume")]
    OutOfRange,
    /// The write is larger than one commit may be.
    #[error("one commit carries at most {max_bytes} bytes")]
    TooLarge {
        /// The bound.
        max_bytes: u64,
    },
    /// What was read is not what was written, and there is no other copy.
    #[error("page {page} is damaged: its checksum does not match")]
    Damaged {
        /// Number of the page of the volume.
        page: u64,
    },
    /// Pages of sums cannot be written, as what is stored with them cannot be read now.
    #[error("the table of sums cannot be written, as what is stored with it cannot be read: {0}")]
    Blocked(DeviceError),
    /// An earlier failure made the volume read-only.
    #[error("read-only since a failure: {0}")]
    Latched(Rc<str>),
    /// The arena holds acknowledged writes that are not those of the volume as the devices hold it.
    #[error(
        "the memory for writes that are not durable holds {writes} of {}",
        if *.is_later { "a later opening of this volume than the devices know of" } else { "another volume" }
    )]
    ForeignWrites {
        /// How many.
        writes: u64,
        /// Whether they are of this volume, which was opened later than the devices know.
        is_later: bool,
    },
    /// The devices were put back to an earlier state, or lost what they had called durable: the arena knows of records of
    /// the log that are missing.
    #[error(
        "the log ends with record {log_end}, and record {acknowledged} was acknowledged as durable: the devices hold an \
         older state of the volume than the memory for writes that are not durable, in which {writes} wait"
    )]
    OlderDevices {
        /// Writes in the arena.
        writes: u64,
        /// The newest record that was acknowledged.
        acknowledged: u64,
        /// The newest that is there.
        log_end: u64,
    },
    /// The devices do not hold a volume that can be opened.
    #[error("cannot open the volume: {0}")]
    Unusable(String),
    /// What the devices hold is whole, and not for this program, or not for these devices as they are now.
    #[error("cannot open the volume: {0}")]
    Unsuited(String),
}

impl Error {
    /// Its number, as in errno(3): that of the device, `EINVAL` for what the volume does not have or take, `EROFS` once it
    /// is read-only, `EIO` for all else.
    pub fn errno(&self) -> i32 {
        const EIO: i32 = 5;
        const EINVAL: i32 = 22;
        const EROFS: i32 = 30;
        match self {
            Self::Device(device) | Self::Blocked(device) => device.errno,
            Self::OutOfRange | Self::TooLarge { .. } => EINVAL,
            Self::Latched(_) => EROFS,
            Self::Damaged { .. }
            | Self::ForeignWrites { .. }
            | Self::OlderDevices { .. }
            | Self::Unusable(_)
            | Self::Unsuited(_) => EIO,
        }
    }
}
