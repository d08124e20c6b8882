//! What an opening does with the stripe log: what it holds is written home once more, and then needed no more.

use super::super::stripe_log::Logged;
use super::super::{Inner, mark_of};
use super::Striping;
use crate::device::{Drive, Extent};
use crate::env::Env;
use crate::error::{DeviceError, Error};
use crate::format::ring_head::Mark;
use crate::format::superblock::StoreState;
use crate::layout::erasure::geometry::Shard;
use crate::planted::{Bug, is_planted};
use crate::ring::Change;

impl<E: Env, M: Drive> Inner<E, M> {
    /// The changes that are to be written once more, and what the newest makes of the state that a superblock remembers: who
    /// failed before may be known by the log of stripes alone.
    pub(in crate::layout::mirror) async fn logged_changes(
        &self,
        volume: u64,
        state: StoreState,
    ) -> Result<(StoreState, Vec<Logged>), Error> {
        let Some(striping) = &self.striping else { return Ok((state, Vec::new())) };
        let replayed = Mark { epoch: self.opening.epoch.get(), through: 0 };
        let mut tries = striping.log.copies().count_ones();
        let logged = loop {
            let logged = striping.log.scan(volume, &striping.stripes, replayed).await?;
            match self.level_logs(striping, &logged).await {
                Ok(()) => break logged,
                // Of what one alone had that cannot be read any more, nothing went home: it does not count.
                Err(_) if tries > 1 => tries -= 1,
                Err(error) => return Err(error.into()),
            }
        };
        let settled = logged.iter().map(|it| it.record.settled).max().unwrap_or_default();
        let needed = mark_of(state).max(settled);
        let StoreState([in_sync, .., log_losses]) = state;
        Ok((StoreState([in_sync, needed.epoch, needed.through, log_losses]), logged))
    }

    /// What was written once more is needed no more: all members in sync have it, and say so by their heads.
    pub(in crate::layout::mirror) async fn begin_stripes(
        &self,
        striping: &Striping,
    ) -> Result<(), DeviceError> {
        let settled = Mark { epoch: self.opening.epoch.get(), through: 0 };
        for place in self.ring.places_in_sync() {
            let mark = &self.heads[place].mark;
            mark.set(mark.get().max(settled));
        }
        self.write_heads().await?;
        self.progress.flushed.set(self.progress.flushed.get().max(settled));
        striping.log.begin(settled).await
    }

    /// Writes once more what the stripe log has, to all members that are in sync; answers where, from the begin of the members'
    /// shards: others lack that.
    pub(in crate::layout::mirror) async fn replay_stripes(
        &self,
        striping: &Striping,
        found: &[Logged],
    ) -> Result<Vec<Extent>, DeviceError> {
        let mut replayed = Vec::new();
        if found.iter().any(|logged| !logged.record.ranges.is_empty()) {
            striping.log.note_losses().await?;
        }
        let stripes = striping.stripes;
        let size_bytes = self.member_bytes(self.ring.geometry.get().size_bytes);
        for logged in found {
            let (record, body) = (&logged.record, striping.log.body(logged).await?);
            let mut at = 0;
            for range in &record.ranges {
                let bytes = &body[at..at + range.len as usize];
                at += range.len as usize;
                let place = stripes.place_of(Shard { stripe: record.stripe, number: range.number });
                let start = record.stripe.checked_mul(stripes.shard_bytes());
                let Some(start) = start.filter(|start| start + stripes.shard_bytes() <= size_bytes) else {
                    continue;
                };
                let extent = Extent::new(start + range.within, range.len);
                replayed.push(extent);
                if self.ring.members[place].is_in_sync() {
                    let mut bytes = bytes.to_vec();
                    if is_planted(Bug::StripesParityTwice) && range.number >= stripes.data() {
                        let mut there = vec![0; bytes.len()];
                        self.ring.read_from(place, extent.offset, &mut there).await?;
                        bytes.iter_mut().zip(there).for_each(|(byte, there)| *byte ^= there);
                    }
                    self.ring.change_or_fail(place, extent, Change::Write(&[&bytes])).await;
                }
            }
        }
        Ok(replayed)
    }

    /// Puts every record on all copies that count, before any of it goes home.
    async fn level_logs(&self, striping: &Striping, found: &[Logged]) -> Result<(), DeviceError> {
        for logged in found.iter().filter(|logged| striping.log.is_lacking(logged)) {
            striping.log.repair(logged, &striping.log.body(logged).await?).await?;
        }
        Ok(())
    }

    /// Puts what the stripe log has on log devices that lack some of it. Not later: such a one counts soon, and may be all that
    /// is left after a cut.
    pub(in crate::layout::mirror) async fn complete_logs(
        &self,
        striping: &Striping,
        found: &[Logged],
    ) -> Result<(), DeviceError> {
        if !striping.log.is_behind_somewhere() {
            return Ok(());
        }
        for logged in found {
            striping.log.repair(logged, &striping.log.body(logged).await?).await?;
        }
        Ok(())
    }
}
