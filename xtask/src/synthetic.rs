//! `cargo xtask synthetic`: how often the report of a study, of a probe or of a comparison says what is false, and how often
//! it misses what is so.

use crate::run::{self, Outcome};

/// Runs the program that makes them up and judges their reports; its exit code is handed on.
pub(crate) fn main(arguments: &[String]) -> Outcome {
    let package = ["run", "--release", "--locked", "-p", "evenkeel-measure"];
    run::hand_over(run::cargo(&package).args(["--example", "synthetic", "--"]).args(arguments))
}
