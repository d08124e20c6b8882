//! The status over HTTP: what is answered, to whom, and that nobody keeps others from it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use evenkeel_host::service::http::history::{History, SAMPLES_MAX};
use evenkeel_host::service::status::Status;
use serde_json::Value;

use crate::support::load::{contents, write};
use crate::support::metrics::{ask, metric, scrape};
use crate::support::served::{Server, Volume, noise, patiently};
use crate::support::{Scene, says};

const FLAGS: &str = "--size 32m --log-size 16m --buffer 4m";

/// Where a server that was told `--http 127.0.0.1:0` has its page.
fn page(server: &Server) -> String {
    server.told("page: http://").trim_end_matches('/').to_owned()
}

/// Sends these bytes; what comes back.
fn answer_to(address: &str, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    // Who sends too much is answered before all of it is there.
    let _may_be_cut_off = stream.write_all(bytes);
    let _may_be_gone = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _may_be_cut_off = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

/// A document without what goes on by itself.
fn at_rest(text: &str) -> Value {
    fn without(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, _| {
                    !["uptime_s", "last_ago_s", "ago_s", "ended_ago_s"].contains(&name.as_str())
                });
                fields.values_mut().for_each(without);
            }
            Value::Array(values) => values.iter_mut().for_each(without),
            _ => {}
        }
    }
    let mut document = serde_json::from_str(text).unwrap();
    without(&mut document);
    document
}

#[test]
fn documents_and_metrics_are_those_of_status_and_of_metrics() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve("--http 127.0.0.1:0 --metrics 127.0.0.1:0");
    let (http, metrics) = (page(&server), crate::support::metrics::address(&server));
    write(&volume.socket(), 0, &noise(1, 1 << 20));
    assert!(contents(&volume.socket())[..1 << 20] == noise(1, 1 << 20));
    patiently("that all is quiet", || {
        let (head, body) = scrape(&http, "/status.json");
        says(&head, &["HTTP/1.1 200 OK", "Content-Type: application/json"]);
        (at_rest(&body) == at_rest(&scene.done("status disk --json").stdout)).then_some(())
    });
    let (head, body) = scrape(&http, "/metrics");
    says(&head, &["200 OK", "Content-Type: text/plain; version=0.0.4"]);
    let but_time = |body: &str| -> Vec<String> {
        body.lines().filter(|line| !line.starts_with("evenkeel_uptime_seconds ")).map(str::to_owned).collect()
    };
    assert_eq!(but_time(&body), but_time(&scrape(&metrics, "/metrics").1));
    let writes = metric(&body, "evenkeel_requests_total{command=\"write\"}");
    let status: Status = serde_json::from_str(&scrape(&http, "/status.json").1).unwrap();
    let of_status = status.requests.iter().find(|it| it.kind == "write").unwrap();
    assert_eq!(writes, of_status.requests as f64);
    assert_eq!(of_status.latency_counts.iter().sum::<u64>(), of_status.requests);
    // The metrics' own address has nothing else.
    says(&scrape(&metrics, "/status.json").0, &["404"]);
    server.stop();
    assert!(TcpStream::connect(&http).is_err(), "nobody listens after the end");
}

#[test]
fn history_grows_by_a_sample_a_second_and_is_read_on_from_a_number() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve("--http 127.0.0.1:0");
    let http = page(&server);
    let history = |path: &str| -> History { serde_json::from_str(&scrape(&http, path).1).unwrap() };
    let two = patiently("two samples", || Some(history("/history.json")).filter(|it| it.samples.len() >= 2));
    assert!(two.samples.len() <= SAMPLES_MAX);
    let last = two.samples.last().unwrap().number;
    write(&volume.socket(), 0, &noise(2, 1 << 20));
    let newer = patiently("the sample of the write", || {
        let newer = history(&format!("/history.json?after={last}"));
        let wrote = |sample: &&evenkeel_host::service::http::history::Sample| {
            sample.recent.as_ref().is_some_and(|recent| recent.writes.per_s > 0.0)
        };
        newer.samples.iter().any(|sample| wrote(&sample)).then_some(newer)
    });
    assert_eq!(newer.samples[0].number, last + 1);
    let bytes: f64 = newer
        .samples
        .iter()
        .filter_map(|sample| sample.recent.as_ref())
        .map(|recent| recent.writes.bytes_per_s * recent.over_s)
        .sum();
    assert_eq!(bytes.round() as u64, 1 << 20, "all that was written, once");
    assert_eq!(history("/history.json?after=x").samples[0].number, 0, "what is no number is none");
    server.stop();
}

