//! Whether what the machine was like, and where the data lay, goes with the throughput of runs, over all runs of a study.
//!
//! Each run stands for what it differs by from its repeats, in throughput and in the condition: so what was run does not
//! count, only what else happened.
//!
//! 1. A condition that comes in any order, as the place of data that each mkfs lays out anew, is judged over all repeats of a
//!    configuration under a workload. Whatever throughput does over time, such a condition follows none of it.
//! 2. A condition that drifts or remembers is judged between runs beside each other in the order of execution: what drifts
//!    would otherwise go with everything else that does.
//! 3. Where the data lie has a level of its own, most of it for data that are slower the farther up they lie: a disk's
//!    outer tracks come first. Where runs are slowed and never hastened, that is judged by the fastest of them, see
//!    [`edge`](stats::edge). All other conditions share another level.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::groups::Groups;
use super::{drift, layout};
use crate::stats;
use crate::study::data::Run;

/// Repeats of which a median can be told.
const REPEATS_MIN: usize = 3;
/// A condition that goes with less than this is not worth a word, however surely.
const COEFFICIENT_MIN: f64 = 0.15;
/// Nor is less than this, where the fastest runs tell more than all together.
const BY_EDGE_MIN: f64 = 0.05;

/// A condition passes for one that comes in any order unless its neighbours resemble each other more than chance has it at
/// this level.
const ANY_ORDER: f64 = 0.003;
/// Of the level of where the data lie, the part for data that are slower the farther up they lie.
const FARTHER_IS_SLOWER: f64 = 0.95;

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
    /// Between repeats, of a condition that comes in any order: from -1, where runs with more of it are slower, to 1. `null`
    /// for conditions that drift or remember, and for too few runs.
    pub between_repeats: Option<f64>,
    /// Between neighbouring runs, of a condition that drifts or remembers: from -1, where the one with more of it is always
    /// slower, to 1. `null` for others, and where too few neighbours differ.
    pub between_neighbours: Option<f64>,
    /// The chance of as much without a connection, adjusted for all that shares its level.
    pub p: Option<f64>,
    /// Whether that is below the level that it has on the page.
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

impl ConditionCorrelation {
    /// What it is judged by: from -1, where runs with more of it are slower, to 1.
    pub fn judged_by(&self) -> Option<f64> {
        self.between_repeats.or(self.between_neighbours)
    }
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
    /// The condition, and the logarithm of throughput, with and without what the machine drifts by.
    value: f64,
    log_rate: f64,
    without_drift: f64,
    /// The medians of its repeats.
    typical: f64,
    typical_log_rate: f64,
}

/// A run, the condition, and the logarithms of throughput with and without drift.
type Repeat<'a> = (&'a Run, f64, [f64; 2]);

/// A row for each condition that varies, the surest first. Found is what the levels allow: `placement` is the chance that
/// where the data lie is found though nothing follows it, `others` that for any of the other conditions.
pub fn condition_correlations(groups: &Groups<'_>, placement: f64, others: f64) -> Vec<ConditionCorrelation> {
    let mut all: BTreeMap<Cow<'_, str>, Known> = BTreeMap::new();
    for (number, (group, without_drift)) in groups.groups.iter().zip(drift::logs_without(groups)).enumerate()
    {
        let Some(rate) = stats::median(&group.rates).filter(|_| group.runs.len() >= REPEATS_MIN) else {
            continue;
        };
        let mut values: BTreeMap<Cow<'_, str>, Vec<Repeat<'_>>> = BTreeMap::new();
        for ((run, rate), without_drift) in group.runs.iter().zip(&group.rates).zip(without_drift) {
            let logs = [rate.ln(), without_drift];
            for (name, value) in &run.conditions {
                values.entry(name.into()).or_default().push((run, *value, logs));
            }
            if let Some(place) = layout::middle(run) {
                values.entry(DATA_PLACE.into()).or_default().push((run, place as f64, logs));
            }
        }
        for (name, of_group) in values {
            let values: Vec<f64> = of_group.iter().map(|(_, value, _)| *value).collect();
            let Some(median) = stats::median(&values) else { continue };
            // Where it is the same in all repeats, it says nothing of what they differ by.
            if values.iter().all(|value| *value == values[0]) {
                continue;
            }
            let of_runs = of_group.iter().map(|(run, value, [log_rate, without_drift])| OfRun {
                place: (run.machine, run.place),
                group: number,
                value: *value,
                log_rate: *log_rate,
                without_drift: *without_drift,
                typical: median,
                typical_log_rate: rate.ln(),
            });
            let of_runs = of_runs.filter(|run| run.log_rate.is_finite() && run.typical_log_rate.is_finite());
            all.entry(name).or_default().runs.extend(of_runs);
        }
    }
    let judged: Vec<Judged> = all.into_iter().filter_map(|known| row(known, placement)).collect();
    let least: Vec<f64> =
        judged.iter().map(|of| if of.by_edge { BY_EDGE_MIN } else { COEFFICIENT_MIN }).collect();
    let (mut rows, chances): (Vec<ConditionCorrelation>, Vec<[f64; 2]>) =
        judged.into_iter().map(|of| (of.row, of.chances)).unzip();
    let is_other = |row: &ConditionCorrelation| row.condition != DATA_PLACE;
    let two_sided = rows.iter().zip(&chances).filter(|(row, _)| is_other(row));
    let two_sided: Vec<f64> = two_sided.map(|(_, [less, more])| (2.0 * less.min(*more)).min(1.0)).collect();
    let mut adjusted = stats::holm(&two_sided).into_iter();
    for ((row, [less, more]), least) in rows.iter_mut().zip(chances).zip(least) {
        let (p, level) = match is_other(row) {
            true => (adjusted.next().unwrap_or(1.0), others),
            false => ((less / FARTHER_IS_SLOWER).min(more / (1.0 - FARTHER_IS_SLOWER)).min(1.0), placement),
        };
        row.p = row.p.map(|_| p);
        let enough = row.judged_by().is_some_and(|found| found.abs() >= least);
        row.found = enough && p <= level;
    }
    let surest = |row: &ConditionCorrelation| row.p.unwrap_or(f64::INFINITY);
    rows.sort_by(|one, other| {
        let strength = |row: &ConditionCorrelation| row.coefficient.abs();
        surest(one).total_cmp(&surest(other)).then(strength(other).total_cmp(&strength(one)))
    });
    rows
}

