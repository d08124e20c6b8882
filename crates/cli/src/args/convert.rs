//! What may be typed to give a volume another layout.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use evenkeel_host::volume::layout_kind::LayoutName;
use evenkeel_host::volume::member::Place;

use super::places::{AtomicSectorsArg, place};
use crate::units;

/// Give a volume another layout, or other members: copy all of it
///
/// Makes new members and log devices, copies everything to them, and has volume.toml name them. The members that the volume
/// had stay as they are, and are no longer used. Until the end, the volume is what it was: an error, Ctrl-C and a power cut change
/// nothing. It must not be served meanwhile. What `evenkeel tune` chose for its drives is forgotten.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConvertArgs {
    /// The volume's folder
    #[arg(value_name = "VOL")]
    pub(crate) volume: PathBuf,

    /// How pages are to be laid over members: single, mirror, or rs:K+M, as `evenkeel create` has it
    #[arg(long, value_name = "LAYOUT")]
    pub(crate) layout: LayoutName,

    /// New block device, file or export for the pages, once for each member [default: files in VOL: home, or member-0 and so on]
    #[arg(long, value_name = "PLACE", value_parser = place())]
    pub(crate) member: Vec<Place>,

    /// New block device, file or export for the log, once for each log device [default: files in VOL: log, or log-0 and so on]
    #[arg(long, value_name = "PLACE", value_parser = place())]
    pub(crate) log: Vec<Place>,

    /// Keep the log of a mirror on its members, as `evenkeel create` has it
    #[arg(long, conflicts_with = "log")]
    pub(crate) log_on_members: bool,

    /// Size of the log, as `evenkeel create` has it
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub(crate) log_size: Option<u64>,

    /// Bytes of a shard of layout rs:K+M: 64k unless given
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub(crate) shard: Option<u64>,

    /// Take room only where something is written: a full disk below can then stop the volume
    #[arg(long)]
    pub(crate) sparse: bool,

    /// Whether a power cut leaves each sector of the drives old or new, never a mixture
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) atomic_sectors: AtomicSectorsArg,

    /// Take exports of servers that serve several connections at a time, as `evenkeel create` has it
    #[arg(long)]
    pub(crate) unfenced: bool,

    /// Overwrite this existing file, block device or export: repeat the name that --member or --log has. What it
    /// holds is lost
    #[arg(long, value_name = "PLACE", value_parser = place())]
    pub(crate) destroy: Vec<Place>,

    /// Say what would be made and lost, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

const EXAMPLES: &str = "\
Examples:
  evenkeel convert disk --layout mirror --dry-run   what that would take, and survive
  evenkeel convert disk --layout mirror --member /mnt/a/disk --member /mnt/b/disk \\
      --log /mnt/a/disk-log --log /mnt/b/disk-log   a mirror on two drives
  evenkeel convert disk --layout rs:4+2 --member /dev/sda --destroy /dev/sda ...
  evenkeel convert disk --layout single --member /mnt/new/home --log /mnt/new/log
                                                    the same layout in another place

Exit status: 0 done, 1 done though it could not be said, 2 wrong usage or what cannot be converted, 130 interrupted; then the volume is
what it was.";
