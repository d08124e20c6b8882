//! What the models of drives cost: requests simulated in a second of one processor, and what they say meanwhile.
//!
//! Names of drives as arguments run only these.

#![allow(clippy::print_stdout, reason = "a benchmark's output is its figures")]

use std::time::Instant;

use evenkeel_sim::model::closed_loop;
use evenkeel_sim::model::flash::Flash;
use evenkeel_sim::model::presets::{PRESETS, Preset};
use evenkeel_sim::model::{Model, Operation, Request};
use evenkeel_sim::random::Random;

const GIB: u64 = 1 << 30;
const RUNS: usize = 5;

/// Writes among 100 requests.
fn run(flash: &Flash, name: &str, depth: u64, requests: u64, writes: u64) {
    let mut rates = Vec::new();
    let mut shown = String::new();
    for _ in 0..RUNS {
        let mut flash = flash.clone();
        let mut random = Random::new(1);
        let places = flash.size_bytes() / 4096;
        let before = flash.counters();
        let began = Instant::now();
        let measured = closed_loop::run(&mut flash, 0, depth, requests, |_| {
            let operation = if random.below(100) < writes { Operation::Write } else { Operation::Read };
            Request::new(0, operation, random.below(places) * 4096, 4096)
        });
        rates.push(requests as f64 / began.elapsed().as_secs_f64());
        let after = flash.counters();
        let programmed = (after.frames_programmed - before.frames_programmed).max(1);
        let moved = after.frames_moved - before.frames_moved;
        shown = format!(
            "{:>8.0} IOPS, {:>7.1} us mean, {:>9.1} us p99, {:>9.1} us most, write amplification {:.2}",
            measured.per_s(),
            measured.mean_ns() / 1e3,
            measured.quantile_ns(0.99) as f64 / 1e3,
            measured.quantile_ns(1.0) as f64 / 1e3,
            1.0 + moved as f64 / programmed as f64,
        );
    }
    rates.sort_by(f64::total_cmp);
    println!(
        "{name:<24} {:>9.0} simulated/s ({:.0} to {:.0}); {shown}",
        rates[RUNS / 2],
        rates[0],
        rates[RUNS - 1]
    );
}

fn all(preset: &Preset) {
    let mut flash = preset.flash(8 * GIB).expect("8 GiB fit every drive");
    println!("# {}: {}, scaled to 8 GiB", preset.name, preset.about);
    flash.precondition(0.0, 1);
    run(&flash, "read QD1", 1, 200_000, 0);
    run(&flash, "read QD32", 32, 1_000_000, 0);
    let began = Instant::now();
    flash.precondition(1.5, 1);
    println!("{:<24} {:>9.2} s", "filled, overwritten 1.5x", began.elapsed().as_secs_f64());
    run(&flash, "write QD32, collecting", 32, 500_000, 100);
    run(&flash, "30 % writes, collecting", 32, 1_000_000, 30);
}

fn main() {
    let names: Vec<String> = std::env::args().skip(1).filter(|name| !name.starts_with("--")).collect();
    for preset in PRESETS {
        if names.is_empty() || names.iter().any(|name| name == preset.name) {
            all(preset);
        }
    }
}
