//! A study as it is analysed: what was planned, and what came of each run. Times are seconds, sizes bytes, rates
//! operations per second.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::stats::Steps;

/// The factor by which configurations are told apart that several machines ran.
pub const MACHINE: &str = "machine";

/// A whole study.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Study {
    /// Its name, from its plan.
    pub name: String,
    /// The seed of its order.
    pub seed: i64,
    /// How long a window of throughput is.
    pub interval_s: f64,
    /// When it was begun.
    pub created_at: String,
    /// The version of evenkeel that began it.
    pub evenkeel_version: String,
    /// The machines that ran it.
    pub machines: Vec<Machine>,
    /// What was run.
    pub configurations: Vec<Configuration>,
    /// Every run, in the order of execution.
    pub runs: Vec<Run>,
}

impl Study {
    /// The study with the machine as one more factor, if several ran it: a configuration is another one on each machine,
    /// so that what repeats differ by is never what machines differ by.
    pub fn by_machine(&self) -> Cow<'_, Self> {
        let mut taken: Vec<(usize, usize)> =
            self.runs.iter().filter_map(|run| Some((run.configuration, run.machine?))).collect();
        taken.sort_unstable();
        taken.dedup();
        if taken.iter().all(|(_, machine)| *machine == taken[0].1) {
            return Cow::Borrowed(self);
        }
        let mut study = Self { configurations: Vec::new(), ..self.clone() };
        let mut places = BTreeMap::new();
        for (at, configuration) in self.configurations.iter().enumerate() {
            let first = study.configurations.len();
            for &(_, machine) in taken.iter().filter(|(of, _)| *of == at) {
                let mut own = configuration.clone();
                let name = &self.machines[machine].name;
                own.label += &format!("@{name}");
                own.settings.push((MACHINE.to_owned(), name.clone()));
                places.insert((at, Some(machine)), study.configurations.len());
                study.configurations.push(own);
            }
            // Nobody has begun it.
            if first == study.configurations.len() {
                study.configurations.push(configuration.clone());
            }
            // Runs to come are counted, and no more is known of them.
            places.insert((at, None), first);
        }
        for run in &mut study.runs {
            run.configuration = places[&(run.configuration, run.machine)];
        }
        Cow::Owned(study)
    }
}

/// A machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Its kernel.
    pub kernel: String,
    /// Its processors.
    pub cpus: i64,
    /// Its memory.
    pub memory_bytes: i64,
}

/// A configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Configuration {
    /// Its values, in short.
    pub label: String,
    /// Factor and value; factors that its file system does not have are absent.
    pub settings: Vec<(String, String)>,
}

impl Configuration {
    /// The value of a factor, if this has it.
    pub fn setting(&self, factor: &str) -> Option<&str> {
        self.settings.iter().find(|(name, _)| name == factor).map(|(_, value)| value.as_str())
    }
}

/// What became of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum State {
    /// Nothing yet.
    #[default]
    Planned,
    /// It is under way.
    Running,
    /// It has figures.
    Done,
    /// mkfs or mount failed, for it or an earlier run of its configuration.
    Skipped,
    /// It broke off.
    Failed,
}

/// One run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    /// Place of its configuration.
    pub configuration: usize,
    /// What was run.
    pub workload: String,
    /// Which of the repeats.
    pub repeat: i64,
    /// Its place in the order of execution.
    pub place: i64,
    /// What became of it.
    pub state: State,
    /// Place of the machine that ran it.
    pub machine: Option<usize>,
    /// When it began.
    pub started_at: Option<String>,
    /// How long it ran.
    pub duration_s: Option<f64>,
    /// Cumulative throughput, from beginning to end.
    pub operations_per_s: Option<f64>,
    /// Why it was skipped or failed, or what else is to be known.
    pub message: Option<String>,
    /// What the machine was like.
    pub conditions: Vec<(String, f64)>,
    /// Throughput over time, in order.
    pub windows: Vec<Window>,
    /// Latencies by operation.
    pub latencies: Vec<Latency>,
    /// Where the data set lay.
    pub extents: Vec<Extent>,
}

impl Run {
    /// Its cumulative throughput, if it is done and that can be told.
    pub fn throughput(&self) -> Option<f64> {
        self.operations_per_s.filter(|_| self.state == State::Done)
    }
}

/// What was done in a stretch of time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Window {
    /// Its begin, from the begin of the run.
    pub start_s: f64,
    /// Its length.
    pub length_s: f64,
    /// Operations that ended in it.
    pub operations: u64,
}

/// How long operations of a kind took.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Latency {
    /// Which.
    pub operation: String,
    /// How many there were.
    pub operations: u64,
    /// Their mean.
    pub mean_s: f64,
    /// The share of operations no longer than a time, in seconds.
    pub steps: Steps,
}

/// A stretch of the device that holds data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins.
    pub physical_bytes: u64,
    /// Its length.
    pub length_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(configuration: usize, machine: Option<usize>) -> Run {
        Run { configuration, machine, ..Run::default() }
    }

    fn study(runs: Vec<Run>) -> Study {
        let configuration = |label: &str| Configuration {
            label: label.to_owned(),
            settings: vec![("file_system".to_owned(), label.to_owned())],
        };
        let machine = |name: &str| Machine { name: name.to_owned(), ..Machine::default() };
        Study {
            configurations: ["ext4", "xfs", "btrfs"].map(configuration).to_vec(),
            machines: ["one", "other", "idle"].map(machine).to_vec(),
            runs,
            ..Study::default()
        }
    }

    #[test]
    fn a_configuration_is_another_one_on_each_machine_that_ran_it() {
        let runs = vec![run(0, Some(1)), run(1, Some(0)), run(0, Some(0)), run(1, None), run(2, None)];
        let split = study(runs).by_machine().into_owned();
        let labels: Vec<&str> = split.configurations.iter().map(|one| one.label.as_str()).collect();
        assert_eq!(labels, ["ext4@one", "ext4@other", "xfs@one", "btrfs"]);
        assert_eq!(split.configurations[1].setting(MACHINE), Some("other"));
        assert_eq!(split.configurations[1].setting("file_system"), Some("ext4"));
        assert_eq!(split.configurations[3].setting(MACHINE), None);
        let places: Vec<usize> = split.runs.iter().map(|run| run.configuration).collect();
        assert_eq!(places, [1, 2, 0, 2, 3]);
    }

    #[test]
    fn a_study_of_one_machine_stays_as_it_is() {
        let alone = study(vec![run(0, Some(1)), run(1, Some(1)), run(2, None)]);
        assert!(matches!(alone.by_machine(), Cow::Borrowed(_)));
        assert!(matches!(study(Vec::new()).by_machine(), Cow::Borrowed(_)));
    }
}
