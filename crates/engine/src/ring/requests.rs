//! What a member is asked: one request to one drive, within the time that it has to answer.
//!
//! 1. A member that cannot read something is not given up for it; one that does not answer is ([`super::answers`]).
//! 2. A discard is a hint: a member that cannot is asked to discard no more, and is as well as before.

use std::future::Future;
use std::rc::Rc;

use super::answers::Answers;
use super::drain::Busy;
use super::member::{Member, Role};
use super::{EIO, ETIMEDOUT, Policy, Ring};
use crate::device::{Drive, Durability, Extent, FlushScope};
use crate::env::Env;
use crate::error::DeviceError;
use crate::events::Event;
use crate::join;
use crate::planted::{Bug, is_planted};

/// What a member is asked to change.
#[derive(Clone, Copy)]
pub(crate) enum Change<'a> {
    /// To write bytes that lie in several places.
    Write(&'a [&'a [u8]]),
    /// To give up what is there.
    Discard,
}

impl<E: Env, M: Drive> Ring<E, M> {
    /// What a device that nobody else asks for anything answers, or that it did not within the time that it has.
    pub(crate) async fn limited<T>(
        &self,
        answer: impl Future<Output = Result<T, DeviceError>>,
    ) -> Result<T, DeviceError> {
        self.answered(&Answers::default(), answer).await?
    }

    /// What the member at `place` answers, which is asked for more; an error where it is silent for too long.
    pub(crate) async fn limited_at<T>(
        &self,
        place: usize,
        answer: impl Future<Output = Result<T, DeviceError>>,
    ) -> Result<T, DeviceError> {
        self.answered(&self.members[place].answers, answer).await?
    }

    async fn answered<T>(
        &self,
        answers: &Answers,
        answer: impl Future<Output = Result<T, DeviceError>>,
    ) -> Result<Result<T, DeviceError>, DeviceError> {
        let answered = answers.wait(&self.env, self.options.answer_max_ns, answer).await;
        answered.ok_or(DeviceError { doing: "wait for a member of the ring", errno: ETIMEDOUT })
    }

    /// How little a member is fit for a read now: the least is asked first.
    pub(crate) fn busyness(&self, member: &Member<M>) -> (bool, usize) {
        let (reads, writes) = (member.reads_under_way.get(), member.gate.under_way());
        match self.options.policy {
            Policy::Auto if !self.keeps_turns() => (false, reads + writes),
            Policy::Mixed => (false, reads + writes),
            Policy::ReadFirst => (false, reads),
            Policy::Auto | Policy::Turns | Policy::ReadAround => {
                (member.role.get() == Role::Writing && !is_planted(Bug::RingReadsWriter), reads)
            }
        }
    }

    /// Fills `into` from this member.
    pub(crate) async fn read_from(
        &self,
        place: usize,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        let member = &self.members[place];
        if !member.is_in_sync() {
            return Err(DeviceError { doing: "read a member of the ring that lacks writes", errno: EIO });
        }
        let device = member.device()?;
        let under_way = UnderWay::begin(self, member);
        let (began_ns, met_writes) = (self.env.now_ns(), self.is_disturbed(member));
        let read = self.limited_at(place, device.read(offset + self.data_offset(), into)).await;
        drop(under_way);
        self.note_read(member, began_ns, met_writes, into.len());
        match read {
            Ok(()) => {
                member.read_bytes.set(member.read_bytes.get() + into.len() as u64);
                // It may have failed meanwhile, and another gone on without it.
                if member.is_in_sync() { Ok(()) } else { Err(DeviceError { doing: "read", errno: EIO }) }
            }
            Err(error) => {
                if error.errno == ETIMEDOUT {
                    self.fail_device(place, &device, error);
                }
                Err(error)
            }
        }
    }

    /// As [`Self::change_device`], on whatever device is in its place. A member that answers with an error fails.
    pub(crate) async fn change_or_fail(&self, place: usize, extent: Extent, change: Change<'_>) {
        let Ok(device) = self.members[place].device() else { return };
        if let Err(error) = self.change_device(&device, place, extent, change).await {
            self.fail_device(place, &device, error);
        }
    }

    /// Changes what the layout has at `extent` on this member.
    pub(crate) async fn change_device(
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
                self.limited_at(place, device.write_parts(offset, parts, Durability::Buffered)).await?;
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
        let discarded = self.answered(&member.answers, device.discard(extent)).await?;
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
    pub(crate) fn busy(&self, place: usize) -> Busy<'_, E> {
        let drain = Rc::clone(&self.members[place].drain.borrow());
        drain.begin(&self.env)
    }

    /// Has every member in sync make durable what it was given, and says nothing of it.
    pub(crate) async fn flush_all(&self) {
        let in_sync = self.members.iter().enumerate().filter(|(_, member)| member.is_in_sync());
        join::all(in_sync.map(|(place, member)| async move {
            let Ok(device) = member.device() else { return };
            if let Err(error) = self.limited_at(place, device.flush(FlushScope::Whole)).await {
                self.fail_device(place, &device, error);
            }
        }))
        .await;
    }
}

/// A read under way on a member.
struct UnderWay<'a, E: Env, M: Drive> {
    ring: &'a Ring<E, M>,
    member: &'a Member<M>,
}

impl<'a, E: Env, M: Drive> UnderWay<'a, E, M> {
    fn begin(ring: &'a Ring<E, M>, member: &'a Member<M>) -> Self {
        member.reads_under_way.set(member.reads_under_way.get() + 1);
        if ring.options.policy == Policy::ReadFirst {
            member.gate.close();
        }
        Self { ring, member }
    }
}

impl<E: Env, M: Drive> Drop for UnderWay<'_, E, M> {
    fn drop(&mut self) {
        let left = self.member.reads_under_way.get() - 1;
        self.member.reads_under_way.set(left);
        if left > 0 {
            return;
        }
        if self.ring.options.policy == Policy::ReadFirst && self.member.state.get().takes_writes() {
            self.member.gate.open();
        }
        self.ring.changed.all();
    }
}
