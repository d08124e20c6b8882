//! What members say of themselves: their heads, and what each is to a volume by its head.

use std::cell::Cell;

use crate::device::{Drive, Geometry};
use crate::env::Env;
use crate::error::{DeviceError, Error};
use crate::format::ring_head::{HEAD_COPIES, LogPlaces, Mark, RingHead};
use crate::format::superblock::StoreState;
use crate::join;
use crate::planted::{Bug, is_planted};
use crate::ring::{Inner, Member, Ring, Standing};

impl<E: Env, M: Drive> Ring<E, M> {
    /// What each member is to a volume of this state, as [`crate::layout::PageStore::resume`] will find: nothing is written
    /// or begun.
    pub async fn foresee(&self, volume: u64, state: StoreState) -> Vec<Standing> {
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

impl<E: Env, M: Drive> Inner<E, M> {
    /// The head behind another, that says how far the member at `place` has come.
    pub(crate) fn head_behind(&self, before: Option<RingHead>, place: usize, mark: Mark) -> RingHead {
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
    pub(crate) async fn heads(&self) -> Vec<Option<RingHead>> {
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
    pub(crate) async fn enlarge(&self, size_bytes: u64) -> Result<(), Error> {
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
    pub(crate) async fn write_heads(&self) -> Result<(), DeviceError> {
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
    pub(crate) async fn init_head(&self, place: usize, member: &Member<M>) -> Result<(), DeviceError> {
        // Of both copies of the head, the one before may be that of another ring.
        for generation in 0..HEAD_COPIES {
            let first = self.head_behind(None, place, Mark::default());
            member.write_head(|_| RingHead { generation, ..first }).await?;
        }
        Ok(())
    }

    /// Whether that is the head of the member of this volume at this place.
    pub(crate) fn is_ours(&self, volume: u64, place: usize, head: &RingHead) -> bool {
        head.volume == volume
            && usize::from(head.place) == place
            && usize::from(head.places) == self.members.len()
            && head.log_bytes == self.options.log_bytes
    }

    /// What a member with this head is to a volume of this state.
    pub(crate) fn recognised(
        &self,
        place: usize,
        head: Option<RingHead>,
        volume: u64,
        StoreState([in_sync, epoch, through, _]): StoreState,
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
}
