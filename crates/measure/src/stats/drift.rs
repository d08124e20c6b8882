//! How fast a series drifts whose places belong to groups, each at a level of its own: the median slope between places of
//! the same group (Theil 1950 and Sen 1968, within groups). No level has to be known, and a few wild values move it little.

/// Of a group with more places than this, not all pairs are taken.
const PLACES_MAX: usize = 200;

/// A place of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// Its group.
    pub group: usize,
    /// Where in the series it is.
    pub at: f64,
    /// The value there.
    pub value: f64,
}

/// The change from one place to the next one, of which `at` is one more: 0 where no group has two places that differ in
/// both.
///
/// Slopes count as much as their places are apart. That those of steady groups counted more would bring the drift near 0:
/// of few values, the ones that chance brought together are no steadier.
#[must_use]
pub fn slope(places: &[Place]) -> f64 {
    let mut sorted: Vec<&Place> =
        places.iter().filter(|place| place.at.is_finite() && place.value.is_finite()).collect();
    sorted.sort_by(|one, other| one.group.cmp(&other.group).then(one.at.total_cmp(&other.at)));
    let mut slopes: Vec<(f64, f64)> = Vec::new();
    for group in sorted.chunk_by(|one, other| one.group == other.group) {
        let apart = (group.len() / PLACES_MAX).max(1);
        for (from, one) in group.iter().enumerate() {
            for other in group[from + 1..].iter().step_by(apart).filter(|other| other.at > one.at) {
                let far = other.at - one.at;
                slopes.push(((other.value - one.value) / far, far));
            }
        }
    }
    slopes.sort_by(|one, other| one.0.total_cmp(&other.0));
    let half = slopes.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    let mut below = 0.0;
    for (slope, weight) in slopes {
        below += weight;
        if below >= half {
            return slope;
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};
    use rand_distr::{Distribution, StandardNormal};

    /// Groups in turns, half of them steadier than the rest, and one value in twenty far below.
    fn series(random: &mut StdRng, groups: usize, each: usize, slope: f64) -> Vec<Place> {
        let place = |at: usize| {
            let group = at % groups;
            let noise: f64 = StandardNormal.sample(random);
            let wild = if random.random::<f64>() < 0.05 { -50.0 } else { 0.0 };
            let value =
                9.0 * group as f64 + slope * at as f64 + (1.0 + 2.0 * (group % 2) as f64) * noise + wild;
            Place { group, at: at as f64, value }
        };
        (0..groups * each).map(place).collect()
    }

    #[test]
    fn a_drift_is_told_whatever_levels_and_wild_values_there_are() {
        let mut random = StdRng::seed_from_u64(1);
        for (groups, each, within) in [(48, 3, 0.25), (48, 10, 0.12), (8, 10, 0.3)] {
            // Ten deviations of the steadiest groups from the first place to the last.
            let drift = 10.0 / (groups * each) as f64;
            let found: Vec<f64> =
                (0..50).map(|_| slope(&series(&mut random, groups, each, drift)) / drift).collect();
            let mean = found.iter().sum::<f64>() / found.len() as f64;
            assert!((mean - 1.0).abs() < 0.05, "{groups} of {each}: {mean}");
            let near = found.iter().filter(|found| (*found - 1.0).abs() < within).count();
            assert!(near >= 45, "{groups} of {each}: {found:?}");
        }
    }

    #[test]
    fn where_nothing_can_be_told_nothing_drifts() {
        assert_eq!(slope(&[]), 0.0);
        let place = |group, at, value| Place { group, at, value };
        assert_eq!(slope(&[place(0, 0.0, 1.0), place(1, 1.0, 9.0)]), 0.0);
        assert_eq!(slope(&[place(0, 0.0, 1.0), place(0, 0.0, 9.0)]), 0.0);
        assert_eq!(slope(&[place(0, 0.0, 4.0), place(0, 5.0, 4.0)]), 0.0);
        assert_eq!(slope(&[place(0, 0.0, f64::NAN), place(0, 2.0, 4.0), place(0, 4.0, 5.0)]), 0.5);
        // All pairs of very many would be too many.
        let line: Vec<Place> = (0..2_000).map(|at| place(0, f64::from(at), f64::from(3 * at))).collect();
        assert_eq!(slope(&line), 3.0);
    }
}
