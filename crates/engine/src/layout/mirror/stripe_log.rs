//! The stripe log: what stripes hold once what is under way is home, on the log devices.
//!
//! 1. A change is durable here before any shard of it is written. It stays until all members in sync have all of it durably,
//!    and a record or a superblock says so durably. Then whoever has come less far counts no more: it lacks nothing that is
//!    not known to lack something.
//! 2. After an opening, every record that counts is written home again, in order. Those that count are the newest, and all
//!    back to the oldest that was needed when it was written. No other change of the same bytes is newer than the last of
//!    them: writing them again gives every stripe one version. Before, all of them are on all copies that count: one that was
//!    under way when the power was cut may be on one alone, and a change that is half home must not go with it.
//! 3. An opening puts the records that count on every log device before one that lacked some counts: what it has of its own
//!    is older than the newest of them. It leaves a record that needs none before it, on all of them.
//! 4. A log device that is not there when records are written home again counts no more from then on, and that is durable
//!    before: it alone may have a newer one, to which these are settled.
//! 5. Records of changes that come together are one write. Where there is no room for one, [`StripeLog::append`] says so:
//!    room comes back by a flush of the members. Room for a record without changes is always kept, that says so.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};

use super::log_devices::{self, LogDeviceJournal, LogDeviceState, Witness};
use super::log_queue::Lane;
use crate::device::{Device, Durability, Extent};
use crate::env::Env;
use crate::error::{DeviceError, Error};
use crate::format::ring_head::Mark;
use crate::format::stripe_record::{ShardRange, StripeRecord};
use crate::format::stripes::Stripes;
use crate::format::{PAGE, PAGE_BYTES};
use crate::join;
use crate::layout::{LiveRecord, Replicated};
use crate::notify::Notify;
use crate::planted::{Bug, is_planted};
use crate::ring::EIO;
use crate::shared_step::SharedStep;
use crate::size_text::exact_size;

/// No space left on device, as in errno(3).
pub(super) const ENOSPC: i32 = 28;

/// What an opening reads of a copy at once.
const AHEAD_BYTES: u64 = 1 << 20;

/// So many times the bytes of the region are read of a copy as what follows heads of records, at most. Heads with bytes that are
/// not theirs are left where later records overwrote these: few of them, unless somebody put them there.
const BODIES_MAX: u64 = 8;

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, DeviceError>> + 'a>>;

/// Where the stripe log is.
pub trait StripeRegion: 'static {
    /// Bytes of it.
    fn size_bytes(&self) -> u64;

    /// Copies of it that count.
    fn copies(&self) -> Vec<usize>;

    /// Writes, durably, to all copies.
    fn write<'a>(&'a self, offset: u64, bytes: &'a [u8]) -> Answer<'a, ()>;

    /// Makes durable that those of its devices that are not there count no more.
    fn note_losses(&self) -> Answer<'_, ()>;

    /// Whether a device is there that may lack some of it, and does not count yet.
    fn is_behind_somewhere(&self) -> bool;

    /// Writes, durably, to each device that holds anything else there, also to those that do not count yet.
    fn repair<'a>(&'a self, offset: u64, bytes: &'a [u8]) -> Answer<'a, ()>;

    /// Reads from one copy.
    fn read<'a>(&'a self, copy: usize, offset: u64, into: &'a mut [u8]) -> Answer<'a, ()>;
}

/// A record whose room is not used again.
#[derive(Debug)]
struct Live {
    record: LiveRecord,
    /// The write of the ring that takes it home, once it has a number.
    write: Cell<Option<Mark>>,
}

impl Live {
    fn sequence(&self) -> u64 {
        self.record.sequence
    }

    fn is_home(&self, settled: Mark) -> bool {
        self.write.get().is_some_and(|write| write <= settled)
    }
}

/// A record, encoded, and where it goes.
struct Placed {
    offset: u64,
    bytes: Vec<u8>,
}

/// What a record is of.
pub(super) struct Entry<'a> {
    pub(super) stripe: u64,
    pub(super) ranges: &'a [ShardRange],
    /// The new bytes of these, one after the other.
    pub(super) body: &'a [u8],
}

impl Entry<'_> {
    /// Changes nothing.
    const NOTHING: Self = Self { stripe: 0, ranges: &[], body: &[] };
}

