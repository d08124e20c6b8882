//! The results of a study, in SQLite: what is planned, and what came of it. `schema.sql` says what is where.
//!
//! 1. A run is kept whole or not at all: its figures and its state are one transaction.
//! 2. A run that was under way when the process ended is planned again.
//! 3. A database takes only the runs of the plan that it was made for.

use std::path::Path;

use evenkeel_host::conditions::Machine;
use evenkeel_host::fiemap::Extent;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, params};

use super::plan::Plan;
use super::plan::space::Configuration;
use super::schedule::Planned;
use super::worker::Answer;

/// The database's name in the folder of a study.
pub const DATABASE: &str = "study.db";
/// Tables and views.
pub const SCHEMA: &str = include_str!("schema.sql");
/// Rows of `layout` that a run has at most; of more extents, so many that lie evenly among them are kept.
pub const EXTENTS_MAX: usize = 1000;
/// How long a reader may hold the database.
const PATIENCE_MS: u32 = 60_000;

/// What went wrong with the database.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite says so.
    #[error("the database of the study: {0}")]
    Database(#[from] rusqlite::Error),
    /// It is of another study.
    #[error("the folder holds the results of another plan ({0}); name another one with --out")]
    OtherPlan(String),
}

/// The database, open for writing.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    machine: i64,
}

/// A run to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claimed {
    /// Its row.
    pub id: i64,
    /// What it is.
    pub planned: Planned,
}

/// What came of a run.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// What the workload answered.
    pub answer: Answer,
    /// What the machine was like, by name.
    pub conditions: Vec<(String, f64)>,
    /// Where the data set lay.
    pub layout: Vec<Extent>,
    /// What is to be known of the run.
    pub message: Option<String>,
}

/// How many runs are in which state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Still to be taken.
    pub planned: u64,
    /// Done.
    pub done: u64,
    /// Not taken, since the file system could not be made or mounted.
    pub skipped: u64,
    /// Taken and failed.
    pub failed: u64,
}

