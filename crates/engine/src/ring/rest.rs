//! When a member that has written is fit to be read again.
//!
//! A drive goes on working when its last flush is done: it collects garbage, and reads wait for that. How long depends on
//! the drive, on its past and on what it was just given, so it is looked at: small reads all over it, until for a while
//! none of them took much longer than they did before its turn.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use super::Ring;
use super::member::Member;
use crate::device::Drive;
use crate::env::Env;
use crate::format::{PAGE, PAGE_BYTES};
use crate::join;

/// Between two looks.
const INTERVAL_NS: u64 = 1_000_000;

/// Looks at a member that is at rest already, before each of its turns.
const BASE_LOOKS: usize = 8;

/// Such looks that are remembered.
const REMEMBERED: usize = 64;

/// A look is slow that takes so many times as long as the median of those at rest,
const SLOW_TIMES: u64 = 3;

/// and so much more.
const SLOW_MORE_NS: u64 = 100_000;

/// What looks at one member took that was at rest.
#[derive(Debug, Default)]
pub(super) struct Looks {
    at_rest_ns: RefCell<VecDeque<u64>>,
    /// How long the last rest took.
    pub(super) rested_ns: Cell<u64>,
}

impl Looks {
    /// Notes a look at a member that is at rest.
    fn note(&self, took_ns: u64) {
        let mut looks = self.at_rest_ns.borrow_mut();
        if looks.len() == REMEMBERED {
            looks.pop_front();
        }
        looks.push_back(took_ns);
    }

    /// Beyond what a look is slow.
    fn slow_ns(&self) -> u64 {
        let mut sorted: Vec<u64> = self.at_rest_ns.borrow().iter().copied().collect();
        if sorted.is_empty() {
            return u64::MAX;
        }
        let middle = sorted.len() / 2;
        let (_, median, _) = sorted.select_nth_unstable(middle);
        median.saturating_mul(SLOW_TIMES).saturating_add(SLOW_MORE_NS)
    }
}

impl<E: Env, M: Drive> Ring<E, M> {
    /// Looks at a member that has only read for a while: this is how quick it is at rest.
    pub(super) async fn look_at_rest(&self, member: &Member<M>) {
        for _ in 0..BASE_LOOKS {
            let Some(took_ns) = self.look(member).await else { return };
            member.looks.note(took_ns);
        }
    }

    /// Waits until the member has been quick for [`super::RingOptions::rest_ns`], but no longer than
    /// [`super::RingOptions::rest_max_ns`].
    pub(super) async fn rest(&self, member: &Member<M>) {
        let began_ns = self.env.now_ns();
        let mut quiet_since_ns = began_ns;
        let slow_ns = member.looks.slow_ns();
        loop {
            let now_ns = self.env.now_ns();
            let (rested_ns, quiet_ns) = (now_ns - began_ns, now_ns - quiet_since_ns);
            let is_over = quiet_ns >= self.options.rest_ns || rested_ns >= self.options.rest_max_ns;
            if is_over || !member.is_in_sync() {
                member.looks.rested_ns.set(rested_ns);
                return;
            }
            self.env.sleep(INTERVAL_NS.min(self.options.rest_ns - quiet_ns)).await;
            let Some(took_ns) = self.look(member).await else { return };
            if took_ns > slow_ns {
                quiet_since_ns = self.env.now_ns();
            }
        }
    }

    /// How long a small read takes; `None` where there is none to be had. One that fails says nothing of the member: whoever
    /// needs what is there will find out.
    async fn look(&self, member: &Member<M>) -> Option<u64> {
        let device = member.device().ok()?;
        let pages = self.geometry.get().size_bytes / PAGE_BYTES;
        let offset = self.data_offset() + self.env.random().checked_rem(pages)? * PAGE_BYTES;
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
    fn a_look_is_slow_by_what_looks_take_at_rest() {
        let looks = Looks::default();
        assert_eq!(looks.slow_ns(), u64::MAX, "nothing is known of it");
        (0..100).for_each(|number| looks.note(150_000 + number * 1000));
        let slow_ns = looks.slow_ns();
        assert!((600_000..1_000_000).contains(&slow_ns), "{slow_ns}");
        // One look among many that met something says nothing.
        looks.note(50_000_000);
        assert!(looks.slow_ns() < 1_000_000);
    }
}
