//! By how much the two sides of pairs differ, whatever their distribution: the Hodges-Lehmann estimate with the
//! interval that belongs to Wilcoxon's signed-rank test.
//!
//! Where it was left to chance which side of each pair is which, the sign of each difference is a fair coin under the
//! hypothesis that the sides do not differ. The distribution of the signed ranks is then exact, for any noise, any drift
//! and any dependence between pairs.

use super::student;

/// Up to so many pairs the distribution of the rank sum is counted out; beyond, the normal one is as good.
const EXACT_UP_TO: usize = 50;

/// The typical difference of pairs, and where it may lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SignedRank {
    /// The median of the means of all two differences, each with itself too (Hodges & Lehmann 1963).
    pub estimate: f64,
    /// The interval at the level asked for; `None` where there are too few pairs for any at that level.
    pub interval: Option<[f64; 2]>,
}

/// Judges `differences` at level `1 - alpha`: the interval holds 0 unless Wilcoxon's signed-rank test rejects at `alpha`.
///
/// `None` for no differences, and where one is not finite.
#[must_use]
pub fn signed_rank(differences: &[f64], alpha: f64) -> Option<SignedRank> {
    if differences.is_empty() || differences.iter().any(|difference| !difference.is_finite()) {
        return None;
    }
    let count = differences.len();
    let mut sorted = differences.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = count * (count + 1) / 2 - 1;
    let mean = |place: usize| mean_at(&sorted, place);
    let estimate = f64::midpoint(mean(last / 2), mean(last - last / 2));
    let interval = outermost(count, alpha / 2.0)
        .filter(|&place| place <= last - place)
        .map(|place| [mean(place), mean(last - place)]);
    Some(SignedRank { estimate, interval })
}

