//! What changes all members: writes, discards, flushes, and bytes that are put once more.

use std::cell::Cell;
use std::rc::Rc;

use super::striping::Striping;
use super::{Inner, MirrorPages};
use crate::device::{Drive, Durability, Extent};
use crate::env::Env;
use crate::error::DeviceError;
use crate::format::ring_head::Mark;
use crate::join;
use crate::layout::{NotWritten, PlacedWrite};
use crate::planted::{Bug, is_planted};
use crate::ring::copying::CopyGuard;
use crate::ring::{Change, EIO, Member, Ring, TakesTurns, Ticket};

impl<E: Env, M: Drive> Inner<E, M> {
    /// Writes to every member that takes part, each in its turn; ends when all have it, and answers the last one's number.
    pub(super) async fn write(&self, writes: &[PlacedWrite<'_>]) -> Result<u64, NotWritten> {
        match (&self.striping, writes) {
            (Some(striping), _) => Box::pin(self.write_stripes(striping, writes)).await,
            (None, [write]) => Ok(self.change(write.extent(), Change::Write(&write.parts)).await?),
            (None, _) => {
                let (failure, last) = (Cell::new(None), Cell::new(0));
                join::all(writes.iter().map(|write| async {
                    match self.change(write.extent(), Change::Write(&write.parts)).await {
                        Ok(number) => last.set(number.max(last.get())),
                        Err(error) => failure.set(Some(error)),
                    }
                }))
                .await;
                failure.take().map_or(Ok(last.get()), |error: DeviceError| Err(error.into()))
            }
        }
    }

    /// Discards on every member that takes part, each in its turn.
    pub(super) async fn discard(&self, extent: Extent) -> Result<(), DeviceError> {
        if self.striping.is_some() {
            // Parity is that of what is there, whether anybody reads it or not.
            return self.ring.check_alive();
        }
        self.change(extent, Change::Discard).await.map(drop)
    }

    async fn change(&self, extent: Extent, change: Change<'_>) -> Result<u64, DeviceError> {
        if extent.len == 0 {
            return self.ring.check_alive().map(|()| 0);
        }
        let writing = self.copies.begin_write(&[extent]).await;
        self.ring.check_alive()?;
        let sequence = self.progress.issued.get() + 1;
        self.progress.issued.set(sequence);
        // Before any member has it: no head says that it is home and not that it changed something. What is discarded is
        // never read.
        let is_written = matches!(change, Change::Write(_));
        if is_written && !is_planted(Bug::RingDirtyNotedLate) {
            self.dirty.note(extent, sequence);
        }
        // All at once: every member has the writes in the same order.
        let takes_it =
            |place: usize| self.ring.members[place].is_in_sync() || !is_planted(Bug::RingRebuildMissesWrites);
        let enqueue =
            |(place, member): (usize, &Member<M>)| (place, member.gate.enqueue(sequence, extent.len));
        let tickets: Vec<(usize, Ticket)> =
            self.ring.taking_part().filter(|(place, _)| takes_it(*place)).map(enqueue).collect();
        self.ring.changed.all();
        let changes =
            tickets.into_iter().map(|(place, ticket)| self.change_one(place, ticket, extent, change));
        join::all(changes).await;
        if is_written && is_planted(Bug::RingDirtyNotedLate) {
            self.dirty.note(extent, sequence);
        }
        drop(writing);
        self.ring.check_alive().map(|()| sequence)
    }

    async fn change_one(&self, place: usize, ticket: Ticket, extent: Extent, change: Change<'_>) {
        if ticket.turn().await {
            self.ring.change_or_fail(place, extent, change).await;
        }
        ticket.done();
        self.ring.changed.all();
    }

    /// Whether a member's device holds other bytes there, or cannot tell, and is still the member's.
    async fn lacks(&self, place: usize, offset: u64, bytes: &[u8]) -> bool {
        let Ok(device) = self.ring.members[place].device() else { return false };
        let mut found = vec![0; bytes.len()];
        let read =
            self.ring.limited_at(place, device.read(offset + self.ring.data_offset(), &mut found)).await;
        (read.is_err() || found != bytes) && self.ring.members[place].has(&device)
    }

    /// Puts bytes on every member in sync, durably and out of turn.
    pub(super) async fn leave_on_all(&self, offset: u64, bytes: &[u8]) {
        join::all(self.ring.places_in_sync().into_iter().map(|place| async move {
            let Ok(device) = self.ring.members[place].device() else { return };
            let write = device.write(offset + self.ring.data_offset(), bytes, Durability::Durable);
            if let Err(error) = self.ring.limited_at(place, write).await {
                self.ring.fail_device(place, &device, error);
            }
        }))
        .await;
    }

    /// Puts bytes into the stripes durably, as any write there; nothing, where that is not to be had any more: nobody relies on
    /// it.
    pub(super) async fn leave_in_stripes(&self, offset: u64, bytes: &[u8]) {
        if self.write(&[PlacedWrite { offset, parts: vec![bytes] }]).await.is_ok() {
            let _or_not = self.flush().await;
        }
    }

    /// How many of the first writes every member in sync has durably, and says so by its head; `None` where too few are:
    /// whoever failed last would be told to lack what the others cannot serve without it.
    fn settled(&self) -> Option<u64> {
        if self.ring.check_alive().is_err() && !is_planted(Bug::StripesSettledByFew) {
            return None;
        }
        let epoch = self.opening.epoch.get();
        let through = |place: usize| Some(self.heads[place].mark.get()).filter(|mark| mark.epoch == epoch);
        let of_each = self.ring.places_in_sync().into_iter();
        let of_each = of_each.map(|place| through(place).map_or(0, |mark| mark.through));
        match is_planted(Bug::RingSettledByOne) {
            false => of_each.min(),
            true => of_each.max(),
        }
    }

    /// How many of the first writes every member in sync has, durably or not.
    fn ended(&self) -> Option<u64> {
        let ended = |place: usize| self.ring.members[place].gate.ended_through().unwrap_or(0);
        self.ring.places_in_sync().into_iter().map(ended).min()
    }

    /// Makes durable, on every member in sync, what was done before.
    pub(super) async fn flush(&self) -> Result<(), DeviceError> {
        if !self.opening.resumed.get() {
            self.ring.flush_all().await;
            let is_being_made = self.opening.volume.get() != 0;
            // Before it is known which volume this is, the opening tells better that too few members are there.
            return if is_being_made || self.striping.is_none() { self.ring.check_alive() } else { Ok(()) };
        }
        let wanted = Mark { epoch: self.opening.epoch.get(), through: self.progress.issued.get() };
        if wanted.through == 0 {
            return self.ring.check_alive();
        }
        let is_behind =
            |place: usize| self.ring.members[place].is_in_sync() && self.heads[place].mark.get() < wanted;
        let is_done = || match is_planted(Bug::RingFlushOfOne) && self.ring.keeps_turns() {
            false => !(0..self.ring.members.len()).any(is_behind),
            true => (0..self.ring.members.len()).any(|place| !is_behind(place)),
        };
        // One may have become in sync meanwhile that is behind; and turns may begin, or be kept no more.
        while !is_done() {
            self.ring.check_settles()?;
            if self.ring.keeps_turns() {
                self.progress.flush_wanted.set(wanted.through);
                self.ring.changed.all();
                let may_go_on = || !self.ring.keeps_turns() || self.ring.work.none_settles();
                self.ring.changed.until(|| (is_done() || may_go_on()).then_some(())).await;
            } else {
                let behind = (0..self.ring.members.len()).filter(|&place| is_behind(place));
                join::all(behind.map(|place| self.settle(place))).await;
            }
        }
        self.ring.check_alive()?;
        self.progress.flushed.set(self.progress.flushed.get().max(wanted));
        Ok(())
    }
}

impl<E: Env, M: Drive> TakesTurns for Inner<E, M> {
    type Env = E;
    type Member = M;

