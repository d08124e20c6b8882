//! What a database does here, and what is counted of it.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::beside::Neighbour;
use crate::etcd::Etcd;
use crate::postgres::Postgres;
use crate::process::{Need, missing};
use crate::sqlite::Sqlite;
use crate::{Args, Outcome};

/// A transaction that is durable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    /// When it ended, in seconds since 1970.
    pub(crate) at_s: f64,
    /// How long it took.
    pub(crate) took_s: f64,
}

/// What a load came to.
#[derive(Debug, Default)]
pub(crate) struct Load {
    pub(crate) done: Vec<Done>,
    /// Below which 99 of 100 syncs of its log stayed, where the database counts them itself.
    pub(crate) sync_p99_s: Option<f64>,
}

/// A database.
pub(crate) trait Database {
    /// As tables and folders call it.
    fn name(&self) -> &'static str;

    /// One of what is counted.
    fn unit(&self) -> &'static str;

    /// What it is measured beside, alone first.
    fn neighbours(&self) -> Vec<Neighbour> {
        vec![Neighbour::None, Neighbour::Stream, Neighbour::Removal]
    }

    /// Makes it in `folder`, which is not there yet.
    fn make(&self, folder: &Path, scratch: &Path) -> Outcome;

    /// Starts it. It ends when what this answers is dropped.
    fn start(&self, folder: &Path, scratch: &Path) -> Outcome<Box<dyn Running>>;
}

/// A database that runs.
pub(crate) trait Running: Sync {
    /// Its clients' work for so long.
    fn load(&self, seconds: f64) -> Outcome<Load>;

    /// Has it write home what it keeps in memory.
    fn checkpoint(&self) -> Outcome {
        Ok(())
    }
}

/// Those that are asked for and can be had; what is missing is told.
pub(crate) fn wanted(args: &Args) -> Outcome<Vec<Box<dyn Database>>> {
    let all: [(Box<dyn Database>, Option<String>); 3] = [
        (Box::new(Postgres::new(args.scale)), Postgres::missing()),
        (Box::new(Sqlite), None),
        (Box::new(Etcd), missing(&[Need { program: "etcd", package: "etcd-server" }])),
    ];
    let mut wanted = Vec::new();
    for (database, missing) in all {
        if !args.databases.is_empty() && !args.databases.iter().any(|name| name == database.name()) {
            continue;
        }
        match missing {
            None => wanted.push(database),
            Some(what) => eprintln!("{} is left out: {what}", database.name()),
        }
    }
    if wanted.is_empty() { Err("no database is left to measure".to_owned()) } else { Ok(wanted) }
}

/// Seconds since 1970.
pub(crate) fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
