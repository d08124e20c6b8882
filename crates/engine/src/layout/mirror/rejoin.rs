//! A member that was away and comes back: what it is, and whether it takes only what it missed.
//!
//! 1. It is the same member if its head is the one that this opening left there, or one that was on its way there; of one
//!    that was not seen in this opening, if it was last told of the opening that the others know it took part in. Then it is
//!    caught up: it takes every write from now on, and the regions are copied to it that changed behind its mark.
//! 2. One that is older than it was, or of which nothing is known, is rebuilt whole.
//! 3. One that somebody else wrote to, and what is not this member at all, is left alone: a person decides.
//! 4. Its head stays as it is until the copy is durable. So a cut in between leaves it as far behind as it was.

use std::rc::Rc;

use super::dirty::Kept;
use super::quorum::has;
use super::{Inner, MirrorPages};
use crate::device::Drive;
use crate::env::Env;
use crate::error::Error;
use crate::format::ring_head::RingHead;
use crate::ring::MemberState;

/// What became of a member that came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejoined {
    /// It takes what it missed: so many bytes at most.
    CatchesUp {
        /// Bytes of the regions that changed meanwhile.
        bytes: u64,
    },
    /// It is rebuilt whole.
    RebuiltWhole,
}

impl<E: Env, M: Drive> MirrorPages<E, M> {
    /// Gives the device of a member up that takes no part: whoever provides it may open it anew.
    pub fn let_go(&self, place: usize) {
        if let Some(member) = self.0.ring.members.get(place) {
            member.let_go();
        }
    }

    /// Takes a member back that does not take part, and is on `device`.
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`] where the member takes part, where what is on the device is not this member as it was left, or
    /// may be taken only later; that of the device.
    pub async fn rejoin(&self, place: usize, device: M) -> Result<Rejoined, Error> {
        self.check_fits(place, &device)?;
        let inner = &*self.0;
        if has(inner.log.places.get().needed, place) {
            return Err(Error::Unusable(
                "what it alone may hold of the log is still on its way home".to_owned(),
            ));
        }
        let device = Rc::new(device);
        let found = inner.ring.limited(async { Ok(inner.read_head_of(place, &device).await) }).await?;
        if inner.ring.members[place].state.get().takes_writes() {
            return Err(Error::Unusable("another took its place meanwhile".to_owned()));
        }
        let head = inner.judge_returned(place, found).map_err(|why| Error::Unusable(why.to_owned()))?;
        let Some(head) = head else {
            self.replace_shared(place, device).await?;
            return Ok(Rejoined::RebuiltWhole);
        };
        let member = &inner.ring.members[place];
        member.replace(device);
        inner.heads[place].come_back(head);
        inner.log.regions[place].leave();
        member.state.set(MemberState::Stale);
        let bytes = self.lacking_bytes(place).unwrap_or(0);
        self.rebuild_stale();
        Ok(Rejoined::CatchesUp { bytes })
    }
}

impl<E: Env, M: Drive> Inner<E, M> {
    /// What a member that came back with this head is: the head from which it is caught up, or `None` where it is rebuilt
    /// whole; an error, in words, where it is not taken.
    fn judge_returned(&self, place: usize, head: Option<RingHead>) -> Result<Option<RingHead>, &'static str> {
        let Some(head) = head.filter(|head| self.is_ours(self.opening.volume.get(), place, head)) else {
            return Err("what is there is not this member: it is left alone until it is replaced by name");
        };
        let known = self.heads[place].head.get();
        let is_ahead = match known {
            Some(known) => head.generation > known.generation + 1 || head.opening > known.opening,
            None => head.opening > self.opening.number.get() || head.mark.epoch >= self.opening.epoch.get(),
        };
        if is_ahead {
            return Err(
                "it was written to by somebody else while it was away: it is left alone until it is replaced by name",
            );
        }
        let is_as_left = match known {
            Some(known) => head.generation >= known.generation,
            None => self.was_left_so(place, &head),
        };
        let keeps = self.heads[place].kept.get() != Kept::Nothing;
        let is_known = self.dirty.behind(head.mark).is_some();
        Ok((keeps && is_as_left && is_known).then_some(head))
    }

    /// The member at `place` was rebuilt, and its head says that it knows of this opening: the next heads of the others say so.
    pub(super) fn note_told(&self, place: usize) {
        let mut begun = self.opening.begun.get();
        if begun.opening == self.opening.number.get() {
            begun.told[place] = begun.opening;
            self.opening.begun.set(begun);
        }
    }

    /// Whether a member with this head was last told of the opening that the others know it took part in.
    pub(super) fn was_left_so(&self, place: usize, head: &RingHead) -> bool {
        head.opening == self.opening.begun.get().told[place]
    }
}
