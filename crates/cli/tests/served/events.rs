//! What the server of a volume tells when something happens: one line, one count, and a state in `status`.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;

use evenkeel_engine::device::{Durability, Extent, FlushScope};
use evenkeel_host::event_loop::{Backend, EventLoop};
use evenkeel_host::nbd::client::ClientError;
use serde_json::Value;

use crate::support::events::{count, is_in_state, lines, lines_of, once, serve, stop};
use crate::support::load::{connect, contents, write};
use crate::support::root::{Mounted, programs, system};
use crate::support::served::{Ended, Server, Volume, noise, patiently};
use crate::support::{Scene, or_skip, says};

const FLAGS: &str = "--size 32m --log-size 16m --buffer 4m";

const PAGE: usize = 4096;

/// The kinds of these lines, in their order.
fn kinds(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["event"].as_str().unwrap()).collect()
}

#[test]
fn a_life_without_trouble_is_a_line_for_its_start_and_one_for_its_end() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mut server = serve(&volume, "");
    write(&volume.socket(), 0, &noise(1, 100_000));
    says(&is_in_state(&scene, &server, "ok", 0), &["state      ok\n"]);
    server.kill();
    let server = serve(&volume, "");
    says(once(&server, "recovered", "INFO", &["kept in memory: "])["volume"].as_str().unwrap(), &["disk"]);
    let told = stop(server);
    assert_eq!(kinds(&told), ["starting", "recovered", "ready", "stopping", "stopped"]);
    assert!(told.iter().all(|line| line["timestamp"].is_string() && line["message"].is_string()));
    // Unless asked for more, there is nothing of the beginning.
    let server = volume.serve("--log-format json");
    assert_eq!(kinds(&lines(&server)), ["ready"]);
    server.stop();
}

#[test]
fn lines_are_text_or_have_the_priorities_of_the_journal_and_standard_output_is_as_ever() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve("");
    assert_eq!(server.told("ready: "), volume.uri());
    let told = server.complaints();
    let (time, rest) = told.split_once(' ').unwrap();
    assert!(time.ends_with('Z') && time.contains('T'), "{told}");
    assert!(rest.starts_with(" INFO ready: "), "{told}");
    server.stop();
    let server = volume.serve("--log-format journald");
    assert!(server.complaints().starts_with("<6>ready: "), "{}", server.complaints());
    server.stop();
    // Where standard error is the journal, that is found out, for all formats.
    for (flags, start) in [("", "<6>ready: "), ("--log-format json", "<6>{\"timestamp\":")] {
        let mut command = scene.command(&format!("serve disk {flags}"));
        let errors = fs::File::create(scene.path("stderr")).unwrap();
        let found = errors.metadata().unwrap();
        command.env("JOURNAL_STREAM", format!("{}:{}", found.dev(), found.ino()));
        let server = Server::start_with(volume.folder(), scene.path("stderr"), command, errors).ready();
        assert!(server.complaints().starts_with(start), "{}", server.complaints());
        server.stop();
    }
    let mut command = scene.command("serve disk");
    command.env("JOURNAL_STREAM", "1:2");
    let server = Server::start(volume.folder(), scene.path("stderr"), command).ready();
    assert!(!server.complaints().starts_with('<'), "{}", server.complaints());
    server.stop();
}

#[test]
fn what_ends_the_server_is_a_line_like_the_others() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve("");
    for (format, start) in [("text", "evenkeel: "), ("journald", "<3>ended: "), ("json", "{\"timestamp\":")] {
        let refused = scene.run(&format!("serve disk --log-format {format}"));
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.starts_with(start) && refused.stderr.lines().count() == 1, "{refused:?}");
        says(&refused.stderr, &["another process"]);
    }
    server.stop();
}

