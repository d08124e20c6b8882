//! How long reads of an idle member take: reads after a turn are judged by that.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Idle reads that are remembered.
const REMEMBERED: usize = 64;

/// A read is slow that takes so many times as long as the median of idle reads,
const SLOW_TIMES: u64 = 3;

/// and so much more.
const SLOW_MORE_NS: u64 = 100_000;

/// What reads of one member took while it was idle.
#[derive(Debug, Default)]
pub(super) struct IdleLatency {
    idle_ns: RefCell<VecDeque<u64>>,
    /// How long the last rest took.
    pub(super) rested_ns: Cell<u64>,
}

impl IdleLatency {
    /// Notes a read of an idle member.
    pub(super) fn note(&self, took_ns: u64) {
        let mut latency = self.idle_ns.borrow_mut();
        if latency.len() == REMEMBERED {
            latency.pop_front();
        }
        latency.push_back(took_ns);
    }

    /// Beyond what time a read is slow.
    pub(super) fn slow_ns(&self) -> u64 {
        let mut sorted: Vec<u64> = self.idle_ns.borrow().iter().copied().collect();
        if sorted.is_empty() {
            return u64::MAX;
        }
        let middle = sorted.len() / 2;
        let (_, median, _) = sorted.select_nth_unstable(middle);
        median.saturating_mul(SLOW_TIMES).saturating_add(SLOW_MORE_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_slow_by_what_idle_reads_take() {
        let latency = IdleLatency::default();
        assert_eq!(latency.slow_ns(), u64::MAX, "nothing is known of it");
        (0..100).for_each(|number| latency.note(150_000 + number * 1000));
        let slow_ns = latency.slow_ns();
        assert!((600_000..1_000_000).contains(&slow_ns), "{slow_ns}");
        // One read among many that met something says nothing.
        latency.note(50_000_000);
        assert!(latency.slow_ns() < 1_000_000);
    }
}
