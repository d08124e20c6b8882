//! The buffer to use.
//!
//! With a fixed cost l per synchronous write and bandwidth B, latency is l + x/B and throughput
//! x / (l + x/B); their ratio x / (l + x/B)^2 is greatest at x = l B, where the throughput is B/2 and the
//! latency 2 l: half of the stack's top throughput at twice its least latency. A user with a goal of either
//! kind gets the buffer that meets it, one who tells of records the one that group commit needs, and a user without
//! either the best ratio.
//!
//! 1. Of sizes that cannot be told apart the smallest is chosen.
//! 2. A few slow runs, which make a mean, do not make the choice: where mean and median over runs lie apart, the median
//!    decides, and the words say so.
//! 3. "The smallest" and "the largest" are said only where no size beyond went unmeasured.

use super::group_commit;
use super::report::{Point, Recommendation, Rule, RunData};
use super::settings::{Goals, LatencyBound, Settings};
use crate::report::format;
use crate::stats;

/// Two sizes are told apart when a test says so at this level, corrected for the number of sizes compared.
const TIE_LEVEL: f64 = 0.05;

/// A size serves as well only where its figure is at least this share of the best one's: few runs that cannot tell sizes
/// apart must not advise one that is far off.
const AS_GOOD: f64 = 0.8;

/// Mean and median over runs lie apart from this share on.
const OUTLIERS_MOVE: f64 = 0.1;

/// Chooses among measured points; `None` where there are none. Sizes that were asked for and not measured are
/// `unmeasured`.
pub(super) fn recommend(points: &[Point], settings: &Settings, unmeasured: &[u64]) -> Option<Recommendation> {
    let ratio = |point: &Point| typical_ratio(point);
    let best = points.iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
    let Goals { min_throughput_bytes_per_s, max_latency_s, bound } = settings.goals;
    Some(match (min_throughput_bytes_per_s, max_latency_s) {
        (None, None) => by_records(points, settings).unwrap_or_else(|| best_ratio(points, best, settings)),
        (Some(rate), None) => min_throughput(points, rate, unmeasured),
        (None, Some(latency_s)) => max_latency(points, latency_s, bound, unmeasured),
        (Some(rate), Some(latency_s)) => both(points, rate, latency_s, bound, unmeasured),
    })
}

/// Throughput and latency of a typical run: medians over the runs that count, or the means where there are none.
pub(super) fn typical(point: &Point) -> (f64, f64) {
    let median = |figure: fn(&RunData) -> f64| {
        let runs = point.run_data.iter().filter(|run| run.counted);
        stats::median(&runs.map(figure).collect::<Vec<_>>())
    };
    (
        median(|run| run.throughput_bytes_per_s).unwrap_or(point.throughput_bytes_per_s.mean),
        median(|run| run.latency_s).unwrap_or(point.latency_s.mean),
    )
}

fn typical_ratio(point: &Point) -> f64 {
    let (throughput, latency_s) = typical(point);
    throughput / latency_s.max(1e-12)
}

/// Whether a few runs make the means something else than the typical run.
fn has_outliers(point: &Point) -> bool {
    let (throughput, latency_s) = typical(point);
    let apart = |mean: f64, median: f64| (mean / median - 1.0).abs() > OUTLIERS_MOVE;
    apart(point.throughput_bytes_per_s.mean, throughput) || apart(point.latency_s.mean, latency_s)
}

/// What a size's throughput is judged by.
fn throughput(point: &Point) -> f64 {
    if has_outliers(point) { typical(point).0 } else { point.throughput_bytes_per_s.mean }
}

fn by_records(points: &[Point], settings: &Settings) -> Option<Recommendation> {
    let records = settings.records.filter(|records| records.arrival_rate_per_s.is_some())?;
    let (point, also) = group_commit::choose(points, &records, settings.writers)?;
    let durable_s = group_commit::durable_s(point, &records, settings.writers)?;
    let reason = format!(
        "write {}; by group commit, what arrives during a write joins the next, and a record is durable {} after it \
         arrives, on average",
        at_a_time(point),
        format::seconds(durable_s)
    );
    Some(chosen(Some(point), also, Rule::GroupCommit, reason))
}

fn best_ratio(points: &[Point], best: &Point, settings: &Settings) -> Recommendation {
    let ratio = |run: &RunData| run.throughput_bytes_per_s / run.latency_s.max(1e-12);
    let share = |point: &Point| typical_ratio(point) / typical_ratio(best);
    let mut alike = tied_below(points, best, ratio, share);
    alike.push(best.buffer_bytes);
    alike.sort_unstable();
    let smallest = points.iter().find(|point| point.buffer_bytes == alike[0]).unwrap_or(best);
    alike.remove(0);
    let largest = points.last().is_some_and(|last| last.buffer_bytes == best.buffer_bytes);
    let mut reason = format!("write {}", at_a_time(smallest));
    if largest {
        reason.push_str("; the ratio still grows at the largest buffer measured, so measure larger ones");
    } else {
        reason.push_str("; larger buffers add more latency than throughput");
    }
    if !alike.is_empty() {
        let names: Vec<String> = alike.iter().map(|&size| format::bytes(size)).collect();
        reason.push_str(&format!("; {} cannot be told apart from it", names.join(" and ")));
    }
    if let Some(rate) = settings.records.and_then(|records| records.arrival_rate_per_s) {
        let rate = format::number(rate);
        reason.push_str(&format!("; no measured buffer keeps up with {rate} records/s"));
    }
    chosen(Some(smallest), alike, Rule::BestRatio, reason)
}

