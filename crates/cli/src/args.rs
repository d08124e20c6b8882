//! What may be typed, with its help.

mod arenas;
mod convert;
mod daemon;
mod drive;
mod http;
mod members;
mod mirror;
mod mount;
mod places;
mod replay;
mod reproduce;
mod salvage;
mod study;
mod tune;
mod volume;

use std::path::PathBuf;

use clap::{ArgGroup, Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use evenkeel_host::method::{FileState, Method};
use evenkeel_measure::probe::like::Program;

use crate::units;

pub(crate) use arenas::{ArenasArgs, ArenasCommand, ArenasFreeArgs};
pub(crate) use convert::ConvertArgs;
pub(crate) use daemon::DaemonArgs;
pub(crate) use drive::{AfterCut, DriveArgs};
pub(crate) use http::HttpArgs;
pub(crate) use members::MembersArgs;
pub(crate) use mirror::{MirrorArgs, PolicyArg, RejoinArg, ReplaceArgs};
pub(crate) use mount::{MountArgs, MountOptionArg};
pub(crate) use places::NbdArg;
pub(crate) use replay::{ReplayArgs, Speed};
pub(crate) use reproduce::ReproduceArgs;
pub(crate) use salvage::{RenewLogArgs, SalvageArgs};
pub(crate) use study::{StudyArgs, StudyCommand, StudyPlanArgs, StudyReportArgs, StudyRunArgs, WhichPlan};
pub(crate) use tune::{GoalArgs, TuneArgs};
pub(crate) use volume::{
    BackendArg, CacheArg, CheckArgs, CreateArgs, FileSystemArg, GrowArgs, JournalingArg, LogFormatArg,
    LogLevelArg, ServeArgs, StatusArgs,
};

/// Makes synchronous writes fast and predictable.
///
/// Measures what a storage stack does when every write must be durable, says which buffer size to use, and
/// whether a difference is real. Serves virtual disks that pack the small durable writes of many streams into
/// one sequential log.
#[derive(Debug, Parser)]
#[command(name = "evenkeel", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Probe(Box<ProbeArgs>),
    Compare(CompareArgs),
    Create(Box<CreateArgs>),
    Mount(Box<MountArgs>),
    Serve(Box<ServeArgs>),
    Daemon(DaemonArgs),
    Status(StatusArgs),
    Check(CheckArgs),
    Tune(Box<TuneArgs>),
    Grow(GrowArgs),
    Replace(Box<ReplaceArgs>),
    Convert(Box<ConvertArgs>),
    Salvage(SalvageArgs),
    RenewLog(RenewLogArgs),
    Arenas(ArenasArgs),
    Replay(Box<ReplayArgs>),
    Drive(Box<DriveArgs>),
    Reproduce(ReproduceArgs),
    Sim(SimArgs),
    Study(StudyArgs),
    Schema(SchemaArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Measure synchronous writes against buffer size, and recommend a buffer
///
/// Writes new files sequentially, each write durable before the next, with buffers from 4 KiB to 16 MiB, in
/// shuffled runs. Prints a table and one sentence, and writes probe.json, probe.csv and probe.html. The files
/// it makes are removed at the end, at an error and at Ctrl-C; what a probe that was killed (kill -9) left in a folder,
/// the next one there names and removes.
#[derive(Debug, ClapArgs)]
#[command(after_help = PROBE_EXAMPLES)]
#[command(group(ArgGroup::new("rate_of_records").args(["arrival_rate"]).requires("record_size")))]
pub(crate) struct ProbeArgs {
    /// A folder to make files in, or, with --new-file, a file to make, or, with --destroy, a block device or an existing
    /// file to overwrite. Several are measured in alternating runs, and compared
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// PATH is a file to be made, and removed again
    #[arg(long, conflicts_with = "destroy")]
    pub(crate) new_file: bool,

    /// Folder for probe.json, probe.csv and probe.html [default: here, under the next free name]
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub(crate) out: Option<PathBuf>,

    /// Replace older results in the folder of --out
    #[arg(long, requires = "out", help_heading = "Results")]
    pub(crate) force: bool,

    /// Runs of each size: each is one data point [default: 30; 10 with --quick or --matrix]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) runs: Option<u32>,

    /// Answer in under 20 seconds, with wider intervals
    #[arg(long)]
    pub(crate) quick: bool,

    /// Time for everything, such as 90s or 10m: what does not fit is shortened [default: 120s on a terminal,
    /// elsewhere as long as it takes]
    #[arg(long, value_name = "TIME", value_parser = units::seconds_with_unit)]
    pub(crate) time: Option<f64>,

    /// Measure everything so many times: the spread over sessions tells how far a later one may lie off
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) sessions: u32,

    /// From the start of one session to that of the next
    #[arg(long, value_name = "TIME", value_parser = units::seconds_with_unit, default_value = "10m", requires = "sessions")]
    pub(crate) every: f64,

    /// End with exit code 1 where a further PATH is shown to be slower than the first, by this much or more
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    pub(crate) fail_if_slower: Option<f64>,

    /// Print all columns, however wide the table becomes
    #[arg(long)]
    pub(crate) wide: bool,

    /// Buffer sizes: 4k..16m doubles, 4k,12k,1m names each [default: 4k..16m; 4k,64k,1m with --matrix]
    #[arg(long, value_name = "SIZES", value_parser = parse_sizes)]
    pub(crate) sizes: Option<Sizes>,

    /// How each write is made durable
    #[arg(long, value_enum, default_value = "direct-dsync")]
    pub(crate) method: MethodArg,

    /// The file before each run [default: fresh; written with --destroy]
    #[arg(long, value_enum, value_name = "STATE")]
    pub(crate) file_state: Option<FileStateArg>,

    /// Concurrent writers, each with a file of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) writers: u32,

    /// Measure every method over every file state, and say which to use
    #[arg(long, conflicts_with_all = ["method", "file_state"])]
    pub(crate) matrix: bool,

    /// Measure the commits of this program, as its log makes them, by its own limit
    #[arg(
        long,
        value_enum,
        value_name = "PROGRAM",
        conflicts_with_all = ["method", "file_state", "sizes", "writers", "matrix", "min_throughput", "max_latency",
                              "record_size", "destroy"]
    )]
    pub(crate) like: Option<ProgramArg>,

    /// Write for so long, such as 4h: latency over time, stalls, and what the machine did meanwhile. One size [default: 4k, or
    /// what --like commits]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = units::seconds_with_unit,
        conflicts_with_all = ["matrix", "runs", "time", "quick", "precision", "min_throughput", "max_latency", "record_size",
                              "fail_if_slower"]
    )]
    pub(crate) soak: Option<f64>,

    /// Stop a size once the 95 % interval of its throughput is this narrow (half its width over the mean),
    /// and go on past --runs, up to 4 times, while it is not
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    pub(crate) precision: Option<f64>,

    /// Recommend the smallest buffer that reaches this throughput, such as 200MB/s
    #[arg(long, value_name = "RATE", value_parser = units::rate_with_unit, help_heading = "Recommendation")]
    pub(crate) min_throughput: Option<f64>,

    /// Recommend the largest buffer that keeps this latency, such as 2ms
    #[arg(long, value_name = "TIME", value_parser = units::seconds_with_unit, help_heading = "Recommendation")]
    pub(crate) max_latency: Option<f64>,

    /// The latency that --max-latency bounds
    #[arg(
        long,
        value_enum,
        value_name = "P",
        default_value = "mean",
        requires = "max_latency",
        help_heading = "Recommendation"
    )]
    pub(crate) percentile: PercentileArg,

    /// Size of your records, to say how many go into a batch
    #[arg(long, value_name = "SIZE", value_parser = units::size, help_heading = "Recommendation")]
    pub(crate) record_size: Option<u64>,

    /// Records arriving per second, to say how long they wait
    #[arg(long, value_name = "RATE", value_parser = units::frequency, help_heading = "Recommendation")]
    pub(crate) arrival_rate: Option<f64>,

    /// Overwrite this block device or existing file: repeat the name of PATH. What it holds is lost
    #[arg(long, value_name = "DEVICE")]
    pub(crate) destroy: Option<PathBuf>,

    /// Say what would be written where, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Seed of the order of runs and of the bytes written [default: from the clock]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
}

