//! The end of a connection at any byte, in either direction, is the end of that connection only.

use std::pin::Pin;

use evenkeel_engine::device::Durability;
use evenkeel_engine::env::Env;
use evenkeel_host::front::nbd::fuzzing::{MemoryStream, RamExport, pair};
use evenkeel_host::front::nbd::limits::Limits;
use evenkeel_host::nbd::client::{Client, ConnectOptions};
use evenkeel_host::nbd::proto::handshake::{ContextRequest, InfoRequest, encode_option};
use evenkeel_host::nbd::proto::transmission::{Headers, Request};
use evenkeel_host::nbd::proto::{command, option};
use evenkeel_host::net::ByteStream;

use crate::fixture::{Fixture, Raw, run};
use crate::support::all;

/// All that a client sends in a session with each command.
fn session() -> Vec<u8> {
    let mut out = 3u32.to_be_bytes().to_vec();
    encode_option(&mut out, option::EXTENDED_HEADERS, &[]);
    encode_option(&mut out, option::LIST, &[]);
    let contexts = ContextRequest { name: "", queries: vec!["base:allocation", "evenkeel:range-flush"] };
    encode_option(&mut out, option::SET_META_CONTEXT, &contexts.encode());
    encode_option(&mut out, option::GO, &InfoRequest { name: "", wanted: vec![3] }.encode());
    let requests = [
        (command::WRITE, 1 << 5, 100, 300),
        (command::READ, 0, 90, 50),
        (command::WRITE, 1 << 5 | 1, 4096, 80),
        (command::FLUSH, 0, 4096, 80),
        (command::BLOCK_STATUS, 0, 0, 8192),
        (command::WRITE_ZEROES, 0, 0, 4096),
        (command::TRIM, 0, 4096, 4096),
        (command::FLUSH, 0, 0, 0),
        (command::READ, 0, 1 << 40, 50),
        (command::DISCONNECT, 0, 0, 0),
    ];
    for (cookie, (command, flags, offset, len)) in (0..).zip(requests) {
        Request { flags, command, cookie, offset, len }.encode(&mut out, Headers::Extended);
        if command == command::WRITE {
            out.extend((0..len).map(|at| at as u8));
        }
    }
    out
}

async fn is_served(client: &Client<MemoryStream>, mark: u8) {
    client.write(12_000, &[mark; 100], Durability::Durable).await.expect("the other client writes");
    let mut found = [0; 100];
    client.read(12_000, &mut found).await.expect("the other client reads");
    assert_eq!(found, [mark; 100]);
}

#[test]
fn a_client_that_goes_at_any_byte_is_missed_by_nobody() {
    let session = session();
    for takes_time in [false, true] {
        let session = session.clone();
        run(1, |env| async move {
            let mut export = RamExport::new(16 << 10);
            if takes_time {
                export = export.taking_time(env.clone());
            }
            let fixture = Fixture::new(&env, export, Limits::default());
            let other = fixture.client(&ConnectOptions::default()).await.expect("it connects");
            for cut in 0..=session.len() {
                let stream = fixture.connection(1 << 20, None);
                stream.write(session[..cut].to_vec()).await.0.expect("the server takes it");
                match cut % 3 {
                    0 => drop(stream),
                    1 => stream.end_sending(),
                    _ => {
                        env.sleep(1_000_000).await;
                        stream.shutdown();
                    }
                }
                is_served(&other, cut as u8).await;
                fixture.endings(cut + 1).await;
                let status = fixture.server.status();
                assert_eq!((status.connections.len(), status.in_flight_bytes), (1, 0), "cut at byte {cut}");
            }
        });
    }
}

#[test]
fn a_client_that_stops_listening_at_any_byte_is_missed_by_nobody() {
    let session = session();
    run(1, |env| async move {
        let fixture = Fixture::new(&env, RamExport::new(16 << 10), Limits::default());
        let other = fixture.client(&ConnectOptions::default()).await.expect("it connects");
        let (mut cut, mut ended) = (0, 0);
        loop {
            // A socket that holds no more than a byte: the server is where the client is.
            let raw = Raw { stream: fixture.connection(1, None), headers: Headers::Extended };
            raw.send(&session).await;
            let taken = raw.take(cut).await.len();
            drop(raw);
            ended += 1;
            fixture.endings(ended).await;
            is_served(&other, cut as u8).await;
            assert_eq!(fixture.server.status().in_flight_bytes, 0, "cut at byte {cut}");
            if taken < cut {
                break;
            }
            cut += 1;
        }
        assert!(cut > 500, "the server says more than {cut} bytes");
    });
}

