//! What the runs of one probe tell apart, at the level that its whole page shares.
//!
//! Each round holds every size, and every way of writing, once, in an order by chance. So two are compared by the pairs of
//! their runs in one round, with the signed-rank test: were they alike, a coin would have decided the sign of each
//! difference, however the machine drifts or remembers, and whatever the runs' distribution. Which one is best is seen in
//! the same runs; so a test is one of all the pairs that might have been looked at.

use super::curve::SIZES_MIN;
use super::report::{Point, RunData};
use super::settings::Settings;
use crate::stats;

/// The chance of any false statement on a page where nothing differs, or a goal is just met or just missed.
pub(crate) const PAGE_ERROR_RATE: f64 = 0.05;

/// The chance of any false verdict in all that is said.
pub const PAIRS_ERROR_RATE: f64 = 0.01;

/// The share of a page's that the curve over sizes has: its phases, and the parameters of its line.
const CURVE_ERROR_RATE: f64 = 0.01;

/// The share of that which each kind of statement of one of `probes` probes has: whether sizes differ, which a model is held
/// to as well; whether goals are met, or records durable sooner; whether ways of writing differ. Probes that are measured
/// together share it with their comparison.
pub(super) fn level_of_probe(settings: &Settings, probes: usize) -> f64 {
    let is_for_records = settings.records.is_some_and(|records| records.arrival_rate_per_s.is_some());
    let others = [settings.is_matrix(), settings.goals.are_any() || is_for_records];
    let kinds = 1 + others.into_iter().filter(|&is_there| is_there).count();
    let compared = if probes > 1 { PAIRS_ERROR_RATE } else { 0.0 };
    let curve = if settings.buffer_sizes.len() < SIZES_MIN { 0.0 } else { CURVE_ERROR_RATE };
    (PAGE_ERROR_RATE - compared - curve) / (kinds * probes.max(1)) as f64
}

/// The share that the curve of one of `probes` probes has.
pub(super) fn level_of_curve(probes: usize) -> f64 {
    CURVE_ERROR_RATE / probes.max(1) as f64
}

/// The pairs of the runs of one round each; repeats of disturbed runs belong to no round. Those with a disturbed run are left
/// out as long as most remain.
pub(super) fn rounds<'a>(one: &'a Point, other: &'a Point) -> Vec<(&'a RunData, &'a RunData)> {
    let sessions = one.run_data.iter().map(|run| run.session).collect::<std::collections::BTreeSet<u32>>();
    let of = |point: &'a Point, session: u32| {
        point.run_data.iter().filter(move |run| run.session == session && !run.repeat)
    };
    let all: Vec<(&RunData, &RunData)> =
        sessions.into_iter().flat_map(|session| of(one, session).zip(of(other, session))).collect();
    let is_clean = |(a, b): &&(&RunData, &RunData)| a.disturbance.is_none() && b.disturbance.is_none();
    let clean: Vec<_> = all.iter().filter(is_clean).copied().collect();
    if 2 * clean.len() > all.len() { clean } else { all }
}

/// The runs of every round that all of `points` have, one of each point. Those with a disturbed run are left out as long as
/// most remain.
pub(super) fn rounds_of_all(points: &[Point]) -> Vec<Vec<&RunData>> {
    let sessions: std::collections::BTreeSet<u32> =
        points.iter().flat_map(|point| &point.run_data).map(|run| run.session).collect();
    let mut all: Vec<Vec<&RunData>> = Vec::new();
    for session in sessions {
        let is_of_round = |run: &&RunData| run.session == session && !run.repeat;
        let runs: Vec<Vec<&RunData>> =
            points.iter().map(|point| point.run_data.iter().filter(is_of_round).collect()).collect();
        let common = runs.iter().map(Vec::len).min().unwrap_or(0);
        all.extend((0..common).map(|round| runs.iter().map(|of_point| of_point[round]).collect()));
    }
    let is_clean = |round: &&Vec<&RunData>| round.iter().all(|run| run.disturbance.is_none());
    let clean: Vec<_> = all.iter().filter(is_clean).cloned().collect();
    if 2 * clean.len() > all.len() { clean } else { all }
}

/// Of each point, whether its figure is shown to be lower than that of the point at `best`, where the runs of no two points
/// differ with a chance of at most `level`.
pub(super) fn shown_below(
    points: &[Point],
    best: usize,
    figure: impl Fn(&RunData) -> f64,
    level: f64,
) -> Vec<bool> {
    let pairs = points.len() * points.len().saturating_sub(1) / 2;
    let alpha = level / pairs.max(1) as f64;
    let is_below = |point: &Point| {
        let log = |(best, point): (&RunData, &RunData)| (figure(best) / figure(point)).ln();
        let differences: Vec<f64> =
            rounds(&points[best], point).into_iter().map(log).filter(|log| log.is_finite()).collect();
        let found = stats::signed_rank(&differences, alpha);
        found.and_then(|found| found.interval).is_some_and(|[low, _]| low > 0.0)
    };
    points.iter().enumerate().map(|(place, point)| place != best && is_below(point)).collect()
}

/// Runs below which nothing is said of where they lie.
const RUNS_MIN: usize = 7;

/// Where the figure of a typical run lies, by the runs that count.
pub(super) fn typical_interval(
    point: &Point,
    figure: impl Fn(&RunData) -> Option<f64>,
    alpha: f64,
) -> Option<[f64; 2]> {
    let mut counted: Vec<&RunData> = point.run_data.iter().filter(|run| run.counted).collect();
    counted.sort_by_key(|run| run.order);
    let logs: Vec<f64> = counted.into_iter().filter_map(figure).map(f64::ln).collect();
    stats::typical_interval(&logs, alpha).map(|ends| ends.map(f64::exp))
}

/// The least and the largest figure of the runs that count; `None` for fewer than seven, as [`typical_interval`] has none.
pub(super) fn ends(point: &Point, figure: impl Fn(&RunData) -> Option<f64>) -> Option<[f64; 2]> {
    let figures: Vec<f64> = point.run_data.iter().filter(|run| run.counted).filter_map(figure).collect();
    (figures.len() >= RUNS_MIN).then(|| {
        figures
            .iter()
            .fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], &it| [low.min(it), high.max(it)])
    })
}
