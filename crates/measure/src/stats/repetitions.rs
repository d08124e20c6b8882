//! How many runs the median needs: CONFIRM, Maricq, Duplyakin, Jimenez, Maltzahn, Stutsman & Ricci 2018, "Taming
//! Performance Variability" (OSDI '18).
//!
//! CONFIRM draws subsets of s runs, takes the non-parametric 95 % interval of the median of each, and averages its ends;
//! the least s whose averaged ends lie within the error asked for is the answer. Here the averages are exact: those of
//! all subsets, instead of 200 drawn ones; and the ranks of the interval are those of the binomial distribution itself, not
//! of its normal approximation (Hollander & Wolfe 1999, "Nonparametric Statistical Methods", chapter 3.6), so six runs are
//! the least.
//!
//! A number is said where the runs tell it to a factor of 1.5 nine times in ten, and else none:
//!
//! 1. Fewer than forty runs say nothing: a second speed that a run in ten has may not be among them.
//! 2. Where the runs, or their logarithms, pass for normal, and are not as flat as two speeds side by side, the ends are those of that distribution; the interval of their
//!    deviation says how well that is known. It takes forty runs, or an answer that does not depend on it. The interval of
//!    the median that the runs themselves have must be about as wide as it should be then.
//! 3. Else the answer is that of subsets, where enough runs lie between the ends to tell how far apart these are.

use statrs::distribution::{ChiSquared, ContinuousCDF, Normal};
use statrs::function::beta::beta_reg;
use statrs::function::gamma::ln_gamma;

/// Beyond so many runs the answer is that more are needed.
pub const MOST_RUNS: u64 = 10_000;
/// Fewer runs say nothing.
pub const LEAST_TO_TELL: usize = 40;
/// A distribution that runs pass for: a better one would be refused this often.
const PASSES: f64 = 0.25;
/// Two speeds three deviations apart have a kurtosis of 2.1, where normal ones have 3.
const KURTOSIS_MIN: f64 = 2.4;
/// Both ends of what the answer may be lie within this factor of it.
const FACTOR: f64 = 1.5;
/// So many runs between the ends tell how far apart these are.
const RUNS_BETWEEN_ENDS: f64 = 60.0;

/// How many runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repetitions {
    /// So many.
    Told(u64),
    /// More than [`MOST_RUNS`].
    Beyond,
    /// The runs that there are do not tell.
    CannotBeSaid,
}

/// From below, the rank of the order statistic that bounds the 95 % interval of the median of `count` values; the other
/// bound is as far from above. `None` for fewer than six values: their least and largest hold the median less often.
///
/// The largest k with P(B < k) <= 0.025, B being binomial with `count` trials at one half.
#[must_use]
pub fn median_rank(count: u64) -> Option<u64> {
    rank_with_tail(count, 0.025)
}

/// As [`median_rank`], with another chance than 2.5 % that the median lies beyond the bound.
pub(super) fn rank_with_tail(count: u64, tail: f64) -> Option<u64> {
    let below = |k: u64| beta_reg((count - k + 1) as f64, k as f64, 0.5);
    let (mut low, mut high) = (0, count / 2);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if below(middle) <= tail { low = middle } else { high = middle - 1 }
    }
    (low > 0).then_some(low)
}

/// The 95 % interval of the median from order statistics, in the unit of `values`; `None` for fewer than six of them,
/// and where one is not finite.
#[must_use]
pub fn median_order_interval(values: &[f64]) -> Option<[f64; 2]> {
    let sorted = sorted(values)?;
    let rank = median_rank(sorted.len() as u64)? as usize;
    Some([sorted[rank - 1], sorted[sorted.len() - rank]])
}

