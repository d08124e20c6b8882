//! Logarithmic axes: which range to show, where a value lies, and which ticks to label.
//!
//! Only positive finite values have a place; ranges and ticks are finite whatever they are made from.

/// One axis: a range of values over a range of units on the canvas.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Axis {
    /// Logarithms to base 10 of the range.
    low: f64,
    high: f64,
    /// Where the ends of the range lie.
    from: f64,
    to: f64,
}

/// Whether a value has a place on a logarithmic axis.
pub(crate) fn shown(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

impl Axis {
    /// An axis that covers the values, and at least `decades`, with the share `margin` of it to spare on
    /// both sides.
    pub(crate) fn covering(
        values: impl Iterator<Item = f64>,
        decades: f64,
        margin: f64,
        (from, to): (f64, f64),
    ) -> Self {
        let (low, high) = values
            .filter(|&value| shown(value))
            .map(f64::log10)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), log| (low.min(log), high.max(log)));
        let (low, high) = if low <= high { (low, high) } else { (0.0, 0.0) };
        let spare = ((decades - (high - low)) / 2.0).max(0.0) + margin * (high - low).max(decades);
        Self { low: low - spare, high: high + spare, from, to }
    }

    /// Where a value lies; outside the range, the nearer end.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let log = if shown(value) { value.log10() } else { self.low };
        let share = ((log - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.from + share * (self.to - self.from)
    }

    /// Whether a value lies within the range.
    pub(crate) fn contains(&self, value: f64) -> bool {
        shown(value) && (self.low..=self.high).contains(&value.log10())
    }

    /// Values to label: decades, thinned to at most eight; where fewer than three fit, also 2 and 5 of each, and where those are
    /// few, 3 and 7.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        let decades: Vec<i32> = (self.low.ceil() as i32..=self.high.floor() as i32).collect();
        if decades.len() >= 3 {
            let stride = decades.len().div_ceil(8);
            let decades = decades.into_iter().step_by(stride).map(power);
            return decades.filter(|&tick| shown(tick)).collect();
        }
        let of_digits = |digits: &[f64]| -> Vec<f64> {
            let within = self.low.floor() as i32..=self.high.floor() as i32;
            let each = within.flat_map(|decade| digits.iter().map(move |digit| digit * power(decade)));
            each.filter(|&tick| self.contains(tick)).collect()
        };
        let ticks = of_digits(&[1.0, 2.0, 5.0]);
        if ticks.len() >= 3 { ticks } else { of_digits(&[1.0, 2.0, 3.0, 5.0, 7.0]) }
    }

    /// Values to mark without a label: 2 to 9 of each decade, where the range is short enough to tell them.
    pub(crate) fn minor_ticks(&self) -> Vec<f64> {
        if self.high - self.low > 5.0 {
            return Vec::new();
        }
        (self.low.floor() as i32..=self.high.floor() as i32)
            .flat_map(|decade| (2..10).map(move |digit| f64::from(digit) * power(decade)))
            .filter(|&tick| self.contains(tick))
            .collect()
    }
}

fn power(decade: i32) -> f64 {
    // Parsed, not computed, so that the tick at one microsecond is the nearest number to it.
    format!("1e{decade}").parse().unwrap_or(0.0)
}

/// Values from `first` to `last` at even distances on the axis, for drawing a curve.
pub(crate) fn steps(first: f64, last: f64, steps: u32) -> Vec<f64> {
    let (first, last) = (first.log10(), last.log10());
    (0..=steps).map(|step| 10f64.powf(first + (last - first) * f64::from(step) / f64::from(steps))).collect()
}

/// Which of the ascending places have room for a label, `apart` being the least distance between two.
pub(crate) fn labelled(places: &[f64], apart: f64) -> Vec<bool> {
    let mut last = f64::NEG_INFINITY;
    let room = |&place: &f64| {
        let fits = place - last >= apart;
        if fits {
            last = place;
        }
        fits
    };
    places.iter().map(room).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(values: &[f64]) -> Axis {
        Axis::covering(values.iter().copied(), 1.0, 0.05, (300.0, 0.0))
    }

    #[test]
    fn any_values_make_a_finite_axis() {
        let odd = [f64::NAN, f64::INFINITY, -1.0, 0.0];
        for values in [&odd[..], &[], &[5.0], &[1.0, 1e-300, 1e300], &[f64::MIN_POSITIVE, f64::MAX]] {
            let axis = axis(values);
            for value in values.iter().chain(&odd) {
                assert!((0.0..=300.0).contains(&axis.place(*value)), "{value} on {axis:?}");
            }
            assert!((1..=12).contains(&axis.ticks().len()), "{:?}", axis.ticks());
            assert!(axis.ticks().into_iter().all(shown));
        }
    }

    #[test]
    fn wide_ranges_are_ticked_by_decades_and_narrow_ones_between() {
        assert_eq!(axis(&[0.001, 0.5]).ticks(), [0.001, 0.01, 0.1]);
        assert_eq!(axis(&[15.0, 60.0]).ticks(), [10.0, 20.0, 50.0, 100.0]);
        let narrow = Axis::covering([3_000.0, 8_000.0].into_iter(), 0.5, 0.04, (300.0, 0.0));
        assert_eq!(narrow.ticks(), [3_000.0, 5_000.0, 7_000.0]);
        assert_eq!(axis(&[0.000_9, 2.0]).minor_ticks()[0], 0.000_7);
    }

    #[test]
    fn labels_keep_their_distance() {
        assert_eq!(labelled(&[0.0, 20.0, 40.0, 60.0], 35.0), [true, false, true, false]);
    }
}
