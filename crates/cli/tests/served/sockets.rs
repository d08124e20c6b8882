//! Who may connect to a server, what it takes of the machine, and that it starts right after a kill.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::support::load::{contents, write};
use crate::support::served::{Server, Volume, noise, patiently};
use crate::support::{Scene, says, skip};

const FLAGS: &str = "--size 32m --log-size 16m --buffer 8m";

#[test]
fn a_unix_socket_has_the_mode_and_the_group_that_were_asked_for_and_a_wrong_one_is_refused() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let server = volume.serve("");
    assert_eq!(mode(volume.socket()), 0o600);
    server.stop();
    let group = fs::metadata(scene.folder()).unwrap().gid();
    let socket = scene.path("shared.sock");
    let flags = format!("--nbd unix:{} --socket-mode 0660 --socket-group {group}", socket.display());
    // Whatever the mask of new files says.
    let mut command = std::process::Command::new("sh");
    let line = format!("umask 077 && exec \"$0\" serve disk {flags}");
    command.args(["-c", &line, env!("CARGO_BIN_EXE_evenkeel")]).current_dir(scene.folder());
    let server = Server::start(volume.folder(), scene.path("stderr"), command).ready();
    assert_eq!((mode(socket.clone()), fs::metadata(&socket).unwrap().gid()), (0o660, group));
    // What is for this user alone stays so.
    assert_eq!(mode(volume.folder().join("status.sock")), 0o600);
    server.stop();

    for wrong in ["999", "1777", "rw", ""] {
        says(&scene.misused(&format!("serve disk --socket-mode={wrong}")), &["octal digits"]);
    }
    for closed in ["0", "000", "444", "0555"] {
        says(&scene.misused(&format!("serve disk --socket-mode={closed}")), &["nobody could connect", "660"]);
    }
    says(&scene.misused("serve disk --socket-group root"), &["--socket-mode"]);
    let line = scene.refused("serve disk --socket-mode 660 --socket-group no-such-group");
    says(&line, &["no-such-group", "no such group"]);
    let line = scene.refused("serve disk --nbd tcp:127.0.0.1:0 --socket-mode 660");
    says(&line, &["--socket-mode", "--nbd unix:"]);
}

#[test]
fn a_port_that_other_machines_reach_without_tls_is_warned_of() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve("--nbd tcp:0.0.0.0:0");
    says(&server.complaints(), &["WARN tcp-without-tls", "0.0.0.0:", "--tls"]);
    server.stop();
    let server = volume.serve("--nbd tcp:127.0.0.1:0");
    assert!(!server.complaints().contains("tcp-without-tls"), "{}", server.complaints());
    server.stop();
}

#[test]
fn a_socket_for_every_user_is_warned_of() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve("--socket-mode 777");
    says(&server.complaints(), &["WARN socket-for-all", "nbd.sock: every user", "--socket-group"]);
    server.stop();
    let server = volume.serve("--socket-mode 770");
    assert!(!server.complaints().contains("socket-for-all"), "{}", server.complaints());
    server.stop();
}

#[test]
fn what_is_no_socket_is_not_replaced_by_one_and_is_named() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    fs::write(scene.path("notes"), "precious").unwrap();
    for (path, kind) in
        [("notes", "a file is there, and no socket"), ("data", "a folder is there, and no socket")]
    {
        let refused = scene.refused(&format!("serve disk --nbd unix:{path}"));
        says(&refused, &[&format!("{path}: cannot listen: {kind}: name another path")]);
    }
    assert_eq!(scene.text("notes"), "precious");
    volume.serve("").stop();
}

#[test]
fn addresses_and_sizes_that_make_no_sense_are_refused_with_what_would() {
    let scene = Scene::new();
    let _volume = Volume::create(&scene, FLAGS);
    for wrong in ["foo", ":9100", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:70000"] {
        says(&scene.misused(&format!("serve disk --metrics={wrong}")), &["HOST:PORT", "127.0.0.1:9100"]);
    }
    says(&scene.misused("serve disk --nbd tcp:localhost:nbd"), &["tcp:HOST:PORT"]);
    let refused = scene.refused("serve disk --cache 100t");
    says(&refused, &["--cache 100 TiB: this machine has ", " of memory; choose less"]);
}

#[test]
fn memory_is_locked_where_that_is_asked_for() {
    const NAME: &str = "memory_is_locked_where_that_is_asked_for";
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let locked_kib = |server: &Server| -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", server.status().server.pid)).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    let server = volume.serve("");
    assert_eq!(locked_kib(&server), 0);
    server.stop();
    let mut server = volume.starting("--lock-memory");
    patiently("a start, or its end", || (server.has_ended() || volume.socket().exists()).then_some(()));
    if server.has_ended() {
        says(&server.complaints(), &["--lock-memory", "LimitMEMLOCK", "CAP_IPC_LOCK"]);
        return skip(NAME, "this process may lock little memory");
    }
    let server = server.ready();
    write(&volume.socket(), 0, &noise(1, 8 << 20));
    assert!(locked_kib(&server) > 8 << 10, "{} KiB", locked_kib(&server));
    server.stop();
}

#[test]
fn a_start_right_after_a_kill_is_never_refused() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mut server = volume.serve("");
    for seed in 0..30 {
        write(&volume.socket(), seed * 1000, &noise(seed, 4_000_000));
        server.signal("KILL");
        // Nobody has waited for its end.
        let next = volume.serve("");
        drop(server);
        server = next;
    }
    let found = contents(&volume.socket());
    assert!(found[29_000..][..4_000_000] == *noise(29, 4_000_000));
    server.stop();
    // One that lives is told from one that is about to end.
    let server = volume.serve("");
    says(&scene.refused("serve disk"), &["another process"]);
    server.stop();
}
