//! Reads of mirrors while a trace writes to them, in virtual time:
//! `cargo bench -p evenkeel-measure --bench mirrors -- [PRESET]... [reads=N] [members=N] [speed=X] [trace=FILE]
//! [policy=NAME] [volume=MIB]`.
//!
//! A larger volume has as much more room for what members have not written yet: half of it is its log.
//!
//! For each preset and each trace with reads and writes the trace is played faster until plain replication blocks reads
//! for a quarter of the time; then every policy has it at that speed, and its reads are compared with those of the trace
//! without its writes. A read is blocked for what it takes beyond ten times the median without writes.
//!
//! The folder with the traces is the one that `EVENKEEL_TRACES` names.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark's output is its figures")]

use std::path::Path;

use evenkeel_engine::ring::Policy;
use evenkeel_measure::reproduce::mirrors::stage::{Stage, VOLUME_BYTES};
use evenkeel_measure::reproduce::mirrors::trace::{Played, Requests};
use evenkeel_measure::reproduce::{Silent, Work};

/// Traces with reads and writes.
const TRACES: [&str; 3] = ["financial1-head.ascii", "msr-rw4060.trace", "cloudphysics.vscsi"];

/// Drives that stall under writes.
const PRESETS: [&str; 3] = ["sata-2011", "sata-2008", "nvme-mlc"];

/// Reads from which the speed is found: so many that drives have written long enough to collect garbage.
const QUICK_READS: u64 = 150_000;

/// Quantiles of reads that are told.
const QUANTILES: [f64; 4] = [0.5, 0.99, 0.999, 0.9999];

/// What is asked for.
struct Wanted {
    presets: Vec<String>,
    traces: Vec<String>,
    reads: u64,
    members: usize,
    speed: Option<f64>,
    policies: Vec<String>,
    volume_bytes: u64,
}

impl Wanted {
    fn of(words: impl Iterator<Item = String>) -> Self {
        let mut wanted = Self {
            presets: Vec::new(),
            traces: Vec::new(),
            reads: 100_000,
            members: 2,
            speed: None,
            policies: Vec::new(),
            volume_bytes: VOLUME_BYTES,
        };
        for word in words.filter(|word| !word.starts_with('-')) {
            match word.split_once('=') {
                Some(("reads", number)) => wanted.reads = number.parse().expect("reads=N"),
                Some(("members", number)) => wanted.members = number.parse().expect("members=N"),
                Some(("speed", number)) => wanted.speed = Some(number.parse().expect("speed=X")),
                Some(("volume", mib)) => wanted.volume_bytes = mib.parse::<u64>().expect("volume=MIB") << 20,
                Some(("policy", name)) => wanted.policies.push(name.to_owned()),
                Some(("trace", file)) => wanted.traces.push(file.to_owned()),
                _ => wanted.presets.push(word),
            }
        }
        if wanted.presets.is_empty() {
            wanted.presets = PRESETS.map(str::to_owned).into();
        }
        if wanted.traces.is_empty() {
            wanted.traces = TRACES.map(str::to_owned).into();
        }
        wanted
    }
}

fn told(name: &str, played: &Played, alone: &Played) {
    let us = QUANTILES.map(|share| played.reads.quantile_s(share) * 1e6);
    let times = QUANTILES.map(|share| played.reads.quantile_s(share) / alone.reads.quantile_s(share));
    println!(
        "  {name:<12}{} {:>7.0} {:>7.0} {:>8.0} {:>8.0} us = {:>6.2} {:>7.2} {:>8.2} {:>8.2} times, blocked {:>5.2} %; \
         writes p50 {:.0} p99 {:.0} us, {:.1} MB/s, {} under way",
        if played.is_overrun { " (given up: more comes than it serves)" } else { "" },
        us[0],
        us[1],
        us[2],
        us[3],
        times[0],
        times[1],
        times[2],
        times[3],
        played.blocked_share() * 100.0,
        played.writes.quantile_s(0.5) * 1e6,
        played.writes.quantile_s(0.99) * 1e6,
        played.written_bytes as f64 / 1e6 / (played.took_ns as f64 / 1e9),
        played.under_way_max,
    );
}

fn stage(preset: &str, trace: &Path, wanted: &Wanted) {
    let requests = Requests::read(trace, wanted.volume_bytes).expect("a trace");
    let (reads, writes) = requests.counts();
    let stage =
        Stage::new(preset, wanted.members, requests, wanted.volume_bytes, 7).expect("drives of that name");
    let tried =
        |speed: f64, blocked: f64| eprintln!("# {speed:.0} times as fast: blocked {:.1} %", blocked * 100.0);
    let find = || stage.speed(wanted.reads.min(QUICK_READS), &Work::new(1, &Silent), tried);
    let speed = wanted.speed.map_or_else(find, Ok).expect("a speed");
    println!(
        "{preset}, {} members, {}: {reads} reads and {writes} writes a round, {speed:.1} times as fast; {} reads: p50 p99 \
         p99.9 p99.99",
        wanted.members,
        trace.file_name().unwrap_or_default().to_string_lossy(),
        wanted.reads,
    );
    let play = |policy, reads_only| stage.play(policy, speed, wanted.reads, 0, reads_only).expect("a life");
    let alone = play(Policy::Turns, true);
    told("reads alone", &alone, &alone);
    let policies = [
        ("turns", Policy::Turns),
        ("mixed", Policy::Mixed),
        ("read-first", Policy::ReadFirst),
        ("read-around", Policy::ReadAround),
    ];
    let is_wanted = |name: &str| wanted.policies.is_empty() || wanted.policies.iter().any(|one| one == name);
    for (name, policy) in policies.into_iter().filter(|(name, _)| is_wanted(name)) {
        told(name, &play(policy, false), &alone);
    }
}

fn main() {
    let wanted = Wanted::of(std::env::args().skip(1));
    let Some(folder) = std::env::var_os("EVENKEEL_TRACES") else {
        println!("# skipped: EVENKEEL_TRACES names no folder with traces");
        return;
    };
    for preset in &wanted.presets {
        for trace in &wanted.traces {
            stage(preset, &Path::new(&folder).join(trace), &wanted);
        }
    }
}
