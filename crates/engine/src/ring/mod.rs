//! The ring: several drives that hold the same, and read and write in turns.
//!
//! ```text
//!            ┌──────────── window: these only read ────────────┐
//!   member 0 │ member 1 │ member 2 │ … │ member N-1              the window moves on by one place each turn
//!   writes what it was given while it was in the window; then flushes, says how far it has come, rests
//!
//!   write ──► a queue for each member (gate.rs) ──(its turn, turns.rs)──► the drive; done when all members have it
//!   read  ──► the least busy member of the window (read.rs)
//! ```
//!
//! 1. A write is done when every member that takes part has taken it; a flush, when all of them have made durable what
//!    was done before it, and a head on each says so. Until then the layers above keep what was written: in memory, and
//!    in a log that is on other drives. So a cut, the loss of all members but one, or both together lose nothing.
//! 2. A member that is read writes nothing meanwhile, and one that writes is read only where no other can be.
//! 3. A member that fails to write, to flush or to answer takes part no more. Whoever keeps the state of this ring
//!    ([`Device::state`]) makes that durable before what it lacks is given up elsewhere.
//! 4. After an opening a member counts only if the state says that it took part, and its head that it came as far. Any
//!    other is stale: it is rebuilt from those that count before it is read. Without one that counts nothing is served.
//!    Nor is anything served where the log knows of none but superblocks older than one that the heads know of.
//! 5. Overlapping writes reach a member in the order of their coming; bytes that are put once more, to mend or to
//!    rebuild, never overtake or undo a write.

mod backlog;
mod copying;
mod drain;
mod gate;
pub mod log;
mod log_places;
mod member;
mod naming;
mod read;
mod rebuild;
mod rest;
mod transfer;
mod turns;
mod window;

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::rc::{Rc, Weak};

use crate::device::{Device, DeviceState, Durability, Extent, FlushScope, Geometry, Judge, Remembered};
use crate::env::Env;
use crate::error::{DeviceError, Error};
use crate::events::{Event, Events};
use crate::format::PAGE_BYTES;
use crate::format::ring_head::{Begun, DATA_OFFSET, HEAD_COPIES, LogPlaces, MEMBERS_MAX, Mark, RingHead};
use crate::join;
use crate::notify::Notify;
use crate::planted::{Bug, is_planted};
pub(crate) use log_places::{LogNeeds, log_needs};

use copying::Copies;
use member::Member;
pub use member::{Role, Standing};
pub use window::WindowOptions;

/// An error of a member whose cause is not its own.
const EIO: i32 = 5;

/// That of a member that does not answer.
const ETIMEDOUT: i32 = 110;

/// How reads and writes share the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// In turns: who reads does not write.
    Turns,
    /// Plain replication: writes go to all at once, a read to the least busy.
    Mixed,
    /// As mixed, but a member begins no write while it has reads.
    ReadFirst,
    /// A member that writes is treated as failed, and never all of them at once; no turns are kept.
    ReadAround,
}

/// How a ring is run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RingOptions {
    /// How reads and writes share the members.
    pub policy: Policy,
    /// How long a member writes, at most, before the next one's turn: a frame.
    pub turn_ns: u64,
    /// For how long it must have been quick after that before it is read; 0 not to look.
    pub rest_ns: u64,
    /// It is read after so long even if it is not.
    pub rest_max_ns: u64,
    /// How many members read.
    pub window: WindowOptions,
    /// Writes under way on a member at once.
    pub depth_max: usize,
    /// How long a member may take over one request before it counts as failed.
    pub answer_max_ns: u64,
    /// Bytes a second that a rebuild copies, at most.
    pub rebuild_bytes_per_s: u64,
    /// Bytes of a region of the log on each member, where it has no devices of its own; else 0. Fixed when the ring is
    /// made.
    pub log_bytes: u64,
    /// Members that the user has named as given up, a bit each: an empty log is opened without them.
    pub given_up: u64,
    /// Bytes that a rebuild copies at once: whole pages. Nobody has to choose them; a simulation does, so that a small volume
    /// is rebuilt in as many pieces as a large one.
    pub rebuild_piece_bytes: u64,
}

