//! Nobody gets more than the limits say, and nobody's greed is another's loss.

use std::cell::Cell;
use std::rc::Rc;

use evenkeel_engine::device::Durability;
use evenkeel_engine::env::Env;
use evenkeel_host::front::nbd::fuzzing::RamExport;
use evenkeel_host::front::nbd::limits::Limits;
use evenkeel_host::front::session::Peer;
use evenkeel_host::front::statistics::CommandKind;
use evenkeel_host::nbd::client::{ClientError, ConnectOptions};
use evenkeel_host::nbd::proto::command;
use evenkeel_host::nbd::proto::transmission::{Headers, Request};
use evenkeel_host::net::ByteStream;

use crate::fixture::{Fixture, Raw, run, with_headers};

const SECOND_NS: u64 = 1_000_000_000;

fn limits() -> Limits {
    Limits {
        request_max_bytes: 64 << 10,
        connection_in_flight_max_bytes: 140 << 10,
        in_flight_max_bytes: 140 << 10,
        connection_own_bytes: 14 << 10,
        ..Limits::default()
    }
}

/// A client that asks for a hundred large reads and takes none of the answers.
async fn greedy(fixture: &Fixture) -> Raw {
    let mut raw = Raw { stream: fixture.connection(1024, None), headers: Headers::Simple };
    raw.take(18).await;
    raw.send(&3u32.to_be_bytes()).await;
    raw.go(Headers::Simple).await;
    let mut out = Vec::new();
    for cookie in 0..100 {
        Request { flags: 0, command: command::READ, cookie, offset: 0, len: 60 << 10 }
            .encode(&mut out, Headers::Simple);
    }
    raw.send(&out).await;
    raw
}

#[test]
fn what_is_in_flight_is_bounded_and_all_of_it_is_answered_in_the_end() {
    run(1, |env| async move {
        let fixture = Fixture::new(&env, RamExport::new(1 << 20), limits());
        let raw = greedy(&fixture).await;
        env.sleep(SECOND_NS).await;
        let status = fixture.server.status();
        assert_eq!(status.connections[0].requests_in_flight, 2, "the others wait in the socket");
        assert!(status.in_flight_peak_bytes <= 140 << 10);
        assert_eq!(raw.take(100 * (16 + (60 << 10))).await.len(), 100 * (16 + (60 << 10)));
        assert_eq!(fixture.server.status().in_flight_bytes, 0);
    });
}

#[test]
fn requests_of_a_client_that_is_gone_are_not_begun() {
    run(1, |env| async move {
        let fixture = Fixture::new(&env, RamExport::new(1 << 20), limits());
        let raw = greedy(&fixture).await;
        env.sleep(SECOND_NS).await;
        raw.stream.shutdown();
        assert_eq!(fixture.endings(1).await.len(), 1);
        let begun = fixture.server.status().statistics.of(CommandKind::Read).requests;
        assert!(begun < 10, "{begun} of 100 requests were begun for nobody");
        fixture.assert_idle();
    });
}

/// A client that asks for `count` times `command` of `len` bytes at once.
async fn asks_often(fixture: &Fixture, command: u16, len: u64, count: u64) -> Raw {
    let mut raw = fixture.raw().await;
    raw.go(Headers::Simple).await;
    let mut out = Vec::new();
    for cookie in 0..count {
        Request { flags: 0, command, cookie, offset: 0, len }.encode(&mut out, Headers::Simple);
    }
    raw.send(&out).await;
    raw
}

#[test]
fn long_discards_of_a_client_that_is_gone_are_not_begun() {
    const SIZE: usize = 4 << 20;
    for command in [command::TRIM, command::WRITE_ZEROES] {
        run(1, |env| async move {
            let limits = Limits { drain_max_ns: 1, ..Limits::default() };
            let fixture = Fixture::new(&env, RamExport::new(SIZE).taking_time(env.clone()), limits);
            let raw = asks_often(&fixture, command, SIZE as u64, 200).await;
            env.sleep(1000).await;
            raw.stream.shutdown();
            fixture.endings(1).await;
            let statistics = fixture.server.status().statistics;
            let done =
                statistics.of(CommandKind::Trim).requests + statistics.of(CommandKind::WriteZeroes).requests;
            assert!(done < 20, "{done} of 200 were carried out for nobody");
            fixture.assert_idle();
        });
    }
}

