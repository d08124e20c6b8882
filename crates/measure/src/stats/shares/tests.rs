//! Analyses of variance held to SciPy's, and studies with effects planted in them and without.

use std::cell::RefCell;
use std::collections::HashMap;

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, StandardNormal};

use super::*;
use crate::stats::sampling::latin_hypercube;

/// What all of a study share in these tests.
const LEVEL: f64 = 0.05;

/// Levels, size and seed.
type Design = (Vec<usize>, usize, u64);

thread_local! {
    /// Ten samples of a kind serve all seeds: drawing them takes longer than judging them.
    static SAMPLES: RefCell<HashMap<Design, Vec<Vec<usize>>>> = RefCell::default();
}

fn normal(random: &mut StdRng) -> f64 {
    StandardNormal.sample(random)
}

/// A study of a sample of all combinations, each run `runs` times; `effect` says what the levels do.
fn study(
    levels: &[usize],
    configurations: usize,
    runs: usize,
    seed: u64,
    effect: &dyn Fn(&[usize]) -> f64,
) -> Vec<Cell> {
    let mut random = StdRng::seed_from_u64(seed);
    let sample = SAMPLES.with_borrow_mut(|samples| {
        let key = (levels.to_vec(), configurations, seed % 10);
        let draw = || latin_hypercube(levels, &|_| true, configurations, seed % 10);
        samples.entry(key).or_insert_with(draw).clone()
    });
    let cell = |row: Vec<usize>| Cell {
        values: (0..runs).map(|_| effect(&row) + normal(&mut random)).collect(),
        levels: row.into_iter().map(Some).collect(),
    };
    sample.into_iter().map(cell).collect()
}

/// What is found, without the intervals, which take longer than all else.
fn found_in(levels: &[usize], cells: &[Cell]) -> Vec<Term> {
    let analysis = Analysis::new(levels, cells.iter().collect(), None, LEVEL).unwrap();
    analysis.take_up().1.into_iter().filter(|taken| taken.found).map(|taken| taken.term).collect()
}

fn share_of(shares: &Shares, term: Term) -> Share {
    *shares.terms.iter().find(|share| share.term == term).unwrap()
}

#[test]
fn one_factor_is_the_one_way_analysis_of_variance() {
    let groups = [[6.9, 5.4, 5.8, 4.6, 4.0], [8.3, 6.8, 7.8, 9.2, 6.5], [8.0, 10.5, 8.1, 6.9, 9.3]];
    let cells = groups.iter().enumerate().flat_map(|(level, group)| {
        group.iter().map(move |&value| Cell { levels: vec![Some(level)], values: vec![value] })
    });
    let shares = variance_shares(&[3], &cells.collect::<Vec<_>>(), None, LEVEL).unwrap();
    let [only] = shares.terms[..] else { panic!("{shares:?}") };
    // scipy.stats.f_oneway(*groups).pvalue, SciPy 1.17.1; F is 9.591107036442809
    assert!((only.p.unwrap() - 0.003_248_222_600_859_306).abs() < 1e-9);
    // Kelley's epsilon squared from that F: df (F - 1) / (df F + error df)
    let (f, df, error_df) = (9.591_107_036_442_809, 2.0, 12.0);
    assert!((only.share.unwrap() - df * (f - 1.0) / (df * f + error_df)).abs() < 1e-9);
    assert!(only.found);
    assert_eq!(shares.within_cells, 0.0);
}

#[test]
fn a_factor_that_explains_sixty_per_cent_is_found_with_that_share() {
    // Three levels at -a, 0 and a vary by 2/3 a²; noise varies by 1: 1.5 of 2.5 are 60 %.
    let reach = 1.5_f64;
    let effect = move |row: &[usize]| (row[0] as f64 - 1.0) * reach;
    let (mut sum, mut held) = (0.0, 0);
    for seed in 0..60 {
        let shares =
            variance_shares(&[3, 4, 2, 3], &study(&[3, 4, 2, 3], 36, 10, seed, &effect), None, LEVEL)
                .unwrap();
        let share = share_of(&shares, Term::Factor(0));
        assert!(share.found, "study {seed}");
        assert!((share.share.unwrap() - 0.6).abs() < 0.1, "study {seed}: {share:?}");
        sum += share.share.unwrap();
        held += usize::from(share.ci95.is_some_and(|[low, high]| low <= 0.6 && 0.6 <= high));
    }
    assert!((sum / 60.0 - 0.6).abs() < 0.01, "{}", sum / 60.0);
    assert!(held >= 52, "{held} of 60 intervals hold it");
}

