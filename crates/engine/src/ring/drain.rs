//! How much a member takes of what is written: bytes over the time that it was busy with them.
//!
//! 1. Only the time counts in which the member has something under way: a write, a flush or its head. So one that waits
//!    for its turn, or for the others, is not slow for it, and all policies can be compared.
//! 2. A moment counts once however much is under way, and as it passes: what comes to no end makes a member slow too.
//! 3. What was a while ago counts less.

use std::cell::Cell;
use std::rc::Rc;

use crate::env::Env;

/// After so long half of what was is forgotten.
const HALF_LIFE_NS: u64 = 10_000_000_000;

/// What one member took.
#[derive(Debug, Default)]
pub(super) struct Drain {
    under_way: Cell<usize>,
    /// Up to when time is accounted for.
    known_ns: Cell<u64>,
    /// When half was forgotten the last time.
    halved_ns: Cell<u64>,
    bytes: Cell<u64>,
    busy_ns: Cell<u64>,
}

/// Bytes, and the time of being busy with them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transfer {
    bytes: u64,
    busy_ns: u64,
}

/// Bytes that these took in a second of being busy, at their mean; 0 before the first.
pub(super) fn bytes_per_s(took: impl IntoIterator<Item = Transfer>) -> u64 {
    let sum = |(bytes, busy_ns), took: Transfer| {
        (bytes + u128::from(took.bytes), busy_ns + u128::from(took.busy_ns))
    };
    let (bytes, busy_ns) = took.into_iter().fold((0, 0), sum);
    u64::try_from((bytes * 1_000_000_000).checked_div(busy_ns).unwrap_or(0)).unwrap_or(u64::MAX)
}

/// Something under way, until this is dropped.
pub(crate) struct Busy<'a, E: Env> {
    env: &'a E,
    drain: Rc<Drain>,
}

impl Drain {
    /// Something is under way from now on.
    pub(super) fn begin<'a, E: Env>(self: &Rc<Self>, env: &'a E) -> Busy<'a, E> {
        self.pass(env.now_ns());
        self.under_way.set(self.under_way.get() + 1);
        Busy { env, drain: Rc::clone(self) }
    }

    /// Bytes taken in a second of being busy; 0 before the first.
    pub(super) fn bytes_per_s(&self, now_ns: u64) -> u64 {
        bytes_per_s([self.took(now_ns)])
    }

    /// What was taken, and in how long.
    pub(super) fn took(&self, now_ns: u64) -> Transfer {
        Transfer { bytes: self.bytes.get(), busy_ns: self.busy_ns.get() + self.since_known_ns(now_ns) }
    }

    fn since_known_ns(&self, now_ns: u64) -> u64 {
        if self.under_way.get() > 0 { now_ns.saturating_sub(self.known_ns.get()) } else { 0 }
    }

    fn pass(&self, now_ns: u64) {
        self.busy_ns.set(self.busy_ns.get() + self.since_known_ns(now_ns));
        self.known_ns.set(now_ns);
        if now_ns.saturating_sub(self.halved_ns.get()) >= HALF_LIFE_NS {
            self.halved_ns.set(now_ns);
            self.bytes.set(self.bytes.get() / 2);
            self.busy_ns.set(self.busy_ns.get() / 2);
        }
    }
}

impl<E: Env> Busy<'_, E> {
    /// It took these bytes.
    pub(super) fn took(&self, bytes: u64) {
        self.drain.bytes.set(self.drain.bytes.get() + bytes);
    }
}

impl<E: Env> Drop for Busy<'_, E> {
    fn drop(&mut self) {
        self.drain.pass(self.env.now_ns());
        self.drain.under_way.set(self.drain.under_way.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, ready};

    use super::*;

    const MS: u64 = 1_000_000;

    /// A clock that is set.
    #[derive(Clone, Default)]
    struct Clock(Rc<Cell<u64>>);

    impl Clock {
        fn pass_ms(&self, ms: u64) {
            self.0.set(self.0.get() + ms * MS);
        }
    }

    impl Env for Clock {
        fn now_ns(&self) -> u64 {
            self.0.get()
        }

        fn sleep(&self, _duration_ns: u64) -> impl Future<Output = ()> {
            ready(())
        }

        fn spawn(&self, _task: impl Future<Output = ()> + 'static) {}

        fn random(&self) -> u64 {
            0
        }
    }

    fn take(drain: &Rc<Drain>, clock: &Clock, ms: u64, bytes: u64) {
        let busy = drain.begin(clock);
        clock.pass_ms(ms);
        busy.took(bytes);
    }

    #[test]
    fn time_in_which_nothing_is_under_way_does_not_count() {
        let (drain, clock) = (Rc::<Drain>::default(), Clock::default());
        assert_eq!(drain.bytes_per_s(0), 0);
        for _ in 0..3 {
            take(&drain, &clock, 10, 1000);
            clock.pass_ms(990);
        }
        assert_eq!(drain.bytes_per_s(clock.now_ns()), 100_000);
        drop(drain.begin(&clock)); // a flush that takes no time
        assert_eq!(drain.bytes_per_s(clock.now_ns()), 100_000);
        take(&drain, &clock, 30, 0); // and one that does
        assert_eq!(drain.bytes_per_s(clock.now_ns()), 50_000);
    }

    #[test]
    fn a_moment_counts_once_however_much_is_under_way() {
        let (drain, clock) = (Rc::<Drain>::default(), Clock::default());
        let (first, second) = (drain.begin(&clock), drain.begin(&clock));
        clock.pass_ms(10);
        first.took(500);
        drop(first);
        clock.pass_ms(10);
        second.took(500);
        drop(second);
        assert_eq!(drain.bytes_per_s(clock.now_ns()), 50_000);
    }

    #[test]
    fn several_take_what_they_took_in_the_time_that_each_was_busy() {
        let (quick, slow, idle) = (Rc::<Drain>::default(), Rc::<Drain>::default(), Rc::<Drain>::default());
        let clock = Clock::default();
        take(&quick, &clock, 10, 3000);
        take(&slow, &clock, 30, 1000);
        let of_all = [&quick, &slow, &idle].map(|drain| drain.took(clock.now_ns()));
        assert_eq!(bytes_per_s(of_all), 100_000);
        assert_eq!(bytes_per_s([idle.took(clock.now_ns())]), 0);
    }

    #[test]
    fn what_comes_to_no_end_counts_as_time_passes() {
        let (drain, clock) = (Rc::<Drain>::default(), Clock::default());
        take(&drain, &clock, 10, 1000);
        let _hangs = drain.begin(&clock);
        clock.pass_ms(90);
        assert_eq!(drain.bytes_per_s(clock.now_ns()), 10_000);
    }

    #[test]
    fn a_member_that_became_slow_is_so_before_long_however_quick_it_was() {
        let (drain, clock) = (Rc::<Drain>::default(), Clock::default());
        let for_a_minute = |ms, bytes| {
            for _ in 0..600 {
                take(&drain, &clock, ms, bytes);
                clock.pass_ms(100 - ms);
            }
        };
        (0..60).for_each(|_| for_a_minute(1, 1000));
        let at_first = drain.bytes_per_s(clock.now_ns());
        assert!((999_000..=1_000_000).contains(&at_first), "{at_first}");
        for_a_minute(10, 1000);
        let after_a_minute = drain.bytes_per_s(clock.now_ns());
        assert!((100_000..120_000).contains(&after_a_minute), "{after_a_minute}");
    }
}
