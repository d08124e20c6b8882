//! Whether what the machine was like, and where the data lay, goes with the throughput of runs, over all runs of a study.
//!
//! Each run stands for what it differs by from the median of its repeats, in throughput and in the condition: so what was
//! run does not count, only what else happened. Runs are compared with the one beside them in the order of execution: both
//! throughput and conditions drift over hours, and what drifts would otherwise go with everything else that does.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::groups::Groups;
use super::layout;
use crate::stats;
use crate::study::data::Run;

/// Repeats of which a median can be told.
const REPEATS_MIN: usize = 3;
/// A condition that goes with less than this is not worth a word, however surely.
const COEFFICIENT_MIN: f64 = 0.15;

/// The condition that says where a run's data lie: the place that half of their bytes lie below.
pub const DATA_PLACE: &str = "data_place_bytes";

/// A condition and throughput.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ConditionCorrelation {
    /// Which condition.
    pub condition: String,
    /// Runs that it is known of.
    pub runs: usize,
    /// Spearman's coefficient over all of them.
    pub coefficient: f64,
    /// Between neighbouring runs: from -1, where the one with more of it is always slower, to 1; `null` where too few
    /// neighbours differ.
    pub between_neighbours: Option<f64>,
    /// The chance of as much without a connection, adjusted for the number of conditions (Holm).
    pub p: Option<f64>,
    /// Whether that is below the level that conditions have on the page.
    pub found: bool,
    /// Runs with more of it than their repeats over those with less, in throughput: the medians of both.
    pub more_over_less: Option<f64>,
    /// Half of the runs had less of it.
    pub median: f64,
    /// The least of it.
    pub least: f64,
    /// The most of it.
    pub most: f64,
}

/// The conditions that say which part of the processors was not the study's.
const TAKEN_BY_OTHERS: [&str; 2] = ["foreign_cpu_share", "steal_share"];

/// How much of the processors others had.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TakenByOthers {
    /// The condition that says so.
    pub condition: String,
    /// Half of the runs had less of it.
    pub median: f64,
    /// The most of it.
    pub most: f64,
}

/// How much of the processors others had, over all runs that it is known of.
pub fn taken_by_others(groups: &Groups<'_>) -> Vec<TakenByOthers> {
    let of = |name: &str| {
        let runs = groups.groups.iter().flat_map(|group| &group.runs);
        let known = |run: &&'_ Run| run.conditions.iter().find(|(of, _)| of == name).map(|(_, share)| *share);
        let shares: Vec<f64> = runs.filter_map(known).collect();
        Some(TakenByOthers {
            condition: name.to_owned(),
            median: stats::median(&shares)?,
            most: stats::quantile(&shares, 1.0)?,
        })
    };
    TAKEN_BY_OTHERS.into_iter().filter_map(of).collect()
}

/// A condition over the runs.
#[derive(Default)]
struct Known {
    runs: Vec<OfRun>,
}

/// A condition and throughput of one run.
struct OfRun {
    /// Machine, and place in the order.
    place: (Option<usize>, i64),
    /// Which configuration and workload.
    group: usize,
    /// The condition, and the logarithm of throughput.
    value: f64,
    log_rate: f64,
    /// The medians of its repeats.
    typical: f64,
    typical_log_rate: f64,
}

/// A row for each condition that varies, the surest first; found are those that `level`, the chance of anything false among
/// them, allows.
pub fn condition_correlations(groups: &Groups<'_>, level: f64) -> Vec<ConditionCorrelation> {
    let mut all: BTreeMap<Cow<'_, str>, Known> = BTreeMap::new();
    for (number, group) in groups.groups.iter().enumerate() {
        let Some(rate) = stats::median(&group.rates).filter(|_| group.runs.len() >= REPEATS_MIN) else {
            continue;
        };
        let mut values: BTreeMap<Cow<'_, str>, Vec<(&Run, f64, f64)>> = BTreeMap::new();
        for (run, of_run) in group.runs.iter().zip(&group.rates) {
            for (name, value) in &run.conditions {
                values.entry(name.into()).or_default().push((run, *value, *of_run));
            }
            if let Some(place) = layout::middle(run) {
                values.entry(DATA_PLACE.into()).or_default().push((run, place as f64, *of_run));
            }
        }
        for (name, of_group) in values {
            let values: Vec<f64> = of_group.iter().map(|(_, value, _)| *value).collect();
            let Some(median) = stats::median(&values) else { continue };
            // Where it is the same in all repeats, it says nothing of what they differ by.
            if values.iter().all(|value| *value == values[0]) {
                continue;
            }
            let of_runs = of_group.iter().map(|(run, value, of_run)| OfRun {
                place: (run.machine, run.place),
                group: number,
                value: *value,
                log_rate: of_run.ln(),
                typical: median,
                typical_log_rate: rate.ln(),
            });
            let of_runs = of_runs.filter(|run| run.log_rate.is_finite() && run.typical_log_rate.is_finite());
            all.entry(name).or_default().runs.extend(of_runs);
        }
    }
    let mut rows: Vec<ConditionCorrelation> = all.into_iter().filter_map(row).collect();
    let chances: Vec<f64> = rows.iter().map(|row| row.p.unwrap_or(1.0)).collect();
    for (row, adjusted) in rows.iter_mut().zip(stats::holm(&chances)) {
        row.p = row.p.map(|_| adjusted);
        let enough = row.between_neighbours.is_some_and(|found| found.abs() >= COEFFICIENT_MIN);
        row.found = enough && adjusted <= level;
    }
    let surest = |row: &ConditionCorrelation| row.p.unwrap_or(f64::INFINITY);
    rows.sort_by(|one, other| {
        let strength = |row: &ConditionCorrelation| row.coefficient.abs();
        surest(one).total_cmp(&surest(other)).then(strength(other).total_cmp(&strength(one)))
    });
    rows
}

fn row((name, mut known): (Cow<'_, str>, Known)) -> Option<ConditionCorrelation> {
    known.runs.sort_by_key(|run| run.place);
    let column = |of: fn(&OfRun) -> f64| known.runs.iter().map(of).collect::<Vec<f64>>();
    let values = column(|run| run.value);
    let groups: Vec<usize> = known.runs.iter().map(|run| run.group).collect();
    let found = stats::neighbours::together(&groups, &values, &column(|run| run.log_rate));
    let (x, y) = (column(|run| run.value - run.typical), column(|run| run.log_rate - run.typical_log_rate));
    let typical = |is_in: fn(f64) -> bool| {
        let of_side = x.iter().zip(&y).filter(|(value, _)| is_in(**value)).map(|(_, residual)| *residual);
        stats::median(&of_side.collect::<Vec<f64>>())
    };
    let [more, less] = [typical(|value| value > 0.0), typical(|value| value < 0.0)];
    Some(ConditionCorrelation {
        condition: name.into_owned(),
        runs: values.len(),
        coefficient: stats::spearman(&x, &y)?.coefficient,
        between_neighbours: found.map(|found| found.coefficient),
        p: found.map(|found| found.p_two_sided),
        found: false,
        more_over_less: more.zip(less).map(|(more, less)| (more - less).exp()),
        median: stats::median(&values)?,
        least: stats::quantile(&values, 0.0)?,
        most: stats::quantile(&values, 1.0)?,
    })
}
