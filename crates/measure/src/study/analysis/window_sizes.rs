//! How the range of throughput depends on the window that is looked at: figure 6 of the paper.
//!
//! For a window of so many seconds there is one relative range for each stretch of that length and each configuration:
//! over its repeats.

use schemars::JsonSchema;
use serde::Serialize;

use super::groups::{Group, Groups, relative_range};
use super::series::Series;
use crate::stats::bootstrap::quantile_of_sorted;

/// Windows of a chart, from the shortest to the whole run.
const SIZES: usize = 5;
/// Points of a distribution that is written down.
const POINTS_MAX: usize = 60;

/// Relative ranges at one window size.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WindowRanges {
    /// The workload.
    pub workload: String,
    /// The file system.
    pub file_system: String,
    /// How long a window is.
    pub window_s: f64,
    /// How many ranges there are.
    pub ranges: usize,
    /// Half of them are no larger.
    pub median: f64,
    /// Nine in ten are no larger.
    pub p90: f64,
    /// Share of them above 20 %, the paper's yardstick.
    pub above_20_percent: f64,
    /// The distribution: a relative range, and the share of all that is no larger.
    pub cdf: Vec<(f64, f64)>,
}

/// A row for each workload, file system and window size.
pub fn window_ranges(groups: &Groups<'_>) -> Vec<WindowRanges> {
    let mut rows = Vec::new();
    for workload in 0..groups.workloads.len() {
        for name in &groups.file_systems {
            let several: Vec<&Group<'_>> =
                groups.of_file_system(workload, name).filter(|group| group.runs.len() > 1).collect();
            let interval_s = groups.study.interval_s;
            let series: Vec<Vec<Series>> = several
                .iter()
                .map(|group| group.runs.iter().map(|run| Series::of(run, interval_s)).collect())
                .collect();
            let longest = series.iter().filter_map(|of_group| common_length(of_group)).max().unwrap_or(0);
            for windows in sizes(longest) {
                let mut ranges: Vec<f64> = series.iter().flat_map(|runs| ranges(runs, windows)).collect();
                ranges.sort_by(f64::total_cmp);
                if !ranges.is_empty() {
                    let window_s = windows as f64 * interval_s;
                    rows.push(row(groups.workloads[workload].clone(), name.clone(), window_s, &ranges));
                }
            }
        }
    }
    rows
}

fn common_length(series: &[Series]) -> Option<usize> {
    series.iter().map(Series::len).min().filter(|&length| length > 0)
}

/// From one window to all, in steps of about the same factor; each divides the run into whole windows or nearly so.
fn sizes(longest: usize) -> Vec<usize> {
    if longest == 0 {
        return Vec::new();
    }
    let step = (longest as f64).powf(1.0 / (SIZES - 1) as f64);
    let mut sizes: Vec<usize> =
        (0..SIZES as i32).map(|at| (step.powi(at).round() as usize).clamp(1, longest)).collect();
    sizes.dedup();
    sizes
}

fn ranges(runs: &[Series], windows: usize) -> Vec<f64> {
    let length = common_length(runs).unwrap_or(0);
    let range = |at: usize| {
        let rates: Vec<f64> =
            runs.iter().map(|series| series.rate(at * windows, (at + 1) * windows)).collect();
        // Where no run did anything there is nothing to compare.
        relative_range(&rates).filter(|_| rates.iter().any(|&rate| rate > 0.0))
    };
    (0..length / windows).filter_map(range).collect()
}

fn row(workload: String, file_system: String, window_s: f64, sorted: &[f64]) -> WindowRanges {
    let above = sorted.len() - sorted.partition_point(|&range| range <= 0.2);
    let points = sorted.len().min(POINTS_MAX);
    let point = |at: usize| {
        let place = at * sorted.len() / points;
        (sorted[place.saturating_sub(1)], place as f64 / sorted.len() as f64)
    };
    WindowRanges {
        workload,
        file_system,
        window_s,
        ranges: sorted.len(),
        median: quantile_of_sorted(sorted, 0.5),
        p90: quantile_of_sorted(sorted, 0.9),
        above_20_percent: above as f64 / sorted.len() as f64,
        cdf: std::iter::once((sorted[0], 0.0)).chain((1..=points).map(point)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_sizes_reach_from_one_to_all() {
        assert_eq!(sizes(80), [1, 3, 9, 27, 80]);
        assert_eq!(sizes(3), [1, 2, 3]);
        assert_eq!(sizes(1), [1]);
        assert!(sizes(0).is_empty());
    }

    #[test]
    fn a_distribution_ends_at_all_of_it() {
        let sorted: Vec<f64> = (0..1000).map(|at| f64::from(at) / 1000.0).collect();
        let row = row(String::new(), String::new(), 1.0, &sorted);
        assert_eq!(row.cdf.len(), POINTS_MAX + 1);
        assert_eq!(row.cdf.last(), Some(&(0.999, 1.0)));
        assert!((row.above_20_percent - 0.799).abs() < 1e-9);
    }
}
