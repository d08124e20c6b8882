//! How drives, exports and addresses are typed.

use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::{OsStringValueParser, TypedValueParser};
use evenkeel_host::volume::member::Place;

/// A path, also one that is not UTF-8, or the URI of an export.
pub(super) fn place() -> impl TypedValueParser<Value = Place> {
    OsStringValueParser::new().try_map(|text| match text.to_str() {
        Some(text) => text.parse(),
        None => Ok(PathBuf::from(text).into()),
    })
}

/// What is promised of sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AtomicSectorsArg {
    /// Yes for NVMe, which promises it, else no
    Auto,
    /// Yes
    Yes,
    /// No: each page's image is logged before the page is overwritten
    No,
}

impl AtomicSectorsArg {
    /// What was said, if anything was.
    pub(crate) fn said(self) -> Option<bool> {
        match self {
            Self::Auto => None,
            Self::Yes => Some(true),
            Self::No => Some(false),
        }
    }
}

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NbdArg {
    /// A Unix socket.
    Unix(PathBuf),
    /// `HOST:PORT`.
    Tcp(String),
}

/// A host and a port, as the system takes them.
pub(super) fn parse_host_port(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(text.to_owned()),
        _ => Err("HOST:PORT is wanted, such as 127.0.0.1:9100 or [::1]:9100".to_owned()),
    }
}

/// A socket or an address at which clients connect.
pub(super) fn parse_nbd(text: &str) -> Result<NbdArg, String> {
    match text.split_once(':') {
        Some(("unix", path)) if !path.is_empty() => Ok(NbdArg::Unix(path.into())),
        Some(("tcp", address)) => {
            parse_host_port(address).map(NbdArg::Tcp).map_err(|why| format!("tcp:{why}"))
        }
        _ => Err(format!("`{text}` is neither unix:SOCKET nor tcp:HOST:PORT")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_their_kind() {
        assert_eq!(parse_nbd("unix:a:b"), Ok(NbdArg::Unix("a:b".into())));
        assert_eq!(parse_nbd("tcp:[::1]:10809"), Ok(NbdArg::Tcp("[::1]:10809".to_owned())));
        for wrong in ["", "unix:", "tcp:host", "tcp:host:http", "tcp::1", "/a/b", "udp:1:2"] {
            assert!(parse_nbd(wrong).is_err(), "{wrong}");
        }
    }
}
