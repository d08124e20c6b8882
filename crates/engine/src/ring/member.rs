//! A member of a ring: its device, what it may be asked now, and how far it has come.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::RebuildFound;
use super::drain::Drain;
use super::gate::Gate;
use super::rest::Looks;
use crate::device::{Drive, Durability, FlushScope};
use crate::error::DeviceError;
use crate::format::ring_head::{HEAD_COPIES, Mark, RingHead};
use crate::format::{PAGE, PAGE_BYTES};
use crate::layout::mirror::Region;
use crate::notify::Notify;

/// No such device or address, as in errno(3).
const ENXIO: i32 = 6;

/// What a member is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
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

impl Standing {
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

/// A member.
#[derive(Debug)]
pub(crate) struct Member<M> {
    device: RefCell<Option<Rc<M>>>,
    pub(crate) standing: Cell<Standing>,
    pub(crate) role: Cell<Role>,
    pub(super) gate: Rc<Gate>,
    pub(crate) reads_under_way: Cell<usize>,
    /// What is durable on it, and it knows.
    pub(crate) mark: Cell<Mark>,
    pub(crate) head: Cell<Option<RingHead>>,
    head_turn: RefCell<Rc<HeadTurn>>,
    /// Why it was left out, if it failed in this run.
    pub(crate) failure: RefCell<Option<DeviceError>>,
    /// Why the device in its place is asked to discard no more, if so.
    pub(crate) discards_stopped: Cell<Option<DeviceError>>,
    /// Discards that failed.
    pub(crate) failed_discards: Cell<u64>,
    /// What the device in its place took.
    pub(super) drain: RefCell<Rc<Drain>>,
    pub(crate) read_bytes: Cell<u64>,
    pub(crate) written_bytes: Cell<u64>,
    pub(crate) turns: Cell<u64>,
    pub(super) looks: Looks,
    pub(crate) rebuild_found: Cell<RebuildFound>,
    /// Its part of the log, where the members hold it.
    pub(crate) region: Region,
}

/// Who writes a head to a device now: one that is put in its place is not kept waiting by what hangs in it.
#[derive(Debug, Default)]
struct HeadTurn {
    taken: Cell<bool>,
    free: Notify,
}

/// The right to write a head, until this is dropped: also by whoever waited too long for its device.
struct HeadTaken(Rc<HeadTurn>);

impl Drop for HeadTaken {
    fn drop(&mut self) {
        self.0.taken.set(false);
        self.0.free.all();
    }
}

impl<M: Drive> Member<M> {
    /// Until it is known who may be trusted, all that are there count, and write.
    pub(crate) fn new(device: Option<M>, depth_max: usize) -> Self {
        let standing = if device.is_some() { Standing::InSync } else { Standing::Out };
        let gate = Gate::new(depth_max);
        match device {
            Some(_) => gate.open(),
            None => gate.leave_out(true),
        }
        Self {
            device: RefCell::new(device.map(Rc::new)),
            standing: Cell::new(standing),
            role: Cell::new(Role::Reading),
            gate,
            reads_under_way: Cell::default(),
            mark: Cell::default(),
            head: Cell::default(),
            head_turn: RefCell::default(),
            failure: RefCell::default(),
            discards_stopped: Cell::default(),
            failed_discards: Cell::default(),
            drain: RefCell::default(),
            read_bytes: Cell::default(),
            written_bytes: Cell::default(),
            turns: Cell::default(),
            looks: Looks::default(),
            rebuild_found: Cell::default(),
            region: Region::default(),
        }
    }

    pub(crate) fn is_in_sync(&self) -> bool {
        self.standing.get() == Standing::InSync
    }

    /// Its device, if it is there.
    pub(crate) fn device(&self) -> Result<Rc<M>, DeviceError> {
        self.device.borrow().clone().ok_or(DeviceError { doing: "reach a member of the ring", errno: ENXIO })
    }

    /// Puts another device in its place, of which nothing is known.
    pub(crate) fn replace(&self, device: M) {
        self.device.replace(Some(Rc::new(device)));
        self.drain.replace(Rc::default());
        self.head_turn.replace(Rc::default());
        self.failure.replace(None);
        self.discards_stopped.set(None);
        self.head.set(None);
        self.mark.set(Mark::default());
        self.standing.set(Standing::Out);
    }

    /// Whether this is the device in its place.
    pub(crate) fn has(&self, device: &Rc<M>) -> bool {
        self.device.borrow().as_ref().is_some_and(|current| Rc::ptr_eq(current, device))
    }

    /// Reads its head: the newest that is whole.
    pub(crate) async fn read_head(&self) -> Option<RingHead> {
        let device = self.device().ok()?;
        let mut best: Option<RingHead> = None;
        for copy in 0..HEAD_COPIES {
            let mut page = [0; PAGE];
            if device.read(copy * PAGE_BYTES, &mut page).await.is_ok()
                && let Some(found) = RingHead::decode(&page)
                && best.is_none_or(|best| best.generation < found.generation)
            {
                best = Some(found);
            }
        }
        best
    }

    /// Makes a head durable: one at a time, each made from the one before.
    pub(crate) async fn write_head(
        &self,
        next: impl FnOnce(Option<RingHead>) -> RingHead,
    ) -> Result<(), DeviceError> {
        let (device, turn) = (self.device()?, Rc::clone(&self.head_turn.borrow()));
        turn.free.until(|| (!turn.taken.replace(true)).then_some(())).await;
        let _taken = HeadTaken(turn);
        if !self.has(&device) {
            return Err(DeviceError { doing: "write to a member that was replaced", errno: ENXIO });
        }
        let head = next(self.head.get());
        device.write(head.offset(), &head.encode(), Durability::Durable).await?;
        // What was written to a device that was replaced meanwhile says nothing of the new one.
        if self.has(&device) {
            self.head.set(Some(head));
            self.mark.set(head.mark);
        }
        Ok(())
    }

    /// Makes durable whatever it was given.
    pub(crate) async fn flush(&self) -> Result<(), DeviceError> {
        self.device()?.flush(FlushScope::Whole).await
    }
}
