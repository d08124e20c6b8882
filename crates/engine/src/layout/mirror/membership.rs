//! Telling the members of a ring whom the log on them needs.
//!
//! 1. One change at a time, each with a version of its own. What the heads say is decided in [`super::quorum`].
//! 2. A change counts, and records are written under it, only once those have it on both copies of their heads on whom
//!    it depends; a member that cannot be told fails.

use std::cell::Cell;
use std::rc::Rc;

use super::quorum::{has, is_enough};
use super::{Inner, MirrorPages};
use crate::device::Drive;
use crate::env::Env;
use crate::error::DeviceError;
use crate::format::ring_head::{HEAD_COPIES, LogPlaces};
use crate::join;
use crate::ring::EIO;

/// The right to change what heads say of the log, until this is dropped.
pub(super) struct MembershipChange<'a, E: Env, M: Drive>(&'a Inner<E, M>);

impl<E: Env, M: Drive> Drop for MembershipChange<'_, E, M> {
    fn drop(&mut self) {
        self.0.log.noting.set(false);
        self.0.ring.changed.all();
    }
}

impl<E: Env, M: Drive> Inner<E, M> {
    /// Writes heads to these, and answers who has them; the others fail.
    pub(super) async fn tell(&self, places: u64) -> u64 {
        let told = Cell::new(0);
        let to = (0..self.ring.members.len()).filter(|&place| has(places, place));
        join::all(to.map(|place| {
            let told = &told;
            async move {
                let Ok(device) = self.ring.members[place].device() else { return };
                let next = |before| self.head_behind(before, place, self.heads[place].mark.get());
                match self.ring.limited_at(place, self.write_head(place, next)).await {
                    Ok(()) => told.set(told.get() | 1u64 << place),
                    Err(error) => self.ring.fail_device(place, &device, error),
                }
            }
        }))
        .await;
        told.get()
    }

    /// Changes what heads say of the log, alone.
    pub(super) async fn begin_noting(&self) -> MembershipChange<'_, E, M> {
        self.ring.changed.until(|| (!self.log.noting.replace(true)).then_some(())).await;
        MembershipChange(self)
    }

    /// Has the heads name everyone in sync.
    pub(super) async fn name_in_sync(&self) -> Result<(), DeviceError> {
        let noting = self.begin_noting().await;
        let joiners = self.in_sync() & !self.log.noted.get();
        let named = match self.log.places.get().needed {
            _ if joiners == 0 => self.ring.check_alive(),
            0 => self.name_joiners(joiners).await,
            _ => self.name_one(joiners.trailing_zeros() as usize).await,
        };
        drop(noting);
        named
    }

    /// Has the heads name these, who hold an empty log.
    async fn name_joiners(&self, joiners: u64) -> Result<(), DeviceError> {
        let log = &self.log;
        let before = log.places.get();
        let is_enough = |told: u64| is_enough(told | self.ring.options.given_up, before.empty_on);
        // Whoever was given up is not there to be asked, now or later.
        let empty_on = if self.ring.options.given_up == 0 { before.empty_on } else { 0 };
        log.places.set(LogPlaces { version: log.next_version(), needed: joiners, empty_on, ..before });
        let (mut left, mut told) = (joiners, 0);
        // One after the other, the first one first: none is told where others could still go on without it.
        for place in (0..self.ring.members.len()).filter(|&place| has(joiners, place)) {
            if !is_enough(told | left) {
                break;
            }
            told |= self.tell_for_good(1 << place).await;
            left &= !(1 << place);
        }
        if !is_enough(told) {
            log.places.set(before);
            return Err(DeviceError { doing: "tell enough members who holds the log", errno: EIO });
        }
        log.noted.set(joiners);
        log.counting.set(log.counting.get() | joiners);
        self.ring.check_alive()
    }

    /// Has the heads name this one beside those that they name.
    async fn name_one(&self, place: usize) -> Result<(), DeviceError> {
        let log = &self.log;
        let before = log.places.get();
        let needed = before.needed | 1 << place;
        let is_in_log = &self.log.regions[place].is_in_log;
        let was_in_log = is_in_log.replace(true);
        // First on itself: whoever is named is known to hold a part of the log. No head of another member, which may be
        // written at any time, names it before that is durable.
        let is_told = self.tell_for_good(1 << place).await != 0;
        // Another device may have been put there meanwhile.
        if !is_told || !is_in_log.get() {
            is_in_log.set(was_in_log && is_in_log.get());
            return self.ring.check_alive();
        }
        log.places.set(LogPlaces { version: log.next_version(), needed, empty_on: 0, ..before });
        // It was told of this opening as it was named.
        self.note_told(place);
        // Those who do not know of it would be taken for enough.
        if self.tell_for_good(self.in_sync()).await & before.needed == 0 {
            return Err(DeviceError { doing: "tell a member who holds the log", errno: EIO });
        }
        log.noted.set(log.noted.get() | 1 << place);
        log.counting.set(log.counting.get() | 1 << place);
        self.ring.check_alive()
    }

    /// As [`Self::tell`], so that no older head is left.
    pub(super) async fn tell_for_good(&self, places: u64) -> u64 {
        let mut told = places;
        for _ in 0..HEAD_COPIES {
            told &= self.tell(told).await;
        }
        told
    }
}

impl<E: Env, M: Drive> MirrorPages<E, M> {
    /// Has the heads name a member that was rebuilt on this device, and is about to be in sync.
    pub(super) async fn name_rebuilt(&self, place: usize, device: &Rc<M>) -> Result<(), DeviceError> {
        let inner = &*self.0;
        if inner.ring.options.log_bytes == 0 {
            return Ok(());
        }
        // Where no head names anyone, all that say so hold the log: this one does not.
        inner.name_in_sync().await?;
        let _noting = inner.begin_noting().await;
        self.check_rebuilds(place, device)?;
        inner.name_one(place).await?;
        self.check_rebuilds(place, device)?;
        let region = &inner.log.regions[place];
        region.is_joining.set(region.is_in_log.get());
        Ok(())
    }
}