const PROBE_EXAMPLES: &str = "\
Examples:
  evenkeel probe .                                  which buffer to use on the disk of this folder
  evenkeel probe /var/lib/db --quick                the same in under 20 seconds
  evenkeel probe /mnt/xfs /mnt/ext4                 which of the two is faster, in alternating runs
  evenkeel probe . --soak 4h                        latency over hours, and what stalls it
  evenkeel probe . --sessions 6 --every 10m         how far one session lies from another
  evenkeel probe /var/lib/etcd --like etcd          commits per second, and whether etcd calls it fast enough
  evenkeel probe . --matrix                         which method, and a new or a recycled log
  evenkeel probe . --min-throughput 200MB/s         the smallest buffer that reaches it
  evenkeel probe . --max-latency 2ms --percentile 99
  evenkeel probe . --record-size 512 --arrival-rate 20k
  evenkeel probe /dev/sdx --destroy /dev/sdx --dry-run
                                                    what would be overwritten

Exit status: 0 done, 1 no buffer meets the goals, --like fails or --fail-if-slower strikes, 2 wrong usage or an unusable path, 130
interrupted.";

/// Say whether probes of different times differ, size by size
///
/// The runs of one session share what the machine did then, so sessions are compared: every interval holds what two
/// sessions of one stack may differ by, as repeated sessions (evenkeel probe --sessions) show it, or as --drift states it.
/// Where nothing differs, at most 5 such comparisons in 100 claim anything. No verdict is given where most runs were
/// disturbed. Sharper, where both can be had at once: evenkeel probe A B. Further probes are compared with the first too.
#[derive(Debug, ClapArgs)]
#[command(after_help = COMPARE_EXAMPLES)]
pub(crate) struct CompareArgs {
    /// probe.json of the base
    #[arg(value_name = "A")]
    pub(crate) base: PathBuf,

