//! What the remedies brought: the paper's case study, figure 3.

use schemars::JsonSchema;
use serde::Serialize;

use super::drift;
use super::groups::{Group, Groups, REMEDIES, relative_range};
use crate::stats;
use crate::study::data::Run;

/// Chances are drawn to this part of the level that they are held to, so that the drawing hardly counts.
const FINER: f64 = 5.0;
/// A run farther from the median of its repeats than so many times the median distance counts as one that is as far: a slow
/// run is not what remedies are judged by. Ranks would do that too, but not keep the level where slow runs make a tail.
const FARTHEST: f64 = 5.0;

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
    /// The chance of as much without an effect, adjusted for the number of sets: the fullest are judged first, others once
    /// these are found (Holm within either).
    pub p: Option<f64>,
    /// Whether that is below the level that remedies have on the page.
    pub found: bool,
}

/// How far runs lie from the median of their repeats, with remedies and without.
struct Distances {
    effect: RemedyEffect,
    /// Of each: which configuration and workload it is of, 1 for a run without remedies and 0 for one with, and the distance
    /// over the median one of its configuration, up to [`FARTHEST`].
    all: Vec<(usize, f64, f64)>,
    log_ratios: Vec<f64>,
}

/// Judges every set of remedies by how far runs lie from the median of their repeats: of the same repeats of the same
/// configuration under the same workload, once with remedies and once without. The machine's drift is taken off.
///
/// Where remedies do nothing, each distance is as likely to be one with them as one without (Brown & Forsythe 1974, "Robust
/// tests for the equality of variances"). The chance of those without adding up to as much is that of rearranging them,
/// within each configuration under a workload. Found are those that `level`, the chance of anything false among them,
/// allows.
pub fn effects(groups: &Groups<'_>, level: f64) -> Vec<RemedyEffect> {
    let logs = drift::logs_without(groups);
    let mut all: Vec<Distances> = Vec::new();
    for (at, with) in groups.groups.iter().enumerate() {
        let settings = &groups.configuration(with).settings;
        let Some(remedies) = groups.configuration(with).setting(REMEDIES) else { continue };
        if remedy_names(remedies).next().is_none() {
            continue;
        }
        let is_without = |group: &Group<'_>| {
            let other = &groups.configuration(group).settings;
            let same = |(one, other): (&(String, String), &(String, String))| {
                one == other
                    || one.0 == REMEDIES && other.0 == REMEDIES && remedy_names(&other.1).next().is_none()
            };
            group.workload == with.workload
                && settings.len() == other.len()
                && settings.iter().zip(other).all(same)
        };
        let Some(other) = groups.groups.iter().position(is_without) else { continue };
        let without = &groups.groups[other];
        let place = all.iter().position(|of| of.effect.remedies == remedies).unwrap_or_else(|| {
            let effect = RemedyEffect {
                remedies: remedies.to_owned(),
                compared: 0,
                pairs: 0,
                rsd_ratio: None,
                p: None,
                found: false,
            };
            all.push(Distances { effect, all: Vec::new(), log_ratios: Vec::new() });
            all.len() - 1
        });
        let Distances { effect, all, log_ratios } = &mut all[place];
        let (of_without, of_with): (Vec<f64>, Vec<f64>) =
            both_ways([without, with], [&logs[other], &logs[at]]).into_iter().unzip();
        effect.compared += 1;
        effect.pairs += of_with.len();
        all.extend(distances(at, &of_without, &of_with));
        let spreads = stats::rsd(&with.rates).zip(stats::rsd(&without.rates));
        log_ratios.extend(spreads.map(|(with, without)| (with / without).ln()));
    }
    let finer = level / all.len().max(1) as f64 / FINER;
    let chance = |of: &Distances| stats::permutation::correlation_chance(&of.all, finer).unwrap_or(1.0);
    let chances: Vec<f64> = all.iter().map(chance).collect();
    let sets: Vec<&str> = all.iter().map(|of| of.effect.remedies.as_str()).collect();
    let adjusted = fullest_first(&sets, &chances);
    let judged = all.into_iter().zip(adjusted);
    judged
        .map(|(Distances { effect, log_ratios, .. }, p)| {
            let ratio = (log_ratios.iter().sum::<f64>() / log_ratios.len() as f64).exp();
            let rsd_ratio = Some(ratio).filter(|ratio| ratio.is_finite());
            RemedyEffect { rsd_ratio, p: Some(p), found: p <= level, ..effect }
        })
        .collect()
}

