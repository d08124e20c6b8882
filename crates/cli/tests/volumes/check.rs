//! What `check` names, and that it writes nothing unless it is told to.

use std::fs;

use crate::support::load::{contents, write};
use crate::support::served::{Volume, noise, patiently};
use crate::support::{Scene, list, says};
use serde_json::Value;

const SIZE: usize = 16 << 20;
const FLAGS: &str = "--size 16m --log-size 16m --buffer 8m";
const MIRROR: &str = "--layout mirror --size 16m --log-size 16m --buffer 8m --atomic-sectors yes";

fn stopped<'a>(scene: &'a Scene, flags: &str) -> Volume<'a> {
    Volume::stopped(scene, flags, &noise(1, SIZE))
}

/// Checks `disk`, which must end with this code and change nothing; answers the document and what a person sees.
#[track_caller]
fn check(scene: &Scene, code: i32) -> (Value, String) {
    let before = Volume::files(scene);
    let ran = scene.run("check disk --json");
    assert_eq!(ran.code, Some(code), "{ran:?}");
    let told = scene.run("check disk").stdout;
    assert!(before == Volume::files(scene), "something was written");
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(document["schema"], "evenkeel.check/1");
    assert_eq!(document["is_clean"], code == 0, "{document}");
    (document, told)
}

#[test]
fn damaged_copies_of_the_superblock_and_a_root_are_named_and_left_until_they_are_to_be_repaired() {
    let scene = Scene::new();
    let volume = stopped(&scene, FLAGS);
    check(&scene, 0);
    scene.flip("disk/home", 4096 + 100);
    scene.flip("disk/log", 100);
    scene.flip("disk/home", 8192 + 3);
    for _ in 0..2 {
        let (found, told) = check(&scene, 1);
        let others = found["damaged"]["others"].to_string();
        for name in
            ["copy 1 of the superblock, on home", "copy 0 of the superblock, on log", "root 0 of the table"]
        {
            says(&others, &[name]);
            says(&told, &[&format!("damaged: {name}")]);
        }
        says(&told, &["3 damaged"]);
    }
    says(&scene.run("check disk").complaint(), &["evenkeel check disk --repair"]);
    let repaired = scene.done("check disk --repair");
    says(&repaired.stdout, &["was damaged, and is written anew: copy 1 of the superblock, on home"]);
    check(&scene, 0);
    volume.expect_contents("", &noise(1, SIZE));
}

#[test]
fn what_a_kill_left_to_be_done_is_done_in_memory_and_stays() {
    for flags in [FLAGS, MIRROR] {
        let scene = Scene::new();
        let volume = stopped(&scene, flags);
        let mut server = volume.serve("");
        write(&volume.socket(), 5000, &noise(2, 100_000));
        server.kill();
        let arena = volume.arena().expect("it was killed");
        let in_arena = fs::read(&arena).unwrap();
        let (found, told) = check(&scene, 0);
        assert!(found["recovered"]["writes_from_memory"].as_u64().unwrap() > 0, "{found}");
        says(&told, &["recovered in memory, and not written: "]);
        assert!(in_arena == fs::read(&arena).unwrap(), "memory has changed");
        let server = volume.serve("");
        let mut expected = noise(1, SIZE);
        expected[5000..105_000].copy_from_slice(&noise(2, 100_000));
        assert!(contents(&volume.socket()) == expected);
        server.stop();
    }
}

#[test]
fn the_member_of_a_mirror_with_wrong_copies_is_named() {
    let scene = Scene::new();
    let _volume = stopped(&scene, MIRROR);
    scene.flip("disk/member-1", 8 << 20);
    let (found, told) = check_copies(&scene);
    let wrong = &list(&found["copies"], "wrong_on")[0];
    assert_eq!((&wrong["path"], &wrong["copies"]), (&"member-1".into(), &1.into()));
    says(&told, &["1 wrong, 0 repaired", "wrong on member-1: 1"]);
    scene.done("check disk --repair");
    check(&scene, 0);
}

const ON_MEMBERS: &str =
    "--layout mirror --log-on-members --size 16m --log-size 16m --buffer 8m --atomic-sectors yes";

