//! The threshold of selective journaling, swept.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_engine::env::Env;

use super::bed::{Bed, SETUP, Site};
use super::streams::{SECOND_NS, file_bytes, file_offset};
use super::written::Traffic;
use super::{Mode, PAPER};
use crate::report::format;
use crate::reproduce::{
    Chart, Claim, Comparison, Figure, FigureModule, Halted, Kind, Scale, Series, Settings, Table, Unit, Work,
};

pub(super) const MODULE: FigureModule = FigureModule {
    name: "okeanos-threshold",
    paper: PAPER,
    place: "slides 5 and 6",
    title: "The threshold of selective journaling, swept",
    setup: &[
        SETUP[0],
        SETUP[1],
        SETUP[2],
        SETUP[3],
        SETUP[4],
        "16 streams append requests of 1 KB to 1 MB, each size as likely as any other by its logarithm, every one durable \
         before the next of its stream, for 20 s. Requests above the threshold go straight home, but for parts of pages. \
         The last threshold is above all of them, and so wasteless journaling.",
    ],
    run,
};

const STREAMS: u64 = 16;
const LARGEST_BYTES: u64 = 1 << 20;

/// What one point measures.
#[derive(Debug, Clone, Default)]
pub(super) struct Point {
    traffic: Traffic,
    latencies_ns: Vec<u64>,
    took_ns: u64,
}

impl Point {
    fn throughput(&self) -> f64 {
        self.traffic.user_bytes as f64 * 1e9 / self.took_ns as f64
    }

    fn mean_s(&self) -> f64 {
        self.latencies_ns.iter().sum::<u64>() as f64 / self.latencies_ns.len() as f64 / 1e9
    }

    /// Bytes written to the disk for each byte of the user.
    pub(super) fn disk_bytes(&self) -> f64 {
        self.traffic.journal_per_user_byte() + self.traffic.home_per_user_byte()
    }
}

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let thresholds_kib = settings.pick(vec![4, 16, 64, 128, 256, 384, 512, 768, 2048], vec![4, 128, 2048]);
    let thresholds: Vec<u64> = thresholds_kib.into_iter().map(|kib: u64| kib << 10).collect();
    let seconds = settings.pick(20, 3);
    let points = work.each(&thresholds, |&threshold| point(settings, work, threshold, seconds))?;
    let best = |value: &dyn Fn(&Point) -> f64, is_most: bool| {
        let order = |one: &usize, other: &usize| value(&points[*one]).total_cmp(&value(&points[*other]));
        let range = 0..points.len();
        if is_most { range.max_by(order) } else { range.min_by(order) }.expect("there are points")
    };
    let name = |at: usize| match thresholds[at] > LARGEST_BYTES {
        true => "above all requests".to_owned(),
        false => format::bytes(thresholds[at]),
    };
    let wasteless = points.last().expect("there are points");
    let least = best(&Point::disk_bytes, false);
    let claims = vec![
        Claim::new(
            "Still wasteful! large writes → disk traffic duplication",
            Unit::Times,
            Comparison::AtLeast(1.2),
            Kind::Predicted,
            wasteless.disk_bytes() / points[least].disk_bytes(),
        )
        .note(format!(
            "Bytes written to the disk for each byte written, wasteless over the threshold that writes least: {}.",
            name(least)
        )),
    ];
    let chart = |title: &str, meaning: &str, y_name: &str, y_unit: Unit, value: &dyn Fn(&Point) -> f64| {
        let points = thresholds.iter().zip(&points).map(|(&at, point)| (at as f64, value(point))).collect();
        Chart {
            title: title.to_owned(),
            meaning: meaning.to_owned(),
            x_name: "threshold".to_owned(),
            x_unit: Unit::Bytes,
            x_scale: Scale::Log,
            y_name: y_name.to_owned(),
            y_unit,
            y_scale: Scale::Linear,
            series: vec![Series { name: "selective".to_owned(), points }],
        }
    };
    let charts = vec![
        chart("Throughput", "bytes made durable a second", "throughput", Unit::BytesPerS, &Point::throughput),
        chart("Write latency", "mean time until a write is durable", "latency", Unit::S, &Point::mean_s),
        chart(
            "Disk traffic",
            "bytes written to the disk for each byte written",
            "disk over data",
            Unit::Times,
            &Point::disk_bytes,
        ),
    ];
    let row = |at: usize| {
        let point = &points[at];
        vec![
            name(at),
            format::rate(point.throughput()),
            format::seconds(point.mean_s()),
            format::number_short(point.disk_bytes()),
        ]
    };
    let header = ["threshold", "throughput", "mean latency", "disk bytes a byte"];
    let table = Table {
        title: "By threshold".to_owned(),
        header: header.map(str::to_owned).to_vec(),
        rows: (0..points.len()).map(row).collect(),
    };
    let best_of = format!(
        "Best threshold: {} for throughput, {} for latency, {} for disk traffic.",
        name(best(&Point::throughput, true)),
        name(best(&Point::mean_s, false)),
        name(least)
    );
    let notes = vec![
        best_of,
        "A request that goes straight home costs the arm a way of its own, about 4 ms here; one that goes through the journal \
         costs the time to write it once more, and goes home later together with its neighbours. On this disk, where streams \
         append, the two are even at about 512 KB. Requests at random places have no neighbours, and flash has no arm: there \
         it is far less."
            .to_owned(),
    ];
    Ok(Figure { charts, tables: vec![table], claims, notes, ..Figure::default() })
}

pub(super) fn point(
    settings: &Settings,
    work: &Work<'_>,
    threshold: u64,
    seconds: u64,
) -> Result<Point, Halted> {
    Bed::new(work, settings.seed)?
        .live(work, Mode::Selective(threshold), async |site| mixed(&site, seconds * SECOND_NS).await)
}

async fn mixed(site: &Site, until_ns: u64) -> Point {
    let (began_ns, before) = (site.env().now_ns(), site.traffic());
    let latencies_ns = Rc::new(RefCell::new(Vec::new()));
    for stream in 0..STREAMS {
        let (site, latencies_ns) = (site.clone(), Rc::clone(&latencies_ns));
        site.clone().spawn(async move {
            let mut random = site.random();
            let mut at = 0;
            loop {
                let kib = (LARGEST_BYTES >> 10) as f64;
                let share = random.below(1 << 32) as f64 / (1u64 << 32) as f64;
                let len = (kib.powf(share) * 1024.0) as u64;
                if at + len > file_bytes(STREAMS) {
                    return;
                }
                let took_ns = site.write(&mut random, file_offset(stream, STREAMS) + at, len).await;
                at += len;
                if site.env().now_ns() > began_ns + until_ns {
                    return;
                }
                latencies_ns.borrow_mut().push(took_ns);
            }
        });
    }
    site.env().sleep(until_ns).await;
    // What is dirty goes home too.
    let mut traffic = site.traffic() - before;
    let written = site.traffic();
    site.settle().await;
    let late = site.traffic() - written;
    traffic.home_bytes += late.home_bytes;
    traffic.journal_bytes += late.journal_bytes;
    Point { traffic, latencies_ns: latencies_ns.take(), took_ns: until_ns }
}
