//! Whether two figures go together among repeats: of what was repeated, the repeats with more of one have more of the other.
//!
//! 1. Repeats are compared with those of the same stratum alone: what strata differ by does not count.
//! 2. The ranks are aligned ones (Hodges & Lehmann 1962, "Rank methods for combination of independent experiments in
//!    analysis of variance"): each value less the mean of its stratum, ranked among all. The second figure is counted in the
//!    deviations of its stratum, or the stratum that varies most would say it all.
//! 3. Had the first figure come to the repeats of a stratum in any order, every order would have been as likely. Mean and
//!    variance over all orders are exact; with [`REPEATS_MIN`] and more, the distribution is all but normal. Of fewer,
//!    orders are drawn.
//! 4. The promise is for figures that come in any order. For those that drift or remember there is
//!    [`neighbours`](super::neighbours).

use statrs::distribution::{ContinuousCDF, Normal};

use super::{permutation, ranks};

/// Of fewer repeats in all the distribution is drawn.
pub const REPEATS_MIN: usize = 40;

/// What [`together`] found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Together {
    /// The correlation of ranks within strata, from -1 to 1.
    pub coefficient: f64,
    /// The chance of one as far below zero, were the figures strangers.
    pub p_less: f64,
    /// The chance of one as far above zero.
    pub p_more: f64,
    /// Repeats of strata in which both vary.
    pub repeats: usize,
}

/// Judges two figures of the same repeats, each of a stratum. Of fewer than [`REPEATS_MIN`] in strata in which both vary the
/// chances are drawn, fine enough to be held to the level `of_few`.
///
/// `None` where they are so few and no level is given, and where a value is not finite.
#[must_use]
pub fn together(strata: &[usize], x: &[f64], y: &[f64], of_few: Option<f64>) -> Option<Together> {
    if x.len() != y.len() || x.len() != strata.len() || x.iter().chain(y).any(|value| !value.is_finite()) {
        return None;
    }
    let Aligned { x: aligned_x, y: aligned_y, ends } = Aligned::of(strata, x, y);
    let is_few = aligned_x.len() < REPEATS_MIN;
    if is_few && of_few.is_none() {
        return None;
    }
    let (x, y) = (ranks::ranks(&aligned_x), ranks::ranks(&aligned_y));
    let (mut sum, mut variance, mut all_x, mut all_y, mut from) = (0.0, 0.0, 0.0, 0.0, 0);
    for &end in &ends {
        let (x, y) = (centred(&x[from..end]), centred(&y[from..end]));
        let (squares_x, squares_y) = (squares(&x), squares(&y));
        sum += x.iter().zip(&y).map(|(x, y)| x * y).sum::<f64>();
        variance += squares_x * squares_y / (end - from - 1) as f64;
        all_x += squares_x;
        all_y += squares_y;
        from = end;
    }
    let far = sum / variance.sqrt();
    if !far.is_finite() {
        return None;
    }
    let normal = Normal::standard();
    let (p_less, p_more) = match of_few.filter(|_| is_few) {
        None => (normal.cdf(far), normal.sf(far)),
        Some(level) => {
            let drawn = |sign: f64| {
                let stratum = |at: usize| ends.iter().filter(|&&end| end <= at).count();
                let pairs: Vec<_> = (0..x.len()).map(|at| (stratum(at), x[at], sign * y[at])).collect();
                permutation::correlation_chance(&pairs, level)
            };
            (drawn(-1.0)?, drawn(1.0)?)
        }
    };
    Some(Together { coefficient: sum / (all_x * all_y).sqrt(), p_less, p_more, repeats: x.len() })
}

/// Two figures of the repeats of strata in which both vary, each less the mean of its stratum.
pub(super) struct Aligned {
    /// The first.
    pub(super) x: Vec<f64>,
    /// The second, in the deviations of its stratum.
    pub(super) y: Vec<f64>,
    /// Where each stratum ends.
    pub(super) ends: Vec<usize>,
}

impl Aligned {
    /// Those of two finite figures.
    pub(super) fn of(strata: &[usize], x: &[f64], y: &[f64]) -> Self {
        let mut order: Vec<usize> = (0..x.len()).collect();
        order.sort_by_key(|&at| strata[at]);
        let mut aligned = Self { x: Vec::new(), y: Vec::new(), ends: Vec::new() };
        for stratum in order.chunk_by(|&one, &other| strata[one] == strata[other]) {
            let of = |series: &[f64]| centred(&stratum.iter().map(|&at| series[at]).collect::<Vec<_>>());
            let (of_x, of_y) = (of(x), of(y));
            let deviation = (squares(&of_y) / (stratum.len().max(2) - 1) as f64).sqrt();
            if varies(stratum, x) && varies(stratum, y) && deviation > 0.0 {
                aligned.x.extend(of_x);
                aligned.y.extend(of_y.iter().map(|value| value / deviation));
                aligned.ends.push(aligned.x.len());
            }
        }
        aligned
    }
}

