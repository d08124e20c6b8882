//! Rings that grow while things befall their members.
//!
//! 1. A growth may be refused where a member takes no part, lacks writes or has no room, and else not.
//! 2. One that was refused has changed nothing: the ring offers what the volume needs, and no more.

use evenkeel_engine::device::{Device, Durability};
use evenkeel_engine::error::Error;
use evenkeel_engine::format::PAGE_BYTES;

use super::Setup;
use super::account::Kind;
use super::mishaps::Scene;
use super::watch::{RingVolume, SimLogs, SimRing};
use crate::arena::SimArena;
use crate::growing::Grower;
use crate::oracle::Violation;
use crate::random::Random;
use crate::workload::Stage;

impl Scene {
    /// Makes the volume grow.
    pub(super) async fn grow(
        &self,
        grower: Grower,
        stage: &Stage<SimArena, SimRing, SimLogs>,
        setup: &Setup,
    ) {
        let make_room = |needed_bytes: u64, random: &mut Random| self.make_room(setup, needed_bytes, random);
        let judge_refusal = |error: &Error| match error {
            // Whoever is well and lacks nothing keeps nobody from it.
            Error::Unusable(_) if !self.account.borrow().is_spotless() => self.judge_size(&stage.volume),
            error => Err(Violation::of(format!("it does not grow: {error}"))),
        };
        grower.grow(stage, make_room, judge_refusal).await;
    }

    /// Every member's drive gets the room for so many bytes of the ring.
    pub(super) fn make_room(&self, setup: &Setup, needed_bytes: u64, random: &mut Random) {
        for member in self.account.borrow().of(Kind::Member) {
            let (mut image, needed_bytes) = (member.image.borrow_mut(), needed_bytes + setup.data_offset());
            if image.geometry().size_bytes < needed_bytes {
                let noise = if setup.growths.into_noise { Some(&mut *random) } else { None };
                image.enlarge(needed_bytes, noise);
            }
        }
    }

    /// That the ring is as large as the volume knows it to be: nobody is growing it now.
    pub(super) fn judge_size(&self, volume: &RingVolume) -> Result<(), Violation> {
        let Some((ring, _)) = self.account.borrow().opened.clone() else { return Ok(()) };
        let (offered, needed) = (ring.geometry().size_bytes, volume.home_bytes());
        match offered == needed {
            true => Ok(()),
            false => {
                Err(Violation::of(format!("the ring offers {offered} bytes, and the volume needs {needed}")))
            }
        }
    }

    /// Writes a part of a page that is damaged everywhere, and has the volume grow over it.
    pub(super) async fn grow_over_damage(
        &self,
        volume: &RingVolume,
        setup: &Setup,
        page: u64,
        random: &mut Random,
    ) -> Result<(), Violation> {
        let at = page * PAGE_BYTES + random.below(PAGE_BYTES - 8);
        if volume.write(at, &[1; 8], Durability::Durable).await.is_err() {
            return Ok(());
        }
        let size_bytes = volume.size_bytes() + PAGE_BYTES;
        let Ok(growth) = volume.plan_growth(size_bytes) else { return Ok(()) };
        self.make_room(setup, growth.home_bytes, random);
        let grown = volume.grow(size_bytes).await;
        if self.is_over() || volume.failure().is_some() {
            return Ok(());
        }
        match grown {
            Ok(()) | Err(Error::Damaged { .. } | Error::Unusable(_)) => self.judge_size(volume),
            Err(error) => Err(Violation::of(format!("it does not grow over damage: {error}"))),
        }
    }
}
