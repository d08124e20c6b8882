//! What can go wrong, as something that any thread may have.

use std::path::PathBuf;
use std::sync::Arc;

use evenkeel_engine::error::{DeviceError, Error as EngineError};

use crate::path_error::PathError;
use crate::remedy::Remedy;
use crate::volume::VolumeError;

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A drive below failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The range does not lie within the volume.
    #[error("the range lies outside the volume")]
    OutOfRange,
    /// The commit is larger than one may be.
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
    /// An earlier failure made the volume read-only.
    #[error("read-only since a failure: {0}")]
    ReadOnly(Arc<str>),
    /// It was closed, or its thread ended. Whether a request that was under way was carried out is not known.
    #[error("the volume is not open any more")]
    Stopped,
    /// Something about one of its files.
    #[error(transparent)]
    Path(#[from] PathError),
    /// There is no volume.
    #[error("{}: no volume is here", .0.display())]
    NotAVolume(PathBuf),
    /// Another process, or another opening in this one, has it.
    #[error("{}: the volume is open already", .0.display())]
    InUse(PathBuf),
    /// Its description cannot be used.
    #[error("{}: {why}", path.display())]
    Description {
        /// The file.
        path: PathBuf,
        /// What is wrong, in one line.
        why: String,
    },
    /// It cannot be made as asked.
    #[error("{0}")]
    Refused(String),
    /// Something went wrong, and this can be done about it.
    #[error("{problem}")]
    Remediable {
        /// What went wrong.
        problem: Box<Self>,
        /// What helps.
        remedy: Remedy,
    },
    /// Its members do not hold a volume that can be opened.
    #[error("{why}")]
    Unusable {
        /// What is wrong, in one line.
        why: String,
    },
    /// No thread or event loop could be had for it.
    #[error("cannot start the volume's thread: {0}")]
    Thread(#[source] std::io::Error),
}

impl Error {
    /// What can be done about it, beyond what its words say.
    pub fn remedy(&self) -> Option<&Remedy> {
        match self {
            Self::NotAVolume(_) => Some(&Remedy::MakeVolume),
            Self::Remediable { remedy, .. } => Some(remedy),
            _ => None,
        }
    }
}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Device(error) | EngineError::Blocked(error) => Self::Device(error),
            EngineError::OutOfRange => Self::OutOfRange,
            EngineError::TooLarge { max_bytes } => Self::TooLarge { max_bytes },
            EngineError::Damaged { page } => Self::Damaged { page },
            EngineError::Latched(why) => Self::ReadOnly(Arc::from(&*why)),
            EngineError::Unusable(_)
            | EngineError::Unsuited(_)
            | EngineError::ForeignWrites { .. }
            | EngineError::OlderDevices { .. } => Self::Unusable { why: error.to_string() },
        }
    }
}

impl From<VolumeError> for Error {
    fn from(error: VolumeError) -> Self {
        let remedy = error.remedy();
        match error {
            VolumeError::Path(error) => match remedy {
                Some(remedy) => Self::Remediable { problem: Box::new(Self::Path(error)), remedy },
                None => Self::Path(error),
            },
            VolumeError::NotAVolume(folder) => Self::NotAVolume(folder),
            VolumeError::InUse(folder) => Self::InUse(folder),
            VolumeError::Description { path, why } => Self::Description { path, why },
            VolumeError::Arena { .. } | VolumeError::Unanswered { .. } | VolumeError::Undescribed(_) => {
                Self::Unusable { why: error.to_string() }
            }
            VolumeError::Refused(why) => Self::Refused(why),
            VolumeError::Setting { .. } => Self::Refused(error.to_string()),
            VolumeError::Remediable { problem, remedy } => {
                Self::Remediable { problem: Box::new((*problem).into()), remedy }
            }
            VolumeError::Incomplete(why) => Self::Unusable { why },
            VolumeError::Engine {
                folder,
                source: source @ (EngineError::Unusable(_) | EngineError::Unsuited(_)),
            } => Self::Unusable { why: format!("{}: {source}", folder.display()) },
            VolumeError::Engine { source, .. } => source.into(),
        }
    }
}
