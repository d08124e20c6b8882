//! Parallel checkpointing through one server: throughput against the number of threads.

use super::bed::{Bed, SETUP};
use super::streams::{self, Load, Outcome, Rhythm, SECOND_NS};
use super::{Mode, PAPER, Sweep};
use crate::report::format;
use crate::reproduce::{
    Chart, Claim, Comparison, Figure, FigureModule, Halted, Kind, Scale, Settings, Table, Unit, Work,
};

pub(super) const MODULE: FigureModule = FigureModule {
    name: "okeanos-mpi-io",
    paper: PAPER,
    place: "slide 12, right",
    title: "MPI-IO over PVFS2: checkpointing with 1 KB writes against threads per client",
    setup: &[
        SETUP[0],
        SETUP[1],
        SETUP[2],
        SETUP[3],
        SETUP[4],
        "From the paper: 13 clients, one data server, writes of 1 KB. Each thread writes its part of the checkpoint from \
         beginning to end, each write durable before its next.",
        "Assumed: 200 us for the way through the network and back, and a server that takes up all requests at once; \
         PVFS2's own work is not modelled. 60 s are counted: in a few seconds \
         nothing has to go home, and the slowest writers end one write or none.",
    ],
    run,
};

const CLIENTS: u64 = 13;
const REQUEST_BYTES: u64 = 1024;
const NETWORK_NS: u64 = 200_000;

/// Threads of a client, and seconds that are counted.
pub(super) fn extent(settings: &Settings) -> (Vec<u64>, u64) {
    (settings.pick(vec![1, 5, 10, 20, 30, 40], vec![1, 40]), settings.pick(60, 1))
}

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let (threads, seconds) = extent(settings);
    let sweep = Sweep::run(work, &Mode::ALL, &threads, |mode, threads| {
        point(settings, work, mode, threads, seconds)
    })?;
    Ok(figure(&sweep))
}

/// Charts and claims of checkpointing, against the threads of a client.
pub(super) fn figure(sweep: &Sweep<u64, Outcome>) -> Figure {
    let threads = &sweep.places;
    let most = *threads.last().expect("there are points");
    let gain = |over, threads| per_s(sweep.at(Mode::Wasteless, threads)) / per_s(sweep.at(over, threads));
    let claim = |over: Mode, note: String| {
        Claim::new(
            format!(
                "wasteless doubles the throughput of parallel application checkpointing (over {})",
                over.name()
            ),
            Unit::Times,
            Comparison::AtLeast(2.0),
            Kind::Predicted,
            gain(over, most),
        )
        .paper_value(2.0)
        .note(note)
    };
    let engine = match sweep.modes.contains(&Mode::Ordered) {
        true => {
            format!("; over the engine's ordered mode {}", Unit::Times.show(gain(Mode::Ordered, most)))
        }
        false => String::new(),
    };
    let claims = vec![
        claim(Mode::Data, format!("Wasteless over data, {most} threads a client.")),
        claim(
            Mode::Ext3,
            format!("Wasteless over ordered as ext3 does it, {most} threads a client{engine}."),
        ),
    ];
    let least = |over| {
        let order = |one: &&u64, other: &&u64| gain(over, **one).total_cmp(&gain(over, **other));
        *threads.iter().min_by(order).expect("there are points")
    };
    let claims = claims.into_iter().chain([Mode::Data, Mode::Ext3].map(|over| {
        let at = least(over);
        Claim::new(
            format!("at every number of threads wasteless is above {}", over.name()),
            Unit::Times,
            Comparison::AtLeast(1.0),
            Kind::Predicted,
            gain(over, at),
        )
        .note(format!("The least of all points of the figure: {at} threads a client."))
    }));
    let claims = claims.collect();
    let chart = Chart {
        title: "Checkpointing".to_owned(),
        meaning: "bytes made durable a second, by 13 clients".to_owned(),
        x_name: "threads per client".to_owned(),
        x_unit: Unit::Count,
        x_scale: Scale::Linear,
        y_name: "throughput".to_owned(),
        y_unit: Unit::BytesPerS,
        y_scale: Scale::Log,
        series: sweep.series(|threads| threads as f64, per_s),
    };
    let row = |&threads: &u64| {
        let mut row = vec![threads.to_string()];
        row.extend(sweep.modes.iter().map(|&mode| format::rate(per_s(sweep.at(mode, threads)))));
        row.extend([Mode::Data, Mode::Ext3].map(|over| Unit::Times.show(gain(over, threads))));
        row
    };
    let mut header = vec!["threads".to_owned()];
    header.extend(sweep.modes.iter().map(|mode| mode.name().to_owned()));
    header.extend(["wasteless over data", "over ordered, as ext3"].map(str::to_owned));
    let table = Table {
        title: "Throughput, and wasteless over the others".to_owned(),
        header,
        rows: threads.iter().map(row).collect(),
    };
    let notes = vec![
        "The slide's scale ends at 1 MB/s: there network and PVFS2 bound what reaches the disk. Here only the disk does, so \
         the ratios can be compared and the values cannot."
            .to_owned(),
    ];
    Figure { charts: vec![chart], tables: vec![table], claims, notes, ..Figure::default() }
}

/// What the threads of all clients do: `threads` of each.
pub(super) fn load(threads: u64, seconds: u64) -> Load {
    Load {
        streams: CLIENTS * threads,
        request_bytes: REQUEST_BYTES,
        rhythm: Rhythm::After(NETWORK_NS),
        until_ns: seconds * SECOND_NS,
        requests_max: u64::MAX,
    }
}

fn per_s(outcome: &Outcome) -> f64 {
    outcome.per_s() * REQUEST_BYTES as f64
}

pub(super) fn point(
    settings: &Settings,
    work: &Work<'_>,
    mode: Mode,
    threads: u64,
    seconds: u64,
) -> Result<Outcome, Halted> {
    let load = load(threads, seconds);
    Bed::new(work, settings.seed)?.live(work, mode, async |site| streams::write(&site, load).await)
}
