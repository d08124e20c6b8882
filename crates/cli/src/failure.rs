//! How a command ends when it does not end well.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use evenkeel_host::interrupt::EXIT_INTERRUPTED;
use evenkeel_measure::probe::target::TargetError;

/// What a command ends with that can go on once something has passed: `EX_TEMPFAIL` of sysexits.h.
const EXIT_PASSING: u8 = 75;

/// Why a command ended, in one line that says what to do next.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The work was done, and the answer is no.
    No(String),
    /// Wrong usage or unusable input.
    Unusable(String),
    /// The work stopped before its end, and can go on once what stopped it has passed or is repaired.
    Passing(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-C, with something to say of what was done until then.
    Stopped(String),
}

impl Failure {
    /// Something about a file.
    pub(crate) fn about(path: &Path, what: impl fmt::Display) -> Self {
        Self::Unusable(format!("{}: {what}", path.display()))
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::No(_) => ExitCode::from(1),
            Self::Unusable(_) => ExitCode::from(2),
            Self::Passing(_) => ExitCode::from(EXIT_PASSING),
            Self::Interrupted | Self::Stopped(_) => ExitCode::from(EXIT_INTERRUPTED as u8),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::No(line) | Self::Unusable(line) | Self::Passing(line) | Self::Stopped(line) => {
                out.write_str(line)
            }
            Self::Interrupted => out.write_str("interrupted; nothing was left behind"),
        }
    }
}

impl From<TargetError> for Failure {
    fn from(error: TargetError) -> Self {
        let next_step = match &error {
            TargetError::Interrupted => return Self::Interrupted,
            TargetError::Io { source, .. } => next_step(source),
            _ => "",
        };
        Self::Unusable(format!("{error}{next_step}"))
    }
}

/// What helps with an error of the system.
fn next_step(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; choose a folder you may write to, or run as its owner",
        io::ErrorKind::ReadOnlyFilesystem => "; the file system is read-only, choose another or remount it",
        io::ErrorKind::ResourceBusy => "; something uses it: unmount it or stop what holds it first",
        io::ErrorKind::AlreadyExists => "; it was made by somebody else meanwhile, try again",
        _ => "",
    }
}
