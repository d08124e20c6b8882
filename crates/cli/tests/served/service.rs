//! A served volume among the other services of a machine: metrics, systemd, and how it stops.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::Command;

use evenkeel_engine::device::{Durability, FlushScope};
use evenkeel_host::event_loop::{Backend, EventLoop};

use crate::support::load::{connect, contents, write};
use crate::support::metrics::{address, ask, metric, scrape};
use crate::support::root::{programs, run, system};
use crate::support::served::{Server, Volume, fill, noise, patiently};
use crate::support::{Ran, Scene, or_skip, says};

const FLAGS: &str = "--size 32m --log-size 16m --buffer 4m";
const SIZE: usize = 32 << 20;

#[test]
fn metrics_count_what_clients_did() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve("--metrics 127.0.0.1:0");
    let address = address(&server);
    let first = scrape(&address, "/metrics").1;
    let event_loop = EventLoop::new(Backend::Auto).unwrap();
    let env = event_loop.handle();
    event_loop.block_on(async {
        let connection = connect(&env, &volume.socket()).await;
        for number in 0..10 {
            connection.write(number * 5000, &[7; 1000], Durability::Buffered).await.unwrap();
        }
        connection.flush(FlushScope::Whole).await.unwrap();
        assert!(connection.read(SIZE as u64, &mut [0; 10]).await.is_err());

        let (head, body) = scrape(&address, "/metrics");
        says(&head, &["HTTP/1.1 200 OK", "text/plain; version=0.0.4"]);
        for (name, value) in [
            ("evenkeel_writes_total", 10.0),
            ("evenkeel_user_bytes_total", 10_000.0),
            ("evenkeel_connections", 1.0),
            ("evenkeel_failed", 0.0),
            ("evenkeel_request_errors_total{command=\"read\"}", 1.0),
            ("evenkeel_request_seconds_count{command=\"write\"}", 10.0),
            ("evenkeel_request_seconds_bucket{command=\"write\",le=\"+Inf\"}", 10.0),
            ("evenkeel_request_seconds_count{command=\"flush\"}", 1.0),
        ] {
            assert_eq!(metric(&body, name), value, "{name}");
        }
        assert!(metric(&body, "evenkeel_commits_total") > 0.0);
        // What was refused took no time.
        assert_eq!(metric(&body, "evenkeel_requests_total{command=\"read\"}"), 1.0);
        assert_eq!(metric(&body, "evenkeel_request_seconds_count{command=\"read\"}"), 0.0);
        // Each line is a comment or a name with a number, and each name has its kind and its help.
        for line in body.lines().filter(|line| !line.starts_with("# ")) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with("evenkeel_") && value.parse::<f64>().is_ok(), "{line}");
            let name = name.split_once('{').map_or(name, |(name, _)| name);
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let family = family.filter(|family| *family == "evenkeel_request_seconds").unwrap_or(name);
            says(&body, &[&format!("# HELP {family} "), &format!("# TYPE {family} ")]);
        }
    });
    // The lines are those of the first scrape, whatever clients did meanwhile.
    let names = |body: &str| -> Vec<String> {
        body.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0.to_owned())).collect()
    };
    assert_eq!(names(&first), names(&scrape(&address, "/metrics").1));
    // A scrape that has a name twice is refused, and times are in seconds.
    let told: Vec<&str> =
        first.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let distinct: std::collections::BTreeSet<_> = told.iter().collect();
    assert_eq!(told.len(), distinct.len(), "a name comes twice: {told:?}");
    assert!(told.iter().all(|name| !name.contains("_ns") && !name.contains("_ms")), "{told:?}");
    assert_eq!(metric(&first, "evenkeel_throttled_seconds_total"), 0.0);
    let (used_max, size) =
        (metric(&first, "evenkeel_log_max_bytes"), metric(&first, "evenkeel_log_size_bytes"));
    assert!(used_max > 0.0 && used_max < size, "{used_max} of {size}");
    let (head, body) = ask("HEAD", &address, "/metrics");
    says(&head, &["HTTP/1.1 200 OK", "Content-Length: "]);
    assert_eq!(body, "");
    says(&ask("POST", &address, "/metrics").0, &["405"]);
    says(&scrape(&address, "/").0, &["404"]);
    // Whoever asks for something else, or for nothing, hurts nobody.
    TcpStream::connect(&address).unwrap().write_all(&[0xff; 20_000]).unwrap();
    let _silent: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(&address).unwrap()).collect();
    says(&scrape(&address, "/metrics").0, &["200"]);
    let status = scene.done("status disk --json");
    assert!(status.stdout.contains("evenkeel.status/1"));
    server.stop();
    says(&scene.run("status disk").stderr, &["it is not being served"]);
}