    /// probe.json of each probe to compare with it
    #[arg(value_name = "B", required = true)]
    pub(crate) others: Vec<PathBuf>,

    /// Compare at the sizes that both have
    #[arg(long)]
    pub(crate) common_sizes: bool,

    /// By how much two sessions of one stack may differ [default: 30% where no session was repeated, else what the
    /// sessions show]
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    pub(crate) drift: Option<f64>,

    /// End with exit code 1 where a B is shown to be slower than A, by this much or more
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    pub(crate) fail_if_slower: Option<f64>,

    /// Write the charts of all, on the same axes, to this file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "compare.html")]
    pub(crate) html: Option<PathBuf>,

    /// Folder for compare.json, compare.csv and compare.html
    #[arg(long, value_name = "DIR", conflicts_with = "html")]
    pub(crate) out: Option<PathBuf>,

    /// Replace older results
    #[arg(long)]
    pub(crate) force: bool,
}

const COMPARE_EXAMPLES: &str = "\
Examples:
  evenkeel compare before/probe.json after/probe.json
  evenkeel compare xfs/probe.json ext4/probe.json btrfs/probe.json --html=all.html

  evenkeel compare before/probe.json after/probe.json --fail-if-slower 10%

Exit status: 0 done, 1 --fail-if-slower strikes, 2 wrong usage, probes that cannot be compared, or no verdict for
--fail-if-slower.";

/// Cut the power of simulated volumes, and judge every recovery
///
/// Each seed stands for a volume, its drives, what its clients do, what its drives do wrong and when the power is
/// cut or the process killed, all in virtual time. After each cut an oracle judges whether anything acknowledged
/// was lost, torn or taken back. The same seed is the same life, event for event.
///
/// With --layout mirror, the volume lies on a ring of members and several log devices. These die, fall silent, lie, lose
/// writes, rot, come back stale and are replaced meanwhile, as long as one of each has everything; in some seeds, in the
/// end, beyond that. With --layout rs:4+2 it lies in stripes over six members, of which four have to be there.
///
/// With --exhaustive, each seed stands for a small workload instead. The power is cut at every moment between two
/// events of its drives, and there in every outcome: each subset of up to 12 unflushed sectors, a sample of more,
/// torn ones where drives may tear; and again within recoveries. On a ring (two members, unless told otherwise, with two
/// log devices or the log on the members) also with each choice of drives lost that leaves one of each, and each subset
/// of up to 8 sectors that matter.
#[derive(Debug, ClapArgs)]
#[command(after_help = SIM_EXAMPLES)]
pub(crate) struct SimArgs {
    /// How many seeds
    #[arg(long, value_name = "N", default_value_t = 3_000, value_parser = units::count)]
    pub(crate) seeds: u64,

    /// The first seed; the others follow it
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,

