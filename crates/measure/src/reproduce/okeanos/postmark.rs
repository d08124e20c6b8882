//! Small files created, appended to, read and deleted: transactions a second against the size of a request.

use evenkeel_engine::env::Env;

use super::bed::{Bed, SETUP, Site};
use super::streams::file_offset;
use super::{Mode, PAPER, Sweep};
use crate::reproduce::{
    Chart, Claim, Comparison, Figure, FigureModule, Halted, Kind, Scale, Settings, Unit, Work,
};

pub(super) const MODULE: FigureModule = FigureModule {
    name: "okeanos-postmark",
    paper: PAPER,
    place: "slide 12, left",
    title: "Postmark: transactions a second against request size",
    setup: &[
        SETUP[0],
        SETUP[1],
        SETUP[2],
        SETUP[3],
        SETUP[4],
        "Postmark's own defaults, one thread: 500 files, then 500 transactions, each a creation or a deletion, then a read \
         or an append; creations and appends write one request, durably. Files begin with one request. The slide names \
         none of this but the request size.",
        "A deletion changes only metadata and takes no time here; reads find the file in memory.",
    ],
    run,
};

/// Places for files; more than ever exist at once.
const SLOTS: u64 = 2000;
pub(super) const FILES: usize = 500;

/// What one point measures.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub(super) transactions: u64,
    pub(super) took_ns: u64,
}

impl Point {
    fn per_s(&self) -> f64 {
        self.transactions as f64 * 1e9 / self.took_ns as f64
    }
}

/// Sizes of a request, and how many transactions are counted.
pub(super) fn extent(settings: &Settings) -> (Vec<u64>, u64) {
    let sizes_kib = settings.pick(vec![1, 2, 4, 8, 16, 32, 64, 100], vec![1, 16]);
    (sizes_kib.into_iter().map(|kib| kib << 10).collect(), settings.pick(500, 50))
}

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let (sizes, transactions) = extent(settings);
    let sweep = Sweep::run(work, &Mode::ALL, &sizes, |mode, request_bytes| {
        Bed::new(work, settings.seed)?
            .live(work, mode, async |site| postmark(&site, request_bytes, transactions).await)
    })?;
    Ok(figure(&sweep))
}

/// Chart and claims, against the size of a request.
pub(super) fn figure(sweep: &Sweep<u64, Point>) -> Figure {
    let rate = |mode| sweep.at(mode, sweep.places[0]).per_s();
    let engine = match sweep.modes.contains(&Mode::Ordered) {
        true => format!(
            "; over the engine's ordered mode {}",
            Unit::Times.show(rate(Mode::Wasteless) / rate(Mode::Ordered))
        ),
        false => String::new(),
    };
    let claims = vec![
        Claim::new(
            "Small files workload: wasteless increases transaction throughput (over ordered, ext3's default)",
            Unit::Times,
            Comparison::more(1.05),
            Kind::Predicted,
            rate(Mode::Wasteless) / rate(Mode::Ext3),
        )
        .note(format!(
            "Transactions a second, wasteless over ordered as ext3 does it, requests of 1 KB{engine}."
        )),
        Claim::new(
            "Small files workload: wasteless increases transaction throughput (over data)",
            Unit::Times,
            Comparison::more(1.05),
            Kind::Predicted,
            rate(Mode::Wasteless) / rate(Mode::Data),
        )
        .note("Transactions a second, wasteless over data, requests of 1 KB."),
    ];
    let chart = Chart {
        title: "Postmark".to_owned(),
        meaning: "transactions a second, one thread".to_owned(),
        x_name: "request size".to_owned(),
        x_unit: Unit::Bytes,
        x_scale: Scale::Log,
        y_name: "transactions/s".to_owned(),
        y_unit: Unit::PerS,
        y_scale: Scale::Linear,
        series: sweep.series(|size| size as f64, Point::per_s),
    };
    let notes = vec![
        "One thread waits for each write, so that no two are committed together: with the write cache off each takes about \
         a turn of the disk, whatever its size, until it is large. The slide's scale, up to 800 a second, is beyond what \
         such a disk can make durable one by one: its cache was on, or its threads several."
            .to_owned(),
    ];
    Figure { charts: vec![chart], claims, notes, ..Figure::default() }
}

async fn postmark(site: &Site, request_bytes: u64, transactions: u64) -> Point {
    let mut random = site.random();
    let mut free: Vec<u64> = (0..SLOTS).rev().collect();
    let mut files: Vec<(u64, u64)> = Vec::new();
    // The pool of files is there before the clock runs.
    for _ in 0..FILES {
        let slot = free.pop().expect("there are more places than files");
        site.write(&mut random, file_offset(slot, SLOTS), request_bytes).await;
        files.push((slot, 1));
    }
    site.settle().await;
    let began_ns = site.env().now_ns();
    for _ in 0..transactions {
        if random.coin() && !free.is_empty() {
            let slot = free.remove(random.index(free.len()));
            site.write(&mut random, file_offset(slot, SLOTS), request_bytes).await;
            files.push((slot, 1));
        } else if files.len() > 1 {
            let (slot, _) = files.swap_remove(random.index(files.len()));
            free.push(slot);
        }
        let chosen = random.index(files.len());
        let (slot, requests) = files[chosen];
        if random.coin() {
            site.read(file_offset(slot, SLOTS), requests * request_bytes).await;
        } else {
            let offset = file_offset(slot, SLOTS) + requests * request_bytes;
            site.write(&mut random, offset, request_bytes).await;
            files[chosen].1 += 1;
        }
    }
    Point { transactions, took_ns: site.env().now_ns() - began_ns }
}
