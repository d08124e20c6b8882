//! The space of configurations: factors with their levels, and which of them go together.
//!
//! 1. A level belongs to the file systems that have it. A factor that a file system has no level of stands at its first
//!    level there, and is no setting of the configuration.
//! 2. A configuration is valid if each of its levels belongs to its file system and no exclusion names it.

use std::collections::{BTreeMap, BTreeSet};

use super::document::{FactorTable, OneOrMany, PerFileSystem, Value, Values};
use super::options::{self, Options, Remedies};
use super::values::{self, listed};
use super::{PlanError, wrong};
use crate::study::data::MACHINE;

/// A factor with its levels.
#[derive(Debug, Clone)]
pub struct Factor {
    /// Its name.
    pub name: String,
    /// Its values, in the order of the plan.
    pub levels: Vec<Level>,
}

/// A value of a factor.
#[derive(Debug, Clone)]
pub struct Level {
    /// As it is written in the plan.
    pub value: String,
    /// What it changes in each file system that has it.
    pub options: BTreeMap<String, Options>,
}

impl Factor {
    /// Whether a file system has this factor.
    fn is_of(&self, file_system: &str) -> bool {
        self.levels.iter().any(|level| level.options.contains_key(file_system))
    }
}

/// Values of several factors that do not go together.
#[derive(Debug, Clone)]
struct Exclusion(Vec<(usize, BTreeSet<usize>)>);

/// All factors and what does not go together.
#[derive(Debug, Clone)]
pub struct Space {
    /// The factors, in the order of the plan.
    pub factors: Vec<Factor>,
    /// Which of them is the file system.
    file_system: usize,
    exclusions: Vec<Exclusion>,
}

/// One point of the space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// Short and unique: the values, joined by `-`.
    pub label: String,
    /// Factor and value, of the factors that its file system has.
    pub settings: Vec<(String, String)>,
    /// Its file system.
    pub file_system: String,
    /// `loop`, or the path of a block device.
    pub device: String,
    /// What all of its values change.
    pub options: Options,
    /// What is done against variation.
    pub remedies: Remedies,
}

impl Space {
    pub(super) fn new(
        tables: &[FactorTable],
        exclusions: &[BTreeMap<String, OneOrMany>],
    ) -> Result<Self, PlanError> {
        let file_system = tables.iter().position(|table| table.name == "file_system").ok_or_else(|| {
            wrong("no [[factor]] is named file_system; its values are ext4, xfs, btrfs, ...")
        })?;
        let file_systems = file_systems(&tables[file_system])?;
        let mut factors: Vec<Factor> = Vec::new();
        for table in tables {
            if factors.iter().any(|factor| factor.name == table.name) {
                return Err(wrong(format!("the factor {} is there twice", table.name)));
            }
            factors.push(factor(table, &file_systems)?);
        }
        let exclusions =
            exclusions.iter().map(|table| exclusion(table, &factors)).collect::<Result<_, _>>()?;
        Ok(Self { factors, file_system, exclusions })
    }

    /// How many levels each factor has.
    pub fn levels(&self) -> Vec<usize> {
        self.factors.iter().map(|factor| factor.levels.len()).collect()
    }

    /// Whether the levels go together.
    pub fn is_valid(&self, point: &[usize]) -> bool {
        let file_system = self.file_system_of(point);
        let fits = |(factor, &at): (&Factor, &usize)| match factor.is_of(file_system) {
            true => factor.levels[at].options.contains_key(file_system),
            false => at == 0,
        };
        let excludes = |exclusion: &Exclusion| {
            exclusion.0.iter().all(|(factor, levels)| {
                self.factors[*factor].is_of(file_system) && levels.contains(&point[*factor])
            })
        };
        self.factors.iter().zip(point).all(fits) && !self.exclusions.iter().any(excludes)
    }

    fn file_system_of(&self, point: &[usize]) -> &str {
        &self.factors[self.file_system].levels[point[self.file_system]].value
    }

