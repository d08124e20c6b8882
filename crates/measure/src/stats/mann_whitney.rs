//! Whether one sample tends to larger values than another, whatever their distributions: the Mann-Whitney U
//! test.

use statrs::distribution::{ContinuousCDF, Normal};

/// The largest size of either sample at which the distribution of U is counted out: all arrangements of two
/// such samples still fit an `i64`, and beyond it the normal approximation is as good.
const EXACT_UP_TO: usize = 30;

/// The outcome of a Mann-Whitney U test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UTest {
    /// In how many pairs the value of the first sample is the larger; a tied pair counts one half.
    pub u: f64,
    /// The chance of a `u` at least as far from its mean, were the populations the same.
    pub p_two_sided: f64,
    /// Whether `p_two_sided` was counted out, not approximated.
    pub exact: bool,
}

/// Tests whether values of sample `a` tend to be larger, or smaller, than those of `b`: Mann & Whitney 1947,
/// "On a test of whether one of two random variables is stochastically larger than the other".
///
/// Exact for samples of up to 30 values each and no ties; otherwise by the normal approximation, corrected
/// for ties and for continuity. Both agree with `scipy.stats.mannwhitneyu`.
///
/// `None` where a sample is empty or holds a NaN.
#[must_use]
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<UTest> {
    if a.is_empty() || b.is_empty() || a.iter().chain(b).any(|v| v.is_nan()) {
        return None;
    }
    let (n, m) = (a.len(), b.len());
    let (rank_sum, tie_term) = ranks(a, b);
    let u = rank_sum - triangle(n);
    let pairs = n as f64 * m as f64;
    let farther = u.max(pairs - u);
    let exact = tie_term == 0.0 && n <= EXACT_UP_TO && m <= EXACT_UP_TO;
    let p =
        if exact { 2.0 * chance_of_at_least(farther, n, m) } else { approximate(farther, n, m, tie_term)? };
    Some(UTest { u, p_two_sided: p.min(1.0), exact })
}

/// The sum of the ranks of `a` among both samples, tied values sharing their mean rank; and the sum of
/// t³ - t over groups of t tied values.
fn ranks(a: &[f64], b: &[f64]) -> (f64, f64) {
    let mut all: Vec<(f64, bool)> =
        a.iter().map(|&v| (v, true)).chain(b.iter().map(|&v| (v, false))).collect();
    all.sort_by(|(left, _), (right, _)| left.total_cmp(right));
    let (mut rank_sum, mut tie_term, mut before) = (0.0, 0.0, 0.0);
    for group in all.chunk_by(|(left, _), (right, _)| left == right) {
        let size = group.len() as f64;
        let of_a = group.iter().filter(|(_, from_a)| *from_a).count() as f64;
        rank_sum += of_a * (before + (size + 1.0) / 2.0);
        tie_term += size * size * size - size;
        before += size;
    }
    (rank_sum, tie_term)
}

/// 1 + 2 + ... + n: the smallest sum of n ranks.
fn triangle(n: usize) -> f64 {
    let n = n as f64;
    n * (n + 1.0) / 2.0
}

/// The chance that U is at least `u`, all arrangements of n and m distinct values being equally likely.
fn chance_of_at_least(u: f64, n: usize, m: usize) -> f64 {
    let counts = arrangements(n, m);
    let all: i64 = counts.iter().sum();
    let as_far: i64 = counts.iter().skip(u as usize).sum();
    as_far as f64 / all as f64
}

/// How many arrangements of n and m distinct values have U = 0, 1, ..., n m.
///
/// The counts are the coefficients of the Gaussian polynomial of n + m over n, built factor by factor as
/// Di Bucchianico 1999, "Combinatorics, computer algebra and the Wilcoxon-Mann-Whitney test", derives them.
fn arrangements(n: usize, m: usize) -> Vec<i64> {
    let mut counts = vec![0_i64; n * m + 1];
    counts[0] = 1;
    for i in 1..=n {
        // Times 1 - q^(m + i): downwards, so that each entry still sees its lower neighbour unchanged.
        for u in (m + i..counts.len()).rev() {
            counts[u] -= counts[u - m - i];
        }
        // Over 1 - q^i: upwards, so that each entry sees its lower neighbour already divided.
        for u in i..counts.len() {
            counts[u] += counts[u - i];
        }
    }
    counts
}

/// Two-sided p of `u`, not below its mean, by the normal approximation; `None` for no distribution, which the
/// constants here rule out.
fn approximate(u: f64, n: usize, m: usize, tie_term: f64) -> Option<f64> {
    let (n, m) = (n as f64, m as f64);
    let all = n + m;
    let variance = n * m / 12.0 * ((all + 1.0) - tie_term / (all * (all - 1.0)));
    if variance <= 0.0 {
        // Every value is tied with every other: nothing speaks for a difference.
        return Some(1.0);
    }
    const CONTINUITY: f64 = 0.5;
    let z = (u - n * m / 2.0 - CONTINUITY) / variance.sqrt();
    Normal::new(0.0, 1.0).ok().map(|normal| 2.0 * normal.sf(z))
}

