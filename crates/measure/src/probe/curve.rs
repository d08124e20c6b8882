//! What the runs show of the curve of latency over buffer size: its phases, and the parameters of l + x/B.
//!
//! 1. A phase is a range of measured sizes over which latency, or throughput, is shown to grow by less than half, or both to
//!    grow by more. Sizes of which the runs show none of these are in no phase.
//! 2. Parameters come with intervals, which are as much wider as the measured points lie off the line. Where the sizes do not
//!    show both, or the points lie too far off, there are none.
//! 3. Anything false is said with a chance of at most the level: half of it is for the phases, half for the parameters.
//!
//! Each round holds every size once, in an order by chance. So a contrast of the sizes of one round is as likely too high as
//! too low by any amount, if it changes its sign when the sizes are reversed. That is all that the signed-rank test asks for,
//! whatever the noise, and however the machine drifts.

use super::apart::{rounds, rounds_of_all};
use super::recommend::typical;
use super::report::{Model, PhaseRange, Phases, Point, ProbeReport, RunData};
use crate::fit::fit_model;
use crate::report::format;
use crate::stats;

/// What is constant grows by less than this factor, what grows by more.
pub(crate) const GROWTH_MAX: f64 = 1.5;

/// A phase in which something is constant reaches at least so many times its smallest size: what grows as the square root
/// of the size doubles meanwhile.
const SPAN_MIN: f64 = 4.0;

/// Measured points that lie off the line by more than this factor are of no line.
const RESIDUAL_MAX: f64 = 1.5;

/// An optimum that lies so many times beyond the measured sizes is not shown by them.
const BEYOND_SIZES: f64 = 8.0;

/// Fewer sizes make no curve.
pub(super) const SIZES_MIN: usize = 3;

/// Halvings of the interval in which the optimum is looked for.
const HALVINGS: u32 = 60;

/// The parameters and the phases that `points`, ascending, show at `level`.
pub(super) fn shown(points: &[Point], level: f64) -> (Option<Model>, Option<Phases>) {
    if points.len() < SIZES_MIN {
        return (None, None);
    }
    (model(points, level / 2.0), phases(points, level / 2.0))
}

/// Each bound is the end of a sequence of tests that stops at the first which shows nothing. So each sequence has a quarter of
/// the level, however many sizes it passes.
fn phases(points: &[Point], level: f64) -> Option<Phases> {
    let (first, last) = (points.first()?, points.last()?);
    // Tests of one side.
    let alpha = 2.0 * level / 4.0;
    let most = GROWTH_MAX.ln();
    let latency = |point: &&Point| growth(first, point, |run| run.latency_s, alpha);
    let throughput = |point: &&Point| growth(point, last, |run| run.throughput_bytes_per_s, alpha);
    let is_less = |[_, high]: [f64; 2]| high < most;
    let is_more = |[low, _]: [f64; 2]| low > most;
    let bytes = |point: &Point| point.buffer_bytes as f64;
    let (start, end) = (bytes(first), bytes(last));

    let flat_to =
        points.iter().skip(1).take_while(|point| latency(point).is_some_and(is_less)).last().map(bytes);
    let flat_from = points
        .iter()
        .rev()
        .skip(1)
        .take_while(|point| throughput(point).is_some_and(is_less))
        .last()
        .map(bytes);
    let both_from = points.iter().rev().take_while(|point| latency(point).is_some_and(is_more)).last();
    let both_to = points.iter().take_while(|point| throughput(point).is_some_and(is_more)).last();

    let range = |from_bytes: f64, to_bytes: f64| PhaseRange { from_bytes, to_bytes };
    let constant_latency = flat_to.filter(|&to| to >= SPAN_MIN * start).map(|to| range(start, to));
    let constant_throughput = flat_from.filter(|&from| SPAN_MIN * from <= end).map(|from| range(from, end));
    let both_grow = both_from
        .zip(both_to)
        .map(|(from, to)| range(bytes(from), bytes(to)))
        .filter(|range| range.from_bytes <= range.to_bytes);
    let middle_slope = match (&both_grow, &constant_latency, &constant_throughput) {
        (Some(range), _, _) => slope(points, range),
        (None, Some(_), None) => 0.0,
        (None, None, Some(_)) => 1.0,
        (None, Some(_), Some(_)) => 0.5,
        (None, None, None) => return None,
    };
    Some(Phases {
        constant_latency,
        both_grow,
        constant_throughput,
        middle_slope,
        growth_max: Some(GROWTH_MAX),
    })
}

