//! How large log and buffer are to be for a recorded load, by the rate at which it writes.

use schemars::JsonSchema;
use serde::Serialize;

/// Bytes of the log for each byte of a burst, where drives keep sectors whole: a checkpoint begins when the log is half full, and
/// records carry tags (docs/operating.md, Sizing).
pub const LOG_PER_BYTE: f64 = 1.4;

/// The same where sectors may tear: the image of each page goes through the log besides.
pub const LOG_PER_BYTE_WITH_IMAGES: f64 = 3.0;

const SECOND_NS: u64 = 1_000_000_000;

/// A write of a recorded load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedWrite {
    /// On the recorder's clock; one that is before the write before it counts as at the same time.
    pub time_ns: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// What a load asks of log and buffer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Sizes {
    /// Bytes written in its busiest second.
    pub busiest_second_bytes: u64,
    /// Bytes that are written and not home yet, at most, where what is home comes at the rate that trials reached.
    pub backlog_max_bytes: u64,
    /// Bytes of the log that hold those.
    pub log_bytes: u64,
    /// Whether they grow for as long as it is recorded: then no log is large enough.
    pub grows_without_end: bool,
}

impl Sizes {
    /// Of writes in their order, on drives that take `home_bytes_per_s`.
    pub fn of(writes: &[TimedWrite], home_bytes_per_s: f64, atomic_sectors: bool) -> Self {
        let (mut backlog, mut most, mut most_in_first_half) = (0.0_f64, 0.0_f64, 0.0_f64);
        let first_ns = writes.first().map_or(0, |write| write.time_ns);
        let last_ns = writes.iter().map(|write| write.time_ns).max().unwrap_or(0);
        let mut now_ns = first_ns;
        for write in writes {
            let passed_ns = write.time_ns.saturating_sub(now_ns);
            now_ns += passed_ns;
            backlog = (backlog - passed_ns as f64 * 1e-9 * home_bytes_per_s).max(0.0) + write.bytes as f64;
            most = most.max(backlog);
            if now_ns - first_ns <= (last_ns - first_ns) / 2 {
                most_in_first_half = most;
            }
        }
        let rate = writes.iter().map(|write| write.bytes as f64).sum::<f64>();
        let is_beyond = rate > home_bytes_per_s * (last_ns - first_ns) as f64 * 1e-9;
        let per_byte = if atomic_sectors { LOG_PER_BYTE } else { LOG_PER_BYTE_WITH_IMAGES };
        Self {
            busiest_second_bytes: busiest_second(writes),
            backlog_max_bytes: most as u64,
            log_bytes: (most * per_byte) as u64,
            grows_without_end: is_beyond && most > 1.5 * most_in_first_half,
        }
    }
}

/// Bytes of the second in which most are written.
fn busiest_second(writes: &[TimedWrite]) -> u64 {
    let (mut from, mut within, mut most) = (0, 0, 0);
    for (at, write) in writes.iter().enumerate() {
        within += write.bytes;
        while from < at && write.time_ns.saturating_sub(writes[from].time_ns) >= SECOND_NS {
            within -= writes[from].bytes;
            from += 1;
        }
        most = most.max(within);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(each: &[(u64, u64)]) -> Vec<TimedWrite> {
        each.iter().map(|&(time_ms, bytes)| TimedWrite { time_ns: time_ms * 1_000_000, bytes }).collect()
    }

    #[test]
    fn the_busiest_second_may_begin_at_any_time() {
        assert_eq!(busiest_second(&writes(&[(0, 1), (900, 10), (1800, 10), (1950, 3), (3000, 9)])), 20);
        assert_eq!(busiest_second(&writes(&[(0, 1), (900, 10), (999, 10)])), 21);
        assert_eq!(busiest_second(&[]), 0);
    }

    #[test]
    fn a_burst_waits_in_the_log_as_far_as_the_drives_do_not_take_it() {
        // 100 bytes at once, then 10 for each of ten seconds, on drives that take 20 a second.
        let burst: Vec<(u64, u64)> = [(0, 100)].into_iter().chain((1..=10).map(|s| (s * 1000, 10))).collect();
        let sizes = Sizes::of(&writes(&burst), 20.0, true);
        assert_eq!((sizes.backlog_max_bytes, sizes.log_bytes, sizes.grows_without_end), (100, 140, false));
        assert_eq!(Sizes::of(&writes(&burst), 20.0, false).log_bytes, 300);
    }

    #[test]
    fn a_load_beyond_the_drives_fills_any_log() {
        let steady: Vec<(u64, u64)> = (0..100).map(|s| (s * 1000, 50)).collect();
        assert!(Sizes::of(&writes(&steady), 20.0, true).grows_without_end);
        assert!(!Sizes::of(&writes(&steady), 60.0, true).grows_without_end);
        // Clocks that go back count as standing.
        let back = Sizes::of(&writes(&[(5000, 10), (0, 10), (5000, 10)]), 1.0, true);
        assert_eq!(back.backlog_max_bytes, 30);
    }
}
