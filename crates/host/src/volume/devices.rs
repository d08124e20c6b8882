//! What lies below a volume here: one drive, or the members of a mirror.
//!
//! Whether a volume is a mirror is known only as it is opened, so that its page store and its journal store are one kind
//! or the other. The traits that they delegate have no defaults that one kind could miss, but for the words of
//! [`Device`] that are spelled out here.

use std::rc::{Rc, Weak};

use evenkeel_engine::device::{Device, Durability, Extent, FlushScope, Geometry};
use evenkeel_engine::error::{DeviceError, Error};
use evenkeel_engine::format::superblock::Superblock;
use evenkeel_engine::layout::{
    JournalStore, LiveRecords, NotWritten, PageStore, PlacedWrite, Remembered, Replicated, StoreState,
    StoreTraits, Verifier,
};

use super::member::MemberDrive;
use super::mirror::{LogDevices, MemberRing};

/// Where a volume's pages are. A clone is another handle to the same.
#[derive(Debug, Clone)]
pub enum AnyPages {
    /// On one drive.
    Drive(Rc<MemberDrive>),
    /// On all members of a mirror.
    Ring(MemberRing),
}

/// Where its journal is.
#[derive(Debug)]
pub enum AnyJournal {
    /// On one drive, which may have the pages too.
    Drive(Rc<MemberDrive>),
    /// With a mirror.
    Mirror(LogDevices),
}

macro_rules! of_home {
    ($home:ident, $it:ident => $call:expr) => {
        match $home {
            AnyPages::Drive($it) => {
                let $it = &**$it;
                $call
            }
            AnyPages::Ring($it) => $call,
        }
    };
}

macro_rules! of_log {
    ($log:ident, $it:ident => $call:expr) => {
        match $log {
            AnyJournal::Drive($it) => {
                let $it = &**$it;
                $call
            }
            AnyJournal::Mirror($it) => $call,
        }
    };
}

/// A device and its replicas, whichever kind it is.
macro_rules! delegate_device {
    ($kind:ident, $of:ident) => {
        impl Device for $kind {
            fn geometry(&self) -> Geometry {
                $of!(self, it => it.geometry())
            }

            async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
                $of!(self, it => it.read(offset, into).await)
            }

            async fn read_cached(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
                $of!(self, it => it.read_cached(offset, into).await)
            }

            fn try_read_cached(&self, offset: u64, into: &mut [u8]) -> usize {
                $of!(self, it => it.try_read_cached(offset, into))
            }

            fn try_read_kept(&self, offset: u64, into: &mut [u8]) -> usize {
                $of!(self, it => it.try_read_kept(offset, into))
            }

            fn give_up_kept(&self, extent: Extent) {
                $of!(self, it => it.give_up_kept(extent))
            }

            async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), DeviceError> {
                $of!(self, it => it.write(offset, bytes, durability).await)
            }

            async fn write_parts(
                &self,
                offset: u64,
                parts: &[&[u8]],
                durability: Durability,
            ) -> Result<(), DeviceError> {
                $of!(self, it => it.write_parts(offset, parts, durability).await)
            }

            async fn flush(&self, scope: FlushScope<'_>) -> Result<(), DeviceError> {
                $of!(self, it => it.flush(scope).await)
            }

            async fn discard(&self, extent: Extent) -> Result<(), DeviceError> {
                $of!(self, it => it.discard(extent).await)
            }

            async fn write_zeroes(&self, extent: Extent, durability: Durability) -> Result<(), DeviceError> {
                $of!(self, it => it.write_zeroes(extent, durability).await)
            }
        }

        impl Replicated for $kind {
            fn replicas(&self) -> usize {
                $of!(self, it => it.replicas())
            }

            fn has_replica(&self, replica: usize) -> bool {
                $of!(self, it => it.has_replica(replica))
            }

            fn is_scattered(&self) -> bool {
                $of!(self, it => it.is_scattered())
            }

            async fn read_replica(
                &self,
                replica: usize,
                offset: u64,
                into: &mut [u8],
            ) -> Result<(), DeviceError> {
                $of!(self, it => it.read_replica(replica, offset, into).await)
            }

            async fn replica_idle(&self, replica: usize) {
                $of!(self, it => it.replica_idle(replica).await);
            }

            async fn repair(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
                $of!(self, it => it.repair(offset, bytes).await)
            }
        }
    };
}

