//! Figures 10 to 13: drives that read and write in turns.

use evenkeel_engine::ring::Policy;
use evenkeel_sim::model::Operation;

use super::super::{Comparison, Figure, FigureModule, Halted, Kind, Series, Settings, Table, Unit, Work};
use super::bed::{Bed, Order, REQUEST_BYTES, SECOND_NS, Stream};
use super::drive::Drive;
use super::log::{Log, evenness, mean, quantile};
use super::ring::{self, Load, Ran, Until};
use super::{PAPER, SETUP, STABLE, UNPREDICTABLE, WINDOW_NS, YIELDS, claim, over_time};

/// Of the median, what a window has at least that counts as stable.
const NEAR: f64 = 0.95;

pub(super) const RING: &str = "The ring is the engine's own; in front of it is a cache of 2 T w, where w is what one such drive writes alone, which \
                    accepts a write at once if it has room. Four streams of requests of 256 KB as fast as possible, 31 \
                    under way at once: two read and two write, one of each in order and one at random, over the first \
                    200 GB, scaled, of drives that were overwritten at random before. A write is home when every drive \
                    has it. Every run writes more than the cache holds.";

/// Of all seconds, what "almost perfectly" and "around 95 %" ask for.
const ALMOST: f64 = 0.945;

/// Figure 10.
pub(super) const SWITCHED: FigureModule = FigureModule {
    name: "rails-switched",
    paper: PAPER,
    place: "figure 10",
    title: "Drive B: reads and writes in turns of 5 seconds",
    setup: &[
        SETUP[0],
        SETUP[1],
        SETUP[2],
        "Random reads for 5 s and random writes for 5 s, one after the other, over the first 200 GB, scaled.",
    ],
    run: switched,
};

/// Figure 11.
pub(super) const TWO: FigureModule = FigureModule {
    name: "rails-two",
    paper: PAPER,
    place: "figure 11",
    title: "Two drives of model B that switch roles every 10 seconds",
    setup: &[SETUP[0], SETUP[1], SETUP[2], RING],
    run: two,
};

/// Figure 12.
pub(super) const THREE: FigureModule = FigureModule {
    name: "rails-three",
    paper: PAPER,
    place: "figure 12",
    title: "Three drives of model B, two of which read: mixed and in turns",
    setup: &[
        SETUP[0],
        SETUP[1],
        SETUP[2],
        RING,
        "The same reads and writes for both: 60,000 and 8,000; the paper does not say how many. A workload is finished when \
         its last request is: of a write, when all three drives have it. Mixed: every drive has every write as it comes, and \
         reads go to the least busy.",
    ],
    run: three,
};

/// Figure 13.
pub(super) const STEADY_READS: FigureModule = FigureModule {
    name: "rails-shifts",
    paper: PAPER,
    place: "figure 13",
    title: "Reads of two drives in turns of 10 seconds: models A and B, with and without idling before a shift",
    setup: &[
        SETUP[0],
        SETUP[1],
        SETUP[2],
        RING,
        "Idle before a shift: until small reads of the drive have been quick for 100 ms. Stable: a window of a second has at \
         least 0.95 of the median.",
    ],
    run: shifts,
};

const TURN_S: u64 = 5;

