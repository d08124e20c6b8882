//! What a served volume costs as things grow: `cargo xtask bench scale [-- CURVE... OPTIONS]`.
//!
//! ```text
//! main           the curves
//!   served       one server process: made, loaded, killed, opened again, and what it took
//! ```
//!
//! 1. Each point has a new volume and a server process of its own, and nothing else runs.
//! 2. The load is durable writes of 4 KiB at random over all of the volume, but for the streams, which append.
//! 3. Memory is what is resident at the most, with the arena, which is shared memory, told apart.
//! 4. A recovery is timed from the start of a server behind a kill under load until clients can connect.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    reason = "a benchmark's output is for its reader"
)]

mod served;

#[path = "../common/mod.rs"]
mod common;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use evenkeel_host::interrupt::Interrupt;

use common::{Outcome, ended, load, process};
use load::Place;
use served::{Plan, Point};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Curves, and what grows along each.
const CURVES: [(&str, &str); 5] = [
    ("streams", "requests under way at once: 1 to 8,000"),
    ("size", "bytes of the volume: 1 GiB to 15 TiB, in sparse files"),
    ("members", "members of a mirror: 2 to 16"),
    ("log", "bytes of the log: 64 MiB to 8 GiB"),
    ("volumes", "volumes of one process, of 256 MiB each: 1 to 64"),
];

/// What a served volume costs as things grow.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask bench scale --",
    after_help = "Examples:
  cargo xtask bench scale -- --list
  cargo xtask bench scale -- size log --seconds 5"
)]
struct Args {
    /// Curves; all if none is named
    curves: Vec<String>,
    /// Name them
    #[arg(long)]
    list: bool,
    /// Folder for everything that is written; its file system and disk are what is measured
    #[arg(long, default_value = env!("CARGO_TARGET_TMPDIR"))]
    folder: PathBuf,
    /// Length of a load
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Where offsets come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// cargo's own
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    if args.list {
        CURVES.iter().for_each(|(name, about)| println!("{name:<10} {about}"));
        return ExitCode::SUCCESS;
    }
    if let Some(unknown) = args.curves.iter().find(|name| CURVES.iter().all(|(curve, _)| curve != name)) {
        eprintln!("no curve `{unknown}`; --list names them");
        return ExitCode::from(2);
    }
    ended(Interrupt::on_signals().map_err(|error| format!("signals: {error}")).and_then(|it| run(&args, &it)))
}

fn run(args: &Args, interrupt: &Interrupt) -> Outcome {
    std::fs::create_dir_all(&args.folder).map_err(|error| format!("{}: {error}", args.folder.display()))?;
    let folder = tempfile::tempdir_in(&args.folder);
    let folder = folder.map_err(|error| format!("{}: {error}", args.folder.display()))?;
    for (name, about) in CURVES {
        if args.curves.is_empty() || args.curves.iter().any(|curve| curve == name) {
            println!("\n### {name}: {about}; {} s each\n", args.seconds);
            println!("{}", Point::HEAD);
            for (point, plan) in plans(name) {
                if interrupt.is_asked() {
                    return Err("interrupted".to_owned());
                }
                let measured = plan.measure(folder.path(), args.seconds, args.seed);
                println!("{}", measured.map_err(|why| format!("{name}, {point}: {why}"))?.row(&point));
            }
        }
    }
    Ok(())
}

/// The points of a curve.
fn plans(curve: &str) -> Vec<(String, Plan)> {
    let base = Plan::default();
    match curve {
        "streams" => [1, 8, 64, 500, 1_000, 2_000, 8_000]
            .map(|streams: usize| {
                let connections = streams.min(100);
                let plan = Plan { connections, depth: streams / connections, place: Place::Appended, ..base };
                (streams.to_string(), plan)
            })
            .to_vec(),
        "size" => [1, 64, 1024, 15 * 1024]
            .map(|gib| (format!("{gib} GiB"), Plan { size_bytes: gib * GIB, ..base }))
            .to_vec(),
        "members" => [2, 3, 4, 8, 16].map(|members| (members.to_string(), Plan { members, ..base })).to_vec(),
        "log" => [64, 256, 1024, 8 * 1024]
            .map(|mib| (format!("{mib} MiB"), Plan { log_bytes: mib * MIB, ..base }))
            .to_vec(),
        _ => [1, 4, 16, 64]
            .map(|volumes| {
                // 64 of them take 20 GiB of room.
                let plan =
                    Plan { size_bytes: 256 * MIB, log_bytes: 64 * MIB, volumes, connections: 64, ..base };
                (volumes.to_string(), plan)
            })
            .to_vec(),
    }
}
