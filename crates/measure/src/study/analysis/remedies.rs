//! What the remedies brought: the paper's case study, figure 3.

use schemars::JsonSchema;
use serde::Serialize;

use super::groups::{Group, Groups, REMEDIES, relative_range};
use crate::stats;
use crate::study::data::Run;

/// A configuration with several remedies, under one workload.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CaseStudy {
    /// The workload.
    pub workload: String,
    /// What all boxes have in common: values of the other factors.
    pub configuration: String,
    /// From no remedy to the most, by how many there are.
    pub boxes: Vec<RemedyBox>,
}

/// The runs with one set of remedies.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RemedyBox {
    /// The remedies, joined by `+`; `none`.
    pub remedies: String,
    /// The configuration with them, by its label.
    pub label: String,
    /// Throughput of each run.
    pub operations_per_s: Vec<f64>,
    /// Least, first quartile, median, third quartile and most.
    pub quartiles_operations_per_s: [f64; 5],
    /// Largest less smallest over mean.
    pub relative_range: Option<f64>,
    /// Relative standard deviation.
    pub rsd: Option<f64>,
    /// Its 95 % interval.
    pub rsd_ci95: Option<[f64; 2]>,
}

/// Whether a set of remedies brings repeats closer together than none, over all that was run with both.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RemedyEffect {
    /// The remedies, joined by `+`.
    pub remedies: String,
    /// Configurations, each under a workload, that were run with and without.
    pub compared: usize,
    /// Repeats of them that were run both ways.
    pub pairs: usize,
    /// The RSD with them over that without, the geometric mean; `null` where one does not vary.
    pub rsd_ratio: Option<f64>,
    /// The chance of as much without an effect, adjusted for the number of sets (Holm).
    pub p: Option<f64>,
    /// Whether that is below the level that remedies have on the page.
    pub found: bool,
}

/// Judges every set of remedies by pairs: a run without and a run with them, of the same repeat of the same configuration
/// under the same workload. Which came first was left to chance, so each is as likely to lie farther from the median of its
/// repeats as the other, whatever drifts: Wilcoxon's signed-rank test says whether those without do. Found are those that
/// `level`, the chance of anything false among them, allows.
pub fn effects(groups: &Groups<'_>, level: f64) -> Vec<RemedyEffect> {
    let mut all: Vec<(RemedyEffect, Vec<f64>, Vec<f64>)> = Vec::new();
    for with in &groups.groups {
        let settings = &groups.configuration(with).settings;
        let Some(remedies) = groups.configuration(with).setting(REMEDIES) else { continue };
        if remedy_names(remedies).next().is_none() {
            continue;
        }
        let is_without = |group: &&Group<'_>| {
            let other = &groups.configuration(group).settings;
            let same = |(one, other): (&(String, String), &(String, String))| {
                one == other
                    || one.0 == REMEDIES && other.0 == REMEDIES && remedy_names(&other.1).next().is_none()
            };
            group.workload == with.workload
                && settings.len() == other.len()
                && settings.iter().zip(other).all(same)
        };
        let Some(without) = groups.groups.iter().find(is_without) else { continue };
        let place = all.iter().position(|(effect, ..)| effect.remedies == remedies).unwrap_or_else(|| {
            let effect = RemedyEffect {
                remedies: remedies.to_owned(),
                compared: 0,
                pairs: 0,
                rsd_ratio: None,
                p: None,
                found: false,
            };
            all.push((effect, Vec::new(), Vec::new()));
            all.len() - 1
        });
        let (effect, closer, ratios) = &mut all[place];
        let of_pairs = closer_by(without, with);
        effect.compared += 1;
        effect.pairs += of_pairs.len();
        closer.extend(of_pairs);
        let spreads = stats::rsd(&with.rates).zip(stats::rsd(&without.rates));
        ratios.extend(spreads.map(|(with, without)| (with / without).ln()));
    }
    let chances: Vec<f64> =
        all.iter().map(|(_, closer, _)| stats::signed_rank_chance(closer).unwrap_or(1.0)).collect();
    let judged = all.into_iter().zip(stats::holm(&chances));
    judged
        .map(|((effect, _, ratios), p)| {
            let ratio = (ratios.iter().sum::<f64>() / ratios.len() as f64).exp();
            let rsd_ratio = Some(ratio).filter(|ratio| ratio.is_finite());
            RemedyEffect { rsd_ratio, p: Some(p), found: p <= level, ..effect }
        })
        .collect()
}

/// Of each repeat that was run both ways, by how much closer the run with remedies lies to the median of its own, in
/// logarithms over how far the runs of both lie on average.
fn closer_by(without: &Group<'_>, with: &Group<'_>) -> Vec<f64> {
    let far = |group: &Group<'_>| -> Vec<f64> {
        let logs: Vec<f64> = group.rates.iter().map(|rate| rate.ln()).collect();
        let median = stats::median(&logs).unwrap_or(f64::NAN);
        logs.iter().map(|log| (log - median).abs()).collect()
    };
    let (far_without, far_with) = (far(without), far(with));
    let mean = far_without.iter().chain(&far_with).sum::<f64>() / (far_without.len() + far_with.len()) as f64;
    let of_run = |(run, far): (&&Run, &f64)| {
        let at = with.runs.iter().position(|other| other.repeat == run.repeat)?;
        Some((far - far_with[at]) / mean).filter(|closer| closer.is_finite())
    };
    without.runs.iter().zip(&far_without).filter_map(of_run).collect()
}

/// Every configuration that was run with more than one set of remedies.
pub fn case_studies(groups: &Groups<'_>) -> Vec<CaseStudy> {
    let mut cases: Vec<CaseStudy> = Vec::new();
    for (number, group) in groups.groups.iter().enumerate() {
        let configuration = groups.configuration(group);
        let Some(remedies) = configuration.setting(REMEDIES) else { continue };
        let others = configuration.settings.iter().filter(|(factor, _)| factor != REMEDIES);
        let common = others.map(|(_, value)| value.as_str()).collect::<Vec<_>>().join("-");
        let workload = &groups.workloads[group.workload];
        let Some(quartiles) = quartiles(&group.rates) else { continue };
        let one = RemedyBox {
            remedies: remedies.to_owned(),
            label: configuration.label.clone(),
            operations_per_s: group.rates.clone(),
            quartiles_operations_per_s: quartiles,
            relative_range: relative_range(&group.rates).filter(|_| group.rates.len() > 1),
            rsd: stats::rsd(&group.rates),
            rsd_ci95: stats::rsd_interval(&group.rates, number as u64),
        };
        match cases.iter_mut().find(|case| case.workload == *workload && case.configuration == common) {
            Some(case) => case.boxes.push(one),
            None => {
                let workload = workload.clone();
                cases.push(CaseStudy { workload, configuration: common, boxes: vec![one] });
            }
        }
    }
    cases.retain(|case| case.boxes.len() > 1);
    for case in &mut cases {
        case.boxes.sort_by_key(|one| remedy_names(&one.remedies).count());
    }
    cases
}

/// The single remedies of a set.
pub fn remedy_names(remedies: &str) -> impl Iterator<Item = &str> {
    remedies.split('+').filter(|name| !matches!(*name, "none" | ""))
}

/// Least, first quartile, median, third quartile and most.
fn quartiles(values: &[f64]) -> Option<[f64; 5]> {
    let at = |share| stats::quantile(values, share);
    Some([at(0.0)?, at(0.25)?, at(0.5)?, at(0.75)?, at(1.0)?])
}
