//! Line charts of the gallery: several series over one pair of axes, each linear or logarithmic.

use crate::report::{Chart, Series};

use super::canvas::MARKER_RADIUS;
use super::canvas::{At, Canvas};
use super::frame::{Along, Frame};
use super::palette::Ink;
use super::svg;

pub(crate) const SIZE: (u32, u32) = (420, 330);
/// Markers closer to each other than this on average are thinned: the line says where the points are.
const MARKERS_APART: f64 = 9.0;
/// Thinned, they are so far from each other along a line: lines of the same colour are told apart by them.
const THINNED_APART: f64 = 72.0;

/// The chart as an `<svg>`.
pub fn line_chart(chart: &Chart) -> String {
    numbered_chart(chart, &(0..chart.series.len()).collect::<Vec<_>>())
}

/// The same, each series with the colour and the markers of its number: those of the same thing look the same in all charts.
pub fn numbered_chart(chart: &Chart, numbers: &[usize]) -> String {
    svg(SIZE, &describe(chart), |canvas| draw(canvas, chart, numbers, true))
}

/// The same with values that are not ours in rings, joined where there are several, and on axes that cover other charts as
/// well: those that it is compared with.
pub fn chart_beside(chart: &Chart, values: &[&Series], others: &[&Chart]) -> String {
    let mut words = describe(chart);
    for series in values {
        for point in &series.points {
            let (y, x) = (chart.y_unit.show(point.1), chart.x_unit.show(point.0));
            words += &format!(" {}: {y} at {x}.", series.name);
        }
    }
    let mut covered = chart.clone();
    covered.series.extend(others.iter().flat_map(|other| other.series.iter().cloned()));
    covered.series.extend(values.iter().map(|&series| series.clone()));
    svg(SIZE, &words, |canvas| {
        let frame = frame(canvas, &covered);
        draw_lines(canvas, &frame, chart, &(0..chart.series.len()).collect::<Vec<_>>(), true);
        for series in values {
            let line: Vec<_> = series.points.iter().filter_map(|&point| frame.at(point)).collect();
            canvas.path(&line, Ink::Mark, 1.25, 0.8);
            line.into_iter().for_each(|at| canvas.ring(at, MARKER_RADIUS * 1.5, Ink::Mark));
        }
    })
}

/// The same without markers: for curves, of which no point is a figure of its own.
pub fn curve_chart(chart: &Chart) -> String {
    let numbers: Vec<usize> = (0..chart.series.len()).collect();
    svg(SIZE, &describe(chart), |canvas| draw(canvas, chart, &numbers, false))
}

fn draw(canvas: &mut Canvas<'_>, chart: &Chart, numbers: &[usize], marks: bool) {
    let frame = frame(canvas, chart);
    draw_lines(canvas, &frame, chart, numbers, marks);
}

fn draw_lines(canvas: &mut Canvas<'_>, frame: &Frame, chart: &Chart, numbers: &[usize], marks: bool) {
    for (&number, series) in numbers.iter().zip(&chart.series) {
        let line: Vec<_> = series.points.iter().filter_map(|&point| frame.at(point)).collect();
        canvas.path(&line, Ink::Series(number), 1.75, 1.0);
        if !marks {
            continue;
        }
        let is_dense = (line.len() as f64) * MARKERS_APART > frame.right - frame.left;
        // Lines that run along each other have their markers at different places.
        let begin = THINNED_APART * (number % 5) as f64 / 5.0;
        let marked = if is_dense { thinned(&line, begin) } else { line };
        for at in marked {
            canvas.marker(number, at, MARKER_RADIUS);
        }
    }
}

/// Points of a line that lie apart from each other along it, the first so far from its begin.
fn thinned(line: &[At], begin: f64) -> Vec<At> {
    let (mut left, mut found) = (begin, Vec::new());
    for (one, other) in line.iter().zip(line.iter().skip(1)) {
        left -= (other.0 - one.0).hypot(other.1 - one.1);
        if left <= 0.0 {
            found.push(*other);
            left = THINNED_APART;
        }
    }
    found
}

/// The axes of a chart.
pub(crate) fn frame(canvas: &mut Canvas<'_>, chart: &Chart) -> Frame {
    let points = || chart.series.iter().flat_map(|series| &series.points);
    let x = Along { name: &chart.x_name, unit: chart.x_unit, scale: chart.x_scale };
    let y = Along { name: &chart.y_name, unit: chart.y_unit, scale: chart.y_scale };
    Frame::draw(canvas, SIZE, (x, points().map(|point| point.0)), (y, points().map(|point| point.1)))
}

/// The chart in words: the ends of each series.
pub(crate) fn describe(chart: &Chart) -> String {
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
    use crate::report::{Scale, Unit};

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
    fn charts_that_are_compared_have_one_scale_and_values_of_others_have_rings() {
        let small = chart(Scale::Linear, Scale::Linear, &[(0.0, 10.0), (1.0, 10.0)]);
        let large = chart(Scale::Linear, Scale::Linear, &[(0.0, 1000.0), (1.0, 1000.0)]);
        let ticks = |svg: &str| -> Vec<String> {
            svg.split(">\n").skip(1).filter_map(|rest| Some(rest.split_once("\n<")?.0.to_owned())).collect()
        };
        let (alone, beside) = (line_chart(&small), chart_beside(&small, &[], &[&large]));
        assert_eq!(ticks(&beside), ticks(&chart_beside(&large, &[], &[&small])));
        assert_ne!(ticks(&beside), ticks(&alone));
        let value = Series { name: "of the paper".to_owned(), points: vec![(0.5, 20.0)] };
        let svg = chart_beside(&small, &[&value], &[]);
        assert!(svg.contains("of the paper: 20 B at"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), beside.matches("<circle").count() + 1, "{svg}");
    }

    #[test]
    fn dense_lines_keep_markers_that_lie_apart() {
        let line: Vec<At> = (0..200).map(|at| (f64::from(at) * 2.0, 7.0)).collect();
        let places: Vec<f64> = thinned(&line, 20.0).iter().map(|at| at.0).collect();
        assert_eq!(places, [20.0, 92.0, 164.0, 236.0, 308.0, 380.0]);
        // So that a seventh line, of the first one's colour, is another one.
        let dense: Vec<(f64, f64)> = (1..200).map(|at| (f64::from(at), f64::from(at))).collect();
        let mut chart = chart(Scale::Linear, Scale::Linear, &[]);
        chart.series = (0..7).map(|at| Series { name: format!("{at}"), points: dense.clone() }).collect();
        let of = |series: &Series| {
            let mut one = chart.clone();
            one.series
                .iter_mut()
                .filter(|other| other.name != series.name)
                .for_each(|other| other.points.clear());
            line_chart(&one)
        };
        let strip =
            |text: String| text.split("aria-label").nth(1).unwrap().split_once('>').unwrap().1.to_owned();
        assert_ne!(strip(of(&chart.series[0])), strip(of(&chart.series[6])));
    }

    #[test]
    fn a_chart_names_its_axes_and_the_ends_of_its_lines() {
        let svg = line_chart(&chart(Scale::Log, Scale::Log, &[(1024.0, 5e6), (102_400.0, 5e8)]));
        for word in ["request size", "data: from 4.77 MiB at 1 KiB to 477 MiB at 100 KiB", ">\n16K\n<"] {
            assert!(svg.contains(word), "{word} is missing: {svg}");
        }
    }
}
