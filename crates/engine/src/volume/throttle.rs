//! How fast writes are accepted in front of drives that take long turns.
//!
//! A checkpoint to a ring lasts as long as all members' turns, and gives room back at its end, all of it at once. What
//! comes meanwhile has what is left of the log and of memory, so that is shared out over the time that is left:
//!
//! ```text
//!   full │                    ╱│                  ╱
//!        │                ╱    │              ╱
//!        │            ╱        │          ╱          evenly, until the checkpoint is expected to end
//!        │        ╱            │      ╱
//!   half │──────╱───────────── │ ───╱─────────────
//!        │     │               └───│                 at once
//!        └─────┴───────────────────┴──────────► time
//!          checkpoint           the next one
//! ```
//!
//! 1. Up to half full nobody waits. Beyond, the less there is left, and the longer it is to last, the slower writes are
//!    let in: what is written takes all of the room and never runs into its end, unless the drives become slower.
//! 2. First come, first served, from the first byte of a write to its last. Those who want little do not wait for those
//!    who want much: each have a line of their own, and where both wait, half of the rate, or what the other one does not
//!    take of its half.
//! 3. Nobody waits longer than for the end of a checkpoint, and for those who came before. One that lasts longer than
//!    expected is taken to last half as long again.

use std::cell::Cell;

use crate::buffer::queue::Lane;
use crate::notify::{Order, Place};

/// What a pause is worth: so much of what would have been accepted in it comes at once.
const BURST_NS: u64 = 5_000_000;

/// How long a checkpoint is taken to last before one has told.
const EXPECTED_NS: u64 = 1_000_000_000;

/// The rate of one volume.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    /// Bytes a second that the drives took home: slower as soon as a checkpoint is, and half as much faster as one is.
    drain_bytes_per_s: Cell<f64>,
    under_way: Cell<Option<UnderWay>>,
    /// Checkpoints that began or ended so far.
    changes: Cell<u64>,
    lines: [Order; 2],
    /// Bytes that each line was given in this checkpoint.
    given_bytes: [Cell<u64>; 2],
    /// When what each line was given is paid for.
    paid_ns: [Cell<u64>; 2],
}

/// A checkpoint that is under way.
#[derive(Debug, Clone, Copy)]
struct UnderWay {
    told_bytes: u64,
    began_ns: u64,
    expected_ns: u64,
}

/// What a write asks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand {
    /// How full the fullest of log and memory is, of 1.
    pub(super) fill: f64,
    /// What is written,
    pub(super) bytes: u64,
    /// and as a part of what is left there; beyond 1 it does not fit.
    pub(super) part: f64,
    /// Nothing waits that could make more room, or ask for it.
    pub(super) is_quiet: bool,
}

/// When a write may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Now,
    At(u64),
    /// Once there is room.
    Later,
}

/// A write that stands in its line, until it is let in as a whole.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) lane: Lane,
    pub(super) place: Place<'a>,
    /// Whether it has waited already.
    pub(super) has_waited: Cell<bool>,
}

impl Throttle {
    /// A checkpoint of so many bytes begins. Only one that is due `tells` how quick the drives are: what a smaller one
    /// takes is mostly turns.
    pub(super) fn begin(&self, now_ns: u64, bytes: u64, tells: bool) {
        let drain = self.drain_bytes_per_s.get();
        let expected_ns = if drain > 0.0 { (bytes as f64 * 1e9 / drain) as u64 } else { EXPECTED_NS };
        let told_bytes = if tells { bytes } else { 0 };
        self.change(Some(UnderWay { told_bytes, began_ns: now_ns, expected_ns }));
    }

    /// It has ended: what it took home is known, unless it failed.
    pub(super) fn end(&self, now_ns: u64) {
        let Some(UnderWay { told_bytes, began_ns, .. }) = self.under_way.get() else { return };
        self.change(None);
        let took_ns = now_ns.saturating_sub(began_ns);
        if told_bytes > 0 && took_ns > 0 {
            let rate = told_bytes as f64 * 1e9 / took_ns as f64;
            let before = self.drain_bytes_per_s.get();
            self.drain_bytes_per_s.set(if before == 0.0 { rate } else { rate.min((before + rate) / 2.0) });
        }
    }

