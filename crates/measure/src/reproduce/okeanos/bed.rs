//! The testbed: a volume of the engine with its journal on one modelled disk, in virtual time.
//!
//! 1. The same seed and story give the same times and counters.
//! 2. What the paper states of its machine is set here, once for all figures; so is what had to be assumed.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use evenkeel_engine::counters::Snapshot;
use evenkeel_engine::device::Durability;
use evenkeel_engine::env::Env;
use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::format::layout::Layout;
use evenkeel_engine::options::{CreateOptions, OpenOptions};
use evenkeel_engine::volume::{Volume, create};
use evenkeel_sim::arena::{ArenaBytes, SimArena};
use evenkeel_sim::cuts::Cuts;
use evenkeel_sim::executor::{Executor, SimEnv};
use evenkeel_sim::model::device::{ModelDevice, SharedStorage};
use evenkeel_sim::model::presets;
use evenkeel_sim::random::Random;

use super::Mode;
use super::drive::Drive;
use super::ext3::Ext3;
use super::written::Traffic;
use crate::reproduce::{Halted, Work};

/// What is the same in every figure of the paper.
pub(super) const SETUP: [&str; 5] = [
    "Engine and journaling modes are evenkeel's own, over the disk model sas-15k (the paper's Seagate Cheetah, 300 GB, \
     15,000 rpm), write cache off; virtual time.",
    "From the paper: pages of 4 KB, 3 GB of memory: 2 GB of pages cached, 40 % of memory dirty at most, as Linux 2.6.18 \
     has it.",
    "Assumed: the journal, 128 MB as ext3 makes it by default, is on the same disk; the 15 GB in use lie over the whole \
     range of seeks; dirty pages go home every 30 s, as Linux writes them back, or when the journal asks for it.",
    "Data is the engine's whole pages through the journal. Ordered is shown twice: as ext3 does it (whole pages straight \
     home, side by side; then, once the data of all writers of the transaction is there, a descriptor, blocks of inodes, \
     bitmaps of what was allocated and a commit block in the journal), which claims are judged by, and the engine's own, \
     side by side too, with an intent before and a completion after.",
    "But for that a file system's own metadata (inodes, bitmaps) is not written; sectors are written whole or not at all, \
     as ext3 presumes.",
];

/// Bytes of the volume: files lie over all of it.
pub(super) const VOLUME_BYTES: u64 = 15 << 30;
const LOG_BYTES: u64 = 128 << 20;
const ARENA_BYTES: usize = 64 << 20;
const MEMORY_BYTES: u64 = 3 << 30;
/// How long dirty pages stay in memory.
pub(super) const WRITE_BACK_NS: u64 = 30_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// Where on the disk everything is.
pub(super) fn layout() -> Layout {
    let pages = VOLUME_BYTES / PAGE_BYTES;
    let home_bytes = Layout::home_bytes_for(pages, LOG_BYTES, false);
    Layout::plan(pages, home_bytes, LOG_BYTES, false).expect("the disk is as large as the volume needs")
}

/// An open volume on the disk.
pub(super) type SiteVolume = Volume<SimEnv, SimArena, Drive, Drive>;

/// A disk with a volume on it, which outlives runs.
pub(super) struct Bed {
    model: SharedStorage,
    arena: ArenaBytes,
    seed: u64,
}

enum Store {
    Volume(SiteVolume),
    Ext3(Box<Ext3>),
}

struct State {
    env: SimEnv,
    store: Store,
    random: RefCell<Random>,
    /// Bytes that resemble nothing, cut at random for each write.
    noise: Vec<u8>,
}

/// What a story writes to and reads from. A clone is another handle to the same.
#[derive(Clone)]
pub(super) struct Site(Rc<State>);

impl Bed {
    /// A disk with a new volume.
    pub(super) fn new(work: &Work<'_>, seed: u64) -> Result<Self, Halted> {
        let preset =
            presets::find_disk("sas-15k").ok_or_else(|| Halted::Unavailable("no sas-15k".to_owned()))?;
        let mut disk = preset
            .disk(layout().home_bytes)
            .map_err(|error| Halted::Unavailable(format!("sas-15k: {error}")))?;
        disk.keep_contents();
        let model: SharedStorage = Rc::new(RefCell::new(disk));
        let bed = Self { model, arena: ArenaBytes::new(ARENA_BYTES), seed };
        let options =
            CreateOptions { size_bytes: VOLUME_BYTES, log_bytes: LOG_BYTES, atomic_max_bytes: PAGE_BYTES };
        let mut executor = Executor::new(seed);
        let drive = bed.drive(&executor);
        let made = bed.drive_to_end(work, &mut executor, create(&drive, &drive, false, options, seed | 1))?;
        made.map_err(|error| Halted::Unavailable(format!("no volume: {error}")))?;
        Ok(bed)
    }

    fn drive(&self, executor: &Executor) -> Drive {
        let cuts = Cuts::none(executor.stop());
        Drive(ModelDevice::open(Rc::clone(&self.model), executor.env(), cuts))
    }

    /// Opens the volume, tells the story on it, and kills whatever is left: what went home is not waited for.
    pub(super) fn live<R>(
        &self,
        work: &Work<'_>,
        mode: Mode,
        story: impl AsyncFnOnce(Site) -> R,
    ) -> Result<R, Halted> {
        self.run(work, async |env, drive| {
            let store = match mode.journaling() {
                None => Store::Ext3(Box::new(Ext3::new(drive, layout()))),
                Some(_) => Store::Volume(self.open(&env, &drive, mode).await?),
            };
            let mut random = Random::new(self.seed);
            let noise = noise(&mut random);
            let site = Site(Rc::new(State { env, store, random: RefCell::new(random), noise }));
            site.write_back_now_and_then();
            Ok(story(site).await)
        })
    }

