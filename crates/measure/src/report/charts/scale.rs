//! Axes of either scale: where a value lies, and which ticks to label.

use super::axes::Axis;
use crate::reproduce::Scale;

/// How many ticks a linear axis has at most, besides 0.
const LINEAR_TICKS: f64 = 5.0;

/// An axis of a line chart.
#[derive(Debug, Clone, Copy)]
pub(super) enum ScaledAxis {
    /// From 0 to `high`, over the range of units on the canvas.
    Linear { high: f64, step: f64, from: f64, to: f64 },
    /// By logarithm.
    Log(Axis),
}

impl ScaledAxis {
    /// An axis that covers the values.
    pub(super) fn covering(scale: Scale, values: impl Iterator<Item = f64>, (from, to): (f64, f64)) -> Self {
        match scale {
            Scale::Log => Self::Log(Axis::covering(values, 0.5, 0.04, (from, to))),
            Scale::Linear => {
                let most = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
                let most = if most > 0.0 { most } else { 1.0 };
                let step = round_step(most / LINEAR_TICKS);
                Self::Linear { high: most * 1.05, step, from, to }
            }
        }
    }

    /// Whether a value has a place.
    pub(super) fn shows(&self, value: f64) -> bool {
        match self {
            Self::Linear { .. } => value.is_finite() && value >= 0.0,
            Self::Log(_) => super::axes::shown(value),
        }
    }

    /// Where a value lies; outside the range, the nearer end.
    pub(super) fn place(&self, value: f64) -> f64 {
        match self {
            Self::Linear { high, from, to, .. } => {
                let share = if value.is_finite() { (value / high).clamp(0.0, 1.0) } else { 0.0 };
                from + share * (to - from)
            }
            Self::Log(axis) => axis.place(value),
        }
    }

    /// Values to label.
    pub(super) fn ticks(&self) -> Vec<f64> {
        match self {
            Self::Linear { high, step, .. } => (0..)
                .map(|number| f64::from(number) * step)
                .take_while(|tick| tick <= high)
                .take(12)
                .collect(),
            Self::Log(axis) => axis.ticks(),
        }
    }

    /// Values to mark without a label.
    pub(super) fn minor_ticks(&self) -> Vec<f64> {
        match self {
            Self::Linear { .. } => Vec::new(),
            Self::Log(axis) => axis.minor_ticks(),
        }
    }
}

/// The next of 1, 2, 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let digit = [1.0, 2.0, 5.0, 10.0].into_iter().find(|digit| digit * power >= least * 0.999);
    digit.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_begins_at_0_and_has_round_ticks() {
        let axis = ScaledAxis::covering(Scale::Linear, [3.0, 812.0].into_iter(), (0.0, 100.0));
        assert_eq!(axis.ticks(), [0.0, 200.0, 400.0, 600.0, 800.0]);
        assert_eq!(axis.place(0.0), 0.0);
    }

    #[test]
    fn any_values_make_a_finite_axis() {
        for values in [vec![], vec![f64::NAN, f64::INFINITY], vec![0.0], vec![-1.0], vec![f64::MIN_POSITIVE]]
        {
            for scale in [Scale::Linear, Scale::Log] {
                let axis = ScaledAxis::covering(scale, values.iter().copied(), (300.0, 0.0));
                assert!((1..=12).contains(&axis.ticks().len()), "{:?}", axis.ticks());
                assert!(values.iter().all(|&value| (0.0..=300.0).contains(&axis.place(value))));
            }
        }
    }
}
