//! Who names its writer is alone, and nothing that an earlier opening sent comes after it.

use evenkeel_engine::device::Durability;
use evenkeel_engine::env::Env;
use evenkeel_host::nbd::client::{ClientError, ConnectOptions};
use evenkeel_host::nbd::fuzzing::RamExport;
use evenkeel_host::nbd::limits::Limits;
use evenkeel_host::nbd::proto::handshake::ContextRequest;
use evenkeel_host::nbd::proto::transmission::{Headers, Request};
use evenkeel_host::nbd::proto::writer::Writer;
use evenkeel_host::nbd::proto::{command, errno, option, option_reply, transmission_flag};
use evenkeel_host::net::ByteStream;
use evenkeel_sim::executor::SimEnv;

use crate::world::{Raw, World, tell};

const SIZE: usize = 1 << 20;
const OLD: Writer = Writer { volume: 7, opening: 1, drive: 0 };
const NEW: Writer = Writer { opening: 2, ..OLD };
const SUPERSEDED: &str = "a later opening of the same volume writes to the export now";

fn world(env: &SimEnv) -> World {
    World::new(env, RamExport::new(SIZE).taking_time(env.clone()), Limits::default())
}

fn by(writer: Writer) -> ConnectOptions {
    ConnectOptions { writer: Some(writer), ..ConnectOptions::default() }
}

/// A client that sends what it likes, in the name of `writer` if there is one.
async fn raw(world: &World, writer: Option<Writer>) -> Raw {
    let mut raw = world.raw().await;
    if let Some(writer) = writer {
        let name = writer.to_string();
        let asked = ContextRequest { name: "", queries: vec![&name] };
        assert_eq!(raw.last(option::EXTENDED_HEADERS, &[]).await, option_reply::ACK);
        assert_eq!(raw.last(option::SET_META_CONTEXT, &asked.encode()).await, option_reply::ACK);
    }
    raw.go(Headers::Simple).await;
    raw.headers = if writer.is_some() { Headers::Extended } else { Headers::Simple };
    raw
}

#[test]
fn what_an_earlier_opening_sent_is_not_carried_out_once_the_next_is_admitted() {
    for writer in [Some(OLD), None] {
        for seed in 0..20 {
            tell(seed, |env| async move {
                let world = world(&env);
                let old = raw(&world, writer).await;
                // Some are under way, some wait in the server's input, and of the last one half has come.
                let mut out = Vec::new();
                for at in 0..40 {
                    let (flags, offset) = (if writer.is_some() { 1 << 5 } else { 0 }, at * 4096);
                    let request = Request { flags, command: command::WRITE, cookie: at, offset, len: 4096 };
                    request.encode(&mut out, old.headers);
                    out.extend([1; 4096]);
                }
                let late = out.split_off(out.len() - 2000);
                old.send(&out).await;
                env.sleep(env.random() % 40_000).await;

                let new = world.client(&by(NEW)).await.expect("it is admitted");
                assert!(new.negotiated().is_exclusive);
                let mut found = vec![0; SIZE];
                new.read(0, &mut found).await.expect("it reads");
                let _the_connection_may_have_ended = old.stream.write(late).await;
                env.sleep(10_000_000_000).await;
                let mut later = vec![0; SIZE];
                new.read(0, &mut later).await.expect("it reads");
                assert!(found == later, "something was written after it was admitted");
                assert_eq!(world.endings.borrow()[..], [SUPERSEDED]);
                new.write(0, &[2; 4096], Durability::Durable).await.expect("it writes");
            });
        }
    }
}

#[test]
fn drives_of_one_opening_are_side_by_side_and_the_same_one_again_is_alone() {
    tell(1, |env| async move {
        let world = world(&env);
        let first = world.client(&by(NEW)).await.expect("it is admitted");
        let second = world.client(&by(Writer { drive: 1, ..NEW })).await.expect("it is admitted");
        for client in [&first, &second] {
            client.write(0, b"it writes", Durability::Buffered).await.expect("it writes");
        }
        let again = world.client(&by(NEW)).await.expect("it is admitted");
        assert!(first.write(0, b"no", Durability::Buffered).await.is_err());
        for client in [&again, &second] {
            client.write(0, b"it writes", Durability::Buffered).await.expect("it writes");
        }
        assert_eq!(world.endings(1).await, [SUPERSEDED]);
    });
}

#[test]
fn another_volume_is_refused_until_the_writer_has_left() {
    tell(1, |env| async move {
        let world = world(&env);
        let writer = world.client(&by(NEW)).await.expect("it is admitted");
        let other = by(Writer { volume: 8, ..NEW });
        match world.client(&other).await.map(drop) {
            Err(ClientError::InUse(why)) => assert!(why.contains("another volume"), "{why}"),
            other => panic!("{other:?}"),
        }
        writer.write(0, b"it is untouched", Durability::Durable).await.expect("it writes");
        drop(writer);
        env.sleep(1_000_000_000).await;
        world.client(&other).await.expect("nobody is there any more");
        // Of an export that nobody may change, nobody has to be the only writer.
        let export = RamExport::new(SIZE).read_only();
        let world = World::new(&env, export, Limits::default());
        let _one = world.client(&by(NEW)).await.expect("it reads");
        world.client(&other).await.expect("it reads");
    });
}

#[test]
fn beside_a_writer_others_only_read() {
    tell(1, |env| async move {
        let world = world(&env);
        let before = raw(&world, None).await;
        let writer = world.client(&by(NEW)).await.expect("it is admitted");
        writer.write(0, b"contents", Durability::Durable).await.expect("it writes");
        assert_eq!(before.take(1).await, b"", "it could have written, and is ended");

        let reader = world.client(&ConnectOptions::default()).await.expect("it reads");
        assert!(reader.negotiated().has(transmission_flag::READ_ONLY));
        assert!(!reader.negotiated().has(transmission_flag::SEND_TRIM));
        let mut found = [0; 8];
        reader.read(0, &mut found).await.expect("it reads");
        assert_eq!(&found, b"contents");
        let stubborn = raw(&world, None).await;
        for command in [command::WRITE_ZEROES, command::TRIM] {
            stubborn.request(command, 0, 0, 8, b"").await;
            assert_eq!(stubborn.errno().await, errno::EPERM);
        }
        stubborn.request(command::WRITE, 0, 0, 3, b"not").await;
        assert_eq!(stubborn.errno().await, errno::EPERM);

        drop(writer);
        env.sleep(1_000_000_000).await;
        let next = world.client(&ConnectOptions::default()).await.expect("it connects");
        next.write(0, b"again", Durability::Durable).await.expect("nobody else writes");
        // What was said once stays said.
        stubborn.request(command::WRITE, 0, 0, 3, b"not").await;
        assert_eq!(stubborn.errno().await, errno::EPERM);
    });
}
