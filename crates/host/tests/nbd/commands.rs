//! Each command, at odd places, over all headers, and everything that it may not be.

use evenkeel_engine::device::{Durability, Extent, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_host::front::nbd::export::BlockSizes;
use evenkeel_host::front::nbd::fuzzing::RamExport;
use evenkeel_host::front::nbd::limits::Limits;
use evenkeel_host::front::statistics::CommandKind;
use evenkeel_host::nbd::client::{ClientError, ConnectOptions, NbdDrive};
use evenkeel_host::nbd::proto::command;
use evenkeel_host::nbd::proto::handshake::ContextRequest;
use evenkeel_host::nbd::proto::option;
use evenkeel_host::nbd::proto::transmission::Headers;

use crate::fixture::{Fixture, run, with_headers};
use crate::support::contract::a_device_keeps_its_word;

const ALL: [Headers; 3] = [Headers::Simple, Headers::Structured, Headers::Extended];
const SIZE: u64 = 1 << 20;

#[test]
fn every_command_does_what_it_says_at_any_byte() {
    for headers in ALL {
        run(3, |env| async move {
            let export = RamExport::new(SIZE as usize);
            let fixture = Fixture::new(&env, export.clone(), Limits::default());
            let client = fixture.client(&with_headers(headers)).await.expect("it connects");
            client.write(4093, b"seven..", Durability::Buffered).await.expect("it writes");
            let mut found = [1; 9];
            client.read(4092, &mut found).await.expect("it reads");
            assert_eq!(found, *b"\0seven..\0");
            assert_eq!(export.durable(), vec![0; SIZE as usize], "nothing asked for that yet");

            client.write(SIZE - 1, b"z", Durability::Durable).await.expect("it writes durably");
            assert_eq!(export.durable()[SIZE as usize - 1], b'z');
            assert_eq!(export.durable()[4093], 0);
            client.flush(FlushScope::Whole).await.expect("it flushes");
            assert_eq!(export.durable(), export.bytes());

            client.write_zeroes(Extent::new(4094, 2), Durability::Buffered, true).await.expect("zeros");
            client.read(4092, &mut found).await.expect("it reads");
            assert_eq!(found, *b"\0s\0\0en..\0");
            client.trim(Extent::new(0, 8192), Durability::Durable).await.expect("it trims");
            client.read(4092, &mut found).await.expect("it reads");
            assert_eq!(found, [0; 9]);

            // Longer than what is read at once, and than what is copied.
            let long: Vec<u8> = (0..600_001u32).map(|at| (at * 7 / 5) as u8).collect();
            client.write(3, &long, Durability::Buffered).await.expect("it writes");
            let mut back = vec![0; long.len()];
            client.read(3, &mut back).await.expect("it reads");
            assert!(back == long);
            if headers != Headers::Simple {
                client.trim(Extent::new(8192, 4096), Durability::Buffered).await.expect("it trims");
                let told = client.allocation(Extent::new(100, 20_000)).await.expect("it tells");
                assert_eq!(told, [(8092, true), (4096, false), (7812, true)]);
            }
        });
    }
}

#[test]
fn a_flush_covers_the_writes_of_every_connection() {
    run(3, |env| async move {
        let export = RamExport::new(SIZE as usize);
        let fixture = Fixture::new(&env, export.clone(), Limits::default());
        let writer = fixture.client(&ConnectOptions::default()).await.expect("it connects");
        let flusher = fixture.client(&ConnectOptions::default()).await.expect("it connects");
        writer.write(10, b"written", Durability::Buffered).await.expect("it writes");
        flusher.flush(FlushScope::Whole).await.expect("it flushes");
        assert_eq!(export.durable()[10..17], *b"written");
    });
}

#[test]
fn a_flush_of_ranges_takes_just_these_where_it_was_negotiated() {
    run(3, |env| async move {
        let export = RamExport::new(SIZE as usize);
        let fixture = Fixture::new(&env, export.clone(), Limits::default());
        let ranges = [Extent::new(10, 3), Extent::new(5000, 1)];
        let client = fixture.client(&ConnectOptions::default()).await.expect("it connects");
        client.write(0, &[9; 6000], Durability::Buffered).await.expect("it writes");
        client.flush(FlushScope::Ranges(&ranges)).await.expect("it flushes");
        assert_eq!(export.durable().iter().filter(|&&byte| byte == 9).count(), 4);
        assert_eq!(export.durable()[10..13], [9; 3]);

        let stock = ConnectOptions { range_flush: false, ..ConnectOptions::default() };
        let stock = fixture.client(&stock).await.expect("it connects");
        stock.flush(FlushScope::Ranges(&ranges)).await.expect("it flushes everything");
        assert_eq!(export.flushes().len(), 3);
        assert_eq!(export.flushes()[2], None);

        let mut raw = fixture.raw().await;
        raw.go(Headers::Structured).await;
        for (offset, len) in [(0, 4096), (4096, 0)] {
            raw.request(command::FLUSH, 0, offset, len, &[]).await;
            assert_eq!(raw.errno().await, 22, "a flush of a range means nothing to who did not ask for it");
        }
    });
}

#[test]
fn a_request_that_cannot_be_is_answered_with_the_number_that_fits_and_the_next_one_is_served() {
    for headers in ALL {
        run(3, |env| async move {
            let fixture = Fixture::new(&env, RamExport::new(SIZE as usize), Limits::default());
            let mut raw = fixture.raw().await;
            raw.go(headers).await;
            let large = (32 << 20) + 1;
            let requests: &[(u16, u16, u64, u64, u32)] = &[
                (command::READ, 0, SIZE - 1, 2, 22),
                (command::READ, 0, u64::MAX, 2, 22),
                (command::READ, 0, 0, large, 22),
                (command::READ, 1 << 9, 0, 1, 22),
                (command::WRITE, 0, SIZE, 1, 28),
                (command::WRITE, 0, u64::MAX - 3, 8, 28),
                (command::WRITE, 0, 0, large, 22),
                (command::WRITE, 1 << 2, 0, 16, 22),
                (command::WRITE_ZEROES, 0, SIZE - 1, 2, 28),
                (command::WRITE_ZEROES, 1 << 4, 0, 2, 22),
                (command::TRIM, 0, 1, SIZE, 22),
                (command::BLOCK_STATUS, 0, 0, 4096, 22),
                (5, 0, 0, 0, 22),
                (99, 0, 0, 0, 22),
                (command::READ, 0, SIZE, 0, 0),
                (command::WRITE_ZEROES, 0, 0, SIZE, 0),
                (command::READ, 1, 0, 0, 0),
            ];
            for &(command, flags, offset, len, errno) in requests {
                let payload = vec![1; if command == command::WRITE { len as usize } else { 0 }];
                raw.request(command, flags, offset, len, &payload).await;
                assert_eq!(raw.errno().await, errno, "command {command}, flags {flags}, {offset}+{len}");
            }
            let status = fixture.server.status();
            assert_eq!(status.statistics.of(CommandKind::Invalid).errors, 2);
            assert_eq!(status.statistics.of(CommandKind::Write).errors, 4);
            assert!(status.in_flight_peak_bytes < 1 << 20, "what is refused takes no room");
        });
    }
}

#[test]
fn a_payload_that_was_announced_where_there_is_to_be_none_is_passed_over() {
    run(3, |env| async move {
        let fixture = Fixture::new(&env, RamExport::new(SIZE as usize), Limits::default());
        let mut raw = fixture.raw().await;
        raw.go(Headers::Extended).await;
        raw.request(command::FLUSH, 1 << 5, 0, 100, &[0; 100]).await;
        assert_eq!(raw.errno().await, 22);
        raw.request(command::READ, 0, 0, 8, &[]).await;
        assert_eq!(raw.errno().await, 0);
        raw.request(command::WRITE, 1 << 5, 0, 1 << 40, &[]).await;
        assert_eq!(fixture.endings(1).await, ["refused: a request's payload is too long"]);
    });
}

#[test]
fn whole_blocks_are_asked_for_where_the_export_has_them() {
    let sizes = BlockSizes { minimum_bytes: 512, ..BlockSizes::default() };
    run(3, |env| async move {
        let fixture = Fixture::new(&env, RamExport::new(2000).with_sizes(sizes), Limits::default());
        let mut raw = fixture.raw().await;
        raw.go(Headers::Simple).await;
        for (offset, len, errno) in [(1, 512, 22), (512, 1, 22), (512, 1024, 0), (1536, 464, 0)] {
            raw.request(command::WRITE, 0, offset, len, &vec![0; len as usize]).await;
            assert_eq!(raw.errno().await, errno, "{offset}+{len}");
        }
    });
}

#[test]
fn a_read_only_export_takes_no_change() {
    run(3, |env| async move {
        let fixture = Fixture::new(&env, RamExport::new(8192).read_only(), Limits::default());
        let mut raw = fixture.raw().await;
        raw.go(Headers::Structured).await;
        raw.request(command::WRITE, 0, 0, 4, b"data").await;
        assert_eq!(raw.errno().await, 1);
        for command in [command::TRIM, command::WRITE_ZEROES] {
            raw.request(command, 0, 0, 4, &[]).await;
            assert_eq!(raw.errno().await, 1);
        }
        raw.request(command::FLUSH, 0, 0, 0, &[]).await;
        assert_eq!(raw.errno().await, 0);
        let client = fixture.client(&ConnectOptions::default()).await.expect("it connects");
        let error = client.trim(Extent::new(0, 1), Durability::Buffered).await;
        assert_eq!(error, Err(ClientError::NotOffered("trim")));
        assert!(NbdDrive::new(client, false, None, "ram").is_err());
    });
}

#[test]
fn what_the_export_says_reaches_the_client() {
    for (errno, told) in [(5, 5), (28, 28), (30, 1), (122, 28), (110, 5)] {
        run(3, |env| async move {
            let export = RamExport::new(8192);
            let fixture = Fixture::new(&env, export.clone(), Limits::default());
            let client = fixture.client(&ConnectOptions::default()).await.expect("it connects");
            export.fail_with(Some(errno));
            let failed = Err(ClientError::Server { errno: told, message: "told to fail".into() });
            assert_eq!(client.read(0, &mut [0; 10]).await, failed);
            assert_eq!(client.write(0, &[0; 10], Durability::Durable).await, failed);
            assert_eq!(client.flush(FlushScope::Whole).await, failed);
            assert_eq!(client.allocation(Extent::new(0, 10)).await.map(drop), failed);
            export.fail_with(None);
            assert_eq!(client.read(0, &mut [0; 10]).await, Ok(()));
            let of_reads = *fixture.server.status().statistics.of(CommandKind::Read);
            assert_eq!((of_reads.requests, of_reads.errors, of_reads.bytes), (2, 1, 10));
        });
    }
}

#[test]
fn one_extent_is_told_where_one_was_asked_for_and_a_context_without_meaning_has_one() {
    run(3, |env| async move {
        let export = RamExport::new(SIZE as usize);
        let fixture = Fixture::new(&env, export, Limits::default());
        let mut raw = fixture.raw().await;
        raw.ask(option::EXTENDED_HEADERS, &[]).await;
        let request = ContextRequest { name: "", queries: vec!["evenkeel:range-flush", "base:allocation"] };
        raw.ask(option::SET_META_CONTEXT, &request.encode()).await;
        let go = evenkeel_host::nbd::proto::handshake::InfoRequest { name: "", wanted: vec![] };
        raw.ask(option::GO, &go.encode()).await;
        raw.headers = Headers::Extended;
        raw.request(command::WRITE, 1 << 5, 4096, 4096, &[1; 4096]).await;
        assert_eq!(raw.errno().await, 0);
        raw.request(command::BLOCK_STATUS, 1 << 3, 0, 12288, &[]).await;
        let bytes = raw.take(2 * (32 + 8 + 16)).await;
        assert_eq!(bytes[40..56], *b"\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\0\x03", "one hole");
        assert_eq!(bytes[96..], *b"\0\0\0\0\0\0\x30\0\0\0\0\0\0\0\0\0", "nothing about all of it");
    });
}

#[test]
fn an_export_is_a_device_like_any_other() {
    for headers in ALL {
        run(5, |env| async move {
            let fixture =
                Fixture::new(&env, RamExport::new(6 << 20).taking_time(env.clone()), Limits::default());
            let client = fixture.client(&with_headers(headers)).await.expect("it connects");
            let drive = NbdDrive::new(client, false, Some(512), "ram").expect("it can be written to");
            a_device_keeps_its_word(&drive).await;
        });
    }
}

#[test]
fn a_client_that_is_told_to_stop_is_answered_what_it_had_under_way() {
    run(5, |env| async move {
        let export = RamExport::new(SIZE as usize).taking_time(env.clone());
        let fixture = Fixture::new(&env, export.clone(), Limits::default());
        let client = fixture.client(&ConnectOptions::default()).await.expect("it connects");
        let under_way: Vec<_> =
            (0..20).map(|at| client.write(at * 100, &[5; 100], Durability::Durable)).collect();
        env.sleep(100).await;
        fixture.server.stop().await;
        let mut answered = 0;
        for write in under_way {
            answered += u64::from(write.await.is_ok());
        }
        let durable = export.durable().iter().filter(|&&byte| byte == 5).count() as u64;
        assert!(answered > 0 && durable == answered * 100, "{answered} writes, {durable} bytes");
        assert!(client.failure().is_some());
        assert_eq!(fixture.endings(1).await, ["the server stopped"]);
        assert!(fixture.client(&ConnectOptions::default()).await.is_err(), "nobody is let in any more");
        fixture.assert_idle();
    });
}
