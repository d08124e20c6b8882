//! The line latency = l + x/B: a fixed cost of each synchronous write, and a bandwidth.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::robust::{bisquare_weight, scale};
use super::{all_positive, distinct_sizes};

/// The line latency = l + x/B through the points' mean latencies.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Model {
    /// l: what a synchronous write costs however little it carries.
    pub fixed_latency_s: f64,
    /// B: what the stack moves once the fixed cost is spread thin.
    pub bandwidth_bytes_per_s: f64,
    /// l times B: the buffer at which throughput over latency peaks.
    pub optimum_bytes: f64,
    /// Share of the variance of log latency that the line explains.
    pub r2: f64,
    /// Where l of a typical run lies, at the level of the page; `null` in older documents, as all intervals here.
    #[serde(default)]
    pub fixed_latency_interval_s: Option<[f64; 2]>,
    /// Where B of a typical run lies.
    #[serde(default)]
    pub bandwidth_interval_bytes_per_s: Option<[f64; 2]>,
    /// Where l times B lies.
    #[serde(default)]
    pub optimum_interval_bytes: Option<[f64; 2]>,
    /// By which share the latency of a typical run lies off the line, where it does most. The intervals are as much wider.
    #[serde(default)]
    pub residual_max: Option<f64>,
}

/// A share of the points that may be grossly wrong without a say in the start of the fit.
const TRIMMED_SHARE: usize = 3;

/// How many standard errors a parameter must lie above zero to be reported.
const VISIBLE_ERRORS: f64 = 2.0;

/// Relative residuals below which the points count as exactly on the line.
const ROUNDING: f64 = 1e-12;

/// More than the reweighting has been seen to need.
const MAX_ITERATIONS: usize = 100;

/// Fits latency = l + x/B to `points`, each (bytes, latency in seconds), by relative residuals, so that each
/// point counts alike over all magnitudes.
///
/// An MM-type fit (Yohai 1987, "High breakdown-point and high efficiency robust estimates for regression"):
/// the start minimises the sum of absolute residuals less the largest third, for which it is enough to try
/// the lines through two points each (Hawkins & Olive 1999, "Applications and algorithms for least trimmed
/// sum of absolute deviations regression"); its residuals give the scale; and least squares, reweighted by
/// Tukey's bisquare, refine it. Where that leads out of l > 0, B > 0, or the start is already exact, the
/// start stands.
///
/// `r2` is of the logarithm of latency over all points, the outlying ones too, and so is negative where a
/// constant would do better.
///
/// `None` for fewer than three different sizes, for a size or latency that is not positive and finite, and
/// where the points do not show both parameters: latency that does not grow leaves B infinite, latency
/// proportional to size leaves l zero. A parameter shows if it lies two standard errors above zero.
#[must_use]
pub fn fit_model(points: &[(f64, f64)]) -> Option<Model> {
    if !all_positive(points) || distinct_sizes(points) < 3 {
        return None;
    }
    let start = least_trimmed(points).filter(Line::rises)?;
    let scale = scale(points.iter().map(|&point| start.residual(point)), 2);
    let line = if scale > ROUNDING { refine(points, start, scale) } else { start };
    if !line.is_visible(points, scale.max(ROUNDING)) {
        return None;
    }
    let bandwidth_bytes_per_s = 1.0 / line.seconds_per_byte;
    let model = Model {
        fixed_latency_s: line.fixed_s,
        bandwidth_bytes_per_s,
        optimum_bytes: line.fixed_s * bandwidth_bytes_per_s,
        r2: r2(points, line)?,
        fixed_latency_interval_s: None,
        bandwidth_interval_bytes_per_s: None,
        optimum_interval_bytes: None,
        residual_max: None,
    };
    let figures = [model.bandwidth_bytes_per_s, model.optimum_bytes, model.r2];
    figures.iter().all(|figure| figure.is_finite()).then_some(model)
}

/// latency = l + x/B, by the parameters in which it is linear.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Line {
    fixed_s: f64,
    seconds_per_byte: f64,
}

impl Line {
    fn at(&self, bytes: f64) -> f64 {
        self.fixed_s + bytes * self.seconds_per_byte
    }