/// Whether a figure of a stratum is not the same in all repeats.
fn varies(stratum: &[usize], series: &[f64]) -> bool {
    stratum.iter().any(|&at| series[at] != series[stratum[0]])
}

fn centred(values: &[f64]) -> Vec<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| value - mean).collect()
}

fn squares(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};
    use rand_distr::{Distribution, Exp1, StandardNormal};

    /// Strata of so many repeats, each at a level and with a deviation of its own.
    fn figures(random: &mut StdRng, strata: usize, each: usize, follows: f64) -> [Vec<f64>; 2] {
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for stratum in 0..strata {
            let deviation = (0.5 * random.random::<f64>()).exp();
            for _ in 0..each {
                let place: f64 = random.random();
                let slower: f64 = Exp1.sample(random);
                x.push(place + 7.0 * stratum as f64);
                y.push(follows * place - deviation * slower - 3.0 * stratum as f64);
            }
        }
        [x, y]
    }

    fn strata(strata: usize, each: usize) -> Vec<usize> {
        (0..strata * each).map(|at| at / each).collect()
    }

    #[test]
    fn strangers_pass_for_acquainted_as_seldom_as_promised() {
        let mut random = StdRng::seed_from_u64(5);
        for (many, each) in [(14, 3), (4, 10), (20, 10)] {
            let of = strata(many, each);
            let mut passed = [0; 2];
            for _ in 0..2_000 {
                let [x, y] = figures(&mut random, many, each, 0.0);
                let found = together(&of, &x, &y, None).unwrap();
                passed[0] += u32::from(found.p_less < 0.02);
                passed[1] += u32::from(found.p_more < 0.02);
            }
            // Of 2,000 at 2 %, chance alone brings up more than 58 once in 250.
            assert!(
                passed.iter().all(|many| (20..=58).contains(many)),
                "{passed:?} of 2,000: {many} of {each}"
            );
        }
    }

    /// Drift of the second figure costs surety, never soundness: what comes in any order follows nothing.
    #[test]
    fn a_second_figure_that_drifts_and_remembers_changes_nothing_of_that() {
        let mut random = StdRng::seed_from_u64(6);
        let of: Vec<usize> = (0..200).map(|at| at % 20).collect();
        let passed = (0..2_000).filter(|_| {
            let x: Vec<f64> = of.iter().map(|_| random.random()).collect();
            let mut last = 0.0;
            let mut next = |at: usize| {
                let new: f64 = StandardNormal.sample(&mut random);
                last = 0.9 * last + new;
                last - at as f64 / 20.0
            };
            let y: Vec<f64> = (0..200).map(&mut next).collect();
            together(&of, &x, &y, None).unwrap().p_less < 0.02
        });
        let passed = passed.count();
        assert!((20..=58).contains(&passed), "{passed} of 2,000");
    }

    #[test]
    fn what_goes_together_is_found_with_three_repeats_too() {
        let mut random = StdRng::seed_from_u64(7);
        let [x, y] = figures(&mut random, 20, 3, -9.0);
        let found = together(&strata(20, 3), &x, &y, None).unwrap();
        assert!(found.coefficient < -0.6 && found.p_less < 1e-4 && found.p_more > 0.9, "{found:?}");
        assert_eq!(found.repeats, 60);
    }

    #[test]
    fn chances_of_few_are_drawn_and_hold_too() {
        let mut random = StdRng::seed_from_u64(8);
        for (many, each) in [(2, 10), (4, 3)] {
            let of = strata(many, each);
            let mut passed = [0; 2];
            for _ in 0..2_000 {
                let [x, y] = figures(&mut random, many, each, 0.0);
                let found = together(&of, &x, &y, Some(0.02)).unwrap();
                passed[0] += u32::from(found.p_less < 0.02);
                passed[1] += u32::from(found.p_more < 0.02);
            }
            assert!(
                passed.iter().all(|many| (8..=58).contains(many)),
                "{passed:?} of 2,000: {many} of {each}"
            );
        }
        let [x, y] = figures(&mut random, 2, 10, -9.0);
        let found = together(&strata(2, 10), &x, &y, Some(0.001)).unwrap();
        assert!(found.coefficient < -0.6 && found.p_less < 0.001 && found.p_more > 0.9, "{found:?}");
    }

    #[test]
    fn too_little_says_nothing() {
        let few: Vec<f64> = (0..39).map(f64::from).collect();
        assert_eq!(together(&[0; 39], &few, &few, None), None);
        // Of strata in which one of both is always the same, nothing can be told.
        let many: Vec<f64> = (0..80).map(f64::from).collect();
        assert_eq!(together(&[0; 80], &many, &[1.0; 80], None), None);
        assert_eq!(together(&(0..80).collect::<Vec<_>>(), &many, &many, None), None);
        assert_eq!(together(&[0; 80], &many, &[f64::NAN; 80], None), None);
        assert!(together(&[0; 80], &many, &many, None).unwrap().p_more < 1e-9);
    }
}
