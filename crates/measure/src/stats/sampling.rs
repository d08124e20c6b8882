//! Which configurations of a space too large to run whole: Latin Hypercube Sampling over discrete factors.
//!
//! McKay, Beckman & Conover 1979, "A comparison of three methods for selecting values of input variables in the
//! analysis of output from a computer code": a sample in which every level of every factor occurs equally often.
//! Among such samples, one whose closest configurations lie far apart: maximin, Johnson, Moore & Ylvisaker 1990,
//! "Minimax and maximin distance designs", with ties broken as by Morris & Mitchell 1995, "Exploratory designs for
//! computational experiments". Levels have no order, so the distance of two configurations is the number of factors
//! in which they differ.
//!
//! A combination is a level for each factor, levels counted from 0. Promises:
//!
//! 1. Every combination sampled is valid, and none occurs twice.
//! 2. The levels of a factor occur equally often, or once more or less, where every combination is valid. Where
//!    validity ties factors to each other, an earlier factor is balanced before a later one, and where a level of an
//!    earlier factor leaves a later one no choice, the later one is not counted: with the file system first, file
//!    systems share the sample evenly, and what only ext4 knows is balanced within ext4's share.
//! 3. The same arguments yield the same sample.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};

/// Grids up to this size are counted out; combinations of larger ones are drawn.
const COUNTED_OUT_MAX: u64 = 1 << 18;
/// Grids beyond this size are not even counted.
const COUNTABLE_MAX: u64 = 1 << 24;
/// Draws before a larger grid is taken to hold no more valid combinations.
const DRAWS_MAX: usize = 1 << 20;
/// Steps of improvement for each figure of the sample, and most of them in all.
const STEPS_PER_FIGURE: usize = 60;
const STEPS_MAX: usize = 200_000;

/// How many combinations of these factors are valid; `levels` holds how many levels each factor has.
///
/// `None` where the grid of all combinations, valid or not, has more than 16 Mi of them: it is counted one by one.
pub fn valid_combinations(levels: &[usize], is_valid: &dyn Fn(&[usize]) -> bool) -> Option<u64> {
    if grid_size(levels)? > COUNTABLE_MAX {
        return None;
    }
    let mut count = 0;
    each(levels, |combination| count += u64::from(is_valid(combination)));
    Some(count)
}

/// A Latin Hypercube Sample of `size` valid combinations; all that are valid, in any order, if there are not more.
///
/// Of a grid of more than 256 Ki combinations it is told by drawing which are valid: where hardly any are, there may
/// be fewer than asked for.
pub fn latin_hypercube(
    levels: &[usize],
    is_valid: &dyn Fn(&[usize]) -> bool,
    size: usize,
    seed: u64,
) -> Vec<Vec<usize>> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut pool = pool(levels, is_valid, size, &mut random);
    pool.shuffle(&mut random);
    if pool.len() <= size || size == 0 {
        pool.truncate(size);
        return pool;
    }
    let mut sample = Sample::new(levels, pins(levels, &pool), pool[..size].to_vec());
    for _ in 0..(size * levels.len() * STEPS_PER_FIGURE).clamp(4_000, STEPS_MAX) {
        match random.random_range(0..4) {
            0 => sample.exchange(&pool, &mut random),
            1 => sample.change_level(is_valid, &mut random),
            _ => sample.swap_levels(is_valid, &mut random),
        }
    }
    sample.rows
}

fn grid_size(levels: &[usize]) -> Option<u64> {
    levels.iter().try_fold(1_u64, |size, &count| size.checked_mul(count as u64))
}

/// Every combination of the grid, in the order of an odometer.
fn each(levels: &[usize], mut visit: impl FnMut(&[usize])) {
    if levels.contains(&0) {
        return;
    }
    let mut combination = vec![0; levels.len()];
    loop {
        visit(&combination);
        let Some(place) = (0..levels.len()).rev().find(|&at| combination[at] + 1 < levels[at]) else {
            return;
        };
        combination[place] += 1;
        combination[place + 1..].fill(0);
    }
}

