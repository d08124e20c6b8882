//! Whether processors were idle of late. `conditions/cpu.rs` reads more of the same for measurements; here a busy loop asks, and
//! nothing is opened or allocated for it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::str;
use std::time::{Duration, Instant};

/// Bytes of the first line of `/proc/stat`, at most.
const LINE_MAX: usize = 512;

/// Between two readings, at least: ten of the ticks in which the kernel counts.
const WINDOW_MIN: Duration = Duration::from_millis(100);

/// Idle of all processors, of which less leaves none to spare.
const SPARE_MIN: f64 = 0.5;

/// The machine's idle time.
#[derive(Debug)]
pub(super) struct Idle {
    /// `/proc/stat`.
    stat: Option<File>,
    ticks_per_s: f64,
    /// The last reading.
    last: Option<(Instant, u64)>,
}

impl Idle {
    /// Of this machine.
    pub(super) fn of_machine() -> Self {
        let ticks_per_s = rustix::param::clock_ticks_per_second() as f64;
        Self { stat: File::open("/proc/stat").ok(), ticks_per_s, last: None }
    }

    /// Whether half a processor was idle from the last reading to now; `None` where that is too short a time, or cannot be told.
    pub(super) fn is_there(&mut self, now: Instant) -> Option<bool> {
        let mut text = [0; LINE_MAX];
        let len = self.stat.as_ref()?.read_at(&mut text, 0).ok()?;
        self.judge(now, idle_ticks(&text[..len])?)
    }

    fn judge(&mut self, now: Instant, ticks: u64) -> Option<bool> {
        let Some((then, before)) = self.last else {
            self.last = Some((now, ticks));
            return None;
        };
        let window = now.duration_since(then);
        if window < WINDOW_MIN {
            return None;
        }
        self.last = Some((now, ticks));
        let idle_s = ticks.saturating_sub(before) as f64 / self.ticks_per_s;
        Some(idle_s >= SPARE_MIN * window.as_secs_f64())
    }
}

/// What all processors were idle for, or waited for drives, in ticks: the fourth and fifth number of the first line (proc_stat(5)).
fn idle_ticks(stat: &[u8]) -> Option<u64> {
    let line = stat.split(|&byte| byte == b'\n').next()?;
    let mut fields = str::from_utf8(line).ok()?.split_ascii_whitespace();
    (fields.next() == Some("cpu")).then_some(())?;
    let mut idle = fields.skip(3).map(str::parse::<u64>);
    idle.next()?.ok()?.checked_add(idle.next()?.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_processors_and_those_that_wait_for_drives_are_counted() {
        assert_eq!(idle_ticks(b"cpu  10 0 20 300 40 0 5 0 0 0\ncpu0 1 2 3 4 5\n"), Some(340));
        assert_eq!(idle_ticks(b"cpu  10 0 20 300\n"), None);
        assert_eq!(idle_ticks(b"intr 10 0 20 300 40\n"), None);
        assert_eq!(idle_ticks(b""), None);
    }

    #[test]
    fn half_a_processor_is_enough_over_a_time_that_is_long_enough() {
        let mut idle = Idle { stat: None, ticks_per_s: 100.0, last: None };
        let began = Instant::now();
        let at = |ms: u64| began + Duration::from_millis(ms);
        assert_eq!(idle.judge(at(0), 1000), None, "the first reading");
        assert_eq!(idle.judge(at(50), 1005), None, "too short");
        assert_eq!(idle.judge(at(200), 1010), Some(true));
        assert_eq!(idle.judge(at(400), 1019), Some(false));
        assert_eq!(idle.judge(at(600), 1219), Some(true));
        assert!(Idle::of_machine().stat.is_some());
        assert_eq!(idle.is_there(at(800)), None, "nothing can be read");
    }
}
