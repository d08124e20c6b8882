//! The phases of the latency curve: latency constant, both growing, throughput constant.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::broken_line::{BrokenLine, LogPoint};
use super::robust::{huber_loss, scale};
use super::{all_positive, distinct_sizes};

/// Where the latency curve changes its nature; bounds are buffer sizes in bytes, and a phase that is not there, or not
/// shown by the runs, is `null`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Phases {
    /// Latency constant, throughput growing with the buffer.
    pub constant_latency: Option<PhaseRange>,
    /// Throughput and latency both growing.
    pub both_grow: Option<PhaseRange>,
    /// Throughput constant, latency growing with the buffer.
    pub constant_throughput: Option<PhaseRange>,
    /// Slope of log latency over log size in the middle phase (0: constant latency, 1: constant
    /// throughput).
    pub middle_slope: f64,
    /// What is constant in a phase is shown to grow by less than this factor over it, and what grows, by more from the
    /// smallest size, or to the largest; sizes of which neither is shown are in no phase. `null` where phases are fitted,
    /// and not tested.
    #[serde(default)]
    pub growth_max: Option<f64>,
}

/// A range of buffer sizes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseRange {
    /// Smallest size, in bytes.
    pub from_bytes: f64,
    /// Largest size, in bytes.
    pub to_bytes: f64,
}

/// A break is looked for at least at every eighth of a doubling of the size.
const STEPS_PER_DOUBLING: f64 = 8.0;

/// However far the sizes reach, no more places for a break than this.
const MAX_STEPS: f64 = 128.0;

/// Residuals of log2 latency below one percent are no evidence for a phase, however exact the rest.
const LEAST_SCALE: f64 = 0.015;

/// The part of the points, one in this many, left out where the noise is still to be found.
const TRIMMED_SHARE: usize = 4;

/// Residuals of more scales than this count no more than this: an outlier must not buy a phase.
const FARTHEST: f64 = 5.0;

/// Fewer different sizes than this show no phases.
const SIZES_MIN: usize = 5;

/// Finds the phases in `points`, each (bytes, latency in seconds): on logarithmic axes, a continuous line
/// that is flat up to one break, rises by a slope between 0.1 and 0.9 up to a second one, and by one beyond
/// it.
///
/// For each pair of breaks the line has the least Huber loss (Huber 1964, "Robust estimation of a location
/// parameter"). The breaks, and which phases there are at all, are those of the least robust Schwarz
/// criterion (Machado 1993, "Robust model selection and M-estimation"), the loss bounded: a phase is there
/// only if the points fit better by more than its parameters cost. The scale of the loss is that of the
/// residuals of the line of least trimmed loss, but at least one percent of latency.
///
/// A phase holds at least one measured size, and a middle phase holds one between its bounds. The phases
/// found adjoin each other and together span the measured sizes. Without a middle phase `middle_slope` is
/// that of the phase there is: 0 or 1, or 0.5 where both are.
///
/// `None` for fewer than five different sizes, through which the line's four parameters would always pass, and for a size or latency that is not positive and finite.
#[must_use]
pub fn fit_phases(points: &[(f64, f64)]) -> Option<Phases> {
    if !all_positive(points) || distinct_sizes(points) < SIZES_MIN {
        return None;
    }
    let logs: Vec<LogPoint> = points
        .iter()
        .map(|&(bytes, latency_s)| LogPoint { size: bytes.log2(), latency: latency_s.log2() })
        .collect();
    let shapes = shapes(&logs);
    let start = best(&logs, &shapes, LEAST_SCALE, |line, _| trimmed_loss(&logs, line))?;
    let residuals = logs.iter().map(|&point| start.0.residual(point));
    let noise = scale(residuals, start.1.parameters()).max(LEAST_SCALE);
    let parameter_cost = (logs.len() as f64).ln();
    let (line, shape) = best(&logs, &shapes, noise, |line, shape| {
        2.0 * bounded_loss(&logs, line, noise) + parameter_cost * shape.parameters() as f64
    })?;
    Some(report(points, line, shape))
}

