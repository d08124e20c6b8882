//! Which factor explains how much of the variance of a figure: an analysis of variance for designs that are not
//! balanced.
//!
//! A cell is one combination of levels, with the values observed there. What the factors explain is judged by how cells
//! differ, not by how values within a cell do: two cells always differ by something that no factor explains, and taken
//! by their values, that alone would make the factor of any two cells an explanation.
//!
//! 1. Factors, and then pairs of them beyond what each explains alone, are taken up one at a time, the surest first, until
//!    none is left that chance would bring up as often as the level says without any effect (Bonferroni: factors share four
//!    fifths of it, pairs one). What is explained twice counts for the one taken up first, so shares do not add up to more than all. A
//!    pair comes after every factor that is found: two together can express what a third one does, and nobody is helped
//!    by being told of two.
//! 2. A share is corrected for what chance alone would explain (Kelley 1935, "An unbiased correlation ratio measure").
//!    Its interval comes from the noncentral F distribution (Steiger 2004), errors being taken as normal.
//! 3. The error is what cells differ by that the factors leave. Only where a factor tells all cells apart, as in a study of
//!    that factor alone, is it what values within a cell differ by. Else, where too few cells are left to tell, nothing can
//!    be said of a term: in a study of two by two, any factor would be blamed for what two cells differ by anyway.
//! 4. Figures need not be normal, and those of few cells may all but coincide by chance, which the F test takes for surety.
//!    So a small chance is also that of rearranging cells among levels, after Freedman & Lane 1983, "A nonstochastic
//!    interpretation of reported significance levels"; the larger of the two counts.
//! 5. One factor may be the whole that others are options of, as a file system is. A factor that tells two levels of that
//!    apart, as the block sizes of one file system that no other takes, is judged beyond it and comes after it: what a file
//!    system does is not said of its options.
//! 6. A factor that only some cells have is judged among those, by what those differ by: another file system's cells may
//!    be far steadier. That they have it explains nothing.

mod space;

use std::collections::{BTreeMap, BTreeSet};

use rand::seq::SliceRandom;

use super::noncentral_f::{noncentrality_interval, p_of_f};
use super::permutation;
use space::Space;

/// Of the chance that anything is found where nothing has an effect, what all pairs share; the rest is the factors'.
const SHARE_OF_PAIRS: f64 = 0.2;
/// A chance above this is nobody's finding, and is not looked at closer.
const LOOK_CLOSER: f64 = 0.05;
/// An error from fewer degrees of freedom is none.
const LEAST_ERROR_DF: usize = 3;

/// One combination of levels.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The level of each factor, counted from 0; `None` where the factor does not apply.
    pub levels: Vec<Option<usize>>,
    /// What was observed.
    pub values: Vec<f64>,
}

/// A factor, or two of them together, by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Term {
    /// One factor.
    Factor(usize),
    /// Two, beyond what each explains alone.
    Pair(usize, usize),
}

/// How much of the variance a term explains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Which.
    pub term: Term,
    /// Of the variance of all values, corrected for chance; `None` where nothing is left to judge it by.
    pub share: Option<f64>,
    /// Its 95 % interval.
    pub ci95: Option<[f64; 2]>,
    /// The chance of explaining as much without having an effect.
    pub p: Option<f64>,
    /// Whether that stays below the level that all terms share.
    pub found: bool,
}

/// What explains the variance of all values.
#[derive(Debug, Clone, PartialEq)]
pub struct Shares {
    /// Every term that can be told from the others: first those taken up, in that order, which are the ones found and
    /// what has to come before them: factors of pairs, and the whole of options.
    pub terms: Vec<Share>,
    /// Terms that cannot be told from those found: their levels go together.
    pub aliased: Vec<Term>,
    /// What values of the same cell differ by, as a share of the variance; 0 where each cell has one value.
    pub within_cells: f64,
}

impl Shares {
    /// The terms that explain something.
    pub fn found(&self) -> impl Iterator<Item = &Share> {
        self.terms.iter().filter(|term| term.found)
    }
}

/// Explains the variance of the values of `cells` by factors of so many levels; `whole` is the one that others are options
/// of. Where nothing has an effect, anything is found with a chance of at most `level`.
///
/// `None` where there are fewer than two cells with values, a value is not finite, or none differs.
#[must_use]
pub fn variance_shares(levels: &[usize], cells: &[Cell], whole: Option<usize>, level: f64) -> Option<Shares> {
    let analysis = Analysis::new(levels, cells.iter().collect(), whole, level)?;
    let (space, credits) = analysis.take_up();
    Some(analysis.conclude(&space, &credits))
}

