//! TLS: nothing without it where it is asked for, and nothing said in the clear counts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use evenkeel_engine::device::Durability;
use evenkeel_host::front::nbd::fuzzing::RamExport;
use evenkeel_host::front::nbd::limits::Limits;
use evenkeel_host::nbd::client::{Client, ClientError, ConnectOptions};
use evenkeel_host::nbd::proto::handshake::{InfoRequest, encode_option};
use evenkeel_host::nbd::proto::transmission::Headers;
use evenkeel_host::nbd::proto::{option, option_reply};
use evenkeel_host::nbd::tls::{TlsClient, TlsError, TlsServer};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::fixture::{Fixture, run};

/// Who signs.
fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(vec![]).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a certificate")
}

/// Puts `NAME-cert.pem` and `NAME-key.pem` into `folder`.
fn certify(folder: &Path, name: &str, authority: &CertifiedIssuer<'static, KeyPair>) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = params.signed_by(&key, authority).expect("a certificate");
    fs::write(folder.join(format!("{name}-cert.pem")), certificate.pem()).expect("it is written");
    fs::write(folder.join(format!("{name}-key.pem")), key.serialize_pem()).expect("it is written");
}

/// Folders of a server, of a client that it knows, and of one that it does not.
struct Folders {
    root: tempfile::TempDir,
}

impl Folders {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a folder");
        let authority = authority();
        for (name, certified) in [("server", Some("server")), ("known", Some("client")), ("unknown", None)] {
            let folder = root.path().join(name);
            fs::create_dir(&folder).expect("a folder");
            fs::write(folder.join("ca-cert.pem"), authority.pem()).expect("it is written");
            if let Some(certified) = certified {
                certify(&folder, certified, &authority);
            }
        }
        Self { root }
    }

    fn server(&self) -> TlsServer {
        TlsServer::from_folder(&self.root.path().join("server")).expect("a server's folder")
    }

    fn client(&self, name: &str) -> ConnectOptions {
        let tls =
            TlsClient::from_folder(&self.root.path().join(name), "localhost").expect("a client's folder");
        ConnectOptions { tls: Some(tls), ..ConnectOptions::default() }
    }
}

#[test]
fn a_client_with_a_certificate_is_served_over_tls() {
    let folders = Folders::new();
    run(1, |env| async move {
        let fixture =
            Fixture::with_tls(&env, RamExport::new(2 << 20), Limits::default(), Some(folders.server()));
        for seed in [None, Some(3)] {
            let stream = fixture.connection(3000, seed);
            let client = Client::connect(&env, stream, &folders.client("known")).await.expect("it connects");
            assert!(fixture.server.status().connections[0].has_tls);
            // Longer than any record of TLS.
            let data: Vec<u8> = (0..1_000_003u32).map(|at| (at / 3) as u8).collect();
            client.write(5, &data, Durability::Durable).await.expect("it writes");
            let mut found = vec![0; data.len()];
            client.read(5, &mut found).await.expect("it reads");
            assert!(found == data);
            drop(client);
            fixture.endings(1).await;
        }
        assert_eq!(fixture.endings(2).await, ["the client ended the connection"; 2]);
        fixture.assert_idle();
    });
}

#[test]
fn who_is_not_known_is_not_served() {
    let folders = Folders::new();
    run(1, |env| async move {
        let fixture =
            Fixture::with_tls(&env, RamExport::new(4096), Limits::default(), Some(folders.server()));
        let other_authority = Folders::new();
        for options in [folders.client("unknown"), other_authority.client("known")] {
            let refused = fixture.client(&options).await.err();
            assert!(matches!(refused, Some(ClientError::Broken(_))), "{refused:?}");
        }
        let plain = fixture.client(&ConnectOptions::default()).await.err();
        let refused = ClientError::Refused { what: "the export", why: "TLS comes first".into() };
        assert_eq!(plain, Some(refused));
        assert_eq!(fixture.endings(3).await.len(), 3);
        fixture.assert_idle();
    });
}

#[test]
fn in_the_clear_nothing_is_answered_but_the_way_to_tls() {
    let folders = Folders::new();
    run(1, |env| async move {
        let fixture =
            Fixture::with_tls(&env, RamExport::new(4096), Limits::default(), Some(folders.server()));
        let raw = fixture.raw().await;
        let go = InfoRequest { name: "", wanted: vec![] }.encode();
        for (number, payload) in [
            (option::LIST, &[][..]),
            (option::GO, &go),
            (option::INFO, &go),
            (option::STRUCTURED_REPLY, &[]),
            (option::EXTENDED_HEADERS, &[]),
            (option::SET_META_CONTEXT, &[]),
            (99, &[]),
        ] {
            assert_eq!(raw.last(number, payload).await, option_reply::ERR_TLS_REQD);
        }
        assert_eq!(raw.last(option::STARTTLS, b"x").await, option_reply::ERR_INVALID);
        let mut out = Vec::new();
        encode_option(&mut out, option::EXPORT_NAME, b"");
        raw.send(&out).await;
        assert_eq!(fixture.endings(1).await, ["refused: TLS comes first"]);
    });
}

#[test]
fn bytes_in_the_clear_behind_starttls_end_the_connection() {
    let folders = Folders::new();
    run(1, |env| async move {
        let fixture =
            Fixture::with_tls(&env, RamExport::new(4096), Limits::default(), Some(folders.server()));
        let raw = fixture.raw().await;
        let mut out = Vec::new();
        encode_option(&mut out, option::STARTTLS, &[]);
        // What somebody in between would like the client to have said.
        encode_option(&mut out, option::STRUCTURED_REPLY, &[]);
        raw.send(&out).await;
        assert_eq!(fixture.endings(1).await, ["refused: bytes in the clear behind STARTTLS"]);
    });
}

