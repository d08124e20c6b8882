//! The results of a study, in a database: what is planned, and what came of it. `schema.sql` says what is where.
//!
//! ```text
//! mod         what the runner asks of a database
//! schema      tables and views, from one source
//! rows        what is written of a study and of a run, the same for all
//! sqlite      a file, for one machine
//! postgres/   a server, for several: who takes which run, and who has died
//! ```
//!
//! 1. A run is kept whole or not at all: its figures and its state are one transaction.
//! 2. A run that was under way when its process ended is planned again.
//! 3. A database takes only the runs of the plan that it was made for.

mod postgres;
mod rows;
mod schema;
mod sqlite;

use evenkeel_host::fiemap::Extent;

pub(super) use self::postgres::address::in_a_line;
pub use self::postgres::address::{Address, AddressError};
pub use self::postgres::{PostgresStore, Seat};
pub use self::schema::{SCHEMA, postgres_schema};
pub use self::sqlite::SqliteStore;
use super::answer::Answer;
use super::plan::Plan;
use super::plan::space::Configuration;
use super::schedule::Planned;

/// The database's name in the folder of a study.
pub const DATABASE: &str = "study.db";
/// Rows of `layout` that a run has at most; of more extents, so many that lie evenly among them are kept.
pub const EXTENTS_MAX: usize = 1000;

/// What went wrong with the database.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// SQLite says so.
    #[error("the database of the study: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// PostgreSQL says so, or cannot be asked.
    #[error("the database of the study: {0}")]
    Postgres(String),
    /// It is of another study.
    #[error(
        "the results of another plan are there ({0}); name another folder with --out, or another database with --db"
    )]
    OtherPlan(String),
    /// The same plan, from which another version takes other configurations.
    #[error(
        "evenkeel {0} began this study and takes other configurations from its plan; go on with that version"
    )]
    OtherSample(String),
    /// A process takes part under this name already.
    #[error("a machine named {0} takes part already; give this one a name of its own with --machine")]
    NameTaken(String),
    /// Another process has come in this one's place.
    #[error("another process takes part as {0} now")]
    Replaced(String),
}

/// A run to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claimed {
    /// Its row.
    pub id: i64,
    /// What it is.
    pub planned: Planned,
}

/// What there is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// This run.
    Run(Claimed),
    /// Nothing now: what is left is with other machines, one of which may still die.
    Wait,
    /// Nothing: every run is settled.
    Over,
    /// Nothing for this machine, which fails what others manage, or everything; why.
    Unfit(String),
}

/// Whether what came of a run was kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// It was.
    Yes,
    /// The run is another machine's by now, which had not heard of this one for too long.
    TakenOver,
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

impl Tally {
    fn of(states: impl IntoIterator<Item = (String, i64)>) -> Self {
        let mut tally = Self::default();
        for (state, count) in states {
            let count = u64::try_from(count).unwrap_or(0);
            match state.as_str() {
                "done" => tally.done = count,
                "skipped" => tally.skipped = count,
                "failed" => tally.failed = count,
                _ => tally.planned += count,
            }
        }
        tally
    }

    /// Runs to which nothing more happens.
    pub fn settled(&self) -> u64 {
        self.done + self.skipped + self.failed
    }
}

/// A study as it is written down when it begins, or as it must have been.
#[derive(Debug, Clone, Copy)]
pub struct Begun<'a> {
    /// Its plan.
    pub plan: &'a Plan,
    /// What was sampled from that.
    pub configurations: &'a [Configuration],
    /// All runs, in their order.
    pub order: &'a [Planned],
}

impl Begun<'_> {
    /// That a database with this plan, these labels and this version is of the same study.
    fn check(&self, name: &str, plan: &str, version: &str, labels: &[String]) -> Result<(), StoreError> {
        if plan != self.plan.text {
            return Err(StoreError::OtherPlan(name.to_owned()));
        }
        let own = self.configurations.iter().map(|one| &one.label);
        match own.eq(labels) {
            true => Ok(()),
            false => Err(StoreError::OtherSample(version.to_owned())),
        }
    }
}

/// A database, as the runner uses it.
pub trait Store {
    /// Takes the next run.
    ///
    /// # Errors
    ///
    /// Those of the database.
    fn claim(&mut self, plan: &Plan) -> Result<Claim, StoreError>;

    /// Puts a run back that was interrupted.
    ///
    /// # Errors
    ///
    /// Those of the database.
    fn put_back(&mut self, id: i64) -> Result<(), StoreError>;

    /// Keeps what came of a run.
    ///
    /// # Errors
    ///
    /// Those of the database.
    fn finish(&mut self, id: i64, record: &Record) -> Result<Kept, StoreError>;

    /// Keeps why a run failed.
    ///
    /// # Errors
    ///
    /// Those of the database.
    fn fail(&mut self, id: i64, message: &str, conditions: &[(String, f64)]) -> Result<Kept, StoreError>;

    /// Keeps why a configuration cannot be run at all here: the run that found out, and those that are planned and would
    /// be taken on this machine. Where machines share the study, that holds until another one makes it.
    ///
    /// # Errors
    ///
    /// Those of the database.
    fn skip(&mut self, id: i64, message: &str) -> Result<(), StoreError>;

    /// Whether this machine has made and mounted the configuration of a run before, for a run that is done.
    ///
    /// # Errors
    ///
    /// Those of the database.
    fn was_made(&mut self, id: i64) -> Result<bool, StoreError>;

    /// Plans all runs again that failed or were skipped.
    ///
    /// # Errors
    ///
    /// Those of the database.
    fn retry(&mut self) -> Result<(), StoreError>;

    /// How far the study is.
    ///
    /// # Errors
    ///
    /// Those of the database.
    fn tally(&mut self) -> Result<Tally, StoreError>;
}

/// The run that a row stands for.
fn claimed(
    plan: &Plan,
    (id, configuration, workload, repeat): (i64, i64, String, i64),
) -> Result<Claimed, StoreError> {
    let workload = plan.workloads.iter().position(|one| one.name == workload);
    let configuration = usize::try_from(configuration - 1).ok();
    match (configuration, workload, u32::try_from(repeat)) {
        (Some(configuration), Some(workload), Ok(repeat)) => {
            Ok(Claimed { id, planned: Planned { configuration, workload, repeat } })
        }
        _ => Err(StoreError::OtherPlan(plan.name.clone())),
    }
}

/// At most `max` of them, the first and the last among them.
fn evenly(all: &[Extent], max: usize) -> impl Iterator<Item = &Extent> {
    let kept = all.len().min(max);
    (0..kept).map(move |at| &all[if kept < 2 { 0 } else { at * (all.len() - 1) / (kept - 1) }])
}
