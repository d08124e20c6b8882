//! Section 5: writes up to the bound under which reads never meet them, and what happens beyond.
//!
//! Of two drives that hold the same (q = N = 2), one writes while the other reads: W_sep = w N (q - 1) / q^2 = w / 2, where w
//! is what a drive writes in a second when it does nothing else.

use evenkeel_engine::ring::Policy;
use evenkeel_sim::model::Operation;

use super::super::{
    Chart, Claim, Comparison, Figure, FigureModule, Halted, Kind, Scale, Series, Settings, Table, Unit, Work,
};
use super::bed::REQUEST_BYTES;
use super::drive::Drive;
use super::log::{mean, quantile};
use super::ring::{self, Load, Ran, Until};
use super::turns::{RING, load};
use super::{PAPER, SETUP, WINDOW_NS, YIELDS, claim, over_time};

/// The figure.
pub(super) const MODULE: FigureModule = FigureModule {
    name: "rails-bound",
    paper: PAPER,
    place: "section 5",
    title: "Two drives of model B: writes up to the bound W_sep and beyond, in turns and mixed",
    setup: &[
        SETUP[0],
        SETUP[1],
        SETUP[2],
        RING,
        "Writes come at a rate of their own, reads as fast as possible. The bound is half of what one such drive writes in a \
         second when it does nothing else, with the same streams, over four minutes; it takes nothing for idling before a \
         shift.",
        "A write counts once both drives have it. Figures are of four minutes, after four turns.",
    ],
    run,
};

/// Rates of writes, over the bound.
const RATES: [f64; 6] = [0.25, 0.5, 0.75, 1.0, 1.3, 1.8];

/// The share of the seconds that are slower than what is told of reads.
const SLOW: f64 = 0.05;

/// Latencies of reads that are compared.
const QUANTILES: [f64; 2] = [0.99, 0.999];

/// Writes that both drives have, over those that came, from which on all are.
const ALL: f64 = 0.98;

/// What came of one rate.
struct Point {
    /// Of the bound.
    rate: f64,
    /// Of the writes that came.
    home: f64,
    /// Reads a second: the median, and what a twentieth of the windows does not exceed.
    reads: [f64; 2],
    /// By [`QUANTILES`].
    latencies_s: [f64; 2],
}

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let alone =
        work.each(&[Operation::Write, Operation::Read], |&kind| Ok(Drive::B.alone(kind, 200, settings)))?;
    let writes = mean(&alone[0]);
    let bound = writes / REQUEST_BYTES as f64 / 2.0;
    let reads = quantile(&alone[1], SLOW) / REQUEST_BYTES as f64;
    let until = Until::Seconds(settings.pick(240, 16));
    let of = |policy, rate: f64| Load {
        policy,
        writes_per_s: Some(rate * bound),
        ..load(Drive::B, 2, writes, until, settings)
    };
    let loads: Vec<Load> = [Policy::Turns, Policy::Mixed]
        .into_iter()
        .flat_map(|policy| RATES.map(|rate| of(policy, rate)))
        .collect();
    let ran = work.each(&loads, |&load| ring::run(load, settings))?;
    let points: Vec<Point> =
        RATES.into_iter().cycle().zip(&ran).map(|(rate, ran)| point(rate, bound, ran)).collect();
    let (turns, mixed) = points.split_at(RATES.len());
    let in_turns = &ran[..RATES.len()];
    let mut figure = Figure {
        charts: vec![
            chart("Writes that both drives have", "share of W_sep", [turns, mixed], |point| {
                point.rate * point.home
            }),
            chart("Reads", "what a twentieth of the seconds does not exceed", [turns, mixed], |point| {
                point.reads[1]
            }),
            Chart {
                y_name: "read".to_owned(),
                y_unit: Unit::S,
                y_scale: Scale::Log,
                ..chart("Latency of reads", "99 % of the reads take no longer", [turns, mixed], |point| {
                    point.latencies_s[0]
                })
            },
        ],
        tables: vec![table(bound, turns, mixed)],
        claims: claims(turns, mixed, in_turns, reads),
        ..Figure::default()
    };
    let all = [(RATES[0], RATES[0]), (1.0, 1.0)];
    figure.draw_paper("Writes that both drives have", "all up to W_sep", &all);
    Ok(figure)
}

