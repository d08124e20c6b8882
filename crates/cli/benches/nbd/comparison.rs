//! Rounds of all servers, and what they come to.
//!
//! A case that writes has two tables. In the *steady state* a turn lasts so long that the volume makes at least three
//! checkpoints, and it ends when everything is home: that time counts, for every server alike. *Bursts* are short turns,
//! behind which a server comes to rest uncounted.

use std::cell::RefCell;

use evenkeel_host::service::status::{Counters, Status};

use crate::cases::Case;
use crate::load::{self, Operation, Random};
use crate::servers::{Fleet, Kind, Used};
use crate::{Args, Outcome};

/// Microseconds of one tick of the processor's time in /proc.
const TICK_US: f64 = 10_000.0;

/// Checkpoints of the volume in a turn of the steady state.
const CHECKPOINTS_MIN: u64 = 3;

/// Longest turn that is tried for that.
const TURN_MAX_S: f64 = 120.0;

/// One server's turn.
#[derive(Debug, Clone, Copy)]
struct Turn {
    rate_per_s: f64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
    /// The server's processor time for each operation.
    cpu_us: f64,
    /// From the end of the load until everything is home, where that counts.
    home_s: f64,
}

/// The turns of each server, in the order of rounds.
type Turns = Vec<(Kind, Vec<Turn>)>;

/// Runs the cases, and prints what each comes to.
pub(crate) fn measure(fleet: &mut Fleet, cases: &[&Case], args: &Args) -> Outcome {
    let mut random = Random::new(args.seed);
    for case in cases {
        println!("\n### {}: {}", case.name, case.about);
        if case.operation == Operation::Read {
            fleet.read_all()?; // whatever the cases before left in anybody's cache
            bursts(fleet, case, args, &mut random)?;
            continue;
        }
        if !args.only_bursts {
            steady(fleet, case, args, &mut random)?;
        }
        println!("\nBursts: turns of {} s, and what is left then is not counted.", args.burst_seconds);
        bursts(fleet, case, args, &mut random)?;
    }
    Ok(())
}

/// A turn of one server, up to the end of the load; and the volume's counters before and behind it.
fn turn(
    fleet: &Fleet,
    kind: Kind,
    case: &Case,
    seconds: f64,
    seed: u64,
) -> Outcome<(Turn, u64, Vec<Counters>)> {
    let (server, used) = (fleet.server(kind), RefCell::<Vec<Used>>::default());
    let mut counters = Vec::new();
    let done = load::run(&server.socket, case.load(fleet.size_bytes, seconds, seed), || {
        used.borrow_mut().push(server.used());
        if kind == Kind::Evenkeel {
            counters.extend(Status::ask(&server.volume).map(|status| status.counters));
        }
    })
    .map_err(|error| format!("{}: {error}", kind.name()))?;
    let used = used.into_inner();
    let cpu_ticks = used[1].cpu_ticks - used[0].cpu_ticks;
    let turn = Turn {
        rate_per_s: done.rate_per_s(),
        p50_us: done.quantile_s(0.5) * 1e6,
        p99_us: done.quantile_s(0.99) * 1e6,
        max_us: done.quantile_s(1.0) * 1e6,
        cpu_us: cpu_ticks as f64 * TICK_US / done.operations.max(1) as f64,
        home_s: 0.0,
    };
    Ok((turn, done.operations, counters))
}

fn bursts(fleet: &Fleet, case: &Case, args: &Args, random: &mut Random) -> Outcome {
    let mut turns: Turns = fleet.servers.iter().map(|server| (server.kind, Vec::new())).collect();
    let mut counters: Vec<Counters> = Vec::new();
    for _ in 0..args.rounds {
        for kind in fleet.shuffled_kinds(random) {
            let (turn, _, counted) = turn(fleet, kind, case, args.burst_seconds, random.next())?;
            counters.extend(counted);
            push(&mut turns, kind, turn);
            fleet.server(kind).rest();
        }
    }
    print(&turns, None);
    tell(&counters);
    Ok(())
}

fn steady(fleet: &mut Fleet, case: &Case, args: &Args, random: &mut Random) -> Outcome {
    let seconds = match fleet.servers.iter().any(|server| server.kind == Kind::Evenkeel) {
        true => steady_seconds(fleet, case, args, random)?,
        false => args.seconds,
    };
    println!("\nSteady state: turns of {seconds:.1} s, which end when everything is home.");
    let mut turns: Turns = fleet.servers.iter().map(|server| (server.kind, Vec::new())).collect();
    let mut counters: Vec<Counters> = Vec::new();
    for _ in 0..args.rounds {
        for kind in fleet.shuffled_kinds(random) {
            let (mut turn, operations, counted) = turn(fleet, kind, case, seconds, random.next())?;
            let counted_s = operations as f64 / turn.rate_per_s;
            counters.extend(counted);
            turn.home_s = fleet.take_home(kind, args)?.0.as_secs_f64();
            turn.rate_per_s = operations as f64 / (counted_s + turn.home_s);
            push(&mut turns, kind, turn);
        }
    }
    print(&turns, Some(case));
    tell(&counters);
    Ok(())
}

