//! Runs that do not belong to the repeats beside them, with what the machine was like; and whether the order of
//! execution shows in the figures.

use schemars::JsonSchema;
use serde::Serialize;

use super::groups::{Group, Groups};
use crate::stats;
use crate::study::data::Run;

/// A condition is odd if it is so many deviations from the median of all runs of the workload (Iglewicz & Hoaglin 1993,
/// "How to Detect and Handle Outliers").
const ODD_DEVIATES: f64 = 3.5;
/// The deviation of a normal distribution over its median absolute deviation.
const NORMAL_OVER_MAD: f64 = 1.482_602_218_505_602;
/// Odd conditions named, the oddest first.
const CONDITIONS_MAX: usize = 4;

/// A run apart from its repeats.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Outlier {
    /// The workload.
    pub workload: String,
    /// The configuration.
    pub configuration: String,
    /// Which repeat.
    pub repeat: i64,
    /// Its place in the order of execution.
    pub place: i64,
    /// When it began.
    pub started_at: Option<String>,
    /// Its throughput.
    pub operations_per_s: f64,
    /// The median of all repeats.
    pub median_operations_per_s: f64,
    /// Conditions that were odd, the oddest first.
    pub odd_conditions: Vec<OddCondition>,
}

/// What the machine was like, unlike at other runs of the workload.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OddCondition {
    /// Which.
    pub name: String,
    /// During this run.
    pub value: f64,
    /// Median of all runs of the workload.
    pub median: f64,
}

/// Whether runs resemble the ones before them, once what was run is taken off.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Order {
    /// Runs compared.
    pub runs: usize,
    /// Correlation of neighbours, in ranks.
    pub of_neighbours: f64,
    /// The chance of one as far from zero, were the order without effect.
    pub p_two_sided: f64,
    /// Whether that is below the level that the order has on the page.
    pub found: bool,
}

/// The outliers of all groups: in normal noise, there is one with a chance of at most `level`.
pub fn outliers(groups: &Groups<'_>, level: f64) -> Vec<Outlier> {
    let mut found = Vec::new();
    let level = level / groups.groups.len().max(1) as f64;
    for group in &groups.groups {
        let logs: Vec<f64> = group.rates.iter().map(|rate| rate.ln()).collect();
        for at in stats::outliers(&logs, level) {
            let run = group.runs[at];
            found.push(Outlier {
                workload: groups.workloads[group.workload].clone(),
                configuration: groups.configuration(group).label.clone(),
                repeat: run.repeat,
                place: run.place,
                started_at: run.started_at.clone(),
                operations_per_s: group.rates[at],
                median_operations_per_s: stats::median(&group.rates).unwrap_or(f64::NAN),
                odd_conditions: odd_conditions(groups, group, run),
            });
        }
    }
    found
}

fn odd_conditions(groups: &Groups<'_>, group: &Group<'_>, run: &Run) -> Vec<OddCondition> {
    let alike: Vec<&Run> = groups
        .groups
        .iter()
        .filter(|other| other.workload == group.workload)
        .flat_map(|other| other.runs.iter().copied())
        .filter(|other| other.machine == run.machine)
        .collect();
    let judge = |(name, value): &(String, f64)| {
        let others: Vec<f64> = alike
            .iter()
            .filter_map(|run| run.conditions.iter().find(|(known, _)| known == name).map(|(_, value)| *value))
            .collect();
        let median = stats::median(&others)?;
        let distances: Vec<f64> = others.iter().map(|other| (other - median).abs()).collect();
        // Where more than half are the same, the mean distance instead, as Iglewicz & Hoaglin have it.
        let deviation = match stats::median(&distances)? * NORMAL_OVER_MAD {
            0.0 => distances.iter().sum::<f64>() / distances.len() as f64 * 1.253_314,
            deviation => deviation,
        };
        let deviates = (value - median).abs() / deviation;
        (deviates > ODD_DEVIATES)
            .then(|| (deviates, OddCondition { name: name.clone(), value: *value, median }))
    };
    let mut odd: Vec<(f64, OddCondition)> = run.conditions.iter().filter_map(judge).collect();
    odd.sort_by(|one, other| other.0.total_cmp(&one.0));
    odd.into_iter().take(CONDITIONS_MAX).map(|(_, condition)| condition).collect()
}

/// Tests the order of execution, over all groups with several runs, machine by machine one after the other.
pub fn order(groups: &Groups<'_>, level: f64) -> Option<Order> {
    let mut residuals: Vec<(Option<usize>, i64, f64)> = Vec::new();
    for group in groups.groups.iter().filter(|group| group.rates.len() > 2) {
        let logs: Vec<f64> = group.rates.iter().map(|rate| rate.ln()).collect();
        let median = stats::median(&logs).unwrap_or(f64::NAN);
        let runs = group.runs.iter().zip(&logs);
        // Each in the deviation of its group, or the configuration that varies most would say it all.
        let spread = stats::rsd(&group.rates).unwrap_or(f64::NAN);
        residuals.extend(runs.map(|(run, log)| (run.machine, run.place, (log - median) / spread)));
    }
    residuals.retain(|(_, _, residual)| residual.is_finite());
    residuals.sort_by_key(|(machine, place, _)| (*machine, *place));
    let values: Vec<f64> = residuals.iter().map(|(_, _, residual)| *residual).collect();
    let found = stats::serial_correlation(&values)?;
    Some(Order {
        runs: values.len(),
        of_neighbours: found.of_neighbours,
        p_two_sided: found.p_two_sided,
        found: found.p_two_sided <= level,
    })
}
