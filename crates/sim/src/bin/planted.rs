//! Shows that the simulator sees: plants each of the engine's bugs to order, and runs seeds until one is caught.
//!
//! A bug is caught by a violation, a panic or a run that does not end. Exit code 1 if one escapes. Arguments are the
//! beginnings of the names of those to plant; without any, all are.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the table is for whoever runs it")]

use std::env::args;
use std::panic::set_hook;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use evenkeel_engine::planted::{Bug, plant};
use evenkeel_sim::caught::caught;
use evenkeel_sim::damage;
use evenkeel_sim::oracle::Violation;
use evenkeel_sim::seeds::{self, Seeded};
use evenkeel_sim::testbed::{Mirror, Single};

/// Seeds after which a bug counts as escaped.
const SEEDS_MAX: u64 = 30_000;

/// Cuts of each seed.
const CUTS: u32 = 2;

/// Cuts of every other seed of a ring.
const RING_CUTS: u32 = 5;

/// Most characters shown of what was seen.
const SEEN_MAX: usize = 160;

fn main() -> ExitCode {
    let wanted: Vec<String> = args().skip(1).collect();
    let is_meant = |bug: &Bug, start: &String| bug.name().starts_with(start.as_str());
    if let Some(unknown) = wanted.iter().find(|start| !Bug::ALL.iter().any(|bug| is_meant(bug, start))) {
        let names: Vec<&str> = Bug::ALL.iter().map(|bug| bug.name()).collect();
        eprintln!("no bug's name begins with `{unknown}`; there are {}", names.join(", "));
        return ExitCode::from(2);
    }
    // A panic is one of the ways to be caught, and told in the table.
    set_hook(Box::new(|_| {}));
    let is_wanted = |bug: &Bug| wanted.is_empty() || wanted.iter().any(|start| is_meant(bug, start));
    let bugs: Vec<Bug> = Bug::ALL.iter().copied().filter(is_wanted).collect();
    let next = AtomicUsize::new(0);
    let (tell, told) = mpsc::channel();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let escaped = thread::scope(|scope| {
        for _ in 0..threads {
            let (tell, next, bugs) = (tell.clone(), &next, &bugs);
            scope.spawn(move || {
                while let Some(&bug) = bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // Nobody listens once the program ends.
                    let _ended = tell.send((bug, first_caught(bug)));
                }
            });
        }
        drop(tell);
        println!("| planted bug | caught by seed | what was seen |");
        println!("|---|---:|---|");
        told.iter().filter(|(bug, caught)| !is_told_caught(*bug, caught.as_ref())).count()
    });
    println!("\n{} bugs planted, {} caught, {escaped} escaped", bugs.len(), bugs.len() - escaped);
    if escaped == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the row of a bug; answers whether it was caught.
fn is_told_caught(bug: Bug, caught: Option<&(u64, String)>) -> bool {
    match caught {
        Some((seed, seen)) => println!("| {} | {seed} | {seen} |", bug.name()),
        None => println!("| {} | - | escaped {SEEDS_MAX} seeds |", bug.name()),
    }
    caught.is_some()
}

/// The first seed that shows the bug and nothing without it, and what it shows.
fn first_caught(bug: Bug) -> Option<(u64, String)> {
    (0..SEEDS_MAX).find_map(|seed| {
        plant(Some(bug));
        let seen = seen_by(seed, bug);
        plant(None);
        seen.filter(|_| seen_by(seed, bug).is_none()).map(|seen| (seed, seen))
    })
}

/// What a seed of the layout that has the bug's part of the engine shows, in one line.
fn seen_by(seed: u64, bug: Bug) -> Option<String> {
    let run: fn(u64) -> Result<(), Violation> = match bug.needs_ring() {
        _ if bug.needs_stripes() => |seed| {
            let shape = if seed % 2 == 0 { (2, 1) } else { (4, 2) };
            let cuts = if seed % 4 < 2 { CUTS } else { RING_CUTS };
            seeds::run(seeds::draw_striped(seed, cuts, shape)).map(drop)
        },
        true => |seed| {
            // What is rebuilt wrong shows once the new member is relied on alone: that takes three, and more runs.
            let (cuts, members) = if seed % 2 == 0 { (CUTS, None) } else { (RING_CUTS, Some(3)) };
            seeds::run(Mirror::draw(seed, cuts, members)).map(drop)
        },
        false if bug.needs_salvage() => damage::run,
        false => |seed| seeds::run(Single::draw(seed, CUTS, None)).map(drop),
    };
    let seen = caught(|| run(seed)).err()?.what;
    let line = seen.lines().next().unwrap_or_default().replace('|', "/");
    Some(line.chars().take(SEEN_MAX).collect())
}
