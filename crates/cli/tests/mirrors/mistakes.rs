//! What people and accidents do to a mirror's files and to its description: each is told by its name, and what to do helps.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use crate::support::load::write;
use crate::support::root::must_be_root;
use crate::support::served::{Server, Volume, noise, patiently};
use crate::support::{Ran, Scene, or_skip, says};

const SIZE: usize = 16 << 20;

const FLAGS: &str = "--layout mirror --size 16m --log-size 16m --buffer 8m --atomic-sectors yes";

/// A mirror that was written whole.
fn written(scene: &Scene) -> Volume<'_> {
    Volume::stopped(scene, FLAGS, &noise(1, SIZE))
}

/// Stops the server, and serves the volume from these alone: they must have all that was written.
#[track_caller]
fn has_everything_without(volume: &Volume<'_>, server: Server, lost: &[&str]) {
    server.until_in_sync(true);
    server.stop();
    for name in lost {
        fs::remove_file(volume.scene.path(name)).unwrap();
    }
    volume.expect_contents("", &noise(1, SIZE));
}

fn cut_short(scene: &Scene, name: &str) {
    let file = fs::OpenOptions::new().write(true).open(scene.path(name)).unwrap();
    file.set_len(1 << 20).unwrap();
}

#[test]
fn a_member_whose_file_is_gone_or_cut_short_is_made_again_in_its_place() {
    for (is_gone, is_served) in [(true, false), (true, true), (false, false), (false, true)] {
        let scene = Scene::new();
        let volume = written(&scene);
        let server = is_served.then(|| volume.serve(""));
        match is_gone {
            true => fs::remove_file(scene.path("disk/member-1")).unwrap(),
            false => cut_short(&scene, "disk/member-1"),
        }
        says(&scene.done("replace disk member-1 member-1").stdout, &["takes the place of member-1"]);
        let server = server.unwrap_or_else(|| volume.serve(""));
        server.until_in_sync(true);
        let [made, other] =
            ["member-1", "member-0"].map(|name| volume.folder().join(name).metadata().unwrap());
        assert_eq!(made.len(), other.len());
        assert!(made.blocks() * 512 >= made.len(), "it has all its room: {made:?}");
        has_everything_without(&volume, server, &["disk/member-0"]);
    }
}

#[test]
fn a_log_device_whose_file_is_gone_or_cut_short_is_made_again_in_its_place() {
    for is_gone in [true, false] {
        let scene = Scene::new();
        let volume = written(&scene);
        match is_gone {
            true => fs::remove_file(scene.path("disk/log-1")).unwrap(),
            false => cut_short(&scene, "disk/log-1"),
        }
        scene.done("replace disk log-1 log-1");
        has_everything_without(&volume, volume.serve(""), &["disk/log-0"]);
    }
}

#[test]
fn what_is_not_made_again_in_its_place_is_as_it_was() {
    let scene = Scene::new();
    let volume = written(&scene);
    // A stranger that is too small has to be named.
    fs::write(scene.path("disk/member-1"), noise(3, 1 << 20)).unwrap();
    let line = "replace disk member-1 member-1";
    says(&scene.refused(line), &["disk/member-1: it exists", "--destroy disk/member-1"]);
    assert!(scene.bytes("disk/member-1") == noise(3, 1 << 20));
    scene.done(&format!("{line} --destroy disk/member-1"));
    let server = volume.serve("");
    server.until_in_sync(true);
    server.stop();
    // Now the other one is left behind, and this one goes: nobody else has everything.
    fs::rename(scene.path("disk/member-0"), scene.path("stale")).unwrap();
    let server = volume.serve("");
    write(&volume.socket(), 0, &noise(1, 4096));
    server.stop();
    fs::rename(scene.path("stale"), scene.path("disk/member-0")).unwrap();
    fs::rename(scene.path("disk/member-1"), scene.path("away")).unwrap();
    scene.refused(line);
    assert!(!scene.path("disk/member-1").exists(), "what was made in vain goes again");
    fs::rename(scene.path("away"), scene.path("disk/member-1")).unwrap();
    has_everything_without(&volume, volume.serve(""), &[]);
}

