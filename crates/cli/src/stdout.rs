//! Standard output: what cannot be printed is one line and an exit code, not a panic.

use std::io::{self, Write};
use std::path::Path;

use crate::failure::Failure;

/// Prints `text` as it is. A reader that has seen enough (`| head`) is no failure: the work goes on without
/// it.
pub(crate) fn say(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::about(Path::new("standard output"), format!("{error}; redirect it elsewhere")))
        }
        _ => Ok(()),
    }
}

/// Prints a line on standard error. Where nobody takes it (a pipe without a reader, a full disk), nobody is told,
/// and nothing else happens.
pub(crate) fn complain(line: &str) {
    let _nobody_takes_it = io::stderr().write_all(format!("{line}\n").as_bytes());
}