#[test]
fn a_service_manager_is_told_when_it_is_ready_and_when_it_stops() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    // A path in the scene may be too long for a socket's address.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let manager = UnixDatagram::bind(folder.path().join("notify")).unwrap();
    let mut command = scene.command("serve disk");
    command.env("NOTIFY_SOCKET", folder.path().join("notify"));
    let mut server = Server::start(volume.folder(), scene.path("stderr"), command).ready();
    let mut message = [0; 1000];
    let mut hear = || {
        let len = manager.recv(&mut message).unwrap();
        String::from_utf8(message[..len].to_vec()).unwrap()
    };
    says(&hear(), &["READY=1"]);
    assert_eq!(contents(&volume.socket()).len(), SIZE);
    server.signal("TERM");
    says(&hear(), &["STOPPING=1"]);
    assert_eq!(server.exit_code(), Some(0), "{}", server.complaints());
}

#[test]
fn systemd_hands_over_its_socket() {
    or_skip!(programs(&["systemd-socket-activate"]));
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let socket = folder.path().join("socket");
    let mut command = system("systemd-socket-activate");
    command.arg("--listen").arg(&socket).arg(env!("CARGO_BIN_EXE_evenkeel")).args(["serve", "disk"]);
    command.current_dir(scene.folder());
    let server = Server::start(volume.folder(), scene.path("stderr"), command);
    patiently("the socket of systemd", || socket.exists().then_some(()));
    // The first client starts it.
    write(&socket, 12_345, b"handed over");
    assert_eq!(contents(&socket)[12_345..12_356], *b"handed over");
    assert!(!volume.socket().exists(), "it listens where nobody asked it to");
    assert!(server.status().server.connections_accepted >= 2);
    let server = server.ready();
    assert_eq!(server.told("ready: "), format!("nbd+unix:///?socket={}", socket.display()));
    server.stop();
}

#[test]
fn a_descriptor_that_is_none_to_listen_on_is_named() {
    let scene = Scene::new();
    let _volume = Volume::create(&scene, FLAGS);
    for (descriptor, words) in
        [("3</dev/null", ["descriptor 3", "socket"]), ("3<&-", ["LISTEN_FDS=1", "Bad file descriptor"])]
    {
        let mut command = Command::new("sh");
        let line = format!("LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" serve disk {descriptor}");
        command.args(["-c", &line, env!("CARGO_BIN_EXE_evenkeel")]).current_dir(scene.folder());
        let ran = Ran::of(&line, command.output().unwrap());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        says(&ran.complaint(), &words);
    }
}

#[test]
fn a_reader_of_its_output_that_reads_nothing_keeps_nobody_waiting() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let manager = UnixDatagram::bind(folder.path().join("notify")).unwrap();
    let (mut reader, writer) = std::io::pipe().unwrap();
    let filled = fill(&writer);
    let mut command = scene.command("serve disk");
    command.env("NOTIFY_SOCKET", folder.path().join("notify")).stdout(writer);
    let mut server = command.spawn().unwrap();
    drop(command);
    let mut message = [0; 1000];
    let len = manager.recv(&mut message).unwrap();
    says(&String::from_utf8_lossy(&message[..len]), &["READY=1"]);
    write(&volume.socket(), 12_345, b"served");
    assert_eq!(contents(&volume.socket())[12_345..12_351], *b"served");
    // Once it reads, it is told.
    let mut said = vec![0; filled];
    reader.read_exact(&mut said).unwrap();
    let mut line = String::new();
    BufReader::new(&mut reader).read_line(&mut line).unwrap();
    assert_eq!(line, format!("ready: {}\n", volume.uri()));
    Command::new("sh").args(["-c", "kill \"$0\"", &server.id().to_string()]).status().unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn words_for_a_shell_and_for_clients_are_written_as_they_take_them() {
    let scene = Scene::new();
    let strange = scene.path("a b?&c");
    let mut create = scene.command("create");
    create.arg("a b?&c").args(FLAGS.split(' '));
    let said = Ran::of("create", create.output().unwrap()).stdout;
    says(&said, &["next: evenkeel serve 'a b?&c'"]);
    let mut serve = scene.command("serve");
    serve.arg("a b?&c");
    let server = Server::start(strange.clone(), scene.path("stderr"), serve).ready();
    let uri = server.told("ready: ");
    assert_eq!(uri, format!("nbd+unix:///?socket={}/a%20b%3F%26c/nbd.sock", scene.folder().display()));
    if programs(&["nbdinfo"]).is_ok() {
        run("nbdinfo", &["--size", &uri]).unwrap();
    }
    server.stop();
}

#[test]
fn a_graceful_stop_flushes_and_leaves_nothing_in_memory() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve("");
    assert!(volume.arena().is_some());
    write(&volume.socket(), 777, &noise(5, 1_000_001));
    // Clients that stay connected do not keep it.
    let _idle = UnixStream::connect(volume.socket()).unwrap();
    server.stop();
    assert_eq!(volume.arena(), None, "an arena is left");
    assert!(!volume.socket().exists(), "a socket is left");
    // Twice: also after a life that only read, nothing is said to have been recovered.
    for _ in 0..2 {
        let server = volume.serve("");
        let counters = server.status().counters;
        assert_eq!((counters.replayed_units, counters.replayed_records), (0, 0));
        assert!(!server.said.iter().any(|line| line.starts_with("recovered")), "{:?}", server.said);
        assert!(contents(&volume.socket())[777..][..1_000_001] == noise(5, 1_000_001));
        server.stop();
    }
    assert!(!scene.done("check disk").stdout.contains("recovered"));
}

