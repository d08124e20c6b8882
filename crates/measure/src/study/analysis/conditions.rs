//! Whether what the machine was like goes with the throughput of runs, over all runs of a study.
//!
//! Each run stands for what it differs by from the median of its repeats, in throughput and in the condition: so what was
//! run does not count, only what else happened.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::groups::Groups;
use crate::stats;

/// Repeats of which a median can be told.
const REPEATS_MIN: usize = 3;

/// A condition and throughput.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ConditionCorrelation {
    /// Which condition.
    pub condition: String,
    /// Runs that it is known of.
    pub runs: usize,
    /// Spearman's coefficient.
    pub coefficient: f64,
    /// Its 95 % interval.
    pub ci95: Option<[f64; 2]>,
    /// Half of the runs had less of it.
    pub median: f64,
    /// The least of it.
    pub least: f64,
    /// The most of it.
    pub most: f64,
}

/// A condition over the runs.
#[derive(Default)]
struct Known {
    /// What each run differs by from its repeats, in the condition and in throughput.
    pairs: (Vec<f64>, Vec<f64>),
    /// The condition itself.
    values: Vec<f64>,
}

/// A row for each condition that varies, the strongest first.
pub fn condition_correlations(groups: &Groups<'_>) -> Vec<ConditionCorrelation> {
    let mut all: BTreeMap<&str, Known> = BTreeMap::new();
    for group in groups.groups.iter().filter(|group| group.runs.len() >= REPEATS_MIN) {
        let rate = stats::median(&group.rates).unwrap_or(f64::NAN);
        let mut values: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
        for (run, of_run) in group.runs.iter().zip(&group.rates) {
            for (name, value) in &run.conditions {
                values.entry(name).or_default().push((*value, (of_run / rate).ln()));
            }
        }
        for (name, of_group) in values {
            let values: Vec<f64> = of_group.iter().map(|(value, _)| *value).collect();
            let Some(median) = stats::median(&values) else { continue };
            let known = all.entry(name).or_default();
            for (value, residual) in of_group.iter().filter(|(_, residual)| residual.is_finite()) {
                known.pairs.0.push(value - median);
                known.pairs.1.push(*residual);
                known.values.push(*value);
            }
        }
    }
    let row = |(name, known): (&str, Known)| {
        let found = stats::spearman(&known.pairs.0, &known.pairs.1)?;
        Some(ConditionCorrelation {
            condition: name.to_owned(),
            runs: known.values.len(),
            coefficient: found.coefficient,
            ci95: found.ci95,
            median: stats::median(&known.values)?,
            least: stats::quantile(&known.values, 0.0)?,
            most: stats::quantile(&known.values, 1.0)?,
        })
    };
    let mut rows: Vec<ConditionCorrelation> = all.into_iter().filter_map(row).collect();
    rows.sort_by(|one, other| other.coefficient.abs().total_cmp(&one.coefficient.abs()));
    rows
}
