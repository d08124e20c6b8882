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
//!    in the journal. So a cut, the loss of all members but one, or both together lose nothing.
//! 2. A member that is read writes nothing meanwhile, and one that writes is read only where no other can be.
//! 3. A member that fails to write, to flush or to answer takes part no more. Whoever keeps the state of this ring
//!    ([`crate::layout::PageStore::state`]) makes that durable before what it lacks is given up elsewhere.
//! 4. After an opening a member counts only if the state says that it took part, and its head that it came as far. Any
//!    other is stale: it is rebuilt from those that count before it is read. Without one that counts nothing is served.
//!    Nor is anything served where the log knows of none but superblocks older than one that the heads know of.
//! 5. Overlapping writes reach a member in the order of their coming; bytes that are put once more, to mend or to
//!    rebuild, never overtake or undo a write.

mod backlog;
mod copying;
mod drain;
mod gate;
mod member;
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

use crate::device::{Device, Drive, Durability, Extent, FlushScope, Geometry};
use crate::env::Env;
use crate::error::{DeviceError, Error};
use crate::events::{Event, Events};
use crate::format::PAGE_BYTES;
use crate::format::ring_head::{Begun, DATA_OFFSET, MEMBERS_MAX, Mark};
use crate::join;
use crate::layout::Verifier;
use crate::layout::mirror::LogState;
use crate::notify::Notify;
use crate::planted::{Bug, is_planted};

use copying::Copies;
pub(crate) use member::Member;
pub use member::{Role, Standing};
pub use window::WindowOptions;

/// An error of a member whose cause is not its own.
pub(crate) const EIO: i32 = 5;

/// That of a member that does not answer.
pub(crate) const ETIMEDOUT: i32 = 110;

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
    pub(crate) fn keeps_turns(&self) -> bool {
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
pub struct Ring<E, M>(pub(crate) Rc<Inner<E, M>>);

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

pub(crate) struct Inner<E, M> {
    pub(crate) env: E,
    pub(crate) options: RingOptions,
    /// Of those that are there until it is known who may be trusted, then as the ring was made.
    pub(crate) geometry: Cell<Geometry>,
    pub(crate) members: Vec<Member<M>>,
    /// The number of the volume on it, once it is known.
    pub(crate) volume: Cell<u64>,
    pub(crate) epoch: Cell<u64>,
    /// This opening, of all that were tried.
    pub(crate) opening: Cell<u64>,
    /// The newest that began.
    pub(crate) begun: Cell<Begun>,
    /// The newest superblock that is known to be durable, by its generation.
    pub(crate) superblock: Cell<u64>,
    /// Whether it is known who may be trusted.
    pub(crate) resumed: Cell<bool>,
    /// How often a log device was left out so far.
    pub(crate) log_losses: Cell<u64>,
    /// The log, where the members hold it.
    pub(crate) log: LogState,
    /// Writes so far in this opening.
    pub(crate) issued: Cell<u64>,
    /// What a flush waits for.
    pub(crate) flush_wanted: Cell<u64>,
    /// What a completed flush covered.
    pub(crate) flushed: Cell<Mark>,
    /// Writes that not all members have, and bytes that are put once more.
    copies: Rc<Copies>,
    /// Reads so far: for the load, and to take turns among equals.
    pub(crate) reads: Cell<u64>,
    /// As many when the window was last chosen.
    pub(crate) reads_before: Cell<u64>,
    /// Whose turn comes next.
    pub(crate) next_writer: Cell<usize>,
    window: RefCell<window::Window>,
    /// What the members have to take home, and the room there is for it.
    backlog: backlog::Backlog,
    /// Who knows the sums of what the members hold.
    pub(crate) verifier: RefCell<Option<Weak<dyn Verifier>>>,
    pub(crate) events: Rc<Events>,
    /// Something came, ended, or changed its role.
    pub(crate) changed: Rc<Notify>,
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

impl<E: Env, M: Drive> Ring<E, M> {
    /// A ring of these members, each at its place; `None` is one that is not there. Nothing is known of them before
    /// [`crate::layout::PageStore::resume`] or [`crate::layout::PageStore::init`].
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
            log: LogState::default(),
            issued: Cell::default(),
            flush_wanted: Cell::default(),
            flushed: Cell::default(),
            copies: Rc::default(),
            reads: Cell::default(),
            reads_before: Cell::default(),
            next_writer: Cell::default(),
            window: RefCell::new(window),
            backlog: backlog::Backlog::default(),
            verifier: RefCell::default(),
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
        let founded = self.0.limited(self.0.init_head(place, member)).await;
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
}

impl<E: Env, M: Drive> Inner<E, M> {
    /// Where on a member what the ring offers begins.
    pub(crate) fn data_offset(&self) -> u64 {
        DATA_OFFSET + self.options.log_bytes
    }

    fn window(&self) -> (usize, usize) {
        let in_sync = || self.members.iter().filter(|member| member.is_in_sync());
        (in_sync().filter(|member| member.role.get() == Role::Reading).count(), in_sync().count())
    }

    /// Those that take part, with their places.
    pub(crate) fn taking_part(&self) -> impl Iterator<Item = (usize, &Member<M>)> {
        self.members.iter().enumerate().filter(|(_, member)| member.standing.get().takes_writes())
    }

    /// The member takes part no more.
    pub(crate) fn leave_out(&self, place: usize, error: DeviceError) {
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
    pub(crate) fn leave_out_for(&self, place: usize, device: &Rc<M>, error: DeviceError) {
        if self.members[place].has(device) {
            self.leave_out(place, error);
        }
    }

    /// Gives up what waits for members that take no writes.
    pub(crate) fn give_up_queues(&self) {
        for member in self.members.iter().filter(|member| !member.standing.get().takes_writes()) {
            member.gate.leave_out(true);
        }
    }

    /// How full, of 1, is what holds the writes that the members have not taken yet.
    pub(crate) fn note_fill(&self, fill: f64) {
        self.backlog.note_fill(fill);
    }

    /// What a member answers, or that it did not within the time that it has.
    pub(crate) async fn limited<T>(
        &self,
        answer: impl Future<Output = Result<T, DeviceError>>,
    ) -> Result<T, DeviceError> {
        self.answered(answer).await?
    }

    /// What a member answers; an error where it does not.
    pub(crate) async fn answered<T>(
        &self,
        answer: impl Future<Output = Result<T, DeviceError>>,
    ) -> Result<Result<T, DeviceError>, DeviceError> {
        let silence = self.env.sleep(self.options.answer_max_ns);
        let answered = join::first(answer, silence).await;
        answered.ok_or(DeviceError { doing: "wait for a member of the ring", errno: ETIMEDOUT })
    }

    /// An error where nobody is left.
    pub(crate) fn check_alive(&self) -> Result<(), DeviceError> {
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

impl<E: Env, M: Drive> Device for Ring<E, M> {
    fn geometry(&self) -> Geometry {
        self.0.geometry.get()
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.0.read(offset, into).await
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

    async fn discard(&self, extent: Extent) -> Result<(), DeviceError> {
        self.0.discard(extent).await
    }
}

impl<M: Drive> Member<M> {
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
