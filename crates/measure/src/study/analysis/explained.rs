//! Which factors explain how fast a configuration is, and which how much it varies.
//!
//! Two figures are explained, each for every workload and for all of them together: the logarithm of throughput, of
//! each run; and the logarithm of the relative standard deviation, of each configuration. Logarithms, because options
//! multiply speeds and spreads. For all workloads together, each workload's mean is taken off first.

use schemars::JsonSchema;
use serde::Serialize;

use super::groups::{FILE_SYSTEM, Group, Groups, REMEDIES};
use super::remedies::remedy_names;
use crate::stats::shares::{Cell, Term, variance_shares};
use crate::stats::{self};
use crate::study::claims::Levels;

/// What is explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// How fast runs are.
    Throughput,
    /// How much the runs of a configuration vary.
    Variation,
}

/// What explains a figure.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Explained {
    /// Which figure.
    pub figure: Figure,
    /// Of which workload; `null` for all together.
    pub workload: Option<String>,
    /// Configurations that there are figures of.
    pub configurations: usize,
    /// What repeats of a configuration differ by, a share of the variance under this workload; `null` where that is the
    /// figure, where no configuration has repeats, and for all workloads together, which would count what configurations do
    /// under one and not another.
    pub between_repeats: Option<f64>,
    /// What each factor and pair explains; those found first, then single ones by share, then pairs.
    pub terms: Vec<Explanation>,
    /// Factors and pairs whose levels go together with those of the ones found, so that nobody can tell them apart.
    pub not_told_apart: Vec<String>,
}

/// What one factor, or two of them together, explain.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Explanation {
    /// The factors: one, or two for what they explain together beyond each alone.
    pub factors: Vec<String>,
    /// Share of the variance, corrected for chance; `null` where nothing is left to judge it by.
    pub share: Option<f64>,
    /// Its 95 % interval, for itself. It reaches 0 unless the term is found: of the many on a page, some that explain nothing
    /// would leave it out.
    pub ci95: Option<[f64; 2]>,
    /// The chance of as much without an effect.
    pub p: Option<f64>,
    /// Whether it is surer than chance, over all that the page says.
    pub found: bool,
    /// The levels of a single factor, from the steadiest or fastest on.
    pub levels: Vec<LevelFigure>,
}

/// A level of a factor.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LevelFigure {
    /// Its value.
    pub value: String,
    /// Configurations that have it.
    pub configurations: usize,
    /// Geometric mean: operations per second, or relative standard deviation; of all workloads, relative to their means.
    pub typical: f64,
}

impl Explanation {
    /// Its factors in words.
    pub fn name(&self) -> String {
        self.factors.join(" with ")
    }
}

/// The factors of a study, with their values.
pub struct Factors {
    names: Vec<String>,
    values: Vec<Vec<String>>,
}

impl Factors {
    /// Those of the configurations, in the order in which they occur.
    pub fn of(groups: &Groups<'_>) -> Self {
        let mut factors = Self { names: Vec::new(), values: Vec::new() };
        for configuration in &groups.study.configurations {
            for (name, value) in &configuration.settings {
                factors.add(name, value);
            }
        }
        factors
    }

    fn add(&mut self, name: &str, value: &str) {
        let at = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.values.push(Vec::new());
            self.names.len() - 1
        });
        if !self.values[at].iter().any(|known| known == value) {
            self.values[at].push(value.to_owned());
        }
    }

    /// Name and values of each.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.names.iter().map(String::as_str).zip(self.values.iter().map(Vec::as_slice))
    }

    fn levels(&self, groups: &Groups<'_>, group: &Group<'_>) -> Vec<Option<usize>> {
        let level = |(name, values): (&str, &[String])| {
            let value = groups.configuration(group).setting(name);
            values.iter().position(|known| Some(known.as_str()) == value)
        };
        self.iter().map(level).collect()
    }
}

/// What explains the figures of a study. Of each figure, `levels` has the chance of anything false: half of it for all
/// workloads together, the rest for single ones.
pub fn explained(groups: &Groups<'_>, factors: &Factors, levels: &Levels) -> Vec<Explained> {
    let mut all = Vec::new();
    let workloads = groups.workloads.len();
    for figure in [Figure::Variation, Figure::Throughput] {
        let each: Vec<Vec<(usize, Cell)>> =
            (0..groups.workloads.len()).map(|workload| cells(groups, factors, figure, workload)).collect();
        let level = match figure {
            Figure::Variation => levels.variation,
            Figure::Throughput => levels.throughput,
        };
        let of_single = if workloads > 1 { level / 2.0 / workloads as f64 } else { level };
        if workloads > 1 {
            all.extend(explain(figure, None, factors, &together(&each), level / 2.0));
        }
        for (workload, cells) in groups.workloads.iter().zip(&each) {
            let cells: Vec<Cell> = cells.iter().map(|(_, cell)| cell.clone()).collect();
            all.extend(explain(figure, Some(workload.clone()), factors, &cells, of_single));
        }
    }
    all
}

