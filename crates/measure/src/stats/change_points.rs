//! Where a series changes its level: binary segmentation by cumulative sums.
//!
//! In each segment the place where the cumulative sum of the values is farthest from where it would be without a change
//! is tested. Over its long-run deviation, that distance has the distribution of the farthest point of a Brownian
//! bridge, Kolmogorov's (Csörgő & Horváth 1997, "Limit Theorems in Change-Point Analysis"). A
//! value far from its neighbours is first brought near to them, so that a single stall does not pass as a change; the
//! long-run deviation keeps windows that resemble their neighbours from passing as one.

/// A change is one at this level. Below the usual 5 %: a run has several places to test, a study many runs.
const LEVEL: f64 = 0.01;
/// No segment is shorter.
const LEAST_SEGMENT: usize = 8;

/// The share of steady series that pass for changing their level, at most, where each value keeps up to 0.95 of the one before.
pub const STEADY_THAT_PASS: f64 = 0.15;

/// The places at which the level changes, ascending: each the first value of a new level. Values of which one is not
/// finite have none.
#[must_use]
pub fn change_points(values: &[f64]) -> Vec<usize> {
    let mut found = Vec::new();
    if values.iter().all(|value| value.is_finite()) {
        split(&without_spikes(values), 0, &mut found);
    }
    found.sort_unstable();
    found
}

fn split(values: &[f64], offset: usize, found: &mut Vec<usize>) {
    if let Some(at) = change(values) {
        found.push(offset + at);
        split(&values[..at], offset, found);
        split(&values[at..], offset + at, found);
    }
}

/// The values, none farther from the median of its neighbourhood than three deviations (Hampel's filter, as Davies &
/// Gather 1993 have it, "The identification of multiple outliers").
fn without_spikes(values: &[f64]) -> Vec<f64> {
    let middle = |at: usize| {
        let near = &values[at.saturating_sub(2)..(at + 3).min(values.len())];
        super::median(near).unwrap_or(values[at])
    };
    let middles: Vec<f64> = (0..values.len()).map(middle).collect();
    let distances: Vec<f64> =
        values.iter().zip(&middles).map(|(value, middle)| (value - middle).abs()).collect();
    let reach = 3.0 * 1.4826 * super::median(&distances).unwrap_or(0.0);
    values.iter().zip(middles).map(|(value, middle)| value.clamp(middle - reach, middle + reach)).collect()
}

