//! A device as an export.

use std::rc::Rc;

use evenkeel_engine::device::{Durability, Extent, FlushScope};

use super::{BlockSizes, Export};
use crate::front::device::{RequestError, ServedDevice, ZEROED_AT_ONCE_BYTES};
use crate::wait::{Turn, yield_now};

/// A device under a name.
#[derive(Clone)]
pub struct DeviceExport<D> {
    device: D,
    name: Rc<str>,
    is_read_only: bool,
    /// The turn of a request that zeroes or discards. One for all of the disk costs its client nothing, and a hundred of them
    /// at once would keep all others waiting.
    zeroing: Rc<Turn>,
}

impl<D: ServedDevice> DeviceExport<D> {
    /// `device` under `name`: a volume, or an `Rc` of any other device.
    pub fn new(device: D, name: impl Into<Rc<str>>) -> Self {
        Self { device, name: name.into(), is_read_only: false, zeroing: Rc::default() }
    }

    /// This export, refusing writes.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self
    }

    /// Does `change` to one piece of `extent` after the other, in turn with others that change much.
    async fn change_in_pieces(
        &self,
        extent: Extent,
        durability: Durability,
        change: impl AsyncFn(Extent) -> Result<(), RequestError>,
    ) -> Result<(), RequestError> {
        let mut at = extent.offset;
        while at < extent.end() {
            let len = (extent.end() - at).min(ZEROED_AT_ONCE_BYTES);
            let turn = self.zeroing.take().await;
            change(Extent::new(at, len)).await?;
            drop(turn);
            at += len;
            yield_now().await;
        }
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Durable => self.device.flush(FlushScope::Ranges(&[extent])).await,
        }
    }
}

impl<D: ServedDevice> Export for DeviceExport<D> {
    fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        self.device.description()
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn block_sizes(&self) -> BlockSizes {
        let (unit_bytes, sizes) = (self.device.unit_bytes(), BlockSizes::default());
        let preferred_bytes = sizes.preferred_bytes.max(unit_bytes);
        BlockSizes { minimum_bytes: unit_bytes, preferred_bytes, ..sizes }
    }

    fn whole_max_bytes(&self) -> u64 {
        self.device.atomic_max_bytes()
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), RequestError> {
        self.device.read(offset, into).await
    }

    fn try_read(&self, offset: u64, into: &mut [u8]) -> bool {
        self.device.try_read(offset, into)
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), RequestError> {
        self.device.write(offset, bytes, durability).await
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), RequestError> {
        self.device.flush(scope).await
    }

    /// The members of a volume have their room, so that zeros need none of their own; those of a sparse volume take none
    /// for them.
    async fn write_zeroes(
        &self,
        extent: Extent,
        durability: Durability,
        _no_hole: bool,
    ) -> Result<(), RequestError> {
        self.change_in_pieces(extent, durability, async |piece| self.device.write_zeroes(piece).await).await
    }

    async fn discard(&self, extent: Extent, durability: Durability) -> Result<(), RequestError> {
        self.change_in_pieces(extent, durability, async |piece| self.device.discard(piece).await).await
    }

    async fn allocation(&self, extent: Extent, runs_max: usize) -> Result<Vec<(u64, bool)>, RequestError> {
        self.device.allocation(extent, runs_max).await
    }
}
