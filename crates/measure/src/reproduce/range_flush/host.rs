//! The paper's board and a file system on it, in virtual time.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_sim::executor::{Executor, SimEnv};
use evenkeel_sim::file_system::{Barrier, FileSystem, Metadata, PAGE_BYTES, Setup};
use evenkeel_sim::model::flash::Flash;
use evenkeel_sim::model::presets;

pub(super) const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// What the page cache holds of dirty pages at most; half of it before flushers begin.
pub(super) const CACHE_DIRTY_BYTES: u64 = 256 * MIB;
/// Of every chart and table, in this order.
pub(super) const BARRIERS: [(Barrier, &str); 3] = [
    (Barrier::Flush, "FLUSH"),
    (Barrier::HoldingFlush, "FLUSH, not queued"),
    (Barrier::RangeFlush, "RFLUSH"),
];

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
pub(super) fn setup(barrier: Barrier, inodes_max: u32) -> Setup {
    let dirty_pages_max = CACHE_DIRTY_BYTES / PAGE_BYTES;
    Setup {
        barrier,
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
        let full = drive.borrow().shape().buffer_bytes * 98 / 100;
        let filled = async move {
            while drive.borrow().dirty_bytes() < full {
                env.sleep(LOOK_NS).await;
            }
        };
        self.executor.block_on(filled).expect("writers fill the buffer");
    }

    /// Lets everything run for so long.
    pub(super) fn run_for(&mut self, ns: u64) {
        let sleep = self.env.sleep(ns);
        self.executor.block_on(sleep).expect("the host goes on");
    }
}
