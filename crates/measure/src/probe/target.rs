//! What a probe measures: anything that can make a run of synchronous writes and tell how long each took.

use std::fmt;
use std::io;
use std::path::PathBuf;

use evenkeel_host::block_device::Counters;
use evenkeel_host::cpu::CpuTime;
use evenkeel_host::method::Method;

use super::settings::Combination;

/// One run to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunOrder {
    /// What to do and to what; the target may have to fall back, see [`Target::method_for`].
    pub combination: Combination,
    /// Bytes in each synchronous write.
    pub buffer_bytes: u64,
    /// Writes by each writer.
    pub writes: u64,
}

/// What a run showed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observation {
    /// From the first write's start to the last one's end, in seconds.
    pub elapsed_s: f64,
    /// Latency of every write of every writer, in nanoseconds.
    pub latencies_ns: Vec<u64>,
    /// What reached the block device meanwhile; `None` without such a device.
    pub device: Option<Counters>,
    /// Who used the processors meanwhile.
    pub cpu: CpuTime,
}

/// Something whose synchronous writes can be timed.
pub trait Target {
    /// The method that will be used where `method` is asked for at this buffer size: another one where the
    /// file system cannot do this size directly.
    fn method_for(&self, method: Method, buffer_bytes: u64) -> Method;

    /// Makes ready for runs of up to `run_bytes_max` bytes a writer in any of `combinations`.
    ///
    /// # Errors
    ///
    /// Where that cannot be done.
    fn prepare(&mut self, combinations: &[Combination], run_bytes_max: u64) -> Result<(), TargetError>;

    /// Makes one run. Preparing and tidying up lie outside the timed part.
    ///
    /// # Errors
    ///
    /// [`TargetError::Unsupported`] where this combination cannot be had here; else what went wrong.
    fn run(&mut self, order: &RunOrder) -> Result<Observation, TargetError>;

    /// Bytes per second that others move on the device while the probe is idle; `None` where that cannot be
    /// seen.
    fn background_bytes_per_s(&mut self) -> Option<f64> {
        None
    }

    /// A clock that only goes forward, in seconds.
    fn now_s(&self) -> f64;

    /// Lets this much time pass.
    fn wait_s(&mut self, seconds: f64);
}

/// Why a target could not do what was asked.
#[derive(Debug)]
pub enum TargetError {
    /// The user asked to stop.
    Interrupted,
    /// This combination cannot be had on this stack.
    Unsupported {
        /// What was asked for and why it cannot be had.
        reason: String,
    },
    /// There is no room.
    Full {
        /// Where.
        path: PathBuf,
        /// Bytes needed.
        needed_bytes: u64,
        /// Bytes to be had.
        free_bytes: u64,
    },
    /// The file or device to overwrite is smaller than a run.
    TooSmall {
        /// Which.
        path: PathBuf,
        /// Bytes that a run overwrites.
        needed_bytes: u64,
        /// Bytes that it has.
        size_bytes: u64,
    },
    /// The time was over before a single run.
    NoTime,
    /// A system call failed.
    Io {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// The error, with its errno.
        source: io::Error,
    },
}

impl TargetError {
    /// A failed system call, with what was being done to what.
    pub fn io(doing: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io { doing, path: path.into(), source }
    }
}

impl fmt::Display for TargetError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => write!(out, "interrupted"),
            Self::Unsupported { reason } => write!(out, "{reason}"),
            Self::Full { path, needed_bytes, free_bytes } => write!(
                out,
                "{}: the probe needs {} MiB and {} MiB are free; make room, or measure fewer or smaller buffers \
                 with --sizes",
                path.display(),
                needed_bytes.div_ceil(1 << 20),
                free_bytes >> 20,
            ),
            Self::TooSmall { path, needed_bytes, size_bytes } => write!(
                out,
                "{}: the probe overwrites {} MiB and this has {} MiB; name a larger one, or measure smaller \
                 buffers with --sizes",
                path.display(),
                needed_bytes.div_ceil(1 << 20),
                size_bytes >> 20,
            ),
            Self::NoTime => write!(out, "the time was over before a single run; give more --time"),
            Self::Io { doing, path, source } if source.kind() == io::ErrorKind::StorageFull => write!(
                out,
                "{}: the file system became full while {doing} ({source}); make room, or measure fewer or \
                 smaller buffers with --sizes",
                path.display(),
            ),
            Self::Io { doing, path, source } => write!(out, "{}: {doing}: {source}", path.display()),
        }
    }
}

impl std::error::Error for TargetError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
