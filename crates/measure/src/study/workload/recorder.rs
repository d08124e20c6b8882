//! What threads of a workload count: operations in windows of time, and their latencies by kind.
//!
//! Threads share a recorder for each processor: one of their own for a hundred threads would take more memory than the
//! workload is bounded to, one for all would be a place to wait. The time of an operation is taken before it is recorded.

use std::sync::{Mutex, PoisonError};

use hdrhistogram::Histogram;

use super::operation::{KINDS, Operation};

/// What is slower than an hour counts as an hour.
const TIME_MAX_NS: u64 = 3_600_000_000_000;

/// One processor's share.
#[derive(Debug)]
pub struct Recorder {
    inner: Mutex<Counts>,
    interval_ns: u64,
}

/// What was counted.
#[derive(Debug)]
pub struct Counts {
    /// Operations that ended in each window.
    pub windows: Vec<u64>,
    /// Of each kind that there was, its latencies in nanoseconds; in the order of [`Operation::ALL`].
    pub latencies: [Option<Histogram<u64>>; KINDS],
    /// Sums of latencies, exact.
    pub sums_ns: [u128; KINDS],
    /// The longest, exact.
    pub longest_ns: [u64; KINDS],
}

impl Counts {
    /// None yet, in so many windows.
    pub fn new(windows: usize) -> Self {
        Self {
            windows: vec![0; windows],
            latencies: [const { None }; KINDS],
            sums_ns: [0; KINDS],
            longest_ns: [0; KINDS],
        }
    }

    /// One operation that took so long; its window is counted elsewhere.
    pub fn add(&mut self, operation: Operation, took_ns: u64) {
        let kind = operation as usize;
        let histogram = self.latencies[kind].get_or_insert_with(histogram);
        histogram.saturating_record(took_ns.max(1));
        self.sums_ns[kind] += u128::from(took_ns);
        self.longest_ns[kind] = self.longest_ns[kind].max(took_ns);
    }

    fn merge(&mut self, other: &Self) {
        for (all, more) in self.windows.iter_mut().zip(&other.windows) {
            *all += more;
        }
        for kind in 0..KINDS {
            if let Some(more) = &other.latencies[kind] {
                let all = self.latencies[kind].get_or_insert_with(histogram);
                all.add(more).expect("both have the same bounds");
            }
            self.sums_ns[kind] += other.sums_ns[kind];
            self.longest_ns[kind] = self.longest_ns[kind].max(other.longest_ns[kind]);
        }
    }
}

/// For times of up to an hour, to three significant digits.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, TIME_MAX_NS, 3).expect("the bounds are constants")
}

impl Recorder {
    /// With windows of so long, so many of them.
    pub fn new(interval_ns: u64, windows: usize) -> Self {
        Self { inner: Mutex::new(Counts::new(windows)), interval_ns: interval_ns.max(1) }
    }

    /// An operation that ended `at_ns` after the start, before the last window's end.
    #[inline]
    pub fn record(&self, operation: Operation, at_ns: u64, took_ns: u64) {
        let mut counts = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let last = counts.windows.len() - 1;
        let window = ((at_ns / self.interval_ns) as usize).min(last);
        counts.windows[window] += 1;
        counts.add(operation, took_ns);
    }

    /// What all of them counted together.
    pub fn sum(recorders: Vec<Self>) -> Option<Counts> {
        let mut all =
            recorders.into_iter().map(|one| one.inner.into_inner().unwrap_or_else(PoisonError::into_inner));
        let mut sum = all.next()?;
        all.for_each(|more| sum.merge(&more));
        Some(sum)
    }
}
