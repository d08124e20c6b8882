//! What the benchmarks of the command share.
//!
//! ```text
//! process      a server process: started, asked, stopped; and what it used
//! places       file systems: a mounted volume, or a folder of what is mounted already
//! load         clients of an NBD server
//! neighbours   what a neighbour in the same file system does
//! rounds       the order of a round, and what is told of its figures
//! picture      figures as an SVG
//! ```

#![allow(dead_code, reason = "each benchmark uses a part")]

pub(crate) mod load;
pub(crate) mod neighbours;
pub(crate) mod picture;
pub(crate) mod places;
pub(crate) mod process;
pub(crate) mod rounds;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

/// What went wrong, in words.
pub(crate) type Outcome<T = ()> = Result<T, String>;

/// A file to be written, as it is named on the command line. Cargo runs a benchmark in the folder of its package: `PWD` is still
/// where the command was given. That it cannot be written is said before hours of work.
pub(crate) fn file_to_write(text: &str) -> Outcome<PathBuf> {
    let file = env::var_os("PWD").map_or_else(PathBuf::new, PathBuf::from).join(text);
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
            Err(format!("{}: there is no such folder", folder.display()))
        }
        _ => Ok(file),
    }
}

/// The exit code of a benchmark, which tells what went wrong.
pub(crate) fn ended(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
