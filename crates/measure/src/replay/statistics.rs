//! What a replay counts: latencies, and throughput in windows of time.

use hdrhistogram::Histogram;

use evenkeel_trace::Op;

/// What is slower than an hour counts as an hour, in the percentiles.
const TIME_MAX_NS: u64 = 3_600_000_000_000;

/// Windows there are at most.
pub const WINDOWS_MAX: usize = 3600;

/// Times, in a high dynamic range histogram of three significant digits.
#[derive(Debug, Clone)]
pub struct Times {
    histogram: Histogram<u64>,
    sum_ns: u128,
    max_ns: u64,
}

impl Default for Times {
    fn default() -> Self {
        let histogram =
            Histogram::new_with_max(TIME_MAX_NS, 3).expect("the histogram's bounds are constants");
        Self { histogram, sum_ns: 0, max_ns: 0 }
    }
}

impl Times {
    /// One more.
    pub fn add(&mut self, time_ns: u64) {
        self.histogram.saturating_record(time_ns);
        self.sum_ns += u128::from(time_ns);
        self.max_ns = self.max_ns.max(time_ns);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Their mean in seconds, if there are any.
    pub fn mean_s(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum_ns as f64 / count as f64 * 1e-9)
    }

    /// The longest in seconds, if there are any.
    pub fn max_s(&self) -> Option<f64> {
        (self.count() > 0).then_some(self.max_ns as f64 * 1e-9)
    }

    /// The time in seconds within which the share `p` of them lies; `None` without 10 beyond it, which would be the
    /// luck of a few.
    pub fn percentile_s(&self, p: f64) -> Option<f64> {
        let enough = self.count() as f64 * (1.0 - p) >= 10.0 - 1e-6;
        // The histogram answers with the end of a bucket, which may lie beyond the longest time there was.
        enough.then(|| self.histogram.value_at_quantile(p).min(self.max_ns) as f64 * 1e-9)
    }
}

/// Requests of one kind.
#[derive(Debug, Clone, Default)]
pub struct Kind {
    /// Those that were carried out.
    pub requests: u64,
    /// Their bytes, as the trace has them.
    pub bytes: u64,
    /// Their bytes, as they were sent: whole granules of the target.
    pub sent_bytes: u64,
    /// From when each was due to its end.
    pub latency: Times,
    /// From when each was sent to its end.
    pub service: Times,
}

/// A stretch of time; what ended within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes read, as the trace has them.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Sum of the latencies of reads and writes.
    pub latency_sum_ns: u64,
    /// The longest of them.
    pub latency_max_ns: u64,
}

impl Window {
    fn add(&mut self, other: &Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.latency_sum_ns = self.latency_sum_ns.saturating_add(other.latency_sum_ns);
        self.latency_max_ns = self.latency_max_ns.max(other.latency_max_ns);
    }
}

/// Windows of one length, from the start of the replay on.
#[derive(Debug, Clone)]
pub struct Windows {
    length_ns: u64,
    windows: Vec<Window>,
}

impl Windows {
    /// None yet; the first is `length_ns` long.
    pub fn new(length_ns: u64) -> Self {
        Self { length_ns: length_ns.max(1), windows: Vec::new() }
    }

    /// Length of each.
    pub fn length_ns(&self) -> u64 {
        self.length_ns
    }

    /// All of them, without a gap.
    pub fn list(&self) -> &[Window] {
        &self.windows
    }

    /// A request that ended `at_ns` after the start. Where there would be more than [`WINDOWS_MAX`], pairs become one.
    pub fn add(&mut self, at_ns: u64, op: Op, bytes: u64, latency_ns: u64) {
        while at_ns / self.length_ns >= WINDOWS_MAX as u64 {
            self.length_ns = self.length_ns.saturating_mul(2);
            for at in 0..self.windows.len().div_ceil(2) {
                let mut both = self.windows[2 * at];
                if let Some(second) = self.windows.get(2 * at + 1) {
                    both.add(second);
                }
                self.windows[at] = both;
            }
            self.windows.truncate(self.windows.len().div_ceil(2));
        }
        let at = (at_ns / self.length_ns) as usize;
        if self.windows.len() <= at {
            self.windows.resize(at + 1, Window::default());
        }
        let mut one = Window { latency_sum_ns: latency_ns, latency_max_ns: latency_ns, ..Window::default() };
        match op {
            Op::Read => (one.reads, one.read_bytes) = (1, bytes),
            Op::Write => (one.writes, one.written_bytes) = (1, bytes),
            // It moves nothing: throughput is of the others.
            Op::Flush => return,
        }
        self.windows[at].add(&one);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_need_ten_samples_beyond_them() {
        let mut times = Times::default();
        assert_eq!((times.mean_s(), times.max_s(), times.percentile_s(0.5)), (None, None, None));
        (1..=1000).for_each(|time_us| times.add(time_us * 1000));
        assert!((times.percentile_s(0.99).unwrap() - 990e-6).abs() < 1e-6);
        assert_eq!(times.percentile_s(0.999), None);
        assert!((times.mean_s().unwrap() - 500.5e-6).abs() < 1e-12);
        assert_eq!(times.max_s(), Some(1000.0 * 1e-6));
    }

    #[test]
    fn windows_become_longer_rather_than_more_and_lose_nothing() {
        let mut windows = Windows::new(10);
        for at in 0..WINDOWS_MAX as u64 * 5 {
            windows.add(at * 10, Op::Read, 512, at);
            windows.add(at * 10 + 9, Op::Write, 1024, 1);
        }
        assert!(windows.list().len() <= WINDOWS_MAX);
        assert_eq!(windows.length_ns(), 80);
        let all = windows.list();
        let inner = &all[..all.len() - 1];
        assert!(inner.iter().all(|window| (window.reads, window.writes) == (8, 8)), "{:?}", &all[..3]);
        let sum = |of: fn(&Window) -> u64| all.iter().map(of).sum::<u64>();
        assert_eq!(sum(|window| window.reads), WINDOWS_MAX as u64 * 5);
        assert_eq!(sum(|window| window.written_bytes), WINDOWS_MAX as u64 * 5 * 1024);
        assert_eq!(all.iter().map(|window| window.latency_max_ns).max(), Some(WINDOWS_MAX as u64 * 5 - 1));
    }
}
