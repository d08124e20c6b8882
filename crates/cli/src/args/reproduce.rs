//! What may be typed of reproductions.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// Draw the papers' figures again, and say which of their claims hold
///
/// Runs evenkeel's own engine and models in virtual time, as the papers' set-ups say, and puts each claim of the papers
/// beside what came out. Writes reproduce.json, reproduce.csv and reproduce.html, a page with every chart. The same seed
/// gives the same figures.
#[derive(Debug, ClapArgs)]
#[command(after_help = REPRODUCE_EXAMPLES)]
pub(crate) struct ReproduceArgs {
    /// Names of figures, `all` of them, or `list` to see what there is
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,

    /// Folder for reproduce.json, reproduce.csv and reproduce.html [default: here, under the next free name]
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub(crate) out: Option<PathBuf>,

    /// Replace older results in the folder of --out
    #[arg(long, requires = "out", help_heading = "Results")]
    pub(crate) force: bool,

    /// A few points of each figure, in seconds: its shape, not its values
    #[arg(long)]
    pub(crate) quick: bool,

    /// Measure XFS, ext4 and btrfs on the drives of the writes- figures as well, in real time: minutes; as root, with
    /// nbdfuse
    #[arg(long)]
    pub(crate) file_systems: bool,

    /// Play the block traces in this folder (formats as of `evenkeel replay`) on two drives, for rails-traces: a minute or
    /// more each
    #[arg(long, value_name = "DIR")]
    pub(crate) traces: Option<PathBuf>,

    /// Put a drive model of your own in the place of the preset that its file NAME.toml is based on; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) drive: Vec<PathBuf>,

    /// Seed of all chance
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Points under way at once [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(crate) jobs: Option<u64>,
}

const REPRODUCE_EXAMPLES: &str = "\
Examples:
  evenkeel reproduce list                           which figures there are
  evenkeel reproduce all --out gallery              all of them: minutes
  evenkeel reproduce okeanos-mpi-io --out one
  sudo evenkeel reproduce writes-hdd --file-systems --out disk
  evenkeel reproduce rails-traces --traces DIR      recorded loads on a mirror, in turns and mixed
  evenkeel reproduce all --quick --out look         their shapes, in seconds

Exit status: 0 every claim holds, 1 one fails, 2 wrong usage or an unknown figure, 130 interrupted.";
