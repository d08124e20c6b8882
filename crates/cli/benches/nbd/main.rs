//! The served volume beside other NBD servers on the same disk: `cargo xtask bench nbd [-- CASE... OPTIONS]`.
//!
//! ```text
//! main           what to run; rounds
//!   cases        the loads that all servers get, and what is aimed at
//!   servers      each server: started, asked whether it is at rest, stopped
//!   load         the client: the same for all
//!   comparison   rounds become rates, latencies, ratios
//!   alone        what only this server is asked for: bytes written, memory
//!   bulk         small durable writes beside large ones
//!   disk         the disk without any server
//! ```
//!
//! 1. In each round every server has its turn of the same length, in shuffled order. All of them are up; only one has
//!    work.
//! 2. A turn of the steady state ends when everything is home, behind one of a burst the server comes to rest: nobody pays
//!    for what another left to be done.
//! 3. A ratio is taken within a round; what is told of it is the median and the extremes over the rounds.
//! 4. Every write has bytes of its own, and whatever is read was written before.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    reason = "a benchmark's output is for its reader"
)]

mod alone;
mod bulk;
mod cases;
mod comparison;
mod disk;
mod servers;

#[path = "../common/mod.rs"]
mod common;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use cases::{CASES, Case, Disk};
use common::{Outcome, ended, load, process};
use servers::{Fleet, Kind};

/// Cases beside those that compare rates.
const OTHERS: [(&str, &str); 4] = [
    ("disk", "the disk itself: durable writes of 4 KiB, and its flush alone"),
    ("bytes", "bytes written for each byte of 1 KiB durable writes from 32 connections"),
    ("bulk", "4 KiB durable writes while another client makes 1 GiB durable"),
    ("memory", "the server's memory with 64 connections of 32 requests each"),
];

/// The served volume beside nbdkit and qemu-nbd.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench nbd --")]
struct Args {
    /// Cases to run; all if none is named
    cases: Vec<String>,
    /// Names the cases
    #[arg(long)]
    list: bool,
    /// Folder for everything that is written; its file system and disk are what is measured
    #[arg(long, default_value = env!("CARGO_TARGET_TMPDIR"))]
    folder: PathBuf,
    /// Rounds
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Length of one server's turn; longer where the volume makes fewer than three checkpoints in that
    #[arg(long, default_value_t = 8.0)]
    seconds: f64,
    /// Length of one server's turn in the second table, of bursts
    #[arg(long, default_value_t = 1.5)]
    burst_seconds: f64,
    /// Leave out the table of the steady state
    #[arg(long)]
    only_bursts: bool,
    /// Size of each volume
    #[arg(long, default_value_t = 1024)]
    size_mib: u64,
    /// Where the offsets and the order come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this server, without peers: evenkeel, nbdkit, qemu-writeback, qemu-uring, null
    #[arg(long)]
    only: Vec<String>,
    /// Another build of evenkeel, to be compared with in the same rounds
    #[arg(long, value_name = "PROGRAM")]
    before: Option<PathBuf>,
    /// More arguments for `evenkeel create`, divided by spaces
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    create_args: String,
    /// More arguments for `evenkeel serve`
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    serve_args: String,
    /// cargo's own
    #[arg(long, hide = true)]
    bench: bool,
}

impl Args {
    fn wants(&self, name: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|case| case == name)
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.list {
        CASES.iter().for_each(|case| println!("{:<16} {}", case.name, case.about));
        OTHERS.iter().for_each(|(name, about)| println!("{name:<16} {about}"));
        return ExitCode::SUCCESS;
    }
    let is_known = |name: &&String| {
        CASES.iter().any(|case| case.name == **name) || OTHERS.iter().any(|(other, _)| other == *name)
    };
    if let Some(unknown) = args.cases.iter().find(|name| !is_known(name)) {
        eprintln!("no case `{unknown}`; --list names them");
        return ExitCode::from(2);
    }
    ended(run(&args))
}

fn run(args: &Args) -> Outcome {
    std::fs::create_dir_all(&args.folder).map_err(|error| format!("{}: {error}", args.folder.display()))?;
    let folder = tempfile::tempdir_in(&args.folder);
    let folder = folder.map_err(|error| format!("{}: {error}", args.folder.display()))?;
    let kinds = servers::kinds(args)?;
    if args.wants("disk") {
        disk::measure(folder.path(), args.rounds, args.seconds)?;
    }
    for disk in [Disk::AsItIs, Disk::SlowFlushes] {
        let cases: Vec<&Case> =
            CASES.iter().filter(|case| case.disk == disk && args.wants(case.name)).collect();
        if !cases.is_empty() {
            let kinds = servers::on_disk(&kinds, disk)?;
            let mut fleet = Fleet::start(folder.path(), &kinds, disk, args.size_mib, args)?;
            comparison::measure(&mut fleet, &cases, args)?;
        }
    }
    if args.wants("bulk") {
        let mut fleet = Fleet::start(folder.path(), &kinds, Disk::AsItIs, args.size_mib.max(1088), args)?;
        bulk::measure(&mut fleet, args)?;
    }
    let is_ours = kinds.contains(&Kind::Evenkeel);
    if is_ours && args.wants("bytes") {
        alone::bytes(folder.path(), args)?;
    }
    if is_ours && args.wants("memory") {
        alone::memory(folder.path(), args)?;
    }
    Ok(())
}
