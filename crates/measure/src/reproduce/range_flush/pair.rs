//! Figure 2: a fileserver and TPC-C at once.

use std::cell::Cell;
use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_sim::file_system::{Barrier, File, FileSystem};
use evenkeel_sim::random::Random;

use super::super::{Claim, Comparison, Figure, FigureModule, Halted, Kind, Settings, Table, Unit, Work};
use super::host::{BARRIERS, Host, MIB, board, setup};

/// Figure 2.
pub(super) const MODULE: FigureModule = FigureModule {
    name: "range-flush-pair",
    paper: 4,
    place: "figure 2",
    title: "A fileserver (large asynchronous writes) and TPC-C (small synchronous writes) at once",
    setup: &[
        "The paper's board by model with a buffer of 512 MB, never written; the buffer is full when figures are taken.",
        "Assumed: filebench's fileserver: 50 threads over 10,000 files of 128 KB; each turn one is written anew, 16 KB are \
         added to one, one is read and one deleted. Reads are served from memory, processors are never short.",
        "Assumed: TPC-C's 10 terminals of a warehouse; a transaction computes for 1 ms, adds 4 KB to the database's log, \
         which is of fixed size, and waits for an fsync that transactions waiting together share. The database itself \
         is in memory.",
        "Assumed: a page cache of 256 MB of dirty pages, written out by 32 requests of 128 KB at a time; discards come \
         with a checkpoint, once a minute, and so not at all.",
        "FLUSH goes beside other requests, as over NVMe; a variant holds them back, as over SATA. The paper does not \
         say what its board does.",
    ],
    run,
};

const FILES: u32 = 10_000;
const FILE_PAGES: u32 = 32;
const APPEND_PAGES: u32 = 4;
const SERVER_THREADS: usize = 50;
const TERMINALS: usize = 10;
const TRANSACTION_NS: u64 = 1_000_000;
const LOG_PAGES: u32 = 256;
/// A file grows no longer than that, as its node has room for no more.
const GROWN_PAGES_MAX: u32 = 256;

/// What both did in a second, and what a transaction took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) server_turns_per_s: f64,
    pub(super) transactions_per_s: f64,
    pub(super) flushes_per_s: f64,
    pub(super) written_bytes_per_s: f64,
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

pub(super) fn point(buffer_bytes: u64, barrier: Barrier, measured_ns: u64, seed: u64) -> Point {
    let mut host = Host::new(board(buffer_bytes), setup(barrier, FILES + 1), seed);
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
    // What both need to find into each other's step.
    host.run_for(measured_ns / 4);
    let state = |host: &Host| {
        let counters = host.file_system.counters();
        [turns.get(), transactions.get(), counters.flushes, host.file_system.written_bytes()]
    };
    let before = state(&host);
    host.run_for(measured_ns);
    let after = state(&host);
    let [server_turns_per_s, transactions_per_s, flushes_per_s, written_bytes_per_s] =
        std::array::from_fn(|at| (after[at] - before[at]) as f64 * 1e9 / measured_ns as f64);
    Point { server_turns_per_s, transactions_per_s, flushes_per_s, written_bytes_per_s }
}

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let buffer_bytes = settings.pick(512 * MIB, 64 * MIB);
    let measured_ns = settings.pick(6_000_000_000, 200_000_000);
    let points =
        work.each(&BARRIERS, |&(barrier, _)| Ok(point(buffer_bytes, barrier, measured_ns, settings.seed)))?;
    Ok(figure(&points))
}

fn figure(points: &[Point]) -> Figure {
    let row = |((_, name), point): (&(Barrier, &str), &Point)| {
        vec![
            (*name).to_owned(),
            Unit::PerS.show(point.server_turns_per_s),
            Unit::PerS.show(point.transactions_per_s),
            Unit::PerS.show(point.flushes_per_s),
            Unit::BytesPerS.show(point.written_bytes_per_s),
        ]
    };
    let table = Table {
        title: "Both at once".to_owned(),
        header: ["fsync by", "fileserver, turns", "TPC-C, transactions", "flushes", "written to the drive"]
            .map(str::to_owned)
            .to_vec(),
        rows: BARRIERS.iter().zip(points).map(row).collect(),
    };
    Figure { tables: vec![table], claims: claims(points), ..Figure::default() }
}

fn claims(points: &[Point]) -> Vec<Claim> {
    let [flush, holding, range] = points else { return Vec::new() };
    let words = "RFLUSH achieves 1.23x and 1.22x better performances than FLUSH the two workloads";
    let claim = |paper, value, note: &str| {
        Claim::new(words, Unit::Times, Comparison::AtLeast(paper), Kind::Predicted, value)
            .paper_value(paper)
            .note(note)
    };
    vec![
        claim(
            1.23,
            range.server_turns_per_s / flush.server_turns_per_s,
            "fileserver, FLUSH beside other requests: it has few fsyncs of its own, and a FLUSH of the other's costs it nothing \
             where it need not wait for it",
        ),
        claim(
            1.22,
            range.transactions_per_s / flush.transactions_per_s,
            "TPC-C, FLUSH beside other requests",
        ),
        claim(
            1.23,
            range.server_turns_per_s / holding.server_turns_per_s,
            "fileserver, FLUSH that holds other requests back",
        ),
        claim(
            1.22,
            range.transactions_per_s / holding.transactions_per_s,
            "TPC-C, FLUSH that holds other requests back",
        ),
    ]
}
