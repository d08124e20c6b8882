//! Values that do not belong to the others: the generalised extreme studentised deviate test, Rosner 1983,
//! "Percentage points for a generalized ESD many-outlier procedure".

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::moments::Moments;

/// The places of the outliers among `values`, ascending; at most a quarter of them. Were all from one normal
/// distribution, at least one would be named with the chance `level`.
///
/// None among fewer than six values, and where one is not finite.
#[must_use]
pub fn outliers(values: &[f64], level: f64) -> Vec<usize> {
    if values.len() < 6 || values.iter().any(|value| !value.is_finite()) {
        return Vec::new();
    }
    let mut left: Vec<usize> = (0..values.len()).collect();
    let (mut suspects, mut guilty) = (Vec::new(), 0);
    for number in 1..=values.len() / 4 {
        let Some((place, deviate)) = farthest(values, &left) else { break };
        let critical = critical_value(values.len(), number, level);
        suspects.push(left.remove(place));
        // The last that is beyond its bound makes all before it outliers too: two can hide each other.
        if critical.is_some_and(|critical| deviate > critical) {
            guilty = suspects.len();
        }
    }
    suspects.truncate(guilty);
    suspects.sort_unstable();
    suspects
}

/// Which of those left is farthest from their mean, in their standard deviations.
fn farthest(values: &[f64], left: &[usize]) -> Option<(usize, f64)> {
    let moments = Moments::of(&left.iter().map(|&at| values[at]).collect::<Vec<_>>())?;
    let deviation = moments.variance?.sqrt();
    let deviate = |&at: &usize| (values[at] - moments.mean).abs() / deviation;
    let deviates = left.iter().map(deviate).enumerate();
    deviates.filter(|(_, deviate)| deviate.is_finite()).max_by(|one, other| one.1.total_cmp(&other.1))
}

/// What the deviate of the suspect of this number, from 1, must exceed.
fn critical_value(count: usize, number: usize, level: f64) -> Option<f64> {
    let left = (count - number + 1) as f64;
    let student = StudentsT::new(0.0, 1.0, left - 2.0).ok()?;
    let t = student.inverse_cdf(1.0 - level / (2.0 * left));
    Some((left - 1.0) * t / ((left - 2.0 + t * t) * left).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use rand_distr::{Distribution, Normal};

    #[test]
    fn the_published_example_has_three_outliers() {
        // Rosner's data and critical values as the NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.5.17.3, has them.
        let data = [
            -0.25, 0.68, 0.94, 1.15, 1.20, 1.26, 1.26, 1.34, 1.38, 1.43, 1.49, 1.49, 1.55, 1.56, 1.58, 1.65,
            1.69, 1.70, 1.76, 1.77, 1.81, 1.91, 1.94, 1.96, 1.99, 2.06, 2.09, 2.10, 2.14, 2.15, 2.23, 2.24,
            2.26, 2.35, 2.37, 2.40, 2.47, 2.54, 2.62, 2.64, 2.90, 2.92, 2.92, 2.93, 3.21, 3.26, 3.30, 3.59,
            3.68, 4.30, 4.64, 5.34, 5.42, 6.01,
        ];
        for (number, critical) in [(1, 3.159), (2, 3.151), (3, 3.144)] {
            assert!((critical_value(54, number, 0.05).unwrap() - critical).abs() < 0.0006, "{number}");
        }
        assert_eq!(outliers(&data, 0.05), [51, 52, 53]);
    }

    #[test]
    fn critical_values_are_scipys() {
        // By Rosner's formula with scipy.stats.t.ppf, SciPy 1.17.1
        assert!((critical_value(54, 1, 0.05).unwrap() - 3.158_793_940_887_494_5).abs() < 1e-8);
        assert!((critical_value(10, 1, 0.01).unwrap() - 2.482_083_249_715_342).abs() < 1e-8);
    }

    #[test]
    fn noise_names_one_as_often_as_it_says() {
        let mut random = StdRng::seed_from_u64(5);
        let noise = Normal::new(1000.0, 30.0).unwrap();
        let named = (0..2_000).filter(|_| {
            let runs: Vec<f64> = (0..10).map(|_| noise.sample(&mut random)).collect();
            !outliers(&runs, 0.01).is_empty()
        });
        let named = named.count();
        assert!((8..=45).contains(&named), "{named} of 2,000 at 1 %");
    }

    #[test]
    fn a_stalled_run_is_named_and_equal_ones_are_not() {
        let runs = [1000.0, 1004.0, 998.0, 1002.0, 610.0, 1001.0, 997.0, 1003.0, 999.0, 1000.0];
        assert_eq!(outliers(&runs, 0.01), [4]);
        assert!(outliers(&[7.0; 12], 0.01).is_empty());
        assert!(outliers(&[1.0, 2.0, 900.0], 0.01).is_empty());
        assert!(outliers(&[f64::NAN; 12], 0.01).is_empty());
    }
}
