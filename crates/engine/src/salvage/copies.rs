//! Several drives that hold the same bytes, to be read and never written.
//!
//! 1. Nothing is written: a write fails with `EROFS`, and what another store would repair is left as it is.
//! 2. Every read lies within the drive and is made of its sectors, whatever was asked for. What lies beyond its end
//!    cannot be read.
//! 3. A page of the table that is made anew reads as it was made.
//!
//! Files here import one another in a circle: a table is rebuilt from the copies that it is needed to judge.

use std::cell::RefCell;
use std::future::pending;
use std::rc::{Rc, Weak};

use super::table_rebuild::{self, RebuiltTable};
use crate::device::{Device, Durability, Extent, FlushScope, Geometry};
use crate::error::{DeviceError, Error};
use crate::format::layout::Layout;
use crate::format::superblock::Superblock;
use crate::layout::{
    JournalStore, LiveRecords, NotWritten, PageStore, PlacedWrite, Remembered, Replicated, StoreState,
    StoreTraits, Verifier,
};

/// Input or output error, as in errno(3).
const EIO: i32 = 5;

/// Read-only file system.
const EROFS: i32 = 30;

/// What a write is answered.
pub(super) const READ_ONLY: DeviceError = DeviceError { doing: "write what is only read", errno: EROFS };

/// A part of a drive: what begins at `offset`.
#[derive(Debug, Clone)]
pub struct Part<D> {
    /// The drive.
    pub device: D,
    /// Where on it the part begins.
    pub offset: u64,
    /// Its number among all of its kind, those that are not there counted.
    pub place: usize,
}

/// Several parts that hold the same, the one that is most trusted first. A clone is another handle to the same.
#[derive(Debug)]
pub struct Copies<D> {
    parts: Rc<[Part<D>]>,
    geometry: Geometry,
    is_in_parts: bool,
    anew: Rc<RefCell<RebuiltTable>>,
}

impl<D> Clone for Copies<D> {
    fn clone(&self) -> Self {
        Self { parts: Rc::clone(&self.parts), anew: Rc::clone(&self.anew), ..*self }
    }
}

impl<D: Device> Copies<D> {
    /// These parts, in sectors of `sector_bytes`. `is_in_parts` where each may hold what the others lack.
    pub(super) fn new(parts: Vec<Part<D>>, sector_bytes: u32, is_in_parts: bool) -> Self {
        let size = |part: &Part<D>| part.device.geometry().size_bytes.saturating_sub(part.offset);
        let size_bytes = parts.iter().map(size).max().unwrap_or(0);
        let geometry = Geometry { size_bytes, sector_bytes, atomic_sectors: false };
        Self { parts: parts.into(), geometry, is_in_parts, anew: Rc::default() }
    }

    /// The parts.
    pub fn parts(&self) -> &[Part<D>] {
        &self.parts
    }

    /// This page of the table is made from what the drives hold, instead of read.
    pub(super) fn make_anew(&self, layout: Rc<Layout>, number: u64) {
        self.anew.borrow_mut().add(layout, number);
    }

    /// What a drive holds.
    pub(super) async fn read_raw(
        &self,
        copy: usize,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        match self.parts.get(copy) {
            Some(part) => part.read(offset, into).await,
            None => Err(DeviceError { doing: "read a drive that is not there", errno: EIO }),
        }
    }

    /// Makes the page of the table that these bytes are; false where they are none that is made.
    async fn make(&self, offset: u64, into: &mut [u8]) -> bool {
        let made = self.anew.borrow().at(offset, into.len());
        let Some((layout, number)) = made else { return false };
        // Boxed: every read would carry room for it.
        let page = Box::pin(async {
            let said = table_rebuild::stored_replicas(self, &layout, number).await;
            table_rebuild::rebuild(self, &layout, number, &said, None).await
        });
        into.copy_from_slice(&page.await);
        true
    }
}

