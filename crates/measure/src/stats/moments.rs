//! Mean and variance of a sample, free of cancellation.

/// The first two moments of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Moments {
    /// How many values.
    pub(super) n: usize,
    /// Arithmetic mean; lies between the smallest and the largest value.
    pub(super) mean: f64,
    /// Sample variance (n - 1); `None` for one value, exactly zero for equal ones.
    pub(super) variance: Option<f64>,
    /// Smallest value.
    pub(super) min: f64,
    /// Largest value.
    pub(super) max: f64,
}

impl Moments {
    /// The moments of `values`; `None` where there are no values, or where a value or a moment is not finite.
    ///
    /// Two passes, the second corrected for the rounding of the first: Chan, Golub & LeVeque 1983,
    /// "Algorithms for computing the sample variance: analysis and recommendations", equation 1.7.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let n = values.len();
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if n == 0 || values.iter().any(|v| !v.is_finite()) {
            return None;
        }
        let count = n as f64;
        let first = values.iter().sum::<f64>() / count;
        let residual = values.iter().map(|v| v - first).sum::<f64>();
        let squares = values.iter().map(|v| (v - first).powi(2)).sum::<f64>();
        let mean = (first + residual / count).clamp(min, max);
        // Equal values must not vary by a rounding error: callers ask whether a sample varies at all.
        let sum_of_squares = if min == max { 0.0 } else { squares - residual * residual / count };
        if !mean.is_finite() || !sum_of_squares.is_finite() {
            return None;
        }
        let variance = (n > 1).then(|| sum_of_squares.max(0.0) / (count - 1.0));
        Some(Self { n, mean, variance, min, max })
    }

    /// Squared standard error of the mean; `None` for one value.
    pub(super) fn squared_error(&self) -> Option<f64> {
        self.variance.map(|variance| variance / self.n as f64)
    }

    /// n - 1.
    pub(super) fn degrees_of_freedom(&self) -> f64 {
        self.n as f64 - 1.0
    }
}

/// Degrees of freedom of the sum of two independent squared standard errors, each given with its own degrees
/// of freedom: Satterthwaite 1946, "An approximate distribution of estimates of variance components".
///
/// `None` where both errors are zero, which leaves nothing to weigh.
pub(super) fn satterthwaite(a: (f64, f64), b: (f64, f64)) -> Option<f64> {
    let total = a.0 + b.0;
    if !total.is_finite() || total <= 0.0 {
        return None;
    }
    // As shares of the total, the squares below neither overflow nor vanish.
    let (share_a, share_b) = (a.0 / total, b.0 / total);
    Some(1.0 / (share_a * share_a / a.1 + share_b * share_b / b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_offset_does_not_swallow_a_small_spread() {
        let moments = Moments::of(&[1e9 + 1.0, 1e9 + 2.0, 1e9 + 3.0]).unwrap();
        assert_eq!(moments.mean, 1e9 + 2.0);
        assert_eq!(moments.variance, Some(1.0));
    }

    #[test]
    fn equal_values_do_not_vary_even_by_rounding() {
        let moments = Moments::of(&[0.1; 3]).unwrap();
        assert_eq!(moments.mean, 0.1);
        assert_eq!(moments.variance, Some(0.0));
    }

    #[test]
    fn what_is_not_finite_has_no_moments() {
        assert_eq!(Moments::of(&[]), None);
        assert_eq!(Moments::of(&[1.0, f64::NAN]), None);
        assert_eq!(Moments::of(&[1.0, f64::INFINITY]), None);
        assert_eq!(Moments::of(&[f64::MAX, f64::MAX]), None);
    }

    #[test]
    fn one_noisy_sample_decides_the_degrees_of_freedom_alone() {
        assert_eq!(satterthwaite((0.0, 9.0), (2.0, 4.0)), Some(4.0));
        assert_eq!(satterthwaite((0.0, 9.0), (0.0, 4.0)), None);
    }
}