/// Valid combinations to choose from, each once.
fn pool(
    levels: &[usize],
    is_valid: &dyn Fn(&[usize]) -> bool,
    size: usize,
    random: &mut StdRng,
) -> Vec<Vec<usize>> {
    if levels.contains(&0) {
        return Vec::new();
    }
    if grid_size(levels).is_some_and(|all| all <= COUNTED_OUT_MAX) {
        let mut pool = Vec::new();
        each(levels, |combination| {
            if is_valid(combination) {
                pool.push(combination.to_vec());
            }
        });
        return pool;
    }
    let enough = size.saturating_mul(20).clamp(1_000, DRAWS_MAX);
    let mut drawn = BTreeSet::new();
    for _ in 0..DRAWS_MAX {
        let combination: Vec<usize> = levels.iter().map(|&count| random.random_range(0..count)).collect();
        if is_valid(&combination) {
            drawn.insert(combination);
        }
        if drawn.len() == enough {
            break;
        }
    }
    drawn.into_iter().collect()
}

/// By factor, earlier factor and level of that: whether that level leaves the factor no choice.
type Pins = Vec<Vec<Vec<bool>>>;

fn pins(levels: &[usize], pool: &[Vec<usize>]) -> Pins {
    let pins_of = |factor: usize, earlier: usize| {
        let mut only: Vec<Option<usize>> = vec![None; levels[earlier]];
        let mut pins = vec![true; levels[earlier]];
        for row in pool {
            let by = row[earlier];
            pins[by] &= *only[by].get_or_insert(row[factor]) == row[factor];
        }
        pins
    };
    (0..levels.len()).map(|factor| (0..factor).map(|earlier| pins_of(factor, earlier)).collect()).collect()
}

/// A sample while it is improved: no step makes it worse.
struct Sample {
    rows: Vec<Vec<usize>>,
    taken: BTreeSet<Vec<usize>>,
    levels: Vec<usize>,
    pins: Pins,
    /// How often each level of each factor is chosen where there is a choice.
    occurs: Vec<Vec<i64>>,
}

/// How a step would change the sample: the imbalance of each factor, then the pairs at each distance.
struct Change {
    imbalance: Vec<i64>,
    closeness: Vec<i64>,
}

impl Change {
    /// Better is less imbalance of the first factor that changes; else fewer pairs at the least distance that
    /// changes.
    fn is_no_worse(&self) -> bool {
        let all = self.imbalance.iter().chain(&self.closeness);
        all.map(|change| change.cmp(&0)).find(|&order| order != Ordering::Equal) != Some(Ordering::Greater)
    }
}

impl Sample {
    fn new(levels: &[usize], pins: Pins, rows: Vec<Vec<usize>>) -> Self {
        let occurs = levels.iter().map(|&count| vec![0; count]).collect();
        let taken = rows.iter().cloned().collect();
        let mut sample = Self { taken, rows: Vec::new(), levels: levels.to_vec(), pins, occurs };
        for row in &rows {
            sample.count(row, 1);
        }
        sample.rows = rows;
        sample
    }

    fn is_choice(&self, row: &[usize], factor: usize) -> bool {
        !self.pins[factor].iter().zip(row).any(|(pins, &level)| pins[level])
    }

    fn count(&mut self, row: &[usize], by: i64) {
        for factor in 0..row.len() {
            if self.is_choice(row, factor) {
                self.occurs[factor][row[factor]] += by;
            }
        }
    }

    /// A row becomes any combination of the pool.
    fn exchange(&mut self, pool: &[Vec<usize>], random: &mut StdRng) {
        let at = random.random_range(0..self.rows.len());
        if let Some(other) = pool.choose(random) {
            self.replace(&[(at, other.clone())]);
        }
    }

    /// One factor of a row takes another level.
    fn change_level(&mut self, is_valid: &dyn Fn(&[usize]) -> bool, random: &mut StdRng) {
        let at = random.random_range(0..self.rows.len());
        let factor = random.random_range(0..self.levels.len());
        let mut row = self.rows[at].clone();
        row[factor] = random.random_range(0..self.levels[factor]);
        if is_valid(&row) {
            self.replace(&[(at, row)]);
        }
    }

    /// Two rows swap their levels of one factor, which keeps every factor as balanced as it was.
    fn swap_levels(&mut self, is_valid: &dyn Fn(&[usize]) -> bool, random: &mut StdRng) {
        let (one, other) = (random.random_range(0..self.rows.len()), random.random_range(0..self.rows.len()));
        let factor = random.random_range(0..self.levels.len());
        let (mut a, mut b) = (self.rows[one].clone(), self.rows[other].clone());
        if a[factor] == b[factor] {
            return;
        }
        std::mem::swap(&mut a[factor], &mut b[factor]);
        if is_valid(&a) && is_valid(&b) {
            self.replace(&[(one, a), (other, b)]);
        }
    }