/// Adjusts the chances of sets of remedies: those that no other set holds all of are judged first, and all others only once
/// each of these is found (Holm within either; Dmitrienko, Offen & Westfall 2003, "Gatekeeping strategies for clinical trials
/// that do not require all primary effects to be significant", the serial kind). The chance of anything false among all is
/// that of Holm over all, and remedies added to one another need not share it.
fn fullest_first(sets: &[&str], chances: &[f64]) -> Vec<f64> {
    let holds = |one: &str, other: &str| {
        remedy_names(one).count() > remedy_names(other).count()
            && remedy_names(other).all(|name| remedy_names(one).any(|known| known == name))
    };
    let is_fullest: Vec<bool> = sets.iter().map(|set| !sets.iter().any(|other| holds(other, set))).collect();
    let adjust = |fullest: bool| {
        let of = |at: &usize| is_fullest[*at] == fullest;
        let places: Vec<usize> = (0..sets.len()).filter(of).collect();
        let adjusted = stats::holm(&places.iter().map(|&at| chances[at]).collect::<Vec<f64>>());
        (places, adjusted)
    };
    let mut all = vec![1.0; sets.len()];
    let mut least_sure = 0.0_f64;
    for fullest in [true, false] {
        let (places, adjusted) = adjust(fullest);
        let before = least_sure;
        for (at, chance) in places.into_iter().zip(adjusted) {
            all[at] = chance.max(before);
            least_sure = least_sure.max(chance);
        }
    }
    all
}

/// The logarithms of the repeats that two groups have both.
fn both_ways(groups: [&Group<'_>; 2], logs: [&[f64]; 2]) -> Vec<(f64, f64)> {
    let [without, with] = groups;
    let of_run = |(run, log): (&&Run, &f64)| {
        let at = with.runs.iter().position(|other| other.repeat == run.repeat)?;
        Some((*log, logs[1][at])).filter(|(one, other)| one.is_finite() && other.is_finite())
    };
    without.runs.iter().zip(logs[0]).filter_map(of_run).collect()
}

/// The distances of as many runs without and with remedies from the median of each. The least distance of either is left
/// out: of an odd number it is 0, of an even number there are two of it.
fn distances(stratum: usize, without: &[f64], with: &[f64]) -> Vec<(usize, f64, f64)> {
    let far = |logs: &[f64]| -> Vec<f64> {
        let median = stats::median(logs).unwrap_or(f64::NAN);
        let mut far: Vec<f64> = logs.iter().map(|log| (log - median).abs()).collect();
        far.sort_by(f64::total_cmp);
        far.into_iter().skip(1).collect()
    };
    let (without, with) = (far(without), far(with));
    let both: Vec<f64> = without.iter().chain(&with).copied().collect();
    let Some(typical) = stats::median(&both).filter(|typical| *typical > 0.0) else { return Vec::new() };
    let labelled = without.iter().map(|far| (1.0, far)).chain(with.iter().map(|far| (0.0, far)));
    labelled.map(|(is_without, far)| (stratum, is_without, (far / typical).min(FARTHEST))).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_added_to_one_another_are_judged_from_the_fullest_set_on() {
        let sets = ["unmount", "unmount+restore_image", "unmount+restore_image+no_lazy_init"];
        // The fullest pays for itself alone, and is never undercut; two others share.
        assert_eq!(fullest_first(&sets, &[0.001, 0.002, 0.004]), [0.004, 0.004, 0.004]);
        assert_eq!(fullest_first(&sets, &[0.01, 0.3, 0.004]), [0.02, 0.3, 0.004]);
        // Where it does nothing, no other is said to.
        assert_eq!(fullest_first(&sets, &[1e-6, 1e-6, 0.7]), [0.7, 0.7, 0.7]);
    }

    #[test]
    fn sets_of_which_none_holds_another_share_as_holm_has_it() {
        let sets = ["unmount", "restore_image", "none+no_lazy_init"];
        assert_eq!(fullest_first(&sets, &[0.01, 0.001, 0.5]), stats::holm(&[0.01, 0.001, 0.5]));
        assert_eq!(fullest_first(&[], &[]), [0.0; 0]);
        // The same remedies in another order are the same set: neither holds the other.
        assert_eq!(fullest_first(&["a+b", "b+a"], &[0.01, 0.02]), stats::holm(&[0.01, 0.02]));
    }
}
