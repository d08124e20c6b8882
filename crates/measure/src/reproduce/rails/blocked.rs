//! Figure 4: the time in which a drive with a small cache answers nothing.

use evenkeel_sim::model::Operation;

use super::super::{Comparison, Figure, FigureModule, Halted, Kind, Series, Settings, Table, Unit, Work};
use super::bed::{Bed, Order, SECOND_NS, Stream};
use super::drive::Drive;
use super::log::Log;
use super::{Chart, PAPER, SETUP, STOPS, WINDOW_NS, claim, over_time};

/// Figure 4.
pub(super) const MODULE: FigureModule = FigureModule {
    name: "rails-blocked",
    paper: PAPER,
    place: "figure 4",
    title: "Drive A: for how long random writes block it",
    setup: &[
        SETUP[0],
        SETUP[1],
        SETUP[3],
        "Random writes over the first 50 GB of drive A, which were filled in order and overwritten twice at random before.",
        "Blocked is what lies between two completions that are more than 5 ms apart: five times what a request of 256 KB \
         takes of the drive's link. The paper does not say how it takes blocking; the table has other bounds.",
    ],
    run,
};

const MS: u64 = 1_000_000;
const BLOCKED_NS: u64 = 5 * MS;
const GAPS_NS: [u64; 5] = [2 * MS, 5 * MS, 10 * MS, 20 * MS, 50 * MS];

pub(super) fn point(seconds: u64, settings: &Settings) -> Log {
    let range_bytes = Drive::A.scaled(50, settings);
    let stream = Stream::new(Operation::Write, Order::Random, range_bytes, 1.0);
    let mut bed = Bed::new(Drive::A.overwritten(range_bytes, settings), &[stream], settings.seed);
    bed.run_for(seconds / 4 * SECOND_NS);
    bed.run_for(seconds * SECOND_NS)
}

/// The part of the time in which the drive is blocked.
pub(super) fn blocked(log: &Log) -> f64 {
    log.blocked(&[0], BLOCKED_NS)
}

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let seconds = settings.pick(120, 20);
    let log = work.each(&[()], |()| Ok(point(seconds, settings)))?.remove(0);
    let row = |ns| vec![Unit::S.show(ns as f64 / 1e9), Unit::Share.show(log.blocked(&[0], ns))];
    let table = Table {
        title: "Time between completions that are further apart than".to_owned(),
        header: ["", "part of all time"].map(str::to_owned).to_vec(),
        rows: GAPS_NS.map(row).to_vec(),
    };
    let claims = vec![
        claim(
            "the average performance eventually degrades to that of B, with the total blocking time corresponding to more \
             than 60% of the device time",
            Unit::Share,
            Comparison::Within(0.6, 0.9),
            Kind::Calibrated,
            blocked(&log),
            &format!("part of the time between completions that are more than 5 ms apart. {STOPS}"),
        )
        .paper_value(0.6),
    ];
    let by_second =
        Series { name: "blocked".to_owned(), points: log.blocked_line(&[0], BLOCKED_NS, WINDOW_NS) };
    let charts = vec![
        Chart {
            y_name: "blocked".to_owned(),
            y_unit: Unit::Share,
            ..over_time(
                "Blocked",
                "the part of each second in which drive A answers nothing",
                vec![by_second],
            )
        },
        over_time("Random writes", "of 256 KB, drive A", vec![log.line("writes", &[0], WINDOW_NS)]),
    ];
    let mut figure = Figure { charts, tables: vec![table], claims, ..Figure::default() };
    figure.draw_paper("Blocked", "more than 60 % of the time", &[(0.0, 0.6), (seconds as f64, 0.6)]);
    Ok(figure)
}
