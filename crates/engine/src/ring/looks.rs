//! How quick a member is at rest: what looks at it took, by which later ones are judged.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

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
    pub(super) fn note(&self, took_ns: u64) {
        let mut looks = self.at_rest_ns.borrow_mut();
        if looks.len() == REMEMBERED {
            looks.pop_front();
        }
        looks.push_back(took_ns);
    }

    /// Beyond what a look is slow.
    pub(super) fn slow_ns(&self) -> u64 {
        let mut sorted: Vec<u64> = self.at_rest_ns.borrow().iter().copied().collect();
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
