//! What may be typed of drives.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use super::places::{NbdArg, parse_nbd};
use crate::models;
use crate::units;

/// Serve a simulated drive in real time, which stalls and loses power as the real one
///
/// The drive is a model: NBD clients get from it the latencies, the stalls and the semantics of the drive that it is
/// named after. --cut, or SIGUSR1, pulls its plug: what was only in its volatile buffer is lost, pages in flight are
/// torn, connections end; clients may connect again at once and are answered when the drive has recovered. When it ends
/// it says how late its answers were against the model's time.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DriveArgs {
    /// Which drive; --list names them. Or a file NAME.toml with a model of your own: based_on names a preset, and what the
    /// file says of dies, latencies, over-provisioning, collection, flush, seek or rotation differs from it
    #[arg(value_name = "MODEL", value_parser = models::known, required_unless_present_any = ["list", "cut", "status", "fit"])]
    pub(crate) model: Option<String>,

    /// Size of the drive, such as 8g
    #[arg(long, value_name = "SIZE", value_parser = units::size, required_unless_present_any = ["list", "cut", "status", "fit"])]
    pub(crate) size: Option<u64>,

    /// Where to listen: unix:SOCKET or tcp:HOST:PORT
    #[arg(long, value_name = "WHERE", value_parser = parse_nbd, required_unless_present_any = ["list", "cut", "status", "fit"])]
    pub(crate) nbd: Option<NbdArg>,

    /// Keep what is written in this file instead of in memory: it is made, and gone when the command ends
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// What becomes of it after a power cut
    #[arg(long, value_enum, value_name = "WHAT", default_value = "recover")]
    pub(crate) after_cut: AfterCut,

    /// Fill it first, and overwrite it at random this many times, so that it has garbage to collect [flash drives;
    /// 1.5 times unless told otherwise]
    #[arg(
        long, value_name = "TIMES", value_parser = units::times, num_args = 0..=1, require_equals = true,
        default_missing_value = "1.5", help_heading = "Its past"
    )]
    pub(crate) precondition: Option<f64>,

    /// Write the past that --precondition made to a file, before it is served
    #[arg(long, value_name = "FILE", requires = "precondition", help_heading = "Its past")]
    pub(crate) save: Option<PathBuf>,

    /// Begin with the past in a file of --save
    #[arg(long, value_name = "FILE", conflicts_with = "precondition", help_heading = "Its past")]
    pub(crate) load: Option<PathBuf>,

    /// What torn pages and preconditioning follow from
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,

    /// Name the drives, with their size, what they are and where their numbers come from
    #[arg(long, exclusive = true, help_heading = "Instead of serving")]
    pub(crate) list: bool,

    /// Print a model of your own, NAME.toml, that writes about as fast as the drive that this probe.json measured
    #[arg(long, value_name = "FILE", exclusive = true, help_heading = "Instead of serving")]
    pub(crate) fit: Option<PathBuf>,

    /// Pull the plug of the drive that is served there
    #[arg(long, value_name = "WHERE", value_parser = parse_nbd, exclusive = true, help_heading = "Instead of serving")]
    pub(crate) cut: Option<NbdArg>,

    /// Say what the drive that is served there does, as JSON
    #[arg(long, value_name = "WHERE", value_parser = parse_nbd, exclusive = true, help_heading = "Instead of serving")]
    pub(crate) status: Option<NbdArg>,
}

/// What becomes of a drive whose power was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AfterCut {
    /// The power comes back: who connects again is answered once it has recovered
    Recover,
    /// It ends
    Exit,
}

const EXAMPLES: &str = "\
Examples:
  evenkeel drive --list
  evenkeel drive sata-2011 --size 8g --precondition --nbd unix:/tmp/drive.sock
  nbd-client -unix /tmp/drive.sock /dev/nbd0        as a disk of this machine
  fio --name=try --ioengine=nbd --uri='nbd+unix:///?socket=/tmp/drive.sock' --rw=randread --time_based --runtime=10
  evenkeel drive --fit probe.json > mine.toml       a model of a drive that was probed
  evenkeel drive mine.toml --size 8g --nbd unix:/tmp/drive.sock
  evenkeel drive --cut unix:/tmp/drive.sock         pulls its plug; so does kill -USR1 PID
  evenkeel drive --status unix:/tmp/drive.sock | jq .lateness_s

Exit status:
  0  a signal ended it, or a power cut with --after-cut exit; --cut and --status: it answered
  1  --cut, --status: nobody serves a drive there
  2  wrong usage, or it cannot listen there";
