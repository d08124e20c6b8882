//! What is negotiated, and with whom.

use evenkeel_engine::env::Env;
use evenkeel_host::front::nbd::export::BlockSizes;
use evenkeel_host::front::nbd::fuzzing::{RamExport, pair};
use evenkeel_host::front::nbd::limits::Limits;
use evenkeel_host::front::nbd::server::Ending;
use evenkeel_host::nbd::client::{ClientError, ConnectOptions};
use evenkeel_host::nbd::proto::handshake::{ContextRequest, Info, InfoRequest, decode_server, encode_option};
use evenkeel_host::nbd::proto::transmission::Headers;
use evenkeel_host::nbd::proto::{command, option, option_reply, transmission_flag};

use crate::fixture::{Fixture, run};

const ALL: [Headers; 3] = [Headers::Simple, Headers::Structured, Headers::Extended];

fn fixture(env: &evenkeel_sim::executor::SimEnv) -> Fixture {
    Fixture::new(env, RamExport::new(1 << 20), Limits::default())
}

#[test]
fn an_old_client_names_the_export_and_is_served() {
    for (flags, padding) in [(1u32, 124), (3, 0)] {
        run(1, |env| async move {
            let fixture = fixture(&env);
            let raw =
                crate::fixture::Raw { stream: fixture.connection(4096, None), headers: Headers::Simple };
            assert_eq!(raw.take(18).await[..16], *b"NBDMAGICIHAVEOPT");
            raw.send(&flags.to_be_bytes()).await;
            let mut out = Vec::new();
            encode_option(&mut out, option::EXPORT_NAME, b"ram");
            raw.send(&out).await;
            let reply = raw.take(10 + padding).await;
            assert_eq!(reply[..8], (1u64 << 20).to_be_bytes());
            raw.request(command::WRITE, 0, 5, 3, b"abc").await;
            assert_eq!(raw.errno().await, 0);
            raw.request(command::READ, 0, 4, 5, &[]).await;
            assert_eq!(raw.errno().await, 0);
            assert_eq!(raw.take(5).await, b"\0abc\0");
        });
    }
}

#[test]
fn an_export_that_is_not_there_ends_the_old_way_and_is_refused_the_new_way() {
    run(1, |env| async move {
        let fixture = fixture(&env);
        let raw = fixture.raw().await;
        let request = InfoRequest { name: "other", wanted: vec![] };
        assert_eq!(raw.last(option::GO, &request.encode()).await, option_reply::ERR_UNKNOWN);
        assert_eq!(raw.last(option::INFO, &request.encode()).await, option_reply::ERR_UNKNOWN);
        let mut out = Vec::new();
        encode_option(&mut out, option::EXPORT_NAME, b"other");
        raw.send(&out).await;
        assert_eq!(fixture.endings(1).await, ["refused: no export has this name"]);

        let options = ConnectOptions { export: "other".into(), ..ConnectOptions::default() };
        let refused = fixture.client(&options).await.err();
        assert!(matches!(refused, Some(ClientError::Refused { what: "the export", .. })), "{refused:?}");
    });
}

#[test]
fn an_option_that_is_not_known_or_not_well_formed_does_not_end_the_handshake() {
    run(1, |env| async move {
        let mut raw = fixture(&env).raw().await;
        assert_eq!(raw.last(99, b"whatever").await, option_reply::ERR_UNSUP);
        assert_eq!(raw.last(option::STARTTLS, &[]).await, option_reply::ERR_UNSUP);
        assert_eq!(raw.last(option::STRUCTURED_REPLY, b"x").await, option_reply::ERR_INVALID);
        assert_eq!(raw.last(option::LIST, b"x").await, option_reply::ERR_INVALID);
        for payload in [&b""[..], b"\0\0\0\x09ram\0\0", b"\0\0\0\0\0\x05\0\0", b"\0\0\0\x02\xff\xff\0\0"] {
            assert_eq!(raw.last(option::GO, payload).await, option_reply::ERR_INVALID);
        }
        let listed = raw.ask(option::LIST, &[]).await;
        assert_eq!(decode_server(&listed[0].1), Ok(("ram", "bytes in memory")));
        raw.go(Headers::Simple).await;
        raw.request(command::FLUSH, 0, 0, 0, &[]).await;
        assert_eq!(raw.errno().await, 0);
    });
}

