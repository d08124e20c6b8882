//! What a server has beside its members, removed while it is served: memory of acknowledged writes, and sockets.

use std::fs::{self, OpenOptions};
use std::path::PathBuf;

use crate::support::events::{is_in_state, lines, once, serve, stop};
use crate::support::load::{contents, write};
use crate::support::served::{Server, Volume, noise};
use crate::support::{Scene, says};

const FLAGS: &str = "--size 16m --log-size 16m --buffer 1m";

#[test]
fn memory_that_was_removed_is_told_of_and_a_stop_loses_nothing() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = serve(&volume, "");
    write(&volume.socket(), 0, &noise(1, 100_000));
    fs::remove_file(volume.arena().unwrap()).unwrap();
    once(&server, "memory-gone", "WARN", &["evenkeel-", ".arena", "was removed", "SIGTERM"]);
    let shown = is_in_state(&scene, &server, "degraded", 1);
    says(&shown, &["memory of acknowledged writes file removed or cut short"]);
    stop(server);
    let server = serve(&volume, "");
    is_in_state(&scene, &server, "ok", 0);
    assert!(contents(&volume.socket())[..100_000] == noise(1, 100_000));
    stop(server);
}

/// Cuts the arena short, and has the server use it.
#[track_caller]
fn end_by_fault(volume: &Volume<'_>, server: &mut Server) {
    OpenOptions::new().write(true).open(volume.arena().unwrap()).unwrap().set_len(4096).unwrap();
    let socket: PathBuf = volume.socket();
    // Whoever writes hears nothing more.
    let writer = std::thread::spawn(move || write(&socket, 0, &noise(2, 500_000)));
    assert_eq!(server.exit_code(), None, "a signal ended it");
    assert!(writer.join().is_err(), "it was not answered");
}

#[test]
fn memory_that_was_cut_short_ends_the_server_with_a_line_that_says_so() {
    let words = ["ended by SIGBUS", "the arena of acknowledged writes", "serve the volume anew"];
    for flags in ["", "--log-format json", "--log-format journald"] {
        let scene = Scene::new();
        let volume = Volume::create(&scene, FLAGS);
        let mut server = volume.serve(flags);
        end_by_fault(&volume, &mut server);
        let told = server.complaints();
        let last = told.lines().last().unwrap_or_default().to_owned();
        says(&last, &words);
        match flags {
            "--log-format json" => {
                let line = lines(&server).pop().unwrap();
                assert_eq!((&line["event"], &line["level"]), (&"ended".into(), &"ERROR".into()), "{line}");
                assert_eq!(line["volume"], volume.folder().file_name().unwrap().to_str().unwrap(), "{line}");
            }
            "" => assert!(last.starts_with("evenkeel: disk: "), "{last}"),
            _ => assert!(last.starts_with("<3>"), "{last}"),
        }
        volume.serve("").stop();
    }
}

#[test]
fn sockets_that_were_removed_are_told_of_and_status_says_who_serves() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = serve(&volume, "");
    fs::remove_file(volume.socket()).unwrap();
    once(&server, "socket-removed", "ERROR", &["nbd.sock: the socket was removed", "SIGTERM"]);
    says(&is_in_state(&scene, &server, "degraded", 1), &["nbd.sock socket removed"]);
    let process = server.status().server.pid;
    fs::remove_file(volume.folder().join("status.sock")).unwrap();
    let ran = scene.run("status disk");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    says(&ran.complaint(), &[&format!("in use by process {process}"), "status.sock was removed", "SIGTERM"]);
    let told = stop(server);
    let removed = told.iter().filter(|line| line["event"] == "socket-removed").count();
    assert!((1..=2).contains(&removed), "{told:?}");
    let last = told.last().unwrap();
    assert_eq!((&last["event"], &last["volume"]), (&"stopped".into(), &"disk".into()));
    volume.serve("").stop();
}

#[test]
fn metrics_for_other_machines_are_warned_of_and_those_for_this_one_are_not() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    for (address, is_told) in [("0.0.0.0:0", true), ("127.0.0.1:0", false)] {
        let server = volume.serve(&format!("--log-format json --metrics {address}"));
        let told = lines(&server).iter().any(|line| line["event"] == "metrics-for-all");
        assert_eq!(told, is_told, "{address}");
        server.stop();
    }
}

#[test]
fn a_group_that_its_mode_keeps_out_is_refused() {
    let scene = Scene::new();
    let _volume = Volume::create(&scene, FLAGS);
    let line = "serve disk --nbd unix:s --socket-group 0 --socket-mode";
    says(
        &scene.refused(&format!("{line} 600")),
        &["--socket-mode 600", "does not let the group 0 in", "660"],
    );
}
