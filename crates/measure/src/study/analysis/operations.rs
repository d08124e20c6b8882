//! Whether the latency of an operation goes with throughput (figure 9 of the paper), in two ways:
//!
//! 1. Over configurations, the range of its latency with the range of throughput, as the paper has it. Few configurations
//!    show only what is nearly a line.
//! 2. Over repeats, a run in which the operation takes longer than in the repeats of that run with a lower throughput. Each
//!    run is compared with its own repeats, by aligned ranks: what configurations differ by does not count. Latencies that
//!    drift or remember are compared between neighbouring runs, as [`conditions`](super::conditions) are.
//!
//! Both share the level that operations have on a page.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::conditions::comes_in_any_order;
use super::drift;
use super::groups::{Group, Groups, relative_range};
use super::latencies::LatencyRange;
use crate::stats;

/// A coefficient from which on the paper calls a correlation strong.
pub const STRONG: f64 = 0.7;
/// Repeats that go together less than this are not worth a word, however surely.
const WORTH_A_WORD: f64 = 0.3;

/// Whether the range of an operation's latency goes with the range of throughput, over configurations.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OperationCorrelation {
    /// The workload.
    pub workload: String,
    /// The file system.
    pub file_system: String,
    /// The operation.
    pub operation: String,
    /// Configurations that were compared.
    pub configurations: usize,
    /// Pearson's coefficient.
    pub coefficient: f64,
    /// Its 95 % interval, for itself; it reaches 0 unless the operation is found. `null` for fewer than four configurations.
    pub ci95: Option<[f64; 2]>,
    /// The chance of as large a one without a connection, by rearranging configurations of as many runs; `null` where the
    /// coefficient is not strong.
    pub p: Option<f64>,
    /// Whether it is strong, and surer than chance over all operations of the page.
    pub found: bool,
}

/// Whether runs in which an operation takes longer than in their repeats are slower.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OperationBesideRepeats {
    /// The workload.
    pub workload: String,
    /// The file system.
    pub file_system: String,
    /// The operation.
    pub operation: String,
    /// Runs that did it.
    pub runs: usize,
    /// Latency and throughput of runs beside those of their repeats: from -1, where runs in which the operation takes longer
    /// are always slower, to 1.
    pub coefficient: f64,
    /// The chance of one as far below 0 without a connection, adjusted for all operations, workloads and file systems.
    pub p: f64,
    /// Whether that is below the level that it has on the page.
    pub found: bool,
}

/// Workload, file system and operation.
type Key<'a> = (&'a str, &'a str, &'a str);

/// The correlations, from the ranges that [`latency_ranges`](super::latencies::latency_ranges) found; strongest first within a
/// workload and file system. Found are those that `level`, the chance of anything false among them, allows.
pub fn operation_correlations(
    groups: &Groups<'_>,
    ranges: &[LatencyRange],
    level: f64,
) -> Vec<OperationCorrelation> {
    let pairs = ranges_of_configurations(groups, ranges);
    let level_of_each = level / pairs.len().max(1) as f64;
    let row = |((workload, file_system, operation), pairs): (Key<'_>, Pairs)| {
        let x: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
        let y: Vec<f64> = pairs.iter().map(|pair| pair.2).collect();
        let found = stats::pearson(&x, &y)?;
        // Both ranges grow with the number of runs: only configurations of as many can be rearranged.
        let is_strong = found.coefficient >= STRONG;
        let chance = || stats::permutation::correlation_chance(&pairs, level_of_each);
        let p = if is_strong { chance() } else { None };
        Some(OperationCorrelation {
            workload: workload.to_owned(),
            file_system: file_system.to_owned(),
            operation: operation.to_owned(),
            configurations: x.len(),
            coefficient: found.coefficient,
            ci95: found.ci95,
            p,
            found: false,
        })
    };
    let mut rows: Vec<OperationCorrelation> = pairs.into_iter().filter_map(row).collect();
    let chances: Vec<f64> = rows.iter().map(|row| row.p.unwrap_or(1.0)).collect();
    for (row, adjusted) in rows.iter_mut().zip(stats::holm(&chances)) {
        row.found = row.p.is_some() && adjusted <= level;
        if !row.found {
            row.ci95 = stats::reaching_0(row.ci95);
        }
    }
    // Stable: within a workload and a file system only.
    rows.sort_by(|one, other| {
        (&one.workload, &one.file_system)
            .cmp(&(&other.workload, &other.file_system))
            .then(other.coefficient.total_cmp(&one.coefficient))
    });
    rows
}

/// Runs beside their repeats, a row for each workload, file system and operation. Found are those that `level`, the chance of
/// anything false among them, allows.
pub fn beside_repeats(groups: &Groups<'_>, level: f64) -> Vec<OperationBesideRepeats> {
    let repeats = Repeats::of(groups);
    let level_of_each = level / repeats.of.len().max(1) as f64;
    let row = |(&(workload, file_system, operation), runs): (&Key<'_>, &Vec<OfRun>)| {
        let (coefficient, p_less) = repeats.judge(operation, runs, level_of_each)?;
        Some(OperationBesideRepeats {
            workload: workload.to_owned(),
            file_system: file_system.to_owned(),
            operation: operation.to_owned(),
            runs: runs.len(),
            coefficient,
            p: p_less,
            found: false,
        })
    };
    let mut rows: Vec<OperationBesideRepeats> = repeats.of.iter().filter_map(row).collect();
    let chances: Vec<f64> = rows.iter().map(|row| row.p).collect();
    for (row, adjusted) in rows.iter_mut().zip(stats::holm(&chances)) {
        row.p = adjusted;
        row.found = row.coefficient <= -WORTH_A_WORD && adjusted <= level;
    }
    rows
}

