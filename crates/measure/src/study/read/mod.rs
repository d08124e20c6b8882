//! Reads a study from its database, a file or a server's: the same queries of both.
//!
//! 1. Nothing is written. A study that is still under way can be read.
//! 2. What is not a study, is damaged, or holds figures that cannot be, is refused in one line. What it holds is
//!    counted before room is made for it.

mod source;

use std::collections::HashMap;
use std::path::Path;

use self::source::{Fields, File, Server, Source};
use super::data::{Configuration, Extent, Latency, Machine, Run, State, Study, Window};
use super::store::Address;
use crate::stats::Steps;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

/// Most rows of the tables; more is no study that one report could show.
const ROWS_MAX: [(&str, u64); 9] = [
    ("machine", 10_000),
    ("configuration", 100_000),
    ("setting", 2_000_000),
    ("run", 1_000_000),
    ("condition", 20_000_000),
    ("throughput", 20_000_000),
    ("latency", 2_000_000),
    ("layout", 20_000_000),
    ("study", 1),
];
/// Longest texts and histograms.
const TEXT_MAX: u64 = 1 << 20;
const HISTOGRAM_MAX: u64 = 1 << 20;
/// The magic number of a histogram of version 2, its length before what it covers, and what that may be: room is made
/// for all of it.
const COOKIE: u32 = 0x1c84_9303 | 0x10;
const HEADER_BYTES: usize = 40;
const DIGITS_MAX: u32 = 3;
const HIGHEST_MAX_NS: u64 = 1 << 53;

/// Why a study cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be opened, or SQLite cannot read it.
    #[error(
        "this is no database of a study, or a damaged one ({0}); name the folder that `evenkeel study run` made"
    )]
    Sqlite(#[from] rusqlite::Error),
    /// PostgreSQL cannot be reached.
    #[error("{0}")]
    Unreachable(String),
    /// PostgreSQL cannot read it.
    #[error(
        "there is no study in this database, or a damaged one ({0}); name the one that `study run --db` was given"
    )]
    Postgres(String),
    /// It holds what no study holds.
    #[error("this is no study's database, or a damaged one: {0}")]
    Damaged(String),
}

impl From<postgres::Error> for ReadError {
    fn from(error: postgres::Error) -> Self {
        Self::Postgres(super::store::in_a_line(&error))
    }
}

fn damaged(what: impl Into<String>) -> ReadError {
    ReadError::Damaged(what.into())
}

/// Reads the study in an SQLite file.
///
/// # Errors
///
/// [`ReadError`].
pub fn read(path: &Path) -> Result<Study, ReadError> {
    read_from(&mut File::open(path)?)
}

/// Reads the study in a database of PostgreSQL.
///
/// # Errors
///
/// [`ReadError`].
pub fn read_postgres(address: &Address) -> Result<Study, ReadError> {
    read_from(&mut Server::open(address)?)
}

fn read_from(source: &mut dyn Source) -> Result<Study, ReadError> {
    bounded(source)?;
    let mut study = None;
    source.each("SELECT name, seed, interval_s, created_at, evenkeel_version FROM study", &mut |row| {
        study = Some(Study {
            name: text(row, 0)?,
            seed: int(row, 1)?,
            interval_s: real(row, 2)?,
            created_at: text(row, 3)?,
            evenkeel_version: text(row, 4)?,
            ..Study::default()
        });
        Ok(())
    })?;
    let mut study = study.ok_or_else(|| damaged("the table study has no row"))?;
    if !(study.interval_s.is_finite() && study.interval_s > 0.0) {
        return Err(damaged("its interval is not positive"));
    }
    let machines = machines(source, &mut study)?;
    let configurations = configurations(source, &mut study)?;
    let runs = runs(source, &mut study, &machines, &configurations)?;
    conditions(source, &mut study, &runs)?;
    windows(source, &mut study, &runs)?;
    latencies(source, &mut study, &runs)?;
    layout(source, &mut study, &runs)?;
    Ok(study)
}

fn bounded(source: &mut dyn Source) -> Result<(), ReadError> {
    for (table, _) in ROWS_MAX {
        let others = source.others_named(table);
        if count(source, &others)? > 0 {
            return Err(damaged(format!("what is named {table} is no table")));
        }
    }
    for (table, most) in ROWS_MAX {
        let rows = count(source, &format!("SELECT count(*) FROM {table}"))?;
        if rows > most {
            return Err(damaged(format!("{rows} rows in the table {table}, of at most {most}")));
        }
    }
    for (columns, table, most) in [
        (&["name", "plan", "created_at", "evenkeel_version"][..], "study", 16 * TEXT_MAX),
        (&["name", "kernel"], "machine", TEXT_MAX),
        (&["label"], "configuration", TEXT_MAX),
        (&["factor", "value"], "setting", TEXT_MAX),
        (&["workload", "state", "message", "started_at"], "run", TEXT_MAX),
        (&["name"], "condition", TEXT_MAX),
        (&["operation"], "latency", TEXT_MAX),
        (&["histogram"], "latency", HISTOGRAM_MAX),
    ] {
        for column in columns {
            // Bytes: SQLite counts the characters of a text up to a null one only.
            let longest =
                format!("SELECT CAST(coalesce(max(octet_length({column})), 0) AS BIGINT) FROM {table}");
            if count(source, &longest)? > most {
                return Err(damaged(format!(
                    "a text or histogram in the table {table} is longer than {most}"
                )));
            }
        }
    }
    Ok(())
}