#[test]
fn long_discards_are_all_answered_a_few_at_a_time() {
    const SIZE: usize = 4 << 20;
    run(1, |env| async move {
        let export = RamExport::new(SIZE).taking_time(env.clone());
        let fixture = Fixture::new(&env, export, Limits::default());
        let raw = asks_often(&fixture, command::TRIM, SIZE as u64, 50).await;
        assert_eq!(raw.take(50 * 16).await.len(), 50 * 16);
        assert_eq!(fixture.server.status().statistics.of(CommandKind::Trim).requests, 50);
    });
}

#[test]
fn requests_without_data_count_with_the_memory_of_their_tasks() {
    run(1, |env| async move {
        let export = RamExport::new(1 << 20).taking_time(env.clone());
        let limits = Limits { in_flight_max_bytes: 1 << 20, ..Limits::default() };
        let fixture = Fixture::new(&env, export, limits);
        let mut clients = Vec::new();
        for _ in 0..8 {
            clients.push(asks_often(&fixture, command::WRITE_ZEROES, 4096, 250).await);
        }
        for client in &clients {
            assert_eq!(client.take(250 * 16).await.len(), 250 * 16);
        }
        let status = fixture.server.status();
        // Each task may take 6 KiB: with all of them at once it would be 12 MiB.
        assert!(status.in_flight_peak_bytes > 512 << 10, "they were many at a time");
        assert!(status.in_flight_peak_bytes <= (1 << 20) + 8 * (72 << 10));
    });
}

#[test]
fn a_greedy_client_leaves_others_their_own_share_and_is_ended_where_they_need_more() {
    run(1, |env| async move {
        let fixture = Fixture::new(&env, RamExport::new(1 << 20), limits());
        let _greedy = greedy(&fixture).await;
        env.sleep(SECOND_NS).await;
        let other = fixture.client(&ConnectOptions::default()).await.expect("it connects");
        let began_ns = env.now_ns();
        other.write(0, &[1; 4096], Durability::Durable).await.expect("its own share is there");
        assert!(env.now_ns() - began_ns < limits().room_wait_max_ns);
        // Beyond it, it waits for a while, and then does without.
        other.write(0, &[1; 60 << 10], Durability::Durable).await.expect("it needs no room of others");
        assert!(env.now_ns() - began_ns < 2 * limits().room_wait_max_ns);
        // Who holds everything, and takes nothing, has had its time.
        assert_eq!(fixture.endings(1).await.len(), 1);
        assert!(env.now_ns() - began_ns <= 2 * limits().stall_max_ns);
        let again_ns = env.now_ns();
        other.write(0, &[1; 60 << 10], Durability::Durable).await.expect("there is room");
        assert!(env.now_ns() - again_ns < limits().room_wait_max_ns);
    });
}

#[test]
fn a_request_is_answered_however_many_small_ones_others_have_and_however_large_it_is() {
    for len in [60 << 10, 200 << 10] {
        run(3, |env| async move {
            let limits = Limits { request_max_bytes: 256 << 10, ..limits() };
            let fixture = Fixture::new(&env, RamExport::new(1 << 20).taking_time(env.clone()), limits);
            let (patient, mut busy) =
                (fixture.client(&ConnectOptions::default()).await.expect("it connects"), Vec::new());
            for _ in 0..3 {
                busy.push(fixture.client(&ConnectOptions::default()).await.expect("it connects"));
            }
            let done = Rc::new(Cell::new(false));
            for client in busy {
                for _ in 0..5 {
                    let (client, done) = (client.clone(), Rc::clone(&done));
                    // As long as the large one is not answered, there is always a small one that wants its room.
                    env.spawn(async move {
                        while !done.get() {
                            client.read(0, &mut [0; 20 << 10]).await.expect("it is answered");
                        }
                    });
                }
            }
            env.sleep(1_000_000).await;
            patient.read(0, &mut vec![0; len]).await.expect("it is answered");
            done.set(true);
            let status = fixture.server.status();
            assert!(status.in_flight_peak_bytes <= status.in_flight_max_bytes);
        });
    }
}

