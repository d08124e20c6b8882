//! Figure 3: reads and writes at once, over a small range and over the drive.

use evenkeel_sim::model::Operation;

use super::super::{
    Chart, Comparison, Figure, FigureModule, Halted, Kind, Scale, Settings, Table, Unit, Work,
};
use super::bed::{Bed, Order, SECOND_NS, Stream};
use super::drive::Drive;
use super::log::{Log, distribution, evenness, quantile};
use super::{PAPER, SETUP, STOPS, UNPREDICTABLE, WINDOW_NS, claim, over_time};

/// Figure 3.
pub(super) const MODULE: FigureModule = FigureModule {
    name: "rails-streams",
    paper: PAPER,
    place: "figure 3",
    title: "Drive B: two streams of reads and two of writes at once, over 100 MB and over 200 GB",
    setup: &[
        SETUP[0],
        SETUP[1],
        SETUP[2],
        SETUP[3],
        "Four streams: reads and writes, each in order and at random, with rates of 0.4 for each of reads and 0.1 for each \
         of writes: one request after the other, of each ten four, four, one and one.",
        "Drive B, filled in order; once all streams are on the first 100 MB, which are not scaled as the buffer is not, and \
         once on the first 200 GB. Assumed: they ran for a while, here 300 s, before figures are taken.",
    ],
    run,
};

const STREAMS: [(&str, Operation, Order, f64); 4] = [
    ("reads in order", Operation::Read, Order::Sequential, 0.4),
    ("random reads", Operation::Read, Order::Random, 0.4),
    ("writes in order", Operation::Write, Order::Sequential, 0.1),
    ("random writes", Operation::Write, Order::Random, 0.1),
];
pub(super) const READS: [usize; 2] = [0, 1];
pub(super) const WRITES: [usize; 2] = [2, 3];

/// Which range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Range {
    Small,
    Large,
}

const SMALL_BYTES: u64 = 100_000_000;

pub(super) fn point(range: Range, seconds: u64, settings: &Settings) -> Log {
    let large_bytes = Drive::B.scaled(200, settings);
    let range_bytes = if range == Range::Small { SMALL_BYTES } else { large_bytes };
    let streams = STREAMS.map(|(_, operation, order, rate)| Stream::new(operation, order, range_bytes, rate));
    let mut bed = Bed::new(Drive::B.filled(settings), &streams, settings.seed);
    bed.run_for(seconds * SECOND_NS * 5 / 2);
    bed.run_for(seconds * SECOND_NS)
}

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let seconds = settings.pick(120, 20);
    let logs = work.each(&[Range::Small, Range::Large], |&range| Ok(point(range, seconds, settings)))?;
    let [small, large] = <[Log; 2]>::try_from(logs).expect("two ranges");
    Ok(figure(&small, &large))
}

fn figure(small: &Log, large: &Log) -> Figure {
    let cdf = |title: &str, log: &Log| Chart {
        title: title.to_owned(),
        meaning: "the part of the windows of a second in which a stream had so much or less".to_owned(),
        x_name: "requests a second".to_owned(),
        x_unit: Unit::PerS,
        x_scale: Scale::Linear,
        y_name: "part of the windows".to_owned(),
        y_unit: Unit::Share,
        y_scale: Scale::Linear,
        series: STREAMS
            .iter()
            .enumerate()
            .map(|(at, stream)| distribution(stream.0, &log.windows(&[at], WINDOW_NS)))
            .collect(),
    };
    let time = |title: &str, log: &Log| {
        let lines = vec![log.line("reads", &READS, WINDOW_NS), log.line("writes", &WRITES, WINDOW_NS)];
        over_time(title, "both streams of each together", lines)
    };
    let charts = vec![
        cdf("Streams over 100 MB", small),
        cdf("Streams over 200 GB, scaled", large),
        time("Over time, 100 MB", small),
        time("Over time, 200 GB, scaled", large),
    ];
    let row = |(name, log, streams): (&str, &Log, [usize; 2])| {
        let windows = log.windows(&streams, WINDOW_NS);
        let longest_s = streams.iter().map(|&stream| log.longest_s(stream)).fold(0.0, f64::max);
        vec![
            name.to_owned(),
            Unit::PerS.show(quantile(&windows, 0.05)),
            Unit::PerS.show(quantile(&windows, 0.5)),
            Unit::PerS.show(quantile(&windows, 0.95)),
            Unit::Share.show(evenness(&windows)),
            Unit::S.show(longest_s),
        ]
    };
    let table = Table {
        title: "Requests in windows of a second".to_owned(),
        header: [
            "",
            "a twentieth at most",
            "median",
            "a twentieth at least",
            "least of most",
            "longest latency",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: [
            ("reads, 100 MB", small, READS),
            ("writes, 100 MB", small, WRITES),
            ("reads, 200 GB", large, READS),
            ("writes, 200 GB", large, WRITES),
        ]
        .into_iter()
        .map(row)
        .collect(),
    };
    let even = |log: &Log, streams: &[usize]| evenness(&log.windows(streams, WINDOW_NS));
    let claims = vec![claim(
        "Performing writes over 200GB leads to unpredictable read throughput due to write-induced blocking events",
        Unit::Times,
        Comparison::Within(0.0, UNPREDICTABLE),
        Kind::Calibrated,
        even(large, &READS),
        &format!("200 GB: least over most of nine tenths of the windows, all reads. {STOPS}"),
    )];
    let notes = vec![
        "That throughput over 100 MB is predictable is shown and not judged: they fit the drive's buffer of 128 MB, as the \
         paper's did, and it could hardly come out otherwise."
            .to_owned(),
    ];
    Figure { charts, tables: vec![table], claims, notes, ..Figure::default() }
}
