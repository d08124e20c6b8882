//! Whatever a server says, its client neither panics nor hangs, and takes half an answer for none.

use std::pin::Pin;

use evenkeel_engine::device::{Durability, Extent, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_host::front::nbd::fuzzing::{RamExport, pair};
use evenkeel_host::front::nbd::limits::Limits;
use evenkeel_host::nbd::client::{Client, ClientError, ConnectOptions};
use evenkeel_host::nbd::proto::transmission::{
    Headers, Request, encode_chunk, encode_done, encode_error, encode_read_header, encode_simple,
    encode_status,
};
use evenkeel_host::nbd::proto::{chunk, errno};
use evenkeel_host::net::ByteStream;
use evenkeel_sim::random::Random;

use crate::disconnects::{answers, handshake};
use crate::fixture::{run, with_headers};
use crate::support::all;

const LEN: u64 = 64;

/// Something that a server could say to one of the first four requests of a client, or to none.
fn message(random: &mut Random, headers: Headers) -> Vec<u8> {
    let mut out = Vec::new();
    let cookie = match random.index(12) {
        0 => random.number(),
        _ => 1 << 32 | random.below(4),
    };
    let len = if random.chance(0.7) { LEN } else { random.below(2 * LEN) };
    let offset = if random.chance(0.8) { 0 } else { random.below(100) };
    let request = Request { flags: 0, command: 0, cookie, offset, len };
    let flags = if random.chance(0.7) { chunk::FLAG_DONE } else { 0 };
    match random.index(9) {
        0 => encode_done(&mut out, headers, &request),
        1 => encode_error(&mut out, headers, &request, random.below(3) as u32, "no"),
        2 | 3 => {
            encode_read_header(&mut out, headers, &request);
            out.extend((0..len).map(|_| 9));
        }
        4 => {
            encode_chunk(&mut out, headers, flags, chunk::OFFSET_HOLE, &request, 12);
            out.extend(offset.to_be_bytes());
            out.extend((len as u32).to_be_bytes());
        }
        5 => encode_status(&mut out, headers, flags, &request, 1, &[(len, 0), (random.below(9), 3)]),
        6 => encode_simple(&mut out, 0, cookie),
        7 => {
            let kind = if random.coin() { random.below(8) as u16 } else { random.number() as u16 };
            let announced = if random.coin() { random.below(100) } else { random.number() };
            encode_chunk(&mut out, headers, flags, kind, &request, announced);
            out.extend((0..random.below(100)).map(|_| random.number() as u8).collect::<Vec<_>>());
        }
        _ => {
            encode_chunk(&mut out, headers, flags, chunk::OFFSET_DATA, &request, 8 + len / 2);
            out.extend((offset + random.below(2) * LEN / 2).to_be_bytes());
            out.extend((0..len / 2).map(|_| 9));
        }
    }
    if random.chance(0.05) {
        let at = random.index(out.len());
        out[at] ^= random.number() as u8;
    }
    out
}

#[test]
fn whatever_a_server_answers_every_request_ends() {
    let shaken = [Headers::Simple, Headers::Structured, Headers::Extended]
        .map(|headers| (headers, answers(handshake(headers))));
    for seed in 0..6_000 {
        let (headers, greeting) = &shaken[seed as usize % 3];
        run(seed, |env| async move {
            let mut random = Random::new(seed);
            let (near, far) = pair(1 << 20, Some(seed));
            far.write(greeting.clone()).await.0.expect("the client takes it");
            let client = Client::connect(&env, near, &with_headers(*headers)).await.expect("it connects");
            let (mut found, mut outcome) = ([0; LEN as usize], None);
            let write = client.write(0, &[9; LEN as usize], Durability::Durable);
            let mut said = Vec::new();
            for _ in 0..1 + random.index(8) {
                said.extend(message(&mut random, *headers));
            }
            let work: [Pin<Box<dyn Future<Output = ()>>>; 5] = [
                Box::pin(async { drop(write.await) }),
                Box::pin(async { outcome = Some(client.read(0, &mut found).await) }),
                Box::pin(async { drop(client.flush(FlushScope::Whole).await) }),
                Box::pin(async {
                    if let Ok(told) = client.allocation(Extent::new(0, LEN)).await {
                        let total: u64 = told.iter().map(|(len, _)| len).sum();
                        assert!(total > 0 && total <= LEN);
                    }
                }),
                Box::pin(async {
                    env.sleep(1000).await;
                    let _gone_is_fine = far.write(said).await;
                    far.end_sending();
                }),
            ];
            all(work).await;
            assert!(outcome.is_some(), "the read ends");
            assert!(client.read(0, &mut [0; 1]).await.is_err(), "the server is gone");
        });
    }
}

#[test]
fn a_server_that_is_there_and_does_not_answer_is_lost_in_time() {
    let request = Request { flags: 0, command: 0, cookie: 1 << 32, offset: 0, len: 0 };
    for headers in [Headers::Simple, Headers::Structured, Headers::Extended] {
        let greeting = answers(handshake(headers));
        let (mut done, mut empty, mut piece) = (Vec::new(), Vec::new(), Vec::new());
        encode_done(&mut done, headers, &request);
        encode_chunk(&mut empty, headers, 0, chunk::NONE, &request, 0);
        encode_chunk(&mut piece, headers, 0, chunk::ERROR, &request, 6);
        piece.extend([0, 0, 0, 5, 0, 0]);
        // Nothing, the beginning of an answer, and answers that do not end.
        for (said, is_violation) in [(&b""[..], false), (&done[..2], false), (&empty, true), (&piece, false)]
        {
            if headers == Headers::Simple && said.len() > 2 {
                continue;
            }
            let (greeting, said) = (greeting.clone(), said.to_vec());
            run(1, |env| async move {
                let (near, far) = pair(1 << 20, Some(1));
                far.write(greeting).await.0.expect("the client takes it");
                let client = Client::connect(&env, near, &with_headers(headers)).await.expect("it connects");
                let (time, begin) = (env.clone(), said.len() == 2);
                env.spawn(async move {
                    time.sleep(1_000_000).await;
                    while far.write(said.clone()).await.0.is_ok() {
                        time.sleep(if begin { 1 << 60 } else { 100_000_000 }).await;
                    }
                });
                let began_ns = env.now_ns();
                let error = client.flush(FlushScope::Whole).await.expect_err("it is not answered");
                let waited_ns = env.now_ns() - began_ns;
                let answer_max_ns = ConnectOptions::default().answer_max_ns;
                match is_violation {
                    true => assert!(waited_ns < 1_000_000_000, "{error} after {waited_ns}"),
                    false => {
                        assert!(error.to_string().contains("has not answered a request for 30 s"), "{error}");
                        assert!((answer_max_ns..=answer_max_ns / 8 * 9).contains(&waited_ns), "{waited_ns}");
                    }
                }
                assert_eq!(client.failure(), Some(error));
            });
        }
    }
}

#[test]
fn a_server_that_answers_in_time_is_kept_for_ever() {
    run(1, |env| async move {
        let fixture = crate::fixture::Fixture::new(&env, RamExport::new(4096), Limits::default());
        let client = fixture.client(&ConnectOptions::default()).await.expect("it connects");
        for _ in 0..100 {
            client.write(0, &[1; 100], Durability::Durable).await.expect("it is answered");
            env.sleep(20_000_000_000).await;
        }
    });
}

#[test]
fn a_server_that_says_that_it_shuts_down_is_lost() {
    let request = Request { flags: 0, command: 0, cookie: 1 << 32, offset: 0, len: 0 };
    for headers in [Headers::Simple, Headers::Structured, Headers::Extended] {
        let greeting = answers(handshake(headers));
        // Its own words change nothing.
        for words in ["", "see you"] {
            let (mut said, greeting) = (Vec::new(), greeting.clone());
            encode_error(&mut said, headers, &request, errno::ESHUTDOWN, words);
            run(1, |env| async move {
                let (near, far) = pair(1 << 20, Some(1));
                far.write(greeting).await.0.expect("the client takes it");
                let client = Client::connect(&env, near, &with_headers(headers)).await.expect("it connects");
                let (time, broken) = (env.clone(), client.broken());
                env.spawn(async move {
                    time.sleep(1_000_000).await;
                    far.write(said).await.0.expect("the client takes it");
                    time.sleep(1 << 60).await;
                });
                let error = client.flush(FlushScope::Whole).await.expect_err("it is not done");
                assert_eq!(error, ClientError::Broken("the server shuts down".into()));
                assert_eq!(broken.await, error);
                assert_eq!(client.write(0, &[9; 8], Durability::Durable).await, Err(error));
            });
        }
    }
}

/// Bytes at an offset as a chunk of the reply to the first request.
fn data(offset: u64, len: u64, is_last: bool) -> Vec<u8> {
    let (mut out, headers) = (Vec::new(), Headers::Structured);
    let request = Request { flags: 0, command: 0, cookie: 1 << 32, offset, len };
    encode_chunk(&mut out, headers, u16::from(is_last), chunk::OFFSET_DATA, &request, 8 + len);
    out.extend(offset.to_be_bytes());
    out.extend((offset..offset + len).map(|at| at as u8));
    out
}

#[test]
fn a_read_is_there_when_each_of_its_bytes_came_once() {
    let greeting = answers(handshake(Headers::Structured));
    let request = Request { flags: 0, command: 0, cookie: 1 << 32, offset: 0, len: 0 };
    let (mut failed, mut hole) = (Vec::new(), Vec::new());
    encode_error(&mut failed, Headers::Structured, &request, 5, "no");
    encode_chunk(&mut hole, Headers::Structured, 1, chunk::OFFSET_HOLE, &request, 12);
    hole.extend(40u64.to_be_bytes());
    hole.extend(60u32.to_be_bytes());
    let replies = [
        (data(0, 100, true), true),
        ([data(60, 40, false), data(0, 20, false), data(20, 40, true)].concat(), true),
        ([data(0, 40, false), hole].concat(), true),
        (data(0, 99, true), false),
        (data(1, 100, true), false),
        ([data(0, 60, false), data(59, 41, true)].concat(), false),
        ([data(0, 50, false), data(0, 50, true)].concat(), false),
        ([data(0, 100, false), failed].concat(), false),
    ];
    for (number, (reply, is_good)) in replies.into_iter().enumerate() {
        let greeting = greeting.clone();
        run(number as u64, |env| async move {
            let (near, far) = pair(1 << 20, Some(1));
            far.write(greeting).await.0.expect("the client takes it");
            let options = with_headers(Headers::Structured);
            let client = Client::connect(&env, near, &options).await.expect("it connects");
            let (mut found, mut outcome) = ([7; 100], None);
            let work: [Pin<Box<dyn Future<Output = ()>>>; 2] = [
                Box::pin(async { outcome = Some(client.read(0, &mut found).await) }),
                Box::pin(async {
                    env.sleep(1000).await;
                    far.write(reply).await.0.expect("the client takes it");
                }),
            ];
            all(work).await;
            assert_eq!(outcome.expect("the read ends").is_ok(), is_good, "reply {number}");
            match is_good {
                true => assert!(
                    (0..40).all(|at| found[at] == at as u8) && (found[99] == 99 || found[40..] == [0; 60])
                ),
                false => assert_eq!(found, [7; 100]),
            }
        });
    }
}

#[test]
fn whatever_a_server_says_in_the_handshake_it_ends() {
    let greeting = answers(handshake(Headers::Extended));
    for seed in 0..6_000 {
        let mut said = greeting.clone();
        run(seed, |env| async move {
            let mut random = Random::new(seed);
            for _ in 0..random.index(4) {
                let at = random.index(said.len());
                match random.index(3) {
                    0 => said[at] = random.number() as u8,
                    1 => drop(said.drain(at..(at + random.index(9)).min(said.len()))),
                    _ => said[at] ^= 1 << random.index(8),
                }
            }
            let (near, far) = pair(1 << 20, Some(seed));
            far.write(said).await.0.expect("the client takes it");
            if random.coin() {
                far.end_sending();
            }
            // A server that says no more is waited for as long as the options say, in virtual time.
            if let Ok(client) = Client::connect(&env, near, &with_headers(Headers::Extended)).await {
                let sizes = client.negotiated().block_sizes;
                assert!(sizes.minimum_bytes.is_power_of_two());
                drop(far);
                assert!(client.flush(FlushScope::Whole).await.is_err());
            }
        });
    }
}
