//! Strokes, shapes and text on an SVG, in units of about one CSS pixel; the drawing library works in whole
//! pixels, so everything is drawn [`SCALE`] times as large and the view box shrinks it back.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::palette::{Ink, Marker, name_colours};

const SCALE: f64 = 4.0;
/// How large a marker is.
pub(crate) const MARKER_RADIUS: f64 = 3.1;
/// How strong the bars of an interval are.
pub(crate) const BAR_OPACITY: f64 = 0.6;
/// How strong a band is.
pub(crate) const BAND_OPACITY: f64 = 0.16;

/// The SVG backend divides font sizes by this.
const FONT_FACTOR: f64 = 1.24;

/// Where a text lies relative to its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// Begins there.
    Start,
    /// Is centred there.
    Middle,
    /// Ends there.
    End,
}

/// A point in units from the upper left corner.
pub(crate) type At = (f64, f64);

/// An SVG being drawn.
pub(crate) struct Canvas<'svg> {
    area: DrawingArea<SVGBackend<'svg>, Shift>,
}

fn pixels((x, y): At) -> (i32, i32) {
    ((x * SCALE).round() as i32, (y * SCALE).round() as i32)
}

fn stroke(ink: Ink, width: f64, opacity: f64) -> ShapeStyle {
    ink.sentinel().mix(opacity).stroke_width((width * SCALE).round().max(1.0) as u32)
}

/// The view box of a drawing of this size, and the elements that `draw` makes. Drawing into a string cannot
/// fail; were it to, the elements so far are what there is.
pub(crate) fn elements(size: (u32, u32), draw: impl FnOnce(&mut Canvas<'_>)) -> (String, String) {
    let size = (size.0 * SCALE as u32, size.1 * SCALE as u32);
    let mut svg = String::new();
    {
        let mut canvas = Canvas { area: SVGBackend::with_string(&mut svg, size).into_drawing_area() };
        draw(&mut canvas);
        canvas.keep(|area| area.present());
    }
    let inner = svg.split_once('>').map_or("", |(_, rest)| rest);
    let inner = inner.rsplit_once("</svg>").map_or(inner, |(inner, _)| inner);
    (format!("0 0 {} {}", size.0, size.1), name_colours(&inner.trim().replace(" opacity=\"1\"", "")))
}

impl<'svg> Canvas<'svg> {
    fn keep<E>(&mut self, draw: impl FnOnce(&DrawingArea<SVGBackend<'svg>, Shift>) -> Result<(), E>) {
        // Only the writer behind the backend can fail, and it is a string.
        let _ = draw(&self.area);
    }

    /// A stroke through the points.
    pub(crate) fn path(&mut self, points: &[At], ink: Ink, width: f64, opacity: f64) {
        let points: Vec<_> = points.iter().copied().map(pixels).collect();
        if points.len() > 1 {
            self.keep(|area| area.draw(&PathElement::new(points, stroke(ink, width, opacity))));
        }
    }

    /// A filled shape.
    pub(crate) fn fill(&mut self, corners: &[At], ink: Ink, opacity: f64) {
        let corners: Vec<_> = corners.iter().copied().map(pixels).collect();
        if corners.len() > 2 {
            self.keep(|area| area.draw(&Polygon::new(corners, ink.sentinel().mix(opacity))));
        }
    }

    /// A text in one line, its middle at the height of the point.
    pub(crate) fn text(&mut self, text: &str, at: At, align: Align, ink: Ink, size: f64, bold: bool) {
        let across = match align {
            Align::Start => HPos::Left,
            Align::Middle => HPos::Center,
            Align::End => HPos::Right,
        };
        let weight = if bold { FontStyle::Bold } else { FontStyle::Normal };
        let colour = ink.sentinel();
        let style = TextStyle::from(("sans-serif", size * SCALE * FONT_FACTOR, weight))
            .color(&colour)
            .pos(Pos::new(across, VPos::Center));
        self.keep(|area| area.draw(&Text::new(text.to_owned(), pixels(at), style)));
    }

    /// The marker of a series, with a rim in the colour of the card so that it stands off its own line.
    pub(crate) fn marker(&mut self, series: usize, at: At, radius: f64) {
        let shape = Marker::of(series);
        self.shape(shape, at, radius + 1.2, Ink::Card);
        self.shape(shape, at, radius, Ink::Series(series));
    }

    /// The marker of a series without a rim: for so many that they overlap.
    pub(crate) fn dot(&mut self, series: usize, at: At, radius: f64) {
        self.shape(Marker::of(series), at, radius, Ink::Series(series));
    }

    /// A ring around a point.
    pub(crate) fn ring(&mut self, at: At, radius: f64, ink: Ink) {
        let circle = Circle::new(pixels(at), (radius * SCALE).round() as i32, stroke(ink, 1.25, 1.0));
        self.keep(|area| area.draw(&circle));
    }

    fn shape(&mut self, shape: Marker, (x, y): At, radius: f64, ink: Ink) {
        let around = |corners: &[(f64, f64)]| -> Vec<At> {
            corners.iter().map(|(dx, dy)| (x + dx * radius, y + dy * radius)).collect()
        };
        let corners = match shape {
            Marker::Circle => {
                let radius = (radius * SCALE).round() as i32;
                let circle = Circle::new(pixels((x, y)), radius, ink.sentinel().filled());
                return self.keep(|area| area.draw(&circle));
            }
            Marker::Square => around(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
            Marker::Up => around(&[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)]),
            Marker::Down => around(&[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)]),
            Marker::Diamond => around(&[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)]),
            Marker::Cross => around(&[
                (-1.2, -0.4),
                (-0.4, -0.4),
                (-0.4, -1.2),
                (0.4, -1.2),
                (0.4, -0.4),
                (1.2, -0.4),
                (1.2, 0.4),
                (0.4, 0.4),
                (0.4, 1.2),
                (-0.4, 1.2),
                (-0.4, 0.4),
                (-1.2, 0.4),
            ]),
        };
        self.fill(&corners, ink, 1.0);
    }
}

/// A ring that sets a marker off from the others.
pub(crate) fn ring(canvas: &mut Canvas<'_>, (x, y): At, radius: f64, ink: Ink) {
    let corner = |step: u32| {
        let (sine, cosine) = (f64::from(step) * std::f64::consts::TAU / 32.0).sin_cos();
        (x + radius * cosine, y + radius * sine)
    };
    canvas.path(&(0..=32).map(corner).collect::<Vec<_>>(), ink, 1.5, 1.0);
}