#[test]
fn clients_that_break_the_protocol_are_told_of_where_that_was_asked_for() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    for (flags, told) in [("--log-format json", 0), ("--log-format json --log-level debug", 1)] {
        let server = volume.serve(flags);
        UnixStream::connect(volume.socket()).unwrap().write_all(&[0xff; 1000]).unwrap();
        patiently("the end of the rude one", || (count(&server, "client-failed") == 1).then_some(()));
        assert_eq!(lines_of(&server, "client-failed").len(), told);
        assert_eq!(server.status().state.name, "ok");
        server.stop();
    }
}

#[test]
fn a_full_disk_below_is_told_once_and_why() {
    const ENOSPC: u32 = 28;
    let is_full = |error: &ClientError| {
        assert!(matches!(error, ClientError::Server { errno: ENOSPC, .. }), "{error}");
    };
    let scene = Scene::new();
    let _small = or_skip!(Mounted::tmpfs(&scene.path("small"), "40m"));
    let inside = Scene::below(&scene.path("small"));
    let volume = Volume::create(&inside, "--size 64m --log-size 16m --buffer 4m --sparse");
    let mut server = serve(&volume, "");
    let event_loop = EventLoop::new(Backend::Auto).unwrap();
    let env = event_loop.handle();
    event_loop.block_on(async {
        let connection = connect(&env, &volume.socket()).await;
        for number in 0..600 {
            let bytes = noise(number, 100_000);
            if let Err(error) = connection.write(number * 100_000, &bytes, Durability::Buffered).await {
                is_full(&error);
                // And again: it stays one event, and the client hears why.
                for durability in [Durability::Durable, Durability::Buffered, Durability::Durable] {
                    is_full(&connection.write(0, &bytes, durability).await.unwrap_err());
                }
                is_full(&connection.trim(Extent::new(0, 4096), Durability::Durable).await.unwrap_err());
                is_full(&connection.flush(FlushScope::Whole).await.unwrap_err());
                return;
            }
        }
        panic!("the disk is not full");
    });
    once(&server, "read-only", "ERROR", &["takes no writes any more", "no room is left there", "errno 28"]);
    let shown = is_in_state(&inside, &server, "read-only", 1);
    says(&shown, &["volume became read-only", "no room is left there"]);
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(1));
    let told = lines(&server);
    assert_eq!(kinds(&told), ["starting", "ready", "read-only", "stopping", "ended"]);
    // Its folder goes before what knows the arena by it.
    let arena = volume.arena();
    fs::remove_dir_all(volume.folder()).unwrap();
    fs::remove_file(arena.expect("the server had one")).unwrap();
}

#[test]
fn the_only_member_is_lost_with_its_server_and_that_is_told_once() {
    let scene = Scene::new();
    let command = scene.command("drive sata-2011 --size 64m --nbd unix:far");
    let mut far = Server::start(scene.folder().to_owned(), scene.path("far-stderr"), command).ready();
    let uri = format!("nbd+unix:///?socket={}", scene.path("far").display());
    let volume = Volume::create(&scene, &format!("{FLAGS} --member {uri} --destroy {uri}"));
    let mut server = serve(&volume, "");
    write(&volume.socket(), 0, b"here");
    far.kill();
    once(&server, "read-only", "ERROR", &["takes no writes any more", &uri, "the member is lost"]);
    says(&is_in_state(&scene, &server, "read-only", 1), &["the member is lost"]);
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(1));
    assert_eq!(lines_of(&server, "read-only").len(), 1);
}