impl RingOptions {
    /// Whether writes wait for a turn.
    fn keeps_turns(&self) -> bool {
        matches!(self.policy, Policy::Turns | Policy::ReadAround)
    }
}

impl Default for RingOptions {
    fn default() -> Self {
        Self {
            policy: Policy::Turns,
            turn_ns: 1_000_000_000,
            rest_ns: 100_000_000,
            rest_max_ns: 10_000_000_000,
            window: WindowOptions::default(),
            depth_max: 32,
            answer_max_ns: 30_000_000_000,
            rebuild_bytes_per_s: 64 << 20,
            log_bytes: 0,
            given_up: 0,
            rebuild_piece_bytes: 256 << 10,
        }
    }
}

/// The ring. A clone is another handle to the same.
pub struct Ring<E, M>(Rc<Inner<E, M>>);

impl<E, M> Clone for Ring<E, M> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<E, M> fmt::Debug for Ring<E, M> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Ring").field("members", &self.0.members.len()).finish_non_exhaustive()
    }
}

struct Inner<E, M> {
    env: E,
    options: RingOptions,
    /// Of those that are there until it is known who may be trusted, then as the ring was made.
    geometry: Cell<Geometry>,
    members: Vec<Member<M>>,
    /// The number of the volume on it, once it is known.
    volume: Cell<u64>,
    epoch: Cell<u64>,
    /// This opening, of all that were tried.
    opening: Cell<u64>,
    /// The newest that began.
    begun: Cell<Begun>,
    /// The newest superblock that is known to be durable, by its generation.
    superblock: Cell<u64>,
    /// Whether it is known who may be trusted.
    resumed: Cell<bool>,
    /// How often a log device was left out so far.
    log_losses: Cell<u64>,
    /// The log, where the members hold it.
    log: log::LogState,
    /// Writes so far in this opening.
    issued: Cell<u64>,
    /// What a flush waits for.
    flush_wanted: Cell<u64>,
    /// What a completed flush covered.
    flushed: Cell<Mark>,
    /// Writes that not all members have, and bytes that are put once more.
    copies: Rc<Copies>,
    /// Reads so far: for the load, and to take turns among equals.
    reads: Cell<u64>,
    /// As many when the window was last chosen.
    reads_before: Cell<u64>,
    /// Whose turn comes next.
    next_writer: Cell<usize>,
    window: RefCell<window::Window>,
    /// What the members have to take home, and the room there is for it.
    backlog: backlog::Backlog,
    /// Who knows the sums of what the members hold.
    judge: RefCell<Option<Weak<dyn Judge>>>,
    events: Rc<Events>,
    /// Something came, ended, or changed its role.
    changed: Rc<Notify>,
}

impl<E, M> Drop for Inner<E, M> {
    fn drop(&mut self) {
        self.changed.all();
    }
}

/// What a member does and did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberStatus {
    /// What it is good for.
    pub standing: Standing,
    /// What it does now.
    pub role: Role,
    /// Why it was left out, if so.
    pub failure: Option<DeviceError>,
    /// Why it is asked to discard no more, if so: it counts all the same.
    pub discards_stopped: Option<DeviceError>,
    /// Discards that failed in its place.
    pub failed_discards: u64,
    /// Bytes that wait for its turn.
    pub queued_bytes: u64,
    /// Bytes read from it.
    pub read_bytes: u64,
    /// Bytes written to it.
    pub written_bytes: u64,
    /// Turns that it had.
    pub turns: u64,
    /// Bytes that it took in a second in which it had something under way, lately.
    pub drain_bytes_per_s: u64,
    /// What was found wrong of what it was, or is, rebuilt from.
    pub rebuild_found: RebuildFound,
}

/// What a rebuild found wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RebuildFound {
    /// Pages that the member which was read first did not hold as they should be, and another did.
    pub wrong_copies: u64,
    /// Pages that no member held as they should be: they cannot be read until they are written anew.
    pub damaged_pages: u64,
}

