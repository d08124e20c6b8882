//! Many tests at once: Holm's step-down adjustment.

/// Adjusts the p-values `p` of a family of tests, so that rejecting those whose adjusted value is at most
/// alpha keeps the chance of even one false rejection at most alpha, however the tests depend on each other:
/// Holm 1979, "A simple sequentially rejective multiple test procedure".
///
/// One adjusted value for each given one, in the same order, each at least as large as its own and at most 1.
#[must_use]
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut ascending: Vec<(usize, f64)> = p.iter().copied().enumerate().collect();
    ascending.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    let mut adjusted = vec![1.0; p.len()];
    let mut largest = 0.0_f64;
    for (rank, (place, value)) in ascending.into_iter().enumerate() {
        let hypotheses_left = (p.len() - rank) as f64;
        largest = largest.max((hypotheses_left * value).min(1.0));
        if let Some(slot) = adjusted.get_mut(place) {
            *slot = largest;
        }
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_smallest_pays_for_all_and_the_largest_never_undercuts_it() {
        // By hand: 4 x 0.005, 3 x 0.01, 2 x 0.03, and 0.04 held up by its predecessor.
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in adjusted.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-15, "{adjusted:?}");
        }
    }

    #[test]
    fn one_test_needs_no_adjustment_and_none_is_no_trouble() {
        assert_eq!(holm(&[0.2]), [0.2]);
        assert!(holm(&[]).is_empty());
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }

    proptest! {
        #[test]
        fn adjustment_never_helps_keeps_the_order_and_spares_what_bonferroni_does(
            p in prop::collection::vec(0.0..=1.0f64, 1..20),
        ) {
            let adjusted = holm(&p);
            prop_assert_eq!(adjusted.len(), p.len());
            for (i, &value) in p.iter().enumerate() {
                prop_assert!(value <= adjusted[i] && adjusted[i] <= (p.len() as f64 * value).min(1.0));
                for (j, &other) in p.iter().enumerate() {
                    prop_assert!(value > other || adjusted[i] <= adjusted[j]);
                }
            }
        }
    }
}
