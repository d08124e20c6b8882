//! What a page claims: everything it says, in a sentence, a headline or a mark on a chart, that reaches beyond the runs
//! that there are. Sentences are made from these, so that what a page says can be counted without reading it.
//!
//! 1. A page of nothing but noise holds a false claim with a chance of at most [`PAGE_LEVEL`], whatever the noise. That is
//!    for the whole page: each kind of claim that a study can give rise to has its part of the level, and what is claimed
//!    of a kind shares that part.
//! 2. What is not claimed is said of the runs that there are, as a description.
//!
//! This file and `report` import each other: findings are part of the report from which claims are made.

use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{Binomial, DiscreteCDF};

use super::analysis::groups::REMEDIES;
use super::analysis::{Factors, Figure, Groups, Steadiness};
use super::report::StudyReport;
use crate::stats::change_points::STEADY_THAT_PASS;

/// The chance of anything false on a page of noise.
pub const PAGE_LEVEL: f64 = 0.05;

/// The part of the level, beside the weights of what is claimed, that nothing is given: in heavy tails tests hold theirs only
/// nearly.
const KEPT_BACK: f64 = 7.0;

/// The share of runs whose windows come in any order that pass for resembling their neighbours.
pub const UNLIKE_THAT_PASS: f64 = 0.05;

/// The chances of something false of each kind: they add up to less than [`PAGE_LEVEL`]. Where the data lie has the largest
/// part: of what makes repeats differ it is the cause that nothing else on a page shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Levels {
    /// That a parameter explains variation.
    pub variation: f64,
    /// That a parameter explains throughput.
    pub throughput: f64,
    /// That the place of the data goes with throughput.
    pub placement: f64,
    /// That a condition of the machine does.
    pub conditions: f64,
    /// That remedies narrow the spread.
    pub remedies: f64,
    /// That an operation's latency goes with throughput.
    pub operations: f64,
    /// That the order shows.
    pub order: f64,
    /// That runs lie apart from their repeats.
    pub outliers: f64,
    /// That runs change their level, warm up or have windows that resemble their neighbours.
    pub steadiness: f64,
}

impl Levels {
    /// Those of a study: what it has no data for takes nothing from the others.
    pub fn of(groups: &Groups<'_>, factors: &Factors) -> Self {
        let has = |factor: &str| factors.iter().any(|(name, values)| name == factor && values.len() > 1);
        let some_run = |of: fn(&super::data::Run) -> bool| {
            groups.groups.iter().flat_map(|group| &group.runs).any(|run| of(run))
        };
        let weight = |is_there: bool, weight: f64| if is_there { weight } else { 0.0 };
        let has_factors = factors.iter().any(|(_, values)| values.len() > 1);
        let weights = Self {
            variation: weight(has_factors, 4.0),
            throughput: weight(has_factors, 3.0),
            placement: weight(some_run(|run| !run.extents.is_empty()), 22.0),
            conditions: weight(some_run(|run| !run.conditions.is_empty()), 3.0),
            remedies: weight(has(REMEDIES), 5.0),
            operations: weight(some_run(|run| !run.latencies.is_empty()), 3.0),
            order: 1.0,
            outliers: 1.0,
            steadiness: weight(some_run(|run| !run.windows.is_empty()), 1.0),
        };
        let Self {
            variation,
            throughput,
            placement,
            conditions,
            remedies,
            operations,
            order,
            outliers,
            steadiness,
        } = weights;
        let of_machine = placement + conditions;
        let of_runs = order + outliers + steadiness;
        let all = variation + throughput + of_machine + remedies + operations + of_runs + KEPT_BACK;
        let part = |weight: f64| PAGE_LEVEL * weight / all;
        Self {
            variation: part(variation),
            throughput: part(throughput),
            placement: part(placement),
            conditions: part(conditions),
            remedies: part(remedies),
            operations: part(operations),
            order: part(order),
            outliers: part(outliers),
            steadiness: part(steadiness),
        }
    }
}

