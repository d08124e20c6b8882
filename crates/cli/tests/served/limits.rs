//! No client hurts another, or ends the server.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use evenkeel_engine::device::Durability;
use evenkeel_engine::env::Env;
use evenkeel_host::event_loop::{Backend, EventLoop};

use crate::support::load::{connect, contents, write};
use crate::support::root::{programs, run};
use crate::support::served::{Server, Volume, fill, noise, patiently};
use crate::support::{Scene, or_skip, says};

const FLAGS: &str = "--size 32m --log-size 16m --buffer 4m";

/// What clients without manners send.
fn rude() -> Vec<Vec<u8>> {
    let hello = [&[0, 0, 0, 3][..]].concat();
    let option =
        |number: u32, len: u32| [b"IHAVEOPT".as_slice(), &number.to_be_bytes(), &len.to_be_bytes()].concat();
    // EXPORT_NAME of the empty name: requests follow.
    let into_transmission = [hello.clone(), option(1, 0)].concat();
    let request = |command: u16, offset: u64, len: u32| {
        [
            &0x2560_9513_u32.to_be_bytes()[..],
            &0_u16.to_be_bytes(),
            &command.to_be_bytes(),
            &7_u64.to_be_bytes(),
            &offset.to_be_bytes(),
            &len.to_be_bytes(),
        ]
        .concat()
    };
    vec![
        Vec::new(),
        vec![0xff; 100_000],
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        [hello.clone(), option(7, u32::MAX)].concat(),
        [hello, option(99, 10), vec![1; 5]].concat(),
        // A write whose bytes never come, one that is too large, and one that is none.
        [into_transmission.clone(), request(1, 0, 1 << 20), vec![9; 1000]].concat(),
        [into_transmission.clone(), request(1, 0, u32::MAX)].concat(),
        [into_transmission.clone(), request(0xffff, u64::MAX, u32::MAX), vec![7; 1000]].concat(),
        // Answers that nobody reads.
        [into_transmission, request(0, 0, 32 << 20).repeat(64)].concat(),
    ]
}

#[test]
fn no_client_hurts_another_or_ends_the_server() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    for backend in ["io-uring", "threads"] {
        let server = volume.serve(&format!("--connections 40 --backend {backend}"));
        let event_loop = EventLoop::new(Backend::Auto).unwrap();
        let env = event_loop.handle();
        event_loop.block_on(async {
            let polite = connect(&env, &volume.socket()).await;
            let mut here = Vec::new();
            for (number, words) in rude().into_iter().cycle().take(27).enumerate() {
                let mut stream = UnixStream::connect(volume.socket()).unwrap();
                // It may have been turned away already.
                stream.set_nonblocking(true).unwrap();
                let _turned_away_is_fine = stream.write_all(&words);
                // Every third goes at once, the others stay and are silent.
                if number % 3 > 0 {
                    here.push(stream);
                }
                let bytes = noise(number as u64, 30_001);
                polite.write(8 << 20, &bytes, Durability::Durable).await.unwrap();
                let mut found = vec![0; bytes.len()];
                polite.read(8 << 20, &mut found).await.unwrap();
                assert!(found == bytes, "the polite client was hurt by {number}");
            }
            assert_eq!(polite.failure(), None);
        });
        let status = server.status();
        assert_eq!((status.failure, status.server.connections_refused), (None, 0));
        server.stop();
    }
    assert!(scene.done("check disk").stdout.contains(" 0 damaged"));
}

#[test]
fn the_largest_requests_are_answered_and_so_are_those_of_many_who_then_stall() {
    const MAX: usize = 32 << 20;
    let scene = Scene::new();
    let volume = Volume::create(&scene, &FLAGS.replace("--size 32m", "--size 48m"));
    for (seed, backend) in ["io-uring", "threads"].into_iter().enumerate() {
        let server = volume.serve(&format!("--backend {backend}"));
        // As many as would fill what all share, each of them with a large write of which the rest never comes.
        let request = |len: u32| {
            // Behind what the other client writes: a piece of it may be written before the rest fails to come.
            let (command, behind) = ([0x25, 0x60, 0x95, 0x13, 0, 0, 0, 1], (MAX as u64).to_be_bytes());
            let fields = [&command[..], &[0; 8], &behind, &len.to_be_bytes()];
            [&[0, 0, 0, 3][..], b"IHAVEOPT", &[0, 0, 0, 1, 0, 0, 0, 0], &fields.concat()].concat()
        };
        let _stalled: Vec<UnixStream> = (0..8)
            .map(|_| {
                let mut stream = UnixStream::connect(volume.socket()).unwrap();
                stream.write_all(&[request(8 << 20), vec![9; 64 << 10]].concat()).unwrap();
                stream
            })
            .collect();
        let event_loop = EventLoop::new(Backend::Auto).unwrap();
        let env = event_loop.handle();
        event_loop.block_on(async {
            let client = connect(&env, &volume.socket()).await;
            assert_eq!(client.negotiated().block_sizes.maximum_bytes as usize, MAX);
            for len in [MAX - 63, MAX] {
                let bytes = noise((seed + len) as u64, len);
                client.write(0, &bytes, Durability::Durable).await.unwrap();
                let mut found = vec![0; len];
                client.read(0, &mut found).await.unwrap();
                assert!(found == bytes, "{len} bytes are others");
            }
        });
        server.stop();
    }
}

