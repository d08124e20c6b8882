//! What is measured of the volume's own server: bytes written below it, and its memory.

use std::path::Path;

use evenkeel_host::service::status::Status;

use crate::cases::Disk;
use crate::load::{self, Load, Operation, Place};
use crate::process::field;
use crate::servers::{Fleet, Kind};
use crate::{Args, Outcome};

const KIB: usize = 1 << 10;
const MIB: f64 = (1 << 20) as f64;

/// Bytes of the log, and of everything after the last checkpoint, for each byte of small durable writes.
pub(crate) fn bytes(folder: &Path, args: &Args) -> Outcome {
    println!("\n### bytes: durable writes of 1 KiB from 32 connections\n");
    println!("| places | rate /s | log bytes for each user byte | all bytes, after the last checkpoint |");
    println!("|---|---:|---:|---:|");
    let mut words = Vec::new();
    for (name, place) in
        [("appended, each connection for itself", Place::Appended), ("random", Place::Random)]
    {
        let mut fleet = Fleet::start(folder, &[Kind::Evenkeel], Disk::AsItIs, args.size_mib, args)?;
        let server = fleet.servers.pop().expect("one was started");
        server.rest();
        let load = Load {
            operation: Operation::Fua,
            place,
            connections: 32,
            depth: 1,
            request_bytes: KIB,
            size_bytes: fleet.size_bytes,
            seconds: args.seconds * args.rounds as f64,
            seed: args.seed,
        };
        let status = || Status::ask(&server.volume).map_err(|error| format!("no status: {error}"));
        let (before, used_before) = (status()?.counters, server.used());
        let done = load::run(&server.socket, load, || ())?;
        let after = status()?.counters;
        let used_after = server.stop();
        let user = (after.user_bytes - before.user_bytes) as f64;
        let log = (after.log_bytes - before.log_bytes) as f64 / user;
        let all = (used_after.written_bytes - used_before.written_bytes) as f64 / user;
        println!("| {name} | {:.0} | {log:.3} | {all:.3} |", done.rate_per_s());
        words.push(format!(
            "{name}: {:.1} MiB of the user's, {:.1} writes a commit, {} checkpoints before the last.",
            user / MIB,
            (after.committed_units - before.committed_units) as f64
                / (after.commits - before.commits).max(1) as f64,
            after.checkpoints - before.checkpoints
        ));
    }
    println!("\nAt most 1.2 and 2.4.\n\n{}", words.join("\n"));
    Ok(())
}

/// The server's memory while many connections have many requests under way.
pub(crate) fn memory(folder: &Path, args: &Args) -> Outcome {
    let fleet = Fleet::start(folder, &[Kind::Evenkeel], Disk::AsItIs, args.size_mib, args)?;
    let server = &fleet.servers[0];
    println!("\n### memory: 64 connections with 32 requests each under way\n");
    println!("| load | rate /s | peak MiB | arena | pages, at most | all else | in flight, at most |");
    println!("|---|---:|---:|---:|---:|---:|---:|");
    let show = |name: &str, rate_per_s: f64| -> Outcome {
        let told = Status::ask(&server.volume).map_err(|error| format!("no status: {error}"))?;
        let status = server.proc_file("status");
        let mib = |name: &str| field(&status, name) as f64 / KIB as f64;
        let (peak, arena) = (mib("VmHWM:"), mib("RssShmem:"));
        let pages = told.occupancy.pages_peak_bytes as f64 / MIB;
        let in_flight = told.server.in_flight_peak_bytes as f64 / MIB;
        let rest = peak - arena - pages;
        println!(
            "| {name} | {rate_per_s:.0} | {peak:.1} | {arena:.1} | {pages:.1} | {rest:.1} | {in_flight:.1} |"
        );
        Ok(())
    };
    show("none, volume full", 0.0)?;
    for (name, operation, request_bytes) in [
        ("reads of 4 KiB", Operation::Read, 4 * KIB),
        ("FUA of 4 KiB", Operation::Fua, 4 * KIB),
        ("FUA of 128 KiB", Operation::Fua, 128 * KIB),
        ("reads of 128 KiB", Operation::Read, 128 * KIB),
    ] {
        let load = Load {
            operation,
            place: Place::Random,
            connections: 64,
            depth: 32,
            request_bytes,
            size_bytes: fleet.size_bytes,
            seconds: args.seconds,
            seed: args.seed,
        };
        let done = load::run(&server.socket, load, || ())?;
        show(name, done.rate_per_s())?;
    }
    Ok(())
}
