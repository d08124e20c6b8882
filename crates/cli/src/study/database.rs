//! Where the results of a study go: a file in its folder, or a server that several machines share.

use std::fmt;
use std::path::PathBuf;

use evenkeel_host::conditions::Machine;
use evenkeel_host::interrupt::Interrupt;
use evenkeel_measure::study::plan::Plan;
use evenkeel_measure::study::plan::space::Configuration;
use evenkeel_measure::study::schedule;
use evenkeel_measure::study::store::{
    Address, Begun, DATABASE, PostgresStore, Seat, SqliteStore, Store, StoreError,
};

use super::address;
use crate::args::StudyRunArgs;
use crate::failure::Failure;

/// Names of machines are no longer than those of hosts.
const NAME_BYTES_MAX: usize = 253;

/// A database.
pub(super) enum Place {
    /// A file.
    File(PathBuf),
    /// A server's.
    Server(Address),
}

impl Place {
    /// The one that the arguments name.
    pub(super) fn of(args: &StudyRunArgs) -> Result<Self, Failure> {
        if let Some(text) = &args.db {
            return address(text).map(Self::Server);
        }
        let path = args.out.join(DATABASE);
        let is_begun = SqliteStore::is_begun(&path);
        if !args.resume && is_begun.as_ref().is_ok_and(|is_begun| *is_begun) {
            let what = "there are results; go on with them by --resume, or name another folder with --out";
            return Err(Failure::about(&path, what));
        }
        if args.resume && is_begun.is_ok_and(|is_begun| !is_begun) {
            let what = "no study was begun there; name its folder with --out, or leave out --resume";
            return Err(Failure::about(&path, what));
        }
        Ok(Self::File(path))
    }

    /// A command that asks it something.
    pub(super) fn query(&self, query: &str) -> String {
        match self {
            Self::File(path) => format!("sqlite3 {} \"{query}\"", path.display()),
            Self::Server(address) => format!("psql {address} -c \"{query}\""),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(out, "{}", path.display()),
            Self::Server(address) => write!(out, "{address}"),
        }
    }
}

/// Begins a study there, or goes on with it.
pub(super) fn open(
    place: &Place,
    args: &StudyRunArgs,
    plan: &Plan,
    configurations: &[Configuration],
    interrupt: &Interrupt,
) -> Result<Box<dyn Store>, Failure> {
    let mut machine = Machine::this();
    if let Some(name) = &args.machine {
        machine.name.clone_from(name);
    }
    let is_fit = |name: &str| !name.trim().is_empty() && !name.chars().any(char::is_control);
    if machine.name.len() > NAME_BYTES_MAX || !is_fit(&machine.name) {
        let what = "--machine: a name has a letter at least, 253 at most, and no control characters";
        return Err(Failure::Unusable(what.to_owned()));
    }
    let order = schedule::order(configurations.len(), plan.workloads.len(), plan.runs, plan.seed);
    let begun = Begun { plan, configurations, order: &order };
    let mut store = match place {
        Place::File(path) => match SqliteStore::is_begun(path) {
            Ok(true) => boxed(SqliteStore::resume(path, &begun, &machine)),
            Ok(false) => boxed(SqliteStore::create(path, &begun, &machine)),
            Err(error) => Err(error),
        },
        Place::Server(address) => {
            let seat = Seat { machine: &machine, lease: args.lease, interrupt };
            boxed(PostgresStore::join(address, &begun, &seat))
        }
    }
    .map_err(|error| Failure::Unusable(format!("{place}: {error}")))?;
    if args.retry_failed {
        store.retry().map_err(|error| Failure::Unusable(format!("{place}: {error}")))?;
    }
    Ok(store)
}

fn boxed(store: Result<impl Store + 'static, StoreError>) -> Result<Box<dyn Store>, StoreError> {
    store.map(|store| Box::new(store) as Box<dyn Store>)
}
