//! The stripe log: what stripes hold once what is under way is home, on the log devices.
//!
//! 1. A change is durable here before any shard of it is written, and stays until all of it is home and durable, and a
//!    superblock says who lacks it of those that the one before has in sync.
//! 2. After an opening, every record that counts is written home again, in order. Those that count are the newest, and all
//!    back to the oldest that was needed when it was written. No other change of the same bytes is newer than the last of
//!    them: writing them again gives every stripe one version.
//! 3. An opening leaves a record that needs none of earlier openings on every log device that takes part from then on: what one
//!    of them has of those, which may lack records, counts no more. What is still needed is written once more before.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};

use super::log_devices::{self, LogDeviceJournal, Witness};
use crate::device::{Device, Durability, Extent};
use crate::env::Env;
use crate::error::DeviceError;
use crate::format::stripe_record::{ShardRange, StripeRecord};
use crate::format::stripes::Stripes;
use crate::format::{PAGE, PAGE_BYTES};
use crate::layout::Replicated;
use crate::planted::{Bug, is_planted};

use crate::ring::EIO;

/// No space left on device, as in errno(3).
const ENOSPC: i32 = 28;

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, DeviceError>> + 'a>>;

/// Where the stripe log is.
pub trait StripeRegion: 'static {
    /// Bytes of it.
    fn size_bytes(&self) -> u64;

    /// Copies of it that count.
    fn copies(&self) -> Vec<usize>;

    /// Writes, durably, to all copies.
    fn write<'a>(&'a self, offset: u64, bytes: &'a [u8]) -> Answer<'a, ()>;

    /// Reads from one copy.
    fn read<'a>(&'a self, copy: usize, offset: u64, into: &'a mut [u8]) -> Answer<'a, ()>;
}

/// A record whose room is not used again.
#[derive(Debug)]
struct Live {
    sequence: u64,
    offset: u64,
    /// The write of the ring that takes it home, once it has a number.
    write: Cell<Option<u64>>,
}

#[derive(Default)]
pub(super) struct StripeLog {
    region: RefCell<Option<Rc<dyn StripeRegion>>>,
    next: Cell<u64>,
    at: Cell<u64>,
    live: RefCell<VecDeque<Live>>,
    /// What an opening found, until it has begun.
    found: RefCell<Vec<Found>>,
}

/// A record and its bytes.
pub(super) type Found = (StripeRecord, Vec<u8>);

impl StripeLog {
    pub(super) fn set_region(&self, region: Rc<dyn StripeRegion>) {
        self.region.replace(Some(region));
    }

    fn region(&self) -> Option<Rc<dyn StripeRegion>> {
        self.region.borrow().clone()
    }

    /// Makes a change durable; answers the number of its record, or 0 where there is no log yet as the volume is being made.
    pub(super) async fn append(
        &self,
        volume: u64,
        stripe: u64,
        ranges: Vec<ShardRange>,
        body: &[u8],
    ) -> Result<u64, DeviceError> {
        let Some(region) = self.region().filter(|_| !is_planted(Bug::StripesUnlogged)) else { return Ok(0) };
        let len = PAGE_BYTES + body.len() as u64;
        let sequence = self.next.get().max(1);
        let offset = self.place(region.size_bytes(), len)?;
        self.next.set(sequence + 1);
        self.live.borrow_mut().push_back(Live { sequence, offset, write: Cell::default() });
        self.at.set(offset + len);
        let floor = self.live.borrow().front().map_or(sequence, |live| live.sequence);
        let record = StripeRecord { volume, sequence, floor, stripe, ranges, body_sum: 0 };
        region.write(offset, &record.encode(body)).await?;
        Ok(sequence)
    }

    /// Where so many bytes lie that are behind the last ones, and overwrite none that are needed.
    fn place(&self, size_bytes: u64, len: u64) -> Result<u64, DeviceError> {
        let full = DeviceError { doing: "log a change of a stripe", errno: ENOSPC };
        let live = self.live.borrow();
        let (at, oldest) = (self.at.get(), live.front().map(|live| live.offset));
        let fits = |offset: u64, end: u64| offset.checked_add(len).is_some_and(|to| to <= end);
        match oldest {
            None if fits(at, size_bytes) => Ok(at),
            None if fits(0, size_bytes) => Ok(0),
            Some(oldest) if oldest < at && fits(at, size_bytes) => Ok(at),
            // Not up to the oldest: the end never meets it.
            Some(oldest) if oldest < at && fits(0, oldest.saturating_sub(1)) => Ok(0),
            Some(oldest) if oldest >= at && fits(at, oldest.saturating_sub(1)) => Ok(at),
            _ => Err(full),
        }
    }

    /// This write of the ring takes a record home.
    pub(super) fn note_write(&self, record: u64, write: u64) {
        let write = if is_planted(Bug::StripesFreedEarly) { 0 } else { write };
        if let Some(live) = self.live.borrow().iter().find(|live| live.sequence == record) {
            live.write.set(Some(write));
        }
    }

    /// Everything up to this write is home and durable.
    pub(super) fn note_flushed(&self, through: u64) {
        let mut live = self.live.borrow_mut();
        while live.front().is_some_and(|live| live.write.get().is_some_and(|write| write <= through)) {
            live.pop_front();
        }
    }