#[test]
fn a_volume_is_served_in_a_folder_whose_path_is_longer_than_a_sockets_may_be() {
    let scene = Scene::new();
    let deep = scene.path(&"d".repeat(150));
    std::fs::create_dir(&deep).unwrap();
    let inside = Scene::below(&deep);
    let volume = Volume::create(&inside, FLAGS);
    let mut server = volume.serve("");
    write(&volume.socket(), 777, &noise(7, 100_001));
    assert_eq!(server.status().server.connections_accepted, 1);
    // By its whole path too.
    let whole = volume.folder().display().to_string();
    assert!(inside.done(&format!("status {whole} --json")).stdout.contains("evenkeel.status/1"));
    says(&inside.refused(&format!("serve {whole}")), &["another process"]);
    server.kill();
    // What the dead process left is in nobody's way.
    let mut command = inside.command("serve");
    command.arg(&whole);
    let server = Server::start(volume.folder(), inside.path("stderr"), command).ready();
    assert!(contents(&volume.socket())[777..][..100_001] == noise(7, 100_001));
    server.stop();
    assert!(!volume.socket().exists());
}

#[test]
fn what_the_system_has_in_memory_is_read_from_there() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve("");
    write(&volume.socket(), 0, &noise(5, 1_000_001));
    server.stop();
    let server = volume.serve("");
    for _ in 0..2 {
        assert!(contents(&volume.socket())[..1_000_001] == noise(5, 1_000_001));
    }
    let counters = server.status().counters;
    assert!(counters.cached_reads >= 244, "the second time at the latest: {counters:?}");
    server.stop();
}

#[test]
fn a_second_signal_ends_it_at_once_and_takes_nothing() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mut server = volume.serve("");
    write(&volume.socket(), 777, &noise(6, 1_000_001));
    // Both are there before it can act on the first.
    for name in ["STOP", "TERM", "INT", "CONT"] {
        server.signal(name);
    }
    assert_eq!(server.exit_code(), Some(130), "{}", server.complaints());
    says(&server.complaints(), &["stopping", "ended at once"]);
    assert!(volume.arena().is_some());
    says(&scene.run("status disk").stderr, &["wait in memory for the next start"]);
    let server = volume.serve("");
    says(&server.told("recovered: "), &["kept in memory"]);
    assert!(contents(&volume.socket())[777..][..1_000_001] == noise(6, 1_000_001));
    server.stop();
}

#[test]
fn what_it_was_started_to_ignore_stays_ignored() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    // As `nohup` starts it, and as a shell without job control starts what is in the background.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP INT QUIT; exec \"$0\" serve disk", env!("CARGO_BIN_EXE_evenkeel")]);
    command.current_dir(scene.folder());
    let server = Server::start(volume.folder(), scene.path("stderr"), command).ready();
    for name in ["HUP", "INT", "QUIT", "HUP", "INT"] {
        server.signal(name);
        write(&volume.socket(), 777, &noise(7, 100_001));
    }
    assert!(contents(&volume.socket())[777..][..100_001] == noise(7, 100_001));
    server.stop();
}

#[test]
fn the_end_of_the_terminal_stops_it_in_order() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mut server = volume.serve("");
    write(&volume.socket(), 777, &noise(8, 1_000_001));
    // From the shell and from the kernel: the second one is not somebody who is impatient.
    for name in ["STOP", "HUP", "CONT", "HUP"] {
        server.signal(name);
    }
    assert_eq!(server.exit_code(), Some(0), "{}", server.complaints());
    assert_eq!(volume.arena(), None);
    says(&scene.done("check disk").stdout, &[" 0 damaged"]);
}

/// Which test runs again in a process of its own that ignores signals.
const IGNORING: &str = "EVENKEEL_TEST_IGNORES_SIGNALS";

/// The tests themselves, started by a script in the background.
#[test]
fn tests_interrupt_servers_however_they_were_started() {
    if std::env::var_os(IGNORING).is_none() {
        let mut again = Command::new("sh");
        again.args(["-c", "trap '' HUP INT QUIT; exec \"$0\" --exact --nocapture \"$1\""]);
        again
            .arg(std::env::current_exe().unwrap())
            .arg("service::tests_interrupt_servers_however_they_were_started");
        let again = again.env(IGNORING, "yes").output().unwrap();
        let said = String::from_utf8_lossy(&again.stdout);
        assert!(again.status.success() && said.contains("1 passed"), "{again:?}");
        return;
    }
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mut server = volume.serve("");
    server.signal("INT");
    assert_eq!(server.exit_code(), Some(0), "{}", server.complaints());
}