/// Cells, weighed by the root of how many values they hold: squares of their means then add up to those of the values.
struct Analysis<'a> {
    levels: &'a [usize],
    cells: Vec<&'a Cell>,
    means: Vec<f64>,
    total_squares: f64,
    within_squares: f64,
    within_df: usize,
    /// The factor that others are options of, and of each factor whether it tells two levels of that apart.
    whole: Option<(usize, Vec<bool>)>,
    /// The chance that anything is found where nothing has an effect.
    level: f64,
}

/// What a term explains.
struct Credit {
    squares: f64,
    df: usize,
}

/// A term that was taken up.
struct Taken {
    term: Term,
    credit: Credit,
    /// Whether for itself, or for a pair that it belongs to or an option of it.
    found: bool,
}

/// A term over the error.
struct Test {
    f: f64,
    df: f64,
    error_df: f64,
    mean_square: f64,
    p: f64,
}

impl<'a> Analysis<'a> {
    fn new(levels: &'a [usize], mut cells: Vec<&'a Cell>, whole: Option<usize>, level: f64) -> Option<Self> {
        cells.retain(|cell| !cell.values.is_empty());
        let values: Vec<f64> = cells.iter().flat_map(|cell| &cell.values).copied().collect();
        let squares = |values: &[f64]| {
            let moments = super::moments::Moments::of(values)?;
            Some(moments.variance.unwrap_or(0.0) * moments.degrees_of_freedom())
        };
        let total_squares = squares(&values).filter(|&squares| squares > 0.0 && cells.len() > 1)?;
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let means = cells.iter().map(|cell| mean(&cell.values) * (cell.values.len() as f64).sqrt());
        Some(Self {
            means: means.collect(),
            total_squares,
            within_squares: cells.iter().filter_map(|cell| squares(&cell.values)).sum(),
            within_df: values.len() - cells.len(),
            whole: whole.map(|whole| {
                (whole, (0..levels.len()).map(|factor| tells_apart(factor, whole, &cells)).collect())
            }),
            level,
            levels,
            cells,
        })
    }

    /// A term behind those that are judged before it.
    fn with_those_before(&self, term: Term) -> Vec<Term> {
        let factors = match term {
            Term::Factor(factor) => vec![factor],
            Term::Pair(one, other) => vec![one, other],
        };
        let tells = |tells: &[bool]| factors.iter().any(|&factor| tells[factor]);
        let before = self.whole.iter().filter(|(_, told_by)| tells(told_by)).map(|(whole, _)| *whole);
        let mut all = Vec::new();
        for term in before.chain(factors.iter().copied()).map(Term::Factor).chain([term]) {
            if !all.contains(&term) {
                all.push(term);
            }
        }
        all
    }

    fn weights(&self) -> Vec<f64> {
        self.cells.iter().map(|cell| (cell.values.len() as f64).sqrt()).collect()
    }

    fn terms(&self) -> Vec<Term> {
        let several: Vec<usize> =
            (0..self.levels.len()).filter(|&factor| self.occurring(factor) > 1).collect();
        let pairs = several
            .iter()
            .enumerate()
            .flat_map(|(at, &one)| several[at + 1..].iter().map(move |&other| Term::Pair(one, other)));
        several.iter().map(|&factor| Term::Factor(factor)).chain(pairs).collect()
    }

    fn occurring(&self, factor: usize) -> usize {
        let occurs = |&level: &usize| self.cells.iter().any(|cell| cell.levels[factor] == Some(level));
        (0..self.levels[factor]).filter(occurs).count()
    }

    /// A column for each level of a term; the first of them says which cells have it at all.
    fn columns(&self, term: Term) -> Vec<Vec<f64>> {
        let column = |is_in: &dyn Fn(&Cell) -> bool| -> Vec<f64> {
            let weight = |cell: &&Cell| if is_in(cell) { (cell.values.len() as f64).sqrt() } else { 0.0 };
            self.cells.iter().map(weight).collect()
        };
        match term {
            Term::Factor(factor) => {
                let applies = column(&|cell| cell.levels[factor].is_some());
                let levels =
                    (0..self.levels[factor]).map(|level| column(&|cell| cell.levels[factor] == Some(level)));
                std::iter::once(applies).chain(levels).collect()
            }
            Term::Pair(one, other) => {
                let applies = column(&|cell| cell.levels[one].is_some() && cell.levels[other].is_some());
                let levels = (0..self.levels[one]).flat_map(|a| (0..self.levels[other]).map(move |b| (a, b)));
                let levels = levels.map(|(a, b)| {
                    column(&|cell| cell.levels[one] == Some(a) && cell.levels[other] == Some(b))
                });
                std::iter::once(applies).chain(levels).collect()
            }
        }
    }

