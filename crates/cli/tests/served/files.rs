//! Files of members and log devices that are removed, moved, or have another put in their place while they are served.

use std::fs;
use std::path::Path;

use crate::support::events::{count, is_in_state, lines_of, once, serve, served_with_bytes, stop};
use crate::support::load::{contents, write};
use crate::support::metrics::{address, metric, scrape};
use crate::support::root::{programs, run};
use crate::support::served::{Server, Volume, noise, patiently};
use crate::support::{Scene, says, skip};

const FLAGS: &str = "--size 32m --log-size 16m --buffer 4m";

const MIRROR: &str = "--layout mirror --size 32m --log-size 16m --buffer 8m --atomic-sectors yes";

const SIZE: usize = 32 << 20;

/// Turns so short that there are many.
const TURNS: &str = "--turn 20ms --rest 1ms --rest-max 20ms";

/// The commands that a line names, in their order.
fn commands(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

/// SIGTERM, after which it must say why all is not well; answers that line.
#[track_caller]
fn end(mut server: Server) -> String {
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(1), "{}", server.complaints());
    assert!(lines_of(&server, "stopped").is_empty(), "{}", server.complaints());
    let ended = lines_of(&server, "ended").pop().expect("it says why");
    assert_eq!(ended["level"], "ERROR");
    ended["message"].as_str().unwrap().to_owned()
}

#[track_caller]
fn moved_files(server: &Server) -> f64 {
    metric(&scrape(&address(server), "/metrics").1, "evenkeel_moved_files")
}

#[test]
fn the_commands_that_a_server_names_for_a_removed_file_put_it_back_with_every_write() {
    for name in ["home", "log"] {
        let scene = Scene::new();
        let (volume, mut server, bytes) = served_with_bytes(&scene);
        fs::remove_file(volume.folder().join(name)).unwrap();
        let event = if name == "home" { "member-removed" } else { "log-device-removed" };
        let parts = [name, "its file was removed", "what it holds is lost when this server ends"];
        let line = once(&server, event, "ERROR", &parts);
        says(&is_in_state(&scene, &server, "degraded", 1), &[&format!("({name}) file removed")]);
        // What comes after that is saved as well, also what waits in memory.
        write(&volume.socket(), 4 << 20, &bytes);
        let commands = commands(line["message"].as_str().unwrap());
        assert_eq!(commands.len(), 2, "{line}");
        for command in &commands[1..] {
            run("sh", &["-c", command]).unwrap();
        }
        assert_eq!(server.exit_code(), None, "it was killed");
        let server = serve(&volume, "");
        let found = contents(&volume.socket());
        assert!(found[..3 << 20] == bytes && found[4 << 20..7 << 20] == bytes);
        is_in_state(&scene, &server, "ok", 0);
        stop(server);
        scene.done("check disk");
    }
}

#[test]
fn a_server_whose_home_was_removed_can_be_copied_and_ends_with_an_error() {
    let scene = Scene::new();
    let (volume, server, bytes) = served_with_bytes(&scene);
    fs::remove_file(volume.folder().join("home")).unwrap();
    let line = once(&server, "member-removed", "ERROR", &["nbdcopy"]);
    match programs(&["nbdcopy"]) {
        Err(why) => skip("a_server_whose_home_was_removed_can_be_copied_and_ends_with_an_error", &why),
        Ok(()) => {
            let copy = commands(line["message"].as_str().unwrap())[0];
            let image = scene.path("image");
            run("sh", &["-c", &copy.replace("IMAGE", &image.display().to_string())]).unwrap();
            assert!(fs::read(image).unwrap()[..3 << 20] == bytes);
        }
    }
    // Another file under its name is no member, and is not written to.
    fs::write(volume.folder().join("home"), "another").unwrap();
    says(
        &end(server),
        &["disk: ", "member 0 (home)", "had been removed", "is lost", "from a copy or a backup"],
    );
    assert_eq!(scene.text("disk/home"), "another");
}