fn switched(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let rounds = settings.pick(12, 3);
    let points = work.each(&[true, false], |&yields| {
        let range_bytes = Drive::B.scaled(200, settings);
        let stream = |operation| Stream::new(operation, Order::Random, range_bytes, 1.0);
        let streams = [stream(Operation::Read), stream(Operation::Write)];
        let drive = match yields {
            true => Drive::B.overwritten(range_bytes, settings),
            false => Drive::B.without_yielding(range_bytes, settings),
        };
        let mut bed = Bed::new(drive, &streams, settings.seed);
        let (mut whole, mut reads) = (Log::default(), Log::default());
        for _ in 0..rounds {
            bed.set_rates(&[1.0, 0.0]);
            let log = bed.run_for(TURN_S * SECOND_NS);
            reads.append(log.clone());
            whole.append(log);
            bed.set_rates(&[0.0, 1.0]);
            whole.append(bed.run_for(TURN_S * SECOND_NS));
        }
        Ok((whole, reads))
    })?;
    let [(whole, reads), (_, without)] = <[_; 2]>::try_from(points).expect("two points");
    let stable = |reads: &Log| stable_share(&reads.windows(&[0], WINDOW_NS));
    let lines = vec![whole.line("reads", &[0], WINDOW_NS), whole.line("writes", &[1], WINDOW_NS)];
    let charts = vec![over_time("Throughput in turns of 5 s", "requests of each kind", lines)];
    let claims = vec![claim(
        "model B can switch between reads and writes every 5 seconds almost perfectly",
        Unit::Share,
        Comparison::Within(ALMOST, 1.0),
        Kind::Calibrated,
        stable(&reads),
        &format!(
            "share of the seconds of the turns of reads in which reads have at least 0.95 of their median; almost all are as \
             many as figure 13(b) has. The first second after most switches is slower. {YIELDS}; without that it is {}",
            Unit::Share.show(stable(&without))
        ),
    )];
    Ok(Figure { charts, claims, ..Figure::default() })
}

/// A load whose cache is 2 T w.
pub(super) fn load(drive: Drive, members: usize, w: f64, until: Until, settings: &Settings) -> Load {
    let turn_s = settings.pick(10, 2);
    Load {
        drive,
        members,
        policy: Policy::Turns,
        readers: members - 1,
        turn_s,
        rest_ms: 100,
        gigabytes: gigabytes(drive),
        cache_bytes: (2.0 * turn_s as f64 * w) as u64,
        writes_per_s: None,
        until,
    }
}

/// In how much of the drive requests lie.
fn gigabytes(drive: Drive) -> u64 {
    if drive == Drive::A { 50 } else { 200 }
}

/// What each drive writes in a second when it does nothing else, in bytes.
fn writes_alone(drives: &[Drive], settings: &Settings, work: &Work<'_>) -> Result<Vec<f64>, Halted> {
    work.each(drives, |&drive| Ok(mean(&drive.alone(Operation::Write, gigabytes(drive), settings))))
}

/// The share of windows that have nearly the median.
fn stable_share(windows: &[f64]) -> f64 {
    let median = quantile(windows, 0.5);
    let near = windows.iter().filter(|&&window| window >= NEAR * median).count();
    near as f64 / windows.len().max(1) as f64
}

pub(super) fn lines(log: &Log) -> Vec<Series> {
    vec![
        log.line("reads", &ring::READS, WINDOW_NS),
        log.line("writes accepted", &ring::ACCEPTED, WINDOW_NS),
        log.line("writes home", &ring::HOME, WINDOW_NS),
    ]
}

