//! The rows that a study and a run are kept as, for any database.

use std::collections::BTreeMap;

use super::{Begun, EXTENTS_MAX, Record, StoreError, evenly};
use crate::study::answer::Answer;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A count or a place.
    Int,
    /// A figure.
    Real,
    /// Words.
    Text,
    /// Bytes.
    Blob,
}

/// A value of a row.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Int(i64),
    Real(f64),
    Text(&'a str),
    Blob(&'a [u8]),
}

/// A table, and the columns that are written of it.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) columns: &'static [(&'static str, Kind)],
}

use Kind::{Blob, Int, Real, Text};

const CONFIGURATION: Table = Table { name: "configuration", columns: &[("id", Int), ("label", Text)] };
const SETTING: Table =
    Table { name: "setting", columns: &[("configuration_id", Int), ("factor", Text), ("value", Text)] };
const RUN: Table = Table {
    name: "run",
    columns: &[
        ("configuration_id", Int),
        ("workload", Text),
        ("repeat", Int),
        ("place", Int),
        ("state", Text),
    ],
};
const CONDITION: Table =
    Table { name: "condition", columns: &[("run_id", Int), ("name", Text), ("value", Real)] };
const THROUGHPUT: Table = Table {
    name: "throughput",
    columns: &[
        ("run_id", Int),
        // A word of PostgreSQL's.
        ("\"window\"", Int),
        ("start_s", Real),
        ("length_s", Real),
        ("operations", Int),
    ],
};
const LATENCY: Table = Table {
    name: "latency",
    columns: &[
        ("run_id", Int),
        ("operation", Text),
        ("operations", Int),
        ("mean_s", Real),
        ("p50_s", Real),
        ("p99_s", Real),
        ("p999_s", Real),
        ("max_s", Real),
        ("histogram", Blob),
    ],
};
const LAYOUT: Table = Table {
    name: "layout",
    columns: &[("run_id", Int), ("extent", Int), ("physical_bytes", Int), ("length_bytes", Int)],
};

impl Table {
    /// The names of its columns, as a statement lists them.
    pub(super) fn names(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| *name).collect();
        names.join(", ")
    }
}

/// What takes rows, within a transaction.
pub(super) trait Rows {
    /// Adds rows to a table; each has a value for each of its columns.
    fn insert<'a>(
        &mut self,
        table: &Table,
        rows: &mut dyn Iterator<Item = Vec<Value<'a>>>,
    ) -> Result<(), StoreError>;
}

/// Configurations and runs of a study that begins.
pub(super) fn insert_study(to: &mut dyn Rows, begun: &Begun<'_>) -> Result<(), StoreError> {
    let numbered = || (1_i64..).zip(begun.configurations);
    let labels = numbered().map(|(id, one)| vec![Value::Int(id), Value::Text(&one.label)]);
    to.insert(&CONFIGURATION, &mut { labels })?;
    let settings = numbered().flat_map(|(id, one)| {
        let each = one.settings.iter();
        each.map(move |(factor, value)| vec![Value::Int(id), Value::Text(factor), Value::Text(value)])
    });
    to.insert(&SETTING, &mut { settings })?;
    let runs = (0_i64..).zip(begun.order).map(|(place, run)| {
        vec![
            Value::Int(run.configuration as i64 + 1),
            Value::Text(&begun.plan.workloads[run.workload].name),
            Value::Int(run.repeat.into()),
            Value::Int(place),
            Value::Text("planned"),
        ]
    });
    to.insert(&RUN, &mut { runs })
}

/// All that came of a run, besides its own row.
pub(super) fn insert_record(to: &mut dyn Rows, id: i64, record: &Record) -> Result<(), StoreError> {
    insert_conditions(to, id, &record.conditions)?;
    insert_throughput(to, id, &record.answer)?;
    let latencies = record.answer.latencies.iter().map(|one| {
        vec![
            Value::Int(id),
            Value::Text(&one.operation),
            Value::Int(one.operations as i64),
            Value::Real(one.mean_s),
            Value::Real(one.p50_s),
            Value::Real(one.p99_s),
            Value::Real(one.p999_s),
            Value::Real(one.max_s),
            Value::Blob(&one.histogram),
        ]
    });
    to.insert(&LATENCY, &mut { latencies })?;
    let layout = (0_i64..).zip(evenly(&record.layout, EXTENTS_MAX)).map(|(row, extent)| {
        let [physical, length] = [extent.physical_bytes, extent.length_bytes].map(|bytes| bytes as i64);
        vec![Value::Int(id), Value::Int(row), Value::Int(physical), Value::Int(length)]
    });
    to.insert(&LAYOUT, &mut { layout })
}

/// What the machine was like; of a name that is there twice, the later one.
pub(super) fn insert_conditions(
    to: &mut dyn Rows,
    id: i64,
    conditions: &[(String, f64)],
) -> Result<(), StoreError> {
    let by_name: BTreeMap<&str, f64> =
        conditions.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    let rows =
        by_name.into_iter().map(|(name, value)| vec![Value::Int(id), Value::Text(name), Value::Real(value)]);
    to.insert(&CONDITION, &mut { rows })
}

fn insert_throughput(to: &mut dyn Rows, id: i64, answer: &Answer) -> Result<(), StoreError> {
    let rows = answer.windows.iter().enumerate().filter_map(|(window, &operations)| {
        let start_s = window as f64 * answer.interval_s;
        let length_s = answer.interval_s.min(answer.duration_s - start_s);
        // A workload of others may end early.
        (length_s > 0.0).then(|| {
            vec![
                Value::Int(id),
                Value::Int(window as i64),
                Value::Real(start_s),
                Value::Real(length_s),
                Value::Int(operations as i64),
            ]
        })
    });
    to.insert(&THROUGHPUT, &mut { rows })
}
