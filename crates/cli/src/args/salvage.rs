//! What may be typed of a volume that is damaged.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// Copy what can be had of a damaged volume into a file
///
/// Opens the volume with whatever is there of it, where `serve` and `check` refuse: a log with a damaged record, or none;
/// a damaged root or superblock; a mirror without some of its members; a drive that has become read-only. Nothing is
/// written to any of them. The bytes of the volume go to OUT, and every range is named whose bytes are not known to be
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

const EXAMPLES: &str = "\
Examples:
  evenkeel salvage disk --dry-run                   what could be had, and which ranges could not
  evenkeel salvage disk disk.img                    all that can be had, as a file
  evenkeel salvage disk disk.img --json > found.json
  evenkeel serve disk --salvage                     the same over NBD, to be read only

Exit status: 0 all of it is whole, 1 something is lost, stale or uncertain, 2 wrong usage or a volume of which nothing
can be had, 130 interrupted.";
