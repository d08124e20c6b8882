//! Whether a series remembers: what comes next resembles what came before.

use statrs::distribution::{ContinuousCDF, Normal};

/// The outcome of a test for serial correlation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Serial {
    /// The correlation of neighbours in ranks, from -1 to 1: positive where they resemble each other.
    pub of_neighbours: f64,
    /// The chance of one as far from zero, were the order arbitrary.
    pub p_two_sided: f64,
}

/// Tests the order of a series by the rank version of von Neumann's ratio: Bartels 1982, "The rank version of von
/// Neumann's ratio test for randomness", with the normal approximation, good from ten values on.
///
/// `None` for fewer than ten values, where one is not finite, and where all are equal.
#[must_use]
pub fn serial_correlation(values: &[f64]) -> Option<Serial> {
    if values.len() < 10 || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let n = values.len() as f64;
    let ranks = super::ranks::centred(values);
    let squares: f64 = ranks.iter().map(|rank| rank * rank).sum();
    let steps: f64 = ranks.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    let ratio = steps / squares;
    if !ratio.is_finite() {
        return None;
    }
    let variance =
        4.0 * (n - 2.0) * (5.0 * n * n - 2.0 * n - 9.0) / (5.0 * n * (n + 1.0) * (n - 1.0).powi(2));
    let distance = (ratio - 2.0) / variance.sqrt();
    let products: f64 = ranks.windows(2).map(|pair| pair[0] * pair[1]).sum();
    Some(Serial {
        of_neighbours: products / squares,
        p_two_sided: (2.0 * Normal::standard().sf(distance.abs())).min(1.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn a_drift_is_seen() {
        let drifting = [2.1, 3.4, 1.7, 4.4, 5.0, 4.1, 6.2, 5.9, 7.3, 6.6, 8.0, 7.7];
        let found = serial_correlation(&drifting).unwrap();
        // Bartels' formulae with scipy.stats.rankdata and scipy.stats.norm.sf, SciPy 1.17.1: a ratio of 0.4405594
        assert!((found.p_two_sided - 0.003_852_205_823_056_881).abs() < 1e-9, "{found:?}");
        assert!(found.of_neighbours > 0.5);
    }

    #[test]
    fn an_arbitrary_order_passes_as_one_nineteen_times_in_twenty() {
        let mut random = StdRng::seed_from_u64(4);
        for length in [10, 30, 200] {
            let seen = (0..1_000).filter(|_| {
                let values: Vec<f64> = (0..length).map(|_| random.random()).collect();
                serial_correlation(&values).unwrap().p_two_sided < 0.05
            });
            let seen = seen.count();
            assert!((25..=70).contains(&seen), "{seen} of 1,000 of {length}");
        }
    }

    #[test]
    fn too_little_says_nothing() {
        assert_eq!(serial_correlation(&[1.0; 30]), None);
        assert_eq!(serial_correlation(&[1.0, 2.0, 3.0]), None);
        assert_eq!(serial_correlation(&[f64::NAN; 20]), None);
    }
}
