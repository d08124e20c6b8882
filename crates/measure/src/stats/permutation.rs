//! Chances by rearrangement: how often an arrangement that nothing but chance made does as much as the one observed
//! (Fisher 1935, "The Design of Experiments", section 21). Seeded: the same data give the same chance.
//!
//! Arrangements are drawn until a few did as much, or until the chance is known to be small enough (Besag & Clifford
//! 1991, "Sequential Monte Carlo p-values"): where there is no effect, a few dozen tell. Where there are few arrangements,
//! all are counted: drawn, the rarest of them would be found or missed by luck.

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::arrangements::sums;

/// So many arrangements that do as much end the drawing.
const ENOUGH: u64 = 20;
/// A chance is drawn to this part of the level that it is held to.
const FINER_THAN_LEVEL: f64 = 4.0;
/// No more are drawn for any level.
const DRAWS_MAX: u64 = 100_000;
/// Up to so many arrangements are counted, not drawn.
const COUNTED_MAX: usize = 50_000;
/// Sums in another order round differently: by less than this part.
const ROUNDING: f64 = 1e-9;

/// The chance that an arrangement reaches `observed`, fine enough to be held to `level`; `arrange` makes one and answers
/// what it reaches. Never 0.
pub fn chance(observed: f64, level: f64, mut arrange: impl FnMut(&mut StdRng) -> f64) -> f64 {
    let mut random = StdRng::seed_from_u64(1);
    let draws = ((FINER_THAN_LEVEL / level).ceil() as u64).clamp(200, DRAWS_MAX);
    let bound = observed - ROUNDING * observed.abs();
    let mut reached = 0;
    for drawn in 1..=draws {
        reached += u64::from(arrange(&mut random) >= bound);
        if reached == ENOUGH {
            return ENOUGH as f64 / drawn as f64;
        }
    }
    (reached + 1) as f64 / (draws + 1) as f64
}

/// The chance of a correlation at least as large as that of `pairs` between their sides, were it left to chance which
/// goes with which among those of the same stratum. Each pair says its stratum first; what strata differ by does not count.
///
/// `None` where no stratum has a pair that could go with another, or one is not finite.
#[must_use]
pub fn correlation_chance(pairs: &[(usize, f64, f64)], level: f64) -> Option<f64> {
    if pairs.iter().any(|(_, x, y)| !(x.is_finite() && y.is_finite())) {
        return None;
    }
    let mut sorted = pairs.to_vec();
    sorted.sort_by_key(|(stratum, ..)| *stratum);
    let (mut x, mut y, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for stratum in sorted.chunk_by(|one, other| one.0 == other.0) {
        let mean =
            |of: fn(&(usize, f64, f64)) -> f64| stratum.iter().map(of).sum::<f64>() / stratum.len() as f64;
        let (mean_x, mean_y) = (mean(|pair| pair.1), mean(|pair| pair.2));
        x.extend(stratum.iter().map(|pair| pair.1 - mean_x));
        y.extend(stratum.iter().map(|pair| pair.2 - mean_y));
        ends.push(x.len());
    }
    let product = |y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let squares = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>();
    if squares(&x) <= 0.0 || squares(&y) <= 0.0 {
        return None;
    }
    let observed = product(&y);
    if let Some(chance) = counted(observed, &x, &y, &ends) {
        return Some(chance);
    }
    let mut arranged = y;
    Some(chance(observed, level, |random| {
        let mut from = 0;
        for &end in &ends {
            arranged[from..end].shuffle(random);
            from = end;
        }
        product(&arranged)
    }))
}

/// The share of all arrangements within strata, which end at `ends`, whose sum of products reaches `observed`; `None` for too
/// many of them.
fn counted(observed: f64, x: &[f64], y: &[f64], ends: &[usize]) -> Option<f64> {
    let mut all = vec![0.0];
    let mut from = 0;
    for &end in ends {
        let of_stratum = sums(&x[from..end], &y[from..end], COUNTED_MAX / all.len())?;
        all = of_stratum.iter().flat_map(|sum| all.iter().map(move |other| sum + other)).collect();
        from = end;
    }
    let squares = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>();
    let bound = observed - ROUNDING * (squares(x) * squares(y)).sqrt();
    Some(all.iter().filter(|sum| **sum >= bound).count() as f64 / all.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;

    #[test]
    fn the_rarest_of_few_arrangements_are_counted_exactly() {
        // Four strata of two and two: the three best of 1,296.
        let mut pairs: Vec<(usize, f64, f64)> = Vec::new();
        for (stratum, far) in [1.0, 2.0, 3.0, 4.0].into_iter().enumerate() {
            pairs.extend([(stratum, 1.0, 9.0 * far), (stratum, 1.0, 5.0 * far)]);
            pairs.extend([(stratum, 0.0, 4.0 * far), (stratum, 0.0, 1.0 * far)]);
        }
        assert_eq!(correlation_chance(&pairs, 0.05), Some(1.0 / 1_296.0));
        // The two of the first stratum that lie nearest change places: only the best reaches more.
        (pairs[1].1, pairs[2].1) = (0.0, 1.0);
        assert_eq!(correlation_chance(&pairs, 0.05), Some(2.0 / 1_296.0));
        // Orders that tell nothing apart count once, whatever the level.
        assert_eq!(correlation_chance(&[(0, 1.0, 2.0), (0, 1.0, 2.0), (0, 0.0, 1.0)], 0.5), Some(1.0 / 3.0));
    }

    #[test]
    fn a_perfect_order_is_as_rare_as_it_is() {
        let pairs: Vec<(usize, f64, f64)> = (0..5).map(|at| (0, f64::from(at), f64::from(at))).collect();
        assert_eq!(correlation_chance(&pairs, 0.001), Some(1.0 / 120.0));
        let pairs: Vec<(usize, f64, f64)> =
            (0..16_u8).map(|at| (usize::from(at / 8), f64::from(at), f64::from(at))).collect();
        // Drawn: one of 1.6 thousand million.
        let found = correlation_chance(&pairs, 0.01).unwrap();
        assert!(found < 0.01, "{found}");
        assert!(correlation_chance(&pairs[..1], 0.01).is_none());
        assert!(correlation_chance(&[(0, 1.0, f64::NAN), (0, 2.0, 3.0)], 0.01).is_none());
    }

    #[test]
    fn what_strata_differ_by_does_not_count() {
        let mut random = StdRng::seed_from_u64(3);
        let cries = (0..1_000).filter(|_| {
            let pairs: Vec<_> = (0..12)
                .map(|at| {
                    let far = if at < 6 { 0.0 } else { 9.0 };
                    (at / 6, far + random.random::<f64>(), far + random.random::<f64>())
                })
                .collect();
            correlation_chance(&pairs, 0.05).unwrap() <= 0.05
        });
        let cries = cries.count();
        assert!((20..=70).contains(&cries), "{cries} of 1,000 at 5 %");
    }
}