#[test]
fn nothing_is_found_in_noise_in_nineteen_of_twenty_studies() {
    let levels = [3, 2, 3, 2, 2];
    let cries =
        (0..1_000).filter(|&seed| !found_in(&levels, &study(&levels, 18, 5, seed, &|_| 0.0)).is_empty());
    let cries = cries.count();
    // 5 % of 1,000 are 50, with a standard deviation of 7.
    assert!(cries <= 65, "{cries} of 1,000");
    assert!(cries > 5, "{cries} of 1,000: a test that never cries is none");
}

#[test]
fn differences_that_no_factor_explains_are_blamed_on_none() {
    // Each configuration has a speed of its own, far beyond the noise of its runs.
    let cries = (0..300).filter(|&seed| {
        let mut random = StdRng::seed_from_u64(seed);
        let mut cells = study(&[3, 2, 2], 12, 10, seed, &|_| 0.0);
        for cell in &mut cells {
            let own = 10.0 * normal(&mut random);
            cell.values.iter_mut().for_each(|value| *value += own);
        }
        !found_in(&[3, 2, 2], &cells).is_empty()
    });
    let cries = cries.count();
    assert!(cries <= 25, "{cries} of 300");
}

#[test]
fn a_pair_is_found_where_neither_of_its_factors_does_anything_alone() {
    let effect = |row: &[usize]| if row[0] == row[1] { 2.0 } else { -2.0 };
    let shares = variance_shares(&[2, 2, 3], &study(&[2, 2, 3], 12, 10, 1, &effect), None, LEVEL).unwrap();
    let pair = share_of(&shares, Term::Pair(0, 1));
    assert!(pair.found && (pair.share.unwrap() - 0.8).abs() < 0.06, "{pair:?}");
    assert!(share_of(&shares, Term::Factor(0)).share.unwrap() < 0.02);
}

#[test]
fn a_factor_that_some_do_not_have_is_not_credited_with_what_those_are() {
    // The second factor is one of the first file system alone, and does nothing.
    let mut random = StdRng::seed_from_u64(9);
    let mut cells = Vec::new();
    for file_system in 0..3 {
        for mode in 0..3 {
            for atime in 0..2 {
                let levels = vec![Some(file_system), (file_system == 0).then_some(mode), Some(atime)];
                let speed = if file_system == 0 { 5.0 } else { 0.0 };
                cells.push(Cell { levels, values: (0..5).map(|_| speed + normal(&mut random)).collect() });
            }
        }
    }
    let shares = variance_shares(&[3, 3, 2], &cells, None, LEVEL).unwrap();
    let found: Vec<Term> = shares.found().map(|share| share.term).collect();
    assert_eq!(found, [Term::Factor(0)]);
    assert!(share_of(&shares, Term::Factor(1)).ci95.unwrap()[1] < 0.1);
}

#[test]
fn factors_whose_levels_go_together_cannot_be_told_apart() {
    let mut cells = study(&[2, 6], 12, 5, 2, &|row| row[0] as f64 * 9.0);
    for cell in &mut cells {
        cell.levels.push(cell.levels[0]);
    }
    let shares = variance_shares(&[2, 6, 2], &cells, None, LEVEL).unwrap();
    assert_eq!(shares.found().count(), 1);
    assert!(shares.aliased.contains(&Term::Factor(2)) || shares.aliased.contains(&Term::Factor(0)));
}

/// Three file systems, of which the last is slow; two options of the last alone, which do nothing. Each configuration has
/// a speed of its own, beyond what its runs differ by.
fn slow_file_system_with_options() -> Vec<Cell> {
    let mut random = StdRng::seed_from_u64(4);
    let mut cell = |number: usize| {
        let (file_system, own) = (number % 3, number / 3);
        let option = |level: usize| (file_system == 2).then_some(level);
        let levels = vec![Some(file_system), option(own % 2), option(own % 3)];
        let speed = if file_system == 2 { -2.0 } else { 0.0 } + 0.2 * normal(&mut random);
        Cell { levels, values: (0..10).map(|_| speed + 0.01 * normal(&mut random)).collect() }
    };
    (0..18).map(&mut cell).collect()
}

