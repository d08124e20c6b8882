//! Charts of rows under each other, each with its name above it: values with their intervals, and boxes over the values
//! of repeats. Names have the whole width, so that long ones fit.

use crate::report::Unit;
use crate::report::format::number_short;

use super::canvas::{Align, Canvas};
use super::canvas::{BAND_OPACITY, MARKER_RADIUS};
use super::frame::{ADVANCE, TEXT};
use super::palette::Ink;
use super::svg;

const WIDTH: u32 = 420;
const LEFT: f64 = 10.0;
/// Room for the figure at the end of a row.
const FIGURE: f64 = 62.0;
const NAME_HEIGHT: f64 = 18.0;

/// A row of values.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What stands above it.
    pub name: String,
    /// Its values, from above; each has the colour of its place.
    pub bars: Vec<Bar>,
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Which series it belongs to.
    pub series: usize,
    /// The value; `None` leaves the place empty.
    pub value: Option<f64>,
    /// Its interval.
    pub interval: Option<[f64; 2]>,
    /// What stands at its end.
    pub figure: String,
}

/// What a chart of rows shows.
#[derive(Debug, Clone, PartialEq)]
pub struct RowChart {
    /// What it is, for those who cannot see it.
    pub title: String,
    /// What lies along the axis.
    pub unit: Unit,
    /// The ends of the axis; bars begin at 0.
    pub ends: [f64; 2],
    /// A value to mark.
    pub mark: Option<f64>,
    /// The rows, from above.
    pub rows: Vec<Row>,
}

/// The chart as an `<svg>`: bars from 0 to the value, with the interval as a line.
pub fn row_chart(chart: &RowChart) -> String {
    const BAR: f64 = 13.0;
    let height_of = |row: &Row| NAME_HEIGHT + BAR * row.bars.len() as f64 + 7.0;
    let height = chart.rows.iter().map(height_of).sum::<f64>() + 26.0;
    svg((WIDTH, height.ceil() as u32), &describe(chart), |canvas| {
        let right = f64::from(WIDTH) - FIGURE;
        let axis = Linear { ends: chart.ends, from: LEFT, to: right };
        axis.draw(canvas, chart.unit, height - 22.0);
        if let Some(mark) = chart.mark {
            canvas.path(&[(axis.place(mark), 0.0), (axis.place(mark), height - 22.0)], Ink::Model, 1.2, 1.0);
        }
        let mut top = 0.0;
        for row in &chart.rows {
            name(canvas, &row.name, top);
            for (number, bar) in row.bars.iter().enumerate() {
                let middle = top + NAME_HEIGHT + BAR * (number as f64 + 0.5);
                draw_bar(canvas, &axis, bar, middle);
                canvas.text(&bar.figure, (right + 6.0, middle), Align::Start, Ink::Text, TEXT, false);
            }
            top += height_of(row);
        }
    })
}

fn draw_bar(canvas: &mut Canvas<'_>, axis: &Linear, bar: &Bar, middle: f64) {
    let Some(value) = bar.value.filter(|value| value.is_finite()) else { return };
    let (from, to) = (axis.place(0.0), axis.place(value));
    let (above, below) = (middle - 3.8, middle + 3.8);
    let corners = [(from, above), (to, above), (to, below), (from, below), (from, above)];
    canvas.fill(&corners, Ink::Series(bar.series), if bar.interval.is_some() { 0.45 } else { 0.85 });
    if let Some([low, high]) = bar.interval {
        let (low, high) = (axis.place(low), axis.place(high));
        canvas.path(&[(low, middle), (high, middle)], Ink::Series(bar.series), 1.5, 1.0);
        for end in [low, high] {
            canvas.path(&[(end, middle - 3.0), (end, middle + 3.0)], Ink::Series(bar.series), 1.5, 1.0);
        }
    }
}

/// A box over the values of repeats.
#[derive(Debug, Clone, PartialEq)]
pub struct BoxRow {
    /// What stands above it.
    pub name: String,
    /// Least, first quartile, median, third quartile and most.
    pub quartiles: [f64; 5],
    /// Every value.
    pub values: Vec<f64>,
    /// What stands at its end.
    pub figure: String,
}

