//! A log device takes another's place while the volume is served, whether that one failed or not.
//!
//! 1. The new one says of itself that it holds nothing. From its begin on it is given whatever the others are, and what they
//!    held by then is copied to it: both superblocks, and the records from the tail on, of the journal and of the stripe log.
//!    Each is compared with its sum, and taken from a device that has it right.
//! 2. It counts once all of that is there and durable, and its head says so. From then on it is one of those that nothing is
//!    acknowledged without. The old one, if it takes part, counts until the volume's description names the new one; then
//!    it is noted as lost, with the others and the [`Witness`]. So a cut leaves the devices as they were, or the new one in
//!    the place, and never fewer that have everything. Whichever of both is not taken does not count later: it is known as
//!    lost, or, after a cut, for older than the members know the log to be.
//! 3. A record is not copied once the tail has passed it, and nothing is written into the room of one that is being copied.
//! 4. What the new one held before is older than what it is given. Of a journal the superblock says where its records begin.
//!    The stripe log is given a record ([`LiveRecords::durable_by_now`]) before anything is copied, and one behind that: it
//!    needs none of those that were not.
//! 5. It takes the place once it has answered whatever it was given, while nothing else is begun.
//! 6. Where the new one fails, it is given up, and nobody is the worse for it.

use std::cell::Cell;
use std::fmt;
use std::rc::{Rc, Weak};

use super::log_devices::{Inner, LogDeviceJournal, LogDeviceState, Witness, found_log, read_log_head};
use crate::device::{Device, Durability, Extent, FlushScope};
use crate::env::Env;
use crate::error::{DeviceError, Error};
use crate::events::Event;
use crate::format::PAGE;
use crate::format::layout::{LOG_COPIES, log_copy_offset};
use crate::format::log_head::{DATA_OFFSET, LogHead};
use crate::format::superblock::Superblock;
use crate::join;
use crate::layout::{LiveRecord, LiveRecords, Replicated};
use crate::notify::Notify;
use crate::planted::{Bug, is_planted};

/// Bytes that are copied at once, beyond the first record.
const PIECE_BYTES: u64 = 256 << 10;

/// How long a record that no device gives as it was written rests before it is tried again: the tail may pass it meanwhile.
const PAUSE_NS: u64 = 100_000_000;

/// How often.
const TRIES: usize = 600;

/// A device that is to take another's place.
pub(super) struct Joining<L> {
    pub(super) place: usize,
    pub(super) device: Rc<L>,
    pub(super) head: Cell<Option<LogHead>>,
    /// Whether it counts beside the one whose place it is to take.
    pub(super) counts: Cell<bool>,
    /// Why it does not take the place, if so.
    failure: Cell<Option<DeviceError>>,
    /// What is being copied to it now.
    copied: Cell<Option<Extent>>,
    /// Whether it is about to take the place: nothing is begun until it has, or is given up.
    is_closing: Cell<bool>,
    /// What the others were given, too, and it has not answered.
    under_way: Cell<usize>,
    /// Records that need not be copied any more, and that had to.
    done_records: Cell<u64>,
    records: Cell<u64>,
}

impl<L> Joining<L> {
    /// Whether this is the device.
    pub(super) fn is(&self, device: &Rc<L>) -> bool {
        Rc::ptr_eq(&self.device, device)
    }

    /// Whether something is being copied there.
    pub(super) fn is_copied(&self, extent: Option<Extent>) -> bool {
        extent.is_some_and(|extent| self.copied.get().is_some_and(|copied| copied.overlaps(&extent)))
    }

    /// Whether it is about to take the place.
    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.get()
    }

    /// It is given something, and has not answered before this is dropped.
    pub(super) fn begin<'a>(&'a self, changed: &'a Notify) -> UnderWay<'a> {
        self.under_way.set(self.under_way.get() + 1);
        UnderWay { under_way: &self.under_way, changed }
    }

    fn check(&self) -> Result<(), DeviceError> {
        self.failure.get().map_or(Ok(()), Err)
    }
}

