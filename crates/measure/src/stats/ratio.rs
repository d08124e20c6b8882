//! The ratio of two means and its interval: Fieller's theorem.

use super::moments::{Moments, satterthwaite};
use super::student;

/// A ratio of two means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Mean of the numerator over mean of the denominator, in the one's unit over the other's.
    pub ratio: f64,
    /// 95 % interval of the ratio, ascending; `None` where it is unbounded, because the denominator's mean is
    /// not clearly different from zero, and where there are fewer than two values to tell.
    pub ci95: Option<[f64; 2]>,
}

/// The ratio of the means of two independent samples, such as one stack before and after a change, with its
/// interval by Fieller's theorem (Fieller 1954, "Some problems in interval estimation").
///
/// The variances may differ. The t factor has the degrees of freedom of numerator - ratio x denominator by
/// Satterthwaite 1946, "An approximate distribution of estimates of variance components", at the estimated
/// ratio. Two samples that do not vary give an interval of no width.
///
/// `None` where a sample is empty or not finite, or the ratio is not finite.
#[must_use]
pub fn ratio_of_means(numerator: &[f64], denominator: &[f64]) -> Option<Ratio> {
    let (a, b) = (Moments::of(numerator)?, Moments::of(denominator)?);
    let ratio = finite_ratio(&a, &b)?;
    let ci95 = a.squared_error().zip(b.squared_error()).and_then(|(error_a, error_b)| {
        let spread = Spread { numerator: error_a, denominator: error_b, both: 0.0 };
        let weighed_b = ratio * ratio * error_b;
        let degrees_of_freedom =
            satterthwaite((error_a, a.degrees_of_freedom()), (weighed_b, b.degrees_of_freedom()))
                .unwrap_or(b.degrees_of_freedom());
        fieller(ratio, b.mean, spread, degrees_of_freedom)
    });
    Some(Ratio { ratio, ci95 })
}

/// The ratio of the means of two figures taken together, such as throughput and latency of the same runs,
/// with its interval by Fieller's theorem (Fieller 1954, "Some problems in interval estimation"), the
/// covariance taken into account, with n - 1 degrees of freedom.
///
/// Figures of one run move together: taken as independent, throughput that falls as latency rises would give
/// far too narrow an interval.
///
/// `None` where the figures are not equally many, or there are none, or any or the ratio is not finite.
#[must_use]
pub fn paired_ratio_of_means(numerator: &[f64], denominator: &[f64]) -> Option<Ratio> {
    if numerator.len() != denominator.len() {
        return None;
    }
    let (a, b) = (Moments::of(numerator)?, Moments::of(denominator)?);
    let ratio = finite_ratio(&a, &b)?;
    let ci95 = a.squared_error().zip(b.squared_error()).and_then(|(error_a, error_b)| {
        let pairs = numerator.iter().zip(denominator);
        let products: f64 = pairs.map(|(x, y)| (x - a.mean) * (y - b.mean)).sum();
        let both = products / a.degrees_of_freedom() / a.n as f64;
        let spread = Spread { numerator: error_a, denominator: error_b, both };
        fieller(ratio, b.mean, spread, a.degrees_of_freedom())
    });
    Some(Ratio { ratio, ci95 })
}

/// Squared standard errors of two means, and their covariance.
#[derive(Debug, Clone, Copy)]
struct Spread {
    numerator: f64,
    denominator: f64,
    both: f64,
}

fn finite_ratio(a: &Moments, b: &Moments) -> Option<f64> {
    Some(a.mean / b.mean).filter(|ratio| ratio.is_finite())
}

