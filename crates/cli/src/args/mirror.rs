//! What may be typed of mirrors: how their members are run, and which is replaced.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use evenkeel_host::volume::member::Place;

use super::places::{AtomicSectorsArg, place};
use crate::units;

/// How a mirror's members are run.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Mirrors")]
pub(crate) struct MirrorArgs {
    /// How reads and writes share the members
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) policy: PolicyArg,

    /// Longest turn in which a member writes. Longer turns suit drives that stay slow for long after writes, and take more
    /// memory and log [default: what `evenkeel tune` chose, or 1s]
    #[arg(long, value_name = "TIME", value_parser = units::seconds)]
    pub(crate) turn: Option<f64>,

    /// How long small reads of a member must be fast after its turn before clients read it; 0 to read it at once
    #[arg(long, value_name = "TIME", value_parser = units::seconds_or_none, default_value = "100ms")]
    pub(crate) rest: f64,

    /// Clients read it after so long even if it is still slow
    #[arg(long, value_name = "TIME", value_parser = units::seconds, default_value = "2s")]
    pub(crate) rest_max: f64,

    /// How long a member or log device may answer nothing of what it is asked before it fails
    #[arg(long, value_name = "TIME", value_parser = units::seconds, default_value = "10s")]
    pub(crate) answer_max: f64,

    /// Bytes that a rebuild, or a conversion while the volume is served, copies in a second, at most
    #[arg(long, value_name = "RATE", value_parser = units::rate, default_value = "64MiB/s")]
    pub(crate) rebuild_rate: f64,

    /// Whether a member that was lost and answers again is taken back without being told to, with what it missed
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) rejoin: RejoinArg,

    /// Bytes that a scrub reads in a second to find damage, at most
    #[arg(long, value_name = "RATE", value_parser = units::rate, default_value = "4MiB/s")]
    pub(crate) scrub_rate: f64,

    /// From the start of one scrub to the start of the next; `never` for none
    #[arg(long, value_name = "TIME", value_parser = scrub_every, default_value = "24h")]
    pub(crate) scrub_every: ScrubEvery,
}

/// What becomes of members that answer again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RejoinArg {
    /// It is taken back after a quiet time, which doubles up to a minute each time that it is lost again
    Auto,
    /// A person decides: `evenkeel replace VOL X X`
    Off,
}

/// How often, in seconds, if ever.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ScrubEvery(pub(crate) Option<f64>);

fn scrub_every(text: &str) -> Result<ScrubEvery, String> {
    match text {
        "never" => Ok(ScrubEvery(None)),
        text => units::seconds(text).map(|every_s| ScrubEvery(Some(every_s))),
    }
}

/// How reads and writes share the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyArg {
    /// In turns where they help these drives under this load, mixed where they do not, as observed
    Auto,
    /// In turns: who reads does not write
    Turns,
    /// Writes go to all members at once, a read to the least busy; for comparison
    Mixed,
    /// The same, but a member begins no write while it has reads; for comparison
    ReadFirst,
    /// A member that writes is not read, and never do all write; without turns, for comparison
    ReadAround,
}

/// Put another drive in the place of a mirror's member or log device
///
/// Both may be replaced while the volume is served: what the others hold is copied to the new one meanwhile, and
/// `evenkeel status` says how far that is. A member is given up at once, a log device keeps its place until the new one
/// has everything. While nobody serves the volume, the next start does the rest.
/// NEW is made as by `evenkeel create`: a file that does not exist yet gets all its room, and nothing that exists is
/// overwritten unless --destroy names it, nor before it is known that OLD can be replaced, nor where it seems to be
/// another member of the volume. Where NEW is OLD, a member that failed takes part again.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  evenkeel status disk                              which member failed, and why
  evenkeel replace disk member-1 /mnt/c/member      a file on another drive in its place
  evenkeel replace disk /dev/sdx /dev/sdy --destroy /dev/sdy
  evenkeel replace disk log-0 /mnt/d/log            another log device, while clients write
  evenkeel replace disk nbd://host/name nbd://host/name
                                                    the server of that member is back

Exit status: 0 it is replaced (what is copied to NEW may have only begun), 2 wrong usage or what cannot be replaced, 130
interrupted; then nothing has changed, unless the line says that NEW has.")]
pub(crate) struct ReplaceArgs {
    /// The volume's folder
    #[arg(value_name = "VOL")]
    pub(crate) volume: PathBuf,

    /// The member or log device to be replaced, by the name that `status` and volume.toml have for it
    #[arg(value_name = "OLD", value_parser = place())]
    pub(crate) old: Place,

    /// Block device, file or export to take its place
    #[arg(value_name = "NEW", value_parser = place())]
    pub(crate) new: Place,

    /// Take an export of a server that serves several connections at a time, and is not this version of evenkeel: only
    /// where nothing that a killed process of the volume sent to it arrives any more
    #[arg(long)]
    pub(crate) unfenced: bool,

    /// Overwrite NEW, which exists: repeat its name. What it holds is lost
    #[arg(long, value_name = "PLACE", value_parser = place())]
    pub(crate) destroy: Vec<Place>,

    /// Take room only where something is written: a full disk below can then fail the member
    #[arg(long)]
    pub(crate) sparse: bool,

    /// Whether a power cut leaves each sector of NEW old or new, never a mixture
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) atomic_sectors: AtomicSectorsArg,
}
