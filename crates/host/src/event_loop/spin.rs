//! Looking for the next completion for a moment before sleeping.
//!
//! A thread that sleeps is woken by an interrupt to another processor, which on a virtual machine costs as much as a read
//! from memory takes in all. Where one client at a time asks and waits, that is most of its latency. So a loop whose last
//! looks found something looks again before it sleeps; one that looked in vain sleeps at once, for many sleeps.
//!
//! 1. Looking takes no longer than [`LOOK_MAX`], and ends as soon as there is something to do.
//! 2. A loop that is idle, or whose completions take longer than that, does not look.
//! 3. Where several ask, a loop that has not slept for [`AWAKE_MAX`] sleeps, if there is nothing to do. The scheduler may have put
//!    a client that was woken behind the loop, on its processor. As long as another keeps the loop looking, that client waits
//!    there for the next tick, up to 4 ms. A client that asks alone waits for no more than one look in vain.

use std::hint;
use std::time::{Duration, Instant};

/// How long a look takes at the most: about what it saves.
const LOOK_MAX: Duration = Duration::from_micros(50);

/// How long a loop that several ask looks again and again without a sleep in between, each of which costs some 45 µs.
const AWAKE_MAX: Duration = Duration::from_micros(100);

/// A wait that takes less may not have been a sleep.
const SLEEP_MIN: Duration = Duration::from_micros(20);

/// Between two readings of the clock.
const CHECKS: usize = 16;

/// Looks in vain, as many more than others, after which none are made for a while.
const VAIN_MAX: u32 = 8;

/// Sleeps after which it is tried again, the first time and at most.
const PAUSE_MIN: u32 = 64;
const PAUSE_MAX: u32 = 1 << 14;

/// Whether it pays to look.
#[derive(Debug)]
pub(super) struct Spin {
    vain: u32,
    /// Sleeps to come without a look.
    paused_for: u32,
    next_pause: u32,
    /// When the first look since the last sleep began.
    awake_since: Option<Instant>,
    /// Who asked last since then, and whether others did.
    asker: Option<u32>,
    are_several: bool,
}

impl Spin {
    /// It has not been tried yet.
    pub(super) fn new() -> Self {
        Self {
            vain: 0,
            paused_for: 0,
            next_pause: PAUSE_MIN,
            awake_since: None,
            asker: None,
            are_several: false,
        }
    }

    /// Looks until `is_there` answers true, if that pays; answers whether it did.
    pub(super) fn look(&mut self, mut is_there: impl FnMut() -> bool) -> bool {
        if self.paused_for > 0 {
            self.paused_for -= 1;
            return false;
        }
        let began = Instant::now();
        let mut found = is_there();
        if !found && self.has_to_sleep(began) {
            return false;
        }
        while !found && began.elapsed() < LOOK_MAX {
            for _ in 0..CHECKS {
                hint::spin_loop();
                found = found || is_there();
            }
        }
        self.note(found);
        found
    }

    /// Whether it is time for a sleep now: then one follows, however short.
    fn has_to_sleep(&mut self, now: Instant) -> bool {
        let awake = now.duration_since(*self.awake_since.get_or_insert(now));
        let is_time = self.are_several && awake > AWAKE_MAX;
        if is_time {
            self.note_sleep();
        }
        is_time
    }

    /// The loop waited in the kernel for so long: there it sleeps, unless what it hands over is done at once.
    pub(super) fn note_wait(&mut self, took: Duration) {
        if took >= SLEEP_MIN {
            self.note_sleep();
        }
    }

    /// Somebody asks, who is this one among those who do.
    pub(super) fn note_asker(&mut self, asker: u32) {
        self.are_several |= self.asker.replace(asker).is_some_and(|before| before != asker);
    }

    fn note_sleep(&mut self) {
        (self.awake_since, self.asker, self.are_several) = (None, None, false);
    }

    fn note(&mut self, found: bool) {
        if found {
            self.vain = self.vain.saturating_sub(1);
            self.next_pause = PAUSE_MIN;
            return;
        }
        self.vain += 1;
        if self.vain >= VAIN_MAX {
            self.vain = VAIN_MAX - 1; // the next look decides
            self.paused_for = self.next_pause;
            self.next_pause = (self.next_pause * 2).min(PAUSE_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_in_vain_stops_looking_for_longer_each_time() {
        let mut spin = Spin::new();
        let mut looks = 0;
        for _ in 0..10_000 {
            let mut looked = false;
            assert!(!spin.look(|| {
                looked = true;
                false
            }));
            looks += u32::from(looked);
        }
        assert!((VAIN_MAX..VAIN_MAX + 10).contains(&looks), "{looks}");
    }

    #[test]
    fn who_finds_something_goes_on_looking_and_ends_at_once() {
        let mut spin = Spin::new();
        for _ in 0..10_000 {
            let mut checks = 0;
            assert!(spin.look(|| {
                checks += 1;
                true
            }));
            assert_eq!(checks, 1);
        }
    }

    #[test]
    fn who_is_kept_awake_by_several_sleeps_now_and_then() {
        let mut spin = Spin::new();
        let mut now = Instant::now();
        let mut later = |after: Duration| {
            now += after;
            now
        };
        spin.note_asker(7);
        assert!(!spin.has_to_sleep(later(Duration::ZERO)));
        spin.note_asker(7);
        assert!(!spin.has_to_sleep(later(2 * AWAKE_MAX)), "one asks alone");
        spin.note_asker(8);
        spin.note_wait(SLEEP_MIN / 2);
        assert!(spin.has_to_sleep(later(Duration::ZERO)), "that was no sleep");
        assert!(!spin.has_to_sleep(later(2 * AWAKE_MAX)), "it has slept, and nobody has asked since");
        spin.note_asker(7);
        spin.note_asker(8);
        spin.note_wait(SLEEP_MIN);
        assert!(!spin.has_to_sleep(later(2 * AWAKE_MAX)), "that was a sleep");
    }
}
