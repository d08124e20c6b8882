//! Drives of members that watch the ring: whom it reads while who writes.
//!
//! In a run in which nothing is wrong with any device, a read waits for a member's writes only where there is no other
//! choice: where turns are kept, no member that has writes under way is read while another that is in sync has none and
//! does not have its turn. (Who rests after its turn is read to see whether it is quick again; so the turn alone is no
//! offence.) Once a member could not read something, as an earlier run left it, whoever writes may be all that is left.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_engine::device::{Device, Drive, Durability, Extent, FlushScope, Geometry};
use evenkeel_engine::error::{DeviceError, Error};
use evenkeel_engine::ring::{MemberState, Role};

use super::SimRing;
use crate::drive::SimDrive;

/// What all members of a run share.
pub(super) struct Watch {
    /// The ring, while it is watched. Whoever puts it here takes it out again: it holds the members.
    ring: RefCell<Option<SimRing>>,
    /// Writes under way, by place.
    writes: RefCell<Vec<usize>>,
    offence: RefCell<Option<String>>,
    reads: Cell<u64>,
    /// Whether a member could not read something.
    has_failed: Cell<bool>,
    /// How many members it takes to read.
    needed: usize,
    /// Where on a member its pages begin: the log is read by recovery and by checks.
    data_from: u64,
    /// Where on a member what is written comes only in its turn: behind heads, and superblocks of the log.
    in_turns_from: u64,
}

impl Watch {
    /// Members do not watch yet.
    pub(super) fn new(needed: usize, data_from: u64, in_turns_from: u64) -> Self {
        let (ring, writes) = (RefCell::default(), RefCell::default());
        Self {
            ring,
            writes,
            offence: RefCell::default(),
            reads: Cell::default(),
            has_failed: Cell::default(),
            needed,
            data_from,
            in_turns_from,
        }
    }

    /// From now on members watch.
    pub(super) fn begin(&self, ring: SimRing) {
        self.ring.replace(Some(ring));
    }

    /// Members watch no more.
    pub(super) fn end(&self) {
        drop(self.ring.take());
    }

    /// Whom it read though it should not have, if so.
    pub(super) fn offence(&self) -> Option<String> {
        self.offence.borrow().clone()
    }

    /// Reads that were watched.
    pub(super) fn reads(&self) -> u64 {
        self.reads.get()
    }

    fn note_read(&self, place: usize) {
        let ring = self.ring.borrow();
        let Some(ring) = ring.as_ref() else { return };
        self.reads.set(self.reads.get() + 1);
        let members = ring.members();
        let writes = self.writes.borrow();
        let under_way = |place: usize| writes.get(place).copied().unwrap_or(0);
        let is_free = |&other: &usize| {
            let member = &members[other];
            member.state == MemberState::InSync && member.role == Role::Reading && under_way(other) == 0
        };
        if under_way(place) > 0
            && !self.has_failed.get()
            && let free = (0..members.len()).filter(is_free).collect::<Vec<_>>()
            && free.len() >= self.needed
        {
            let what = format!(
                "member {place} is read, in the role {:?} with {} writes under way, though {free:?} only read",
                members[place].role,
                under_way(place)
            );
            self.offence.borrow_mut().get_or_insert(what);
        }
    }

    fn note_answer(&self, read: &Result<(), DeviceError>) {
        self.has_failed.set(self.has_failed.get() || read.is_err());
    }

    fn count_write(self: &Rc<Self>, place: usize) -> WriteUnderWay {
        let mut writes = self.writes.borrow_mut();
        if writes.len() <= place {
            writes.resize(place + 1, 0);
        }
        writes[place] += 1;
        WriteUnderWay { watch: Rc::clone(self), place }
    }
}

struct WriteUnderWay {
    watch: Rc<Watch>,
    place: usize,
}

impl Drop for WriteUnderWay {
    fn drop(&mut self) {
        self.watch.writes.borrow_mut()[self.place] -= 1;
    }
}

/// A member's drive that watches.
#[derive(Clone)]
pub struct WatchedDrive {
    drive: SimDrive,
    place: usize,
    watch: Rc<Watch>,
}

impl WatchedDrive {
    /// The drive at this place of a ring.
    pub(super) fn new(drive: SimDrive, place: usize, watch: &Rc<Watch>) -> Self {
        Self { drive, place, watch: Rc::clone(watch) }
    }
}

/// One that nobody watches.
impl From<SimDrive> for WatchedDrive {
    fn from(drive: SimDrive) -> Self {
        Self::new(drive, 0, &Rc::new(Watch::new(1, 0, 0)))
    }
}

impl Device for WatchedDrive {
    fn geometry(&self) -> Geometry {
        self.drive.geometry()
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        if offset >= self.watch.data_from {
            self.watch.note_read(self.place);
        }
        let read = self.drive.read(offset, into).await;
        self.watch.note_answer(&read);
        read
    }

    async fn read_cached(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        if offset >= self.watch.data_from {
            self.watch.note_read(self.place);
        }
        let read = self.drive.read_cached(offset, into).await;
        self.watch.note_answer(&read);
        read
    }

    fn try_read_cached(&self, offset: u64, into: &mut [u8]) -> usize {
        self.drive.try_read_cached(offset, into)
    }

    fn give_up_kept(&self, extent: Extent) {
        self.drive.give_up_kept(extent);
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), DeviceError> {
        // Heads may be told of a lost log device, and superblocks of an empty log be written, at any time.
        let _counted = (offset >= self.watch.in_turns_from).then(|| self.watch.count_write(self.place));
        self.drive.write(offset, bytes, durability).await
    }

    async fn write_parts(
        &self,
        offset: u64,
        parts: &[&[u8]],
        durability: Durability,
    ) -> Result<(), DeviceError> {
        let _counted = (offset >= self.watch.in_turns_from).then(|| self.watch.count_write(self.place));
        self.drive.write_parts(offset, parts, durability).await
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), DeviceError> {
        self.drive.flush(scope).await
    }

    async fn discard(&self, extent: Extent) -> Result<(), DeviceError> {
        let _counted = self.watch.count_write(self.place);
        self.drive.discard(extent).await
    }

    async fn write_zeroes(&self, extent: Extent, durability: Durability) -> Result<(), DeviceError> {
        let _counted =
            (extent.offset >= self.watch.in_turns_from).then(|| self.watch.count_write(self.place));
        self.drive.write_zeroes(extent, durability).await
    }
}

impl Drive for WatchedDrive {
    async fn enlarge(&self, size_bytes: u64) -> Result<(), Error> {
        self.drive.enlarge(size_bytes).await
    }
}
