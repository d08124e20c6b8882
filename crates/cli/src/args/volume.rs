//! What may be typed of volumes: create, serve, status, check.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args as ClapArgs, ValueEnum};
use evenkeel_host::volume::layout_kind::LayoutName;

use super::http::HttpArgs;
use super::members::MembersArgs;
use super::mirror::MirrorArgs;
use super::places::{NbdArg, parse_host_port, parse_nbd};
use crate::units;

/// Memory for pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheArg {
    /// It follows what is free.
    Auto,
    /// So many bytes.
    Bytes(u64),
}

impl CacheArg {
    /// Where it was chosen.
    pub(crate) fn bytes(self) -> Option<u64> {
        match self {
            Self::Auto => None,
            Self::Bytes(bytes) => Some(bytes),
        }
    }
}

impl FromStr for CacheArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            size => units::size(size).map(Self::Bytes).map_err(|error| format!("{error}, or auto")),
        }
    }
}

/// Make a volume: a virtual disk in a folder
///
/// The folder, which must be new or empty, gets a description (volume.toml) and the volume's members: its pages
/// and its log, as files with all the room they need. Nothing that exists is overwritten unless --destroy names
/// it.
#[derive(Debug, ClapArgs)]
#[command(after_help = CREATE_EXAMPLES)]
pub(crate) struct CreateArgs {
    /// The folder
    #[arg(value_name = "VOL")]
    pub(crate) volume: PathBuf,

    /// Size of the disk, such as 8g
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub(crate) size: u64,

    #[command(flatten)]
    pub(crate) members: MembersArgs,

    /// How pages are laid over members: single, mirror, or rs:K+M
    ///
    /// single: one member; its loss is the volume's. mirror: two or more members that hold the same and read and write in
    /// turns; one of them, and one of the log devices, is enough. rs:K+M, such as rs:4+2: K+M members that hold K parts of
    /// data and M of parity, in turns as well; any K of them, and one of the log devices, are enough.
    #[arg(long, value_name = "LAYOUT", default_value = "single")]
    pub(crate) layout: LayoutName,

    /// Largest atomic write: after a power cut it is there whole or not at all. It cannot be changed later
    #[arg(long, value_name = "SIZE", value_parser = units::size, default_value = "16k")]
    pub(crate) atomic_max: u64,

    /// Memory for writes that are acknowledged and not yet durable
    #[arg(long, value_name = "SIZE", value_parser = units::size, default_value = "64m")]
    pub(crate) buffer: u64,

    /// Make a file system on it, to be mounted with `evenkeel mount`
    #[arg(long, value_enum, value_name = "TYPE")]
    pub(crate) format: Option<FileSystemArg>,

    /// Find by trying how it is to be run on its drives, as `evenkeel tune` does, before it is made: block devices and exports
    /// are written to meanwhile. It takes a minute, or about TIME
    #[arg(long, value_name = "TIME", value_parser = units::seconds_with_unit, num_args = 0..=1, require_equals = true,
          default_missing_value = "60s", conflicts_with = "dry_run")]
    pub(crate) tune: Option<f64>,

    /// Say what would be made and lost, and make nothing. Exports are looked at: nothing is written to them, and nobody who
    /// uses them is disturbed
    #[arg(long)]
    pub(crate) dry_run: bool,
}

const CREATE_EXAMPLES: &str = "\
Examples:
  evenkeel create disk --size 8g                    a disk of 8 GiB in ./disk
  evenkeel create files --size 8g --format ext2     with a file system, for `evenkeel mount`
  evenkeel create disk --size 100g --dry-run        what that would make
  evenkeel create db --size 400g --member /dev/sdx --destroy /dev/sdx
                                                    pages and log on a block device
  evenkeel create db --size 400g --member /dev/sdx --log /dev/nvme0n1p3 --destroy /dev/sdx \\
      --destroy /dev/nvme0n1p3                      the log on a faster one
  evenkeel create far --size 8g --member nbd://host/name --destroy nbd://host/name
                                                    pages on another machine, the log here
  evenkeel create db --size 400g --layout mirror --member /dev/sdx --member /dev/sdy --destroy /dev/sdx \\
      --destroy /dev/sdy --log /mnt/a/db-log --log /mnt/b/db-log
                                                    a mirror that survives the loss of a drive of either kind
  evenkeel create db --size 400g --layout rs:4+2 --dry-run
                                                    what stripes of four data and two parity shards take and survive

Exit status: 0 done, 1 made though it could not be said, 2 wrong usage or what cannot be made, 130 interrupted; then nothing is left behind.";

/// Serve a volume over NBD
///
/// Whatever a power cut or a kill left undone is done first; then clients may connect. Ctrl-C or SIGTERM lets
/// requests under way finish, makes everything durable and ends; a second one ends at once, and loses nothing
/// that was acknowledged either. Takes sockets from systemd, and tells it when it is ready.
#[derive(Debug, ClapArgs)]
#[command(after_help = SERVE_EXAMPLES)]
pub(crate) struct ServeArgs {
    /// The volume's folder
    #[arg(value_name = "VOL")]
    pub(crate) volume: PathBuf,