/// Where the level changes most, if it does.
fn change(values: &[f64]) -> Option<usize> {
    let count = values.len();
    if count < 2 * LEAST_SEGMENT {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count as f64;
    let centred: Vec<f64> = values.iter().map(|value| value - mean).collect();
    let mut sum = 0.0;
    let (mut at, mut farthest) = (0, 0.0);
    for (place, value) in centred.iter().enumerate().take(count - LEAST_SEGMENT) {
        sum += value;
        if place + 1 >= LEAST_SEGMENT && sum.abs() > farthest {
            (at, farthest) = (place + 1, sum.abs());
        }
    }
    if at == 0 {
        return None;
    }
    // The variance of what is left once the change is taken out: with it in, no change would be large.
    let level = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let (before, after) = (level(&centred[..at]), level(&centred[at..]));
    let rest = |(place, value): (usize, &f64)| value - if place < at { before } else { after };
    let deviation = long_run_variance(&centred.iter().enumerate().map(rest).collect::<Vec<_>>()).sqrt();
    // The place was chosen to leave the least: that takes up some six values' worth of freedom.
    let deviation = deviation * (count as f64 / (count as f64 - 6.0)).sqrt();
    let distance = farthest / (deviation * (count as f64).sqrt());
    (kolmogorov(distance) < LEVEL).then_some(at)
}

/// The variance of the mean of a series, times its length, were it an autoregression of order one.
///
/// Variance and persistence are told from the differences of values one and two places apart, not from the values: so a
/// change that is yet to be found, elsewhere in the series, does not pass as a long memory.
fn long_run_variance(values: &[f64]) -> f64 {
    let count = values.len();
    let half_square = |apart: usize| {
        let squares = values.iter().zip(&values[apart..]).map(|(one, other)| (one - other).powi(2));
        squares.sum::<f64>() / (2 * (count - apart)) as f64
    };
    // Of an autoregression of variance v that keeps k, these are v (1 - k) and v (1 - k²).
    let (near, far) = (half_square(1), half_square(2));
    if near <= 0.0 {
        return 0.0;
    }
    // Neighbours that avoid each other could make it less than the variance: nobody is misled by doing without. What is
    // kept is taken a standard error too high, as too low would find changes where there are none.
    let found = (far / near - 1.0).clamp(0.0, 0.95);
    let kept = (found + ((1.0 - found * found) / count as f64).sqrt()).min(0.97);
    near / (1.0 - kept) * (1.0 + kept) / (1.0 - kept)
}

/// The chance that a Brownian bridge comes as far from zero.
fn kolmogorov(distance: f64) -> f64 {
    if distance.is_nan() || distance < 0.2 {
        return 1.0;
    }
    let term = |k: i32| {
        let sign = if k % 2 == 1 { 2.0 } else { -2.0 };
        sign * (-2.0 * f64::from(k * k) * distance * distance).exp()
    };
    (1..=100).map(term).sum::<f64>().clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use rand_distr::{Distribution, StandardNormal};

    /// Noise of which each value keeps a share of the one before.
    fn noise(length: usize, kept: f64, random: &mut StdRng) -> Vec<f64> {
        let mut value = 0.0;
        let mut next = || {
            let new: f64 = StandardNormal.sample(random);
            value = kept * value + new;
            value
        };
        for _ in 0..50 {
            next();
        }
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn the_distribution_is_scipys() {
        // scipy.stats.kstwobign.sf, SciPy 1.17.1
        for (distance, chance) in [
            (0.5, 0.963_945_243_664_875_1),
            (1.0, 0.269_999_671_677_354_56),
            (1.358_098_639_322_550_5, 0.05),
            (2.0, 0.000_670_925_255_779_695_3),
        ] {
            assert!((kolmogorov(distance) - chance).abs() < 1e-12, "{distance}");
        }
    }

    #[test]
    fn a_planted_change_is_found_where_it_is() {
        let mut random = StdRng::seed_from_u64(1);
        for kept in [0.0, 0.5] {
            let mut series = noise(200, kept, &mut random);
            series[..60].iter_mut().for_each(|value| *value -= 5.0);
            series[150..].iter_mut().for_each(|value| *value -= 8.0);
            let found = change_points(&series);
            assert_eq!(found.len(), 2, "{found:?}");
            assert!(found[0].abs_diff(60) <= 2 && found[1].abs_diff(150) <= 2, "{found:?}");
        }
    }

    #[test]
    fn noise_hardly_ever_changes_even_if_neighbours_resemble_each_other() {
        let mut random = StdRng::seed_from_u64(2);
        // Only where much is kept is it more than the one in a hundred it should be.
        for (length, kept, most) in
            [(20, 0.0, 10), (40, 0.3, 10), (100, 0.0, 10), (100, 0.6, 25), (300, 0.8, 45), (100, -0.4, 10)]
        {
            let changed =
                (0..1_000).filter(|_| !change_points(&noise(length, kept, &mut random)).is_empty()).count();
            assert!(changed <= most, "{changed} of 1,000 series of {length} that keep {kept}");
        }
    }

    /// How many of 1,000 steady series pass as changing.
    fn passing(length: usize, kept: f64, shape: fn(f64) -> f64) -> usize {
        let mut random = StdRng::seed_from_u64(4);
        // Of a variance of one, whatever is kept.
        let scale = (1.0 - kept * kept).sqrt();
        let mut series = || -> Vec<f64> {
            noise(length, kept, &mut random).into_iter().map(|value| shape(value * scale)).collect()
        };
        (0..1_000).filter(|_| !change_points(&series()).is_empty()).count()
    }

    #[test]
    fn steady_runs_pass_as_changing_as_often_as_is_documented() {
        let normal: fn(f64) -> f64 = |value| value;
        let lognormal: fn(f64) -> f64 = |value| (0.5 * value).exp();
        // One in twenty is far slower.
        let slow: fn(f64) -> f64 = |value| if value > 1.645 { value - 6.0 } else { value };
        let passes = (1_000.0 * STEADY_THAT_PASS) as usize;
        for (kept, most) in [(0.3, 20), (0.6, 45), (0.8, 80), (0.9, 120), (0.95, passes)] {
            assert!(most <= passes);
            let lengths = [16, 40, 100].into_iter();
            let each = lengths
                .flat_map(|length| [normal, lognormal, slow].map(|shape| passing(length, kept, shape)));
            let rates: Vec<usize> = each.collect();
            assert!(rates.iter().all(|&rate| rate <= most), "keeping {kept}: {rates:?} of 1,000");
        }
    }

    #[test]
    fn one_stall_is_no_change_of_level() {
        let mut series = noise(100, 0.2, &mut StdRng::seed_from_u64(3));
        series[47] = -1e9;
        assert_eq!(change_points(&series), Vec::<usize>::new());
    }

    #[test]
    fn what_does_not_vary_does_not_change_and_a_clean_step_does() {
        assert!(change_points(&[7.0; 100]).is_empty());
        assert!(change_points(&[1.0, f64::NAN].repeat(50)).is_empty());
        assert!(change_points(&[]).is_empty());
        let step: Vec<f64> = (0..100).map(|at| if at < 30 { 1.0 } else { 2.0 }).collect();
        assert_eq!(change_points(&step), [30]);
    }
}
