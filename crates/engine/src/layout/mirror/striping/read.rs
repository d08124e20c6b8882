//! What a shard holds: from its member, or computed from K others of one version.

use std::cell::Cell;
use std::rc::Rc;

use super::super::Inner;
use super::{Computing, Reason, Striping};
use crate::device::{Drive, Extent};
use crate::env::Env;
use crate::error::DeviceError;
use crate::format::{PAGE, PAGE_BYTES};
use crate::layout::erasure::geometry::Shard;
use crate::planted::{Bug, is_planted};
use crate::ring::EIO;

/// Where the bytes of a shard are from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::layout::mirror) enum From {
    /// Its member.
    Member,
    /// Others, since its member writes or does not take part.
    Others,
    /// Others, since its member could not read them.
    OthersAsItFailed,
}

impl<E: Env, M: Drive> Inner<E, M> {
    /// Fills `into` from the stripes there.
    pub(in crate::layout::mirror) async fn read_stripes(
        &self,
        striping: &Striping,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        let mut rest = into;
        for piece in striping.stripes.pieces(Extent::new(offset, rest.len() as u64)) {
            let (this, next) = rest.split_at_mut(piece.extent.len as usize);
            self.read_shard(striping, piece.shard, piece.on_member, this).await?;
            rest = next;
        }
        Ok(())
    }

    /// Fills `into` with some rows of a shard: from its member, or from others where that one writes or cannot.
    pub(in crate::layout::mirror) async fn read_shard(
        &self,
        striping: &Striping,
        shard: Shard,
        rows: Extent,
        into: &mut [u8],
    ) -> Result<From, DeviceError> {
        let place = striping.stripes.place_of(shard);
        let is_read_around = !self.is_idle(place) && self.idle_members(striping) >= striping.stripes.data();
        if is_read_around && self.compute_shard(striping, shard, rows, Reason::InTurn, into).await.is_ok() {
            return Ok(From::Others);
        }
        let mut failure = None;
        if self.ring.members[place].is_in_sync() {
            match self.ring.read_from(place, rows.offset, into).await {
                Ok(()) => return Ok(From::Member),
                Err(error) => failure = Some(error),
            }
        }
        let computed = self.compute_shard(striping, shard, rows, Reason::Lacking, into).await;
        let from = if failure.is_some() { From::OthersAsItFailed } else { From::Others };
        computed.map(|()| from).map_err(|error| failure.unwrap_or(error))
    }

    /// Fills `into` with some rows of a shard as others have them, without its own member.
    pub(in crate::layout::mirror) async fn compute_shard(
        &self,
        striping: &Striping,
        shard: Shard,
        rows: Extent,
        reason: Reason,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        let mut offset = rows.offset;
        let mut rest = into;
        while !rest.is_empty() {
            let len = (PAGE_BYTES - offset % PAGE_BYTES).min(rest.len() as u64) as usize;
            let (this, next) = rest.split_at_mut(len);
            let page = self.compute_page(striping, shard, offset / PAGE_BYTES * PAGE_BYTES, reason).await?;
            this.copy_from_slice(&page[(offset % PAGE_BYTES) as usize..][..len]);
            (offset, rest) = (offset + len as u64, next);
        }
        Ok(())
    }

    pub(super) async fn compute_page(
        &self,
        striping: &Striping,
        shard: Shard,
        offset: u64,
        reason: Reason,
    ) -> Result<[u8; PAGE], DeviceError> {
        loop {
            let rows = Extent::new(offset, PAGE_BYTES);
            let computing = Rc::new(Computing { rows, is_spoiled: Cell::default() });
            striping.computing.borrow_mut().push(Rc::clone(&computing));
            let computed = self.compute_once(striping, shard, offset, reason).await;
            striping.computing.borrow_mut().retain(|it| !Rc::ptr_eq(it, &computing));
            if !computing.is_spoiled.get() || is_planted(Bug::StripesMixVersions) {
                return computed;
            }
        }
    }