    /// Where to listen: unix:SOCKET (for this user only, unless --socket-mode) or tcp:HOST:PORT; may be repeated [default:
    /// unix:VOL/nbd.sock, or the sockets that systemd hands over]
    #[arg(long, value_name = "WHERE", value_parser = parse_nbd)]
    pub(crate) nbd: Vec<NbdArg>,

    /// Mode of the Unix sockets where clients connect, such as 660 to let their group in: whoever may write to one reads
    /// and writes the disk. A group outside does not reach the default, which lies in VOL: name one elsewhere
    /// [default: 600]
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    pub(crate) socket_mode: Option<u32>,

    /// Group of these sockets, by name or number; it needs a --socket-mode that lets it in
    #[arg(long, value_name = "GROUP", requires = "socket_mode")]
    pub(crate) socket_group: Option<String>,

    /// Serve nothing without TLS, with server-cert.pem and server-key.pem of this folder; clients must show a
    /// certificate where it holds ca-cert.pem too
    #[arg(long, value_name = "DIR")]
    pub(crate) tls: Option<PathBuf>,

    /// Metrics for Prometheus at http://HOST:PORT/metrics
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_host_port)]
    pub(crate) metrics: Option<String>,

    #[command(flatten)]
    pub(crate) http: HttpArgs,

    /// Refuse writes
    #[arg(long)]
    pub(crate) read_only: bool,

    /// Serve what there is of a damaged volume, to be read only, and write nothing to it; what is lost reads as an error.
    /// See `evenkeel salvage`
    #[arg(long, conflicts_with_all = ["metrics", "http", "cache"])]
    pub(crate) salvage: bool,

    /// Which bytes are journaled
    #[arg(long, value_enum, default_value = "selective")]
    pub(crate) journaling: JournalingArg,

    /// From which size on selective journaling writes straight home [default: what `evenkeel tune` chose, else 256k]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub(crate) threshold: Option<u64>,

    /// Memory for pages: those on their way home, and those that were used last. auto: it begins with 64m (of a mirror 64m,
    /// and 4 x --turn at 64 MiB/s), grows as it is used into memory that is free, up to a quarter of all, and gives it back
    /// where others need it; with --lock-memory it does not grow. Beside it, sums of pages (an eighth of it, and half of it during a
    /// checkpoint of pages far apart) and the --buffer of `create` the server takes less than 64 MiB, however much clients ask for at once; the system's page cache is not the server's
    #[arg(long, value_name = "SIZE|auto", default_value = "auto")]
    pub(crate) cache: CacheArg,

    /// Connections at a time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) connections: u32,

    /// Keep the server's memory from being swapped out, for what is swapped or written back through this very disk, such as a
    /// file system on this machine's own NBD client. What it takes it keeps; needs CAP_IPC_LOCK or no limit of locked memory
    #[arg(long)]
    pub(crate) lock_memory: bool,

    /// While clients ask, have no processor of the machine take longer than this to wake, such as 0us: quicker answers for more power.
    /// Needs write access to /dev/cpu_dma_latency, as root has [default: as the system has it]
    #[arg(long, value_name = "TIME", value_parser = units::seconds_or_none)]
    pub(crate) cpu_latency: Option<f64>,

    /// Interface to the kernel's I/O
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) backend: BackendArg,

    /// Format of events on standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub(crate) log_format: LogFormatArg,

    /// Least severe events that are shown
    #[arg(long, value_name = "LEVEL", value_enum, default_value = "info")]
    pub(crate) log_level: LogLevelArg,

    #[command(flatten)]
    pub(crate) mirror: MirrorArgs,
}

const SERVE_EXAMPLES: &str = "\
Examples:
  evenkeel serve disk                               on the socket disk/nbd.sock
  nbdinfo 'nbd+unix:///?socket=disk/nbd.sock'       what a client sees
  nbdfuse mnt/disk --unix disk/nbd.sock &           as a file, for mkfs and a loop device
  qemu-img convert -n image.qcow2 'nbd+unix:///?socket=disk/nbd.sock'
  evenkeel serve disk --nbd tcp:0.0.0.0:10809 --tls /etc/pki/nbd --metrics 127.0.0.1:9100
  evenkeel serve disk --http 127.0.0.1:9101         a page that shows what it does: http://127.0.0.1:9101/
  evenkeel serve disk --log-format json 2>>events   what happens, for programs

Exit status: 0 everything is durable and home, 1 the volume failed or lost a file and says why, 2 wrong usage or a volume that
cannot be opened, 130 ended at once: the next start goes on where this one was.";

/// A mode in octal digits.
fn parse_mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        // Who connects has to write to it.
        Ok(mode) if mode <= 0o777 && mode & 0o222 == 0 && text.bytes().all(|it| it.is_ascii_digit()) => {
            Err("nobody could connect: that takes the right to write, as in 600 or 660".to_owned())
        }
        Ok(mode) if mode <= 0o777 && text.bytes().all(|it| it.is_ascii_digit()) => Ok(mode),
        _ => Err("a mode is up to four octal digits, such as 660".to_owned()),
    }
}