#[test]
fn every_size_that_is_advertised_is_answered() {
    for headers in [Headers::Simple, Headers::Structured, Headers::Extended] {
        for takes_time in [false, true] {
            run(1, |env| async move {
                const MAX: usize = 160 << 10;
                let ram = RamExport::new(2 * MAX);
                let export = if takes_time { ram.clone().taking_time(env.clone()) } else { ram.clone() };
                let fixture =
                    Fixture::new(&env, export, Limits { request_max_bytes: MAX as u32, ..limits() });
                let client = fixture.client(&with_headers(headers)).await.expect("it connects");
                assert_eq!(client.negotiated().block_sizes.maximum_bytes, MAX as u32);
                let (own, all) = (14 << 10, 140 << 10);
                for around in [own, all, own + all, MAX] {
                    for len in [around - 64, around - 63, around, around + 1].map(|len| len.min(MAX)) {
                        let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
                        let offset = (3 * len % MAX) as u64;
                        client.write(offset, &bytes, Durability::Durable).await.expect("it is written");
                        let mut found = vec![0; len];
                        client.read(offset, &mut found).await.expect("it is read");
                        assert!(found == bytes, "{len} bytes at {offset}");
                        let durable = &ram.durable()[offset as usize..][..len];
                        assert!(durable == bytes, "{len} bytes at {offset} are durable");
                    }
                }
                assert!(client.read(0, &mut vec![0; MAX + 1]).await.is_err(), "one byte too many");
            });
        }
    }
}

#[test]
fn a_request_in_pieces_that_fails_says_so_or_ends_its_connection() {
    for headers in [Headers::Simple, Headers::Structured, Headers::Extended] {
        run(1, |env| async move {
            const LEN: usize = 160 << 10;
            let export = RamExport::new(LEN);
            let limits = Limits { request_max_bytes: LEN as u32, ..limits() };
            let fixture = Fixture::new(&env, export.clone().taking_time(env.clone()), limits);
            let client = fixture.client(&with_headers(headers)).await.expect("it connects");
            let bytes = vec![7; LEN];
            for at in 0..20 {
                let failing = export.clone();
                let env_of_failing = env.clone();
                env.spawn(async move {
                    env_of_failing.sleep(at * 20_000).await;
                    failing.fail_with(Some(5));
                });
                let write = client.write(0, &bytes, Durability::Durable);
                let written = write.await;
                export.fail_with(None);
                assert!(
                    matches!(&written, Ok(()) | Err(ClientError::Server { errno: 5, .. })),
                    "{written:?}"
                );
                env.sleep(SECOND_NS).await;
                export.fail_with(None);
            }
            let mut found = vec![0; LEN];
            for at in 0..20 {
                let failing = export.clone();
                let env_of_failing = env.clone();
                let client = fixture.client(&with_headers(headers)).await.expect("it connects");
                env.spawn(async move {
                    env_of_failing.sleep(at * 20_000).await;
                    failing.fail_with(Some(5));
                });
                match client.read(0, &mut found).await {
                    Ok(()) | Err(ClientError::Server { errno: 5, .. }) => {}
                    Err(error) => assert_eq!(headers, Headers::Simple, "{error}"),
                }
                env.sleep(SECOND_NS).await;
                export.fail_with(None);
            }
            drop(client);
            fixture.endings(21).await;
            fixture.assert_idle();
        });
    }
}