    pub(super) async fn compute_once(
        &self,
        striping: &Striping,
        shard: Shard,
        offset: u64,
        reason: Reason,
    ) -> Result<[u8; PAGE], DeviceError> {
        let stripes = striping.stripes;
        let within = offset - shard.stripe * stripes.shard_bytes();
        let mut present: Vec<(usize, [u8; PAGE])> = Vec::new();
        let of = |number| Shard { stripe: shard.stripe, number };
        let mut wanted: Vec<usize> =
            (0..stripes.members()).filter(|&number| number != shard.number).collect();
        // First what is in memory, then who is not busy, then data.
        let left_out = if let Reason::Version(left_out) = reason { left_out } else { 0 };
        // Where a shard cannot be read, none that is left out stands in for it: a scrub is to see that.
        let is_there = |number: usize| self.ring.members[stripes.place_of(of(number))].is_in_sync();
        let is_asked = |&number: &usize| left_out >> number & 1 == 0;
        if wanted.iter().filter(|&number| is_asked(number) && is_there(*number)).count() >= stripes.data() {
            wanted.retain(is_asked);
        }
        let rank = |&number: &usize| {
            let is_pending = striping.pending_page(of(number), within).is_some();
            let busyness = self.ring.busyness(&self.ring.members[stripes.place_of(of(number))]);
            (left_out >> number & 1, !is_pending, busyness, number)
        };
        let mut failure = DeviceError { doing: "compute what a member holds", errno: EIO };
        // Who is next is asked each time: whose turn it is changes meanwhile.
        while present.len() < stripes.data() {
            let next = (0..wanted.len()).min_by_key(|&at| rank(&wanted[at]));
            let Some(next) = next else { break };
            let number = wanted.swap_remove(next);
            let mut page = [0; PAGE];
            match striping.pending_page(of(number), within) {
                Some(pending) => page = pending,
                None => {
                    let place = stripes.place_of(of(number));
                    match reason {
                        Reason::Version(_) => self.idle(striping, place).await,
                        // Whose turn it was is over meanwhile.
                        Reason::InTurn if !self.is_idle(place) && self.is_idle(stripes.place_of(shard)) => {
                            return Err(failure);
                        }
                        Reason::InTurn | Reason::Lacking => {}
                    }
                    if let Err(error) = self.ring.read_from(place, offset, &mut page).await {
                        failure = error;
                        continue;
                    }
                }
            }
            present.push((number, page));
        }
        let present: Vec<(usize, &[u8])> =
            present.iter().map(|(number, page)| (*number, &page[..])).collect();
        let mut page = [0; PAGE];
        match striping.code.reconstruct(&present, &mut [(shard.number, &mut page)]) {
            Ok(()) => Ok(page),
            Err(_) => Err(failure),
        }
    }

    /// That a member can be read, and is in nobody's way.
    pub(super) fn is_idle(&self, place: usize) -> bool {
        let member = &self.ring.members[place];
        member.is_in_sync() && !self.ring.busyness(member).0
    }

    pub(super) fn idle_members(&self, striping: &Striping) -> usize {
        (0..striping.stripes.members()).filter(|&place| self.is_idle(place)).count()
    }

    /// Waits until a member is in nobody's way, cannot be read, or too few only read for a way around it.
    pub(super) async fn idle(&self, striping: &Striping, place: usize) {
        let may_be_asked = || {
            let is_in_sync = self.ring.members[place].is_in_sync();
            self.is_idle(place) || !is_in_sync || self.idle_members(striping) < striping.stripes.data()
        };
        self.ring.changed.until(|| may_be_asked().then_some(())).await;
    }

    /// Fills `into` as its member holds it, or as others do, those of one choice left out. Where too few others are in sync,
    /// there is no other version than that of its member.
    pub(in crate::layout::mirror) async fn read_version(
        &self,
        striping: &Striping,
        version: usize,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        let mut rest = into;
        for piece in striping.stripes.pieces(Extent::new(offset, rest.len() as u64)) {
            let (this, next) = rest.split_at_mut(piece.extent.len as usize);
            let others = self.ring.places_in_sync().into_iter().filter(|&place| place != piece.place).count();
            let is_computed = others >= striping.stripes.data();
            match version.checked_sub(1).filter(|_| is_computed) {
                None if self.ring.members[piece.place].is_in_sync() => {
                    self.idle(striping, piece.place).await;
                    self.ring.read_from(piece.place, piece.on_member.offset, this).await?;
                }
                choice => {
                    let left_out = striping.left_out(piece.shard.number, choice.unwrap_or(0));
                    self.compute_shard(
                        striping,
                        piece.shard,
                        piece.on_member,
                        Reason::Version(left_out),
                        this,
                    )
                    .await?;
                }
            }
            rest = next;
        }
        Ok(())
    }
}