impl<E: Env, M: Device> Ring<E, M> {
    /// A ring of these members, each at its place; `None` is one that is not there. Nothing is known of them before
    /// [`Device::resume`] or [`Device::format`].
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`] where there are none, or too many, or they are too small.
    pub fn new(env: E, members: Vec<Option<M>>, options: RingOptions) -> Result<Self, Error> {
        let unusable = |why: &str| Err(Error::Unusable(why.to_owned()));
        if members.len() > MEMBERS_MAX {
            return unusable("a ring has 32 members at most");
        }
        let geometries = || members.iter().flatten().map(Device::geometry);
        let Some(smallest) = geometries().map(|geometry| geometry.size_bytes).min() else {
            return unusable("none of the ring's members is there");
        };
        let Some(size_bytes) = smallest.checked_sub(DATA_OFFSET + options.log_bytes) else {
            return unusable("a member of the ring is too small to be one");
        };
        let geometry = Geometry {
            size_bytes: size_bytes / PAGE_BYTES * PAGE_BYTES,
            sector_bytes: geometries().map(|geometry| geometry.sector_bytes).max().unwrap_or(512),
            atomic_sectors: geometries().all(|geometry| geometry.atomic_sectors),
        };
        let window = window::Window::new(options.window);
        let members = members.into_iter().map(|device| Member::new(device, options.depth_max)).collect();
        Ok(Self(Rc::new(Inner {
            env,
            options,
            geometry: Cell::new(geometry),
            members,
            volume: Cell::default(),
            epoch: Cell::default(),
            opening: Cell::default(),
            begun: Cell::default(),
            superblock: Cell::default(),
            resumed: Cell::default(),
            log_losses: Cell::default(),
            log: log::LogState::default(),
            issued: Cell::default(),
            flush_wanted: Cell::default(),
            flushed: Cell::default(),
            copies: Rc::default(),
            reads: Cell::default(),
            reads_before: Cell::default(),
            next_writer: Cell::default(),
            window: RefCell::new(window),
            backlog: backlog::Backlog::default(),
            judge: RefCell::default(),
            events: Rc::default(),
            changed: Rc::default(),
        })))
    }

    /// Whether the members hold the log too.
    pub fn holds_log(&self) -> bool {
        self.0.options.log_bytes > 0
    }

    /// What each member does and did.
    pub fn members(&self) -> Vec<MemberStatus> {
        let now_ns = self.0.env.now_ns();
        self.0.members.iter().map(|member| member.status(now_ns)).collect()
    }

    /// What happened to its members.
    pub fn events(&self) -> Rc<Events> {
        Rc::clone(&self.0.events)
    }

    /// How many members read now, of those that take part.
    pub fn window(&self) -> (usize, usize) {
        self.0.window()
    }

    /// Leaves a member out: whoever provides it may know of a failure before it shows.
    pub fn leave_out(&self, place: usize, error: DeviceError) {
        self.0.leave_out(place, error);
    }

    /// Puts another device in the place of a member that does not take part, and rebuilds it.
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`] where the member takes part, or the device is too small; that of the device.
    pub async fn replace(&self, place: usize, device: M) -> Result<(), Error> {
        let unusable = |why: &str| Err(Error::Unusable(why.to_owned()));
        let Some(member) = self.0.members.get(place) else { return unusable("the ring has no such member") };
        if !self.0.resumed.get() {
            return unusable("the volume is not open yet");
        }
        if member.standing.get().takes_writes() {
            return unusable("that member takes part: leave it out before it is replaced");
        }
        let (geometry, needed) = (device.geometry(), self.0.geometry.get());
        if geometry.size_bytes < needed.size_bytes + self.0.data_offset() {
            return unusable("the new member is smaller than the ring");
        }
        if geometry.sector_bytes > needed.sector_bytes || (needed.atomic_sectors && !geometry.atomic_sectors)
        {
            return unusable("the new member promises less of its sectors than the ring does");
        }
        member.replace(device);
        member.region.is_in_log.set(false);
        member.region.is_joining.set(false);
        let device = member.device()?;
        let founded = self.0.limited(self.0.found(place, member)).await;
        if !member.has(&device) {
            return unusable("another device was put there meanwhile");
        }
        if let Err(error) = founded {
            member.failure.borrow_mut().get_or_insert(error);
            return Err(error.into());
        }
        member.standing.set(Standing::Stale);
        self.rebuild_stale();
        Ok(())
    }

    /// What each member is to a volume of this state, as [`Device::resume`] will find: nothing is written or begun.
    pub async fn foresee(&self, volume: u64, state: DeviceState) -> Vec<Standing> {
        let heads = self.0.heads().await;
        let members = self.0.members.iter().enumerate().zip(heads);
        let each = members.map(|((place, member), head)| match member.standing.get().takes_writes() {
            true => self.0.recognised(place, head, volume, state),
            false => member.standing.get(),
        });
        each.collect()
    }

    /// Notes, on every member at once, how often a log device was left out: who opens this ring later must find one of
    /// those that were not.
    ///
    /// # Errors
    ///
    /// That of the last member, where none could note it.
    pub async fn note_log_losses(&self, volume: u64, losses: u64) -> Result<(), DeviceError> {
        self.0.log_losses.set(self.0.log_losses.get().max(losses));
        if self.0.resumed.get() {
            return self.0.write_heads().await;
        }
        // Nothing is known of the members yet: what they say of themselves stays as it is.
        let heads = self.0.heads().await;
        join::all(heads.into_iter().enumerate().map(|(place, head)| async move {
            let Some(head) = head.filter(|head| head.volume == volume) else { return };
            let next = RingHead { generation: head.generation + 1, log_losses: losses, ..head };
            if let Err(error) = self.0.limited(self.0.members[place].write_head(|_| next)).await {
                self.0.leave_out(place, error);
            }
        }))
        .await;
        self.0.check_alive()
    }

    /// How often a log device of the volume of this number was left out, as the members know; and whether all of them
    /// could be asked.
    pub async fn log_losses(&self, volume: u64) -> (u64, bool) {
        let heads = self.0.heads().await;
        let known = || heads.iter().flatten().filter(|head| head.volume == volume);
        let losses = known().map(|head| head.log_losses).max().unwrap_or(0);
        (losses, known().count() == heads.len())
    }
}

