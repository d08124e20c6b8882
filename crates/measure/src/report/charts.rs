//! Charts as SVG text for a page: lines, points, bands, rows, boxes and spans, and what others are drawn with: a canvas, axes
//! and a palette.
//!
//! A chart is one `<svg>` with a view box and no size, coloured by variables of the page's style sheet, so
//! it scales with its card and suits light and dark. It is labelled for those who cannot see it.

pub(crate) mod axes;
mod bands;
pub(crate) mod canvas;
pub(crate) mod frame;
mod lines;
pub(crate) mod palette;
mod rows;
pub(crate) mod scale;
mod scatter;
mod spans;
mod time;

pub use bands::{Edge, band_chart};
pub use lines::{chart_beside, curve_chart, line_chart, numbered_chart};
pub use rows::{Bar, BoxRow, Row, RowChart, box_chart, row_chart};
pub use scatter::scatter_chart;
pub use spans::{Span, span_chart};
pub use time::time_chart;

use maud::{PreEscaped, html};

use canvas::Canvas;
use palette::Ink;

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
            canvas.path(&[(16.0, 1.0), (16.0, 15.0)], Ink::Series(at), 1.0, canvas::BAR_OPACITY);
            canvas.path(&[(1.0, 8.0), (31.0, 8.0)], Ink::Series(at), 1.75, 1.0);
            canvas.marker(at, (16.0, 8.0), canvas::MARKER_RADIUS);
        }
        Swatch::Line(at) => {
            canvas.path(&[(1.0, 8.0), (31.0, 8.0)], Ink::Series(at), 1.75, 1.0);
            canvas.marker(at, (16.0, 8.0), canvas::MARKER_RADIUS);
        }
        Swatch::Dot(at) => canvas.marker(at, (16.0, 8.0), canvas::MARKER_RADIUS * 1.3),
        Swatch::Bar(at) => {
            let corners = [(4.0, 3.0), (28.0, 3.0), (28.0, 13.0), (4.0, 13.0)];
            canvas.fill(&corners, Ink::Series(at), 0.7);
        }
        Swatch::Band => fill_box(canvas, Ink::Series(0), canvas::BAND_OPACITY),
        Swatch::Model => canvas.path(&[(1.0, 8.0), (31.0, 8.0)], Ink::Model, 1.5, 1.0),
        Swatch::Recommended => canvas.path(&[(16.0, 0.0), (16.0, 16.0)], Ink::Mark, 2.0, 1.0),
        Swatch::Ring => canvas.ring((16.0, 8.0), 4.0, Ink::Mark),
        Swatch::RecommendedPeak => canvas::ring(canvas, (16.0, 8.0), 6.5, Ink::Text),
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

pub(crate) fn svg(size: (u32, u32), label: &str, draw: impl FnOnce(&mut Canvas<'_>)) -> String {
    let (view_box, elements) = canvas::elements(size, draw);
    html! {
        svg.chart viewBox=(view_box) role="img" aria-label=(label) { (PreEscaped(elements)) }
    }
    .into_string()
}
