//! Scrapes of a server's metrics.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::served::Server;

/// Asks `address` for `path` over HTTP; answers head and body.
pub(crate) fn scrape(address: &str, path: &str) -> (String, String) {
    ask("GET", address, path)
}

/// The same with another method.
pub(crate) fn ask(method: &str, address: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// The value of a metric, with its labels.
#[track_caller]
pub(crate) fn metric(body: &str, name: &str) -> f64 {
    let line = body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {body}")).parse().unwrap()
}

/// Where a server that was told `--metrics 127.0.0.1:0` has them.
#[track_caller]
pub(crate) fn address(server: &Server) -> String {
    server.told("metrics: http://").trim_end_matches("/metrics").to_owned()
}
