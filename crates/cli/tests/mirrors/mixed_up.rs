//! Home and log that are not where they belong, or not whose they should be: said by name, and never taken for others.

use std::fs;

use crate::support::served::{Volume, noise};
use crate::support::{Scene, says};

const SIZE: usize = 16 << 20;
const FLAGS: &str = "--size 16m --log-size 16m --buffer 1m";

fn stopped(scene: &Scene) -> Volume<'_> {
    Volume::stopped(scene, FLAGS, &noise(1, SIZE))
}

/// Another volume `other`.
fn other(scene: &Scene) {
    scene.done(&format!("create other {FLAGS}"));
}

#[test]
fn the_home_of_another_volume_is_neither_served_nor_salvaged_as_this_one() {
    let scene = Scene::new();
    let _volume = stopped(&scene);
    other(&scene);
    fs::copy(scene.path("other/home"), scene.path("disk/home")).unwrap();
    for line in ["serve disk", "check disk", "salvage disk out", "serve disk --salvage"] {
        says(
            &scene.refused(line),
            &["home is the home of another volume", "bring back the one that belongs here"],
        );
    }
    assert!(!scene.path("out").exists());
}

#[test]
fn the_log_of_another_volume_is_named_and_the_pages_are_salvaged_without_it() {
    let scene = Scene::new();
    let _volume = stopped(&scene);
    other(&scene);
    fs::copy(scene.path("other/log"), scene.path("disk/log")).unwrap();
    for line in ["serve disk", "check disk"] {
        says(&scene.refused(line), &["log is the log of another volume"]);
    }
    assert_eq!(scene.run("salvage disk out").code, Some(0));
    assert!(scene.bytes("out") == noise(1, SIZE));
}

#[test]
fn home_and_log_in_each_others_place_are_told_so() {
    let scene = Scene::new();
    let volume = stopped(&scene);
    let exchange = || {
        fs::rename(scene.path("disk/home"), scene.path("kept")).unwrap();
        fs::rename(scene.path("disk/log"), scene.path("disk/home")).unwrap();
        fs::rename(scene.path("kept"), scene.path("disk/log")).unwrap();
    };
    exchange();
    let words = ["home and log are in each other's place: home holds the log, and log the pages"];
    for line in ["serve disk", "check disk", "salvage disk out", "serve disk --salvage"] {
        says(&scene.refused(line), &words);
    }
    exchange();
    let described = scene.text("disk/volume.toml");
    let swapped =
        described.replace("\"home\"", "\"x\"").replace("\"log\"", "\"home\"").replace("\"x\"", "\"log\"");
    assert_ne!(swapped, described);
    fs::write(scene.path("disk/volume.toml"), swapped).unwrap();
    let words =
        ["home and log are in each other's place: log holds the log, and home the pages", "volume.toml"];
    says(&scene.refused("serve disk"), &words);
    fs::write(scene.path("disk/volume.toml"), described).unwrap();
    volume.expect_contents("", &noise(1, SIZE));
}

#[test]
fn one_file_for_pages_and_log_is_told_so() {
    let scene = Scene::new();
    let _volume = stopped(&scene);
    let described = scene.text("disk/volume.toml");
    fs::write(scene.path("disk/volume.toml"), described.replace("\"log\"", "\"home\"")).unwrap();
    let words = ["volume.toml: it names home for the pages and home for the log, which are the same"];
    for line in ["serve disk", "check disk", "salvage disk out"] {
        says(&scene.refused(line), &words);
    }
    // By another name.
    fs::write(scene.path("disk/volume.toml"), described).unwrap();
    fs::remove_file(scene.path("disk/log")).unwrap();
    std::os::unix::fs::symlink("home", scene.path("disk/log")).unwrap();
    says(&scene.refused("serve disk"), &["which are the same"]);
}