/// The neighbours of `best`, one after another on both sides, whose figure over runs cannot be told from the best one's
/// (Welch's test on logarithms, by Holm over all sizes) and whose typical figure is nearly as good, as `share` tells.
pub(super) fn tied_below(
    points: &[Point],
    best: &Point,
    figure: impl Fn(&RunData) -> f64,
    share: impl Fn(&Point) -> f64,
) -> Vec<u64> {
    let logs = |point: &Point| -> Vec<f64> {
        point.run_data.iter().filter(|run| run.counted).map(|run| figure(run).ln()).collect()
    };
    let of_best = logs(best);
    let p_values: Vec<f64> = points
        .iter()
        .map(|point| stats::welch(&logs(point), &of_best).map_or(1.0, |test| test.p_two_sided))
        .collect();
    let adjusted = stats::holm(&p_values);
    let is_tied = |place: &usize| adjusted[*place] >= TIE_LEVEL && share(&points[*place]) >= AS_GOOD;
    let centre = points.iter().position(|point| point.buffer_bytes == best.buffer_bytes).unwrap_or(0);
    let mut tied: Vec<usize> = (0..centre).rev().take_while(is_tied).collect();
    tied.extend((centre + 1..points.len()).take_while(is_tied));
    tied.into_iter().map(|place| points[place].buffer_bytes).collect()
}

/// Sizes that were not measured and may do better than the one chosen.
fn unmeasured_note(unmeasured: &[u64], is_better: impl Fn(u64) -> bool) -> String {
    let names: Vec<String> =
        unmeasured.iter().copied().filter(|&size| is_better(size)).map(format::bytes).collect();
    match names.as_slice() {
        [] => String::new(),
        names => format!(
            "; {} not measured for want of time, and may do so too: give more --time",
            names.join(" and ")
        ),
    }
}

fn min_throughput(points: &[Point], rate: f64, unmeasured: &[u64]) -> Recommendation {
    let wanted = format::rate(rate);
    match points.iter().find(|point| reaches(point, rate)) {
        Some(point) => {
            let note = unmeasured_note(unmeasured, |size| size < point.buffer_bytes);
            let which = if note.is_empty() { "the smallest buffer that reaches" } else { "it reaches" };
            let mut reason = format!("write {}: {which} {wanted}", at_a_time(point));
            let low = point.throughput_bytes_per_s.ci95.map(|[low, _]| low);
            if low.is_some_and(|low| low < rate) {
                reason.push_str("; only just: the interval reaches below it");
            }
            let high = |other: &Point| other.throughput_bytes_per_s.ci95.map(|[_, high]| high);
            let smaller = points.iter().filter(|other| other.buffer_bytes < point.buffer_bytes);
            let may: Vec<u64> = smaller
                .filter(|other| high(other).is_some_and(|high| high >= rate))
                .map(|other| other.buffer_bytes)
                .collect();
            reason.push_str(&may_note(&may));
            reason.push_str(&note);
            chosen(Some(point), Vec::new(), Rule::MinThroughput, reason)
        }
        None => {
            let nearest = nearest_by(points, throughput);
            let note = unmeasured_note(unmeasured, |_| true).replace(" too", "");
            let measured = if note.is_empty() { "" } else { "measured " };
            let reason =
                format!("no {measured}buffer reaches {wanted}; nearest is {}{note}", at_a_time(nearest));
            chosen(None, Vec::new(), Rule::MinThroughput, reason)
        }
    }
}

fn max_latency(points: &[Point], latency_s: f64, bound: LatencyBound, unmeasured: &[u64]) -> Recommendation {
    let wanted = format!("{} within {}", bound_name(bound), format::seconds(latency_s));
    match points.iter().rev().find(|point| keeps(point, latency_s, bound)) {
        Some(point) => {
            let unknown = points.iter().rev().take_while(|other| other.buffer_bytes > point.buffer_bytes);
            let all_known = unknown.into_iter().all(|other| latency(other, bound).is_some());
            let all_known = all_known && unmeasured.iter().all(|&size| size < point.buffer_bytes);
            let known = if all_known { "that keeps" } else { "known to keep" };
            let mut reason = format!("write {}: the largest buffer {known} {wanted}", at_a_time(point));
            let high = point.latency_s.ci95.map(|[_, high]| high);
            if bound == LatencyBound::Mean && high.is_some_and(|high| high > latency_s) {
                reason.push_str("; only just: the interval reaches above it");
            }
            let low = |other: &Point| other.latency_s.ci95.map(|[low, _]| low);
            let larger = points.iter().filter(|other| other.buffer_bytes > point.buffer_bytes);
            let may: Vec<u64> = larger
                .filter(|other| bound == LatencyBound::Mean && low(other).is_some_and(|low| low <= latency_s))
                .map(|other| other.buffer_bytes)
                .collect();
            reason.push_str(&may_note(&may));
            reason.push_str(&unmeasured_note(unmeasured, |size| size > point.buffer_bytes));
            reason.push_str(&unknown_note(points, bound));
            chosen(Some(point), Vec::new(), Rule::MaxLatency, reason)
        }
        None => {
            let nearest = nearest_by(points, |point| -latency(point, bound).unwrap_or(f64::INFINITY));
            let reason = format!(
                "no buffer keeps {wanted}; nearest is {}{}",
                at_a_time(nearest),
                unknown_note(points, bound)
            );
            chosen(None, Vec::new(), Rule::MaxLatency, reason)
        }
    }
}

