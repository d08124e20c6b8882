//! Streams that append to files: latency, and traffic to the journal and to the file system.

use super::super::streams::{self, Load, Outcome, Rhythm, SECOND_NS};
use super::super::{Mode, PAPER, SUBSTANTIALLY, Sweep};
use super::site::{self, Streams};
use super::{MODES, SETUP};
use crate::report::format;
use crate::reproduce::{
    Chart, Claim, Comparison, Figure, FigureModule, Halted, Kind, Scale, Settings, Table, Unit, Work,
};

pub(super) const MODULE: FigureModule = FigureModule {
    name: "okeanos-files-streams",
    paper: PAPER,
    place: "slides 10 and 11, on files",
    title: "Streams on files: write latency at 1 Mbit/s each, traffic at 1 kbit/s each",
    setup: &[
        SETUP[0],
        SETUP[1],
        SETUP[2],
        SETUP[3],
        "Latency: each stream appends 125,000 bytes to its file once a second and syncs it, for 20 s. Traffic: each appends \
         125 bytes once a second and syncs it, for 2 minutes: four times the 33 s in which a stream fills a page. A stream \
         whose write takes longer writes later. The slides do not say in which pieces.",
    ],
    run,
};

/// Bytes of a request: at 1 Mbit/s, and at 1 kbit/s.
const LARGE_BYTES: u64 = 125_000;
const SMALL_BYTES: u64 = 125;

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let streams = settings.pick(vec![1, 20, 40, 60, 80, 100], vec![10, 50]);
    let seconds = settings.pick(20, 4);
    let large = Sweep::run(work, &MODES, &streams, |mode, streams| {
        point(settings, work, mode, load(streams, LARGE_BYTES, seconds))
    })?;
    let streams = settings.pick(vec![1, 50, 100, 1000, 2000], vec![50, 200]);
    let seconds = settings.pick(120, 10);
    let small = Sweep::run(work, &MODES, &streams, |mode, streams| {
        point(settings, work, mode, load(streams, SMALL_BYTES, seconds))
    })?;
    let mut claims = vec![latency_claim(&large)];
    claims.extend(traffic_claims(&small));
    let notes = vec![
        "Beyond what the disk bears, streams write less than they want: the table says how much, and what each byte that was \
         written cost. What is dirty at the end goes home and counts."
            .to_owned(),
    ];
    Ok(Figure {
        charts: charts(&large, &small),
        tables: vec![accepted(&small)],
        claims,
        notes,
        ..Figure::default()
    })
}

fn load(streams: u64, request_bytes: u64, seconds: u64) -> Load {
    let (rhythm, until_ns) = (Rhythm::Every(SECOND_NS), seconds * SECOND_NS);
    Load { streams, request_bytes, rhythm, until_ns, requests_max: u64::MAX }
}

fn point(settings: &Settings, work: &Work<'_>, mode: Mode, load: Load) -> Result<Outcome, Halted> {
    site::live(work, mode, settings.seed, async |site| {
        let streams = Streams::new(&site, load.streams).await;
        let mut outcome = streams::run(&streams, load).await;
        // Else a mode would look better for having put it off.
        let before = site.traffic();
        site.settle().await;
        let late = site.traffic() - before;
        outcome.traffic.home_bytes += late.home_bytes;
        outcome.traffic.journal_bytes += late.journal_bytes;
        outcome
    })
}

/// Traffic of so many small streams, for tests.
#[cfg(test)]
pub(super) fn small_point(
    settings: &Settings,
    work: &Work<'_>,
    mode: Mode,
    streams: u64,
    seconds: u64,
) -> Result<Outcome, Halted> {
    point(settings, work, mode, load(streams, SMALL_BYTES, seconds))
}

/// The most streams that all of these modes serve.
fn most_served(sweep: &Sweep<u64, Outcome>, modes: &[Mode]) -> Option<u64> {
    let is_served =
        |&&streams: &&u64| modes.iter().all(|&mode| sweep.at(mode, streams).is_served(streams, SECOND_NS));
    sweep.places.iter().filter(is_served).max().copied()
}