/// The least two-sided p that samples of these sizes without ties can show: that of complete separation, 2 over
/// the number of ways to divide them.
pub fn least_mann_whitney_p(a: usize, b: usize) -> f64 {
    let ways: f64 = (1..=b).map(|step| (a + step) as f64 / step as f64).product();
    (2.0 / ways).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn assert_p(a: &[f64], b: &[f64], exact: bool, u: f64, p: f64) {
        let found = mann_whitney(a, b).unwrap();
        assert_eq!((found.u, found.exact), (u, exact));
        assert!((found.p_two_sided / p - 1.0).abs() < 1e-9, "{} is not {p}", found.p_two_sided);
    }

    fn wave(n: u32, frequency: f64, trend: f64) -> Vec<f64> {
        (0..n).map(|i| (f64::from(i) * frequency).sin() + trend * f64::from(i)).collect()
    }

    #[test]
    fn small_samples_are_counted_out() {
        // scipy.stats.mannwhitneyu(a, b, method='exact'), SciPy 1.17.1
        let (a, b) = ([19.0, 22.0, 16.0, 29.0, 24.0], [20.0, 11.0, 17.0, 12.0]);
        assert_p(&a, &b, true, 17.0, 0.1111111111111111);
        let (low, high) = ([1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, 9.0, 10.0]);
        assert_p(&low, &high, true, 0.0, 0.007936507936507936);
        let a = wave(30, 1.7, 0.01);
        let b: Vec<f64> = (0..30).map(|i| (f64::from(i) * 2.3).cos() + 0.4).collect();
        assert_p(&a, &b, true, 344.0, 0.11935760701547132);
    }

    #[test]
    fn large_samples_and_ties_are_approximated() {
        // scipy.stats.mannwhitneyu(a, b, method='asymptotic'), SciPy 1.17.1
        let a = wave(40, 1.7, 0.0);
        let b: Vec<f64> = (0..35).map(|i| (f64::from(i) * 2.3).cos() + 0.4).collect();
        assert_p(&a, &b, false, 482.0, 0.02089784675588585);
        let (a, b) = ([1.0, 2.0, 2.0, 3.0, 3.0, 3.0], [2.0, 3.0, 4.0, 4.0, 5.0]);
        assert_p(&a, &b, false, 5.5, 0.08871369199677616);
    }

    #[test]
    fn values_all_alike_speak_for_no_difference() {
        assert_p(&[1.0; 3], &[1.0; 2], false, 3.0, 1.0);
        assert_p(&[0.0], &[-0.0], false, 0.5, 1.0);
    }

    #[test]
    fn an_empty_or_senseless_sample_has_no_answer() {
        assert_eq!(mann_whitney(&[], &[1.0]), None);
        assert_eq!(mann_whitney(&[1.0], &[]), None);
        assert_eq!(mann_whitney(&[1.0], &[f64::NAN]), None);
    }

    #[test]
    fn the_counts_are_all_there_and_symmetric() {
        let counts = arrangements(30, 30);
        // 60 over 30
        assert_eq!(counts.iter().sum::<i64>(), 118_264_581_564_861_424);
        assert!(counts.iter().eq(counts.iter().rev()));
        assert_eq!(arrangements(2, 3), [1, 1, 2, 2, 2, 1, 1]);
    }

    proptest! {
        #[test]
        fn the_two_samples_share_all_pairs_and_one_p(
            a in prop::collection::vec(0.0..9.0f64, 1..40),
            b in prop::collection::vec(0.0..9.0f64, 1..40),
        ) {
            let (there, back) = (mann_whitney(&a, &b).unwrap(), mann_whitney(&b, &a).unwrap());
            prop_assert_eq!(there.u + back.u, (a.len() * b.len()) as f64);
            prop_assert!((there.p_two_sided - back.p_two_sided).abs() < 1e-12);
            prop_assert!((0.0..=1.0).contains(&there.p_two_sided));
        }

        #[test]
        fn only_the_order_counts(
            a in prop::collection::vec(0.0..9.0f64, 1..12),
            b in prop::collection::vec(0.0..9.0f64, 1..12),
        ) {
            let stretch = |values: &[f64]| values.iter().map(|v| 3.0 * v + 1.0).collect::<Vec<_>>();
            prop_assert_eq!(mann_whitney(&a, &b), mann_whitney(&stretch(&a), &stretch(&b)));
        }
    }

    #[test]
    fn the_least_p_is_that_of_complete_separation() {
        let low: Vec<f64> = (0..6).map(f64::from).collect();
        let high: Vec<f64> = (10..17).map(f64::from).collect();
        let found = mann_whitney(&low, &high).unwrap().p_two_sided;
        assert!((least_mann_whitney_p(6, 7) / found - 1.0).abs() < 1e-9);
        assert_eq!(least_mann_whitney_p(0, 0), 1.0);
    }
}
