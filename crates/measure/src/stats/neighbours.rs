//! Whether two series move together from one place to the next: a test for series that drift and remember, where the
//! interval of a correlation would take each place for news.
//!
//! 1. Neighbours are taken in pairs, each place in one pair. What drifts over the whole series is the same for both of a
//!    pair, and what the pairs differ by hardly remembers: of a series whose neighbours keep 0.9 of each other, neighbouring
//!    differences have a correlation of -0.05.
//! 2. Places belong to groups, each at a level of its own. Levels, and the drift from one place to the next, are fitted to
//!    the differences, by least squares: levels of the series themselves would carry its drift and memory into every pair.
//! 3. Whether a difference in one series goes with one in the other is then a coin for each pair, weighed by the ranks of
//!    both. Fitting the levels leaves fewer coins than pairs.

use statrs::distribution::{ContinuousCDF, Normal};

use super::ranks::ranks;

/// What [`together`] found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Together {
    /// From -1, where the series always move against each other, to 1.
    pub coefficient: f64,
    /// The chance of one as far from zero, were the two series strangers.
    pub p_two_sided: f64,
    /// Pairs in which both moved.
    pub pairs: usize,
}

/// Fewer coins than this say nothing.
const COINS_MIN: usize = 6;

/// Judges two series of the same places, each of a group; `None` where too few pairs are left in which both move, and where
/// a value is not finite.
#[must_use]
pub fn together(groups: &[usize], x: &[f64], y: &[f64]) -> Option<Together> {
    if x.len() != y.len() || x.len() != groups.len() || x.iter().chain(y).any(|value| !value.is_finite()) {
        return None;
    }
    let ends: Vec<[usize; 2]> = groups.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
    let steps = |series: &[f64]| -> Vec<f64> {
        let steps: Vec<f64> = series.chunks_exact(2).map(|pair| pair[1] - pair[0]).collect();
        let size = steps.iter().map(|step| step.abs()).fold(0.0, f64::max);
        let (levels, drift) = levels(&ends, &steps);
        let left =
            ends.iter().zip(&steps).map(|([from, to], step)| step - drift - (levels[*to] - levels[*from]));
        // What is left of exact sums by rounding is nothing.
        left.map(|step| if step.abs() <= 1e-9 * size { 0.0 } else { step }).collect()
    };
    let moved: Vec<(f64, f64)> =
        steps(x).into_iter().zip(steps(y)).filter(|(x, y)| *x != 0.0 && *y != 0.0).collect();
    let coins_left = moved.len().saturating_sub(fitted(&ends));
    if coins_left < COINS_MIN {
        return None;
    }
    let weights =
        |of: fn(&(f64, f64)) -> f64| ranks(&moved.iter().map(|one| of(one).abs()).collect::<Vec<_>>());
    let (by_x, by_y) = (weights(|one| one.0), weights(|one| one.1));
    let coins: Vec<f64> = moved
        .iter()
        .zip(by_x.iter().zip(&by_y))
        .map(|((x, y), (by_x, by_y))| x.signum() * y.signum() * by_x * by_y)
        .collect();
    let sum: f64 = coins.iter().sum();
    let deviation = coins.iter().map(|coin| coin * coin).sum::<f64>().sqrt();
    let all: f64 = coins.iter().map(|coin| coin.abs()).sum();
    let fewer = (coins_left as f64 / moved.len() as f64).sqrt();
    let p = 2.0 * Normal::standard().sf(fewer * sum.abs() / deviation);
    // Coins that all fall alike are this rare at least.
    let least = 2.0 * 0.5_f64.powi(coins_left.min(1_000) as i32);
    Some(Together { coefficient: sum / all, p_two_sided: p.max(least).min(1.0), pairs: moved.len() })
}