#[derive(Default)]
pub(crate) struct StripeLog {
    region: RefCell<Option<Rc<dyn StripeRegion>>>,
    volume: Cell<u64>,
    next: Cell<u64>,
    at: Cell<u64>,
    live: RefCell<VecDeque<Live>>,
    writes: SharedStep<Placed>,
    /// Why it takes no records any more, if so.
    failure: Cell<Option<DeviceError>>,
    /// A record was numbered, or room came back.
    changed: Notify,
}

/// A record that counts.
pub(crate) struct Logged {
    pub(crate) record: StripeRecord,
    /// Where its bytes begin, on each copy that has it.
    body_at: u64,
    /// The copies that have it, a bit each.
    copies: u64,
}

/// Nothing is logged after this is dropped, unless what was begun ended: what is under way then is to be the newest.
pub(super) struct Unended<'a>(&'a StripeLog);

impl Unended<'_> {
    /// What was begun ended.
    pub(super) fn end(self) {
        std::mem::forget(self);
    }
}

impl Drop for Unended<'_> {
    fn drop(&mut self) {
        let failed = DeviceError { doing: "write a change of a stripe to its end", errno: EIO };
        self.0.failure.set(self.0.failure.get().or(Some(failed)));
        self.0.changed.all();
    }
}

impl StripeLog {
    pub(crate) fn set_region(&self, region: Rc<dyn StripeRegion>) {
        self.region.replace(Some(region));
    }

    fn region(&self) -> Option<Rc<dyn StripeRegion>> {
        self.region.borrow().clone()
    }

    fn check_alive(&self) -> Result<(), DeviceError> {
        self.failure.get().map_or(Ok(()), Err)
    }

    /// Makes a change durable, once all members in sync have come as far as `settled`; answers the number of its record, or 0
    /// where there is no log yet as the volume is being made; `None` where there is no room now.
    pub(super) async fn append(&self, entry: Entry<'_>, settled: Mark) -> Result<Option<u64>, DeviceError> {
        let Some(region) = self.region().filter(|_| !is_planted(Bug::StripesUnlogged)) else {
            return Ok(Some(0));
        };
        let len = PAGE_BYTES + entry.body.len() as u64;
        if len + PAGE_BYTES > region.size_bytes() {
            return Err(DeviceError { doing: "log a change of a stripe", errno: ENOSPC });
        }
        let Some(offset) = self.place(region.size_bytes(), len, PAGE_BYTES) else { return Ok(None) };
        self.write(&*region, offset, entry, settled).await.map(Some)
    }

    async fn write(
        &self,
        region: &dyn StripeRegion,
        offset: u64,
        Entry { stripe, ranges, body }: Entry<'_>,
        settled: Mark,
    ) -> Result<u64, DeviceError> {
        let sequence = self.next_sequence();
        self.next.set(sequence + 1);
        let live = LiveRecord { sequence, offset, len: PAGE_BYTES + body.len() as u64 };
        self.live.borrow_mut().push_back(Live { record: live, write: Cell::default() });
        self.at.set(offset + live.len);
        let floor = self.live.borrow().iter().find(|live| !live.is_home(settled)).map(Live::sequence);
        let (volume, ranges, floor) = (self.volume.get(), ranges.to_vec(), floor.unwrap_or(sequence));
        let region_bytes = region.size_bytes();
        let record = StripeRecord {
            volume,
            sequence,
            floor,
            settled,
            region_bytes,
            offset: Some(offset),
            stripe,
            ranges,
            body_sum: 0,
            escaped: Vec::new(),
        };
        let placed = Placed { offset, bytes: record.encode(body) };
        let write_all = async |placed: Vec<Placed>| {
            let unended = self.unended();
            let failure = Cell::new(None);
            join::all(runs(placed).into_iter().map(|run| {
                let failure = &failure;
                async move {
                    if let Err(error) = region.write(run.offset, &run.bytes).await {
                        failure.set(Some(error));
                    }
                }
            }))
            .await;
            match failure.take() {
                None => unended.end(),
                Some(error) => self.failure.set(Some(error)),
            }
            self.check_alive()
        };
        // From now on another one may write it: who waits for that must not be given up.
        let unended = self.unended();
        self.writes.join(placed, || self.check_alive(), write_all).await?;
        unended.end();
        self.note_told(settled);
        Ok(sequence)
    }

