//! What can go wrong for a client.

use std::rc::Rc;

use crate::nbd::proto::{Malformed, errno};

/// A request, or the connection, failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The server said so.
    #[error("the server answered errno {errno}: {message}")]
    Server {
        /// Its number, as in errno(3).
        errno: u32,
        /// Its words, where it had any.
        message: String,
    },
    /// The connection is of no use any more.
    #[error("the connection broke: {0}")]
    Broken(Rc<str>),
    /// The server refused what the handshake asked for.
    #[error("the server refused {what}: {why}")]
    Refused {
        /// What.
        what: &'static str,
        /// Why, in its own words.
        why: String,
    },
    /// Somebody else writes to the export.
    #[error("{0}")]
    InUse(String),
    /// The server does not offer it.
    #[error("the server does not offer {0}")]
    NotOffered(&'static str),
}

impl ClientError {
    /// The system's number that comes closest.
    pub fn errno(&self) -> i32 {
        const ENOTCONN: i32 = 107;
        match self {
            Self::Server { errno, .. } => *errno as i32,
            Self::Broken(_) | Self::Refused { .. } => ENOTCONN,
            Self::InUse(_) => rustix::io::Errno::BUSY.raw_os_error(),
            Self::NotOffered(_) => errno::ENOTSUP as i32,
        }
    }
}

impl From<Malformed> for ClientError {
    fn from(malformed: Malformed) -> Self {
        Self::Broken(malformed.to_string().into())
    }
}

impl From<std::io::Error> for ClientError {
    fn from(error: std::io::Error) -> Self {
        Self::Broken(error.to_string().into())
    }
}
