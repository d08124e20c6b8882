//! What may be typed to mount a volume's file system.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args as ClapArgs, ValueEnum};
use evenkeel_host::front::fuse::{MountFlag, Transport};

use super::http::HttpArgs;
use super::mirror::MirrorArgs;
use super::volume::{LogFormatArg, LogLevelArg};
use crate::units;

/// Mount a volume's file system: an fsync takes only its own file
///
/// Every program can use it, without root and without a kernel module, through FUSE. An fsync makes its file durable, and
/// what the file needs to be found again, and writes out nothing of another file's data. What nobody makes durable is durable after
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
    /// reading are never written), and for fstab cache=SIZE, write_back=SIZE, commit=TIME, transport=WAY,
    /// cpu_latency=TIME, metrics=HOST:PORT and http=HOST:PORT, which are --cache, --write-back, --commit-every, --transport,
    /// --cpu-latency, --metrics and --http. What fstab says to others (defaults, nofail, _netdev,
    /// x-systemd.*) does nothing
    #[arg(short = 'o', long = "options", value_name = "OPTIONS", value_delimiter = ',')]
    pub(crate) options: Vec<MountOptionArg>,

    /// Make the volume first, of this size and with a file system; VOL must be new
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub(crate) create: Option<u64>,

    /// After which time that is made durable which no program asks for
    #[arg(long, value_name = "TIME", value_parser = units::seconds_with_unit, default_value = "5s")]
    pub(crate) commit_every: f64,

    /// While programs ask, have no processor of the machine take longer than this to wake, such as 0us: quicker calls for more power.
    /// Needs write access to /dev/cpu_dma_latency, as root has [default: as the system has it]
    #[arg(long, value_name = "TIME", value_parser = units::seconds_or_none)]
    pub(crate) cpu_latency: Option<f64>,

    /// Memory for pages of the volume, and half as much for the file system's own [default: 64m; of a mirror 64m, and 4 x
    /// --turn at 64 MiB/s]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub(crate) cache: Option<u64>,

    /// Memory for data that no program has synced; who writes more waits for the disk. From half of it on, and after
    /// --commit-every, it is written out in the background [default: a tenth of the memory that is free, 64m to 1g]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub(crate) write_back: Option<u64>,

    /// How the kernel hands requests over. io-uring needs Linux 6.14 and the parameter enable_uring of the kernel's module
    /// fuse (as root: echo Y > /sys/module/fuse/parameters/enable_uring)
    #[arg(long, value_name = "WAY", value_enum, default_value = "device")]
    pub(crate) transport: TransportArg,

    /// Metrics for Prometheus at http://HOST:PORT/metrics
    #[arg(long, value_name = "HOST:PORT", value_parser = super::places::parse_host_port)]
    pub(crate) metrics: Option<String>,

    #[command(flatten)]
    pub(crate) http: HttpArgs,

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
  evenkeel status files --watch                     what it does now; or on a page, with --http 127.0.0.1:9101
  umount mnt                                        or fusermount3 -u mnt: everything is made durable

Exit status: 0 everything is durable and home, 1 the volume failed or lost a file and says why, 2 wrong usage or what cannot be
mounted, 130 ended at once: the next mount goes on where this one was.";

/// How requests come from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TransportArg {
    /// By /dev/fuse
    Device,
    /// Over io_uring, many by one system call: on two processors as fast, or up to a fifth slower
    IoUring,
}

impl From<TransportArg> for Transport {
    fn from(transport: TransportArg) -> Self {
        match transport {
            TransportArg::Device => Self::Device,
            TransportArg::IoUring => Self::IoUring,
        }
    }
}

/// An option of a mount.
#[derive(Debug, Clone, PartialEq)]
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
    /// As `--cache`.
    Cache(u64),
    /// As `--write-back`.
    WriteBack(u64),
    /// As `--commit-every`.
    CommitEvery(f64),
    /// As `--cpu-latency`.
    CpuLatency(f64),
    /// As `--transport`.
    Transport(TransportArg),
    /// As `--metrics`.
    Metrics(String),
    /// As `--http`.
    Http(String),
    /// What the kernel lets programs do.
    Flag(MountFlag),
}