    /// The share of the measured latency that the line leaves unexplained.
    fn residual(&self, (bytes, latency_s): (f64, f64)) -> f64 {
        1.0 - self.at(bytes) / latency_s
    }

    /// Whether l > 0 and B > 0, both finite.
    fn rises(&self) -> bool {
        let positive = |figure: f64| figure > 0.0 && figure.is_finite();
        positive(self.fixed_s) && positive(self.seconds_per_byte)
    }

    /// Whether both parameters lie clearly above zero, given the scale of the relative residuals.
    fn is_visible(&self, points: &[(f64, f64)], scale: f64) -> bool {
        NormalEquations::of(points, |point| bisquare_weight(self.residual(point) / scale))
            .errors()
            .is_some_and(|[fixed, per_byte]| {
                self.fixed_s > VISIBLE_ERRORS * scale * fixed
                    && self.seconds_per_byte > VISIBLE_ERRORS * scale * per_byte
            })
    }
}

/// The line with the least sum of absolute relative residuals, the largest third of them left out.
///
/// Lines without a fixed cost and lines that do not rise take part, so that a curve that is nothing else is
/// recognised as such.
fn least_trimmed(points: &[(f64, f64)]) -> Option<Line> {
    let counted = (points.len() - points.len() / TRIMMED_SHARE).max(3);
    let through_two = points.iter().enumerate().flat_map(|(i, &a)| {
        points.iter().skip(i + 1).map(move |&b| {
            let seconds_per_byte = (b.1 - a.1) / (b.0 - a.0);
            Line { fixed_s: a.1 - seconds_per_byte * a.0, seconds_per_byte }
        })
    });
    let flat = points.iter().map(|&(_, latency_s)| Line { fixed_s: latency_s, seconds_per_byte: 0.0 });
    let proportional =
        points.iter().map(|&(bytes, latency_s)| Line { fixed_s: 0.0, seconds_per_byte: latency_s / bytes });
    let mut sizes = Vec::with_capacity(points.len());
    let mut cost = |line: &Line| {
        sizes.clear();
        sizes.extend(points.iter().map(|&point| line.residual(point).abs()));
        sizes.sort_by(f64::total_cmp);
        sizes.iter().take(counted).sum::<f64>()
    };
    flat.chain(proportional)
        .chain(through_two.filter(Line::rises))
        .map(|line| (cost(&line), line))
        .min_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, line)| line)
}

/// Reweighted least squares of the relative residuals from `start` until they settle.
fn refine(points: &[(f64, f64)], start: Line, scale: f64) -> Line {
    const SETTLED: f64 = 1e-10;
    let mut line = start;
    for _ in 0..MAX_ITERATIONS {
        let weights = |point| bisquare_weight(line.residual(point) / scale);
        let Some(next) = NormalEquations::of(points, weights).solution().filter(Line::rises) else {
            return start;
        };
        let moved = (next.fixed_s / line.fixed_s - 1.0).abs()
            + (next.seconds_per_byte / line.seconds_per_byte - 1.0).abs();
        line = next;
        if moved < SETTLED {
            break;
        }
    }
    line
}

/// The normal equations of weighted least squares of the relative residuals: of 1 on 1/y and x/y.
///
/// Sizes and latencies come in units of the largest of each, which keeps the sums in range.
#[derive(Debug, Clone, Copy)]
struct NormalEquations {
    bytes: f64,
    seconds: f64,
    fixed_fixed: f64,
    fixed_slope: f64,
    slope_slope: f64,
    fixed_one: f64,
    slope_one: f64,
}

impl NormalEquations {
    fn of(points: &[(f64, f64)], weight: impl Fn((f64, f64)) -> f64) -> Self {
        let bytes = points.iter().map(|&(bytes, _)| bytes).fold(0.0, f64::max);
        let seconds = points.iter().map(|&(_, seconds)| seconds).fold(0.0, f64::max);
        let mut sums = Self {
            bytes,
            seconds,
            fixed_fixed: 0.0,
            fixed_slope: 0.0,
            slope_slope: 0.0,
            fixed_one: 0.0,
            slope_one: 0.0,
        };
        for &(x, y) in points {
            let w = weight((x, y));
            let (fixed, slope) = (seconds / y, (x / bytes) * (seconds / y));
            sums.fixed_fixed += w * fixed * fixed;
            sums.fixed_slope += w * fixed * slope;
            sums.slope_slope += w * slope * slope;
            sums.fixed_one += w * fixed;
            sums.slope_one += w * slope;
        }
        sums
    }

