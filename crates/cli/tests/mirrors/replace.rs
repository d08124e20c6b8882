//! What `replace` refuses, it leaves as it was: what was named to be overwritten may be the last good copy.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::thread;

use crate::support::load::{contents, write};
use crate::support::root::run;
use crate::support::served::{Volume, noise, noise_file};
use crate::support::{Scene, says};

const SIZE: usize = 16 << 20;

const FLAGS: &str = "--layout mirror --size 16m --log-size 16m --buffer 8m --atomic-sectors yes";

/// What a new one has to promise that the others do.
const ATOMIC: &str = "--atomic-sectors yes";

const TURNS: &str = "--rejoin off --turn 20ms --rest 1ms --rest-max 20ms";

/// A mirror that was written whole.
fn written(scene: &Scene) -> Volume<'_> {
    let volume = Volume::create(scene, FLAGS);
    let server = volume.serve(TURNS);
    write(&volume.socket(), 0, &noise(1, SIZE));
    server.stop();
    volume
}

/// Serves the volume without its member, and writes meanwhile: from then on the other one alone holds everything.
fn leave_behind(volume: &Volume<'_>, member: &str) {
    let at = volume.folder().join(member);
    let away = volume.scene.path("away");
    fs::rename(&at, &away).unwrap();
    let server = volume.serve(TURNS);
    write(&volume.socket(), 0, &noise(2, SIZE));
    server.stop();
    fs::rename(&away, &at).unwrap();
}

/// That the command is refused with these words, and what was named keeps every byte.
#[track_caller]
fn refused_untouched(scene: &Scene, line: &str, named: &str, parts: &[&str]) {
    let before = scene.bytes(named);
    says(&scene.refused(&format!("{line} --destroy {named} {ATOMIC}")), parts);
    assert!(scene.bytes(named) == before, "{named} is another after: {line}");
}

#[test]
fn what_a_served_volume_does_not_take_keeps_its_bytes() {
    let scene = Scene::new();
    let volume = written(&scene);
    // Longer than is needed, and no multiple of anything.
    noise_file(&scene.path("new"), 3, 40_000_001);
    let server = volume.serve(TURNS);
    let before = scene.bytes("new");
    says(
        &scene.refused("replace disk member-0 new --destroy new"),
        &["keep sectors whole", "--atomic-sectors"],
    );
    assert!(scene.bytes("new") == before);
    server.stop();
    fs::rename(scene.path("disk/member-1"), scene.path("away")).unwrap();
    let server = volume.serve(TURNS);
    refused_untouched(&scene, "replace disk member-0 new", "new", &["no other member holds everything"]);
    assert!(contents(&volume.socket()) == noise(1, SIZE));
    // It is as good as any other for what can be done.
    scene.done(&format!("replace disk member-1 new --destroy new {ATOMIC}"));
    server.until_in_sync(false);
    server.stop();
}

#[test]
fn what_a_volume_that_nobody_serves_does_not_take_keeps_its_bytes() {
    let scene = Scene::new();
    let volume = written(&scene);
    noise_file(&scene.path("new"), 3, 40_000_001);
    fs::rename(scene.path("disk/log-1"), scene.path("away-log")).unwrap();
    refused_untouched(&scene, "replace disk log-0 new", "new", &["no other log device holds everything"]);
    fs::rename(scene.path("away-log"), scene.path("disk/log-1")).unwrap();
    leave_behind(&volume, "member-0");
    refused_untouched(&scene, "replace disk member-1 new", "new", &["no other member holds everything"]);
    fs::rename(scene.path("disk/member-1"), scene.path("away")).unwrap();
    refused_untouched(
        &scene,
        "replace disk member-1 new",
        "new",
        &["holds everything", "bring back one that does"],
    );
    fs::rename(scene.path("away"), scene.path("disk/member-1")).unwrap();
    volume.expect_contents(TURNS, &noise(2, SIZE));
}

/// That the command is refused, and leaves every file of the folder as it was.
#[track_caller]
fn refused_unopened(scene: &Scene, line: &str, parts: &[&str]) {
    let all = || -> Vec<(String, Vec<u8>)> {
        let names = scene.names("disk").into_iter();
        names.map(|name| (name.clone(), scene.bytes(&format!("disk/{name}")))).collect()
    };
    let before = all();
    says(&scene.refused(line), parts);
    for (before, after) in before.into_iter().zip(all()) {
        assert!(before == after, "{} is another after: {line}", after.0);
    }
}

