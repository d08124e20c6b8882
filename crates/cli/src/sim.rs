//! `evenkeel sim`.

mod exhaustive;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_host::interrupt::Interrupt;
use evenkeel_measure::report::format;
use evenkeel_sim::caught::caught;
use evenkeel_sim::oracle::Violation;
use evenkeel_sim::seeds::{self, Outcome, Seeded, Setup, draw_striped};
use evenkeel_sim::testbed::{Mirror, Single};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args::{SimArgs, SimLayout};
use crate::failure::Failure;
use crate::stdout::say;

/// A seed that broke a promise.
struct Broken {
    seed: u64,
    what: String,
}

/// What all workers did together.
#[derive(Default)]
struct Tally {
    outcome: Outcome,
    broken: Vec<Broken>,
}

/// Simulates one seed.
fn simulate(args: &SimArgs, seed: u64) -> Result<Outcome, Violation> {
    match args.layout {
        SimLayout::Single => seeds::run(Single::draw(seed, args.cuts, None)),
        SimLayout::Mirror(members) => seeds::run(Mirror::draw(seed, args.cuts, members)),
        SimLayout::Striped { data, parity } => seeds::run(draw_striped(seed, args.cuts, (data, parity))),
    }
}

/// What a seed stands for, and what happened in its runs.
fn story(args: &SimArgs, seed: u64) -> String {
    fn of<T: Seeded>(setup: Setup<T>) -> String {
        format!("{setup:#?}\n{}\n", seeds::tell(setup).0.join("\n"))
    }
    match args.layout {
        SimLayout::Single => of(Single::draw(seed, args.cuts, None)),
        SimLayout::Mirror(members) => of(Mirror::draw(seed, args.cuts, members)),
        SimLayout::Striped { data, parity } => of(draw_striped(seed, args.cuts, (data, parity))),
    }
}

/// Simulates seeds on every processor and prints what happened.
pub(crate) fn run(args: &SimArgs) -> Result<(), Failure> {
    if args.exhaustive {
        return exhaustive::run(args);
    }
    let interrupt = listen()?;
    let workers = workers();
    if args.seed.checked_add(args.seeds - 1).is_none() {
        return Err(Failure::Unusable(format!(
            "--seed {} has less than {} seeds behind it: the last one is {}",
            args.seed,
            args.seeds,
            u64::MAX
        )));
    }
    let (next, done, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let tally = Mutex::new(Tally::default());
    let started = Instant::now();
    let bar = progress_bar(args.seeds, "seeds");
    thread::scope(|scope| {
        for _ in 0..workers.min(args.seeds) {
            scope.spawn(|| {
                let mut own = Tally::default();
                while !stop.load(Ordering::Relaxed) && !interrupt.is_asked() {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= args.seeds {
                        break;
                    }
                    let seed = args.seed + number;
                    match caught(|| simulate(args, seed)) {
                        Ok(outcome) => own.outcome.add(&outcome),
                        Err(violation) => {
                            own.broken.push(Broken { seed, what: violation.what });
                            stop.store(!args.keep_going, Ordering::Relaxed);
                        }
                    }
                    bar.set_position(done.fetch_add(1, Ordering::Relaxed) + 1);
                }
                if let Ok(mut all) = tally.lock() {
                    all.outcome.add(&own.outcome);
                    all.broken.append(&mut own.broken);
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut tally = tally.into_inner().unwrap_or_default();
    tally.broken.sort_by_key(|broken| broken.seed);
    let seeds = done.into_inner();
    say(&summary(args, &tally, seeds, workers, started.elapsed()))?;
    match tally.broken.first() {
        Some(first) => Err(Failure::No(format!(
            "seed {} breaks a promise; see it again with `evenkeel sim{} --seed {} --seeds 1 --cuts {}`",
            first.seed,
            layout_option(args),
            first.seed,
            args.cuts
        ))),
        None if seeds < args.seeds => Err(Failure::Interrupted),
        None => Ok(()),
    }
}

/// What says on the command line which layout it is; nothing where that need not be said.
fn layout_option(args: &SimArgs) -> String {
    match args.layout {
        SimLayout::Single => String::new(),
        SimLayout::Mirror(_) | SimLayout::Striped { .. } => format!(" --layout {}", args.layout),
    }
}

fn summary(args: &SimArgs, tally: &Tally, seeds: u64, workers: u64, elapsed: Duration) -> String {
    let per_minute = seeds as f64 / elapsed.as_secs_f64().max(1e-3) * 60.0 / workers as f64;
    let outcome = &tally.outcome;
    let mut text = String::new();
    for broken in &tally.broken {
        text += &format!("seed {}: {}\n", broken.seed, broken.what);
    }
    if args.seeds == 1 {
        text += &story(args, args.seed);
    }
    text + &format!(
        "{} seeds, {} cuts, {} recoveries, {} failures; {} operations, {} commits, {} checkpoints, {} wraps of the log \
         ({} seeds without), {} growths; {}{} seeds a minute and processor\n{}",
        format::count(seeds),
        format::count(outcome.cuts),
        format::count(outcome.recoveries),
        tally.broken.len(),
        format::count(outcome.operations),
        format::count(outcome.commits),
        format::count(outcome.checkpoints),
        format::count(outcome.log_wraps),
        format::count(outcome.unwrapped),
        format::count(outcome.growths),
        short_in_words(args, outcome),
        format::count(per_minute as u64),
        faults_in_words(&tally.outcome)
    )
}

/// How many seeds on a single drive lack something that each should have.
fn short_in_words(args: &SimArgs, outcome: &Outcome) -> String {
    match args.layout {
        SimLayout::Mirror(_) | SimLayout::Striped { .. } => String::new(),
        SimLayout::Single => format!(
            "{} seeds with less than {} cuts, {} operations, a checkpoint and a wrap; ",
            format::count(outcome.short),
            args.cuts,
            seeds::OPERATIONS_MIN
        ),
    }
}

/// What devices did wrong and what came of it, in one line; nothing where they did nothing wrong.
fn faults_in_words(outcome: &Outcome) -> String {
    let named = outcome.drives.named().into_iter().chain(outcome.members.named());
    let counted: Vec<String> = named
        .filter(|&(_, count)| count > 0)
        .map(|(name, count)| format!("{} {name}", format::count(count)))
        .collect();
    if counted.is_empty() { String::new() } else { format!("faults: {}\n", counted.join(", ")) }
}

pub(crate) fn listen() -> Result<Interrupt, Failure> {
    Interrupt::on_signals().map_err(|error| Failure::Unusable(format!("cannot listen for Ctrl-C: {error}")))
}

pub(crate) fn workers() -> u64 {
    thread::available_parallelism().map_or(1, usize::from) as u64
}

pub(crate) fn progress_bar(len: u64, of_what: &str) -> ProgressBar {
    let bar = ProgressBar::new(len);
    let template = format!("{{bar:30}} {{human_pos}}/{{human_len}} {of_what}  {{eta}} left");
    bar.set_style(ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
