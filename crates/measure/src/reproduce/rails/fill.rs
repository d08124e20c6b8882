//! Figure 2: reads alone, and writes alone until the drive is full and after.

use evenkeel_sim::model::Operation;

use super::super::{Comparison, Figure, FigureModule, Halted, Kind, Settings, Table, Unit, Work};
use super::bed::{Bed, Order, SECOND_NS, Stream};
use super::drive::Drive;
use super::log::{Log, evenness, quantile};
use super::{PAPER, SETUP, STABLE, STOPS, UNPREDICTABLE, WINDOW_NS, claim, over_time};

/// Figure 2.
pub(super) const MODULE: FigureModule = FigureModule {
    name: "rails-fill",
    paper: PAPER,
    place: "figure 2",
    title: "Drive B: reads alone, and random writes alone until it is full and after",
    setup: &[
        SETUP[0],
        SETUP[1],
        SETUP[2],
        "Reads over the first 200 GB of drive B, which was filled in order. Assumed: they are random, as the writes are.",
        "Random writes over the same range of a drive that was never written. The moment up to which throughput is \
         stable is taken to be that at which the drive first has to move data to free a block.",
    ],
    run,
};

/// As long as the paper has the drive blocked at most.
const SHORT_NS: u64 = SECOND_NS / 10;

/// Which half of the figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Half {
    Reads,
    Writes,
}

/// What was done, and in how many whole windows before anything was moved.
pub(super) fn point(half: Half, seconds: u64, settings: &Settings) -> (Log, usize) {
    let range_bytes = Drive::B.scaled(200, settings);
    let (drive, operation) = match half {
        Half::Reads => (Drive::B.filled(settings), Operation::Read),
        Half::Writes => (Drive::B.fresh(settings), Operation::Write),
    };
    let stream = Stream::new(operation, Order::Random, range_bytes, 1.0);
    let mut bed = Bed::new(drive, &[stream], settings.seed);
    let mut windows_before = 0;
    let mut log = Log::default();
    for _ in 0..seconds * SECOND_NS / WINDOW_NS {
        log.append(bed.run_for(WINDOW_NS));
        windows_before += usize::from(bed.policy().counters().frames_moved == 0);
    }
    (log, windows_before)
}

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let seconds = settings.pick(120, 30);
    let halves = work.each(&[Half::Reads, Half::Writes], |&half| Ok(point(half, seconds, settings)))?;
    let [(reads, _), (writes, before)] = <[_; 2]>::try_from(halves).expect("two halves");
    Ok(figure(&reads, &writes, before))
}

fn figure(reads: &Log, writes: &Log, windows_before: usize) -> Figure {
    let alone = reads.windows(&[0], WINDOW_NS);
    let all = writes.windows(&[0], WINDOW_NS);
    let (before, after) = all.split_at(windows_before);
    let short = writes.windows(&[0], SHORT_NS);
    let row = |(name, windows): (&str, &[f64])| {
        let shown = |share| Unit::PerS.show(quantile(windows, share));
        vec![name.to_owned(), shown(0.05), shown(0.5), shown(0.95), Unit::Share.show(evenness(windows))]
    };
    let table = Table {
        title: "Requests in windows of a second".to_owned(),
        header: ["", "a twentieth at most", "median", "a twentieth at least", "least of most"]
            .map(str::to_owned)
            .to_vec(),
        rows: [("reads", &alone[..]), ("writes before", before), ("writes after", after)].map(row).to_vec(),
    };
    let claims = vec![
        claim(
            "the throughput is high and virtually variance-free",
            Unit::Times,
            Comparison::Within(STABLE, 1.0),
            Kind::Predicted,
            evenness(&alone),
            "reads alone: least over most of nine tenths of the windows",
        ),
        claim(
            "random writes gives stable throughput up to a certain moment",
            Unit::Times,
            Comparison::Within(STABLE, 1.0),
            Kind::Predicted,
            evenness(before),
            "writes before data is moved: least over most of nine tenths of the windows",
        ),
        claim(
            "The random write throughput achieved by the commodity drives [...] drops significantly after some number of \
             operations",
            Unit::Times,
            Comparison::less(0.5),
            Kind::Predicted,
            quantile(after, 0.5) / quantile(before, 0.5),
            "median of the windows of writes after data is moved, over that before",
        ),
        claim(
            "after which the performance degrades and becomes unpredictable",
            Unit::Times,
            Comparison::Within(0.0, UNPREDICTABLE),
            Kind::Calibrated,
            evenness(after),
            &format!(
                "writes after data is moved: least over most of nine tenths of the windows; of windows of 100 ms it is {}. \
                 {STOPS}",
                Unit::Times.show(evenness(&short[windows_before * (WINDOW_NS / SHORT_NS) as usize..])),
            ),
        ),
    ];
    let charts = vec![
        over_time("Reads alone", "of 256 KB, drive B", vec![reads.line("reads", &[0], WINDOW_NS)]),
        over_time(
            "Random writes alone",
            "of 256 KB, drive B, never written before",
            vec![writes.line("writes", &[0], WINDOW_NS)],
        ),
    ];
    Figure { charts, tables: vec![table], claims, ..Figure::default() }
}
