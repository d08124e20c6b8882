//! Commands, run or only shown.

use std::path::Path;
use std::process::Stdio;

use crate::run::{self, Failure, Outcome};

/// Runs commands, or only shows them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Runner {
    /// Only show.
    pub(super) dry_run: bool,
}

impl Runner {
    /// Runs a command.
    pub(super) fn run(self, program: &str, args: &[&str]) -> Outcome {
        let mut command = run::system(program, args);
        if self.dry_run {
            run::show(&command);
            return Ok(());
        }
        run::run(command.stdin(Stdio::null()))
    }

    /// Shows a command that the library runs.
    pub(super) fn show(self, program: &str, args: &[&str]) {
        run::show(&run::system(program, args));
    }
}

/// The path as text, for a command's argument.
pub(super) fn text(path: &Path) -> Outcome<&str> {
    path.to_str().ok_or_else(|| Failure::Usage(format!("{} is no plain text", path.display())))
}
