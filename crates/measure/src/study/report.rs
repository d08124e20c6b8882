//! What a study found: the document that `study.json` holds, and the only thing that page, tables and text read.
//!
//! Times are seconds, sizes bytes, rates operations per second, shares parts of 1; each field's name says so. A figure
//! that could not be had is `null`, never a guess.

use schemars::JsonSchema;
use serde::Serialize;

use super::analysis::{
    Band, CaseStudy, ConditionCorrelation, Explained, Factors, Groups, Instantaneous, LatencyCurves,
    LatencyRange, Layout, OperationBesideRepeats, OperationCorrelation, Order, Outlier, RemedyEffect,
    Steadiness, TakenByOthers, Variation, WindowRanges, conditions, explained, latencies, layout, operations,
    outliers, over_time, remedies, steadiness, variation, window_sizes,
};
use super::claims::{Claim, Levels, claims};
use super::data::{State, Study};
use super::findings::{Finding, findings};
use crate::report::format;

/// The value of `schema` in every document of this shape.
pub const SCHEMA: &str = "evenkeel.study/2";

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StudyReport {
    /// Always [`SCHEMA`].
    #[schemars(extend("const" = SCHEMA))]
    pub schema: &'static str,
    /// The version of evenkeel that made the report.
    pub evenkeel_version: &'static str,
    /// What was studied.
    pub study: StudyFacts,
    /// What it says, a sentence each, the most important first.
    pub findings: Vec<Finding>,
    /// What it claims beyond the runs that there are: of a study of noise, anything at all in at most one of twenty.
    pub claims: Vec<Claim>,
    /// Figures 1 and 2: how much cumulative throughput varies.
    pub variation: Vec<Variation>,
    /// Which factors explain it.
    pub explained: Vec<Explained>,
    /// Figure 3: what the remedies brought.
    pub case_studies: Vec<CaseStudy>,
    /// Whether each set of remedies brings repeats closer together.
    pub remedy_effects: Vec<RemedyEffect>,
    /// Figure 4: where data sets lay.
    pub layouts: Vec<Layout>,
    /// Figure 5: throughput over time.
    pub bands: Vec<Band>,
    /// Figure 6: range against window size.
    pub window_ranges: Vec<WindowRanges>,
    /// Figure 7: instantaneous throughput.
    pub instantaneous: Vec<Instantaneous>,
    /// Figure 8: distributions of latency.
    pub latency_curves: Vec<LatencyCurves>,
    /// Latency of each operation, and its range over the repeats.
    pub latency_ranges: Vec<LatencyRange>,
    /// Figure 9: whether the range of latency goes with that of throughput.
    pub operation_correlations: Vec<OperationCorrelation>,
    /// Whether runs in which an operation takes longer than in their repeats are slower.
    pub operations_beside_repeats: Vec<OperationBesideRepeats>,
    /// Warm-up, changes of level and serial correlation within runs.
    pub steadiness: Vec<Steadiness>,
    /// Runs apart from their repeats.
    pub outliers: Vec<Outlier>,
    /// Whether what the machine was like goes with throughput.
    pub condition_correlations: Vec<ConditionCorrelation>,
    /// How much of the processors others had.
    pub taken_by_others: Vec<TakenByOthers>,
    /// Whether the order of execution shows; `null` for too few runs.
    pub order: Option<Order>,
    /// Runs without figures.
    pub left_out: Vec<LeftOut>,
}

/// What was studied.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct StudyFacts {
    /// Its name.
    pub name: String,
    /// The seed of its order.
    pub seed: i64,
    /// When it was begun.
    pub created_at: String,
    /// The version of evenkeel that ran it.
    pub evenkeel_version: String,
    /// How long a window of throughput is.
    pub interval_s: f64,
    /// How many windows there are.
    pub windows: usize,
    /// The machines that ran it.
    pub machines: Vec<MachineFacts>,
    /// Its workloads.
    pub workloads: Vec<String>,
    /// Its factors with their values.
    pub factors: Vec<FactorFacts>,
    /// Its configurations with the value of each factor; `null` where a configuration does not have it. Where several
    /// machines ran it, each is there once for each machine that ran it.
    pub configurations: Vec<ConfigurationFacts>,
    /// Runs that have figures.
    pub runs_done: usize,
    /// Runs that are still to come.
    pub runs_planned: usize,
    /// Runs that were not taken, since mkfs or mount failed for their configuration.
    pub runs_skipped: usize,
    /// Runs that broke off.
    pub runs_failed: usize,
}

/// A machine.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MachineFacts {
    /// Its name.
    pub name: String,
    /// Its kernel.
    pub kernel: String,
    /// Its processors.
    pub cpus: i64,
    /// Its memory.
    pub memory_bytes: i64,
}

/// A factor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FactorFacts {
    /// Its name.
    pub name: String,
    /// Its values.
    pub values: Vec<String>,
}

/// A configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConfigurationFacts {
    /// Its label.
    pub label: String,
    /// The value of each factor, in the order of the factors.
    pub values: Vec<Option<String>>,
}

/// Runs of one configuration under one workload that have no figures, for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LeftOut {
    /// The configuration.
    pub configuration: String,
    /// The workload.
    pub workload: String,
    /// How many.
    pub runs: usize,
    /// Whether they were not begun, since mkfs or mount failed for their configuration.
    pub skipped: bool,
    /// Why.
    pub message: String,
}