#[test]
fn stalled_clients_together_hold_nobody_up_for_longer_than_one() {
    for stalled in [1, 3, 60] {
        run(1, |env| async move {
            let fixture = Fixture::new(&env, RamExport::new(1 << 20), limits());
            let mut there = Vec::new();
            for _ in 0..stalled {
                let mut raw = fixture.raw().await;
                raw.go(Headers::Simple).await;
                raw.request(command::WRITE, 0, 0, 64 << 10, &[1; 20 << 10]).await;
                there.push(raw);
            }
            let other = fixture.client(&ConnectOptions::default()).await.expect("it connects");
            for _ in 0..3 {
                let began_ns = env.now_ns();
                other.write(0, &[1; 60 << 10], Durability::Buffered).await.expect("it is written");
                other.read(0, &mut [0; 60 << 10]).await.expect("it is read");
                let waited_ns = env.now_ns() - began_ns;
                assert!(waited_ns < 3 * limits().room_wait_max_ns, "{waited_ns} behind {stalled}");
            }
        });
    }
}

#[test]
fn a_client_that_does_not_send_what_it_announced_is_ended_only_if_others_wait() {
    run(1, |env| async move {
        let fixture = Fixture::new(&env, RamExport::new(1 << 20), limits());
        let mut slow = Vec::new();
        for _ in 0..2 {
            let mut raw = fixture.raw().await;
            raw.go(Headers::Simple).await;
            raw.request(command::WRITE, 0, 0, 64 << 10, &[1; 100]).await;
            slow.push(raw);
        }
        env.sleep(1000 * SECOND_NS).await;
        assert!(fixture.endings.borrow().is_empty(), "it hurts nobody");
        let other = fixture.client(&ConnectOptions::default()).await.expect("it connects");
        other.write(0, &[1; 60 << 10], Durability::Buffered).await.expect("it gets room");
        // Both at once.
        assert_eq!(fixture.endings(2).await, ["timed out: a request's payload"; 2]);
    });
}

#[test]
fn a_client_that_is_slow_but_moves_stays_though_others_wait() {
    run(1, |env| async move {
        let limits = Limits { stall_min_bytes: 2 << 10, ..limits() };
        let fixture = Fixture::new(&env, RamExport::new(1 << 20), limits);
        let mut slow = Vec::new();
        for number in 0..2 {
            let mut raw = fixture.raw().await;
            raw.go(Headers::Simple).await;
            raw.request(command::WRITE, 0, number * (64 << 10), 64 << 10, &[]).await;
            slow.push(raw);
        }
        let other = fixture.client(&ConnectOptions::default()).await.expect("it connects");
        let done = Rc::new(Cell::new(false));
        let (client, until, time) = (other.clone(), Rc::clone(&done), env.clone());
        env.spawn(async move {
            while !until.get() {
                time.sleep(SECOND_NS / 100).await;
                client.read(0, &mut [0; 60 << 10]).await.expect("it is answered");
            }
        });
        for _ in 0..64 {
            for raw in &slow {
                raw.send(&[9; 1 << 10]).await;
            }
            env.sleep(SECOND_NS / 2).await;
        }
        for raw in &slow {
            assert_eq!(raw.errno().await, 0, "it is written");
        }
        done.set(true);
    });
}

#[test]
fn a_client_that_leaves_while_its_request_waits_is_gone() {
    run(1, |env| async move {
        let fixture = Fixture::new(&env, RamExport::new(1 << 20), limits());
        let _greedy = greedy(&fixture).await;
        for command in [command::READ, command::WRITE] {
            let mut raw = fixture.raw().await;
            raw.go(Headers::Simple).await;
            raw.request(command, 0, 0, 64 << 10, &[]).await;
        }
        let began_ns = env.now_ns();
        while fixture.server.status().connections.len() > 1 {
            env.sleep(1_000_000).await;
        }
        assert!(env.now_ns() - began_ns < 2 * limits().room_wait_max_ns);
    });
}

