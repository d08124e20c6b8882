//! What members say of themselves: their heads, and what each is to a volume by its head.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::dirty::Kept;
use super::{Inner, MirrorPages};
use crate::device::{Drive, Durability, Geometry};
use crate::env::Env;
use crate::error::{DeviceError, Error};
use crate::format::dirty_regions::DirtyRegions;
use crate::format::ring_head::{DurableOpening, HEAD_COPIES, LogPlaces, Mark, RingHead};
use crate::format::superblock::StoreState;
use crate::format::{PAGE, PAGE_BYTES};
use crate::join;
use crate::notify::Notify;
use crate::planted::{Bug, is_planted};
use crate::ring::{ENXIO, MemberState};

/// Which opening of which volume this is.
#[derive(Debug, Default)]
pub(super) struct Opening {
    /// The number of the volume on the mirror, once it is known.
    pub(super) volume: Cell<u64>,
    pub(super) epoch: Cell<u64>,
    /// This opening, of all that were tried.
    pub(super) number: Cell<u64>,
    /// The newest that began.
    pub(super) begun: Cell<DurableOpening>,
    /// The newest superblock that is known to be durable, by its generation.
    pub(super) superblock: Cell<u64>,
    /// How often a log device failed so far.
    pub(super) log_losses: Cell<u64>,
    /// Whether it is known which members may be trusted.
    pub(super) resumed: Cell<bool>,
}

/// What one member says of itself.
#[derive(Debug, Default)]
pub(super) struct MemberHead {
    /// What is durable on it, and it knows.
    pub(super) mark: Cell<Mark>,
    pub(super) head: Cell<Option<RingHead>>,
    /// What its head told of regions that changed, when it was read last.
    pub(super) told: RefCell<Option<DirtyRegions>>,
    /// From where on the regions are kept in mind that it lacks, while it is not in sync.
    pub(super) kept: Cell<Kept>,
    turn: RefCell<Rc<HeadTurn>>,
}

impl MemberHead {
    /// Another device is in the member's place, of which nothing is known.
    pub(super) fn forget(&self) {
        self.turn.replace(Rc::default());
        self.head.set(None);
        self.mark.set(Mark::default());
        self.kept.set(Kept::Nothing);
    }

    /// The member is there again, and this is its head.
    pub(super) fn come_back(&self, head: RingHead) {
        self.turn.replace(Rc::default());
        self.head.set(Some(head));
        self.mark.set(head.mark);
        self.kept.set(Kept::FromMark);
    }
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

impl<E: Env, M: Drive> MirrorPages<E, M> {
    /// What each member is to a volume of this state, as [`crate::layout::PageStore::resume`] will find: nothing is written
    /// or begun.
    pub async fn predict_states(&self, volume: u64, state: StoreState) -> Vec<MemberState> {
        let state = match Box::pin(self.0.logged_changes(volume, state)).await {
            Ok((state, _)) => state,
            // Nobody is known to have everything then.
            Err(_) => return self.0.ring.members.iter().map(|_| MemberState::Stale).collect(),
        };
        let heads = self.0.heads().await;
        let members = self.0.ring.members.iter().enumerate().zip(heads);
        let each = members.map(|((place, member), head)| match member.state.get().takes_writes() {
            true => self.0.recognised(place, head, volume, state),
            false => member.state.get(),
        });
        each.collect()
    }

    /// Notes, on every member at once, how often a log device failed: who opens this ring later must find one of
    /// those that were not.
    ///
    /// # Errors
    ///
    /// That of the last member, where none could note it.
    pub async fn note_log_losses(&self, volume: u64, losses: u64) -> Result<(), DeviceError> {
        self.0.opening.log_losses.set(self.0.opening.log_losses.get().max(losses));
        if self.0.opening.resumed.get() {
            return self.0.write_heads().await;
        }
        // Nothing is known of the members yet: what they say of themselves stays as it is.
        let heads = self.0.heads().await;
        join::all(heads.into_iter().enumerate().map(|(place, head)| async move {
            let Some(head) = head.filter(|head| head.volume == volume) else { return };
            let next = RingHead { generation: head.generation + 1, log_losses: losses, ..head };
            if let Err(error) = self.0.ring.limited(self.0.write_head(place, |_| next)).await {
                self.0.ring.fail(place, error);
            }
        }))
        .await;
        self.0.ring.check_alive()
    }

