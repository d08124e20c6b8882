//! A device as front ends serve it: any [`Device`], and what only some know of themselves.
//!
//! 1. `Rc<D>` serves any device `D`; nothing more has to be written for it.
//! 2. A volume, behind what another one can take its place in, knows more: which pages have contents, which writes are atomic, and why a request failed. What is left out of
//!    [`ServedDevice`] has an answer that is true of every device.

use std::future::Future;
use std::rc::Rc;

use evenkeel_engine::conversion::SwitchedVolume;
use evenkeel_engine::device::{Device, Durability, Extent, FlushScope};
use evenkeel_engine::env::{Arena, Env};
use evenkeel_engine::error::{DeviceError, Error};
use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::layout::{JournalStore, PageStore};
use evenkeel_engine::volume::Volume;

/// Pages that one question about allocation looks at: the answer may end early, other requests do not wait.
const ALLOCATION_PAGES_MAX: u64 = 16 << 10;

/// Bytes that are zeroed before others have their turn: pages without contents are passed over in no time, but a volume may
/// have many.
pub(super) const ZEROED_AT_ONCE_BYTES: u64 = 8 << 20;

/// A request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}: errno {errno}")]
pub struct RequestError {
    /// The system's number for the cause, as in errno(3). Clients see the nearest one that their protocol knows.
    pub errno: i32,
    /// What happened, in words.
    pub message: String,
}

impl From<DeviceError> for RequestError {
    fn from(error: DeviceError) -> Self {
        Self { errno: error.errno, message: error.to_string() }
    }
}

/// A device that is served. A clone is another handle to the same bytes.
pub trait ServedDevice: Clone + 'static {
    /// Bytes that can be addressed.
    fn size_bytes(&self) -> u64;

    /// The smallest unit of a request: offsets and lengths are multiples of it.
    fn unit_bytes(&self) -> u32;

    /// What it is, in words.
    fn description(&self) -> &str {
        "evenkeel device"
    }

    /// Longest write that takes effect as a whole or not at all.
    fn atomic_max_bytes(&self) -> u64 {
        0
    }

    /// Fills `into` from `offset`.
    fn read(&self, offset: u64, into: &mut [u8]) -> impl Future<Output = Result<(), RequestError>>;

    /// As [`Self::read`], if nothing has to be waited for; false if something has, or it fails. Only for a device that can
    /// tell right bytes from wrong ones: what a system keeps in memory may be older than the medium.
    fn try_read(&self, _offset: u64, _into: &mut [u8]) -> bool {
        false
    }

    /// Writes `bytes` at `offset`.
    fn write(
        &self,
        offset: u64,
        bytes: &[u8],
        durability: Durability,
    ) -> impl Future<Output = Result<(), RequestError>>;

    /// Makes completed writes durable.
    fn flush(&self, scope: FlushScope<'_>) -> impl Future<Output = Result<(), RequestError>>;

    /// Makes `extent` read as zeros. Neither those nor what is discarded need be durable before a flush.
    fn write_zeroes(&self, extent: Extent) -> impl Future<Output = Result<(), RequestError>>;

    /// Drops the contents of `extent`.
    fn discard(&self, extent: Extent) -> impl Future<Output = Result<(), RequestError>>;

    /// Which bytes from `extent.offset` on have contents, as lengths of no more than `runs_max` runs; the others read as zeros.
    /// It may end early, but tells about one byte at least.
    fn allocation(
        &self,
        extent: Extent,
        _runs_max: usize,
    ) -> impl Future<Output = Result<Vec<(u64, bool)>, RequestError>> {
        std::future::ready(Ok(vec![(extent.len, true)]))
    }
}

impl<D: Device> ServedDevice for Rc<D> {
    fn size_bytes(&self) -> u64 {
        self.geometry().size_bytes
    }

    fn unit_bytes(&self) -> u32 {
        self.geometry().sector_bytes
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), RequestError> {
        Ok(D::read(self, offset, into).await?)
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), RequestError> {
        Ok(D::write(self, offset, bytes, durability).await?)
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), RequestError> {
        Ok(D::flush(self, scope).await?)
    }

    async fn write_zeroes(&self, extent: Extent) -> Result<(), RequestError> {
        Ok(D::write_zeroes(self, extent, Durability::Buffered).await?)
    }

    async fn discard(&self, extent: Extent) -> Result<(), RequestError> {
        Ok(D::discard(self, extent).await?)
    }
}

/// An error of the volume in its own words, with the number that a client understands.
fn explained<E: Env, A: Arena, H: PageStore, L: JournalStore>(
    volume: &SwitchedVolume<Volume<E, A, H, L>>,
) -> impl Fn(Error) -> RequestError {
    |error| RequestError { errno: volume.now().errno(&error), message: error.to_string() }
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> ServedDevice for SwitchedVolume<Volume<E, A, H, L>> {
    fn size_bytes(&self) -> u64 {
        self.now().size_bytes()
    }

    /// It takes any range of bytes.
    fn unit_bytes(&self) -> u32 {
        1
    }

    fn description(&self) -> &str {
        "evenkeel volume"
    }

    fn atomic_max_bytes(&self) -> u64 {
        self.now().atomic_max_bytes()
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), RequestError> {
        Self::read(self, offset, into).await.map_err(explained(self))
    }

    fn try_read(&self, offset: u64, into: &mut [u8]) -> bool {
        Self::try_read(self, offset, into)
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), RequestError> {
        Self::write(self, offset, bytes, durability).await.map_err(explained(self))
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), RequestError> {
        Self::flush(self, scope).await.map_err(explained(self))
    }

    async fn write_zeroes(&self, extent: Extent) -> Result<(), RequestError> {
        Self::write_zeroes(self, extent, Durability::Buffered).await.map_err(explained(self))
    }

    /// What is discarded reads as zeros: a volume gives the places of whole pages back.
    async fn discard(&self, extent: Extent) -> Result<(), RequestError> {
        ServedDevice::write_zeroes(self, extent).await
    }

    async fn allocation(&self, extent: Extent, runs_max: usize) -> Result<Vec<(u64, bool)>, RequestError> {
        let mut found: Vec<(u64, bool)> = Vec::new();
        let (first, end) = (extent.offset / PAGE_BYTES, extent.end().div_ceil(PAGE_BYTES));
        let mut page = first;
        while page < end && page - first < ALLOCATION_PAGES_MAX {
            let told = Self::allocation(self, page, end - page).await;
            let (is_allocated, pages) = told.map_err(explained(self))?;
            let shared = extent.intersection(&Extent::new(page * PAGE_BYTES, pages * PAGE_BYTES));
            let len = shared.expect("the pages lie in the range").len;
            let is_full = found.len() >= runs_max.max(1);
            match found.last_mut() {
                Some((run, state)) if *state == is_allocated => *run += len,
                _ if is_full => break,
                _ => found.push((len, is_allocated)),
            }
            page += pages;
        }
        Ok(found)
    }
}
