//! A member of a ring: its device, what it may be asked now, and what it did.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::RingOptions;
use super::answers::Answers;
use super::background::Background;
use super::drain::Drain;
use super::gate::Gate;
use super::idle_latency::IdleLatency;
use crate::device::{Drive, FlushScope};
use crate::error::DeviceError;

/// No such device or address, as in errno(3).
pub(crate) const ENXIO: i32 = 6;

/// What a member is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberState {
    /// It holds everything that was written to it, and may be read.
    InSync,
    /// It takes every write, and what was written before is copied to it; it is not read.
    Rebuilding {
        /// Bytes copied so far.
        done_bytes: u64,
    },
    /// It lacks writes, and waits to be rebuilt.
    Stale,
    /// What is there is not this member: it has to be told by name that it may be overwritten.
    Foreign,
    /// It failed in this run, or is not there.
    Out,
}

impl MemberState {
    /// Whether it is to get every write.
    pub(crate) fn takes_writes(self) -> bool {
        matches!(self, Self::InSync | Self::Rebuilding { .. })
    }
}

/// What a member does at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It reads, and writes wait.
    Reading,
    /// It writes, and reads go elsewhere.
    Writing,
}

/// What a member does and did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberStatus {
    /// What it is good for.
    pub state: MemberState,
    /// What it does now.
    pub role: Role,
    /// Why it failed, if so.
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
    /// Bytes of the regions that it lacks at most, or had to copy in its last rebuild; `None` where it is or was rebuilt whole.
    pub lacks_bytes: Option<u64>,
    /// How long ago it failed, if it does not take part since.
    pub away_ns: Option<u64>,
    /// Bytes that rebuilds copied to it.
    pub copied_bytes: u64,
}

/// What a rebuild found wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RebuildFound {
    /// Pages that the member which was read first did not hold as they should be, and another did.
    pub wrong_copies: u64,
    /// Pages that no member held as they should be: they cannot be read until they are written anew.
    pub damaged_pages: u64,
}

/// A member.
#[derive(Debug)]
pub(crate) struct Member<M> {
    device: RefCell<Option<Rc<M>>>,
    pub(crate) state: Cell<MemberState>,
    pub(crate) role: Cell<Role>,
    pub(crate) gate: Rc<Gate>,
    pub(crate) reads_under_way: Cell<usize>,
    pub(super) background: Background,
    /// When the device in its place answered.
    pub(super) answers: Answers,
    /// Why it failed in this run, if it did.
    pub(crate) failure: RefCell<Option<DeviceError>>,
    /// Why the device in its place is asked to discard no more, if so.
    pub(super) discards_stopped: Cell<Option<DeviceError>>,
    /// Discards that failed.
    pub(super) failed_discards: Cell<u64>,
    /// What the device in its place took.
    pub(super) drain: RefCell<Rc<Drain>>,
    pub(super) read_bytes: Cell<u64>,
    pub(super) written_bytes: Cell<u64>,
    pub(super) turns: Cell<u64>,
    pub(super) idle_latency: IdleLatency,
    pub(crate) rebuild_found: Cell<RebuildFound>,
    /// Bytes of the regions that its last rebuild had to copy; `None` where that copied everything.
    pub(crate) lacks_bytes: Cell<Option<u64>>,
    /// Bytes that rebuilds copied to it.
    pub(crate) copied_bytes: Cell<u64>,
    /// When it failed.
    pub(super) failed_ns: Cell<Option<u64>>,
}

impl<M: Drive> Member<M> {
    /// Until it is known who may be trusted, all that are there count, and write.
    pub(super) fn new(device: Option<M>, options: &RingOptions) -> Self {
        let state = if device.is_some() { MemberState::InSync } else { MemberState::Out };
        let gate = Gate::new(options.depth_max, options.settled_bytes);
        match device {
            Some(_) => gate.open(),
            None => gate.set_failed(true),
        }
        Self {
            device: RefCell::new(device.map(Rc::new)),
            state: Cell::new(state),
            role: Cell::new(Role::Reading),
            gate,
            reads_under_way: Cell::default(),
            background: Background::default(),
            answers: Answers::default(),
            failure: RefCell::default(),
            discards_stopped: Cell::default(),
            failed_discards: Cell::default(),
            drain: RefCell::default(),
            read_bytes: Cell::default(),
            written_bytes: Cell::default(),
            turns: Cell::default(),
            idle_latency: IdleLatency::default(),
            rebuild_found: Cell::default(),
            lacks_bytes: Cell::default(),
            copied_bytes: Cell::default(),
            failed_ns: Cell::default(),
        }
    }

    pub(crate) fn status(&self, now_ns: u64) -> MemberStatus {
        MemberStatus {
            state: self.state.get(),
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
            lacks_bytes: self.lacks_bytes.get(),
            away_ns: self.away_ns(now_ns),
            copied_bytes: self.copied_bytes.get(),
        }
    }

    fn away_ns(&self, now_ns: u64) -> Option<u64> {
        let is_away = !self.state.get().takes_writes();
        self.failed_ns.get().filter(|_| is_away).map(|failed_ns| now_ns.saturating_sub(failed_ns))
    }

    pub(crate) fn is_in_sync(&self) -> bool {
        self.state.get() == MemberState::InSync
    }

    /// Its device, if it is there.
    pub(crate) fn device(&self) -> Result<Rc<M>, DeviceError> {
        self.device.borrow().clone().ok_or(DeviceError { doing: "reach a member of the ring", errno: ENXIO })
    }

    /// Puts another device in its place, of which nothing is known.
    pub(crate) fn replace(&self, device: Rc<M>) {
        self.device.replace(Some(device));
        self.drain.replace(Rc::default());
        self.failure.replace(None);
        self.discards_stopped.set(None);
        self.state.set(MemberState::Out);
    }

    /// Gives its device up, where it takes no part.
    pub(crate) fn let_go(&self) {
        if !self.state.get().takes_writes() {
            self.device.replace(None);
        }
    }

    /// Whether this is the device in its place.
    pub(crate) fn has(&self, device: &Rc<M>) -> bool {
        self.device.borrow().as_ref().is_some_and(|current| Rc::ptr_eq(current, device))
    }

    /// Makes durable whatever it was given.
    pub(crate) async fn flush(&self) -> Result<(), DeviceError> {
        self.device()?.flush(FlushScope::Whole).await
    }
}
