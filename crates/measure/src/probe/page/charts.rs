//! The charts of a probe, alone or beside others: throughput, latency and their ratio against the buffer size, both axes
//! logarithmic.

use maud::{Markup, PreEscaped, html};

use super::figure::{self, Figure};
use super::plot::Plot;
use crate::probe::curve;
use crate::probe::report::ProbeReport;
use crate::report::charts::{Swatch, svg};
use crate::report::format;
use crate::report::page::legend;

const SIZE: (u32, u32) = (420, 330);

/// The chart of one probe: the figure with its intervals, the fitted line, the phases and the recommended
/// buffer.
pub(super) fn probe_chart(report: &ProbeReport, figure: Figure) -> String {
    let label = describe(figure, &[("this stack", report)]);
    svg(SIZE, &label, |canvas| {
        let mut plot = Plot::new(canvas, SIZE, figure, &[report], curve::shown_phases(report).is_some());
        plot.phases(report);
        plot.grid();
        plot.band(report);
        plot.recommendation(report);
        plot.bars(report, 0);
        plot.line(report, 0, 0.5);
        plot.model(report);
        plot.markers(report, 0);
    })
}

/// The chart of several probes on shared axes, one colour and marker a probe in the order given.
pub(crate) fn comparison_chart(reports: &[(String, &ProbeReport)], figure: Figure) -> String {
    let labelled: Vec<_> = reports.iter().map(|(label, report)| (label.as_str(), *report)).collect();
    let label = describe(figure, &labelled);
    let reports: Vec<_> = reports.iter().map(|(_, report)| *report).collect();
    svg(SIZE, &label, |canvas| {
        let mut plot = Plot::new(canvas, SIZE, figure, &reports, false);
        plot.grid();
        for (at, report) in reports.iter().enumerate() {
            plot.recommended_peak(report, at);
        }
        for (at, report) in reports.iter().enumerate() {
            plot.bars(report, at);
            plot.line(report, at, 1.0);
            plot.markers(report, at);
        }
    })
}

/// The three charts of one probe with their legend.
pub(super) fn charts(report: &ProbeReport) -> Markup {
    let measured = |held: fn(&crate::probe::report::Point) -> bool| report.points.iter().any(held);
    let mut entries = vec![(Swatch::Series(0), "measured mean and 95 % interval".to_owned())];
    if measured(|point| point.latency_s.p50.is_some() && point.latency_s.p99.is_some()) {
        entries.push((Swatch::Band, "median to 99th percentile of single writes (latency)".to_owned()));
    }
    if report.model.is_some() {
        entries.push((Swatch::Model, "fitted line l + x/B".to_owned()));
    }
    if report.recommendation.as_ref().is_some_and(|chosen| chosen.buffer_bytes.is_some()) {
        entries.push((Swatch::Recommended, "recommended buffer".to_owned()));
    }
    if let Some(phases) = curve::shown_phases(report) {
        let each = [
            (phases.constant_latency, "I constant latency"),
            (phases.both_grow, "II both grow"),
            (phases.constant_throughput, "III constant throughput"),
        ];
        for (which, (range, name)) in (0u8..).zip(each) {
            if range.is_some() {
                entries.push((Swatch::Phase(which), name.to_owned()));
            }
        }
    }
    html! {
        (figures(|figure| probe_chart(report, figure)))
        (legend(&entries))
    }
}

/// A card a figure.
pub(crate) fn figures(chart: impl Fn(Figure) -> String) -> Markup {
    html! {
        div.figures {
            @for figure in Figure::ALL {
                figure.card {
                    figcaption {
                        h2 { (figure.title()) }
                        p { (figure.meaning()) }
                    }
                    div.scroll { (PreEscaped(chart(figure))) }
                }
            }
        }
    }
}

/// The chart in words: its ends and its peak, for each stack.
fn describe(figure: Figure, reports: &[(&str, &ProbeReport)]) -> String {
    let unit = if figure == Figure::Ratio { " MB/s per ms" } else { "" };
    let mut words = format!("{} against buffer size, logarithmic axes.", figure.title());
    for (label, report) in reports {
        let dots = figure::dots(report, figure);
        let (Some(first), Some(last)) = (dots.first(), dots.last()) else {
            words += &format!(" No figures for {label}.");
            continue;
        };
        let at = |dot: &figure::Dot| {
            format!("{}{unit} at {}", figure.tick(dot.value), format::bytes_f64(dot.buffer_bytes))
        };
        words += &format!(" For {label}: from {} to {}", at(first), at(last));
        if let Some(peak) = dots.iter().max_by(|one, other| one.value.total_cmp(&other.value)) {
            words += &format!(", highest {}", at(peak));
        }
        words += ".";
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::sample;

    fn sound(svg: &str) {
        assert!(svg.starts_with("<svg class=\"chart\"") && svg.ends_with("</svg>"), "{svg}");
        assert!(svg.contains("role=\"img\"") && svg.contains("aria-label=\""));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(!svg.contains("\"#0100"), "a colour without a name: {svg}");
        assert!(!svg.contains("2147483647"), "a place off the canvas: {svg}");
    }

    #[test]
    fn every_chart_of_every_sample_is_sound() {
        for report in sample::all() {
            for figure in Figure::ALL {
                sound(&probe_chart(&report, figure));
                sound(&comparison_chart(&[("a".to_owned(), &report), ("b".to_owned(), &report)], figure));
            }
        }
    }

    #[test]
    fn a_chart_names_phases_recommendation_and_units() {
        let svg = probe_chart(&sample::disk(), Figure::Latency);
        for word in ["constant", "both", "grow", "512 KiB", "10 ms", ">\n16M\n<", "buffer size"] {
            assert!(svg.contains(word), "{word} is missing: {svg}");
        }
        assert!(probe_chart(&sample::disk(), Figure::Throughput).contains("10 MB/s"));
    }

    #[test]
    fn labels_of_stacks_are_escaped() {
        let report = sample::disk();
        let svg = comparison_chart(&[("<script>\"&".to_owned(), &report)], Figure::Ratio);
        assert!(!svg.contains("<script>"));
        assert!(svg.contains("&lt;script&gt;"));
    }

    #[test]
    fn stacks_differ_in_colour() {
        let report = sample::disk();
        let three = ["a", "b", "c"].map(|label| (label.to_owned(), &report));
        let svg = comparison_chart(&three, Figure::Throughput);
        for at in 0..3 {
            assert!(svg.contains(&format!("var(--series-{at})")));
        }
    }
}
