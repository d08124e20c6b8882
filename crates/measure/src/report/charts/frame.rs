//! The axes of a chart with their grid, ticks and names, for whatever is drawn in between.

use crate::report::{Scale, Unit};

use super::axes::labelled;
use super::canvas::{Align, At, Canvas};
use super::palette::Ink;
use super::scale::ScaledAxis;

pub(crate) const TEXT: f64 = 12.5;
/// About the advance of a character relative to the size of the text.
pub(crate) const ADVANCE: f64 = 0.56;

/// What lies along an axis.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Along<'a> {
    pub(crate) name: &'a str,
    pub(crate) unit: Unit,
    pub(crate) scale: Scale,
}

/// Axes over a range of the canvas.
pub(crate) struct Frame {
    across: ScaledAxis,
    up: ScaledAxis,
    pub(crate) left: f64,
    pub(crate) right: f64,
    bottom: f64,
}

impl Frame {
    /// Draws axes that cover the values.
    pub(crate) fn draw(
        canvas: &mut Canvas<'_>,
        size: (u32, u32),
        (x, xs): (Along<'_>, impl Iterator<Item = f64> + Clone),
        (y, ys): (Along<'_>, impl Iterator<Item = f64> + Clone),
    ) -> Self {
        let (top, bottom, right) = (28.0, f64::from(size.1) - 44.0, f64::from(size.0) - 12.0);
        let up = ScaledAxis::covering(y.scale, y.unit == Unit::Bytes, ys, (bottom, top));
        let widest = up.ticks().into_iter().map(|tick| y.unit.tick(tick).chars().count()).max();
        let left = (14.0 + widest.unwrap_or(0) as f64 * TEXT * ADVANCE).max(44.0);
        let across = ScaledAxis::covering(x.scale, x.unit == Unit::Bytes, xs, (left, right));
        let frame = Self { across, up, left, right, bottom };
        frame.up_ticks(canvas, y);
        frame.across_ticks(canvas, x, f64::from(size.0));
        canvas.path(&[(left, top), (left, bottom), (right, bottom)], Ink::Axis, 1.0, 1.0);
        canvas.text(
            x.name,
            (f64::midpoint(left, right), bottom + 34.0),
            Align::Middle,
            Ink::Text,
            TEXT,
            false,
        );
        canvas.text(y.name, (4.0, 10.0), Align::Start, Ink::Text, TEXT, false);
        frame
    }

    fn up_ticks(&self, canvas: &mut Canvas<'_>, y: Along<'_>) {
        for tick in self.up.ticks() {
            let at = self.up.place(tick);
            canvas.path(&[(self.left, at), (self.right, at)], Ink::Grid, 1.0, 1.0);
            canvas.text(&y.unit.tick(tick), (self.left - 8.0, at), Align::End, Ink::Text, TEXT, false);
        }
        for tick in self.up.minor_ticks() {
            let at = self.up.place(tick);
            canvas.path(&[(self.left - 3.0, at), (self.left, at)], Ink::Axis, 0.75, 1.0);
        }
    }

    fn across_ticks(&self, canvas: &mut Canvas<'_>, x: Along<'_>, width: f64) {
        let ticks = self.across.ticks();
        let places: Vec<f64> = ticks.iter().map(|&tick| self.across.place(tick)).collect();
        let bottom = self.bottom;
        for ((&tick, &at), &has_room) in ticks.iter().zip(&places).zip(&labelled(&places, 40.0)) {
            let length = if has_room { 5.0 } else { 3.0 };
            canvas.path(&[(at, bottom), (at, bottom + length)], Ink::Axis, 1.0, 1.0);
            if has_room {
                let text = x.unit.tick(tick);
                // Centred on the tick, but not beyond the edge.
                let half = text.chars().count() as f64 * TEXT * ADVANCE / 2.0;
                let at = at.min(width - half - 1.0);
                canvas.text(&text, (at, bottom + 14.0), Align::Middle, Ink::Text, TEXT, false);
            }
        }
        for tick in self.across.minor_ticks() {
            let at = self.across.place(tick);
            canvas.path(&[(at, bottom), (at, bottom + 3.0)], Ink::Axis, 0.75, 1.0);
        }
    }

    /// Where a point lies, if it has a place.
    pub(crate) fn at(&self, (x, y): (f64, f64)) -> Option<At> {
        (self.across.shows(x) && self.up.shows(y)).then(|| (self.across.place(x), self.up.place(y)))
    }
}
