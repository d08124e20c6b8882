//! What a server takes of the machine's memory is what it was given, however much clients ask for at once.

use std::cell::Cell;
use std::fs;
use std::rc::Rc;

use evenkeel_engine::device::Durability;
use evenkeel_engine::env::Env;
use evenkeel_host::event_loop::{Backend, EventLoop};
use evenkeel_host::service::status::Status;

use crate::support::Scene;
use crate::support::load::{connect, write};
use crate::support::served::{Chance, Server, Volume, noise};

const SIZE: u64 = 256 << 20;

const CONNECTIONS: usize = 64;

/// Requests of each connection under way.
const DEPTH: usize = 32;

/// Requests of each of these.
const ROUNDS: usize = 3;

/// What the server may take beside the buffer of acknowledged writes and `--cache`: 64 MiB, of which 8 are left for the
/// program's code. How much of that is mapped depends on how it was built, and in what pieces the system's page cache
/// holds it, so it is not counted here.
const REST_MAX_BYTES: u64 = 56 << 20;

/// A field of the server's /proc status, in bytes.
fn memory(status: &Status, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", status.server.pid)).unwrap();
    let found = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    found.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
}

/// Puts all requests on the server: reads, or durable writes, of `len` bytes.
fn load(event_loop: &EventLoop, volume: &Volume<'_>, len: usize, writes: bool) {
    let env = event_loop.handle();
    let bytes = Rc::new(noise(9, len + (1 << 20)));
    let working = Rc::new(Cell::new(CONNECTIONS * DEPTH));
    event_loop.block_on(async {
        for connection in 0..CONNECTIONS {
            let client = connect(&env, &volume.socket()).await;
            for place in 0..DEPTH {
                let (client, bytes, working) = (client.clone(), Rc::clone(&bytes), Rc::clone(&working));
                let mut chance = Chance((connection * DEPTH + place) as u64);
                env.spawn(async move {
                    let mut into = vec![0; if writes { 0 } else { len }];
                    for _ in 0..ROUNDS {
                        let offset = chance.next() % (SIZE / len as u64) * len as u64;
                        let done = if writes {
                            let start = chance.next() as usize % (1 << 20);
                            client.write(offset, &bytes[start..start + len], Durability::Durable).await
                        } else {
                            client.read(offset, &mut into).await
                        };
                        done.unwrap();
                    }
                    working.set(working.get() - 1);
                });
            }
        }
        while working.get() > 0 {
            env.sleep(1_000_000).await;
        }
    });
}

/// Sixteen clients, each with one request after the other, of any size that a request may have: reads, and writes of
/// which some are durable.
fn mixed_load(event_loop: &EventLoop, volume: &Volume<'_>) {
    const CLIENTS: u64 = 16;
    const REQUESTS: usize = 8;
    let env = event_loop.handle();
    let bytes = Rc::new(noise(9, 33 << 20));
    let working = Rc::new(Cell::new(CLIENTS));
    event_loop.block_on(async {
        for number in 0..CLIENTS {
            let client = connect(&env, &volume.socket()).await;
            let (bytes, working) = (Rc::clone(&bytes), Rc::clone(&working));
            let mut chance = Chance(number);
            env.spawn(async move {
                let mut into = vec![0; 32 << 20];
                for _ in 0..REQUESTS {
                    // One alone has the largest: a client does not wait for ever for an answer.
                    let len = 4096 << chance.below(if number < 1 { 14 } else { 12 });
                    let offset = chance.below(SIZE - len as u64 + 1) / 4096 * 4096;
                    let start = chance.below(1 << 20) as usize;
                    match chance.below(5) {
                        0 => client.read(offset, &mut into[..len]).await,
                        1 => client.write(offset, &bytes[start..start + len], Durability::Durable).await,
                        _ => client.write(offset, &bytes[start..start + len], Durability::Buffered).await,
                    }
                    .unwrap();
                }
                working.set(working.get() - 1);
            });
        }
        while working.get() > 0 {
            env.sleep(1_000_000).await;
        }
    });
}

