//! How much cumulative throughput varies: figures 1 and 2 of the paper, with intervals, and how many runs it takes.

use schemars::JsonSchema;
use serde::Serialize;

use super::groups::{Groups, relative_range};
use crate::stats::{self, Repetitions};

/// Repeats of one workload on one configuration, as figures.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Variation {
    /// The workload.
    pub workload: String,
    /// The configuration, by its label.
    pub configuration: String,
    /// Its file system.
    pub file_system: String,
    /// Runs that are done.
    pub runs: usize,
    /// Their mean.
    pub mean_operations_per_s: f64,
    /// Their median.
    pub median_operations_per_s: f64,
    /// 95 % interval of the median by the bootstrap; `null` for fewer than five runs.
    pub median_ci95: Option<[f64; 2]>,
    /// That from order statistics; `null` for fewer than six runs.
    pub median_order_ci95: Option<[f64; 2]>,
    /// Relative standard deviation, a share; `null` for one run.
    pub rsd: Option<f64>,
    /// Its 95 % interval by the bootstrap; `null` for fewer than eight runs.
    pub rsd_ci95: Option<[f64; 2]>,
    /// Largest less smallest over mean, a share, as observed: a range has no sound bootstrap.
    pub relative_range: Option<f64>,
    /// Runs for a 95 % interval of the median within 1 %; `null` for fewer than six runs.
    pub runs_for_1_percent: Option<RunsNeeded>,
    /// Within 5 %.
    pub runs_for_5_percent: Option<RunsNeeded>,
}

/// How many runs it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunsNeeded {
    /// So many; `null` where the runs that there are do not tell, and for more than 10,000.
    pub runs: Option<u64>,
    /// Whether it is more than 10,000.
    pub more_than_10000: bool,
}

impl From<Repetitions> for RunsNeeded {
    fn from(found: Repetitions) -> Self {
        match found {
            Repetitions::Told(runs) => Self { runs: Some(runs), more_than_10000: false },
            Repetitions::Beyond => Self { runs: None, more_than_10000: true },
            Repetitions::CannotBeSaid => Self { runs: None, more_than_10000: false },
        }
    }
}

/// A row for each group, with intervals by the bootstrap or without.
pub fn variation(groups: &Groups<'_>, has_intervals: bool) -> Vec<Variation> {
    let row = |(number, group): (usize, &super::groups::Group<'_>)| {
        let rates = &group.rates;
        let seed = number as u64;
        Some(Variation {
            workload: groups.workloads[group.workload].clone(),
            configuration: groups.configuration(group).label.clone(),
            file_system: groups.file_system(group).to_owned(),
            runs: rates.len(),
            mean_operations_per_s: rates.iter().sum::<f64>() / rates.len() as f64,
            median_operations_per_s: stats::median(rates)?,
            median_ci95: has_intervals.then(|| stats::median_interval(rates, seed)).flatten(),
            median_order_ci95: stats::median_order_interval(rates),
            rsd: stats::rsd(rates),
            rsd_ci95: has_intervals.then(|| stats::rsd_interval(rates, seed)).flatten(),
            relative_range: relative_range(rates).filter(|_| rates.len() > 1),
            runs_for_1_percent: stats::repetitions(rates, 0.01).map(RunsNeeded::from),
            runs_for_5_percent: stats::repetitions(rates, 0.05).map(RunsNeeded::from),
        })
    };
    groups.groups.iter().enumerate().filter_map(row).collect()
}