fn point(rate: f64, bound: f64, ran: &Ran) -> Point {
    let reads = ran.log.windows(&ring::READS, WINDOW_NS);
    Point {
        rate,
        home: mean(&ran.log.windows(&ring::HOME, WINDOW_NS)) / (rate * bound),
        reads: [0.5, SLOW].map(|share| quantile(&reads, share)),
        latencies_s: QUANTILES.map(|share| ran.log.latency_s(ring::READS[0], share)),
    }
}

fn chart(title: &str, meaning: &str, points: [&[Point]; 2], value: impl Fn(&Point) -> f64) -> Chart {
    let series = ["in turns", "mixed"].into_iter().zip(points).map(|(name, points)| Series {
        name: name.to_owned(),
        points: points.iter().map(|point| (point.rate, value(point))).collect(),
    });
    Chart {
        x_name: "writes that come, of W_sep".to_owned(),
        x_unit: Unit::Times,
        x_scale: Scale::Linear,
        ..over_time(title, meaning, series.collect())
    }
}

fn table(bound: f64, turns: &[Point], mixed: &[Point]) -> Table {
    let row = |(turns, mixed): (&Point, &Point)| {
        let of = |point: &Point| {
            [
                Unit::Share.show(point.home),
                Unit::PerS.show(point.reads[0]),
                Unit::PerS.show(point.reads[1]),
                Unit::S.show(point.latencies_s[0]),
                Unit::S.show(point.latencies_s[1]),
            ]
        };
        let rate = [Unit::Times.show(turns.rate), Unit::PerS.show(turns.rate * bound)];
        [&rate[..], &of(turns), &of(mixed)].concat()
    };
    let of = ["both drives have", "reads, median", "slow second", "99 % of reads below", "99.9 %"];
    let named = |which: &str| of.map(|name| format!("{which}: {name}"));
    Table {
        title: "Writes that come, what both drives have of them, and reads beside them".to_owned(),
        header: [&["of W_sep", "writes"].map(str::to_owned)[..], &named("in turns"), &named("mixed")]
            .concat(),
        rows: turns.iter().zip(mixed).map(row).collect(),
    }
}

/// `ran`: the runs in turns. `reads`: the slow second of one drive that only reads.
fn claims(turns: &[Point], mixed: &[Point], ran: &[Ran], reads: f64) -> Vec<Claim> {
    let within = || turns.iter().filter(|point| point.rate <= 1.0);
    let all_home = turns.iter().take_while(|point| point.home >= ALL).map(|point| point.rate);
    let beyond = |at: usize| {
        let pairs = turns.iter().zip(mixed).filter(|(turns, _)| turns.rate > 1.0);
        pairs
            .map(|(turns, mixed)| mixed.latencies_s[at] / turns.latencies_s[at])
            .fold(f64::INFINITY, f64::min)
    };
    let evenest = within().map(|point| point.reads[1] / reads).fold(f64::INFINITY, f64::min);
    let words = "in every such case [W > W_sep] the second system performs at least as well as the first system in terms of \
                 read-latency";
    let latency = |at: usize, name: &str| {
        let note = format!(
            "the {name} of reads, mixed over in turns, at the rate beyond the bound where that is least; mixed, both drives \
             read. {YIELDS}"
        );
        claim(words, Unit::Times, Comparison::Within(1.0, 10.0), Kind::Calibrated, beyond(at), &note)
    };
    let mut claims = vec![
        claim(
            "as long as the write load W <= W_sep, by adjusting s the system performs perfect read/write separation",
            Unit::Times,
            Comparison::Within(1.0, 1.1),
            Kind::Calibrated,
            all_home.fold(0.0, f64::max),
            "the highest of the rates tried, over W_sep, up to which both drives have all writes that come, in turns; more than \
             the bound would be a mistake. Idling before a shift takes a part of each turn, which the bound leaves out",
        )
        .paper_value(1.0),
        claim(
            "and offers the read latency and predictability of a read-only system",
            Unit::Times,
            Comparison::Within(0.95, 1.05),
            Kind::Calibrated,
            evenest,
            &format!(
                "in turns, up to W_sep: what a twentieth of the seconds does not exceed, over the same of one drive that only \
                 reads, where that is least. {YIELDS}"
            ),
        )
        .paper_value(1.0),
        latency(0, "99th percentile"),
        latency(1, "99.9th percentile"),
    ];
    for ran in ran {
        claims = claims.into_iter().map(|claim| ran.judged(claim)).collect();
    }
    claims
}
