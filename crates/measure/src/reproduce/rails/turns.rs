//! Figures 10 to 13: drives that read and write in turns.

use evenkeel_engine::ring::Policy;
use evenkeel_sim::model::Operation;

use super::super::{Comparison, Figure, FigureModule, Halted, Kind, Settings, Table, Unit, Work};
use super::bed::{Bed, Order, SECOND_NS, Stream};
use super::drive::Drive;
use super::log::{Log, evenness, quantile};
use super::ring::{self, Load, Until};
use super::{PAPER, SETUP, STABLE, UNPREDICTABLE, WINDOW_NS, claim, over_time};

/// What a drive writes in a second, roughly: for the size of the cache.
const DRIVE_BYTES_PER_S: u64 = 100_000_000;

/// Of the median, what a window has at least that counts as stable.
const NEAR: f64 = 0.95;

pub(super) const RING: &str = "The ring is the engine's own; in front of it is a cache of 2 T w, with 100 MB/s for w, which accepts a write at \
                    once if it has room. Four streams of requests of 256 KB as fast as possible, 31 under way at once: two \
                    read and two write, one of each in order and one at random, over the first 200 GB, scaled, of drives \
                    that were overwritten at random before.";

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
        "As many reads and writes as there are time for in about a minute, the same for both; the paper does not say how many. \
         Mixed: every drive has every write as it comes, and reads go to the least busy.",
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
    let points = work.each(&[()], |()| {
        let range_bytes = Drive::B.scaled(200, settings);
        let stream = |operation| Stream::new(operation, Order::Random, range_bytes, 1.0);
        let streams = [stream(Operation::Read), stream(Operation::Write)];
        let mut bed = Bed::new(Drive::B.overwritten(range_bytes, settings), &streams, settings.seed);
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
    let (whole, reads) = points.into_iter().next().expect("one point");
    let windows = reads.windows(&[0], WINDOW_NS);
    let stable = stable_share(&windows);
    let lines = vec![whole.line("reads", &[0], WINDOW_NS), whole.line("writes", &[1], WINDOW_NS)];
    let charts = vec![over_time("Throughput in turns of 5 s", "requests of each kind", lines)];
    let claims = vec![claim(
        "model B can switch between reads and writes every 5 seconds almost perfectly",
        Unit::Share,
        Comparison::AtLeast(0.8),
        Kind::Calibrated,
        stable,
        "share of the seconds of the turns of reads in which reads have at least 0.95 of their median. That what nobody \
         waits for gives way to reads is in the model of B because this paper says so of it",
    )];
    Ok(Figure { charts, claims, ..Figure::default() })
}

pub(super) fn load(drive: Drive, members: usize, until: Until, settings: &Settings) -> Load {
    Load {
        drive,
        members,
        policy: Policy::Turns,
        readers: members - 1,
        turn_s: settings.pick(10, 2),
        rest_ms: 100,
        gigabytes: if drive == Drive::A { 50 } else { 200 },
        drive_bytes_per_s: DRIVE_BYTES_PER_S,
        writes_per_s: None,
        until,
    }
}

/// The share of windows that have nearly the median.
fn stable_share(windows: &[f64]) -> f64 {
    let median = quantile(windows, 0.5);
    let near = windows.iter().filter(|&&window| window >= NEAR * median).count();
    near as f64 / windows.len().max(1) as f64
}

fn lines(log: &Log) -> Vec<super::super::Series> {
    vec![log.line("reads", &ring::READS, WINDOW_NS), log.line("writes", &ring::WRITES, WINDOW_NS)]
}

fn two(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let until = Until::Seconds(settings.pick(120, 8));
    let turns = load(Drive::B, 2, until, settings);
    let loads = [turns, Load { policy: Policy::Mixed, ..turns }];
    let logs = work.each(&loads, |&load| ring::run(load, settings))?;
    let [turns, mixed] = <[Log; 2]>::try_from(logs).expect("two loads");
    let reads = turns.windows(&ring::READS, WINDOW_NS);
    let without = mixed.windows(&ring::READS, WINDOW_NS);
    let charts = vec![
        over_time("In turns", "requests of each kind", lines(&turns)),
        over_time("Mixed", "requests of each kind", lines(&mixed)),
    ];
    let claims = vec![
        claim(
            "reads happen at a total constant rate of 1100 reads/sec. and are not affected by writes",
            Unit::PerS,
            Comparison::Within(1000.0, 1200.0),
            Kind::Calibrated,
            quantile(&reads, 0.5),
            "median of the windows of a second",
        ),
        claim(
            "Using Rails to physically separate reads from writes leads to a stable and high read performance",
            Unit::Times,
            Comparison::AtLeast(STABLE),
            Kind::Calibrated,
            evenness(&reads),
            "reads in turns: least over most of nine tenths of the windows",
        ),
        claim(
            "Without Rails reads have unstable performance due to the writes",
            Unit::Times,
            Comparison::AtMost(UNPREDICTABLE),
            Kind::Calibrated,
            evenness(&without),
            "the same of plain replication on the two drives",
        ),
    ];
    Ok(Figure { charts, claims, ..Figure::default() })
}

fn three(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let (reads, writes) = settings.pick((60_000, 8_000), (3_000, 400));
    let turns = load(Drive::B, 3, Until::Done { reads, writes }, settings);
    let loads = [Load { policy: Policy::Mixed, ..turns }, turns];
    let logs = work.each(&loads, |&load| ring::run(load, settings))?;
    let [mixed, turns] = <[Log; 2]>::try_from(logs).expect("two loads");
    let ended = |log: &Log, stream: [usize; 1]| log.last_s(stream[0]);
    let row = |name: &str, log: &Log| {
        let windows = log.windows(&ring::READS, WINDOW_NS);
        let reading = &windows[..(ended(log, ring::READS) as usize).min(windows.len())];
        vec![
            name.to_owned(),
            Unit::S.show(ended(log, ring::READS)),
            Unit::S.show(ended(log, ring::WRITES)),
            Unit::Times.show(evenness(reading)),
        ]
    };
    let table = Table {
        title: "When both were done".to_owned(),
        header: ["", "reads done", "writes accepted", "evenness of reads"].map(str::to_owned).to_vec(),
        rows: vec![row("mixed", &mixed), row("in turns", &turns)],
    };
    let faster = |stream| ended(&mixed, stream) / ended(&turns, stream);
    let windows = turns.windows(&ring::READS, WINDOW_NS);
    let reading = &windows[..(ended(&turns, ring::READS) as usize).min(windows.len())];
    let claims = vec![
        claim(
            "when using Rails the read performance is unaffected by the writes",
            Unit::Times,
            Comparison::AtLeast(STABLE),
            Kind::Calibrated,
            evenness(reading),
            "reads in turns, until they are done: least over most of nine tenths of the windows",
        ),
        claim(
            "and both the read and write workload finish earlier: reads",
            Unit::Times,
            Comparison::AtLeast(1.0),
            Kind::Calibrated,
            faster(ring::READS),
            "time of the mixed reads over that in turns",
        ),
        claim(
            "both the read and write workload finish earlier: writes",
            Unit::Times,
            Comparison::AtLeast(1.0),
            Kind::Calibrated,
            faster(ring::WRITES),
            "time of the mixed writes over that in turns",
        ),
    ];
    let charts = vec![
        over_time("Mixed", "requests of each kind", lines(&mixed)),
        over_time("In turns, two of three read", "requests of each kind", lines(&turns)),
    ];
    Ok(Figure { charts, tables: vec![table], claims, ..Figure::default() })
}

fn shifts(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let until = Until::Seconds(settings.pick(200, 8));
    let (a, b) = (load(Drive::A, 2, until, settings), load(Drive::B, 2, until, settings));
    let loads = [Load { rest_ms: 0, ..a }, a, Load { rest_ms: 0, ..b }, b];
    let logs = work.each(&loads, |&load| ring::run(load, settings))?;
    let names = ["A, no idling", "A, idling", "B, no idling", "B, idling"];
    let shares: Vec<f64> =
        logs.iter().map(|log| stable_share(&log.windows(&ring::READS, WINDOW_NS))).collect();
    let charts = names
        .iter()
        .zip(&logs)
        .map(|(name, log)| over_time(&format!("Drive {name}"), "requests of each kind", lines(log)))
        .collect();
    let stable = |words: &str, at_least: f64, value: f64, which: &str| {
        let note = format!("{which}: share of the seconds in which reads have at least 0.95 of their median");
        claim(words, Unit::Share, Comparison::AtLeast(at_least), Kind::Calibrated, value, &note)
    };
    let claims = vec![
        stable(
            "[drive A has] predictable read performance when using Rails, though reads do not appear as a perfect line",
            0.8,
            shares[0],
            names[0],
        ),
        stable("reads have predictable performance around 95% of the time", 0.945, shares[2], names[2]),
        stable(
            "letting the write drive idle before each shift: 99% of the time the throughput is stable",
            0.99,
            shares[3],
            names[3],
        ),
    ];
    Ok(Figure { charts, claims, ..Figure::default() })
}
