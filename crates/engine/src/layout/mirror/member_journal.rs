//! A log that the members of a ring hold themselves, each in a region behind its heads.
//!
//! ```text
//!   member 0 │ heads │ region: superblocks, records n, n+3 │ pages     in its turn when n and n+3 came
//!   member 1 │ heads │ region: superblocks, records n+1    │ pages     in its turn when n+1 came
//!   member 2 │ heads │ region: superblocks, records n+2    │ pages
//! ```
//!
//! Every region has the same places. A record, or a superblock, goes to the regions of those members that are in their
//! turn of writing when it comes, and to no other; a scan takes each from whichever region has it. So reads never wait
//! for the log, and what was acknowledged may be on one member alone until it is home on all of them.
//!
//! 1. A write is done when one member that takes part has it. Where one cannot take it, that member fails and another is asked; where
//!    nobody is in a turn, one begins.
//! 2. Heads say without whom records may be missing ([`LogPlaces`]). A member is named there, durably, on itself and on
//!    one that was named before, before the first record goes to it. The volume is opened only if all are there that the
//!    newest of the heads name, and only with what those hold: who failed is never taken for the log.
//! 3. A member that failed stays named until a superblock on another one begins the log behind everything that it
//!    was given. Until then its loss, together with a cut, is the end of the volume; memory has what it had, and a
//!    checkpoint is wanted at once ([`JournalStore::wants_checkpoint`]).
//! 4. An empty log needs nobody: its superblock goes to all members, and then no head names anyone as needed. So a volume
//!    that was closed loses a member and is none the worse for it. It is opened by more than half of those that hold the
//!    empty log, or by half of them with the first one: so no two of them go on without each other, each with writes that
//!    the other lacks. Less is enough only where the user names those that are given up.
//! 5. Within an opening a place and a sequence number have one content, whoever holds it; all regions that count were
//!    read before the next opening writes. A region that did not count is emptied before it does again: no leftover of
//!    another history is ever met.
//! 6. Members are told of an opening before anything is written in it, and that it began. One that is needed and does not
//!    know of an opening that others know to have begun is older than it was: the volume is not opened.
//! 7. Nobody can know of a member that is not there, and was given up by its name while it had what no other has.

use std::cell::Cell;
use std::fmt;
use std::rc::{Rc, Weak};

use super::quorum::{Undecided, Vote, has, in_force, is_enough};
use super::{Inner, MirrorPages};
use crate::device::{Device, Drive, Durability, Extent, FlushScope, Geometry};
use crate::env::Env;
use crate::error::{DeviceError, Error};
use crate::format::ring_head::{DATA_OFFSET, LogPlaces, RingHead};
use crate::format::superblock::Superblock;
use crate::join;
use crate::layout::{JournalStore, LiveRecords, Remembered, Replicated, superblock_write};
use crate::planted::{Bug, is_planted};
use crate::ring::{EIO, ETIMEDOUT, MemberState};

/// Invalid argument, as in errno(3).
const EINVAL: i32 = 22;

/// Bytes of zeros written at once.
const ZEROS: u64 = 64 << 10;

/// One member's part of the log.
#[derive(Debug, Default)]
pub(super) struct Region {
    /// Whether the member is in a turn in which it takes records.
    pub(super) open: Cell<bool>,
    /// Whether it was given any in this turn.
    pub(super) used: Cell<bool>,
    /// Writes under way.
    pub(super) under_way: Cell<usize>,
    /// Whether what it holds is a part of the log, and no leftover or blank.
    pub(super) is_in_log: Cell<bool>,
    /// Whether it was named behind a rebuild, and is about to be in sync.
    pub(super) is_joining: Cell<bool>,
    /// What could not be read of it first.
    unread: Cell<Option<(u64, usize)>>,
    /// The newest record of this opening that it was given; 0 for none.
    newest: Cell<u64>,
}

impl Region {
    /// A turn of its member has begun: records may come, if the member is in sync.
    pub(super) fn begin_turn(&self, is_in_sync: bool) {
        self.used.set(false);
        self.open.set(is_in_sync);
    }

    /// Another device is in the member's place: what it holds is no part of the log.
    pub(super) fn leave(&self) {
        self.open.set(false);
        self.is_in_log.set(false);
        self.is_joining.set(false);
    }
}

