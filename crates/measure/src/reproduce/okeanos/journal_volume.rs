//! Bytes of the journal against the size of a request.

use evenkeel_engine::format::PAGE_BYTES;

use super::bed::{Bed, SETUP};
use super::streams::{self, Load, Outcome, Rhythm, SECOND_NS};
use super::{Mode, PAPER, SUBSTANTIALLY, Sweep};
use crate::reproduce::{
    Chart, Claim, Comparison, Figure, FigureModule, Halted, Kind, Scale, Settings, Unit, Work,
};

pub(super) const MODULE: FigureModule = FigureModule {
    name: "okeanos-journal-volume",
    paper: PAPER,
    place: "slide 3",
    title: "Journal volume against request size",
    setup: &[
        SETUP[0],
        SETUP[1],
        SETUP[2],
        SETUP[3],
        SETUP[4],
        "10 streams append 100 requests each to files of their own, every request durable before the next of its stream; \
         the slide names no number of streams or requests.",
    ],
    run,
};

const STREAMS: u64 = 10;

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let sizes_kib = settings.pick(vec![1, 2, 4, 8, 16, 32, 64, 100], vec![1, 8]);
    let requests = settings.pick(100, 20);
    let sizes: Vec<u64> = sizes_kib.into_iter().map(|kib| kib << 10).collect();
    let sweep = Sweep::run(work, &Mode::ENGINE, &sizes, |mode, request_bytes| {
        point(settings, work, mode, request_bytes, requests)
    })?;
    let per_byte = |mode, size| sweep.at(mode, size).traffic.journal_per_user_byte();
    let smallest = sizes[0];
    let a_page = PAGE_BYTES as f64 / smallest as f64;
    let claims = vec![
        Claim::new(
            "sync writes result in wasteful traffic due to excessive full-page I/Os",
            Unit::Times,
            Comparison::Within(a_page, 1.1 * a_page),
            Kind::Predicted,
            per_byte(Mode::Data, smallest),
        )
        .paper_value(a_page)
        .note(
            "Bytes of the journal for each byte written in requests of 1 KB, data journaling: a page of 4 KB for each, and no \
             more than a tenth beside it.",
        ),
        Claim::new(
            "Wasteless journaling: avoided bandwidth waste",
            Unit::Times,
            Comparison::Within(SUBSTANTIALLY, a_page),
            Kind::Predicted,
            per_byte(Mode::Data, smallest) / per_byte(Mode::Wasteless, smallest),
        )
        .note("Journal volume of data journaling over that of wasteless, requests of 1 KB: at most what a page has of a request. The slides name no number."),
    ];
    let chart = Chart {
        title: "Journal volume".to_owned(),
        meaning: "bytes written to the journal by all requests".to_owned(),
        x_name: "request size".to_owned(),
        x_unit: Unit::Bytes,
        x_scale: Scale::Log,
        y_name: "journal".to_owned(),
        y_unit: Unit::Bytes,
        y_scale: Scale::Log,
        series: sweep.series(|size| size as f64, |outcome| outcome.traffic.journal_bytes as f64),
    };
    let share = Chart {
        title: "Journal for each byte written".to_owned(),
        meaning: "bytes of the journal over bytes of the requests".to_owned(),
        y_name: "journal over data".to_owned(),
        y_unit: Unit::Times,
        series: sweep.series(|size| size as f64, |outcome| outcome.traffic.journal_per_user_byte()),
        ..chart.clone()
    };
    Ok(Figure { charts: vec![chart, share], claims, ..Figure::default() })
}

pub(super) fn point(
    settings: &Settings,
    work: &Work<'_>,
    mode: Mode,
    request_bytes: u64,
    requests_max: u64,
) -> Result<Outcome, Halted> {
    let load = Load {
        streams: STREAMS,
        request_bytes,
        rhythm: Rhythm::After(0),
        until_ns: 3600 * SECOND_NS,
        requests_max,
    };
    Bed::new(work, settings.seed)?.live(work, mode, async |site| streams::write(&site, load).await)
}
