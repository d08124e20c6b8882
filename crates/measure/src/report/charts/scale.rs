//! Axes of either scale: where a value lies, and which ticks to label.

use super::axes::{Axis, shown};
use crate::report::Scale;

/// How many ticks a linear axis has at most, besides 0.
const LINEAR_TICKS: f64 = 5.0;

/// An axis of a line chart.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ScaledAxis {
    /// From 0 to `high`, over the range of units on the canvas.
    Linear { high: f64, step: f64, from: f64, to: f64 },
    /// By logarithm.
    Log(Axis),
    /// As that, with ticks at powers of two: for sizes.
    LogOfSizes { axis: Axis, low: f64, high: f64 },
}

impl ScaledAxis {
    /// An axis that covers the values, which are sizes or not.
    pub(crate) fn covering(
        scale: Scale,
        are_sizes: bool,
        values: impl Iterator<Item = f64> + Clone,
        (from, to): (f64, f64),
    ) -> Self {
        let range = values.clone().filter(|&value| shown(value));
        let (low, high) =
            range.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        match scale {
            Scale::Log => {
                let axis = Axis::covering(values, 0.5, 0.04, (from, to));
                if are_sizes && low <= high { Self::LogOfSizes { axis, low, high } } else { Self::Log(axis) }
            }
            Scale::Linear => {
                let most = if high > 0.0 { high } else { 1.0 };
                let least_step = most / LINEAR_TICKS;
                let step = match are_sizes {
                    true => 2f64.powf(least_step.log2().ceil()),
                    false => round_step(least_step),
                };
                Self::Linear { high: most * 1.05, step, from, to }
            }
        }
    }

    /// Whether a value has a place.
    pub(crate) fn shows(&self, value: f64) -> bool {
        match self {
            Self::Linear { .. } => value.is_finite() && value >= 0.0,
            Self::Log(_) | Self::LogOfSizes { .. } => shown(value),
        }
    }

    /// Where a value lies; outside the range, the nearer end.
    pub(crate) fn place(&self, value: f64) -> f64 {
        match self {
            Self::Linear { high, from, to, .. } => {
                let share = if value.is_finite() { (value / high).clamp(0.0, 1.0) } else { 0.0 };
                from + share * (to - from)
            }
            Self::Log(axis) | Self::LogOfSizes { axis, .. } => axis.place(value),
        }
    }

    /// Values to label.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        match self {
            Self::Linear { high, step, .. } => (0..)
                .map(|number| f64::from(number) * step)
                .take_while(|tick| tick <= high)
                .take(12)
                .collect(),
            Self::Log(axis) => axis.ticks(),
            Self::LogOfSizes { low, high, .. } => {
                let (first, last) = (low.log2().ceil() as i32, high.log2().floor() as i32);
                let stride = match last - first {
                    ..=8 => 1,
                    9..=16 => 2,
                    17..=32 => 4,
                    wider => (wider as usize).div_ceil(80) * 10,
                };
                let powers: Vec<f64> = (first..=last).step_by(stride).map(|power| 2f64.powi(power)).collect();
                if powers.is_empty() { vec![*low] } else { powers }
            }
        }
    }

    /// Values to mark without a label.
    pub(crate) fn minor_ticks(&self) -> Vec<f64> {
        match self {
            Self::Linear { .. } | Self::LogOfSizes { .. } => Vec::new(),
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
        let axis = ScaledAxis::covering(Scale::Linear, false, [3.0, 812.0].into_iter(), (0.0, 100.0));
        assert_eq!(axis.ticks(), [0.0, 200.0, 400.0, 600.0, 800.0]);
        assert_eq!(axis.place(0.0), 0.0);
    }

    #[test]
    fn sizes_are_ticked_at_powers_of_two() {
        let sizes = [1024.0, 102_400.0];
        let axis = ScaledAxis::covering(Scale::Log, true, sizes.into_iter(), (0.0, 100.0));
        assert_eq!(axis.ticks(), [1, 2, 4, 8, 16, 32, 64].map(|kib| f64::from(kib * 1024)));
    }

    #[test]
    fn any_values_make_a_finite_axis() {
        for values in [vec![], vec![f64::NAN, f64::INFINITY], vec![0.0], vec![-1.0], vec![f64::MIN_POSITIVE]]
        {
            for (scale, are_sizes) in
                [Scale::Linear, Scale::Log].into_iter().flat_map(|scale| [(scale, false), (scale, true)])
            {
                let axis = ScaledAxis::covering(scale, are_sizes, values.iter().copied(), (300.0, 0.0));
                assert!((1..=12).contains(&axis.ticks().len()), "{:?}", axis.ticks());
                assert!(values.iter().all(|&value| (0.0..=300.0).contains(&axis.place(value))));
            }
        }
    }
}