    /// Puts combinations in place of rows, if all are new and the sample gets no worse by it.
    fn replace(&mut self, changes: &[(usize, Vec<usize>)]) {
        let is_new = |(_, row): &(usize, Vec<usize>)| !self.taken.contains(row);
        if !changes.iter().all(is_new) || !self.change(changes).is_no_worse() {
            return;
        }
        for (at, row) in changes {
            let before = std::mem::replace(&mut self.rows[*at], row.clone());
            self.count(&before, -1);
            self.count(row, 1);
            self.taken.remove(&before);
            self.taken.insert(row.clone());
        }
    }

    fn change(&self, changes: &[(usize, Vec<usize>)]) -> Change {
        let imbalance = (0..self.levels.len()).map(|factor| {
            let before = &self.occurs[factor];
            let mut after = before.clone();
            for (at, row) in changes {
                for (row, by) in [(&self.rows[*at], -1), (row, 1)] {
                    after[row[factor]] += if self.is_choice(row, factor) { by } else { 0 };
                }
            }
            unevenness(&after) - unevenness(before)
        });
        let mut closeness = vec![0; self.levels.len() + 1];
        let is_changed = |at: usize| changes.iter().any(|(changed, _)| *changed == at);
        for (number, (at, row)) in changes.iter().enumerate() {
            for (place, other) in self.rows.iter().enumerate().filter(|(place, _)| !is_changed(*place)) {
                debug_assert_ne!(place, *at);
                closeness[distance(&self.rows[*at], other)] -= 1;
                closeness[distance(row, other)] += 1;
            }
            for (later, later_row) in &changes[number + 1..] {
                closeness[distance(&self.rows[*at], &self.rows[*later])] -= 1;
                closeness[distance(row, later_row)] += 1;
            }
        }
        Change { imbalance: imbalance.collect(), closeness }
    }
}

/// In squares, how far counts are from their mean; 0 where they are even.
fn unevenness(counts: &[i64]) -> i64 {
    let (sum, squares) =
        counts.iter().fold((0, 0), |(sum, squares), count| (sum + count, squares + count * count));
    counts.len() as i64 * squares - sum * sum
}

