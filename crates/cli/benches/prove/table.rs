//! Figures of rounds, as tables and as a picture.

use crate::Args;
use crate::database::Database;
use crate::picture::{self, Chart};
use crate::rounds::{extremes, median, quantile};
use crate::stacks::Stack;

/// What the neighbour pays.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cost {
    /// How long it took for what it had to do.
    Seconds(f64),
    /// How fast it wrote.
    MibPerS(f64),
}

/// What one load came to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    per_s: f64,
    p50_s: f64,
    p99_s: f64,
    most_s: f64,
    count: usize,
    cost: Option<Cost>,
    sync_p99_s: Option<f64>,
}

impl Measured {
    /// Of what was under way within `window_s`, and what the neighbour pays. 99 of 100
    /// syncs of the log stayed below `sync_p99_s`, where that is known.
    pub(crate) fn of(
        latencies_s: &[f64],
        window_s: f64,
        cost: Option<Cost>,
        sync_p99_s: Option<f64>,
    ) -> Self {
        Self {
            per_s: latencies_s.len() as f64 / window_s.max(1e-3),
            p50_s: quantile(latencies_s, 0.5),
            p99_s: quantile(latencies_s, 0.99),
            most_s: latencies_s.iter().copied().fold(0.0, f64::max),
            count: latencies_s.len(),
            cost,
            sync_p99_s,
        }
    }

    fn has_p99(&self) -> bool {
        self.count >= COUNT_MIN
    }
}

impl Cost {
    fn value(self) -> f64 {
        let (Self::Seconds(value) | Self::MibPerS(value)) = self;
        value
    }
}

/// Of fewer transactions in a round no 99th percentile is told.
const COUNT_MIN: usize = 100;

/// What all loads came to, of each round.
#[derive(Debug)]
pub(crate) struct Figures {
    stacks: Vec<String>,
    /// By database, and then by neighbour and stack.
    all: Vec<Vec<Vec<Measured>>>,
}

impl Figures {
    pub(crate) fn new(databases: &[Box<dyn Database>], stacks: &[Stack]) -> Self {
        let loads = |neighbours: usize| vec![Vec::new(); stacks.len() * neighbours];
        Self {
            stacks: stacks.iter().map(|stack| stack.name().to_owned()).collect(),
            all: databases.iter().map(|database| loads(database.neighbours().len())).collect(),
        }
    }

    /// Of one database on one stack: a figure for each neighbour.
    pub(crate) fn add(&mut self, database: usize, stack: usize, measured: Vec<Measured>) {
        for (neighbour, measured) in measured.into_iter().enumerate() {
            self.all[database][neighbour * self.stacks.len() + stack].push(measured);
        }
    }

    /// Forgets rounds that are not whole; how many are.
    pub(crate) fn keep_whole_rounds(&mut self) -> usize {
        let rounds = self.rounds();
        self.all.iter_mut().flatten().for_each(|loads| loads.truncate(rounds));
        rounds
    }

    fn rounds(&self) -> usize {
        self.all.iter().flatten().map(Vec::len).min().unwrap_or(0)
    }
}

/// A table for each database and neighbour.
pub(crate) fn print(databases: &[Box<dyn Database>], figures: &Figures, args: &Args) {
    let Figures { stacks, all } = figures;
    for (database, loads) in databases.iter().zip(all) {
        println!("\n### {}; {} rounds of {} s", database.unit(), figures.rounds(), args.seconds);
        for (neighbour, loads) in database.neighbours().iter().zip(loads.chunks(stacks.len())) {
            println!(
                "\n| {} | a second | ratio | p50, ms | p99, ms | ratio | longest, ms | counted | neighbour | 99 % of syncs below, ms |",
                neighbour.name(args)
            );
            println!("| --- | --- | --- | ---: | --- | --- | ---: | ---: | ---: | ---: |");
            for (stack, mine) in stacks.iter().zip(loads) {
                println!("{}", row(stack, mine, &loads[0]));
            }
        }
    }
    println!("\nratio: of {} to the other in the same round; median, least and most", stacks[0]);
}

fn row(stack: &str, mine: &[Measured], ours: &[Measured]) -> String {
    let of = |value: fn(&Measured) -> f64| mine.iter().map(value).collect::<Vec<f64>>();
    let ratio = |value: fn(&Measured) -> f64| {
        let ratios: Vec<f64> =
            ours.iter().zip(mine).map(|(ours, theirs)| value(ours) / value(theirs)).collect();
        let (least, most) = extremes(&ratios);
        format!("{:.2} ({least:.2} to {most:.2})", median(&ratios))
    };
    let count: usize = mine.iter().map(|it| it.count).sum();
    let (least, most) = extremes(&of(|it| it.per_s));
    let is_told = |rounds: &[Measured]| rounds.iter().all(Measured::has_p99);
    let p99 = match is_told(mine) {
        true => {
            let (least, most) = extremes(&of(|it| it.p99_s));
            format!("{:.2} to {:.2}", least * 1e3, most * 1e3)
        }
        false => "-".to_owned(),
    };
    let p99_ratio = if is_told(mine) && is_told(ours) { ratio(|it| it.p99_s) } else { "-".to_owned() };
    let costs: Vec<f64> = mine.iter().filter_map(|it| it.cost).map(|it| it.value()).collect();
    let cost = match mine.first().and_then(|it| it.cost) {
        None => "-".to_owned(),
        Some(Cost::Seconds(_)) => format!("{:.1} s", median(&costs)),
        Some(Cost::MibPerS(_)) => format!("{:.0} MiB/s", median(&costs)),
    };
    let syncs: Vec<f64> = mine.iter().filter_map(|it| it.sync_p99_s).collect();
    let syncs = if syncs.is_empty() { "-".to_owned() } else { format!("{:.0}", median(&syncs) * 1e3) };
    format!(
        "| {stack} | {least:.0} to {most:.0} | {} | {:.2} | {p99} | {p99_ratio} | {:.0} | {count} | {cost} | {syncs} |",
        ratio(|it| it.per_s),
        median(&of(|it| it.p50_s)) * 1e3,
        extremes(&of(|it| it.most_s)).1 * 1e3,
    )
}

/// The 99th percentiles, the median over the rounds of each.
pub(crate) fn picture(databases: &[Box<dyn Database>], figures: &Figures) -> String {
    let Figures { stacks, all } = figures;
    let mut rows = Vec::new();
    let mut p99_ms: Vec<Vec<f64>> = Vec::new();
    for (database, loads) in databases.iter().zip(all) {
        for (neighbour, loads) in database.neighbours().iter().zip(loads.chunks(stacks.len())) {
            rows.push(format!("{}, {}", database.name(), neighbour.short()));
            let p99_of = |mine: &Vec<Measured>| match mine.iter().all(Measured::has_p99) {
                true => median(&mine.iter().map(|it| it.p99_s).collect::<Vec<f64>>()) * 1e3,
                false => f64::NAN,
            };
            p99_ms.push(loads.iter().map(p99_of).collect());
        }
    }
    let names: Vec<&str> = stacks.iter().map(String::as_str).collect();
    let about = format!("99th percentile of durable transactions, {} rounds", figures.rounds());
    picture::bars_ms(&Chart { about: &about, names: &names, rows: &rows }, |stack, row| p99_ms[row][stack])
}
