//! Whether a soak saw credits for bursts run out: throughput that falls at one moment, far, and stays low to the end, while
//! nobody else is seen to use the machine.
//!
//! Cloud volumes and drives with a fast cache are quick until a budget is used up. Throughput also wanders, and a fall
//! that is none must not be told of. So all of this has to be so:
//!
//! 1. Both levels last for [`LEAST_WINDOWS`] windows and [`LEAST_S`]. The moment is where the cumulative sum of the logarithms is highest
//!    above its course without a change.
//! 2. Throughput falls by a third or more, of all windows and of those near the moment, and of the last third as well.
//! 3. Nine in ten windows after it are slower than nine in ten before it.
//! 4. The fall at the moment is by far the largest change of its kind: where throughput drifts slowly by much, others come
//!    near it ([`STANDS_OUT`]).
//! 5. Windows after it were not mostly disturbed from outside.
//!
//! `tests` holds that at most 5 in 100 soaks of each kind of noise are said to fall, slow drift among them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::soak_window::Window;
use crate::report::format;
use crate::stats::{median, quantile};

/// Windows of each level, at least: two minutes.
const LEAST_WINDOWS: usize = 120;

/// The same in seconds: a window need not be one.
const LEAST_S: f64 = 100.0;

/// Windows near the moment.
const NEAR: usize = 30;

/// No smaller fall is told of.
const FALLS_TO: f64 = 2.0 / 3.0;

/// The fall at the moment is at least so many times any change from [`NEAR`] windows to the next within either level, in
/// logarithms.
const STANDS_OUT: f64 = 1.5;

/// Throughput that fell and stayed low.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fall {
    /// Seconds from the start to the first slow window.
    pub started_s: f64,
    /// Median throughput of the windows before.
    pub before_bytes_per_s: f64,
    /// Median throughput of the windows from then on.
    pub after_bytes_per_s: f64,
}

impl Fall {
    /// In a sentence.
    pub fn sentence(&self) -> String {
        format!(
            "after {} throughput fell from {} to {} and stayed there to the end: the drive's credits for bursts, or the room \
             of its fast cache, seem to have run out",
            format::duration(self.started_s),
            format::rate(self.before_bytes_per_s),
            format::rate(self.after_bytes_per_s)
        )
    }
}

/// The fall of throughput, if there was one.
pub(super) fn fall(windows: &[Window]) -> Option<Fall> {
    let rates: Vec<f64> = windows.iter().map(|window| window.throughput_bytes_per_s).collect();
    let place = falls_at(&rates)?;
    let (before, after) = windows.split_at(place);
    let lasts_s = |level: &[Window]| level.iter().map(|window| window.elapsed_s).sum::<f64>();
    if lasts_s(before) < LEAST_S || lasts_s(after) < LEAST_S {
        return None;
    }
    let disturbed = after.iter().filter(|window| window.disturbance.is_some()).count();
    if 2 * disturbed > after.len() {
        return None;
    }
    Some(Fall {
        started_s: windows[place].started_s,
        before_bytes_per_s: median(&rates[..before.len()])?,
        after_bytes_per_s: median(&rates[before.len()..])?,
    })
}

fn falls_at(rates: &[f64]) -> Option<usize> {
    let place = highest_sum(rates)?;
    let (before, after) = rates.split_at(place);
    let falls = |before: &[f64], after: &[f64]| Some(median(after)? <= FALLS_TO * median(before)?);
    let is_far = falls(before, after)?;
    let is_sudden = falls(&before[before.len() - NEAR..], &after[..NEAR])?;
    let stays = falls(before, &after[2 * after.len() / 3..])?;
    let is_apart = quantile(after, 0.9)? < quantile(before, 0.1)?;
    let is_candidate = is_far && is_sudden && stays && is_apart;
    (is_candidate && stands_out(before, after)?).then_some(place)
}

/// Whether throughput changes by far less within either level than from the one to the other.
fn stands_out(before: &[f64], after: &[f64]) -> Option<bool> {
    let fall = (median(&before[before.len() - NEAR..])? / median(&after[..NEAR])?).ln();
    let widest = |level: &[f64]| -> Option<f64> {
        let stretches: Option<Vec<f64>> = level.windows(NEAR).map(median).collect();
        let stretches = stretches?;
        let changes = stretches.iter().zip(&stretches[NEAR..]).map(|(one, next)| (next / one).ln().abs());
        Some(changes.fold(0.0, f64::max))
    };
    Some(fall >= STANDS_OUT * widest(before)?.max(widest(after)?))
}