#[test]
fn nothing_but_a_look_at_a_known_path_by_a_known_name_is_answered() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve("--http 127.0.0.1:0 --http-name board.lan");
    let http = page(&server);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
        says(&ask(method, &http, "/status.json").0, &["405", "Allow: GET, HEAD"]);
    }
    let with_body = format!("POST / HTTP/1.1\r\nHost: {http}\r\nContent-Length: 5\r\n\r\nhello");
    says(&answer_to(&http, with_body.as_bytes()), &["405"]);
    let (head, body) = ask("HEAD", &http, "/status.json");
    says(&head, &["200", "Content-Length: "]);
    assert_eq!(body, "");
    let refused = answer_to(&http, b"HEAD / HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    assert!(refused.starts_with("HTTP/1.1 421") && refused.ends_with("\r\n\r\n"), "{refused}");
    let says_whatever_else =
        ["nosniff", "default-src 'none'", "frame-ancestors 'none'", "no-store", "same-origin"];
    says(&head, &says_whatever_else);
    for path in [
        "/../../etc/passwd",
        "/..%2f..%2fetc/passwd",
        "//etc/passwd",
        "/status.json/",
        "/STATUS.JSON",
        "/\u{7f}",
    ] {
        let answer = answer_to(&http, format!("GET {path} HTTP/1.1\r\nHost: {http}\r\n\r\n").as_bytes());
        assert!(answer.starts_with("HTTP/1.1 404") || answer.starts_with("HTTP/1.1 400"), "{path}: {answer}");
        says(&answer, &says_whatever_else);
    }
    for (host, code) in [
        ("localhost", "200"),
        ("[::1]:1", "200"),
        ("board.lan:8080", "200"),
        ("evil.example", "421"),
        ("127.0.0.1.evil.example", "421"),
    ] {
        let answer =
            answer_to(&http, format!("GET /status.json HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "{host}: {answer}");
        assert_eq!(answer.contains("evenkeel.status/1"), code == "200");
    }
    says(&answer_to(&http, b"GET /status.json HTTP/1.1\r\n\r\n"), &["400"]);
    says(&answer_to(&http, b"GET /status.json HTTP/1.0\r\n\r\n"), &["200"]);
    for garbage in
        [&b"\x16\x03\x01\x02\x00\r\n\r\n"[..], b"GET http://127.0.0.1/ HTTP/1.1\r\nHost: localhost\r\n\r\n"]
    {
        says(&answer_to(&http, garbage), &["HTTP/1.1 400"]);
    }
    // What has no end is not answered, and neither is what never came.
    for part in [&b"GET / HTTP/1.1\r\nHost: local"[..], b"\r\n\r\n"] {
        assert_eq!(answer_to(&http, part), "");
    }
    let long = [b"GET / HTTP/1.1\r\nHost: localhost\r\nCookie: ".as_slice(), &vec![b'x'; 8 << 10]].concat();
    let answer = answer_to(&http, &long);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    server.stop();
}

#[test]
fn who_says_nothing_or_little_or_reads_nothing_keeps_nobody_waiting() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve("--http 127.0.0.1:0");
    let http = page(&server);
    let request = format!("GET /history.json HTTP/1.1\r\nHost: {http}\r\n\r\n");
    let mut here = Vec::new();
    for number in 0..200 {
        let mut stream = TcpStream::connect(&http).unwrap();
        // Nothing, half a request, or a request whose answer nobody reads.
        let words = [&b""[..], &request.as_bytes()[..20], request.as_bytes()][number % 3];
        let _may_have_had_to_go = stream.write_all(words);
        here.push(stream);
        if number % 20 == 0 {
            says(&scrape(&http, "/status.json").0, &["200 OK"]);
        }
    }
    says(&scrape(&http, "/metrics").0, &["200 OK"]);
    // The volume has not noticed.
    write(&volume.socket(), 0, b"all the same");
    assert_eq!(contents(&volume.socket())[..12], *b"all the same");
    assert_eq!(server.status().server.connections_refused, 0);
    drop(here);
    server.stop();
}

#[test]
fn other_machines_see_the_page_only_where_somebody_said_so() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    for address in ["0.0.0.0:0", "[::]:0"] {
        says(
            &scene.refused(&format!("serve disk --http {address}")),
            &["other machines", "127.0.0.1", "--http-public"],
        );
    }
    says(&scene.misused("serve disk --http-public"), &["--http"]);
    says(&scene.misused("serve disk --http 9101"), &["HOST:PORT"]);
    let server = volume.serve("--log-format json --http 0.0.0.0:0 --http-public");
    let port = page(&server).rsplit_once(':').unwrap().1.to_owned();
    let of = |host: &str| {
        answer_to(
            &format!("127.0.0.1:{port}"),
            format!("GET /status.json HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes(),
        )
    };
    says(&of("10.1.2.3:80"), &["200 OK"]);
    says(&of("evil.example"), &["421", "--http-name"]);
    says(&server.complaints(), &["page-for-all", "names of files and devices"]);
    // An address that is taken is told before anything of the volume is touched.
    server.stop();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    says(
        &scene.refused(&format!("serve disk --http {address}")),
        &["cannot show the page", &address.to_string()],
    );
}