/// Something that a device was given.
pub(super) struct UnderWay<'a> {
    under_way: &'a Cell<usize>,
    changed: &'a Notify,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.under_way.set(self.under_way.get() - 1);
        self.changed.all();
    }
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogCopyStatus {
    /// The place that is to be taken.
    pub place: usize,
    /// Records that are there, or need not be any more.
    pub done_records: u64,
    /// And that had to be when it began.
    pub records: u64,
}

/// A device that is about to be copied to, and is given what the others are. Dropped, it is given up.
pub struct LogCopy<E: Env, L: Device, W: Witness> {
    logs: LogDeviceJournal<E, L, W>,
    joining: Rc<Joining<L>>,
}

/// What is copied of one log.
struct Part {
    /// Which of those that know what counts.
    log: usize,
    /// The first that was there.
    first: u64,
    /// The first that the new device was given as the others were, or a later one.
    end: u64,
}

impl Part {
    /// Records from `next` on that lie one behind another: some, unless none has to be copied any more.
    fn piece_from(&self, next: u64, records: &dyn LiveRecords) -> Vec<LiveRecord> {
        let (mut piece, mut next): (Vec<LiveRecord>, u64) = (Vec::new(), next);
        while let Some(record) = records.first_from(next).filter(|record| record.sequence < self.end) {
            if let (Some(first), Some(last)) = (piece.first(), piece.last()) {
                let is_next = record.offset == last.offset + last.len;
                if !is_next || record.offset + record.len - first.offset > PIECE_BYTES {
                    break;
                }
            }
            piece.push(record);
            next = record.sequence + 1;
        }
        piece
    }
}

impl<E: Env, L: Device, W: Witness> fmt::Debug for LogCopy<E, L, W> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("LogCopy").field("place", &self.joining.place).finish_non_exhaustive()
    }
}

impl<E: Env, L: Device, W: Witness> Drop for LogCopy<E, L, W> {
    fn drop(&mut self) {
        let given_up = DeviceError { doing: "be given up", errno: crate::ring::EIO };
        self.logs.0.fail_joining(&self.joining.device, given_up);
    }
}

