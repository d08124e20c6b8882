//! Tests that cannot run where they are: they say so, and pass.

use std::fs::File;
use std::io::Write;

/// Tells that a test could not run here: to who runs it alone, and to the file that `EVENKEEL_SKIPPED` names, which reaches
/// who runs all.
#[expect(clippy::print_stderr, reason = "what was skipped is for whoever runs it")]
pub(crate) fn skip(test: &str, reason: &str) {
    eprintln!("skipped: {reason}");
    if let Some(path) = std::env::var_os("EVENKEEL_SKIPPED") {
        let mut file = File::options().append(true).create(true).open(path).unwrap();
        file.write_all(format!("{test}: {reason}\n").as_bytes()).unwrap();
    }
}