#[test]
fn each_damaged_head_of_a_mirror_is_named_and_left_until_it_is_to_be_repaired() {
    /// Devices, and a copy of the head of each.
    type Damage<'a> = &'a [(&'a str, usize)];
    let rounds: [(&str, [Damage<'_>; 2]); 2] = [
        (MIRROR, [&[("member-0", 0), ("log-1", 1)], &[("member-0", 1), ("log-1", 0)]]),
        (ON_MEMBERS, [&[("member-1", 0)], &[("member-1", 1)]]),
    ];
    for (flags, damages) in rounds {
        let scene = Scene::new();
        let volume = stopped(&scene, flags);
        check(&scene, 0);
        for damage in damages {
            let flip = |(device, copy): &(&str, usize)| {
                scene.flip(&format!("disk/{device}"), copy * 4096 + 100);
                format!("copy {copy} of the head, on {device}: its checksum does not match")
            };
            let names: Vec<String> = damage.iter().map(flip).collect();
            let (found, told) = check_copies(&scene);
            assert_eq!(found["damaged"]["others"], serde_json::json!(names), "{found}");
            says(&told, &[&format!(", {} damaged", names.len())]);
            names.iter().for_each(|name| says(&told, &[&format!("damaged: {name}")]));
            let repaired = scene.done("check disk --repair --json").stdout;
            let repaired: Value = serde_json::from_str(&repaired).unwrap();
            assert_eq!(repaired["written_anew"], serde_json::json!(names), "{repaired}");
            assert_eq!(repaired["damaged"]["others"], serde_json::json!([]), "{repaired}");
        }
        check(&scene, 0);
        volume.expect_contents("", &noise(1, SIZE));
    }
}

#[test]
fn a_device_without_a_whole_head_is_named_and_never_given_another() {
    for device in ["member-1", "log-0"] {
        let scene = Scene::new();
        let volume = stopped(&scene, MIRROR);
        let file = format!("disk/{device}");
        scene.flip(&file, 100);
        scene.flip(&file, 4096 + 100);
        let before = scene.bytes(&file);
        let (found, told) = check_copies(&scene);
        for copy in 0..2 {
            let name = format!("copy {copy} of the head, on {device}: its checksum does not match");
            says(&found["damaged"]["others"].to_string(), &[&name]);
            says(&told, &[&format!("damaged: {name}")]);
        }
        let repaired = scene.run("check disk --repair");
        assert_eq!(repaired.code, Some(1), "{repaired:?}");
        says(&repaired.stdout, &["  damaged: copy 0 of the head", "  damaged: copy 1 of the head"]);
        says(&repaired.complaint(), &[device, &format!("evenkeel replace disk {device} NEW")]);
        assert!(before == scene.bytes(&file), "it was written to");
        // What is advised makes it whole; a log device is replaced while nobody serves the volume.
        scene.done(&format!("replace disk {device} {device}-new --atomic-sectors yes"));
        let server = volume.serve("");
        patiently("the end of the rebuild", || (server.status().state.name == "ok").then_some(()));
        server.stop();
        let document = scene.done("check disk --json").stdout;
        says(&document, &["\"is_clean\": true", "\"others\": []"]);
    }
}

#[test]
fn a_head_that_is_whole_and_not_the_one_that_was_written_last_is_named() {
    let scene = Scene::new();
    let volume = stopped(&scene, MIRROR);
    for device in ["member-0", "log-1"] {
        let file = format!("disk/{device}");
        // One copy over the other, as a write that went astray does.
        let mut bytes = scene.bytes(&file);
        bytes.copy_within(0..4096, 4096);
        fs::write(scene.path(&file), bytes).unwrap();
        let (found, _) = check_copies(&scene);
        let name = format!("copy 1 of the head, on {device}: it is not what was written there last");
        assert_eq!(found["damaged"]["others"], serde_json::json!([name]), "{found}");
        scene.done("check disk --repair");
        check(&scene, 0);
    }
    volume.expect_contents("", &noise(1, SIZE));
}

/// As [`check`], where all that is wrong is a copy.
#[track_caller]
fn check_copies(scene: &Scene) -> (Value, String) {
    let before = Volume::files(scene);
    let (ran, told) = (scene.run("check disk --json"), scene.run("check disk"));
    assert_eq!((ran.code, told.code), (Some(1), Some(1)));
    assert!(before == Volume::files(scene), "something was written");
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(document["is_clean"], false, "{document}");
    (document, told.stdout)
}
