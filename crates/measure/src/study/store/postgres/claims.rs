//! Who takes which run.
//!
//! A block is the runs of one repeat: every configuration with every workload once. A machine takes a block and all runs
//! of it, one after the other, before it takes the next. So configurations are compared within a block on one machine,
//! each has as many runs on a machine as any other, and a machine that is faster than the others takes more blocks
//! without favouring anything.
//!
//! Rows that another machine is taking at this moment are skipped, not waited for.

use postgres::Transaction;

use super::{NOW, fitness};
use crate::report::format::counted;
use crate::study::store::StoreError;

/// What there is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// A run: its row, configuration, workload and repeat.
    Run((i64, i64, String, i64)),
    /// Nothing, but others are at work.
    Wait,
    /// Nothing any more.
    Over,
    /// Nothing for this machine; why.
    Unfit(String),
}

/// Takes the next run for a machine, on which none is under way.
pub(super) fn claim(
    transaction: &mut Transaction<'_>,
    machine: i64,
    session: i64,
) -> Result<Next, StoreError> {
    // Of a process before this one, or of a claim whose answer was lost.
    let left = "UPDATE run SET state = 'planned', started_at = NULL, machine_id = NULL
                WHERE state = 'running' AND machine_id = $1";
    transaction.execute(left, &[&machine])?;
    fitness::replan_what_others_made(transaction)?;
    if let Some(why) = fitness::unfit(transaction, machine, session)? {
        return Ok(Next::Unfit(why));
    }
    loop {
        if let Some(run) = run_of_own_block(transaction, machine)? {
            return Ok(Next::Run(run));
        }
        if let Some(why) = fitness::made_nothing(transaction, machine, session)? {
            return Ok(Next::Unfit(why));
        }
        let block = match free_block(transaction, machine)? {
            Some(block) => Some(block),
            None => block_of_the_dead(transaction, machine)?,
        };
        let Some(block) = block else { break };
        skip_what_cannot_be_run(transaction, machine, block)?;
    }
    let left = "SELECT count(*), count(*) FILTER (WHERE block.repeat IS NULL)
                FROM run LEFT JOIN block USING (repeat) WHERE run.state IN ('planned', 'running')";
    let row = transaction.query_one(left, &[])?;
    let (left, lost): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    match (left, lost) {
        (0, _) if fitness::take_unmet(transaction, machine)? => {
            let run = run_of_own_block(transaction, machine)?;
            Ok(run.map_or(Next::Wait, Next::Run))
        }
        (0, _) => Ok(Next::Over),
        (_, 0) => Ok(Next::Wait),
        // Nobody could ever take them.
        _ => Err(StoreError::Postgres(format!(
            "{} without a row of their repeat in the table block, which somebody deleted; put it back, or begin anew",
            counted(lost.unsigned_abs(), "run")
        ))),
    }
}

fn run_of_own_block(
    transaction: &mut Transaction<'_>,
    machine: i64,
) -> Result<Option<(i64, i64, String, i64)>, StoreError> {
    let take = format!(
        "UPDATE run SET state = 'running', machine_id = $1, started_at = {NOW}
         WHERE id = (SELECT run.id FROM run JOIN block ON block.repeat = run.repeat
                     WHERE block.machine_id = $1 AND run.state = 'planned'
                     ORDER BY run.place LIMIT 1
                     FOR UPDATE OF run SKIP LOCKED FOR SHARE OF block SKIP LOCKED)
         RETURNING id, configuration_id, workload, repeat"
    );
    let Some(row) = transaction.query_opt(&take, &[&machine])? else { return Ok(None) };
    Ok(Some((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?)))
}

/// A block that nobody has.
fn free_block(transaction: &mut Transaction<'_>, machine: i64) -> Result<Option<i64>, StoreError> {
    let take = "UPDATE block SET machine_id = $1
                WHERE repeat = (SELECT repeat FROM block WHERE machine_id IS NULL
                                ORDER BY repeat LIMIT 1 FOR UPDATE SKIP LOCKED)
                RETURNING repeat";
    let row = transaction.query_opt(take, &[&machine])?;
    Ok(row.map(|row| row.try_get(0)).transpose()?)
}

/// A block that is not done, of a machine that has not been heard of for its lease. What it has done stays its own.
fn block_of_the_dead(transaction: &mut Transaction<'_>, machine: i64) -> Result<Option<i64>, StoreError> {
    let take = "UPDATE block SET machine_id = $1
                WHERE repeat = (SELECT block.repeat FROM block JOIN machine ON machine.id = block.machine_id
                                WHERE machine.id <> $1 AND machine.alive_until <= now()
                                      AND EXISTS (SELECT FROM run WHERE run.repeat = block.repeat
                                                                        AND run.state IN ('planned', 'running'))
                                ORDER BY block.repeat LIMIT 1 FOR UPDATE OF block SKIP LOCKED)
                RETURNING repeat";
    let Some(row) = transaction.query_opt(take, &[&machine])? else { return Ok(None) };
    let block: i64 = row.try_get(0)?;
    let left = "UPDATE run SET state = 'planned', started_at = NULL, machine_id = NULL
                WHERE repeat = $1 AND state = 'running'";
    transaction.execute(left, &[&block])?;
    Ok(Some(block))
}

/// Configurations that this machine could not make or mount in an earlier block.
fn skip_what_cannot_be_run(
    transaction: &mut Transaction<'_>,
    machine: i64,
    block: i64,
) -> Result<(), StoreError> {
    let skip = "UPDATE run SET state = 'skipped', machine_id = $1, message = known.message
                FROM (SELECT DISTINCT ON (configuration_id) configuration_id, message FROM run
                      WHERE state = 'skipped' AND machine_id = $1 ORDER BY configuration_id, place) AS known
                WHERE run.configuration_id = known.configuration_id AND run.repeat = $2 AND run.state = 'planned'";
    transaction.execute(skip, &[&machine, &block])?;
    Ok(())
}

/// Keeps why a configuration cannot be run on a machine: with the run that found out, those of the machine's blocks.
/// Others may be able to.
pub(super) fn skip(
    transaction: &mut Transaction<'_>,
    machine: i64,
    id: i64,
    message: &str,
) -> Result<(), StoreError> {
    let skip = "UPDATE run SET state = 'skipped', machine_id = $2, message = $3
                WHERE (id = $1 AND state = 'running' AND machine_id = $2)
                      OR (state = 'planned' AND repeat IN (SELECT repeat FROM block WHERE machine_id = $2)
                          AND configuration_id = (SELECT configuration_id FROM run WHERE id = $1))";
    transaction.execute(skip, &[&id, &machine, &message])?;
    Ok(())
}