/// A condition, judged for itself.
struct Judged {
    row: ConditionCorrelation,
    /// The chances of a connection as far below zero, and as far above.
    chances: [f64; 2],
    /// Whether the first is that of the fastest runs.
    by_edge: bool,
}

/// A row; `placement` is the level of where the data lie.
fn row((name, mut known): (Cow<'_, str>, Known), placement: f64) -> Option<Judged> {
    known.runs.sort_by_key(|run| run.place);
    let column = |of: fn(&OfRun) -> f64| known.runs.iter().map(of).collect::<Vec<f64>>();
    let values = column(|run| run.value);
    let groups: Vec<usize> = known.runs.iter().map(|run| run.group).collect();
    let (x, y) = (column(|run| run.value - run.typical), column(|run| run.log_rate - run.typical_log_rate));
    // Of few runs it can hardly be seen that a condition drifts. Where data lie does not: mkfs makes each data set anew.
    let of_few = (name == DATA_PLACE).then_some(placement);
    let of_repeats = comes_in_any_order(&x)
        .then(|| stats::repeats::together(&groups, &values, &column(|run| run.without_drift), of_few))
        .flatten();
    let of_neighbours = match of_repeats {
        Some(_) => None,
        None => stats::neighbours::together(&groups, &values, &column(|run| run.log_rate)),
    };
    let by_edge = of_few.filter(|_| of_repeats.is_some()).and_then(|level| {
        let rates = [column(|run| run.log_rate), column(|run| run.without_drift)];
        stats::edge::lowers(&groups, &values, &rates, level)
    });
    let of_order = of_repeats.map(|found| [by_edge.unwrap_or(found.p_less), found.p_more]);
    let chances = of_order.or_else(|| {
        let found = of_neighbours?;
        let (near, far) = (found.p_two_sided / 2.0, 1.0 - found.p_two_sided / 2.0);
        Some(if found.coefficient < 0.0 { [near, far] } else { [far, near] })
    });
    let typical = |is_in: fn(f64) -> bool| {
        let of_side = x.iter().zip(&y).filter(|(value, _)| is_in(**value)).map(|(_, residual)| *residual);
        stats::median(&of_side.collect::<Vec<f64>>())
    };
    let [more, less] = [typical(|value| value > 0.0), typical(|value| value < 0.0)];
    let row = ConditionCorrelation {
        condition: name.into_owned(),
        runs: values.len(),
        coefficient: stats::spearman(&x, &y)?.coefficient,
        between_repeats: of_repeats.map(|found| found.coefficient),
        between_neighbours: of_neighbours.map(|found| found.coefficient),
        p: chances.map(|_| 1.0),
        found: false,
        more_over_less: more.zip(less).map(|(more, less)| (more - less).exp()),
        median: stats::median(&values)?,
        least: stats::quantile(&values, 0.0)?,
        most: stats::quantile(&values, 1.0)?,
    };
    Some(Judged { row, chances: chances.unwrap_or([1.0; 2]), by_edge: by_edge.is_some() })
}

/// Whether a condition, beside that of its repeats, seems to follow no order of execution.
pub(super) fn comes_in_any_order(values: &[f64]) -> bool {
    stats::serial_correlation(values)
        .is_some_and(|found| found.of_neighbours <= 0.0 || found.p_two_sided > 2.0 * ANY_ORDER)
}
