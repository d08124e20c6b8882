//! What the remedies brought: the paper's case study, figure 3.

use schemars::JsonSchema;
use serde::Serialize;

use super::groups::{Groups, REMEDIES, relative_range};
use crate::stats;

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
