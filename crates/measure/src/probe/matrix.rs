//! Which method over which file state to use, and what the others cost.
//!
//! Each round holds every way of writing at every size once, in an order by chance. So two ways are compared by the pairs
//! of their runs in one round, over all sizes, by the signed-rank test: as exact as for places that are measured
//! together. The way with the least latency is chosen among all after looking at them, so each interval is widened for
//! all the pairs that might have been compared.

use evenkeel_host::method::FileState;

use super::apart::rounds;
use super::point_at;
use super::report::{Matrix, MatrixCell, MatrixEffect, MatrixSkip, Point, RunData};
use crate::report::format;
use crate::stats;

/// Where the combination with the least latency stands, by medians over runs and over all sizes. `None` where there is no
/// cell.
pub(super) fn main_cell(cells: &[MatrixCell]) -> Option<usize> {
    let sizes = common_sizes(cells);
    let latency = |cell: &MatrixCell| -> f64 {
        sizes.iter().filter_map(|&size| Some(median_latency(point_at(&cell.points, size)?).ln())).sum()
    };
    (0..cells.len()).min_by(|&a, &b| latency(&cells[a]).total_cmp(&latency(&cells[b])))
}

/// The matrix with its advice: which way to use, then what each other method and each other file state costs. Where no way
/// differs from another, any is said to with a chance of at most `level`.
pub(super) fn concluded(cells: &[MatrixCell], skipped: Vec<MatrixSkip>, level: f64) -> Matrix {
    let effects = main_cell(cells).map_or_else(Vec::new, |best| effects(cells, &cells[best], level));
    let advice = main_cell(cells).map_or_else(Vec::new, |best| advice(cells, &cells[best], &effects));
    Matrix { cells: cells.to_vec(), skipped, advice, effects }
}

fn is_neighbour(a: &MatrixCell, b: &MatrixCell) -> bool {
    (a.method == b.method) != (a.file_state == b.file_state)
}

fn effects(cells: &[MatrixCell], best: &MatrixCell, level: f64) -> Vec<MatrixEffect> {
    let pairs = cells
        .iter()
        .enumerate()
        .flat_map(|(at, a)| cells[..at].iter().filter(move |b| is_neighbour(a, b)))
        .count();
    let alpha = level / pairs.max(1) as f64;
    let sizes = common_sizes(cells);
    let others = cells.iter().filter(|cell| is_neighbour(cell, best));
    others
        .filter_map(|cell| {
            let differences: Vec<f64> = sizes
                .iter()
                .filter_map(|&size| Some((point_at(&best.points, size)?, point_at(&cell.points, size)?)))
                .flat_map(|(best, other)| differences(best, other))
                .collect();
            let found = stats::signed_rank(&differences, alpha)?;
            Some(MatrixEffect {
                method: cell.method,
                file_state: cell.file_state,
                latency_ratio: found.estimate.exp(),
                interval: found.interval.map(|ends| ends.map(f64::exp)),
            })
        })
        .collect()
}

/// The logarithms of the ratios of two points' latencies, a round each.
fn differences(best: &Point, other: &Point) -> Vec<f64> {
    let log = |(best, other): (&RunData, &RunData)| (other.latency_s / best.latency_s).ln();
    rounds(best, other).into_iter().map(log).filter(|log| log.is_finite()).collect()
}

fn advice(cells: &[MatrixCell], best: &MatrixCell, effects: &[MatrixEffect]) -> Vec<String> {
    let takes: Vec<String> = common_sizes(cells)
        .into_iter()
        .filter_map(|size| Some((size, point_at(&best.points, size)?)))
        .map(|(size, point)| format!("{} in {}", format::bytes(size), format::seconds(median_latency(point))))
        .collect();
    let headline = format!(
        "use {} over a file that is {}: it writes {}",
        best.method,
        best.file_state,
        takes.join(", ")
    );
    let of =
        |is_method: bool| effects.iter().filter(move |effect| (effect.method != best.method) == is_method);
    let methods = sentence("over such a file", of(true), |effect| effect.method.to_string());
    let states = sentence(&format!("with {}", best.method), of(false), |effect| {
        let article = if effect.file_state == FileState::Allocated { "an" } else { "a" };
        format!("{article} {} file", effect.file_state)
    });
    [Some(headline), methods, states].into_iter().flatten().collect()
}

fn sentence<'a>(
    where_: &str,
    effects: impl Iterator<Item = &'a MatrixEffect>,
    name: impl Fn(&MatrixEffect) -> String,
) -> Option<String> {
    let (mut apart, mut tied, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    for effect in effects {
        match effect.interval {
            Some([low, high]) if effect.is_shown() => apart.push(format!(
                "{} takes {:.2} times as long ({low:.2} to {high:.2})",
                name(effect),
                effect.latency_ratio
            )),
            Some(_) => tied.push(name(effect)),
            None => unknown.push(name(effect)),
        }
    }
    let named = |names: Vec<String>, what: &str| {
        (!names.is_empty()).then(|| format!("{} cannot be told apart from it{what}", names.join(", ")))
    };
    let parts: Vec<String> = (!apart.is_empty())
        .then(|| apart.join(", "))
        .into_iter()
        .chain(named(tied, ""))
        .chain(named(unknown, " by so few runs"))
        .collect();
    (!parts.is_empty()).then(|| format!("{where_}, {}", parts.join("; ")))
}

fn median_latency(point: &Point) -> f64 {
    super::recommend::typical(point).1
}

fn common_sizes(cells: &[MatrixCell]) -> Vec<u64> {
    let Some(first) = cells.first() else {
        return Vec::new();
    };
    let everywhere = |size: &u64| cells.iter().all(|cell| point_at(&cell.points, *size).is_some());
    first.points.iter().map(|point| point.buffer_bytes).filter(everywhere).collect()
}
