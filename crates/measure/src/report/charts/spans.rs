//! Where things lie along a line, one run above the other: a stroke from the first to the last place, thick where half
//! of it lies, with a marker in the middle.

use crate::report::{Scale, Unit};

use super::canvas::MARKER_RADIUS;
use super::frame::{Along, Frame};
use super::lines::SIZE;
use super::palette::Ink;
use super::svg;

/// One run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Which series it belongs to.
    pub series: usize,
    /// How high it is drawn, in operations per second.
    pub operations_per_s: f64,
    /// First place, quartiles and end, in bytes.
    pub places: [f64; 5],
}

/// The spans as an `<svg>`: place on the device across, throughput up.
pub fn span_chart(title: &str, spans: &[Span]) -> String {
    let words =
        format!("{title}: throughput of {} runs against where their data lay on the device.", spans.len());
    svg(SIZE, &words, |canvas| {
        let x = Along { name: "place on the device", unit: Unit::Bytes, scale: Scale::Linear };
        let y = Along { name: "throughput, operations/s", unit: Unit::PerS, scale: Scale::Log };
        let xs = spans.iter().flat_map(|span| span.places);
        let frame = Frame::draw(canvas, SIZE, (x, xs), (y, spans.iter().map(|span| span.operations_per_s)));
        for span in spans {
            let at = |place: f64| frame.at((place, span.operations_per_s));
            let places: Vec<_> = span.places.iter().filter_map(|&place| at(place)).collect();
            if let [first, low, middle, high, end] = places[..] {
                let ink = Ink::Series(span.series);
                canvas.path(&[first, end], ink, 1.0, 0.8);
                canvas.path(&[low, high], ink, 3.0, 0.8);
                canvas.marker(span.series, middle, MARKER_RADIUS);
            }
        }
    })
}