#[test]
fn what_is_no_tls_ends_the_connection() {
    let folders = Folders::new();
    run(1, |env| async move {
        let fixture =
            Fixture::with_tls(&env, RamExport::new(4096), Limits::default(), Some(folders.server()));
        let raw = fixture.raw().await;
        assert_eq!(raw.last(option::STARTTLS, &[]).await, option_reply::ACK);
        raw.send(b"IHAVEOPT\0\0\0\x03\0\0\0\0 and more of what TLS is not").await;
        assert!(fixture.endings(1).await[0].starts_with("the connection broke"));

        let silent = fixture.raw().await;
        assert_eq!(silent.last(option::STARTTLS, &[]).await, option_reply::ACK);
        assert_eq!(fixture.endings(2).await[1], "timed out: the handshake");
        fixture.assert_idle();
    });
}

#[test]
fn all_headers_are_spoken_over_tls_and_nothing_before_it_counts() {
    let folders = Folders::new();
    run(1, |env| async move {
        let fixture =
            Fixture::with_tls(&env, RamExport::new(4096), Limits::default(), Some(folders.server()));
        for headers in [Headers::Simple, Headers::Structured, Headers::Extended] {
            let options = ConnectOptions { headers, ..folders.client("known") };
            let client = fixture.client(&options).await.expect("it connects");
            assert_eq!(client.negotiated().headers, headers);
        }
    });
}

#[test]
fn a_folder_that_lacks_a_file_is_refused_by_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = TlsServer::from_folder(folder.path()).expect_err("it is empty");
    assert!(matches!(&error, TlsError::File { path, .. } if path.ends_with("server-cert.pem")), "{error}");
}

#[test]
fn what_is_no_file_of_a_sensible_size_is_refused_by_its_name() {
    let folders = Folders::new();
    let server = folders.root.path().join("server");
    let key = server.join("server-key.pem");
    let refused = |why: &str| {
        let error = TlsServer::from_folder(&server).expect_err("it cannot be used");
        assert!(matches!(&error, TlsError::File { path, .. } if *path == key), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    };
    fs::remove_file(&key).expect("it is there");
    assert!(Command::new("mkfifo").arg(&key).status().expect("it runs").success());
    refused("no regular file");
    fs::remove_file(&key).expect("it is there");
    symlink("/dev/zero", &key).expect("a link");
    refused("no regular file");
    fs::remove_file(&key).expect("it is there");
    fs::write(&key, vec![b'\n'; (1 << 20) + 1]).expect("it is written");
    refused("more than 1048576 bytes");
}

/// Keys that were made for this test, of kinds that TLS does not use here.
const OTHER_KEYS: [&str; 3] = [
    "-----BEGIN PRIVATE KEY-----\n\
     MEcCAQAwBQYDK2VxBDsEOcALJOSFIkm4m+vJnxncRNFmFoi018zKd1re4XdYNVyC\n\
     xzU/PMad/GEqqf+3x+Tnd/CeElVREPt6WQ==\n\
     -----END PRIVATE KEY-----\n",
    "-----BEGIN PRIVATE KEY-----\n\
     MIGEAgEAMBAGByqGSM49AgEGBSuBBAAKBG0wawIBAQQg7BOg0pcQTc4hhpoRGkUj\n\
     pCwUIyRv1encMrDzC1Pc1XehRANCAASLXrHSURbZmZhMGgUgdsdVU3BaHeZjKz3m\n\
     KQXp1DJ/U0iULC+PkLLGiYiDCGO0x/FTsqz0Pfo0X57hKi3PSZLt\n\
     -----END PRIVATE KEY-----\n",
    "-----BEGIN PRIVATE KEY-----\n\
     MIHuAgEAMBAGByqGSM49AgEGBSuBBAAjBIHWMIHTAgEBBEIAdiBWIYt6gDHcIK0T\n\
     TXoKC4c1jw4YBst3q6lRP1cPxbH/rDj66ZXIZRRAtuXZ+t8t2Jdz8VsukZewrs5q\n\
     U/HqViGhgYkDgYYABAB+VqNUGxoTQO2iZzDZfjHAkRYB4ZbKDdyu5jgxmRvw9Nw3\n\
     K+4Obd/C1MJrTbqwLmoOTShY7qiHULqa/HIhSFYLXwFUSmUYRkzs+uzCrsltyaJn\n\
     Bn7JmmZBk45KwUQcyI5ka/zVFwYfKhYxxHovxM3yokieN4kEssIxz7QNeASApDwm\n\
     lQ==\n\
     -----END PRIVATE KEY-----\n",
];

#[test]
fn a_key_of_another_kind_is_refused_with_the_kinds_that_are_not() {
    let folders = Folders::new();
    let server = folders.root.path().join("server");
    for key in OTHER_KEYS {
        fs::write(server.join("server-key.pem"), key).expect("it is written");
        let error = TlsServer::from_folder(&server).expect_err("it cannot be used");
        assert!(matches!(&error, TlsError::KeyKind(_)), "{error}");
        let words = error.to_string();
        assert!(
            ["server-key.pem", "P-256 or P-384", "Ed25519"].iter().all(|it| words.contains(it)),
            "{words}"
        );
    }
}