    /// Cuts that strike in each, some of them while it recovers from the one before; of a ring, lives that one may end
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) cuts: u32,

    /// On which devices the volumes lie: one drive and its log, or a ring of so many members, or as many as the seed says,
    /// with one to three log devices; or one with stripes, such as rs:4+2
    #[arg(long, value_name = "single|mirror|mirror:N|rs:K+M", default_value = "single", value_parser = sim_layout)]
    pub(crate) layout: SimLayout,

    /// Go on after a seed that breaks a promise
    #[arg(long)]
    pub(crate) keep_going: bool,

    /// Try every crash of small workloads, one workload for each seed
    #[arg(long, conflicts_with_all = ["seeds", "cuts", "keep_going"], help_heading = "Every crash")]
    pub(crate) exhaustive: bool,

    /// Stop at so many crash states, of as many workloads as it takes, from that of --seed on
    #[arg(long, value_name = "N", default_value_t = 1_000_000, requires = "exhaustive",
          value_parser = units::count, help_heading = "Every crash")]
    pub(crate) states: u64,

    /// Only this one of the crash states of the workload of --seed, counted from 0 as a failure names it, with every
    /// cut within its recovery
    #[arg(
        long,
        value_name = "K",
        requires = "exhaustive",
        conflicts_with = "states",
        help_heading = "Every crash"
    )]
    pub(crate) state: Option<u64>,
}

/// On which devices simulated volumes lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SimLayout {
    /// A drive, and perhaps another for the log.
    Single,
    /// A ring of so many members, or as many as the seed says.
    Mirror(Option<usize>),
    /// A ring with stripes of so many data and parity shards.
    Striped {
        /// Shards of data.
        data: usize,
        /// Shards of parity.
        parity: usize,
    },
}

impl std::fmt::Display for SimLayout {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Single => out.write_str("single"),
            Self::Mirror(None) => out.write_str("mirror"),
            Self::Mirror(Some(members)) => write!(out, "mirror:{members}"),
            Self::Striped { data, parity } => write!(out, "rs:{data}+{parity}"),
        }
    }
}

fn sim_layout(text: &str) -> Result<SimLayout, String> {
    match text.split_once(':') {
        None if text == "single" => Ok(SimLayout::Single),
        None if text == "mirror" => Ok(SimLayout::Mirror(None)),
        Some(("mirror", members)) => match members.parse() {
            Ok(members @ 1..=SIM_MEMBERS_MAX) => Ok(SimLayout::Mirror(Some(members))),
            _ => Err(format!("a simulated mirror has 1 to {SIM_MEMBERS_MAX} members")),
        },
        Some(("rs", shards)) => {
            let number = |text: &str| text.parse::<usize>().ok();
            match shards.split_once('+').map(|(data, parity)| (number(data), number(parity))) {
                Some((Some(data @ 2..=SIM_DATA_MAX), Some(parity @ 1..=SIM_PARITY_MAX))) => {
                    Ok(SimLayout::Striped { data, parity })
                }
                _ => Err(format!(
                    "simulated stripes have 2 to {SIM_DATA_MAX} shards of data and 1 to {SIM_PARITY_MAX} of parity, as in rs:4+2"
                )),
            }
        }
        _ => Err("it is single, mirror, mirror:N or rs:K+M".to_owned()),
    }
}

/// Most members of a simulated mirror.
const SIM_MEMBERS_MAX: usize = 5;

/// Most shards of simulated stripes.
const SIM_DATA_MAX: usize = 6;
const SIM_PARITY_MAX: usize = 3;

const SIM_EXAMPLES: &str = "\
Examples:
  evenkeel sim                                      3,000 seeds of at least two cuts and 200 operations
  evenkeel sim --seeds 100000 --cuts 5
  evenkeel sim --seed 4711 --seeds 1                one seed, and what it stands for
  evenkeel sim --layout mirror --seeds 100000       rings, while members and log devices die, lie and rot
  evenkeel sim --layout rs:4+2 --seeds 100000       the same with stripes of four data and two parity shards
  evenkeel sim --exhaustive --states 100000         every crash of small workloads
  evenkeel sim --exhaustive --seed 7 --state 815    one crash state, as a failure names it
  evenkeel sim --exhaustive --layout mirror         every crash of small rings, with drives lost at the same time

Exit status: 0 no promise was broken, 1 one was, 2 wrong usage, 130 interrupted.";

/// Print the JSON Schema of a kind of document
///
/// Every document that evenkeel writes for programs names its schema in its field `schema`, such as `evenkeel.probe/1`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  evenkeel schema                                   names the documents
  evenkeel schema probe > probe.schema.json
  evenkeel schema evenkeel.probe/1                  refused where this version writes another one")]
