//! The mirror as a page store: what its devices do together, and how it is opened and closed.

use std::rc::Weak;

use super::striping::Striping;
use super::{MirrorPages, mark_of};
use crate::device::{Device, Drive, Durability, Extent, FlushScope, Geometry};
use crate::env::Env;
use crate::error::{DeviceError, Error};
use crate::format::layout::home_copy_offset;
use crate::format::ring_head::DurableOpening;
use crate::format::superblock::{StoreState, Superblock};
use crate::layout::{NotWritten, PageStore, PlacedWrite, Remembered, Replicated, StoreTraits, Verifier};
use crate::planted::{Bug, is_planted};
use crate::ring::{self, Member, MemberState, Role, Urgency};

impl<E: Env, M: Drive> Device for MirrorPages<E, M> {
    fn geometry(&self) -> Geometry {
        let geometry = self.0.ring.geometry.get();
        // What a cut tears of a stripe is in the log of stripes.
        Geometry { atomic_sectors: geometry.atomic_sectors || self.0.striping.is_some(), ..geometry }
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
        self.0.write(&[PlacedWrite { offset, parts: parts.to_vec() }]).await?;
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

impl<E: Env, M: Drive> Replicated for MirrorPages<E, M> {
    fn replicas(&self) -> usize {
        match &self.0.striping {
            None => self.0.ring.members.len(),
            Some(striping) => striping.versions(),
        }
    }

    fn has_replica(&self, replica: usize) -> bool {
        match &self.0.striping {
            None => self.0.ring.members[replica].is_in_sync(),
            Some(_) => self.0.ring.check_alive().is_ok(),
        }
    }

    fn is_scattered(&self) -> bool {
        false
    }

    async fn read_replica(&self, replica: usize, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        match &self.0.striping {
            None => self.0.ring.read_from(replica, offset, into).await,
            Some(striping) => {
                Box::pin(self.0.read_version(striping, replica, offset, Urgency::Copy, into)).await
            }
        }
    }

    async fn replica_idle(&self, replica: usize) {
        self.0.until_mend_may_begin().await;
        if self.0.striping.is_some() {
            return;
        }
        let member = &self.0.ring.members[replica];
        let is_idle = || !member.is_in_sync() || member.role.get() == Role::Reading;
        self.0.ring.changed.until(|| is_idle().then_some(())).await;
    }

    async fn repair(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        match &self.0.striping {
            None => self.repair_later(offset, bytes),
            Some(striping) => self.repair_stripes(striping, offset, bytes),
        }
        Ok(())
    }
}

impl<E: Env, M: Drive> PageStore for MirrorPages<E, M> {
    fn traits(&self) -> StoreTraits {
        let striping = self.0.striping.as_ref();
        StoreTraits {
            holds_superblocks: false,
            defers_writes: true,
            deferred_max_bytes: striping.map_or(u64::MAX, Striping::deferred_max_bytes),
            is_replicated: true,
            unit_bytes: striping.map(|striping| striping.stripes.stripe_bytes()),
        }
    }

    async fn init(&self, volume: u64) -> Result<(), DeviceError> {
        self.0.opening.volume.set(volume);
        self.0.begin_empty_log();
        for place in 0..self.0.ring.members.len() {
            self.0.init_head(place).await?;
        }
        Ok(())
    }

    async fn resume(&self, remembered: Remembered, epoch: u64) -> Result<(), Error> {
        let (mirror, ring, opening) = (&*self.0, &self.0.ring, &self.0.opening);
        let Remembered { volume, superblock, home_bytes, state } = remembered;
        opening.volume.set(volume);
        opening.epoch.set(epoch);
        let (state, logged) = Box::pin(mirror.logged_changes(volume, state)).await?;
        let needed = mark_of(state);
        let StoreState([.., log_losses]) = state;
        opening.log_losses.set(log_losses.max(self.log_losses(volume).await.0));
        let heads = mirror.heads().await;
        let ours = || {
            let there = heads.iter().enumerate();
            there.filter_map(|(place, head)| head.filter(|head| mirror.is_ours(volume, place, head)))
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
        opening.number.set(ours().map(|head| head.opening).max().unwrap_or(0) + 1);
        opening.begun.set(ours().map(|head| head.begun).max().unwrap_or_default());
        opening.superblock.set(superblock);
        // As large as the volume knows it to be, whoever is there now: a head may say more, where a cut kept it from
        // growing.
        ring.geometry.set(Geometry { size_bytes: home_bytes, ..ring.geometry.get() });
        for member in &ring.members {
            if let Ok(device) = member.device() {
                let _one_that_is_smaller_is_not_recognised =
                    device.enlarge(mirror.member_device_bytes()).await;
            }
        }
        for ((place, member), head) in ring.members.iter().enumerate().zip(&heads) {
            // One that failed to flush or to answer before is not asked again.
            if !member.state.get().takes_writes() {
                continue;
            }
            member.state.set(mirror.recognised(place, *head, volume, state));
            if let Some(head) = head.filter(|_| member.state.get() != MemberState::Foreign) {
                mirror.heads[place].head.set(Some(head));
                mirror.heads[place].mark.set(head.mark);
            }
        }
        ring.flush_all().await;
        if ring.check_alive().is_err() {
            let needed = ring.options.stripes.map_or(1, |stripes| stripes.data());
            let holders = match (ring.places_in_sync().len(), needed) {
                (_, 1) => "none of the ring's members that are there holds".to_owned(),
                (found, needed) => {
                    format!("of the ring's members {needed} are needed, and {found} that are there hold")
                }
            };
            return Err(Error::Unusable(format!(
                "{holders} everything that was made durable: bring back one that does"
            )));
        }
        let mut replayed = Vec::new();
        if let Some(striping) = &mirror.striping {
            replayed = Box::pin(mirror.replay_stripes(striping, &logged)).await?;
            ring.flush_all().await;
            ring.check_alive()?;
            Box::pin(mirror.complete_logs(striping, &logged)).await?;
        }
        self.begin_dirty(&heads);
        // As by the first write of this opening.
        replayed.into_iter().for_each(|extent| mirror.dirty.note(extent, 1));
        mirror.progress.flushed.set(needed);
        ring.give_up_queues();
        opening.resumed.set(true);
        ring::start(&self.0);
        self.rebuild_stale();
        Ok(())
    }

    async fn begin(&self) -> Result<(), DeviceError> {
        let (mirror, ring) = (&*self.0, &self.0.ring);
        let opening = mirror.opening.number.get();
        let version = mirror.log.places.get().version;
        let mut told = mirror.opening.begun.get().told;
        for (place, told) in told.iter_mut().enumerate().take(ring.members.len()) {
            if ring.members[place].is_in_sync() {
                *told = opening;
            }
        }
        mirror.opening.begun.set(DurableOpening { opening, version, told });
        if let Some(striping) = &mirror.striping {
            Box::pin(mirror.begin_stripes(striping)).await?;
        }
        mirror.write_heads().await
    }

    /// At once on all members of a mirror: nobody reads any more. In stripes it is a change as any other.
    async fn end(&self, last: Option<&Superblock>) -> Result<(), DeviceError> {
        // A journal on the members has it there already.
        if let Some(last) = last.filter(|_| !self.holds_log()) {
            let offset = home_copy_offset(last.home_bytes, (last.generation % 2) as usize);
            match self.0.striping {
                None => self.0.leave_on_all(offset, &last.encode()).await,
                Some(_) => self.0.leave_in_stripes(offset, &last.encode()).await,
            }
        }
        let told = if is_planted(Bug::RingEndUntold) { Ok(()) } else { self.0.write_heads().await };
        if !is_planted(Bug::ConversionRingAtWork) {
            self.0.ring.quiesce().await;
        }
        told
    }

    async fn enlarge(&self, size_bytes: u64) -> Result<(), Error> {
        self.0.enlarge(size_bytes).await
    }

    fn verify_with(&self, verifier: Weak<dyn Verifier>) {
        self.0.verifier.replace(Some(verifier));
        self.0.ring.changed.all();
    }

    async fn write_numbered(&self, writes: &[PlacedWrite<'_>]) -> Result<u64, NotWritten> {
        self.0.write(writes).await
    }

    async fn settled_beyond(&self, number: u64) -> u64 {
        self.wait_settled(number).await
    }

    fn state(&self) -> StoreState {
        let bit = |(place, member): (usize, &Member<M>)| u64::from(member.is_in_sync()) << place;
        let in_sync = self.0.ring.members.iter().enumerate().map(bit).sum();
        let flushed = self.0.progress.flushed.get();
        StoreState([in_sync, flushed.epoch, flushed.through, self.0.opening.log_losses.get()])
    }

    fn note_superblock(&self, generation: u64, state: StoreState) {
        self.0.opening.superblock.set(generation);
        if let Some(striping) = &self.0.striping {
            striping.log.note_told(mark_of(state));
        }
    }

    fn note_fill(&self, fill: f64) {
        self.0.ring.note_fill(fill);
    }

    fn keeps_turns(&self) -> bool {
        self.0.ring.keeps_turns() && self.0.ring.has_full_turns()
    }

    fn note_client_read(&self) {
        self.0.ring.note_client_read();
    }

    fn note_readers(&self, may_come: bool) {
        self.0.ring.note_readers(may_come);
    }

    fn note_more_comes(&self, comes: bool) {
        self.0.ring.note_more_comes(comes);
    }
}
