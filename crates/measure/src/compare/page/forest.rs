//! Ratios with their intervals, a row a buffer size, on a logarithmic axis around 1: a forest plot.

use crate::compare::{Comparison, Judged, Verdict};
use crate::report::format;

use crate::report::charts::canvas::{Align, Canvas, MARKER_RADIUS};
use crate::report::charts::frame::{ADVANCE, TEXT};
use crate::report::charts::palette::Ink;
use crate::report::charts::svg;

const WIDTH: u32 = 420;
/// Room for the names of rows, and for the figures at their ends.
const LEFT: f64 = 66.0;
const RIGHT: f64 = 368.0;
const ROW: f64 = 24.0;
/// No axis reaches farther than this factor from 1.
const FARTHEST: f64 = 1e4;

/// The ratios of a comparison as an `<svg>`: right of 1 the second probe is faster. What is shown to differ is solid.
pub(super) fn forest_chart(comparison: &Comparison) -> String {
    let mut rows = vec![("all sizes".to_owned(), comparison.throughout, None)];
    let points = comparison.points.iter();
    rows.extend(
        points.map(|point| (format::bytes(point.buffer_bytes), point.throughput, point.p99.map(as_speed))),
    );
    let reach = reach(rows.iter().flat_map(|(_, one, other)| [Some(*one), *other]).flatten());
    let height = ROW * rows.len() as f64 + 30.0;
    let label = format!(
        "Speed of {} over that of {}, by buffer size, with intervals. {}.",
        comparison.b, comparison.a, comparison.overall
    );
    svg((WIDTH, height.ceil() as u32), &label, |canvas| {
        let bottom = height - 28.0;
        for tick in ticks(reach) {
            let at = place(tick, reach);
            let ink = if tick == 1.0 { Ink::Axis } else { Ink::Grid };
            canvas.path(&[(at, 0.0), (at, bottom)], ink, 1.0, 1.0);
            canvas.text(
                &format::number_short(tick),
                (at, bottom + 12.0),
                Align::Middle,
                Ink::Text,
                TEXT,
                false,
            );
        }
        for (number, (name, one, other)) in rows.iter().enumerate() {
            let middle = ROW * (number as f64 + 0.5);
            canvas.text(name, (4.0, middle), Align::Start, Ink::Text, TEXT, number == 0);
            let figure = (RIGHT + 6.0, middle);
            canvas.text(&format::number_short(one.ratio), figure, Align::Start, Ink::Text, TEXT, false);
            let apart = if other.is_some() { 4.5 } else { 0.0 };
            mark(canvas, one, 0, middle - apart, reach);
            if let Some(other) = other {
                mark(canvas, other, 1, middle + apart, reach);
            }
        }
    })
}

/// A ratio of latencies as one of speeds, so that right of 1 is faster for both.
fn as_speed(latency: Judged) -> Judged {
    let interval = latency.interval.map(|[low, high]| [1.0 / high, 1.0 / low]);
    Judged { ratio: 1.0 / latency.ratio, interval, ..latency }
}

fn mark(canvas: &mut Canvas<'_>, judged: &Judged, series: usize, at: f64, reach: f64) {
    if !(judged.ratio.is_finite() && judged.ratio > 0.0) {
        return;
    }
    let shown = matches!(judged.verdict, Verdict::Faster | Verdict::Slower);
    if let Some([low, high]) = judged.interval {
        let (width, opacity) = if shown { (2.5, 1.0) } else { (1.2, 0.55) };
        canvas.path(
            &[(place(low, reach), at), (place(high, reach), at)],
            Ink::Series(series),
            width,
            opacity,
        );
    }
    canvas.marker(series, (place(judged.ratio, reach), at), MARKER_RADIUS * if shown { 1.2 } else { 0.8 });
}

/// The factor from 1 to either end of the axis.
fn reach(all: impl Iterator<Item = Judged>) -> f64 {
    let ends = all.flat_map(|judged| {
        let [low, high] = judged.interval.unwrap_or([judged.ratio; 2]);
        [low, high, judged.ratio]
    });
    let far = |end: f64| if end < 1.0 { 1.0 / end } else { end };
    ends.map(far).filter(|far| far.is_finite()).fold(1.2, f64::max).min(FARTHEST) * 1.05
}

fn place(ratio: f64, reach: f64) -> f64 {
    let share = (ratio.ln() / reach.ln()).clamp(-1.0, 1.0);
    f64::midpoint(LEFT, RIGHT) + if share.is_finite() { share } else { 0.0 } * (RIGHT - LEFT) / 2.0
}

fn ticks(reach: f64) -> Vec<f64> {
    let steps: &[f64] = match reach {
        near if near < 1.6 => &[1.1, 1.2, 1.5],
        near if near < 4.0 => &[1.5, 2.0, 3.0],
        near if near < 30.0 => &[2.0, 5.0, 20.0],
        _ => &[10.0, 100.0, 1000.0],
    };
    let mut ticks = vec![1.0];
    let width = 6.0 * TEXT * ADVANCE;
    for &step in steps {
        let last = ticks.iter().copied().fold(1.0, f64::max);
        if step < reach && place(step, reach) - place(last, reach) >= width {
            ticks.extend([step, 1.0 / step]);
        }
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare_pairs;
    use crate::probe::sample;

    #[test]
    fn every_size_has_a_row_and_1_lies_in_the_middle() {
        let (disk, flash) = (sample::disk(), sample::flash());
        let found = compare_pairs(&[("disk".to_owned(), &disk), ("flash".to_owned(), &flash)]);
        let chart = forest_chart(&found.comparisons[0]);
        for point in &disk.points {
            assert!(chart.contains(&format!("\n{}\n", format::bytes(point.buffer_bytes))), "{chart}");
        }
        assert!((place(1.0, 7.0) - f64::midpoint(LEFT, RIGHT)).abs() < 1e-9);
        assert!(place(3.0, 7.0) > place(1.0, 7.0) && place(1e9, 7.0) <= RIGHT);
        let latency = Judged { ratio: 2.0, interval: Some([1.6, 2.5]), verdict: Verdict::Slower };
        assert_eq!(as_speed(latency).interval, Some([0.4, 0.625]));
    }
}