    /// The records that count, in order. What is written from here on lies behind them. One copy has to be read whole: where
    /// the newest records cannot be, those before them do not count either.
    pub(super) async fn scan(&self, volume: u64, stripes: &Stripes) -> Result<Vec<Found>, DeviceError> {
        let Some(region) = self.region() else { return Ok(Vec::new()) };
        let mut found: BTreeMap<u64, (u64, Found)> = BTreeMap::new();
        let mut whole = Err(DeviceError { doing: "read the log of stripes", errno: EIO });
        for copy in region.copies() {
            let (mut offset, mut failure) = (0, None);
            while offset < region.size_bytes() {
                let mut page = [0; PAGE];
                let at = offset;
                offset += PAGE_BYTES;
                if let Err(error) = region.read(copy, at, &mut page).await {
                    failure = Some(error);
                    continue;
                }
                let Some(record) = StripeRecord::decode(&page, stripes).filter(|it| it.volume == volume)
                else {
                    continue;
                };
                let end = offset.checked_add(record.body_bytes()).filter(|&end| end <= region.size_bytes());
                let Some(end) = end else { continue };
                let mut body = vec![0; record.body_bytes() as usize];
                if let Err(error) = region.read(copy, offset, &mut body).await {
                    failure = Some(error);
                } else if record.is_body(&body) {
                    offset = end;
                    found.insert(record.sequence, (end, (record, body)));
                }
            }
            whole = whole.or(failure.map_or(Ok(()), Err));
        }
        whole.or_else(|error| if is_planted(Bug::StripesReplayUnread) { Ok(()) } else { Err(error) })?;
        let Some((&newest, (end, (record, _)))) = found.last_key_value() else {
            self.next.set(1);
            return Ok(Vec::new());
        };
        let floor = if is_planted(Bug::StripesReplayOlder) { 0 } else { record.floor };
        self.next.set(newest + 1);
        self.at.set(*end);
        let mut counting = Vec::new();
        for (end, (record, body)) in found.into_values().filter(|(_, (record, _))| record.sequence >= floor) {
            let offset = end - PAGE_BYTES - body.len() as u64;
            let live = Live { sequence: record.sequence, offset, write: Cell::new(Some(0)) };
            self.live.borrow_mut().push_back(live);
            counting.push((record, body));
        }
        Ok(counting)
    }

    /// The records that count, for as long as the opening may have to write them once more.
    pub(super) fn keep(&self, found: Vec<Found>) {
        self.found.replace(found);
    }

    /// Leaves a record that needs none of earlier openings; what `is_needed` of these is written once more.
    pub(super) async fn begin(&self, volume: u64, is_needed: bool) -> Result<(), DeviceError> {
        // A log device that is stale may hold records that were under way when it was lost: these are older, whatever
        // their number.
        let most = self.region().map_or(0, |region| region.size_bytes() / PAGE_BYTES);
        self.next.set(self.next.get().saturating_add(most));
        let earlier = self.live.borrow().len();
        for (record, body) in self.found.take().into_iter().filter(|_| is_needed) {
            let again = self.append(volume, record.stripe, record.ranges, &body).await?;
            self.note_write(again, 0);
        }
        self.live.borrow_mut().drain(..earlier);
        let record = self.append(volume, 0, Vec::new(), &[]).await?;
        self.note_write(record, 0);
        if !is_needed {
            self.note_flushed(0);
        }
        Ok(())
    }
}

/// A zone of the log devices, behind the journal, for as long as they are there.
pub struct RegionOfLog<E, L, W> {
    logs: Weak<log_devices::Inner<E, L, W>>,
    zone: Extent,
}

impl<E: Env, L: Device, W: Witness> RegionOfLog<E, L, W> {
    /// This zone.
    pub fn new(logs: &LogDeviceJournal<E, L, W>, zone: Extent) -> Self {
        Self { logs: Rc::downgrade(&logs.0), zone }
    }

    fn logs(&self) -> Result<LogDeviceJournal<E, L, W>, DeviceError> {
        let logs = self.logs.upgrade().ok_or(DeviceError { doing: "reach the log devices", errno: EIO })?;
        Ok(LogDeviceJournal(logs))
    }
}

impl<E: Env, L: Device, W: Witness> StripeRegion for RegionOfLog<E, L, W> {
    fn size_bytes(&self) -> u64 {
        self.zone.len
    }

    fn copies(&self) -> Vec<usize> {
        let Ok(logs) = self.logs() else { return Vec::new() };
        (0..logs.replicas()).filter(|&copy| logs.has_replica(copy)).collect()
    }

    fn write<'a>(&'a self, offset: u64, bytes: &'a [u8]) -> Answer<'a, ()> {
        Box::pin(
            async move { self.logs()?.write(self.zone.offset + offset, bytes, Durability::Durable).await },
        )
    }

    fn read<'a>(&'a self, copy: usize, offset: u64, into: &'a mut [u8]) -> Answer<'a, ()> {
        Box::pin(async move { self.logs()?.read_replica(copy, self.zone.offset + offset, into).await })
    }
}
