//! A model as a device of the engine, in the executor's virtual time.
//!
//! 1. Begin and completion of each write, flush and discard are events of [`Cuts`], as those of a
//!    [`crate::drive::SimDrive`].
//! 2. After the end of a run nothing has an effect and nothing completes.
//! 3. The model outlives the run; between two runs the caller says what the end did: [`super::Storage::power_cut`], or
//!    nothing for a kill, after which the drive goes on with what it had been asked.

use std::fmt;
use std::future::pending;
use std::rc::Rc;

use evenkeel_engine::device::{Device, Drive, Durability, Extent, FlushScope, Geometry};
use evenkeel_engine::error::DeviceError;

use super::pump::Pump;
pub use super::pump::SharedStorage;
use super::{Operation, SECTOR_BYTES};
use crate::cuts::{Cuts, Verdict};
use crate::executor::SimEnv;

struct State {
    pump: Pump<SimEnv>,
    env: SimEnv,
    cuts: Cuts,
}

/// One run's device over a model. A clone is another handle to the same device.
#[derive(Clone)]
pub struct ModelDevice(Rc<State>);

impl fmt::Debug for ModelDevice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ModelDevice").field("geometry", &self.geometry()).finish_non_exhaustive()
    }
}

impl ModelDevice {
    /// The device over `model` in the run of `env`.
    pub fn open(model: SharedStorage, env: SimEnv, cuts: Cuts) -> Self {
        let stop = cuts.clone();
        let pump = Pump::new(model, env.clone(), 0, move || stop.is_stopped());
        Self(Rc::new(State { pump, env, cuts }))
    }

    fn check(&self, extent: Extent) {
        let size_bytes = self.geometry().size_bytes;
        assert!(extent.fits(size_bytes), "{extent:?} lies outside a drive of {size_bytes} bytes");
        let is_whole = extent.offset.is_multiple_of(SECTOR_BYTES) && extent.len.is_multiple_of(SECTOR_BYTES);
        assert!(is_whole, "{extent:?} is not made of whole sectors");
    }

    fn happens(&self, operation: Operation, extent: Extent) -> bool {
        let Verdict::Happens(number) = self.0.cuts.drive_event() else { return false };
        self.0.env.trace(extent.offset << 8 | operation as u64);
        self.0.env.trace(extent.len ^ number << 40);
        true
    }

    /// Does what changes the drive, between two events.
    async fn change(&self, operation: Operation, extent: Extent, bytes: Option<&[u8]>) {
        if !self.happens(operation, extent) {
            return pending().await;
        }
        self.0.pump.ask(operation, extent, bytes).await;
        if !self.happens(operation, extent) {
            pending::<()>().await;
        }
    }
}

impl Device for ModelDevice {
    fn geometry(&self) -> Geometry {
        let model = self.0.pump.model().borrow();
        Geometry {
            size_bytes: model.size_bytes(),
            sector_bytes: SECTOR_BYTES as u32,
            atomic_sectors: model.has_atomic_sectors(),
        }
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let extent = Extent::new(offset, into.len() as u64);
        self.check(extent);
        if self.0.cuts.is_stopped() {
            return pending().await;
        }
        self.0.pump.ask(Operation::Read, extent, None).await;
        if self.0.cuts.is_stopped() {
            return pending().await;
        }
        self.0.pump.model().borrow().read_contents(offset, into);
        Ok(())
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), DeviceError> {
        let extent = Extent::new(offset, bytes.len() as u64);
        self.check(extent);
        let operation = match durability {
            Durability::Buffered => Operation::Write,
            Durability::Durable => Operation::DurableWrite,
        };
        self.change(operation, extent, Some(bytes)).await;
        Ok(())
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), DeviceError> {
        let none = [Extent::new(0, 0)];
        let (operation, ranges) = match scope {
            FlushScope::Whole => (Operation::Flush, none.as_slice()),
            FlushScope::Ranges(ranges) => (Operation::FlushRange, ranges),
        };
        for range in ranges {
            assert!(range.fits(self.geometry().size_bytes), "{range:?} lies outside the drive");
            let start = range.offset / SECTOR_BYTES * SECTOR_BYTES;
            let whole = Extent::new(start, range.end().next_multiple_of(SECTOR_BYTES) - start);
            self.change(operation, whole, None).await;
        }
        Ok(())
    }

    async fn discard(&self, extent: Extent) -> Result<(), DeviceError> {
        self.check(extent);
        self.change(Operation::Discard, extent, None).await;
        Ok(())
    }
}

impl Drive for ModelDevice {}