/// The mean of two of `sorted`, each with itself too, of which so many others are smaller. It is looked for among all numbers, of
/// which there are 2^64, by how many means are no larger: all means at once would take gigabytes where there are many pairs.
fn mean_at(sorted: &[f64], place: usize) -> f64 {
    let (mut low, mut high) = (key(sorted[0]), key(sorted[sorted.len() - 1]));
    while low < high {
        let middle =
            i64::try_from((i128::from(low) + i128::from(high)).div_euclid(2)).expect("it is between two");
        match means_up_to(sorted, number(middle)) > place {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    number(low)
}

/// How many means of two of `sorted` are no larger than that.
fn means_up_to(sorted: &[f64], most: f64) -> usize {
    let (mut found, mut end) = (0, sorted.len());
    for (place, one) in sorted.iter().enumerate() {
        while end > place && f64::midpoint(*one, sorted[end - 1]) > most {
            end -= 1;
        }
        if end <= place {
            break;
        }
        found += end - place;
    }
    found
}

/// A number's place among all, in their order.
fn key(number: f64) -> i64 {
    let bits = number.to_bits() as i64;
    if bits < 0 { i64::MIN.wrapping_sub(bits).wrapping_sub(1) } else { bits }
}

/// The number in that place.
fn number(key: i64) -> f64 {
    let bits = if key < 0 { i64::MIN.wrapping_sub(key.wrapping_add(1)) } else { key };
    f64::from_bits(bits as u64)
}

/// The place, from either end, of the mean that bounds the interval: the largest rank sum whose chance of being reached
/// from below is at most `tail`. `None` where even 0 is likelier.
fn outermost(count: usize, tail: f64) -> Option<usize> {
    if count > EXACT_UP_TO {
        return approximate(count as f64, tail);
    }
    let mut below = 0.0;
    let mut place = None;
    for (sum, chance) in rank_sums(count).into_iter().enumerate() {
        below += chance;
        if below > tail {
            break;
        }
        place = Some(sum);
    }
    place
}

/// The chance of each sum of ranks with a positive sign, from 0 on, each sign being a fair coin.
fn rank_sums(count: usize) -> Vec<f64> {
    let mut chances = vec![1.0];
    for rank in 1..=count {
        let mut next = vec![0.0; chances.len() + rank];
        for (sum, chance) in chances.iter().enumerate() {
            next[sum] += chance / 2.0;
            next[sum + rank] += chance / 2.0;
        }
        chances = next;
    }
    chances
}

/// By the normal distribution, corrected for continuity.
fn approximate(count: f64, tail: f64) -> Option<usize> {
    let mean = count * (count + 1.0) / 4.0;
    let deviation = (count * (count + 1.0) * (2.0 * count + 1.0) / 24.0).sqrt();
    let place = mean - 0.5 - student::normal_quantile(1.0 - tail)? * deviation;
    (place >= 0.0).then_some(place as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn the_distribution_is_that_of_the_tables() {
        // The two-sided 5 % point of 10 pairs is a rank sum of 8, of 20 pairs 52, of 50 pairs 434 (Wilcoxon 1964);
        // the interval then begins one place further in, counted from 0 at the same number.
        assert_eq!(outermost(10, 0.025), Some(8));
        assert_eq!(outermost(20, 0.025), Some(52));
        assert_eq!(outermost(50, 0.025), Some(434));
        // Beyond the exact ones: that of 50 by the approximation is off by no more than one.
        assert!(approximate(50.0, 0.025).unwrap().abs_diff(434) <= 1);
        // Five pairs that all point one way happen once in 16: no interval at 5 %.
        assert_eq!(outermost(5, 0.025), None);
        assert_eq!(outermost(6, 0.025), Some(0));
    }

    #[test]
    fn pairs_that_all_differ_by_much_leave_0_out() {
        let differences: Vec<f64> = (0..12).map(|pair| 0.1 + 0.001 * f64::from(pair)).collect();
        let found = signed_rank(&differences, 0.01).unwrap();
        assert!((found.estimate - 0.1055).abs() < 1e-9);
        let [low, high] = found.interval.unwrap();
        assert!(0.1 < low && low < found.estimate && found.estimate < high && high < 0.112);
    }

    #[test]
    fn one_wild_pair_moves_little() {
        let mut differences: Vec<f64> = (0..30).map(|pair| 0.1 + 0.002 * f64::from(pair % 7)).collect();
        let before = signed_rank(&differences, 0.01).unwrap();
        differences[3] = -50.0;
        let after = signed_rank(&differences, 0.01).unwrap();
        assert!((before.estimate - after.estimate).abs() < 0.002);
        assert!(after.interval.unwrap()[0] > 0.0);
    }

    #[test]
    fn fair_coins_are_called_unfair_as_seldom_as_promised() {
        // Sizes that drift and hang together, signs by chance: beside 12 and 80 pairs.
        let mut random = StdRng::seed_from_u64(11);
        for count in [12, 80] {
            let mut wrong = 0;
            for _ in 0..2_000 {
                let mut size: f64 = 1.0;
                let differences: Vec<f64> = (0..count)
                    .map(|_| {
                        size = 0.9 * size + random.random::<f64>().powi(8);
                        if random.random::<bool>() { size } else { -size }
                    })
                    .collect();
                let [low, high] = signed_rank(&differences, 0.05).unwrap().interval.unwrap();
                wrong += usize::from(low > 0.0 || high < 0.0);
            }
            assert!(wrong <= 130, "{wrong} of 2000 at 5 %");
        }
    }

    #[test]
    fn what_is_no_number_has_no_answer() {
        assert_eq!(signed_rank(&[], 0.05), None);
        assert_eq!(signed_rank(&[1.0, f64::NAN], 0.05), None);
        assert_eq!(signed_rank(&[0.0; 10], 0.05).unwrap().interval, Some([0.0, 0.0]));
    }

    proptest! {
        #[test]
        fn a_mean_in_its_place_is_that_of_all_means_in_order(
            differences in prop::collection::vec(prop_oneof![-9.0..9.0_f64, Just(0.0), Just(-0.0), Just(1.5)], 1..40),
        ) {
            let mut sorted = differences.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            let pairs = (0..sorted.len()).flat_map(|one| (one..sorted.len()).map(move |other| (one, other)));
            let mut means: Vec<f64> =
                pairs.map(|(one, other)| f64::midpoint(sorted[one], sorted[other])).collect();
            means.sort_unstable_by(f64::total_cmp);
            for (place, mean) in means.iter().enumerate() {
                prop_assert_eq!(mean_at(&sorted, place), *mean);
            }
            for number_there in sorted {
                prop_assert_eq!(number(key(number_there)).to_bits(), number_there.to_bits());
            }
        }

        #[test]
        fn the_interval_holds_the_estimate_and_turns_with_the_sides(
            differences in prop::collection::vec(-9.0..9.0_f64, 1..60),
        ) {
            let there = signed_rank(&differences, 0.05).unwrap();
            let turned: Vec<f64> = differences.iter().map(|difference| -difference).collect();
            let back = signed_rank(&turned, 0.05).unwrap();
            prop_assert!((there.estimate + back.estimate).abs() < 1e-9);
            if let Some([low, high]) = there.interval {
                prop_assert!(low <= there.estimate && there.estimate <= high);
                let [back_low, back_high] = back.interval.unwrap();
                prop_assert!((low + back_high).abs() < 1e-9 && (high + back_low).abs() < 1e-9);
            }
        }
    }
}