/// Of each configuration how many runs there are, the range of latency, and that of throughput.
type Pairs = Vec<(usize, f64, f64)>;

fn ranges_of_configurations<'a>(groups: &Groups<'_>, ranges: &'a [LatencyRange]) -> BTreeMap<Key<'a>, Pairs> {
    let mut throughput: BTreeMap<(&str, &str), (usize, f64)> = BTreeMap::new();
    for group in &groups.groups {
        if let Some(range) = relative_range(&group.rates).filter(|_| group.rates.len() > 1) {
            let key = (groups.workloads[group.workload].as_str(), groups.configuration(group).label.as_str());
            throughput.insert(key, (group.rates.len(), range));
        }
    }
    let mut pairs: BTreeMap<Key<'_>, Pairs> = BTreeMap::new();
    for range in ranges {
        let of_throughput = throughput.get(&(range.workload.as_str(), range.configuration.as_str()));
        if let (Some(distance), Some(&(runs, of_throughput))) = (range.ks_range, of_throughput) {
            let of_key = pairs.entry((&range.workload, &range.file_system, &range.operation)).or_default();
            of_key.push((runs, distance, of_throughput));
        }
    }
    pairs
}

/// An operation in one run.
struct OfRun {
    /// Machine, and place in the order.
    place: (Option<usize>, i64),
    /// Which configuration and workload.
    group: usize,
    /// The logarithm of its mean latency, and that less the median of its repeats.
    latency: f64,
    latency_beside_repeats: f64,
    /// The logarithm of throughput, with and without what the machine drifts by.
    log_rate: f64,
    without_drift: f64,
}

/// The operations of all runs, in their order.
struct Repeats<'a> {
    of: BTreeMap<Key<'a>, Vec<OfRun>>,
    /// Of each operation, whether its latency comes in any order.
    any_order: BTreeMap<&'a str, bool>,
}

impl<'a> Repeats<'a> {
    fn of(groups: &'a Groups<'_>) -> Self {
        let mut of: BTreeMap<Key<'a>, Vec<OfRun>> = BTreeMap::new();
        for (number, (group, logs)) in groups.groups.iter().zip(drift::logs_without(groups)).enumerate() {
            for (operation, runs) in of_group(number, group, &logs) {
                let workload = groups.workloads[group.workload].as_str();
                of.entry((workload, groups.file_system(group), operation)).or_default().extend(runs);
            }
        }
        of.values_mut().for_each(|runs| runs.sort_by_key(|run| run.place));
        let mut all: BTreeMap<&str, Vec<&OfRun>> = BTreeMap::new();
        for ((_, _, operation), runs) in &of {
            all.entry(operation).or_default().extend(runs);
        }
        let is_any_order = |(operation, mut runs): (&'a str, Vec<&OfRun>)| {
            runs.sort_by_key(|run| run.place);
            let beside: Vec<f64> = runs.iter().map(|run| run.latency_beside_repeats).collect();
            (operation, comes_in_any_order(&beside))
        };
        let any_order = all.into_iter().map(is_any_order).collect();
        Self { of, any_order }
    }

    /// The coefficient of an operation over `runs`, and the chance of one as far below 0; fine enough to be held to `level`.
    fn judge(&self, operation: &str, runs: &[OfRun], level: f64) -> Option<(f64, f64)> {
        let column = |of: fn(&OfRun) -> f64| runs.iter().map(of).collect::<Vec<f64>>();
        let strata: Vec<usize> = runs.iter().map(|run| run.group).collect();
        let latency = column(|run| run.latency);
        if self.any_order.get(operation) == Some(&true) {
            let rates = column(|run| run.without_drift);
            let found = stats::repeats::together(&strata, &latency, &rates, Some(level))?;
            return Some((found.coefficient, found.p_less));
        }
        let found = stats::neighbours::together(&strata, &latency, &column(|run| run.log_rate))?;
        let half = found.p_two_sided / 2.0;
        Some((found.coefficient, if found.coefficient < 0.0 { half } else { 1.0 - half }))
    }
}

/// Of each operation the runs of a group that did it.
fn of_group<'a>(number: usize, group: &Group<'a>, without_drift: &[f64]) -> BTreeMap<&'a str, Vec<OfRun>> {
    let mut all: BTreeMap<&str, Vec<OfRun>> = BTreeMap::new();
    for ((run, rate), without_drift) in group.runs.iter().zip(&group.rates).zip(without_drift) {
        for latency in &run.latencies {
            let one = OfRun {
                place: (run.machine, run.place),
                group: number,
                latency: latency.mean_s.ln(),
                latency_beside_repeats: 0.0,
                log_rate: rate.ln(),
                without_drift: *without_drift,
            };
            if one.latency.is_finite() && one.log_rate.is_finite() {
                all.entry(&latency.operation).or_default().push(one);
            }
        }
    }
    for runs in all.values_mut() {
        let latencies: Vec<f64> = runs.iter().map(|run| run.latency).collect();
        let typical = stats::median(&latencies).unwrap_or(0.0);
        runs.iter_mut().for_each(|run| run.latency_beside_repeats = run.latency - typical);
    }
    all
}
