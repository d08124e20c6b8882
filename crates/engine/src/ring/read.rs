//! Who serves a read.
//!
//! 1. The least busy of the members that only read; one that writes, only where there is no other.
//! 2. A member that cannot read something is not given up for it: another is asked. One that does not answer is.

use super::member::{Member, Role};
use super::{ETIMEDOUT, Inner, Policy};
use crate::device::Drive;
use crate::env::Env;
use crate::error::DeviceError;
use crate::planted::{Bug, is_planted};

impl<E: Env, M: Drive> Inner<E, M> {
    /// Fills `into` from one of the members.
    pub(super) async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let mut asked = 0u64;
        let mut failure = None;
        while let Some(place) = self.reader(asked) {
            asked |= 1 << place;
            match self.read_from(place, offset, into).await {
                Ok(()) => return Ok(()),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.unwrap_or_else(|| {
            self.check_alive().err().unwrap_or(DeviceError { doing: "read", errno: super::EIO })
        }))
    }

    /// Who reads next, of those that were not asked yet.
    fn reader(&self, asked: u64) -> Option<usize> {
        let turn = self.reads.replace(self.reads.get() + 1) as usize;
        let places = self.members.len();
        let in_turn = (0..places).map(|step| (turn + step) % places);
        let may = |place: &usize| self.members[*place].is_in_sync() && asked >> place & 1 == 0;
        in_turn.filter(may).min_by_key(|&place| self.busyness(&self.members[place]))
    }

    fn busyness(&self, member: &Member<M>) -> (bool, usize) {
        let (reads, writes) = (member.reads_under_way.get(), member.gate.under_way());
        match self.options.policy {
            Policy::Mixed => (false, reads + writes),
            Policy::ReadFirst => (false, reads),
            Policy::Turns | Policy::ReadAround => {
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
            return Err(DeviceError {
                doing: "read a member of the ring that lacks writes",
                errno: super::EIO,
            });
        }
        let device = member.device()?;
        let under_way = UnderWay::begin(self, member);
        let read = self.limited(device.read(offset + self.data_offset(), into)).await;
        drop(under_way);
        match read {
            Ok(()) => {
                member.read_bytes.set(member.read_bytes.get() + into.len() as u64);
                // It may have been left out meanwhile, and another gone on without it.
                if member.is_in_sync() {
                    Ok(())
                } else {
                    Err(DeviceError { doing: "read", errno: super::EIO })
                }
            }
            Err(error) => {
                if error.errno == ETIMEDOUT {
                    self.leave_out_for(place, &device, error);
                }
                Err(error)
            }
        }
    }
}

/// A read under way on a member.
struct UnderWay<'a, E: Env, M: Drive> {
    ring: &'a Inner<E, M>,
    member: &'a Member<M>,
}

impl<'a, E: Env, M: Drive> UnderWay<'a, E, M> {
    fn begin(ring: &'a Inner<E, M>, member: &'a Member<M>) -> Self {
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
        if self.ring.options.policy == Policy::ReadFirst && self.member.standing.get().takes_writes() {
            self.member.gate.open();
        }
        self.ring.changed.all();
    }
}