/// What a query of one row with one count answers.
fn count(source: &mut dyn Source, query: &str) -> Result<u64, ReadError> {
    let mut found = 0;
    source.each(query, &mut |row| {
        found = u64::try_from(int(row, 0)?).unwrap_or(0);
        Ok(())
    })?;
    Ok(found)
}

fn there<T>(value: Option<T>) -> Result<T, ReadError> {
    value.ok_or_else(|| damaged("a column without a value"))
}

fn int(row: &dyn Fields, column: usize) -> Result<i64, ReadError> {
    there(row.int(column)?)
}

fn real(row: &dyn Fields, column: usize) -> Result<f64, ReadError> {
    there(row.real(column)?)
}

fn text(row: &dyn Fields, column: usize) -> Result<String, ReadError> {
    there(shown(row, column)?)
}

/// A text, without what would command the terminal that it is shown on.
fn shown(row: &dyn Fields, column: usize) -> Result<Option<String>, ReadError> {
    let commands = |letter: char| letter.is_control() && letter != '\n';
    Ok(row.text(column)?.map(|text| text.replace(commands, "\u{fffd}")))
}

/// The place of each row's id.
type Places = HashMap<i64, usize>;

fn machines(source: &mut dyn Source, study: &mut Study) -> Result<Places, ReadError> {
    let mut places = Places::new();
    source.each("SELECT id, name, kernel, cpus, memory_bytes FROM machine ORDER BY id", &mut |row| {
        places.insert(int(row, 0)?, study.machines.len());
        study.machines.push(Machine {
            name: text(row, 1)?,
            kernel: text(row, 2)?,
            cpus: int(row, 3)?,
            memory_bytes: int(row, 4)?,
        });
        Ok(())
    })?;
    Ok(places)
}

fn configurations(source: &mut dyn Source, study: &mut Study) -> Result<Places, ReadError> {
    let mut places = Places::new();
    source.each("SELECT id, label FROM configuration ORDER BY id", &mut |row| {
        places.insert(int(row, 0)?, study.configurations.len());
        study.configurations.push(Configuration { label: text(row, 1)?, settings: Vec::new() });
        Ok(())
    })?;
    // In the order in which they were written, which is that of the plan.
    source.each("SELECT configuration_id, factor, value FROM setting ORDER BY rowid", &mut |row| {
        let at = place(&places, int(row, 0)?, "a setting", "configuration")?;
        study.configurations[at].settings.push((text(row, 1)?, text(row, 2)?));
        Ok(())
    })?;
    Ok(places)
}

fn place(places: &Places, id: i64, what: &str, of: &str) -> Result<usize, ReadError> {
    places.get(&id).copied().ok_or_else(|| damaged(format!("{what} of a {of} that is not there ({id})")))
}

fn runs(
    source: &mut dyn Source,
    study: &mut Study,
    machines: &Places,
    configurations: &Places,
) -> Result<Places, ReadError> {
    let mut places = Places::new();
    let query =
        "SELECT id, configuration_id, workload, repeat, place, state, machine_id, started_at, duration_s,
                        operations_per_s, message FROM run ORDER BY place";
    source.each(query, &mut |row| {
        let id = int(row, 0)?;
        let machine = row.int(6)?;
        let run = Run {
            configuration: place(configurations, int(row, 1)?, "a run", "configuration")?,
            workload: text(row, 2)?,
            repeat: int(row, 3)?,
            place: int(row, 4)?,
            state: state(&text(row, 5)?)?,
            machine: machine.map(|id| place(machines, id, "a run", "machine")).transpose()?,
            started_at: shown(row, 7)?,
            duration_s: figure(row, 8, id)?,
            operations_per_s: figure(row, 9, id)?,
            message: shown(row, 10)?,
            ..Run::default()
        };
        places.insert(id, study.runs.len());
        study.runs.push(run);
        Ok(())
    })?;
    Ok(places)
}

fn state(text: &str) -> Result<State, ReadError> {
    match text {
        "planned" => Ok(State::Planned),
        "running" => Ok(State::Running),
        "done" => Ok(State::Done),
        "skipped" => Ok(State::Skipped),
        "failed" => Ok(State::Failed),
        _ => Err(damaged(format!("a run is in the state {:?}", brief(text)))),
    }
}

