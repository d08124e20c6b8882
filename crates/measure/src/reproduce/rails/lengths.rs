//! Figure 6: what the slowest windows get, against their length.

use evenkeel_sim::model::Operation;

use super::super::{
    Claim, Comparison, Figure, FigureModule, Halted, Kind, Scale, Series, Settings, Unit, Work,
};
use super::bed::{Bed, Order, SECOND_NS, Stream};
use super::drive::Drive;
use super::log::{Log, quantile};
use super::{Chart, PAPER, SETUP, STABLE, STOPS, claim, over_time};

/// Figure 6.
pub(super) const MODULE: FigureModule = FigureModule {
    name: "rails-lengths",
    paper: PAPER,
    place: "figure 6",
    title: "Drives A and B: throughput that a twentieth of the windows does not exceed, against their length",
    setup: &[
        SETUP[0],
        SETUP[1],
        SETUP[3],
        "Writes of 4 KB in order, from the beginning of a range that was filled in order and overwritten twice at random \
         before: 50 GB of drive A, and of drive B, of which the paper says that it is similar, 200 GB. It ends before \
         they have been over all of the range.",
        "Windows begin every 10 ms.",
    ],
    run,
};

const MS: u64 = 1_000_000;
const STEP_NS: u64 = 10 * MS;
const LENGTHS_MS: [u64; 11] = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000];
const DRIVES: [(Drive, u64, &str); 2] = [(Drive::A, 50, "drive A"), (Drive::B, 200, "drive B")];

pub(super) fn point(drive: Drive, gigabytes: u64, seconds: u64, settings: &Settings) -> Log {
    let range_bytes = drive.scaled(gigabytes, settings);
    let stream =
        Stream { request_bytes: 4096, ..Stream::new(Operation::Write, Order::Sequential, range_bytes, 1.0) };
    let mut bed = Bed::new(drive.overwritten(range_bytes, settings), &[stream], settings.seed);
    bed.run_for(2 * SECOND_NS);
    bed.run_for(seconds * SECOND_NS)
}

/// What a twentieth of the windows of that length does not exceed.
pub(super) fn slow(log: &Log, length_ms: u64) -> f64 {
    quantile(&log.sliding_windows(&[0], length_ms * MS, STEP_NS), 0.05)
}

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let seconds = settings.pick(120, 30);
    let logs = work.each(&DRIVES, |&(drive, gigabytes, _)| Ok(point(drive, gigabytes, seconds, settings)))?;
    let line = |((_, _, name), log): (&(Drive, u64, &str), &Log)| Series {
        name: (*name).to_owned(),
        points: LENGTHS_MS.map(|ms| (ms as f64 / 1e3, slow(log, ms))).to_vec(),
    };
    let chart = Chart {
        x_name: "length of the windows".to_owned(),
        x_scale: Scale::Log,
        y_name: "writes a second".to_owned(),
        ..over_time(
            "The slowest twentieth",
            "what a twentieth of the windows does not exceed",
            DRIVES.iter().zip(&logs).map(line).collect(),
        )
    };
    // The first seconds are enough to see it.
    let beginning = |((_, _, name), log): (&(Drive, u64, &str), &Log)| {
        let Series { name, mut points } = log.line(name, &[0], STEP_NS);
        points.truncate(500);
        Series { name, points }
    };
    let beginning = over_time(
        "The first five seconds",
        "writes of 4 KB in order, in windows of 10 ms",
        DRIVES.iter().zip(&logs).map(beginning).collect(),
    );
    let claims = DRIVES.iter().zip(&logs).flat_map(|((_, _, name), log)| claims(name, log)).collect();
    let mut figure = Figure { charts: vec![chart, beginning], claims, ..Figure::default() };
    let (name, most) = ("between 0 and 40,000 (drive A)", 40_000.0);
    figure.draw_paper("The first five seconds", name, &[(0.0, most), (5.0, most)]);
    Ok(figure)
}

fn claims(name: &str, log: &Log) -> Vec<Claim> {
    let longest_ms = LENGTHS_MS[LENGTHS_MS.len() - 1];
    let windows = log.windows(&[0], STEP_NS);
    let mut claims = vec![
        claim(
            "increasing the window size to about 5 seconds improves the 5%-ile, and [...] the increase is fast",
            Unit::Times,
            Comparison::more(2.0),
            Kind::Calibrated,
            slow(log, 5000) / slow(log, 100),
            &format!("{name}: a twentieth of the windows of 5 s over that of 100 ms. {STOPS}"),
        ),
        claim(
            "the throughput of SSDs over a window size of a few seconds becomes as predictable as the throughput over large \
             window sizes",
            Unit::Times,
            Comparison::Within(STABLE, 1.0),
            Kind::Calibrated,
            slow(log, 5000) / slow(log, longest_ms),
            &format!("{name}: a twentieth of the windows of 5 s over that of 20 s"),
        ),
    ];
    if name == "drive A" {
        let words = "the throughput oscillates between 0 and 40,000 writes/sec";
        claims.push(
            claim(
                words,
                Unit::PerS,
                Comparison::Within(0.0, 4_000.0),
                Kind::Calibrated,
                quantile(&windows, 0.0),
                "drive A: the slowest window of 10 ms. A tenth of the most is taken for nothing",
            )
            .paper_value(0.0),
        );
        claims.push(
            claim(
                words,
                Unit::PerS,
                Comparison::Within(36_000.0, 44_000.0),
                Kind::Calibrated,
                quantile(&windows, 1.0),
                "drive A: the fastest window of 10 ms. The model's time for a command is taken from this number",
            )
            .paper_value(40_000.0),
        );
    }
    claims
}