#[test]
fn what_one_factor_does_is_not_said_of_two_others_that_can_express_it() {
    let shares = variance_shares(&[3, 2, 3], &slow_file_system_with_options(), None, LEVEL).unwrap();
    let found: Vec<Term> = shares.found().map(|share| share.term).collect();
    assert_eq!(found, [Term::Factor(0)], "{shares:?}");
    assert!(shares.terms[0].share.unwrap() > 0.9);
}

#[test]
fn what_a_file_system_does_is_not_said_of_block_sizes_that_it_alone_takes() {
    // Block sizes of the first two file systems, and of the slow one.
    for [of_others, of_slow] in
        [[&[0, 1, 2][..], &[3, 4][..]], [&[0], &[1]], [&[0], &[1, 2]], [&[0, 1], &[2]]]
    {
        let mut random = StdRng::seed_from_u64(5);
        let mut cell = |number: usize| {
            let (file_system, own) = (number % 3, number / 3);
            let of_this = if file_system == 2 { of_slow } else { of_others };
            let speed = if file_system == 2 { -2.0 } else { 0.0 } + 0.2 * normal(&mut random);
            let values = (0..10).map(|_| speed + 0.01 * normal(&mut random)).collect();
            Cell { levels: vec![Some(of_this[own % of_this.len()]), Some(file_system)], values }
        };
        let cells: Vec<Cell> = (0..18).map(&mut cell).collect();
        let shares = variance_shares(&[5, 3], &cells, Some(1), LEVEL).unwrap();
        let found: Vec<Term> = shares.found().map(|share| share.term).collect();
        assert_eq!(found, [Term::Factor(1)], "{of_others:?} {of_slow:?} {shares:?}");
        assert!(share_of(&shares, Term::Factor(1)).share.unwrap() > 0.9);
    }
}

#[test]
fn a_pair_that_has_each_of_its_cells_to_itself_is_not_judged_by_their_runs() {
    let shares = variance_shares(&[3, 2, 3], &slow_file_system_with_options(), None, LEVEL).unwrap();
    assert_eq!(share_of(&shares, Term::Pair(1, 2)).p, None);
}

#[test]
fn few_cells_are_judged_by_their_runs() {
    let shares =
        variance_shares(&[3], &study(&[3], 3, 10, 3, &|row| row[0] as f64 * 3.0), None, LEVEL).unwrap();
    assert!(shares.terms[0].found, "{shares:?}");
    let once = variance_shares(&[3], &study(&[3], 3, 1, 3, &|row| row[0] as f64 * 3.0), None, LEVEL).unwrap();
    assert_eq!((once.terms[0].share, once.terms[0].found), (None, false));
}

#[test]
fn what_does_not_vary_is_explained_by_nothing() {
    let cell = |level, value| Cell { levels: vec![Some(level)], values: vec![value; 3] };
    assert!(variance_shares(&[2], &[cell(0, 1.0), cell(1, 1.0)], None, LEVEL).is_none());
    assert!(variance_shares(&[2], &[cell(0, 1.0), cell(1, f64::NAN)], None, LEVEL).is_none());
    assert!(variance_shares(&[2], &[cell(0, 1.0)], None, LEVEL).is_none());
    assert!(variance_shares(&[], &[], None, LEVEL).is_none());
    let exact = variance_shares(&[2], &[cell(0, 1.0), cell(1, 2.0)], None, LEVEL).unwrap();
    assert_eq!(exact.terms[0].share, None, "no error to judge it by");
}

#[test]
fn a_factor_of_the_unsteady_is_judged_by_how_unsteady_they_are() {
    // The second factor is one of the first file system alone, whose configurations differ thirty times as much.
    let cries = (0..200).filter(|&seed| {
        let mut random = StdRng::seed_from_u64(seed);
        let mut cells = Vec::new();
        for number in 0..27 {
            let (file_system, mode) = (number % 3, number / 3 % 3);
            let levels = vec![Some(file_system), (file_system == 0).then_some(mode)];
            let spread = if file_system == 0 { 3.0 } else { 0.1 };
            cells.push(Cell { levels, values: (0..5).map(|_| spread * normal(&mut random)).collect() });
        }
        found_in(&[3, 3], &cells).contains(&Term::Factor(1))
    });
    let cries = cries.count();
    assert!(cries <= 12, "{cries} of 200");
}
