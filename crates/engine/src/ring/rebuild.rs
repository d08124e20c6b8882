//! Members that lack writes are made whole while the ring serves.
//!
//! 1. From its begin on the member takes every write; what was there before is copied piece by piece, each at a moment
//!    when nobody writes there, and again if somebody came meanwhile.
//! 2. It is read, and its head says that it counts, only when all of it is there and durable.
//! 3. No more is copied in a second than is allowed, and nothing is read for it from a member that writes.

use super::Ring;
use super::member::{Role, Standing};
use crate::device::{Device, Extent};
use crate::env::Env;
use crate::error::DeviceError;
use crate::format::ring_head::Mark;
use crate::planted::{Bug, is_planted};

/// Bytes copied at once.
const PIECE_BYTES: u64 = 256 << 10;

/// How long a piece that cannot be read rests before it is tried again.
const PAUSE_NS: u64 = 100_000_000;

/// How often.
const TRIES: usize = 3;

impl<E: Env, M: Device> Ring<E, M> {
    /// Begins to rebuild every member that is stale.
    pub(super) fn rebuild_stale(&self) {
        for (place, member) in self.0.members.iter().enumerate() {
            if member.standing.get() == Standing::Stale {
                member.standing.set(Standing::Rebuilding { done_bytes: 0 });
                member.role.set(Role::Writing);
                member.gate.begin_behind(self.0.issued.get());
                member.gate.leave_out(false);
                member.gate.open();
                let ring = self.clone();
                self.0.env.spawn(async move { ring.rebuild(place).await });
            }
        }
    }

    async fn rebuild(self, place: usize) {
        let (ring, member) = (&*self.0, &self.0.members[place]);
        let copied = self.copy_everything(place).await;
        let made_whole = async {
            copied?;
            // All that was written meanwhile, and all that was copied: durable before anybody relies on it.
            ring.limited(member.flush()).await?;
            let through = member.gate.ended_through();
            let through = through.ok_or(DeviceError { doing: "rebuild", errno: super::EIO })?;
            let mark = Mark { epoch: ring.epoch.get(), through };
            ring.limited(member.write_head(|before| ring.head_behind(before, place, mark))).await
        };
        match made_whole.await {
            Ok(()) => {
                member.gate.close();
                member.standing.set(Standing::InSync);
                if ring.options.keeps_turns() {
                    member.gate.drained().await;
                } else {
                    member.gate.open();
                }
                member.role.set(Role::Reading);
                ring.changed.all();
            }
            Err(error) => ring.leave_out(place, error),
        }
    }

    async fn copy_everything(&self, place: usize) -> Result<(), DeviceError> {
        let (ring, member) = (&*self.0, &self.0.members[place]);
        let began_ns = ring.env.now_ns();
        let mut offset = 0;
        while offset < ring.geometry.size_bytes {
            if is_planted(Bug::RingRebuildEndsEarly) && offset > 0 {
                return Ok(());
            }
            let extent = Extent::new(offset, PIECE_BYTES.min(ring.geometry.size_bytes - offset));
            while !self.copy_piece(place, extent).await? {}
            if !matches!(member.standing.get(), Standing::Rebuilding { .. }) {
                return Err(DeviceError { doing: "rebuild a member that was left out", errno: super::EIO });
            }
            offset += extent.len;
            member.standing.set(Standing::Rebuilding { done_bytes: offset });
            let due_ns =
                u128::from(offset) * 1_000_000_000 / u128::from(ring.options.rebuild_bytes_per_s.max(1));
            let took_ns = ring.env.now_ns().saturating_sub(began_ns);
            ring.env.sleep(u64::try_from(due_ns).unwrap_or(u64::MAX).saturating_sub(took_ns)).await;
        }
        Ok(())
    }

    /// Copies a piece; false where a write came meanwhile.
    async fn copy_piece(&self, place: usize, extent: Extent) -> Result<bool, DeviceError> {
        let copy = self.0.copies.copy(extent).await;
        let mut bytes = vec![0; extent.len as usize];
        for left in (0..TRIES).rev() {
            match self.0.read(extent.offset, &mut bytes).await {
                Ok(()) => break,
                Err(error) if left == 0 => return Err(error),
                Err(_) => self.0.env.sleep(PAUSE_NS).await,
            }
        }
        self.copy_to(place, &copy, &bytes).await
    }
}
