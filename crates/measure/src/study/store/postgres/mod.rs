//! A study in PostgreSQL, which several machines run together.
//!
//! 1. A run is under way on one machine at a time, and what came of it is kept once: whoever does not have it any more
//!    cannot settle it.
//! 2. A machine takes whole blocks. What a block has left goes to another machine only when its own has not been heard
//!    of for its lease, by the server's clock.
//! 3. One process at a time takes part under a machine's name. One that comes after a process that died has its runs at
//!    once; two that live are told apart by a lock that the server lets go of with the connection.
//! 4. A machine that fails what others manage takes no more runs, and what it skipped is planned again.
//! 5. A connection that is lost is made again, for two minutes: what a run took hours for is not lost
//!    to a server that starts anew. Once the study is to stop, it is tried once.

pub(super) mod address;
mod claims;
#[cfg(test)]
#[expect(unreachable_pub, reason = "tests of the command include it too")]
pub(crate) mod cluster;
mod fitness;
#[cfg(test)]
mod fitness_tests;
mod heartbeat;
#[cfg(test)]
mod tests;

use std::thread;
use std::time::{Duration, Instant};

use evenkeel_host::conditions::Machine;
use evenkeel_host::interrupt::Interrupt;
use postgres::binary_copy::BinaryCopyInWriter;
use postgres::types::{ToSql, Type};
use postgres::{Client, Transaction};

use self::address::Address;
use self::heartbeat::Heartbeat;
use super::rows::{self, Kind, Rows, Table, Value};
use super::{Begun, Claim, Kept, Record, Store, StoreError, Tally, claimed, postgres_schema};
use crate::study::plan::Plan;

/// How long a server that was lost is waited for.
const RETURN_PATIENCE: Duration = Duration::from_secs(120);
/// How long a name that is taken may still become free.
const NAME_PATIENCE: Duration = Duration::from_secs(2);
/// How long between two tries to have it.
const NAME_PAUSE: Duration = Duration::from_millis(100);
/// How long between two tries to return.
const RETURN_PAUSE: Duration = Duration::from_secs(1);
/// How long a server that is there may take to say so.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// A server that hears nothing of a client for half a minute lets go of its locks.
const SESSION: &str = "SET tcp_keepalives_idle = 15; SET tcp_keepalives_interval = 5;
                       SET tcp_keepalives_count = 3; SET tcp_user_timeout = 30000";
/// Now, as SQLite's schema writes it.
const NOW: &str = r#"to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"#;

/// Who takes part.
#[derive(Debug, Clone, Copy)]
pub struct Seat<'a> {
    /// The machine; its name tells it from the others.
    pub machine: &'a Machine,
    /// For how long it is taken for alive after it was last heard of.
    pub lease: Duration,
    /// That the study is to stop: then a server that is gone is not waited for.
    pub interrupt: &'a Interrupt,
}

/// The database, and this machine's place among those that share it.
pub struct PostgresStore {
    address: Address,
    client: Client,
    part: Part,
    interrupt: Interrupt,
    _heartbeat: Heartbeat,
}

/// Which machine this is, and which of the processes that ran under its name.
#[derive(Debug, Clone)]
struct Part {
    name: String,
    machine: i64,
    session: i64,
}

impl PostgresStore {
    /// Takes part in the study of a database; begins it where nobody has.
    ///
    /// # Errors
    ///
    /// Those of PostgreSQL; `OtherPlan` and `OtherSample` where the study there is another, `NameTaken`.
    pub fn join(address: &Address, begun: &Begun<'_>, seat: &Seat<'_>) -> Result<Self, StoreError> {
        let mut client = address.connect()?;
        client.batch_execute(SESSION)?;
        begin(&mut client, begun)?;
        check(&mut client, begun)?;
        fitness::ready(&mut client)?;
        let (name, asked) = (&seat.machine.name, Instant::now());
        // The server may not have noticed yet that a process died a moment ago.
        while !lock_name(&mut client, name)? {
            if asked.elapsed() > NAME_PATIENCE {
                return Err(StoreError::NameTaken(name.clone()));
            }
            thread::sleep(NAME_PAUSE);
        }
        let part = register(&mut client, seat)?;
        let heartbeat = Heartbeat::start(address.clone(), part.clone(), seat.lease)?;
        let interrupt = seat.interrupt.clone();
        Ok(Self { address: address.clone(), client, part, interrupt, _heartbeat: heartbeat })
    }

