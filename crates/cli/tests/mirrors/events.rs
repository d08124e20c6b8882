//! What the server of a mirror tells when members and log devices go, fail and come back.

use std::fs;
use std::os::unix::fs::FileExt;
use std::process::Stdio;

use crate::support::events::{count, is_in_state, lines_of, once, serve, stop};
use crate::support::far::Drive;
use crate::support::load::{contents, write};
use crate::support::root::{programs, system};
use crate::support::served::{Ended, Volume, noise, patiently};
use crate::support::{Scene, or_skip, says};

const SIZE: usize = 32 << 20;

const FLAGS: &str = "--layout mirror --size 32m --log-size 16m --buffer 8m --atomic-sectors yes";

/// Turns so short that there are many.
const TURNS: &str = "--rejoin off --turn 20ms --rest 1ms --rest-max 20ms";

#[test]
fn a_member_whose_server_is_killed_and_the_one_that_takes_its_place_are_told_of_once_each() {
    let scene = Scene::new();
    let mut drives: Vec<Drive> = (0..2).map(|number| Drive::start(&scene, number)).collect();
    let members: Vec<String> =
        drives.iter().map(|it| format!("--member {0} --destroy {0}", it.uri)).collect();
    let volume = Volume::create(
        &scene,
        &format!("--layout mirror --size 24m --log-size 16m --buffer 8m {}", members.join(" ")),
    );
    let server = serve(&volume, &format!("{TURNS} --answer-max 60s"));
    write(&volume.socket(), 0, &noise(1, 8 << 20));
    drives[1].server.kill();
    let line = once(&server, "member-lost", "ERROR", &["member 1 (", &drives[1].uri, "is lost: "]);
    assert_eq!(line["device"], drives[1].uri.as_str());
    let shown = is_in_state(&scene, &server, "degraded", 1);
    says(&shown, &[&format!("degraded: member 1 ({}) lost ", drives[1].uri), " ago: "]);
    // What was lost stays lost: nothing more is told of it.
    write(&volume.socket(), 0, &noise(2, 1 << 20));
    drives.push(Drive::start(&scene, 2));
    let (old, new) = (drives[1].uri.clone(), drives[2].uri.clone());
    scene.done(&format!("replace disk {old} {new} --destroy {new}"));
    once(&server, "rebuild-begun", "INFO", &["rebuild of member 1 (", &new, "begun"]);
    once(&server, "rebuild-ended", "INFO", &["rebuild of member 1 (", &new, "it holds everything"]);
    once(&server, "member-lost", "ERROR", &[&old]);
    is_in_state(&scene, &server, "ok", 0);
    drives[0].server.kill();
    patiently("the loss of the other", || (count(&server, "member-lost") == 2).then_some(()));
    stop(server);
}

#[test]
fn a_rebuild_that_its_member_does_not_survive_and_one_that_the_server_does_not_are_told_of() {
    let scene = Scene::new();
    let mut drives: Vec<Drive> = (0..2).map(|number| Drive::start(&scene, number)).collect();
    let volume = Volume::create(&scene, FLAGS);
    let server = serve(&volume, &format!("{TURNS} --rebuild-rate 1MiB/s"));
    write(&volume.socket(), 0, &noise(1, SIZE));
    let new = drives[1].uri.clone();
    scene.done(&format!("replace disk member-1 {new} --destroy {new} --atomic-sectors yes"));
    patiently("some of the rebuild", || (count(&server, "rebuild-progress") > 0).then_some(()));
    says(lines_of(&server, "rebuild-progress")[0]["message"].as_str().unwrap(), &["10 % "]);
    says(&is_in_state(&scene, &server, "rebuilding", 1), &["rebuild begun ", " % done"]);
    drives[1].server.kill();
    once(&server, "rebuild-failed", "ERROR", &["rebuild of member 1 (", &new, "failed: "]);
    assert_eq!(count(&server, "member-lost"), 0, "it did not count yet");
    is_in_state(&scene, &server, "degraded", 1);
    let again = drives[0].uri.clone();
    scene.done(&format!("replace disk {new} {again} --destroy {again} --atomic-sectors yes"));
    patiently("the next rebuild", || (count(&server, "rebuild-begun") == 2).then_some(()));
    let told = stop(server);
    let last: Vec<&str> = told.iter().rev().take(3).rev().map(|it| it["event"].as_str().unwrap()).collect();
    assert_eq!(last, ["stopping", "rebuild-stopped", "stopped"]);
}