impl<E: Env, L: Device, W: Witness> LogDeviceJournal<E, L, W> {
    /// Begins to put another device in the place of one. Where it is the same, that one [takes no part](Self::fail) any more.
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`] where there is no such place, the device does not fit, or another one is under way; those of the
    /// devices.
    pub async fn replace(&self, place: usize, device: L) -> Result<LogCopy<E, L, W>, Error> {
        let inner = &*self.0;
        inner.check_joins(place, &device)?;
        // Its head says nothing from here on: whoever was there must be known as lost by then, if it is.
        inner.losses_noted().await?;
        let places = inner.members.len();
        let founding = found_log(&device, inner.volume.get(), place as u16, places as u16);
        inner.limited(founding).await?;
        let head = inner.limited(async { Ok(read_log_head(&device).await) }).await?;
        inner.check_joins(place, &device)?;
        let joining = Rc::new(Joining {
            place,
            device: Rc::new(device),
            head: Cell::new(head),
            counts: Cell::default(),
            failure: Cell::default(),
            copied: Cell::default(),
            is_closing: Cell::default(),
            under_way: Cell::default(),
            done_records: Cell::default(),
            records: Cell::new(1),
        });
        inner.joining.replace(Some(Rc::clone(&joining)));
        inner.events.note(Event::LogCopyBegun { place });
        Ok(LogCopy { logs: self.clone(), joining })
    }

    /// Who can tell which records of the stripe log count, from now on.
    pub(super) fn copy_stripes_with(&self, records: Rc<dyn LiveRecords>) {
        self.0.stripes.replace(Some(records));
    }

    /// How far a device is that is copied to, if there is one.
    pub fn copying(&self) -> Option<LogCopyStatus> {
        let joining = self.0.joining.borrow();
        joining.as_ref().map(|joining| LogCopyStatus {
            place: joining.place,
            done_records: joining.done_records.get(),
            records: joining.records.get(),
        })
    }

    /// Gives up the device that is copied to, if there is one.
    pub fn stop_copying(&self, error: DeviceError) {
        let joining = self.0.joining.borrow().clone();
        if let Some(joining) = joining {
            self.0.fail_joining(&joining.device, error);
        }
    }
}

impl<E: Env, L: Device, W: Witness> Inner<E, L, W> {
    /// That a device may begin to take this place.
    fn check_joins(&self, place: usize, device: &L) -> Result<(), Error> {
        let unusable = |why: &str| Err(Error::Unusable(why.to_owned()));
        if place >= self.members.len() {
            return unusable("the volume has no such log device");
        }
        if !self.resumed.get() {
            return unusable("the volume is not open yet");
        }
        if self.joining.borrow().is_some() {
            return unusable("another log device is being replaced: try again once that has ended");
        }
        let (geometry, needed) = (device.geometry(), self.geometry);
        let room_end = self.logs_that_count()?.iter().map(|records| records.room_end()).max();
        if geometry.size_bytes < room_end.unwrap_or(0).saturating_add(DATA_OFFSET) {
            return unusable("the new log device is smaller than the log");
        }
        if geometry.sector_bytes > needed.sector_bytes || needed.atomic_sectors && !geometry.atomic_sectors {
            return unusable("the new log device promises less of its sectors than the others do");
        }
        Ok(self.check_alive()?)
    }

    /// Who knows which records count, while the volume is open: of the journal, and of the stripe log where there is one.
    fn logs_that_count(&self) -> Result<Vec<Rc<dyn LiveRecords>>, Error> {
        let journal = self.records.borrow().as_ref().and_then(Weak::upgrade);
        let journal = journal.ok_or_else(|| Error::Unusable("the volume is not open".to_owned()))?;
        let stripes = self.stripes.borrow().clone().filter(|_| !is_planted(Bug::StripesLogNotCopied));
        Ok([journal].into_iter().chain(stripes).collect())
    }

    /// A device that is copied to does not take the place; whether it is one. Where it counts by now, that is a loss.
    pub(super) fn fail_joining(&self, device: &Rc<L>, error: DeviceError) {
        let joining = self.joining.borrow_mut().take_if(|joining| joining.is(device));
        if let Some(joining) = joining {
            joining.failure.set(Some(error));
            if joining.counts.get() {
                self.note_loss();
            }
            self.changed.all();
        }
    }
}

impl<E: Env, L: Device, W: Witness> LogCopy<E, L, W> {
    /// Copies what the others hold, at most so many bytes in a second, until the device has its place. `name` is called when
    /// it counts beside the one before; where it has the volume known by the new one from then on, the old one is given up,
    /// else the new one is.
    ///
    /// # Errors
    ///
    /// Why the device does not take the place: that of `name`, of the device, or of the others where a record cannot be read.
    pub async fn complete(
        self,
        bytes_per_s: u64,
        name: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (inner, place) = (&*self.logs.0, self.joining.place);
        let copied = self.copy(bytes_per_s).await;
        let counts = match copied {
            Ok(()) => self.count().await,
            Err(error) => Err(error),
        };
        // Nobody else comes in between: it is named, and has the place.
        let named = counts.and_then(|()| Ok(self.joining.check()?)).and_then(|()| name());
        let taken = match named {
            Ok(()) => {
                self.take_place();
                Ok(inner.losses_noted().await?)
            }
            Err(error) => {
                let given_up = DeviceError { doing: "take the place", errno: crate::ring::EIO };
                inner.fail_joining(&self.joining.device, given_up);
                let _the_volume_says_so = inner.losses_noted().await;
                Err(error)
            }
        };
        inner.events.note(match &taken {
            Ok(()) => Event::LogCopyEnded { place },
            Err(error) => Event::LogCopyFailed { place, error: error.clone() },
        });
        taken
    }

    /// Copies what was there when it began, and makes that durable.
    async fn copy(&self, bytes_per_s: u64) -> Result<(), Error> {
        let (inner, mut parts) = (&*self.logs.0, Vec::new());
        for (log, records) in inner.logs_that_count()?.iter().enumerate() {
            // What was under way when it began went past the new one.
            let end = self.durable_by_now(records).await?;
            let first = records.first_from(0).map_or(end, |record| record.sequence.min(end));
            parts.push(Part { log, first, end });
        }
        self.joining.records.set(parts.iter().map(|part| part.end - part.first).sum());
        for copy in 0..LOG_COPIES {
            self.copy_superblock(log_copy_offset(copy)).await?;
        }
        if !is_planted(Bug::LogCopyCountsEarly) {
            let mut pace = Pace { began_ns: inner.env.now_ns(), bytes_per_s, copied_bytes: 0 };
            for part in &parts {
                self.copy_records(part, &mut pace).await?;
            }
        }
        // What a superblock made unnecessary before it was copied is not there: what comes behind all of it needs it no more.
        for records in inner.logs_that_count()?.iter().filter(|_| !is_planted(Bug::StripesLogCopyUnclosed)) {
            self.durable_by_now(records).await?;
        }
        if !is_planted(Bug::LogCopyUnflushed) {
            inner.limited(self.joining.device.flush(FlushScope::Whole)).await?;
        }
        Ok(self.joining.check()?)
    }

    /// As [`LiveRecords::durable_by_now`], unless the device is given up before.
    async fn durable_by_now(&self, records: &Rc<dyn LiveRecords>) -> Result<u64, Error> {
        let given_up = self.logs.0.changed.until(|| self.joining.failure.get().map(drop));
        let durable = join::first(records.durable_by_now(), given_up).await;
        self.joining.check()?;
        durable.expect("it is not given up")
    }

    /// Has nothing begun from now on, waits for what is under way, and has its head say that it counts.
    async fn count(&self) -> Result<(), Error> {
        let (inner, joining) = (&*self.logs.0, &self.joining);
        joining.is_closing.set(!is_planted(Bug::StripesLogCopyUnanswered));
        let is_over = || joining.under_way.get() == 0 || joining.failure.get().is_some();
        if joining.is_closing() {
            inner.changed.until(|| is_over().then_some(())).await;
        }
        joining.check()?;
        inner.count(joining).await?;
        Ok(joining.check()?)
    }

    /// It has the place, and whoever had it is lost for good.
    fn take_place(&self) {
        let (inner, joining) = (&*self.logs.0, &self.joining);
        let member = &inner.members[joining.place];
        member.device.replace(Some(Rc::clone(&joining.device)));
        member.head.set(joining.head.get());
        member.failure.set(None);
        member.state.set(LogDeviceState::InSync);
        inner.joining.take();
        if !is_planted(Bug::LogCopyOldCounts) {
            inner.note_loss();
        }
        inner.changed.all();
    }

    /// Copies the superblock at this place, the newest that a device holds there; zeros, where none holds one.
    async fn copy_superblock(&self, offset: u64) -> Result<(), Error> {
        let inner = &*self.logs.0;
        loop {
            let is_idle = || (inner.superblocks_ended.get() == inner.superblocks_begun.get()).then_some(());
            inner.changed.until(is_idle).await;
            let begun = inner.superblocks_begun.get();
            let mut newest: Option<Superblock> = None;
            for copy in self.sources() {
                let mut page = [0; PAGE];
                let read = self.logs.read_replica(copy, offset, &mut page).await;
                let found = Superblock::decode(&page).filter(|found| read.is_ok() && self.is_ours(found));
                if found.is_some_and(|found| newest.is_none_or(|it| it.generation < found.generation)) {
                    newest = found;
                }
            }
            // One that was begun meanwhile goes to the new device, too, and may be there by now.
            if inner.superblocks_begun.get() != begun {
                continue;
            }
            let page = newest.map_or([0; PAGE], |superblock| superblock.encode());
            return self.write(offset, &page).await;
        }
    }

    fn is_ours(&self, superblock: &Superblock) -> bool {
        superblock.volume == self.logs.0.volume.get()
    }

    /// Those that have everything.
    fn sources(&self) -> Vec<usize> {
        self.logs.0.in_sync().map(|(place, _)| place).collect()
    }

    /// Copies the records of one log.
    async fn copy_records(&self, part: &Part, pace: &mut Pace) -> Result<(), Error> {
        let (inner, joining) = (&*self.logs.0, &self.joining);
        let (done_before, mut next, mut tries) = (joining.done_records.get(), part.first, 0);
        loop {
            joining.done_records.set(done_before + next.min(part.end) - part.first);
            joining.check()?;
            let records = Rc::clone(&inner.logs_that_count()?[part.log]);
            let is_live = |record: LiveRecord| records.first_from(record.sequence) == Some(record);
            let piece = part.piece_from(next, &*records);
            let (Some(&front), Some(last)) = (piece.first(), piece.last()) else {
                joining.done_records.set(done_before + part.end - part.first);
                return Ok(());
            };
            let behind = last.sequence + 1;
            let rest_ns = match self.read_piece(&*records, &piece).await? {
                Some(bytes) if is_live(front) => {
                    self.write(front.offset, &bytes).await?;
                    (next, tries) = (behind, 0);
                    pace.ahead_ns(bytes.len() as u64, inner.env.now_ns())
                }
                // Others may have its room by now.
                _ if !is_live(front) => 0,
                _ if tries == TRIES => {
                    let sequence = front.sequence;
                    return Err(Error::Unusable(format!(
                        "record {sequence} of the log cannot be read from any log device as it was written: try again once a \
                         checkpoint has made it unnecessary"
                    )));
                }
                _ => {
                    tries += 1;
                    PAUSE_NS
                }
            };
            // Nobody keeps a volume open that is closed meanwhile.
            drop(records);
            self.pause(rest_ns).await;
        }
    }

    /// Ends after so long, or once the device is given up.
    async fn pause(&self, duration_ns: u64) {
        let inner = &*self.logs.0;
        let given_up = inner.changed.until(|| self.joining.failure.get().map(drop));
        join::first(given_up, inner.env.sleep(duration_ns)).await;
    }

    /// The bytes of these records, of which each is right; `None` where one is right nowhere.
    async fn read_piece(
        &self,
        records: &dyn LiveRecords,
        piece: &[LiveRecord],
    ) -> Result<Option<Vec<u8>>, Error> {
        let mut all = Vec::new();
        // Many at once, as a rule, from a device that has all of them.
        if let (Some(first), Some(last)) = (piece.first(), piece.last()) {
            let len = last.offset + last.len - first.offset;
            if let Some(bytes) = self.read_right(records, first.offset, len, piece).await? {
                return Ok(Some(bytes));
            }
        }
        for record in piece {
            let alone = std::slice::from_ref(record);
            match self.read_right(records, record.offset, record.len, alone).await? {
                Some(bytes) => all.extend(bytes),
                None => return Ok(None),
            }
        }
        Ok(Some(all))
    }

    /// These bytes from a device on which all of `piece`, which they are made of, is right.
    async fn read_right(
        &self,
        records: &dyn LiveRecords,
        offset: u64,
        len: u64,
        piece: &[LiveRecord],
    ) -> Result<Option<Vec<u8>>, Error> {
        let mut bytes = vec![0; len as usize];
        for copy in self.sources() {
            if self.logs.read_replica(copy, offset, &mut bytes).await.is_err() {
                continue;
            }
            let is_right = |record: &LiveRecord| {
                let begin = (record.offset - offset) as usize;
                records.is_it(*record, &bytes[begin..begin + record.len as usize])
            };
            if piece.iter().all(is_right) {
                return Ok(Some(bytes));
            }
        }
        self.logs.0.check_alive()?;
        Ok(None)
    }

    /// Writes to the new device alone, while nobody else writes there.
    async fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let (inner, joining) = (&*self.logs.0, &self.joining);
        joining.copied.set(Some(Extent::new(offset, bytes.len() as u64)));
        let write = joining.device.write(offset + DATA_OFFSET, bytes, Durability::Buffered);
        let written = inner.limited(write).await;
        joining.copied.set(None);
        inner.changed.all();
        Ok(written?)
    }
}

/// How fast records are copied.
struct Pace {
    began_ns: u64,
    bytes_per_s: u64,
    copied_bytes: u64,
}

impl Pace {
    /// So many more bytes were copied; how long to rest after them.
    fn ahead_ns(&mut self, bytes: u64, now_ns: u64) -> u64 {
        self.copied_bytes += bytes;
        let due_ns = u128::from(self.copied_bytes) * 1_000_000_000 / u128::from(self.bytes_per_s.max(1));
        let took_ns = now_ns.saturating_sub(self.began_ns);
        u64::try_from(due_ns).unwrap_or(u64::MAX).saturating_sub(took_ns)
    }
}