    fn ring(&self) -> &Ring<E, M> {
        &self.ring
    }

    /// For a flush that somebody waits for, or a record.
    fn wants_turn(&self, place: usize) -> bool {
        let (mark, wanted) = (self.heads[place].mark.get(), self.progress.flush_wanted.get());
        let is_behind = wanted > 0 && (mark.epoch < self.opening.epoch.get() || mark.through < wanted);
        is_behind || self.wants_log()
    }

    fn records(&self) -> u64 {
        self.log.records.get()
    }

    fn has_record_waiting(&self) -> bool {
        self.wants_log()
    }

    fn begin_turn(&self, place: usize) {
        self.log.regions[place].begin_turn(self.ring.members[place].is_in_sync());
    }

    /// A member that was given a record is given another one soon.
    fn prolongs_turn(&self, place: usize) -> bool {
        let has_coming =
            self.ring.more_comes.get() || self.striping.as_ref().is_some_and(Striping::has_coming);
        self.log.regions[place].used.get() || self.has_log_waiting() || has_coming
    }

    fn end_turn(&self, place: usize) {
        self.log.regions[place].open.set(false);
    }

    async fn turn_drained(&self, place: usize) {
        let region = &self.log.regions[place];
        self.ring.changed.until(|| (region.under_way.get() == 0).then_some(())).await;
    }

