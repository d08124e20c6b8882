//! A volume as an export.

use std::rc::Rc;

use evenkeel_engine::device::{Durability, Extent, FlushScope};
use evenkeel_engine::env::{Arena, Env};
use evenkeel_engine::error::Error;
use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::layout::{JournalStore, PageStore};
use evenkeel_engine::volume::Volume;

use super::{Export, ExportError};
use crate::wait::{Turn, give_way};

/// Pages that one question about allocation looks at: the answer may end early, other requests do not wait.
const ALLOCATION_PAGES_MAX: u64 = 16 << 10;

/// Bytes that are zeroed before others have their turn: pages without contents are passed over in no time, but a
/// volume may have many.
const ZEROED_AT_ONCE_BYTES: u64 = 8 << 20;

/// A volume under a name.
pub struct VolumeExport<E, A, H, L> {
    volume: Volume<E, A, H, L>,
    name: Rc<str>,
    is_read_only: bool,
    /// Who zeroes or discards: a request for all of the disk costs its client nothing, and a hundred of them at once would
    /// leave nobody else his turn.
    zeroing: Rc<Turn>,
}

impl<E, A, H, L> Clone for VolumeExport<E, A, H, L> {
    fn clone(&self) -> Self {
        Self {
            volume: self.volume.clone(),
            name: Rc::clone(&self.name),
            is_read_only: self.is_read_only,
            zeroing: Rc::clone(&self.zeroing),
        }
    }
}

impl<E, A, H, L> VolumeExport<E, A, H, L> {
    /// `volume` under `name`.
    pub fn new(volume: Volume<E, A, H, L>, name: impl Into<Rc<str>>) -> Self {
        Self { volume, name: name.into(), is_read_only: false, zeroing: Rc::default() }
    }

    /// The same, refusing writes.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.is_read_only = true;
        self
    }
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> VolumeExport<E, A, H, L> {
    /// The engine's words, with the number that a client understands.
    fn told(&self, error: &Error) -> ExportError {
        ExportError { errno: self.volume.errno(error), message: error.to_string() }
    }

    async fn zero(&self, extent: Extent, durability: Durability) -> Result<(), Error> {
        let mut at = extent.offset;
        while at < extent.end() {
            let len = (extent.end() - at).min(ZEROED_AT_ONCE_BYTES);
            let turn = self.zeroing.take().await;
            self.volume.write_zeroes(Extent::new(at, len), Durability::Buffered).await?;
            drop(turn);
            at += len;
            give_way().await;
        }
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Durable => self.volume.flush(FlushScope::Ranges(&[extent])).await,
        }
    }
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Export for VolumeExport<E, A, H, L> {
    fn size_bytes(&self) -> u64 {
        self.volume.size_bytes()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        "evenkeel volume"
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    fn whole_max_bytes(&self) -> u64 {
        self.volume.atomic_max_bytes()
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), ExportError> {
        self.volume.read(offset, into).await.map_err(|error| self.told(&error))
    }

    fn try_read(&self, offset: u64, into: &mut [u8]) -> bool {
        self.volume.try_read(offset, into)
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), ExportError> {
        self.volume.write(offset, bytes, durability).await.map_err(|error| self.told(&error))
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), ExportError> {
        self.volume.flush(scope).await.map_err(|error| self.told(&error))
    }

    /// The members have their room, so that zeros need none of their own; those of a sparse volume take none for them.
    async fn write_zeroes(
        &self,
        extent: Extent,
        durability: Durability,
        _no_hole: bool,
    ) -> Result<(), ExportError> {
        self.zero(extent, durability).await.map_err(|error| self.told(&error))
    }

    async fn discard(&self, extent: Extent, durability: Durability) -> Result<(), ExportError> {
        self.zero(extent, durability).await.map_err(|error| self.told(&error))
    }

    async fn allocation(&self, extent: Extent) -> Result<Vec<(u64, bool)>, ExportError> {
        let mut found: Vec<(u64, bool)> = Vec::new();
        let (first, end) = (extent.offset / PAGE_BYTES, extent.end().div_ceil(PAGE_BYTES));
        for page in first..end.min(first + ALLOCATION_PAGES_MAX) {
            let is_allocated = self.volume.is_allocated(page).await.map_err(|error| self.told(&error))?;
            let shared = extent.intersection(&Extent::new(page * PAGE_BYTES, PAGE_BYTES));
            let len = shared.expect("the page lies in the range").len;
            match found.last_mut() {
                Some((run, state)) if *state == is_allocated => *run += len,
                _ => found.push((len, is_allocated)),
            }
        }
        Ok(found)
    }
}
