//! How fast writes are accepted in front of drives that take long turns.
//!
//! A checkpoint to a ring lasts as long as all members' turns. What comes meanwhile fills what is left of the log and of
//! memory, and when that is full, a write waits for the whole rest of the turns. So writes are slowed down before:
//!
//! ```text
//!   rate │ free         ╲
//!        │                ╲
//!   2 d ─┤─────────────────╲     d: what the drives took home a second, of late
//!     d ─┤                  ╲╲
//!        └──────────────┬────┴─┬─► how full log and memory are
//!                      3/4  7/8 1
//! ```
//!
//! 1. Up to three quarters full nobody waits, and small writes do not up to nine tenths, or to 95 of 100 where members take
//!    turns: there it may be so full before each time that room comes back. Beyond, what is accepted in a second falls to what the drives take home, and below it, so that the end is approached and not run into.
//! 2. Waits are as long as what is written, in the order of coming: nobody pays for a large write of another by more
//!    than its share.

use std::cell::Cell;

/// Up to here nobody waits,
const FREE_FILL: f64 = 0.75;

/// and up to here nobody who writes little,
const SMALL_FREE_FILL: f64 = 0.9;

/// in turns. Under mixed service, where room comes back bit by bit, drives that cannot keep up take less home for it.
const SMALL_FREE_FILL_IN_TURNS: f64 = 0.95;

/// What a pause is worth: so much of what would have been accepted in it comes at once.
const BURST_NS: u64 = 5_000_000;

/// Slowest rate, as a share of what the drives take home: a full log makes writers wait by itself.
const RATE_MIN: f64 = 0.05;

/// No write waits longer for others: a drive that hung once says little of the next minute.
const WAIT_MAX_NS: u64 = 100_000_000;

/// Room that came back counts once it took so long,
const SEEN_MIN_NS: u64 = 250_000_000;

/// and after so long half of what was before is forgotten.
const HALF_LIFE_S: f64 = 1.0;

/// A write, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteKind {
    Large,
    Small,
    /// A small one, while members take turns.
    SmallInTurns,
}

impl WriteKind {
    /// Up to where it does not wait.
    fn free_fill(self) -> f64 {
        match self {
            Self::Large => FREE_FILL,
            Self::Small => SMALL_FREE_FILL,
            Self::SmallInTurns => SMALL_FREE_FILL_IN_TURNS,
        }
    }
}

/// The rate of one volume.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    /// Bytes of the log that came back in a second while something went home, as a mean that forgets.
    drain_bytes_per_s: Cell<f64>,
    /// Bytes that came back since something goes home, or since it counted, and since when.
    given_back: Cell<(u64, u64)>,
    /// When what was accepted so far is paid for.
    paid_ns: Cell<u64>,
}

impl Throttle {
    /// Something goes home from now on.
    pub(super) fn begin_drain(&self, now_ns: u64) {
        self.given_back.set((0, now_ns));
    }

    /// So many bytes of the log came back; `is_last` where nothing goes home any more.
    pub(super) fn note_given_back(&self, now_ns: u64, bytes: u64, is_last: bool) {
        let (before, since_ns) = self.given_back.get();
        let (bytes, took_ns) = (before + bytes, now_ns.saturating_sub(since_ns));
        match took_ns >= SEEN_MIN_NS || is_last {
            true => {
                self.note_drained(bytes, took_ns);
                self.given_back.set((0, now_ns));
            }
            false => self.given_back.set((bytes, since_ns)),
        }
    }

    /// The drives took so many bytes home in so long.
    fn note_drained(&self, bytes: u64, took_ns: u64) {
        if bytes == 0 || took_ns == 0 {
            return;
        }
        let took_s = took_ns as f64 / 1e9;
        let (before, rate) = (self.drain_bytes_per_s.get(), bytes as f64 / took_s);
        let left = if before == 0.0 { 0.0 } else { 0.5_f64.powf(took_s / HALF_LIFE_S) };
        self.drain_bytes_per_s.set(before * left + rate * (1.0 - left));
    }