delegate_device!(AnyPages, of_home);
delegate_device!(AnyJournal, of_log);

impl PageStore for AnyPages {
    fn traits(&self) -> StoreTraits {
        of_home!(self, it => it.traits())
    }

    async fn init(&self, volume: u64) -> Result<(), DeviceError> {
        of_home!(self, it => PageStore::init(it, volume).await)
    }

    async fn resume(&self, remembered: Remembered, epoch: u64) -> Result<(), Error> {
        of_home!(self, it => PageStore::resume(it, remembered, epoch).await)
    }

    async fn begin(&self) -> Result<(), DeviceError> {
        of_home!(self, it => it.begin().await)
    }

    async fn end(&self, last: Option<&Superblock>) -> Result<(), DeviceError> {
        of_home!(self, it => it.end(last).await)
    }

    async fn enlarge(&self, size_bytes: u64) -> Result<(), Error> {
        of_home!(self, it => PageStore::enlarge(it, size_bytes).await)
    }

    fn verify_with(&self, verifier: Weak<dyn Verifier>) {
        of_home!(self, it => it.verify_with(verifier));
    }

    async fn write_numbered(&self, writes: &[PlacedWrite<'_>]) -> Result<u64, NotWritten> {
        of_home!(self, it => it.write_numbered(writes).await)
    }

    async fn settled_beyond(&self, number: u64) -> u64 {
        of_home!(self, it => it.settled_beyond(number).await)
    }

    fn state(&self) -> StoreState {
        of_home!(self, it => it.state())
    }

    fn note_superblock(&self, generation: u64, state: StoreState) {
        of_home!(self, it => it.note_superblock(generation, state));
    }

    fn note_fill(&self, fill: f64) {
        of_home!(self, it => it.note_fill(fill));
    }

    fn keeps_turns(&self) -> bool {
        of_home!(self, it => it.keeps_turns())
    }

    fn note_client_read(&self) {
        of_home!(self, it => it.note_client_read());
    }

    fn note_readers(&self, may_come: bool) {
        of_home!(self, it => it.note_readers(may_come));
    }

    fn note_more_comes(&self, comes: bool) {
        of_home!(self, it => it.note_more_comes(comes));
    }
}

impl JournalStore for AnyJournal {
    async fn init(&self, volume: u64) -> Result<(), DeviceError> {
        of_log!(self, it => JournalStore::init(it, volume).await)
    }

    async fn check_complete(&self) -> Result<(), Error> {
        of_log!(self, it => it.check_complete().await)
    }

    async fn resume(&self, remembered: Remembered, first_record: u64) -> Result<(), Error> {
        of_log!(self, it => JournalStore::resume(it, remembered, first_record).await)
    }

    async fn append(
        &self,
        offset: u64,
        bytes: &[u8],
        sequence: u64,
        durability: Durability,
    ) -> Result<(), DeviceError> {
        of_log!(self, it => it.append(offset, bytes, sequence, durability).await)
    }

    async fn write_superblock(&self, superblock: &Superblock) -> Result<(), DeviceError> {
        of_log!(self, it => it.write_superblock(superblock).await)
    }

    fn wants_checkpoint(&self) -> bool {
        of_log!(self, it => it.wants_checkpoint())
    }

    fn copy_with(&self, records: Weak<dyn LiveRecords>) {
        of_log!(self, it => it.copy_with(records));
    }
}
