//! The status for Prometheus: its text format, over as much HTTP as a scrape needs.

use std::fmt::Write as _;
use std::net::SocketAddr;

use evenkeel_engine::env::Env;

use super::status::{SharedWatched, Watched};
use crate::event_loop::{Loop, race};
use crate::nbd::statistics::CommandKind;
use crate::net::{ByteStream, Listener, Stream};
use crate::volume::VolumeError;

/// Longest request that is read.
const REQUEST_MAX_BYTES: usize = 8 << 10;

/// How long a scrape may take.
const SCRAPE_MAX_NS: u64 = 5_000_000_000;

/// Scrapes at a time.
const SCRAPES_MAX: usize = 8;

/// Answers scrapes on `address` for as long as the loop runs; where that is.
///
/// # Errors
///
/// Those of listening.
pub(super) fn serve(
    event_loop: &Loop,
    address: &str,
    watched: SharedWatched,
) -> Result<SocketAddr, VolumeError> {
    let refused = |error| VolumeError::Refused(format!("--metrics {address}: {error}"));
    let listener = Listener::tcp(event_loop, address).map_err(refused)?;
    let at = listener.tcp_address().map_err(refused)?;
    let env = event_loop.clone();
    let places = std::rc::Rc::new(());
    event_loop.spawn(async move {
        loop {
            let Ok(stream) = listener.accept().await else {
                env.sleep(super::ACCEPT_AGAIN_NS).await;
                continue;
            };
            if std::rc::Rc::strong_count(&places) > SCRAPES_MAX {
                stream.shutdown();
                continue;
            }
            let (watched, place, limit) = (watched.clone(), places.clone(), env.clone());
            env.spawn(async move {
                race(answer(&stream, &watched), limit.sleep(SCRAPE_MAX_NS)).await;
                stream.shutdown();
                drop(place);
            });
        }
    });
    Ok(at)
}

async fn answer(stream: &Stream, watched: &Watched) {
    let mut request = vec![0; REQUEST_MAX_BYTES];
    let mut len = 0;
    while !request[..len].windows(4).any(|end| end == b"\r\n\r\n") {
        if len == request.len() {
            return;
        }
        let (read, buffer) = stream.read(request, len).await;
        request = buffer;
        match read {
            Ok(more) if more > 0 => len += more,
            _ => return,
        }
    }
    let (status, body) = match request.starts_with(b"GET /metrics ") || request.starts_with(b"GET /metrics?")
    {
        true => ("200 OK", text(watched)),
        false => ("404 Not Found", "the metrics are at /metrics\n".to_owned()),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
    let _a_reader_that_left_is_fine = stream.write(answer.into_bytes()).await;
}

fn text(watched: &Watched) -> String {
    let document = watched.document();
    let mut out = String::new();
    for (name, value) in document.counters.each() {
        metric(&mut out, &format!("evenkeel_{name}_total"), "counter", value as f64);
    }
    let occupancy = &document.occupancy;
    let server = &document.server;
    for (name, value) in [
        ("buffer_used_bytes", occupancy.buffer_used_bytes),
        ("buffer_size_bytes", occupancy.buffer_bytes),
        ("log_used_bytes", occupancy.log_used_bytes),
        ("log_size_bytes", occupancy.log_bytes),
        ("dirty_bytes", occupancy.dirty_bytes),
        ("pages_bytes", occupancy.pages_bytes),
        ("pages_peak_bytes", occupancy.pages_peak_bytes),
        ("table_bytes", occupancy.table_bytes),
        ("pages_max_bytes", occupancy.pages_max_bytes),
        ("connections", server.connections),
        ("requests_in_flight_bytes", server.in_flight_bytes),
        ("requests_in_flight_peak_bytes", server.in_flight_peak_bytes),
        ("requests_in_flight_max_bytes", server.in_flight_max_bytes),
        ("failed", u64::from(document.failure.is_some())),
    ] {
        metric(&mut out, &format!("evenkeel_{name}"), "gauge", value as f64);
    }
    latencies(&mut out, watched);
    out
}

fn metric(out: &mut String, name: &str, kind: &str, value: f64) {
    writeln!(out, "# TYPE {name} {kind}\n{name} {value}").expect("a string takes all");
}

fn latencies(out: &mut String, watched: &Watched) {
    let statistics = watched.statistics();
    out.push_str("# TYPE evenkeel_request_errors_total counter\n");
    for kind in CommandKind::ALL {
        let (name, errors) = (kind.name(), statistics.of(kind).errors);
        writeln!(out, "evenkeel_request_errors_total{{command=\"{name}\"}} {errors}").expect("as above");
    }
    out.push_str("# TYPE evenkeel_request_seconds histogram\n");
    for kind in CommandKind::ALL {
        let (name, of) = (kind.name(), statistics.of(kind));
        let mut below = 0;
        for (bucket, count) in of.latency.iter().enumerate().take(36).skip(10) {
            below = of.latency[..=bucket].iter().sum::<u64>();
            let bound_s = (2_u64 << bucket) as f64 / 1e9;
            if *count > 0 {
                writeln!(
                    out,
                    "evenkeel_request_seconds_bucket{{command=\"{name}\",le=\"{bound_s}\"}} {below}"
                )
                .expect("as above");
            }
        }
        debug_assert!(below <= of.requests);
        let (requests, sum_s) = (of.requests, of.latency_sum_ns as f64 / 1e9);
        writeln!(
            out,
            "evenkeel_request_seconds_bucket{{command=\"{name}\",le=\"+Inf\"}} {requests}\n\
             evenkeel_request_seconds_sum{{command=\"{name}\"}} {sum_s}\n\
             evenkeel_request_seconds_count{{command=\"{name}\"}} {requests}"
        )
        .expect("as above");
    }
}