#[test]
fn a_new_member_that_is_in_use_stays_though_the_description_cannot_be_written() {
    const LINE: &str = "replace disk member-1 new --atomic-sectors yes";
    for is_served in [true, false] {
        let scene = Scene::new();
        let volume = written(&scene);
        let server = is_served.then(|| volume.serve(""));
        // What is to become the next description finds its name taken.
        fs::create_dir_all(scene.path("disk/volume.toml.new/full")).unwrap();
        let line = scene.refused(LINE);
        says(&line, &["new takes the place of member-1", "disk/volume.toml: cannot write", "correct that"]);
        assert!(scene.path("new").exists(), "the volume has it");
        fs::remove_dir_all(scene.path("disk/volume.toml.new")).unwrap();
        match server {
            Some(server) => {
                server.until_in_sync(true);
                server.stop();
                let (old, new) = ("\"member-1\"", format!("{:?}", scene.path("new")));
                let description = scene.text("disk/volume.toml").replace(old, &new);
                fs::write(scene.path("disk/volume.toml"), description).unwrap();
            }
            None => {
                scene.done(LINE);
            }
        }
        has_everything_without(&volume, volume.serve(""), &["disk/member-0"]);
    }
}

/// That nothing of this does anything to a terminal.
#[track_caller]
fn is_printable(text: &str) {
    assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n'), "{text:?}");
}

#[test]
fn a_name_with_control_characters_does_nothing_to_a_terminal() {
    let scene = Scene::new();
    let names = ["red\u{1b}[31m", "two\nlines"];
    let ran = |line: &str, names: &[&str]| {
        let ran = Ran::of(line, scene.command(line).args(names).output().unwrap());
        [&ran.stdout, &ran.stderr].into_iter().for_each(|text| is_printable(text));
        ran
    };
    let volume = Volume { scene: &scene };
    let created = ran(&format!("create disk {FLAGS}"), &["--member", names[0], "--member", names[1]]);
    assert_eq!(created.code, Some(0), "{created:?}");
    says(&created.stdout, &["pages  red\\u001b[31m, ", "pages  two\\nlines, "]);
    let mut server = volume.serve("");
    is_printable(&server.said.join("\n"));
    says(&ran("status disk", &[]).stdout, &["red\\u001b[31m ", "two\\nlines "]);
    // A program gets them as they are.
    let members = server.status().mirror.unwrap().members;
    assert!(members.iter().zip(names).all(|(member, name)| member.path.ends_with(name)), "{members:?}");
    server.kill();
    for name in names {
        fs::rename(scene.path(name), scene.path("away")).unwrap();
        let server = volume.serve("");
        let told = ran("status disk", &[]);
        assert_eq!(told.code, Some(1), "{told:?}");
        says(&told.complaint(), &["without ", "replace disk $'"]);
        ran("replace disk", &[name, "disk/volume.toml"]).complaint();
        server.stop();
        fs::rename(scene.path("away"), scene.path(name)).unwrap();
        let server = volume.serve("");
        server.until_in_sync(true);
        server.stop();
        says(&ran("replace disk other", &[name]).stdout, &["nothing to do"]);
    }
}

#[test]
fn log_devices_that_are_not_in_their_places_are_told_by_name() {
    let scene = Scene::new();
    let volume = written(&scene);
    let (one, other) = (scene.path("disk/log-0"), scene.path("disk/log-1"));
    let exchange = || {
        fs::rename(&one, scene.path("meanwhile")).unwrap();
        fs::rename(&other, &one).unwrap();
        fs::rename(scene.path("meanwhile"), &other).unwrap();
    };
    let refused = |parts: &[&str]| ["serve disk", "check disk"].map(|line| says(&scene.refused(line), parts));
    exchange();
    refused(&["log-0 is log-1 of this volume", "log-1 is log-0 of this volume", "bring back"]);
    exchange();
    fs::rename(&one, scene.path("away")).unwrap();
    fs::rename(&other, &one).unwrap();
    refused(&["log-0 is log-1 of this volume", "log-1: cannot open: No such file", "bring back"]);
    fs::rename(&one, &other).unwrap();
    fs::write(&one, noise(5, 24 << 20)).unwrap();
    fs::rename(&other, scene.path("away-too")).unwrap();
    refused(&["log-0 is no log device of this volume", "log-1: cannot open: No such file", "bring back"]);
    fs::remove_file(&one).unwrap();
    refused(&["none of the log devices is there: bring back", "log-0: cannot open", "log-1: cannot open"]);
    fs::rename(scene.path("away"), &one).unwrap();
    fs::rename(scene.path("away-too"), &other).unwrap();
    has_everything_without(&volume, volume.serve(""), &[]);
}

