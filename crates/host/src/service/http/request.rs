//! What a client asks for: the head of a request, and whether it is answered. No I/O.
//!
//! 1. Only GET and HEAD of a path are answered. A body is not read.
//! 2. A page of somewhere else whose name was made to lead here is not answered: a host is an address, `localhost`, or a
//!    name that was chosen. Who has no page to protect, as the metrics, is asked under any name.

use std::net::IpAddr;

/// Longest head of a request.
pub(super) const HEAD_MAX_BYTES: usize = 8 << 10;

/// Most lines of one.
const HEADERS_MAX: usize = 64;

/// By which names a server is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Hosts {
    /// By any.
    Any,
    /// By addresses, as `localhost`, and by these.
    Named(Vec<String>),
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    /// The path, as it came.
    pub(super) path: String,
    /// What stands behind its `?`.
    pub(super) query: String,
    /// Whether the client wants more than the head of the answer.
    pub(super) wants_body: bool,
}

/// Why nothing is answered but this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is no HTTP, or asks for no path.
    Malformed,
    /// It wants something done.
    Method,
    /// It is asked by a name that is not this server's.
    Host,
}

/// Whether no more is needed than `bytes` to answer: they hold all of a head, or what no head begins with. The parser
/// says so, for it takes other ends of lines than CR LF, too: who waits for that one end waits for ever.
pub(super) fn is_whole(bytes: &[u8]) -> bool {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    !matches!(httparse::Request::new(&mut headers).parse(bytes), Ok(httparse::Status::Partial))
}

impl Request {
    /// The request with this head.
    ///
    /// # Errors
    ///
    /// Where it is not to be answered.
    pub(super) fn parse(head: &[u8], hosts: &Hosts) -> Result<Self, Refusal> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut parsed = httparse::Request::new(&mut headers);
        match parsed.parse(head) {
            Ok(httparse::Status::Complete(_)) => {}
            _ => return Err(Refusal::Malformed),
        }
        let (Some(method), Some(target), Some(version)) = (parsed.method, parsed.path, parsed.version) else {
            return Err(Refusal::Malformed);
        };
        let mut named = parsed.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("host"));
        let host = match (named.next(), named.next()) {
            (Some(host), None) => Some(host.value),
            // Before HTTP/1.1 nobody had to; browsers always do.
            (None, _) if version == 0 || *hosts == Hosts::Any => None,
            _ => return Err(Refusal::Malformed),
        };
        if !host.is_none_or(|host| hosts.have(host)) {
            return Err(Refusal::Host);
        }
        let wants_body = match method {
            "GET" => true,
            "HEAD" => false,
            _ => return Err(Refusal::Method),
        };
        if !target.starts_with('/') {
            return Err(Refusal::Malformed);
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Ok(Self { path: path.to_owned(), query: query.to_owned(), wants_body })
    }

    /// A number of the query, by its name; `None` where it is none.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        let parts = self.query.split('&').filter_map(|part| part.split_once('='));
        parts.filter(|(of, _)| *of == name).find_map(|(_, value)| value.parse().ok())
    }
}

impl Hosts {
    /// Whether a server is asked by what `Host` says.
    fn have(&self, host: &[u8]) -> bool {
        let Self::Named(names) = self else { return true };
        let Some(name) = std::str::from_utf8(host).ok().and_then(without_port) else { return false };
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        match bare {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => {
                matches!(name.parse(), Ok(IpAddr::V4(_)))
                    || name.eq_ignore_ascii_case("localhost")
                    || names.iter().any(|of| of.eq_ignore_ascii_case(name))
            }
        }
    }
}