    fn change(&self, under_way: Option<UnderWay>) {
        self.under_way.set(under_way);
        self.changes.set(self.changes.get() + 1);
        self.paid_ns.iter().for_each(|paid_ns| paid_ns.set(0));
        self.given_bytes.iter().for_each(|given_bytes| given_bytes.set(0));
    }

    /// What the other line takes of the rate, of 1: no more than half.
    fn share_of_other(&self, lane: Lane) -> f64 {
        let [mine, other] = [lane as usize, 1 - lane as usize];
        if self.lines[other].is_empty() {
            return 0.0;
        }
        let (mine, other) = (self.given_bytes[mine].get() as f64, self.given_bytes[other].get() as f64);
        if mine + other == 0.0 { 0.5 } else { (other / (mine + other)).min(0.5) }
    }

    /// A number that is another one once a checkpoint has begun or ended: who waits asks again.
    pub(super) fn changes(&self) -> u64 {
        self.changes.get()
    }

    /// A write takes its place.
    pub(super) fn enter(&self, lane: Lane) -> Entry<'_> {
        Entry { lane, place: self.lines[lane as usize].enter(), has_waited: Cell::new(false) }
    }

    /// When what the first of its line asks for may come; if now, it is taken to come.
    pub(super) fn ask(&self, lane: Lane, now_ns: u64, demand: Demand) -> Answer {
        let paid_ns = &self.paid_ns[lane as usize];
        if demand.fill <= 0.5 {
            paid_ns.set(0);
            return Answer::Now;
        }
        let Some(UnderWay { began_ns, expected_ns, .. }) = self.under_way.get() else {
            return if demand.is_quiet { Answer::Now } else { Answer::Later };
        };
        if demand.part > 1.0 {
            return Answer::Later;
        }
        let since_ns = paid_ns.get().max(now_ns.saturating_sub(BURST_NS));
        if since_ns > now_ns {
            return Answer::At(since_ns);
        }
        let elapsed_ns = now_ns.saturating_sub(began_ns);
        let left_ns = expected_ns.saturating_sub(elapsed_ns).max(elapsed_ns / 2);
        let cost_ns = left_ns as f64 * demand.part / (1.0 - self.share_of_other(lane));
        paid_ns.set(since_ns.saturating_add(cost_ns as u64));
        let given_bytes = &self.given_bytes[lane as usize];
        given_bytes.set(given_bytes.get() + demand.bytes);
        Answer::Now
    }

    /// Bytes a second that the drives took home of late; 0 before the first checkpoint.
    pub(super) fn drain_bytes_per_s(&self) -> u64 {
        self.drain_bytes_per_s.get() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// With checkpoints of so many bytes that take so long.
    fn throttle(bytes: u64, took_ns: u64) -> Throttle {
        let throttle = Throttle::default();
        throttle.begin(0, bytes, true);
        throttle.end(took_ns);
        throttle
    }

    /// What is let in, of 1000 units of room, up to `until_ns`, of writers that write as fast as they may.
    fn used(throttle: &Throttle, mut now_ns: u64, until_ns: u64, mut used: u32) -> u32 {
        while now_ns < until_ns {
            let (fill, left) = (f64::from(used) / 1000.0, f64::from(1000 - used));
            match throttle.ask(
                Lane::Bulk,
                now_ns,
                Demand { fill, bytes: 1, part: 1.0 / left, is_quiet: false },
            ) {
                Answer::Now => used += 1,
                Answer::At(then_ns) => now_ns = then_ns,
                Answer::Later => break,
            }
        }
        used
    }

    #[test]
    fn what_is_left_is_let_in_evenly_until_the_checkpoint_is_to_end() {
        let throttle = throttle(1000, 100 * MS);
        throttle.begin(0, 1000, true);
        for (until_ms, expected) in [(1, 500), (20, 600), (40, 700), (60, 800)] {
            let found = used(&throttle, 0, until_ms * MS, 400);
            throttle.change(throttle.under_way.get());
            assert!(found.abs_diff(expected) <= 30, "{found} and not {expected} after {until_ms} ms");
        }
    }

    #[test]
    fn a_checkpoint_that_lasts_longer_leaves_room_for_who_comes_then() {
        let throttle = throttle(1000, 100 * MS);
        throttle.begin(0, 1000, true);
        let (in_time, late) = (used(&throttle, 0, 100 * MS, 500), used(&throttle, 0, 200 * MS, 500));
        assert!(in_time > 880, "{in_time}: as good as all");
        assert!(late < 990, "{late}: not all");
    }

    #[test]
    fn who_does_not_fit_waits_for_room_and_not_for_time() {
        let throttle = throttle(1000, 100 * MS);
        let ask =
            |fill, part, is_quiet| throttle.ask(Lane::Small, 0, Demand { fill, bytes: 1, part, is_quiet });
        assert_eq!(ask(0.9, 0.1, true), Answer::Now, "nobody else would make room");
        assert_eq!(ask(0.9, 0.1, false), Answer::Later, "a checkpoint is about to begin");
        throttle.begin(0, 1000, true);
        assert_eq!((ask(0.9, 1.1, true), ask(0.9, 1.0, false)), (Answer::Later, Answer::Now));
        assert_eq!(ask(0.5, 9.0, false), Answer::Now, "up to half full nobody waits");
    }

    #[test]
    fn a_checkpoint_that_ends_or_begins_ends_all_waits() {
        let throttle = throttle(1000, 60_000 * MS);
        throttle.begin(0, 1000, true);
        let ask = |now_ns| {
            throttle.ask(Lane::Bulk, now_ns, Demand { fill: 0.9, bytes: 1, part: 0.5, is_quiet: true })
        };
        assert_eq!(ask(0), Answer::Now);
        assert!(matches!(ask(1), Answer::At(until_ns) if until_ns > 20_000 * MS), "it hung the last time");
        let before = throttle.changes();
        throttle.end(10 * MS);
        assert_eq!((ask(10 * MS), throttle.changes() - before), (Answer::Now, 1));
    }

    /// What each line is let in, of 1000 units of room, within 100 ms, where the first wants one in so many milliseconds and
    /// the second as much as it may have.
    fn used_by_both(pause_ms: f64) -> [u32; 2] {
        let throttle = throttle(1000, 1000 * MS);
        throttle.begin(0, 1000, true);
        let _wait = [Lane::Small, Lane::Bulk].map(|lane| throttle.enter(lane));
        let (mut given, mut next_ns) = ([0; 2], [0; 2]);
        loop {
            let lane = if next_ns[0] <= next_ns[1] { Lane::Small } else { Lane::Bulk };
            let (at, now_ns) = (lane as usize, next_ns[lane as usize]);
            if now_ns >= 100 * MS {
                return given;
            }
            let used = 600 + given[0] + given[1];
            let (fill, part) = (f64::from(used) / 1000.0, 1.0 / f64::from(1000 - used));
            match throttle.ask(lane, now_ns, Demand { fill, bytes: 1, part, is_quiet: false }) {
                Answer::Now => {
                    given[at] += 1;
                    next_ns[at] += if at == 0 { (pause_ms * MS as f64) as u64 } else { 0 };
                }
                Answer::At(then_ns) => next_ns[at] = then_ns,
                Answer::Later => return given,
            }
        }
    }

    #[test]
    fn where_little_and_much_is_wanted_each_has_half_or_what_the_other_leaves() {
        let throttle = throttle(1000, 1000 * MS);
        throttle.begin(0, 1000, true);
        let alone = used(&throttle, 0, 100 * MS, 600) - 600;
        let [small, bulk] = used_by_both(0.0);
        assert!(
            small.abs_diff(bulk) <= 3 && (small + bulk).abs_diff(alone) <= 6,
            "{small} and {bulk} of {alone}"
        );
        let [small, bulk] = used_by_both(20.0);
        assert!(small == 5 && (small + bulk).abs_diff(alone) <= 6, "{small} and {bulk} of {alone}");
    }

    #[test]
    fn drives_are_taken_to_be_slow_at_once_and_quick_by_and_by() {
        let throttle = throttle(1000, 1000 * MS);
        let told = |took_ns| {
            throttle.begin(0, 1000, true);
            throttle.end(took_ns);
            throttle.drain_bytes_per_s()
        };
        assert_eq!([told(100 * MS), told(100 * MS), told(1000 * MS)], [5500, 7750, 1000]);
    }

    #[test]
    fn a_pause_is_not_saved_up() {
        let throttle = throttle(1000, 1000 * MS);
        throttle.begin(0, 1000, true);
        let after_a_pause = used(&throttle, 500 * MS, 501 * MS, 600);
        assert!(after_a_pause <= 607, "{after_a_pause}: what comes in six milliseconds");
    }
}
