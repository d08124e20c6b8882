//! A study in an SQLite file, which one process at a time writes.

use std::path::Path;
use std::time::Duration;

use evenkeel_host::conditions::Machine;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, params, params_from_iter};

use super::rows::{self, Rows, Table, Value};
use super::{Begun, Claim, Kept, Record, SCHEMA, Store, StoreError, Tally, claimed};
use crate::study::plan::Plan;

/// How long a reader may hold the database.
const PATIENCE: Duration = Duration::from_secs(60);

/// The database, open for writing.
#[derive(Debug)]
pub struct SqliteStore {
    connection: Connection,
    machine: i64,
}

impl SqliteStore {
    /// Makes the database of a study that begins.
    ///
    /// # Errors
    ///
    /// Those of SQLite.
    pub fn create(path: &Path, begun: &Begun<'_>, machine: &Machine) -> Result<Self, StoreError> {
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(PATIENCE)?;
        let mut transaction = connection.transaction()?;
        transaction.execute_batch(SCHEMA)?;
        let plan = begun.plan;
        transaction.execute(
            "INSERT INTO study (id, name, seed, plan, interval_s, created_at, evenkeel_version)
             VALUES (1, ?1, ?2, ?3, ?4, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'), ?5)",
            params![plan.name, plan.seed as i64, plan.text, plan.interval_s, env!("CARGO_PKG_VERSION")],
        )?;
        rows::insert_study(&mut transaction, begun)?;
        transaction.commit()?;
        let machine = register(&connection, machine)?;
        Ok(Self { connection, machine })
    }

    /// Whether there is anything in a database. What ended while it made one, or found the device full, leaves an empty
    /// one.
    ///
    /// # Errors
    ///
    /// Those of SQLite.
    pub fn is_begun(path: &Path) -> Result<bool, StoreError> {
        if !path.exists() {
            return Ok(false);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(PATIENCE)?;
        Ok(connection.query_row("SELECT EXISTS (SELECT 1 FROM sqlite_master)", [], |row| row.get(0))?)
    }

    /// Opens the database of a study that was begun with the same plan.
    ///
    /// # Errors
    ///
    /// Those of SQLite; `OtherPlan`, `OtherSample`.
    pub fn resume(path: &Path, begun: &Begun<'_>, machine: &Machine) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(PATIENCE)?;
        let (name, text, version): (String, String, String) =
            connection.query_row("SELECT name, plan, evenkeel_version FROM study", [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
        let labels = connection
            .prepare("SELECT label FROM configuration ORDER BY id")?
            .query_map([], |row| row.get(0))?
            .collect::<Result<Vec<String>, _>>()?;
        begun.check(&name, &text, &version, &labels)?;
        connection
            .execute("UPDATE run SET state = 'planned', started_at = NULL WHERE state = 'running'", [])?;
        let machine = register(&connection, machine)?;
        Ok(Self { connection, machine })
    }
}

impl Store for SqliteStore {
    fn claim(&mut self, plan: &Plan) -> Result<Claim, StoreError> {
        let row = self
            .connection
            .query_row(
                "UPDATE run SET state = 'running', machine_id = ?1,
                                started_at = strftime('%Y-%m-%dT%H:%M:%SZ', 'now')
                 WHERE place = (SELECT min(place) FROM run WHERE state = 'planned')
                 RETURNING id, configuration_id, workload, repeat",
                [self.machine],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
            )
            .optional()?;
        row.map_or(Ok(Claim::Over), |row| claimed(plan, row).map(Claim::Run))
    }

    fn put_back(&mut self, id: i64) -> Result<(), StoreError> {
        let put_back = "UPDATE run SET state = 'planned', started_at = NULL, machine_id = NULL WHERE id = ?1";
        self.connection.execute(put_back, [id])?;
        Ok(())
    }

    fn finish(&mut self, id: i64, record: &Record) -> Result<Kept, StoreError> {
        let answer = &record.answer;
        let mut transaction = self.connection.transaction()?;
        transaction.execute(
            "UPDATE run SET state = 'done', duration_s = ?2, operations = ?3, operations_per_s = ?4, message = ?5
             WHERE id = ?1",
            params![id, answer.duration_s, answer.operations as i64, answer.operations_per_s, record.message],
        )?;
        rows::insert_record(&mut transaction, id, record)?;
        transaction.commit()?;
        Ok(Kept::Yes)
    }

    fn fail(&mut self, id: i64, message: &str, conditions: &[(String, f64)]) -> Result<Kept, StoreError> {
        let mut transaction = self.connection.transaction()?;
        transaction
            .execute("UPDATE run SET state = 'failed', message = ?2 WHERE id = ?1", params![id, message])?;
        rows::insert_conditions(&mut transaction, id, conditions)?;
        transaction.commit()?;
        Ok(Kept::Yes)
    }

    fn skip(&mut self, id: i64, message: &str) -> Result<(), StoreError> {
        self.connection.execute(
            "UPDATE run SET state = 'skipped', message = ?2
             WHERE id = ?1 OR (state = 'planned'
                               AND configuration_id = (SELECT configuration_id FROM run WHERE id = ?1))",
            params![id, message],
        )?;
        Ok(())
    }

    fn was_made(&mut self, id: i64) -> Result<bool, StoreError> {
        let query = "SELECT EXISTS (SELECT 1 FROM run WHERE state = 'done' AND machine_id = ?2
                     AND configuration_id = (SELECT configuration_id FROM run WHERE id = ?1))";
        Ok(self.connection.query_row(query, params![id, self.machine], |row| row.get(0))?)
    }

    fn retry(&mut self) -> Result<(), StoreError> {
        let transaction = self.connection.transaction()?;
        transaction.execute_batch(
            "DELETE FROM condition WHERE run_id IN (SELECT id FROM run WHERE state IN ('failed', 'skipped'));
             UPDATE run SET state = 'planned', message = NULL, started_at = NULL, machine_id = NULL
             WHERE state IN ('failed', 'skipped')",
        )?;
        Ok(transaction.commit()?)
    }

    fn tally(&mut self) -> Result<Tally, StoreError> {
        let mut statement = self.connection.prepare("SELECT state, count(*) FROM run GROUP BY state")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Tally::of(rows.collect::<Result<Vec<_>, _>>()?))
    }
}

impl Rows for Transaction<'_> {
    fn insert<'a>(
        &mut self,
        table: &Table,
        rows: &mut dyn Iterator<Item = Vec<Value<'a>>>,
    ) -> Result<(), StoreError> {
        let places: Vec<String> = (1..=table.columns.len()).map(|at| format!("?{at}")).collect();
        let insert = format!("INSERT INTO {} ({}) VALUES ({})", table.name, table.names(), places.join(", "));
        let mut insert = self.prepare(&insert)?;
        for row in rows {
            insert.execute(params_from_iter(row))?;
        }
        Ok(())
    }
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            Self::Int(value) => ValueRef::Integer(value),
            Self::Real(value) => ValueRef::Real(value),
            Self::Text(value) => ValueRef::Text(value.as_bytes()),
            Self::Blob(value) => ValueRef::Blob(value),
        }))
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
