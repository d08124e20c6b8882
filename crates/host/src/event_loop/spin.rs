//! Looking for the next completion for a moment before sleeping.
//!
//! A thread that sleeps is woken by an interrupt to another processor, which on a virtual machine costs as much as a read
//! from memory takes in all. Where one client at a time asks and waits, that is most of its latency. So a loop whose last
//! looks found something looks again before it sleeps; one that looked in vain sleeps at once, for many sleeps.
//!
//! 1. A look takes no longer than [`CLIENT_MAX`], or [`DRIVE_MAX`] while a drive has something to do, nor longer than the sleep would
//!    have taken. It ends as soon as there is something to do.
//! 2. A loop that is idle, or whose completions take longer than that, does not look. Looks for drives are judged apart: a slow drive
//!    does not end the looks for clients, and clients that ask again quickly do not keep looks for a slow drive alive.
//! 3. A loop looks for drives only where one client asks alone, and is answered sooner so (`trial`). Else such a look would take
//!    the processor from another client or program, or from the kernel's thread that has to end the drive's work.
//! 4. Where several ask, a loop that has not slept for [`AWAKE_MAX`] sleeps, if there is nothing to do. The scheduler may have put
//!    a client that was woken behind the loop, on its processor. As long as another keeps the loop looking, that client waits
//!    there for the next tick, up to 4 ms. A client that asks alone waits for no more than one look in vain.

use std::hint;
use std::time::{Duration, Instant};

use super::trial::Trial;

/// How long a look takes at the most while only clients can end it: about what it saves.
const CLIENT_MAX: Duration = Duration::from_micros(50);

/// How long a look takes at the most while a drive has something to do: more than a durable write takes a fast one.
const DRIVE_MAX: Duration = Duration::from_micros(250);

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

/// Requests of one client in a row, behind which it counts as asking alone.
const ALONE_MIN: u32 = 32;

/// What ends a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    /// A client that asks.
    Client,
    /// A drive that has something to do, or a client.
    Drive,
}

/// Whether it pays to look.
pub(super) struct Spin {
    for_clients: Looks,
    for_drives: Looks,
    /// Whether a client that asks alone gains from looks for drives.
    trial: Trial,
    /// When the first look since the last sleep began.
    awake_since: Option<Instant>,
    /// Who asked since then.
    askers: Askers,
    /// Who asked last, and how often in a row.
    last_asker: u32,
    in_a_row: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Askers {
    Nobody,
    One(u32),
    Several,
}

impl Spin {
    /// `has_idle` tells whether a processor was idle from the last question to this one.
    pub(super) fn new(has_idle: impl FnMut(Instant) -> Option<bool> + 'static) -> Self {
        Self {
            for_clients: Looks::new(),
            for_drives: Looks::new(),
            trial: Trial::new(has_idle),
            awake_since: None,
            askers: Askers::Nobody,
            last_asker: 0,
            in_a_row: 0,
        }
    }

    /// Whether a look before the sleep to come may pay.
    pub(super) fn pays(&mut self, awaited: Awaited) -> bool {
        match awaited {
            Awaited::Client => !self.for_clients.are_paused(),
            Awaited::Drive => {
                // The pause goes on, whoever asks.
                let are_paused = self.for_drives.are_paused();
                self.in_a_row >= ALONE_MIN && self.trial.looks() && !are_paused
            }
        }
    }

    /// Looks until `is_there` answers true, for a while that is no longer than `limit`; answers whether it did.
    pub(super) fn look(
        &mut self,
        awaited: Awaited,
        limit: Duration,
        mut is_there: impl FnMut() -> bool,
    ) -> bool {
        let began = Instant::now();
        let mut found = is_there();
        if !found && self.has_to_sleep(began) {
            return false;
        }
        let (looks, max) = match awaited {
            Awaited::Client => (&mut self.for_clients, CLIENT_MAX),
            Awaited::Drive => (&mut self.for_drives, DRIVE_MAX),
        };
        while !found && began.elapsed() < max.min(limit) {
            for _ in 0..CHECKS {
                hint::spin_loop();
                found = found || is_there();
            }
        }
        // One that a timer ended early tells nothing.
        if found || limit >= max {
            looks.note(found);
        }
        found
    }

