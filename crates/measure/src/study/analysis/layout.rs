//! Where data sets lay on the device, and whether that goes with throughput: figure 4 of the paper.

use schemars::JsonSchema;
use serde::Serialize;

use super::groups::{Group, Groups};
use crate::stats;

/// Where the data sets of the runs of one configuration under one workload lay.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Layout {
    /// The workload.
    pub workload: String,
    /// The configuration.
    pub configuration: String,
    /// Its file system.
    pub file_system: String,
    /// Each run.
    pub runs: Vec<Placed>,
    /// How far apart the middles of the data sets lie at most, over the whole stretch that any takes: 0 where every run
    /// has the same layout.
    pub wandering: f64,
    /// Pearson's correlation of the middle with throughput; `null` where the middle does not move.
    pub correlation: Option<f64>,
    /// Its 95 % interval.
    pub correlation_ci95: Option<[f64; 2]>,
}

/// Where the data set of one run lay.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Placed {
    /// Which repeat.
    pub repeat: i64,
    /// Its throughput.
    pub operations_per_s: f64,
    /// The lowest place.
    pub first_bytes: u64,
    /// Of all bytes, a quarter lies below the first, half below the second and three quarters below the third.
    pub quartiles_bytes: [u64; 3],
    /// The end of the highest.
    pub end_bytes: u64,
}

/// A row for each group with at least two runs whose layout is known.
pub fn layouts(groups: &Groups<'_>) -> Vec<Layout> {
    groups.groups.iter().filter_map(|group| layout(groups, group)).collect()
}

fn layout(groups: &Groups<'_>, group: &Group<'_>) -> Option<Layout> {
    let runs: Vec<Placed> =
        group.runs.iter().zip(&group.rates).filter_map(|(run, &rate)| placed(run, rate)).collect();
    if runs.len() < 2 {
        return None;
    }
    let middles: Vec<f64> = runs.iter().map(|run| run.quartiles_bytes[1] as f64).collect();
    let rates: Vec<f64> = runs.iter().map(|run| run.operations_per_s).collect();
    let first = runs.iter().map(|run| run.first_bytes).min()? as f64;
    let end = runs.iter().map(|run| run.end_bytes).max()? as f64;
    let (low, high) = (stats::quantile(&middles, 0.0)?, stats::quantile(&middles, 1.0)?);
    let correlation = stats::pearson(&middles, &rates);
    Some(Layout {
        workload: groups.workloads[group.workload].clone(),
        configuration: groups.configuration(group).label.clone(),
        file_system: groups.file_system(group).to_owned(),
        wandering: if end > first { (high - low) / (end - first) } else { 0.0 },
        correlation: correlation.map(|found| found.coefficient),
        correlation_ci95: correlation.and_then(|found| found.ci95),
        runs,
    })
}

/// The place that half of the bytes of a run's data lie below; `None` where its layout is not known.
pub(super) fn middle(run: &crate::study::data::Run) -> Option<u64> {
    placed(run, 0.0).map(|placed| placed.quartiles_bytes[1])
}

fn placed(run: &crate::study::data::Run, operations_per_s: f64) -> Option<Placed> {
    let mut extents: Vec<(u64, u64)> =
        run.extents.iter().map(|extent| (extent.physical_bytes, extent.length_bytes)).collect();
    extents.sort_unstable();
    let end = |&(from, length): &(u64, u64)| from.saturating_add(length);
    let all: u128 = extents.iter().map(|&(_, length)| u128::from(length)).sum();
    let quartile = |quarter: u128| {
        let mut below = 0_u128;
        let holds = |&&(_, length): &&(u64, u64)| {
            below += u128::from(length);
            below * 4 >= all * quarter
        };
        extents.iter().find(holds).map(|&(from, _)| from)
    };
    Some(Placed {
        repeat: run.repeat,
        operations_per_s,
        first_bytes: extents.first()?.0,
        quartiles_bytes: [quartile(1)?, quartile(2)?, quartile(3)?],
        end_bytes: extents.iter().map(end).max()?,
    })
}
