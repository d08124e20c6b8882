//! A drive that is a model, as an export.
//!
//! 1. A request takes the time that the model says, on the clock of the loop; how late its answer is is counted.
//! 2. After a power cut no request of a connection of before has an effect or finds anything.

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use evenkeel_engine::device::{Durability, Extent, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_host::event_loop::Loop;
use evenkeel_host::front::device::RequestError;
use evenkeel_host::front::nbd::export::{BlockSizes, Export};
use evenkeel_sim::model::pump::Pump;
use evenkeel_sim::model::{Operation, SECTOR_BYTES};
use evenkeel_sim::random::Random;

use super::precision::Precision;
use super::store::FileStore;

/// errno(3) of an input or output error.
const EIO: i32 = 5;
/// Zeros are written so many bytes at a time.
const ZEROED_AT_ONCE_BYTES: u64 = 1 << 20;
/// Between two looks at whether the power failed again while it recovers.
const LOOK_NS: u64 = 50_000_000;

/// What all lives of the drive share.
#[derive(Debug, Default)]
struct Lives {
    /// Power cuts so far.
    cuts: Cell<u64>,
    /// Until when it recovers from the last of them.
    ready_at_ns: Cell<u64>,
    precision: RefCell<Precision>,
}

/// The drive, as those know it who connected since the last power cut. A clone is another handle to the same one.
#[derive(Debug, Clone)]
pub(super) struct DriveExport {
    pump: Pump<Loop>,
    env: Loop,
    size_bytes: u64,
    is_rotational: bool,
    store: Option<Arc<FileStore>>,
    lives: Rc<Lives>,
    life: u64,
}

impl DriveExport {
    pub(super) fn new(
        pump: Pump<Loop>,
        env: Loop,
        is_rotational: bool,
        store: Option<Arc<FileStore>>,
    ) -> Self {
        let size_bytes = pump.model().borrow().size_bytes();
        Self { pump, env, size_bytes, is_rotational, store, lives: Rc::default(), life: 0 }
    }

    /// Pulls the plug; answers how long the drive recovers. Whoever connected before gets nothing from it any more.
    pub(super) fn cut(&self, random: &mut Random) -> u64 {
        let lives = &self.lives;
        lives.cuts.set(lives.cuts.get() + 1);
        let ready_ns = self.pump.power_cut(random);
        lives.ready_at_ns.set(self.env.now_ns() + ready_ns);
        ready_ns
    }

    /// For those who connect from now on.
    pub(super) fn of_this_life(&self) -> Self {
        Self { life: self.lives.cuts.get(), ..self.clone() }
    }

    /// Power cuts so far.
    pub(super) fn cuts(&self) -> u64 {
        self.lives.cuts.get()
    }

    /// How long it still recovers.
    pub(super) fn recovers_ns(&self) -> u64 {
        self.lives.ready_at_ns.get().saturating_sub(self.env.now_ns())
    }

    /// How late its answers were.
    pub(super) fn precision(&self) -> Ref<'_, Precision> {
        self.lives.precision.borrow()
    }

    /// That no bytes were lost on the way to a file or from it.
    fn whole(&self) -> Result<(), RequestError> {
        match self.store.as_ref().is_some_and(|store| store.has_failed()) {
            true => Err(RequestError { errno: EIO, message: "the drive's file failed".to_owned() }),
            false => Ok(()),
        }
    }

    async fn ask(
        &self,
        operation: Operation,
        extent: Extent,
        bytes: Option<&[u8]>,
    ) -> Result<(), RequestError> {
        let lost = || RequestError { errno: EIO, message: "the drive has lost its power".to_owned() };
        let is_alive = || self.life == self.lives.cuts.get();
        while is_alive() && self.recovers_ns() > 0 {
            self.env.sleep(self.recovers_ns().min(LOOK_NS)).await;
        }
        if !is_alive() {
            return Err(lost());
        }
        let late_ns = self.pump.ask(operation, extent, bytes).await.ok_or_else(lost)?;
        self.lives.precision.borrow_mut().add(late_ns);
        self.whole()
    }
}

fn operation(durability: Durability) -> Operation {
    match durability {
        Durability::Buffered => Operation::Write,
        Durability::Durable => Operation::DurableWrite,
    }
}

impl Export for DriveExport {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn description(&self) -> &str {
        "evenkeel drive"
    }

    fn is_rotational(&self) -> bool {
        self.is_rotational
    }

    fn block_sizes(&self) -> BlockSizes {
        BlockSizes { minimum_bytes: SECTOR_BYTES as u32, ..BlockSizes::default() }
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), RequestError> {
        self.ask(Operation::Read, Extent::new(offset, into.len() as u64), None).await?;
        self.pump.model().borrow().read_contents(offset, into);
        self.whole()
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), RequestError> {
        self.ask(operation(durability), Extent::new(offset, bytes.len() as u64), Some(bytes)).await
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), RequestError> {
        let FlushScope::Ranges(ranges) = scope else {
            return self.ask(Operation::Flush, Extent::new(0, 0), None).await;
        };
        for range in ranges {
            let start = range.offset / SECTOR_BYTES * SECTOR_BYTES;
            let end = range.end().next_multiple_of(SECTOR_BYTES);
            self.ask(Operation::FlushRange, Extent::new(start, end - start), None).await?;
        }
        Ok(())
    }

    async fn write_zeroes(
        &self,
        extent: Extent,
        durability: Durability,
        _no_hole: bool,
    ) -> Result<(), RequestError> {
        let zeros = vec![0; extent.len.min(ZEROED_AT_ONCE_BYTES) as usize];
        let mut at = extent.offset;
        while at < extent.end() {
            let len = (extent.end() - at).min(ZEROED_AT_ONCE_BYTES);
            let part = Extent::new(at, len);
            self.ask(operation(durability), part, Some(&zeros[..len as usize])).await?;
            at += len;
        }
        Ok(())
    }

    async fn discard(&self, extent: Extent, durability: Durability) -> Result<(), RequestError> {
        self.ask(Operation::Discard, extent, None).await?;
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Durable => self.flush(FlushScope::Whole).await,
        }
    }

    async fn allocation(&self, extent: Extent, _runs_max: usize) -> Result<Vec<(u64, bool)>, RequestError> {
        Ok(vec![(extent.len, true)])
    }
}