#[test]
fn the_only_member_whose_server_says_that_it_shuts_down_is_lost() {
    or_skip!(programs(&["nbdkit"]));
    let scene = Scene::new();
    let (socket, fails) = (scene.path("far"), scene.path("fails"));
    let mut nbdkit = system("nbdkit");
    nbdkit.args(["--foreground", "--unix"]).arg(&socket).args(["--filter=limit", "--filter=error"]);
    nbdkit.args(["memory", "64M", "limit=1", "error-pwrite=ESHUTDOWN", "error-pwrite-rate=100%"]);
    nbdkit.arg(format!("error-pwrite-file={}", fails.display()));
    let _far = Ended(nbdkit.stderr(Stdio::null()).spawn().unwrap());
    patiently("nbdkit", || socket.exists().then_some(()));
    let uri = format!("nbd+unix:///?socket={}", socket.display());
    let volume = Volume::create(&scene, &format!("{FLAGS} --member {uri} --destroy {uri}"));
    let mut server = serve(&volume, "");
    write(&volume.socket(), 0, &noise(1, 1 << 20));
    fs::write(&fails, "").unwrap();
    let event_loop = EventLoop::new(Backend::Auto).unwrap();
    let env = event_loop.handle();
    // More than buffer and log hold, until it is lost.
    event_loop.block_on(async {
        let connection = connect(&env, &volume.socket()).await;
        let write = |at| connection.write(at, &[1; 1 << 20], Durability::Buffered);
        for at in (1..32).map(|number| number << 20) {
            if write(at).await.is_err() {
                break;
            }
        }
    });
    let why = "the member is lost (the connection broke: the server shuts down)";
    once(&server, "read-only", "ERROR", &["takes no writes any more", &uri, why]);
    says(&is_in_state(&scene, &server, "read-only", 1), &[why]);
    // Nothing is lost: the next start takes it all over.
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(1));
    fs::remove_file(&fails).unwrap();
    let server = serve(&volume, "");
    assert!(contents(&volume.socket())[..1 << 20] == noise(1, 1 << 20));
    stop(server);
}

/// Changes the pages of the file at `path` that hold these bytes.
fn damage(path: &Path, pages: &[&[u8]]) {
    let held = fs::read(path).unwrap();
    let file = OpenOptions::new().write(true).open(path).unwrap();
    for page in pages {
        let at = held.chunks(PAGE).position(|found| found == *page).expect("the page is home");
        file.write_all_at(b"damaged", (at * PAGE + 100) as u64).unwrap();
    }
}

#[test]
fn a_damaged_page_is_told_once_with_its_bytes_and_each_read_of_it_is_counted() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve("");
    let bytes = noise(5, 100 * PAGE);
    write(&volume.socket(), 0, &bytes);
    server.stop();
    let pages: Vec<&[u8]> = bytes.chunks(PAGE).collect();
    damage(&volume.folder().join("home"), &[pages[20]]);
    let server = serve(&volume, "");
    let event_loop = EventLoop::new(Backend::Auto).unwrap();
    let env = event_loop.handle();
    let reads = |first: u64, count: u64, times: u64| {
        event_loop.block_on(async {
            let connection = connect(&env, &volume.socket()).await;
            for _ in 0..times {
                for page in first..first + count {
                    let mut found = [0; PAGE];
                    connection.read(page * PAGE as u64, &mut found).await.unwrap_err();
                }
            }
        });
    };
    reads(20, 1, 1);
    let line = once(&server, "damaged-read", "ERROR", &["page 20 is damaged", "4096 bytes from 81920"]);
    assert_eq!((line["offset"].as_u64(), line["len"].as_u64()), (Some(81920), Some(4096)));
    says(&is_in_state(&scene, &server, "damaged", 1), &["1 reads failed", "4096 bytes from 81920"]);
    reads(20, 1, 6);
    patiently("the count of all reads", || (count(&server, "damaged-read") == 7).then_some(()));
    assert_eq!(lines_of(&server, "damaged-read").len(), 1);
    assert_eq!(server.status().counters.damaged_reads, 7);
    stop(server);
    // A whole region: some of it is named, all of it is counted.
    damage(&volume.folder().join("home"), &pages[40..70]);
    let server = serve(&volume, "");
    reads(40, 30, 1);
    patiently("the count of all pages", || (count(&server, "damaged-read") == 30).then_some(()));
    let told = lines_of(&server, "damaged-read").len();
    assert!((1..30).contains(&told), "{told} lines for 30 pages");
    stop(server);
    says(&scene.run("check disk").stdout, &["31 damaged"]);
}
