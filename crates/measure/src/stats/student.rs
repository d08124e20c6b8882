//! Student's t distribution: Student 1908, "The probable error of a mean".

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// The factor by which a standard error becomes the half width of a 95 % interval, to nine digits up to
/// 10,000 degrees of freedom and to four up to a million; `None` where there are no degrees of freedom.
pub(super) fn factor_95(degrees_of_freedom: f64) -> Option<f64> {
    distribution(degrees_of_freedom).map(|t| t.inverse_cdf(0.975)).filter(|factor| factor.is_finite())
}

/// The factor by which a standard error becomes the half width of an interval at level `1 - alpha`; `None` where there
/// are no degrees of freedom.
#[must_use]
pub fn factor(degrees_of_freedom: f64, alpha: f64) -> Option<f64> {
    let t = distribution(degrees_of_freedom)?;
    Some(t.inverse_cdf(1.0 - alpha / 2.0)).filter(|factor| factor.is_finite())
}

/// The value that a standard normal variable stays below with this chance.
pub(super) fn normal_quantile(chance: f64) -> Option<f64> {
    Some(Normal::standard().inverse_cdf(chance)).filter(|value| value.is_finite())
}

/// The chance of a t at least as far from zero, in either direction; `None` where there are no degrees of
/// freedom.
pub(super) fn p_two_sided(t: f64, degrees_of_freedom: f64) -> Option<f64> {
    if t.is_nan() {
        return None;
    }
    distribution(degrees_of_freedom).map(|student| (2.0 * student.sf(t.abs())).min(1.0))
}

fn distribution(degrees_of_freedom: f64) -> Option<StudentsT> {
    if !degrees_of_freedom.is_finite() {
        return None;
    }
    StudentsT::new(0.0, 1.0, degrees_of_freedom).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_is_scipys() {
        // scipy.stats.t.ppf(0.975, df), SciPy 1.17.1
        let expected = [
            (1.0, 12.706204736174694),
            (2.0, 4.302652729749462),
            (2.5, 3.5746548420036817),
            (4.0, 2.7764451051977934),
            (10.0, 2.228138851986274),
            (30.0, 2.0422724563012378),
            (100.0, 1.9839715185235518),
            (10_000.0, 1.960201239890626),
        ];
        for (df, factor) in expected {
            let found = factor_95(df).unwrap();
            assert!((found / factor - 1.0).abs() < 1e-9, "df {df}: {found} is not {factor}");
        }
    }

    #[test]
    fn the_factor_at_other_levels_is_scipys() {
        // scipy.stats.t.ppf(1 - alpha / 2, df) and scipy.stats.norm.ppf(0.9995), SciPy 1.17.1
        for (df, alpha, expected) in [(4.0, 0.01, 4.604_094_871_415_897), (8.0, 0.001, 5.041_305_433_373_338)]
        {
            let found = factor(df, alpha).unwrap();
            assert!((found / expected - 1.0).abs() < 1e-8, "{found} is not {expected}");
        }
        assert!((normal_quantile(0.9995).unwrap() - 3.290_526_731_491_926).abs() < 1e-8);
        assert_eq!(factor(0.0, 0.05), None);
    }

    #[test]
    fn without_degrees_of_freedom_there_is_no_answer() {
        for df in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(factor_95(df), None);
            assert_eq!(p_two_sided(1.0, df), None);
        }
        assert_eq!(p_two_sided(f64::NAN, 3.0), None);
    }

    #[test]
    fn no_difference_is_certain_and_an_infinite_one_impossible() {
        assert_eq!(p_two_sided(0.0, 3.0), Some(1.0));
        assert_eq!(p_two_sided(f64::NEG_INFINITY, 3.0), Some(0.0));
    }
}
