//! A continuous line of three pieces on logarithmic axes: flat, then rising by a slope of its own, then
//! rising by one.

use super::robust::huber_weight;

/// The slopes of a middle piece: one closer to an outer piece's slope is that piece.
const SLOPES: [f64; 2] = [0.1, 0.9];

/// More than the reweighting needs to settle well below the noise.
const MAX_ITERATIONS: usize = 30;

/// A point on logarithmic axes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LogPoint {
    /// log2 of the size.
    pub(super) size: f64,
    /// log2 of the latency.
    pub(super) latency: f64,
}

/// Where one piece ends and the next begins, in log2 of size: first break, second break, ascending. Equal
/// breaks leave no middle piece.
pub(super) type Breaks = [f64; 2];

/// log2 latency over log2 size in three pieces.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct BrokenLine {
    /// Where it bends.
    pub(super) breaks: Breaks,
    /// log2 latency of the flat piece.
    pub(super) level: f64,
    /// Slope of the middle piece.
    pub(super) slope: f64,
}

impl BrokenLine {
    /// log2 of the measured latency over the line's.
    pub(super) fn residual(&self, point: LogPoint) -> f64 {
        let (middle, last) = rises(self.breaks, point.size);
        point.latency - self.level - self.slope * middle - last
    }

    /// The line of least Huber loss (Huber 1964, "Robust estimation of a location parameter") with the breaks
    /// of `start`, by reweighted least squares from there; residuals are in units of `scale`.
    pub(super) fn settle(points: &[LogPoint], start: Self, scale: f64) -> Self {
        let mut line = start;
        for _ in 0..MAX_ITERATIONS {
            let next = line.reweighted(points, scale);
            let moved = (next.level - line.level).abs().max((next.slope - line.slope).abs());
            line = next;
            if moved < 1e-3 * scale {
                break;
            }
        }
        line
    }

    fn reweighted(self, points: &[LogPoint], scale: f64) -> Self {
        let (mut w, mut wm, mut wmm, mut wy, mut wmy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for &point in points {
            let weight = huber_weight(self.residual(point) / scale);
            let (middle, last) = rises(self.breaks, point.size);
            let y = point.latency - last;
            w += weight;
            wm += weight * middle;
            wmm += weight * middle * middle;
            wy += weight * y;
            wmy += weight * middle * y;
        }
        let determinant = w * wmm - wm * wm;
        // Without a point past the first break the slope has no say, and stays as it is.
        let slope = if determinant > 1e-9 * w * w { (w * wmy - wm * wy) / determinant } else { self.slope };
        let slope = slope.clamp(SLOPES[0], SLOPES[1]);
        Self { level: (wy - slope * wm) / w, slope, ..self }
    }
}

/// How far the middle piece has run, and how far the last, at `size`.
fn rises([first, second]: Breaks, size: f64) -> (f64, f64) {
    ((size - first).clamp(0.0, second - first), (size - second).max(0.0))
}
