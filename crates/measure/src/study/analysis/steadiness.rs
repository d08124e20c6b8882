//! Whether runs are steady: warm-up and changes of level found in their throughput over time, and whether windows
//! resemble their neighbours.

use schemars::JsonSchema;
use serde::Serialize;

use super::groups::{Group, Groups};
use super::series::Series;
use crate::stats;

/// Stretches a run is looked at in; a change is told to a stretch.
const STRETCHES_MAX: usize = 300;
/// A window whose order is arbitrary passes as serially correlated so often.
const LEVEL: f64 = 0.05;

/// How steady the runs of a group are.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Steadiness {
    /// The workload.
    pub workload: String,
    /// The configuration.
    pub configuration: String,
    /// Its file system.
    pub file_system: String,
    /// Runs with enough windows to tell.
    pub runs: usize,
    /// Of them, runs that changed their level at least once.
    pub runs_that_change: usize,
    /// Of them, runs whose longest steady stretch begins in their first half, after another one: they warm up.
    pub runs_that_warm_up: usize,
    /// Of them, runs whose longest steady stretch begins in their second half.
    pub runs_never_steady: usize,
    /// Median time of the warm-up, of the runs that have one.
    pub warm_up_s: Option<f64>,
    /// Throughput during it over the one after it, median of those runs.
    pub warm_up_ratio: Option<f64>,
    /// Runs whose windows are serially correlated.
    pub runs_serially_correlated: usize,
    /// Median correlation of neighbouring windows, in ranks.
    pub of_neighbours: Option<f64>,
}

/// What one run does over time.
struct Shape {
    changes: usize,
    /// Where the longest stretch without a change begins, as a share of the run.
    steady_from: f64,
    steady_from_s: f64,
    ratio: f64,
    serial: Option<stats::Serial>,
}

/// A row for each group with a run that can be told of.
pub fn steadiness(groups: &Groups<'_>) -> Vec<Steadiness> {
    groups.groups.iter().filter_map(|group| of_group(groups, group)).collect()
}

fn of_group(groups: &Groups<'_>, group: &Group<'_>) -> Option<Steadiness> {
    let shapes: Vec<Shape> = group
        .runs
        .iter()
        .filter_map(|run| shape(&Series::of(run, groups.study.interval_s), groups))
        .collect();
    if shapes.is_empty() {
        return None;
    }
    let warm: Vec<&Shape> =
        shapes.iter().filter(|shape| shape.steady_from > 0.0 && shape.steady_from <= 0.5).collect();
    let median = |values: Vec<f64>| stats::median(&values);
    let serial = || shapes.iter().filter_map(|shape| shape.serial);
    Some(Steadiness {
        workload: groups.workloads[group.workload].clone(),
        configuration: groups.configuration(group).label.clone(),
        file_system: groups.file_system(group).to_owned(),
        runs: shapes.len(),
        runs_that_change: shapes.iter().filter(|shape| shape.changes > 0).count(),
        runs_that_warm_up: warm.len(),
        runs_never_steady: shapes.iter().filter(|shape| shape.steady_from > 0.5).count(),
        warm_up_s: median(warm.iter().map(|shape| shape.steady_from_s).collect()),
        warm_up_ratio: median(warm.iter().map(|shape| shape.ratio).collect()),
        runs_serially_correlated: serial()
            .filter(|serial| serial.of_neighbours > 0.0 && serial.p_two_sided / 2.0 < LEVEL)
            .count(),
        of_neighbours: median(serial().map(|serial| serial.of_neighbours).collect()),
    })
}

fn shape(series: &Series, groups: &Groups<'_>) -> Option<Shape> {
    let each = series.len().div_ceil(STRETCHES_MAX);
    let rates: Vec<f64> = if each == 0 { Vec::new() } else { series.rates(each).collect() };
    // The fewest in which a change can be told, see `change_points`.
    if rates.len() < 16 {
        return None;
    }
    let changes = stats::change_points(&rates);
    let ends: Vec<usize> = std::iter::once(0).chain(changes.iter().copied()).chain([rates.len()]).collect();
    let stretches = ends.windows(2).map(|ends| (ends[0], ends[1]));
    // Of equally long ones the first.
    let (from, to) = stretches.rev().max_by_key(|(from, to)| to - from)?;
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    Some(Shape {
        changes: changes.len(),
        steady_from: from as f64 / rates.len() as f64,
        steady_from_s: (from * each) as f64 * groups.study.interval_s,
        ratio: if from > 0 { mean(&rates[..from]) / mean(&rates[from..to]) } else { 1.0 },
        serial: stats::serial_correlation(&rates),
    })
}