#[test]
fn a_mirror_takes_no_more_though_its_members_wait_for_their_turns() {
    // Where writes take no time: then as much as may wait does.
    let scene = Scene::in_memory().unwrap_or_else(Scene::new);
    let volume = Volume::create(
        &scene,
        "--size 256m --buffer 64m --log-size 64m --layout mirror --member disk/a --member disk/b --member disk/c",
    );
    let server = volume.serve("--cache 64m --turn 200ms");
    let event_loop = EventLoop::new(Backend::Auto).unwrap();
    mixed_load(&event_loop, &volume);
    takes_at_most(&server.status(), REST_MAX_BYTES);
    server.stop();
}

/// That what the server took, beside buffer and pages, was never more than this.
#[track_caller]
fn takes_at_most(status: &Status, rest_max_bytes: u64) {
    let occupancy = &status.occupancy;
    assert!(occupancy.pages_peak_bytes <= occupancy.pages_max_bytes, "{occupancy:?}");
    let configured = memory(status, "RssShmem:") + occupancy.pages_peak_bytes;
    let rest = memory(status, "VmHWM:") - memory(status, "RssFile:") - configured;
    assert!(rest < rest_max_bytes, "{rest} bytes beside buffer and pages: {occupancy:?}");
}

#[test]
fn a_mirror_takes_a_little_more_for_each_member_behind_nbd() {
    /// What such a member may take more than one here.
    const MEMBER_MAX_BYTES: u64 = 32 << 20;
    for far in [1, 2] {
        let scene = Scene::in_memory().unwrap_or_else(Scene::new);
        let drive = |number: usize| {
            let socket = format!("far-{number}");
            let command =
                scene.command(&format!("drive sata-2011 --size 320m --seed {number} --nbd unix:{socket}"));
            let stderr = scene.path(&format!("stderr-{number}"));
            let server = Server::start(scene.folder().to_owned(), stderr, command).ready();
            (format!("nbd+unix:///?socket={}", scene.path(&socket).display()), server)
        };
        let drives: Vec<(String, Server)> = (0..far).map(drive).collect();
        let there: String =
            drives.iter().map(|(uri, _)| format!(" --member {uri} --destroy {uri}")).collect();
        let here = if far < 2 { " --member disk/a" } else { "" };
        let volume = Volume::create(
            &scene,
            &format!("--size 256m --buffer 64m --log-size 64m --layout mirror{here}{there}"),
        );
        let server = volume.serve("--cache 64m --turn 200ms --answer-max 60s");
        let event_loop = EventLoop::new(Backend::Auto).unwrap();
        mixed_load(&event_loop, &volume);
        let status = server.status();
        assert_eq!(status.state.name, "ok", "{:?}", status.state);
        takes_at_most(&status, REST_MAX_BYTES + far as u64 * MEMBER_MAX_BYTES);
        server.stop();
    }
}

#[test]
fn memory_stays_within_what_was_given_with_2048_requests_in_flight() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, "--size 256m --buffer 64m");
    let server = volume.serve("--cache 16m");
    let bytes = noise(1, 4 << 20);
    for at in (0..SIZE).step_by(bytes.len()) {
        write(&volume.socket(), at, &bytes);
    }
    let event_loop = EventLoop::new(Backend::Auto).unwrap();
    for (what, len, writes) in [
        ("reads of 4 KiB", 4 << 10, false),
        ("durable writes of 4 KiB", 4 << 10, true),
        ("reads of 128 KiB", 128 << 10, false),
        ("durable writes of 128 KiB", 128 << 10, true),
    ] {
        load(&event_loop, &volume, len, writes);
        let status = server.status();
        let (server, occupancy) = (&status.server, &status.occupancy);
        assert!(server.in_flight_peak_bytes <= server.in_flight_max_bytes, "{what}: {server:?}");
        assert!(occupancy.pages_peak_bytes <= occupancy.pages_max_bytes, "{what}: {occupancy:?}");
        assert_eq!(occupancy.pages_max_bytes, status.chosen.cache_bytes);
        // The arena is shared memory, all of it touched by now.
        let configured = memory(&status, "RssShmem:") + occupancy.pages_peak_bytes;
        let rest = memory(&status, "VmHWM:") - memory(&status, "RssFile:") - configured;
        let own = memory(&status, "RssAnon:");
        assert!(rest < REST_MAX_BYTES, "{what}: {rest} bytes beside buffer and pages, {own} of its own");
    }
    server.stop();
}
