//! What may be typed to find the settings of a volume.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use crate::units;

/// What settings are to be good for, and for how long they are tried.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct GoalArgs {
    /// 99 % of small writes are to be durable within this time; among the settings that keep it, the most throughput
    #[arg(long, value_name = "TIME", value_parser = units::seconds_with_unit)]
    pub(crate) max_latency: Option<f64>,

    /// So much is to be durable and home in a second, at least; among the settings that reach it, the shortest latency
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub(crate) min_throughput: Option<f64>,

    /// A recorded load, in one of the formats of `evenkeel replay`: its requests are sent instead of a mixture of small,
    /// middle and large writes, 32 at a time, as fast as they are answered, every write durable
    #[arg(long, value_name = "TRACE")]
    pub(crate) load: Option<PathBuf>,

    /// Time for all trials, about
    #[arg(long, value_name = "TIME", value_parser = units::seconds_with_unit, default_value = "60s")]
    pub(crate) time: f64,
}

impl GoalArgs {
    /// No goal, and so much time.
    pub(crate) fn none(time_s: f64) -> Self {
        Self { max_latency: None, min_throughput: None, load: None, time: time_s }
    }
}

/// Find by trying how a volume is to be run on its drives, and have it run so
///
/// Makes a smaller volume like it beside it, on the same drives, runs a load on it with one setting after the other, in turns,
/// and removes it again. Chosen are the largest batch of a group commit, and from which size on a write goes straight home. What wins
/// is tried once more beside the default, and takes its place only where it wins again, by 5 %. The volume is not touched, but
/// for the section [tuned] of its volume.toml, where each value has its reason; `evenkeel serve` and `mount` take it from there,
/// unless an option says otherwise. Members of a mirror are written to for a while besides: a longer turn is chosen where they
/// are not steady within a second, and are in that. The volume must not be served meanwhile.
#[derive(Debug, ClapArgs)]
#[command(after_help = TUNE_EXAMPLES)]
pub(crate) struct TuneArgs {
    /// The volume's folder; or sim:MODEL, a simulated drive of `evenkeel drive --list`, in virtual time
    #[arg(value_name = "VOL")]
    pub(crate) volume: PathBuf,

    #[command(flatten)]
    pub(crate) goals: GoalArgs,

    /// Say what would be chosen, and what it gains; change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Go back to the defaults: remove what was chosen from the description
    #[arg(long, conflicts_with_all = ["dry_run", "max_latency", "min_throughput", "load", "sweep", "json"])]
    pub(crate) forget: bool,

    /// Try every setting besides, and say how far the choice is from the best; takes about five times as long
    #[arg(long)]
    pub(crate) sweep: bool,

    /// Write everything that was tried to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Replace an older FILE of --json
    #[arg(long, requires = "json")]
    pub(crate) force: bool,
}

const TUNE_EXAMPLES: &str = "\
Examples:
  evenkeel tune disk --dry-run                      what would be chosen, and what it gains
  evenkeel tune disk --max-latency 2ms              99 % of small writes within 2 ms, and then throughput
  evenkeel tune disk --load day.csv --dry-run       what a recorded load would gain
  evenkeel tune disk --forget                       back to the defaults
  evenkeel tune sim:sata-2011 --sweep               on a simulated drive, beside every other setting

Exit status: 0 done, also where the default stays, 1 no setting reaches the goal (what comes closest is
chosen), 2 wrong usage or a volume on which nothing can be tried, 130 interrupted; then nothing has changed.";