/// The name of `name:port` or `name`; `None` for what is neither.
fn without_port(host: &str) -> Option<&str> {
    let at = host.rfind(']').map_or(0, |end| end + 1);
    match host[at..].find(':') {
        None => Some(host),
        Some(colon) => {
            let (name, port) = host.split_at(at + colon);
            port[1..].bytes().all(|digit| digit.is_ascii_digit()).then_some(name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn here() -> Hosts {
        Hosts::Named(vec!["board.lan".to_owned()])
    }

    fn asked(method: &str, target: &str, host: &str) -> Result<Request, Refusal> {
        let head = format!("{method} {target} HTTP/1.1\r\nUser-Agent: x\r\nHost: {host}\r\n\r\n");
        Request::parse(head.as_bytes(), &here())
    }

    #[test]
    fn a_path_and_its_query_are_taken_as_they_came() {
        let request = asked("GET", "/history.json?after=17&x=y", "127.0.0.1:9101").unwrap();
        assert_eq!(
            (request.path.as_str(), request.number("after"), request.wants_body),
            ("/history.json", Some(17), true)
        );
        assert_eq!((request.number("x"), request.number("before")), (None, None));
        assert!(!asked("HEAD", "/", "localhost").unwrap().wants_body);
        assert_eq!(
            asked("GET", "/../etc/passwd", "localhost").unwrap().path,
            "/../etc/passwd",
            "it is no file's"
        );
    }

    #[test]
    fn a_page_of_another_name_is_not_answered_and_an_address_is() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:9101",
            "localhost:1",
            "LOCALHOST",
            "[::1]",
            "[::1]:80",
            "192.168.0.7:80",
            "Board.Lan:80",
        ] {
            assert!(asked("GET", "/", host).is_ok(), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:80",
            "board.lan.evil.example",
            "127.0.0.1:80:evil",
            "127.0.0.1@evil",
            "[::1",
            "[evil]:80",
            "::1",
            "",
            ":80",
        ] {
            assert_eq!(asked("GET", "/", host), Err(Refusal::Host), "{host}");
        }
    }

    #[test]
    fn without_a_host_only_old_clients_are_answered_and_with_two_nobody() {
        let of =
            |head: &str, hosts: &Hosts| Request::parse(head.as_bytes(), hosts).map(|request| request.path);
        assert_eq!(of("GET / HTTP/1.0\r\n\r\n", &here()), Ok("/".to_owned()));
        assert_eq!(of("GET / HTTP/1.1\r\n\r\n", &here()), Err(Refusal::Malformed));
        assert_eq!(of("GET / HTTP/1.1\r\n\r\n", &Hosts::Any), Ok("/".to_owned()));
        let two = "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n";
        assert_eq!(of(two, &here()), Err(Refusal::Malformed));
    }

    #[test]
    fn a_head_is_waited_for_to_its_end_however_its_lines_end() {
        for end in ["\r\n\r\n", "\n\n", "\n\r\n", "\r\n\n"] {
            let head = format!("GET / HTTP/1.1\r\nHost: 127.0.0.1{end}");
            let whole = (0..=head.len()).filter(|&len| is_whole(&head.as_bytes()[..len]));
            assert_eq!(whole.collect::<Vec<_>>(), [head.len()], "{end:?}");
            assert!(Request::parse(head.as_bytes(), &here()).is_ok(), "{end:?}");
        }
        assert!(is_whole(b"GET / \0"), "what is no head is refused at once");
    }

    #[test]
    fn nothing_is_done_for_a_client_but_to_tell_it_something() {
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "get"] {
            assert_eq!(asked(method, "/", "localhost"), Err(Refusal::Method), "{method}");
        }
        for target in ["*", "http://localhost/", "localhost:80", "?x"] {
            assert_eq!(asked("GET", target, "localhost"), Err(Refusal::Malformed), "{target}");
        }
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "Host: localhost\r\n".repeat(HEADERS_MAX + 1));
        assert_eq!(Request::parse(many.as_bytes(), &here()), Err(Refusal::Malformed));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_request_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..HEAD_MAX_BYTES)) {
            let _either_is_fine = Request::parse(&bytes, &here());
        }

        #[test]
        fn what_is_nearly_a_request_is_answered_only_here(
            method in "GET|HEAD|POST|G ET", target in "[ -~]{0,40}", host in "[ -~\\x80-\\xff]{0,40}", end in "(\r\n){0,3}",
        ) {
            let head = format!("{method} {target} HTTP/1.1\r\nHost: {host}{end}");
            if let Ok(request) = Request::parse(head.as_bytes(), &here()) {
                prop_assert!(request.path.starts_with('/') && !request.path.contains('?'));
                let name = without_port(host.trim()).unwrap();
                let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
                prop_assert!(is_address || ["localhost", "board.lan"].contains(&name.to_ascii_lowercase().as_str()));
            }
        }
    }
}
