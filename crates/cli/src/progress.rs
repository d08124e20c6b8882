//! A line on the terminal that says how far the work is and how long it will still take.

use std::time::Duration;

use evenkeel_measure::probe::{Observer, Progress, Stage};
use evenkeel_measure::replay::report::TraceFacts;
use evenkeel_measure::replay::{Pace, Progress as ReplayedSoFar, Settings};
use evenkeel_measure::report::format;
use indicatif::{ProgressBar, ProgressStyle};

/// Shown on standard error where that is a terminal; silent elsewhere.
pub(crate) struct ProbeProgress {
    bar: ProgressBar,
}

impl ProbeProgress {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{prefix:10} {bar:20} {pos}/{len} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar }
    }
}

impl Observer for ProbeProgress {
    fn progress(&mut self, progress: Progress) {
        self.bar.set_prefix(match progress.stage {
            Stage::Pilot => "first look",
            Stage::Rounds => "measuring",
            Stage::Repeats => "repeating",
            Stage::Pause => "waiting",
            Stage::Soak => "soaking",
        });
        // Both at once: no stage shows how many of the one before were done.
        self.bar.update(|state| {
            state.set_len(u64::from(progress.expected));
            state.set_pos(u64::from(progress.done));
        });
        let size = format::bytes(progress.buffer_bytes);
        self.bar.set_message(match progress.left_s.is_finite() {
            true if progress.stage == Stage::Pause => {
                format!("sessions done, the next in {}", format::duration(progress.left_s))
            }
            true => format!("{size}, {} left", format::duration(progress.left_s)),
            false => size,
        });
    }
}

impl Drop for ProbeProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A line on the terminal that says how far a replay is, and how far behind.
pub(crate) struct ReplayProgress {
    bar: ProgressBar,
    speed: Option<f64>,
    /// How long it will take; for a replay as fast as possible nobody knows.
    length_s: Option<f64>,
}

impl ReplayProgress {
    pub(crate) fn new(trace: &TraceFacts, settings: &Settings) -> Self {
        let bar = ProgressBar::new(trace.requests);
        let style = ProgressStyle::with_template("{prefix:10} {bar:20} {pos}/{len} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix("replaying");
        let speed = match settings.pace {
            Pace::Recorded { speed } => Some(speed),
            Pace::Max { .. } => None,
        };
        let time_max_s = settings.time_max_ns.map_or(f64::INFINITY, |time_ns| time_ns as f64 * 1e-9);
        Self { bar, speed, length_s: speed.map(|speed| (trace.duration_s / speed).min(time_max_s)) }
    }

    /// In a time that is not the user's: nobody knows how long it will take.
    pub(crate) fn in_virtual_time(trace: &TraceFacts) -> Self {
        let bar = ProgressBar::new(trace.requests);
        let style = ProgressStyle::with_template("{prefix:14} {bar:30} {pos}/{len} requests");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix("simulating");
        Self { bar, speed: None, length_s: None }
    }

    /// While a target is made.
    pub(crate) fn filling() -> Self {
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{prefix:14} {bar:30} {percent}%");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix("filling");
        Self { bar, speed: None, length_s: None }
    }

    pub(crate) fn filled(&self, done: u64, all: u64) {
        self.bar.set_length(all);
        self.bar.set_position(done);
    }

    pub(crate) fn tell(&self, progress: ReplayedSoFar) {
        self.bar.set_position(progress.sent);
        let left = self.length_s.map(|length_s| {
            let replayed_s = progress.traced_ns as f64 * 1e-9 / self.speed.unwrap_or(1.0);
            format!("{} left", format::duration((length_s - replayed_s).max(0.0)))
        });
        let behind_s = progress.behind_ns as f64 * 1e-9;
        // Less than that nobody sees.
        let behind = (behind_s >= 0.01).then(|| format!("{} behind", format::seconds(behind_s)));
        let words: Vec<String> = left.into_iter().chain(behind).collect();
        self.bar.set_message(words.join(", "));
    }
}

impl Drop for ReplayProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