impl Store {
    /// Makes the database of a study that begins.
    ///
    /// # Errors
    ///
    /// Those of SQLite.
    pub fn create(
        path: &Path,
        plan: &Plan,
        configurations: &[Configuration],
        order: &[Planned],
        machine: &Machine,
    ) -> Result<Self, StoreError> {
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(std::time::Duration::from_millis(PATIENCE_MS.into()))?;
        let transaction = connection.transaction()?;
        transaction.execute_batch(SCHEMA)?;
        transaction.execute(
            "INSERT INTO study (id, name, seed, plan, interval_s, created_at, evenkeel_version)
             VALUES (1, ?1, ?2, ?3, ?4, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), ?5)",
            params![plan.name, plan.seed as i64, plan.text, plan.interval_s, env!("CARGO_PKG_VERSION")],
        )?;
        insert_configurations(&transaction, configurations)?;
        insert_runs(&transaction, plan, order)?;
        transaction.commit()?;
        let machine = register(&connection, machine)?;
        Ok(Self { connection, machine })
    }

    /// Opens the database of a study that was begun with the same plan.
    ///
    /// # Errors
    ///
    /// Those of SQLite; `OtherPlan`.
    pub fn resume(path: &Path, plan: &Plan, machine: &Machine) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(std::time::Duration::from_millis(PATIENCE_MS.into()))?;
        let (name, text): (String, String) =
            connection.query_row("SELECT name, plan FROM study", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if text != plan.text {
            return Err(StoreError::OtherPlan(name));
        }
        connection
            .execute("UPDATE run SET state = 'planned', started_at = NULL WHERE state = 'running'", [])?;
        let machine = register(&connection, machine)?;
        Ok(Self { connection, machine })
    }

    /// Takes the next run that is planned.
    ///
    /// # Errors
    ///
    /// Those of SQLite.
    pub fn claim(&mut self, plan: &Plan) -> Result<Option<Claimed>, StoreError> {
        let claimed = self
            .connection
            .query_row(
                "UPDATE run SET state = 'running', machine_id = ?1,
                                started_at = strftime('%Y-%m-%dT%H:%M:%SZ', 'now')
                 WHERE place = (SELECT min(place) FROM run WHERE state = 'planned')
                 RETURNING id, configuration_id, workload, repeat",
                [self.machine],
                |row| {
                    Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, String>(2)?, row.get(3)?))
                },
            )
            .optional()?;
        let Some((id, configuration, workload, repeat)) = claimed else { return Ok(None) };
        let workload = plan.workloads.iter().position(|one| one.name == workload);
        let configuration = usize::try_from(configuration - 1).ok();
        match (configuration, workload) {
            (Some(configuration), Some(workload)) => {
                Ok(Some(Claimed { id, planned: Planned { configuration, workload, repeat } }))
            }
            _ => Err(StoreError::OtherPlan(plan.name.clone())),
        }
    }

    /// Puts a run back that was interrupted.
    ///
    /// # Errors
    ///
    /// Those of SQLite.
    pub fn put_back(&mut self, id: i64) -> Result<(), StoreError> {
        let put_back = "UPDATE run SET state = 'planned', started_at = NULL, machine_id = NULL WHERE id = ?1";
        self.connection.execute(put_back, [id])?;
        Ok(())
    }

    /// Keeps what came of a run.
    ///
    /// # Errors
    ///
    /// Those of SQLite.
    pub fn finish(&mut self, id: i64, record: &Record) -> Result<(), StoreError> {
        let answer = &record.answer;
        let transaction = self.connection.transaction()?;
        transaction.execute(
            "UPDATE run SET state = 'done', duration_s = ?2, operations = ?3, operations_per_s = ?4, message = ?5
             WHERE id = ?1",
            params![id, answer.duration_s, answer.operations as i64, answer.operations_per_s, record.message],
        )?;
        insert_conditions(&transaction, id, &record.conditions)?;
        insert_throughput(&transaction, id, answer)?;
        insert_latencies(&transaction, id, answer)?;
        insert_layout(&transaction, id, &record.layout)?;
        transaction.commit()?;
        Ok(())
    }

    /// Keeps why a run failed.
    ///
    /// # Errors
    ///
    /// Those of SQLite.
    pub fn fail(&mut self, id: i64, message: &str, conditions: &[(String, f64)]) -> Result<(), StoreError> {
        let transaction = self.connection.transaction()?;
        transaction
            .execute("UPDATE run SET state = 'failed', message = ?2 WHERE id = ?1", params![id, message])?;
        insert_conditions(&transaction, id, conditions)?;
        transaction.commit()?;
        Ok(())
    }

    /// Keeps why a configuration cannot be run at all: the run that found out, and all that are still planned.
    ///
    /// # Errors
    ///
    /// Those of SQLite.
    pub fn skip(&mut self, id: i64, message: &str) -> Result<(), StoreError> {
        self.connection.execute(
            "UPDATE run SET state = 'skipped', message = ?2
             WHERE id = ?1 OR (state = 'planned'
                               AND configuration_id = (SELECT configuration_id FROM run WHERE id = ?1))",
            params![id, message],
        )?;
        Ok(())
    }

    /// How far the study is.
    ///
    /// # Errors
    ///
    /// Those of SQLite.
    pub fn tally(&self) -> Result<Tally, StoreError> {
        let mut statement = self.connection.prepare("SELECT state, count(*) FROM run GROUP BY state")?;
        let rows =
            statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)? as u64)))?;
        let mut tally = Tally::default();
        for row in rows {
            let (state, count) = row?;
            match state.as_str() {
                "done" => tally.done = count,
                "skipped" => tally.skipped = count,
                "failed" => tally.failed = count,
                _ => tally.planned += count,
            }
        }
        Ok(tally)
    }
}

