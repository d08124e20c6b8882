//! Which machines are fit to take runs.
//!
//! A machine that cannot make a configuration skips it. That says something of the configuration only until another
//! machine makes it: from then on it says that the machine is sick (a mkfs that is missing, a kernel without the file
//! system).
//!
//! 1. What a machine skipped and another one made is planned again, and the machine that skipped it takes no more runs.
//! 2. A machine that could make nothing of a whole block takes no other, and what it skipped is planned again.
//! 3. A machine that has nothing else to do tries what was skipped on others alone, once for each configuration.
//! 4. A machine is unfit for as long as its process runs: once the machine is mended, the same command takes part again.
//!
//! What a sick machine has left goes to others as that of a dead one, or when it asks for its next run.

use postgres::{Client, Transaction};

use crate::study::store::StoreError;

/// Machines, with the number of the process, that take no more runs. Databases of earlier versions lack it.
const TABLE: &str = "CREATE TABLE IF NOT EXISTS unfit (machine_id BIGINT NOT NULL, session BIGINT NOT NULL,
                     message TEXT NOT NULL, PRIMARY KEY (machine_id, session))";
/// One at a time changes what was skipped: rows that two would lock in different orders.
const TURN: &str = "SELECT pg_advisory_xact_lock(hashtextextended('evenkeel skips', 2))";
/// What was skipped on one machine and done on another.
const MADE_ELSEWHERE: &str =
    "state = 'skipped' AND EXISTS (SELECT FROM run AS other WHERE other.state = 'done'
                                    AND other.configuration_id = run.configuration_id
                                    AND other.machine_id <> run.machine_id)";

/// Makes the table of the unfit where there is none.
pub(super) fn ready(client: &mut Client) -> Result<(), StoreError> {
    let mut transaction = client.transaction()?;
    transaction.execute(TURN, &[])?;
    transaction.batch_execute(TABLE)?;
    Ok(transaction.commit()?)
}

/// Plans again what a machine skipped and another one made, and takes the former for unfit.
pub(super) fn replan_what_others_made(transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
    let any = format!("SELECT EXISTS (SELECT FROM run WHERE {MADE_ELSEWHERE})");
    if !transaction.query_one(&any, &[])?.try_get::<_, bool>(0)? {
        return Ok(());
    }
    transaction.execute(TURN, &[])?;
    let mark = format!(
        "INSERT INTO unfit (machine_id, session, message)
         SELECT DISTINCT ON (machine.id) machine.id, machine.session,
                'other machines make ' || configuration.label || ', and this one does not (' || run.message || ')'
         FROM run JOIN machine ON machine.id = run.machine_id
                  JOIN configuration ON configuration.id = run.configuration_id
         WHERE {MADE_ELSEWHERE} ORDER BY machine.id, run.place
         ON CONFLICT DO NOTHING"
    );
    transaction.execute(&mark, &[])?;
    // Still in the blocks of whoever skipped them.
    let replan = format!(
        "UPDATE run SET state = 'planned', message = NULL, started_at = NULL, machine_id = NULL
         WHERE {MADE_ELSEWHERE}"
    );
    transaction.execute(&replan, &[])?;
    Ok(())
}

/// Why a machine takes no more runs, if so; the blocks that it has not done are free then.
pub(super) fn unfit(
    transaction: &mut Transaction<'_>,
    machine: i64,
    session: i64,
) -> Result<Option<String>, StoreError> {
    let query = "SELECT message FROM unfit WHERE machine_id = $1 AND session = $2";
    let Some(row) = transaction.query_opt(query, &[&machine, &session])? else { return Ok(None) };
    let free = "UPDATE block SET machine_id = NULL
                WHERE machine_id = $1 AND EXISTS (SELECT FROM run WHERE run.repeat = block.repeat
                                                  AND run.state = 'planned')";
    transaction.execute(free, &[&machine])?;
    Ok(Some(row.try_get(0)?))
}

/// Takes a machine for unfit that was through with a block, or several, and could make nothing of them.
pub(super) fn made_nothing(
    transaction: &mut Transaction<'_>,
    machine: i64,
    session: i64,
) -> Result<Option<String>, StoreError> {
    let query =
        "SELECT (SELECT message FROM run WHERE state = 'skipped' AND machine_id = $1 ORDER BY place LIMIT 1)
                 WHERE NOT EXISTS (SELECT FROM run WHERE state <> 'skipped' AND machine_id = $1)
                       AND EXISTS (SELECT FROM run GROUP BY repeat
                                   HAVING bool_and(state = 'skipped' AND machine_id = $1))";
    let row = transaction.query_opt(query, &[&machine])?;
    let Some(first) = row.map(|row| row.try_get::<_, Option<String>>(0)).transpose()?.flatten() else {
        return Ok(None);
    };
    transaction.execute(TURN, &[])?;
    let why = format!("it could make and mount nothing ({first})");
    let mark = "INSERT INTO unfit (machine_id, session, message) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    transaction.execute(mark, &[&machine, &session, &why])?;
    let replan = "UPDATE run SET state = 'planned', message = NULL, started_at = NULL, machine_id = NULL
                  WHERE state = 'skipped' AND machine_id = $1";
    transaction.execute(replan, &[&machine])?;
    unfit(transaction, machine, session)
}

/// Where every run is settled: gives a machine a run of a configuration that was skipped and that it has never met.
pub(super) fn take_unmet(transaction: &mut Transaction<'_>, machine: i64) -> Result<bool, StoreError> {
    transaction.execute(TURN, &[])?;
    let replan = "UPDATE run SET state = 'planned', message = NULL, started_at = NULL, machine_id = NULL
                  WHERE state = 'skipped' AND id = (
                      SELECT id FROM run WHERE state = 'skipped' AND NOT EXISTS (
                          SELECT FROM run AS met WHERE met.configuration_id = run.configuration_id
                                                       AND met.machine_id = $1)
                      ORDER BY place LIMIT 1)
                  RETURNING repeat";
    let Some(row) = transaction.query_opt(replan, &[&machine])? else { return Ok(false) };
    let repeat: i64 = row.try_get(0)?;
    let take = "UPDATE block SET machine_id = $1 WHERE repeat = $2";
    Ok(transaction.execute(take, &[&machine, &repeat])? == 1)
}
