//! Several log devices as one.
//!
//! 1. A write is done when every device that takes part has it; one that fails takes part no more.
//! 2. Before anything is acknowledged without a device, one that failed or one that is not there, whoever opens the
//!    volume later is told: the others by their heads, and a [`Witness`] that outlives them. So a device that was left
//!    out, alone, is never taken for the log.
//! 3. Nobody is told before the volume is known to open ([`JournalStore::resume`]): a start that is refused, as something else
//!    is missing too, changes nothing for those that were away. But where stripes are written once more they are told before
//!    that ([`super::stripe_log`]), of a journal that could be read whole.
//! 4. A device that failed and came back lacks records. It takes part again once those that count are on it
//!    ([`Replicated::repair`], [`JournalStore::resume`]), and says so only then.
//! 5. A device that is not the volume's is not written to.
//! 6. One that is to take another's place is given every write, and counts for nobody before it has everything
//!    ([`super::log_copy`]).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::rc::{Rc, Weak};

use super::MirrorPages;
use super::log_copy::Joining;
pub(crate) use super::log_losses::{beyond, loss_count};
use super::log_queue::{Lane, LogQueue};
use crate::device::{Device, Drive, Durability, Extent, FlushScope, Geometry};
use crate::env::Env;
use crate::error::{DeviceError, Error};
use crate::events::{Event, Events};
use crate::format::log_head::{DATA_OFFSET, HEAD_COPIES, LOGS_MAX, LogHead};
use crate::format::superblock::Superblock;
use crate::format::{PAGE, PAGE_BYTES};
use crate::join;
use crate::layout::{JournalStore, LiveRecords, Remembered, Replicated, superblock_write};
use crate::notify::Notify;
use crate::planted::{Bug, is_planted};
use crate::ring::answers::Answers;

/// Input or output error, as in errno(3).
const EIO: i32 = 5;

/// That of a device that does not answer.
const ETIMEDOUT: i32 = 110;

/// What stands for no loss.
pub(crate) const UNLOST: u64 = 1;

/// Who is told, so that it outlives them, that a log device failed.
pub trait Witness: 'static {
    /// Notes, durably, that there were so many losses of the volume of this number so far.
    fn note(&self, volume: u64, losses: u64) -> impl Future<Output = Result<(), DeviceError>>;

    /// What was noted of the volume of this number.
    fn noted(&self, volume: u64) -> impl Future<Output = Noted>;
}

/// What a [`Witness`] knows of the losses of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noted {
    /// The number of the last that was noted; zero if none was.
    pub losses: u64,
    /// Whether somebody who knows of more would have been asked, if there were one.
    pub is_all: bool,
}

impl<E: Env, M: Drive> Witness for MirrorPages<E, M> {
    async fn note(&self, volume: u64, losses: u64) -> Result<(), DeviceError> {
        self.note_log_losses(volume, losses).await
    }

    async fn noted(&self, volume: u64) -> Noted {
        let (losses, is_all) = self.log_losses(volume).await;
        Noted { losses, is_all }
    }
}

/// What a log device is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogDeviceState {
    /// It has every record that counts.
    InSync,
    /// It failed once, and may lack records.
    Stale,
    /// What is there is not this log: it has to be told by name that it may be overwritten.
    Foreign,
    /// It failed in this run, or is not there.
    Out,
}

pub(super) struct Member<L> {
    pub(super) device: RefCell<Option<Rc<L>>>,
    pub(super) state: Cell<LogDeviceState>,
    pub(super) head: Cell<Option<LogHead>>,
    pub(super) failure: Cell<Option<DeviceError>>,
    /// When the device in its place answered.
    answers: Answers,
    /// What is under way there.
    queue: LogQueue,
}

impl<L> Member<L> {
    /// Of this device, if it is there.
    fn new(device: Option<Rc<L>>, state: LogDeviceState) -> Self {
        Self {
            device: RefCell::new(device),
            state: Cell::new(state),
            head: Cell::default(),
            failure: Cell::default(),
            answers: Answers::default(),
            queue: LogQueue::default(),
        }
    }

    /// What is there.
    pub(super) fn device(&self) -> Option<Rc<L>> {
        self.device.borrow().clone()
    }

