//! How late answers were against the model's time.

use evenkeel_measure::drive::Lateness;
use evenkeel_measure::replay::statistics::Times;
use evenkeel_measure::report::format;

/// What the models are meant to be precise to.
const GOAL_NS: u64 = 20_000;

/// From when the model was done to when the answer was handed to the connection.
#[derive(Debug, Default)]
pub(super) struct Precision {
    times: Times,
    within_goal: u64,
}

impl Precision {
    pub(super) fn add(&mut self, late_ns: u64) {
        self.times.add(late_ns);
        self.within_goal += u64::from(late_ns <= GOAL_NS);
    }

    fn within_goal(&self) -> Option<f64> {
        let count = self.times.count();
        (count > 0).then(|| self.within_goal as f64 / count as f64)
    }

    /// In a line.
    pub(super) fn text(&self) -> String {
        let (Some(mean), Some(max), Some(within)) =
            (self.times.mean_s(), self.times.max_s(), self.within_goal())
        else {
            return "answered: 0 requests".to_owned();
        };
        let below = |p, name| {
            self.times
                .percentile_s(p)
                .map_or(String::new(), |time| format!(", {name} within {}", format::seconds(time)))
        };
        format!(
            "answered: {} requests, late by {} on average{}{}, {} at most; {} within 20 us",
            format::count(self.times.count()),
            format::seconds(mean),
            below(0.5, "half"),
            below(0.99, "99 %"),
            format::seconds(max),
            format::percent(within),
        )
    }

    /// For a document: `null` where too few were answered to know.
    pub(super) fn facts(&self) -> Lateness {
        Lateness {
            requests: self.times.count(),
            mean: self.times.mean_s(),
            p50: self.times.percentile_s(0.5),
            p99: self.times.percentile_s(0.99),
            max: self.times.max_s(),
            share_within_20_us: self.within_goal(),
        }
    }
}
