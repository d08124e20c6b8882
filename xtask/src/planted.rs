//! `cargo xtask planted`: plants bugs in the engine, and shows that the simulator sees each.

use crate::run::{self, Outcome};

/// What is asked of `planted`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  cargo xtask planted ring                      those whose names begin with ring")]
pub(crate) struct Args {
    /// Those alone whose names begin so [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

/// Runs the program that plants them; its exit code is handed on.
pub(crate) fn main(args: &Args) -> Outcome {
    let package = ["run", "--release", "--locked", "-p", "evenkeel-sim"];
    run::hand_over(
        run::cargo(&package).args(["--features", "planted", "--bin", "planted", "--"]).args(&args.names),
    )
}
