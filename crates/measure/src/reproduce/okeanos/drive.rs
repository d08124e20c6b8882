//! The modelled disk as the paper's file system takes it: a sector holds its old or its new bytes.
//!
//! ext3 and the paper's recovery rest on that promise, which a disk keeps by its error correction. Without it the engine
//! logs whole images of the pages that it takes home.

use evenkeel_engine::device::{self, Device, Durability, Extent, FlushScope, Geometry};
use evenkeel_engine::error::DeviceError;
use evenkeel_sim::model::device::ModelDevice;

/// A modelled drive that promises whole sectors.
#[derive(Debug, Clone)]
pub(super) struct Drive(pub(super) ModelDevice);

impl Device for Drive {
    fn geometry(&self) -> Geometry {
        Geometry { atomic_sectors: true, ..self.0.geometry() }
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.0.read(offset, into).await
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), DeviceError> {
        self.0.write(offset, bytes, durability).await
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), DeviceError> {
        self.0.flush(scope).await
    }

    async fn discard(&self, extent: Extent) -> Result<(), DeviceError> {
        self.0.discard(extent).await
    }
}

impl device::Drive for Drive {}