    /// How often a log device of the volume of this number failed, as the members know; and whether one that knows of more
    /// would have been among those that could be asked. What was acknowledged is known to as many as a read needs: where
    /// fewer are missing, one of them is there; and one more, so that a member that lost its note alone hides nothing.
    pub async fn log_losses(&self, volume: u64) -> (u64, bool) {
        let heads = self.0.heads().await;
        let known = || heads.iter().flatten().filter(|head| head.volume == volume);
        let losses = known().map(|head| head.log_losses).max().unwrap_or(0);
        let missing = heads.len() - known().count();
        (losses, missing == 0 || missing + 1 < self.0.ring.readers_min())
    }
}

impl<E: Env, M: Drive> Inner<E, M> {
    /// Reads the head of a member: the newest that is whole.
    pub(super) async fn read_head(&self, place: usize) -> Option<RingHead> {
        let device = self.ring.members[place].device().ok()?;
        self.read_head_of(place, &device).await
    }

    /// The same of a device that is to be the member at `place`.
    pub(super) async fn read_head_of(&self, place: usize, device: &M) -> Option<RingHead> {
        let mut best: Option<RingHead> = None;
        for copy in 0..HEAD_COPIES {
            let mut page = [0; PAGE];
            if device.read(copy * PAGE_BYTES, &mut page).await.is_ok()
                && let Some(found) = RingHead::decode(&page)
                && best.is_none_or(|best| best.generation < found.generation)
            {
                best = Some(found);
                self.heads[place].told.replace(DirtyRegions::of(&page));
            }
        }
        best
    }

    /// Makes a head of a member durable: one at a time, each made from the one before.
    pub(super) async fn write_head(
        &self,
        place: usize,
        next: impl FnOnce(Option<RingHead>) -> RingHead,
    ) -> Result<(), DeviceError> {
        let (member, known) = (&self.ring.members[place], &self.heads[place]);
        let (device, turn) = (member.device()?, Rc::clone(&known.turn.borrow()));
        turn.free.until(|| (!turn.taken.replace(true)).then_some(())).await;
        let _taken = HeadTaken(turn);
        if !member.has(&device) {
            return Err(DeviceError { doing: "write to a member that was replaced", errno: ENXIO });
        }
        let head = next(known.head.get());
        // Before it is known what changed, a head goes on to say what it said.
        let regions = self.told_regions().or_else(|| known.told.borrow().clone());
        let page = regions.map_or_else(|| head.encode(), |regions| head.encode_with(&regions));
        device.write(head.offset(), &page, Durability::Durable).await?;
        // What was written to a device that was replaced meanwhile says nothing of the new one.
        if member.has(&device) {
            known.head.set(Some(head));
            known.mark.set(head.mark);
        }
        Ok(())
    }

    /// The head behind another, that says how far the member at `place` has come.
    pub(super) fn head_behind(&self, before: Option<RingHead>, place: usize, mark: Mark) -> RingHead {
        let is_in_log = self.log.regions[place].is_in_log.get();
        RingHead {
            volume: self.opening.volume.get(),
            generation: before
                .map_or(0, |before| before.generation + u64::from(!is_planted(Bug::RingHeadInPlace))),
            place: place as u16,
            places: self.ring.members.len() as u16,
            size_bytes: self.ring.geometry.get().size_bytes,
            mark,
            log_losses: self.opening.log_losses.get(),
            log_bytes: self.ring.options.log_bytes,
            // Whoever holds none of it says nothing of it: one put here in the middle of a rebuild may not be named yet.
            log_places: if is_in_log { self.log.places.get() } else { LogPlaces::default() },
            is_in_log,
            opening: self.opening.number.get(),
            begun: self.opening.begun.get(),
            superblock: self.opening.superblock.get(),
            stripes: self.ring.options.stripes,
        }
    }

