//! What may be typed of drives.

use clap::Args as ClapArgs;

use super::volume::{NbdArg, parse_nbd};
use crate::units;

/// Serve a simulated drive in real time, which stalls and loses power as the real one
///
/// The drive is a model: NBD clients get from it the latencies, the stalls and the semantics of the drive that it is
/// named after. What it holds is kept in memory and gone when the command ends. SIGUSR1 pulls its plug: what was only in
/// its volatile buffer is lost, pages in flight are torn, connections end; clients may connect again at once and are
/// answered when the drive has recovered. When it ends it says how late its answers were against the model's time.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DriveArgs {
    /// Which drive; --list names them
    #[arg(value_name = "MODEL", required_unless_present = "list")]
    pub(crate) model: Option<String>,

    /// Name the drives, with a line each on what they are and where their numbers come from
    #[arg(long, exclusive = true)]
    pub(crate) list: bool,

    /// Size of the drive, such as 8g
    #[arg(long, value_name = "SIZE", value_parser = units::size, required_unless_present = "list")]
    pub(crate) size: Option<u64>,

    /// Where to listen: unix:SOCKET or tcp:HOST:PORT
    #[arg(long, value_name = "WHERE", value_parser = parse_nbd, required_unless_present = "list")]
    pub(crate) nbd: Option<NbdArg>,

    /// Fill it first, and overwrite it at random this many times, so that it has garbage to collect [flash drives]
    #[arg(long, value_name = "TIMES", value_parser = units::times)]
    pub(crate) precondition: Option<f64>,

    /// What torn pages and preconditioning follow from
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,
}

const EXAMPLES: &str = "\
Examples:
  evenkeel drive --list
  evenkeel drive sata-2011 --size 8g --precondition 1.5 --nbd unix:/tmp/drive.sock
  nbd-client -unix /tmp/drive.sock /dev/nbd0
  kill -USR1 PID                    pulls its plug

Exit status:
  0  a signal ended it
  2  wrong usage, or it cannot listen there";