/// Where the values before are most above the mean of all, with enough of them on both sides.
fn highest_sum(rates: &[f64]) -> Option<usize> {
    let is_sound = rates.iter().all(|rate| rate.is_finite() && *rate > 0.0);
    if rates.len() < 2 * LEAST_WINDOWS || !is_sound {
        return None;
    }
    let logs: Vec<f64> = rates.iter().map(|rate| rate.ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let mut sum = 0.0;
    let sums = logs.iter().enumerate().map(|(place, log)| {
        sum += log - mean;
        (place + 1, sum)
    });
    let inside = sums.filter(|(place, _)| (LEAST_WINDOWS..=rates.len() - LEAST_WINDOWS).contains(place));
    inside.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};
    use rand_distr::{Distribution, Pareto, StandardNormal};

    const KINDS: [&str; 11] = [
        "normal",
        "lognormal",
        "pareto",
        "slow windows",
        "drift",
        "autocorrelated",
        "busy neighbour",
        "slow drift",
        "slow drift by less",
        "slower drift",
        "slowest drift",
    ];

    /// Throughput of windows around 1, without a fall that stays.
    fn noise(kind: &str, windows: usize, random: &mut StdRng) -> Vec<f64> {
        let pareto = Pareto::new(1.0, 1.5).unwrap();
        let mut level: f64 = StandardNormal.sample(random);
        let mut is_busy = false;
        let value = |place: usize| {
            let normal: f64 = StandardNormal.sample(random);
            let little = 1.0 + 0.05 * normal;
            // Each window keeps so much of the one before; their logarithms deviate by so much.
            let mut wander = |keeps: f64, deviation: f64| {
                level = keeps * level + (1.0 - keeps * keeps).sqrt() * normal;
                (deviation * level).exp()
            };
            match kind {
                "normal" => (1.0 + 0.1 * normal).max(0.05),
                "lognormal" => (0.5 * normal).exp(),
                "pareto" => 1.0 / pareto.sample(random),
                "slow windows" => little * if random.random_bool(0.05) { 0.6 } else { 1.0 },
                "drift" => little * (1.0 - 0.3 * place as f64 / windows as f64),
                "autocorrelated" => wander(0.9, 0.5),
                "slow drift" => wander(0.99, 0.5),
                "slow drift by less" => wander(0.99, 0.3),
                "slower drift" => wander(0.995, 0.5),
                "slowest drift" => wander(0.998, 0.7),
                _ => {
                    is_busy ^= random.random_bool(1.0 / 40.0);
                    little * if is_busy { 0.5 } else { 1.0 }
                }
            }
        };
        (0..windows).map(value).collect()
    }

    #[test]
    fn noise_is_hardly_ever_said_to_fall() {
        let mut random = StdRng::seed_from_u64(1);
        for kind in KINDS {
            for windows in [250, 700] {
                let soaks = 1000;
                let said =
                    (0..soaks).filter(|_| falls_at(&noise(kind, windows, &mut random)).is_some()).count();
                assert!(said <= soaks / 20, "{kind}, {windows} windows: {said} of {soaks}");
            }
        }
    }

    #[test]
    fn a_fall_to_half_is_found_where_it_is() {
        let mut random = StdRng::seed_from_u64(2);
        for kind in ["normal", "slow windows", "drift"] {
            let found = (0..200).filter(|_| {
                let at = random.random_range(150..450);
                let mut rates = noise(kind, 600, &mut random);
                rates[at..].iter_mut().for_each(|rate| *rate *= 0.5);
                falls_at(&rates).is_some_and(|place| place.abs_diff(at) <= 3)
            });
            let found = found.count();
            assert!(found >= 190, "{kind}: {found} of 200");
        }
    }

    #[test]
    fn what_does_not_stay_low_is_no_fall() {
        let steps = |parts: &[(usize, f64)]| -> Vec<f64> {
            parts.iter().flat_map(|&(many, rate)| std::iter::repeat_n(rate, many)).collect()
        };
        assert_eq!(falls_at(&steps(&[(300, 4.0), (300, 1.0)])), Some(300));
        for parts in [
            &[(300, 4.0), (200, 1.0), (200, 4.0)][..],
            &[(300, 1.0), (300, 4.0)],
            &[(300, 4.0), (300, 3.0)],
            &[(600, 4.0), (100, 1.0)],
            &[(100, 4.0), (600, 1.0)],
            &[(400, 0.0)],
        ] {
            assert_eq!(falls_at(&steps(parts)), None, "{parts:?}");
        }
    }
}
