//! A plan as it is typed: TOML, with sizes and times in words. Nothing is checked here that the types do not say.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub(super) name: String,
    #[serde(default)]
    pub(super) seed: u32,
    pub(super) runs: u32,
    pub(super) time: String,
    pub(super) interval: Option<String>,
    pub(super) sample: Option<Sample>,
    #[serde(default)]
    pub(super) destroy: Vec<PathBuf>,
    #[serde(default, rename = "loop")]
    pub(super) loop_file: LoopTable,
    #[serde(default)]
    pub(super) data: DataTable,
    #[serde(default)]
    pub(super) remedies: RemedyTable,
    #[serde(default)]
    pub(super) workload: Vec<WorkloadTable>,
    #[serde(default)]
    pub(super) factor: Vec<FactorTable>,
    /// Combinations that do not go together: each names values of several factors.
    #[serde(default)]
    pub(super) exclude: Vec<BTreeMap<String, OneOrMany>>,
}

/// How many configurations are taken.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "sample: how many configurations, or \"all\"")]
pub(super) enum Sample {
    Count(u32),
    Word(String),
}

/// The file behind loop devices.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LoopTable {
    pub(super) size: Option<String>,
    pub(super) folder: Option<PathBuf>,
}

/// The data set and the memory beside it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DataTable {
    pub(super) size: Option<String>,
    pub(super) memory: Option<String>,
    pub(super) compressible: Option<f64>,
}

/// What is done against variation in every configuration.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RemedyTable {
    pub(super) no_lazy_init: Option<bool>,
    pub(super) unmount: Option<bool>,
    pub(super) restore_image: Option<bool>,
    pub(super) null_hash_seed: Option<bool>,
}

/// One workload: a name of Filebench's with what is changed in it, a job file of fio, or a command.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkloadTable {
    pub(super) name: String,
    pub(super) kind: Option<String>,
    pub(super) time: Option<String>,
    pub(super) files: Option<u32>,
    pub(super) mean_size: Option<String>,
    pub(super) dir_width: Option<u32>,
    pub(super) threads: Option<u32>,
    pub(super) fio: Option<PathBuf>,
    pub(super) command: Option<Vec<String>>,
}

/// One factor.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FactorTable {
    pub(super) name: String,
    /// None where the plan does not name them, which is refused with what they could be.
    #[serde(default)]
    pub(super) values: Values,
    pub(super) mkfs: Option<PerFileSystem>,
    pub(super) mount: Option<PerFileSystem>,
    pub(super) sysfs: Option<PerFileSystem>,
}

/// The values of a factor, the same for all file systems or those of each.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "values are a list of texts and whole numbers, or a table with one for each file system"
)]
pub(super) enum Values {
    Same(Vec<Value>),
    Each(BTreeMap<String, Vec<Value>>),
}

impl Default for Values {
    fn default() -> Self {
        Self::Same(Vec::new())
    }
}

impl Values {
    /// Those of a file system.
    pub(super) fn of(&self, file_system: &str) -> &[Value] {
        match self {
            Self::Same(values) => values,
            Self::Each(each) => each.get(file_system).map_or(&[], Vec::as_slice),
        }
    }
}

/// One value; with a table of its own it says itself what it changes.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Value {
    Whole(i64),
    Word(String),
    Table(ValueTable),
}

/// A value with options of its own.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ValueTable {
    pub(super) name: String,
    #[serde(default)]
    pub(super) mkfs: String,
    #[serde(default)]
    pub(super) mount: String,
    #[serde(default)]
    pub(super) sysfs: String,
}

impl Value {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Whole(number) => number.to_string(),
            Self::Word(word) => word.clone(),
            Self::Table(table) => table.name.clone(),
        }
    }
}

/// An option with `{}` for the value, the same for all file systems or that of each.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "mkfs, mount and sysfs are a text with {} for the value, or a table with one for each file system"
)]
pub(super) enum PerFileSystem {
    Same(String),
    Each(BTreeMap<String, String>),
}

impl PerFileSystem {
    pub(super) fn of(&self, file_system: &str) -> Option<&str> {
        match self {
            Self::Same(option) => Some(option),
            Self::Each(options) => options.get(file_system).map(String::as_str),
        }
    }
}

/// Values that an exclusion names. A list comes first: it could pass for the fields of a value's table.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "[[exclude]] names a value of each factor, or a list of them")]
pub(super) enum OneOrMany {
    Many(Vec<Value>),
    One(Value),
}

impl OneOrMany {
    pub(super) fn names(&self) -> Vec<String> {
        match self {
            Self::One(value) => vec![value.name()],
            Self::Many(values) => values.iter().map(Value::name).collect(),
        }
    }
}