impl<E: Env, M: Device> Inner<E, M> {
    /// Where on a member what the ring offers begins.
    fn data_offset(&self) -> u64 {
        DATA_OFFSET + self.options.log_bytes
    }

    fn window(&self) -> (usize, usize) {
        let in_sync = || self.members.iter().filter(|member| member.is_in_sync());
        (in_sync().filter(|member| member.role.get() == Role::Reading).count(), in_sync().count())
    }

    /// Those that take part, with their places.
    fn taking_part(&self) -> impl Iterator<Item = (usize, &Member<M>)> {
        self.members.iter().enumerate().filter(|(_, member)| member.standing.get().takes_writes())
    }

    /// The member takes part no more.
    fn leave_out(&self, place: usize, error: DeviceError) {
        let member = &self.members[place];
        if !member.standing.get().takes_writes() {
            return;
        }
        if is_planted(Bug::RingKeepsFailed) {
            return;
        }
        member.failure.borrow_mut().get_or_insert(error);
        let was_rebuilding = member.standing.replace(Standing::Out) != Standing::InSync;
        self.events.note(Event::MemberLost { place, error, was_rebuilding });
        member.gate.leave_out(true);
        member.region.open.set(false);
        member.region.is_joining.set(false);
        self.changed.all();
    }

    /// Leaves a member out for what `device` answered, unless that was replaced meanwhile: then it is nobody's concern.
    fn leave_out_for(&self, place: usize, device: &Rc<M>, error: DeviceError) {
        if self.members[place].has(device) {
            self.leave_out(place, error);
        }
    }