#[test]
fn qemu_writes_and_reads_as_much_as_it_may_at_once() {
    or_skip!(programs(&["qemu-io"]));
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve("");
    let uri = volume.uri();
    let play = ["-f", "raw", &uri, "-c", "write -P 7 0 32M", "-c", "flush", "-c", "read -P 7 0 32M"];
    let said = run("qemu-io", &play).unwrap();
    says(&said, &["wrote 33554432/33554432", "read 33554432/33554432"]);
    assert!(!said.contains("failed"), "{said}");
    server.stop();
}

#[test]
fn messages_that_nobody_takes_do_not_end_it() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut server =
        Server::start_with(volume.folder(), scene.path("stderr"), scene.command("serve disk"), writer)
            .ready();
    write(&volume.socket(), 0, b"kept");
    UnixStream::connect(volume.socket()).unwrap().write_all(&[0xff; 1000]).unwrap();
    patiently("the end of the rude one", || (server.status().server.connections == 0).then_some(()));
    assert_eq!(contents(&volume.socket())[..4], *b"kept");
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
}

/// With a line for each client that breaks the protocol.
const DEBUG: &str = "serve disk --log-level debug";

/// What a server says on standard error, in this format, when somebody reads again.
fn said_late(format: &str) -> Vec<String> {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let (mut reader, writer) = std::io::pipe().unwrap();
    fill(&writer);
    let command = scene.command(&format!("{DEBUG} --log-format {format}"));
    let mut server = Server::start_with(volume.folder(), scene.path("stderr"), command, writer).ready();
    for number in 0..3 {
        UnixStream::connect(volume.socket()).unwrap().write_all(&[0xff; 1000]).unwrap();
        patiently("the end of the rude one", || (server.status().server.connections == 0).then_some(()));
        write(&volume.socket(), 0, &[number; 4]);
    }
    // Somebody reads again, and is told.
    reader.read_exact(&mut [0; 32 << 10]).unwrap();
    UnixStream::connect(volume.socket()).unwrap().write_all(&[0xff; 1000]).unwrap();
    patiently("the end of the rude one", || (server.status().server.connections == 0).then_some(()));
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0));
    let mut told = Vec::new();
    reader.read_to_end(&mut told).unwrap();
    let told = String::from_utf8_lossy(&told);
    told.trim_start_matches('.').lines().map(str::to_owned).collect()
}

#[test]
fn messages_that_nobody_reads_do_not_keep_it_from_work() {
    // Besides those of three clients, it said that it starts and that it is ready.
    let text = said_late("text");
    let [missing, client, rest @ ..] = &text[..] else { panic!("{text:?}") };
    assert_eq!(missing, "5 lines are missing here");
    says(client, &["DEBUG client-failed: a connection ended"]);
    says(&rest.join("\n"), &[" stopping: ", " stopped: "]);
    let documents = said_late("json");
    let read = |line: &String| -> serde_json::Value { serde_json::from_str(line).unwrap() };
    let documents: Vec<_> = documents.iter().map(read).collect();
    assert_eq!((&documents[0]["event"], &documents[0]["count"]), (&"lines-missing".into(), &5.into()));
    assert!(documents.iter().all(|document| document["timestamp"].is_string()), "{documents:?}");
    assert_eq!(documents[1]["event"], "client-failed");
}

#[test]
fn one_client_too_many_is_turned_away_and_the_others_stay() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve("--connections 2");
    let event_loop = EventLoop::new(Backend::Auto).unwrap();
    let env = event_loop.handle();
    event_loop.block_on(async {
        let first = connect(&env, &volume.socket()).await;
        let second = connect(&env, &volume.socket()).await;
        let mut third = UnixStream::connect(volume.socket()).unwrap();
        let mut greeting = Vec::new();
        third.read_to_end(&mut greeting).unwrap();
        assert!(greeting.is_empty(), "it was greeted");
        for client in [&first, &second] {
            client.write(0, b"here", Durability::Durable).await.unwrap();
        }
        drop(second);
        while server.status().server.connections > 1 {
            env.sleep(1_000_000).await;
        }
        connect(&env, &volume.socket()).await.read(0, &mut [0; 4]).await.unwrap();
    });
    assert_eq!(server.status().server.connections_refused, 1);
    server.stop();
}