    /// What each member says of itself, if it says anything; a device that does not answer fails.
    pub(super) async fn heads(&self) -> Vec<Option<RingHead>> {
        let heads: Vec<Cell<Option<RingHead>>> = self.ring.members.iter().map(|_| Cell::default()).collect();
        let found = &heads;
        join::all(self.ring.taking_part().map(|(place, _)| async move {
            match self.ring.limited(async { Ok(self.read_head(place).await) }).await {
                Ok(head) => found[place].set(head),
                Err(error) => self.ring.fail(place, error),
            }
        }))
        .await;
        heads.into_iter().map(Cell::into_inner).collect()
    }

    /// Offers `size_bytes`, if every member is there, lacks nothing, and has the room.
    pub(super) async fn enlarge(&self, size_bytes: u64) -> Result<(), Error> {
        let check_all = || match self.ring.members.iter().position(|member| !member.is_in_sync()) {
            None => Ok(()),
            Some(place) => Err(Error::Unusable(format!(
                "member {place} does not take part: all members have to, for all of them to become larger"
            ))),
        };
        check_all()?;
        let member_bytes = self.member_bytes(size_bytes) + self.ring.data_offset();
        for (place, member) in self.ring.members.iter().enumerate() {
            let enlarged = member.device()?.enlarge(member_bytes).await;
            enlarged.map_err(|error| Error::Unusable(format!("member {place}: {error}")))?;
        }
        let before = self.ring.geometry.get();
        self.ring.geometry.set(Geometry { size_bytes, ..before });
        self.dirty.resize(self.member_bytes(size_bytes), self.ring.options.rebuild_piece_bytes);
        // Who puts a drive in a member's place before the next flush knows how large it has to be.
        let written = self.write_heads().await;
        let checked = check_all();
        if written.is_err() || checked.is_err() {
            self.ring.geometry.set(before);
        }
        written?;
        checked
    }

    /// Writes a head to each member that is in sync, with the mark that it has.
    pub(super) async fn write_heads(&self) -> Result<(), DeviceError> {
        self.ring.check_open()?;
        join::all(self.ring.places_in_sync().into_iter().map(|place| async move {
            let Ok(device) = self.ring.members[place].device() else { return };
            let next = |before| self.head_behind(before, place, self.heads[place].mark.get());
            if let Err(error) = self.ring.limited_at(place, self.write_head(place, next)).await {
                self.ring.fail_device(place, &device, error);
            }
        }))
        .await;
        self.ring.check_alive()
    }

    /// Makes a device the member at `place`, of which nothing but that is known.
    pub(super) async fn init_head(&self, place: usize) -> Result<(), DeviceError> {
        // Of both copies of the head, the one before may be that of another ring.
        for generation in 0..HEAD_COPIES {
            let first = self.head_behind(None, place, Mark::default());
            self.write_head(place, |_| RingHead { generation, ..first }).await?;
        }
        Ok(())
    }

    /// Whether that is the head of the member of this volume at this place.
    pub(super) fn is_ours(&self, volume: u64, place: usize, head: &RingHead) -> bool {
        head.volume == volume
            && usize::from(head.place) == place
            && usize::from(head.places) == self.ring.members.len()
            && head.log_bytes == self.ring.options.log_bytes
            && head.stripes == self.ring.options.stripes
    }

    /// What a member with this head is to a volume of this state.
    pub(super) fn recognised(
        &self,
        place: usize,
        head: Option<RingHead>,
        volume: u64,
        StoreState([in_sync, epoch, through, _]): StoreState,
    ) -> MemberState {
        let is_large_enough = self.ring.members[place]
            .device()
            .is_ok_and(|device| device.geometry().size_bytes >= self.member_device_bytes());
        let Some(head) = head.filter(|head| self.is_ours(volume, place, head) && is_large_enough) else {
            return MemberState::Foreign;
        };
        // A head tells how far a member came from the first opening on. Before it, while the volume is made, only the
        // state does. From then on the state may be older than a member that was rebuilt.
        let took_part = in_sync >> place & 1 == 1 || epoch > 0;
        let is_fresh = head.mark >= Mark { epoch, through } || is_planted(Bug::RingTrustsStale);
        match took_part && is_fresh && self.log_counts(place) {
            true => MemberState::InSync,
            false => MemberState::Stale,
        }
    }
}
