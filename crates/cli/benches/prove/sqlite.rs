//! SQLite: rows that are inserted one after the other, each a transaction of its own.

use std::path::{Path, PathBuf};
use std::time::Instant;

use rusqlite::Connection;

use crate::Outcome;
use crate::database::{Database, Done, Load, Running, now_s};

/// Bytes of a row.
const ROW_BYTES: usize = 100;

/// SQLite with a write-ahead log, which is synced at each commit.
#[derive(Debug)]
pub(crate) struct Sqlite;

struct File(PathBuf);

impl Database for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn unit(&self) -> &'static str {
        "SQLite: inserts of 100 bytes, one writer, `journal_mode=WAL`, `synchronous=FULL`"
    }

    fn make(&self, folder: &Path, _scratch: &Path) -> Outcome {
        std::fs::create_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let connection = open(&folder.join("file.db"))?;
        connection.execute_batch("create table rows (id integer primary key, bytes blob)").map_err(said)
    }

    fn start(&self, folder: &Path, _scratch: &Path) -> Outcome<Box<dyn Running>> {
        Ok(Box::new(File(folder.join("file.db"))))
    }
}

impl Running for File {
    fn load(&self, seconds: f64) -> Outcome<Load> {
        let connection = open(&self.0)?;
        let mut insert = connection.prepare("insert into rows (bytes) values (?1)").map_err(said)?;
        let mut row = [0x3c; ROW_BYTES];
        let (began, mut done) = (Instant::now(), Vec::new());
        while began.elapsed().as_secs_f64() < seconds {
            // No two rows are equal, so that nothing can leave one out.
            row[..8].copy_from_slice(&(done.len() as u64).to_le_bytes());
            let at = Instant::now();
            insert.execute([&row[..]]).map_err(said)?;
            done.push(Done { at_s: now_s(), took_s: at.elapsed().as_secs_f64() });
        }
        Ok(Load { done, sync_p99_s: None })
    }
}

fn open(file: &Path) -> Outcome<Connection> {
    let connection = Connection::open(file).map_err(said)?;
    let mode =
        connection.query_row("pragma journal_mode=WAL", [], |row| row.get::<_, String>(0)).map_err(said)?;
    if mode != "wal" {
        return Err(format!("SQLite: {}: no write-ahead log, but {mode}", file.display()));
    }
    connection.execute_batch("pragma synchronous=FULL").map_err(said)?;
    Ok(connection)
}

fn said(error: rusqlite::Error) -> String {
    format!("SQLite: {error}")
}
