//! Many logs, one store: evenkeel embedded beside the crate raft-engine. `cargo xtask bench raft [-- FOLDER ...]`.
//!
//! N streams append 1 KiB each, durable before the next. Both stores are in the same folder, run in turns, and are
//! compared within a round. Rates and times are those of the appends; bytes are all that reaches the device from
//! the opening to the end of the last checkpoint, for each byte that the streams appended.

mod evenkeel;
mod measured;
mod options;
mod raft;

use std::path::Path;

use measured::{Measured, Run};
use options::{Options, Way};

/// Bytes of an entry.
const ENTRY_BYTES: usize = 1024;

/// Entries that a stream keeps, where the old part of the log is discarded.
const KEPT: u64 = 64;

fn main() {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("raft: {why}\n{}", options::USAGE);
            std::process::exit(2);
        }
    };
    for discards in options.discards() {
        println!(
            "\n{}, {} rounds of {:.0} s each, in turns",
            if discards { "the old part of each log is discarded" } else { "every entry is kept" },
            options.rounds,
            options.run_time.as_secs_f64(),
        );
        println!(
            "{:>4} {:<18} {:>9} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9}   rate (min-max), p99 against raft-engine",
            "N", "", "appends/s", "p50 ms", "p99 ms", "max ms", "cpu us", "device", "process",
        );
        for &streams in &options.streams {
            compare(&options, streams, discards);
        }
    }
}

fn compare(options: &Options, streams: usize, discards: bool) {
    let mut all: Vec<Vec<Measured>> = vec![Vec::new(); options.ways.len()];
    // Made before the first round: that writes the whole log, which no run shall find the disk still busy with.
    let volume = tempfile::tempdir_in(&options.folder).expect("a folder in the folder that was named");
    if options.ways.iter().any(|&way| way != Way::RaftEngine) {
        evenkeel::create(&volume.path().join("volume"), options);
    }
    for round in 0..options.rounds {
        for turn in 0..options.ways.len() {
            // Each is the first as often as any other.
            let place = (turn + round) % options.ways.len();
            let run =
                Run { streams, discards, time: options.run_time, part: round * options.ways.len() + place };
            let measured = measure(volume.path(), options.ways[place], &run, options);
            if options.each {
                println!(
                    "{:>4} {:<18} {}",
                    streams,
                    options.ways[place].name(),
                    measured::row(&[measured.clone()], None)
                );
            }
            all[place].push(measured);
        }
    }
    let peer = options.ways.iter().position(|&way| way == Way::RaftEngine);
    for (way, runs) in options.ways.iter().zip(&all) {
        let against = peer.map(|peer| &all[peer]).filter(|_| *way != Way::RaftEngine);
        println!("{:>4} {:<18} {}", streams, way.name(), measured::row(runs, against.map(|runs| &runs[..])));
    }
}

fn measure(folder: &Path, way: Way, run: &Run, options: &Options) -> Measured {
    let volume = folder.join("volume");
    match way {
        Way::RaftEngine => {
            let scratch = tempfile::tempdir_in(folder).expect("a folder beside the volume");
            raft::run(scratch.path(), run)
        }
        Way::Threads => evenkeel::run_threads(&volume, run, options),
        Way::Tasks => evenkeel::run_tasks(&volume, run, options),
        Way::OnLoop => evenkeel::run_on_loop(&volume, run, options),
    }
}