fn register(connection: &Connection, machine: &Machine) -> Result<i64, StoreError> {
    Ok(connection.query_row(
        "INSERT INTO machine (name, kernel, cpus, memory_bytes) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (name) DO UPDATE SET kernel = excluded.kernel, cpus = excluded.cpus,
                                          memory_bytes = excluded.memory_bytes
         RETURNING id",
        params![machine.name, machine.kernel, machine.cpus as i64, machine.memory_bytes as i64],
        |row| row.get(0),
    )?)
}

fn insert_configurations(transaction: &Transaction<'_>, all: &[Configuration]) -> Result<(), StoreError> {
    for (id, configuration) in (1_i64..).zip(all) {
        let insert = "INSERT INTO configuration (id, label) VALUES (?1, ?2)";
        transaction.execute(insert, params![id, configuration.label])?;
        for (factor, value) in &configuration.settings {
            let insert = "INSERT INTO setting (configuration_id, factor, value) VALUES (?1, ?2, ?3)";
            transaction.execute(insert, params![id, factor, value])?;
        }
    }
    Ok(())
}

fn insert_runs(transaction: &Transaction<'_>, plan: &Plan, order: &[Planned]) -> Result<(), StoreError> {
    let mut insert = transaction.prepare(
        "INSERT INTO run (configuration_id, workload, repeat, place, state) VALUES (?1, ?2, ?3, ?4, 'planned')",
    )?;
    for (place, run) in (0_i64..).zip(order) {
        let configuration = run.configuration as i64 + 1;
        insert.execute(params![configuration, plan.workloads[run.workload].name, run.repeat, place])?;
    }
    Ok(())
}

fn insert_conditions(
    transaction: &Transaction<'_>,
    id: i64,
    conditions: &[(String, f64)],
) -> Result<(), StoreError> {
    for (name, value) in conditions {
        let insert = "INSERT OR REPLACE INTO condition (run_id, name, value) VALUES (?1, ?2, ?3)";
        transaction.execute(insert, params![id, name, value])?;
    }
    Ok(())
}

fn insert_throughput(transaction: &Transaction<'_>, id: i64, answer: &Answer) -> Result<(), StoreError> {
    let mut insert = transaction.prepare(
        "INSERT INTO throughput (run_id, window, start_s, length_s, operations) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for (window, &operations) in answer.windows.iter().enumerate() {
        let start_s = window as f64 * answer.interval_s;
        let length_s = answer.interval_s.min(answer.duration_s - start_s);
        // A workload of others may end early.
        if length_s > 0.0 {
            insert.execute(params![id, window as i64, start_s, length_s, operations as i64])?;
        }
    }
    Ok(())
}

fn insert_latencies(transaction: &Transaction<'_>, id: i64, answer: &Answer) -> Result<(), StoreError> {
    for one in &answer.latencies {
        transaction.execute(
            "INSERT INTO latency (run_id, operation, operations, mean_s, p50_s, p99_s, p999_s, max_s, histogram)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                id,
                one.operation,
                one.operations as i64,
                one.mean_s,
                one.p50_s,
                one.p99_s,
                one.p999_s,
                one.max_s,
                one.histogram
            ],
        )?;
    }
    Ok(())
}

fn insert_layout(transaction: &Transaction<'_>, id: i64, layout: &[Extent]) -> Result<(), StoreError> {
    let mut insert = transaction.prepare(
        "INSERT INTO layout (run_id, extent, physical_bytes, length_bytes) VALUES (?1, ?2, ?3, ?4)",
    )?;
    for (row, extent) in evenly(layout, EXTENTS_MAX).enumerate() {
        insert.execute(params![id, row as i64, extent.physical_bytes as i64, extent.length_bytes as i64])?;
    }
    Ok(())
}

/// At most `max` of them, the first and the last among them.
fn evenly(all: &[Extent], max: usize) -> impl Iterator<Item = &Extent> {
    let kept = all.len().min(max);
    (0..kept).map(move |at| &all[if kept < 2 { 0 } else { at * (all.len() - 1) / (kept - 1) }])
}