#[test]
fn what_is_told_of_the_export_is_what_it_is() {
    let sizes = BlockSizes { minimum_bytes: 512, preferred_bytes: 8192, maximum_bytes: 64 << 20 };
    run(1, |env| async move {
        let fixture =
            Fixture::new(&env, RamExport::new(1 << 20).with_sizes(sizes).read_only(), Limits::default());
        let raw = fixture.raw().await;
        let silent = InfoRequest { name: "", wanted: vec![] };
        // Whoever does not ask for block sizes may use any offset, which this export does not take.
        assert_eq!(raw.last(option::INFO, &silent.encode()).await, option_reply::ERR_BLOCK_SIZE_REQD);
        let asking = InfoRequest { name: "ram", wanted: vec![3, 1, 2, 9] };
        let replies = raw.ask(option::INFO, &asking.encode()).await;
        let told: Vec<_> = replies
            .iter()
            .filter(|(reply, _)| *reply == option_reply::INFO)
            .map(|(_, payload)| Info::decode(payload).expect("well formed"))
            .collect();
        use transmission_flag::*;
        assert_eq!(
            told,
            [
                Info::Name("ram"),
                Info::Description("bytes in memory"),
                // No more than the server takes.
                Info::BlockSize { minimum_bytes: 512, preferred_bytes: 8192, maximum_bytes: 32 << 20 },
                Info::Export {
                    size_bytes: 1 << 20,
                    flags: HAS_FLAGS | READ_ONLY | SEND_FLUSH | SEND_FUA | CAN_MULTI_CONN
                },
            ]
        );
    });
}

#[test]
fn the_newest_headers_win() {
    run(1, |env| async move {
        let fixture = fixture(&env);
        for headers in ALL {
            let client = fixture.client(&crate::fixture::with_headers(headers)).await.expect("it connects");
            assert_eq!(client.negotiated().headers, headers);
            assert_eq!(client.negotiated().range_flush, headers != Headers::Simple);
        }
        let raw = fixture.raw().await;
        assert_eq!(raw.last(option::STRUCTURED_REPLY, &[]).await, option_reply::ACK);
        assert_eq!(raw.last(option::EXTENDED_HEADERS, &[]).await, option_reply::ACK);
        assert_eq!(raw.last(option::STRUCTURED_REPLY, &[]).await, option_reply::ERR_EXT_HEADER_REQD);
    });
}