    async fn settle(&self, place: usize) {
        let Some(_at_work) = self.ring.begin_to_settle() else { return };
        let member = &self.ring.members[place];
        let _settling = member.gate.begin_settle();
        let ended = match is_planted(Bug::RingMarksUnderWay) {
            false => member.gate.ended_through(),
            true => Some(self.progress.issued.get()),
        };
        let settled = async {
            if !is_planted(Bug::RingNoFlush) {
                self.ring.limited_at(place, member.flush()).await?;
            }
            if !member.is_in_sync() {
                return Ok(());
            }
            let through = ended.ok_or(DeviceError { doing: "carry a write out to its end", errno: EIO })?;
            let mark = Mark { epoch: self.opening.epoch.get(), through };
            // Another may have come further meanwhile: heads never go back.
            let next = |before| self.head_behind(before, place, mark.max(self.heads[place].mark.get()));
            self.ring.limited_at(place, self.write_head(place, next)).await
        };
        let Ok(device) = member.device() else { return };
        let _busy = self.ring.busy(place);
        if let Err(error) = settled.await {
            self.ring.fail_device(place, &device, error);
        }
        self.ring.changed.all();
    }
}

impl<E: Env, M: Drive> MirrorPages<E, M> {
    /// As [`crate::layout::PageStore::settled_beyond`]: members settle at the ends of turns and, where there are none, by
    /// themselves.
    pub(super) async fn wait_settled(&self, number: u64) -> u64 {
        let inner = &self.0;
        let is_beyond = |count: Option<u64>| count.filter(|&count| count > number);
        let settled = || {
            is_beyond(match is_planted(Bug::RingEndedIsSettled) {
                false => inner.settled(),
                true => inner.ended(),
            })
        };
        let settled = inner.ring.changed.until(settled).await;
        let mark = Mark { epoch: inner.opening.epoch.get(), through: settled };
        inner.progress.flushed.set(inner.progress.flushed.get().max(mark));
        settled
    }

    /// Puts bytes once more where they belong, on every member in sync, in its turn; where somebody writes, newer ones
    /// come anyway.
    pub(super) fn repair_later(&self, offset: u64, bytes: &[u8]) {
        let (extent, bytes) = (Extent::new(offset, bytes.len() as u64), bytes.to_vec());
        let Some(mend) = self.begin_mend() else { return };
        // From now on, or not at all: later the bytes may be old.
        let Some(copy) = self.0.copies.try_copy(extent) else { return };
        self.0.ring.env.spawn_background(async move {
            let inner = &*mend.ring().0;
            let Some(_at_work) = inner.ring.begin_work() else { return };
            let in_sync = inner.ring.members.iter().enumerate().filter(|(_, member)| member.is_in_sync());
            let tickets: Vec<_> =
                in_sync.map(|(place, member)| (place, member.gate.enqueue(0, extent.len))).collect();
            inner.ring.changed.all();
            join::all(tickets.into_iter().map(|(place, ticket)| {
                let (copy, bytes) = (&copy, &bytes[..]);
                async move {
                    if ticket.turn().await && copy.begin() {
                        if inner.lacks(place, offset, bytes).await {
                            inner.ring.change_or_fail(place, extent, Change::Write(&[bytes])).await;
                        }
                        copy.end();
                    }
                    ticket.done();
                    inner.ring.changed.all();
                }
            }))
            .await;
        });
    }

    /// As [`Self::repair_later`], to one member that is rebuilt on this device, and waits for it; false where a write came
    /// meanwhile. What another rebuild made whole and durable is not written again: a cut might tear it.
    pub(super) async fn copy_to(
        &self,
        place: usize,
        device: &Rc<M>,
        copy: &CopyGuard,
        bytes: &[u8],
    ) -> Result<bool, DeviceError> {
        let inner = &*self.0;
        self.check_rebuilds(place, device)?;
        let ticket = inner.ring.members[place].gate.enqueue(0, copy.copying.extent.len);
        let mut copied = Ok(());
        if ticket.turn().await && copy.begin() {
            copied =
                inner.ring.change_device(device, place, copy.copying.extent, Change::Write(&[bytes])).await;
            copy.end();
        }
        ticket.done();
        copied.map(|()| !copy.is_spoiled())
    }
}