/// What a server says to a client that says `said` and no more.
pub(crate) fn answers(said: Vec<u8>) -> Vec<u8> {
    run(1, |env| async move {
        let fixture = Fixture::new(&env, RamExport::new(16 << 10), Limits::default());
        let raw = Raw { stream: fixture.connection(1 << 20, None), headers: Headers::Extended };
        raw.send(&said).await;
        raw.stream.end_sending();
        raw.take(1 << 20).await
    })
}

#[test]
fn a_server_that_goes_at_any_byte_fails_the_requests_of_its_client() {
    // What a server says in a session with a write and a read, taken down once.
    let shaken = answers(handshake(Headers::Extended)).len();
    let recorded = answers([handshake(Headers::Extended), requests()].concat());
    assert!(recorded.len() > shaken + 132);
    for cut in 0..=recorded.len() {
        let said = recorded[..cut].to_vec();
        let is_whole = cut == recorded.len();
        run(cut as u64, |env| async move {
            let (near, far) = pair(1 << 20, Some(cut as u64));
            far.write(said[..cut.min(shaken)].to_vec()).await.0.expect("the client takes it");
            if cut < shaken {
                far.end_sending();
                assert!(Client::connect(&env, near, &ConnectOptions::default()).await.is_err());
                return;
            }
            let client = Client::connect(&env, near, &ConnectOptions::default()).await.expect("it connects");
            let write = client.write(0, &[1; 100], Durability::Durable);
            let (mut found, mut results) = ([0; 100], (None, None));
            let answers: Pin<Box<dyn Future<Output = ()>>> = Box::pin(async {
                env.sleep(1000).await;
                far.write(said[shaken..].to_vec()).await.0.expect("the client takes it");
                far.end_sending();
            });
            let write = Box::pin(async { results.0 = Some(write.await) });
            let read = Box::pin(async { results.1 = Some(client.read(0, &mut found).await) });
            all([write as Pin<Box<dyn Future<Output = ()>>>, read, answers]).await;
            let (write, read) = (results.0.expect("it is answered"), results.1.expect("it is answered"));
            assert_eq!(write.is_ok() && read.is_ok(), is_whole, "cut at byte {cut}: {write:?}, {read:?}");
            assert!(read.is_err() || found == [1; 100]);
            assert!(client.read(0, &mut [0; 1]).await.is_err());
        });
    }
}

/// How this program's client shakes hands, as long as it is answered as expected.
pub(crate) fn handshake(headers: Headers) -> Vec<u8> {
    let mut out = 3u32.to_be_bytes().to_vec();
    match headers {
        Headers::Simple => {}
        Headers::Structured => encode_option(&mut out, option::STRUCTURED_REPLY, &[]),
        Headers::Extended => encode_option(&mut out, option::EXTENDED_HEADERS, &[]),
    }
    if headers.has_chunks() {
        let contexts = ContextRequest { name: "", queries: vec!["base:allocation", "evenkeel:range-flush"] };
        encode_option(&mut out, option::SET_META_CONTEXT, &contexts.encode());
    }
    encode_option(&mut out, option::GO, &InfoRequest { name: "", wanted: vec![3] }.encode());
    out
}

/// A write and a read, with the cookies that its table gives first.
fn requests() -> Vec<u8> {
    let mut out = Vec::new();
    let write = Request { flags: 1 << 5 | 1, command: command::WRITE, cookie: 1 << 32, offset: 0, len: 100 };
    write.encode(&mut out, Headers::Extended);
    out.extend([1; 100]);
    let read = Request { flags: 0, command: command::READ, cookie: 1 << 32 | 1, offset: 0, len: 100 };
    read.encode(&mut out, Headers::Extended);
    out
}