    /// The head behind another, that says how far the member at `place` has come.
    fn head_behind(&self, before: Option<RingHead>, place: usize, mark: Mark) -> RingHead {
        let is_in_log = self.members[place].region.is_in_log.get();
        RingHead {
            volume: self.volume.get(),
            generation: before
                .map_or(0, |before| before.generation + u64::from(!is_planted(Bug::RingHeadInPlace))),
            place: place as u16,
            places: self.members.len() as u16,
            size_bytes: self.geometry.get().size_bytes,
            mark,
            log_losses: self.log_losses.get(),
            log_bytes: self.options.log_bytes,
            // Whoever holds none of it says nothing of it: one put here in the middle of a rebuild may not be named yet.
            log_places: if is_in_log { self.log.places.get() } else { LogPlaces::default() },
            is_in_log,
            opening: self.opening.get(),
            begun: self.begun.get(),
            superblock: self.superblock.get(),
        }
    }

    /// What each member says of itself, if it says anything; one that does not answer is left out.
    async fn heads(&self) -> Vec<Option<RingHead>> {
        let heads: Vec<Cell<Option<RingHead>>> = self.members.iter().map(|_| Cell::default()).collect();
        let found = &heads;
        join::all(self.taking_part().map(|(place, member)| async move {
            match self.limited(async { Ok(member.read_head().await) }).await {
                Ok(head) => found[place].set(head),
                Err(error) => self.leave_out(place, error),
            }
        }))
        .await;
        heads.into_iter().map(Cell::into_inner).collect()
    }

    /// Offers `size_bytes`, if every member is there, lacks nothing, and has the room.
    async fn enlarge(&self, size_bytes: u64) -> Result<(), Error> {
        let check_all = || match self.members.iter().position(|member| !member.is_in_sync()) {
            None => Ok(()),
            Some(place) => Err(Error::Unusable(format!(
                "member {place} does not take part: all members have to, for all of them to become larger"
            ))),
        };
        check_all()?;
        let member_bytes = size_bytes + self.data_offset();
        for (place, member) in self.members.iter().enumerate() {
            let enlarged = member.device()?.enlarge(member_bytes).await;
            enlarged.map_err(|error| Error::Unusable(format!("member {place}: {error}")))?;
        }
        let before = self.geometry.get();
        self.geometry.set(Geometry { size_bytes, ..before });
        // Who puts a drive in a member's place before the next flush knows how large it has to be.
        let written = self.write_heads().await;
        let checked = check_all();
        if written.is_err() || checked.is_err() {
            self.geometry.set(before);
        }
        written?;
        checked
    }

    /// Writes a head to each member that is in sync, with the mark that it has.
    async fn write_heads(&self) -> Result<(), DeviceError> {
        let in_sync: Vec<usize> =
            (0..self.members.len()).filter(|&place| self.members[place].is_in_sync()).collect();
        join::all(in_sync.into_iter().map(|place| async move {
            let member = &self.members[place];
            let Ok(device) = member.device() else { return };
            let next = |before| self.head_behind(before, place, member.mark.get());
            if let Err(error) = self.limited(member.write_head(next)).await {
                self.leave_out_for(place, &device, error);
            }
        }))
        .await;
        self.check_alive()
    }

    /// Makes a device the member at `place`, of which nothing but that is known.
    async fn found(&self, place: usize, member: &Member<M>) -> Result<(), DeviceError> {
        // Of both copies of the head, the one before may be that of another ring.
        for generation in 0..HEAD_COPIES {
            let first = self.head_behind(None, place, Mark::default());
            member.write_head(|_| RingHead { generation, ..first }).await?;
        }
        Ok(())
    }

    /// Whether that is the head of the member of this volume at this place.
    fn is_ours(&self, volume: u64, place: usize, head: &RingHead) -> bool {
        head.volume == volume
            && usize::from(head.place) == place
            && usize::from(head.places) == self.members.len()
            && head.log_bytes == self.options.log_bytes
    }

    /// What a member with this head is to a volume of this state.
    fn recognised(
        &self,
        place: usize,
        head: Option<RingHead>,
        volume: u64,
        DeviceState([in_sync, epoch, through, _]): DeviceState,
    ) -> Standing {
        let is_large_enough = self.members[place].device().is_ok_and(|device| {
            device.geometry().size_bytes >= self.geometry.get().size_bytes + self.data_offset()
        });
        let Some(head) = head.filter(|head| self.is_ours(volume, place, head) && is_large_enough) else {
            return Standing::Foreign;
        };
        // A head tells how far a member came from the first opening on. Before it, while the volume is made, only the
        // state does. From then on the state may be older than a member that was rebuilt.
        let took_part = in_sync >> place & 1 == 1 || epoch > 0;
        let is_fresh = head.mark >= Mark { epoch, through } || is_planted(Bug::RingTrustsStale);
        match took_part && is_fresh && self.log_counts(place) {
            true => Standing::InSync,
            false => Standing::Stale,
        }
    }

