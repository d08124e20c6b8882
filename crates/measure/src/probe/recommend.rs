//! The buffer to use.
//!
//! With a fixed cost l per synchronous write and bandwidth B, latency is l + x/B and throughput
//! x / (l + x/B); their ratio x / (l + x/B)^2 is greatest at x = l B, where the throughput is B/2 and the
//! latency 2 l: half of the stack's top throughput at twice its least latency. A user with a goal of either
//! kind gets the buffer that meets it; a user without one gets the best ratio.

use super::report::{Point, Recommendation, Rule};
use super::settings::{Goals, LatencyBound};
use crate::report::format;
use crate::stats;

/// Two sizes are told apart when a test says so at this level, corrected for the number of sizes compared.
const TIE_LEVEL: f64 = 0.05;

/// Chooses among measured points; `None` where there are none.
pub(super) fn recommend(points: &[Point], goals: &Goals) -> Option<Recommendation> {
    let best = points.iter().max_by(|a, b| a.ratio.total_cmp(&b.ratio))?;
    Some(match (goals.min_throughput_bytes_per_s, goals.max_latency_s) {
        (None, None) => best_ratio(points, best),
        (Some(rate), None) => min_throughput(points, rate),
        (None, Some(latency_s)) => max_latency(points, latency_s, goals.bound),
        (Some(rate), Some(latency_s)) => both(points, rate, latency_s, goals.bound),
    })
}

fn best_ratio(points: &[Point], best: &Point) -> Recommendation {
    let tied = tied_with(points, best);
    let largest = points.last().is_some_and(|last| last.buffer_bytes == best.buffer_bytes);
    let mut reason = format!("write {}", at_a_time(best));
    if largest {
        reason.push_str("; the ratio still grows at the largest buffer measured, so measure larger ones");
    } else {
        reason.push_str("; larger buffers add more latency than throughput");
    }
    if !tied.is_empty() {
        let names: Vec<String> = tied.iter().map(|&size| format::bytes(size)).collect();
        reason.push_str(&format!("; {} cannot be told apart from it", names.join(" and ")));
    }
    chosen(Some(best), tied, Rule::BestRatio, reason)
}

/// The neighbours, one after another on both sides, whose ratio over runs cannot be told from the best one's.
fn tied_with(points: &[Point], best: &Point) -> Vec<u64> {
    let log_ratios = |point: &Point| -> Vec<f64> {
        let counted = point.run_data.iter().filter(|run| run.counted);
        counted.map(|run| (run.throughput_bytes_per_s / run.latency_s.max(1e-12)).ln()).collect()
    };
    let of_best = log_ratios(best);
    let p_values: Vec<f64> = points
        .iter()
        .map(|point| stats::welch(&log_ratios(point), &of_best).map_or(1.0, |test| test.p_two_sided))
        .collect();
    let adjusted = stats::holm(&p_values);
    let is_tied = |place: &usize| adjusted[*place] >= TIE_LEVEL;
    let centre = points.iter().position(|point| point.buffer_bytes == best.buffer_bytes).unwrap_or(0);
    let mut tied: Vec<usize> = (0..centre).rev().take_while(is_tied).collect();
    tied.reverse();
    tied.extend((centre + 1..points.len()).take_while(is_tied));
    tied.into_iter().map(|place| points[place].buffer_bytes).collect()
}

fn min_throughput(points: &[Point], rate: f64) -> Recommendation {
    let wanted = format::rate(rate);
    match points.iter().find(|point| reaches(point, rate)) {
        Some(point) => {
            let mut reason = format!("write {}: the smallest buffer that reaches {wanted}", at_a_time(point));
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
            chosen(Some(point), Vec::new(), Rule::MinThroughput, reason)
        }
        None => {
            let nearest = nearest_by(points, |point| point.throughput_bytes_per_s.mean);
            let reason = format!("no buffer reaches {wanted}; nearest is {}", at_a_time(nearest));
            chosen(None, Vec::new(), Rule::MinThroughput, reason)
        }
    }
}

fn max_latency(points: &[Point], latency_s: f64, bound: LatencyBound) -> Recommendation {
    let wanted = format!("{} within {}", bound_name(bound), format::seconds(latency_s));
    match points.iter().rev().find(|point| keeps(point, latency_s, bound)) {
        Some(point) => {
            let unknown = points.iter().rev().take_while(|other| other.buffer_bytes > point.buffer_bytes);
            let all_known = unknown.into_iter().all(|other| latency(other, bound).is_some());
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

fn both(points: &[Point], rate: f64, latency_s: f64, bound: LatencyBound) -> Recommendation {
    let wanted =
        format!("{} with {} within {}", format::rate(rate), bound_name(bound), format::seconds(latency_s));
    let fit: Vec<&Point> =
        points.iter().filter(|point| reaches(point, rate) && keeps(point, latency_s, bound)).collect();
    let Some((smallest, others)) = fit.split_first() else {
        // How far a buffer misses its goals, as the worse of the two factors.
        let misses = |point: &Point| {
            let short = rate / point.throughput_bytes_per_s.mean.max(1e-9);
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
        None => format!("write {}: the only buffer that gives {wanted}", at_a_time(smallest)),
    };
    let others = others.iter().map(|point| point.buffer_bytes).collect();
    chosen(Some(smallest), others, Rule::Both, reason)
}

fn reaches(point: &Point, rate: f64) -> bool {
    point.throughput_bytes_per_s.mean >= rate
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
    format!(
        "{} at a time: {} at {}",
        format::bytes(point.buffer_bytes),
        format::rate(point.throughput_bytes_per_s.mean),
        format::seconds(point.latency_s.mean)
    )
}

fn chosen(point: Option<&Point>, also_bytes: Vec<u64>, rule: Rule, reason: String) -> Recommendation {
    Recommendation { buffer_bytes: point.map(|point| point.buffer_bytes), also_bytes, rule, reason }
}