#[test]
fn range_flush_is_told_only_to_those_who_ask_for_it_by_name() {
    run(1, |env| async move {
        let raw = fixture(&env).raw().await;
        let names = |replies: Vec<(u32, Vec<u8>)>| -> Vec<String> {
            let contexts = replies.iter().filter(|(reply, _)| *reply == option_reply::META_CONTEXT);
            contexts.map(|(_, payload)| String::from_utf8(payload[4..].to_vec()).expect("a name")).collect()
        };
        let asked =
            |queries: &[&'static str]| ContextRequest { name: "", queries: queries.to_vec() }.encode();
        let first = raw.last(option::LIST_META_CONTEXT, &asked(&[])).await;
        assert_eq!(first, option_reply::ERR_INVALID, "structured replies come first");
        raw.ask(option::STRUCTURED_REPLY, &[]).await;
        let list = option::LIST_META_CONTEXT;
        assert_eq!(names(raw.ask(list, &asked(&[])).await), ["base:allocation"]);
        assert_eq!(names(raw.ask(list, &asked(&["base:", "other:"])).await), ["base:allocation"]);
        assert_eq!(names(raw.ask(list, &asked(&["evenkeel:"])).await), ["evenkeel:range-flush"]);
        let set = option::SET_META_CONTEXT;
        assert!(
            names(raw.ask(set, &asked(&["base:", "evenkeel:"])).await).is_empty(),
            "a set needs a whole name"
        );
        assert_eq!(names(raw.ask(set, &asked(&["evenkeel:range-flush"])).await), ["evenkeel:range-flush"]);
    });
}

#[test]
fn contexts_that_were_selected_for_another_name_do_not_count() {
    run(1, |env| async move {
        let mut raw = fixture(&env).raw().await;
        raw.ask(option::STRUCTURED_REPLY, &[]).await;
        let request =
            ContextRequest { name: "ram", queries: vec!["base:allocation", "evenkeel:range-flush"] };
        assert_eq!(raw.last(option::SET_META_CONTEXT, &request.encode()).await, option_reply::ACK);
        raw.go(Headers::Structured).await; // For the export without a name.
        raw.request(command::BLOCK_STATUS, 0, 0, 4096, &[]).await;
        assert_eq!(raw.errno().await, 22);
        raw.request(command::FLUSH, 0, 0, 4096, &[]).await;
        assert_eq!(raw.errno().await, 22);
    });
}

#[test]
fn a_handshake_that_takes_too_long_is_ended() {
    run(1, |env| async move {
        let fixture = fixture(&env);
        let raw = fixture.raw().await;
        let began_ns = env.now_ns();
        // A byte a second keeps nobody alive.
        while fixture.endings.borrow().is_empty() {
            let _ended_is_fine = evenkeel_host::net::ByteStream::write(&raw.stream, vec![0x49]).await;
            env.sleep(1_000_000_000).await;
        }
        assert!(env.now_ns() - began_ns <= 11_000_000_000);
        assert!(
            fixture.endings(1).await[0].starts_with("refused")
                || fixture.endings(1).await[0] == "timed out: the handshake"
        );

        let silent = fixture.connection(4096, None);
        assert_eq!(fixture.endings(2).await[1], "timed out: the handshake");
        drop(silent);
    });
}

#[test]
fn options_without_end_are_ended() {
    run(1, |env| async move {
        let fixture = fixture(&env);
        let raw = fixture.raw().await;
        for _ in 0..Limits::default().options_max {
            raw.ask(option::LIST, &[]).await;
        }
        assert_eq!(fixture.endings(1).await, ["refused: too many options"]);
    });
}

#[test]
fn a_payload_that_is_too_long_is_answered_and_one_far_too_long_is_not_even_read() {
    run(1, |env| async move {
        let fixture = fixture(&env);
        let raw = fixture.raw().await;
        assert_eq!(raw.last(option::INFO, &vec![0; 100_000]).await, option_reply::ERR_TOO_BIG);
        let mut out = Vec::new();
        encode_option(&mut out, option::INFO, &[]);
        out[12..16].copy_from_slice(&(64u32 << 20).to_be_bytes());
        raw.send(&out).await;
        assert_eq!(fixture.endings(1).await, ["refused: an option's payload is too long"]);
        fixture.assert_idle();
    });
}

#[test]
fn a_connection_too_many_is_ended_and_the_next_is_let_in_once_there_is_room() {
    run(1, |env| async move {
        let limits = Limits { connections_max: 2, ..Limits::default() };
        let fixture = Fixture::new(&env, RamExport::new(4096), limits);
        let first = fixture.client(&ConnectOptions::default()).await.expect("there is room");
        let _second = fixture.client(&ConnectOptions::default()).await.expect("there is room");
        let (_near, far) = pair(4096, None);
        assert!(matches!(fixture.server.serve(far, "third").await, Ending::TooMany));
        assert_eq!(fixture.server.status().connections_refused, 1);
        drop(first);
        fixture.endings(1).await;
        fixture.client(&ConnectOptions::default()).await.expect("there is room again");
    });
}

#[test]
fn flags_and_magic_numbers_that_are_not_known_end_the_connection() {
    run(1, |env| async move {
        let fixture = fixture(&env);
        let raw = crate::fixture::Raw { stream: fixture.connection(4096, None), headers: Headers::Simple };
        raw.send(&0x8000_0003u32.to_be_bytes()).await;
        assert_eq!(fixture.endings(1).await, ["refused: client flags that the protocol does not know"]);
        let raw = fixture.raw().await;
        raw.send(b"GET / HTTP/1.1\r\n").await;
        assert_eq!(fixture.endings(2).await[1], "refused: an option does not begin with its magic number");
    });
}