    /// Whether it is time for a sleep now: then one follows, however short.
    fn has_to_sleep(&mut self, now: Instant) -> bool {
        let awake = now.duration_since(*self.awake_since.get_or_insert(now));
        let is_time = self.askers == Askers::Several && awake > AWAKE_MAX;
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
        self.askers = match self.askers {
            Askers::Nobody => Askers::One(asker),
            Askers::One(before) if before == asker => Askers::One(asker),
            _ => Askers::Several,
        };
        let is_same = self.last_asker == asker;
        self.in_a_row = if is_same { self.in_a_row.saturating_add(1) } else { 1 };
        self.last_asker = asker;
        if self.in_a_row >= ALONE_MIN {
            self.trial.note_request(Instant::now());
        } else {
            self.trial.interrupt();
        }
    }

    fn note_sleep(&mut self) {
        (self.awake_since, self.askers) = (None, Askers::Nobody);
    }
}

/// How looks of one kind went.
#[derive(Debug)]
struct Looks {
    vain: u32,
    /// Sleeps to come without a look.
    paused_for: u32,
    next_pause: u32,
}

impl Looks {
    fn new() -> Self {
        Self { vain: 0, paused_for: 0, next_pause: PAUSE_MIN }
    }

    /// Whether the next sleep begins without a look, which counts as one of the pause.
    fn are_paused(&mut self) -> bool {
        let are_paused = self.paused_for > 0;
        self.paused_for = self.paused_for.saturating_sub(1);
        are_paused
    }

    /// None are made before so many sleeps.
    fn pause(&mut self, sleeps: u32) {
        self.paused_for = sleeps;
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
            self.pause(self.next_pause);
            self.next_pause = (self.next_pause * 2).min(PAUSE_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_LIMIT: Duration = Duration::MAX;

    /// One of which a client that asks alone gains.
    fn looking() -> Spin {
        Spin { trial: Trial::decided(), ..Spin::new(|_| None) }
    }

    /// Looks in vain before that many sleeps, where it may pay.
    fn vain_looks(spin: &mut Spin, awaited: Awaited, sleeps: u32) -> u32 {
        let looks = (0..sleeps).filter(|_| spin.pays(awaited) && !spin.look(awaited, NO_LIMIT, || false));
        looks.count() as u32
    }

    fn ask(spin: &mut Spin, askers: &[u32]) {
        (0..ALONE_MIN).for_each(|_| askers.iter().for_each(|&asker| spin.note_asker(asker)));
    }

    #[test]
    fn who_looks_in_vain_stops_looking_for_longer_each_time() {
        let mut spin = Spin::new(|_| None);
        let looks = vain_looks(&mut spin, Awaited::Client, 10_000);
        assert!((VAIN_MAX..VAIN_MAX + 10).contains(&looks), "{looks}");
    }

    #[test]
    fn who_finds_something_goes_on_looking_and_ends_at_once() {
        let mut spin = Spin::new(|_| None);
        for _ in 0..10_000 {
            let mut checks = 0;
            assert!(spin.pays(Awaited::Client));
            assert!(spin.look(Awaited::Client, NO_LIMIT, || {
                checks += 1;
                true
            }));
            assert_eq!(checks, 1);
        }
    }

    #[test]
    fn drives_are_looked_for_while_one_client_asks_alone() {
        let mut spin = looking();
        assert!(!spin.pays(Awaited::Drive), "nobody asks");
        ask(&mut spin, &[7]);
        spin.note_wait(SLEEP_MIN);
        assert!(spin.pays(Awaited::Drive), "a sleep does not change who asks");
        spin.note_asker(8);
        assert!(!spin.pays(Awaited::Drive), "another asks");
        ask(&mut spin, &[7, 8]);
        assert!(!spin.pays(Awaited::Drive), "two ask in turns");
    }

    #[test]
    fn a_look_that_a_timer_ends_is_not_one_in_vain() {
        let mut spin = Spin::new(|_| None);
        for _ in 0..1000 {
            assert!(spin.pays(Awaited::Client));
            assert!(!spin.look(Awaited::Client, Duration::from_nanos(1), || false));
        }
        assert!((VAIN_MAX..VAIN_MAX + 10).contains(&vain_looks(&mut spin, Awaited::Client, 10_000)));
    }

    #[test]
    fn a_slow_drive_ends_the_looks_for_drives_alone() {
        let mut spin = looking();
        ask(&mut spin, &[7]);
        let mut looks = 0;
        for _ in 0..1000 {
            looks += vain_looks(&mut spin, Awaited::Drive, 1);
            assert!(
                spin.pays(Awaited::Client) && spin.look(Awaited::Client, NO_LIMIT, || true),
                "it asks again"
            );
        }
        assert!((VAIN_MAX..VAIN_MAX + 10).contains(&looks), "{looks}");
    }

    #[test]
    fn who_is_kept_awake_by_several_sleeps_now_and_then() {
        let mut spin = Spin::new(|_| None);
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