    /// Does work in a transaction, once more where the connection was lost: the work finds what it has done already.
    fn transaction<T>(
        &mut self,
        mut work: impl FnMut(&mut Transaction<'_>, &Part) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let begun = Instant::now();
        loop {
            let done = self.once(&mut work);
            let patience = if self.interrupt.is_asked() { RETURN_PAUSE } else { RETURN_PATIENCE };
            let is_lost = matches!(done, Err(StoreError::Postgres(_)))
                && begun.elapsed() < patience
                && self.client.is_valid(ANSWER_TIME).is_err();
            if !is_lost {
                return done;
            }
            thread::sleep(RETURN_PAUSE);
            match self.come_back() {
                // Not yet.
                Err(StoreError::Postgres(_) | StoreError::NameTaken(_)) | Ok(()) => {}
                Err(other) => return Err(other),
            }
        }
    }

    fn once<T>(
        &mut self,
        work: &mut impl FnMut(&mut Transaction<'_>, &Part) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut transaction = self.client.transaction()?;
        self.part.check(&mut transaction)?;
        let done = work(&mut transaction, &self.part)?;
        transaction.commit()?;
        Ok(done)
    }

    fn come_back(&mut self) -> Result<(), StoreError> {
        let mut client = self.address.connect()?;
        client.batch_execute(SESSION)?;
        let mut transaction = client.transaction()?;
        self.part.check(&mut transaction)?;
        transaction.commit()?;
        if !lock_name(&mut client, &self.part.name)? {
            return Err(StoreError::NameTaken(self.part.name.clone()));
        }
        self.client = client;
        Ok(())
    }
}

impl Part {
    /// Fails where another process has come in this one's place, and keeps others from it until the transaction ends.
    fn check(&self, transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
        let session = "SELECT session FROM machine WHERE id = $1 FOR SHARE";
        match transaction.query_opt(session, &[&self.machine])? {
            Some(row) if row.try_get::<_, i64>(0)? == self.session => Ok(()),
            _ => Err(StoreError::Replaced(self.name.clone())),
        }
    }
}

/// Writes the study down, unless it is.
fn begin(client: &mut Client, begun: &Begun<'_>) -> Result<(), StoreError> {
    let mut transaction = client.transaction()?;
    // One at a time: the others find it made.
    transaction.execute("SELECT pg_advisory_xact_lock(hashtextextended('evenkeel study', 0))", &[])?;
    let is_there: bool = transaction.query_one("SELECT to_regclass('study') IS NOT NULL", &[])?.try_get(0)?;
    if is_there {
        return Ok(());
    }
    transaction.batch_execute(&postgres_schema())?;
    let plan = begun.plan;
    let insert = format!(
        "INSERT INTO study (id, name, seed, plan, interval_s, created_at, evenkeel_version)
         VALUES (1, $1, $2, $3, $4, {NOW}, $5)"
    );
    transaction.execute(
        &insert,
        &[&plan.name, &(plan.seed as i64), &plan.text, &plan.interval_s, &env!("CARGO_PKG_VERSION")],
    )?;
    rows::insert_study(&mut transaction, begun)?;
    transaction.execute("INSERT INTO block (repeat) SELECT DISTINCT repeat FROM run", &[])?;
    Ok(transaction.commit()?)
}

fn check(client: &mut Client, begun: &Begun<'_>) -> Result<(), StoreError> {
    let row = client.query_one("SELECT name, plan, evenkeel_version FROM study", &[])?;
    let labels = client.query("SELECT label FROM configuration ORDER BY id", &[])?;
    let labels = labels.iter().map(|row| row.try_get(0)).collect::<Result<Vec<String>, _>>()?;
    begun.check(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, &labels)
}

/// Takes the lock of a machine's name, for as long as the connection lasts; answers whether it was to be had.
fn lock_name(client: &mut Client, name: &str) -> Result<bool, StoreError> {
    let lock = "SELECT pg_try_advisory_lock(hashtextextended(current_schema() || '/' || $1, 1))";
    Ok(client.query_one(lock, &[&name])?.try_get(0)?)
}

fn register(client: &mut Client, seat: &Seat<'_>) -> Result<Part, StoreError> {
    let machine = seat.machine;
    let row = client.query_one(
        "INSERT INTO machine (name, kernel, cpus, memory_bytes, session, alive_until)
         VALUES ($1, $2, $3, $4, 1, now() + make_interval(secs => $5))
         ON CONFLICT (name) DO UPDATE SET kernel = excluded.kernel, cpus = excluded.cpus,
                                          memory_bytes = excluded.memory_bytes, session = machine.session + 1,
                                          alive_until = excluded.alive_until
         RETURNING id, session",
        &[
            &machine.name,
            &machine.kernel,
            &(machine.cpus as i64),
            &(machine.memory_bytes as i64),
            &seat.lease.as_secs_f64(),
        ],
    )?;
    Ok(Part { name: machine.name.clone(), machine: row.try_get(0)?, session: row.try_get(1)? })
}

impl Store for PostgresStore {
    fn claim(&mut self, plan: &Plan) -> Result<Claim, StoreError> {
        match self.transaction(|transaction, part| claims::claim(transaction, part.machine, part.session))? {
            claims::Next::Run(row) => claimed(plan, row).map(Claim::Run),
            claims::Next::Wait => Ok(Claim::Wait),
            claims::Next::Over => Ok(Claim::Over),
            claims::Next::Unfit(why) => Ok(Claim::Unfit(why)),
        }
    }

    fn put_back(&mut self, id: i64) -> Result<(), StoreError> {
        self.transaction(|transaction, part| {
            let put_back = "UPDATE run SET state = 'planned', started_at = NULL, machine_id = NULL
                            WHERE id = $1 AND state = 'running' AND machine_id = $2";
            transaction.execute(put_back, &[&id, &part.machine])?;
            Ok(())
        })
    }

    fn finish(&mut self, id: i64, record: &Record) -> Result<Kept, StoreError> {
        let (answer, message) = (&record.answer, record.message.as_deref().map(storable));
        self.transaction(|transaction, part| {
            let settle =
                "UPDATE run SET state = 'done', duration_s = $3, operations = $4, operations_per_s = $5,
                                         message = $6
                          WHERE id = $1 AND state = 'running' AND machine_id = $2";
            let operations = answer.operations as i64;
            let values: [&(dyn ToSql + Sync); 6] =
                [&id, &part.machine, &answer.duration_s, &operations, &answer.operations_per_s, &message];
            if transaction.execute(settle, &values)? == 0 {
                return part.settled(transaction, id, "done");
            }
            rows::insert_record(transaction, id, record)?;
            Ok(Kept::Yes)
        })
    }

    fn fail(&mut self, id: i64, message: &str, conditions: &[(String, f64)]) -> Result<Kept, StoreError> {
        let message = storable(message);
        self.transaction(|transaction, part| {
            let settle = "UPDATE run SET state = 'failed', message = $3
                          WHERE id = $1 AND state = 'running' AND machine_id = $2";
            if transaction.execute(settle, &[&id, &part.machine, &message])? == 0 {
                return part.settled(transaction, id, "failed");
            }
            rows::insert_conditions(transaction, id, conditions)?;
            Ok(Kept::Yes)
        })
    }

    fn skip(&mut self, id: i64, message: &str) -> Result<(), StoreError> {
        let message = storable(message);
        self.transaction(|transaction, part| claims::skip(transaction, part.machine, id, &message))
    }

    fn was_made(&mut self, id: i64) -> Result<bool, StoreError> {
        self.transaction(|transaction, part| {
            let query = "SELECT EXISTS (SELECT FROM run WHERE state = 'done' AND machine_id = $2
                         AND configuration_id = (SELECT configuration_id FROM run WHERE id = $1))";
            Ok(transaction.query_one(query, &[&id, &part.machine])?.try_get(0)?)
        })
    }

    fn retry(&mut self) -> Result<(), StoreError> {
        self.transaction(|transaction, _| {
            Ok(transaction.batch_execute(
                "DELETE FROM condition
                     WHERE run_id IN (SELECT id FROM run WHERE state IN ('failed', 'skipped'));
                 UPDATE run SET state = 'planned', message = NULL, started_at = NULL, machine_id = NULL
                     WHERE state IN ('failed', 'skipped')",
            )?)
        })
    }

    fn tally(&mut self) -> Result<Tally, StoreError> {
        self.transaction(|transaction, _| {
            let rows = transaction.query("SELECT state, count(*) FROM run GROUP BY state", &[])?;
            let each = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
            Ok(Tally::of(each.collect::<Result<Vec<_>, postgres::Error>>()?))
        })
    }
}

impl Part {
    /// Of a run that is not under way here any more: whether this machine settled it, the answer to which was lost.
    fn settled(&self, transaction: &mut Transaction<'_>, id: i64, state: &str) -> Result<Kept, StoreError> {
        let is_settled = "SELECT count(*) FROM run WHERE id = $1 AND state = $2 AND machine_id = $3";
        let row = transaction.query_one(is_settled, &[&id, &state, &self.machine])?;
        Ok(if row.try_get::<_, i64>(0)? == 1 { Kept::Yes } else { Kept::TakenOver })
    }
}

/// A text of PostgreSQL has no null character; what a program said may have.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

impl Rows for Transaction<'_> {
    fn insert<'a>(
        &mut self,
        table: &Table,
        rows: &mut dyn Iterator<Item = Vec<Value<'a>>>,
    ) -> Result<(), StoreError> {
        let types: Vec<Type> = table.columns.iter().map(|(_, kind)| kind.in_postgres()).collect();
        let copy = format!("COPY {} ({}) FROM STDIN (FORMAT binary)", table.name, table.names());
        let mut writer = BinaryCopyInWriter::new(self.copy_in(&copy)?, &types);
        for row in rows {
            let values: Vec<&(dyn ToSql + Sync)> = row.iter().map(Value::in_postgres).collect();
            writer.write(&values)?;
        }
        writer.finish()?;
        Ok(())
    }
}

impl Kind {
    fn in_postgres(self) -> Type {
        match self {
            Self::Int => Type::INT8,
            Self::Real => Type::FLOAT8,
            Self::Text => Type::TEXT,
            Self::Blob => Type::BYTEA,
        }
    }
}

impl Value<'_> {
    fn in_postgres(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Int(value) => value,
            Self::Real(value) => value,
            Self::Text(value) => value,
            Self::Blob(value) => value,
        }
    }
}
