//! URIs of exports, as [`doc/uri.md`](https://github.com/NetworkBlockDevice/nbd/blob/master/doc/uri.md) has them.
//!
//! ```text
//! nbd://HOST[:PORT]/EXPORT              nbds:// with TLS
//! nbd+unix:///EXPORT?socket=PATH        nbds+unix:// with TLS
//! ```
//!
//! With TLS, `tls-certificates=FOLDER` says where the certificates are ([`super::tls`]) and `tls-hostname=NAME` what the
//! server's certificate is made out to, where that is not the host. What is not known here is refused: nobody shall
//! take it for heard.

use std::fmt::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::proto::STRING_MAX_BYTES;
use crate::net::Place;

/// The port where servers listen unless told otherwise.
const DEFAULT_PORT: u16 = 10809;

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server {
    /// `HOST:PORT`.
    Tcp(String),
    /// A Unix socket.
    Unix(PathBuf),
}

/// The certificates of a client, and the name of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificates {
    /// The folder.
    pub folder: PathBuf,
    /// The name that the certificate of the server has to have.
    pub server_name: String,
}

/// An export of a server. Its text is kept as it was given.
#[derive(Debug, Clone)]
pub struct NbdUri {
    text: String,
    /// The server that has it.
    pub server: Server,
    /// Its name there; the empty one is whatever the server has.
    pub export: String,
    /// TLS, if it is to be.
    pub tls: Option<Certificates>,
}

impl PartialEq for NbdUri {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for NbdUri {}

impl NbdUri {
    /// Whether `text` is meant as one, rightly written or not.
    pub fn is_meant(text: &str) -> bool {
        text.split_once("://").is_some_and(|(scheme, _)| parse_scheme(scheme).is_some())
    }

    /// The text as it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for NbdUri {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

/// Whether it is over a Unix socket, and whether with TLS.
fn parse_scheme(scheme: &str) -> Option<(bool, bool)> {
    match scheme {
        "nbd" => Some((false, false)),
        "nbds" => Some((false, true)),
        "nbd+unix" => Some((true, false)),
        "nbds+unix" => Some((true, true)),
        _ => None,
    }
}

impl FromStr for NbdUri {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = |why: &str| Err(format!("`{text}`: {why}"));
        let Some((scheme, rest)) = text.split_once("://") else {
            return refused("no URI such as nbd://host/name");
        };
        let Some((is_unix, has_tls)) = parse_scheme(scheme) else {
            return refused("the scheme is none of nbd, nbds, nbd+unix and nbds+unix");
        };
        if text.contains(|letter: char| letter.is_control() || letter.is_whitespace() || letter == '#') {
            return refused("blanks and # are written as %20 and %23");
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = place.split_once('/').unwrap_or((place, ""));
        let export = decode(path)?;
        if export.len() > STRING_MAX_BYTES {
            return refused("the name of the export is too long");
        }
        let (mut socket, mut folder, mut name) = (None, None, None);
        for word in query.split('&').filter(|word| !word.is_empty()) {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let known = match key {
                "socket" if is_unix => &mut socket,
                "tls-certificates" if has_tls => &mut folder,
                "tls-hostname" if has_tls => &mut name,
                _ => return refused(&format!("`{key}` says nothing here")),
            };
            if value.is_empty() || known.replace(decode(value)?).is_some() {
                return refused(&format!("`{key}` has one value"));
            }
        }
        let (server, host) = match (is_unix, socket) {
            (true, Some(socket)) if authority.is_empty() => {
                (Server::Unix(socket.into()), "localhost".to_owned())
            }
            (true, Some(_)) => return refused("a Unix socket has no host: nbd+unix:///name?socket=PATH"),
            (true, None) => return refused("it lacks the socket: nbd+unix:///name?socket=PATH"),
            (false, _) => match parse_authority(authority) {
                Some((host, port)) => (Server::Tcp(format!("{host}:{port}")), bare(host).to_owned()),
                None => return refused("what follows nbd:// is no HOST or HOST:PORT"),
            },
        };
        let tls = match (has_tls, folder) {
            (false, _) => None,
            (true, Some(folder)) => {
                Some(Certificates { folder: folder.into(), server_name: name.unwrap_or(host) })
            }
            (true, None) => return refused("it lacks the certificates: ?tls-certificates=FOLDER"),
        };
        Ok(Self { text: text.to_owned(), server, export, tls })
    }
}

/// Host, in brackets where it has colons, and port.
fn parse_authority(authority: &str) -> Option<(&str, u16)> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
        _ => (authority, DEFAULT_PORT),
    };
    let is_one = match host.strip_prefix('[') {
        Some(rest) => rest.len() > 1 && rest.find(']') == Some(rest.len() - 1),
        None => !host.is_empty() && !host.contains([':', '@', '[', ']', '%']),
    };
    is_one.then_some((host, port))
}

fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// The URI of whatever a server has that listens at `place`, as clients on this machine write it.
pub fn of_place(place: &Place, has_tls: bool) -> String {
    match place {
        Place::Unix(path) => of_unix_socket(path, has_tls),
        Place::Tcp(address) if has_tls => format!("nbds://{address}"),
        Place::Tcp(address) => format!("nbd://{address}"),
    }
}

fn of_unix_socket(path: &Path, has_tls: bool) -> String {
    let scheme = if has_tls { "nbds+unix" } else { "nbd+unix" };
    format!("{scheme}:///?socket={}", encode(path.as_os_str().as_bytes()))
}

/// Writes what means something in a URI, and what is no letter, as `%2F` and its like; [`decode`] undoes it.
fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                text.push(char::from(byte));
            }
            _ => write!(text, "%{byte:02X}").expect("a string takes all"),
        }
    }
    text
}

/// Takes `%2F` and its like for what they stand for.
fn decode(text: &str) -> Result<String, String> {
    let wrong = || format!("`{text}`: a % is followed by two digits, and all of it is UTF-8");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else { return Err(wrong()) };
        bytes.push((high * 16 + low) as u8);
    }
    match String::from_utf8(bytes) {
        Ok(decoded) if !decoded.contains('\0') => Ok(decoded),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> NbdUri {
        text.parse().unwrap_or_else(|why| panic!("{why}"))
    }

    #[test]
    fn hosts_have_ports_and_exports() {
        for (text, server, export) in [
            ("nbd://host", "host:10809", ""),
            ("nbd://host/", "host:10809", ""),
            ("nbd://host:7/a/b", "host:7", "a/b"),
            ("nbd://[::1]/name%20of%2fit", "[::1]:10809", "name of/it"),
            ("nbd://[::1]:9/x", "[::1]:9", "x"),
        ] {
            let uri = parsed(text);
            assert_eq!(
                (uri.server, uri.export.as_str(), uri.tls),
                (Server::Tcp(server.into()), export, None)
            );
        }
    }

    #[test]
    fn sockets_and_certificates_are_paths() {
        let uri = parsed("nbd+unix:///name?socket=/run/a%3Fb.sock");
        assert_eq!((uri.server, uri.export.as_str()), (Server::Unix("/run/a?b.sock".into()), "name"));
        let tls = |text| parsed(text).tls.map(|tls| (tls.folder, tls.server_name));
        assert_eq!(tls("nbds://[::2]/?tls-certificates=/c"), Some(("/c".into(), "::2".into())));
        assert_eq!(
            tls("nbds+unix:///?socket=s&tls-certificates=/c&tls-hostname=disk"),
            Some(("/c".into(), "disk".into()))
        );
        assert_eq!(
            tls("nbds+unix:///?socket=s&tls-certificates=/c"),
            Some(("/c".into(), "localhost".into()))
        );
    }

    #[test]
    fn a_socket_of_any_name_has_a_uri_that_leads_back_to_it() {
        for path in ["/run/disk.sock", "/a b/?c&d=e#f%41/ü/+;'\"", "/new\nline"] {
            for has_tls in [false, true] {
                let mut text = of_unix_socket(Path::new(path), has_tls);
                if has_tls {
                    text.push_str("&tls-certificates=/c");
                }
                let uri = parsed(&text);
                assert_eq!((uri.server, uri.tls.is_some()), (Server::Unix(path.into()), has_tls), "{text}");
            }
        }
        assert_eq!(of_unix_socket(Path::new("/a b?&"), false), "nbd+unix:///?socket=/a%20b%3F%26");
    }

    #[test]
    fn what_is_wrong_is_refused_and_never_taken_for_a_path() {
        for wrong in [
            "nbd://",
            "nbd:///name",
            "nbd://:7/name",
            "nbd://host:70000",
            "nbd://a:b:7/",
            "nbd://[::1",
            "nbd://me@host/",
            "nbd://host/%4",
            "nbd://host/%ff",
            "nbd://host/%00",
            "nbd://host/a b",
            "nbd://host/#a",
            "nbd://host/?socket=/s",
            "nbd://host/?export=a",
            "nbd+unix:///",
            "nbd+unix://host/?socket=/s",
            "nbd+unix:///?socket=",
            "nbd+unix:///?socket=/s&socket=/t",
            "nbds://host/",
            "nbds+unix:///?socket=/s",
        ] {
            assert!(wrong.parse::<NbdUri>().is_err(), "{wrong}");
            assert!(NbdUri::is_meant(wrong), "{wrong}");
        }
        assert!(format!("nbd://host/{}", "a".repeat(4097)).parse::<NbdUri>().is_err());
        for path in ["/dev/sdx", "nbd", "nbd:/a", "a/nbd+unix", "http://host", "./nbd://host"] {
            assert!(!NbdUri::is_meant(path), "{path}");
        }
    }
}
