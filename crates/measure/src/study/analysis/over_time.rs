//! Throughput over time: as bands over the repeats (figure 5 of the paper) and within one run (figure 7).

use schemars::JsonSchema;
use serde::Serialize;

use super::groups::{Group, Groups};
use super::series::Series;

/// Points along a band or a run; more cannot be told apart on a chart.
const POINTS_MAX: usize = 60;
const INSTANTS_MAX: usize = 160;

/// Throughput over time of the configuration of a file system that varies most under a workload.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Band {
    /// The workload.
    pub workload: String,
    /// The file system.
    pub file_system: String,
    /// The configuration.
    pub configuration: String,
    /// How long a window is.
    pub window_s: f64,
    /// Relative range of cumulative throughput, beside those of the windows.
    pub relative_range: Option<f64>,
    /// One for each window.
    pub points: Vec<BandPoint>,
}

/// What the repeats did in one window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct BandPoint {
    /// The end of the window.
    pub time_s: f64,
    /// The slowest repeat.
    pub least_operations_per_s: f64,
    /// Their mean.
    pub mean_operations_per_s: f64,
    /// The fastest repeat.
    pub most_operations_per_s: f64,
}

/// Instantaneous throughput of one run, the one of median throughput of the same configuration.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Instantaneous {
    /// The workload.
    pub workload: String,
    /// The file system.
    pub file_system: String,
    /// The configuration.
    pub configuration: String,
    /// Which repeat.
    pub repeat: i64,
    /// How long a window is.
    pub window_s: f64,
    /// Windows that a point stands for; its least and most are those of single windows, so no spike is lost.
    pub windows_of_a_point: usize,
    /// In order.
    pub points: Vec<InstantPoint>,
}

/// A stretch of a run, over the fastest window of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct InstantPoint {
    /// The middle of the stretch.
    pub time_s: f64,
    /// The slowest window in it.
    pub least: f64,
    /// All of it.
    pub mean: f64,
    /// The fastest window in it.
    pub most: f64,
}

/// Bands and runs, a configuration for each workload and file system.
pub fn over_time(groups: &Groups<'_>) -> (Vec<Band>, Vec<Instantaneous>) {
    let (mut bands, mut runs) = (Vec::new(), Vec::new());
    for workload in 0..groups.workloads.len() {
        for name in &groups.file_systems {
            let Some(group) = groups.most_varying(workload, name) else { continue };
            bands.extend(band(groups, group, None));
            runs.extend(instantaneous(groups, group));
        }
    }
    (bands, runs)
}

/// Bands over windows of a length, as nearly as the windows that were kept allow: none is shorter than those, or longer than
/// the run.
pub fn bands_of(groups: &Groups<'_>, window_s: f64) -> Vec<Band> {
    let windows = (window_s / groups.study.interval_s).round().max(1.0) as usize;
    let workloads = 0..groups.workloads.len();
    let each = workloads.flat_map(|workload| groups.file_systems.iter().map(move |name| (workload, name)));
    let group = |(workload, name): (usize, &String)| groups.most_varying(workload, name);
    each.filter_map(group).filter_map(|group| band(groups, group, Some(windows))).collect()
}

fn band(groups: &Groups<'_>, group: &Group<'_>, windows: Option<usize>) -> Option<Band> {
    let interval_s = groups.study.interval_s;
    let series: Vec<Series> = group.runs.iter().map(|run| Series::of(run, interval_s)).collect();
    let length = series.iter().map(Series::len).min().filter(|&length| length > 0)?;
    let windows = windows.map_or(length.div_ceil(POINTS_MAX), |windows| windows.min(length));
    let points = (0..length / windows).map(|at| {
        let rates: Vec<f64> =
            series.iter().map(|series| series.rate(at * windows, (at + 1) * windows)).collect();
        BandPoint {
            time_s: ((at + 1) * windows) as f64 * interval_s,
            least_operations_per_s: rates.iter().copied().fold(f64::INFINITY, f64::min),
            mean_operations_per_s: rates.iter().sum::<f64>() / rates.len() as f64,
            most_operations_per_s: rates.iter().copied().fold(0.0, f64::max),
        }
    });
    Some(Band {
        workload: groups.workloads[group.workload].clone(),
        file_system: groups.file_system(group).to_owned(),
        configuration: groups.configuration(group).label.clone(),
        window_s: windows as f64 * interval_s,
        relative_range: super::groups::relative_range(&group.rates),
        points: points.collect(),
    })
}

fn instantaneous(groups: &Groups<'_>, group: &Group<'_>) -> Option<Instantaneous> {
    let interval_s = groups.study.interval_s;
    let mut order: Vec<usize> = (0..group.runs.len()).collect();
    order.sort_by(|&one, &other| group.rates[one].total_cmp(&group.rates[other]));
    let run = group.runs[order[order.len() / 2]];
    let rates: Vec<f64> = Series::of(run, interval_s).rates(1).collect();
    let fastest = rates.iter().copied().fold(0.0, f64::max);
    if fastest <= 0.0 {
        return None;
    }
    let each = rates.len().div_ceil(INSTANTS_MAX);
    let points = rates.chunks(each).enumerate().map(|(at, windows)| InstantPoint {
        time_s: (at * each) as f64 * interval_s + windows.len() as f64 * interval_s / 2.0,
        least: windows.iter().copied().fold(f64::INFINITY, f64::min) / fastest,
        mean: windows.iter().sum::<f64>() / windows.len() as f64 / fastest,
        most: windows.iter().copied().fold(0.0, f64::max) / fastest,
    });
    Some(Instantaneous {
        workload: groups.workloads[group.workload].clone(),
        file_system: groups.file_system(group).to_owned(),
        configuration: groups.configuration(group).label.clone(),
        repeat: run.repeat,
        window_s: interval_s,
        windows_of_a_point: each,
        points: points.collect(),
    })
}
