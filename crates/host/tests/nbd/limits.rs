//! Nobody gets more than the limits say, and nobody's greed is another's loss.

use std::cell::Cell;
use std::rc::Rc;

use evenkeel_engine::device::Durability;
use evenkeel_engine::env::Env;
use evenkeel_host::nbd::client::ConnectOptions;
use evenkeel_host::nbd::fuzzing::RamExport;
use evenkeel_host::nbd::limits::Limits;
use evenkeel_host::nbd::proto::command;
use evenkeel_host::nbd::proto::transmission::{Headers, Request};
use evenkeel_host::nbd::statistics::CommandKind;
use evenkeel_host::net::ByteStream;

use crate::world::{Raw, World, tell};

const SECOND_NS: u64 = 1_000_000_000;

fn limits() -> Limits {
    Limits {
        request_max_bytes: 64 << 10,
        connection_in_flight_max_bytes: 128 << 10,
        in_flight_max_bytes: 128 << 10,
        connection_own_bytes: 8 << 10,
        ..Limits::default()
    }
}

/// A client that asks for a hundred large reads and takes none of the answers.
async fn greedy(world: &World) -> Raw {
    let mut raw = Raw { stream: world.connection(1024, None), headers: Headers::Simple };
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
    tell(1, |env| async move {
        let world = World::new(&env, RamExport::new(1 << 20), limits());
        let raw = greedy(&world).await;
        env.sleep(SECOND_NS).await;
        let status = world.server.status();
        assert_eq!(status.connections[0].requests_in_flight, 2, "the others wait in the socket");
        assert!(status.in_flight_peak_bytes <= 128 << 10);
        assert_eq!(raw.take(100 * (16 + (60 << 10))).await.len(), 100 * (16 + (60 << 10)));
        assert_eq!(world.server.status().in_flight_bytes, 0);
    });
}

#[test]
fn requests_of_a_client_that_is_gone_are_not_begun() {
    tell(1, |env| async move {
        let world = World::new(&env, RamExport::new(1 << 20), limits());
        let raw = greedy(&world).await;
        env.sleep(SECOND_NS).await;
        raw.stream.shutdown();
        assert_eq!(world.endings(1).await.len(), 1);
        let begun = world.server.status().statistics.of(CommandKind::Read).requests;
        assert!(begun < 10, "{begun} of 100 requests were begun for nobody");
        world.assert_idle();
    });
}

#[test]
fn a_greedy_client_leaves_others_their_own_share_and_is_ended_where_they_need_more() {
    tell(1, |env| async move {
        let world = World::new(&env, RamExport::new(1 << 20), limits());
        let _greedy = greedy(&world).await;
        env.sleep(SECOND_NS).await;
        let other = world.client(&ConnectOptions::default()).await.expect("it connects");
        let began_ns = env.now_ns();
        other.write(0, &[1; 4096], Durability::Durable).await.expect("its own share is there");
        assert!(env.now_ns() - began_ns < SECOND_NS);
        // Beyond it, it waits until the one who holds everything has had its time.
        other.write(0, &[1; 60 << 10], Durability::Durable).await.expect("it gets room");
        assert!(env.now_ns() - began_ns <= 2 * limits().stall_max_ns);
        assert_eq!(world.endings(1).await.len(), 1);
    });
}

#[test]
fn a_request_larger_than_what_all_share_comes_to_its_turn_however_many_small_ones_others_have() {
    tell(3, |env| async move {
        let limits = Limits { request_max_bytes: 512 << 10, ..limits() };
        let world = World::new(&env, RamExport::new(1 << 20).taking_time(env.clone()), limits);
        let (patient, mut busy) =
            (world.client(&ConnectOptions::default()).await.expect("it connects"), Vec::new());
        for _ in 0..3 {
            busy.push(world.client(&ConnectOptions::default()).await.expect("it connects"));
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
        patient.read(0, &mut vec![0; 500 << 10]).await.expect("it gets all of the room, alone");
        done.set(true);
        let status = world.server.status();
        assert!(status.in_flight_peak_bytes <= status.in_flight_max_bytes);
        assert!(status.in_flight_peak_bytes >= 500 << 10);
    });
}

#[test]
fn a_client_that_does_not_send_what_it_announced_is_ended_only_if_others_wait() {
    tell(1, |env| async move {
        let world = World::new(&env, RamExport::new(1 << 20), limits());
        let mut slow = Vec::new();
        for _ in 0..2 {
            let mut raw = world.raw().await;
            raw.go(Headers::Simple).await;
            raw.request(command::WRITE, 0, 0, 64 << 10, &[1; 100]).await;
            slow.push(raw);
        }
        env.sleep(1000 * SECOND_NS).await;
        assert!(world.endings.borrow().is_empty(), "it hurts nobody");
        let other = world.client(&ConnectOptions::default()).await.expect("it connects");
        other.write(0, &[1; 60 << 10], Durability::Buffered).await.expect("it gets room");
        assert_eq!(world.endings(1).await[0], "timed out: a request's payload");
    });
}

#[test]
fn requests_beyond_their_number_wait() {
    tell(1, |env| async move {
        let limits = Limits { requests_in_flight_max: 3, ..Limits::default() };
        let world = World::new(&env, RamExport::new(1 << 20).taking_time(env.clone()), limits);
        let client = world.client(&ConnectOptions::default()).await.expect("it connects");
        let writes: Vec<_> = (0..200).map(|at| client.write(at, b"x", Durability::Buffered)).collect();
        for write in writes {
            assert!(world.server.status().connections[0].requests_in_flight <= 3);
            write.await.expect("it is answered");
        }
    });
}

#[test]
fn a_client_that_reads_nothing_does_not_hold_a_server_that_stops() {
    tell(1, |env| async move {
        let world = World::new(&env, RamExport::new(1 << 20), limits());
        let _greedy = greedy(&world).await;
        env.sleep(SECOND_NS).await;
        let began_ns = env.now_ns();
        world.server.stop().await;
        assert!(env.now_ns() - began_ns <= 2 * limits().drain_max_ns);
        world.assert_idle();
    });
}