#[test]
fn requests_beyond_their_number_wait() {
    run(1, |env| async move {
        let limits = Limits { requests_in_flight_max: 3, ..Limits::default() };
        let fixture = Fixture::new(&env, RamExport::new(1 << 20).taking_time(env.clone()), limits);
        let client = fixture.client(&ConnectOptions::default()).await.expect("it connects");
        let writes: Vec<_> = (0..200).map(|at| client.write(at, b"x", Durability::Buffered)).collect();
        for write in writes {
            assert!(fixture.server.status().connections[0].requests_in_flight <= 3);
            write.await.expect("it is answered");
        }
    });
}

#[test]
fn a_client_that_reads_nothing_does_not_hold_a_server_that_stops() {
    run(1, |env| async move {
        let fixture = Fixture::new(&env, RamExport::new(1 << 20), limits());
        let _greedy = greedy(&fixture).await;
        env.sleep(SECOND_NS).await;
        let began_ns = env.now_ns();
        fixture.server.stop().await;
        assert!(env.now_ns() - began_ns <= 2 * limits().drain_max_ns);
        fixture.assert_idle();
    });
}

#[test]
fn sessions_in_their_handshake_yield_to_who_comes_and_others_never() {
    run(1, |env| async move {
        let limits = Limits { connections_max: 16, ..Limits::default() };
        let fixture = Fixture::new(&env, RamExport::new(4096), limits);
        let open = fixture.client(&ConnectOptions::default()).await.expect("there is room");
        // Many more than there are places, which say nothing, and come back whenever they are ended.
        for _ in 0..80 {
            let fixture = fixture.clone();
            env.spawn(async move {
                loop {
                    let stream = fixture.connection(4096, None);
                    let mut greeting = vec![0; 18];
                    while let (Ok(1..), buffer) = stream.read(greeting, 0).await {
                        greeting = buffer;
                    }
                    fixture.env.sleep(fixture.env.random() % 2_000_000).await;
                }
            });
        }
        env.sleep(100_000_000).await;
        for _ in 0..20 {
            let client = fixture.client(&ConnectOptions::default()).await.expect("it is let in");
            client.write(0, b"served", Durability::Durable).await.expect("it is served");
            open.write(0, b"served", Durability::Durable).await.expect("it keeps its place");
            assert!(fixture.server.status().connections.len() <= 16);
        }
        let status = fixture.server.status();
        assert!(status.connections_evicted > 0);
        assert_eq!(status.connections_refused, 0);
        // Where all are open, none yields.
        let mut all = vec![open];
        while fixture.server.status().connections.iter().filter(|it| it.is_open).count() < 16 {
            all.push(fixture.client(&ConnectOptions::default()).await.expect("it is let in"));
        }
        fixture.client(&ConnectOptions::default()).await.map(drop).expect_err("there is no room");
        for client in &all {
            client.write(0, b"served", Durability::Durable).await.expect("it keeps its place");
        }
    });
}

#[test]
fn the_peer_with_most_sessions_in_their_handshake_yields_first_and_its_oldest() {
    run(1, |env| async move {
        let limits = Limits { connections_max: 5, ..Limits::default() };
        let fixture = Fixture::new(&env, RamExport::new(4096), limits);
        let silent = async |address: &str| {
            let peer = Peer::at("tcp", address.parse().expect("an address"));
            let stream = fixture.connection_of(peer, 4096, None);
            env.sleep(1_000_000).await;
            stream
        };
        let names = || -> Vec<String> {
            fixture.server.status().connections.iter().map(|it| it.peer.to_string()).collect()
        };
        let mut kept = vec![silent("192.0.2.1").await];
        // All of a /64 is one peer, and an address of IPv4 is one however it is written.
        for address in ["2001:db8::1", "2001:db8::2", "2001:db8::3", "::ffff:192.0.2.9", "2001:db8:0:1::1"] {
            kept.push(silent(address).await);
        }
        assert_eq!(
            names(),
            ["tcp 192.0.2.1", "tcp 2001:db8::2", "tcp 2001:db8::3", "tcp 192.0.2.9", "tcp 2001:db8:0:1::1"]
        );
        kept.push(silent("192.0.2.9").await);
        assert_eq!(names()[..3], ["tcp 192.0.2.1", "tcp 2001:db8::3", "tcp 192.0.2.9"]);
        // Now that address has most of them.
        kept.push(silent("2001:db8:0:2::1").await);
        assert_eq!(names()[..3], ["tcp 192.0.2.1", "tcp 2001:db8::3", "tcp 2001:db8:0:1::1"]);
        assert_eq!(fixture.server.status().connections_evicted, 3);
        drop(kept);
    });
}