#[test]
fn what_is_refused_leaves_every_device_as_it_was_and_who_is_away_still_counts() {
    let scene = Scene::new();
    let volume = written(&scene);
    noise_file(&scene.path("new"), 3, 40_000_001);
    let at = |name: &str| [scene.path(&format!("disk/{name}")), scene.path(&format!("away-{name}"))];
    let away = |name: &str| fs::rename(&at(name)[0], &at(name)[1]).unwrap();
    let back = |name: &str| fs::rename(&at(name)[1], &at(name)[0]).unwrap();
    let over = |old: &str| format!("replace disk {old} new --destroy new {ATOMIC}");
    away("member-1");
    away("log-1");
    refused_unopened(&scene, &over("member-0"), &["no other member holds everything"]);
    refused_unopened(&scene, &over("log-0"), &["no other log device holds everything"]);
    let other = noise(4, 40 << 20);
    fs::write(scene.path("disk/member-1"), &other).unwrap();
    fs::write(scene.path("disk/log-1"), &other).unwrap();
    for old in ["member-1", "log-1"] {
        let line = format!("replace disk {old} {old}");
        refused_unopened(&scene, &line, &["any more", &format!("--destroy {old}")]);
    }
    refused_unopened(&scene, &format!("replace disk member-0 sub/new {ATOMIC}"), &["sub/new"]);
    back("member-1");
    back("log-1");
    let server = volume.serve(TURNS);
    let mirror = server.status().mirror.unwrap();
    assert!(mirror.members.iter().all(|member| member.standing == "in-sync"), "{mirror:?}");
    assert!(mirror.logs.iter().all(|log| log.standing == "in-sync"), "{mirror:?}");
    server.stop();
    // Each alone still has everything.
    away("member-0");
    away("log-0");
    volume.expect_contents(TURNS, &noise(1, SIZE));
}

#[test]
fn a_member_under_another_name_is_not_overwritten_and_is_good_under_its_own() {
    let scene = Scene::new();
    let volume = written(&scene);
    leave_behind(&volume, "member-0");
    // Only member-1 has everything, and somebody moved it.
    fs::rename(scene.path("disk/member-1"), scene.path("moved")).unwrap();
    let parts = ["moved: it seems to be member-1 of this very volume", "bring it back"];
    for old in ["member-1", "member-0", "log-0"] {
        refused_untouched(&scene, &format!("replace disk {old} moved"), "moved", &parts);
    }
    // Nor where it lies at the place of another.
    fs::rename(scene.path("disk/member-0"), scene.path("stale")).unwrap();
    fs::rename(scene.path("moved"), scene.path("disk/member-0")).unwrap();
    let named = "disk/member-0";
    refused_untouched(&scene, &format!("replace disk member-0 {named}"), named, &[]);
    fs::rename(scene.path("disk/member-0"), scene.path("disk/member-1")).unwrap();
    fs::rename(scene.path("stale"), scene.path("disk/member-0")).unwrap();
    let server = volume.serve(TURNS);
    assert!(contents(&volume.socket()) == noise(2, SIZE));
    server.until_in_sync(false);
    // The same of a log device, and while it is served.
    fs::copy(scene.path("disk/log-1"), scene.path("copy")).unwrap();
    let parts = ["copy: it seems to be log-1 of this very volume", "zero its first 8192 bytes"];
    refused_untouched(&scene, "replace disk member-0 copy", "copy", &parts);
    server.stop();
    // Nor is it a stranger that may be overwritten where it lies at the place of another.
    fs::rename(scene.path("disk/member-1"), scene.path("away")).unwrap();
    fs::copy(scene.path("disk/member-0"), scene.path("disk/member-1")).unwrap();
    let named = "disk/member-1";
    let (line, parts) =
        (format!("replace disk member-1 {named}"), ["member-1: it seems to be member-0 of this very volume"]);
    refused_untouched(&scene, &line, named, &parts);
    let server = volume.serve(TURNS);
    refused_untouched(&scene, &line, named, &parts);
    server.stop();
    fs::rename(scene.path("away"), scene.path(named)).unwrap();
    let server = volume.serve(TURNS);
    server.until_in_sync(false);
    // Whoever knows better can say so.
    let file = fs::OpenOptions::new().write(true).open(scene.path("copy")).unwrap();
    (&file).write_all(&[0; 8192]).unwrap();
    scene.done(&format!("replace disk member-0 copy --destroy copy {ATOMIC}"));
    server.until_in_sync(false);
    server.stop();
}