    /// What a valid point stands for.
    pub fn configuration(&self, point: &[usize], remedies: Remedies) -> Configuration {
        let file_system = self.file_system_of(point).to_owned();
        let mut found = Configuration {
            label: String::new(),
            settings: Vec::new(),
            device: "loop".to_owned(),
            options: Options::default(),
            remedies,
            file_system,
        };
        let mut words = Vec::new();
        for (factor, &at) in self.factors.iter().zip(point) {
            let level = &factor.levels[at];
            let Some(options) = level.options.get(&found.file_system) else { continue };
            found.options.add(options.clone());
            found.settings.push((factor.name.clone(), level.value.clone()));
            match level.value.as_str() {
                "on" => words.push(factor.name.clone()),
                "off" => words.push(format!("no-{}", factor.name)),
                value => words.push(value.trim_start_matches("/dev/").to_owned()),
            }
            if factor.name == "device" {
                found.device.clone_from(&level.value);
            }
            if factor.name == "remedies" {
                found.remedies = Remedies::named(&level.value).unwrap_or(remedies);
            }
        }
        found.label = words.join("-");
        found
    }

    /// The file systems that configurations may have.
    pub fn file_systems(&self) -> impl Iterator<Item = &str> {
        self.factors[self.file_system].levels.iter().map(|level| level.value.as_str())
    }

    /// The values of a factor, none where the plan does not have it.
    pub fn values_of(&self, name: &str) -> impl Iterator<Item = &str> {
        let factor = self.factors.iter().find(|factor| factor.name == name);
        factor.into_iter().flat_map(|factor| &factor.levels).map(|level| level.value.as_str())
    }

    /// The devices that configurations may use.
    pub fn devices(&self) -> Vec<String> {
        let device = self.factors.iter().find(|factor| factor.name == "device");
        device.map_or_else(
            || vec!["loop".to_owned()],
            |factor| factor.levels.iter().map(|level| level.value.clone()).collect(),
        )
    }
}

/// The values of the factor `file_system`.
fn file_systems(table: &FactorTable) -> Result<Vec<String>, PlanError> {
    let Values::Same(values) = &table.values else {
        return Err(wrong("the values of file_system are a list, such as [\"ext4\", \"xfs\"]"));
    };
    let names: Vec<String> = values.iter().map(Value::name).collect();
    match names.iter().find_map(|name| values::check("file_system", name, name).err()) {
        None if names.is_empty() => Err(no_values("file_system", "")),
        None => Ok(names),
        Some(what) => Err(wrong(format!("factor file_system: {what}"))),
    }
}

/// That a factor has no values, and which it could have.
fn no_values(factor: &str, file_system: &str) -> PlanError {
    let allowed = values::allowed(factor, file_system);
    let each = allowed.map_or_else(String::new, |allowed| format!(": each is {allowed}"));
    wrong(format!("factor {factor}: it has no values; name at least one{each}"))
}

fn factor(table: &FactorTable, file_systems: &[String]) -> Result<Factor, PlanError> {
    let mut factor = Factor { name: table.name.clone(), levels: Vec::new() };
    if table.name == MACHINE {
        return Err(wrong(
            "factor machine: this is what tells machines apart that share a study; name it otherwise",
        ));
    }
    if let Values::Each(each) = &table.values
        && let Some(unknown) = each.keys().find(|name| !file_systems.contains(name))
    {
        return Err(wrong(format!("factor {}: the plan has no file system {unknown}", table.name)));
    }
    if file_systems.iter().all(|file_system| table.values.of(file_system).is_empty()) {
        return Err(no_values(&table.name, file_systems.first().map_or("", String::as_str)));
    }
    for file_system in file_systems {
        for value in table.values.of(file_system) {
            let name = value.name();
            if [&table.name, &name].into_iter().any(|text| text.contains(char::is_control)) {
                return Err(wrong(format!("factor {:?}: {name:?} has control characters", table.name)));
            }
            // Each file system is a level of its own factor, and belongs to itself.
            if table.name == "file_system" && name != *file_system {
                continue;
            }
            let Some(options) = options_of(table, file_system, value) else {
                if matches!(table.values, Values::Each(_)) {
                    let what = format!("factor {}: {file_system} does not have it", table.name);
                    return Err(wrong(format!(
                        "{what}; leave its values out, or say what they change there"
                    )));
                }
                continue;
            };
            let options = options.map_err(|what| wrong(format!("factor {}: {what}", table.name)))?;
            let at = factor.levels.iter().position(|level| level.value == name).unwrap_or_else(|| {
                factor.levels.push(Level { value: name, options: BTreeMap::new() });
                factor.levels.len() - 1
            });
            factor.levels[at].options.insert(file_system.clone(), options);
        }
    }
    match factor.levels.is_empty() {
        false => Ok(factor),
        true => Err(wrong(format!("factor {}: {}", table.name, no_effect(table, file_systems)))),
    }
}

