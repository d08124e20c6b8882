//! An export of another machine as a device.

use std::cmp::max;
use std::fmt;

use evenkeel_engine::device::{Device, Drive, Durability, Extent, FlushScope, Geometry};
use evenkeel_engine::error::DeviceError;

use super::{Client, ClientError};
use crate::drive::Doing;
use crate::nbd::proto::transmission_flag;
use crate::net::ByteStream;

/// Smallest and largest sector that the engine is offered: what reads and writes of an export go down to says nothing
/// about the drive behind it, and what is best for it a little.
const SECTOR_MIN_BYTES: u32 = 512;
const SECTOR_MAX_BYTES: u32 = 4096;

/// An export as a device.
pub struct NbdDrive<S: ByteStream> {
    client: Client<S>,
    geometry: Geometry,
    request_max_bytes: usize,
    doing: Doing,
}

impl<S: ByteStream> fmt::Debug for NbdDrive<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("NbdDrive").field("geometry", &self.geometry).finish_non_exhaustive()
    }
}

impl<S: ByteStream> NbdDrive<S> {
    /// The export of `client`, called `name` in errors. `atomic_sectors`: what is known of the drive behind it; NBD
    /// does not tell. `sector_bytes`: as it was found to be before; `None` is what the export likes best, up to a page.
    /// An export that takes no writes as small as before has larger sectors now, of which nothing is known. What it likes
    /// best says nothing of its drive, and may change.
    ///
    /// # Errors
    ///
    /// [`ClientError::NotOffered`] where it cannot be written to, not in sectors of this size, or cannot make writes
    /// durable.
    pub fn new(
        client: Client<S>,
        atomic_sectors: bool,
        sector_bytes: Option<u32>,
        name: &str,
    ) -> Result<Self, ClientError> {
        check_writes(&client)?;
        Self::to_look_at(client, atomic_sectors, sector_bytes, name)
    }

    /// The same, though it may not be written to.
    ///
    /// # Errors
    ///
    /// As of [`Self::new`], without that.
    pub fn to_look_at(
        client: Client<S>,
        atomic_sectors: bool,
        sector_bytes: Option<u32>,
        name: &str,
    ) -> Result<Self, ClientError> {
        let negotiated = client.negotiated();
        if !negotiated.has(transmission_flag::SEND_FLUSH) {
            return Err(ClientError::NotOffered("flush"));
        }
        let sizes = negotiated.block_sizes;
        let known_bytes = sector_bytes;
        let best = sizes.preferred_bytes.clamp(SECTOR_MIN_BYTES, SECTOR_MAX_BYTES).next_power_of_two();
        let sector_bytes = max(known_bytes.unwrap_or(best), sizes.minimum_bytes);
        let atomic_sectors = atomic_sectors && known_bytes.is_none_or(|known| sector_bytes <= known);
        let is_possible = sector_bytes.is_power_of_two() && sector_bytes.is_multiple_of(sizes.minimum_bytes);
        if !is_possible || !(SECTOR_MIN_BYTES..=SECTOR_MAX_BYTES).contains(&sector_bytes) {
            return Err(ClientError::NotOffered("writes of sectors of this size"));
        }
        let size_bytes = negotiated.size_bytes / u64::from(sector_bytes) * u64::from(sector_bytes);
        let request_max_bytes = (sizes.maximum_bytes / sector_bytes).max(1) * sector_bytes;
        let geometry = Geometry { size_bytes, sector_bytes, atomic_sectors };
        let (request_max_bytes, doing) = (request_max_bytes as usize, Doing::with(name));
        Ok(Self { client, geometry, request_max_bytes, doing })
    }

    /// The connection.
    pub fn client(&self) -> &Client<S> {
        &self.client
    }
}

/// That the export of `client` may be written to.
pub(crate) fn check_writes<S: ByteStream>(client: &Client<S>) -> Result<(), ClientError> {
    match client.negotiated().has(transmission_flag::READ_ONLY) {
        true => Err(ClientError::NotOffered("writes: it is read-only, or a volume writes to it")),
        false => Ok(()),
    }
}

fn failed(doing: &'static str) -> impl Fn(ClientError) -> DeviceError {
    move |error| DeviceError { doing, errno: error.errno() }
}

impl<S: ByteStream> Device for NbdDrive<S> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let mut at = offset;
        for piece in into.chunks_mut(self.request_max_bytes) {
            self.client.read(at, piece).await.map_err(failed(self.doing.read))?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), DeviceError> {
        let has_fua = self.client.negotiated().has(transmission_flag::SEND_FUA);
        let sent_as = if has_fua { durability } else { Durability::Buffered };
        let mut at = offset;
        // Sent one behind the other, awaited after that.
        let mut under_way = Vec::with_capacity(bytes.len().div_ceil(self.request_max_bytes));
        for piece in bytes.chunks(self.request_max_bytes) {
            under_way.push(self.client.write(at, piece, sent_as));
            at += piece.len() as u64;
        }
        for write in under_way {
            write.await.map_err(failed(self.doing.write))?;
        }
        if durability == Durability::Durable && !has_fua {
            let extent = Extent::new(offset, bytes.len() as u64);
            return self.flush(FlushScope::Ranges(&[extent])).await;
        }
        Ok(())
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), DeviceError> {
        self.client.flush(scope).await.map_err(failed(self.doing.flush))
    }

    async fn discard(&self, extent: Extent) -> Result<(), DeviceError> {
        if extent.len == 0 || !self.client.negotiated().has(transmission_flag::SEND_TRIM) {
            // Told to someone who does not listen.
            return Ok(());
        }
        // A trim's length has 32 bits without extended headers.
        const PIECE_BYTES: u64 = 1 << 30;
        let mut at = extent.offset;
        while at < extent.end() {
            let len = (extent.end() - at).min(PIECE_BYTES);
            let trim = self.client.trim(Extent::new(at, len), Durability::Buffered);
            trim.await.map_err(failed(self.doing.discard))?;
            at += len;
        }
        Ok(())
    }
}

impl<S: ByteStream> Drive for NbdDrive<S> {}
