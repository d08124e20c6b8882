//! Figure 2: a fileserver and TPC-C at once.

use std::cell::Cell;
use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_sim::file_system::{File, FileSystem};
use evenkeel_sim::random::Random;

use super::super::{
    Chart, Claim, Comparison, Figure, FigureModule, Halted, Kind, Scale, Series, Settings, Table, Unit, Work,
};
use super::Lines;
use super::host::{BOARD, Host, LINES, MIB, Way, board, setup};

/// Figure 2.
pub(super) const MODULE: FigureModule = FigureModule {
    name: "range-flush-pair",
    paper: 4,
    place: "figure 2",
    title: "A fileserver (large asynchronous writes) and TPC-C (small synchronous writes) at once",
    setup: &[
        "The paper's board by model, never written, with buffers of 64 to 512 MB; claims are of 512 MB, as the paper's. The \
         buffer is full when the load begins, and figures are taken for 6 s once as much again was written.",
        BOARD,
        "Assumed: filebench's fileserver: 50 threads over 10,000 files of 128 KB; each turn one is written anew, 16 KB are \
         added to one, one is read and one deleted. Reads are served from memory, processors are never short.",
        "Assumed: TPC-C's 10 terminals of a warehouse; a transaction computes for 1 ms, adds 4 KB to the database's log, \
         which is of fixed size, and waits for an fsync that transactions waiting together share. The database itself \
         is in memory.",
        "Assumed: a page cache of 256 MB of dirty pages, written out by 32 requests of 128 KB at a time; discards come \
         with a checkpoint, once a minute, and so not at all.",
    ],
    run,
};

/// Sizes of the buffer; claims are of the last.
pub(super) const BUFFERS_MIB: [u64; 4] = [64, 128, 256, 512];
/// For how long figures are taken.
pub(super) const MEASURED_NS: u64 = 6_000_000_000;
pub(super) const FILES: u32 = 10_000;
pub(super) const FILE_PAGES: u32 = 32;
pub(super) const APPEND_PAGES: u32 = 4;
pub(super) const SERVER_THREADS: usize = 50;
pub(super) const TERMINALS: usize = 10;
pub(super) const TRANSACTION_NS: u64 = 1_000_000;
pub(super) const LOG_PAGES: u32 = 256;
/// A file grows no longer than that, as its node has room for no more.
pub(super) const GROWN_PAGES_MAX: u32 = 256;

/// What both did in a second, and what a transaction took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) server_turns_per_s: f64,
    pub(super) transactions_per_s: f64,
    pub(super) flushes_per_s: f64,
    pub(super) written_bytes_per_s: f64,
}

impl Point {
    /// From turns, transactions, flushes and bytes written, before and after.
    pub(super) fn between(before: [u64; 4], after: [u64; 4], measured_ns: u64) -> Self {
        let [server_turns_per_s, transactions_per_s, flushes_per_s, written_bytes_per_s] =
            std::array::from_fn(|at| (after[at] - before[at]) as f64 * 1e9 / measured_ns as f64);
        Self { server_turns_per_s, transactions_per_s, flushes_per_s, written_bytes_per_s }
    }
}

type Count = Rc<Cell<u64>>;

async fn serve(file_system: FileSystem, files: Rc<Vec<(File, Cell<u32>)>>, mut random: Random, turns: Count) {
    loop {
        let (file, pages) = random.pick(&files);
        file_system.replace(*file);
        pages.set(FILE_PAGES);
        file_system.write(*file, 0, FILE_PAGES).await;
        let (file, pages) = random.pick(&files);
        let end = pages.get();
        if end + APPEND_PAGES <= GROWN_PAGES_MAX {
            pages.set(end + APPEND_PAGES);
            file_system.write(*file, end, APPEND_PAGES).await;
        }
        turns.set(turns.get() + 1);
    }
}

async fn transact(file_system: FileSystem, env: impl Env, log: File, next: Count, transactions: Count) {
    loop {
        env.sleep(TRANSACTION_NS).await;
        let page = next.replace(next.get() + 1) % u64::from(LOG_PAGES);
        file_system.write_at_once(log, page as u32, 1).await;
        file_system.fsync_together(log).await;
        transactions.set(transactions.get() + 1);
    }
}

pub(super) fn point(buffer_bytes: u64, way: Way, measured_ns: u64, seed: u64) -> Point {
    let mut host = Host::new(board(buffer_bytes), setup(way, FILES + 1), seed);
    let (turns, next, transactions) = (Count::default(), Count::default(), Count::default());
    let files: Rc<Vec<_>> =
        Rc::new((0..FILES).map(|_| (host.file_system.create(), Cell::new(FILE_PAGES))).collect());
    let mut random = Random::new(seed);
    for _ in 0..SERVER_THREADS {
        let thread = serve(host.file_system.clone(), Rc::clone(&files), random.fork(), Rc::clone(&turns));
        host.env.spawn(thread);
    }
    host.fill_buffer();
    let log = host.file_system.create();
    for _ in 0..TERMINALS {
        let (next, transactions) = (Rc::clone(&next), Rc::clone(&transactions));
        host.env.spawn(transact(host.file_system.clone(), host.env.clone(), log, next, transactions));
    }
    // Both find into each other's step, and all that the buffer held is written anew.
    let filled = host.file_system.written_bytes();
    while host.file_system.written_bytes() < filled + buffer_bytes {
        host.run_for(measured_ns / 4);
    }
    let state = |host: &Host| {
        let counters = host.file_system.counters();
        [turns.get(), transactions.get(), counters.flushes, host.file_system.written_bytes()]
    };
    let before = state(&host);
    host.run_for(measured_ns);
    let after = state(&host);
    Point::between(before, after, measured_ns)
}

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let mib = settings.pick(&BUFFERS_MIB[..], &BUFFERS_MIB[..1]);
    let buffers: Vec<u64> = mib.iter().map(|mib| mib * MIB).collect();
    let by_way = sweep(settings, work, &LINES, &buffers, point)?;
    Ok(Figure { notes: variant(&by_way).into_iter().collect(), ..figure(&LINES, &buffers, &by_way) })
}

