//! Who names its writer is alone, and nothing that an earlier opening sent comes after it.

use evenkeel_engine::device::{Durability, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_engine::format::unit::OPENING_END;
use evenkeel_host::front::nbd::fuzzing::RamExport;
use evenkeel_host::front::nbd::limits::Limits;
use evenkeel_host::nbd::client::{ClientError, ConnectOptions};
use evenkeel_host::nbd::proto::handshake::ContextRequest;
use evenkeel_host::nbd::proto::transmission::{Headers, Request};
use evenkeel_host::nbd::proto::writer::Writer;
use evenkeel_host::nbd::proto::{command, errno, option, option_reply, transmission_flag};
use evenkeel_host::net::ByteStream;
use evenkeel_sim::executor::SimEnv;

use crate::fixture::{Fixture, Raw, run};

const SIZE: usize = 1 << 20;
const OLD: Writer = Writer { volume: 7, opening: 1, drive: 0, number: Some(4) };
const NEW: Writer = Writer { opening: 2, number: Some(5), ..OLD };
const SUPERSEDED: &str = "a later opening of the same volume writes to the export now";

fn fixture(env: &SimEnv) -> Fixture {
    Fixture::new(env, RamExport::new(SIZE).taking_time(env.clone()), Limits::default())
}

fn by(writer: Writer) -> ConnectOptions {
    ConnectOptions { writer: Some(writer), ..ConnectOptions::default() }
}

/// Why somebody who asked to write was refused.
async fn refusal(fixture: &Fixture, writer: Writer) -> String {
    match fixture.client(&by(writer)).await.map(drop) {
        Err(ClientError::InUse(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// A client that sends what it likes, in the name of `writer` if there is one.
async fn raw(fixture: &Fixture, writer: Option<Writer>) -> Raw {
    let mut raw = fixture.raw().await;
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
    for writer in [Some(OLD), Some(OLD.without_number()), None] {
        for seed in 0..20 {
            run(seed, |env| async move {
                let fixture = fixture(&env);
                let old = raw(&fixture, writer).await;
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

                let new = fixture.client(&by(NEW)).await.expect("it is admitted");
                assert!(new.negotiated().is_exclusive);
                let mut found = vec![0; SIZE];
                new.read(0, &mut found).await.expect("it reads");
                let _the_connection_may_have_ended = old.stream.write(late).await;
                env.sleep(10_000_000_000).await;
                let mut later = vec![0; SIZE];
                new.read(0, &mut later).await.expect("it reads");
                assert!(found == later, "something was written after it was admitted");
                assert_eq!(fixture.endings.borrow()[..], [SUPERSEDED]);
                new.write(0, &[2; 4096], Durability::Durable).await.expect("it writes");
            });
        }
    }
}

#[test]
fn a_client_that_leaves_and_takes_no_replies_does_not_hold_up_the_next_opening() {
    for says_so in [true, false] {
        run(1, |env| async move {
            let fixture = fixture(&env);
            let mut old = Raw { stream: fixture.connection(1024, None), headers: Headers::Simple };
            old.take(18).await;
            old.send(&3u32.to_be_bytes()).await;
            old.go(Headers::Simple).await;
            for _ in 0..3 {
                old.request(command::READ, 0, 0, SIZE as u64 / 2, &[]).await;
            }
            if says_so {
                old.request(command::DISCONNECT, 0, 0, 0, &[]).await;
            }
            env.sleep(1_000_000_000).await;
            let began_ns = env.now_ns();
            fixture.client(&by(NEW)).await.expect("it is admitted");
            let took_ns = env.now_ns() - began_ns;
            assert!(took_ns < Limits::default().drain_max_ns / 10, "{took_ns} ns");
        });
    }
}

#[test]
fn drives_of_one_opening_are_side_by_side_and_the_same_one_again_is_alone() {
    run(1, |env| async move {
        let fixture = fixture(&env);
        let first = fixture.client(&by(NEW)).await.expect("it is admitted");
        let second = fixture.client(&by(Writer { drive: 1, ..NEW })).await.expect("it is admitted");
        for client in [&first, &second] {
            client.write(0, b"it writes", Durability::Buffered).await.expect("it writes");
        }
        let again = fixture.client(&by(NEW)).await.expect("it is admitted");
        assert!(first.write(0, b"no", Durability::Buffered).await.is_err());
        for client in [&again, &second] {
            client.write(0, b"it writes", Durability::Buffered).await.expect("it writes");
        }
        assert_eq!(fixture.endings(1).await, [SUPERSEDED]);
    });
}

/// Two servers of one volume, of which each connects again as soon as it has lost its connection: the one that opened the
/// volume later stays, and the other is told why it does not.
#[test]
fn two_servers_that_connect_again_and_again_come_to_rest_with_the_later_one() {
    for seed in 0..50 {
        run(seed, |env| async move {
            let fixture = fixture(&env);
            let mut both = [(OLD, None), (NEW, None)];
            for _ in 0..40 {
                env.sleep(env.random() % 1_000_000).await;
                let (writer, client) = &mut both[env.random() as usize % 2];
                let is_lost = |client: &Option<evenkeel_host::nbd::client::Client<_>>| {
                    client.as_ref().is_none_or(|it| it.failure().is_some())
                };
                if is_lost(client) {
                    match fixture.client(&by(*writer)).await {
                        Ok(admitted) => *client = Some(admitted),
                        Err(ClientError::InUse(why)) => {
                            assert_eq!(*writer, OLD, "{why}");
                            assert!(why.contains("later"), "{why}");
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            let [(_, old), (_, new)] = &both;
            new.as_ref()
                .expect("it is there")
                .write(0, &[2; 512], Durability::Durable)
                .await
                .expect("it writes");
            if let Some(old) = old {
                assert!(old.write(0, &[1; 512], Durability::Durable).await.is_err());
            }
            let ended = fixture.endings(0).await.into_iter().filter(|it| it == SUPERSEDED).count();
            assert!(ended <= 1, "{ended} sessions were ended for another");
        });
    }
}

#[test]
fn an_opening_that_is_over_is_refused_while_a_later_one_is_away_too_until_somebody_else_wrote() {
    run(1, |env| async move {
        let fixture = fixture(&env);
        let new = fixture.client(&by(NEW)).await.expect("it is admitted");
        let why = refusal(&fixture, OLD).await;
        assert!(why.contains("opened the same volume later"), "{why}");
        let why = refusal(&fixture, OLD.without_number()).await;
        assert!(why.contains("opened the same volume later"), "{why}");
        new.write(0, b"untouched", Durability::Durable).await.expect("it writes");
        drop(new);
        env.sleep(1_000_000_000).await;
        let why = refusal(&fixture, OLD).await;
        assert!(why.contains("start it anew"), "{why}");
        // One that has not got as far as to say so to the drive, and then the next that was told the same.
        let again = fixture.client(&by(Writer { opening: 1, ..NEW })).await.expect("nobody else is there");
        drop(again);
        // An older program, which names no number, is let in once the other is gone.
        let older = fixture.client(&by(OLD.without_number())).await.expect("it is admitted");
        older.write(0, b"changed", Durability::Durable).await.expect("it writes");
        drop(older);
        env.sleep(1_000_000_000).await;
        assert!(refusal(&fixture, OLD).await.contains("start it anew"));
        // Whoever else writes may put back what was there at any time.
        let plain = fixture.client(&ConnectOptions::default()).await.expect("it is admitted");
        plain.write(0, b"restored", Durability::Durable).await.expect("it writes");
        fixture.client(&by(OLD)).await.expect("it is admitted");
    });
}

#[test]
fn who_names_no_one_and_changes_nothing_lets_no_earlier_opening_in() {
    run(1, |env| async move {
        let fixture = fixture(&env);
        drop(fixture.client(&by(NEW)).await.expect("it is admitted"));
        env.sleep(1_000_000_000).await;
        let looking = fixture.client(&ConnectOptions::default()).await.expect("it is admitted");
        assert!(!looking.negotiated().has(transmission_flag::READ_ONLY), "it might write");
        looking.read(0, &mut [0; 4096]).await.expect("it reads");
        looking.flush(FlushScope::Whole).await.expect("nothing changes");
        looking.write(SIZE as u64, b"not", Durability::Durable).await.expect_err("there is no room");
        assert!(refusal(&fixture, OLD).await.contains("start it anew"));
        drop(looking);
        env.sleep(1_000_000_000).await;
        assert!(refusal(&fixture, OLD).await.contains("start it anew"));
        for command in [command::WRITE_ZEROES, command::TRIM, command::WRITE] {
            drop(fixture.client(&by(NEW)).await.expect("it is admitted"));
            env.sleep(1_000_000_000).await;
            let changing = raw(&fixture, None).await;
            changing.request(command, 0, 0, 8, if command == command::WRITE { &[1; 8] } else { b"" }).await;
            assert_eq!(changing.errno().await, 0);
            drop(fixture.client(&by(OLD)).await.expect("whatever the drive says may be another's by now"));
            env.sleep(1_000_000_000).await;
        }
    });
}

/// What is still read of a session that is being superseded is no change after the one that takes its place.
#[test]
fn a_session_that_is_superseded_does_not_let_an_earlier_opening_in() {
    for seed in 0..50 {
        run(seed, |env| async move {
            let fixture = fixture(&env);
            let changing = raw(&fixture, None).await;
            let mut write = Vec::new();
            Request { flags: 0, command: command::WRITE, cookie: 77, offset: 0, len: 512 }
                .encode(&mut write, changing.headers);
            write.extend([1; 512]);
            let sending = env.clone();
            env.spawn(async move {
                for _ in 0..400 {
                    // It is ended at some time; the others have their turn in between.
                    let _sent = changing.stream.write(write.clone()).await;
                    sending.sleep(0).await;
                }
            });
            env.sleep(0).await;
            drop(fixture.client(&by(NEW)).await.expect("it is admitted"));
            env.sleep(1_000_000_000).await;
            assert!(refusal(&fixture, OLD).await.contains("start it anew"));
        });
    }
}

/// A server that was locked out by somebody else's number hears which server to start anew.
#[test]
fn a_number_that_no_opening_has_keeps_nobody_out() {
    run(1, |env| async move {
        let fixture = fixture(&env);
        for number in [OPENING_END, u64::MAX - 1, u64::MAX] {
            let why = refusal(&fixture, Writer { number: Some(number), ..NEW }).await;
            assert!(why.contains("below 4294967296"), "{why}");
            drop(fixture.client(&by(OLD)).await.expect("it is not kept out"));
            env.sleep(1_000_000_000).await;
        }
        let last = Writer { number: Some(OPENING_END - 1), ..NEW };
        let there = fixture.client(&by(last)).await.expect("a volume might have been opened so often");
        assert!(refusal(&fixture, OLD).await.contains("start the export's server anew"));
        drop(there);
        env.sleep(1_000_000_000).await;
        assert!(refusal(&fixture, OLD).await.contains("start the export's server anew"));
    });
}

#[test]
fn who_asks_for_its_number_reads_beside_the_writer_and_ends_nobody() {
    run(1, |env| async move {
        let fixture = fixture(&env);
        let old = fixture.client(&by(OLD)).await.expect("it is admitted");
        old.write(0, b"contents", Durability::Durable).await.expect("it writes");
        let looking = fixture.client(&by(Writer { number: Some(0), ..NEW })).await.expect("it is let in");
        let negotiated = looking.negotiated();
        assert!(negotiated.only_looks() && !negotiated.is_exclusive);
        assert!(negotiated.has(transmission_flag::READ_ONLY));
        let mut found = [0; 8];
        looking.read(0, &mut found).await.expect("it reads");
        assert_eq!(&found, b"contents");
        old.write(0, b"more", Durability::Durable).await.expect("it goes on");
        let stubborn = raw(&fixture, Some(Writer { number: Some(0), ..NEW })).await;
        stubborn.request(command::WRITE, 1 << 5, 0, 3, b"not").await;
        assert_eq!(stubborn.errno().await, errno::EPERM);
    });
}

#[test]
fn another_volume_is_refused_until_the_writer_has_left() {
    run(1, |env| async move {
        let fixture = fixture(&env);
        let writer = fixture.client(&by(NEW)).await.expect("it is admitted");
        let other = by(Writer { volume: 8, ..NEW });
        let why = refusal(&fixture, Writer { volume: 8, ..NEW }).await;
        assert!(why.contains("another volume"), "{why}");
        writer.write(0, b"it is untouched", Durability::Durable).await.expect("it writes");
        drop(writer);
        env.sleep(1_000_000_000).await;
        fixture.client(&other).await.expect("nobody is there any more");
        // Of an export that nobody may change, nobody has to be the only writer.
        let export = RamExport::new(SIZE).read_only();
        let fixture = Fixture::new(&env, export, Limits::default());
        let _one = fixture.client(&by(NEW)).await.expect("it reads");
        fixture.client(&other).await.expect("it reads");
    });
}

#[test]
fn beside_a_writer_others_only_read() {
    run(1, |env| async move {
        let fixture = fixture(&env);
        let before = raw(&fixture, None).await;
        let writer = fixture.client(&by(NEW)).await.expect("it is admitted");
        writer.write(0, b"contents", Durability::Durable).await.expect("it writes");
        assert_eq!(before.take(1).await, b"", "it could have written, and is ended");

        let reader = fixture.client(&ConnectOptions::default()).await.expect("it reads");
        assert!(reader.negotiated().has(transmission_flag::READ_ONLY));
        assert!(!reader.negotiated().has(transmission_flag::SEND_TRIM));
        let mut found = [0; 8];
        reader.read(0, &mut found).await.expect("it reads");
        assert_eq!(&found, b"contents");
        let stubborn = raw(&fixture, None).await;
        for command in [command::WRITE_ZEROES, command::TRIM] {
            stubborn.request(command, 0, 0, 8, b"").await;
            assert_eq!(stubborn.errno().await, errno::EPERM);
        }
        stubborn.request(command::WRITE, 0, 0, 3, b"not").await;
        assert_eq!(stubborn.errno().await, errno::EPERM);

        drop(writer);
        env.sleep(1_000_000_000).await;
        let next = fixture.client(&ConnectOptions::default()).await.expect("it connects");
        next.write(0, b"again", Durability::Durable).await.expect("nobody else writes");
        // What was said once stays said.
        stubborn.request(command::WRITE, 0, 0, 3, b"not").await;
        assert_eq!(stubborn.errno().await, errno::EPERM);
    });
}