/// In how many factors two combinations differ.
fn distance(one: &[usize], other: &[usize]) -> usize {
    one.iter().zip(other).filter(|(one, other)| one != other).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ANY: &dyn Fn(&[usize]) -> bool = &|_| true;

    /// How often each level of a factor occurs.
    fn counts(sample: &[Vec<usize>], factor: usize, levels: usize) -> Vec<usize> {
        (0..levels).map(|level| sample.iter().filter(|row| row[factor] == level).count()).collect()
    }

    fn closest(sample: &[Vec<usize>]) -> usize {
        let pairs =
            sample.iter().enumerate().flat_map(|(at, one)| sample[..at].iter().map(move |two| (one, two)));
        pairs.map(|(one, two)| distance(one, two)).min().unwrap()
    }

    /// Three file systems; the second factor is a journal mode that only the first has, the third a switch that
    /// only the last has, the others are free.
    const STACK: [usize; 5] = [3, 4, 2, 3, 2];

    fn stack(row: &[usize]) -> bool {
        (row[0] == 0) == (row[1] != 0) && (row[0] == 2 || row[2] == 0)
    }

    #[test]
    fn the_valid_space_is_counted_exactly() {
        assert_eq!(valid_combinations(&STACK, &stack), Some((3 + 1 + 2) * 6));
        assert_eq!(valid_combinations(&[2, 3, 4], ANY), Some(24));
        assert_eq!(valid_combinations(&[2, 0, 4], ANY), Some(0));
        assert_eq!(valid_combinations(&[], ANY), Some(1));
        assert_eq!(valid_combinations(&[2; 40], ANY), None);
        assert_eq!(valid_combinations(&[usize::MAX; 3], ANY), None);
    }

    #[test]
    fn factors_tied_to_another_are_balanced_within_its_share() {
        for seed in 0..5 {
            let sample = latin_hypercube(&STACK, &stack, 18, seed);
            assert_eq!(counts(&sample, 0, 3), [6, 6, 6], "file systems");
            assert_eq!(counts(&sample, 1, 4), [12, 2, 2, 2], "journal modes");
            assert_eq!(counts(&sample, 2, 2), [15, 3], "a switch that six can have");
            assert_eq!(counts(&sample, 3, 3), [6, 6, 6]);
            assert_eq!(counts(&sample, 4, 2), [9, 9]);
        }
    }

    #[test]
    fn a_level_that_stands_for_no_choice_is_not_counted_as_one() {
        // Where the file system is not the first, the journal mode stands at its first level.
        let first_where_unknown = |row: &[usize]| row[0] == 0 || row[1] == 0;
        for seed in 0..5 {
            let sample = latin_hypercube(&[3, 3, 6], &first_where_unknown, 18, seed);
            let modes = |row: &&Vec<usize>| row[0] == 0;
            let of_first: Vec<_> = sample.iter().filter(modes).cloned().collect();
            assert_eq!(counts(&sample, 0, 3), [6, 6, 6]);
            assert_eq!(counts(&of_first, 1, 3), [2, 2, 2]);
        }
    }

    #[test]
    fn a_sample_spreads_further_than_chance_would() {
        let levels = [3; 6];
        let sample = latin_hypercube(&levels, ANY, 9, 1);
        let mut pool = pool(&levels, ANY, 9, &mut StdRng::seed_from_u64(1));
        pool.shuffle(&mut StdRng::seed_from_u64(2));
        let by_chance: Vec<usize> = pool.chunks_exact(9).map(closest).collect();
        let better = by_chance.iter().filter(|&&chance| chance >= closest(&sample)).count();
        assert!(closest(&sample) >= 4, "the closest two differ in {} of 6 factors", closest(&sample));
        assert_eq!(better, 0, "of {} drawn by chance", by_chance.len());
    }

    #[test]
    fn a_space_too_large_to_count_is_sampled_all_the_same() {
        let levels = [4; 20];
        let even = |row: &[usize]| row.iter().sum::<usize>().is_multiple_of(2);
        let sample = latin_hypercube(&levels, &even, 24, 7);
        assert_eq!(sample.len(), 24);
        assert!(sample.iter().all(|row| even(row)));
        assert!(closest(&sample) >= 12, "{}", closest(&sample));
    }

    #[test]
    fn nothing_valid_is_an_empty_sample() {
        assert!(latin_hypercube(&[3, 3], &|_| false, 5, 0).is_empty());
        assert!(latin_hypercube(&[3, 0], ANY, 5, 0).is_empty());
        assert!(latin_hypercube(&[3, 3], ANY, 0, 0).is_empty());
        assert_eq!(latin_hypercube(&[], ANY, 5, 0), [Vec::<usize>::new()]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn where_all_is_valid_every_factor_is_balanced(
            levels in prop::collection::vec(1..5_usize, 1..6),
            share in 0.0..1.0_f64,
            seed: u64,
        ) {
            let all: usize = levels.iter().product();
            let size = ((all.min(40) as f64) * share) as usize;
            let sample = latin_hypercube(&levels, ANY, size, seed);
            prop_assert_eq!(sample.len(), size);
            for (factor, &count) in levels.iter().enumerate() {
                let counts = counts(&sample, factor, count);
                let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
                prop_assert!(most - least <= 1, "factor {} of {:?}: {:?}", factor, levels, counts);
            }
        }

        #[test]
        fn only_valid_combinations_come_each_once_and_always_the_same(
            levels in prop::collection::vec(1..5_usize, 1..6),
            size in 0..40_usize,
            modulus in 1..4_usize,
            seed: u64,
        ) {
            let is_valid = |row: &[usize]| row.iter().sum::<usize>().is_multiple_of(modulus);
            let sample = latin_hypercube(&levels, &is_valid, size, seed);
            let valid = valid_combinations(&levels, &is_valid).unwrap() as usize;
            prop_assert_eq!(sample.len(), size.min(valid));
            prop_assert!(sample.iter().all(|row| is_valid(row)));
            prop_assert!(sample.iter().all(|row| row.iter().zip(&levels).all(|(level, count)| level < count)));
            let distinct: BTreeSet<_> = sample.iter().collect();
            prop_assert_eq!(distinct.len(), sample.len());
            prop_assert_eq!(latin_hypercube(&levels, &is_valid, size, seed), sample);
        }
    }
}
