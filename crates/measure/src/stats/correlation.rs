//! Whether two figures move together.

use statrs::distribution::{ContinuousCDF, Normal};

use super::moments::Moments;

/// A correlation with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Correlation {
    /// Pearson's coefficient, from -1 to 1.
    pub coefficient: f64,
    /// Its 95 % interval; `None` for fewer than four pairs.
    pub ci95: Option<[f64; 2]>,
}

/// Pearson's coefficient of correlation of pairs, with the interval by Fisher's transformation (Fisher 1921, "On the
/// 'probable error' of a coefficient of correlation deduced from a small sample").
///
/// `None` where there are not as many of one as of the other, fewer than three pairs, one is not finite, or one figure
/// does not vary.
#[must_use]
pub fn pearson(x: &[f64], y: &[f64]) -> Option<Correlation> {
    if x.len() != y.len() || x.len() < 3 {
        return None;
    }
    let (a, b) = (Moments::of(x)?, Moments::of(y)?);
    let products: f64 = x.iter().zip(y).map(|(x, y)| (x - a.mean) * (y - b.mean)).sum();
    let coefficient = products / a.degrees_of_freedom() / (a.variance?.sqrt() * b.variance?.sqrt());
    if !coefficient.is_finite() {
        return None;
    }
    let coefficient = coefficient.clamp(-1.0, 1.0);
    Some(Correlation { coefficient, ci95: interval(coefficient, x.len()) })
}

/// Spearman's coefficient: as [`pearson`], of ranks, so that no distribution is taken for granted and a single odd pair
/// counts like any other (Spearman 1904, "The proof and measurement of association between two things").
///
/// `None` as for [`pearson`].
#[must_use]
pub fn spearman(x: &[f64], y: &[f64]) -> Option<Correlation> {
    let are_finite = x.iter().chain(y).all(|value| value.is_finite());
    if !are_finite {
        return None;
    }
    pearson(&super::ranks::centred(x), &super::ranks::centred(y))
}

fn interval(coefficient: f64, pairs: usize) -> Option<[f64; 2]> {
    if pairs < 4 {
        return None;
    }
    let half = Normal::standard().inverse_cdf(0.975) / ((pairs - 3) as f64).sqrt();
    let centre = coefficient.atanh();
    Some([(centre - half).tanh(), (centre + half).tanh()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn coefficient_and_interval_are_scipys() {
        let found =
            pearson(&[12.1, 15.3, 9.8, 14.2, 11.7, 13.3], &[11.0, 16.1, 9.1, 15.0, 12.2, 12.9]).unwrap();
        // scipy.stats.pearsonr(x, y) and its confidence_interval(), SciPy 1.17.1
        assert!((found.coefficient - 0.969_885_834_267_080_1).abs() < 1e-12);
        let [low, high] = found.ci95.unwrap();
        assert!((low - 0.743_733_022).abs() < 1e-8 && (high - 0.996_824_684_8).abs() < 1e-8, "{low} {high}");
    }

    #[test]
    fn ranks_correlate_as_scipy_has_it() {
        let found =
            spearman(&[12.1, 15.3, 9.8, 14.2, 11.7, 13.3], &[11.0, 16.1, 9.1, 15.0, 12.9, 12.9]).unwrap();
        // scipy.stats.spearmanr(x, y).statistic, SciPy 1.17.1
        assert!((found.coefficient - 0.8986451052612952).abs() < 1e-12);
        assert_eq!(spearman(&[1.0, f64::NAN, 3.0], &[1.0, 2.0, 3.0]), None);
    }

    #[test]
    fn figures_that_do_not_vary_have_no_correlation() {
        assert_eq!(pearson(&[1.0; 5], &[1.0, 2.0, 3.0, 4.0, 5.0]), None);
        assert_eq!(pearson(&[1.0, 2.0], &[1.0, 2.0]), None);
        assert_eq!(pearson(&[1.0, 2.0, 3.0], &[1.0, 2.0, 4.0]).unwrap().ci95, None);
        let [low, high] = pearson(&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 3.0, 4.0]).unwrap().ci95.unwrap();
        assert_eq!([low, high], [1.0, 1.0]);
    }

    proptest! {
        #[test]
        fn it_lies_within_its_interval_and_one(
            pairs in prop::collection::vec((prop::num::f64::NORMAL, -5.0..5.0_f64), 0..9),
        ) {
            let (x, y): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            if let Some(found) = pearson(&x, &y) {
                prop_assert!(found.coefficient.abs() <= 1.0);
                if let Some([low, high]) = found.ci95 {
                    prop_assert!(low <= found.coefficient + 1e-9 && found.coefficient <= high + 1e-9);
                }
            }
        }
    }
}