    /// Tells a story on the disk, and kills whatever is left of it.
    pub(super) fn run<R>(
        &self,
        work: &Work<'_>,
        story: impl AsyncFnOnce(SimEnv, Drive) -> Result<R, Halted>,
    ) -> Result<R, Halted> {
        let mut executor = Executor::new(self.seed);
        let (env, drive) = (executor.env(), self.drive(&executor));
        self.drive_to_end(work, &mut executor, story(env, drive))?
    }

    /// How long the volume takes to open after the power failed: the disk spins already.
    pub(super) fn recovery_ns(&self, work: &Work<'_>, mode: Mode) -> Result<(u64, Snapshot), Halted> {
        self.model.borrow_mut().power_cut(&mut Random::new(self.seed));
        self.arena.clear();
        self.run(work, async |env, drive| {
            let began_ns = env.now_ns();
            let volume = self.open(&env, &drive, mode).await?;
            Ok((env.now_ns() - began_ns, volume.counters()))
        })
    }

    /// Opens the volume.
    pub(super) async fn open(&self, env: &SimEnv, drive: &Drive, mode: Mode) -> Result<SiteVolume, Halted> {
        let cuts = Cuts::none(env.stop());
        let arena = SimArena::open(self.arena.clone(), env.clone(), cuts, self.seed);
        let options = OpenOptions {
            journaling: mode.journaling().unwrap_or(OpenOptions::default().journaling),
            cached_pages_max: (MEMORY_BYTES / 3 * 2 / PAGE_BYTES) as usize,
            dirty_pages_max: (MEMORY_BYTES * 2 / 5 / PAGE_BYTES) as usize,
            ..OpenOptions::default()
        };
        let (home, log) = (Rc::new(drive.clone()), Rc::new(drive.clone()));
        Volume::open(env.clone(), arena, home, log, false, options)
            .await
            .map_err(|error| Halted::Unavailable(format!("the volume does not open: {error}")))
    }

    /// Runs a future to its end, and ends it where a stop is asked for.
    fn drive_to_end<R>(
        &self,
        work: &Work<'_>,
        executor: &mut Executor,
        future: impl Future<Output = R>,
    ) -> Result<R, Halted> {
        let env = executor.env();
        let watch = async {
            while !work.is_stopped() {
                env.sleep(SECOND_NS).await;
            }
        };
        let both = async {
            let (mut future, mut watch) = (pin!(future), pin!(watch));
            poll_fn(|context| match (future.as_mut().poll(context), watch.as_mut().poll(context)) {
                (Poll::Ready(result), _) => Poll::Ready(Ok(result)),
                (Poll::Pending, Poll::Ready(())) => Poll::Ready(Err(Halted::Stopped)),
                (Poll::Pending, Poll::Pending) => Poll::Pending,
            })
            .await
        };
        match executor.block_on(both) {
            Ok(result) => result,
            Err(halt) => Err(Halted::Unavailable(format!("the run cannot go on: {halt}"))),
        }
    }
}

/// Bytes that resemble nothing.
pub(super) fn noise(random: &mut Random) -> Vec<u8> {
    let mut noise = vec![0; 2 << 20];
    random.fill(&mut noise);
    noise
}

impl Site {
    pub(super) fn env(&self) -> &SimEnv {
        &self.0.env
    }

    /// A stream of chance of its own.
    pub(super) fn random(&self) -> Random {
        self.0.random.borrow_mut().fork()
    }

    /// Runs a task beside the story.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.0.env.spawn(task);
    }

    /// Writes `len` new bytes durably; answers how long that took.
    pub(super) async fn write(&self, random: &mut Random, offset: u64, len: u64) -> u64 {
        let began_ns = self.0.env.now_ns();
        let start = random.below(self.0.noise.len() as u64 - len) as usize;
        let bytes = &self.0.noise[start..start + len as usize];
        match &self.0.store {
            Store::Volume(volume) => {
                volume.write(offset, bytes, Durability::Durable).await.expect("a healthy disk takes a write");
            }
            Store::Ext3(files) => files.write(offset, len).await,
        }
        self.0.env.now_ns() - began_ns
    }

    /// Reads `len` bytes; answers how long that took.
    pub(super) async fn read(&self, offset: u64, len: u64) -> u64 {
        let began_ns = self.0.env.now_ns();
        match &self.0.store {
            Store::Volume(volume) => {
                let mut bytes = vec![0; len as usize];
                volume.read(offset, &mut bytes).await.expect("a healthy disk gives what was written");
            }
            Store::Ext3(files) => files.read(offset, len).await,
        }
        self.0.env.now_ns() - began_ns
    }

    /// Everything home, now.
    pub(super) async fn settle(&self) {
        if let Store::Volume(volume) = &self.0.store {
            volume.checkpoint().await.expect("a healthy disk takes a checkpoint");
        }
    }

    /// What was written so far.
    pub(super) fn traffic(&self) -> Traffic {
        match &self.0.store {
            Store::Volume(volume) => volume.counters().into(),
            Store::Ext3(files) => files.traffic(),
        }
    }

    fn write_back_now_and_then(&self) {
        let site = self.clone();
        self.spawn(async move {
            loop {
                site.0.env.sleep(WRITE_BACK_NS).await;
                site.settle().await;
            }
        });
    }
}
