//! A database as the reader sees it: rows of a query, each with columns of four kinds.

use rusqlite::types::FromSql;
use rusqlite::{Connection, OpenFlags, Row};

use super::ReadError;
use crate::study::store::{self, Address};

/// Where a study is read from.
pub(super) trait Source {
    /// A query that counts what goes by a table's name and is none: reading a view works out what its author likes.
    fn others_named(&self, table: &str) -> String;

    /// Visits the rows of a query.
    fn each(
        &mut self,
        query: &str,
        visit: &mut dyn FnMut(&dyn Fields) -> Result<(), ReadError>,
    ) -> Result<(), ReadError>;
}

/// One row; a column without a value is `None`.
pub(super) trait Fields {
    /// A count, or a place.
    fn int(&self, column: usize) -> Result<Option<i64>, ReadError>;
    /// A figure.
    fn real(&self, column: usize) -> Result<Option<f64>, ReadError>;
    /// Words.
    fn text(&self, column: usize) -> Result<Option<String>, ReadError>;
    /// Bytes.
    fn blob(&self, column: usize) -> Result<Option<&[u8]>, ReadError>;
}

/// A file, as it is now, whoever writes meanwhile.
pub(super) struct File(Connection);

impl File {
    pub(super) fn open(path: &std::path::Path) -> Result<Self, ReadError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        // Functions that a schema of others might call are not called.
        connection.execute_batch("PRAGMA trusted_schema = OFF; BEGIN")?;
        Ok(Self(connection))
    }
}

impl Source for File {
    fn others_named(&self, table: &str) -> String {
        format!(
            "SELECT count(*) FROM sqlite_master
             WHERE name = '{table}' COLLATE NOCASE AND (type <> 'table' OR sql LIKE 'CREATE VIRTUAL%')"
        )
    }

    fn each(
        &mut self,
        query: &str,
        visit: &mut dyn FnMut(&dyn Fields) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        let mut statement = self.0.prepare(query)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            visit(row)?;
        }
        Ok(())
    }
}

impl Fields for Row<'_> {
    fn int(&self, column: usize) -> Result<Option<i64>, ReadError> {
        of_file(self, column)
    }

    fn real(&self, column: usize) -> Result<Option<f64>, ReadError> {
        of_file(self, column)
    }

    fn text(&self, column: usize) -> Result<Option<String>, ReadError> {
        of_file(self, column)
    }

    fn blob(&self, column: usize) -> Result<Option<&[u8]>, ReadError> {
        Ok(self.get_ref(column)?.as_blob_or_null().map_err(rusqlite::Error::from)?)
    }
}

fn of_file<T: FromSql>(row: &Row<'_>, column: usize) -> Result<Option<T>, ReadError> {
    Ok(row.get(column)?)
}

/// A server's database, as it is now.
pub(super) struct Server(postgres::Client);

impl Server {
    pub(super) fn open(address: &Address) -> Result<Self, ReadError> {
        let mut client = address
            .connect()
            .map_err(|error: store::StoreError| ReadError::Unreachable(error.to_string()))?;
        client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
        Ok(Self(client))
    }
}

impl Source for Server {
    fn others_named(&self, table: &str) -> String {
        format!(
            "SELECT count(*) FROM pg_class WHERE oid = to_regclass('{table}') AND relkind NOT IN ('r', 'p')"
        )
    }

    fn each(
        &mut self,
        query: &str,
        visit: &mut dyn FnMut(&dyn Fields) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        use postgres::fallible_iterator::FallibleIterator;
        let mut rows = self.0.query_raw(query, std::iter::empty::<i64>())?;
        while let Some(row) = rows.next()? {
            visit(&row)?;
        }
        Ok(())
    }
}

impl Fields for postgres::Row {
    fn int(&self, column: usize) -> Result<Option<i64>, ReadError> {
        Ok(self.try_get(column)?)
    }

    fn real(&self, column: usize) -> Result<Option<f64>, ReadError> {
        Ok(self.try_get(column)?)
    }

    fn text(&self, column: usize) -> Result<Option<String>, ReadError> {
        Ok(self.try_get(column)?)
    }

    fn blob(&self, column: usize) -> Result<Option<&[u8]>, ReadError> {
        Ok(self.try_get(column)?)
    }
}