#[test]
fn what_root_makes_in_a_place_of_a_mirror_belongs_to_the_user_who_serves_it() {
    const NOBODY: u32 = 65534;
    or_skip!(must_be_root());
    for is_served in [false, true] {
        let scene = Scene::new();
        let volume = written(&scene);
        let files = || scene.names("disk").into_iter().filter(|name| !name.ends_with(".sock"));
        for name in files() {
            let path = scene.path("disk").join(name);
            chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        }
        let server = is_served.then(|| volume.serve(""));
        match server {
            Some(server) => {
                scene.done("replace disk member-0 disk/new --atomic-sectors yes");
                server.stop();
            }
            None => {
                for name in ["member-1", "log-0"] {
                    fs::remove_file(scene.path("disk").join(name)).unwrap();
                    scene.done(&format!("replace disk {name} {name}"));
                }
            }
        }
        for name in files() {
            let found = scene.path("disk").join(&name).metadata().unwrap();
            let is_as_before = (found.uid(), found.gid(), found.mode() & 0o777) == (NOBODY, NOBODY, 0o640);
            assert!(is_as_before, "{name}: {found:?}");
        }
    }
}

#[test]
fn members_that_are_not_in_their_places_are_told_by_name() {
    for has_logs in [true, false] {
        let scene = Scene::new();
        let volume =
            Volume::create(&scene, &format!("{FLAGS}{}", if has_logs { "" } else { " --log-on-members" }));
        let server = volume.serve("");
        write(&volume.socket(), 0, &noise(1, SIZE));
        server.stop();
        let (one, other) = (scene.path("disk/member-0"), scene.path("disk/member-1"));
        let exchange = || {
            fs::rename(&one, scene.path("meanwhile")).unwrap();
            fs::rename(&other, &one).unwrap();
            fs::rename(scene.path("meanwhile"), &other).unwrap();
        };
        let refused =
            |parts: &[&str]| ["serve disk", "check disk"].map(|line| says(&scene.refused(line), parts));
        exchange();
        refused(&[
            "member-0 is member-1 of this volume",
            "member-1 is member-0 of this volume",
            "bring back",
        ]);
        exchange();
        fs::rename(&one, scene.path("away")).unwrap();
        fs::write(&one, noise(5, 64 << 20)).unwrap();
        fs::rename(&other, scene.path("away-too")).unwrap();
        refused(&[
            "member-0 is no member of this volume",
            "member-1: cannot open: No such file",
            "bring back",
        ]);
        fs::rename(scene.path("away"), &one).unwrap();
        fs::rename(scene.path("away-too"), &other).unwrap();
        volume.expect_contents("", &noise(1, SIZE));
    }
}

#[test]
fn a_server_that_a_member_keeps_waiting_ends_at_a_signal() {
    let scene = Scene::new();
    let volume = written(&scene);
    let hold = |name: &str| {
        let file = fs::File::open(volume.folder().join(name)).unwrap();
        file.lock().unwrap();
        file
    };
    let held = ["member-0", "member-1", "log-0", "log-1"].map(hold);
    for (flags, start) in [("", "evenkeel: interrupted"), ("--log-format json", "{\"timestamp\":")] {
        let mut server = volume.starting(flags);
        patiently("the addresses, which are taken before the members", || {
            volume.folder().join("control.sock").exists().then_some(())
        });
        server.signal("TERM");
        assert_eq!(server.exit_code(), Some(130), "{}", server.complaints());
        says(&server.complaints(), &["interrupted before it was served", "nothing is lost"]);
        assert!(server.complaints().lines().all(|line| line.starts_with(start)), "{}", server.complaints());
        // It left at once, and its socket with it.
        let _stopped_in_order = fs::remove_file(volume.folder().join("control.sock"));
    }
    drop(held);
    has_everything_without(&volume, volume.serve(""), &[]);
}