fn two(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let w = writes_alone(&[Drive::B], settings, work)?[0];
    let until = Until::Seconds(settings.pick(240, 16));
    let turns = load(Drive::B, 2, w, until, settings);
    let loads = [turns, Load { policy: Policy::Mixed, ..turns }];
    let ran = work.each(&loads, |&load| ring::run(load, settings))?;
    let [turns, mixed] = <[Ran; 2]>::try_from(ran).expect("two loads");
    let of = |ran: &Ran, stream: [usize; 1]| ran.log.windows(&stream, WINDOW_NS);
    let home = |ran: &Ran| mean(&of(ran, ring::HOME)) * REQUEST_BYTES as f64;
    let charts = vec![
        over_time("In turns", "requests of each kind", lines(&turns.log)),
        over_time("Mixed", "requests of each kind", lines(&mixed.log)),
    ];
    let row = |(name, ran): (&str, &Ran)| {
        vec![
            name.to_owned(),
            Unit::PerS.show(quantile(&of(ran, ring::READS), 0.5)),
            Unit::Share.show(evenness(&of(ran, ring::READS))),
            Unit::BytesPerS.show(home(ran)),
            Unit::Share.show(evenness(&of(ran, ring::HOME))),
            Unit::Share.show(home(ran) / w),
        ]
    };
    let header = [
        "",
        "reads, median",
        "reads, least of most",
        "writes home",
        "writes, least of most",
        "of one drive alone",
    ];
    let table = Table {
        title: "Reads and writes".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: [("in turns", &turns), ("mixed", &mixed)].map(row).to_vec(),
    };
    let times = |words: &str, holds_if, value, note: &str| {
        turns.judged(claim(words, Unit::Times, holds_if, Kind::Calibrated, value, note))
    };
    let claims = vec![
        claim(
            "reads happen at a total constant rate of 1100 reads/sec. and are not affected by writes",
            Unit::PerS,
            Comparison::Within(1000.0, 1200.0),
            Kind::Calibrated,
            quantile(&of(&turns, ring::READS), 0.5),
            &format!("median of the windows of a second. {YIELDS}"),
        )
        .paper_value(1100.0),
        times(
            "Using Rails to physically separate reads from writes leads to a stable and high read performance",
            Comparison::Within(STABLE, 1.0),
            evenness(&of(&turns, ring::READS)),
            "reads in turns: least over most of nine tenths of the windows",
        ),
        times(
            "Writes however have a variable behavior as in earlier experiments",
            Comparison::Within(0.0, UNPREDICTABLE),
            evenness(&of(&turns, ring::HOME)),
            "writes that both drives have, in turns: least over most of nine tenths of the windows",
        ),
        claim(
            "Without Rails reads have unstable performance due to the writes",
            Unit::Times,
            Comparison::Within(0.0, UNPREDICTABLE),
            Kind::Calibrated,
            evenness(&of(&mixed, ring::READS)),
            "reads of plain replication on the two drives: least over most of nine tenths of the windows",
        ),
        times(
            "write requests experience performance at least as well as before",
            Comparison::Within(1.0, 10.0),
            home(&turns) / home(&mixed),
            "writes that both drives have, in turns over mixed",
        ),
        times(
            "the user perceives write performance as [...] half that of a drive dedicated to writes",
            Comparison::Within(0.45, 0.55),
            home(&turns) / w,
            "writes that both drives have in turns, as fast as they can, over those of one drive alone",
        )
        .paper_value(0.5),
    ];
    let mut figure = Figure { charts, tables: vec![table], claims, ..Figure::default() };
    figure.draw_paper("In turns", "1100 reads a second", &[(0.0, 1100.0), (turns.log.seconds(), 1100.0)]);
    Ok(figure)
}

/// When something ended, and how writes came home after reads were done.
struct Ends {
    reads_s: f64,
    writes_s: f64,
    /// Writes that all three drives have a second after the last read, over what one drive of three gives that writes at a
    /// time: 3 where all write at once.
    closing: f64,
}

impl Ends {
    /// `w`: bytes that one drive writes in a second when it does nothing else.
    fn of(log: &Log, w: f64) -> Self {
        let [home] = ring::HOME;
        let (reads_s, writes_s) = (log.last_s(ring::READS[0]), log.last_s(home));
        // The last writes do not keep all drives busy.
        let to_s = log.share_done_s(home, 0.95).max(reads_s + 1.0);
        let bytes_per_s = log.rate_between(home, reads_s, to_s) * REQUEST_BYTES as f64;
        Self { reads_s, writes_s, closing: bytes_per_s / (w / 3.0) }
    }
}

