//! The paper's board as a device of the engine.
//!
//! 1. A durable write is a write and a flush behind it: the board has none of its own.
//! 2. A board that carries out a flush alone waits for what is under way, flushes, and holds back what comes meanwhile.
//! 3. Where it knows no RFLUSH, each flush drains everything.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_engine::device::{Device, Drive, Durability, Extent, FlushScope, Geometry};
use evenkeel_engine::error::DeviceError;
use evenkeel_engine::join::all;
use evenkeel_sim::executor::SimEnv;
use evenkeel_sim::file_system::{Barrier, FlushQueueing};
use evenkeel_sim::model::pump::Pump;
use evenkeel_sim::model::{Operation, SECTOR_BYTES};
use evenkeel_sim::sparse::SparseBytes;

use super::waiting::Waiting;

struct State {
    pump: Pump<SimEnv>,
    barrier: Barrier,
    queueing: FlushQueueing,
    under_way: Cell<u64>,
    holds_back: Cell<bool>,
    /// What is read back: the model need not keep what it has overwritten.
    contents: RefCell<SparseBytes>,
    waiting: Waiting,
    flushes: Cell<u64>,
    written_bytes: Cell<u64>,
}

/// The board. A clone is another handle to the same.
#[derive(Clone)]
pub(super) struct Board(Rc<State>);

impl Board {
    pub(super) fn new(pump: Pump<SimEnv>, barrier: Barrier, queueing: FlushQueueing) -> Self {
        let contents = SparseBytes::new(pump.model().borrow().size_bytes());
        Self(Rc::new(State {
            pump,
            barrier,
            queueing,
            under_way: Cell::default(),
            holds_back: Cell::default(),
            contents: RefCell::new(contents),
            waiting: Waiting::default(),
            flushes: Cell::default(),
            written_bytes: Cell::default(),
        }))
    }

    /// Flushes of either kind so far, and bytes written.
    pub(super) fn done(&self) -> (u64, u64) {
        (self.0.flushes.get(), self.0.written_bytes.get())
    }

    /// Asks for something that a flush may hold back.
    async fn ask(&self, operation: Operation, extent: Extent) {
        let state = &*self.0;
        state.waiting.until(|| !state.holds_back.get()).await;
        state.under_way.set(state.under_way.get() + 1);
        // No power is cut here, so that there is an answer.
        state.pump.ask(operation, extent, None).await;
        state.under_way.set(state.under_way.get() - 1);
        state.waiting.look();
    }

    /// Drains ranges, or everything.
    async fn barrier(&self, scope: FlushScope<'_>) {
        let state = &*self.0;
        state.flushes.set(state.flushes.get() + 1);
        let (operation, ranges) = match (scope, state.barrier) {
            (FlushScope::Ranges(ranges), Barrier::RangeFlush) => (Operation::FlushRange, ranges.to_vec()),
            _ => (Operation::Flush, vec![Extent::new(0, 0)]),
        };
        let ranges = ranges.into_iter().map(whole_sectors);
        if state.queueing == FlushQueueing::Queued {
            all(ranges.map(|range| self.ask(operation, range))).await;
            return;
        }
        state.waiting.until(|| !state.holds_back.replace(true)).await;
        state.waiting.until(|| state.under_way.get() == 0).await;
        all(ranges.map(async |range| {
            state.pump.ask(operation, range, None).await;
        }))
        .await;
        state.holds_back.set(false);
        state.waiting.look();
    }
}

fn whole_sectors(range: Extent) -> Extent {
    let start = range.offset / SECTOR_BYTES * SECTOR_BYTES;
    Extent::new(start, range.end().next_multiple_of(SECTOR_BYTES) - start)
}

impl Device for Board {
    fn geometry(&self) -> Geometry {
        let model = self.0.pump.model().borrow();
        Geometry {
            size_bytes: model.size_bytes(),
            sector_bytes: SECTOR_BYTES as u32,
            atomic_sectors: model.has_atomic_sectors(),
        }
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.ask(Operation::Read, Extent::new(offset, into.len() as u64)).await;
        self.0.contents.borrow().read(offset, into);
        Ok(())
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), DeviceError> {
        let extent = Extent::new(offset, bytes.len() as u64);
        self.ask(Operation::Write, extent).await;
        self.0.contents.borrow_mut().write(offset, bytes);
        self.0.written_bytes.set(self.0.written_bytes.get() + extent.len);
        if durability == Durability::Durable {
            self.barrier(FlushScope::Ranges(&[extent])).await;
        }
        Ok(())
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), DeviceError> {
        self.barrier(scope).await;
        Ok(())
    }

    async fn discard(&self, extent: Extent) -> Result<(), DeviceError> {
        self.ask(Operation::Discard, extent).await;
        self.0.contents.borrow_mut().zero(extent);
        Ok(())
    }
}

impl Drive for Board {}
