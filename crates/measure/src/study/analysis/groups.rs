//! The runs of a study by what was run: each workload on each configuration.

use crate::study::data::{Configuration, Run, State, Study};

/// The factor that every study has, and by which figures tell configurations apart.
pub const FILE_SYSTEM: &str = "file_system";
/// The factor by which figures tell them apart too, where it has several values: what is true of a file system on a disk
/// may not be on flash.
pub const DEVICE: &str = "device";
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
    /// The file systems, in the order in which they first occur; those of each device for themselves, where there are
    /// several.
    pub file_systems: Vec<String>,
    /// That of each configuration.
    of_configurations: Vec<String>,
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
        let of_configurations = names(&study.configurations);
        let file_systems = in_order(&study.configurations, &of_configurations);
        Self { study, workloads, groups, file_systems, of_configurations }
    }

    /// The configuration of a group.
    pub fn configuration(&self, group: &Group<'_>) -> &'a Configuration {
        &self.study.configurations[group.configuration]
    }

    /// The file system of a group, as in `file_systems`.
    pub fn file_system(&self, group: &Group<'_>) -> &str {
        &self.of_configurations[group.configuration]
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

/// The file system of each configuration, with its device where the study has several: `ext4 on sdb`.
fn names(configurations: &[Configuration]) -> Vec<String> {
    let device =
        |one: &Configuration| one.setting(DEVICE).map(|device| device.trim_start_matches("/dev/").to_owned());
    let has_several = configurations.windows(2).any(|pair| device(&pair[0]) != device(&pair[1]));
    let name = |one: &Configuration| {
        let file_system = one.setting(FILE_SYSTEM).unwrap_or("all");
        match device(one).filter(|_| has_several) {
            Some(device) => format!("{file_system} on {device}"),
            None => file_system.to_owned(),
        }
    };
    configurations.iter().map(name).collect()
}

/// Each name once: file systems as they first occur, the devices of each beside each other.
fn in_order(configurations: &[Configuration], names: &[String]) -> Vec<String> {
    let file_system = |at: usize| configurations[at].setting(FILE_SYSTEM);
    let first = |at: usize| (0..configurations.len()).find(|&other| file_system(other) == file_system(at));
    let mut found: Vec<(Option<usize>, &String)> = Vec::new();
    for (at, name) in names.iter().enumerate() {
        if !found.iter().any(|(_, known)| *known == name) {
            found.push((first(at), name));
        }
    }
    found.sort();
    found.into_iter().map(|(_, name)| name.clone()).collect()
}

/// The largest less the smallest, over the mean: equation 2 of the paper.
pub fn relative_range(values: &[f64]) -> Option<f64> {
    crate::stats::summarise(values).map(|summary| summary.relative_range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_another_one_on_each_device_of_several() {
        let configuration = |file_system: &str, device: &str| Configuration {
            label: format!("{file_system}-{device}"),
            settings: [(FILE_SYSTEM, file_system), (DEVICE, device)]
                .map(|(factor, value)| (factor.to_owned(), value.to_owned()))
                .into(),
        };
        let several = ["loop", "/dev/sdb"].map(|device| configuration("ext4", device));
        assert_eq!(names(&several), ["ext4 on loop", "ext4 on sdb"]);
        let one = ["ext4", "xfs"].map(|file_system| configuration(file_system, "/dev/sdb"));
        assert_eq!(names(&one), ["ext4", "xfs"]);
        assert_eq!(names(&[Configuration::default()]), ["all"]);
        let mixed =
            [("xfs", "/dev/sdb"), ("ext4", "loop"), ("xfs", "loop"), ("ext4", "/dev/sdb"), ("ext4", "loop")]
                .map(|(file_system, device)| configuration(file_system, device));
        let order = ["xfs on loop", "xfs on sdb", "ext4 on loop", "ext4 on sdb"];
        assert_eq!(in_order(&mixed, &names(&mixed)), order);
    }
}