/// Which bytes go through the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum JournalingArg {
    /// Every write, as the bytes that changed
    Wasteless,
    /// The same for writes below --threshold; larger ones go straight home: all where the drive keeps sectors whole, else those over
    /// pages without contents, and none on a mirror
    Selective,
    /// Every write, as whole pages; for comparison
    WholePages,
    /// Every write straight home; for comparison
    Ordered,
}

/// How events are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormatArg {
    /// Lines for people: time, level, kind and message; priorities instead of time and level where standard error is the
    /// system's journal
    Text,
    /// A JSON object in each line
    Json,
    /// As text, with priorities (<3>) as the system's journal takes them
    Journald,
}

/// Which events are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevelArg {
    /// Something is lost, or takes no writes
    Error,
    /// And what may lead there
    Warn,
    /// And what goes well: starts, stops, rebuilds
    Info,
    /// And clients that break the protocol or their connections
    Debug,
}

/// How the kernel is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendArg {
    /// Through io_uring, or threads where that is forbidden
    Auto,
    /// Through io_uring
    IoUring,
    /// By threads and epoll
    Threads,
}

/// Show what a served volume does
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  evenkeel status disk
  evenkeel status disk --json | jq .occupancy
  evenkeel status disk --watch                      what it does now, every second, until Ctrl-C
  evenkeel status disk --watch --interval 10s >log  a line every 10 s
  evenkeel status disk --watch --json --count 60 | jq .recent.syncs.p99_s

With --watch, rates and latencies are those of the last interval. A latency is a bound that the share stayed below, a power of
two of nanoseconds: the truth may be half as long. A server that goes away is waited for, once it answered.

Exit status: with --watch, 0 at Ctrl-C and after --count; 1 it is not being served when the watch begins. Otherwise 0 it is well, 1 it failed, found pages that are damaged in every copy, lacks a member or log device, rebuilds
one, or is not being served, 2 no volume.")]
pub(crate) struct StatusArgs {
    /// The volume's folder
    #[arg(value_name = "VOL")]
    pub(crate) volume: PathBuf,

    /// Everything, as JSON; with --watch a document in each line
    #[arg(long)]
    pub(crate) json: bool,

    /// Show what it does now, again and again, until Ctrl-C: on a terminal in place, elsewhere as a line for each interval
    #[arg(long)]
    pub(crate) watch: bool,

    /// How long the intervals of --watch are
    #[arg(long, value_name = "TIME", value_parser = units::seconds_with_unit, default_value = "1s", requires = "watch")]
    pub(crate) interval: f64,

    /// End --watch after so many intervals
    #[arg(long, value_name = "N", value_parser = units::count, requires = "watch")]
    pub(crate) count: Option<u64>,
}

/// Read all of a volume and compare it with its checksums
///
/// Nothing is written unless --repair says so: whatever a power cut or a kill left undone is done in memory first. A volume
/// that is being served is refused.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  evenkeel check disk
  evenkeel check disk --repair                      repair what redundancy can repair
  evenkeel check disk --json | jq .damaged

Exit status: 0 nothing is damaged, 1 something is, 2 no volume or one that cannot be opened, 130 interrupted.")]
pub(crate) struct CheckArgs {
    /// The volume's folder
    #[arg(value_name = "VOL")]
    pub(crate) volume: PathBuf,

    /// Repair what is damaged from redundancy, where the layout has any, and take home what a power cut or a kill left to be
    /// done; without it nothing is written
    #[arg(long)]
    pub(crate) repair: bool,

    /// What was found, as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Make a volume larger, also while it is served
///
/// Members that are files become longer, with all their room unless they are sparse. A block device or an export has to
/// be larger already, as does every member of a mirror or of stripes, all of which have to take part. What is new reads as
/// zeros. A power cut leaves the old size or the new one, and the same command goes on from there. Clients see the new size when
/// they connect again. No volume becomes smaller. By however much it grows, it can do so 16 times.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  evenkeel grow disk --size 200G
  evenkeel grow disk --size 200G --dry-run          what it takes, and whether there is room
  lvextend -L 210G vg/disk && evenkeel grow disk --size 200G
                                                    a member that is a block device becomes larger first

Exit status: 0 it has that size, 2 wrong usage or a volume that cannot grow so: then nothing has changed,
unless the line says that its server went away; 130 interrupted: then the same command goes on.")]
pub(crate) struct GrowArgs {
    /// The volume's folder
    #[arg(value_name = "VOL")]
    pub(crate) volume: PathBuf,

    /// Bytes that the disk is to have: a multiple of 4096, as 200G
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub(crate) size: u64,

    /// Say what it would take, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// A kind of file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileSystemArg {
    /// Revision 1, with nanoseconds, large files and hashed folders: e2fsck, debugfs and Linux know it
    Ext2,
}