/// How long a turn is in which the volume makes enough checkpoints: found in one that is not counted.
fn steady_seconds(fleet: &mut Fleet, case: &Case, args: &Args, random: &mut Random) -> Outcome<f64> {
    let mut seconds = args.seconds;
    loop {
        let (_, _, counters) = turn(fleet, Kind::Evenkeel, case, seconds, random.next())?;
        fleet.take_home(Kind::Evenkeel, args)?;
        let [before, after] = &counters[..] else { return Err("the volume gives no counters".to_owned()) };
        let checkpoints = after.checkpoints - before.checkpoints;
        if checkpoints > CHECKPOINTS_MIN || seconds >= TURN_MAX_S {
            return Ok(seconds);
        }
        // One more than it takes: turns differ.
        let longer = seconds * (CHECKPOINTS_MIN + 1) as f64 / checkpoints.max(1) as f64;
        seconds = longer.clamp(seconds * 1.5, TURN_MAX_S);
    }
}

fn push(turns: &mut Turns, kind: Kind, turn: Turn) {
    turns.iter_mut().find(|(of, _)| *of == kind).expect("every server has a place").1.push(turn);
}

/// What the volume did in its turns, by its own counters: one before and one behind each.
fn tell(counters: &[Counters]) {
    let sum = |of: fn(&Counters) -> u64| -> f64 {
        counters.chunks_exact(2).map(|turn| of(&turn[1]).saturating_sub(of(&turn[0])) as f64).sum()
    };
    let (writes, user, commits) = (sum(|of| of.writes), sum(|of| of.user_bytes), sum(|of| of.commits));
    let checkpoints =
        counters.chunks_exact(2).map(|turn| turn[1].checkpoints.saturating_sub(turn[0].checkpoints));
    if commits > 0.0 && user > 0.0 {
        println!(
            "Of the volume: {:.1} writes a commit; {:.2} bytes of log, {:.2} of pages and {:.2} of sums for each user \
             byte; at least {} checkpoints a turn; {:.0} commits waited for room.",
            writes / commits,
            sum(|of| of.log_bytes) / user,
            sum(|of| of.home_bytes) / user,
            sum(|of| of.table_bytes) / user,
            checkpoints.min().unwrap_or(0),
            sum(|of| of.log_waits)
        );
    }
}

/// Prints the turns; `aimed_at` is the case whose least ratio they are held against.
fn print(turns: &Turns, aimed_at: Option<&Case>) {
    println!("\n| server | rate /s | least to most | p50 us | p99 us | max us | its CPU us each | home s |");
    println!("|---|---:|---:|---:|---:|---:|---:|---:|");
    for (kind, turns) in turns {
        let column = |of: fn(&Turn) -> f64| Spread::of(turns.iter().map(of));
        let rate = column(|turn| turn.rate_per_s);
        println!(
            "| {} | {:.0} | {:.0} to {:.0} | {:.0} | {:.0} | {:.0} | {:.1} | {:.2} |",
            kind.name(),
            rate.median,
            rate.least,
            rate.most,
            column(|turn| turn.p50_us).median,
            column(|turn| turn.p99_us).median,
            column(|turn| turn.max_us).most,
            column(|turn| turn.cpu_us).median,
            column(|turn| turn.home_s).median,
        );
    }
    let Some((_, ours)) = turns.iter().find(|(kind, _)| *kind == Kind::Evenkeel) else { return };
    let best = |round: usize, among: fn(Kind) -> bool| {
        let rates = turns.iter().filter(|(kind, _)| among(*kind)).map(|(_, turns)| turns[round].rate_per_s);
        rates.reduce(f64::max)
    };
    let ratio = |among: fn(Kind) -> bool| -> Option<Spread> {
        let ratios: Option<Vec<f64>> = ours
            .iter()
            .enumerate()
            .map(|(round, turn)| Some(turn.rate_per_s / best(round, among)?))
            .collect();
        Some(Spread::of(ratios?))
    };
    println!();
    if let Some(Spread { median, least, most }) = ratio(Kind::is_peer) {
        let aim = aimed_at.map_or_else(String::new, |case| {
            let verdict = if median >= case.least_ratio { "reached" } else { "missed" };
            format!("; at least {}: {verdict}", case.least_ratio)
        });
        println!("To the best peer of each round: {median:.2} ({least:.2} to {most:.2}){aim}.");
    }
    if let Some(Spread { median, least, most }) = ratio(|kind| kind == Kind::Before) {
        println!("To the build before: {median:.2} ({least:.2} to {most:.2}).");
    }
    if let Some(Spread { median, least, most }) = ratio(|kind| kind == Kind::Null) {
        println!("Share of what a server that does nothing reaches: {median:.2} ({least:.2} to {most:.2}).");
    }
}

/// The middle and the extremes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let at = |place: usize| values.get(place).copied().unwrap_or(f64::NAN);
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            (at(middle.wrapping_sub(1)) + at(middle)) / 2.0
        } else {
            at(middle)
        };
        Self { median, least: at(0), most: at(values.len().wrapping_sub(1)) }
    }
}
