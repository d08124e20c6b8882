//! `cargo xtask synthetic`: how often the report of a study, of a probe or of a comparison says what is false, and how often
//! it misses what is so.

use crate::run::{self, Outcome};

/// What is asked of `synthetic`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask synthetic --studies 200 --noise busy              studies on a busy machine
  cargo xtask synthetic --effect remedy --repeats 5             what five repeats find of remedies
  cargo xtask synthetic --pages 1000 --page pairs --page like   two kinds of pages of the probe")]
pub(crate) struct Args {
    /// Studies of each kind [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "pages")]
    studies: Option<u64>,
    /// Instead of studies, pages of each kind of probe and comparison
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pages: Option<u64>,
    /// The seed of the first
    #[arg(long, value_name = "SEED")]
    from: Option<u64>,
    /// Kinds of noise [default: all]
    #[arg(long, value_name = "NAME")]
    noise: Vec<String>,
    /// What is to be found in studies [default: each, and nothing]
    #[arg(long, value_name = "NAME", conflicts_with = "pages")]
    effect: Vec<String>,
    /// Runs of each configuration of a study [default: as the noise has it]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1000), conflicts_with = "pages")]
    repeats: Option<u32>,
    /// Kinds of pages [default: all]
    #[arg(long, value_name = "NAME", requires = "pages")]
    page: Vec<String>,
}

impl Args {
    /// As the program takes them.
    fn words(&self) -> Vec<String> {
        let numbers = [
            ("--studies", self.studies),
            ("--pages", self.pages),
            ("--from", self.from),
            ("--repeats", self.repeats.map(u64::from)),
        ];
        let numbers = numbers.into_iter().filter_map(|(flag, value)| Some((flag, value?.to_string())));
        let names = [("--noise", &self.noise), ("--effect", &self.effect), ("--page", &self.page)];
        let names =
            names.into_iter().flat_map(|(flag, all)| all.iter().map(move |name| (flag, name.clone())));
        numbers.chain(names).flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
    }
}

/// Runs the program that makes them up and judges their reports; its exit code is handed on.
pub(crate) fn main(args: &Args) -> Outcome {
    let package = ["run", "--release", "--locked", "-p", "evenkeel-measure"];
    run::hand_over(run::cargo(&package).args(["--example", "synthetic", "--"]).args(args.words()))
}
