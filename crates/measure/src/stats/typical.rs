//! Where the median of a series lies, also where neighbours in it resemble each other.
//!
//! 1. Of values in no order, the interval is that of the order statistics, which holds whatever their distribution.
//! 2. Values that remember count for fewer than they are. The interval is widened by the standard error of a mean of values
//!    with such a correlation between neighbours (Bayley & Hammersley 1946, "The Effective Number of Independent
//!    Observations in an Autocorrelated Time Series"), and by Student's t for so few. The correlation is that of the ranks,
//!    corrected for the bias of short series (Kendall 1954, "Note on Bias in the Estimation of Autocorrelation").
//! 3. Of [`ENOUGH_FOR_RANGE`] values or more, nearly all lie around their median, though each keeps 0.9 of the one before:
//!    the interval reaches little beyond them.

use super::repetitions::rank_with_tail;
use super::{median, serial, student};

/// Fewer values tell nothing of their memory.
const LEAST_TO_REMEMBER: usize = 10;

/// No series that is finite tells more memory than this.
const MEMORY_MAX: f64 = 0.95;

/// Values that remember count for no fewer degrees of freedom than this.
const FREEDOM_MIN: f64 = 2.0;

/// So many values lie on both sides of what their median would be in the long run, give or take a part of their range: of
/// values that keep 0.9 of the one before, all of 20 lie beyond on one side in 5 % of series, all of 30 in 2 %.
const ENOUGH_FOR_RANGE: usize = 20;
const BEYOND_RANGE: f64 = 0.2;

/// The interval of the median of `values`, in the order in which they were taken, at level `1 - alpha`.
///
/// `None` where there are too few for any at that level, and where one is not finite.
#[must_use]
pub fn typical_interval(values: &[f64], alpha: f64) -> Option<[f64; 2]> {
    let middle = median(values)?;
    if values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let rank = rank_with_tail(values.len() as u64, alpha / 2.0)? as usize;
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let wider = widening(values, alpha);
    let [low, high] = [sorted[rank - 1], sorted[sorted.len() - rank]];
    let [low, high] = [middle - wider * (middle - low), middle + wider * (high - middle)];
    let [least, greatest] = [sorted[0], sorted[sorted.len() - 1]];
    if values.len() < ENOUGH_FOR_RANGE {
        return Some([low, high]);
    }
    let beyond = BEYOND_RANGE * (greatest - least);
    Some([low.max(least - beyond), high.min(greatest + beyond)])
}

fn widening(values: &[f64], alpha: f64) -> f64 {
    let count = values.len() as f64;
    if values.len() < LEAST_TO_REMEMBER {
        return 1.0;
    }
    let Some(found) = serial::serial_correlation(values) else { return 1.0 };
    let memory = found.of_neighbours + (1.0 + 4.0 * found.of_neighbours) / count;
    if memory <= 0.0 {
        return 1.0;
    }
    let memory = memory.min(MEMORY_MAX);
    let times = (1.0 + memory) / (1.0 - memory);
    let freedom = (count / times - 1.0).max(FREEDOM_MIN);
    let fewer = student::factor(freedom, alpha).zip(student::factor(count - 1.0, alpha));
    times.sqrt() * fewer.map_or(1.0, |(of_few, of_all)| (of_few / of_all).max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use rand_distr::{Distribution, StandardNormal};

    #[test]
    fn values_that_do_not_remember_have_the_interval_of_their_order() {
        let values: Vec<f64> = [4, 9, 1, 7, 3, 8, 2, 6, 5].iter().map(|&value| f64::from(value)).collect();
        // The second from either end, for nine values (Hollander & Wolfe 1999, table A.2).
        assert_eq!(typical_interval(&values, 0.05), Some([2.0, 8.0]));
        assert_eq!(typical_interval(&values[..5], 0.05), None);
        assert_eq!(typical_interval(&values, 0.001), None);
        assert_eq!(typical_interval(&[f64::NAN; 20], 0.05), None);
        assert_eq!(typical_interval(&[1.0; 20], 0.05), Some([1.0; 2]));
    }

    /// Of a thousand series around 0, those whose interval lies wholly above it.
    fn too_high(keeps: f64, count: usize, alpha: f64) -> usize {
        let mut random = StdRng::seed_from_u64(3);
        let mut normal = move || -> f64 { StandardNormal.sample(&mut random) };
        let mut series = move || -> Vec<f64> {
            let mut last = normal();
            let mut next = || {
                last = keeps * last + (1.0 - keeps * keeps).sqrt() * normal();
                last
            };
            (0..count).map(|_| next()).collect()
        };
        (0..1_000).filter(|_| typical_interval(&series(), alpha).is_some_and(|[low, _]| low > 0.0)).count()
    }

    #[test]
    fn the_median_is_missed_on_one_side_as_seldom_as_promised_though_values_remember() {
        for (keeps, count) in [(0.0, 10), (0.0, 30), (0.5, 30), (0.9, 30), (0.5, 100), (0.9, 100)] {
            let missed = too_high(keeps, count, 0.05);
            // 25 where nothing remembers; a short series cannot tell all of its memory.
            let most = if keeps < 0.9 { 45 } else { 65 };
            assert!(missed <= most, "{missed} of 1,000, keeps {keeps}, {count} values");
        }
    }
}