    /// Where so many bytes lie that are behind the last ones, with `kept` more behind them, and overwrite none that are
    /// needed.
    fn place(&self, size_bytes: u64, len: u64, kept: u64) -> Option<u64> {
        let live = self.live.borrow();
        let at = self.at.get();
        let fits = |offset: u64, end: u64| offset.checked_add(len + kept).is_some_and(|to| to <= end);
        let (first, second) = match live.front().map(|live| live.record.offset) {
            None => ((at, size_bytes), (0, size_bytes)),
            Some(oldest) if oldest < at => ((at, size_bytes), (0, oldest)),
            Some(oldest) => ((at, oldest), (at, oldest)),
        };
        [first, second].into_iter().find(|&(offset, end)| fits(offset, end)).map(|(offset, _)| offset)
    }

    /// This write of the ring takes a record home.
    pub(super) fn note_write(&self, record: u64, write: Mark) {
        let write = if is_planted(Bug::StripesFreedEarly) { Mark::default() } else { write };
        let live = self.live.borrow();
        if let Some(live) = live.get(first_from(&live, record)).filter(|live| live.sequence() == record) {
            live.write.set(Some(write));
        }
        drop(live);
        self.changed.all();
    }

    /// Begins what no record may follow before it has ended.
    pub(super) fn unended(&self) -> Unended<'_> {
        Unended(self)
    }

    /// It is durable that all members in sync have come as far.
    pub(super) fn note_told(&self, settled: Mark) {
        let mut live = self.live.borrow_mut();
        while live.front().is_some_and(|live| live.is_home(settled)) {
            live.pop_front();
        }
    }

    /// The number of the record that comes next.
    pub(super) fn next_sequence(&self) -> u64 {
        self.next.get().max(1)
    }

    /// The number of the oldest record whose room is not used again.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.live.borrow().front().map(Live::sequence)
    }

    /// The first record from `sequence` on whose room is not used again.
    pub(super) fn first_live_from(&self, sequence: u64) -> Option<LiveRecord> {
        let live = self.live.borrow();
        live.get(first_from(&live, sequence)).map(|live| live.record)
    }

    /// Whether `bytes` are this record, whole.
    pub(super) fn is_record(&self, stripes: &Stripes, record: LiveRecord, bytes: &[u8]) -> bool {
        let Some((head, body)) = bytes.split_at_checked(PAGE) else { return false };
        StripeRecord::decode(head, stripes).is_some_and(|found| {
            (found.volume, found.sequence) == (self.volume.get(), record.sequence)
                && found.offset.is_none_or(|offset| offset == record.offset)
                && found.restore(&mut body.to_vec())
        })
    }

    /// Waits until the oldest record has a write that takes it home.
    pub(super) async fn oldest_is_numbered(&self) -> Result<(), DeviceError> {
        let is_numbered = || self.live.borrow().front().is_none_or(|live| live.write.get().is_some());
        let is_over = || (is_numbered() || self.failure.get().is_some()).then_some(());
        self.changed.until(is_over).await;
        self.check_alive()
    }

    /// Makes durable that all members in sync have come as far, where records need no more than that for their room.
    pub(super) async fn tell(&self, settled: Mark) -> Result<(), DeviceError> {
        let is_home = self.live.borrow().front().is_some_and(|live| live.is_home(settled));
        let Some(region) = self.region().filter(|_| is_home) else { return Ok(()) };
        let Some(offset) = self.place(region.size_bytes(), PAGE_BYTES, 0) else { return Ok(()) };
        let record = self.write(&*region, offset, Entry::NOTHING, settled).await?;
        self.note_write(record, settled);
        Ok(())
    }

    /// The records that count, in order. What is written from here on lies behind them. One copy has to be read whole: where
    /// the newest records cannot be, those before them do not count either.
    ///
    /// They stay until all members in sync say that they came as far as `replayed`.
    pub(crate) async fn scan(
        &self,
        volume: u64,
        stripes: &Stripes,
        replayed: Mark,
    ) -> Result<Vec<Logged>, Error> {
        self.volume.set(volume);
        let Some(region) = self.region() else { return Ok(Vec::new()) };
        let mut found: BTreeMap<u64, Logged> = BTreeMap::new();
        let mut whole = Err(DeviceError { doing: "read the log of stripes", errno: EIO });
        for copy in region.copies() {
            let (mut offset, mut failure) = (0, None);
            let mut left_bytes = region.size_bytes().saturating_mul(BODIES_MAX);
            let mut ahead = Ahead { region: &*region, copy, start: 0, bytes: Vec::new() };
            while offset < region.size_bytes() {
                let mut page = [0; PAGE];
                let at = offset;
                offset += PAGE_BYTES;
                if let Err(error) = ahead.read(at, &mut page).await {
                    failure = Some(error);
                    continue;
                }
                // One that lies elsewhere than where it was written lacks in its place, and what lay here is there on others.
                let is_here = |it: &StripeRecord| {
                    it.offset.is_none_or(|offset| offset == at) || is_planted(Bug::StripesTakeMisplaced)
                };
                if StripeRecord::is_newer(&page, volume) {
                    return Err(Error::Unusable(
                        "a newer version wrote its log of stripes: open it with that one".into(),
                    ));
                }
                let record = StripeRecord::decode(&page, stripes);
                let Some(record) = record.filter(|it| it.volume == volume && is_here(it)) else { continue };
                let end = offset.checked_add(record.body_bytes()).filter(|&end| end <= region.size_bytes());
                let Some(end) = end else { continue };
                let Some(left) = left_bytes.checked_sub(record.body_bytes()) else {
                    failure = Some(DeviceError { doing: "find records among what is none", errno: EIO });
                    break;
                };
                left_bytes = left;
                let (body_at, mut body) = (offset, vec![0; record.body_bytes() as usize]);
                if let Err(error) = ahead.read(offset, &mut body).await {
                    failure = Some(error);
                } else if record.restore(&mut body) {
                    if record.region_bytes != region.size_bytes() {
                        return Err(Error::Unusable(format!(
                            "its log of stripes was made with {}, and not with {}: put stripe_log_bytes back",
                            exact_size(record.region_bytes),
                            exact_size(region.size_bytes())
                        )));
                    }
                    offset = end;
                    let logged = found.entry(record.sequence);
                    logged.or_insert(Logged { record, body_at, copies: 0 }).copies |= 1 << copy;
                }
            }
            whole = whole.or(failure.map_or(Ok(()), Err));
        }
        if let Err(error) = whole
            && !is_planted(Bug::StripesReplayUnread)
        {
            // Those that all failed just now may be there at the next start.
            if region.copies().is_empty() {
                return Err(error.into());
            }
            return Err(Error::Unusable(format!(
                "its log of stripes cannot be read whole from any log device that is there: {error}, or bring back another one"
            )));
        }
        let Some((&newest, Logged { record, body_at, .. })) = found.last_key_value() else {
            self.next.set(1);
            return Ok(Vec::new());
        };
        let floor = if is_planted(Bug::StripesReplayOlder) { 0 } else { record.floor };
        self.next.set(newest + 1);
        self.at.set(body_at + record.body_bytes());
        self.live.borrow_mut().clear();
        let counting: Vec<Logged> = found.into_values().filter(|it| it.record.sequence >= floor).collect();
        let live = counting.iter().map(|Logged { record, body_at, .. }| Live {
            record: LiveRecord {
                sequence: record.sequence,
                offset: body_at - PAGE_BYTES,
                len: PAGE_BYTES + record.body_bytes(),
            },
            write: Cell::new(Some(replayed)),
        });
        self.live.borrow_mut().extend(live);
        Ok(counting)
    }

    /// Makes durable that a log device that is not there counts no more: it may have a record that says of older ones that they
    /// are settled, and these are about to be written once more.
    pub(super) async fn note_losses(&self) -> Result<(), DeviceError> {
        match self.region().filter(|_| !is_planted(Bug::StripesReplayedUntold)) {
            Some(region) => region.note_losses().await,
            None => Ok(()),
        }
    }

    /// Whether a log device is there that lacks some of it.
    pub(super) fn is_behind_somewhere(&self) -> bool {
        self.region().is_some_and(|region| region.is_behind_somewhere())
    }

    /// Whether a copy that counts lacks a record, or cannot be read there: it was under way when the power was cut, say.
    pub(super) fn is_lacking(&self, logged: &Logged) -> bool {
        let copies = self.copies();
        logged.copies & copies != copies && !is_planted(Bug::StripesReplayUnlevelled)
    }

    /// The copies that count, a bit each.
    pub(super) fn copies(&self) -> u64 {
        self.region().map_or(0, |region| region.copies().into_iter().fold(0, |bits, copy| bits | 1 << copy))
    }

    /// Puts a record on every device that is to count, and may lack it or hold another one there that is older.
    pub(super) async fn repair(
        &self,
        Logged { record, body_at, .. }: &Logged,
        body: &[u8],
    ) -> Result<(), DeviceError> {
        let Some(region) = self.region() else { return Ok(()) };
        region.repair(body_at - PAGE_BYTES, &record.encode(body)).await
    }

    /// The new bytes that a record has, from any copy that has them.
    pub(crate) async fn body(&self, Logged { record, body_at, .. }: &Logged) -> Result<Vec<u8>, DeviceError> {
        let mut failure = DeviceError { doing: "read the log of stripes", errno: EIO };
        let Some(region) = self.region() else { return Err(failure) };
        for copy in region.copies() {
            let mut body = vec![0; record.body_bytes() as usize];
            match region.read(copy, *body_at, &mut body).await {
                Ok(()) if record.restore(&mut body) => return Ok(body),
                Ok(()) => {}
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Leaves a record that needs none of earlier openings: all members in sync have come as far as `settled`, and say so.
    pub(super) async fn begin(&self, settled: Mark) -> Result<(), DeviceError> {
        let Some(region) = self.region() else { return Ok(()) };
        // A log device that is stale may hold records that were under way when it was lost: these are older, whatever
        // their number.
        self.next.set(self.next.get().saturating_add(region.size_bytes() / PAGE_BYTES));
        let full = DeviceError { doing: "begin the log of stripes", errno: ENOSPC };
        let offset = self.place(region.size_bytes(), PAGE_BYTES, 0).ok_or(full)?;
        let record = self.write(&*region, offset, Entry::NOTHING, settled).await?;
        self.note_write(record, settled);
        Ok(())
    }
}

/// Reads one copy from its begin to its end.
struct Ahead<'a> {
    region: &'a dyn StripeRegion,
    copy: usize,
    start: u64,
    bytes: Vec<u8>,
}

impl Ahead<'_> {
    /// Fills `into`: with what lies ahead, or by itself where that is longer, or cannot be read as a whole.
    async fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let holds =
            |start: u64, len: usize| start <= offset && offset - start + into.len() as u64 <= len as u64;
        if !holds(self.start, self.bytes.len()) {
            let len = self.region.size_bytes().saturating_sub(offset).min(AHEAD_BYTES);
            self.bytes.resize(len as usize, 0);
            self.start = offset;
            let is_held = holds(offset, self.bytes.len());
            if !is_held || self.region.read(self.copy, offset, &mut self.bytes).await.is_err() {
                self.bytes.clear();
                return self.region.read(self.copy, offset, into).await;
            }
        }
        into.copy_from_slice(&self.bytes[(offset - self.start) as usize..][..into.len()]);
        Ok(())
    }
}

