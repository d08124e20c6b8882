//! Figure 5: a drive made for it, from writes to reads.

use evenkeel_sim::model::Operation;

use super::super::{Comparison, Figure, FigureModule, Halted, Kind, Settings, Table, Unit, Work};
use super::bed::{Bed, Order, SECOND_NS, Stream};
use super::drive::Drive;
use super::log::{Log, evenness, quantile};
use super::{PAPER, SETUP, STABLE, WINDOW_NS, claim, over_time};

/// Figure 5.
pub(super) const MODULE: FigureModule = FigureModule {
    name: "rails-steady",
    paper: PAPER,
    place: "figure 5",
    title: "Drive C: reads while writes become fewer, from 90 % to 10 %",
    setup: &[
        SETUP[0],
        SETUP[1],
        SETUP[2],
        "Random reads and writes over the whole of drive C, which was filled in order and overwritten twice at random before.",
        "Assumed: writes are fewer by a tenth of all requests every 20 s, and before the first step it ran for 30 s.",
    ],
    run,
};

const READS: usize = 0;
const WRITES: usize = 1;

pub(super) fn steps(seconds: u64, settings: &Settings) -> Vec<Log> {
    let range_bytes = Drive::C.scaled(400, settings);
    let stream = |operation| Stream::new(operation, Order::Random, range_bytes, 0.5);
    let streams = [Operation::Read, Operation::Write].map(stream);
    let mut bed = Bed::new(Drive::C.overwritten(range_bytes, settings), &streams, settings.seed);
    bed.set_rates(&[1.0, 9.0]);
    bed.run_for(30 * SECOND_NS);
    let step = |tenths: u32| {
        bed.set_rates(&[f64::from(10 - tenths), f64::from(tenths)]);
        bed.run_for(seconds * SECOND_NS)
    };
    (1..=9).rev().map(step).collect()
}

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let seconds = settings.pick(20, 5);
    let steps = work.each(&[()], |()| Ok(steps(seconds, settings)))?.remove(0);
    let row = |(number, log): (usize, &Log)| {
        let (reads, writes) = (log.windows(&[READS], WINDOW_NS), log.windows(&[WRITES], WINDOW_NS));
        vec![
            Unit::Share.show((9 - number) as f64 / 10.0),
            Unit::PerS.show(quantile(&reads, 0.5)),
            Unit::Share.show(evenness(&reads)),
            Unit::PerS.show(quantile(&writes, 0.5)),
            Unit::S.show(log.longest_s(READS)),
        ]
    };
    let table = Table {
        title: "Step by step".to_owned(),
        header: ["writes", "reads, median", "reads, least of most", "writes, median", "longest read"]
            .map(str::to_owned)
            .to_vec(),
        rows: steps.iter().enumerate().map(row).collect(),
    };
    let least = steps.iter().map(|log| evenness(&log.windows(&[READS], WINDOW_NS))).fold(f64::MAX, f64::min);
    let claims = vec![claim(
        "the read performance remains relatively predictable throughout the whole experiment",
        Unit::Times,
        Comparison::Within(STABLE, 1.0),
        Kind::Calibrated,
        least,
        "reads, least over most of nine tenths of the windows, in the least even of the nine steps. The model collects at \
         an even pace and suspends programs for reads because this drive is steady in the paper",
    )];
    let mut whole = steps[0].clone();
    steps[1..].iter().for_each(|log| whole.append(log.clone()));
    let lines = vec![whole.line("reads", &[READS], WINDOW_NS), whole.line("writes", &[WRITES], WINDOW_NS)];
    let charts = vec![over_time("Reads and writes", "drive C, writes from 90 % to 10 %", lines)];
    Ok(Figure { charts, tables: vec![table], claims, ..Figure::default() })
}
