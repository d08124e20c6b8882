//! A mirror: the pages are on every member of a ring, and the journal is on log devices or on the members.
//!
//! ```text
//!   Ring ─────────► PageStore      pages on all members (mod.rs); what a member says of itself (heads.rs)
//!   MirrorJournal ─► JournalStore  records and superblocks (journal.rs)
//!     Logs                         on log devices, all of them hold all of it (log_devices.rs)
//!     MemberLog                    on the members, each holds what came in its turn (member_journal.rs);
//!                                  who has to be there to open it (quorum.rs), telling them so (membership.rs)
//! ```
//!
//! 1. The journal alone holds superblocks, with what the ring wants remembered: who took part, and how far they came.
//! 2. Members are told of each superblock by the next flush or the end: no older one is taken for it later.
//! 3. The log on members opens and closes with their turns, so that the ring's state has a part of it
//!    ([`Region`], [`LogState`]): [`crate::ring`] and this module know each other.

pub mod head_copies;
mod heads;
mod journal;
pub mod log_devices;
pub mod member_journal;
mod membership;
mod quorum;

use std::rc::Weak;

use crate::device::{Drive, Geometry};
use crate::env::Env;
use crate::error::{DeviceError, Error};
use crate::format::layout::home_copy_offset;
use crate::format::ring_head::{Begun, Mark};
use crate::format::superblock::Superblock;
use crate::planted::{Bug, is_planted};
use crate::ring::{Member, Ring, Role, Standing};

use super::{PageStore, Remembered, Replicated, StoreState, StoreTraits, Verifier};
pub use journal::MirrorJournal;
pub(crate) use member_journal::{LogState, Region};
pub(crate) use quorum::{LogNeeds, log_needs};

/// How far the members came that took part, as a superblock remembers it.
pub(crate) fn mark_of(StoreState([_, epoch, through, _]): StoreState) -> Mark {
    Mark { epoch, through }
}

impl<E: Env, M: Drive> Replicated for Ring<E, M> {
    fn replicas(&self) -> usize {
        self.0.members.len()
    }

    fn has_replica(&self, replica: usize) -> bool {
        self.0.members[replica].is_in_sync()
    }

    fn is_scattered(&self) -> bool {
        false
    }

    async fn read_replica(&self, replica: usize, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.0.read_from(replica, offset, into).await
    }

    async fn replica_idle(&self, replica: usize) {
        let member = &self.0.members[replica];
        let is_idle = || !member.is_in_sync() || member.role.get() == Role::Reading;
        self.0.changed.until(|| is_idle().then_some(())).await;
    }

    async fn repair(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.mend_later(offset, bytes);
        Ok(())
    }
}

impl<E: Env, M: Drive> PageStore for Ring<E, M> {
    fn traits(&self) -> StoreTraits {
        StoreTraits { holds_superblocks: false, defers_writes: true, is_replicated: true }
    }

    async fn init(&self, volume: u64) -> Result<(), DeviceError> {
        self.0.volume.set(volume);
        self.0.begin_empty_log();
        for (place, member) in self.0.members.iter().enumerate() {
            self.0.init_head(place, member).await?;
        }
        Ok(())
    }

    async fn resume(&self, remembered: Remembered, epoch: u64) -> Result<(), Error> {
        let ring = &*self.0;
        let Remembered { volume, superblock, home_bytes, state } = remembered;
        let StoreState([.., log_losses]) = state;
        let needed = mark_of(state);
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
        ring.give_up_queues();
        self.start_turns();
        Ok(())
    }

    async fn begin(&self) -> Result<(), DeviceError> {
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

    /// At once on all members: nobody reads any more.
    async fn end(&self, last: Option<&Superblock>) -> Result<(), DeviceError> {
        // A journal on the members has it there already.
        if let Some(last) = last.filter(|_| !self.holds_log()) {
            let offset = home_copy_offset(last.home_bytes, (last.generation % 2) as usize);
            self.0.leave_on_all(offset, &last.encode()).await;
        }
        if is_planted(Bug::RingEndUntold) {
            return Ok(());
        }
        self.0.write_heads().await
    }

    async fn enlarge(&self, size_bytes: u64) -> Result<(), Error> {
        self.0.enlarge(size_bytes).await
    }

    fn verify_with(&self, verifier: Weak<dyn Verifier>) {
        self.0.verifier.replace(Some(verifier));
        self.0.changed.all();
    }

    fn state(&self) -> StoreState {
        let bit = |(place, member): (usize, &Member<M>)| u64::from(member.is_in_sync()) << place;
        let in_sync = self.0.members.iter().enumerate().map(bit).sum();
        let flushed = self.0.flushed.get();
        StoreState([in_sync, flushed.epoch, flushed.through, self.0.log_losses.get()])
    }

    fn note_superblock(&self, generation: u64) {
        self.0.superblock.set(generation);
    }

    fn note_fill(&self, fill: f64) {
        self.0.note_fill(fill);
    }
}
