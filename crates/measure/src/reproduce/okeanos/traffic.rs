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
        "Each stream appends 125 bytes to its file once a second, durably, for 2 minutes: four times the 33 s in which a stream fills a page, and as often written back; a \
         stream whose write takes longer writes later. The slide does not say in which pieces.",
    ],
    run,
};

const REQUEST_BYTES: u64 = 125;

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let streams = settings.pick(vec![1, 50, 100, 1000, 2000, 4000, 8000], vec![50, 1000]);
    let seconds = settings.pick(120, 10);
    let sweep = Sweep::run(work, &Mode::ALL, &streams, |mode, streams| {
        point(settings, work, mode, streams, seconds)
    })?;
    let claims = claims(&sweep);
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
        "Beyond what the disk bears, streams write less than they want: the table says how much, and what each byte that was \
         written cost. What is dirty at the end goes home and counts, else a mode would look better for having put it off."
            .to_owned(),
    ];
    let tables = vec![accepted(&sweep)];
    Ok(Figure { charts: vec![chart, file_system], tables, claims, notes, ..Figure::default() })
}

/// The most streams that all of these modes serve.
fn most_served(sweep: &Sweep<u64, Outcome>, modes: &[Mode]) -> Option<u64> {
    let is_served =
        |&&streams: &&u64| modes.iter().all(|&mode| sweep.at(mode, streams).is_served(streams, SECOND_NS));
    sweep.places.iter().filter(is_served).max().copied()
}

fn claims(sweep: &Sweep<u64, Outcome>) -> Vec<Claim> {
    let journal = |outcome: &Outcome| outcome.traffic.journal_bytes as f64 / outcome.took_ns as f64;
    let home = |outcome: &Outcome| outcome.traffic.home_bytes as f64 / outcome.took_ns as f64;
    let ratio = |words: &str, what: &str, value: &dyn Fn(&Outcome) -> f64, over: [Mode; 2]| {
        let streams = most_served(sweep, &over);
        let ratio = streams.map_or(f64::NAN, |streams| {
            let [one, other] = over.map(|mode| value(sweep.at(mode, streams)));
            one / other
        });
        let [one, other] = over.map(Mode::name);
        let note = match streams {
            Some(streams) => format!(
                "{what} a second, {one} over {other}, at {streams} streams: as many as the disk bears in both modes."
            ),
            None => format!(
                "{what} a second, {one} over {other}: there is no number of streams that the disk bears in both."
            ),
        };
        Claim::new(words, Unit::Times, Comparison::more(SUBSTANTIALLY), Kind::Predicted, ratio).note(note)
    };
    let most = *sweep.places.last().expect("there are points");
    let at_most = |mode| home(sweep.at(mode, most));
    let inverted = Claim::new(
        "[slide 11, right] Ordered journaling incurs increased filesystem traffic, up to 8,000 streams",
        Unit::Times,
        Comparison::more(SUBSTANTIALLY),
        Kind::Predicted,
        at_most(Mode::Ext3) / at_most(Mode::Wasteless),
    )
    .note(format!(
        "File system traffic in bytes a second, ordered as ext3 does it over wasteless, {most} streams; for each byte \
         written it is {}, and beside the engine's ordered mode {}.",
        Unit::Times.show(
            sweep.at(Mode::Ext3, most).traffic.home_per_user_byte()
                / sweep.at(Mode::Wasteless, most).traffic.home_per_user_byte()
        ),
        Unit::Times.show(at_most(Mode::Ordered) / at_most(Mode::Wasteless))
    ));
    let inverted = match sweep.at(Mode::Ext3, most).is_served(most, SECOND_NS) {
        true => inverted,
        false => inverted.never(
            "with the write cache off the disk makes some hundred pages durable a second one by one, and the streams ask for \
             thousands",
        ),
    };
    vec![
        ratio(
            "Data journaling expensive in terms of journal traffic",
            "Bytes to the journal",
            &journal,
            [Mode::Data, Mode::Wasteless],
        ),
        ratio(
            "Ordered journaling incurs increased filesystem traffic",
            "Bytes home",
            &home,
            [Mode::Ext3, Mode::Wasteless],
        ),
        inverted,
    ]
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