/// What a mirror knows of the log on its members.
#[derive(Debug)]
pub(super) struct LogState {
    /// Each member's part.
    pub(super) regions: Vec<Region>,
    /// As the heads have it, or are about to.
    pub(super) places: Cell<LogPlaces>,
    /// The newest version that any head has or had, in force or not.
    pub(super) version: Cell<u64>,
    /// Who may be given records: that they are needed is durable.
    pub(super) noted: Cell<u64>,
    /// Whose regions count.
    pub(super) counting: Cell<u64>,
    /// Whether somebody changes the heads now.
    pub(super) noting: Cell<bool>,
    /// Writes that wait for a member's turn.
    waiting: Cell<usize>,
    /// Records that came so far.
    pub(super) records: Cell<u64>,
    /// The first record of this opening, written or not; 0 in a new volume.
    first: Cell<u64>,
}

impl LogState {
    /// That of a log on so many members, of which nothing is known.
    pub(super) fn new(members: usize) -> Self {
        Self {
            regions: (0..members).map(|_| Region::default()).collect(),
            places: Cell::default(),
            version: Cell::default(),
            noted: Cell::default(),
            counting: Cell::default(),
            noting: Cell::default(),
            waiting: Cell::default(),
            records: Cell::default(),
            first: Cell::default(),
        }
    }

    /// That of the next change.
    pub(super) fn next_version(&self) -> u64 {
        self.version.set(self.version.get() + 1);
        self.version.get()
    }
}

/// The log of a ring that holds it itself. A clone is another handle to the same.
pub struct MemberJournal<E, M>(MirrorPages<E, M>);

impl<E, M> Clone for MemberJournal<E, M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<E, M> fmt::Debug for MemberJournal<E, M> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("MemberJournal").field(&self.0).finish()
    }
}

/// Counted up as long as this is there.
struct Counted<'a>(&'a Cell<usize>);

