//! Whether one figure lowers another's upper edge: what repeats with more of the first reach at best.
//!
//! Noise that only ever slows, as an exponential or a Pareto tail does, hides what goes together in means and ranks. It
//! leaves a sharp edge: the fastest repeats are those that nothing slowed. A figure that lowers throughput lowers that edge
//! as it goes, and with the right slope added to throughput all of the edge is level again.
//!
//! 1. The statistic is the sum over strata of the largest value with a slope of [`SLOPE`] added; the smaller, the more level.
//! 2. Had the first figure come to the repeats of a stratum in any order, every order would have been as likely.
//! 3. Whether the second figure has such an edge is told by its skewness: by nothing that an order of the first could
//!    change. So a test that is taken where there is an edge, and another one elsewhere, has the chance of either.

use rand::seq::SliceRandom;

use super::permutation;
use super::repeats::Aligned;

/// What is added for each deviation of the first figure, in deviations of the second.
const SLOPE: f64 = 0.5;
/// Figures that are skewed by less have no edge: an exponential tail within strata of ten leaves -0.9. Of few it may be less
/// by so many standard errors of normal ones.
const SKEWNESS: f64 = -0.55;
const ERRORS: f64 = 0.8;
/// The chance is drawn to this part of the level that it is held to, so that the drawing hardly counts.
const FINER: f64 = 5.0;

/// The chance that the upper edge of a figure falls as much with `x`, of the same repeats, each of a stratum, were they
/// strangers; fine enough to be held to `level`. The figure is the one of `figures` with the sharpest edge, such as the same
/// with and without a drift.
///
/// `None` where none has a sharp upper edge, where either does not vary, and where a value is not finite.
#[must_use]
pub fn lowers(strata: &[usize], x: &[f64], figures: &[Vec<f64>], level: f64) -> Option<f64> {
    let is_judged = |y: &&Vec<f64>| x.len() == y.len() && x.iter().chain(*y).all(|value| value.is_finite());
    if x.len() != strata.len() {
        return None;
    }
    let aligned = figures.iter().filter(is_judged).filter_map(|y| {
        let aligned = Aligned::of(strata, x, y);
        Some((skewness(&aligned.y)?, aligned))
    });
    let (skewness, Aligned { x, y, ends }) = aligned.min_by(|one, other| one.0.total_cmp(&other.0))?;
    let has_edge = skewness <= SKEWNESS + ERRORS * (6.0 / y.len() as f64).sqrt();
    let deviation = mean_power(&x, 2).sqrt();
    if !has_edge || deviation <= 0.0 {
        return None;
    }
    let mut added: Vec<f64> = x.iter().map(|value| SLOPE * value / deviation).collect();
    let level_of_edge = |added: &[f64]| {
        let mut from = 0;
        let of_stratum = |&end: &usize| {
            let both = y[from..end].iter().zip(&added[from..end]);
            from = end;
            both.map(|(y, added)| y + added).fold(f64::NEG_INFINITY, f64::max)
        };
        -ends.iter().map(of_stratum).sum::<f64>()
    };
    let observed = level_of_edge(&added);
    Some(permutation::chance(observed, level / FINER, |random| {
        let mut from = 0;
        for &end in &ends {
            added[from..end].shuffle(random);
            from = end;
        }
        level_of_edge(&added)
    }))
}

/// The skewness of values around 0: below 0 where the longer tail is the lower one.
fn skewness(values: &[f64]) -> Option<f64> {
    Some(mean_power(values, 3) / mean_power(values, 2).powf(1.5)).filter(|skewness| skewness.is_finite())
}

fn mean_power(values: &[f64], power: i32) -> f64 {
    values.iter().map(|value| value.powi(power)).sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};
    use rand_distr::{Distribution, Exp1, StandardNormal};

    /// Four strata of so many repeats, slowed by an exponential variable, and by `slope` from one end of the first figure to
    /// the other.
    fn slowed(random: &mut StdRng, each: usize, slope: f64) -> (Vec<usize>, Vec<f64>, Vec<f64>) {
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for stratum in [0.0, 1.0, 2.0, 3.0] {
            for _ in 0..each {
                let (place, slower): (f64, f64) = (random.random(), Exp1.sample(random));
                x.push(place);
                y.push(9.0 * stratum - slope * place - (1.0 + 0.3 * stratum) * slower);
            }
        }
        ((0..x.len()).map(|at| at / each).collect(), x, y)
    }

    #[test]
    fn strangers_pass_for_acquainted_as_seldom_as_promised_with_the_other_test_too() {
        let mut random = StdRng::seed_from_u64(1);
        for (each, by_edge) in [(3, 0.3), (10, 0.6)] {
            let mut judged = 0;
            let passed = (0..2_000).filter(|_| {
                let (strata, x, y) = slowed(&mut random, each, 0.0);
                let of_edge = lowers(&strata, &x, std::slice::from_ref(&y), 0.02);
                judged += u32::from(of_edge.is_some());
                let of_ranks =
                    || super::super::repeats::together(&strata, &x, &y, Some(0.02)).unwrap().p_less;
                of_edge.unwrap_or_else(of_ranks) <= 0.02
            });
            let passed = passed.count();
            // Of 2,000 at 2 %, chance alone brings up more than 58 once in 250.
            assert!(
                passed <= 58 && f64::from(judged) > 2_000.0 * by_edge,
                "{passed} of 2,000, {judged} by the edge: {each}"
            );
        }
    }

    #[test]
    fn the_edge_finds_what_ranks_miss() {
        let mut random = StdRng::seed_from_u64(2);
        let (mut by_edge, mut by_ranks) = (0, 0);
        for _ in 0..200 {
            let (strata, x, y) = slowed(&mut random, 10, 2.0);
            let ranks = super::super::repeats::together(&strata, &x, &y, None).unwrap().p_less;
            by_ranks += u32::from(ranks <= 0.02);
            by_edge += u32::from(lowers(&strata, &x, &[y], 0.02).unwrap_or(ranks) <= 0.02);
        }
        assert!(by_edge > 170 && by_edge >= by_ranks + 20, "{by_edge} and {by_ranks} of 200");
        // What raises throughput does not lower its edge.
        let (strata, x, y) = slowed(&mut random, 10, -3.0);
        assert!(lowers(&strata, &x, &[y], 0.02).is_none_or(|chance| chance > 0.5));
    }

    #[test]
    fn what_has_no_edge_is_not_judged_by_it() {
        let mut random = StdRng::seed_from_u64(3);
        let strata: Vec<usize> = (0..400).map(|at| at / 10).collect();
        let x: Vec<f64> = strata.iter().map(|_| random.random()).collect();
        let normal: Vec<f64> = strata.iter().map(|_| StandardNormal.sample(&mut random)).collect();
        let same = vec![1.0; 400];
        assert_eq!(lowers(&strata, &same, std::slice::from_ref(&normal), 0.02), None);
        assert_eq!(lowers(&strata, &x, &[normal, same, vec![f64::NAN; 400], vec![1.0; 3]], 0.02), None);
        assert_eq!(lowers(&[], &[], &[vec![]], 0.02), None);
    }
}
