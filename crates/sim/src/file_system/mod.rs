//! A file system over a drive's model, as much of one as a flush is about: a page cache, a log of data pages, a
//! node for each file, and an fsync that makes both durable.
//!
//! Structured as a log, after F2FS: a page that is written goes to a new place, whatever it replaces.
//!
//! 1. Writes are done when they are in the page cache. Flushers write it out in the order in which files became
//!    dirty, so many requests at a time; who dirties too much waits for them.
//! 2. An fsync writes the dirty pages of its file, waits for those under way, makes them durable with a flush, of
//!    everything or of the file's stream alone ([`Barrier`]), and then writes the file's node durably.
//! 3. A node names only pages that were durable before it was written, and has two places in turn, so that the last
//!    one stays until the next one is there. What was never synced has no node.
//! 4. No place is written twice: what is deleted or replaced is given up at a checkpoint, which comes once a minute;
//!    a run here is shorter than that.
//!
//! [`nodes`] has the layout, and judges what a power cut has left.

mod cache;
pub mod nodes;
mod requests;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use evenkeel_engine::env::Env;

use crate::executor::SimEnv;
use crate::model::Operation;
use crate::model::pump::{Pump, SharedStorage};
use cache::Inode;

/// Bytes of a page of the cache, of a file and of a node.
pub const PAGE_BYTES: u64 = 4096;
/// Pages of the largest request: 128 KiB, as much as common drives take at once.
pub const REQUEST_PAGES: usize = 32;

/// What an fsync asks of the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Barrier {
    /// A flush of everything.
    Flush,
    /// A flush of what was written for the file.
    RangeFlush,
}

/// What becomes of other requests while a flush, of either kind, is carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushQueueing {
    /// They go beside it, as over NVMe.
    Queued,
    /// None does: the host waits for what is under way, flushes, and holds back what comes meanwhile, as a drive needs
    /// that cannot queue a flush (SATA), or a driver that takes up one request at a time.
    Alone,
}

/// What an fsync does with the file's node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metadata {
    /// Made durable with the data, after it.
    InTandem,
    /// Written and left to the drive's buffer: a mistake to be seen.
    LeftBehind,
    /// Made durable, and the data left to the drive's buffer: a mistake to be seen.
    Ahead,
}

/// What a file system is told when it is mounted.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// What an fsync asks for.
    pub barrier: Barrier,
    /// What becomes of other requests meanwhile.
    pub queueing: FlushQueueing,
    /// What becomes of nodes.
    pub metadata: Metadata,
    /// Files that there can be: each has two places for its node at the beginning of the drive.
    pub inodes_max: u32,
    /// Dirty pages above which flushers are at work.
    pub background_pages: u64,
    /// Dirty pages above which [`FileSystem::write`] waits.
    pub dirty_pages_max: u64,
    /// What it takes to copy a page into the cache.
    pub copy_page_ns: u64,
    /// Requests that flushers have under way.
    pub flushers: u32,
    /// Whether the drive keeps what is written.
    pub keeps_contents: bool,
}

/// What a file system did since it was mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Fsyncs that are done.
    pub fsyncs: u64,
    /// Flushes asked for.
    pub flushes: u64,
    /// Pages of data written out.
    pub pages_written: u64,
    /// Nodes written.
    pub nodes_written: u64,
}

/// A file; its number counts from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct File(pub u32);

struct State {
    setup: Setup,
    env: SimEnv,
    pump: Pump<SimEnv>,
    inodes: RefCell<Vec<Inode>>,
    /// Files that became dirty, in order; a file may have been synced or deleted since.
    dirty_files: RefCell<std::collections::VecDeque<(File, u32)>>,
    dirty_pages: Cell<u64>,
    /// The page of the drive that is written next.
    log_end: Cell<u64>,
    counters: Cell<Counters>,
    /// Requests under way, and whether a flush holds others back.
    under_way: Cell<u64>,
    holds_back: Cell<bool>,
    is_dirty: Notify,
    has_room: Notify,
    is_settled: Notify,
    is_free: Notify,
}