impl<D: Device> Part<D> {
    /// Fills `into` from `offset` of the part.
    ///
    /// # Errors
    ///
    /// Those of the device; `EIO` beyond its end.
    pub async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let Geometry { size_bytes, sector_bytes, .. } = self.device.geometry();
        let beyond = DeviceError { doing: "read beyond the end of a drive", errno: EIO };
        let sector = u64::from(sector_bytes);
        let start = self.offset.checked_add(offset).ok_or(beyond)?;
        let asked = Extent { offset: start, len: into.len() as u64 };
        if !asked.fits(size_bytes) {
            return Err(beyond);
        }
        let first = start / sector * sector;
        let end = asked.end().next_multiple_of(sector);
        if first == start && end == asked.end() {
            return self.device.read(start, into).await;
        }
        if end > size_bytes {
            return Err(beyond);
        }
        let mut whole = vec![0; (end - first) as usize];
        self.device.read(first, &mut whole).await?;
        into.copy_from_slice(&whole[(start - first) as usize..][..into.len()]);
        Ok(())
    }
}

impl<D: Device> Device for Copies<D> {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        if self.make(offset, into).await {
            return Ok(());
        }
        let mut failure = DeviceError { doing: "read a drive that is not there", errno: EIO };
        for part in self.parts.iter() {
            match part.read(offset, into).await {
                Ok(()) => return Ok(()),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    async fn write(&self, _offset: u64, _bytes: &[u8], _durability: Durability) -> Result<(), DeviceError> {
        Err(READ_ONLY)
    }

    async fn flush(&self, _scope: FlushScope<'_>) -> Result<(), DeviceError> {
        Ok(())
    }

    async fn discard(&self, _extent: Extent) -> Result<(), DeviceError> {
        Err(DeviceError { doing: "discard what is only read", errno: EROFS })
    }
}

impl<D: Device> Replicated for Copies<D> {
    fn replicas(&self) -> usize {
        self.parts.len()
    }

    fn has_replica(&self, _replica: usize) -> bool {
        true
    }

    fn is_scattered(&self) -> bool {
        self.is_in_parts
    }

    async fn read_replica(&self, replica: usize, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        match self.make(offset, into).await {
            true => Ok(()),
            false => self.read_raw(replica, offset, into).await,
        }
    }

    async fn replica_idle(&self, _replica: usize) {}

    async fn repair(&self, _offset: u64, _bytes: &[u8]) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl<D: Device> PageStore for Copies<D> {
    fn traits(&self) -> StoreTraits {
        StoreTraits {
            holds_superblocks: true,
            defers_writes: false,
            deferred_max_bytes: u64::MAX,
            is_replicated: self.parts.len() > 1,
            unit_bytes: None,
        }
    }

    async fn init(&self, _volume: u64) -> Result<(), DeviceError> {
        Err(READ_ONLY)
    }

    async fn resume(&self, _remembered: Remembered, _epoch: u64) -> Result<(), Error> {
        Ok(())
    }

    async fn begin(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    async fn end(&self, _last: Option<&Superblock>) -> Result<(), DeviceError> {
        Ok(())
    }

    async fn enlarge(&self, _size_bytes: u64) -> Result<(), Error> {
        Err(READ_ONLY.into())
    }

    fn verify_with(&self, _verifier: Weak<dyn Verifier>) {}

    async fn write_numbered(&self, writes: &[PlacedWrite<'_>]) -> Result<u64, NotWritten> {
        for write in writes {
            self.write_parts(write.offset, &write.parts, Durability::Buffered).await?;
        }
        Ok(0)
    }

    async fn settled_beyond(&self, _number: u64) -> u64 {
        pending().await
    }

    fn state(&self) -> StoreState {
        StoreState::default()
    }

    fn note_superblock(&self, _generation: u64, _state: StoreState) {}

    fn note_fill(&self, _fill: f64) {}

    fn keeps_turns(&self) -> bool {
        false
    }

    fn note_client_read(&self) {}

    fn note_readers(&self, _may_come: bool) {}

    fn note_more_comes(&self, _comes: bool) {}
}

impl<D: Device> JournalStore for Copies<D> {
    async fn init(&self, _volume: u64) -> Result<(), DeviceError> {
        Err(READ_ONLY)
    }

    async fn check_complete(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn resume(&self, _remembered: Remembered, _first_record: u64) -> Result<(), Error> {
        Ok(())
    }

    async fn append(&self, _: u64, _: &[u8], _: u64, _: Durability) -> Result<(), DeviceError> {
        Err(READ_ONLY)
    }

    async fn write_superblock(&self, _superblock: &Superblock) -> Result<(), DeviceError> {
        Err(READ_ONLY)
    }

    fn wants_checkpoint(&self) -> bool {
        false
    }

    fn copy_with(&self, _records: Weak<dyn LiveRecords>) {}
}
