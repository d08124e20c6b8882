//! When a member that has written is fit to be read again.
//!
//! A drive goes on working when its last flush is done: it collects garbage, and reads wait for that. How long depends on
//! the drive, on its past and on what it was just given, so the ring probes it: small reads all over it, until for a while
//! none of them took much longer than they did before its turn.

use super::Ring;
use super::member::Member;
use crate::device::Drive;
use crate::env::Env;
use crate::format::{PAGE, PAGE_BYTES};
use crate::join;

/// Between two probes.
const INTERVAL_NS: u64 = 1_000_000;

/// Probes of an idle member before each of its turns.
const BASE_PROBES: usize = 8;

impl<E: Env, M: Drive> Ring<E, M> {
    /// Probes a member that has only read for a while: this is how fast it is when idle.
    pub(super) async fn probe_idle(&self, member: &Member<M>) {
        for _ in 0..BASE_PROBES {
            let Some(took_ns) = self.probe(member).await else { return };
            member.idle_latency.note(took_ns);
            // One that does not answer is found out by whoever needs it, and its turn is not put off once more.
            if took_ns >= self.options.rest_max_ns {
                return;
            }
        }
    }

    /// Waits until the member has been quick for [`super::RingOptions::rest_ns`], but no longer than
    /// [`super::RingOptions::rest_max_ns`].
    pub(super) async fn rest(&self, member: &Member<M>) {
        let began_ns = self.env.now_ns();
        let mut quiet_since_ns = began_ns;
        let slow_ns = member.idle_latency.slow_ns();
        loop {
            let now_ns = self.env.now_ns();
            let (rested_ns, quiet_ns) = (now_ns - began_ns, now_ns - quiet_since_ns);
            let is_over = quiet_ns >= self.options.rest_ns || rested_ns >= self.options.rest_max_ns;
            if is_over || !member.is_in_sync() || !self.keeps_turns() {
                member.idle_latency.rested_ns.set(rested_ns);
                return;
            }
            self.env.sleep(INTERVAL_NS.min(self.options.rest_ns - quiet_ns)).await;
            let Some(took_ns) = self.probe(member).await else { return };
            if took_ns > slow_ns {
                quiet_since_ns = self.env.now_ns();
            }
        }
    }

    /// How long a small read takes; `None` where there is none to be had. One that fails says nothing of the member: whoever
    /// needs what is there will find out.
    pub(super) async fn probe(&self, member: &Member<M>) -> Option<u64> {
        let device = member.device().ok()?;
        let pages = self.member_bytes(self.geometry.get().size_bytes) / PAGE_BYTES;
        let offset = self.data_offset() + self.env.random().checked_rem(pages)? * PAGE_BYTES;
        let began_ns = self.env.now_ns();
        let mut page = [0; PAGE];
        let limit = self.env.sleep(self.options.rest_max_ns);
        let _read = join::first(device.read(offset, &mut page), limit).await;
        Some(self.env.now_ns() - began_ns)
    }
}
