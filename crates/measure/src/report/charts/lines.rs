//! Line charts of the gallery: several series over one pair of axes, each linear or logarithmic.

use crate::reproduce::{Chart, Unit};

use super::axes::labelled;
use super::canvas::{Align, Canvas};
use super::palette::Ink;
use super::plot::MARKER_RADIUS;
use super::scale::ScaledAxis;
use super::svg;

const SIZE: (u32, u32) = (420, 330);
const TEXT: f64 = 12.5;
/// About the advance of a character relative to the size of the text.
const ADVANCE: f64 = 0.56;
/// Markers closer to each other than this on average are left out: the line says enough.
const MARKERS_APART: f64 = 9.0;

/// The chart as an `<svg>`.
pub fn line_chart(chart: &Chart) -> String {
    svg(SIZE, &describe(chart), |canvas| draw(canvas, chart))
}

fn draw(canvas: &mut Canvas<'_>, chart: &Chart) {
    let (top, bottom, right) = (28.0, f64::from(SIZE.1) - 44.0, f64::from(SIZE.0) - 12.0);
    let points = || chart.series.iter().flat_map(|series| &series.points);
    let up = ScaledAxis::covering(
        chart.y_scale,
        chart.y_unit == Unit::Bytes,
        points().map(|point| point.1),
        (bottom, top),
    );
    let widest = up.ticks().into_iter().map(|tick| chart.y_unit.tick(tick).chars().count()).max();
    let left = (14.0 + widest.unwrap_or(0) as f64 * TEXT * ADVANCE).max(44.0);
    let across = ScaledAxis::covering(
        chart.x_scale,
        chart.x_unit == Unit::Bytes,
        points().map(|point| point.0),
        (left, right),
    );

    for tick in up.ticks() {
        let at = up.place(tick);
        canvas.path(&[(left, at), (right, at)], Ink::Grid, 1.0, 1.0);
        canvas.text(&chart.y_unit.tick(tick), (left - 8.0, at), Align::End, Ink::Text, TEXT, false);
    }
    for tick in up.minor_ticks() {
        canvas.path(&[(left - 3.0, up.place(tick)), (left, up.place(tick))], Ink::Axis, 0.75, 1.0);
    }
    let ticks = across.ticks();
    let places: Vec<f64> = ticks.iter().map(|&tick| across.place(tick)).collect();
    for ((&tick, &at), &has_room) in ticks.iter().zip(&places).zip(&labelled(&places, 40.0)) {
        canvas.path(&[(at, bottom), (at, bottom + if has_room { 5.0 } else { 3.0 })], Ink::Axis, 1.0, 1.0);
        if has_room {
            canvas.text(&chart.x_unit.tick(tick), (at, bottom + 14.0), Align::Middle, Ink::Text, TEXT, false);
        }
    }
    for tick in across.minor_ticks() {
        canvas.path(
            &[(across.place(tick), bottom), (across.place(tick), bottom + 3.0)],
            Ink::Axis,
            0.75,
            1.0,
        );
    }
    canvas.path(&[(left, top), (left, bottom), (right, bottom)], Ink::Axis, 1.0, 1.0);
    let middle = f64::midpoint(left, right);
    canvas.text(&chart.x_name, (middle, bottom + 34.0), Align::Middle, Ink::Text, TEXT, false);
    canvas.text(&chart.y_name, (4.0, 10.0), Align::Start, Ink::Text, TEXT, false);

    for (number, series) in chart.series.iter().enumerate() {
        let shown = series.points.iter().filter(|(x, y)| across.shows(*x) && up.shows(*y));
        let line: Vec<_> = shown.map(|&(x, y)| (across.place(x), up.place(y))).collect();
        canvas.path(&line, Ink::Series(number), 1.75, 1.0);
        if (line.len() as f64) * MARKERS_APART <= right - left {
            for at in line {
                canvas.marker(number, at, MARKER_RADIUS);
            }
        }
    }
}

/// The chart in words: the ends of each series.
fn describe(chart: &Chart) -> String {
    let mut words = format!("{}: {} against {}.", chart.title, chart.y_name, chart.x_name);
    for series in &chart.series {
        let (Some(first), Some(last)) = (series.points.first(), series.points.last()) else {
            words += &format!(" No figures for {}.", series.name);
            continue;
        };
        let at =
            |point: &(f64, f64)| format!("{} at {}", chart.y_unit.show(point.1), chart.x_unit.show(point.0));
        words += &format!(" {}: from {} to {}.", series.name, at(first), at(last));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::{Scale, Series};

    fn chart(x_scale: Scale, y_scale: Scale, points: &[(f64, f64)]) -> Chart {
        Chart {
            title: "Journal <b>".to_owned(),
            meaning: "what is written".to_owned(),
            x_name: "request size".to_owned(),
            x_unit: Unit::Bytes,
            x_scale,
            y_name: "journal".to_owned(),
            y_unit: Unit::Bytes,
            y_scale,
            series: vec![
                Series { name: "data".to_owned(), points: points.to_vec() },
                Series { name: "none".to_owned(), points: Vec::new() },
            ],
        }
    }

    #[test]
    fn charts_of_any_values_are_sound() {
        let odd =
            [(0.0, f64::NAN), (f64::INFINITY, 1.0), (1e3, 0.0), (1e4, -5.0), (1e5, f64::MAX), (1e6, 7.0)];
        for points in [&odd[..], &[], &[(1024.0, 5e6), (102_400.0, 5e8)]] {
            for scales in [(Scale::Log, Scale::Log), (Scale::Linear, Scale::Log), (Scale::Log, Scale::Linear)]
            {
                let svg = line_chart(&chart(scales.0, scales.1, points));
                assert!(svg.starts_with("<svg class=\"chart\"") && svg.ends_with("</svg>"));
                assert!(
                    !svg.contains("NaN\"") && !svg.contains("\"#0100") && !svg.contains("2147483647"),
                    "{svg}"
                );
                assert!(!svg.contains("<b>"));
            }
        }
    }

    #[test]
    fn a_chart_names_its_axes_and_the_ends_of_its_lines() {
        let svg = line_chart(&chart(Scale::Log, Scale::Log, &[(1024.0, 5e6), (102_400.0, 5e8)]));
        for word in ["request size", "data: from 4.77 MiB at 1 KiB to 477 MiB at 100 KiB", ">\n16K\n<"] {
            assert!(svg.contains(word), "{word} is missing: {svg}");
        }
    }
}
