//! What changes the members: writes, discards, flushes, and bytes that are put once more.

use std::rc::Rc;

use super::copying::CopyGuard;
use super::drain::Busy;
use super::gate::Ticket;
use super::member::Member;
use super::{EIO, Inner, Policy, Ring};
use crate::device::{Drive, Durability, Extent, FlushScope};
use crate::env::Env;
use crate::error::DeviceError;
use crate::events::Event;
use crate::format::ring_head::Mark;
use crate::join;
use crate::planted::{Bug, is_planted};

/// What a member is asked.
#[derive(Clone, Copy)]
enum Change<'a> {
    Write(&'a [&'a [u8]]),
    Discard,
}

impl<E: Env, M: Drive> Inner<E, M> {
    /// Writes to every member that takes part, each in its turn; ends when all have it.
    pub(super) async fn write(&self, offset: u64, parts: &[&[u8]]) -> Result<(), DeviceError> {
        let len = parts.iter().map(|part| part.len() as u64).sum();
        self.change(Extent::new(offset, len), Change::Write(parts)).await
    }

    /// Discards on every member that takes part, each in its turn.
    pub(super) async fn discard(&self, extent: Extent) -> Result<(), DeviceError> {
        self.change(extent, Change::Discard).await
    }

    async fn change(&self, extent: Extent, change: Change<'_>) -> Result<(), DeviceError> {
        if extent.len == 0 {
            return self.check_alive();
        }
        let writing = self.copies.begin_write(extent).await;
        self.check_alive()?;
        let sequence = self.issued.get() + 1;
        self.issued.set(sequence);
        // All at once: every member has the writes in the same order.
        let takes_it =
            |place: usize| self.members[place].is_in_sync() || !is_planted(Bug::RingRebuildMissesWrites);
        let enqueue =
            |(place, member): (usize, &Member<M>)| (place, member.gate.enqueue(sequence, extent.len));
        let tickets: Vec<(usize, Ticket)> =
            self.taking_part().filter(|(place, _)| takes_it(*place)).map(enqueue).collect();
        self.changed.all();
        let changes =
            tickets.into_iter().map(|(place, ticket)| self.change_one(place, ticket, extent, change));
        join::all(changes).await;
        drop(writing);
        self.check_alive()
    }

    async fn change_one(&self, place: usize, ticket: Ticket, extent: Extent, change: Change<'_>) {
        if ticket.turn().await {
            self.change_or_leave_out(place, extent, change).await;
        }
        ticket.done();
        self.changed.all();
    }

    async fn change_or_leave_out(&self, place: usize, extent: Extent, change: Change<'_>) {
        let Ok(device) = self.members[place].device() else { return };
        if let Err(error) = self.change_device(&device, place, extent, change).await {
            self.leave_out_for(place, &device, error);
        }
    }

    async fn change_device(
        &self,
        device: &M,
        place: usize,
        extent: Extent,
        change: Change<'_>,
    ) -> Result<(), DeviceError> {
        let member = &self.members[place];
        let offset = extent.offset + self.data_offset();
        match change {
            Change::Write(parts) => {
                let busy = self.busy(place);
                self.limited(device.write_parts(offset, parts, Durability::Buffered)).await?;
                busy.took(extent.len);
                member.written_bytes.set(member.written_bytes.get() + extent.len);
            }
            Change::Discard => return self.discard_on(device, place, Extent::new(offset, extent.len)).await,
        }
        Ok(())
    }

    /// A discard is a hint: a member that answers that it cannot is asked no more, and is as well as before. One that does
    /// not answer fails, as with any request: what it has still under way may reach a place that is written by then.
    async fn discard_on(&self, device: &M, place: usize, extent: Extent) -> Result<(), DeviceError> {
        let member = &self.members[place];
        if member.discards_stopped.get().is_some() {
            return Ok(());
        }
        let discarded = self.answered(device.discard(extent)).await?;
        let Err(error) = discarded else { return Ok(()) };
        if is_planted(Bug::RingDiscardFailsMember) {
            return Err(error);
        }
        member.failed_discards.set(member.failed_discards.get() + 1);
        if member.discards_stopped.replace(Some(error)).is_none() {
            self.events.note(Event::DiscardsStopped { place: Some(place), error });
        }
        Ok(())
    }

