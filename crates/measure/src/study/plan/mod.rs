//! What a study is to do: factors, workloads, runs and devices, from a TOML file or a preset.
//!
//! 1. A plan that [`Plan::parse`] returns can be sampled and timed; what it can still meet is the machine.
//! 2. Nothing is written over but what `destroy` names and the files that the study makes itself.
//! 3. The same plan is the same sample, the same data sets and the same order of runs, on any machine.

mod document;
pub mod options;
pub mod presets;
pub mod space;
#[cfg(test)]
mod tests;
mod values;
mod workloads;

use std::fmt;
use std::path::{Path, PathBuf};

use self::document::{Document, RemedyTable, Sample};
use self::options::Remedies;
use self::space::{Configuration, Space};
use self::workloads::{data, workload};
use super::sampling;
use super::workload::spec::FileWorkload;
use crate::quantity;
use crate::report::format;

/// Runs of a study there are at most.
const RUNS_MAX: u64 = 1_000_000;
/// Windows of one run there are at most.
const WINDOWS_MAX: f64 = 100_000.0;
/// The interval where a plan names none, and how many of them a run has at least.
const USUAL_INTERVAL_S: f64 = 1.0;
const USUAL_WINDOWS_MIN: f64 = 10.0;
/// Bytes of a plan or a job file there are at most.
pub const PLAN_BYTES_MAX: u64 = 1 << 20;
/// How much more data than memory the paper had.
const DATA_PER_MEMORY: f64 = 2.5;
/// Less than that does not hold a workload's program and threads.
pub const MEMORY_BYTES_MIN: u64 = 16 << 20;
/// What a file system needs beside its data, where the plan does not say.
const LOOP_BYTES_BESIDE: u64 = 512 << 20;
/// What one data set is filled at, for the estimate alone.
const FILL_BYTES_PER_S: f64 = 100e6;
/// What mkfs, mounts and the rest of a run's preparation take, for the estimate alone.
const PREPARATION_S: f64 = 2.0;

/// What is wrong with a plan, in one line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PlanError(String);

impl PlanError {
    /// Whether it names the file already.
    pub fn is_about(&self, path: &Path) -> bool {
        self.0.starts_with(&path.display().to_string())
    }
}

fn wrong(what: impl fmt::Display) -> PlanError {
    PlanError(what.to_string())
}

/// A study that can be run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// What sample, data sets, operations and order follow from.
    pub seed: u64,
    /// Runs of each configuration with each workload.
    pub runs: u32,
    /// Throughput is recorded for each of these, in seconds.
    pub interval_s: f64,
    /// Configurations to take; `None` for all.
    pub sample: Option<usize>,
    /// Block devices that may be overwritten.
    pub destroy: Vec<PathBuf>,
    /// Size of the file behind a loop device.
    pub loop_bytes: u64,
    /// Where that file is; `None` for the folder of the results.
    pub loop_folder: Option<PathBuf>,
    /// The memory of a run.
    pub memory: Memory,
    /// The workloads.
    pub workloads: Vec<Workload>,
    /// The factors.
    pub space: Space,
    /// What is done against variation where no factor says otherwise.
    pub remedies: Remedies,
    /// The file as it was read.
    pub text: String,
}

/// How much memory a workload, its page cache included, may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// Its data set over 2.5, as in the paper.
    OfData,
    /// So many bytes.
    Bytes(u64),
    /// What the machine has.
    Unbounded,
}

/// One workload of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Its name.
    pub name: String,
    /// Time of each run, in seconds.
    pub time_s: f64,
    /// What it does.
    pub kind: Kind,
}

/// What a workload does.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// Files, as Filebench uses them.
    Files(FileWorkload),
    /// A job file of fio, its text.
    Fio(String),
    /// A command that prints operations per second, and its arguments.
    Command(Vec<String>),
}

impl Workload {
    /// Bytes of its data set, where evenkeel makes it.
    pub fn data_bytes(&self) -> Option<u64> {
        match &self.kind {
            Kind::Files(files) => Some(files.data_bytes()),
            _ => None,
        }
    }
}

/// What of the space a study takes.
#[derive(Debug)]
pub struct Sampled {
    /// Valid configurations that there are; `None` where they are too many to count.
    pub valid: Option<u64>,
    /// Those that are taken.
    pub configurations: Vec<Configuration>,
}

