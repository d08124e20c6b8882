//! What streams got done, and what it says: throughput over windows, and the time in which nothing was done.

use hdrhistogram::Histogram;

use super::super::Series;

/// When requests were done, in a stretch of time.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Log {
    from_ns: u64,
    to_ns: u64,
    /// By stream, when each request was done, in order; nanoseconds since the beginning.
    done_ns: Vec<Vec<u64>>,
    /// By stream, the longest of its latencies.
    longest_ns: Vec<u64>,
    /// By stream, all of them.
    latencies_ns: Vec<Histogram<u64>>,
}

/// No latency, to within a hundredth.
fn no_latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 1 << 42, 2).expect("the bounds are sound")
}

impl Log {
    pub(super) fn new(from_ns: u64, to_ns: u64, streams: usize) -> Self {
        Self {
            from_ns,
            to_ns,
            done_ns: vec![Vec::new(); streams],
            longest_ns: vec![0; streams],
            latencies_ns: vec![no_latencies(); streams],
        }
    }

    pub(super) fn add(&mut self, stream: usize, begun_ns: u64, at_ns: u64) {
        self.done_ns[stream].push(at_ns - self.from_ns);
        let longest = &mut self.longest_ns[stream];
        *longest = (*longest).max(at_ns - begun_ns);
        self.latencies_ns[stream].saturating_record((at_ns - begun_ns).max(1));
    }

    /// As [`Self::add`], unless it was done before the stretch began or after its end.
    pub(super) fn add_later(&mut self, stream: usize, begun_ns: u64, at_ns: u64) {
        if (self.from_ns..=self.to_ns).contains(&at_ns) {
            self.add(stream, begun_ns, at_ns);
        }
    }

    /// The stretch ends here.
    pub(super) fn end_at(&mut self, to_ns: u64) {
        self.to_ns = to_ns;
    }