#[test]
fn a_server_whose_log_was_removed_ends_with_an_error_that_says_how_its_pages_are_had() {
    let scene = Scene::new();
    let (volume, server, bytes) = served_with_bytes(&scene);
    fs::remove_file(volume.folder().join("log")).unwrap();
    let why = end(server);
    says(&why, &["log device 0 (log)", "had been removed", "cannot be served without it"]);
    let salvage = commands(&why)[0].strip_prefix("evenkeel ").unwrap().replace("IMAGE", "image");
    let salvaged = scene.run(&salvage);
    assert_eq!(salvaged.code, Some(0), "{salvaged:?}");
    assert!(scene.bytes("image")[..3 << 20] == bytes);
    scene.done(commands(&why)[1].strip_prefix("evenkeel ").unwrap());
    let server = volume.serve("");
    assert!(contents(&volume.socket())[..3 << 20] == bytes);
    server.stop();
}

#[test]
fn a_second_signal_tells_of_a_removed_home_too() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mut server = serve(&volume, "");
    fs::remove_file(volume.folder().join("home")).unwrap();
    server.signal("STOP");
    // Of two kinds, so that both wait for it.
    ["TERM", "INT", "CONT"].into_iter().for_each(|signal| server.signal(signal));
    let code = server.exit_code();
    let ended = lines_of(&server, "ended").pop().expect("it says why");
    says(ended["message"].as_str().unwrap(), &["member 0 (home)", "had been removed"]);
    assert!(matches!(code, Some(1 | 130)), "{}", server.complaints());
}

/// Moves the file at `name` away, and puts another in its place.
fn exchange(scene: &Scene, name: &str) {
    fs::rename(scene.path(name), scene.path("kept")).unwrap();
    fs::write(scene.path(name), "another").unwrap();
}

fn put_back(scene: &Scene, name: &str) {
    fs::rename(scene.path("kept"), scene.path(name)).unwrap();
}

#[test]
fn a_file_that_is_moved_away_is_told_of_with_its_new_name_until_it_is_back() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = serve(&volume, "");
    assert_eq!(moved_files(&server), 0.0);
    let kept = scene.path("kept").display().to_string();
    for (name, event) in [("home", "member-moved"), ("log", "log-device-moved")] {
        exchange(&scene, &format!("disk/{name}"));
        let parts = [&format!("({name}): "), "does not lead to the file that is in use", &kept];
        once(&server, event, "ERROR", &parts);
        let shown = is_in_state(&scene, &server, "degraded", 1);
        says(&shown, &[&format!("({name}) file moved, or another put in its place"), &kept]);
        assert_eq!(moved_files(&server), 1.0);
        put_back(&scene, &format!("disk/{name}"));
        patiently("that it is back", || (moved_files(&server) == 0.0).then_some(()));
        is_in_state(&scene, &server, "ok", 0);
    }
    // A path that leads nowhere is no better.
    fs::rename(scene.path("disk/home"), scene.path("kept")).unwrap();
    patiently("the next time", || (count(&server, "member-moved") == 2).then_some(()));
    write(&volume.socket(), 0, &noise(1, 1 << 20));
    let told = stop(server);
    let last = told.last().unwrap();
    assert_eq!(last["event"], "stopped");
    says(
        last["message"].as_str().unwrap(),
        &["is durable and home; but ", "member 0 (home) is not at its path"],
    );
    put_back(&scene, "disk/home");
    scene.done("check disk");
}

#[test]
fn one_that_is_moved_just_before_the_stop_is_told_of() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mut server = serve(&volume, "");
    exchange(&scene, "disk/home");
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(0), "{}", server.complaints());
    let stopped = lines_of(&server, "stopped").pop().unwrap();
    says(stopped["message"].as_str().unwrap(), &["member 0 (home) is not at its path"]);
}