    /// What a member answers, or that it did not within the time that it has.
    async fn limited<T>(
        &self,
        answer: impl Future<Output = Result<T, DeviceError>>,
    ) -> Result<T, DeviceError> {
        self.answered(answer).await?
    }

    /// What a member answers; an error where it does not.
    async fn answered<T>(
        &self,
        answer: impl Future<Output = Result<T, DeviceError>>,
    ) -> Result<Result<T, DeviceError>, DeviceError> {
        let silence = self.env.sleep(self.options.answer_max_ns);
        let answered = join::first(answer, silence).await;
        answered.ok_or(DeviceError { doing: "wait for a member of the ring", errno: ETIMEDOUT })
    }

    /// An error where nobody is left.
    fn check_alive(&self) -> Result<(), DeviceError> {
        let mut failure = None;
        for member in &self.members {
            if member.is_in_sync() {
                return Ok(());
            }
            failure = failure.or(*member.failure.borrow());
        }
        Err(failure.unwrap_or(DeviceError { doing: "reach a member of the ring", errno: EIO }))
    }
}

impl<E: Env, M: Device> Device for Ring<E, M> {
    fn geometry(&self) -> Geometry {
        self.0.geometry.get()
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.0.read(offset, into).await
    }

    fn copies(&self) -> usize {
        self.0.members.len()
    }

    async fn read_copy(&self, copy: usize, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.0.read_from(copy, offset, into).await
    }

    fn has_copy(&self, copy: usize) -> bool {
        self.0.members[copy].is_in_sync()
    }

    async fn copy_at_rest(&self, copy: usize) {
        let member = &self.0.members[copy];
        let is_at_rest = || !member.is_in_sync() || member.role.get() == Role::Reading;
        self.0.changed.until(|| is_at_rest().then_some(())).await;
    }

    async fn mend(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.mend_later(offset, bytes);
        Ok(())
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), DeviceError> {
        self.write_parts(offset, &[bytes], durability).await
    }

