//! What may be typed to mount a volume's file system.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args as ClapArgs;
use evenkeel_host::front::fuse::MountFlag;

use super::mirror::MirrorArgs;
use super::volume::{LogFormatArg, LogLevelArg};
use crate::units;

/// Mount a volume's file system: an fsync takes only its own file
///
/// Every program can use it, without root and without a kernel module, through FUSE. An fsync makes its file durable, and
/// what the file needs to be found again, and nothing of another file's data. What nobody makes durable is durable after
/// --commit-every. Ctrl-C, SIGTERM and `umount` (or `fusermount3 -u`) end it in order; a kill -9 loses nothing that was
/// made durable, and the next mount goes on.
#[derive(Debug, ClapArgs)]
#[command(after_help = MOUNT_EXAMPLES)]
pub(crate) struct MountArgs {
    /// The volume's folder
    #[arg(value_name = "VOL")]
    pub(crate) volume: PathBuf,

    /// An empty folder, on which it is mounted
    #[arg(value_name = "DIR")]
    pub(crate) mount_point: PathBuf,

    /// Options as mount(8) has them: ro, rw, allow_other, nonempty, dev, nodev, suid, nosuid, exec, noexec, noatime (times of
    /// reading are never written)
    #[arg(short = 'o', long = "options", value_name = "OPTIONS", value_delimiter = ',')]
    pub(crate) options: Vec<MountOptionArg>,

    /// Make the volume first, of this size and with a file system; VOL must be new
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub(crate) create: Option<u64>,

    /// After which time that is made durable which no program asks for
    #[arg(long, value_name = "TIME", value_parser = units::seconds_with_unit, default_value = "5s")]
    pub(crate) commit_every: f64,

    /// Memory for pages of the volume, and half as much for the file system's own [default: 64m; of a mirror 64m, and 4 x
    /// --turn at 64 MiB/s]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub(crate) cache: Option<u64>,

    /// Memory for data that no program has synced; who writes more waits for the disk. From half of it on, and after
    /// --commit-every, it is written out in the background [default: a tenth of the memory that is free, 64m to 1g]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub(crate) write_back: Option<u64>,

    /// Metrics for Prometheus at http://HOST:PORT/metrics
    #[arg(long, value_name = "HOST:PORT", value_parser = super::places::parse_host_port)]
    pub(crate) metrics: Option<String>,

    /// How events are told on standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub(crate) log_format: LogFormatArg,

    /// The least of the events that are told
    #[arg(long, value_name = "LEVEL", value_enum, default_value = "info")]
    pub(crate) log_level: LogLevelArg,

    #[command(flatten)]
    pub(crate) mirror: MirrorArgs,
}

const MOUNT_EXAMPLES: &str = "\
Examples:
  evenkeel mount files mnt --create 8g              make ./files, and mount it on ./mnt
  evenkeel mount files mnt                          mount it again
  evenkeel mount files mnt -o ro                    to be read only
  sudo evenkeel mount files /srv/db -o allow_other  for every user, as permissions go
  evenkeel status files                             what it does
  umount mnt                                        or fusermount3 -u mnt: everything is made durable

Exit status: 0 everything is durable and home, 1 the volume failed or lost a file and says why, 2 wrong usage or what cannot be
mounted, 130 ended at once: the next mount goes on where this one was.";

/// An option of a mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MountOptionArg {
    /// Nothing is written.
    ReadOnly,
    /// Files are written.
    ReadWrite,
    /// Every user may use it.
    AllowOther,
    /// The folder may hold something.
    NonEmpty,
    /// Nothing to do.
    AsItIs,
    /// What the kernel lets programs do.
    Flag(MountFlag),
}

impl FromStr for MountOptionArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "ro" => Self::ReadOnly,
            "rw" => Self::ReadWrite,
            "allow_other" => Self::AllowOther,
            "nonempty" => Self::NonEmpty,
            "noatime" | "default_permissions" | "defaults" => Self::AsItIs,
            "dev" => Self::Flag(MountFlag::Dev),
            "nodev" => Self::Flag(MountFlag::NoDev),
            "suid" => Self::Flag(MountFlag::Suid),
            "nosuid" => Self::Flag(MountFlag::NoSuid),
            "exec" => Self::Flag(MountFlag::Exec),
            "noexec" => Self::Flag(MountFlag::NoExec),
            "sync" | "dirsync" => {
                return Err(format!("`{text}` is not there: a program's fsync is cheap; leave it out"));
            }
            _ => {
                return Err(format!(
                    "`{text}` is no option of this file system; `evenkeel mount --help` names them"
                ));
            }
        })
    }
}
