//! What reads had to wait, one by one and as time.

use hdrhistogram::Histogram;

/// Waits of reads.
#[derive(Debug)]
pub struct Reads {
    waits_ns: Histogram<u64>,
    /// When those began that took long, and when they ended, in the order of their ends.
    long: Vec<(u64, u64)>,
    long_ns: u64,
    began_ns: u64,
    /// The longest of those that ended in each window.
    longest_ns: Vec<u64>,
}

/// How long a window is.
pub const WINDOW_NS: u64 = 100_000_000;

impl Reads {
    /// None yet. A read that takes more than `long_ns` is blocked for what it takes beyond that. Windows begin at
    /// `began_ns`.
    pub fn new(long_ns: u64, began_ns: u64) -> Self {
        let waits_ns = Histogram::new_with_bounds(1, 1 << 42, 3).expect("the bounds are sound");
        Self { waits_ns, long: Vec::new(), long_ns, began_ns, longest_ns: Vec::new() }
    }

    /// A read began and ended.
    pub fn note(&mut self, began_ns: u64, ended_ns: u64) {
        let wait_ns = ended_ns.saturating_sub(began_ns);
        self.waits_ns.saturating_record(wait_ns.max(1));
        if wait_ns > self.long_ns {
            self.long.push((began_ns + self.long_ns, ended_ns));
        }
        let window = (ended_ns.saturating_sub(self.began_ns) / WINDOW_NS) as usize;
        if self.longest_ns.len() <= window {
            self.longest_ns.resize(window + 1, 0);
        }
        self.longest_ns[window] = self.longest_ns[window].max(wait_ns);
    }

    /// The longest read that ended in each window of [`WINDOW_NS`], in ns; 0 where none did.
    pub fn longest_ns(&self) -> &[u64] {
        &self.longest_ns
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.waits_ns.len()
    }

    /// The wait that this share of them do not exceed, in seconds.
    pub fn quantile_s(&self, share: f64) -> f64 {
        self.waits_ns.value_at_quantile(share) as f64 / 1e9
    }

    /// The longest wait, in seconds.
    pub fn longest_s(&self) -> f64 {
        self.waits_ns.max() as f64 / 1e9
    }

    /// The time in which some read was blocked.
    pub fn blocked_ns(&self) -> u64 {
        let mut spans = self.long.clone();
        spans.sort_unstable();
        let (mut blocked_ns, mut until_ns) = (0, 0);
        for (from_ns, to_ns) in spans {
            blocked_ns += to_ns.saturating_sub(from_ns.max(until_ns));
            until_ns = until_ns.max(to_ns);
        }
        blocked_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_as_blocked_once_however_many_reads_wait() {
        let mut reads = Reads::new(10, 0);
        for (began_ns, ended_ns) in [(0, 5), (100, 130), (105, 125), (120, 150), (300, 310)] {
            reads.note(began_ns, ended_ns);
        }
        // From 110 to 150.
        assert_eq!((reads.blocked_ns(), reads.count()), (40, 5));
    }

    #[test]
    fn each_window_has_the_longest_read_that_ended_in_it() {
        let mut reads = Reads::new(u64::MAX, 50);
        for (began_ns, ended_ns) in [(50, 60), (70, 75), (60, 50 + 3 * WINDOW_NS)] {
            reads.note(began_ns, ended_ns);
        }
        assert_eq!(reads.longest_ns(), [10, 0, 0, 3 * WINDOW_NS - 10]);
    }
}
