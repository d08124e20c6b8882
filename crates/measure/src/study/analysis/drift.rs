//! Throughput without what the machine drifts by over the whole study: a disk that fills up, a processor that grows warm.

use std::collections::BTreeMap;

use super::groups::Groups;
use crate::stats::drift::{Place, slope};

/// Of each group the logarithms of its rates, less the drift of the machine from its first run to each.
///
/// The drift is one line a machine, from run to run of the same group.
pub fn logs_without(groups: &Groups<'_>) -> Vec<Vec<f64>> {
    let mut places: BTreeMap<Option<usize>, Vec<Place>> = BTreeMap::new();
    for (number, group) in groups.groups.iter().enumerate() {
        for (run, rate) in group.runs.iter().zip(&group.rates) {
            let place = Place { group: number, at: run.place as f64, value: rate.ln() };
            places.entry(run.machine).or_default().push(place);
        }
    }
    let slopes: BTreeMap<Option<usize>, f64> =
        places.into_iter().map(|(machine, places)| (machine, slope(&places))).collect();
    let of_group = |group: &super::groups::Group<'_>| {
        let runs = group.runs.iter().zip(&group.rates);
        runs.map(|(run, rate)| rate.ln() - slopes[&run.machine] * run.place as f64).collect()
    };
    groups.groups.iter().map(of_group).collect()
}
