//! Workloads and their data, as a plan names them.

use std::fmt;
use std::path::Path;

use super::document::{Document, WorkloadTable};
use super::{Kind, Memory, PlanError, Workload, named, read_bounded, wrong};
use crate::quantity;
use crate::study::workload::spec::{FileWorkload, Personality};

/// The `[data]` of a plan.
pub(super) struct Data {
    pub(super) bytes: Option<u64>,
    pub(super) memory: Memory,
    pub(super) compressible: f64,
}

/// What `[data]` says.
pub(super) fn data(document: &Document) -> Result<Data, PlanError> {
    let table = &document.data;
    let compressible = table.compressible.unwrap_or(0.5);
    if !(0.0..=1.0).contains(&compressible) {
        return Err(wrong("[data] compressible: a share between 0 (random) and 1 (all the same)"));
    }
    Ok(Data {
        bytes: named("[data] size", table.size.as_deref().map(quantity::size).transpose())?,
        memory: match table.memory.as_deref() {
            None | Some("auto") => Memory::OfData,
            Some("unbounded") => Memory::Unbounded,
            Some(size) => Memory::Bytes(named("[data] memory", quantity::size(size))?),
        },
        compressible,
    })
}

/// A workload, of a table of the plan; job files are looked for in `folder`.
pub(super) fn workload(
    table: &WorkloadTable,
    time_s: f64,
    data: &Data,
    folder: &Path,
) -> Result<Workload, PlanError> {
    let about = |what: &dyn fmt::Display| wrong(format!("workload {}: {what}", table.name));
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if table.name.is_empty() || !table.name.chars().all(plain) {
        return Err(about(&"its name has letters, digits, - _ and . only"));
    }
    let own_s = table.time.as_deref().map(quantity::seconds).transpose().map_err(|what| about(&what))?;
    let kind = match (&table.fio, &table.command) {
        (Some(_), Some(_)) => return Err(about(&"either fio or command, not both")),
        (Some(path), None) => Kind::Fio(read_bounded(&folder.join(path))?),
        (None, Some(words)) if words.is_empty() => return Err(about(&"command = [] names no program")),
        (None, Some(words)) => Kind::Command(words.clone()),
        (None, None) => Kind::Files(files(table, data).map_err(|what| about(&what))?),
    };
    if !matches!(kind, Kind::Files(_))
        && (table.files.is_some()
            || table.mean_size.is_some()
            || table.dir_width.is_some()
            || table.threads.is_some())
    {
        return Err(about(&"files, mean_size, dir_width and threads are for Filebench's workloads only"));
    }
    Ok(Workload { name: table.name.clone(), time_s: own_s.unwrap_or(time_s), kind })
}

fn files(table: &WorkloadTable, data: &Data) -> Result<FileWorkload, String> {
    let kind = table.kind.as_deref().unwrap_or(&table.name);
    let personality = Personality::named(kind).ok_or_else(|| {
        format!("`{kind}` is none of mailserver, fileserver and webserver; or give fio or command")
    })?;
    let mut files = FileWorkload::of(personality);
    files.compressible = data.compressible;
    if let Some(size) = &table.mean_size {
        files.mean_size_bytes = quantity::size(size)?;
    }
    if let Some(width) = table.dir_width {
        files.mean_dir_width = width;
    }
    if let Some(threads) = table.threads {
        files.threads = threads;
    }
    match (table.files, data.bytes) {
        (Some(count), _) => files.files = count,
        (None, Some(bytes)) => files.scale_to(bytes),
        (None, None) => {}
    }
    files.check()?;
    Ok(files)
}
