//! Reads of mirrors while a trace writes to them, in virtual time:
//! `cargo bench -p evenkeel-measure --bench mirrors -- [PRESET]... [reads=N] [members=N] [speed=X] [trace=FILE]
//! [policy=NAME]`.
//!
//! For each preset and each trace with reads and writes the trace is played faster until plain replication blocks reads
//! for a quarter of the time; then every policy has it at that speed, and its reads are compared with those of the trace
//! without its writes. A read is blocked for what it takes beyond ten times the median without writes.
//!
//! The folder with the traces is the one that `EVENKEEL_TRACES` names.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark's output is its figures")]

use std::path::{Path, PathBuf};

use evenkeel_engine::ring::{Policy, RingOptions};
use evenkeel_measure::reproduce::mirrors::bed::{Bed, Plan};
use evenkeel_measure::reproduce::mirrors::trace::{Play, Played, Requests};

const MIB: u64 = 1 << 20;

/// Traces with reads and writes.
const TRACES: [&str; 3] = ["financial1-head.ascii", "msr-rw4060.trace", "cloudphysics.vscsi"];

/// Drives that stall under writes.
const PRESETS: [&str; 3] = ["sata-2011", "sata-2008", "tlc-2020"];

/// The share of time that reads are to be blocked under plain replication.
const BLOCKED_SHARE: f64 = 0.25;

/// Reads from which the speed is found: so many that drives have written long enough to collect garbage.
const QUICK_READS: u64 = 150_000;

/// Requests under way beyond which plain replication counts as blocked all the time while the speed is looked for,
const QUICK_UNDER_WAY_MAX: u64 = 1_000;

/// and beyond which a policy does not serve what comes.
const UNDER_WAY_MAX: u64 = 20_000;

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
        };
        for word in words.filter(|word| !word.starts_with('-')) {
            match word.split_once('=') {
                Some(("reads", number)) => wanted.reads = number.parse().expect("reads=N"),
                Some(("members", number)) => wanted.members = number.parse().expect("members=N"),
                Some(("speed", number)) => wanted.speed = Some(number.parse().expect("speed=X")),
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

/// A bed and what is played on it.
struct Stage {
    bed: Bed,
    requests: Requests,
    long_ns: u64,
}

impl Stage {
    fn play(&self, policy: Policy, speed: f64, reads: u64, reads_only: bool) -> Played {
        self.play_up_to(UNDER_WAY_MAX, policy, speed, reads, reads_only)
    }

    fn play_up_to(
        &self,
        under_way_max: u64,
        policy: Policy,
        speed: f64,
        reads: u64,
        reads_only: bool,
    ) -> Played {
        let play = Play { speed, reads, reads_only, long_ns: self.long_ns, under_way_max };
        let options = RingOptions { policy, ..RingOptions::default() };
        self.bed.live(options, async |site| self.requests.play(&site, play).await).expect("a life")
    }

    /// The speed at which plain replication blocks reads for about a quarter of the time.
    fn speed(&self, reads: u64) -> f64 {
        let (mut slow, mut fast) = (1.0, 8.0);
        let blocked = |speed: f64| {
            let played = self.play_up_to(QUICK_UNDER_WAY_MAX, Policy::Mixed, speed, reads, false);
            eprintln!("# {speed:.0} times as fast: blocked {:.1} %", played.blocked_share() * 100.0);
            played.blocked_share()
        };
        while blocked(fast) < BLOCKED_SHARE && fast < 1e6 {
            (slow, fast) = (fast, fast * 2.0);
        }
        for _ in 0..5 {
            let middle = f64::sqrt(slow * fast);
            match blocked(middle) < BLOCKED_SHARE {
                true => slow = middle,
                false => fast = middle,
            }
        }
        // The slower one: at the other more may come than is served.
        slow
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

fn stage(preset: &str, trace: PathBuf, wanted: &Wanted) {
    let plan = Plan {
        preset: preset.to_owned(),
        members: wanted.members,
        drive_bytes: 1024 * MIB,
        volume_bytes: 512 * MIB,
        log_bytes: 256 * MIB,
        seed: 7,
    };
    let requests = Requests::read(&trace, plan.volume_bytes).expect("a trace");
    let (reads, writes) = requests.counts();
    if reads == 0 || writes == 0 {
        return;
    }
    let bed = Bed::new(plan).expect("drives of that name and size");
    let mut stage = Stage { bed, requests, long_ns: u64::MAX };
    let quick = wanted.reads.min(QUICK_READS);
    let alone = stage.play(Policy::Turns, 1.0, 2000, true);
    stage.long_ns = (alone.reads.quantile_s(0.5) * 10.0 * 1e9) as u64;
    let speed = wanted.speed.unwrap_or_else(|| stage.speed(quick));
    println!(
        "{preset}, {} members, {}: {reads} reads and {writes} writes a round, {speed:.1} times as fast; {} reads: p50 p99 \
         p99.9 p99.99",
        wanted.members,
        trace.file_name().unwrap_or_default().to_string_lossy(),
        wanted.reads,
    );
    let alone = stage.play(Policy::Turns, speed, wanted.reads, true);
    told("reads alone", &alone, &alone);
    let policies = [
        ("turns", Policy::Turns),
        ("mixed", Policy::Mixed),
        ("read-first", Policy::ReadFirst),
        ("read-around", Policy::ReadAround),
    ];
    let is_wanted = |name: &str| wanted.policies.is_empty() || wanted.policies.iter().any(|one| one == name);
    for (name, policy) in policies.into_iter().filter(|(name, _)| is_wanted(name)) {
        told(name, &stage.play(policy, speed, wanted.reads, false), &alone);
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
            stage(preset, Path::new(&folder).join(trace), &wanted);
        }
    }
}