#[test]
fn the_last_member_by_a_hard_link_is_not_overwritten() {
    let scene = Scene::new();
    let volume = written(&scene);
    fs::hard_link(scene.path("disk/member-0"), scene.path("link")).unwrap();
    fs::remove_file(scene.path("disk/member-1")).unwrap();
    let parts = ["link: it is a member of this volume already", "name another"];
    refused_untouched(&scene, "replace disk member-1 link", "link", &parts);
    refused_untouched(&scene, "replace disk log-1 link", "link", &parts);
    let server = volume.serve(TURNS);
    refused_untouched(&scene, "replace disk member-1 link", "link", &parts);
    assert!(contents(&volume.socket()) == noise(1, SIZE));
    server.stop();
}

#[test]
fn a_member_takes_its_own_place_again_while_nobody_serves_the_volume() {
    let scene = Scene::new();
    let volume = written(&scene);
    leave_behind(&volume, "member-1");
    scene.done("replace disk member-1 member-1");
    fs::write(scene.path("disk/log-0"), noise(4, 20 << 20)).unwrap();
    says(&scene.refused("replace disk log-0 log-0"), &["not this log device any more", "--destroy log-0"]);
    assert!(scene.bytes("disk/log-0") == noise(4, 20 << 20));
    scene.done("replace disk log-0 log-0 --destroy log-0");
    let server = volume.serve(TURNS);
    server.until_in_sync(false);
    server.stop();
    fs::remove_file(scene.path("disk/member-0")).unwrap();
    fs::remove_file(scene.path("disk/log-1")).unwrap();
    volume.expect_contents(TURNS, &noise(2, SIZE));
}

#[test]
fn who_is_refused_after_all_is_told_what_became_of_the_new_one() {
    let scene = Scene::new();
    let _volume = written(&scene);
    noise_file(&scene.path("new"), 3, 40_000_001);
    // As one that serves it.
    let described = fs::File::open(scene.path("disk/volume.toml")).unwrap();
    described.lock().unwrap();
    let _status = UnixListener::bind(scene.path("disk/status.sock")).unwrap();
    let control = UnixListener::bind(scene.path("disk/control.sock")).unwrap();
    let answers = thread::spawn(move || {
        for (order, answer) in [("consider", "null"), ("replace", "\"somebody was faster\"")] {
            let (mut stream, _) = control.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            says(&line, &[order]);
            stream.write_all(format!("{{\"refused\":{answer}}}\n").as_bytes()).unwrap();
        }
    });
    let line = scene.refused(&format!("replace disk member-0 new --destroy new {ATOMIC}"));
    says(&line, &["somebody was faster", "new was being overwritten by then", "what it held may be lost"]);
    answers.join().unwrap();
}

#[test]
fn what_volumes_have_beside_their_members_is_not_taken_for_one() {
    let scene = Scene::new();
    let volume = written(&scene);
    fs::hard_link(scene.path("disk/volume.toml"), scene.path("hard")).unwrap();
    symlink("disk/volume.toml", scene.path("soft")).unwrap();
    let before = scene.names("disk");
    let description = scene.bytes("disk/volume.toml");
    let named =
        ["nbd.sock", "status.sock", "control.sock", "volume.toml", "volume.toml.new", "evenkeel-1.arena"];
    let named = named.map(|name| format!("disk/{name}"));
    for new in named.iter().map(String::as_str).chain(["hard", "soft"]) {
        for destroy in ["", new] {
            let destroy = if destroy.is_empty() { String::new() } else { format!("--destroy {destroy}") };
            for old in ["member-0", "log-0"] {
                let line = scene.refused(&format!("replace disk {old} {new} {destroy} {ATOMIC}"));
                says(&line, &[new, "choose another"]);
            }
        }
    }
    for new in &named {
        let line = format!("create other --size 16m --log-size 16m --log {new} --destroy {new}");
        says(&scene.refused(&line), &[new, "choose another"]);
    }
    assert_eq!(scene.names("disk"), before);
    assert_eq!(scene.bytes("disk/volume.toml"), description);
    // Nor what is no file: as a killed server leaves it, say.
    let socket = UnixListener::bind(scene.path("disk/left.sock")).is_ok();
    fs::create_dir(scene.path("folder")).unwrap();
    run("mkfifo", &[&scene.path("pipe").display().to_string()]).unwrap();
    let mut kinds = vec![("folder", "a folder"), ("pipe", "a FIFO"), ("/dev/null", "a character device")];
    if socket {
        kinds.push(("disk/left.sock", "a socket"));
    }
    for (new, kind) in kinds {
        let line = scene.refused(&format!("replace disk member-0 {new} --destroy {new} {ATOMIC}"));
        says(&line, &[new, kind]);
    }
    volume.expect_contents(TURNS, &noise(1, SIZE));
}