/// Of configurations that differ in remedies alone, the one that stands for all: that without any, or the first. They are
/// one configuration otherwise, and would pass for several.
fn stands_for_others(groups: &Groups<'_>) -> Vec<bool> {
    let all = &groups.study.configurations;
    let rest =
        |at: usize| all[at].settings.iter().filter(|(factor, _)| factor != REMEDIES).collect::<Vec<_>>();
    let has_none = |at: usize| all[at].setting(REMEDIES).is_none_or(|set| remedy_names(set).next().is_none());
    let rests: Vec<_> = (0..all.len()).map(rest).collect();
    let stands = |at: usize| {
        let others = || (0..all.len()).filter(|&other| rests[other] == rests[at]);
        others().find(|&other| has_none(other)).or_else(|| others().next()) == Some(at)
    };
    (0..all.len()).map(stands).collect()
}

/// A cell for each configuration, with its place.
fn cells(groups: &Groups<'_>, factors: &Factors, figure: Figure, workload: usize) -> Vec<(usize, Cell)> {
    let mut cells = Vec::new();
    let stands = stands_for_others(groups);
    for group in
        groups.groups.iter().filter(|group| group.workload == workload && stands[group.configuration])
    {
        let logs = |values: &mut dyn Iterator<Item = f64>| -> Vec<f64> {
            values.map(f64::ln).filter(|log| log.is_finite()).collect()
        };
        let values = match figure {
            Figure::Throughput => logs(&mut group.rates.iter().copied()),
            Figure::Variation => logs(&mut stats::rsd(&group.rates).into_iter()),
        };
        if !values.is_empty() {
            cells.push((group.configuration, Cell { levels: factors.levels(groups, group), values }));
        }
    }
    cells
}

/// The cells of several workloads as one each, every workload's mean taken off.
fn together(each: &[Vec<(usize, Cell)>]) -> Vec<Cell> {
    let mut all: Vec<(usize, Cell)> = Vec::new();
    for cells in each {
        let values = || cells.iter().flat_map(|(_, cell)| &cell.values);
        let mean = values().sum::<f64>() / values().count().max(1) as f64;
        for (configuration, cell) in cells {
            let known = all.iter_mut().find(|(of, _)| of == configuration);
            let relative = cell.values.iter().map(|value| value - mean);
            match known {
                Some((_, other)) => other.values.extend(relative),
                None => {
                    let cell = Cell { levels: cell.levels.clone(), values: relative.collect() };
                    all.push((*configuration, cell));
                }
            }
        }
    }
    all.into_iter().map(|(_, cell)| cell).collect()
}

fn explain(
    figure: Figure,
    workload: Option<String>,
    factors: &Factors,
    cells: &[Cell],
    level: f64,
) -> Option<Explained> {
    let counts: Vec<usize> = factors.values.iter().map(Vec::len).collect();
    let file_system = factors.names.iter().position(|name| name == FILE_SYSTEM);
    let shares = variance_shares(&counts, cells, file_system, level)?;
    let places = |term: Term| match term {
        Term::Factor(factor) => vec![factor],
        Term::Pair(one, other) => vec![one, other],
    };
    let names = |term| -> Vec<String> { places(term).iter().map(|&at| factors.names[at].clone()).collect() };
    let mut terms: Vec<Explanation> = shares
        .terms
        .iter()
        .map(|share| Explanation {
            factors: names(share.term),
            share: share.share,
            ci95: if share.found { share.ci95 } else { stats::reaching_0(share.ci95) },
            p: share.p,
            found: share.found,
            levels: match share.term {
                Term::Factor(factor) => level_figures(figure, factors, factor, cells),
                Term::Pair(..) => Vec::new(),
            },
        })
        .collect();
    // Stable: those found stay in the order in which they were.
    terms.sort_by(|one, other| match (one.found, other.found) {
        (false, false) => {
            let share = |term: &Explanation| term.share.unwrap_or(-1.0);
            one.factors.len().cmp(&other.factors.len()).then(share(other).total_cmp(&share(one)))
        }
        (one, other) => other.cmp(&one),
    });
    // Of single runs it is not known.
    let is_repeated = cells.iter().any(|cell| cell.values.len() > 1);
    Some(Explained {
        figure,
        between_repeats: (figure == Figure::Throughput && workload.is_some() && is_repeated)
            .then_some(shares.within_cells),
        workload,
        configurations: cells.len(),
        terms,
        not_told_apart: shares.aliased.into_iter().map(|term| names(term).join(" with ")).collect(),
    })
}

