//! One drive: the pages are on it, and the journal is on it or on another.
//!
//! It has what was written to it, and nobody else has: nothing is remembered of it, told to it or repaired.

use std::future::pending;
use std::rc::Weak;

use super::{
    JournalStore, LiveRecords, NotWritten, PageStore, PlacedWrite, Remembered, Replicated, StoreState,
    StoreTraits, Verifier, superblock_write,
};
use crate::device::{Drive, Durability};
use crate::error::{DeviceError, Error};
use crate::format::superblock::Superblock;

impl<D: Drive> Replicated for D {
    fn replicas(&self) -> usize {
        1
    }

    fn has_replica(&self, _replica: usize) -> bool {
        true
    }

    fn is_scattered(&self) -> bool {
        false
    }

    async fn read_replica(&self, _replica: usize, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.read(offset, into).await
    }

    async fn replica_idle(&self, _replica: usize) {}

    async fn repair(&self, _offset: u64, _bytes: &[u8]) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl<D: Drive> PageStore for D {
    fn traits(&self) -> StoreTraits {
        StoreTraits {
            holds_superblocks: true,
            defers_writes: false,
            deferred_max_bytes: u64::MAX,
            is_replicated: false,
            unit_bytes: None,
        }
    }

    async fn init(&self, _volume: u64) -> Result<(), DeviceError> {
        Ok(())
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

    async fn enlarge(&self, size_bytes: u64) -> Result<(), Error> {
        Drive::enlarge(self, size_bytes).await
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

impl<D: Drive> JournalStore for D {
    async fn init(&self, _volume: u64) -> Result<(), DeviceError> {
        Ok(())
    }

    async fn check_complete(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn resume(&self, _remembered: Remembered, _first_record: u64) -> Result<(), Error> {
        Ok(())
    }

    async fn append(
        &self,
        offset: u64,
        bytes: &[u8],
        _sequence: u64,
        durability: Durability,
    ) -> Result<(), DeviceError> {
        self.write(offset, bytes, durability).await
    }

    async fn write_superblock(&self, superblock: &Superblock) -> Result<(), DeviceError> {
        let (offset, durability) = superblock_write(superblock);
        self.write(offset, &superblock.encode(), durability).await
    }

    fn wants_checkpoint(&self) -> bool {
        false
    }

    fn copy_with(&self, _records: Weak<dyn LiveRecords>) {}
}
