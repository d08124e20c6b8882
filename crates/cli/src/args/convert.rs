//! What may be typed to give a volume another layout.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use evenkeel_host::volume::layout_kind::LayoutName;

use super::members::MembersArgs;

/// Give a volume another layout, or other members: copy all of it
///
/// Makes new members and log devices, copies everything to them, and has volume.toml name them. The members that the volume
/// had stay as they are, and are no longer used. Until the end, the volume is what it was: an error, Ctrl-C and a power cut change
/// nothing. A volume that is served or mounted stays so: its server copies, and its clients wait for a moment at the end. What
/// `evenkeel tune` chose for its drives is forgotten.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConvertArgs {
    /// The volume's folder
    #[arg(value_name = "VOL")]
    pub(crate) volume: PathBuf,

    /// How pages are to be laid over members: single, mirror, or rs:K+M, as `evenkeel create` has it
    #[arg(long, value_name = "LAYOUT")]
    pub(crate) layout: LayoutName,

    #[command(flatten)]
    pub(crate) members: MembersArgs,

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
