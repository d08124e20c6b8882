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

use std::process::ExitCode;

/// What went wrong, in words.
pub(crate) type Outcome<T = ()> = Result<T, String>;

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