impl Plan {
    /// Reads a plan from its file.
    ///
    /// # Errors
    ///
    /// One line that names what is wrong.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        let text = read_bounded(path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::parse(&text, folder)
    }

    /// Takes a plan from its text; job files are looked for in `folder`.
    ///
    /// # Errors
    ///
    /// One line that names what is wrong.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, PlanError> {
        let document: Document = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| 1 + text[..span.start].matches('\n').count());
            let at = line.map_or_else(String::new, |line| format!("line {line}: "));
            wrong(format!("{at}{}", error.message().replace('\n', " ")))
        })?;
        let space = Space::new(&document.factor, &document.exclude)?;
        let time_s = named("time", quantity::seconds(&document.time))?;
        let data = data(&document)?;
        let workloads = document
            .workload
            .iter()
            .map(|table| workload(table, time_s, &data, folder))
            .collect::<Result<Vec<_>, _>>()?;
        let data_bytes_max = workloads.iter().filter_map(Workload::data_bytes).max().unwrap_or(0);
        let loop_bytes = match &document.loop_file.size {
            Some(size) => named("[loop] size", quantity::size(size))?,
            None => {
                data_bytes_max.saturating_mul(2).saturating_add(LOOP_BYTES_BESIDE).next_multiple_of(1 << 20)
            }
        };
        let interval_s = match &document.interval {
            Some(interval) => named("interval", quantity::seconds(interval))?,
            None => usual_interval_s(&workloads),
        };
        let plan = Self {
            seed: u64::from(document.seed),
            runs: document.runs,
            interval_s,
            sample: sample(document.sample.as_ref())?,
            destroy: document.destroy,
            loop_bytes,
            loop_folder: document.loop_file.folder,
            memory: data.memory,
            workloads,
            space,
            remedies: remedies(&document.remedies),
            text: text.to_owned(),
            name: document.name,
        };
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), PlanError> {
        if self.workloads.is_empty() {
            return Err(wrong(
                "no [[workload]]: name mailserver, fileserver or webserver, or give fio or command",
            ));
        }
        if self.name.trim().is_empty() || self.name.contains(char::is_control) {
            return Err(wrong("name: it has a letter at least, and no control characters"));
        }
        if self.runs == 0 {
            return Err(wrong("runs = 0: a configuration is run at least once, and varies from 2 on"));
        }
        for (at, workload) in self.workloads.iter().enumerate() {
            if self.workloads[..at].iter().any(|other| other.name == workload.name) {
                return Err(wrong(format!("the workload {} is there twice", workload.name)));
            }
            if workload.time_s < self.interval_s {
                return Err(wrong(format!(
                    "workload {}: its time is shorter than the interval",
                    workload.name
                )));
            }
            if workload.time_s / self.interval_s > WINDOWS_MAX {
                return Err(wrong(format!(
                    "workload {}: more than 100,000 intervals in a run",
                    workload.name
                )));
            }
            if let (Some(bytes), Memory::OfData) = (self.memory_bytes(workload), self.memory)
                && bytes < MEMORY_BYTES_MIN
            {
                return Err(wrong(format!(
                    "workload {}: its data over 2.5 is less memory than its program needs; give [data] a size of at \
                     least 40m, or memory = \"unbounded\"",
                    workload.name
                )));
            }
        }
        if matches!(self.memory, Memory::Bytes(bytes) if bytes < MEMORY_BYTES_MIN) {
            return Err(wrong("[data] memory: a workload's program needs at least 16m"));
        }
        if self.space.devices().iter().any(|device| device == "loop") {
            self.check_size("[loop] size", self.loop_bytes).map_err(wrong)?;
        }
        for device in self.space.devices().iter().filter(|device| *device != "loop") {
            if !self.destroy.iter().any(|named| named == Path::new(device)) {
                return Err(wrong(format!(
                    "device {device}: what it holds would be lost; repeat it in destroy = [\"{device}\"], or use `loop`"
                )));
            }
        }
        Ok(())
    }

    /// That a device of a size has room for the file systems of the plan, and for its data.
    ///
    /// # Errors
    ///
    /// One line that names what has no room there.
    pub fn check_size(&self, what: &str, bytes: u64) -> Result<(), String> {
        let shown = format::bytes(bytes);
        for file_system in self.space.file_systems() {
            let least = values::bytes_min(file_system);
            if bytes < least {
                let least = format::bytes(least.next_multiple_of(1 << 20));
                return Err(format!("{what}: {shown}, and {file_system} is made on {least} at least"));
            }
        }
        for count in self.space.values_of("allocation_groups").filter_map(|value| value.parse::<u64>().ok()) {
            let most = values::allocation_groups_max(bytes);
            if count > most {
                return Err(format!(
                    "{what}: {shown} have room for {most} allocation groups of XFS, not for {count}"
                ));
            }
        }
        let data_bytes = self.workloads.iter().filter_map(Workload::data_bytes).max().unwrap_or(0);
        let needed_bytes = data_bytes.saturating_add(data_bytes / 4);
        match needed_bytes > bytes {
            true => Err(format!(
                "{what}: {shown}, and the data set and a quarter more take {}; make it larger or [data] size smaller",
                format::bytes(needed_bytes)
            )),
            false => Ok(()),
        }
    }

    /// The file behind the loop device of a study whose runs keep what they need in `scratch`.
    pub fn loop_image(&self, scratch: &Path) -> PathBuf {
        match &self.loop_folder {
            Some(folder) => folder.join(format!("evenkeel-{}.img", self.name.replace('/', "-"))),
            None => scratch.join("loop.img"),
        }
    }

    /// The memory that a workload may take, its page cache included; `None` for what the machine has.
    pub fn memory_bytes(&self, workload: &Workload) -> Option<u64> {
        match self.memory {
            Memory::OfData => workload.data_bytes().map(|bytes| (bytes as f64 / DATA_PER_MEMORY) as u64),
            Memory::Bytes(bytes) => Some(bytes),
            Memory::Unbounded => None,
        }
    }

    /// Takes the sample.
    ///
    /// # Errors
    ///
    /// Where nothing is valid, or there would be more runs than can be kept.
    pub fn sampled(&self) -> Result<Sampled, PlanError> {
        let levels = self.space.levels();
        let is_valid = |point: &[usize]| self.space.is_valid(point);
        let valid = sampling::valid_combinations(&levels, &is_valid);
        if let (Some(size), Some(valid)) = (self.sample, valid)
            && size as u64 > valid
        {
            return Err(too_large_a_sample(size, valid));
        }
        let size = match (self.sample, valid) {
            (Some(size), _) => size,
            (None, Some(valid)) => usize::try_from(valid).unwrap_or(usize::MAX),
            (None, None) => {
                return Err(wrong("sample: the space is too large to take all of it; say how many"));
            }
        };
        if (size as u64).saturating_mul(u64::from(self.runs)) > RUNS_MAX {
            return Err(wrong("sample: more than a million runs; take a smaller sample or fewer runs"));
        }
        let points = sampling::latin_hypercube(&levels, &is_valid, size, self.seed);
        let mut configurations: Vec<Configuration> =
            points.iter().map(|point| self.space.configuration(point, self.remedies)).collect();
        if configurations.is_empty() {
            return Err(wrong("no combination of the factors is valid; look at [[exclude]]"));
        }
        if let Some(size) = self.sample.filter(|size| *size > configurations.len()) {
            return Err(too_large_a_sample(size, configurations.len() as u64));
        }
        // Two values may read alike in a label.
        for at in 1..configurations.len() {
            let (before, rest) = configurations.split_at_mut(at);
            if before.iter().any(|other| other.label == rest[0].label) {
                rest[0].label += &format!("-{}", at + 1);
            }
        }
        Ok(Sampled { valid, configurations })
    }

    /// How long it will take to run so many configurations, in seconds: the runs themselves, and what their preparation
    /// is assumed to take.
    pub fn duration_s(&self, configurations: usize) -> f64 {
        let each: f64 = self
            .workloads
            .iter()
            .map(|workload| {
                let fill_s = workload.data_bytes().unwrap_or(0) as f64 / FILL_BYTES_PER_S;
                workload.time_s + fill_s + PREPARATION_S
            })
            .sum();
        each * f64::from(self.runs) * configurations as f64
    }
}