/// The interval of the logarithm of the factor by which a figure grows from one size to the other.
fn growth(from: &Point, to: &Point, figure: fn(&RunData) -> f64, alpha: f64) -> Option<[f64; 2]> {
    let log = |(from, to): (&RunData, &RunData)| (figure(to) / figure(from)).ln();
    let logs: Vec<f64> = rounds(from, to).into_iter().map(log).collect();
    stats::signed_rank(&logs, alpha)?.interval
}

/// The slope of log latency over log size, by typical runs; of a single size, over its neighbours.
fn slope(points: &[Point], range: &PhaseRange) -> f64 {
    let at = |bytes: f64| points.iter().position(|point| point.buffer_bytes as f64 == bytes).unwrap_or(0);
    let (mut from, mut to) = (at(range.from_bytes), at(range.to_bytes));
    if from == to {
        (from, to) = (from.saturating_sub(1), (to + 1).min(points.len() - 1));
    }
    let (from, to) = (&points[from], &points[to]);
    let doublings = (to.buffer_bytes as f64 / from.buffer_bytes as f64).ln();
    ((typical(to).1 / typical(from).1).ln() / doublings).clamp(0.0, 1.0)
}

/// The line through typical runs.
pub(super) fn fitted(points: &[Point]) -> Option<Model> {
    let curve: Vec<(f64, f64)> =
        points.iter().map(|point| (point.buffer_bytes as f64, typical(point).1)).collect();
    fit_model(&curve)
}

/// l + x/B, where the sizes show both parameters; half of the level is for their product, half for the scale.
fn model(points: &[Point], level: f64) -> Option<Model> {
    let fitted = fitted(points)?;
    let line = |bytes: f64| fitted.fixed_latency_s + bytes / fitted.bandwidth_bytes_per_s;
    let off = |point: &Point| (typical(point).1 / line(point.buffer_bytes as f64)).ln().abs();
    let residual = points.iter().map(off).fold(0.0, f64::max).exp();
    if residual > RESIDUAL_MAX {
        return None;
    }
    let [low, high] = optimum(points, level / 2.0)?;

    // With a larger optimum, a run of any size tells of a larger l, and of a larger B.
    let mut runs: Vec<(&RunData, f64)> = points
        .iter()
        .flat_map(|point| point.run_data.iter().map(move |run| (run, point.buffer_bytes as f64)))
        .filter(|(run, _)| run.counted)
        .collect();
    runs.sort_by_key(|(run, _)| run.order);
    let fixed = |optimum: f64| {
        let logs: Vec<f64> =
            runs.iter().map(|(run, bytes)| run.latency_s.ln() - (bytes / optimum).ln_1p()).collect();
        stats::typical_interval(&logs, level / 2.0).map(|ends| ends.map(f64::exp))
    };
    let (least, most) = (fixed(low)?, fixed(high)?);
    let wider = |low: f64, high: f64, fitted: f64, factor: f64| {
        [(low / factor).min(fitted), (high * factor).max(fitted)]
    };
    Some(Model {
        fixed_latency_interval_s: Some(wider(least[0], most[1], fitted.fixed_latency_s, residual)),
        bandwidth_interval_bytes_per_s: Some(wider(
            low / least[1],
            high / most[0],
            fitted.bandwidth_bytes_per_s,
            residual,
        )),
        optimum_interval_bytes: Some(wider(low, high, fitted.optimum_bytes, residual * residual)),
        residual_max: Some(residual - 1.0),
        ..fitted
    })
}

