//! What single writes and single runs did: the distribution of latency at a size of one's choice, and the runs in the
//! order of time.

use maud::{Markup, PreEscaped, html};

use super::Labelled;
use crate::probe::report::{Point, ProbeReport};
use crate::report::charts::{self, Swatch};
use crate::report::{Chart, Scale, Series, Unit};
use crate::report::{format, page};

/// Points of one curve at most; several stacks share them.
const CURVE_POINTS: usize = 160;
const CURVE_POINTS_MIN: usize = 40;

/// Undisturbed runs that are drawn at most; the others are in the JSON document.
const RUNS_DRAWN: usize = 600;

/// Both, side by side; a part without figures is left out.
pub(crate) fn spread(reports: &[Labelled<'_>]) -> Markup {
    let (distribution, time) = (distribution(reports), over_time(reports));
    html! {
        @if distribution.is_some() || time.is_some() {
            div.figures.spread { (distribution.unwrap_or_default()) (time.unwrap_or_default()) }
        }
    }
}

fn distribution(reports: &[Labelled<'_>]) -> Option<Markup> {
    let points = reports.iter().flat_map(|(_, report)| &report.points);
    let measured = points.filter(|point| !point.latency_histogram.is_empty());
    let mut sizes: Vec<u64> = measured.map(|point| point.buffer_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let chosen = chosen(reports).filter(|size| sizes.contains(size)).or(sizes.first().copied())?;
    Some(html! {
        figure.card {
            figcaption {
                h2 { "Latency of single writes" }
                p {
                    "share of writes that took no longer, at "
                    select.sizes hidden aria-label="buffer size" {
                        @for &size in &sizes { option value=(size) selected[size == chosen] { (format::bytes(size)) } }
                    }
                    noscript { (format::bytes(chosen)) }
                }
            }
            @for &size in &sizes {
                div.scroll data-size=(size) hidden[size != chosen] {
                    (PreEscaped(charts::curve_chart(&curves(reports, size))))
                    @for (label, report) in reports {
                        @if let Some(point) = at(report, size) { (percentiles(label, point, reports.len())) }
                    }
                }
            }
            @if reports.len() > 1 { (page::legend(&entries(reports))) }
        }
    })
}

/// The recommended size of the first that has one.
fn chosen(reports: &[Labelled<'_>]) -> Option<u64> {
    reports.iter().find_map(|(_, report)| report.recommendation.as_ref()?.buffer_bytes)
}

fn at(report: &ProbeReport, size: u64) -> Option<&Point> {
    report.points.iter().find(|point| point.buffer_bytes == size && !point.latency_histogram.is_empty())
}

fn entries(reports: &[Labelled<'_>]) -> Vec<(Swatch, String)> {
    reports.iter().enumerate().map(|(place, (label, _))| (Swatch::Line(place), label.clone())).collect()
}

fn percentiles(label: &str, point: &Point, stacks: usize) -> Markup {
    let latency = &point.latency_s;
    let known =
        [("p50", latency.p50), ("p99", latency.p99), ("p99.9", latency.p999), ("max", Some(latency.max))];
    let said: Vec<String> = known
        .into_iter()
        .filter_map(|(name, value)| value.map(|value| format!("{name} {}", format::seconds(value))))
        .collect();
    html! {
        p.note {
            @if stacks > 1 { b { (label) } ": " }
            (said.join(", ")) ", of " (format::counted(point.writes, "write"))
        }
    }
}

fn curves(reports: &[Labelled<'_>], size: u64) -> Chart {
    let most = (CURVE_POINTS / reports.len().max(1)).max(CURVE_POINTS_MIN);
    let series = |(label, report): &Labelled<'_>| Series {
        name: label.clone(),
        points: at(report, size).map_or_else(Vec::new, |point| curve(&point.latency_histogram, most)),
    };
    Chart {
        title: format!("Latency of single writes of {}", format::bytes(size)),
        meaning: String::new(),
        x_name: "latency".to_owned(),
        x_unit: Unit::S,
        x_scale: Scale::Log,
        y_name: "share of writes".to_owned(),
        y_unit: Unit::Share,
        y_scale: Scale::Linear,
        series: reports.iter().map(series).collect(),
    }
}

/// The shares of writes up to each latency, thinned to about `most` points that are even along a logarithmic axis.
fn curve(histogram: &[(f64, u64)], most: usize) -> Vec<(f64, f64)> {
    let all: u64 = histogram.iter().fold(0, |sum, &(_, count)| sum.saturating_add(count));
    let (Some(first), Some(last)) = (histogram.first(), histogram.last()) else { return Vec::new() };
    let step = (last.0 / first.0).ln() / most as f64;
    let mut points = vec![(first.0, 0.0)];
    let (mut below, mut drawn) = (0_u64, f64::NEG_INFINITY);
    for (place, &(latency_s, count)) in histogram.iter().enumerate() {
        below = below.saturating_add(count);
        let is_apart = latency_s.ln() - drawn >= step;
        if is_apart || place + 1 == histogram.len() {
            points.push((latency_s, below as f64 / all.max(1) as f64));
            drawn = latency_s.ln();
        }
    }
    points
}

fn over_time(reports: &[Labelled<'_>]) -> Option<Markup> {
    let runs: Vec<Series> = reports.iter().map(|(label, report)| undisturbed(label, report)).collect();
    let disturbed = Series {
        name: "disturbed".to_owned(),
        points: reports.iter().flat_map(|(_, report)| relative(report, true)).take(RUNS_DRAWN).collect(),
    };
    let mut entries: Vec<_> = reports
        .iter()
        .enumerate()
        .map(|(place, (label, _))| {
            let name = if reports.len() > 1 { label.as_str() } else { "a run" };
            (Swatch::Dot(place), name.to_owned())
        })
        .collect();
    let has_disturbed = !disturbed.points.is_empty();
    if runs.iter().all(|series| series.points.is_empty()) && !has_disturbed {
        return None;
    }
    let chart = Chart {
        title: "Runs over time".to_owned(),
        meaning: String::new(),
        x_name: "time since the start".to_owned(),
        x_unit: Unit::S,
        x_scale: Scale::Linear,
        y_name: "latency over the median of its size".to_owned(),
        y_unit: Unit::Times,
        y_scale: Scale::Log,
        series: runs,
    };
    if has_disturbed {
        entries.push((Swatch::Ring, "disturbed from outside".to_owned()));
    }
    Some(html! {
        figure.card {
            figcaption {
                h2 { "Runs over time" }
                p { "mean latency of each run over the median of its size; 1x is usual" }
            }
            div.scroll { (PreEscaped(charts::time_chart(&chart, &disturbed))) }
            (page::legend(&entries))
        }
    })
}

fn undisturbed(label: &str, report: &ProbeReport) -> Series {
    let mut points = relative(report, false);
    let apart = points.len().div_ceil(RUNS_DRAWN).max(1);
    points = points.into_iter().step_by(apart).collect();
    Series { name: label.to_owned(), points }
}

/// When each run began, and its latency over the median of its size.
fn relative(report: &ProbeReport, disturbed: bool) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for point in &report.points {
        let latencies: Vec<f64> = point.run_data.iter().map(|run| run.latency_s).collect();
        let Some(median) = crate::stats::median(&latencies) else { continue };
        let runs = point.run_data.iter().filter(|run| run.disturbance.is_some() == disturbed);
        points.extend(runs.map(|run| (run.started_s, run.latency_s / median)));
    }
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_rises_from_nothing_to_all_and_keeps_its_ends() {
        let histogram: Vec<(f64, u64)> = (1..=5000).map(|step| (f64::from(step) * 1e-6, 2)).collect();
        for most in [40, 160, 100_000] {
            let found = curve(&histogram, most);
            assert!(found.len() <= most.min(5000) + 3, "{}", found.len());
            assert_eq!(found[0], (1e-6, 0.0));
            assert_eq!(found.last().unwrap(), &(5e-3, 1.0));
            assert!(found.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1));
            // Thinning leaves out points and moves none.
            assert!(found[1..].iter().all(|&(at, share)| (share - at * 200.0).abs() < 1e-9));
        }
        assert_eq!(curve(&[], 40), []);
        assert_eq!(curve(&[(1e-3, 7)], 40), [(1e-3, 0.0), (1e-3, 1.0)]);
    }

    #[test]
    fn runs_are_told_by_what_is_usual_at_their_size() {
        let report = crate::probe::sample::disk();
        let (clean, disturbed) = (relative(&report, false), relative(&report, true));
        let runs: usize = report.points.iter().map(|point| point.run_data.len()).sum();
        assert_eq!(clean.len() + disturbed.len(), runs);
        assert!(!disturbed.is_empty());
        assert!(clean.iter().all(|(_, times)| (0.6..1.6).contains(times)));
        assert!(clean.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    }
}
