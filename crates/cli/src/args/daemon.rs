//! What may be typed to serve many volumes by one process.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use super::volume::{LogFormatArg, LogLevelArg};

/// Where descriptions are unless a folder is named.
pub(crate) const DESCRIPTIONS: &str = "/etc/evenkeel/volumes";

/// Serve and mount many volumes by one process, as a folder of files says
///
/// Each file NAME.toml of the folder says which volume to serve (or to mount), with the options of `evenkeel serve` (or
/// `evenkeel mount`) by their names. SIGHUP (`systemctl reload evenkeeld`) reads the folder again: volumes of new files
/// are served, those of files that are gone are stopped, those of changed files are stopped and served anew, and one that
/// failed is tried again. The others go on. One volume that cannot be opened, or fails, ends no other. SIGTERM and Ctrl-C stop all in order;
/// a second one ends at once, and loses nothing that was acknowledged either.
#[derive(Debug, ClapArgs)]
#[command(after_help = DAEMON_EXAMPLES)]
pub(crate) struct DaemonArgs {
    /// The folder of descriptions
    #[arg(value_name = "DIR", default_value = DESCRIPTIONS)]
    pub(crate) folder: PathBuf,

    /// Say what would be served, and what is wrong with the descriptions, and serve nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Format of events on standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    pub(crate) log_format: LogFormatArg,

    /// Least severe events that are shown
    #[arg(long, value_name = "LEVEL", value_enum, default_value = "info")]
    pub(crate) log_level: LogLevelArg,
}

const DAEMON_EXAMPLES: &str = "\
Examples:
  evenkeel daemon                                   what /etc/evenkeel/volumes/*.toml say
  evenkeel daemon volumes --dry-run                 what would be served, and what is wrong
  systemctl reload evenkeeld                        read them again

A description, /etc/evenkeel/volumes/db.toml:
  volume = \"/srv/db\"                                the volume's folder
  nbd = [\"tcp:127.0.0.1:10809\"]                     as --nbd of `evenkeel serve`, and so on; true for a flag
  http = \"127.0.0.1:9101\"
  cache = \"2g\"

Another, of a file system:
  volume = \"/srv/files\"
  mount = \"/mnt/files\"                              where; with the options of `evenkeel mount`
  options = [\"noatime\"]

Exit status: 0 all are durable and home, 1 some volume could not be served, failed, or lost a file, 2 wrong usage, or no
description can be used, 130 ended at once: the next start goes on where this one was.";