/// Boxes as an `<svg>`: quartiles, whiskers to the least and the most, and a dot a value.
pub fn box_chart(title: &str, unit: Unit, boxes: &[BoxRow]) -> String {
    const HEIGHT: f64 = 22.0;
    let height = boxes.len() as f64 * (NAME_HEIGHT + HEIGHT + 8.0) + 26.0;
    let all = || boxes.iter().flat_map(|one| one.quartiles);
    let most = all().fold(0.0, f64::max);
    let least = all().fold(most, f64::min);
    // From 0 it shows how little varies; from near the least it shows what does. The second is the question here.
    let ends = [(least - 0.08 * (most - least)).max(0.0), most + 0.04 * (most - least)];
    let words: Vec<String> = boxes
        .iter()
        .map(|one| {
            format!("{}: from {} to {}", one.name, unit.show(one.quartiles[0]), unit.show(one.quartiles[4]))
        })
        .collect();
    svg((WIDTH, height.ceil() as u32), &format!("{title}. {}.", words.join("; ")), |canvas| {
        let right = f64::from(WIDTH) - FIGURE;
        let axis = Linear { ends, from: LEFT, to: right };
        axis.draw(canvas, unit, height - 22.0);
        for (number, one) in boxes.iter().enumerate() {
            let top = number as f64 * (NAME_HEIGHT + HEIGHT + 8.0);
            name(canvas, &one.name, top);
            let middle = top + NAME_HEIGHT + HEIGHT / 2.0;
            let [least, first, median, third, most] = one.quartiles.map(|value| axis.place(value));
            let (above, below) = (middle - 8.0, middle + 8.0);
            let ink = Ink::Series(0);
            canvas.path(&[(least, middle), (most, middle)], ink, 1.0, 0.8);
            let corners = [(first, above), (third, above), (third, below), (first, below), (first, above)];
            canvas.fill(&corners, ink, BAND_OPACITY * 1.6);
            canvas.path(&corners, ink, 1.25, 1.0);
            canvas.path(&[(median, above), (median, below)], ink, 2.5, 1.0);
            for end in [least, most] {
                canvas.path(&[(end, middle - 4.0), (end, middle + 4.0)], ink, 1.25, 1.0);
            }
            for value in &one.values {
                canvas.marker(1, (axis.place(*value), below + 4.0), MARKER_RADIUS * 0.7);
            }
            canvas.text(&one.figure, (right + 6.0, middle), Align::Start, Ink::Text, TEXT, true);
        }
    })
}

fn name(canvas: &mut Canvas<'_>, name: &str, top: f64) {
    let fits = ((f64::from(WIDTH) - LEFT) / (TEXT * ADVANCE)) as usize;
    let text = if name.chars().count() > fits {
        format!("{}…", name.chars().take(fits - 1).collect::<String>())
    } else {
        name.to_owned()
    };
    canvas.text(&text, (LEFT, top + NAME_HEIGHT / 2.0 + 2.0), Align::Start, Ink::Text, TEXT, false);
}

/// A linear axis along the bottom.
struct Linear {
    ends: [f64; 2],
    from: f64,
    to: f64,
}

impl Linear {
    fn place(&self, value: f64) -> f64 {
        let [low, high] = self.ends;
        let share = if high > low { (value - low) / (high - low) } else { 0.5 };
        self.from + if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 } * (self.to - self.from)
    }

    fn draw(&self, canvas: &mut Canvas<'_>, unit: Unit, bottom: f64) {
        let [low, high] = self.ends;
        let least = (high - low) / 5.0;
        let power = 10f64.powf(least.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|step| *step >= least * 0.999);
        let Some(step) = step.filter(|step| step.is_finite() && *step > 0.0) else { return };
        let first = (low / step).ceil();
        for number in 0..8 {
            let tick = (first + f64::from(number)) * step;
            if tick > high {
                break;
            }
            let at = self.place(tick);
            canvas.path(&[(at, 0.0), (at, bottom)], Ink::Grid, 1.0, 1.0);
            let text = if unit == Unit::Times { number_short(tick) } else { unit.tick(tick) };
            // Centred on the tick, but not beyond the edge.
            let half = text.chars().count() as f64 * TEXT * ADVANCE / 2.0;
            canvas.text(&text, (at.max(half + 1.0), bottom + 12.0), Align::Middle, Ink::Text, TEXT, false);
        }
        canvas.path(&[(self.from, bottom), (self.to, bottom)], Ink::Axis, 1.0, 1.0);
    }
}

/// The chart in words: its rows' first values.
fn describe(chart: &RowChart) -> String {
    let rows: Vec<String> = chart
        .rows
        .iter()
        .take(30)
        .map(|row| {
            let figures: Vec<&str> = row.bars.iter().map(|bar| bar.figure.as_str()).collect();
            format!("{}: {}", row.name, figures.join(", "))
        })
        .collect();
    format!("{}. {}.", chart.title, rows.join("; "))
}
