//! Section 4.3: more than three drives, of which all but one read.

use evenkeel_sim::model::Operation;

use super::super::{Claim, Comparison, Figure, FigureModule, Halted, Kind, Settings, Table, Unit, Work};
use super::bed::REQUEST_BYTES;
use super::drive::Drive;
use super::log::{evenness, mean, quantile};
use super::ring::{self, Ran, Until};
use super::turns::{RING, lines, load};
use super::{PAPER, SETUP, STABLE, WINDOW_NS, YIELDS, claim, over_time};

/// The figure.
pub(super) const MODULE: FigureModule = FigureModule {
    name: "rails-more",
    paper: PAPER,
    place: "section 4.3",
    title: "Four and six drives of model B, all but one of which read",
    setup: &[
        SETUP[0],
        SETUP[1],
        SETUP[2],
        RING,
        "Replication, so that q = N: one drive writes at a time, and each write goes to all: w / N of them, where w is what \
         one drive writes alone. Figures are of four minutes, after four turns.",
    ],
    run,
};

const DRIVES: [usize; 2] = [4, 6];

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let alone =
        work.each(&[Operation::Write, Operation::Read], |&kind| Ok(Drive::B.alone(kind, 200, settings)))?;
    let [writes, reads] = [mean(&alone[0]), mean(&alone[1])];
    let until = Until::Seconds(settings.pick(240, 16));
    let loads = DRIVES.map(|drives| load(Drive::B, drives, writes, until, settings));
    let ran = work.each(&loads, |&load| ring::run(load, settings))?;
    let of_reads = |ran: &Ran| quantile(&ran.log.windows(&ring::READS, WINDOW_NS), 0.5);
    let home = |ran: &Ran| mean(&ran.log.windows(&ring::HOME, WINDOW_NS)) * REQUEST_BYTES as f64;
    let row = |(&drives, ran): (&usize, &Ran)| {
        vec![
            drives.to_string(),
            Unit::PerS.show(of_reads(ran)),
            Unit::Share.show(evenness(&ran.log.windows(&ring::READS, WINDOW_NS))),
            Unit::BytesPerS.show(home(ran)),
            Unit::BytesPerS.show(writes / drives as f64),
        ]
    };
    let header = ["drives", "reads, median", "reads, least of most", "writes home", "w / N"];
    let table = Table {
        title: format!(
            "One drive alone: {} of reads, {} of writes",
            Unit::BytesPerS.show(reads),
            Unit::BytesPerS.show(writes)
        ),
        header: header.map(str::to_owned).to_vec(),
        rows: DRIVES.iter().zip(&ran).map(row).collect(),
    };
    let charts = DRIVES
        .iter()
        .zip(&ran)
        .map(|(drives, ran)| over_time(&format!("{drives} drives"), "requests of each kind", lines(&ran.log)))
        .collect();
    let claims = DRIVES.iter().zip(&ran).flat_map(|(&drives, ran)| {
        let even = evenness(&ran.log.windows(&ring::READS, WINDOW_NS));
        claims(drives, even, home(ran) * drives as f64 / writes).map(|claim| ran.judged(claim))
    });
    Ok(Figure { claims: claims.collect(), charts, tables: vec![table], ..Figure::default() })
}

fn claims(drives: usize, even: f64, home: f64) -> [Claim; 2] {
    [
        claim(
            "drives inside the sliding window do not perform any writes, hence bringing read-latency to read-only levels",
            Unit::Times,
            Comparison::Within(STABLE, 1.0),
            Kind::Calibrated,
            even,
            &format!("{drives} drives: reads, least over most of nine tenths of the windows. {YIELDS}"),
        ),
        claim(
            "the other N - s drives provide write throughput [of w (N - s) / q]",
            Unit::Times,
            Comparison::Within(0.9, 1.1),
            Kind::Calibrated,
            home,
            &format!("{drives} drives: writes that all drives have, over w / N"),
        )
        .paper_value(1.0),
    ]
}
