//! What may be typed of the members and log devices that a volume is to have, when it is made or converted.

use clap::Args as ClapArgs;
use evenkeel_host::volume::member::Place;

use super::places::{AtomicSectorsArg, place};
use crate::units;

/// Where members and log devices are to be, and what is known of them.
#[derive(Debug, ClapArgs)]
pub(crate) struct MembersArgs {
    /// Block device or file for the pages, or an NBD server's export such as nbd://host/name [default: VOL/home]; of a
    /// mirror once for each member [default: VOL/member-0 and member-1]
    #[arg(long, value_name = "PLACE", value_parser = place())]
    pub(crate) member: Vec<Place>,

    /// Block device, file or export for the log [default: VOL/log; on the member where that is a block device]; of a
    /// mirror once for each log device, none of which is a member [default: VOL/log-0 and so on, as many as members]
    #[arg(long, value_name = "PLACE", value_parser = place())]
    pub(crate) log: Vec<Place>,

    /// Keep the log of a mirror on its members, in an area of each, and not on log devices. Records go to the members in
    /// their turn of writing, so that reads do not wait for them. But the last writes are on one member alone until a
    /// checkpoint: the loss of a member together with a power cut or a crash ends the volume
    #[arg(long, conflicts_with = "log")]
    pub(crate) log_on_members: bool,

    /// Size of the log [default: an eighth of the disk, from 16m to 512m; of a mirror, which holds two turns' writes in
    /// it, from 64m to 1g]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub(crate) log_size: Option<u64>,

    /// Bytes of a shard, what one member holds of a stripe of layout rs:K+M: 64k unless given
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub(crate) shard: Option<u64>,

    /// Take room only where something is written: a full disk below can then stop the volume
    #[arg(long)]
    pub(crate) sparse: bool,

    /// Whether a power cut leaves each sector of the drives old or new, never a mixture
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) atomic_sectors: AtomicSectorsArg,

    /// Take exports of servers that serve several connections at a time, and are not this version of evenkeel. What a
    /// killed process of the volume still had on its way to them may then land after newer writes, and damage the volume:
    /// only where you know that nothing of it arrives any more
    #[arg(long)]
    pub(crate) unfenced: bool,

    /// Overwrite this existing file, block device or export: repeat the name that --member or --log has. What it
    /// holds is lost
    #[arg(long, value_name = "PLACE", value_parser = place())]
    pub(crate) destroy: Vec<Place>,
}