/// The levels of groups, and the drift, whose differences come nearest to `steps` between the groups of `ends`: conjugate
/// gradients on the normal equations (Hestenes & Stiefel 1952).
fn levels(ends: &[[usize; 2]], steps: &[f64]) -> (Vec<f64>, f64) {
    let groups = ends.iter().flatten().max().map_or(0, |most| most + 1);
    let gather = |of: &dyn Fn(usize) -> f64| {
        // The drift is behind the groups.
        let mut sums = vec![0.0; groups + 1];
        for (at, [from, to]) in ends.iter().enumerate() {
            sums[*to] += of(at);
            sums[*from] -= of(at);
            sums[groups] += of(at);
        }
        sums
    };
    let dot = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(one, other)| one * other).sum::<f64>();
    let mut levels = vec![0.0; groups + 1];
    let mut rest = gather(&|at| steps[at]);
    let mut direction = rest.clone();
    let mut squares = dot(&rest, &rest);
    let small = 1e-24 * squares;
    for _ in 0..2 * levels.len() {
        if squares <= small {
            break;
        }
        let turned = gather(&|at| direction[ends[at][1]] - direction[ends[at][0]] + direction[groups]);
        let far = squares / dot(&direction, &turned);
        if !far.is_finite() {
            break;
        }
        levels.iter_mut().zip(&direction).for_each(|(level, direction)| *level += far * direction);
        rest.iter_mut().zip(&turned).for_each(|(rest, turned)| *rest -= far * turned);
        let next = dot(&rest, &rest);
        direction
            .iter_mut()
            .zip(&rest)
            .for_each(|(direction, rest)| *direction = rest + next / squares * *direction);
        squares = next;
    }
    let drift = levels.pop().unwrap_or(0.0);
    (levels, drift)
}

/// How much is fitted: the drift, and in each set of groups that pairs connect one level less than there are groups.
fn fitted(ends: &[[usize; 2]]) -> usize {
    let groups = ends.iter().flatten().max().map_or(0, |most| most + 1);
    let mut set: Vec<usize> = (0..groups).collect();
    let mut joined = 1;
    for [from, to] in ends {
        let (one, other) = (set[*from], set[*to]);
        if one != other {
            set.iter_mut().filter(|of| **of == other).for_each(|of| *of = one);
            joined += 1;
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::seq::SliceRandom;
    use rand::{RngExt, SeedableRng};

    fn remembering(random: &mut StdRng, keeps: f64, length: usize, drift: f64) -> Vec<f64> {
        let mut last = 0.0;
        (0..length)
            .map(|at| {
                last = keeps * last + random.random::<f64>() - 0.5;
                last + drift * at as f64 / length as f64
            })
            .collect()
    }

    /// Groups in an order of their own in each block, as runs are taken.
    fn shuffled(random: &mut StdRng, groups: usize, length: usize) -> Vec<usize> {
        let block = |_| {
            let mut block: Vec<usize> = (0..groups).collect();
            block.shuffle(random);
            block
        };
        (0..length.div_ceil(groups)).flat_map(block).take(length).collect()
    }

    #[test]
    fn strangers_pass_for_acquainted_as_seldom_as_promised_however_they_drift_and_remember() {
        let mut random = StdRng::seed_from_u64(2);
        for (keeps, drift) in [(0.0, 0.0), (0.9, 0.0), (0.99, 0.0), (0.0, 30.0), (0.9, 30.0)] {
            for (groups, length) in [(1, 40), (8, 80), (24, 72), (24, 240)] {
                let cries = (0..1_000).filter(|_| {
                    let of = shuffled(&mut random, groups, length);
                    let mut x = remembering(&mut random, keeps, length, drift);
                    let mut y = remembering(&mut random, keeps, length, -drift);
                    for (at, group) in of.iter().enumerate() {
                        x[at] += 7.0 * *group as f64;
                        y[at] += 5.0 * *group as f64;
                    }
                    together(&of, &x, &y).unwrap().p_two_sided < 0.01
                });
                let cries = cries.count();
                assert!(
                    cries <= 22,
                    "{cries} of 1,000 at 1 %: keeps {keeps}, drifts {drift}, {groups} groups, {length} places"
                );
            }
        }
    }

    #[test]
    fn what_moves_together_is_found() {
        let mut random = StdRng::seed_from_u64(4);
        let of = shuffled(&mut random, 4, 80);
        let x = remembering(&mut random, 0.5, 80, 0.0);
        let level = |at: usize| 9.0 * of[at] as f64;
        let y: Vec<f64> = (0..80).map(|at| level(at) - 2.0 * x[at] + 0.3 * random.random::<f64>()).collect();
        let found = together(&of, &x, &y).unwrap();
        assert!(found.coefficient < -0.8 && found.p_two_sided < 1e-4, "{found:?}");
        assert_eq!(found.pairs, 40);
    }

    #[test]
    fn too_little_says_nothing() {
        assert_eq!(together(&[0; 40], &[1.0; 40], &[2.0; 40]), None);
        assert_eq!(together(&[0; 3], &[1.0, 2.0, 3.0], &[1.0, 2.0, 4.0]), None);
        assert_eq!(together(&[0; 40], &[f64::NAN; 40], &[2.0; 40]), None);
        // As many levels as pairs.
        let values: Vec<f64> = (0..20).map(|at| f64::from(at * at)).collect();
        assert_eq!(together(&(0..20).collect::<Vec<_>>(), &values, &values), None);
    }
}
