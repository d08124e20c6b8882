//! Files that are made shorter while they are served: what they held is gone, and no later write hides that.

use std::fs::OpenOptions;

use crate::support::events::{is_in_state, lines_of, once, serve, stop};
use crate::support::load::{contents, write};
use crate::support::served::{Server, Volume, noise, patiently};
use crate::support::{Scene, says};

const FLAGS: &str = "--size 32m --log-size 16m --buffer 4m";

const MIRROR: &str = "--layout mirror --size 32m --log-size 16m --buffer 8m --atomic-sectors yes";

fn cut(scene: &Scene, name: &str, bytes: u64) {
    OpenOptions::new().write(true).open(scene.path(name)).unwrap().set_len(bytes).unwrap();
}

/// SIGTERM, after which it must say that this was made shorter.
#[track_caller]
fn ends_badly(mut server: Server, name: &str) {
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(1), "{}", server.complaints());
    let ended = lines_of(&server, "ended").pop().expect("it says why");
    says(ended["message"].as_str().unwrap(), &[name, "made shorter while it was served"]);
}

#[test]
fn a_home_or_log_that_is_cut_short_makes_the_volume_read_only() {
    for (name, bytes) in [("home", 0), ("home", 30 << 20), ("log", 0), ("log", 16 << 20)] {
        let scene = Scene::new();
        let volume = Volume::create(&scene, FLAGS);
        let server = serve(&volume, "");
        write(&volume.socket(), 0, &noise(1, 1 << 20));
        cut(&scene, &format!("disk/{name}"), bytes);
        let parts = ["takes no writes any more", name, "made shorter while it was served", "copy that"];
        once(&server, "read-only", "ERROR", &parts);
        is_in_state(&scene, &server, "read-only", 1);
        ends_badly(server, name);
        assert_eq!(scene.path(&format!("disk/{name}")).metadata().unwrap().len(), bytes);
    }
}

#[test]
fn one_that_is_cut_short_just_before_the_stop_is_told_of() {
    for name in ["home", "log"] {
        let scene = Scene::new();
        let volume = Volume::create(&scene, FLAGS);
        let server = serve(&volume, "");
        write(&volume.socket(), 0, &noise(1, 1 << 20));
        cut(&scene, &format!("disk/{name}"), 8192);
        ends_badly(server, name);
    }
}

#[test]
fn a_member_or_log_device_of_a_mirror_that_is_cut_short_is_lost_and_made_again() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, MIRROR);
    let server = serve(&volume, "--turn 20ms --rest 1ms --rest-max 20ms");
    write(&volume.socket(), 0, &noise(1, 3 << 20));
    for (name, event) in [("member-1", "member-lost"), ("log-0", "log-device-lost")] {
        cut(&scene, &format!("disk/{name}"), 1 << 20);
        once(&server, event, "ERROR", &[name, "made shorter while it was in use"]);
        is_in_state(&scene, &server, "degraded", 1);
    }
    write(&volume.socket(), 4 << 20, &noise(2, 1 << 20));
    scene.done("replace disk member-1 member-1");
    once(&server, "rebuild-ended", "INFO", &["member 1 (member-1)"]);
    stop(server);
    scene.done("replace disk log-0 log-0");
    let server = serve(&volume, "");
    patiently("that nothing is wrong", || (server.status().state.name == "ok").then_some(()));
    let found = contents(&volume.socket());
    assert!(found[..3 << 20] == noise(1, 3 << 20) && found[4 << 20..5 << 20] == noise(2, 1 << 20));
    stop(server);
}