/// What was typed of a key, or what is wrong with it.
fn named<T>(key: &str, typed: Result<T, String>) -> Result<T, PlanError> {
    typed.map_err(|what| wrong(format!("{key}: {what}")))
}

fn too_large_a_sample(size: usize, valid: u64) -> PlanError {
    if valid == 0 {
        return wrong("no combination of the factors is valid; look at [[exclude]]");
    }
    let (size, valid) = (format::count(size as u64), format::counted(valid, "configuration"));
    wrong(format!("sample = {size}: there are {valid} that are valid; name as many at most, or \"all\""))
}

/// The interval where a plan names none: a second, or a tenth of the shortest run if that is less.
fn usual_interval_s(workloads: &[Workload]) -> f64 {
    let times = || workloads.iter().map(|workload| workload.time_s);
    let (longest_s, shortest_s) = (times().fold(0.0, f64::max), times().fold(f64::INFINITY, f64::min));
    USUAL_INTERVAL_S.max(longest_s / WINDOWS_MAX).min(shortest_s / USUAL_WINDOWS_MIN)
}

fn sample(sample: Option<&Sample>) -> Result<Option<usize>, PlanError> {
    match sample {
        None => Ok(None),
        Some(Sample::Word(word)) if word == "all" => Ok(None),
        Some(Sample::Count(count)) if *count > 0 => Ok(Some(*count as usize)),
        _ => Err(wrong("sample: how many configurations, or \"all\"")),
    }
}

fn remedies(table: &RemedyTable) -> Remedies {
    let usual = Remedies::default();
    Remedies {
        no_lazy_init: table.no_lazy_init.unwrap_or(usual.no_lazy_init),
        unmount: table.unmount.unwrap_or(usual.unmount),
        restore_image: table.restore_image.unwrap_or(usual.restore_image),
        null_hash_seed: table.null_hash_seed.unwrap_or(usual.null_hash_seed),
    }
}

fn read_bounded(path: &Path) -> Result<String, PlanError> {
    let about = |what: &dyn fmt::Display| wrong(format!("{}: {what}", path.display()));
    let length = std::fs::metadata(path).map_err(|error| about(&error))?;
    if !length.is_file() || length.len() > PLAN_BYTES_MAX {
        return Err(about(&"not a file of at most 1 MiB"));
    }
    std::fs::read_to_string(path).map_err(|error| about(&error))
}
