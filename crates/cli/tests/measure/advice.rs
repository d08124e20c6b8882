//! What lines advise: it helps where it is followed, and is not what was just refused.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;

use crate::support::served::{Volume, noise};
use crate::support::{Scene, says};

const SIZE: usize = 16 << 20;
const FLAGS: &str = "--size 16m --log-size 16m --buffer 1m";
const MIRROR: &str = "--layout mirror --size 16m --log-size 16m --buffer 8m --atomic-sectors yes";

fn cut(scene: &Scene, name: &str, bytes: u64) {
    OpenOptions::new().write(true).open(scene.path(name)).unwrap().set_len(bytes).unwrap();
}

/// Runs what a line advises of `renew-log`, and sees that the volume is whole then.
#[track_caller]
fn renew(volume: &Volume<'_>, line: &str) {
    let (_, advice) = line.split_once("make its log again: evenkeel ").unwrap_or_else(|| panic!("{line}"));
    let command = advice.split("; ").next().unwrap();
    says(&volume.scene.done(command).stdout, &["its log is made again"]);
    volume.expect_contents("", &noise(1, SIZE));
}

#[test]
fn a_lost_log_of_a_volume_that_was_stopped_is_made_again_as_its_refusal_says() {
    for damage in ["gone", "empty", "short", "zeros"] {
        let scene = Scene::new();
        let volume = Volume::stopped(&scene, FLAGS, &noise(1, SIZE));
        match damage {
            "gone" => fs::remove_file(scene.path("disk/log")).unwrap(),
            "empty" => cut(&scene, "disk/log", 0),
            "short" => cut(&scene, "disk/log", 1 << 20),
            _ => File::options()
                .write(true)
                .open(scene.path("disk/log"))
                .unwrap()
                .write_all_at(&[0; 8192], 0)
                .unwrap(),
        }
        let line = scene.refused("serve disk");
        says(&line, &["log", "it was stopped in order", "evenkeel salvage disk OUT"]);
        if matches!(damage, "empty" | "short") {
            says(&line, &["log was cut short: it has ", " are needed"]);
        }
        assert_eq!(scene.refused("check disk"), line);
        renew(&volume, &line);
    }
}

#[test]
fn the_logs_of_a_mirror_that_were_cut_short_are_made_again_as_the_refusal_says() {
    let scene = Scene::new();
    let volume = Volume::stopped(&scene, MIRROR, &noise(1, SIZE));
    ["disk/log-0", "disk/log-1"].iter().for_each(|name| cut(&scene, name, 4096));
    let line = scene.refused("serve disk");
    says(&line, &["log-0: it has 4096 bytes", "log-1: it has 4096 bytes", "all of them were cut short"]);
    renew(&volume, &line);
}

#[test]
fn a_log_that_was_lost_before_a_stop_is_not_said_to_be_made_again() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mut server = volume.serve("");
    server.kill();
    fs::remove_file(scene.path("disk/log")).unwrap();
    let line = scene.refused("serve disk");
    says(&line, &["evenkeel salvage disk OUT"]);
    assert!(!line.contains("renew-log"), "{line}");
    let line = scene.refused("renew-log disk");
    assert!(!line.contains("evenkeel renew-log"), "{line}");
}

#[test]
fn a_home_that_was_cut_short_is_named_with_its_bytes() {
    let scene = Scene::new();
    let _volume = Volume::stopped(&scene, FLAGS, &noise(1, SIZE));
    cut(&scene, "disk/home", 8 << 20);
    says(&scene.refused("serve disk"), &["home was cut short: it has 8388608 bytes (8 MiB), and "]);
    cut(&scene, "disk/home", 0);
    says(&scene.refused("salvage disk out"), &["ends before their checksums do", "bring back a copy"]);
}

#[test]
fn a_socket_that_cannot_be_made_is_no_damage() {
    let scene = Scene::new();
    let _volume = Volume::stopped(&scene, FLAGS, &noise(1, SIZE));
    let line = scene.refused("serve disk --nbd unix:nowhere/s");
    says(&line, &["nowhere/s: cannot listen", "make the folder, or choose another socket"]);
    assert!(!line.contains("salvage"), "{line}");
}

#[test]
fn a_member_whose_server_is_not_there_is_no_damage() {
    let scene = Scene::new();
    let _volume = Volume::stopped(&scene, FLAGS, &noise(1, SIZE));
    let described = scene.text("disk/volume.toml");
    for place in ["nbd://127.0.0.1:1/home", "nbd+unix:///home?socket=/nowhere/s"] {
        fs::write(scene.path("disk/volume.toml"), described.replace("\"home\"", &format!("\"{place}\"")))
            .unwrap();
        let line = scene.refused("serve disk");
        says(&line, &["cannot connect", "start its server, or have volume.toml name where that listens now"]);
        assert!(!line.contains("salvage"), "{line}");
    }
}