    /// How long the stretch is, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        (self.to_ns - self.from_ns) as f64 / 1e9
    }

    /// When the last request of a stream was done, in seconds since the beginning.
    pub(super) fn last_s(&self, stream: usize) -> f64 {
        self.done_ns[stream].last().map_or(0.0, |&at_ns| at_ns as f64 / 1e9)
    }

    /// What follows it at once.
    pub(super) fn append(&mut self, next: Self) {
        if self.done_ns.is_empty() {
            *self = next;
            return;
        }
        let since_ns = self.to_ns - self.from_ns;
        for (all, more) in self.done_ns.iter_mut().zip(next.done_ns) {
            all.extend(more.into_iter().map(|at_ns| since_ns + at_ns));
        }
        for (all, more) in self.longest_ns.iter_mut().zip(next.longest_ns) {
            *all = (*all).max(more);
        }
        for (all, more) in self.latencies_ns.iter_mut().zip(next.latencies_ns) {
            all.add(more).expect("histograms of one kind");
        }
        self.to_ns += next.to_ns - next.from_ns;
    }

    /// The longest latency of a stream, in seconds.
    pub(super) fn longest_s(&self, stream: usize) -> f64 {
        self.longest_ns[stream] as f64 / 1e9
    }

    /// The latency that this share of a stream's requests do not exceed, in seconds.
    pub(super) fn latency_s(&self, stream: usize, share: f64) -> f64 {
        match self.latencies_ns[stream].is_empty() {
            true => f64::NAN,
            false => self.latencies_ns[stream].value_at_quantile(share) as f64 / 1e9,
        }
    }

    /// How many requests of a stream were done.
    #[cfg(test)]
    pub(super) fn count(&self, stream: usize) -> u64 {
        self.done_ns[stream].len() as u64
    }

    /// Requests of a stream done a second between two times, in seconds since the beginning.
    pub(super) fn rate_between(&self, stream: usize, from_s: f64, to_s: f64) -> f64 {
        let within = |&&at_ns: &&u64| (from_s..to_s).contains(&(at_ns as f64 / 1e9));
        self.done_ns[stream].iter().filter(within).count() as f64 / (to_s - from_s)
    }

    /// When this share of a stream's requests were done, in seconds since the beginning.
    pub(super) fn share_done_s(&self, stream: usize, share: f64) -> f64 {
        let done = &self.done_ns[stream];
        let last = done.len().saturating_sub(1);
        done.get((share * last as f64) as usize).map_or(f64::NAN, |&at_ns| at_ns as f64 / 1e9)
    }

    /// Requests of some streams done a second, in each window of that length; what is left at the end is no window.
    pub(super) fn windows(&self, streams: &[usize], window_ns: u64) -> Vec<f64> {
        let mut counts = vec![0_u64; ((self.to_ns - self.from_ns) / window_ns) as usize];
        for at_ns in streams.iter().flat_map(|&stream| &self.done_ns[stream]) {
            // What is done at the end of a window belongs to it.
            if let Some(count) = counts.get_mut((at_ns.saturating_sub(1) / window_ns) as usize) {
                *count += 1;
            }
        }
        counts.into_iter().map(|count| count as f64 * 1e9 / window_ns as f64).collect()
    }

    /// The same in windows that begin at each step, and so overlap; the length is a multiple of the step.
    pub(super) fn sliding_windows(&self, streams: &[usize], window_ns: u64, step_ns: u64) -> Vec<f64> {
        let steps = self.windows(streams, step_ns);
        let length = (window_ns / step_ns) as usize;
        let mut all = 0.0;
        let mut windows = Vec::new();
        for (at, per_s) in steps.iter().enumerate() {
            all += per_s - if at < length { 0.0 } else { steps[at - length] };
            if at + 1 >= length {
                windows.push(all / length as f64);
            }
        }
        windows
    }

    /// The windows of some streams as a line over time, in seconds, each at its end.
    pub(super) fn line(&self, name: &str, streams: &[usize], window_ns: u64) -> Series {
        let window_s = window_ns as f64 / 1e9;
        let point = |(number, per_s): (usize, f64)| ((number + 1) as f64 * window_s, per_s);
        let points = self.windows(streams, window_ns).into_iter().enumerate().map(point).collect();
        Series { name: name.to_owned(), points }
    }

    /// From and to when nothing of some streams was done, where that is longer than `longer_ns`.
    fn gaps(&self, streams: &[usize], longer_ns: u64) -> impl Iterator<Item = (u64, u64)> {
        let mut all: Vec<u64> = streams.iter().flat_map(|&stream| &self.done_ns[stream]).copied().collect();
        all.extend([0, self.to_ns - self.from_ns]);
        all.sort_unstable();
        let pairs: Vec<_> = all.windows(2).map(|pair| (pair[0], pair[1])).collect();
        pairs.into_iter().filter(move |(from_ns, to_ns)| to_ns - from_ns > longer_ns)
    }

    /// The part of the time that lies in gaps longer than `longer_ns` between two completions of any of some streams.
    pub(super) fn blocked(&self, streams: &[usize], longer_ns: u64) -> f64 {
        let blocked_ns: u64 = self.gaps(streams, longer_ns).map(|(from_ns, to_ns)| to_ns - from_ns).sum();
        blocked_ns as f64 / (self.to_ns - self.from_ns) as f64
    }

    /// The same of each window, as points at the windows' ends, in seconds.
    pub(super) fn blocked_line(&self, streams: &[usize], longer_ns: u64, window_ns: u64) -> Vec<(f64, f64)> {
        let mut blocked_ns = vec![0; ((self.to_ns - self.from_ns) / window_ns) as usize];
        for (from_ns, to_ns) in self.gaps(streams, longer_ns) {
            for window in from_ns / window_ns..to_ns.div_ceil(window_ns).min(blocked_ns.len() as u64) {
                let (begin_ns, end_ns) = (window * window_ns, (window + 1) * window_ns);
                blocked_ns[window as usize] += to_ns.min(end_ns) - from_ns.max(begin_ns);
            }
        }
        let point = |(number, ns): (usize, u64)| {
            ((number + 1) as f64 * window_ns as f64 / 1e9, ns as f64 / window_ns as f64)
        };
        blocked_ns.into_iter().enumerate().map(point).collect()
    }
}

/// The value that a share of `quantile` of the values do not exceed; no number where there are none.
pub(super) fn quantile(values: &[f64], quantile: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get((quantile * last as f64).round() as usize).copied().unwrap_or(f64::NAN)
}

/// The mean; no number where there are none.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// How even values are: the least over the most of them, but for a twentieth at each end. 1 is a straight line, 0 says that
/// more than a twentieth are nothing.
pub(super) fn evenness(values: &[f64]) -> f64 {
    quantile(values, 0.05) / quantile(values, 0.95)
}

/// The distribution of values: of each the share that does not exceed it.
pub(super) fn distribution(name: &str, values: &[f64]) -> Series {
    const STEPS: u32 = 100;
    let point = |step| {
        let share = f64::from(step) / f64::from(STEPS);
        (quantile(values, share), share)
    };
    Series { name: name.to_owned(), points: (0..=STEPS).map(point).collect() }
}
