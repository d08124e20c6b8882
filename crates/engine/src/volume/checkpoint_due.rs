//! When a checkpoint begins.
//!
//! ```text
//!   fill
//!   0.85 ┤· · · · · · ·╱│· · · · ·   here it is over, if as much comes as during the last one
//!        │           ╱  │
//!    0.5 ┤· · · · ·╱· · │· · ╱· ·    at the latest, of the log
//!        │       ╱│     │  ╱
//!        │     ╱  └─────┘╱
//!        └────────┬─────┬──────► time
//!                 a checkpoint
//! ```
//!
//! 1. One begins once half of the log is used, of the pages that may wait for one, or of what it may log images of.
//! 2. Where the drives of a mirror take turns, room comes back only when all have had theirs: there one begins early enough for
//!    what comes meanwhile, by what came during those before. Where more than 0.425 of the room comes, one follows another at
//!    once, and the room is fuller at its end. With stripes none begins early: the less goes home at once, the less of it is of
//!    one stripe.

use std::cell::Cell;

/// How full log and memory may be at the end of a checkpoint: beyond, turns seem too slow, and writes are slowed down before long.
const END_FILL: f64 = 0.85;

/// None begins early for less, whatever came during one before it: a load may have ended.
const EARLY_FILL_MIN: f64 = 0.2;

/// What is used, of 1, of the log and of memory for pages. Only these are still used by what is on its way home.
pub(super) type Room = [f64; 2];

/// What comes during a checkpoint.
#[derive(Default)]
pub(super) struct CheckpointDue {
    logged_before: Cell<u64>,
    /// The most that came of late.
    came: Cell<Room>,
}

impl CheckpointDue {
    /// One begins. So many bytes were logged ever.
    pub(super) fn begin(&self, logged_bytes: u64) {
        self.logged_before.set(logged_bytes);
    }

    /// It ends. So many bytes were logged ever, and so many pages became dirty meanwhile. `each` is what one byte and one page use.
    pub(super) fn end(&self, logged_bytes: u64, dirty_pages: usize, each: Room) {
        let logged_bytes = logged_bytes.saturating_sub(self.logged_before.get());
        let [before_log, before_memory] = self.came.get();
        let came = [logged_bytes as f64 * each[0], dirty_pages as f64 * each[1]];
        self.came.set([came[0].max(before_log / 2.0), came[1].max(before_memory / 2.0)]);
    }

    /// Whether one had best begin in turns, though less than half is used.
    pub(super) fn is_early(&self, used: Room) -> bool {
        let is_early = |(used, came): (f64, f64)| used >= EARLY_FILL_MIN && used + came > END_FILL;
        used.into_iter().zip(self.came.get()).any(is_early)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of 1000 bytes, and memory for 100 pages.
    const EACH: Room = [0.001, 0.01];

    /// A checkpoint during which so much came.
    fn one(due: &CheckpointDue, logged_bytes: u64, dirty_pages: usize) {
        due.begin(7_000);
        due.end(7_000 + logged_bytes, dirty_pages, EACH);
    }

    /// Whether one is due early behind that, where so much is used.
    fn is_early(used: Room, logged_bytes: u64, dirty_pages: usize) -> bool {
        let due = CheckpointDue::default();
        one(&due, logged_bytes, dirty_pages);
        due.is_early(used)
    }

    #[test]
    fn one_begins_early_enough_for_as_much_as_came_during_the_last_one() {
        assert!(!CheckpointDue::default().is_early([0.49, 0.49]), "there was none");
        assert!(is_early([0.41, 0.1], 450, 10) && !is_early([0.39, 0.1], 450, 10));
        assert!(is_early([0.1, 0.41], 100, 45) && !is_early([0.1, 0.41], 100, 43), "memory fills faster");
        assert!(!is_early([0.1, 0.41], 450, 10), "each for itself");
    }

    #[test]
    fn none_begins_for_little_though_much_came_before() {
        assert!(is_early([0.2, 0.0], 5000, 0) && !is_early([0.19, 0.0], 5000, 0));
    }

    #[test]
    fn one_that_was_short_is_not_taken_for_the_next() {
        let due = CheckpointDue::default();
        one(&due, 450, 0);
        one(&due, 0, 0);
        assert!(due.is_early([0.63, 0.0]) && !due.is_early([0.62, 0.0]), "half of what came before");
        one(&due, 0, 0);
        assert!(!due.is_early([0.63, 0.0]));
    }
}
