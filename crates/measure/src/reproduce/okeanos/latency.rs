//! Latency of writes and reads against the number of streams.

use super::bed::{Bed, SETUP};
use super::streams::{self, Load, Outcome, Rhythm, SECOND_NS};
use super::{Mode, PAPER, SUBSTANTIALLY, Sweep};
use crate::reproduce::{
    Chart, Claim, Comparison, Figure, FigureModule, Halted, Kind, Scale, Settings, Unit, Work,
};

pub(super) const MODULE: FigureModule = FigureModule {
    name: "okeanos-latency",
    paper: PAPER,
    place: "slide 10",
    title: "Write and read latency against the number of streams, 1 Mbit/s each",
    setup: &[
        SETUP[0],
        SETUP[1],
        SETUP[2],
        SETUP[3],
        SETUP[4],
        "Each stream appends 125,000 bytes to its file once a second, durably, for 20 s. The slide does not say in which pieces; that \
         selective journaling is as slow as ordered on it says that they are large.",
        "Then the volume is opened anew, with nothing in memory, and each stream reads its file from the beginning at the \
         same rate. The engine does not read ahead.",
    ],
    run,
};

const REQUEST_BYTES: u64 = 125_000;

/// What one point measures.
struct Point {
    writes: Outcome,
    reads: Outcome,
}

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let streams = settings.pick(vec![1, 20, 40, 60, 80, 100], vec![10, 100]);
    let seconds = settings.pick(20, 4);
    let sweep = Sweep::run(work, &Mode::ALL, &streams, |mode, streams| {
        point(settings, work, mode, streams, seconds)
    })?;
    let most = *streams.last().expect("there are points");
    let write_s = |mode| sweep.at(mode, most).writes.mean_s();
    let slower = write_s(Mode::Data).max(write_s(Mode::Wasteless));
    let read_s = Mode::ALL.map(|mode| sweep.at(mode, most).reads.mean_s());
    let (least, longest) =
        read_s.iter().fold((f64::MAX, 0.0_f64), |(least, most), &s| (least.min(s), most.max(s)));
    let judged = [Mode::Data, Mode::Wasteless, Mode::Ext3];
    let is_served = judged.iter().all(|&mode| sweep.at(mode, most).writes.is_served(most, SECOND_NS));
    let mut claims = vec![
        Claim::new(
            "Data & wasteless achieve substantially lower write latency",
            Unit::Times,
            Comparison::more(SUBSTANTIALLY),
            Kind::Predicted,
            write_s(Mode::Ext3) / slower,
        )
        .note(format!(
            "Mean write latency of ordered journaling as ext3 does it over that of the slower of data and wasteless, {most} \
             streams; of the engine's ordered mode {}. Requests as large as these reach the disk twice in data and wasteless, \
             and once in ordered, which gives back much of what the seeks cost it.",
            Unit::Times.show(write_s(Mode::Ordered) / slower)
        )),
        Claim::new(
            "NILFS read latency significantly higher due to poor storage locality [and that of the modes of ext3 alike]",
            Unit::Times,
            Comparison::Within(1.0, 1.5),
            Kind::Predicted,
            longest / least,
        )
        .note(format!("Mean read latency, the mode that is slowest over the one that is fastest, {most} streams.")),
        Claim::new(
            "[slide 10, right] Read Latency (us), on an axis up to 1000",
            Unit::S,
            Comparison::Within(1e-6, 1e-3),
            Kind::Predicted,
            longest,
        )
        .note(format!(
            "Mean read latency of the slowest mode, {most} streams. The engine does not read ahead, and each read waits for \
             the disk."
        )),
    ];
    if !is_served {
        let first = claims.remove(0);
        claims.insert(0, first.never("the disk does not serve all that the streams write"));
    }
    let chart = Chart {
        title: "Write latency".to_owned(),
        meaning: "mean time until a write is durable".to_owned(),
        x_name: "streams".to_owned(),
        x_unit: Unit::Count,
        x_scale: Scale::Linear,
        y_name: "write latency".to_owned(),
        y_unit: Unit::S,
        y_scale: Scale::Log,
        series: sweep.series(|streams| streams as f64, |point| point.writes.mean_s()),
    };
    let reads = Chart {
        title: "Read latency".to_owned(),
        meaning: "mean time of a read of 125,000 bytes that are not in memory".to_owned(),
        y_name: "read latency".to_owned(),
        series: sweep.series(|streams| streams as f64, |point| point.reads.mean_s()),
        ..chart.clone()
    };
    let notes = vec![
        "The paper's read latencies are below a millisecond: its kernel reads ahead. Here every read waits for the disk. \
         The slide compares NILFS with the modes of ext3, and there is no NILFS here."
            .to_owned(),
    ];
    Ok(Figure { charts: vec![chart, reads], claims, notes, ..Figure::default() })
}

fn point(
    settings: &Settings,
    work: &Work<'_>,
    mode: Mode,
    streams: u64,
    seconds: u64,
) -> Result<Point, Halted> {
    let load = Load {
        streams,
        request_bytes: REQUEST_BYTES,
        rhythm: Rhythm::Every(SECOND_NS),
        until_ns: seconds * SECOND_NS,
        requests_max: u64::MAX,
    };
    let bed = Bed::new(work, settings.seed)?;
    let writes = bed.live(work, mode, async |site| {
        let writes = streams::write(&site, load).await;
        site.settle().await;
        writes
    })?;
    // No further than every stream wrote.
    let load = Load { requests_max: (writes.latencies_ns.len() as u64 / streams / 2).max(1), ..load };
    let reads = bed.live(work, mode, async |site| streams::read(&site, load).await)?;
    Ok(Point { writes, reads })
}
