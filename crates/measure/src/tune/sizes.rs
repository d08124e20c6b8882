//! How large log and buffer are to be for a recorded load, by the rate at which it writes.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::Serialize;

/// Bytes of the log for each byte of a burst, where drives keep sectors whole: a checkpoint begins when the log is half full, and
/// records carry tags (docs/operating.md, Sizing).
pub const LOG_PER_BYTE: f64 = 1.4;

/// The same where sectors may tear: the image of each page goes through the log besides.
pub const LOG_PER_BYTE_WITH_IMAGES: f64 = 3.0;

/// The least log that is chosen for a volume.
pub const LOG_MIN_BYTES: u64 = 16 << 20;

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
    /// Bytes of the log that hold those, no less than `create` chooses; `null` of a ring, whose log holds besides what waits for
    /// turns.
    pub log_bytes: Option<u64>,
    /// Whether they grow for as long as it is recorded: then no log is large enough.
    pub grows_without_end: bool,
}

/// What is known of the drives that a load is to be for.
#[derive(Debug, Clone, Copy)]
pub struct Drives {
    /// What they take home, as trials showed.
    pub home_bytes_per_s: f64,
    /// Whether they keep sectors whole.
    pub atomic_sectors: bool,
    /// Whether they are the members of a ring.
    pub is_ring: bool,
}

impl Sizes {
    /// Of writes in their order, of which the last comes at `last_ns`.
    pub fn of(writes: impl IntoIterator<Item = TimedWrite>, last_ns: u64, drives: Drives) -> Self {
        let Drives { home_bytes_per_s, atomic_sectors, is_ring } = drives;
        let mut writes = writes.into_iter().peekable();
        let first_ns = writes.peek().map_or(0, |write| write.time_ns);
        let lasts_ns = last_ns.saturating_sub(first_ns);
        let (mut backlog, mut most, mut most_in_first_half, mut all) = (0.0_f64, 0.0_f64, 0.0_f64, 0.0_f64);
        let (mut now_ns, mut second) = (first_ns, Second::default());
        for write in writes {
            let passed_ns = write.time_ns.saturating_sub(now_ns);
            now_ns += passed_ns;
            backlog = (backlog - passed_ns as f64 * 1e-9 * home_bytes_per_s).max(0.0) + write.bytes as f64;
            most = most.max(backlog);
            if now_ns - first_ns <= lasts_ns / 2 {
                most_in_first_half = most;
            }
            all += write.bytes as f64;
            second.add(TimedWrite { time_ns: now_ns, ..write });
        }
        let is_beyond = all > home_bytes_per_s * lasts_ns as f64 * 1e-9;
        let per_byte = if atomic_sectors { LOG_PER_BYTE } else { LOG_PER_BYTE_WITH_IMAGES };
        Self {
            busiest_second_bytes: second.most_bytes,
            backlog_max_bytes: most as u64,
            log_bytes: (!is_ring).then(|| ((most * per_byte) as u64).max(LOG_MIN_BYTES)),
            grows_without_end: is_beyond && most > 1.5 * most_in_first_half,
        }
    }
}

/// Writes of the last second, and the most there were of one.
#[derive(Default)]
struct Second {
    writes: VecDeque<TimedWrite>,
    bytes: u64,
    most_bytes: u64,
}

impl Second {
    fn add(&mut self, write: TimedWrite) {
        let is_over = |first: &&TimedWrite| write.time_ns - first.time_ns >= SECOND_NS;
        while let Some(first) = self.writes.front().filter(is_over) {
            self.bytes -= first.bytes;
            self.writes.pop_front();
        }
        // Those of one moment are one: no more than what a clock tells apart are kept.
        match self.writes.back_mut().filter(|last| last.time_ns == write.time_ns) {
            Some(last) => last.bytes += write.bytes,
            None => self.writes.push_back(write),
        }
        self.bytes += write.bytes;
        self.most_bytes = self.most_bytes.max(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(each: &[(u64, u64)]) -> Vec<TimedWrite> {
        each.iter().map(|&(time_ms, bytes)| TimedWrite { time_ns: time_ms * 1_000_000, bytes }).collect()
    }

    fn sizes(writes: &[TimedWrite], home_bytes_per_s: f64, atomic_sectors: bool) -> Sizes {
        let last_ns = writes.iter().map(|write| write.time_ns).max().unwrap_or(0);
        let drives = Drives { home_bytes_per_s, atomic_sectors, is_ring: false };
        Sizes::of(writes.iter().copied(), last_ns, drives)
    }

    fn busiest_second(writes: &[TimedWrite]) -> u64 {
        sizes(writes, 1.0, true).busiest_second_bytes
    }

    #[test]
    fn the_busiest_second_may_begin_at_any_time() {
        assert_eq!(busiest_second(&writes(&[(0, 1), (900, 10), (1800, 10), (1950, 3), (3000, 9)])), 20);
        assert_eq!(busiest_second(&writes(&[(0, 1), (900, 10), (999, 10)])), 21);
        assert_eq!(busiest_second(&writes(&[(0, 5), (0, 6), (999, 1), (1000, 2)])), 12);
        assert_eq!(busiest_second(&[]), 0);
    }

    #[test]
    fn a_burst_waits_in_the_log_as_far_as_the_drives_do_not_take_it() {
        const MIB: u64 = 1 << 20;
        // 100 MiB at once, then 10 for each of ten seconds, on drives that take 20 a second.
        let later = (1..=10).map(|s| (s * 1000, 10 * MIB));
        let burst: Vec<(u64, u64)> = [(0, 100 * MIB)].into_iter().chain(later).collect();
        let of = |atomic_sectors| sizes(&writes(&burst), 20.0 * MIB as f64, atomic_sectors);
        assert_eq!((of(true).backlog_max_bytes, of(true).grows_without_end), (100 * MIB, false));
        assert_eq!([of(true), of(false)].map(|it| it.log_bytes), [Some(140 * MIB), Some(300 * MIB)]);
        assert_eq!(sizes(&writes(&[(0, 10)]), 20.0, true).log_bytes, Some(LOG_MIN_BYTES));
        let ring = Drives { home_bytes_per_s: 20.0, atomic_sectors: true, is_ring: true };
        assert_eq!(Sizes::of(writes(&burst), 10_000_000_000, ring).log_bytes, None);
    }

    #[test]
    fn a_load_beyond_the_drives_fills_any_log() {
        let steady: Vec<(u64, u64)> = (0..100).map(|s| (s * 1000, 50)).collect();
        assert!(sizes(&writes(&steady), 20.0, true).grows_without_end);
        assert!(!sizes(&writes(&steady), 60.0, true).grows_without_end);
        // Clocks that go back count as standing.
        let back = sizes(&writes(&[(5000, 10), (0, 10), (5000, 10)]), 1.0, true);
        assert_eq!((back.backlog_max_bytes, back.busiest_second_bytes), (30, 30));
    }
}
