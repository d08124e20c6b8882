//! Charts of points: a marker each, and no line between them.

use crate::report::Chart;

use super::lines::{SIZE, frame};
use super::svg;

const RADIUS: f64 = 3.4;

/// The chart as an `<svg>`, the series told apart by colour and marker.
pub fn scatter_chart(chart: &Chart) -> String {
    svg(SIZE, &describe(chart), |canvas| {
        let frame = frame(canvas, chart);
        for (number, series) in chart.series.iter().enumerate() {
            for at in series.points.iter().filter_map(|&point| frame.at(point)) {
                canvas.marker(number, at, RADIUS);
            }
        }
    })
}

/// The chart in words: how many points each series has, and the highest.
fn describe(chart: &Chart) -> String {
    let mut words = format!("{}: {} against {}.", chart.title, chart.y_name, chart.x_name);
    for series in &chart.series {
        let highest = series.points.iter().max_by(|one, other| one.1.total_cmp(&other.1));
        match highest {
            None => words += &format!(" Nothing of {}.", series.name),
            Some((x, y)) => {
                words += &format!(
                    " {}: {} points, highest {} at {}.",
                    series.name,
                    series.points.len(),
                    chart.y_unit.show(*y),
                    chart.x_unit.show(*x)
                );
            }
        }
    }
    words
}