/// The ratios r for which numerator - r x denominator does not differ from zero at 5 %; `None` where they are
/// unbounded, which they are just where the denominator alone does not differ from zero.
fn fieller(ratio: f64, denominator: f64, spread: Spread, degrees_of_freedom: f64) -> Option<[f64; 2]> {
    let t = student::factor_95(degrees_of_freedom)?;
    // Everything in units of the denominator's mean, where the equation of the bounds is
    // (1 - g) r² - 2 (ratio - c) r + (ratio² - a) = 0.
    let scale = (t / denominator).powi(2);
    let (a, g, c) = (scale * spread.numerator, scale * spread.denominator, scale * spread.both);
    if !(a.is_finite() && c.is_finite() && g < 1.0) {
        return None;
    }
    let centre = ratio - c;
    // (ratio - c)² - (1 - g)(ratio² - a), without the cancellation of the two ratio².
    let discriminant = (a - 2.0 * ratio * c + g * ratio * ratio) - (a * g - c * c);
    let root = discriminant.max(0.0).sqrt();
    let bounds = [(centre - root) / (1.0 - g), (centre + root) / (1.0 - g)];
    bounds.iter().all(|bound| bound.is_finite()).then_some(bounds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn assert_ratio(found: Ratio, ratio: f64, low: f64, high: f64) {
        let [found_low, found_high] = found.ci95.unwrap();
        for (found, expected) in [(found.ratio, ratio), (found_low, low), (found_high, high)] {
            assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
        }
    }

    #[test]
    fn two_independent_samples_give_an_interval_that_leans_outwards() {
        let found = ratio_of_means(&[5.0, 5.5, 4.0, 7.0, 5.2], &[1.0, 1.2, 0.9]).unwrap();
        // The roots, by scipy.optimize.brentq, of (mean a - r mean b)² = t² (var a / n + r² var b / m), with
        // t of scipy.stats.t.ppf(0.975, df) and Satterthwaite's df = 5.543914197282693; SciPy 1.17.1
        assert_ratio(found, 5.16774193548387, 3.7488456765223277, 7.078183160777904);
    }

    #[test]
    fn figures_of_the_same_runs_are_not_independent() {
        let throughput = [100.0, 104.0, 97.0, 110.0, 99.0];
        let latency = [10.0, 9.7, 10.4, 9.3, 10.1];
        let found = paired_ratio_of_means(&throughput, &latency).unwrap();
        // The roots, by scipy.optimize.brentq, of scipy.stats.ttest_1samp(a - r * b, 0).statistic² = t² with
        // t of scipy.stats.t.ppf(0.975, 4); SciPy 1.17.1
        assert_ratio(found, 10.303030303030301, 9.17942424840804, 11.550555897386195);
        let [low, high] = ratio_of_means(&throughput, &latency).unwrap().ci95.unwrap();
        assert!(low > 9.5 && high < 11.1, "taken as independent, {low} to {high} is too narrow");
    }

    #[test]
    fn a_denominator_that_may_be_zero_leaves_the_ratio_unbounded() {
        let found = ratio_of_means(&[1.0, 1.1, 0.9], &[-1.0, 0.5, 1.0]).unwrap();
        assert!((found.ratio - 6.0).abs() < 1e-12);
        assert_eq!(found.ci95, None);
        let found = paired_ratio_of_means(&[1.0, 1.1, 0.9], &[-1.0, 0.5, 1.0]).unwrap();
        assert_eq!(found.ci95, None);
    }

    #[test]
    fn samples_that_do_not_vary_leave_no_doubt() {
        let certain = Some(Ratio { ratio: 2.0, ci95: Some([2.0, 2.0]) });
        assert_eq!(ratio_of_means(&[4.0; 3], &[2.0; 3]), certain);
        assert_eq!(paired_ratio_of_means(&[4.0; 3], &[2.0; 3]), certain);
        let nothing = Some(Ratio { ratio: 0.0, ci95: Some([0.0, 0.0]) });
        assert_eq!(ratio_of_means(&[0.0; 3], &[2.0, 2.1, 2.2]), nothing);
    }

    #[test]
    fn too_few_values_have_a_ratio_but_no_interval() {
        assert_eq!(ratio_of_means(&[4.0], &[2.0, 2.0]), Some(Ratio { ratio: 2.0, ci95: None }));
        assert_eq!(paired_ratio_of_means(&[4.0], &[2.0]), Some(Ratio { ratio: 2.0, ci95: None }));
        assert_eq!(ratio_of_means(&[], &[2.0]), None);
        assert_eq!(ratio_of_means(&[4.0, 5.0], &[0.0, 0.0]), None);
        assert_eq!(paired_ratio_of_means(&[4.0, 5.0], &[1.0]), None);
    }

    proptest! {
        #[test]
        fn a_bounded_interval_holds_the_ratio_and_turns_with_it(
            pairs in prop::collection::vec((1.0..9.0f64, 1.0..9.0f64), 2..20),
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            for ratio in [ratio_of_means, paired_ratio_of_means] {
                let (there, back) = (ratio(&a, &b).unwrap(), ratio(&b, &a).unwrap());
                if let Some([low, high]) = there.ci95 {
                    prop_assert!(low <= there.ratio && there.ratio <= high);
                    if let (Some([back_low, back_high]), true) = (back.ci95, low > 0.0) {
                        prop_assert!((back_low * high - 1.0).abs() < 1e-6);
                        prop_assert!((back_high * low - 1.0).abs() < 1e-6);
                    }
                }
            }
        }

        #[test]
        fn nothing_panics(pairs in prop::collection::vec((prop::num::f64::ANY, prop::num::f64::ANY), 0..5)) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let _ = ratio_of_means(&a, &b);
            let _ = paired_ratio_of_means(&b, &a);
        }
    }
}
