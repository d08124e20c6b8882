//! Traffic to the journal and to the file system against the number of streams.

use super::bed::{Bed, SETUP};
use super::streams::{self, Load, Outcome, Rhythm, SECOND_NS};
use super::{Mode, PAPER, SUBSTANTIALLY, Sweep};
use crate::report::format;
use crate::reproduce::{
    Chart, Claim, Comparison, Figure, FigureModule, Halted, Kind, Scale, Settings, Table, Unit, Work,
};

pub(super) const MODULE: FigureModule = FigureModule {
    name: "okeanos-traffic",
    paper: PAPER,
    place: "slide 11",
    title: "Journal and file system traffic against the number of streams, 1 kbit/s each",
    setup: &[
        SETUP[0],
        SETUP[1],
        SETUP[2],
        SETUP[3],
        SETUP[4],
        "Each stream appends 125 bytes to its file once a second, durably, for 60 s; a stream whose write takes longer \
         writes later. The slide does not say in which pieces.",
    ],
    run,
};

const REQUEST_BYTES: u64 = 125;

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let streams = settings.pick(vec![1, 1000, 2000, 4000, 6000, 8000], vec![100, 1000]);
    let seconds = settings.pick(60, 10);
    let sweep = Sweep::run(work, &Mode::ALL, &streams, |mode, streams| {
        point(settings, work, mode, streams, seconds)
    })?;
    let most = *streams.last().expect("there are points");
    let selective = Mode::ENGINE[3];
    let journal = |mode| sweep.at(mode, most).traffic.journal_per_user_byte();
    let home = |mode| sweep.at(mode, most).traffic.home_per_user_byte();
    let both =
        |least: fn(f64, f64) -> f64, of: &dyn Fn(Mode) -> f64| least(of(Mode::Wasteless), of(selective));
    let claims = vec![
        Claim::new(
            "Data journaling expensive in terms of journal traffic",
            Unit::Times,
            Comparison::AtLeast(SUBSTANTIALLY),
            Kind::Predicted,
            journal(Mode::Data) / journal(Mode::Wasteless),
        )
        .note(format!("Journal bytes for each byte written, data over wasteless, {most} streams.")),
        Claim::new(
            "Ordered journaling incurs increased filesystem traffic",
            Unit::Times,
            Comparison::AtLeast(SUBSTANTIALLY),
            Kind::Predicted,
            home(Mode::Ext3) / home(Mode::Wasteless),
        )
        .note(format!(
            "Bytes written home for each byte written, ordered as ext3 does it over wasteless, {most} streams; the engine's \
             ordered mode {}.",
            Unit::Times.show(home(Mode::Ordered) / home(Mode::Wasteless))
        )),
        Claim::new(
            "Wasteless & selective substantially reduce journal traffic",
            Unit::Times,
            Comparison::AtLeast(SUBSTANTIALLY),
            Kind::Predicted,
            journal(Mode::Data) / both(f64::max, &journal),
        )
        .note(format!(
            "Data over the greater of wasteless and selective, for each byte written, {most} streams."
        )),
        Claim::new(
            "Wasteless & selective substantially reduce filesystem traffic",
            Unit::Times,
            Comparison::AtLeast(SUBSTANTIALLY),
            Kind::Predicted,
            home(Mode::Ext3) / both(f64::max, &home),
        )
        .note(format!(
            "Ordered as ext3 does it over the greater of wasteless and selective, for each byte written, {most} streams."
        )),
    ];
    let rate = |bytes: u64, outcome: &Outcome| bytes as f64 * 1e9 / outcome.took_ns as f64;
    let chart = Chart {
        title: "Journal".to_owned(),
        meaning: "bytes written to the journal, a second".to_owned(),
        x_name: "streams".to_owned(),
        x_unit: Unit::Count,
        x_scale: Scale::Linear,
        y_name: "journal traffic".to_owned(),
        y_unit: Unit::BytesPerS,
        y_scale: Scale::Log,
        series: sweep
            .series(|streams| streams as f64, |outcome| rate(outcome.traffic.journal_bytes, outcome)),
    };
    let file_system = Chart {
        title: "File system".to_owned(),
        meaning: "bytes written home, a second".to_owned(),
        y_name: "file system traffic".to_owned(),
        series: sweep.series(|streams| streams as f64, |outcome| rate(outcome.traffic.home_bytes, outcome)),
        ..chart.clone()
    };
    let notes = vec![
        "Beyond what the disk bears, streams write less than they want; hence the claims count bytes for each byte that \
         was written. What is dirty at the end goes home and counts, else a mode would look better for having put it \
         off."
            .to_owned(),
    ];
    let tables = vec![accepted(&sweep)];
    Ok(Figure { charts: vec![chart, file_system], tables, claims, notes })
}

/// How much of what streams want to write becomes durable, and at what price.
fn accepted(sweep: &Sweep<u64, Outcome>) -> Table {
    let most = *sweep.places.last().expect("there are points");
    let row = |&mode: &Mode| {
        let outcome = sweep.at(mode, most);
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
        rows: sweep.modes.iter().map(row).collect(),
    }
}

pub(super) fn point(
    settings: &Settings,
    work: &Work<'_>,
    mode: Mode,
    streams: u64,
    seconds: u64,
) -> Result<Outcome, Halted> {
    let load = Load {
        streams,
        request_bytes: REQUEST_BYTES,
        rhythm: Rhythm::Every(SECOND_NS),
        until_ns: seconds * SECOND_NS,
        requests_max: u64::MAX,
    };
    Bed::new(work, settings.seed)?.live(work, mode, async |site| {
        let mut outcome = streams::write(&site, load).await;
        // What is dirty at the end goes home too, else a mode would look better for having put it off.
        let before = site.traffic();
        site.settle().await;
        outcome.traffic.home_bytes += (site.traffic() - before).home_bytes;
        outcome.traffic.journal_bytes += (site.traffic() - before).journal_bytes;
        outcome
    })
}
