//! The runs of a study by what was run: each workload on each configuration.

use crate::study::data::{Configuration, Run, State, Study};

/// The factor that every study has, and by which figures tell configurations apart.
pub const FILE_SYSTEM: &str = "file_system";
/// The factor whose levels are what is done against variation.
pub const REMEDIES: &str = "remedies";

/// Repeats of one workload on one configuration.
#[derive(Debug, Clone)]
pub struct Group<'a> {
    /// Place of the workload.
    pub workload: usize,
    /// Place of the configuration.
    pub configuration: usize,
    /// The runs that are done, in the order of execution.
    pub runs: Vec<&'a Run>,
    /// Their cumulative throughputs, in operations per second.
    pub rates: Vec<f64>,
}

/// All of them.
#[derive(Debug, Clone)]
pub struct Groups<'a> {
    /// The study.
    pub study: &'a Study,
    /// Its workloads, in alphabetical order.
    pub workloads: Vec<String>,
    /// Each with at least one run that is done, by workload, then by configuration.
    pub groups: Vec<Group<'a>>,
    /// The values of the file system, in the order in which they first occur.
    pub file_systems: Vec<String>,
}

impl<'a> Groups<'a> {
    /// Sorts the runs of a study.
    pub fn of(study: &'a Study) -> Self {
        let mut workloads: Vec<String> = study.runs.iter().map(|run| run.workload.clone()).collect();
        workloads.sort();
        workloads.dedup();
        let empty = |(workload, configuration)| Group {
            workload,
            configuration,
            runs: Vec::new(),
            rates: Vec::new(),
        };
        let count = study.configurations.len();
        let all = (0..workloads.len()).flat_map(|workload| (0..count).map(move |at| (workload, at)));
        let mut groups: Vec<Group<'a>> = all.map(empty).collect();
        for run in &study.runs {
            let Ok(workload) = workloads.binary_search(&run.workload) else { continue };
            if let Some(rate) = run.throughput() {
                let group = &mut groups[workload * count + run.configuration];
                group.runs.push(run);
                group.rates.push(rate);
            }
        }
        groups.retain(|group| !group.runs.is_empty());
        let mut file_systems: Vec<String> = Vec::new();
        for configuration in &study.configurations {
            let name = file_system(configuration);
            if !file_systems.iter().any(|known| known == name) {
                file_systems.push(name.to_owned());
            }
        }
        Self { study, workloads, groups, file_systems }
    }

    /// The configuration of a group.
    pub fn configuration(&self, group: &Group<'_>) -> &'a Configuration {
        &self.study.configurations[group.configuration]
    }

    /// The file system of a group.
    pub fn file_system(&self, group: &Group<'_>) -> &'a str {
        file_system(self.configuration(group))
    }

    /// The groups of a workload on a file system.
    pub fn of_file_system<'b>(
        &'b self,
        workload: usize,
        name: &'b str,
    ) -> impl Iterator<Item = &'b Group<'a>> {
        self.groups.iter().filter(move |group| group.workload == workload && self.file_system(group) == name)
    }

    /// Of a workload on a file system, the group that varies most.
    pub fn most_varying(&self, workload: usize, name: &str) -> Option<&Group<'a>> {
        let range = |group: &&Group<'a>| relative_range(&group.rates).unwrap_or(0.0);
        let is_of = |group: &&Group<'a>| group.workload == workload && self.file_system(group) == name;
        let several = self.groups.iter().filter(is_of).filter(|group| group.rates.len() > 1);
        several.max_by(|one, other| range(one).total_cmp(&range(other)))
    }

    /// Runs that have no figures and will have none, by configuration and workload.
    pub fn left_out(&self) -> impl Iterator<Item = &'a Run> {
        self.study.runs.iter().filter(|run| matches!(run.state, State::Skipped | State::Failed))
    }
}

fn file_system(configuration: &Configuration) -> &str {
    configuration.setting(FILE_SYSTEM).unwrap_or("all")
}

/// The largest less the smallest, over the mean: equation 2 of the paper.
pub fn relative_range(values: &[f64]) -> Option<f64> {
    crate::stats::summarise(values).map(|summary| summary.relative_range)
}