/// Which phases a line has, and where it breaks.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Shape {
    breaks: [f64; 2],
    constant_latency: bool,
    both_grow: bool,
    constant_throughput: bool,
}

impl Shape {
    /// The level, the slope of a middle phase, and a break for each phase after the first.
    fn parameters(&self) -> usize {
        let phases = [self.constant_latency, self.both_grow, self.constant_throughput];
        phases.into_iter().filter(|&there| there).count() + usize::from(self.both_grow)
    }
}

/// Every shape that the points could tell apart.
fn shapes(points: &[LogPoint]) -> Vec<Shape> {
    let first = points.iter().map(|point| point.size).fold(f64::INFINITY, f64::min);
    let last = points.iter().map(|point| point.size).fold(f64::NEG_INFINITY, f64::max);
    let steps = ((last - first) * STEPS_PER_DOUBLING).ceil().clamp(1.0, MAX_STEPS) as u32;
    let place = |step: u32| first + (last - first) * f64::from(step) / f64::from(steps);
    let is_told = |shape: &Shape| {
        let [from, to] = shape.breaks;
        let held = !shape.both_grow || points.iter().any(|point| from < point.size && point.size < to);
        held && shape.parameters() < points.len()
    };
    (0..=steps)
        .flat_map(|i| (i..=steps).map(move |j| (i, j)))
        .map(|(i, j)| Shape {
            breaks: [place(i), place(j)],
            constant_latency: i > 0,
            both_grow: i < j,
            constant_throughput: j < steps,
        })
        .filter(is_told)
        .collect()
}

/// The line, over all shapes, of least cost.
fn best(
    points: &[LogPoint],
    shapes: &[Shape],
    scale: f64,
    cost: impl Fn(&BrokenLine, &Shape) -> f64,
) -> Option<(BrokenLine, Shape)> {
    let level = points.first()?.latency;
    // Neighbouring shapes have similar lines: each search starts where the last one ended.
    let mut line = BrokenLine { breaks: [0.0; 2], level, slope: 0.5 };
    let mut least: Option<(f64, BrokenLine, Shape)> = None;
    for &shape in shapes {
        line = BrokenLine::settle(points, BrokenLine { breaks: shape.breaks, ..line }, scale);
        let found = cost(&line, &shape);
        if least.is_none_or(|(cost, ..)| found < cost) {
            least = Some((found, line, shape));
        }
    }
    least.map(|(_, line, shape)| (line, shape))
}

/// The sum of losses less the largest quarter.
fn trimmed_loss(points: &[LogPoint], line: &BrokenLine) -> f64 {
    let mut losses: Vec<f64> =
        points.iter().map(|&point| huber_loss(line.residual(point) / LEAST_SCALE)).collect();
    losses.sort_by(f64::total_cmp);
    losses.iter().take(points.len() - points.len() / TRIMMED_SHARE).sum()
}

fn bounded_loss(points: &[LogPoint], line: &BrokenLine, scale: f64) -> f64 {
    let most = huber_loss(FARTHEST);
    points.iter().map(|&point| huber_loss(line.residual(point) / scale).min(most)).sum()
}

