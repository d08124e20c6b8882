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
use evenkeel_sim::conversion;
use evenkeel_sim::damage;
use evenkeel_sim::oracle::Violation;
use evenkeel_sim::seeds::{self, STRIPED_BROKEN_SINCE, STRIPED_ONCE_BROKEN, Seeded};
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
    // What once broke a promise of stripes is rare: among so few seeds from 0 on no other may show it.
    let once_broken = STRIPED_ONCE_BROKEN.into_iter().chain(STRIPED_BROKEN_SINCE);
    let once_broken = once_broken.filter(|_| bug.needs_stripes());
    let once_broken = once_broken.map(|(seed, shape)| Life::Striped { seed, cuts: CUTS, shape });
    let mut lives = once_broken.chain((0..SEEDS_MAX).map(|seed| Life::of(seed, bug)));
    lives.find_map(|life| {
        plant(Some(bug));
        let seen = life.seen();
        plant(None);
        seen.filter(|_| life.seen().is_none()).map(|seen| (life.seed(), seen))
    })
}

/// What a seed stands for.
#[derive(Debug, Clone, Copy)]
enum Life {
    Single { seed: u64 },
    Damaged { seed: u64 },
    Converted { seed: u64 },
    Mirror { seed: u64, cuts: u32, members: Option<usize> },
    Striped { seed: u64, cuts: u32, shape: (usize, usize) },
}

impl Life {
    /// Of the layout that has the bug's part of the engine.
    fn of(seed: u64, bug: Bug) -> Self {
        match bug.needs_ring() {
            _ if bug.needs_stripes() => {
                let shape = if seed.is_multiple_of(2) { (2, 1) } else { (4, 2) };
                Self::Striped { seed, cuts: if seed % 4 < 2 { CUTS } else { RING_CUTS }, shape }
            }
            // What is rebuilt wrong shows once the new member is relied on alone: that takes three, and more runs.
            true if seed.is_multiple_of(2) => Self::Mirror { seed, cuts: CUTS, members: None },
            true => Self::Mirror { seed, cuts: RING_CUTS, members: Some(3) },
            false if bug.needs_salvage() => Self::Damaged { seed },
            false if bug.needs_conversion() => Self::Converted { seed },
            false => Self::Single { seed },
        }
    }

    fn seed(self) -> u64 {
        match self {
            Self::Single { seed }
            | Self::Damaged { seed }
            | Self::Converted { seed }
            | Self::Mirror { seed, .. }
            | Self::Striped { seed, .. } => seed,
        }
    }

    fn run(self) -> Result<(), Violation> {
        match self {
            Self::Single { seed } => seeds::run(Single::draw(seed, CUTS, None)).map(drop),
            Self::Damaged { seed } => damage::run(seed),
            Self::Converted { seed } => conversion::run(seed).map(drop),
            Self::Mirror { seed, cuts, members } => seeds::run(Mirror::draw(seed, cuts, members)).map(drop),
            Self::Striped { seed, cuts, shape } => {
                seeds::run(seeds::draw_striped(seed, cuts, shape)).map(drop)
            }
        }
    }

    /// What it shows, in one line.
    fn seen(self) -> Option<String> {
        let seen = caught(|| self.run()).err()?.what;
        let line = seen.lines().next().unwrap_or_default().replace('|', "/");
        Some(line.chars().take(SEEN_MAX).collect())
    }
}