/// A handshake of a client that a network keeps apart by `round_trip_ns`; whether it was let in.
async fn shakes_hands(fixture: &Fixture, peer: Peer, round_trip_ns: u64) -> bool {
    let stream = fixture.connection_of(peer, 4096, None);
    let read = async |len: usize| {
        let (mut bytes, mut filled) = (vec![0; len], 0);
        while filled < len {
            let (read, buffer) = stream.read(bytes, filled).await;
            bytes = buffer;
            match read {
                Ok(more @ 1..) => filled += more,
                _ => return false,
            }
        }
        true
    };
    if !read(18).await {
        return false;
    }
    fixture.env.sleep(round_trip_ns).await;
    let mut hello = 3u32.to_be_bytes().to_vec();
    // NBD_OPT_EXPORT_NAME: the answer, of ten bytes, is the end of the handshake.
    hello.extend(b"IHAVEOPT\0\0\0\x01\0\0\0\0");
    stream.write(hello).await.0.is_ok() && read(10).await
}

#[test]
fn silent_peers_with_one_session_each_keep_no_client_out() {
    run(1, |env| async move {
        let limits = Limits { connections_max: 16, ..Limits::default() };
        let fixture = Fixture::new(&env, RamExport::new(4096), limits);
        for pid in 1..=80 {
            let fixture = fixture.clone();
            env.spawn(async move {
                loop {
                    let stream = fixture.connection_of(Peer::process("unix", pid), 4096, None);
                    let mut greeting = vec![0; 18];
                    while let (Ok(1..), buffer) = stream.read(greeting, 0).await {
                        greeting = buffer;
                    }
                    fixture.env.sleep(fixture.env.random() % 50_000_000).await;
                }
            });
        }
        env.sleep(1_000_000_000).await;
        let mut let_in = 0;
        for _ in 0..400 {
            env.sleep(fixture.env.random() % 20_000_000).await;
            let_in += u32::from(shakes_hands(&fixture, Peer::process("unix", 100), 20_000_000).await);
        }
        // One in seven gets a place that has to be given up; those that do keep it until they have said something.
        assert!(let_in > 20, "{let_in} of 400");
    });
}

#[test]
fn of_one_peer_those_yield_that_said_least_and_processes_are_peers() {
    run(1, |env| async move {
        let limits = Limits { connections_max: 4, ..Limits::default() };
        let fixture = Fixture::new(&env, RamExport::new(4096), limits);
        let silent = async |pid: u32| {
            let stream = fixture.connection_of(Peer::process("unix", pid), 4096, None);
            env.sleep(1_000_000).await;
            stream
        };
        // It is the oldest, and in the midst of its handshake.
        let talking = Raw { stream: silent(7).await, headers: Headers::Simple };
        talking.take(18).await;
        talking.send(&3u32.to_be_bytes()).await;
        let mut kept = vec![silent(8).await];
        for _ in 0..20 {
            kept.push(silent(7).await);
        }
        let names: Vec<String> =
            fixture.server.status().connections.iter().map(|it| it.peer.to_string()).collect();
        assert_eq!(names, ["unix pid 7", "unix pid 8", "unix pid 7", "unix pid 7"]);
        let mut talking = talking;
        talking.go(Headers::Simple).await;
        drop(kept);
    });
}
