//! One chart: its axes, and the layers that are laid over each other.

use crate::probe::curve;
use crate::probe::report::{PhaseRange, ProbeReport};
use crate::report::format;

use super::figure::{Dot, Figure, dots};
use crate::report::charts::axes::{self, Axis, shown};
use crate::report::charts::canvas::{Align, At, BAND_OPACITY, BAR_OPACITY, Canvas, MARKER_RADIUS, ring};
use crate::report::charts::palette::Ink;

const TEXT: f64 = 12.5;
const SMALL: f64 = 11.5;
/// About the advance of a character relative to the size of the text, for deciding what fits.
const ADVANCE: f64 = 0.54;

/// A chart being drawn, layer by layer.
pub(super) struct Plot<'canvas, 'svg> {
    canvas: &'canvas mut Canvas<'svg>,
    figure: Figure,
    sizes: Vec<u64>,
    across: Axis,
    up: Axis,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl<'canvas, 'svg> Plot<'canvas, 'svg> {
    /// Axes that all the reports share, with room above for the names of phases where asked for.
    pub(super) fn new(
        canvas: &'canvas mut Canvas<'svg>,
        size: (u32, u32),
        figure: Figure,
        reports: &[&ProbeReport],
        phases: bool,
    ) -> Self {
        let (top, bottom) = (if phases { 38.0 } else { 10.0 }, f64::from(size.1) - 44.0);
        let dots: Vec<Dot> = reports.iter().flat_map(|report| dots(report, figure)).collect();
        let mut sizes: Vec<u64> = dots.iter().map(|dot| dot.buffer_bytes as u64).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let up = Axis::covering(dots.iter().flat_map(Dot::extent), 0.7, 0.06, (bottom, top));
        let widest = up.ticks().into_iter().map(|tick| figure.tick(tick).chars().count()).max();
        let left = (14.0 + widest.unwrap_or(0) as f64 * TEXT * ADVANCE * 1.06).max(44.0);
        let right = f64::from(size.0) - 10.0;
        let across = sizes.iter().map(|&size| size as f64);
        Self {
            canvas,
            figure,
            across: Axis::covering(across, 0.6, 0.035, (left, right)),
            up,
            sizes,
            left,
            right,
            top,
            bottom,
        }
    }

    /// Grid, axes and their labels.
    pub(super) fn grid(&mut self) {
        let (left, right, top, bottom) = (self.left, self.right, self.top, self.bottom);
        for tick in self.up.ticks() {
            let at = self.up.place(tick);
            self.canvas.path(&[(left, at), (right, at)], Ink::Grid, 1.0, 1.0);
            let label = self.figure.tick(tick);
            self.canvas.text(&label, (left - 8.0, at), Align::End, Ink::Text, TEXT, false);
        }
        for tick in self.up.minor_ticks() {
            let at = self.up.place(tick);
            self.canvas.path(&[(left - 3.0, at), (left, at)], Ink::Axis, 0.75, 1.0);
        }
        let places: Vec<f64> = self.sizes.iter().map(|&size| self.across.place(size as f64)).collect();
        let labelled = axes::labelled(&places, 37.0);
        for ((&size, &at), &labelled) in self.sizes.iter().zip(&places).zip(&labelled) {
            let length = if labelled { 5.0 } else { 3.0 };
            self.canvas.path(&[(at, bottom), (at, bottom + length)], Ink::Axis, 1.0, 1.0);
            if labelled {
                let label = format::bytes_short(size);
                self.canvas.text(&label, (at, bottom + 14.0), Align::Middle, Ink::Text, TEXT, false);
            }
        }
        self.canvas.path(&[(left, top), (left, bottom), (right, bottom)], Ink::Axis, 1.0, 1.0);
        let middle = f64::midpoint(left, right);
        let (caption, height) =
            if self.sizes.is_empty() { ("no figures", top + 80.0) } else { ("buffer size", bottom + 34.0) };
        self.canvas.text(caption, (middle, height), Align::Middle, Ink::Text, TEXT, false);
    }

    /// The phases that are shown, shaded and named above the chart.
    pub(super) fn phases(&mut self, report: &ProbeReport) {
        let Some(phases) = curve::shown_phases(report) else { return };
        let each = [
            (phases.constant_latency, "I", ["constant", "latency"]),
            (phases.both_grow, "II", ["both", "grow"]),
            (phases.constant_throughput, "III", ["constant", "throughput"]),
        ];
        let present: Vec<_> = (0u8..)
            .zip(each)
            .filter_map(|(which, (range, number, words))| {
                range.filter(valid).map(|range| (which, range, number, words))
            })
            .collect();
        for (which, range, number, words) in present {
            // Phases end at measured sizes, and the shades half-way to the next: sizes of no phase have none. The
            // outermost reach the edges, as nothing says that a phase ends with the sizes measured.
            let half_way =
                |size: u64, end: f64| f64::midpoint(self.across.place(size as f64), self.across.place(end));
            let before = self.sizes.iter().rev().find(|&&size| (size as f64) < range.from_bytes);
            let after = self.sizes.iter().find(|&&size| size as f64 > range.to_bytes);
            let from = before.map_or(self.left, |&size| half_way(size, range.from_bytes));
            let to = after.map_or(self.right, |&size| half_way(size, range.to_bytes));
            let top = self.top - 30.0;
            let corners = [(from, top), (to, top), (to, self.bottom), (from, self.bottom)];
            self.canvas.fill(&corners, Ink::Phase(which), 1.0);
            let middle = f64::midpoint(from, to);
            let widest = words.iter().map(|word| word.len()).max().unwrap_or(0) as f64 * SMALL * ADVANCE;
            if to - from > widest + 4.0 {
                for (word, down) in words.into_iter().zip([9.0, 21.0]) {
                    let at = (middle, top + down);
                    self.canvas.text(word, at, Align::Middle, Ink::Text, SMALL, false);
                }
            } else if to - from > 6.0 {
                self.canvas.text(number, (middle, top + 15.0), Align::Middle, Ink::Text, SMALL, true);
            }
        }
    }

    /// The band from median to 99th percentile, broken where either is missing.
    pub(super) fn band(&mut self, report: &ProbeReport) {
        let dots = dots(report, self.figure);
        for stretch in dots.split(|dot| dot.band.is_none()) {
            let side = |end: usize| {
                let at =
                    |dot: &Dot| Some((self.across.place(dot.buffer_bytes), self.up.place(dot.band?[end])));
                stretch.iter().filter_map(at).collect::<Vec<_>>()
            };
            let (low, mut high) = (side(0), side(1));
            if let ([(x, low)], [(_, high)]) = (&low[..], &high[..]) {
                let corners = [(x - 4.0, *low), (x + 4.0, *low), (x + 4.0, *high), (x - 4.0, *high)];
                self.canvas.fill(&corners, Ink::Series(0), BAND_OPACITY);
                continue;
            }
            high.reverse();
            self.canvas.fill(&[low, high].concat(), Ink::Series(0), BAND_OPACITY);
        }
    }

    /// The fitted line over the sizes measured.
    pub(super) fn model(&mut self, report: &ProbeReport) {
        let Some(model) = &report.model else { return };
        let (Some(&first), Some(&last)) = (self.sizes.first(), self.sizes.last()) else {
            return;
        };
        let steps = axes::steps(first as f64, last as f64, 96);
        let modelled =
            steps.into_iter().map(|size| (size, self.figure.modelled(model, report.writers, size)));
        let line: Vec<_> = modelled
            .filter(|&(_, value)| self.up.contains(value))
            .map(|(size, value)| (self.across.place(size), self.up.place(value)))
            .collect();
        self.canvas.path(&line, Ink::Model, 1.5, 1.0);
    }

    /// The recommended buffer as a line with its size.
    pub(super) fn recommendation(&mut self, report: &ProbeReport) {
        let Some(size) = report.recommendation.as_ref().and_then(|chosen| chosen.buffer_bytes) else {
            return;
        };
        if !self.across.contains(size as f64) {
            return;
        }
        let at = self.across.place(size as f64);
        self.canvas.path(&[(at, self.top), (at, self.bottom)], Ink::Mark, 1.5, 1.0);
        let label = format!("use {}", format::bytes(size));
        // To the right, where the curves leave room at the foot of the chart, unless it would not fit.
        let fits = at + 6.0 + label.len() as f64 * TEXT * ADVANCE < self.right;
        let (beside, align) = if fits { (6.0, Align::Start) } else { (-6.0, Align::End) };
        self.canvas.text(&label, (at + beside, self.bottom - 12.0), align, Ink::Mark, TEXT, true);
    }

    /// The recommended buffer as a ring around the figure at that size.
    pub(super) fn recommended_peak(&mut self, report: &ProbeReport, series: usize) {
        let Some(size) = report.recommendation.as_ref().and_then(|chosen| chosen.buffer_bytes) else {
            return;
        };
        for dot in dots(report, self.figure).iter().filter(|dot| dot.buffer_bytes as u64 == size) {
            let at = (self.across.place(dot.buffer_bytes), self.up.place(dot.value));
            ring(self.canvas, at, 8.0, Ink::Series(series));
        }
    }

    /// The 95 % interval of each figure.
    pub(super) fn bars(&mut self, report: &ProbeReport, series: usize) {
        let ink = Ink::Series(series);
        for dot in dots(report, self.figure) {
            let Some([low, high]) = dot.ci95 else { continue };
            let x = self.across.place(dot.buffer_bytes);
            let (foot, head) = (self.up.place(low), self.up.place(high));
            let cap = |end: f64, y: f64| {
                // An end without a cap runs off the chart.
                if self.up.contains(end) { vec![(x - 4.5, y), (x + 4.5, y)] } else { Vec::new() }
            };
            let bar = [cap(low, foot), vec![(x, foot), (x, head)], cap(high, head)].concat();
            self.canvas.path(&bar, ink, 1.25, BAR_OPACITY);
        }
    }

    /// The line through the measured figures.
    pub(super) fn line(&mut self, report: &ProbeReport, series: usize, opacity: f64) {
        let places = self.places(report);
        self.canvas.path(&places, Ink::Series(series), 1.75, opacity);
    }

    /// A marker at each measured figure.
    pub(super) fn markers(&mut self, report: &ProbeReport, series: usize) {
        for at in self.places(report) {
            self.canvas.marker(series, at, MARKER_RADIUS);
        }
    }

    fn places(&self, report: &ProbeReport) -> Vec<At> {
        let place = |dot: &Dot| (self.across.place(dot.buffer_bytes), self.up.place(dot.value));
        dots(report, self.figure).iter().map(place).collect()
    }
}

fn valid(range: &PhaseRange) -> bool {
    shown(range.from_bytes) && shown(range.to_bytes) && range.from_bytes <= range.to_bytes
}
