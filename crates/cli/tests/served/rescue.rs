//! Volumes whose files are removed while they are served, several at once, and what puts them back.

use std::fs;

use crate::support::events::{count, is_in_state, lines_of, once, serve, served_with_bytes, stop};
use crate::support::load::{contents, write};
use crate::support::root::run;
use crate::support::served::{Server, Volume, patiently};
use crate::support::{Scene, says};
use serde_json::Value;

const FLAGS: &str = "--size 32m --log-size 16m --buffer 4m";

/// The command in a line that puts the files back.
#[track_caller]
fn command(line: &str) -> String {
    let quoted = line.split('`').skip(1).step_by(2);
    let mut found = quoted.filter(|command| command.starts_with("kill -STOP"));
    found.next().unwrap_or_else(|| panic!("no command in: {line}")).to_owned()
}

#[track_caller]
fn message(line: &Value) -> String {
    line["message"].as_str().unwrap().to_owned()
}

/// Runs the command, which ends the server, and sees that all that was written is there after a start.
#[track_caller]
fn put_back(volume: &Volume<'_>, mut server: Server, command: &str, bytes: &[u8]) {
    run("sh", &["-c", command]).unwrap();
    assert_eq!(server.exit_code(), None, "it was killed");
    let server = serve(volume, "");
    let found = contents(&volume.socket());
    assert!(found[..bytes.len()] == *bytes && found[4 << 20..][..bytes.len()] == *bytes);
    is_in_state(volume.scene, &server, "ok", 0);
    stop(server);
    volume.scene.done("check disk");
}

#[test]
fn what_a_line_says_of_the_first_file_puts_back_one_that_is_removed_later_too() {
    let scene = Scene::new();
    let (volume, server, bytes) = served_with_bytes(&scene);
    fs::remove_file(volume.folder().join("home")).unwrap();
    let first = once(&server, "member-removed", "ERROR", &["its file was removed"]);
    fs::remove_file(volume.folder().join("log")).unwrap();
    let second = once(&server, "log-device-removed", "ERROR", &["its file was removed"]);
    write(&volume.socket(), 4 << 20, &bytes);
    assert_eq!(command(&message(&first)), command(&message(&second)));
    let shown = is_in_state(&scene, &server, "degraded", 1);
    assert_eq!(command(&shown), command(&message(&first)), "status names it too");
    // One that found no room left a part of the first file.
    fs::write(volume.folder().join("home.copied"), b"a part").unwrap();
    put_back(&volume, server, &command(&message(&first)), &bytes);
}

#[test]
fn a_folder_that_was_removed_is_put_back_by_what_the_server_says_or_by_what_status_says() {
    for asks_status in [false, true] {
        let scene = Scene::new();
        let (volume, server, bytes) = served_with_bytes(&scene);
        write(&volume.socket(), 4 << 20, &bytes);
        fs::remove_dir_all(volume.folder()).unwrap();
        let told = |event: &str| patiently(event, || lines_of(&server, event).pop());
        let line = message(&told("description-removed"));
        says(&line, &["volume.toml was removed, and cannot be written anew", "mkdir -p"]);
        assert!(!line.contains("nbdcopy"), "no client reaches it: {line}");
        assert_eq!(command(&message(&told("member-removed"))), command(&line));
        let ran = scene.run("status disk");
        assert_eq!(ran.code, Some(1), "{ran:?}");
        let shown = ran.complaint();
        says(&shown, &["disk: its volume.toml was removed while process"]);
        let command = if asks_status { command(&shown) } else { command(&line) };
        put_back(&volume, server, &command, &bytes);
    }
}

#[test]
fn a_stop_after_the_folder_was_removed_ends_with_an_error() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, &format!("{FLAGS} --member kept-home --log kept-log"));
    let mut server = serve(&volume, "");
    let arena = volume.arena();
    fs::remove_dir_all(volume.folder()).unwrap();
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(1), "{}", server.complaints());
    let ended = lines_of(&server, "ended").pop().unwrap();
    says(&message(&ended), &["volume.toml had been removed while it was served", "from a backup"]);
    assert!(arena.is_none_or(|path| !path.exists()));
}

#[test]
fn a_description_that_was_removed_is_written_anew_at_once() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = serve(&volume, "");
    let described = scene.text("disk/volume.toml");
    for times in 1..=2 {
        fs::remove_file(volume.folder().join("volume.toml")).unwrap();
        patiently("its line", || (count(&server, "description-removed") == times).then_some(()));
        assert_eq!(scene.text("disk/volume.toml"), described);
    }
    for line in lines_of(&server, "description-removed") {
        says(&message(&line), &["volume.toml was removed, and is written anew"]);
    }
    is_in_state(&scene, &server, "ok", 0);
    // It is locked as the one before was.
    says(&scene.refused("serve disk"), &["it is being served"]);
    stop(server);
    scene.done("check disk");
}

#[test]
fn with_every_file_of_a_folder_removed_nothing_advises_a_stop_and_status_says_what_puts_them_back() {
    let scene = Scene::new();
    let (volume, server, bytes) = served_with_bytes(&scene);
    write(&volume.socket(), 4 << 20, &bytes);
    // Sockets last: what is said of them is for whoever has lost files as well.
    for name in ["home", "log", "volume.toml", "nbd.sock", "control.sock", "status.sock"] {
        fs::remove_file(volume.folder().join(name)).unwrap();
    }
    let sockets = || lines_of(&server, "socket-removed");
    patiently("lines of all sockets", || (sockets().len() == 3).then_some(()));
    patiently("its description", || volume.folder().join("volume.toml").exists().then_some(()));
    for line in sockets() {
        let line = message(&line);
        assert!(!line.contains("SIGTERM"), "a stop loses all: {line}");
        says(&line, &["do not stop this server"]);
    }
    let ran = scene.run("status disk");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let shown = ran.complaint();
    assert!(!shown.contains("SIGTERM"), "{shown}");
    put_back(&volume, server, &command(&shown), &bytes);
}
