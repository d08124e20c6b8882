//! Fisher's F, central and not: whether groups differ, and by how much at least and at most.

use statrs::distribution::{ContinuousCDF, FisherSnedecor};
use statrs::function::beta::beta_reg;
use statrs::function::gamma::ln_gamma;

/// Beyond this, an effect is as large as can be told.
const NONCENTRALITY_MAX: f64 = 1e6;

/// The chance of an F at least this large, were there no effect; `None` where it or the degrees of freedom make no
/// sense.
#[must_use]
pub fn p_of_f(f: f64, effect_df: f64, error_df: f64) -> Option<f64> {
    if !f.is_finite() || f < 0.0 {
        return None;
    }
    FisherSnedecor::new(effect_df, error_df).ok().map(|fisher| fisher.sf(f))
}

/// The chance of an F no larger than this, its noncentrality being given: a mixture of beta functions with weights of a
/// Poisson distribution (Johnson, Kotz & Balakrishnan 1995, "Continuous Univariate Distributions" 2, chapter 30).
fn cdf(f: f64, effect_df: f64, error_df: f64, noncentrality: f64) -> f64 {
    let share = effect_df * f / (effect_df * f + error_df);
    let mean = noncentrality / 2.0;
    let beta = |j: u64| beta_reg(effect_df / 2.0 + j as f64, error_df / 2.0, share);
    let weight = |j: u64| (j as f64 * mean.ln() - mean - ln_gamma(j as f64 + 1.0)).exp();
    if share <= 0.0 {
        return 0.0;
    }
    if mean <= 0.0 {
        return beta(0);
    }
    // Outwards from the largest weight, until there is nothing more to add; the betas grow as j falls.
    let mode = mean.floor() as u64;
    let above = (mode..).map(|j| weight(j) * beta(j)).take_while(|&term| term > 1e-12).sum::<f64>();
    let below = (0..mode).rev().map(|j| (j, weight(j))).take_while(|&(_, weight)| weight > 1e-12);
    (above + below.map(|(j, weight)| weight * beta(j)).sum::<f64>()).min(1.0)
}

/// The 95 % interval of the noncentrality behind an F: how large the effect is, in units of the error (Steiger 2004,
/// "Beyond the F test: effect size confidence intervals and tests of close fit in the analysis of variance").
///
/// `None` where F or the degrees of freedom make no sense.
#[must_use]
pub fn noncentrality_interval(f: f64, effect_df: f64, error_df: f64) -> Option<[f64; 2]> {
    if !(f.is_finite() && f >= 0.0 && effect_df > 0.0 && error_df > 0.0) {
        return None;
    }
    Some([0.975, 0.025].map(|chance| noncentrality_at(chance, |nc| cdf(f, effect_df, error_df, nc))))
}

/// Where a function that falls has come down to `chance`; 0 where it begins below.
fn noncentrality_at(chance: f64, falling: impl Fn(f64) -> f64) -> f64 {
    if falling(0.0) <= chance {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while falling(high) > chance {
        if high >= NONCENTRALITY_MAX {
            return NONCENTRALITY_MAX;
        }
        (low, high) = (high, high * 2.0);
    }
    // Four digits are more than an interval of an effect carries.
    while high - low > 1e-4 * high.max(1e-3) {
        let middle = f64::midpoint(low, high);
        if falling(middle) > chance { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_is_scipys() {
        // scipy.stats.ncf.cdf(f, dfn, dfd, nc), SciPy 1.17.1
        let expected = [
            (3.5, 2.0, 15.0, 0.0001, 0.943_432_608_392_673_3),
            (3.5, 2.0, 15.0, 4.0, 0.629_515_038_556_892_2),
            (1.2, 5.0, 40.0, 12.0, 0.049_078_037_293_778_36),
            (20.0, 1.0, 8.0, 30.0, 0.219_110_541_428_861_97),
            (50.0, 3.0, 200.0, 150.0, 0.466_540_148_570_367_24),
        ];
        for (f, effect, error, noncentrality, chance) in expected {
            let found = cdf(f, effect, error, noncentrality);
            assert!((found - chance).abs() < 1e-9, "{found} is not {chance}");
        }
        // scipy.stats.f.sf(9.591107036442809, 2, 12)
        let p = p_of_f(9.591_107_036_442_809, 2.0, 12.0).unwrap();
        assert!((p - 0.003_248_222_600_859_306).abs() < 1e-9, "{p}");
    }

    #[test]
    fn the_interval_is_where_scipy_puts_it() {
        // scipy.optimize.brentq of scipy.stats.ncf.cdf(9.3, 2, 15, nc) at 0.975 and 0.025, SciPy 1.17.1
        let [low, high] = noncentrality_interval(9.3, 2.0, 15.0).unwrap();
        assert!((low - 2.429_728_607).abs() < 1e-3, "{low}");
        assert!((high - 44.477_307_07).abs() < 5e-3, "{high}");
    }

    #[test]
    fn what_differs_less_than_chance_would_may_be_nothing() {
        let [low, high] = noncentrality_interval(1.0, 2.0, 15.0).unwrap();
        assert!(low == 0.0 && high > 1.0);
        assert_eq!(noncentrality_interval(0.001, 2.0, 15.0), Some([0.0, 0.0]));
        assert_eq!(noncentrality_interval(f64::NAN, 2.0, 15.0), None);
        assert_eq!(noncentrality_interval(f64::INFINITY, 2.0, 15.0), None);
        assert_eq!(noncentrality_interval(3.0, 0.0, 15.0), None);
        assert_eq!(p_of_f(-1.0, 2.0, 15.0), None);
    }
}
