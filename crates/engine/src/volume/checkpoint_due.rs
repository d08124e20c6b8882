//! When a checkpoint begins.
//!
//! ```text
//!   fill
//!   0.85 ┤· · · · · · ·╱│· · · · ·   here it is over, if as much comes as during the last one
//!        │           ╱  │
//!    0.5 ┤· · · · ·╱· · │· · ╱· ·    at the latest
//!        │       ╱│     │  ╱
//!        │     ╱  └─────┘╱
//!        └────────┬─────┬──────► time
//!                 a checkpoint
//! ```
//!
//! 1. One begins once half of the log, of memory, or of what it may log images of, is used.
//! 2. Where the drives of a mirror take turns, room comes back only when all have had theirs: there one begins early enough for
//!    what comes meanwhile, by what came during the last one. With stripes it does not: the less goes home at once, the less of
//!    it is of one stripe.

use std::cell::Cell;

/// How full it may be at the end of a checkpoint: beyond, writes are slowed down ([`super::throttle`]), and turns seem too slow.
const END_FILL: f64 = 0.85;

/// None begins early for less: a small one costs each drive as much of its time as a large one.
const EARLY_FILL_MIN: f64 = 0.2;

/// What comes during a checkpoint.
#[derive(Default)]
pub(super) struct CheckpointDue {
    logged_before: Cell<u64>,
    came: Cell<f64>,
}

impl CheckpointDue {
    /// One begins. So many bytes were logged ever.
    pub(super) fn begin(&self, logged_bytes: u64) {
        self.logged_before.set(logged_bytes);
    }

    /// It ends. So many bytes were logged ever, and of the room of the log that is this share a byte; the pages that became
    /// dirty meanwhile are `dirty_fill` of those that may be in memory.
    pub(super) fn end(&self, logged_bytes: u64, log_room_bytes: u64, dirty_fill: f64) {
        let logged = logged_bytes.saturating_sub(self.logged_before.get());
        self.came.set((logged as f64 / log_room_bytes.max(1) as f64).max(dirty_fill));
    }

    /// Whether one had best begin in turns, though less than half is used.
    pub(super) fn is_early(&self, fill: f64) -> bool {
        fill >= EARLY_FILL_MIN && fill + self.came.get() > END_FILL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether one is due early where so much is used, and during the last one so much of a log of 1000 bytes came, and so much of
    /// memory became dirty.
    fn is_early(fill: f64, logged_bytes: u64, dirty_fill: f64) -> bool {
        let due = CheckpointDue::default();
        due.begin(7_000);
        due.end(7_000 + logged_bytes, 1000, dirty_fill);
        due.is_early(fill)
    }

    #[test]
    fn one_begins_early_enough_for_as_much_as_came_during_the_last_one() {
        assert!(!CheckpointDue::default().is_early(0.49), "there was none");
        assert!(is_early(0.41, 450, 0.1) && !is_early(0.39, 450, 0.1));
        assert!(is_early(0.41, 100, 0.45) && !is_early(0.41, 100, 0.43), "memory fills faster");
    }

    #[test]
    fn none_begins_for_little_however_much_comes() {
        assert!(is_early(0.2, 5000, 0.0) && !is_early(0.19, 5000, 0.0));
    }
}