    async fn write_parts(
        &self,
        offset: u64,
        parts: &[&[u8]],
        durability: Durability,
    ) -> Result<(), DeviceError> {
        self.0.write(offset, parts).await?;
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Durable => self.0.flush().await,
        }
    }

    async fn flush(&self, _scope: FlushScope<'_>) -> Result<(), DeviceError> {
        self.0.flush().await
    }

    async fn enlarge(&self, size_bytes: u64) -> Result<(), Error> {
        self.0.enlarge(size_bytes).await
    }

    async fn discard(&self, extent: Extent) -> Result<(), DeviceError> {
        self.0.discard(extent).await
    }

    fn rely_on(&self, judge: Weak<dyn Judge>) {
        self.0.judge.replace(Some(judge));
        self.0.changed.all();
    }

    fn state(&self) -> Option<DeviceState> {
        let bit = |(place, member): (usize, &Member<M>)| u64::from(member.is_in_sync()) << place;
        let in_sync = self.0.members.iter().enumerate().map(bit).sum();
        let flushed = self.0.flushed.get();
        Some(DeviceState([in_sync, flushed.epoch, flushed.through, self.0.log_losses.get()]))
    }

    async fn format(&self, volume: u64) -> Result<(), DeviceError> {
        self.0.volume.set(volume);
        self.0.begin_empty_log();
        for (place, member) in self.0.members.iter().enumerate() {
            self.0.found(place, member).await?;
        }
        Ok(())
    }

    async fn resume(&self, remembered: Remembered, epoch: u64) -> Result<(), Error> {
        let ring = &*self.0;
        let Remembered { volume, superblock, home_bytes, state } = remembered;
        let DeviceState([_, state_epoch, through, log_losses]) = state;
        let needed = Mark { epoch: state_epoch, through };
        ring.volume.set(volume);
        ring.epoch.set(epoch);
        ring.log_losses.set(log_losses.max(self.log_losses(volume).await.0));
        let heads = ring.heads().await;
        let ours = || {
            let there = heads.iter().enumerate();
            there.filter_map(|(place, head)| head.filter(|head| ring.is_ours(volume, place, head)))
        };
        let known = ours().map(|head| head.superblock).max().unwrap_or(0);
        let is_unasked = is_planted(Bug::RingLogRolledBack) || is_planted(Bug::LogAbsenceUntold);
        if superblock < known && !is_unasked {
            return Err(Error::Unusable(
                "its log is older than its members know it to be, and lacks writes that were acknowledged: bring back the \
                 log as it was"
                    .to_owned(),
            ));
        }
        ring.opening.set(ours().map(|head| head.opening).max().unwrap_or(0) + 1);
        ring.begun.set(ours().map(|head| head.begun).max().unwrap_or_default());
        ring.superblock.set(superblock);
        // As large as the volume knows it to be, whoever is there now: a head may say more, where a cut kept it from
        // growing.
        ring.geometry.set(Geometry { size_bytes: home_bytes, ..ring.geometry.get() });
        for member in &ring.members {
            if let Ok(device) = member.device() {
                let _one_that_is_smaller_is_not_recognised =
                    device.enlarge(home_bytes + ring.data_offset()).await;
            }
        }
        for ((place, member), head) in ring.members.iter().enumerate().zip(&heads) {
            // One that failed to flush or to answer before is not asked again.
            if !member.standing.get().takes_writes() {
                continue;
            }
            member.standing.set(ring.recognised(place, *head, volume, state));
            if let Some(head) = head.filter(|_| member.standing.get() != Standing::Foreign) {
                member.head.set(Some(head));
                member.mark.set(head.mark);
            }
        }
        ring.flush_all().await;
        if ring.check_alive().is_err() {
            return Err(Error::Unusable(
                "none of the ring's members that are there holds everything that was made durable: bring back one \
                 that does"
                    .to_owned(),
            ));
        }
        ring.flushed.set(needed);
        for member in ring.members.iter().filter(|member| !member.standing.get().takes_writes()) {
            member.gate.leave_out(true);
        }
        self.begin();
        Ok(())
    }

    async fn begins(&self) -> Result<(), DeviceError> {
        let ring = &*self.0;
        let opening = ring.opening.get();
        let version = ring.log.places.get().version;
        let mut told = ring.begun.get().told;
        for (place, told) in told.iter_mut().enumerate().take(ring.members.len()) {
            if ring.members[place].is_in_sync() {
                *told = opening;
            }
        }
        ring.begun.set(Begun { opening, version, told });
        ring.write_heads().await
    }

    fn note_superblock(&self, generation: u64) {
        self.0.superblock.set(generation);
    }

    fn note_fill(&self, fill: f64) {
        self.0.backlog.note_fill(fill);
    }

    /// At once on all members: nobody reads any more.
    async fn ends(&self, left: Option<(u64, &[u8])>) -> Result<(), DeviceError> {
        if let Some((offset, bytes)) = left {
            self.0.leave_on_all(offset, bytes).await;
        }
        if is_planted(Bug::RingEndUntold) {
            return Ok(());
        }
        self.0.write_heads().await
    }
}

impl<M: Device> Member<M> {
    fn status(&self, now_ns: u64) -> MemberStatus {
        MemberStatus {
            standing: self.standing.get(),
            role: self.role.get(),
            failure: *self.failure.borrow(),
            discards_stopped: self.discards_stopped.get(),
            failed_discards: self.failed_discards.get(),
            queued_bytes: self.gate.queued_bytes(),
            read_bytes: self.read_bytes.get(),
            written_bytes: self.written_bytes.get(),
            turns: self.turns.get(),
            drain_bytes_per_s: self.drain.borrow().bytes_per_s(now_ns),
            rebuild_found: self.rebuild_found.get(),
        }
    }
}
