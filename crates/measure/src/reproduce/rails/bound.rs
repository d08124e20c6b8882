//! Section 5: writes up to the bound under which reads never meet them, and what happens beyond.
//!
//! Of two drives that hold the same (q = N = 2), one writes while the other reads: W_sep = w N (q - 1) / q^2 = w / 2, where w
//! is what a drive writes in a second when it does nothing else.

use evenkeel_engine::ring::Policy;
use evenkeel_sim::model::Operation;

use super::super::{
    Chart, Comparison, Figure, FigureModule, Halted, Kind, Scale, Series, Settings, Table, Unit, Work,
};
use super::bed::{Bed, Order, SECOND_NS, Stream};
use super::drive::Drive;
use super::log::{Log, quantile};
use super::ring::{self, Load, Until};
use super::turns::{RING, load};
use super::{PAPER, SETUP, WINDOW_NS, claim, over_time};

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
         second when it does nothing else, with the same streams; it takes nothing for idling before a shift.",
    ],
    run,
};

/// Rates of writes, over the bound.
const RATES: [f64; 6] = [0.25, 0.5, 0.75, 1.0, 1.3, 1.8];

/// The share of the seconds that are slower than what is told of reads.
const SLOW: f64 = 0.05;

/// Writes accepted, over those that came, from which on all are.
const ALL: f64 = 0.98;

/// What one drive does in each second when it does nothing else.
fn alone(operation: Operation, settings: &Settings) -> Vec<f64> {
    let range_bytes = Drive::B.scaled(200, settings);
    let stream = |order| Stream::new(operation, order, range_bytes, 1.0);
    let streams = [stream(Order::Sequential), stream(Order::Random)];
    let mut bed = Bed::new(Drive::B.overwritten(range_bytes, settings), &streams, settings.seed);
    bed.run_for(settings.pick(20, 4) * SECOND_NS);
    let log = bed.run_for(settings.pick(60, 8) * SECOND_NS);
    log.windows(&[0, 1], WINDOW_NS)
}

/// What came of one rate.
struct Point {
    /// Of the bound.
    rate: f64,
    accepted: f64,
    /// Reads a second: the median, and what a twentieth of the windows does not exceed.
    reads: [f64; 2],
}

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let alone = work.each(&[Operation::Write, Operation::Read], |&kind| Ok(alone(kind, settings)))?;
    let (bound, reads) = (mean(&alone[0]) / 2.0, quantile(&alone[1], SLOW));
    let until = Until::Seconds(settings.pick(60, 8));
    let of = |policy, rate: f64| Load {
        policy,
        writes_per_s: Some(rate * bound),
        ..load(Drive::B, 2, until, settings)
    };
    let loads: Vec<Load> = [Policy::Turns, Policy::Mixed]
        .into_iter()
        .flat_map(|policy| RATES.map(|rate| of(policy, rate)))
        .collect();
    let logs = work.each(&loads, |&load| ring::run(load, settings))?;
    let points: Vec<Point> =
        RATES.into_iter().cycle().zip(&logs).map(|(rate, log)| point(rate, bound, log)).collect();
    let (turns, mixed) = points.split_at(RATES.len());
    Ok(Figure {
        charts: vec![
            chart("Writes accepted", "share of W_sep", [turns, mixed], |point| point.rate * point.accepted),
            chart("Reads", "what a twentieth of the seconds does not exceed", [turns, mixed], |point| {
                point.reads[1]
            }),
        ],
        tables: vec![table(bound, turns, mixed)],
        claims: claims(turns, mixed, reads),
        ..Figure::default()
    })
}

fn point(rate: f64, bound: f64, log: &Log) -> Point {
    let reads = log.windows(&ring::READS, WINDOW_NS);
    Point {
        rate,
        accepted: mean(&log.windows(&ring::WRITES, WINDOW_NS)) / (rate * bound),
        reads: [0.5, SLOW].map(|share| quantile(&reads, share)),
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
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
                Unit::Share.show(point.accepted),
                Unit::PerS.show(point.reads[0]),
                Unit::PerS.show(point.reads[1]),
            ]
        };
        let rate = [Unit::Times.show(turns.rate), Unit::PerS.show(turns.rate * bound)];
        [&rate[..], &of(turns), &of(mixed)].concat()
    };
    Table {
        title: "Writes that come, what is accepted of them, and reads beside them".to_owned(),
        header: [
            "of W_sep",
            "writes",
            "in turns: accepted",
            "reads, median",
            "slow second",
            "mixed: accepted",
            "reads, median",
            "slow second",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: turns.iter().zip(mixed).map(row).collect(),
    }
}

/// `reads`: the same slow second of one drive that only reads.
fn claims(turns: &[Point], mixed: &[Point], reads: f64) -> Vec<super::Claim> {
    let within = turns.iter().filter(|point| point.rate <= 1.0);
    let most = |points: &[Point]| {
        let all = points.iter().filter(|point| point.accepted >= ALL).map(|point| point.rate);
        all.fold(0.0, f64::max)
    };
    vec![
        claim(
            "as long as the write load W <= W_sep, by adjusting s the system performs perfect read/write separation",
            Unit::Times,
            Comparison::AtLeast(1.0),
            Kind::Predicted,
            most(turns),
            "the highest of the rates tried, over W_sep, at which all writes are accepted in turns. Idling before a shift \
             takes a part of each turn, which the bound leaves out",
        ),
        claim(
            "and offers the read latency and predictability of a read-only system",
            Unit::Times,
            Comparison::AtLeast(0.95),
            Kind::Predicted,
            within.map(|point| point.reads[1] / reads).fold(f64::INFINITY, f64::min),
            "in turns, up to W_sep: what a twentieth of the seconds does not exceed, over the same of one drive that only \
             reads, where that is least",
        ),
        claim(
            "in every such case the second system performs at least as well as the first system in terms of read-latency",
            Unit::Times,
            Comparison::AtLeast(1.0),
            Kind::Calibrated,
            turns
                .iter()
                .zip(mixed)
                .map(|(turns, mixed)| turns.reads[1] / mixed.reads[1])
                .fold(f64::INFINITY, f64::min),
            "slow seconds of reads in turns over those of the mixed system, at the rate where that is least, beyond the bound \
             too; mixed, both drives read",
        ),
    ]
}