    /// The member has something under way, until this is dropped.
    fn busy(&self, place: usize) -> Busy<'_, E> {
        let drain = Rc::clone(&self.members[place].drain.borrow());
        drain.begin(&self.env)
    }

    /// Whether a member's device holds other bytes there, or cannot tell, and is still the member's.
    async fn lacks(&self, place: usize, offset: u64, bytes: &[u8]) -> bool {
        let Ok(device) = self.members[place].device() else { return false };
        let mut found = vec![0; bytes.len()];
        let read = self.limited(device.read(offset + self.data_offset(), &mut found)).await;
        (read.is_err() || found != bytes) && self.members[place].has(&device)
    }

    /// Puts bytes on every member in sync, durably and out of turn.
    pub(crate) async fn leave_on_all(&self, offset: u64, bytes: &[u8]) {
        let in_sync: Vec<usize> =
            (0..self.members.len()).filter(|&place| self.members[place].is_in_sync()).collect();
        join::all(in_sync.into_iter().map(|place| async move {
            let Ok(device) = self.members[place].device() else { return };
            let write = device.write(offset + self.data_offset(), bytes, Durability::Durable);
            if let Err(error) = self.limited(write).await {
                self.leave_out_for(place, &device, error);
            }
        }))
        .await;
    }

    /// Makes durable, on every member in sync, what was done before.
    pub(super) async fn flush(&self) -> Result<(), DeviceError> {
        if !self.resumed.get() {
            self.flush_all().await;
            return self.check_alive();
        }
        let wanted = Mark { epoch: self.epoch.get(), through: self.issued.get() };
        if wanted.through == 0 {
            return self.check_alive();
        }
        let is_behind =
            |place: usize| self.members[place].is_in_sync() && self.members[place].mark.get() < wanted;
        match self.options.policy {
            Policy::Turns | Policy::ReadAround => {
                self.flush_wanted.set(wanted.through);
                self.changed.all();
                let is_done = || match is_planted(Bug::RingFlushOfOne) {
                    false => !(0..self.members.len()).any(is_behind),
                    true => (0..self.members.len()).any(|place| !is_behind(place)),
                };
                self.changed.until(|| is_done().then_some(())).await;
            }
            Policy::Mixed | Policy::ReadFirst => loop {
                // One may have become in sync meanwhile that is behind.
                let behind: Vec<usize> = (0..self.members.len()).filter(|&place| is_behind(place)).collect();
                if behind.is_empty() {
                    break;
                }
                join::all(behind.into_iter().map(|place| self.settle(place))).await;
            },
        }
        self.check_alive()?;
        self.flushed.set(self.flushed.get().max(wanted));
        Ok(())
    }

    /// Has every member in sync make durable what it was given, and says nothing of it.
    pub(crate) async fn flush_all(&self) {
        let in_sync = self.members.iter().enumerate().filter(|(_, member)| member.is_in_sync());
        join::all(in_sync.map(|(place, member)| async move {
            let Ok(device) = member.device() else { return };
            if let Err(error) = self.limited(device.flush(FlushScope::Whole)).await {
                self.leave_out_for(place, &device, error);
            }
        }))
        .await;
    }

    /// Makes durable what ended on a member, and has it say so.
    pub(super) async fn settle(&self, place: usize) {
        let member = &self.members[place];
        let ended = match is_planted(Bug::RingMarksUnderWay) {
            false => member.gate.ended_through(),
            true => Some(self.issued.get()),
        };
        let settled = async {
            if !is_planted(Bug::RingNoFlush) {
                self.limited(member.flush()).await?;
            }
            if !member.is_in_sync() {
                return Ok(());
            }
            let through = ended.ok_or(DeviceError { doing: "carry a write out to its end", errno: EIO })?;
            let mark = Mark { epoch: self.epoch.get(), through };
            // Another may have come further meanwhile: heads never go back.
            let next = |before| self.head_behind(before, place, mark.max(member.mark.get()));
            self.limited(member.write_head(next)).await
        };
        let Ok(device) = member.device() else { return };
        let _busy = self.busy(place);
        if let Err(error) = settled.await {
            self.leave_out_for(place, &device, error);
        }
        self.changed.all();
    }
}

impl<E: Env, M: Drive> Ring<E, M> {
    /// Puts bytes once more where they belong, on every member in sync, in its turn; where somebody writes, newer ones
    /// come anyway.
    pub(crate) fn mend_later(&self, offset: u64, bytes: &[u8]) {
        let (ring, bytes) = (self.clone(), bytes.to_vec());
        let extent = Extent::new(offset, bytes.len() as u64);
        // From now on, or not at all: later the bytes may be old.
        let Some(copy) = self.0.copies.try_copy(extent) else { return };
        self.0.env.spawn(async move {
            let inner = &*ring.0;
            let in_sync = inner.members.iter().enumerate().filter(|(_, member)| member.is_in_sync());
            let tickets: Vec<_> =
                in_sync.map(|(place, member)| (place, member.gate.enqueue(0, extent.len))).collect();
            inner.changed.all();
            join::all(tickets.into_iter().map(|(place, ticket)| {
                let (copy, bytes) = (&copy, &bytes[..]);
                async move {
                    if ticket.turn().await && copy.begin() {
                        if inner.lacks(place, offset, bytes).await {
                            inner.change_or_leave_out(place, extent, Change::Write(&[bytes])).await;
                        }
                        copy.end();
                    }
                    ticket.done();
                    inner.changed.all();
                }
            }))
            .await;
        });
    }

    /// As [`Self::mend_later`], to one member that is rebuilt on this device, and waits for it; false where a write came
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
        let ticket = inner.members[place].gate.enqueue(0, copy.copying.extent.len);
        let mut copied = Ok(());
        if ticket.turn().await && copy.begin() {
            copied = inner.change_device(device, place, copy.copying.extent, Change::Write(&[bytes])).await;
            copy.end();
        }
        ticket.done();
        copied.map(|()| !copy.is_spoiled())
    }
}