/// Points for each way, of each buffer: from its bytes, the way, the time that is measured, and the seed.
pub(super) fn sweep<W: Copy + Sync>(
    settings: &Settings,
    work: &Work<'_>,
    lines: &Lines<'_, W>,
    buffers: &[u64],
    point: impl Fn(u64, W, u64, u64) -> Point + Sync,
) -> Result<Vec<Vec<Point>>, Halted> {
    let measured_ns = settings.pick(MEASURED_NS, 200_000_000);
    let points: Vec<(u64, W)> =
        lines.ways.iter().flat_map(|&(way, _)| buffers.iter().map(move |&bytes| (bytes, way))).collect();
    let results = work.each(&points, |&(bytes, way)| Ok(point(bytes, way, measured_ns, settings.seed)))?;
    Ok(results.chunks(buffers.len()).map(<[Point]>::to_vec).collect())
}

/// Charts, table and claims of these points.
pub(super) fn figure<W>(lines: &Lines<'_, W>, buffers: &[u64], by_way: &[Vec<Point>]) -> Figure {
    let chart = |title: &str, y_name: &str, value: fn(&Point) -> f64| Chart {
        title: title.to_owned(),
        meaning: "beside the other load, against the size of the buffer".to_owned(),
        x_name: lines.buffer_name.to_owned(),
        x_unit: Unit::Bytes,
        x_scale: Scale::Log,
        y_name: y_name.to_owned(),
        y_unit: Unit::PerS,
        y_scale: Scale::Log,
        series: lines
            .ways
            .iter()
            .zip(by_way)
            .map(|((_, name), points)| Series {
                name: (*name).to_owned(),
                points: buffers.iter().zip(points).map(|(&at, point)| (at as f64, value(point))).collect(),
            })
            .collect(),
    };
    let charts = vec![
        chart("Fileserver", "turns", |point| point.server_turns_per_s),
        chart("TPC-C", "transactions", |point| point.transactions_per_s),
    ];
    let row = |((_, name), points): (&(W, &str), &Vec<Point>)| {
        let point = &points[points.len() - 1];
        vec![
            (*name).to_owned(),
            Unit::PerS.show(point.server_turns_per_s),
            Unit::PerS.show(point.transactions_per_s),
            Unit::PerS.show(point.flushes_per_s),
            Unit::BytesPerS.show(point.written_bytes_per_s),
        ]
    };
    let largest = Unit::Bytes.show(buffers[buffers.len() - 1] as f64);
    let table = Table {
        title: format!("Both at once, {largest} of buffer"),
        header: ["fsync by", "fileserver, turns", "TPC-C, transactions", "flushes", "written to the drive"]
            .map(str::to_owned)
            .to_vec(),
        rows: lines.ways.iter().zip(by_way).map(row).collect(),
    };
    let mut figure = Figure { charts, tables: vec![table], claims: claims(by_way), ..Figure::default() };
    // The paper names what RFLUSH gains, and not from what.
    if let (Some(&at), Some(flush)) = (buffers.last(), by_way.first().and_then(|points| points.last())) {
        let at = at as f64;
        figure.draw_paper("Fileserver", "RFLUSH, 1.23x FLUSH", &[(at, 1.23 * flush.server_turns_per_s)]);
        figure.draw_paper("TPC-C", "RFLUSH, 1.22x FLUSH", &[(at, 1.22 * flush.transactions_per_s)]);
    }
    figure
}

/// By how much RFLUSH is ahead with the largest buffer: for the fileserver, and for TPC-C.
fn gains(flush: &[Point], range: &[Point]) -> Option<[f64; 2]> {
    let (flush, range) = (flush.last()?, range.last()?);
    Some([
        range.server_turns_per_s / flush.server_turns_per_s,
        range.transactions_per_s / flush.transactions_per_s,
    ])
}

fn variant(by_way: &[Vec<Point>]) -> Option<String> {
    let [_, _, flush, range] = by_way else { return None };
    let [server, transactions] = gains(flush, range)?;
    Some(format!(
        "The variant, in which other requests go beside a flush: {} for the fileserver, which then need not wait for the \
         other's flushes, and {} for TPC-C.",
        Unit::Times.show(server),
        Unit::Times.show(transactions)
    ))
}

fn claims(by_way: &[Vec<Point>]) -> Vec<Claim> {
    let [flush, range, ..] = by_way else { return Vec::new() };
    let Some([server, transactions]) = gains(flush, range) else { return Vec::new() };
    let words = "RFLUSH achieves 1.23x and 1.22x better performances than FLUSH the two workloads";
    let claim = |paper, value, note: &str| {
        Claim::new(words, Unit::Times, Comparison::gain(paper), Kind::Predicted, value)
            .paper_value(paper)
            .note(note)
    };
    vec![
        claim(1.23, server, "fileserver, turns a second, RFLUSH over FLUSH, 512 MB of buffer"),
        claim(1.22, transactions, "TPC-C, transactions a second, RFLUSH over FLUSH, 512 MB of buffer"),
    ]
}