fn latency_claim(large: &Sweep<u64, Outcome>) -> Claim {
    let judged = [Mode::Data, Mode::Wasteless, Mode::Ext3];
    let streams = most_served(large, &judged);
    let mean_s = |mode| streams.map_or(f64::NAN, |streams| large.at(mode, streams).mean_s());
    let slower_s = mean_s(Mode::Data).max(mean_s(Mode::Wasteless));
    let alone = |mode| large.at(mode, large.places[0]).mean_s();
    let at = streams.map_or_else(|| "no number of".to_owned(), |streams| streams.to_string());
    Claim::new(
        "Data & wasteless achieve substantially lower write latency",
        Unit::Times,
        Comparison::more(SUBSTANTIALLY),
        Kind::Predicted,
        mean_s(Mode::Ext3) / slower_s,
    )
    .note(format!(
        "Mean latency of an append and its fsync, ordered as ext3 does it over the slower of data and wasteless, {at} streams: \
         as many as the disk bears in all three; over wasteless alone it is {}, and with the fewest streams {}. Files of one \
         folder lie near each other, so that ordered pays short seeks for blocks that data and wasteless write twice.",
        Unit::Times.show(mean_s(Mode::Ext3) / mean_s(Mode::Wasteless)),
        Unit::Times.show(alone(Mode::Ext3) / alone(Mode::Wasteless)),
    ))
}

fn traffic_claims(small: &Sweep<u64, Outcome>) -> [Claim; 2] {
    let claim = |words: &str, what: &str, value: &dyn Fn(&Outcome) -> f64, over: [Mode; 2]| {
        let streams = most_served(small, &over);
        let ratio = streams.map_or(f64::NAN, |streams| {
            let [one, other] = over.map(|mode| value(small.at(mode, streams)));
            one / other
        });
        let at = streams.map_or_else(|| "no number of".to_owned(), |streams| streams.to_string());
        let [one, other] = over.map(Mode::name);
        Claim::new(words, Unit::Times, Comparison::more(SUBSTANTIALLY), Kind::Predicted, ratio).note(format!(
            "{what} for each byte that users wrote, {one} over {other}, {at} streams: as many as the disk bears in both. The \
             volume journals metadata by what changed, too, and ext3 by whole blocks."
        ))
    };
    [
        claim(
            "Data journaling expensive in terms of journal traffic",
            "Bytes to the journal",
            &|outcome| outcome.traffic.journal_per_user_byte(),
            [Mode::Data, Mode::Wasteless],
        ),
        claim(
            "Ordered journaling incurs increased filesystem traffic",
            "Bytes home",
            &|outcome| outcome.traffic.home_per_user_byte(),
            [Mode::Ext3, Mode::Wasteless],
        ),
    ]
}

fn charts(large: &Sweep<u64, Outcome>, small: &Sweep<u64, Outcome>) -> Vec<Chart> {
    let latency = Chart {
        title: "Write latency".to_owned(),
        meaning: "mean time of an append of 125,000 bytes and its fsync".to_owned(),
        x_name: "streams of 1 Mbit/s".to_owned(),
        x_unit: Unit::Count,
        x_scale: Scale::Linear,
        y_name: "write latency".to_owned(),
        y_unit: Unit::S,
        y_scale: Scale::Log,
        series: large.series(|streams| streams as f64, Outcome::mean_s),
    };
    let rate = |bytes: u64, outcome: &Outcome| bytes as f64 * 1e9 / outcome.took_ns as f64;
    let journal = Chart {
        title: "Journal".to_owned(),
        meaning: "bytes written to the journal, a second".to_owned(),
        x_name: "streams of 1 kbit/s".to_owned(),
        y_name: "journal traffic".to_owned(),
        y_unit: Unit::BytesPerS,
        series: small
            .series(|streams| streams as f64, |outcome| rate(outcome.traffic.journal_bytes, outcome)),
        ..latency.clone()
    };
    let home = Chart {
        title: "File system".to_owned(),
        meaning: "bytes written home, a second".to_owned(),
        y_name: "file system traffic".to_owned(),
        series: small.series(|streams| streams as f64, |outcome| rate(outcome.traffic.home_bytes, outcome)),
        ..journal.clone()
    };
    vec![latency, journal, home]
}

/// How much of what small streams want to write becomes durable, and at what price.
fn accepted(small: &Sweep<u64, Outcome>) -> Table {
    let most = *small.places.last().expect("there are points");
    let row = |&mode: &Mode| {
        let outcome = small.at(mode, most);
        vec![
            mode.name().to_owned(),
            Unit::PerS.show(outcome.per_s()),
            format::seconds(outcome.mean_s()),
            format::number_short(outcome.traffic.journal_per_user_byte()),
            format::number_short(outcome.traffic.home_per_user_byte()),
        ]
    };
    let header = ["mode", "durable writes", "mean latency", "journal bytes a byte", "home bytes a byte"];
    Table {
        title: format!("At {} streams", format::count(most)),
        header: header.map(str::to_owned).to_vec(),
        rows: small.modes.iter().map(row).collect(),
    }
}
