//! What may be typed of studies.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args as ClapArgs, Subcommand};

/// Study how much a storage stack varies, and which parameter to blame
///
/// A plan names factors (file system, block size, journal mode, I/O scheduler, any option of mkfs or mount, ...),
/// workloads and runs. Latin Hypercube Sampling takes configurations of them; each is made, mounted, filled and run many
/// times, in random order, on a loop device over a file of its own or on a block device that the plan gives up.
#[derive(Debug, ClapArgs)]
#[command(after_help = STUDY_EXAMPLES)]
pub(crate) struct StudyArgs {
    #[command(subcommand)]
    pub(crate) command: StudyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StudyCommand {
    Plan(StudyPlanArgs),
    Run(StudyRunArgs),
    Report(StudyReportArgs),
    #[command(hide = true)]
    Worker(StudyWorkerArgs),
}

/// Which plan.
#[derive(Debug, ClapArgs)]
#[command(group(ArgGroup::new("which").args(["plan", "preset"]).required(true)))]
pub(crate) struct WhichPlan {
    /// The plan, a TOML file
    pub(crate) plan: Option<PathBuf>,

    /// A plan that ships with evenkeel: paper, scaled, case-study or five-minutes
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
}

/// Say what a study will do: its size, its sample, its time, and every command it will run
///
/// Changes nothing, and needs not be root.
#[derive(Debug, ClapArgs)]
#[command(after_help = STUDY_PLAN_EXAMPLES)]
pub(crate) struct StudyPlanArgs {
    #[command(flatten)]
    pub(crate) which: WhichPlan,

    /// The folder that the study will be run in, for the commands
    #[arg(long, value_name = "DIR", default_value = "DIR")]
    pub(crate) out: PathBuf,

    /// Print the plan itself, to change it
    #[arg(long)]
    pub(crate) print: bool,
}

/// Run a study, or go on with one
///
/// Results are in DIR/study.db after each run. Ctrl-C stops at once: everything is unmounted and every loop device
/// released; --resume goes on with the run that it stopped. Needs to be root.
///
/// With --db, results are in a PostgreSQL database instead, and the same command on several machines runs the study
/// together: each takes whole blocks of runs, and what one that died has left goes to another. The first begins the study,
/// the others join in, with --resume or without.
#[derive(Debug, ClapArgs)]
#[command(after_help = STUDY_RUN_EXAMPLES)]
pub(crate) struct StudyRunArgs {
    #[command(flatten)]
    pub(crate) which: WhichPlan,

    /// Folder for the results, and meanwhile for what the runs need
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,

    /// Go on with the study of this plan that was begun there
    #[arg(long)]
    pub(crate) resume: bool,

    /// When going on, try again what failed or was skipped
    #[arg(long, requires = "resume")]
    pub(crate) retry_failed: bool,

    /// PostgreSQL database for the results, shared by several machines: postgres://user@host/database. Its password comes
    /// from PGPASSWORD, or stands in the address. The connection is not encrypted
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) db: Option<String>,

    /// What results call this machine [default: its host name]
    #[arg(long, value_name = "NAME")]
    pub(crate) machine: Option<String>,

    /// With --db: how long after this machine was last heard of others take over what it has left
    #[arg(long, value_name = "TIME", default_value = "60s", requires = "db", value_parser = lease)]
    pub(crate) lease: Duration,
}

/// A lease long enough for several heartbeats.
fn lease(text: &str) -> Result<Duration, String> {
    match evenkeel_measure::quantity::seconds(text)? {
        seconds if (1.0..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("a lease is at least 1s and at most 24h".to_owned()),
    }
}

/// Report what a study found: figures, tables, and which parameter to change
///
/// Reads DIR/study.db, or with --db a PostgreSQL database, also while the study runs. Prints what it says, and writes study.html, a page of all figures that
/// opens without a network, study.json, and a file of comma-separated values for each table, over those of an earlier
/// report.
#[derive(Debug, ClapArgs)]
#[command(after_help = STUDY_REPORT_EXAMPLES)]
#[command(group(ArgGroup::new("study").args(["folder", "db"]).required(true)))]
pub(crate) struct StudyReportArgs {
    /// The folder that the study was run in
    pub(crate) folder: Option<PathBuf>,

    /// The PostgreSQL database that it was run with: postgres://user@host/database, and PGPASSWORD
    #[arg(long, value_name = "ADDRESS", requires = "out")]
    pub(crate) db: Option<String>,

    /// Folder for the report [default: that of the study]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Windows of figure 5, throughput over time [default: at most 60 a run]
    #[arg(long, value_name = "TIME", value_parser = evenkeel_measure::quantity::seconds)]
    pub(crate) window: Option<f64>,
}

/// Run a workload: what `study run` starts, with the job on standard input
#[derive(Debug, ClapArgs)]
pub(crate) struct StudyWorkerArgs {}

const STUDY_EXAMPLES: &str = "\
Examples:
  evenkeel study plan --preset five-minutes         what it would do
  sudo evenkeel study run --preset five-minutes --out s
                                                    see a study work
  evenkeel study report s                           what it found
  evenkeel study plan --preset scaled --print > plan.toml
                                                    a plan of your own to start from

Exit status: 0 every run is done, 1 runs failed or were skipped, 2 wrong usage, an unusable plan or machine, 75 stopped by
what may pass, such as a device that is in use: --resume goes on; 130 interrupted, likewise.";

const STUDY_PLAN_EXAMPLES: &str = "\
Examples:
  evenkeel study plan plan.toml
  evenkeel study plan --preset paper
  evenkeel study plan --preset scaled --print > plan.toml

Exit status: 0 done, 2 wrong usage or an unusable plan.";

const STUDY_RUN_EXAMPLES: &str = "\
Examples:
  sudo evenkeel study run plan.toml --out results
  sudo evenkeel study run plan.toml --out results --resume
                                                    after Ctrl-C, or a crash
  sudo evenkeel study run plan.toml --out results --resume --retry-failed
                                                    what failed, too
  sudo -E evenkeel study run plan.toml --out scratch --db postgres://me@db.example/study
                                                    the same on each of several machines
  sqlite3 results/study.db 'SELECT state, count(*) FROM run GROUP BY state'

Exit status: 0 every run is done, 1 runs failed or were skipped, 2 wrong usage, an unusable plan or machine, 75 stopped by
what may pass, such as a device that is in use: --resume goes on; 130 interrupted, likewise.";

const STUDY_REPORT_EXAMPLES: &str = "\
Examples:
  evenkeel study report results
  evenkeel study report /mnt/archive/results --out report
  evenkeel study report results --window 120s       throughput over time, in windows of two minutes
  evenkeel study report --db postgres://me@db.example/study --out report

Exit status: 0 done, 2 no study there, or a damaged one.";