fn report(points: &[(f64, f64)], line: BrokenLine, shape: Shape) -> Phases {
    // An outermost bound is a size as given: one that went through a logarithm is off by its rounding.
    let first = points.iter().map(|&(bytes, _)| bytes).fold(f64::INFINITY, f64::min);
    let last = points.iter().map(|&(bytes, _)| bytes).fold(0.0, f64::max);
    let [from, to] = line.breaks.map(|size| size.exp2().clamp(first, last));
    let to = match (shape.constant_throughput, shape.constant_latency || shape.both_grow) {
        (false, _) => last,
        (true, true) => to,
        (true, false) => first,
    };
    let from = match (shape.constant_latency, shape.both_grow) {
        (false, _) => first,
        (true, true) => from,
        (true, false) => to,
    };
    let range = |there: bool, from_bytes, to_bytes| there.then_some(PhaseRange { from_bytes, to_bytes });
    let middle_slope = match (shape.both_grow, shape.constant_latency, shape.constant_throughput) {
        (true, _, _) => line.slope,
        (false, true, false) => 0.0,
        (false, false, true) => 1.0,
        (false, _, _) => 0.5,
    };
    Phases {
        constant_latency: range(shape.constant_latency, first, from),
        both_grow: range(shape.both_grow, from, to),
        constant_throughput: range(shape.constant_throughput, to, last),
        middle_slope,
        growth_max: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KIB: f64 = 1024.0;
    const MIB: f64 = 1024.0 * KIB;

    /// Latency over 4 KiB to 16 MiB by doublings: 13 points.
    fn curve(latency_s: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        (12..=24).map(|exponent| f64::from(exponent).exp2()).map(|x| (x, latency_s(x))).collect()
    }

    fn model(optimum_bytes: f64) -> impl Fn(f64) -> f64 {
        move |bytes| 1e-3 * (1.0 + bytes / optimum_bytes)
    }

    fn ripple(i: usize) -> f64 {
        1.0 + 0.02 * (i as f64 * 1.7).sin()
    }

    fn rippled(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
        points.iter_mut().enumerate().for_each(|(i, point)| point.1 *= ripple(i));
        points
    }

    fn found(phases: &Phases) -> Vec<PhaseRange> {
        [phases.constant_latency, phases.both_grow, phases.constant_throughput]
            .into_iter()
            .flatten()
            .collect()
    }

    fn assert_spans(phases: &Phases, points: &[(f64, f64)]) {
        let ranges = found(phases);
        let first = points.iter().map(|point| point.0).fold(f64::INFINITY, f64::min);
        let last = points.iter().map(|point| point.0).fold(0.0, f64::max);
        assert_eq!(ranges.first().unwrap().from_bytes, first, "{phases:?}");
        assert_eq!(ranges.last().unwrap().to_bytes, last, "{phases:?}");
        assert!(ranges.iter().all(|range| range.from_bytes < range.to_bytes), "{phases:?}");
        assert!(ranges.windows(2).all(|pair| pair[0].to_bytes == pair[1].from_bytes), "{phases:?}");
    }

    fn assert_middle_holds(points: &[(f64, f64)], optimum_bytes: f64) -> Phases {
        let phases = fit_phases(points).unwrap();
        assert_spans(&phases, points);
        let middle = phases.both_grow.unwrap();
        assert!(
            middle.from_bytes < optimum_bytes && optimum_bytes < middle.to_bytes,
            "{optimum_bytes} is not in {middle:?}"
        );
        phases
    }

    #[test]
    fn a_fixed_cost_and_a_bandwidth_make_three_phases_around_their_product() {
        for eighth_doublings in 15 * 8..=22 * 8 {
            let optimum_bytes = (f64::from(eighth_doublings) / 8.0).exp2();
            let phases = assert_middle_holds(&curve(model(optimum_bytes)), optimum_bytes);
            assert_eq!(found(&phases).len(), 3, "{phases:?}");
            assert!((0.2..0.8).contains(&phases.middle_slope), "{phases:?}");
        }
    }

    #[test]
    fn breaks_are_found_where_they_are() {
        let points = curve(|x| {
            let middle = (x / (32.0 * KIB)).clamp(1.0, 32.0);
            1e-3 * middle.powf(0.4) * (x / MIB).max(1.0)
        });
        let phases = fit_phases(&points).unwrap();
        let middle = phases.both_grow.unwrap();
        assert!((middle.from_bytes / (32.0 * KIB) - 1.0).abs() < 1e-9, "{phases:?}");
        assert!((middle.to_bytes / MIB - 1.0).abs() < 1e-9, "{phases:?}");
        assert!((phases.middle_slope - 0.4).abs() < 1e-3, "{phases:?}");
    }

    #[test]
    fn constant_latency_is_one_phase() {
        for points in [curve(|_| 2e-3), rippled(curve(|_| 2e-3))] {
            let phases = fit_phases(&points).unwrap();
            assert_eq!(
                phases.constant_latency,
                Some(PhaseRange { from_bytes: 4.0 * KIB, to_bytes: 16.0 * MIB })
            );
            assert_eq!((found(&phases).len(), phases.middle_slope), (1, 0.0));
        }
    }

    #[test]
    fn constant_throughput_is_one_phase() {
        for points in [curve(|x| x / 2e8), rippled(curve(|x| x / 2e8))] {
            let phases = fit_phases(&points).unwrap();
            let all = PhaseRange { from_bytes: 4.0 * KIB, to_bytes: 16.0 * MIB };
            assert_eq!(phases.constant_throughput, Some(all));
            assert_eq!((found(&phases).len(), phases.middle_slope), (1, 1.0));
        }
    }

    #[test]
    fn a_sharp_corner_leaves_no_middle() {
        let points = curve(|x| 1e-3 * (x / (256.0 * KIB)).max(1.0));
        let phases = fit_phases(&points).unwrap();
        assert_spans(&phases, &points);
        assert_eq!((phases.both_grow, phases.middle_slope), (None, 0.5));
        assert!((phases.constant_latency.unwrap().to_bytes / (256.0 * KIB) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn sizes_that_end_early_do_not_reach_constant_throughput() {
        let points = curve(|x| 1e-3 * (x / (64.0 * KIB)).max(1.0).sqrt());
        let phases = fit_phases(&points).unwrap();
        assert_spans(&phases, &points);
        assert_eq!(phases.constant_throughput, None);
        assert!((phases.middle_slope - 0.5).abs() < 1e-3);
    }

    #[test]
    fn two_stalls_do_not_move_the_middle_off_the_product() {
        let optimum_bytes = 256.0 * KIB;
        for a in 0..13 {
            for b in a + 1..13 {
                let mut points = rippled(curve(model(optimum_bytes)));
                points[a].1 *= 5.0;
                points[b].1 *= 5.0;
                assert_middle_holds(&points, optimum_bytes);
            }
        }
    }

    #[test]
    fn a_stall_does_not_make_a_phase() {
        for stalled in 0..13 {
            let mut points = rippled(curve(|_| 2e-3));
            points[stalled].1 *= 5.0;
            assert_eq!(found(&fit_phases(&points).unwrap()).len(), 1, "point {stalled}");
        }
    }

    #[test]
    fn too_few_or_senseless_points_have_no_phases() {
        assert_eq!(fit_phases(&[]), None);
        assert_eq!(fit_phases(&[(1.0, 1.0), (2.0, 1.0), (2.0, 1.1)]), None);
        assert_eq!(fit_phases(&[(1.0, 1.0), (2.0, 1.0), (0.0, 1.1)]), None);
        assert_eq!(fit_phases(&[(1.0, 1.0), (2.0, 1.0), (4.0, f64::NAN)]), None);
        let flat = |sizes: i32| (0..sizes).map(|power| (2_f64.powi(power), 1.0)).collect::<Vec<_>>();
        assert_eq!(fit_phases(&flat(4)), None);
        assert!(fit_phases(&flat(5)).is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        // Beyond 2 MiB few sizes are left above the product: at 2^21.3 noise of 2.6 % put the middle's end 4 % below it.
        #[test]
        fn a_few_percent_of_noise_leave_the_product_in_the_middle(
            doublings in 15.0..21.0f64,
            noise in prop::collection::vec(-0.03..0.03f64, 13),
        ) {
            let mut points = curve(model(doublings.exp2()));
            for (point, noise) in points.iter_mut().zip(noise) {
                point.1 *= 1.0 + noise;
            }
            assert_middle_holds(&points, doublings.exp2());
        }

        #[test]
        fn phases_adjoin_whatever_the_points(
            points in prop::collection::vec((1.0..1e9f64, 1e-6..1.0f64), 3..10),
        ) {
            if let Some(phases) = fit_phases(&points) {
                assert_spans(&phases, &points);
                prop_assert!((0.0..=1.0).contains(&phases.middle_slope));
            }
        }

        #[test]
        fn nothing_panics(
            points in prop::collection::vec((prop::num::f64::POSITIVE, prop::num::f64::POSITIVE), 0..6),
        ) {
            let _ = fit_phases(&points);
        }
    }
}
