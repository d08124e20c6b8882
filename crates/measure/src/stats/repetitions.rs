//! How many runs the median needs: CONFIRM, Maricq, Duplyakin, Jimenez, Maltzahn, Stutsman & Ricci 2018, "Taming
//! Performance Variability" (OSDI '18).
//!
//! CONFIRM draws subsets of s runs, takes the non-parametric 95 % interval of the median of each, and averages its ends;
//! the least s whose averaged ends lie within the error asked for is the answer. Here the averages are exact: those of
//! all subsets, instead of 200 drawn ones. Two more differences, both because a study has ten runs and not hundreds:
//!
//! 1. The ranks of the interval are those of the binomial distribution itself, not of its normal approximation
//!    (Hollander & Wolfe 1999, "Nonparametric Statistical Methods", chapter 3.6), so six runs are the least.
//! 2. Where all runs that there are do not suffice, more are drawn with replacement from those: an extrapolation, which
//!    takes the runs so far for all that can happen, and is marked as one.

use statrs::function::beta::beta_reg;
use statrs::function::gamma::ln_gamma;

/// Beyond so many runs the answer is that more are needed.
pub const MOST_RUNS: u64 = 10_000;

/// How many runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repetitions {
    /// So many, of the runs that there are.
    Observed(u64),
    /// So many, drawn from the runs that there are.
    Extrapolated(u64),
    /// More than [`MOST_RUNS`].
    Beyond,
}

/// From below, the rank of the order statistic that bounds the 95 % interval of the median of `count` values; the other
/// bound is as far from above. `None` for fewer than six values: their least and largest hold the median less often.
///
/// The largest k with P(B < k) <= 0.025, B being binomial with `count` trials at one half.
#[must_use]
pub fn median_rank(count: u64) -> Option<u64> {
    let below = |k: u64| beta_reg((count - k + 1) as f64, k as f64, 0.5);
    let (mut low, mut high) = (0, count / 2);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if below(middle) <= 0.025 { low = middle } else { high = middle - 1 }
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
    let count = sorted.len() as u64;
    let least = (1..=count).find(|&count| median_rank(count).is_some())?;
    let median = super::bootstrap::quantile_of_sorted(&sorted, 0.5);
    if median == 0.0 {
        return None;
    }
    let allowed = error * median.abs();
    let suffices = |of: u64| {
        let ends =
            if of <= count { mean_ends_of_subsets(&sorted, of) } else { mean_ends_of_draws(&sorted, of) };
        ends.is_some_and(|[low, high]| median - low <= allowed && high - median <= allowed)
    };
    if let Some(enough) = (least..=count).find(|&of| suffices(of)) {
        return Some(Repetitions::Observed(enough));
    }
    // The ranks step unevenly, so the ends do: the bisection's answer is right to a step of the ranks.
    let (mut low, mut high) = (count, count + 1);
    while !suffices(high) {
        if high >= MOST_RUNS {
            return Some(Repetitions::Beyond);
        }
        (low, high) = (high, (high * 2).min(MOST_RUNS));
    }
    while high - low > 1 {
        let middle = u64::midpoint(low, high);
        if suffices(middle) { high = middle } else { low = middle }
    }
    Some(Repetitions::Extrapolated(high))
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

    #[test]
    fn steadier_runs_need_fewer() {
        assert_eq!(repetitions(&RUNS, 0.06), Some(Repetitions::Observed(6)));
        let Some(Repetitions::Extrapolated(many)) = repetitions(&RUNS, 0.01) else { panic!() };
        assert!((20..60).contains(&many), "{many}");
        let Some(Repetitions::Extrapolated(more)) = repetitions(&RUNS, 0.005) else { panic!() };
        assert!(more > many, "{more}");
        assert_eq!(repetitions(&[5.0; 6], 0.01), Some(Repetitions::Observed(6)));
    }

    #[test]
    fn two_speeds_never_come_to_one_median() {
        let two = [100.0, 100.0, 100.0, 100.0, 100.0, 200.0, 200.0, 200.0, 200.0, 200.0];
        assert_eq!(repetitions(&two, 0.05), Some(Repetitions::Beyond));
    }

    #[test]
    fn too_few_runs_say_nothing() {
        assert_eq!(repetitions(&RUNS[..5], 0.05), None);
        assert_eq!(repetitions(&[0.0; 10], 0.05), None);
        assert_eq!(repetitions(&[f64::NAN; 10], 0.05), None);
    }

    proptest! {
        #[test]
        fn a_wider_interval_takes_no_more_runs(runs in prop::collection::vec(900.0..1100.0_f64, 6..15)) {
            let many = |found| match found {
                Some(Repetitions::Observed(many) | Repetitions::Extrapolated(many)) => many,
                _ => MOST_RUNS + 1,
            };
            let (narrow, wide) = (many(repetitions(&runs, 0.02)), many(repetitions(&runs, 0.1)));
            prop_assert!(wide <= narrow, "{wide} {narrow}");
        }
    }
}