#[test]
fn files_that_are_removed_while_they_are_served_are_told_of_and_then_a_start_without_them() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, MIRROR);
    let server = serve(&volume, TURNS);
    write(&volume.socket(), 0, &noise(3, SIZE));
    let losses_survived = |server: &Server| server.status().volume.losses_survived;
    assert_eq!(losses_survived(&server), 1);
    fs::remove_file(scene.path("disk/member-1")).unwrap();
    assert_eq!(losses_survived(&server), 0, "a file without a name is not counted on");
    once(
        &server,
        "member-removed",
        "ERROR",
        &["member 1 (member-1): its file was removed", "evenkeel replace"],
    );
    fs::remove_file(scene.path("disk/log-0")).unwrap();
    once(&server, "log-device-removed", "ERROR", &["log device 0 (log-0): its file was removed"]);
    says(&is_in_state(&scene, &server, "degraded", 1), &["member 1 (member-1) file removed "]);
    stop(server);
    let server = serve(&volume, TURNS);
    once(&server, "degraded-start", "WARN", &["started without member 1 (member-1)", "log device 0 (log-0)"]);
    assert_eq!((count(&server, "member-lost"), count(&server, "log-device-lost")), (0, 0));
    let shown = is_in_state(&scene, &server, "degraded", 1);
    says(&shown, &["degraded: member 1 (member-1) lost ", "degraded: log device 0 (log-0) lost "]);
    assert!(contents(&volume.socket()) == noise(3, SIZE));
    // Made again, the member is told of as any other.
    scene.done("replace disk member-1 member-1 --atomic-sectors yes");
    once(&server, "rebuild-ended", "INFO", &["member 1 (member-1)"]);
    assert_eq!(server.status().state.reasons.len(), 1, "the log device: {:?}", server.status().state);
    fs::remove_file(scene.path("disk/member-1")).unwrap();
    once(&server, "member-removed", "ERROR", &["member 1 (member-1)"]);
    stop(server);
}

#[test]
fn a_mirror_ends_well_without_a_removed_member_and_with_an_error_without_all_of_a_kind() {
    for (removed, gone) in [
        (&["member-1"][..], None),
        (&["member-0", "member-1"], Some("from a copy or a backup")),
        (&["log-0", "log-1"], Some("cannot be served without it")),
        (&["log-0", "member-1"], None),
    ] {
        let scene = Scene::new();
        let volume = Volume::create(&scene, MIRROR);
        let server = serve(&volume, TURNS);
        write(&volume.socket(), 0, &noise(1, 3 << 20));
        removed.iter().for_each(|name| fs::remove_file(volume.folder().join(name)).unwrap());
        match gone {
            None => {
                let told = stop(server);
                let last = told.last().unwrap()["message"].as_str().unwrap();
                removed.iter().for_each(|name| says(last, &[&format!("({name}) was removed")]));
            }
            Some(words) => {
                let why = end(server);
                removed.iter().for_each(|name| says(&why, &[&format!("({name})"), words]));
            }
        }
    }
}

#[test]
fn a_member_of_a_mirror_with_another_file_in_its_place_is_told_of_and_replaced() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, MIRROR);
    let server = serve(&volume, TURNS);
    write(&volume.socket(), 0, &noise(1, 3 << 20));
    exchange(&scene, "disk/member-1");
    once(&server, "member-moved", "ERROR", &["member 1 (member-1): ", "kept"]);
    says(&is_in_state(&scene, &server, "degraded", 1), &["member 1 (member-1) file moved"]);
    // Another name leads to it as well.
    fs::remove_file(scene.path("disk/member-1")).unwrap();
    std::os::unix::fs::symlink(Path::new("../kept"), scene.path("disk/member-1")).unwrap();
    patiently("that it is back", || (moved_files(&server) == 0.0).then_some(()));
    fs::remove_file(scene.path("disk/member-1")).unwrap();
    scene.done("replace disk member-1 member-1 --atomic-sectors yes");
    once(&server, "rebuild-ended", "INFO", &["member 1 (member-1)"]);
    patiently("that nothing is wrong", || (server.status().state.name == "ok").then_some(()));
    stop(server);
}