    /// What a term would explain beyond those taken up.
    fn credit(&self, space: &Space, term: Term, taken: &[Term]) -> Credit {
        let mut space = space.clone();
        for before in self.with_those_before(term).into_iter().filter(|before| *before != term) {
            if !taken.contains(&before) {
                space.extend(&self.columns(before), &self.means);
            }
        }
        space.extend(&self.columns(term), &self.means)
    }

    /// What a term explains beyond others, over the error, among the cells that have it; `None` where they are too few.
    fn test(&self, term: Term, others: &[Term]) -> Option<Test> {
        let has = |cell: &&&Cell| match term {
            Term::Factor(factor) => cell.levels[factor].is_some(),
            Term::Pair(one, other) => cell.levels[one].is_some() && cell.levels[other].is_some(),
        };
        let among =
            Self::new(self.levels, self.cells.iter().filter(has).copied().collect(), None, self.level)?;
        let mut space = Space::new(&among.weights());
        for other in others.iter().chain(&self.with_those_before(term)).filter(|other| **other != term) {
            space.extend(&among.columns(*other), &among.means);
        }
        let before = space.clone();
        let credit = space.extend(&among.columns(term), &among.means);
        let is_alone = || among.cells.len() == self.cells.len() && self.tells_all_apart(term);
        let between = among.error_between(&space);
        let error = between.or_else(|| among.error_within().filter(|_| is_alone()));
        // What is left of exact sums by rounding is nothing.
        let is_error = |error: &(f64, usize)| credit.df > 0 && error.0 > 1e-12 * among.total_squares;
        let (mean_square, error_df) = error.filter(is_error)?;
        let f = credit.squares / credit.df as f64 / mean_square;
        let (df, error_df) = (credit.df as f64, error_df as f64);
        let mut p = p_of_f(f, df, error_df)?;
        if p <= LOOK_CLOSER {
            let rearranged = match between {
                Some(_) => among.chance_between(&before, &space, self.finest_level(term)),
                None => among.chance_within(self.finest_level(term)),
            };
            p = p.max(rearranged);
        }
        Some(Test { f, df, error_df, mean_square, p })
    }

    /// The chance that cells, rearranged, let what `space` has beyond `before` explain as much over what it leaves.
    fn chance_between(&self, before: &Space, space: &Space, level: f64) -> f64 {
        let known = before.dimensions();
        let explained = |values: &[f64]| {
            let [_, explained, rest] = space.squares(values, known);
            explained / (explained + rest)
        };
        let mut arranged = before.left_of(&self.means);
        let observed = explained(&arranged);
        permutation::chance(observed, level, |random| {
            arranged.shuffle(random);
            explained(&arranged)
        })
    }

    /// The chance that values, rearranged over all cells, let these differ as much.
    fn chance_within(&self, level: f64) -> f64 {
        let mut values: Vec<f64> = self.cells.iter().flat_map(|cell| &cell.values).copied().collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter_mut().for_each(|value| *value -= mean);
        let between = |values: &[f64]| {
            let mut from = 0;
            let of_cell = |cell: &&Cell| {
                let own = &values[from..from + cell.values.len()];
                from += own.len();
                own.iter().sum::<f64>().powi(2) / own.len() as f64
            };
            self.cells.iter().map(of_cell).sum::<f64>()
        };
        let observed = between(&values);
        permutation::chance(observed, level, |random| {
            values.shuffle(random);
            between(&values)
        })
    }

    /// The finest level that a term is held to.
    fn finest_level(&self, term: Term) -> f64 {
        let factors = self.levels.len().max(2) as f64;
        match term {
            Term::Factor(_) => self.level * (1.0 - SHARE_OF_PAIRS) / factors,
            Term::Pair(..) => self.level * SHARE_OF_PAIRS / (factors * (factors - 1.0) / 2.0),
        }
    }

    /// Whether each cell has a level of a factor to itself.
    fn tells_all_apart(&self, term: Term) -> bool {
        matches!(term, Term::Factor(factor) if self.occurring(factor) == self.cells.len())
    }

    /// The mean square of what is left between cells, and its degrees of freedom.
    fn error_between(&self, space: &Space) -> Option<(f64, usize)> {
        let df = self.cells.len() - space.dimensions();
        (df >= LEAST_ERROR_DF).then(|| (space.rest(&self.means) / df as f64, df))
    }

    /// The mean square of values within cells, and its degrees of freedom.
    fn error_within(&self) -> Option<(f64, usize)> {
        let df = self.within_df;
        (df >= LEAST_ERROR_DF).then(|| (self.within_squares / df as f64, df))
    }