#[test]
fn a_log_device_whose_server_is_killed_is_told_of_once() {
    let scene = Scene::new();
    let mut far = Drive::start(&scene, 0);
    let logs = format!("--log near-log --log {0} --destroy {0}", far.uri);
    let volume = Volume::create(&scene, &format!("{FLAGS} {logs}"));
    let server = serve(&volume, TURNS);
    write(&volume.socket(), 0, &noise(4, 1 << 20));
    far.server.kill();
    once(&server, "log-device-lost", "ERROR", &["log device 1 (", &far.uri, "is lost: "]);
    write(&volume.socket(), 0, &noise(5, 1 << 20));
    says(&is_in_state(&scene, &server, "degraded", 1), &["degraded: log device 1 (", "lost "]);
    once(&server, "log-device-lost", "ERROR", &[]);
    stop(server);
}

#[test]
fn a_member_that_fails_is_lost_whatever_it_says_of_itself() {
    or_skip!(programs(&["nbdkit"]));
    // One that shuts down is lost as with a connection that breaks.
    for (errno, words) in
        [("EIO", "Input/output error"), ("ESHUTDOWN", "the connection broke: the server shuts down")]
    {
        let scene = Scene::new();
        let (socket, fails) = (scene.path("far"), scene.path("fails"));
        let mut nbdkit = system("nbdkit");
        nbdkit.args(["--foreground", "--unix"]).arg(&socket).args(["--filter=limit", "--filter=error"]);
        nbdkit.args(["memory", "64M", "limit=1"]);
        nbdkit.arg(format!("error-pwrite={errno}")).arg("error-pwrite-rate=100%");
        nbdkit.arg(format!("error-pwrite-file={}", fails.display()));
        let _far = Ended(nbdkit.stderr(Stdio::null()).spawn().unwrap());
        patiently("nbdkit", || socket.exists().then_some(()));
        let uri = format!("nbd+unix:///?socket={}", socket.display());
        let flags =
            format!("--layout mirror --size 32m --log-size 16m --buffer 8m --member near --member {uri}");
        let volume = Volume::create(&scene, &format!("{flags} --destroy {uri}"));
        let server = serve(&volume, TURNS);
        fs::write(&fails, "").unwrap();
        write(&volume.socket(), 0, &noise(7, SIZE));
        once(&server, "member-lost", "ERROR", &["member 1 (", &uri, "is lost: ", words]);
        assert!(contents(&volume.socket()) == noise(7, SIZE));
        is_in_state(&scene, &server, "degraded", 1);
        stop(server);
    }
}

/// Writes other bytes into the middle of a member, past its tables.
fn rot(scene: &Scene, name: &str, offset: u64) {
    let file = fs::OpenOptions::new().write(true).open(scene.path("disk").join(name)).unwrap();
    file.write_all_at(&noise(offset, 1 << 20), offset).unwrap();
}

#[test]
fn pages_that_rotted_on_one_member_or_on_all_are_told_of() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve(TURNS);
    write(&volume.socket(), 0, &noise(6, SIZE));
    server.stop();
    rot(&scene, "member-0", 10 << 20);
    rot(&scene, "member-1", 20 << 20);
    // Each of them is read: whoever reads least is asked next.
    let server = serve(&volume, &format!("{TURNS} --scrub-every never"));
    assert!(contents(&volume.socket()) == noise(6, SIZE));
    let mended = patiently("the count of what was mended", || {
        Some(count(&server, "copies-mended")).filter(|mended| *mended > 0)
    });
    says(
        lines_of(&server, "copies-mended")[0]["message"].as_str().unwrap(),
        &["wrong on the member that was read"],
    );
    assert!(mended <= server.status().counters.other_copies);
    is_in_state(&scene, &server, "ok", 0);
    stop(server);
    rot(&scene, "member-0", 15 << 20);
    rot(&scene, "member-1", 15 << 20);
    let server = serve(&volume, &format!("{TURNS} --scrub-every 24s --scrub-rate 1000MiB/s"));
    patiently("what the search found", || (count(&server, "pages-damaged") > 0).then_some(()));
    let line = &lines_of(&server, "pages-damaged")[0];
    says(line["message"].as_str().unwrap(), &["scrub: no copy of ", "4096 bytes from "]);
    says(&is_in_state(&scene, &server, "damaged", 1), &["damaged in every copy"]);
    stop(server);
}
