//! The paper's board and a file system on it, in virtual time.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_sim::executor::{Executor, SimEnv};
use evenkeel_sim::file_system::{Barrier, File, FileSystem, FlushQueueing, Metadata, PAGE_BYTES, Setup};
use evenkeel_sim::model::flash::Flash;
use evenkeel_sim::model::presets;

use super::Lines;

pub(super) const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// What the page cache holds of dirty pages at most; half of it before flushers begin.
pub(super) const CACHE_DIRTY_BYTES: u64 = 256 * MIB;

/// How a board takes up flushes, and which of them an fsync asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) barrier: Barrier,
    pub(super) queueing: FlushQueueing,
}

/// What the board carries out alone: the paper's board. A flush of either kind, as its driver takes up one request at a time.
pub(super) const FLUSH: Way = Way { barrier: Barrier::Flush, queueing: FlushQueueing::Alone };
/// As [`FLUSH`].
pub(super) const RANGE_FLUSH: Way = Way { barrier: Barrier::RangeFlush, queueing: FlushQueueing::Alone };

/// Of every chart and table, in this order: the paper's board, and a variant that takes other requests beside a flush.
pub(super) const WAYS: [(Way, &str); 4] = [
    (FLUSH, "FLUSH"),
    (RANGE_FLUSH, "RFLUSH"),
    (Way { queueing: FlushQueueing::Queued, ..FLUSH }, "variant: FLUSH, queued"),
    (Way { queueing: FlushQueueing::Queued, ..RANGE_FLUSH }, "variant: RFLUSH, queued"),
];

/// How the figures are drawn.
pub(super) const LINES: Lines<'_, Way> = Lines { ways: &WAYS, buffer_name: "buffer of the drive" };

/// Which board the paper had.
pub(super) const BOARD: &str = "The board carries out a flush alone, FLUSH and RFLUSH alike: the host waits for what is under way, flushes, and holds \
     back what comes meanwhile. The paper does not say so in so many words. But its fileserver, which has few fsyncs, \
     gains from RFLUSH, \"relaxing the constraints in I/O processing\"; where other requests go beside a FLUSH, it has \
     nothing to gain. And the driver published for the platform that the paper's footnote names takes up one request at a \
     time, under a lock. A variant takes other requests beside a flush, as NVMe does; no claim is judged by it.";

/// How long something may take in virtual time before it is taken for stuck.
const POLLS_MAX: u64 = 1 << 32;

/// A file system on a drive, and the executor in whose time both are.
pub(super) struct Host {
    pub(super) executor: Executor,
    pub(super) env: SimEnv,
    pub(super) drive: Rc<RefCell<Flash>>,
    pub(super) file_system: FileSystem,
}

/// How files are kept by figures that are about speed.
pub(super) fn setup(way: Way, inodes_max: u32) -> Setup {
    let dirty_pages_max = CACHE_DIRTY_BYTES / PAGE_BYTES;
    Setup {
        barrier: way.barrier,
        queueing: way.queueing,
        metadata: Metadata::InTandem,
        inodes_max,
        background_pages: dirty_pages_max / 2,
        dirty_pages_max,
        copy_page_ns: 1_000,
        flushers: 32,
        keeps_contents: false,
    }
}

/// The board as the paper has it, never written.
pub(super) fn board(buffer_bytes: u64) -> Flash {
    let preset = presets::find("open-channel").expect("a preset of that name");
    let mut shape = preset.shape(32 * GIB).expect("the board's own size");
    shape.buffer_bytes = buffer_bytes;
    Flash::new(shape)
}

impl Host {
    pub(super) fn new(drive: Flash, setup: Setup, seed: u64) -> Self {
        let mut executor = Executor::new(seed);
        executor.limit_polls(POLLS_MAX);
        let env = executor.env();
        let drive = Rc::new(RefCell::new(drive));
        let file_system = FileSystem::mount(Rc::clone(&drive) as _, &env, setup);
        Self { executor, env, drive, file_system }
    }

    /// Lets what was spawned run until it has filled the drive's buffer.
    pub(super) fn fill_buffer(&mut self) {
        const LOOK_NS: u64 = 1_000_000;
        let (env, drive) = (self.env.clone(), Rc::clone(&self.drive));
        let filled = async move {
            while !is_full(&drive.borrow()) {
                env.sleep(LOOK_NS).await;
            }
        };
        self.executor.block_on(filled).expect("writers fill the buffer");
    }

    /// Writes files in turn, without fsync, until the drive's buffer is full.
    pub(super) fn fill_buffer_with(&mut self, files: &[File], file_pages: u32) {
        let (file_system, drive) = (self.file_system.clone(), Rc::clone(&self.drive));
        let filled = async move {
            for &file in files.iter().cycle() {
                if is_full(&drive.borrow()) {
                    break;
                }
                file_system.replace(file);
                file_system.write(file, 0, file_pages).await;
            }
        };
        self.executor.block_on(filled).expect("the files are written");
    }

    /// Lets everything run for so long.
    pub(super) fn run_for(&mut self, ns: u64) {
        let sleep = self.env.sleep(ns);
        self.executor.block_on(sleep).expect("the host goes on");
    }
}

/// Whether the drive's buffer is as good as full of what is not in its cells.
pub(super) fn is_full(drive: &Flash) -> bool {
    drive.dirty_bytes() >= drive.shape().buffer_bytes * 98 / 100
}
