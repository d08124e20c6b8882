//! Figure 2, mounted: a fileserver and TPC-C at once.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_sim::executor::SimEnv;
use evenkeel_sim::random::Random;

use super::super::super::{Figure, FigureModule, Halted, Settings, Work};
use super::super::host::{MIB, board};
use super::super::pair::{
    APPEND_PAGES, BUFFERS_MIB, FILE_PAGES, FILES, GROWN_PAGES_MAX, LOG_PAGES, Point, SERVER_THREADS,
    TERMINALS, TRANSACTION_NS, figure, sweep,
};
use super::buffer::DRIVE_BUFFER_BYTES;
use super::site::{File, Files, Site};
use super::{LINES, SETUP, Way};

/// Figure 2.
pub(super) const MODULE: FigureModule = FigureModule {
    name: "range-flush-mounted-pair",
    paper: 4,
    place: "figure 2, mounted",
    title: "evenkeel mount: a fileserver (large asynchronous writes) and TPC-C (small synchronous writes) at once",
    setup: &[
        SETUP[0],
        SETUP[1],
        SETUP[2],
        SETUP[3],
        "Buffers of 64 to 512 MB; claims are of 512 MB, as the paper's. Figures are taken for 6 s once twice as much was written.",
        "Assumed: filebench's fileserver: 50 threads over 10,000 files of 128 KB in one folder; each turn one is made, 16 KB are \
         added to one, one is read and one deleted. Reads are served from memory.",
        "Assumed: TPC-C's 10 terminals of a warehouse; a transaction computes for 1 ms, writes 4 KB to the database's log, \
         which is of fixed size, and waits for an fsync that transactions waiting together share. The database itself is in \
         memory.",
    ],
    run,
};

/// Names of the database's log, and of the first file that the server makes.
const LOG_NAME: u64 = 0;
const FIRST_NAME: u64 = 1;

type Count = Rc<Cell<u64>>;

/// A file of the server: its name, and how many pages it has.
struct Served {
    name: u64,
    file: File,
    pages: u64,
}

struct Server {
    served: RefCell<Vec<Served>>,
    next_name: Cell<u64>,
    turns: Count,
}

impl Server {
    fn new(turns: Count) -> Self {
        Self { served: RefCell::default(), next_name: Cell::new(FIRST_NAME), turns }
    }

    async fn make(&self, files: &Files) {
        let name = self.next_name.replace(self.next_name.get() + 1);
        let file = files.create(name).await;
        files.write(file, 0, FILE_PAGES.into()).await;
        self.served.borrow_mut().push(Served { name, file, pages: FILE_PAGES.into() });
    }

    /// Takes one out: nobody else appends to it meanwhile, or deletes it.
    fn take(&self, random: &mut Random) -> Served {
        let mut served = self.served.borrow_mut();
        let at = random.index(served.len());
        served.swap_remove(at)
    }

    async fn turn(&self, files: &Files, random: &mut Random) {
        self.make(files).await;
        let mut grown = self.take(random);
        if grown.pages + u64::from(APPEND_PAGES) <= GROWN_PAGES_MAX.into() {
            files.write(grown.file, grown.pages, APPEND_PAGES.into()).await;
            grown.pages += u64::from(APPEND_PAGES);
        }
        self.served.borrow_mut().push(grown);
        let deleted = self.take(random);
        files.delete(deleted.name, deleted.file).await;
        self.turns.set(self.turns.get() + 1);
    }
}

async fn transact(files: Files, env: SimEnv, log: File, next: Count, transactions: Count) {
    loop {
        env.sleep(TRANSACTION_NS).await;
        let page = next.replace(next.get() + 1) % u64::from(LOG_PAGES);
        files.write(log, page, 1).await;
        files.sync_together(log).await;
        transactions.set(transactions.get() + 1);
    }
}

pub(super) fn point(buffer_bytes: u64, way: Way, measured_ns: u64, seed: u64) -> Point {
    let mut site = Site::new(board(DRIVE_BUFFER_BYTES), buffer_bytes, way, seed);
    let (turns, next, transactions) = (Count::default(), Count::default(), Count::default());
    let server = Rc::new(Server::new(Rc::clone(&turns)));
    let mut random = Random::new(seed);
    let files = site.files.clone();
    let begun = async {
        let log = files.create(LOG_NAME).await;
        files.write(log, 0, LOG_PAGES.into()).await;
        for _ in 0..FILES {
            server.make(&files).await;
        }
        files.sync_all().await;
        log
    };
    let log = site.executor.block_on(begun).expect("files are made");
    for _ in 0..SERVER_THREADS {
        let (files, server, mut random) = (site.files.clone(), Rc::clone(&server), random.fork());
        site.env.spawn(async move {
            loop {
                server.turn(&files, &mut random).await;
            }
        });
    }
    for _ in 0..TERMINALS {
        let (next, transactions) = (Rc::clone(&next), Rc::clone(&transactions));
        site.env.spawn(transact(site.files.clone(), site.env.clone(), log, next, transactions));
    }
    // Both find into each other's step, and the buffer is full.
    let (_, begun) = site.board.done();
    while site.board.done().1 < begun + 2 * buffer_bytes {
        site.run_for(measured_ns / 4);
    }
    let state = |site: &Site| {
        let (flushes, written_bytes) = site.board.done();
        [turns.get(), transactions.get(), flushes, written_bytes]
    };
    let before = state(&site);
    site.run_for(measured_ns);
    Point::between(before, state(&site), measured_ns)
}

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let mib = settings.pick(&BUFFERS_MIB[..], &BUFFERS_MIB[..1]);
    let buffers: Vec<u64> = mib.iter().map(|mib| mib * MIB).collect();
    let by_way = sweep(settings, work, &LINES, &buffers, point)?;
    let notes = vec![
        "By FLUSH each transaction waits until hundreds of megabytes of the fileserver's are written and mapped, which takes \
         seconds; the paper's drive drains its buffer in a fraction of one. So TPC-C gains far more here than the paper's."
            .to_owned(),
        "By RFLUSH the fileserver's files stay in memory longer, and more of them are deleted before they are written: it \
         does more turns and writes less. Where other requests go beside a flush (queued), it pays for the transactions \
         that there are by RFLUSH and hardly are by FLUSH."
            .to_owned(),
    ];
    Ok(Figure { notes, ..figure(&LINES, &buffers, &by_way) })
}