impl<'a> Counted<'a> {
    fn begin(count: &'a Cell<usize>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl<E: Env, M: Drive> MemberJournal<E, M> {
    /// The log of a ring that is about to hold a new volume.
    pub fn new(ring: MirrorPages<E, M>) -> Self {
        Self(ring)
    }

    /// The log of a ring that holds a volume.
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`] where a member is missing that may alone hold records.
    pub async fn open(ring: MirrorPages<E, M>) -> Result<Self, Error> {
        let inner = &*ring.0;
        let unusable = |why: &str| Err(Error::Unusable(why.to_owned()));
        let heads = inner.heads().await;
        let heads = || heads.iter().enumerate().filter_map(|(place, head)| Some((place, (*head)?)));
        // One that is another volume's must not make strangers of the others.
        let alike = |one: &u64| heads().filter(|(_, head)| head.volume == *one).count();
        let Some(volume) = heads().map(|(_, head)| head.volume).max_by_key(alike) else {
            return unusable("none of the ring's members that are there is one");
        };
        let ours = || {
            heads().filter(|(place, head)| {
                head.volume == volume
                    && head.log_bytes == inner.ring.options.log_bytes
                    && usize::from(head.place) == *place
                    && usize::from(head.places) == inner.ring.members.len()
                    && head.stripes.is_none()
            })
        };
        let mut votes = vec![None; inner.ring.members.len()];
        for (place, head) in ours().filter(|(_, head)| head.is_in_log) {
            let RingHead { log_places: places, opening, begun, .. } = head;
            votes[place] = Some(Vote { places, opening, begun });
        }
        let places = match in_force(&votes) {
            Ok(places) => places,
            Err(Undecided::Silence) => {
                let ours = inner.ring.options.log_bytes;
                return match heads().find(|(_, head)| head.volume == volume && head.log_bytes != ours) {
                    Some((_, RingHead { log_bytes, .. })) => Err(Error::Unusable(format!(
                        "its members keep {log_bytes} bytes for the log, superblocks included, and its description makes \
                         that {ours}: put its log_bytes back"
                    ))),
                    None => unusable("its log is on its members, and none that is there has any of it"),
                };
            }
            Err(Undecided::Missing(missing)) => {
                return Err(Error::Unusable(without(inner.ring.members.len(), missing)));
            }
            Err(Undecided::Older(older)) => {
                return Err(Error::Unusable(older_than_known(inner.ring.members.len(), older)));
            }
            Err(Undecided::Split) => {
                return unusable(
                    "members went on without each other, and each may have writes that the other lacks: leave one away",
                );
            }
        };
        let there: u64 = ours().filter(|(_, head)| head.is_in_log).map(|(place, _)| 1u64 << place).sum();
        let counting = match places.needed {
            // Whose head does not say so yet has its superblock.
            0 => places.empty_on & there,
            needed => needed & there,
        };
        if places.needed == 0 && !is_enough(counting | inner.ring.options.given_up, places.empty_on) {
            let missing = places.empty_on & !counting;
            return Err(Error::Unusable(format!(
                "too few of its members are there: others may have gone on without these, as half of them or more are \
                 missing (number {}, counted from 0); bring one back, or give one up by replacing it",
                in_words(inner.ring.members.len(), missing)
            )));
        }
        if places.needed & !there != 0 && !is_planted(Bug::RingLogOpensWithout) {
            return Err(Error::Unusable(without(inner.ring.members.len(), places.needed & !there)));
        }
        let log = &inner.log;
        log.places.set(places);
        log.version.set(votes.iter().flatten().map(|vote| vote.places.version).max().unwrap_or(0));
        log.noted.set(places.needed & there);
        log.counting.set(counting);
        for (place, region) in log.regions.iter().enumerate() {
            region.is_in_log.set(has(counting, place));
        }
        Ok(Self(ring))
    }

    /// Waits for members that may be given a record now.
    async fn writers(&self) -> Result<u64, DeviceError> {
        let inner = &*self.0.0;
        let log = &inner.log;
        let _waiting = Counted::begin(&log.waiting);
        inner.ring.changed.all();
        loop {
            inner
                .ring
                .changed
                .until(|| {
                    let may_go_on = !log.noting.get() && inner.log_writers() != 0;
                    (may_go_on || inner.ring.check_alive().is_err()).then_some(())
                })
                .await;
            inner.ring.check_alive()?;
            let open = inner.log_writers();
            if open & !log.noted.get() == 0 {
                return Ok(open);
            }
            inner.name_in_sync().await?;
        }
    }

    /// Writes to members in their turn, and ends when one has it.
    async fn write_in_turn(
        &self,
        offset: u64,
        bytes: &[u8],
        durability: Durability,
        sequence: u64,
    ) -> Result<u64, DeviceError> {
        let inner = &*self.0.0;
        inner.log.records.set(inner.log.records.get() + u64::from(sequence > 0));
        loop {
            let writers = self.writers().await?;
            let writers = if is_planted(Bug::RingLogWritesReaders) { inner.in_sync() } else { writers };
            for place in (0..inner.ring.members.len()).filter(|&place| has(writers, place)) {
                let region = &inner.log.regions[place];
                region.newest.set(region.newest.get().max(sequence));
                region.used.set(true);
            }
            let written = self.put(writers, offset, bytes, durability).await;
            if written != 0 {
                return Ok(written);
            }
        }
    }

    /// Writes to all of these, and answers who has it; the others fail.
    async fn put(&self, places: u64, offset: u64, bytes: &[u8], durability: Durability) -> u64 {
        let inner = &*self.0.0;
        let written = Cell::new(0);
        let to = (0..inner.ring.members.len()).filter(|&place| has(places, place));
        join::all(to.map(|place| {
            let (member, written) = (&inner.ring.members[place], &written);
            let under_way = Counted::begin(&inner.log.regions[place].under_way);
            async move {
                if let Ok(device) = member.device() {
                    let put = inner
                        .ring
                        .limited_at(place, device.write(DATA_OFFSET + offset, bytes, durability))
                        .await;
                    match put {
                        Ok(()) if member.is_in_sync() && member.has(&device) => {
                            written.set(written.get() | 1 << place);
                        }
                        Ok(()) => {}
                        Err(error) => inner.ring.fail_device(place, &device, error),
                    }
                }
                drop(under_way);
                inner.ring.changed.all();
            }
        }))
        .await;
        written.get()
    }

    /// Writes a superblock and, where it begins the log behind everything that a member was given, says so.
    async fn record_superblock(&self, superblock: &Superblock) -> Result<(), DeviceError> {
        let inner = &*self.0.0;
        let ((offset, durability), bytes) = (superblock_write(superblock), &superblock.encode());
        let is_empty = superblock.tail_sequence == superblock.acknowledged + 1;
        let is_for_all = superblock.is_closed && is_empty && inner.all_passed(superblock);
        let written = match is_for_all {
            true => self.put(inner.in_sync(), offset, bytes, durability).await,
            false => self.write_in_turn(offset, bytes, durability, 0).await?,
        };
        inner.ring.check_alive()?;
        if !(0..inner.ring.members.len()).any(|at| has(written, at) && inner.log.regions[at].is_in_log.get())
        {
            return Err(DeviceError { doing: "begin the log anew", errno: EIO });
        }
        let _noting = inner.begin_noting().await;
        // Nothing waits from here on until it is said who is needed: a record that comes meanwhile is not passed.
        let log = &inner.log;
        let LogPlaces { needed, emptied, .. } = log.places.get();
        let passed = |place: usize| !has(needed, place) || inner.has_passed(place, superblock);
        let is_empty =
            is_for_all && inner.all_passed(superblock) && (0..inner.ring.members.len()).all(passed);
        let is_unneeded = |place: usize| {
            let is_written = is_empty && has(written, place);
            has(needed, place)
                && inner.has_passed(place, superblock)
                && (is_written || inner.is_out_of_log(place))
        };
        let gone: u64 =
            (0..inner.ring.members.len()).filter(|&place| is_unneeded(place)).map(|place| 1 << place).sum();
        if gone == 0 {
            return Ok(());
        }
        let left = needed & !gone;
        let empty_on = if left == 0 { written & inner.in_sync() } else { 0 };
        let emptied = emptied + u64::from(left == 0);
        log.places.set(LogPlaces { version: log.next_version(), needed: left, empty_on, emptied });
        log.noted.set(log.noted.get() & !gone);
        for (place, member) in inner.ring.members.iter().enumerate() {
            let holds_all = is_empty && has(written, place) && member.is_in_sync();
            let still_counts = has(log.counting.get(), place) && !has(gone, place);
            log.regions[place].is_in_log.set(holds_all || still_counts);
        }
        let counting = log.regions.iter().enumerate().filter(|(_, region)| region.is_in_log.get());
        log.counting.set(counting.map(|(place, _)| 1u64 << place).sum());
        inner.tell(inner.in_sync()).await;
        inner.ring.check_alive()
    }
}

fn in_words(members: usize, places: u64) -> String {
    let places: Vec<String> =
        (0..members).filter(|&place| has(places, place)).map(|place| place.to_string()).collect();
    places.join(" and ")
}

/// What keeps a volume shut, in words.
fn older_than_known(members: usize, older: u64) -> String {
    format!(
        "its log is on its members, and one of them is older than the others know it to be: writes that were acknowledged \
         may have been on it alone (number {}, counted from 0): bring it back as it was",
        in_words(members, older)
    )
}

/// What keeps a volume shut, in words.
fn without(members: usize, missing: u64) -> String {
    format!(
        "its log is on its members, and writes that were acknowledged may be on one alone that is not there (number {}, \
         counted from 0): bring it back as it was",
        in_words(members, missing)
    )
}

impl<E: Env, M: Drive> Inner<E, M> {
    /// Those who are in sync, a bit each.
    pub(super) fn in_sync(&self) -> u64 {
        let in_sync = self.ring.members.iter().enumerate().filter(|(_, member)| member.is_in_sync());
        in_sync.map(|(place, _)| 1u64 << place).sum()
    }

    /// Whether a log is here whose region of this member does not count: then neither do its pages.
    pub(super) fn log_counts(&self, place: usize) -> bool {
        self.ring.options.log_bytes == 0 || has(self.log.counting.get(), place)
    }

    /// A log that is empty, on all members.
    pub(super) fn begin_empty_log(&self) {
        if self.ring.options.log_bytes == 0 {
            return;
        }
        self.log.regions.iter().for_each(|region| region.is_in_log.set(true));
        let all = (0..self.ring.members.len()).map(|place| 1u64 << place).sum();
        self.log.places.set(LogPlaces { empty_on: all, ..LogPlaces::default() });
    }

    /// Whether a member is given no records.
    fn is_out_of_log(&self, place: usize) -> bool {
        let member = &self.ring.members[place];
        let is_joining = member.state.get().takes_writes() && self.log.regions[place].is_joining.get();
        !member.is_in_sync() && !is_joining
    }

    /// Whether a record waits for a member that may be given it.
    pub(super) fn has_log_waiting(&self) -> bool {
        self.log.waiting.get() > 0
    }

    /// Whether a record waits for somebody's turn.
    pub(super) fn wants_log(&self) -> bool {
        self.log.waiting.get() > 0 && self.log_writers() == 0
    }

    /// Who may write to the log now, a bit each.
    fn log_writers(&self) -> u64 {
        let is_open = |place: usize| !self.ring.keeps_turns() || self.log.regions[place].open.get();
        let in_sync = self.in_sync();
        (0..self.ring.members.len())
            .filter(|&place| has(in_sync, place) && is_open(place))
            .map(|at| 1u64 << at)
            .sum()
    }

    /// Whether the log begins, with this superblock, behind everything that a member was given.
    fn has_passed(&self, place: usize, superblock: &Superblock) -> bool {
        let (first, newest) = (self.log.first.get(), self.log.regions[place].newest.get());
        let has_passed = superblock.tail_sequence >= first && superblock.tail_sequence > newest;
        has_passed || is_planted(Bug::RingLogForgetsSoon)
    }

    fn all_passed(&self, superblock: &Superblock) -> bool {
        let in_sync = self.in_sync();
        (0..self.ring.members.len()).all(|place| !has(in_sync, place) || self.has_passed(place, superblock))
    }
}

impl<E: Env, M: Drive> MirrorPages<E, M> {
    /// Empties the region of a member that is rebuilt on this device, once nothing is needed of it any more.
    pub(super) async fn empty_region(&self, place: usize, device: &Rc<M>) -> Result<(), DeviceError> {
        let inner = &*self.0;
        let size_bytes = inner.ring.options.log_bytes;
        if size_bytes == 0 {
            return Ok(());
        }
        let is_free = || !has(inner.log.places.get().needed, place);
        let rebuilds = || self.check_rebuilds(place, device);
        inner.ring.changed.until(|| (is_free() || rebuilds().is_err()).then_some(())).await;
        let zeros = vec![0; ZEROS.min(size_bytes) as usize];
        let began_ns = inner.ring.env.now_ns();
        let mut offset = 0;
        while offset < size_bytes {
            rebuilds()?;
            let piece = &zeros[..ZEROS.min(size_bytes - offset) as usize];
            inner
                .ring
                .limited_at(place, device.write(DATA_OFFSET + offset, piece, Durability::Buffered))
                .await?;
            offset += piece.len() as u64;
            let rate = u128::from(inner.ring.options.rebuild_bytes_per_s.max(1));
            let due_ns = u64::try_from(u128::from(offset) * 1_000_000_000 / rate).unwrap_or(u64::MAX);
            let took_ns = inner.ring.env.now_ns().saturating_sub(began_ns);
            inner.ring.rest_at_work(due_ns.saturating_sub(took_ns)).await;
        }
        rebuilds()?;
        inner.log.regions[place].newest.set(0);
        Ok(())
    }
}

impl<E: Env, M: Drive> Device for MemberJournal<E, M> {
    fn geometry(&self) -> Geometry {
        Geometry { size_bytes: self.0.0.ring.options.log_bytes, ..self.0.0.ring.geometry.get() }
    }

    /// From the first of those that count that can be read.
    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let mut failure = self.0.0.ring.check_alive().err();
        for place in (0..self.replicas()).filter(|&place| self.has_replica(place)) {
            match self.read_replica(place, offset, into).await {
                Ok(()) => return Ok(()),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or(DeviceError { doing: "read the log", errno: EIO }))
    }

    /// To all of them: what is no record and no superblock is written only as the volume is made.
    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), DeviceError> {
        let inner = &*self.0.0;
        if inner.opening.resumed.get() {
            // It would be passed over by the superblocks that say whom the journal needs.
            return Err(DeviceError { doing: "write to an open journal past its records", errno: EINVAL });
        }
        self.put(inner.in_sync(), offset, bytes, durability).await;
        inner.ring.check_alive()
    }

    async fn flush(&self, _scope: FlushScope<'_>) -> Result<(), DeviceError> {
        self.0.0.ring.flush_all().await;
        self.0.0.ring.check_alive()
    }

    async fn discard(&self, _extent: Extent) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl<E: Env, M: Drive> Replicated for MemberJournal<E, M> {
    fn replicas(&self) -> usize {
        self.0.0.ring.members.len()
    }

    /// Only those that count: others may hold records of a history that was given up.
    fn has_replica(&self, replica: usize) -> bool {
        let inner = &*self.0.0;
        has(inner.log.counting.get(), replica) && inner.ring.members[replica].state.get() != MemberState::Out
    }

    fn is_scattered(&self) -> bool {
        true
    }

    async fn read_replica(&self, replica: usize, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let inner = &*self.0.0;
        let device = inner.ring.members[replica].device()?;
        let read = inner.ring.limited(device.read(DATA_OFFSET + offset, into)).await;
        if let Err(error) = read
            && error.errno == ETIMEDOUT
        {
            // A scan would wait for it at every sector, whatever became of it as a member.
            inner.ring.fail_device(replica, &device, error);
            inner.log.counting.set(inner.log.counting.get() & !(1 << replica));
        }
        let unread = &inner.log.regions[replica].unread;
        if read.is_err() && unread.get().is_none() {
            unread.set(Some((offset, into.len())));
        }
        read
    }

    async fn replica_idle(&self, _replica: usize) {}

    /// A record stays where it is: which of them a member holds, its head says.
    async fn repair(&self, _offset: u64, _bytes: &[u8]) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl<E: Env, M: Drive> JournalStore for MemberJournal<E, M> {
    /// The ring does, as it is the same members.
    async fn init(&self, _volume: u64) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Whoever is needed is still there.
    async fn check_complete(&self) -> Result<(), Error> {
        let inner = &*self.0.0;
        let needed = inner.log.places.get().needed;
        let gone = Cell::new(0);
        let asked = inner.ring.members.iter().enumerate().filter(|(place, _)| has(needed, *place));
        join::all(asked.map(|(place, member)| {
            let gone = &gone;
            async move {
                let head = inner.ring.limited(async { Ok(inner.read_head(place).await) }).await;
                // A sector may be bad for good, as a cut leaves it. One that can be read now should have been read before.
                let is_read_now = match (inner.log.regions[place].unread.get(), member.device()) {
                    (Some((offset, len)), Ok(device)) => {
                        let mut bytes = vec![0; len];
                        inner.ring.limited(device.read(DATA_OFFSET + offset, &mut bytes)).await.is_ok()
                    }
                    (unread, _) => unread.is_some(),
                };
                let is_there = head.is_ok_and(|head| head.is_some()) && !is_read_now;
                if !is_there || matches!(member.state.get(), MemberState::Out | MemberState::Foreign) {
                    gone.set(gone.get() | 1u64 << place);
                }
            }
        }))
        .await;
        match gone.get() {
            0 => Ok(()),
            _ if is_planted(Bug::RingLogOpensWithout) => Ok(()),
            gone => Err(Error::Unusable(without(inner.ring.members.len(), gone))),
        }
    }

    /// Before anything is written, all that are needed from now on are named.
    async fn resume(&self, _remembered: Remembered, first_record: u64) -> Result<(), Error> {
        let inner = &*self.0.0;
        inner.log.first.set(first_record);
        let named = inner.name_in_sync().await;
        named.map_err(|_| {
            Error::Unusable(
                "too few of its members could be told that it goes on: bring back one that is as it was, or give up one \
                 that is not by replacing it"
                    .to_owned(),
            )
        })?;
        // Nor before they are told of this opening: one that does not know of it later is not what it was.
        inner.tell_for_good(inner.in_sync()).await;
        Ok(inner.ring.check_alive()?)
    }

    async fn append(
        &self,
        offset: u64,
        bytes: &[u8],
        sequence: u64,
        durability: Durability,
    ) -> Result<(), DeviceError> {
        self.write_in_turn(offset, bytes, durability, sequence).await.map(drop)
    }

    async fn write_superblock(&self, superblock: &Superblock) -> Result<(), DeviceError> {
        if !self.0.0.opening.resumed.get() {
            let (offset, durability) = superblock_write(superblock);
            return self.write(offset, &superblock.encode(), durability).await;
        }
        // Boxed: every checkpoint would carry room for it.
        Box::pin(self.record_superblock(superblock)).await
    }

    fn wants_checkpoint(&self) -> bool {
        let inner = &*self.0.0;
        inner.opening.resumed.get()
            && (0..inner.ring.members.len())
                .any(|place| has(inner.log.places.get().needed, place) && inner.is_out_of_log(place))
    }

    fn copy_with(&self, _records: Weak<dyn LiveRecords>) {}
}