    /// Until when a write of `bytes` that comes now is to wait, where the fullest of log and memory is `fill`, of 1.
    pub(super) fn admit(&self, now_ns: u64, bytes: u64, kind: WriteKind, fill: f64) -> u64 {
        let drain = self.drain_bytes_per_s.get();
        if drain == 0.0 || fill <= FREE_FILL {
            self.paid_ns.set(0);
            return now_ns;
        }
        if fill <= kind.free_fill() {
            return now_ns;
        }
        let rate = drain * ((1.0 - fill.min(1.0)) * 8.0).max(RATE_MIN);
        let cost_ns = (bytes as f64 * 1e9 / rate) as u64;
        let since_ns = self.paid_ns.get().max(now_ns.saturating_sub(BURST_NS));
        let latest_ns = now_ns.saturating_add(WAIT_MAX_NS);
        self.paid_ns.set(since_ns.saturating_add(cost_ns).min(latest_ns));
        since_ns.clamp(now_ns, latest_ns)
    }

    /// Bytes a second that the drives took home of late; 0 before the first checkpoint.
    pub(super) fn drain_bytes_per_s(&self) -> u64 {
        self.drain_bytes_per_s.get() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const SECOND_NS: u64 = 1_000_000_000;

    /// Bytes accepted in a second of writers who write as fast as they may.
    fn accepted(throttle: &Throttle, fill: f64) -> u64 {
        let (mut now_ns, mut bytes) = (SECOND_NS, 0);
        while now_ns < 2 * SECOND_NS && bytes < 1000 * MIB {
            now_ns = throttle.admit(now_ns, 4096, WriteKind::Large, fill);
            bytes += 4096;
        }
        bytes
    }

    #[test]
    fn nobody_waits_before_a_drive_is_known_or_while_there_is_room() {
        let throttle = Throttle::default();
        assert_eq!(throttle.admit(7, MIB, WriteKind::Large, 0.99), 7);
        throttle.note_drained(10 * MIB, SECOND_NS);
        assert_eq!(accepted(&throttle, 0.75), 1000 * MIB);
    }

    #[test]
    fn what_is_accepted_falls_to_what_the_drives_take_home_and_below() {
        for (fill, expected) in [(0.751, 2.0), (0.875, 1.0), (0.9375, 0.5), (1.0, 0.05)] {
            let throttle = Throttle::default();
            throttle.note_drained(10 * MIB, SECOND_NS);
            let found = accepted(&throttle, fill) as f64 / (10 * MIB) as f64;
            assert!((found - expected).abs() < 0.05, "{found} times at {fill}");
        }
    }

    #[test]
    fn whoever_writes_little_waits_for_nobody_who_writes_much_while_there_is_room() {
        let throttle = Throttle::default();
        throttle.note_drained(MIB, SECOND_NS);
        let large: Vec<u64> =
            (0..9).map(|_| throttle.admit(SECOND_NS, MIB, WriteKind::Large, 0.85)).collect();
        assert!(large[8] > SECOND_NS, "{large:?}");
        assert_eq!(throttle.admit(SECOND_NS, 4096, WriteKind::Small, 0.85), SECOND_NS);
        assert_eq!(throttle.admit(SECOND_NS, 4096, WriteKind::SmallInTurns, 0.95), SECOND_NS);
        assert!(throttle.admit(SECOND_NS, 4096, WriteKind::Small, 0.95) > SECOND_NS);
        assert!(throttle.admit(SECOND_NS, 4096, WriteKind::SmallInTurns, 0.96) > SECOND_NS);
    }

    #[test]
    fn a_drive_that_hung_lets_nobody_wait_long() {
        let throttle = Throttle::default();
        throttle.note_drained(4096, 60 * SECOND_NS);
        for _ in 0..10 {
            let until_ns = throttle.admit(SECOND_NS, MIB, WriteKind::Large, 1.0);
            assert!(until_ns <= SECOND_NS + WAIT_MAX_NS);
        }
    }

    #[test]
    fn a_pause_is_not_saved_up() {
        let throttle = Throttle::default();
        throttle.note_drained(MIB, SECOND_NS);
        throttle.admit(SECOND_NS, 4096, WriteKind::Large, 0.875);
        let later_ns = 100 * SECOND_NS;
        let waits =
            (0..100).filter(|_| throttle.admit(later_ns, 4096, WriteKind::Large, 0.875) > later_ns).count();
        assert!(waits > 90, "{waits} of 100");
    }
}
