//! `cargo xtask planted`: plants bugs in the engine, and shows that the simulator sees each.

use crate::run::{self, Outcome};

/// Runs the program that plants them, all or those whose names begin with `names`; its exit code is handed on.
pub(crate) fn main(names: &[String]) -> Outcome {
    let package = ["run", "--release", "--locked", "-p", "evenkeel-sim"];
    run::hand_over(run::cargo(&package).args(["--features", "planted", "--bin", "planted", "--"]).args(names))
}
