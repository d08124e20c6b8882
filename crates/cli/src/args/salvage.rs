//! What may be typed of a volume that is damaged.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use evenkeel_host::volume::member::Place;

use super::places::place;

/// Copy what can be had of a damaged volume into a file
///
/// Opens the volume with whatever is there of it, where `serve` and `check` refuse: a log with a damaged record, or none;
/// a damaged root or superblock; a mirror or stripes without some of their members; a drive that has become read-only.
/// Nothing is written to any of them. The bytes of the volume go to OUT, and every range is named whose bytes are not known to be
/// those that were acknowledged last: `lost` (zeros in OUT), `stale` (perhaps older), or `uncertain` (as the drive holds
/// them, and nothing vouches for them).
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SalvageArgs {
    /// The volume's folder
    #[arg(value_name = "VOL")]
    pub(crate) volume: PathBuf,

    /// A new file for the bytes of the volume; it takes room only where there are some
    #[arg(value_name = "OUT", required_unless_present = "dry_run")]
    pub(crate) out: Option<PathBuf>,

    /// Overwrite this file or block device: repeat the name of OUT. What it holds is lost
    #[arg(long, value_name = "OUT")]
    pub(crate) destroy: Option<PathBuf>,

    /// Read all of it and name what is damaged, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// What was found, as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Make the lost log of a volume once more
///
/// Of a volume that was stopped in order everything is with its pages: its log holds nothing that is needed, and can be
/// made anew in the same place. Where the volume was not stopped in order, or its log is there, nothing is done. A new
/// file gets all its room; what exists is not overwritten unless --destroy names it. A power cut or Ctrl-C meanwhile
/// leaves the volume as it was; a file may then be in the place of the log: run it again with --destroy PLACE. Of a mirror
/// or stripes all log devices are made anew; all members have to be there, to say that the volume was stopped.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  evenkeel renew-log disk --dry-run                 whether it can be, and what would be made
  evenkeel renew-log disk
  evenkeel renew-log disk --destroy /dev/sdx        a new drive is where the log was
  evenkeel salvage disk disk.img                    what can be had where it was not stopped in order

Exit status: 0 the log is there again, 2 wrong usage or a volume whose log cannot be made again, 130 interrupted.")]
pub(crate) struct RenewLogArgs {
    /// The volume's folder
    #[arg(value_name = "VOL")]
    pub(crate) volume: PathBuf,

    /// Overwrite what is in the place of the log: repeat its name. What it holds is lost
    #[arg(long, value_name = "PLACE", value_parser = place())]
    pub(crate) destroy: Vec<Place>,

    /// Say what would be made, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

const EXAMPLES: &str = "\
Examples:
  evenkeel salvage disk --dry-run                   what could be had, and which ranges could not
  evenkeel salvage disk disk.img                    all that can be had, as a file
  evenkeel salvage disk disk.img --json > found.json
  evenkeel serve disk --salvage                     the same over NBD, to be read only

Exit status: 0 all of it is whole, 1 something is lost, stale or uncertain, 2 wrong usage or a volume of which nothing
can be had, 130 interrupted.";