/// One claim.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "claim", rename_all = "snake_case")]
pub enum Claim {
    /// A parameter, or two together, explain a figure: a mark on a chart, and over all workloads a sentence.
    Explains {
        /// What is explained.
        figure: Figure,
        /// Of which workload; `null` for all together.
        workload: Option<String>,
        /// The parameters.
        parameters: Vec<String>,
    },
    /// Runs with more of a condition than their repeats are slower or faster.
    Condition {
        /// Which; [`DATA_PLACE`](super::analysis::conditions::DATA_PLACE) is where the data lie.
        condition: String,
        /// Whether slower.
        slower: bool,
    },
    /// Remedies bring the repeats closer together.
    Remedies {
        /// Which, joined by `+`.
        remedies: String,
    },
    /// Throughput goes with an operation's latency.
    Operation {
        /// Whether its range does so over configurations, or a run beside its repeats.
        between: Between,
        /// The workload.
        workload: String,
        /// The file system.
        file_system: String,
        /// The operation.
        operation: String,
    },
    /// The order of execution shows.
    Order {
        /// Whether runs resemble the ones before them, rather than differ from them.
        alike: bool,
    },
    /// Runs lie apart from their repeats, farther than normal noise takes any.
    Outliers {
        /// How many.
        runs: usize,
    },
    /// Runs change their level of throughput, more of them than steady ones pass for it.
    LevelsChange,
    /// Runs warm up, more of them than steady ones pass for it.
    WarmUp,
    /// Windows resemble their neighbours.
    WindowsAlike,
}

/// What an operation's latency goes with throughput between.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Between {
    /// Configurations: the range of the one with the range of the other.
    Configurations,
    /// Repeats: runs in which it takes longer than in their repeats are slower.
    Repeats,
}

/// What a report claims; `level` is that of what it says of single runs over time.
pub(super) fn claims(report: &StudyReport, level: f64) -> Vec<Claim> {
    let mut claims = Vec::new();
    for explained in &report.explained {
        claims.extend(explained.terms.iter().filter(|term| term.found).map(|term| Claim::Explains {
            figure: explained.figure,
            workload: explained.workload.clone(),
            parameters: term.factors.clone(),
        }));
    }
    let conditions = report.condition_correlations.iter().filter(|row| row.found);
    claims.extend(conditions.map(|row| Claim::Condition {
        condition: row.condition.clone(),
        slower: row.judged_by().is_some_and(|found| found < 0.0),
    }));
    let remedies = report.remedy_effects.iter().filter(|effect| effect.found);
    claims.extend(remedies.map(|effect| Claim::Remedies { remedies: effect.remedies.clone() }));
    let found = report.operation_correlations.iter().filter(|row| row.found);
    claims.extend(found.map(|row| Claim::Operation {
        between: Between::Configurations,
        workload: row.workload.clone(),
        file_system: row.file_system.clone(),
        operation: row.operation.clone(),
    }));
    let found = report.operations_beside_repeats.iter().filter(|row| row.found);
    claims.extend(found.map(|row| Claim::Operation {
        between: Between::Repeats,
        workload: row.workload.clone(),
        file_system: row.file_system.clone(),
        operation: row.operation.clone(),
    }));
    let order = report.order.iter().filter(|order| order.found);
    claims.extend(order.map(|order| Claim::Order { alike: order.of_neighbours > 0.0 }));
    if !report.outliers.is_empty() {
        claims.push(Claim::Outliers { runs: report.outliers.len() });
    }
    /// How many runs of a row.
    type Many = fn(&Steadiness) -> usize;
    let kinds: [(Claim, Many, f64); 3] = [
        (Claim::LevelsChange, |row| row.runs_that_change, STEADY_THAT_PASS),
        (Claim::WarmUp, |row| row.runs_that_warm_up, STEADY_THAT_PASS),
        (Claim::WindowsAlike, |row| row.runs_serially_correlated, UNLIKE_THAT_PASS),
    ];
    let runs: usize = report.steadiness.iter().map(|row| row.runs).sum();
    for (claim, of, that_pass) in kinds {
        let many: usize = report.steadiness.iter().map(of).sum();
        if is_more_than_pass(many, runs, that_pass, level / 3.0) {
            claims.push(claim);
        }
    }
    claims
}

/// Whether so many of all runs are more than chance lets pass.
fn is_more_than_pass(many: usize, runs: usize, that_pass: f64, level: f64) -> bool {
    let Ok(passing) = Binomial::new(that_pass, runs as u64) else { return false };
    many > 0 && passing.sf(many as u64 - 1) <= level
}
