//! A mounted volume beside other file systems of the same disk: `cargo xtask bench mount [-- OPTIONS]`.
//!
//! ```text
//! main           what to run; rounds
//!   places       each file system: a mounted volume, or a folder that is there already
//!   append       processes that append and sync, as threads: the same for all
//!   streams      how many appends a second, from how many files, and bytes written for each
//!   neighbour    how long a sync takes beside somebody who writes or removes much
//!     picture    that as an SVG
//!   bulk         how long a tree and a large file take, where nobody syncs
//! ```
//!
//! 1. In each round every file system has its turn, in shuffled order; only one has work.
//! 2. A turn ends when what it left to be written is written: nobody pays for another's.
//! 3. A ratio is taken within a round; what is told of it is the median and the extremes over the rounds.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    reason = "a benchmark's output is for its reader"
)]

mod append;
mod bulk;
mod neighbour;
mod streams;

#[path = "../common/mod.rs"]
mod common;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use common::{Outcome, ended, neighbours, picture, places, process, rounds};
use places::{Beside, Place};

/// A mounted volume beside other file systems.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask bench mount --",
    after_help = "Examples:
  cargo xtask loopfs up --help                    makes file systems to compare with
  cargo xtask bench mount -- --folder /data/bench --beside ext4=/mnt/fs/ext4 --beside xfs=/mnt/fs/xfs"
)]
struct Args {
    /// What to measure; streams and neighbour if none is named. `bulk` makes the kernel drop what it keeps of all files
    #[arg(value_parser = ["streams", "neighbour", "bulk"])]
    cases: Vec<String>,
    /// Folder of the volume; its file system and disk are what is measured
    #[arg(long, default_value = env!("CARGO_TARGET_TMPDIR"))]
    folder: PathBuf,
    /// Another file system, mounted on FOLDER; bytes written are those of its block device
    #[arg(long, value_name = "NAME=FOLDER")]
    beside: Vec<Beside>,
    /// Another build of evenkeel, to be compared with in the same rounds
    #[arg(long, value_name = "PROGRAM")]
    before: Option<PathBuf>,
    /// Rounds
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Length of a turn
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
    /// Files that are appended to at once
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 32, 100, 1000])]
    streams: Vec<usize>,
    /// Size of the volume
    #[arg(long, default_value_t = 4096)]
    size_mib: u64,
    /// Bytes that a neighbour streams
    #[arg(long, default_value_t = 512)]
    stream_mib: usize,
    /// Files that a neighbour removes
    #[arg(long, default_value_t = 50_000)]
    removed_files: usize,
    /// Files of the tree that is unpacked
    #[arg(long, default_value_t = 5_000)]
    tree_files: usize,
    /// Size of the file that is written and read, in MiB; the volume has to be larger
    #[arg(long, default_value_t = 2048)]
    bulk_mib: usize,
    /// Where the order comes from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// More arguments for `evenkeel mount`, divided by spaces
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    mount_args: String,
    /// File for a picture of the neighbour's figures
    #[arg(long, value_name = "FILE", value_parser = common::file_to_write)]
    svg: Option<PathBuf>,
    /// cargo's own
    #[arg(long, hide = true)]
    bench: bool,
}

impl Args {
    fn wants(&self, name: &str) -> bool {
        (self.cases.is_empty() && name != "bulk") || self.cases.iter().any(|case| case == name)
    }
}

fn main() -> ExitCode {
    ended(run(&Args::parse()))
}

fn run(args: &Args) -> Outcome {
    std::fs::create_dir_all(&args.folder).map_err(|error| format!("{}: {error}", args.folder.display()))?;
    let folder = tempfile::tempdir_in(&args.folder);
    let folder = folder.map_err(|error| format!("{}: {error}", args.folder.display()))?;
    let mut places = vec![Place::mounted("evenkeel", None, folder.path(), args.size_mib, &args.mount_args)?];
    if let Some(before) = &args.before {
        places.push(Place::mounted("before", Some(before), folder.path(), args.size_mib, &args.mount_args)?);
    }
    for beside in &args.beside {
        places.push(Place::there(beside)?);
    }
    if args.wants("streams") {
        streams::measure(&places, args)?;
    }
    if args.wants("neighbour") {
        neighbour::measure(&places, args)?;
    }
    if args.wants("bulk") {
        bulk::measure(&places, folder.path(), args)?;
    }
    Ok(())
}
