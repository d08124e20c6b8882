//! Throughput over time as a series of windows of equal length.

use crate::study::data::{Run, Window};

/// Operations in each whole window of a run, from its begin on; a window that is missing had none.
///
/// Windows lie on a grid of `interval_s`. The last one of a run, cut short by its end, is left out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// Sums of operations up to each window; one more than there are windows.
    sums: Vec<f64>,
    interval_s: f64,
}

/// Places of the grid that a run may have beside its windows: what lies further is none that it reaches. So a file takes no more
/// memory than some hundred times its own size, whatever it says.
const PLACES: f64 = 4096.0;

/// And for each of its windows.
const PLACES_PER_WINDOW: f64 = 64.0;

impl Series {
    /// The windows of a run.
    pub fn of(run: &Run, interval_s: f64) -> Self {
        let whole = |window: &&Window| window.length_s > 0.99 * interval_s;
        let place = |window: &Window| (window.start_s / interval_s).round();
        let places_max = PLACES + PLACES_PER_WINDOW * run.windows.len() as f64;
        let mut sums = vec![0.0];
        let mut last = 0.0;
        for window in run.windows.iter().filter(whole) {
            let at = place(window);
            if !(at >= sums.len() as f64 - 1.0 && at < places_max) {
                // Twice the same window, or one that no run reaches.
                continue;
            }
            while (sums.len() as f64) <= at {
                sums.push(last);
            }
            last += window.operations as f64;
            sums.push(last);
        }
        Self { sums, interval_s }
    }

    /// How many windows there are.
    pub fn len(&self) -> usize {
        self.sums.len() - 1
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Throughput in the windows from `from` up to `to`, in operations per second.
    pub fn rate(&self, from: usize, to: usize) -> f64 {
        (self.sums[to] - self.sums[from]) / ((to - from) as f64 * self.interval_s)
    }

    /// Throughput in consecutive stretches of so many windows; what is left at the end is left out.
    pub fn rates(&self, windows: usize) -> impl Iterator<Item = f64> + '_ {
        (0..self.len() / windows.max(1)).map(move |at| self.rate(at * windows, (at + 1) * windows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(windows: &[(f64, f64, u64)]) -> Run {
        let window = |&(start_s, length_s, operations)| Window { start_s, length_s, operations };
        Run { windows: windows.iter().map(window).collect(), ..Run::default() }
    }

    #[test]
    fn windows_become_rates_and_a_cut_one_is_left_out() {
        let series = Series::of(&run(&[(0.0, 0.5, 5), (0.5, 0.5, 15), (1.0, 0.5, 10), (1.5, 0.2, 9)]), 0.5);
        assert_eq!(series.rates(1).collect::<Vec<_>>(), [10.0, 30.0, 20.0]);
        assert_eq!(series.rates(2).collect::<Vec<_>>(), [20.0]);
        assert_eq!(series.rate(0, 3), 20.0);
    }

    #[test]
    fn a_missing_window_had_no_operations_and_a_second_one_is_not_counted() {
        let series = Series::of(&run(&[(0.0, 1.0, 4), (2.0, 1.0, 6), (2.0, 1.0, 6), (1e300, 1.0, 1)]), 1.0);
        assert_eq!(series.rates(1).collect::<Vec<_>>(), [4.0, 0.0, 6.0]);
        assert!(Series::of(&run(&[]), 1.0).is_empty());
    }
}