    /// Whether this is there.
    pub(super) fn has(&self, device: &Rc<L>) -> bool {
        self.device.borrow().as_ref().is_some_and(|there| Rc::ptr_eq(there, device))
    }
}

pub(super) struct Inner<E, L, W> {
    pub(super) env: E,
    pub(super) witness: W,
    pub(super) geometry: Geometry,
    answer_max_ns: u64,
    pub(super) members: Vec<Member<L>>,
    pub(super) volume: Cell<u64>,
    /// What stands for the losses so far, on the heads and with the witness.
    pub(super) number: Cell<u64>,
    pub(super) noted: Cell<u64>,
    /// Losses that are not noted yet.
    pub(super) losses: Cell<u64>,
    /// Whether the volume is new, or known to open: losses are noted from then on.
    pub(super) resumed: Cell<bool>,
    /// Whether somebody notes them now.
    pub(super) noting: Cell<bool>,
    /// Why no loss can be noted any more, if so.
    pub(super) failure: RefCell<Option<DeviceError>>,
    pub(super) events: Rc<Events>,
    pub(super) changed: Notify,
    /// What is to take the place of a device, while it is copied to.
    pub(super) joining: RefCell<Option<Rc<Joining<L>>>>,
    /// Who knows which records of the journal count.
    pub(super) records: RefCell<Option<Weak<dyn LiveRecords>>>,
    /// And which of the stripe log, where there is one.
    pub(super) stripes: RefCell<Option<Rc<dyn LiveRecords>>>,
    /// Superblocks that were begun to be written, and that ended.
    pub(super) superblocks_begun: Cell<u64>,
    pub(super) superblocks_ended: Cell<u64>,
}

/// The log devices. A clone is another handle to the same.
pub struct LogDeviceJournal<E, L, W>(pub(super) Rc<Inner<E, L, W>>);

impl<E, L, W> Clone for LogDeviceJournal<E, L, W> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<E, L, W> fmt::Debug for LogDeviceJournal<E, L, W> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("LogDeviceJournal").field("devices", &self.0.members.len()).finish_non_exhaustive()
    }
}