/// Which of these, which are in order, is the first from `sequence` on.
fn first_from(live: &VecDeque<Live>, sequence: u64) -> usize {
    live.partition_point(|live| live.sequence() < sequence)
}

/// Records that follow one another, as one.
fn runs(placed: Vec<Placed>) -> Vec<Placed> {
    let mut runs: Vec<Placed> = Vec::new();
    for next in placed {
        match runs.last_mut() {
            Some(run) if run.offset + run.bytes.len() as u64 == next.offset => run.bytes.extend(next.bytes),
            _ => runs.push(next),
        }
    }
    runs
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
        Box::pin(async move {
            let offset = self.zone.offset + offset;
            self.logs()?.write_as(Lane::Stripes, offset, bytes, Durability::Durable).await
        })
    }

    fn note_losses(&self) -> Answer<'_, ()> {
        Box::pin(async move { self.logs()?.0.note_losses().await })
    }

    fn is_behind_somewhere(&self) -> bool {
        let is_stale = |(state, _): &(LogDeviceState, _)| *state == LogDeviceState::Stale;
        self.logs().is_ok_and(|logs| logs.states().iter().any(is_stale))
    }

    fn repair<'a>(&'a self, offset: u64, bytes: &'a [u8]) -> Answer<'a, ()> {
        Box::pin(async move { self.logs()?.repair(self.zone.offset + offset, bytes).await })
    }

    fn read<'a>(&'a self, copy: usize, offset: u64, into: &'a mut [u8]) -> Answer<'a, ()> {
        Box::pin(async move { self.logs()?.read_replica(copy, self.zone.offset + offset, into).await })
    }
}
