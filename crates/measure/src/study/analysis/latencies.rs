//! How latencies are distributed (figure 8 of the paper), and how far the distributions of repeats lie apart.
//!
//! The range of the latency of an operation is the largest Kolmogorov-Smirnov distance between the distributions of any
//! two repeats.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::groups::{Group, Groups, relative_range};
use crate::stats::{self, Steps};
use crate::study::data::Run;

/// Points of a curve that is written down.
const POINTS_MAX: usize = 80;

/// Latency of one operation over the repeats of a configuration.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LatencyRange {
    /// The workload.
    pub workload: String,
    /// The configuration.
    pub configuration: String,
    /// Its file system.
    pub file_system: String,
    /// The operation.
    pub operation: String,
    /// Repeats that did it.
    pub runs: usize,
    /// Operations of all repeats.
    pub operations: u64,
    /// Mean over all repeats.
    pub mean_s: f64,
    /// Median of the repeats' medians.
    pub p50_s: Option<f64>,
    /// Median of the repeats' 99th percentiles.
    pub p99_s: Option<f64>,
    /// Median of the repeats' 99.9th percentiles.
    pub p999_s: Option<f64>,
    /// Largest distance between two repeats, from 0 to 1; `null` for one repeat.
    pub ks_range: Option<f64>,
}

/// Latency distributions of the configuration of a workload that varies most.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LatencyCurves {
    /// The workload.
    pub workload: String,
    /// The configuration.
    pub configuration: String,
    /// The repeat whose operations are shown: that of median throughput.
    pub repeat: i64,
    /// A curve for each of its operations.
    pub operations: Vec<Curve>,
    /// The operation whose repeats lie farthest apart.
    pub farthest_operation: String,
    /// A curve for each repeat of it.
    pub repeats: Vec<Curve>,
}

/// A cumulative distribution.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Curve {
    /// Of what.
    pub name: String,
    /// A latency in seconds, and the share of operations no longer.
    pub cdf: Vec<(f64, f64)>,
}

/// A row for each group and operation.
pub fn latency_ranges(groups: &Groups<'_>) -> Vec<LatencyRange> {
    groups.groups.iter().flat_map(|group| ranges(groups, group)).collect()
}

fn ranges(groups: &Groups<'_>, group: &Group<'_>) -> Vec<LatencyRange> {
    let row = |(operation, latencies): (&str, Vec<&crate::study::data::Latency>)| {
        let operations: u64 = latencies.iter().map(|latency| latency.operations).sum();
        let weighed: f64 = latencies.iter().map(|latency| latency.mean_s * latency.operations as f64).sum();
        let typical = |share: f64| {
            let of_runs: Vec<f64> =
                latencies.iter().filter_map(|latency| latency.steps.quantile(share)).collect();
            stats::median(&of_runs)
        };
        let pairs = latencies.iter().enumerate();
        let distances = pairs.flat_map(|(at, one)| {
            latencies[..at].iter().filter_map(move |other| one.steps.distance(&other.steps))
        });
        LatencyRange {
            workload: groups.workloads[group.workload].clone(),
            configuration: groups.configuration(group).label.clone(),
            file_system: groups.file_system(group).to_owned(),
            operation: operation.to_owned(),
            runs: latencies.len(),
            operations,
            mean_s: if operations > 0 { weighed / operations as f64 } else { 0.0 },
            p50_s: typical(0.5),
            p99_s: typical(0.99),
            p999_s: typical(0.999),
            ks_range: distances.reduce(f64::max),
        }
    };
    by_operation(group).into_iter().map(row).collect()
}

fn by_operation<'a>(group: &Group<'a>) -> BTreeMap<&'a str, Vec<&'a crate::study::data::Latency>> {
    let mut all: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for latency in group.runs.iter().flat_map(|run| &run.latencies) {
        if !latency.steps.is_empty() {
            all.entry(&latency.operation).or_default().push(latency);
        }
    }
    all
}

/// Curves for each workload.
pub fn latency_curves(groups: &Groups<'_>) -> Vec<LatencyCurves> {
    (0..groups.workloads.len()).filter_map(|workload| curves(groups, workload)).collect()
}

fn curves(groups: &Groups<'_>, workload: usize) -> Option<LatencyCurves> {
    let most = groups.file_systems.iter().filter_map(|name| groups.most_varying(workload, name));
    let range = |group: &&Group<'_>| relative_range(&group.rates).unwrap_or(0.0);
    let group = most.max_by(|one, other| range(one).total_cmp(&range(other)))?;
    let mut order: Vec<usize> = (0..group.runs.len()).collect();
    order.sort_by(|&one, &other| group.rates[one].total_cmp(&group.rates[other]));
    let run: &Run = group.runs[order[order.len() / 2]];
    let shown = run.latencies.iter().filter(|latency| !latency.steps.is_empty());
    let operations: Vec<Curve> =
        shown.map(|latency| curve(latency.operation.clone(), &latency.steps)).collect();
    let distance = |range: &LatencyRange| range.ks_range.unwrap_or(0.0);
    let farthest =
        ranges(groups, group).into_iter().max_by(|one, other| distance(one).total_cmp(&distance(other)))?;
    let of_run = |run: &&Run| {
        let latency = run.latencies.iter().find(|latency| latency.operation == farthest.operation)?;
        (!latency.steps.is_empty()).then(|| curve(format!("repeat {}", run.repeat), &latency.steps))
    };
    Some(LatencyCurves {
        workload: groups.workloads[workload].clone(),
        configuration: groups.configuration(group).label.clone(),
        repeat: run.repeat,
        operations,
        repeats: group.runs.iter().filter_map(of_run).collect(),
        farthest_operation: farthest.operation,
    })
}

/// The distribution at shares that lie evenly, and at those of a tail.
fn curve(name: String, steps: &Steps) -> Curve {
    let even = (0..=POINTS_MAX).map(|at| at as f64 / POINTS_MAX as f64);
    let shares = even.chain([0.99, 0.995, 0.999, 1.0]);
    let mut cdf: Vec<(f64, f64)> = shares.filter_map(|share| Some((steps.quantile(share)?, share))).collect();
    cdf.sort_by(|one, other| one.1.total_cmp(&other.1));
    cdf.dedup();
    Curve { name, cdf }
}