fn three(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let w = writes_alone(&[Drive::B], settings, work)?[0];
    let (reads, writes) = settings.pick((60_000, 8_000), (6_000, 800));
    let turns = load(Drive::B, 3, w, Until::Done { reads, writes }, settings);
    let loads = [Load { policy: Policy::Mixed, ..turns }, turns];
    let ran = work.each(&loads, |&load| ring::run(load, settings))?;
    let [mixed, turns] = <[Ran; 2]>::try_from(ran).expect("two loads");
    let ends = [&mixed, &turns].map(|ran| Ends::of(&ran.log, w));
    let reading = |ran: &Ran, ends: &Ends| {
        let windows = ran.log.windows(&ring::READS, WINDOW_NS);
        let seconds = (ends.reads_s as usize).min(windows.len());
        evenness(&windows[..seconds])
    };
    let row = |(name, ran, ends): (&str, &Ran, &Ends)| {
        vec![
            name.to_owned(),
            Unit::S.show(ends.reads_s),
            Unit::S.show(ran.log.last_s(ring::ACCEPTED[0])),
            Unit::S.show(ends.writes_s),
            Unit::Times.show(reading(ran, ends)),
        ]
    };
    let header = ["", "reads done", "writes accepted", "writes home", "evenness of reads"];
    let table = Table {
        title: "When both were done".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: vec![row(("mixed", &mixed, &ends[0])), row(("in turns", &turns, &ends[1]))],
    };
    let times = |words: &str, holds_if, value, note: &str| {
        turns.judged(claim(words, Unit::Times, holds_if, Kind::Calibrated, value, note))
    };
    let claims = vec![
        times(
            "when using Rails the read performance is unaffected by the writes",
            Comparison::Within(STABLE, 1.0),
            reading(&turns, &ends[1]),
            &format!("reads in turns, until they are done: least over most of nine tenths of the windows. {YIELDS}"),
        ),
        times(
            "and both the read and write workload finish earlier: reads",
            Comparison::Within(1.0, 10.0),
            ends[0].reads_s / ends[1].reads_s,
            "time of the mixed reads over that in turns",
        ),
        times(
            "both the read and write workload finish earlier: writes",
            Comparison::Within(1.0, 10.0),
            ends[0].writes_s / ends[1].writes_s,
            "time until all three drives have the last write, mixed over in turns. In turns one drive of three writes at a \
             time, and each has to write everything",
        ),
        times(
            "when the reads complete, all three drives start performing writes",
            Comparison::Within(2.0, 4.0),
            ends[1].closing,
            "writes that all drives have, in a second after the last read, over w / 3, which one drive of three gives that \
             writes at a time. The engine keeps to turns for 30 of them before it takes reads for over",
        )
        .paper_value(3.0),
    ];
    let charts = vec![
        over_time("Mixed", "requests of each kind", lines(&mixed.log)),
        over_time("In turns, two of three read", "requests of each kind", lines(&turns.log)),
    ];
    Ok(Figure { charts, tables: vec![table], claims, ..Figure::default() })
}

fn shifts(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let w = writes_alone(&[Drive::A, Drive::B], settings, work)?;
    let until = Until::Seconds(settings.pick(200, 16));
    let (a, b) = (load(Drive::A, 2, w[0], until, settings), load(Drive::B, 2, w[1], until, settings));
    let loads = [Load { rest_ms: 0, ..a }, a, Load { rest_ms: 0, ..b }, b];
    let ran = work.each(&loads, |&load| ring::run(load, settings))?;
    let names = ["A, no idling", "A, idling", "B, no idling", "B, idling"];
    let shares: Vec<f64> =
        ran.iter().map(|ran| stable_share(&ran.log.windows(&ring::READS, WINDOW_NS))).collect();
    let charts = names
        .iter()
        .zip(&ran)
        .map(|(name, ran)| over_time(&format!("Drive {name}"), "requests of each kind", lines(&ran.log)))
        .collect();
    let stable = |words: &str, at_least: f64, which: usize| {
        let note = format!(
            "{}: share of the seconds in which reads have at least 0.95 of their median",
            names[which]
        );
        let holds_if = Comparison::Within(at_least, 1.0);
        ran[which].judged(claim(words, Unit::Share, holds_if, Kind::Calibrated, shares[which], &note))
    };
    let claims = vec![
        stable(
            "[drive A has] predictable read performance when using Rails, though reads do not appear as a perfect line",
            0.8,
            0,
        ),
        stable("reads have predictable performance around 95% of the time", ALMOST, 2).paper_value(0.95),
        stable(
            "letting the write drive idle before each shift: 99% of the time the throughput is stable",
            0.99,
            3,
        )
        .paper_value(0.99),
    ];
    Ok(Figure { charts, claims, ..Figure::default() })
}
