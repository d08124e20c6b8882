//! Rounds of all servers, and what they come to.

use std::cell::RefCell;

use evenkeel_host::service::status::{Counters, Status};

use crate::cases::Case;
use crate::load::{self, Operation, Random};
use crate::servers::{Fleet, Kind, Used};
use crate::{Args, Outcome};

/// Microseconds of one tick of the processor's time in /proc.
const TICK_US: f64 = 10_000.0;

/// One server's turn.
#[derive(Debug, Clone, Copy)]
struct Turn {
    rate_per_s: f64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
    /// The server's processor time for each operation.
    cpu_us: f64,
}

/// Runs the cases, and prints what each comes to.
pub(crate) fn measure(fleet: &mut Fleet, cases: &[&Case], args: &Args) -> Outcome {
    let mut random = Random::new(args.seed);
    for case in cases {
        let mut turns: Vec<(Kind, Vec<Turn>)> =
            fleet.servers.iter().map(|server| (server.kind, Vec::new())).collect();
        let mut counters: Vec<Counters> = Vec::new();
        if case.operation == Operation::Read {
            fleet.read_all()?; // whatever the cases before left in anybody's cache
        }
        for _ in 0..args.rounds {
            for server in fleet.shuffled(&mut random) {
                let used: RefCell<Vec<Used>> = RefCell::default();
                let load = case.load(fleet.size_bytes, args.seconds, random.next());
                let done = load::run(&server.socket, load, || {
                    used.borrow_mut().push(server.used());
                    if server.kind == Kind::Evenkeel {
                        counters.extend(Status::ask(&server.volume).map(|status| status.counters));
                    }
                })
                .map_err(|error| format!("{}: {error}", server.kind.name()))?;
                let used = used.into_inner();
                let cpu_ticks = used[1].cpu_ticks - used[0].cpu_ticks;
                let turn = Turn {
                    rate_per_s: done.rate_per_s(),
                    p50_us: done.quantile_s(0.5) * 1e6,
                    p99_us: done.quantile_s(0.99) * 1e6,
                    max_us: done.quantile_s(1.0) * 1e6,
                    cpu_us: cpu_ticks as f64 * TICK_US / done.operations.max(1) as f64,
                };
                let of = turns.iter_mut().find(|(kind, _)| *kind == server.kind);
                of.expect("every server has a place").1.push(turn);
                server.rest();
            }
        }
        print(case, &turns);
        tell(&counters);
    }
    Ok(())
}

/// What the volume did in its turns, by its own counters: one before and one behind each.
fn tell(counters: &[Counters]) {
    let sum = |of: fn(&Counters) -> u64| -> f64 {
        counters.chunks_exact(2).map(|turn| of(&turn[1]).saturating_sub(of(&turn[0])) as f64).sum()
    };
    let (writes, user, commits) = (sum(|of| of.writes), sum(|of| of.user_bytes), sum(|of| of.commits));
    if commits > 0.0 && user > 0.0 {
        println!(
            "Of the volume: {:.1} writes a commit; {:.2} bytes of log, {:.2} of pages and {:.2} of sums for each user \
             byte; {:.0} checkpoints; {:.0} commits waited for room.",
            writes / commits,
            sum(|of| of.log_bytes) / user,
            sum(|of| of.home_bytes) / user,
            sum(|of| of.table_bytes) / user,
            sum(|of| of.checkpoints),
            sum(|of| of.log_waits)
        );
    }
}

fn print(case: &Case, turns: &[(Kind, Vec<Turn>)]) {
    println!("\n### {}: {}\n", case.name, case.about);
    println!("| server | rate /s | least to most | p50 us | p99 us | max us | its CPU us each |");
    println!("|---|---:|---:|---:|---:|---:|---:|");
    for (kind, turns) in turns {
        let column = |of: fn(&Turn) -> f64| Spread::of(turns.iter().map(of));
        let rate = column(|turn| turn.rate_per_s);
        println!(
            "| {} | {:.0} | {:.0} to {:.0} | {:.0} | {:.0} | {:.0} | {:.1} |",
            kind.name(),
            rate.median,
            rate.least,
            rate.most,
            column(|turn| turn.p50_us).median,
            column(|turn| turn.p99_us).median,
            column(|turn| turn.max_us).most,
            column(|turn| turn.cpu_us).median,
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
        let verdict = if median >= case.least_ratio { "reached" } else { "missed" };
        println!(
            "To the best peer of each round: {median:.2} ({least:.2} to {most:.2}); at least {}: {verdict}; aim: {}.",
            case.least_ratio, case.aim
        );
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