impl FromStr for MountOptionArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((name, value)) = text.split_once('=') {
            match name {
                "cache" => return units::size(value).map(Self::Cache),
                "write_back" => return units::size(value).map(Self::WriteBack),
                "commit" => return commit_every(value).map(Self::CommitEvery),
                "cpu_latency" => return units::seconds_or_none(value).map(Self::CpuLatency),
                "transport" => return TransportArg::from_str(value, false).map(Self::Transport),
                "metrics" => return super::places::parse_host_port(value).map(Self::Metrics),
                "http" => return super::places::parse_host_port(value).map(Self::Http),
                _ => {}
            }
        }
        Ok(match text {
            "ro" => Self::ReadOnly,
            "rw" => Self::ReadWrite,
            "allow_other" => Self::AllowOther,
            "nonempty" => Self::NonEmpty,
            "dev" => Self::Flag(MountFlag::Dev),
            "nodev" => Self::Flag(MountFlag::NoDev),
            "suid" => Self::Flag(MountFlag::Suid),
            "nosuid" => Self::Flag(MountFlag::NoSuid),
            "exec" => Self::Flag(MountFlag::Exec),
            "noexec" => Self::Flag(MountFlag::NoExec),
            "sync" | "dirsync" => {
                return Err(format!("`{text}` is not there: a program's fsync is cheap; leave it out"));
            }
            "remount" => {
                return Err("a mount keeps its options: unmount it, and mount it again".to_owned());
            }
            _ if is_for_others(text) => Self::AsItIs,
            _ => {
                return Err(format!(
                    "`{text}` is no option of this file system; `evenkeel mount --help` names them"
                ));
            }
        })
    }
}

/// Whether an option says what this file system does anyway, or something to mount(8) or a service manager.
fn is_for_others(text: &str) -> bool {
    let name = text.split_once('=').map_or(text, |(name, _)| name);
    let is_private = ["x-", "X-"].iter().any(|start| name.starts_with(start));
    is_private
        || matches!(
            name,
            "defaults"
                | "noatime"
                | "nodiratime"
                | "relatime"
                | "norelatime"
                | "lazytime"
                | "nolazytime"
                | "default_permissions"
                | "async"
                | "auto"
                | "noauto"
                | "user"
                | "nouser"
                | "users"
                | "nousers"
                | "owner"
                | "noowner"
                | "group"
                | "nogroup"
                | "nofail"
                | "_netdev"
                | "silent"
                | "loud"
                | "comment"
        )
}

/// A time as file systems have it in fstab: whole seconds, unless a unit is there.
fn commit_every(text: &str) -> Result<f64, String> {
    match text.parse::<u32>() {
        Ok(seconds) => Ok(seconds.into()),
        Err(_) => units::seconds_with_unit(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_fstab_are_taken_and_others_are_refused() {
        for text in [
            "defaults",
            "nofail",
            "_netdev",
            "x-systemd.automount",
            "x-gvfs-name=Files",
            "user=me",
            "relatime",
        ] {
            assert_eq!(text.parse(), Ok(MountOptionArg::AsItIs), "{text}");
        }
        assert_eq!("cache=1m".parse(), Ok(MountOptionArg::Cache(1 << 20)));
        assert_eq!("write_back=2m".parse(), Ok(MountOptionArg::WriteBack(2 << 20)));
        assert_eq!("transport=io-uring".parse(), Ok(MountOptionArg::Transport(TransportArg::IoUring)));
        assert_eq!("commit=30".parse(), Ok(MountOptionArg::CommitEvery(30.0)));
        assert_eq!("commit=200ms".parse(), Ok(MountOptionArg::CommitEvery(0.2)));
        assert_eq!("http=localhost:80".parse(), Ok(MountOptionArg::Http("localhost:80".to_owned())));
        assert_eq!("metrics=[::1]:80".parse(), Ok(MountOptionArg::Metrics("[::1]:80".to_owned())));
        for (text, why) in [
            ("remount", "mount it again"),
            ("sync", "cheap"),
            ("data=journal", "no option"),
            ("transport=mail", "mail"),
            ("cache", "no option"),
            ("cache=much", "much"),
            ("write_back=all", "all"),
            ("metrics=80", "HOST:PORT is wanted"),
        ] {
            let refused = text.parse::<MountOptionArg>().unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