/// The interval of l B: latency grows the less over the sizes, the larger it is. `None` where an end lies far beyond them.
fn optimum(points: &[Point], alpha: f64) -> Option<[f64; 2]> {
    let middle = (points.len() - 1) as f64 / 2.0;
    let contrast =
        |logs: &[f64]| logs.iter().enumerate().map(|(place, log)| (place as f64 - middle) * log).sum::<f64>();
    let growths: Vec<f64> = rounds_of_all(points)
        .into_iter()
        .map(|round| contrast(&round.into_iter().map(|run| run.latency_s.ln()).collect::<Vec<f64>>()))
        .collect();
    let [least, most] = stats::signed_rank(&growths, alpha)?.interval?;
    let expected = |log_optimum: f64| {
        let logs: Vec<f64> =
            points.iter().map(|point| (point.buffer_bytes as f64 / log_optimum.exp()).ln_1p()).collect();
        contrast(&logs)
    };
    let nearest = (points.first()?.buffer_bytes as f64 / BEYOND_SIZES).ln();
    let farthest = (points.last()?.buffer_bytes as f64 * BEYOND_SIZES).ln();
    if most >= expected(nearest) || least <= expected(farthest) {
        return None;
    }
    let solved = |growth: f64| {
        let (mut low, mut high) = (nearest, farthest);
        for _ in 0..HALVINGS {
            let half = f64::midpoint(low, high);
            if expected(half) > growth { low = half } else { high = half }
        }
        f64::midpoint(low, high).exp()
    };
    Some([solved(most), solved(least)])
}

/// What is said of the curve, and what the runs do not tell of it, in a sentence each. None for a matrix, and for so few
/// sizes that there is no curve.
#[must_use]
pub fn sentences(report: &ProbeReport) -> Vec<String> {
    if report.matrix.is_some() || report.points.len() < SIZES_MIN {
        return Vec::new();
    }
    let runs = report.points.iter().map(|point| point.runs).min().unwrap_or(0);
    let runs = format!("{} a size", format::counted(u64::from(runs), "run"));
    let unknown = |what: &str| format!("{what} cannot be said from {runs}.");
    let (model, phases) = (model_sentence(report), phases_sentence(report));
    if model.is_none() && phases.is_none() {
        return vec![unknown("The phases, and l and B of a line l + x/B,")];
    }
    vec![
        model.unwrap_or_else(|| unknown("l and B of a line l + x/B")),
        phases.unwrap_or_else(|| unknown("The phases")),
    ]
}

/// An interval in words.
pub(crate) fn between(ends: [f64; 2], name: fn(f64) -> String) -> String {
    let [low, high] = ends.map(name);
    if low == high { low } else { format!("{low} to {high}") }
}

fn model_sentence(report: &ProbeReport) -> Option<String> {
    let model = report.model.as_ref()?;
    let of_one = if report.writers > 1 { " of one writer" } else { "" };
    Some(format!(
        "Model: if a write{of_one} costs l plus its bytes at B, l is {}, B is {}, and the ratio peaks at {}; typical runs \
         lie within {} of that line.",
        between(model.fixed_latency_interval_s?, format::seconds),
        between(model.bandwidth_interval_bytes_per_s?, format::rate),
        between(model.optimum_interval_bytes?, format::bytes_f64),
        format::percent(model.residual_max?)
    ))
}

fn phases_sentence(report: &ProbeReport) -> Option<String> {
    let phases = shown_phases(report)?;
    let latency = phases
        .constant_latency
        .map(|range| format!("latency grows by less than half up to {}", format::bytes_f64(range.to_bytes)));
    let both = phases.both_grow.map(|range| match range.from_bytes < range.to_bytes {
        true => format!("both grow {}", between_sizes(&range)),
        false => format!("both grow at {}", format::bytes_f64(range.to_bytes)),
    });
    let throughput = phases.constant_throughput.map(|range| {
        format!("throughput grows by less than half from {} on", format::bytes_f64(range.from_bytes))
    });
    let parts: Vec<String> = [latency, both, throughput].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("Phases: {}.", parts.join("; ")))
}

fn between_sizes(range: &PhaseRange) -> String {
    format!("from {} to {}", format::bytes_f64(range.from_bytes), format::bytes_f64(range.to_bytes))
}

/// The phases, where they are tested: older documents hold what was fitted.
pub(crate) fn shown_phases(report: &ProbeReport) -> Option<&Phases> {
    report.phases.as_ref().filter(|phases| phases.growth_max.is_some())
}
