//! `evenkeel sim --exhaustive`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_host::interrupt::Interrupt;
use evenkeel_measure::report::format;
use evenkeel_sim::exhaustive::{self, Broken, Layout, Tried};

use super::{listen, progress_bar, workers};
use crate::args::{SimArgs, SimLayout};
use crate::failure::Failure;
use crate::stdout::say;

/// What all workers did together.
#[derive(Default)]
struct Tally {
    tried: Tried,
    broken: Vec<(u64, Broken)>,
}

/// Members of a ring, unless told otherwise.
const MEMBERS: usize = 2;

fn layout(args: &SimArgs) -> Layout {
    match args.layout {
        SimLayout::Single => Layout::Single,
        SimLayout::Mirror(members) => Layout::Mirror { members: members.unwrap_or(MEMBERS) },
        SimLayout::Striped { data, parity } => Layout::Striped { data, parity },
    }
}

/// Tries every crash of one workload after the other, on every processor, and prints what happened.
pub(super) fn run(args: &SimArgs) -> Result<(), Failure> {
    let interrupt = listen()?;
    let started = Instant::now();
    let tally = match args.state {
        Some(state) => one_state(args, state),
        None => many_states(args, &interrupt),
    };
    if let Some(state) = args.state.filter(|_| tally.broken.is_empty() && tally.tried.states == 0) {
        return Err(Failure::Unusable(format!(
            "the workload of seed {} has no state {state}; choose a lower --state",
            args.seed
        )));
    }
    say(&summary(args, &tally, started.elapsed()))?;
    match tally.broken.first() {
        Some((seed, Broken { state, .. })) => {
            let what = if state.is_some() { "a crash" } else { "a workload" };
            let state = state.unwrap_or(0);
            Err(Failure::No(format!(
                "{what} breaks a promise; see it again with `evenkeel sim --exhaustive{} --seed {seed} --state {state}`",
                super::layout_option(args)
            )))
        }
        None if args.state.is_none() && tally.tried.states < args.states => Err(Failure::Interrupted),
        None => Ok(()),
    }
}

fn one_state(args: &SimArgs, state: u64) -> Tally {
    match exhaustive::run(layout(args), args.seed, Some(state), &mut |_| true) {
        Ok(tried) => Tally { tried, broken: Vec::new() },
        Err(broken) => Tally { tried: Tried::default(), broken: vec![(args.seed, broken)] },
    }
}

fn many_states(args: &SimArgs, interrupt: &Interrupt) -> Tally {
    let (next, done, stop) = (AtomicU64::new(args.seed), AtomicU64::new(0), AtomicBool::new(false));
    let tally = Mutex::new(Tally::default());
    let bar = progress_bar(args.states, "crash states");
    let is_over = || {
        done.load(Ordering::Relaxed) >= args.states || stop.load(Ordering::Relaxed) || interrupt.is_asked()
    };
    thread::scope(|scope| {
        for _ in 0..workers() {
            scope.spawn(|| {
                while !is_over() {
                    let seed = next.fetch_add(1, Ordering::Relaxed); // beyond the last it begins again at 0
                    let mut counted = 0;
                    let mut so_far = Tried::default();
                    let tried = exhaustive::run(layout(args), seed, None, &mut |tried| {
                        bar.set_position(done.fetch_add(tried.states - counted, Ordering::Relaxed));
                        counted = tried.states;
                        so_far = *tried;
                        !is_over()
                    });
                    let Ok(mut all) = tally.lock() else { return };
                    match tried {
                        Ok(tried) => all.tried.add(&tried),
                        Err(broken) => {
                            all.tried.add(&so_far);
                            all.broken.push((seed, broken));
                            stop.store(true, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut tally = tally.into_inner().unwrap_or_default();
    tally.broken.sort_by_key(|&(seed, _)| seed);
    tally
}

fn summary(args: &SimArgs, tally: &Tally, elapsed: Duration) -> String {
    let mut text = String::new();
    for (seed, Broken { state, violation }) in &tally.broken {
        let state = state.map_or_else(|| "before any cut".to_owned(), |state| format!("state {state}"));
        text += &format!("workload {seed}, {state}: {}\n", violation.what);
    }
    let tried = &tally.tried;
    text + &format!(
        "{} workloads to their end, {} moments of a cut ({} in every outcome, {} in a sample), {} crash states ({} with \
         torn sectors{}), {} more by cuts within the recoveries of {} of them; {} recoveries of distinct contents, {} \
         failures; {}\n",
        format::count(tried.workloads),
        format::count(tried.moments),
        format::count(tried.moments - tried.sampled_moments),
        format::count(tried.sampled_moments),
        format::count(tried.states),
        format::count(tried.torn_states),
        lost_in_words(args, tried),
        format::count(tried.recovery_states),
        format::count(tried.recoveries_cut),
        format::count(tried.recoveries),
        tally.broken.len(),
        format::duration(elapsed.as_secs_f64())
    )
}

/// How many states a ring was in without some of its drives.
fn lost_in_words(args: &SimArgs, tried: &Tried) -> String {
    match args.layout {
        SimLayout::Single => String::new(),
        SimLayout::Mirror(_) | SimLayout::Striped { .. } => format!(
            ", {} with drives lost, {} refused for want of a drive",
            format::count(tried.states_without),
            format::count(tried.refusals)
        ),
    }
}
