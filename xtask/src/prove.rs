//! `cargo xtask prove`: databases on a mounted volume and on what people have instead.

use crate::run::{self, Outcome};

/// What is asked of `prove`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sudo -E cargo xtask prove                     everything: 40 minutes, 20 GiB of disk
  sudo -E cargo xtask prove -- sqlite           one database
  cargo xtask prove -- --help                   what it can be told")]
pub(crate) struct Args {
    /// Arguments for it
    #[arg(last = true, value_name = "ARGS")]
    passed_on: Vec<String>,
}

/// Builds what is measured, and runs it.
pub(crate) fn main(args: &Args) -> Outcome {
    let bench = ["bench", "--locked", "--package", "evenkeel", "--bench", "prove", "--"];
    run::hand_over(run::cargo(&bench).args(&args.passed_on))
}