    fn determinant(&self) -> Option<f64> {
        let determinant = self.fixed_fixed * self.slope_slope - self.fixed_slope * self.fixed_slope;
        (determinant > 0.0 && determinant.is_finite()).then_some(determinant)
    }

    fn solution(&self) -> Option<Line> {
        let determinant = self.determinant()?;
        let fixed = self.slope_slope * self.fixed_one - self.fixed_slope * self.slope_one;
        let slope = self.fixed_fixed * self.slope_one - self.fixed_slope * self.fixed_one;
        Some(Line {
            fixed_s: fixed / determinant * self.seconds,
            seconds_per_byte: slope / determinant * (self.seconds / self.bytes),
        })
    }

    /// Standard errors of l and 1/B, for residuals of scale 1.
    fn errors(&self) -> Option<[f64; 2]> {
        let determinant = self.determinant()?;
        Some([
            (self.slope_slope / determinant).sqrt() * self.seconds,
            (self.fixed_fixed / determinant).sqrt() * (self.seconds / self.bytes),
        ])
    }
}

/// Share of the variance of log latency that `line` explains; `None` where there is no variance.
fn r2(points: &[(f64, f64)], line: Line) -> Option<f64> {
    let logs = || points.iter().map(|&(_, latency_s)| latency_s.ln());
    let mean = logs().sum::<f64>() / points.len() as f64;
    let total: f64 = logs().map(|log| (log - mean).powi(2)).sum();
    let unexplained: f64 =
        points.iter().map(|&(bytes, latency_s)| (latency_s / line.at(bytes)).ln().powi(2)).sum();
    (total > 0.0).then(|| 1.0 - unexplained / total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 4 KiB to 16 MiB by doublings: 13 sizes.
    fn sizes() -> impl Iterator<Item = f64> {
        (12..=24).map(|exponent| f64::from(exponent).exp2())
    }

    fn curve(fixed_s: f64, bandwidth: f64) -> Vec<(f64, f64)> {
        sizes().map(|bytes| (bytes, fixed_s + bytes / bandwidth)).collect()
    }

    fn assert_recovered(points: &[(f64, f64)], fixed_s: f64, bandwidth: f64, tolerance: f64) -> Model {
        let model = fit_model(points).unwrap();
        let off = |found: f64, truth: f64| (found / truth - 1.0).abs();
        assert!(off(model.fixed_latency_s, fixed_s) < tolerance, "l is {fixed_s}: {model:?}");
        assert!(off(model.bandwidth_bytes_per_s, bandwidth) < tolerance, "B is {bandwidth}: {model:?}");
        let product = model.fixed_latency_s * model.bandwidth_bytes_per_s;
        assert!(off(model.optimum_bytes, product) < 1e-12);
        model
    }

    #[test]
    fn a_perfect_curve_gives_back_what_made_it() {
        let model = assert_recovered(&curve(2e-3, 150e6), 2e-3, 150e6, 1e-9);
        assert!((model.r2 - 1.0).abs() < 1e-12);
    }

    #[test]
    fn three_sizes_are_enough_and_two_are_not() {
        let points: Vec<_> = curve(1e-3, 1e9).into_iter().step_by(6).collect();
        assert_recovered(&points, 1e-3, 1e9, 1e-9);
        assert_eq!(fit_model(&points[..2]), None);
        assert_eq!(fit_model(&[points[0], points[1], points[1], points[0]]), None);
        assert_eq!(fit_model(&[]), None);
    }

    #[test]
    fn every_three_of_thirteen_points_may_be_five_times_too_slow() {
        let (fixed_s, bandwidth) = (1e-3, 256e6);
        for a in 0..13 {
            for b in a + 1..13 {
                for c in b + 1..13 {
                    let mut points = curve(fixed_s, bandwidth);
                    for outlier in [a, b, c] {
                        points[outlier].1 *= 5.0;
                    }
                    assert_recovered(&points, fixed_s, bandwidth, 0.05);
                }
            }
        }
    }

    #[test]
    fn gross_outliers_cost_the_coefficient_of_determination_not_the_line() {
        let mut points = curve(1e-3, 256e6);
        points[2].1 *= 5.0;
        points[5].1 /= 5.0;
        points[11].1 *= 5.0;
        let model = assert_recovered(&points, 1e-3, 256e6, 0.05);
        assert!(model.r2 < 0.9, "{model:?}");
    }

    #[test]
    fn latency_that_does_not_grow_has_no_bandwidth() {
        let flat: Vec<_> = sizes().map(|bytes| (bytes, 1e-3)).collect();
        assert_eq!(fit_model(&flat), None);
        let falling: Vec<_> = sizes().map(|bytes| (bytes, 1.0 / bytes)).collect();
        assert_eq!(fit_model(&falling), None);
        let ripple: Vec<_> =
            sizes().enumerate().map(|(i, x)| (x, 1e-3 * (1.0 + 0.02 * (i as f64 * 1.7).sin()))).collect();
        assert_eq!(fit_model(&ripple), None);
    }

    #[test]
    fn latency_proportional_to_size_has_no_fixed_cost() {
        let points: Vec<_> = sizes().map(|bytes| (bytes, bytes / 3e8)).collect();
        assert_eq!(fit_model(&points), None);
    }

    #[test]
    fn senseless_points_have_no_model() {
        for bad in [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (1.0, f64::NAN), (f64::INFINITY, 1.0)] {
            let mut points = curve(1e-3, 1e8);
            points.push(bad);
            assert_eq!(fit_model(&points), None);
        }
    }

    /// l from 1 us to 20 ms and B from 1 MB/s to 10 GB/s, of which both show over these sizes.
    fn identifiable() -> impl Strategy<Value = (f64, f64)> {
        let shown = 32.0 * 1024.0..2.0 * 1024.0 * 1024.0;
        ((1e-6_f64).ln()..(20e-3_f64).ln(), 1e6_f64.ln()..1e10_f64.ln())
            .prop_map(|(log_l, log_b)| (log_l.exp(), log_b.exp()))
            .prop_filter("l B lies well within the sizes", move |(l, b)| shown.contains(&(l * b)))
    }

    proptest! {
        #[test]
        fn a_few_percent_of_noise_move_the_parameters_by_little_more(
            (fixed_s, bandwidth) in identifiable(),
            noise in prop::collection::vec(-0.03..0.03f64, 13),
        ) {
            let mut points = curve(fixed_s, bandwidth);
            for (point, noise) in points.iter_mut().zip(noise) {
                point.1 *= 1.0 + noise;
            }
            let model = assert_recovered(&points, fixed_s, bandwidth, 0.12);
            prop_assert!(model.r2 > 0.98);
        }

        #[test]
        fn units_and_order_do_not_matter(
            noise in prop::collection::vec(-0.05..0.05f64, 13),
            factor in 1e-3..1e3f64,
        ) {
            let mut points = curve(1e-3, 3e8);
            for (point, noise) in points.iter_mut().zip(noise) {
                point.1 *= 1.0 + noise;
            }
            let model = fit_model(&points).unwrap();
            let other: Vec<_> = points.iter().rev().map(|&(x, y)| (x * factor, y / factor)).collect();
            let other = fit_model(&other).unwrap();
            prop_assert!((other.fixed_latency_s * factor / model.fixed_latency_s - 1.0).abs() < 1e-6);
            prop_assert!((other.optimum_bytes / factor / model.optimum_bytes - 1.0).abs() < 1e-6);
        }

        #[test]
        fn nothing_panics_and_every_figure_is_finite(
            points in prop::collection::vec((prop::num::f64::POSITIVE, prop::num::f64::POSITIVE), 0..8),
        ) {
            if let Some(model) = fit_model(&points) {
                prop_assert!(model.fixed_latency_s > 0.0 && model.fixed_latency_s.is_finite());
                prop_assert!(model.bandwidth_bytes_per_s > 0.0 && model.bandwidth_bytes_per_s.is_finite());
                prop_assert!(model.optimum_bytes.is_finite() && model.r2.is_finite());
            }
        }
    }
}
