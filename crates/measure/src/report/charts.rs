//! Charts as SVG text for a page: throughput, latency and their ratio against the buffer size, both axes
//! logarithmic; line charts of any series; and those of a study: points, bands, rows, boxes and spans.
//!
//! A chart is one `<svg>` with a view box and no size, coloured by variables of the page's style sheet, so
//! it scales with its card and suits light and dark. It is labelled for those who cannot see it.

mod axes;
mod bands;
mod canvas;
mod figure;
mod forest;
mod frame;
mod lines;
mod palette;
mod plot;
mod rows;
mod scale;
mod scatter;
mod spans;
mod time;

pub use bands::{Edge, band_chart};
pub use figure::Figure;
pub use forest::forest_chart;
pub use lines::{curve_chart, line_chart, numbered_chart};
pub use rows::{Bar, BoxRow, Row, RowChart, box_chart, row_chart};
pub use scatter::scatter_chart;
pub use spans::{Span, span_chart};
pub use time::time_chart;

use maud::{PreEscaped, html};

use crate::probe::report::ProbeReport;
use crate::report::format;

use canvas::Canvas;
use palette::Ink;
use plot::Plot;

const SIZE: (u32, u32) = (420, 330);

/// The chart of one probe: the figure with its intervals, the fitted line, the phases and the recommended
/// buffer.
pub fn probe_chart(report: &ProbeReport, figure: Figure) -> String {
    let label = describe(figure, &[("this stack", report)]);
    svg(SIZE, &label, |canvas| {
        let mut plot = Plot::new(canvas, SIZE, figure, &[report], report.phases.is_some());
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
pub fn comparison_chart(reports: &[(String, &ProbeReport)], figure: Figure) -> String {
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

/// What an entry of a legend explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swatch {
    /// A series by its place: line and marker with an error bar.
    Series(usize),
    /// As that, without an error bar.
    Line(usize),
    /// The marker of a series alone.
    Dot(usize),
    /// What was disturbed.
    Ring,
    /// The shade of a series.
    Bar(usize),
    /// The band from median to 99th percentile.
    Band,
    /// The fitted line.
    Model,
    /// The recommended buffer of a single probe.
    Recommended,
    /// The recommended buffer in a comparison.
    RecommendedPeak,
    /// The shade of a phase, from 0.
    Phase(u8),
}

/// The small picture of a legend's entry, decorative: the entry's text says the same.
pub fn swatch(which: Swatch) -> String {
    const LEGEND: (u32, u32) = (32, 16);
    let (view_box, elements) = canvas::elements(LEGEND, |canvas| match which {
        Swatch::Series(at) => {
            canvas.path(&[(16.0, 1.0), (16.0, 15.0)], Ink::Series(at), 1.0, plot::BAR_OPACITY);
            canvas.path(&[(1.0, 8.0), (31.0, 8.0)], Ink::Series(at), 1.75, 1.0);
            canvas.marker(at, (16.0, 8.0), plot::MARKER_RADIUS);
        }
        Swatch::Line(at) => {
            canvas.path(&[(1.0, 8.0), (31.0, 8.0)], Ink::Series(at), 1.75, 1.0);
            canvas.marker(at, (16.0, 8.0), plot::MARKER_RADIUS);
        }
        Swatch::Dot(at) => canvas.marker(at, (16.0, 8.0), plot::MARKER_RADIUS * 1.3),
        Swatch::Bar(at) => {
            let corners = [(4.0, 3.0), (28.0, 3.0), (28.0, 13.0), (4.0, 13.0)];
            canvas.fill(&corners, Ink::Series(at), 0.7);
        }
        Swatch::Band => fill_box(canvas, Ink::Series(0), plot::BAND_OPACITY),
        Swatch::Model => canvas.path(&[(1.0, 8.0), (31.0, 8.0)], Ink::Model, 1.5, 1.0),
        Swatch::Recommended => canvas.path(&[(16.0, 0.0), (16.0, 16.0)], Ink::Mark, 2.0, 1.0),
        Swatch::Ring => canvas.ring((16.0, 8.0), 4.0, Ink::Mark),
        Swatch::RecommendedPeak => plot::ring(canvas, (16.0, 8.0), 6.5, Ink::Text),
        Swatch::Phase(which) => fill_box(canvas, Ink::Phase(which), 1.0),
    });
    html! {
        svg.swatch viewBox=(view_box) aria-hidden="true" { (PreEscaped(elements)) }
    }
    .into_string()
}

fn fill_box(canvas: &mut Canvas<'_>, ink: Ink, opacity: f64) {
    let corners = [(2.0, 1.0), (30.0, 1.0), (30.0, 15.0), (2.0, 15.0), (2.0, 1.0)];
    canvas.fill(&corners, ink, opacity);
    canvas.path(&corners, Ink::Axis, 1.0, 0.6);
}

fn svg(size: (u32, u32), label: &str, draw: impl FnOnce(&mut Canvas<'_>)) -> String {
    let (view_box, elements) = canvas::elements(size, draw);
    html! {
        svg.chart viewBox=(view_box) role="img" aria-label=(label) { (PreEscaped(elements)) }
    }
    .into_string()
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
    use crate::report::sample;

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
