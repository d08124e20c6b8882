//! What is answered, as bytes. No I/O.
//!
//! 1. A page is shown nowhere but in a window of its own, loads nothing from elsewhere, and sends nothing.
//! 2. No answer is kept by anybody, and none is taken for what it is not.

use super::request::Refusal;
use crate::remedy::{Advise, Remedy, advised};

/// What a browser may do with what it gets here.
const HEADERS: &str = "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
    Cross-Origin-Opener-Policy: same-origin\r\n\
    Cross-Origin-Resource-Policy: same-origin\r\n\
    X-Content-Type-Options: nosniff\r\n\
    X-Frame-Options: DENY\r\n\
    Referrer-Policy: no-referrer\r\n\
    Cache-Control: no-store\r\n\
    Connection: close\r\n";

pub(super) const TEXT: &str = "text/plain; charset=utf-8";
pub(super) const METRICS: &str = "text/plain; version=0.0.4";
pub(super) const JSON: &str = "application/json";

/// An answer, but for the client's wish to see its head alone.
#[derive(Debug)]
pub(super) struct Answer {
    status: &'static str,
    content_type: &'static str,
    body: Vec<u8>,
}

impl Answer {
    pub(super) fn found(content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status: "200 OK", content_type, body: body.into() }
    }

    /// There is nothing at that path, but there is at those.
    pub(super) fn nothing(what_there_is: &str) -> Self {
        Self { status: "404 Not Found", content_type: TEXT, body: format!("{what_there_is}\n").into_bytes() }
    }

    /// The volume's loop says nothing.
    pub(super) fn busy() -> Self {
        Self::brief(
            "503 Service Unavailable",
            "the server of the volume does not answer; look whether it hangs",
        )
    }

    /// The head is longer than any that is read.
    pub(super) fn too_long() -> Self {
        Self::brief("431 Request Header Fields Too Large", "the head of the request is longer than 8 KiB")
    }

    pub(super) fn refused(why: Refusal, advise: Advise) -> Self {
        match why {
            Refusal::Malformed => Self::brief("400 Bad Request", "this is no request for a path over HTTP/1"),
            Refusal::Method => {
                Self::brief("405 Method Not Allowed", "nothing is changed here: GET and HEAD are answered")
            }
            Refusal::Host => {
                let why = "asked by a name that may be somebody else's: ask by an address".to_owned();
                Self::brief("421 Misdirected Request", &advised(why, advise, &Remedy::NamePage))
            }
        }
    }

    fn brief(status: &'static str, why: &str) -> Self {
        Self { status, content_type: TEXT, body: format!("{why}\n").into_bytes() }
    }

    /// As it is sent.
    pub(super) fn into_bytes(self, wants_body: bool) -> Vec<u8> {
        let Self { status, content_type, body } = self;
        let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let len = body.len();
        let mut bytes = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len}\r\n{allow}{HEADERS}\r\n"
        )
        .into_bytes();
        if wants_body {
            bytes.extend(body);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_a_head_of_lines_and_its_body_where_it_is_wanted() {
        for wants_body in [true, false] {
            let text = String::from_utf8(Answer::found(JSON, "{}\n").into_bytes(wants_body)).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(
                head.starts_with(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 3\r\n"
                )
            );
            assert!(head.lines().skip(1).all(|line| line.contains(": ") && !line.starts_with(' ')), "{head}");
            assert_eq!(body, if wants_body { "{}\n" } else { "" });
        }
        let refused = String::from_utf8(Answer::refused(Refusal::Method, |_| None).into_bytes(true)).unwrap();
        assert!(refused.contains("\r\nAllow: GET, HEAD\r\n"), "{refused}");
    }
}