/// Analyses a study.
pub fn analyse(study: &Study) -> StudyReport {
    let mut report = analyse_claims(study);
    let study = study.by_machine();
    let groups = Groups::of(&study);
    report.variation = variation::variation(&groups, true);
    report.case_studies = remedies::case_studies(&groups);
    report.layouts = layout::layouts(&groups);
    report.window_ranges = window_sizes::window_ranges(&groups);
    report.latency_curves = latencies::latency_curves(&groups);
    (report.bands, report.instantaneous) = over_time::over_time(&groups);
    report.findings = findings(&report);
    report
}

/// As [`analyse`], without what no claim rests on: intervals by the bootstrap, figures over time and others that only
/// describe. It takes a fraction of the time, for whoever counts the claims of thousands of studies.
pub fn analyse_claims(study: &Study) -> StudyReport {
    let study = study.by_machine();
    let groups = Groups::of(&study);
    let factors = Factors::of(&groups);
    let levels = Levels::of(&groups, &factors);
    let latency_ranges = latencies::latency_ranges(&groups);
    let mut report = StudyReport {
        schema: SCHEMA,
        evenkeel_version: env!("CARGO_PKG_VERSION"),
        study: facts(&groups, &factors),
        findings: Vec::new(),
        claims: Vec::new(),
        variation: variation::variation(&groups, false),
        explained: explained::explained(&groups, &factors, &levels),
        case_studies: Vec::new(),
        remedy_effects: remedies::effects(&groups, levels.remedies),
        layouts: Vec::new(),
        bands: Vec::new(),
        window_ranges: Vec::new(),
        instantaneous: Vec::new(),
        latency_curves: Vec::new(),
        operation_correlations: operations::operation_correlations(
            &groups,
            &latency_ranges,
            levels.operations / 2.0,
        ),
        operations_beside_repeats: operations::beside_repeats(&groups, levels.operations / 2.0),
        latency_ranges,
        steadiness: steadiness::steadiness(&groups),
        outliers: outliers::outliers(&groups, levels.outliers),
        condition_correlations: conditions::condition_correlations(
            &groups,
            levels.placement,
            levels.conditions,
        ),
        taken_by_others: conditions::taken_by_others(&groups),
        order: outliers::order(&groups, levels.order),
        left_out: left_out(&groups),
    };
    report.claims = claims(&report, levels.steadiness);
    report.findings = findings(&report);
    report
}

/// Puts windows of another length into figure 5.
///
/// # Errors
///
/// Where they are shorter than those that were kept.
pub fn set_window(report: &mut StudyReport, study: &Study, window_s: f64) -> Result<(), String> {
    if window_s < study.interval_s * 0.999 {
        let [asked, kept] = [window_s, study.interval_s].map(format::seconds);
        return Err(format!(
            "windows of {asked}: throughput was kept for each {kept}, name as much at least"
        ));
    }
    report.bands = over_time::bands_of(&Groups::of(&study.by_machine()), window_s);
    Ok(())
}

fn facts(groups: &Groups<'_>, factors: &Factors) -> StudyFacts {
    let study = groups.study;
    let in_state = |wanted: State| study.runs.iter().filter(|run| run.state == wanted).count();
    let machine = |machine: &super::data::Machine| MachineFacts {
        name: machine.name.clone(),
        kernel: machine.kernel.clone(),
        cpus: machine.cpus,
        memory_bytes: machine.memory_bytes,
    };
    let factor =
        |(name, values): (&str, &[String])| FactorFacts { name: name.to_owned(), values: values.to_vec() };
    let configuration = |configuration: &super::data::Configuration| ConfigurationFacts {
        label: configuration.label.clone(),
        values: factors.iter().map(|(name, _)| configuration.setting(name).map(str::to_owned)).collect(),
    };
    StudyFacts {
        name: study.name.clone(),
        seed: study.seed,
        created_at: study.created_at.clone(),
        evenkeel_version: study.evenkeel_version.clone(),
        interval_s: study.interval_s,
        windows: study.runs.iter().map(|run| run.windows.len()).sum(),
        machines: study.machines.iter().map(machine).collect(),
        workloads: groups.workloads.clone(),
        factors: factors.iter().map(factor).collect(),
        configurations: study.configurations.iter().map(configuration).collect(),
        runs_done: in_state(State::Done),
        runs_planned: in_state(State::Planned) + in_state(State::Running),
        runs_skipped: in_state(State::Skipped),
        runs_failed: in_state(State::Failed),
    }
}

fn left_out(groups: &Groups<'_>) -> Vec<LeftOut> {
    let mut all: Vec<LeftOut> = Vec::new();
    for run in groups.left_out() {
        let one = LeftOut {
            configuration: groups.study.configurations[run.configuration].label.clone(),
            workload: run.workload.clone(),
            runs: 1,
            skipped: run.state == State::Skipped,
            message: run.message.clone().unwrap_or_default(),
        };
        let is_same = |other: &&mut LeftOut| LeftOut { runs: 1, ..(**other).clone() } == one;
        match all.iter_mut().find(is_same) {
            Some(known) => known.runs += 1,
            None => all.push(one),
        }
    }
    all
}