    /// Takes up terms until no more is found.
    fn take_up(&self) -> (Space, Vec<Taken>) {
        let (mut space, mut taken, mut credits) = (Space::new(&self.weights()), Vec::new(), Vec::new());
        while let Some(best) = self.best(&taken) {
            // A pair comes after its factors, whatever these explain.
            for term in self.with_those_before(best) {
                if !taken.contains(&term) {
                    let credit = space.extend(&self.columns(term), &self.means);
                    credits.push(Taken { term, credit, found: term == best });
                    taken.push(term);
                }
            }
        }
        (space, credits)
    }

    /// The term to take up next, if there is one: a factor if any is found, of these one that nothing comes before if
    /// there is one, else a pair.
    fn best(&self, taken: &[Term]) -> Option<Term> {
        let is_next = |term: Term| {
            self.with_those_before(term).iter().all(|before| *before == term || taken.contains(before))
        };
        let found = |pairs: bool, level: f64| -> Vec<(Term, f64)> {
            let left = self.terms().into_iter().filter(|term| !taken.contains(term));
            let mut judged: Vec<(Term, f64)> = left
                .filter(|term| matches!(term, Term::Pair(..)) == pairs)
                .filter_map(|term| Some((term, self.test(term, taken)?.p)))
                .collect();
            let many = judged.len() as f64;
            judged.retain(|(_, p)| p * many <= level);
            judged
        };
        let surest = |terms: &mut dyn Iterator<Item = &(Term, f64)>| {
            terms.min_by(|one, other| one.1.total_cmp(&other.1)).map(|(term, _)| *term)
        };
        let factors = found(false, self.level * (1.0 - SHARE_OF_PAIRS));
        surest(&mut factors.iter().filter(|(term, _)| is_next(*term)))
            .or_else(|| surest(&mut factors.iter()))
            .or_else(|| surest(&mut found(true, self.level * SHARE_OF_PAIRS).iter()))
    }

    fn conclude(&self, space: &Space, credits: &[Taken]) -> Shares {
        let taken: Vec<Term> = credits.iter().map(|taken| taken.term).collect();
        let mut shares = Shares {
            terms: Vec::new(),
            aliased: Vec::new(),
            within_cells: self.within_squares / self.total_squares,
        };
        for (at, Taken { term, credit, found }) in credits.iter().enumerate() {
            // Each beyond those before it, over what all of them leave.
            let last = self.test(*term, &taken).map(|test| (test.mean_square, test.error_df));
            shares.terms.push(self.share(*term, credit, self.test(*term, &taken[..at]), last, *found));
        }
        for term in self.terms().into_iter().filter(|term| !taken.contains(term)) {
            let credit = self.credit(space, term, &taken);
            match credit.df {
                0 => shares.aliased.push(term),
                _ => shares.terms.push(self.share(term, &credit, self.test(term, &taken), None, false)),
            }
        }
        shares
    }

    /// The share of a term; over the error of another model where one is given.
    fn share(
        &self,
        term: Term,
        credit: &Credit,
        test: Option<Test>,
        error: Option<(f64, f64)>,
        found: bool,
    ) -> Share {
        let Some(mut test) = test.filter(|_| credit.df > 0) else {
            return Share { term, share: None, ci95: None, p: None, found };
        };
        if let Some((mean_square, error_df)) = error {
            test = Test { f: test.f * test.mean_square / mean_square, mean_square, error_df, ..test };
        }
        let rest = (self.total_squares - credit.squares).max(0.0);
        let of_noncentrality = |nc: f64| {
            let squares = nc * test.mean_square;
            (squares / (squares + rest)).clamp(0.0, 1.0)
        };
        Share {
            term,
            share: Some(((credit.squares - test.df * test.mean_square) / self.total_squares).clamp(0.0, 1.0)),
            ci95: noncentrality_interval(test.f, test.df, test.error_df)
                .map(|ends| ends.map(of_noncentrality)),
            p: p_of_f(test.f, test.df, test.error_df)
                .map(|p| if error.is_some() { p } else { p.max(test.p) }),
            found,
        }
    }
}

/// Whether two levels of `whole` have no level of another `factor` in common.
fn tells_apart(factor: usize, whole: usize, cells: &[&Cell]) -> bool {
    let mut under: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for cell in cells {
        if let (Some(level), Some(of_factor)) = (cell.levels[whole], cell.levels[factor]) {
            under.entry(level).or_default().insert(of_factor);
        }
    }
    let sets: Vec<_> = under.into_values().collect();
    let apart =
        |(at, set): (usize, &BTreeSet<usize>)| sets[at + 1..].iter().any(|next| set.is_disjoint(next));
    factor != whole && sets.iter().enumerate().any(apart)
}

#[cfg(test)]
mod tests;