impl<E: Env, L: Device, W: Witness> LogDeviceJournal<E, L, W> {
    /// These devices, each at its place, for a new volume; `None` is one that is not there. One that does not answer
    /// within `answer_max_ns` has failed.
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`] where there are none, or too many, or they are too small.
    pub fn new(env: E, devices: Vec<Option<L>>, witness: W, answer_max_ns: u64) -> Result<Self, Error> {
        let unusable = |why: &str| Err(Error::Unusable(why.to_owned()));
        if devices.len() > LOGS_MAX {
            return unusable("a volume has 32 log devices at most");
        }
        let geometries = || devices.iter().flatten().map(Device::geometry);
        let Some(smallest) = geometries().map(|geometry| geometry.size_bytes).min() else {
            return unusable("none of the log devices is there: bring back one that has the last writes");
        };
        let Some(size_bytes) = smallest.checked_sub(DATA_OFFSET) else {
            return unusable("a log device is too small to be one");
        };
        let geometry = Geometry {
            size_bytes,
            sector_bytes: geometries().map(|geometry| geometry.sector_bytes).max().unwrap_or(512),
            atomic_sectors: geometries().all(|geometry| geometry.atomic_sectors),
        };
        let member = |device: Option<L>| {
            let state = match device {
                Some(_) => LogDeviceState::InSync,
                None => LogDeviceState::Out,
            };
            Member::new(device.map(Rc::new), state)
        };
        Ok(Self(Rc::new(Inner {
            env,
            witness,
            geometry,
            answer_max_ns,
            members: devices.into_iter().map(member).collect(),
            volume: Cell::default(),
            number: Cell::new(UNLOST),
            noted: Cell::default(),
            losses: Cell::default(),
            resumed: Cell::new(true),
            noting: Cell::default(),
            failure: RefCell::default(),
            events: Rc::default(),
            changed: Notify::default(),
            joining: RefCell::default(),
            records: RefCell::default(),
            stripes: RefCell::default(),
            superblocks_begun: Cell::default(),
            superblocks_ended: Cell::default(),
        })))
    }

    /// As [`Self::new`], for a volume that there is: looks who of them takes part.
    ///
    /// # Errors
    ///
    /// As [`Self::new`]; [`Error::Unusable`] where those that hold the newest records are not there.
    pub async fn open(
        env: E,
        devices: Vec<Option<L>>,
        witness: W,
        answer_max_ns: u64,
    ) -> Result<Self, Error> {
        let logs = Self::new(env, devices, witness, answer_max_ns)?;
        logs.0.resumed.set(is_planted(Bug::LogLossNotedEarly));
        logs.0.recognise().await?;
        Ok(logs)
    }

    /// What each device is good for, and why it failed, if so.
    pub fn states(&self) -> Vec<(LogDeviceState, Option<DeviceError>)> {
        self.0.members.iter().map(|member| (member.state.get(), member.failure.get())).collect()
    }

    /// What happened to the devices.
    pub fn events(&self) -> Rc<Events> {
        Rc::clone(&self.0.events)
    }

    /// Leaves a device out: whoever provides it may know of a failure before it shows. Nothing is acknowledged before
    /// that is noted.
    pub fn fail(&self, place: usize, error: DeviceError) {
        self.0.fail(place, error);
    }
}

/// Makes what is on `device` a log device of this volume at this place that takes no part yet: it lacks everything.
///
/// # Errors
///
/// Those of the device.
pub async fn found_log<L: Device>(
    device: &L,
    volume: u64,
    place: u16,
    places: u16,
) -> Result<(), DeviceError> {
    for generation in 0..HEAD_COPIES {
        let head = LogHead { volume, generation, place, places, losses: 0 };
        device.write(head.offset(), &head.encode(), Durability::Durable).await?;
    }
    Ok(())
}

/// The head of a log device, the newest that is whole.
pub async fn read_log_head<L: Device>(device: &L) -> Option<LogHead> {
    let mut best: Option<LogHead> = None;
    for copy in 0..HEAD_COPIES {
        let mut page = [0; PAGE];
        if device.read(copy * PAGE_BYTES, &mut page).await.is_ok()
            && let Some(found) = LogHead::decode(&page)
            && best.is_none_or(|best| best.generation < found.generation)
        {
            best = Some(found);
        }
    }
    best
}

impl<E: Env, L: Device, W: Witness> Inner<E, L, W> {
    async fn recognise(&self) -> Result<(), Error> {
        let unusable = |why: &str| Err(Error::Unusable(why.to_owned()));
        self.read_heads().await;
        let heads = || self.members.iter().filter_map(|member| member.head.get());
        // One that is another volume's must not make strangers of the others.
        let alike = |one: &LogHead| heads().filter(|head| head.volume == one.volume).count();
        let volume = heads().filter(|head| head.losses > 0).max_by_key(alike).map(|head| head.volume);
        let Some(volume) = volume else { return unusable("none of the log devices that are there is one") };
        let is_untold = is_planted(Bug::LogLossUntold);
        let Noted { losses: noted, is_all } = self.witness.noted(volume).await;
        // What the witness knows is what was acknowledged under. A device that knows of more was cut before anything was, or
        // the witness was away; one that came to another number for the same loss missed what the others went on with.
        let counts = |head: &LogHead| {
            head.losses == noted || loss_count(head.losses) > loss_count(noted) || noted == 0 || is_untold
        };
        let ours = || heads().filter(|head| head.volume == volume && head.losses > 0);
        let Some(counting) = ours().filter(counts).max_by_key(|head| head.losses) else {
            return unusable(
                "the log devices that are there failed before the last writes: bring back one that did not",
            );
        };
        let counting = counting.losses;
        // Where nobody was told of a loss but its device, nothing was acknowledged without those that were not told either.
        let is_untold_loss = is_all && loss_count(counting) == loss_count(noted) + 1;
        let is_counting = |head: &LogHead| {
            head.losses == counting || is_untold_loss && head.losses == noted.max(UNLOST) || is_untold
        };
        for (place, member) in self.in_sync() {
            let is_ours = |head: &LogHead| {
                head.volume == volume
                    && usize::from(head.place) == place
                    && usize::from(head.places) == self.members.len()
            };
            member.state.set(match member.head.get().filter(is_ours) {
                None => LogDeviceState::Foreign,
                Some(head) if is_counting(&head) => LogDeviceState::InSync,
                Some(_) => LogDeviceState::Stale,
            });
        }
        // Who is not there to be mended will lack what comes now, though it was in sync until now.
        let is_missing =
            |member: &Member<L>| matches!(member.state.get(), LogDeviceState::Out | LogDeviceState::Foreign);
        let is_any_missing = self.members.iter().any(is_missing) && !is_planted(Bug::LogAbsenceUntold);
        self.volume.set(volume);
        self.number.set(counting);
        self.noted.set(if counting == UNLOST { UNLOST } else { noted });
        self.losses.set(u64::from(is_any_missing));
        self.check_alive().map_err(Error::from)
    }

    /// Reads the head of every device that is there; a device that does not answer fails.
    async fn read_heads(&self) {
        join::all(self.in_sync().map(|(_, member)| async move {
            let Some(device) = member.device() else { return };
            match self.limited(async { Ok(read_log_head(&*device).await) }).await {
                Ok(head) => member.head.set(head),
                Err(error) => {
                    member.failure.set(Some(error));
                    member.state.set(LogDeviceState::Out);
                }
            }
        }))
        .await;
    }

    pub(super) fn in_sync(&self) -> impl Iterator<Item = (usize, &Member<L>)> {
        let is_in_sync = |(_, member): &(usize, &Member<L>)| member.state.get() == LogDeviceState::InSync;
        self.members.iter().enumerate().filter(is_in_sync)
    }

    pub(super) fn check_alive(&self) -> Result<(), DeviceError> {
        if let Some(error) = *self.failure.borrow() {
            return Err(error);
        }
        if self.in_sync().next().is_some() {
            return Ok(());
        }
        let failure = self.members.iter().find_map(|member| member.failure.get());
        Err(failure.unwrap_or(DeviceError { doing: "reach a log device", errno: EIO }))
    }

    pub(super) fn fail(&self, place: usize, error: DeviceError) {
        let member = &self.members[place];
        let was_in_sync = member.state.replace(LogDeviceState::Out) == LogDeviceState::InSync;
        member.failure.set(member.failure.get().or(Some(error)));
        if was_in_sync {
            self.events.note(Event::LogDeviceLost { place, error });
            self.losses.set(self.losses.get() + 1);
        }
    }

    /// A device failed, in whichever place it is by now; nobody is the worse for one that has none any more.
    pub(super) fn fail_device(&self, device: &Rc<L>, error: DeviceError) {
        match self.members.iter().position(|member| member.has(device)) {
            Some(place) => self.fail(place, error),
            None => self.fail_joining(device, error),
        }
    }

    pub(super) async fn limited<T>(
        &self,
        answer: impl Future<Output = Result<T, DeviceError>>,
    ) -> Result<T, DeviceError> {
        self.limited_by(&Answers::default(), answer).await
    }

    /// The same of a device that is asked for more, as these answers of it tell.
    async fn limited_by<T>(
        &self,
        answers: &Answers,
        answer: impl Future<Output = Result<T, DeviceError>>,
    ) -> Result<T, DeviceError> {
        let answered = answers.wait(&self.env, self.answer_max_ns, answer).await;
        answered.unwrap_or(Err(DeviceError { doing: "wait for a log device", errno: ETIMEDOUT }))
    }

    /// Sends a request to every device that takes part, and to one that is copied to; ends when those that failed are known to
    /// whoever comes later. `extent` is what it writes. While a device takes a place, it waits.
    async fn on_all<F: Future<Output = Result<(), DeviceError>>>(
        &self,
        extent: Option<(Lane, Extent)>,
        change: impl Fn(Rc<L>) -> F,
    ) -> Result<(), DeviceError> {
        let is_closing = || self.joining.borrow().as_ref().is_some_and(|joining| joining.is_closing());
        // Boxed, as what is sent to one that is copied to: both are rare, and the task of each request has room for it all.
        if is_closing() {
            Box::pin(self.changed.until(|| (!is_closing()).then_some(()))).await;
        }
        let mut devices: Vec<(&Member<L>, Rc<L>)> =
            self.in_sync().filter_map(|(_, member)| Some((member, member.device()?))).collect();
        if is_planted(Bug::LogWritesOne) {
            devices.truncate(1);
        }
        let joining = self.joining.borrow().clone().filter(|_| !is_planted(Bug::LogCopyMissesWrites));
        let copied = async {
            if let Some(joining) = &joining {
                let extent = extent.map(|(_, extent)| extent);
                Box::pin(self.on_joining(joining, extent, change(Rc::clone(&joining.device)))).await;
            }
        };
        let change = &change;
        let taking_part = join::all(devices.into_iter().map(|(member, device)| async move {
            let _under_way = match extent {
                Some((lane, extent)) => Some(member.queue.begin(lane, extent.len).await),
                None => None,
            };
            // Whoever was given up meanwhile is asked for nothing more.
            if !member.has(&device) || member.state.get() != LogDeviceState::InSync {
                return;
            }
            if let Err(error) = self.limited_by(&member.answers, change(Rc::clone(&device))).await {
                self.fail_device(&device, error);
            }
        }));
        join::both(taking_part, copied).await;
        self.losses_noted().await
    }

    /// Writes so little that a device answers soon.
    async fn write_piece(
        &self,
        lane: Lane,
        offset: u64,
        bytes: &[u8],
        durability: Durability,
    ) -> Result<(), DeviceError> {
        let write =
            |device: Rc<L>| async move { device.write(offset + DATA_OFFSET, bytes, durability).await };
        self.on_all(Some((lane, Extent::new(offset, bytes.len() as u64))), write).await
    }

    /// Sends a request to one that is about to take part.
    async fn on_joining(
        &self,
        joining: &Joining<L>,
        extent: Option<Extent>,
        change: impl Future<Output = Result<(), DeviceError>>,
    ) {
        let _under_way = joining.begin(&self.changed);
        let change = async {
            // In one order with what is copied there.
            self.changed.until(|| (!joining.is_copied(extent)).then_some(())).await;
            change.await
        };
        if let Err(error) = self.limited(change).await {
            self.fail_device(&joining.device, error);
        }
    }

    fn device(&self, place: usize) -> Result<Rc<L>, DeviceError> {
        let member = &self.members[place];
        let may = matches!(member.state.get(), LogDeviceState::InSync | LogDeviceState::Stale);
        let there = member.device().filter(|_| may);
        there.ok_or(DeviceError { doing: "reach a log device", errno: EIO })
    }
}

impl<E: Env, L: Device, W: Witness> LogDeviceJournal<E, L, W> {
    /// Writes to every device that takes part.
    pub(super) async fn write_as(
        &self,
        lane: Lane,
        offset: u64,
        bytes: &[u8],
        durability: Durability,
    ) -> Result<(), DeviceError> {
        let piece_bytes = lane.piece_bytes();
        if bytes.len() <= piece_bytes {
            return self.0.write_piece(lane, offset, bytes, durability).await;
        }
        // All at once: whoever is copied to from now on gets all of them, or none.
        let failed = Cell::new(None);
        join::all((offset..).step_by(piece_bytes).zip(bytes.chunks(piece_bytes)).map(|(at, piece)| {
            let failed = &failed;
            async move {
                if let Err(error) = self.0.write_piece(lane, at, piece, durability).await {
                    failed.set(Some(error));
                }
            }
        }))
        .await;
        failed.get().map_or(Ok(()), Err)
    }
}

impl<E: Env, L: Device, W: Witness> Device for LogDeviceJournal<E, L, W> {
    fn geometry(&self) -> Geometry {
        self.0.geometry
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let mut failure = self.0.check_alive().err();
        let in_sync: Vec<usize> = self.0.in_sync().map(|(place, _)| place).collect();
        for place in in_sync {
            match self.read_replica(place, offset, into).await {
                Ok(()) => return Ok(()),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or(DeviceError { doing: "read a log device", errno: EIO }))
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), DeviceError> {
        self.write_as(Lane::Journal, offset, bytes, durability).await
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), DeviceError> {
        let shifted: Vec<Extent>;
        let scope = match scope {
            FlushScope::Whole => FlushScope::Whole,
            FlushScope::Ranges(ranges) => {
                let shift = |range: &Extent| Extent::new(range.offset + DATA_OFFSET, range.len);
                shifted = ranges.iter().map(shift).collect();
                FlushScope::Ranges(&shifted)
            }
        };
        self.0.on_all(None, |device: Rc<L>| async move { device.flush(scope).await }).await
    }

    /// The devices are not told: of a log each place is written anew, and a hint must not leave one of them out.
    async fn discard(&self, _extent: Extent) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl<E: Env, L: Device, W: Witness> Replicated for LogDeviceJournal<E, L, W> {
    fn replicas(&self) -> usize {
        self.0.members.len()
    }

    /// Only of what takes part: others may hold records of a history that was given up.
    fn has_replica(&self, replica: usize) -> bool {
        self.0.members[replica].state.get() == LogDeviceState::InSync
    }

    fn is_scattered(&self) -> bool {
        false
    }

    async fn read_replica(&self, replica: usize, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let device = self.0.device(replica)?;
        let answers = &self.0.members[replica].answers;
        let read = self.0.limited_by(answers, device.read(offset + DATA_OFFSET, into)).await;
        if let Err(error) = read
            && error.errno == ETIMEDOUT
        {
            // A scan would wait for it at every sector.
            self.0.fail(replica, error);
        }
        read
    }

    async fn replica_idle(&self, _replica: usize) {}

    /// At once: what comes after it may rely on it.
    async fn repair(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        for (place, member) in self.0.members.iter().enumerate() {
            let Ok(device) = self.0.device(place) else { continue };
            let mut found = vec![0; bytes.len()];
            let read = self.0.limited(device.read(offset + DATA_OFFSET, &mut found)).await;
            let repaired = match read {
                Ok(()) if found == bytes => continue,
                // It may well hold it, and alone: a write that a cut interrupts there would take it away.
                Err(error) if error.errno == ETIMEDOUT => Err(error),
                _ => {
                    let write = device.write(offset + DATA_OFFSET, bytes, Durability::Durable);
                    self.0.limited(write).await
                }
            };
            if let Err(error) = repaired {
                match member.state.get() {
                    LogDeviceState::Stale => member.state.set(LogDeviceState::Out),
                    _ => self.0.fail(place, error),
                }
            }
        }
        self.0.losses_noted().await
    }
}

impl<E: Env, L: Device, W: Witness> JournalStore for LogDeviceJournal<E, L, W> {
    async fn init(&self, volume: u64) -> Result<(), DeviceError> {
        self.0.volume.set(volume);
        for place in 0..self.0.members.len() {
            // Of both copies of the head, the one before may be another volume's.
            for _ in 0..HEAD_COPIES {
                self.0.write_head_at(place).await?;
            }
        }
        Ok(())
    }

    async fn check_complete(&self) -> Result<(), Error> {
        Ok(())
    }

    /// The volume opens, and what counts is on every device that is there: those that lacked records take part again.
    async fn resume(&self, remembered: Remembered, _first_record: u64) -> Result<(), Error> {
        if remembered.volume != self.0.volume.get() {
            return Err(Error::Unusable("the log devices say that they are another volume's".to_owned()));
        }
        self.0.resumed.set(true);
        // First those that have everything now: whoever is told of a loss must find all of them told.
        for (place, member) in self.0.members.iter().enumerate() {
            if member.state.get() != LogDeviceState::Stale {
                continue;
            }
            // Whatever it answers, its head may say from now on that it counts: if it fails, it was lost.
            member.state.set(LogDeviceState::InSync);
            if let Err(error) = self.0.limited(self.0.write_head_at(place)).await {
                self.0.fail(place, error);
            }
        }
        Ok(self.0.losses_noted().await?)
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
        self.0.superblocks_begun.set(self.0.superblocks_begun.get() + 1);
        let written = self.write(offset, &superblock.encode(), durability).await;
        self.0.superblocks_ended.set(self.0.superblocks_ended.get() + 1);
        if self.0.joining.borrow().is_some() {
            self.0.changed.all();
        }
        written
    }

    fn wants_checkpoint(&self) -> bool {
        false
    }

    fn copy_with(&self, records: Weak<dyn LiveRecords>) {
        self.0.records.replace(Some(records));
    }
}
