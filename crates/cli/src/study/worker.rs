//! `evenkeel study worker`: one workload, in a process of its own.

use std::io::{self, BufRead, Read};
use std::thread;

use evenkeel_measure::study::worker;

use crate::failure::Failure;
use crate::stdout::say;

/// Bytes of a job there are at most.
const JOB_BYTES_MAX: u64 = 8 << 20;

/// Does the job that comes on standard input.
pub(crate) fn run() -> Result<(), Failure> {
    let mut line = String::new();
    io::stdin()
        .lock()
        .take(JOB_BYTES_MAX)
        .read_line(&mut line)
        .map_err(|error| Failure::Unusable(format!("the job cannot be read: {error}")))?;
    let job = serde_json::from_str(&line).map_err(|error| {
        Failure::Unusable(format!("not a job of `study run`, which alone starts this command: {error}"))
    })?;
    // Whoever asked for the work keeps the input open: its end is the end of the study.
    thread::spawn(|| {
        let _until_it_ends = io::copy(&mut io::stdin().lock(), &mut io::sink());
        std::process::exit(1);
    });
    let answer = serde_json::to_string(&worker::work(&job))
        .map_err(|error| Failure::Unusable(format!("the answer cannot be written: {error}")))?;
    say(&answer)
}