/// As much of a text as a line has room for.
fn brief(text: &str) -> String {
    text.chars().take(40).collect()
}

/// A figure that is finite and not negative, or none.
fn figure(row: &dyn Fields, column: usize, run: i64) -> Result<Option<f64>, ReadError> {
    match row.real(column)? {
        Some(value) if !(value.is_finite() && value >= 0.0) => {
            Err(damaged(format!("run {run} has a figure that is negative or no number")))
        }
        value => Ok(value),
    }
}

/// A figure that must be there.
fn needed(row: &dyn Fields, column: usize, run: i64) -> Result<f64, ReadError> {
    figure(row, column, run)?.ok_or_else(|| damaged(format!("run {run} lacks a figure")))
}

/// A count, or a place on a device.
fn whole(row: &dyn Fields, column: usize, run: i64) -> Result<u64, ReadError> {
    let value = int(row, column)?;
    u64::try_from(value).map_err(|_| damaged(format!("run {run} has a count that cannot be ({value})")))
}

fn conditions(source: &mut dyn Source, study: &mut Study, runs: &Places) -> Result<(), ReadError> {
    source.each("SELECT run_id, name, value FROM condition", &mut |row| {
        let at = place(runs, int(row, 0)?, "a condition", "run")?;
        let value = real(row, 2)?;
        if value.is_finite() {
            study.runs[at].conditions.push((text(row, 1)?, value));
        }
        Ok(())
    })
}

fn windows(source: &mut dyn Source, study: &mut Study, runs: &Places) -> Result<(), ReadError> {
    let query = "SELECT run_id, start_s, length_s, operations FROM throughput ORDER BY run_id, \"window\"";
    // Rows come run by run: the place is looked up once for each.
    let mut last: Option<(i64, usize)> = None;
    source.each(query, &mut |row| {
        let id = int(row, 0)?;
        let at = match last {
            Some((known, at)) if known == id => at,
            _ => place(runs, id, "a window", "run")?,
        };
        last = Some((id, at));
        let window = Window {
            start_s: needed(row, 1, id)?,
            length_s: needed(row, 2, id)?,
            operations: whole(row, 3, id)?,
        };
        if window.length_s <= 0.0 {
            return Err(damaged(format!("run {id} has a window without length")));
        }
        study.runs[at].windows.push(window);
        Ok(())
    })
}

fn latencies(source: &mut dyn Source, study: &mut Study, runs: &Places) -> Result<(), ReadError> {
    let query =
        "SELECT run_id, operation, operations, mean_s, histogram FROM latency ORDER BY run_id, operation";
    let mut deserializer = Deserializer::new();
    source.each(query, &mut |row| {
        let id = int(row, 0)?;
        let at = place(runs, id, "a latency", "run")?;
        let operation = text(row, 1)?;
        let steps = steps(&mut deserializer, there(row.blob(4)?)?).map_err(|why| {
            damaged(format!("run {id} has a histogram of {:?} that {why}", brief(&operation)))
        })?;
        study.runs[at].latencies.push(Latency {
            operation,
            operations: whole(row, 2, id)?,
            mean_s: needed(row, 3, id)?,
            steps,
        });
        Ok(())
    })
}

/// The distribution in a histogram of nanoseconds, in seconds.
fn steps(deserializer: &mut Deserializer, blob: &[u8]) -> Result<Steps, String> {
    let number = |at: usize| blob.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    let wide = |at: usize| blob.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes);
    let (Some(cookie), Some(length), Some(digits), Some(highest)) =
        (number(0), number(4), number(12), wide(24))
    else {
        return Err("is cut short".to_owned());
    };
    if cookie != COOKIE {
        return Err("is not one of HdrHistogram V2".to_owned());
    }
    if length as usize > blob.len().saturating_sub(HEADER_BYTES) {
        return Err("is cut short".to_owned());
    }
    if digits > DIGITS_MAX || highest > HIGHEST_MAX_NS {
        return Err(format!("keeps {digits} digits up to {highest} ns, more than is read"));
    }
    let histogram: Histogram<u64> =
        deserializer.deserialize(&mut &blob[..]).map_err(|error| format!("cannot be read: {error}"))?;
    Ok(Steps::of_counts(
        histogram.iter_recorded().map(|step| (step.value_iterated_to() as f64 / 1e9, step.count_at_value())),
    ))
}

fn layout(source: &mut dyn Source, study: &mut Study, runs: &Places) -> Result<(), ReadError> {
    let query = "SELECT run_id, physical_bytes, length_bytes FROM layout ORDER BY run_id, extent";
    source.each(query, &mut |row| {
        let id = int(row, 0)?;
        let at = place(runs, id, "an extent", "run")?;
        study.runs[at]
            .extents
            .push(Extent { physical_bytes: whole(row, 1, id)?, length_bytes: whole(row, 2, id)? });
        Ok(())
    })
}
