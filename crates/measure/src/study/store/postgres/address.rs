//! Where a PostgreSQL database is, and how to get in. Nothing here shows a password.

use std::sync::mpsc;
use std::time::Duration;
use std::{fmt, thread};

use postgres::config::{Host, SslMode};
use postgres::{Client, Config, NoTls};

use super::super::StoreError;

/// How long a server may take to answer the door, where the address says nothing of it.
const CONNECT_TIME: Duration = Duration::from_secs(15);
/// A server that is silent for so long is gone.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// The environment's password, as PostgreSQL's own programs take it.
const PASSWORD_VARIABLE: &str = "PGPASSWORD";

/// What is wrong with an address. It is not repeated: a password may be in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// None at all.
    #[error(
        "not an address such as postgres://user@host/database (of a password in it, @ is written %40, / %2F)"
    )]
    NotOne,
    /// It asks for TLS.
    #[error(
        "connections to PostgreSQL are not encrypted: leave sslmode out, and let a tunnel of ssh or WireGuard do it"
    )]
    Encrypted,
}

/// The address of a database.
#[derive(Clone)]
pub struct Address {
    config: Box<Config>,
}

impl Address {
    /// Takes one from its text, `postgres://user:password@host:port/database`; without a password, that of the variable
    /// `PGPASSWORD`.
    ///
    /// # Errors
    ///
    /// [`AddressError`].
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        if !["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme)) {
            return Err(AddressError::NotOne);
        }
        let mut config: Box<Config> = text.parse().map(Box::new).map_err(|_| AddressError::NotOne)?;
        // An @ that belongs to a password makes its rest a host's name, or a database's.
        if config.get_hosts().is_empty() || text.matches('@').count() > 1 {
            return Err(AddressError::NotOne);
        }
        if config.get_ssl_mode() == SslMode::Require {
            return Err(AddressError::Encrypted);
        }
        if config.get_password().is_none()
            && let Some(password) = std::env::var_os(PASSWORD_VARIABLE)
        {
            config.password(password.as_encoded_bytes());
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIME);
        }
        config.tcp_user_timeout(SILENCE_MAX).keepalives_idle(SILENCE_MAX / 2);
        config.application_name("evenkeel");
        Ok(Self { config })
    }

    /// Goes there.
    ///
    /// # Errors
    ///
    /// Where nobody answers, or does not let us in.
    pub(in crate::study) fn connect(&self) -> Result<Client, StoreError> {
        // The time to connect ends once somebody opens the door; what does not speak PostgreSQL may say nothing then.
        let time = self.config.get_connect_timeout().map_or(CONNECT_TIME, |time| *time) * 2;
        let (config, (answer, answered)) = (self.config.clone(), mpsc::channel());
        let connect = move || drop(answer.send(config.connect(NoTls)));
        let thread = thread::Builder::new().name("connect".to_owned()).spawn(connect);
        thread.map_err(|error| StoreError::Postgres(format!("no thread to be had: {error}")))?;
        match answered.recv_timeout(time) {
            Ok(client) => Ok(client?),
            Err(_) => Err(StoreError::Postgres(format!("no answer of a server within {} s", time.as_secs()))),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("postgres://")?;
        if let Some(user) = self.config.get_user() {
            write!(out, "{user}@")?;
        }
        for (at, host) in self.config.get_hosts().iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match host {
                Host::Tcp(name) => write!(out, "{comma}{name}")?,
                Host::Unix(path) => write!(out, "{comma}{}", path.display().to_string().replace('/', "%2F"))?,
            }
            // One for all hosts, or one each.
            let ports = self.config.get_ports();
            if let Some(port) = ports.get(at).or(ports.first()) {
                write!(out, ":{port}")?;
            }
        }
        if let Some(name) = self.config.get_dbname() {
            write!(out, "/{name}")?;
        }
        match self.config.get_options() {
            Some(options) => write!(out, "?options={}", in_an_address(options)),
            None => Ok(()),
        }
    }
}

/// What an address takes for itself, with all else percent-encoded.
fn in_an_address(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encoded = text.bytes().map(|byte| match is_plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    encoded.collect()
}

impl fmt::Debug for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Address({self})")
    }
}

impl From<postgres::Error> for StoreError {
    fn from(error: postgres::Error) -> Self {
        Self::Postgres(in_a_line(&error))
    }
}

/// What went wrong, and why, in one line.
pub(in crate::study) fn in_a_line(error: &postgres::Error) -> String {
    use std::error::Error;
    if let Some(said) = error.as_db_error() {
        return said.message().replace('\n', " ");
    }
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(why) = cause {
        line += &format!(": {why}");
        cause = why.source();
    }
    line.replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_password() {
        let address = Address::parse("postgres://me:s3cret%40@db.example:5433/studies").unwrap();
        assert_eq!(address.to_string(), "postgres://me@db.example:5433/studies");
        assert!(!format!("{address:?}").contains("s3cret"));
        assert_eq!(address.config.get_password(), Some(&b"s3cret@"[..]));
        let kept = "postgres://me@db:5432/studies?options=-c%20search_path%3Dlab";
        assert_eq!(Address::parse(kept).unwrap().to_string(), kept, "psql takes it as it is shown");
        let local = Address::parse("postgresql://me@%2Frun%2Fpostgresql/studies").unwrap();
        assert_eq!(local.to_string(), "postgres://me@%2Frun%2Fpostgresql:5432/studies");
    }

    #[test]
    fn what_takes_a_connection_and_says_nothing_is_no_server() {
        let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = mute.local_addr().unwrap().port();
        let address =
            Address::parse(&format!("postgres://me@127.0.0.1:{port}/db?connect_timeout=1")).unwrap();
        let said = address.connect().err().expect("nobody answers").to_string();
        assert!(said.contains("no answer of a server"), "{said}");
    }

    #[test]
    fn what_is_no_address_is_refused_without_being_repeated() {
        for text in [
            "s3cret",
            "mysql://me:s3cret@host/db",
            "host=db password=s3cret",
            "postgres://me:s3cret@host:port/db",
            "postgres://me:p@s3cret/db@host/db",
            "postgres://me@host/db?s3cret=1",
            "postgres:///db",
        ] {
            let error = Address::parse(text).expect_err(text);
            assert_eq!(error, AddressError::NotOne, "{text}");
            assert!(!error.to_string().contains("s3cret"));
        }
        let encrypted = Address::parse("postgres://me@host/db?sslmode=require");
        assert_eq!(encrypted.unwrap_err(), AddressError::Encrypted);
    }
}