/// A mounted file system. A clone is another handle to the same.
#[derive(Clone)]
pub struct FileSystem(Rc<State>);

impl fmt::Debug for FileSystem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("FileSystem").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

impl FileSystem {
    /// A new file system on a drive that is given up to it; its flushers begin.
    pub fn mount(drive: SharedStorage, env: &SimEnv, setup: Setup) -> Self {
        let stop = env.stop();
        let pump = Pump::new(drive, env.clone(), 0, move || stop.is_raised());
        let file_system = Self(Rc::new(State {
            setup,
            env: env.clone(),
            pump,
            inodes: RefCell::default(),
            dirty_files: RefCell::default(),
            dirty_pages: Cell::new(0),
            log_end: Cell::new(nodes::log_start(setup.inodes_max)),
            counters: Cell::default(),
            under_way: Cell::new(0),
            holds_back: Cell::new(false),
            is_dirty: Notify::default(),
            has_room: Notify::default(),
            is_settled: Notify::default(),
            is_free: Notify::default(),
        }));
        for _ in 0..setup.flushers {
            let flusher = file_system.clone();
            env.spawn(async move { flusher.keep_clean().await });
        }
        file_system
    }

    /// What it did so far.
    pub fn counters(&self) -> Counters {
        self.0.counters.get()
    }

    fn count(&self, count: impl FnOnce(&mut Counters)) {
        let mut counters = self.0.counters.get();
        count(&mut counters);
        self.0.counters.set(counters);
    }

    /// Makes what was written to `file` durable, and says so with the node's number, which grows by 1 each time.
    pub async fn fsync(&self, file: File) -> u32 {
        let state = &*self.0;
        let begin = || self.with(file, Inode::begin_sync);
        let written = state.is_settled.until(begin).await;
        while let Some(chunk) = self.take_dirty(file) {
            self.write_out(file, chunk).await;
        }
        state.is_settled.until(|| self.with(file, |inode| (inode.under_way == 0).then_some(()))).await;
        let (version, pages) = self.with(file, |inode| {
            inode.version += 1;
            (inode.version, inode.pages.clone())
        });
        if state.setup.metadata != Metadata::Ahead {
            self.barrier(file).await;
        }
        let operation = match state.setup.metadata {
            Metadata::LeftBehind => Operation::Write,
            Metadata::InTandem | Metadata::Ahead => Operation::DurableWrite,
        };
        let node = state.setup.keeps_contents.then(|| nodes::encode(file, version, &pages));
        self.ask(file, operation, nodes::place(file, version), 1, node.as_deref()).await;
        self.count(|counters| {
            counters.nodes_written += 1;
            counters.fsyncs += 1;
        });
        self.with(file, |inode| inode.end_sync(written));
        state.is_settled.all();
        version
    }

    /// As [`Self::fsync`], but shared by those who write one file: who comes while one is under way waits for the
    /// next one, and so do others (a database's group commit).
    pub async fn fsync_together(&self, file: File) {
        let written = self.with(file, |inode| inode.written());
        loop {
            let may_begin =
                || self.with(file, |inode| (!inode.is_syncing()).then_some(inode.synced() >= written));
            if self.0.is_settled.until(may_begin).await {
                return;
            }
            self.fsync(file).await;
        }
    }
}

/// Wakes all who wait for a condition to be looked at again.
#[derive(Debug, Default)]
struct Notify(RefCell<Vec<Waker>>);

impl Notify {
    fn all(&self) {
        self.0.take().into_iter().for_each(Waker::wake);
    }

    /// Ends once `ready` answers; it is asked at once and after each [`Self::all`].
    async fn until<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        poll_fn(|context| match ready() {
            Some(answer) => Poll::Ready(answer),
            None => {
                self.0.borrow_mut().push(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}
