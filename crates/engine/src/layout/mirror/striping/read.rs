//! What shards hold: from their members, or computed from K others of one version ([`super::compute`]).

use std::cell::Cell;

use super::super::Inner;
use super::Striping;
use super::compute::{Computed, Reason};
use crate::device::{Drive, Extent};
use crate::env::Env;
use crate::error::DeviceError;
use crate::join;
use crate::layout::erasure::geometry::{Piece, Shard};
use crate::ring::{Admitted, Urgency};

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

/// A piece of a read, and where its bytes go.
type Part<'a> = (Piece, &'a mut [u8]);

impl<E: Env, M: Drive> Inner<E, M> {
    /// Fills `into` from the stripes there.
    pub(in crate::layout::mirror) async fn read_stripes(
        &self,
        striping: &Striping,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        let extent = Extent::new(offset, into.len() as u64);
        let mut rest = into;
        let mut parts: Vec<Part<'_>> = Vec::new();
        for piece in striping.stripes.pieces(extent) {
            let (this, next) = std::mem::take(&mut rest).split_at_mut(piece.extent.len as usize);
            parts.push((piece, this));
            rest = next;
        }
        if let [(piece, this)] = &mut parts[..] {
            let client = Urgency::Client;
            return self.read_shard(striping, piece.shard, piece.on_member, client, this).await.map(drop);
        }
        let failure = Cell::new(None);
        let is_same_rows = |(one, _): &Part<'_>, (other, _): &Part<'_>| {
            one.shard.stripe == other.shard.stripe && one.on_member == other.on_member
        };
        join::all(parts.chunk_by_mut(is_same_rows).map(|parts| async {
            if let Err(error) = self.read_rows(striping, parts, Urgency::Client).await {
                failure.set(Some(error));
            }
        }))
        .await;
        failure.take().map_or(Ok(()), Err)
    }

    /// Fills each of these, which are the same rows of shards of one stripe. False where a member could not read what it holds,
    /// and others did.
    pub(super) async fn read_rows(
        &self,
        striping: &Striping,
        parts: &mut [Part<'_>],
        urgency: Urgency,
    ) -> Result<bool, DeviceError> {
        let is_busy = |(piece, _): &&Part<'_>| !self.is_idle(piece.place);
        let around = parts.iter().filter(is_busy).fold(0, |bits, (piece, _)| bits | 1 << piece.shard.number);
        let Piece { shard: Shard { stripe, .. }, on_member: rows, .. } = parts[0].0;
        let may_be_computed = around != 0
            && parts.len() > 1
            && Computed::is_whole(rows)
            && self.idle_members(striping) >= striping.stripes.data();
        if may_be_computed {
            // K shards give all of them: each is read once, also what is wanted of those that only read.
            let mut wanted: Vec<_> =
                parts.iter_mut().map(|(piece, into)| (piece.shard.number, &mut **into)).collect();
            let rows =
                Computed { stripe, rows, reason: Reason::InTurn, urgency, around, wanted: &mut wanted };
            if let Ok(true) = self.compute(striping, rows).await {
                return Ok(true);
            }
        }
        let (failure, is_sound) = (Cell::new(None), Cell::new(true));
        join::all(parts.iter_mut().map(|(piece, into)| async {
            match self.read_shard(striping, piece.shard, piece.on_member, urgency, into).await {
                Ok(From::OthersAsItFailed) => is_sound.set(false),
                Ok(From::Member | From::Others) => {}
                Err(error) => failure.set(Some(error)),
            }
        }))
        .await;
        failure.take().map_or(Ok(is_sound.get()), Err)
    }

    /// Fills `into` with some rows of a shard: from its member, or from others where that one writes or cannot.
    pub(in crate::layout::mirror) async fn read_shard(
        &self,
        striping: &Striping,
        shard: Shard,
        rows: Extent,
        urgency: Urgency,
        into: &mut [u8],
    ) -> Result<From, DeviceError> {
        let place = striping.stripes.place_of(shard);
        let is_around = || !self.is_idle(place) && self.idle_members(striping) >= striping.stripes.data();
        let (mut is_tried, mut failure) = (false, None);
        while self.ring.members[place].is_in_sync() || is_around() {
            if !is_tried && is_around() {
                let why = (Reason::InTurn, urgency);
                if self.compute_shard(striping, shard, rows, why, into).await.is_ok() {
                    return Ok(From::Others);
                }
                // Its turn may be over meanwhile.
                is_tried = !self.is_idle(place);
            }
            if !self.ring.members[place].is_in_sync() {
                break;
            }
            let _admitted = self.ring.admit(urgency, place).await;
            // Or may have begun.
            if is_tried || !is_around() {
                match self.ring.read_from(place, rows.offset, into).await {
                    Ok(()) => return Ok(From::Member),
                    Err(error) => failure = Some(error),
                }
                break;
            }
        }
        let computed = self.compute_shard(striping, shard, rows, (Reason::Lacking, urgency), into).await;
        let from = if failure.is_some() { From::OthersAsItFailed } else { From::Others };
        computed.map(|()| from).map_err(|error| failure.unwrap_or(error))
    }

    /// That a member can be read, and is in nobody's way.
    pub(super) fn is_idle(&self, place: usize) -> bool {
        let member = &self.ring.members[place];
        member.is_in_sync() && !self.ring.busyness(member).0
    }

    pub(super) fn idle_members(&self, striping: &Striping) -> usize {
        (0..striping.stripes.members()).filter(|&place| self.is_idle(place)).count()
    }

    /// Whether a member is in nobody's way, cannot be read, or too few only read for a way around it.
    fn may_be_asked(&self, striping: &Striping, place: usize) -> bool {
        let is_in_sync = self.ring.members[place].is_in_sync();
        self.is_idle(place) || !is_in_sync || self.idle_members(striping) < striping.stripes.data()
    }

    /// Waits until a member may be asked, and a read of this urgency may begin there.
    pub(super) async fn admit_idle(
        &self,
        striping: &Striping,
        place: usize,
        urgency: Urgency,
    ) -> Option<Admitted<'_>> {
        loop {
            self.ring.changed.until(|| self.may_be_asked(striping, place).then_some(())).await;
            let admitted = self.ring.admit(urgency, place).await;
            if self.may_be_asked(striping, place) {
                return admitted;
            }
        }
    }

    /// Fills `into` as its member holds it, or as others do, those of one choice left out. Where too few others are in sync,
    /// there is no other version than that of its member.
    pub(in crate::layout::mirror) async fn read_version(
        &self,
        striping: &Striping,
        version: usize,
        offset: u64,
        urgency: Urgency,
        into: &mut [u8],
    ) -> Result<(), DeviceError> {
        let mut rest = into;
        for piece in striping.stripes.pieces(Extent::new(offset, rest.len() as u64)) {
            let (this, next) = rest.split_at_mut(piece.extent.len as usize);
            let others = self.ring.places_in_sync().into_iter().filter(|&place| place != piece.place).count();
            let is_computed = others >= striping.stripes.data();
            match version.checked_sub(1).filter(|_| is_computed) {
                None if self.ring.members[piece.place].is_in_sync() => {
                    let _admitted = self.admit_idle(striping, piece.place, urgency).await;
                    self.ring.read_from(piece.place, piece.on_member.offset, this).await?;
                }
                choice => {
                    let left_out = striping.left_out(piece.shard.number, choice.unwrap_or(0));
                    let why = (Reason::Version(left_out), urgency);
                    self.compute_shard(striping, piece.shard, piece.on_member, why, this).await?;
                }
            }
            rest = next;
        }
        Ok(())
    }
}
