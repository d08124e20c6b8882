//! When a member that has written is fit to be read again.
//!
//! A drive goes on working when its last flush is done: it collects garbage, and reads wait for that. How long depends on
//! the drive, on its past and on what it was just given, so it is looked at: small reads all over it, until for a while
//! none of them took much longer than they do at rest.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use super::member::Member;
use super::{Inner, join};
use crate::device::Device;
use crate::env::Env;
use crate::format::PAGE;
use crate::format::PAGE_BYTES;
use crate::format::ring_head::DATA_OFFSET;

/// Between two looks.
const INTERVAL_NS: u64 = 1_000_000;

/// Looks that are remembered: those of several rests.
const REMEMBERED: usize = 512;

/// A look is slow that takes so many times as long as a quarter of those before did at most,
const SLOW_TIMES: u64 = 3;

/// and so much more.
const SLOW_MORE_NS: u64 = 100_000;

/// What looks at one member took.
#[derive(Debug, Default)]
pub(super) struct Looks {
    took_ns: RefCell<VecDeque<u64>>,
    /// How long the last rest took.
    pub(super) rested_ns: Cell<u64>,
}

impl Looks {
    /// Notes a look; answers whether it was slow.
    fn note(&self, took_ns: u64) -> bool {
        let mut looks = self.took_ns.borrow_mut();
        if looks.len() == REMEMBERED {
            looks.pop_front();
        }
        looks.push_back(took_ns);
        let mut sorted: Vec<u64> = looks.iter().copied().collect();
        let (_, quarter, _) = sorted.select_nth_unstable(looks.len() / 4);
        took_ns > quarter.saturating_mul(SLOW_TIMES).saturating_add(SLOW_MORE_NS)
    }
}

impl<E: Env, M: Device> Inner<E, M> {
    /// Waits until the member has been quick for [`super::RingOptions::rest_ns`], but no longer than
    /// [`super::RingOptions::rest_max_ns`].
    pub(super) async fn rest(&self, member: &Member<M>) {
        let began_ns = self.env.now_ns();
        let mut quiet_since_ns = began_ns;
        loop {
            let now_ns = self.env.now_ns();
            let (rested_ns, quiet_ns) = (now_ns - began_ns, now_ns - quiet_since_ns);
            if quiet_ns >= self.options.rest_ns
                || rested_ns >= self.options.rest_max_ns
                || !member.is_in_sync()
            {
                member.looks.rested_ns.set(rested_ns);
                return;
            }
            let until_ns = self.options.rest_ns - quiet_ns;
            self.env.sleep(INTERVAL_NS.min(until_ns)).await;
            let Some(took_ns) = self.look(member).await else { return };
            if member.looks.note(took_ns) {
                quiet_since_ns = self.env.now_ns();
            }
        }
    }

    /// How long a small read takes; `None` where there is none to be had. One that fails says nothing of the member: whoever
    /// needs what is there will find out.
    async fn look(&self, member: &Member<M>) -> Option<u64> {
        let device = member.device().ok()?;
        let pages = self.geometry.get().size_bytes / PAGE_BYTES;
        let offset = DATA_OFFSET + self.env.random().checked_rem(pages)? * PAGE_BYTES;
        let began_ns = self.env.now_ns();
        let mut page = [0; PAGE];
        let limit = self.env.sleep(self.options.rest_max_ns);
        let _read = join::first(device.read(offset, &mut page), limit).await;
        Some(self.env.now_ns() - began_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_slow_by_what_the_quick_ones_take() {
        let looks = Looks::default();
        for number in 0..100 {
            assert!(!looks.note(150_000 + number * 1000), "as all others");
        }
        assert!(looks.note(5_000_000));
        // A drive that has been busy for long is not at rest because of that.
        (0..100).for_each(|_| assert!(looks.note(20_000_000)));
        assert!(!looks.note(200_000));
    }
}
