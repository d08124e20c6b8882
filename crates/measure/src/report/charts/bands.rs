//! Line charts in which a line runs through a band: mean between least and most.

use crate::report::Chart;

use super::canvas::At;
use super::canvas::BAND_OPACITY;
use super::frame::{Along, Frame};
use super::lines::{SIZE, describe};
use super::palette::Ink;
use super::svg;

/// Where a band is: along the horizontal axis, its lower and its upper edge.
pub type Edge = (f64, f64, f64);

/// The chart as an `<svg>`; each band belongs to the series of the same place.
pub fn band_chart(chart: &Chart, bands: &[Vec<Edge>]) -> String {
    svg(SIZE, &describe(chart), |canvas| {
        let edges = || bands.iter().flatten();
        let lines = || chart.series.iter().flat_map(|series| &series.points);
        let xs = lines().map(|point| point.0).chain(edges().map(|edge| edge.0));
        let ys = lines().map(|point| point.1).chain(edges().flat_map(|edge| [edge.1, edge.2]));
        let x = Along { name: &chart.x_name, unit: chart.x_unit, scale: chart.x_scale };
        let y = Along { name: &chart.y_name, unit: chart.y_unit, scale: chart.y_scale };
        let frame = Frame::draw(canvas, SIZE, (x, xs), (y, ys));
        for (number, band) in bands.iter().enumerate() {
            let along = |of: fn(&Edge) -> f64| -> Vec<At> {
                band.iter().filter_map(|edge| frame.at((edge.0, of(edge)))).collect()
            };
            let (mut corners, upper) = (along(|edge| edge.1), along(|edge| edge.2));
            corners.extend(upper.iter().rev());
            canvas.fill(&corners, Ink::Series(number), BAND_OPACITY);
            canvas.path(&upper, Ink::Series(number), 0.75, 0.6);
            canvas.path(&along(|edge| edge.1), Ink::Series(number), 0.75, 0.6);
        }
        for (number, series) in chart.series.iter().enumerate() {
            let line: Vec<At> = series.points.iter().filter_map(|&point| frame.at(point)).collect();
            canvas.path(&line, Ink::Series(number), 1.75, 1.0);
        }
    })
}
