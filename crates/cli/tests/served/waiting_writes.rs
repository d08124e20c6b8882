//! What is said of acknowledged writes that wait in an arena of another version, or of another user.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, chown};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::load::write;
use crate::support::root::must_be_root;
use crate::support::served::{Volume, noise};
use crate::support::{Scene, or_skip, says};

const FLAGS: &str = "--size 16m --log-size 16m --buffer 1m";

/// A user who is not root.
const NOBODY: u32 = 65534;

/// Where the magics of both heads stand in an arena's file.
const MAGICS: [u64; 2] = [8192, 8192 + 64];

/// A volume whose server was killed, with writes that are nowhere but in its arena.
fn killed(scene: &Scene) -> (Volume<'_>, PathBuf) {
    let volume = Volume::create(scene, FLAGS);
    let mut server = volume.serve("");
    write(&volume.socket(), 0, &noise(1, 50_000));
    server.kill();
    let arena = volume.arena().unwrap();
    (volume, arena)
}

/// Makes another version's arena of it.
fn make_unknown(arena: &Path) {
    let file = OpenOptions::new().write(true).open(arena).unwrap();
    MAGICS.into_iter().for_each(|at| file.write_all_at(b"ek-aren9", at).unwrap());
}

/// Makes an arena of it whose file another version has made, in this start of the machine.
fn make_unknown_outside(arena: &Path) {
    let file = OpenOptions::new().write(true).open(arena).unwrap();
    file.write_all_at(b"evenkeel arena 9", 0).unwrap();
}

/// A volume that was stopped in order and lost its log, beside the arena of one that was killed, of another version.
fn without_log<'a>(scene: &'a Scene) -> (Volume<'a>, PathBuf) {
    let volume = Volume::create(scene, FLAGS);
    let server = volume.serve("");
    let arena = volume.arena().unwrap();
    // What is written now is durable after the stop, which removes the arena.
    let kept = scene.path("kept");
    write(&volume.socket(), 0, &noise(1, 50_000));
    fs::copy(&arena, &kept).unwrap();
    server.stop();
    fs::copy(&kept, &arena).unwrap();
    fs::remove_file(scene.path("disk/log")).unwrap();
    (volume, arena)
}

#[test]
fn an_arena_of_another_version_may_hold_writes_and_is_given_up_in_so_many_words_alone() {
    for make_unknown in [make_unknown, make_unknown_outside] {
        is_given_up_in_so_many_words_alone(make_unknown);
    }
}

fn is_given_up_in_so_many_words_alone(make_unknown: fn(&Path)) {
    let scene = Scene::new();
    let (volume, arena) = killed(&scene);
    make_unknown(&arena);
    let before = fs::read(&arena).unwrap();
    let ran = scene.run("salvage disk --dry-run");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    says(&ran.stdout, &["the memory was used by another version"]);
    says(&scene.run("status disk").stderr, &["another version of evenkeel used it"]);
    let listed: Value = serde_json::from_str(&scene.done("arenas --json").stdout).unwrap();
    let all = listed["arenas"].as_array().unwrap();
    let found = all.iter().find(|found| found["path"] == arena.display().to_string().as_str()).unwrap();
    assert_eq!((&found["state"], &found["waiting_writes"]), (&"unknown".into(), &Value::Null), "{found}");
    says(found["why"].as_str().unwrap(), &["another version used it"]);
    // Also where its volume is gone.
    let line = format!("arenas free {}", arena.display());
    says(&scene.refused(&line), &["cannot be told", "--give-up-writes"]);
    fs::rename(volume.folder(), scene.path("moved")).unwrap();
    says(&scene.refused(&line), &["cannot be told", "--give-up-writes"]);
    fs::rename(scene.path("moved"), volume.folder()).unwrap();
    let line = format!("salvage disk {0} --destroy {0}", arena.display());
    says(&scene.refused(&line), &["acknowledged writes of a volume wait in it"]);
    for line in ["serve disk", "serve disk --read-only", "check disk"] {
        says(&scene.refused(line), &["another version"]);
    }
    assert!(fs::read(&arena).unwrap() == before);
    // A volume that is another file now does not leave it behind unseen.
    fs::copy(scene.path("disk/home"), scene.path("disk/home2")).unwrap();
    fs::rename(scene.path("disk/home2"), scene.path("disk/home")).unwrap();
    says(&scene.refused("serve disk"), &["another version of evenkeel used it"]);
    scene.done(&format!("arenas free {} --give-up-writes", arena.display()));
    assert!(!arena.exists());
}

