//! A line on the terminal that says how far the work is and how long it will still take.

use std::time::Duration;

use evenkeel_measure::probe::{Observer, Progress, Stage};
use evenkeel_measure::report::format;
use indicatif::{ProgressBar, ProgressStyle};

/// Shown on standard error where that is a terminal; silent elsewhere.
pub(crate) struct ProbeProgress {
    bar: ProgressBar,
}

impl ProbeProgress {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{prefix:14} {bar:30} {pos}/{len} runs  {msg}");
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
        });
        self.bar.set_length(u64::from(progress.expected));
        self.bar.set_position(u64::from(progress.done));
        let size = format::bytes(progress.buffer_bytes);
        self.bar.set_message(match progress.left_s.is_finite() {
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