pub(crate) struct SchemaArgs {
    /// The document, by its name or by its field `schema` [default: list all]
    pub(crate) name: Option<String>,
}

/// Print completions for a shell
#[derive(Debug, ClapArgs)]
#[command(after_help = "Example:\n  evenkeel completions bash > /etc/bash_completion.d/evenkeel")]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

/// Print the manual page
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  evenkeel man | man -l -
  evenkeel man probe > evenkeel-probe.1
  evenkeel man study run                            of a command of a command
  evenkeel man --out /usr/local/share/man/man1      all of them")]
pub(crate) struct ManArgs {
    /// Of this command [default: of evenkeel itself]
    pub(crate) command: Vec<String>,

    /// Write the pages of all commands into this folder, over older ones: evenkeel.1, evenkeel-probe.1 and so on
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(crate) out: Option<PathBuf>,
}

/// Buffer sizes, ascending and distinct.
#[derive(Debug, Clone)]
pub(crate) struct Sizes(pub(crate) Vec<u64>);

fn parse_sizes(text: &str) -> Result<Sizes, String> {
    units::sizes(text).map(Sizes)
}

/// [`Method`] with its help.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum MethodArg {
    /// O_DIRECT and O_DSYNC: past the page cache
    DirectDsync,
    /// O_DIRECT and O_SYNC: metadata too
    DirectSync,
    /// O_DIRECT, RWF_DSYNC with each write
    RwfDsync,
    /// io_uring: an O_DIRECT write linked to a data-only fsync
    Uring,
    /// O_DSYNC through the page cache
    Dsync,
    /// Write, then fdatasync
    Fdatasync,
    /// Write, then fsync
    Fsync,
}

impl From<MethodArg> for Method {
    fn from(arg: MethodArg) -> Self {
        match arg {
            MethodArg::DirectDsync => Self::DirectDsync,
            MethodArg::DirectSync => Self::DirectSync,
            MethodArg::RwfDsync => Self::RwfDsync,
            MethodArg::Uring => Self::Uring,
            MethodArg::Dsync => Self::Dsync,
            MethodArg::Fdatasync => Self::Fdatasync,
            MethodArg::Fsync => Self::Fsync,
        }
    }
}

/// [`Program`] with its help.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ProgramArg {
    /// Batches of 2,300 bytes, fdatasync; p99 below 10 ms
    Etcd,
    /// Blocks of 8 KiB over a recycled segment, fdatasync
    Postgres,
    /// A frame of 4,120 bytes over a recycled WAL, fdatasync
    Sqlite,
    /// Batches of 16 KiB appended, fsync with each
    Kafka,
    /// Entries of 1 KiB into an allocated segment, fsync
    Raft,
}

impl From<ProgramArg> for Program {
    fn from(arg: ProgramArg) -> Self {
        match arg {
            ProgramArg::Etcd => Self::Etcd,
            ProgramArg::Postgres => Self::Postgres,
            ProgramArg::Sqlite => Self::Sqlite,
            ProgramArg::Kafka => Self::Kafka,
            ProgramArg::Raft => Self::Raft,
        }
    }
}

/// [`FileState`] with its help.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum FileStateArg {
    /// New and empty: each write appends
    Fresh,
    /// New, its blocks reserved by fallocate
    Allocated,
    /// Written before: each write overwrites, as in a recycled log
    Written,
}

impl From<FileStateArg> for FileState {
    fn from(arg: FileStateArg) -> Self {
        match arg {
            FileStateArg::Fresh => Self::Fresh,
            FileStateArg::Allocated => Self::Allocated,
            FileStateArg::Written => Self::Written,
        }
    }
}

/// What a latency goal bounds.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum PercentileArg {
    /// The mean over runs
    Mean,
    /// The median over single writes
    #[value(name = "50")]
    P50,
    /// The 99th percentile over single writes
    #[value(name = "99")]
    P99,
    /// The 99.9th percentile over single writes
    #[value(name = "99.9")]
    P999,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_are_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn each_method_and_state_is_called_the_same_everywhere() {
        let name = |value: &dyn Fn() -> String| value();
        for arg in MethodArg::value_variants() {
            let shown = arg.to_possible_value().unwrap().get_name().to_owned();
            assert_eq!(name(&|| Method::from(*arg).name().to_owned()), shown);
        }
        for arg in FileStateArg::value_variants() {
            let shown = arg.to_possible_value().unwrap().get_name().to_owned();
            assert_eq!(FileState::from(*arg).name(), shown);
        }
    }
}