#[test]
fn a_log_is_not_made_again_where_an_arena_of_another_version_may_hold_writes() {
    let scene = Scene::new();
    let (_volume, arena) = without_log(&scene);
    for make_unknown in [make_unknown, make_unknown_outside] {
        make_unknown(&arena);
        says(&scene.refused("renew-log disk"), &["another version of evenkeel used it"]);
        assert!(!scene.path("disk/log").exists());
    }
    fs::remove_file(&arena).unwrap();
    says(&scene.done("renew-log disk").stdout, &["its log is made again"]);
}

/// Gives a volume's files to a user.
fn give(volume: &Volume<'_>, user: u32) {
    let entries = fs::read_dir(volume.folder()).unwrap().map(|entry| entry.unwrap().path());
    for path in entries.chain([volume.folder()]) {
        chown(path, Some(user), Some(user)).unwrap();
    }
}

#[test]
fn root_finds_what_waits_for_a_volume_of_another_user() {
    or_skip!(must_be_root());
    let scene = Scene::new();
    let (volume, arena) = killed(&scene);
    chown(&arena, Some(NOBODY), Some(NOBODY)).unwrap();
    give(&volume, NOBODY);
    says(&scene.run("status disk").stderr, &["wait in memory for the next start"]);
    let ran = scene.done("salvage disk out --json");
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(found["writes_taken_from_memory"].as_u64().unwrap() > 0, "{found}");
    assert!(scene.bytes("out")[..50_000] == noise(1, 50_000));
    // Nor is it overwritten.
    let before = fs::read(&arena).unwrap();
    let line = format!("salvage disk {0} --destroy {0}", arena.display());
    says(&scene.refused(&line), &["acknowledged writes of a volume wait in it"]);
    assert!(fs::read(&arena).unwrap() == before);
}

#[test]
fn what_waits_in_an_arena_of_a_user_whose_the_volume_is_not_is_never_nothing() {
    or_skip!(must_be_root());
    let scene = Scene::new();
    let (_volume, arena) = killed(&scene);
    chown(&arena, Some(NOBODY), Some(NOBODY)).unwrap();
    for line in ["salvage disk --dry-run", "salvage disk out", "serve disk --salvage"] {
        says(&scene.refused(line), &["cannot be told", "belongs to user 65534", "run this as its owner"]);
    }
    assert!(!scene.path("out").exists());
    says(&scene.run("status disk").stderr, &["cannot be told"]);
    let scene = Scene::new();
    let (_volume, arena) = without_log(&scene);
    chown(&arena, Some(NOBODY), Some(NOBODY)).unwrap();
    says(&scene.refused("renew-log disk"), &["cannot be told", "run this as its owner"]);
    assert!(!scene.path("disk/log").exists());
}

#[test]
fn a_log_that_root_makes_again_belongs_to_the_user_who_serves_the_volume() {
    or_skip!(must_be_root());
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    volume.serve("").stop();
    fs::remove_file(scene.path("disk/log")).unwrap();
    give(&volume, NOBODY);
    says(&scene.done("renew-log disk").stdout, &["its log is made again"]);
    for name in ["home", "log", "volume.toml"] {
        let found = scene.path("disk").join(name).metadata().unwrap();
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o777), (NOBODY, NOBODY, 0o600), "{name}");
    }
}