/// How many runs it takes until the 95 % interval of the median is expected to lie within `error` of it on both sides,
/// a share: 0.01 for 1 %.
///
/// `None` for fewer than six runs, where one is not finite, or where the median is zero.
#[must_use]
pub fn repetitions(runs: &[f64], error: f64) -> Option<Repetitions> {
    let sorted = sorted(runs)?;
    median_rank(sorted.len() as u64)?;
    let median = super::bootstrap::quantile_of_sorted(&sorted, 0.5);
    if median == 0.0 {
        return None;
    }
    if sorted.len() < LEAST_TO_TELL {
        return Some(Repetitions::CannotBeSaid);
    }
    if sorted[0] == sorted[sorted.len() - 1] {
        return least(|_| true).map(Repetitions::Told);
    }
    let found = match Shape::of(&sorted, median) {
        Some(shape) => shape.runs(error),
        None => of_subsets(&sorted, median, error),
    };
    Some(found.unwrap_or(Repetitions::CannotBeSaid))
}

/// The least number of runs that suffices, where more suffice if fewer do; `None` for more than [`MOST_RUNS`].
fn least(suffices: impl Fn(u64) -> bool) -> Option<u64> {
    let first = (1..).find(|&count| median_rank(count).is_some())?;
    if suffices(first) {
        return Some(first);
    }
    // The ranks step unevenly, so the ends do: the bisection's answer is right to a step of the ranks.
    let (mut low, mut high) = (first, 2 * first);
    while !suffices(high) {
        if high >= MOST_RUNS {
            return None;
        }
        (low, high) = (high, (high * 2).min(MOST_RUNS));
    }
    while high - low > 1 {
        let middle = u64::midpoint(low, high);
        if suffices(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

/// A normal distribution that runs, or their logarithms, pass for.
struct Shape {
    is_log: bool,
    /// Of the logarithms; else over the median.
    deviation: f64,
    runs: usize,
}

impl Shape {
    fn of(sorted: &[f64], median: f64) -> Option<Self> {
        let logs: Option<Vec<f64>> =
            (sorted[0] > 0.0).then(|| sorted.iter().map(|value| value.ln()).collect());
        let fit = |values: &[f64], is_log: bool| {
            let (passes, deviation) = normality(values).filter(|_| kurtosis(values) >= KURTOSIS_MIN)?;
            let deviation = if is_log { deviation } else { deviation / median.abs() };
            Some((passes, Self { is_log, deviation, runs: values.len() }))
        };
        let fits = [fit(sorted, false), logs.and_then(|logs| fit(&logs, true))];
        let best = fits.into_iter().flatten().max_by(|one, other| one.0.total_cmp(&other.0));
        let shape = best.filter(|(passes, _)| *passes >= PASSES)?.1;
        // Two speeds may pass for one that varies; the middle between them has fewer runs than it should.
        let [low, high] = median_order_interval(sorted)?;
        let [expected_low, expected_high] = shape.ends(shape.runs as u64, shape.deviation)?;
        let wider = (high - low) / median.abs() / (expected_high - expected_low);
        (1.0 / FACTOR..=FACTOR).contains(&wider).then_some(shape)
    }

    /// The expected ends of the interval of so many runs, over the median.
    fn ends(&self, count: u64, deviation: f64) -> Option<[f64; 2]> {
        let rank = median_rank(count)? as f64;
        // Blom 1958, "Statistical Estimates and Transformed Beta-Variables".
        let far = -deviation * Normal::standard().inverse_cdf((rank - 0.375) / (count as f64 + 0.25));
        Some(if self.is_log { [(-far).exp(), far.exp()] } else { [1.0 - far, 1.0 + far] })
    }

    fn runs(&self, error: f64) -> Option<Repetitions> {
        let of_deviation = |deviation: f64| {
            least(|count| {
                let ends = self.ends(count, deviation);
                ends.is_some_and(|[low, high]| 1.0 - low <= error && high - 1.0 <= error)
            })
        };
        let freedom = (self.runs - 1) as f64;
        let spread = ChiSquared::new(freedom).ok()?;
        let [low, high] = [0.95, 0.05]
            .map(|chance| of_deviation(self.deviation * (freedom / spread.inverse_cdf(chance)).sqrt()));
        match (low, high) {
            (None, _) => Some(Repetitions::Beyond),
            (Some(low), Some(high)) if high as f64 <= FACTOR * FACTOR * low as f64 => {
                of_deviation(self.deviation).map(Repetitions::Told)
            }
            _ => None,
        }
    }
}

/// The answer of subsets of the runs, where there are enough of these.
fn of_subsets(sorted: &[f64], median: f64, error: f64) -> Option<Repetitions> {
    let allowed = error * median.abs();
    let half = sorted.len() as u64 / 2;
    let suffices = |of: u64| {
        let ends = mean_ends_of_subsets(sorted, of);
        ends.is_some_and(|[low, high]| median - low <= allowed && high - median <= allowed)
    };
    let enough = (1..=half).find(|&of| suffices(of))?;
    let between = sorted.len() as f64 * 1.96 / (enough as f64).sqrt();
    (between >= RUNS_BETWEEN_ENDS).then_some(Repetitions::Told(enough))
}

/// How often values from a normal distribution would look less like it (Anderson & Darling 1954, with mean and deviation
/// estimated; D'Agostino & Stephens 1986, "Goodness-of-Fit Techniques", table 4.9), and their deviation.
fn normality(sorted: &[f64]) -> Option<(f64, f64)> {
    let moments = super::moments::Moments::of(sorted)?;
    let deviation = moments.variance?.sqrt();
    let count = sorted.len() as f64;
    let below = |value: f64| {
        let share = Normal::standard().cdf((value - moments.mean) / deviation);
        share.clamp(1e-12, 1.0 - 1e-12)
    };
    let term = |(at, value): (usize, &f64)| {
        let mirrored = sorted[sorted.len() - 1 - at];
        (2.0 * at as f64 + 1.0) * (below(*value).ln() + (1.0 - below(mirrored)).ln())
    };
    let sum: f64 = sorted.iter().enumerate().map(term).sum();
    let distance = (-count - sum / count) * (1.0 + 0.75 / count + 2.25 / count / count);
    let chance = match distance {
        d if d < 0.2 => 1.0 - (-13.436 + 101.14 * d - 223.73 * d * d).exp(),
        d if d < 0.34 => 1.0 - (-8.318 + 42.796 * d - 59.938 * d * d).exp(),
        d if d < 0.6 => (0.9177 - 4.279 * d - 1.38 * d * d).exp(),
        d => (1.2937 - 5.709 * d + 0.0186 * d * d).exp(),
    };
    (chance.is_finite() && deviation > 0.0).then_some((chance, deviation))
}

/// The mean fourth power of deviations over the square of the mean second one: 3 of a normal distribution.
fn kurtosis(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let moment = |power| values.iter().map(|value| (value - mean).powi(power)).sum::<f64>() / count;
    moment(4) / moment(2).powi(2)
}

fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    if values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(sorted)
}

/// The means of the interval's ends over all subsets of `size` runs.
fn mean_ends_of_subsets(sorted: &[f64], size: u64) -> Option<[f64; 2]> {
    let rank = median_rank(size)?;
    let count = sorted.len() as u64;
    // The chance that the run at place j from 1 is the one at `rank` of a subset: negative hypergeometric.
    let chance = |j: u64, rank: u64| {
        let (below, above) = (choose(j - 1, rank - 1), choose(count - j, size - rank));
        (below + above - choose(count, size)).exp()
    };
    let mean = |rank: u64| (1..=count).zip(sorted).map(|(j, value)| chance(j, rank) * value).sum::<f64>();
    Some([mean(rank), mean(size + 1 - rank)])
}

/// The logarithm of n over k, and of 0 where there is none.
fn choose(n: u64, k: u64) -> f64 {
    if k > n {
        return f64::NEG_INFINITY;
    }
    ln_gamma((n + 1) as f64) - ln_gamma((k + 1) as f64) - ln_gamma((n - k + 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};
    use rand_distr::{Distribution, StandardNormal};

    const RUNS: [f64; 10] = [1012.0, 1004.0, 987.0, 1021.0, 996.0, 950.0, 1008.0, 1015.0, 979.0, 1001.0];

    fn near(found: [f64; 2], expected: [f64; 2]) {
        let far = found.iter().zip(expected).any(|(found, expected)| (found / expected - 1.0).abs() > 1e-9);
        assert!(!far, "{found:?} is not {expected:?}");
    }

    #[test]
    fn the_ranks_are_those_of_the_binomial_distribution() {
        // The largest k with scipy.stats.binom.cdf(k - 1, n, 0.5) <= 0.025, SciPy 1.17.1
        let expected = [
            (5, None),
            (6, Some(1)),
            (8, Some(1)),
            (9, Some(2)),
            (10, Some(2)),
            (12, Some(3)),
            (17, Some(5)),
            (20, Some(6)),
            (25, Some(8)),
            (30, Some(10)),
        ];
        for (count, rank) in expected {
            assert_eq!(median_rank(count), rank, "of {count}");
        }
        assert_eq!(median_order_interval(&RUNS), Some([979.0, 1015.0]));
        assert_eq!(median_order_interval(&RUNS[..5]), None);
    }

    #[test]
    fn the_ends_are_those_of_all_subsets() {
        let mut runs = RUNS;
        runs.sort_by(f64::total_cmp);
        // numpy.mean over itertools.combinations(runs, 8) of the least and the largest
        near(mean_ends_of_subsets(&runs, 8).unwrap(), [955.977_777_777_778, 1_019.733_333_333_333]);
        // By scipy.stats.binom.sf; 400,000 draws of 20 give 989.55 and 1010.42
        near(mean_ends_of_draws(&runs, 20).unwrap(), [989.551_356_319_093_9, 1_010.416_486_526_027_2]);
        near(mean_ends_of_draws(&runs, 200).unwrap(), [999.993_693_230_505_4, 1_004.792_818_906_846_7]);
    }

    /// Values that lie as a distribution does, by its quantiles.
    fn quantiles(of: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut all: Vec<f64> = (0..2_001).map(|at| of((f64::from(at) + 0.5) / 2_001.0)).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    /// How many runs it truly takes.
    fn truth(quantiles: &[f64], error: f64) -> Option<u64> {
        let median = quantiles[quantiles.len() / 2];
        least(|count| {
            let ends = mean_ends_of_draws(quantiles, count);
            ends.is_some_and(|[low, high]| median - low <= error * median && high - median <= error * median)
        })
    }

    #[test]
    fn what_is_said_is_right_to_a_factor_of_one_and_a_half_or_not_said() {
        let normal = |share: f64| Normal::standard().inverse_cdf(share);
        let two = |share: f64, slow: f64, apart: f64| {
            if share < slow {
                1.0 - apart + 0.01 * normal(share / slow)
            } else {
                1.0 + 0.01 * normal((share - slow) / (1.0 - slow))
            }
        };
        let kinds: [(&str, Vec<f64>, f64); 8] = [
            ("normal 5 %, to 1 %", quantiles(|share| 1.0 + 0.05 * normal(share)), 0.01),
            ("normal 1 %, to 5 %", quantiles(|share| 1.0 + 0.01 * normal(share)), 0.05),
            ("lognormal 0.5, to 5 %", quantiles(|share| (0.5 * normal(share)).exp()), 0.05),
            ("lognormal 0.2, to 5 %", quantiles(|share| (0.2 * normal(share)).exp()), 0.05),
            ("a tenth slow, to 1 %", quantiles(|share| two(share, 0.1, 0.4)), 0.01),
            ("a third slow, to 5 %", quantiles(|share| two(share, 0.33, 0.3)), 0.05),
            ("half slow, to 5 %", quantiles(|share| two(share, 0.499, 0.04)), 0.01),
            ("two near each other, to 1 %", quantiles(|share| two(share, 0.4, 0.03)), 0.01),
        ];
        let mut random = StdRng::seed_from_u64(6);
        let mut failed = Vec::new();
        for (name, quantiles, error) in &kinds {
            let truth = truth(quantiles, *error);
            for runs in [10, 40, 60, 100] {
                let (mut told, mut wrong) = (0, 0);
                for _ in 0..200 {
                    let sample: Vec<f64> =
                        (0..runs).map(|_| quantiles[random.random_range(0..quantiles.len())]).collect();
                    match repetitions(&sample, *error).unwrap() {
                        Repetitions::CannotBeSaid => {}
                        Repetitions::Beyond => wrong += usize::from(truth.is_some()),
                        Repetitions::Told(many) => {
                            told += 1;
                            let ratio = truth.map_or(0.0, |truth| many as f64 / truth as f64);
                            wrong += usize::from(!(1.0 / 1.5..=1.5).contains(&ratio));
                        }
                    }
                }
                let is_useful = runs < 100 || !name.contains("normal") || told >= 100;
                if wrong > 20 || !is_useful || runs == 10 && told > 0 {
                    failed.push(format!(
                        "{name}: of {runs} runs, {wrong} wrong, {told} of 200 told; it takes {truth:?}"
                    ));
                }
            }
        }
        assert!(failed.is_empty(), "{failed:#?}");
    }

    #[test]
    fn steadier_runs_need_fewer() {
        let runs: Vec<f64> = (0..60)
            .map(|at| 1000.0 + 30.0 * Normal::standard().inverse_cdf((f64::from(at) + 0.5) / 60.0))
            .collect();
        let Some(Repetitions::Told(few)) = repetitions(&runs, 0.05) else { panic!() };
        let Some(Repetitions::Told(many)) = repetitions(&runs, 0.01) else { panic!() };
        // (1.96 x 1.2533 x 3 %)² over the error squared.
        assert!((50..65).contains(&many) && few < 9, "{few} {many}");
        assert_eq!(repetitions(&runs, 0.0005), Some(Repetitions::Beyond));
        assert_eq!(repetitions(&[5.0; 40], 0.01), Some(Repetitions::Told(6)));
        assert_eq!(repetitions(&RUNS, 0.06), Some(Repetitions::CannotBeSaid));
    }

    #[test]
    fn normal_values_pass_for_normal_as_often_as_they_should() {
        let mut random = StdRng::seed_from_u64(8);
        let pass = (0..1_000).filter(|_| {
            let mut values: Vec<f64> = (0..40).map(|_| StandardNormal.sample(&mut random)).collect();
            values.sort_by(f64::total_cmp);
            normality(&values).unwrap().0 >= PASSES
        });
        let pass = pass.count();
        assert!((700..=800).contains(&pass), "{pass} of 1,000");
    }

    #[test]
    fn too_few_runs_say_nothing() {
        assert_eq!(repetitions(&RUNS[..5], 0.05), None);
        assert_eq!(repetitions(&[0.0; 10], 0.05), None);
        assert_eq!(repetitions(&[f64::NAN; 10], 0.05), None);
    }

    proptest! {
        #[test]
        fn a_wider_interval_takes_no_more_runs(runs in prop::collection::vec(900.0..1100.0_f64, 40..55)) {
            let many = |found| match found {
                Some(Repetitions::Told(many)) => Some(many),
                _ => None,
            };
            if let (Some(narrow), Some(wide)) = (many(repetitions(&runs, 0.02)), many(repetitions(&runs, 0.1))) {
                prop_assert!(wide <= narrow, "{wide} {narrow}");
            }
        }
    }

    /// The means of the interval's ends over all samples of `size`, drawn with replacement.
    fn mean_ends_of_draws(sorted: &[f64], size: u64) -> Option<[f64; 2]> {
        let rank = median_rank(size)?;
        let count = sorted.len() as f64;
        // At least `rank` of the draws are among the lowest j runs: binomial, as a beta function.
        let at_least = |j: usize, rank: u64| match j {
            0 => 0.0,
            j if j == sorted.len() => 1.0,
            j => beta_reg(rank as f64, (size - rank + 1) as f64, j as f64 / count),
        };
        let mean = |rank: u64| {
            let chances = (0..=sorted.len()).map(|j| at_least(j, rank)).collect::<Vec<_>>();
            sorted.iter().zip(chances.windows(2)).map(|(value, chance)| value * (chance[1] - chance[0])).sum()
        };
        Some([mean(rank), mean(size + 1 - rank)])
    }
}