/// Why a factor with values changes nothing in any of the file systems.
fn no_effect(table: &FactorTable, file_systems: &[String]) -> String {
    let has_own = table.mkfs.is_some() || table.mount.is_some() || table.sysfs.is_some();
    let all: Vec<&str> = file_systems.iter().map(String::as_str).collect();
    let all = listed(&all);
    match values::owners(&table.name) {
        Some(owners) if !has_own => {
            format!(
                "it is of {} alone, and the plan's file_system is {all}; add that, or leave the factor out",
                listed(owners)
            )
        }
        _ if has_own => format!("its mkfs, mount and sysfs are of other file systems than the plan's, {all}"),
        _ => format!(
            "it changes nothing; give it mkfs, mount or sysfs with {{}} for the value (known without: {}, remedies)",
            values::KNOWN.join(", ")
        ),
    }
}

/// What a value changes in a file system; `None` where that does not have the factor.
fn options_of(table: &FactorTable, file_system: &str, value: &Value) -> Option<Result<Options, String>> {
    if let Value::Table(own) = value {
        return Some(options::filled(&own.mkfs, &own.mount, &own.sysfs, &own.name));
    }
    let name = value.name();
    if table.name == "remedies" {
        return Some(Remedies::named(&name).map(|_| Options::default()));
    }
    let templates = [&table.mkfs, &table.mount, &table.sysfs];
    if templates.iter().all(|template| template.is_none()) {
        return options::known(&table.name, file_system, &name);
    }
    let [mkfs, mount, sysfs] = templates.map(|template| {
        let template: Option<&PerFileSystem> = template.as_ref();
        template.and_then(|template| template.of(file_system)).map(str::to_owned)
    });
    if mkfs.is_none() && mount.is_none() && sysfs.is_none() {
        return None;
    }
    let [mkfs, mount, sysfs] = [mkfs, mount, sysfs].map(Option::unwrap_or_default);
    if !options::has_value(&mkfs, &mount, &sysfs) && table.values.of(file_system).len() > 1 {
        let what = "the value {} is nowhere in what it changes: all of its values would do the same";
        return Some(Err(what.to_owned()));
    }
    Some(options::filled(&mkfs, &mount, &sysfs, &name))
}

fn exclusion(table: &BTreeMap<String, OneOrMany>, factors: &[Factor]) -> Result<Exclusion, PlanError> {
    let mut parts = Vec::new();
    for (name, values) in table {
        let at = factors.iter().position(|factor| factor.name == *name).ok_or_else(|| {
            wrong(format!("[[exclude]] names the factor {name}, which the plan does not have"))
        })?;
        let mut levels = BTreeSet::new();
        for value in values.names() {
            let level = factors[at].levels.iter().position(|level| level.value == value);
            levels.insert(
                level.ok_or_else(|| wrong(format!("[[exclude]]: the factor {name} has no value {value}")))?,
            );
        }
        parts.push((at, levels));
    }
    match parts.len() {
        0 => Err(wrong("[[exclude]] names no factor")),
        _ => Ok(Exclusion(parts)),
    }
}