fn level_figures(figure: Figure, factors: &Factors, factor: usize, cells: &[Cell]) -> Vec<LevelFigure> {
    let of_level = |(level, value): (usize, &String)| {
        let of_level = cells.iter().filter(|cell| cell.levels[factor] == Some(level));
        let means: Vec<f64> =
            of_level.map(|cell| cell.values.iter().sum::<f64>() / cell.values.len() as f64).collect();
        (!means.is_empty()).then(|| LevelFigure {
            value: value.clone(),
            configurations: means.len(),
            typical: (means.iter().sum::<f64>() / means.len() as f64).exp(),
        })
    };
    let mut levels: Vec<LevelFigure> =
        factors.values[factor].iter().enumerate().filter_map(of_level).collect();
    levels.sort_by(|one, other| one.typical.total_cmp(&other.typical));
    if figure == Figure::Throughput {
        levels.reverse();
    }
    levels
}

#[cfg(test)]
mod tests {
    use crate::study::data::{Configuration, Run, State, Study};
    use crate::study::report::analyse;

    /// Four file systems under two workloads: of one, configurations differ by far more than repeats; of the other, speeds
    /// are a thousand times those of the first, and both differ alike.
    fn two_workloads() -> Study {
        let configuration = |name: &str| Configuration {
            label: name.to_owned(),
            settings: vec![("file_system".to_owned(), name.to_owned())],
        };
        let run = |place: i64| {
            let (repeat, configuration) = (place / 8, place % 4);
            let is_fast = place % 8 >= 4;
            // Repeats 1 and -1, 2 and -2 deviations from their configuration.
            let deviates = [1.0, -1.0, 2.0, -2.0][repeat as usize];
            let (level, deviation): (f64, f64) = if is_fast { (3.0, 0.2) } else { (0.0, 0.01) };
            let apart = if is_fast { 0.2 } else { 0.5 };
            let own = apart * [1.0, -1.0, 2.0, -2.0][configuration as usize];
            Run {
                configuration: configuration as usize,
                workload: if is_fast { "fast" } else { "slow" }.to_owned(),
                repeat,
                place,
                state: State::Done,
                operations_per_s: Some((7.0 + level + own + deviation * deviates).exp()),
                ..Run::default()
            }
        };
        Study {
            interval_s: 1.0,
            configurations: ["btrfs", "ext4", "f2fs", "xfs"].map(configuration).into(),
            runs: (0..32).map(run).collect(),
            ..Study::default()
        }
    }

    #[test]
    fn of_single_runs_it_is_not_said_what_repeats_differ_by() {
        let mut study = two_workloads();
        study.runs.retain(|run| run.repeat == 0);
        let report = analyse(&study);
        assert!(
            !report.explained.is_empty() && report.explained.iter().all(|one| one.between_repeats.is_none())
        );
        assert!(report.findings.iter().all(|finding| !finding.words.contains("Repeats of the same")));
    }

    #[test]
    fn what_repeats_differ_by_is_a_share_of_each_workload_never_of_all_together() {
        let report = analyse(&two_workloads());
        let of_repeats = |workload: Option<&str>| {
            let of = |one: &&super::Explained| {
                one.figure == super::Figure::Throughput && one.workload.as_deref() == workload
            };
            report.explained.iter().find(of).unwrap().between_repeats
        };
        // The fast one: repeats and configurations differ alike. The slow one: 0.01 squared of it and 0.5 squared.
        assert!((of_repeats(Some("fast")).unwrap() - 0.5).abs() < 1e-9);
        assert!((of_repeats(Some("slow")).unwrap() - 1e-4 / (1e-4 + 0.25)).abs() < 1e-9);
        assert_eq!(of_repeats(None), None);
        let said = report.findings.iter().find(|finding| finding.about == "throughput").unwrap();
        assert!(
            said.words.ends_with(
                "Repeats of the same configuration make 50 % under fast, 0.04 % under slow of the variance."
            ),
            "{said:?}"
        );
    }
}
