//! Many runs over time: a small dot each, and a ring around those that were disturbed.

use crate::report::{Chart, Series};

use super::lines::{SIZE, describe, frame};
use super::palette::Ink;
use super::svg;

const RADIUS: f64 = 2.4;
const RING: f64 = 4.0;

/// The chart as an `<svg>`: the series by colour and shape, and rings for `ringed` over them.
pub fn time_chart(chart: &Chart, ringed: &Series) -> String {
    // The axes reach all of it.
    let mut whole = chart.clone();
    whole.series.push(ringed.clone());
    let mut words = describe(chart);
    words += &format!(" {} {}.", ringed.points.len(), ringed.name);
    svg(SIZE, &words, |canvas| {
        let frame = frame(canvas, &whole);
        for (number, series) in chart.series.iter().enumerate() {
            for at in series.points.iter().filter_map(|&point| frame.at(point)) {
                canvas.dot(number, at, RADIUS);
            }
        }
        for at in ringed.points.iter().filter_map(|&point| frame.at(point)) {
            canvas.ring(at, RING, Ink::Mark);
        }
    })
}