fn both(
    points: &[Point],
    rate: f64,
    latency_s: f64,
    bound: LatencyBound,
    unmeasured: &[u64],
) -> Recommendation {
    let wanted =
        format!("{} with {} within {}", format::rate(rate), bound_name(bound), format::seconds(latency_s));
    let fit: Vec<&Point> =
        points.iter().filter(|point| reaches(point, rate) && keeps(point, latency_s, bound)).collect();
    let Some((smallest, others)) = fit.split_first() else {
        // How far a buffer misses its goals, as the worse of the two factors.
        let misses = |point: &Point| {
            let short = rate / throughput(point).max(1e-9);
            let late = latency(point, bound).unwrap_or(f64::INFINITY) / latency_s;
            short.max(late)
        };
        let nearest = nearest_by(points, |point| -misses(point));
        let reason = format!(
            "no buffer does both {wanted}; nearest is {}{}",
            at_a_time(nearest),
            unknown_note(points, bound)
        );
        return chosen(None, Vec::new(), Rule::Both, reason);
    };
    let reason = match others.last() {
        Some(_) => {
            let names: Vec<String> = fit.iter().map(|point| format::bytes(point.buffer_bytes)).collect();
            format!("write {}: {} give {wanted}", at_a_time(smallest), names.join(", "))
        }
        None => format!("write {}: the only buffer measured that gives {wanted}", at_a_time(smallest)),
    };
    let reason = reason + &unmeasured_note(unmeasured, |size| size < smallest.buffer_bytes);
    let others = others.iter().map(|point| point.buffer_bytes).collect();
    chosen(Some(smallest), others, Rule::Both, reason)
}

fn reaches(point: &Point, rate: f64) -> bool {
    throughput(point) >= rate
}

fn keeps(point: &Point, latency_s: f64, bound: LatencyBound) -> bool {
    latency(point, bound).is_some_and(|found_s| found_s <= latency_s)
}

fn latency(point: &Point, bound: LatencyBound) -> Option<f64> {
    match bound {
        LatencyBound::Mean => Some(point.latency_s.mean),
        LatencyBound::P50 => point.latency_s.p50,
        LatencyBound::P99 => point.latency_s.p99,
        LatencyBound::P999 => point.latency_s.p999,
    }
}

/// Sizes that miss a goal by less than their interval.
fn may_note(sizes: &[u64]) -> String {
    let names: Vec<String> = sizes.iter().map(|&size| format::bytes(size)).collect();
    match names.as_slice() {
        [] => String::new(),
        names => format!("; {} may do so too, by the interval", names.join(" and ")),
    }
}

fn unknown_note(points: &[Point], bound: LatencyBound) -> String {
    let unknown = points.iter().filter(|point| latency(point, bound).is_none()).count();
    match unknown {
        0 => String::new(),
        _ => format!(
            "; {unknown} of the sizes have too few writes to know their {}: add --runs, and the --time for them",
            bound_name(bound)
        ),
    }
}

fn bound_name(bound: LatencyBound) -> &'static str {
    match bound {
        LatencyBound::Mean => "mean latency",
        LatencyBound::P50 => "p50 latency",
        LatencyBound::P99 => "p99 latency",
        LatencyBound::P999 => "p99.9 latency",
    }
}

fn nearest_by(points: &[Point], value: impl Fn(&Point) -> f64) -> &Point {
    points.iter().max_by(|a, b| value(a).total_cmp(&value(b))).expect("recommend is given points")
}

fn at_a_time(point: &Point) -> String {
    let size = format::bytes(point.buffer_bytes);
    let (mean, mean_s) = (point.throughput_bytes_per_s.mean, point.latency_s.mean);
    if has_outliers(point) {
        let (throughput, latency_s) = typical(point);
        let (throughput, latency) = (format::rate(throughput), format::seconds(latency_s));
        let means = format::seconds(mean_s);
        return format!(
            "{size} at a time: {throughput} at {latency} by the median run (a few make the mean {means})"
        );
    }
    format!("{size} at a time: {} at {}", format::rate(mean), format::seconds(mean_s))
}

fn chosen(point: Option<&Point>, also_bytes: Vec<u64>, rule: Rule, reason: String) -> Recommendation {
    Recommendation { buffer_bytes: point.map(|point| point.buffer_bytes), also_bytes, rule, reason }
}
