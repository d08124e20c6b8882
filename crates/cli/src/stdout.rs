//! Standard output and error: what cannot be printed is one line and an exit code, not a panic.

use std::io::{self, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use evenkeel_host::standard_error;

use crate::failure::Failure;

/// How long a reader of standard error is waited for.
const PATIENCE: Duration = Duration::from_secs(5);

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

/// As [`say`], for a server: whoever reads this may take its time, and clients are not to wait for that.
pub(crate) fn announce(text: String) {
    let _nobody_listens = thread::Builder::new().spawn(move || say(&text));
}

/// Prints a line on standard error. Where nobody takes it (a pipe without a reader, or with one that does not read, a
/// full disk), nobody is told, and nothing else happens.
pub(crate) fn complain(line: &str) {
    let _nobody_takes_it = standard_error::say(line, PATIENCE);
}

/// As [`complain`], for a server, which has others to see to: a line that is not taken at once is dropped.
pub(crate) fn mention(line: &str) {
    let _nobody_takes_it = standard_error::say(line, Duration::ZERO);
}
