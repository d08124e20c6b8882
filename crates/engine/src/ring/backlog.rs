//! How full the room for what is not home gets, until the members have taken home what waits for them.
//!
//! ```text
//!   fill
//!      1 ┤· · · · · · · ╱· · · · · ·  the log, or the memory for pages, is full: writes wait
//!    0.9 │            ╱ behind: more of them have to write
//!        │          ╱
//!        │       ╱    as fast as it filled of late
//!        │    ╱
//!        └────┬───────────┬──►
//!            now          what waits is home: there is room again
//! ```
//!
//! 1. Room comes back in steps, as members settle: how fast it is taken is seen while it grows only.
//! 2. What is full already takes no more, and so grows no more: that is looked at by itself.

use std::cell::Cell;

/// From here on there is no room, though not every byte is used: what comes next may be larger than what is left.
const FULL: f64 = 0.99;

/// What is known of the room.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    fill: Cell<f64>,
    seen: Cell<Option<Seen>>,
}

/// What was seen of it at the last forecast.
#[derive(Debug, Clone, Copy)]
struct Seen {
    at_ns: u64,
    fill: f64,
    /// How much more was taken of it in a second: a mean that forgets half of itself with each forecast.
    growth_per_s: f64,
}

/// How full it gets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Forecast {
    /// Whether it is full now.
    pub(super) is_full: bool,
    /// How full it is now, of 1,
    pub(super) fill: f64,
    /// and how much more is taken of it in the time that the members need, one after the other.
    pub(super) more: f64,
}

impl Backlog {
    /// So full it is now, of 1.
    pub(super) fn note_fill(&self, fill: f64) {
        self.fill.set(fill);
    }

    /// How full it is, and nothing of what becomes of it.
    pub(super) fn now(&self) -> Forecast {
        let fill = self.fill.get();
        Forecast { is_full: fill >= FULL, fill, more: 0.0 }
    }

    /// What becomes of it within `needed_s`.
    pub(super) fn forecast(&self, now_ns: u64, needed_s: f64) -> Forecast {
        let fill = self.fill.get();
        let growth_per_s = self.seen.get().map_or(0.0, |seen| seen.growth_by(now_ns, fill));
        self.seen.set(Some(Seen { at_ns: now_ns, fill, growth_per_s }));
        Forecast { is_full: fill >= FULL, fill, more: growth_per_s * needed_s }
    }
}

impl Seen {
    fn growth_by(&self, now_ns: u64, fill: f64) -> f64 {
        let since_s = now_ns.saturating_sub(self.at_ns) as f64 / 1e9;
        let is_growth = since_s > 0.0 && fill >= self.fill;
        if is_growth {
            f64::midpoint(self.growth_per_s, (fill - self.fill) / since_s)
        } else {
            self.growth_per_s
        }
    }
}

impl Forecast {
    /// How full it gets until so many at a time have taken home what waits. None ever do.
    pub(super) fn fill_with(&self, writers: usize) -> f64 {
        match writers {
            0 => f64::INFINITY,
            writers => self.fill + self.more / writers as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Forecasts a second apart, of so full each time.
    fn of_each_second(fills: &[f64], needed_s: f64) -> Vec<f64> {
        let backlog = Backlog::default();
        let at = |(&fill, second)| {
            backlog.note_fill(fill);
            backlog.forecast(second * SECOND_NS, needed_s).fill_with(1)
        };
        fills.iter().zip(7..).map(at).collect()
    }

    #[test]
    fn what_grows_steadily_gets_as_full_as_it_will_be() {
        let forecasts = of_each_second(&[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], 2.0);
        assert!(forecasts[4] > 0.55 && forecasts[7] > 0.89, "{forecasts:?}");
        assert!(
            forecasts.iter().zip(0..).all(|(&fill, second)| fill <= 0.1 * f64::from(second) + 0.2),
            "{forecasts:?}"
        );
    }

    #[test]
    fn room_that_came_back_says_nothing_of_how_fast_it_is_taken() {
        assert_eq!(of_each_second(&[0.0, 0.25, 0.5, 0.0], 1.0), [0.0, 0.375, 0.6875, 0.1875]);
    }

    #[test]
    fn what_grows_no_more_is_expected_to_grow_less_and_less() {
        let forecasts = of_each_second(&[0.0, 0.4, 0.4, 0.4, 0.4], 1.0);
        assert_eq!(forecasts[..2], [0.0, 0.4 + 0.2]);
        assert!(forecasts[1..].windows(2).all(|pair| pair[1] < pair[0]), "{forecasts:?}");
    }

    #[test]
    fn several_need_less_time_and_none_for_ever() {
        let forecast = Forecast { is_full: false, fill: 0.5, more: 0.6 };
        assert_eq!([3, 2, 1, 0].map(|writers| forecast.fill_with(writers)), [0.7, 0.8, 1.1, f64::INFINITY]);
    }
}
