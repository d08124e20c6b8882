//! Members that hold an older state of the volume than the memory of a killed server, or than each other, know of.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::load::{contents, write, write_as};
use crate::support::served::{Volume, noise};
use crate::support::{Scene, says};
use evenkeel_engine::device::Durability;

const FLAGS: &str = "--size 16m --log-size 16m --buffer 1m";

/// Copies a member as `cp` does, into the file that is there.
fn copy(from: &Path, to: &Path) {
    fs::copy(from, to).unwrap();
}

fn copy_members(from: &Path, to: &Path, members: &[&str]) {
    members.iter().for_each(|member| copy(&from.join(member), &to.join(member)));
}

#[test]
fn members_that_were_copied_while_they_were_served_are_refused_beside_what_a_kill_left() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let (snapshot, newest, folder) = (scene.path("snapshot"), scene.path("newest"), volume.folder());
    [&snapshot, &newest].iter().for_each(|folder| fs::create_dir(folder).unwrap());
    let mut server = volume.serve("");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let load = scope.spawn(|| {
            for number in (0..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                write_as(&volume.socket(), 1 << 20, &noise(number, 5000), Durability::Durable);
            }
        });
        copy_members(&folder, &snapshot, &["home", "log"]);
        is_over.store(true, Ordering::Relaxed);
        load.join().unwrap();
    });
    write_as(&volume.socket(), 0, &noise(100, 50_000), Durability::Durable);
    write(&volume.socket(), 8 << 20, &noise(101, 50_000));
    server.kill();
    copy_members(&folder, &newest, &["home", "log"]);

    copy_members(&snapshot, &folder, &["home", "log"]);
    let arena = volume.arena().unwrap();
    for command in ["serve disk", "check disk", "serve disk"] {
        let line = scene.refused(command);
        says(&line, &["older state", "bring back", "remove", &arena.display().to_string()]);
    }
    // As somebody restores it who writes new files: the memory is found all the same.
    for member in ["home", "log"] {
        fs::remove_file(folder.join(member)).unwrap();
        copy(&snapshot.join(member), &folder.join(member));
    }
    says(&scene.refused("serve disk"), &["older state", &arena.display().to_string()]);

    // Brought back, nothing is missing.
    copy_members(&newest, &folder, &["home", "log"]);
    let mut server = volume.serve("");
    let found = contents(&volume.socket());
    assert!(found[..50_000] == noise(100, 50_000) && found[8 << 20..][..50_000] == noise(101, 50_000));
    write_as(&volume.socket(), 0, &noise(102, 50_000), Durability::Durable);
    server.kill();
    // Given up, as the line says.
    copy_members(&newest, &folder, &["home", "log"]);
    says(&scene.refused("serve disk"), &["older state"]);
    volume.arena().iter().for_each(|arena| fs::remove_file(arena).unwrap());
    says(&scene.done("check disk").stdout, &["warning: ", "may be gone"]);
    let mut server = volume.serve("");
    says(&server.complaints(), &["memory-gone", "not flushed may be gone"]);
    assert!(contents(&volume.socket())[..50_000] == noise(100, 50_000));
    write_as(&volume.socket(), 0, &noise(103, 50_000), Durability::Durable);
    server.kill();
    // What waits in memory is there, or nothing was left to wait.
    let server = volume.serve("");
    assert!(!server.complaints().contains("memory-gone"), "{}", server.complaints());
    server.stop();
    let server = volume.serve("");
    assert!(!server.complaints().contains("memory-gone"), "{}", server.complaints());
    server.stop();
}

fn salvaged(scene: &Scene, flags: &str) -> serde_json::Value {
    let ran = scene.run(&format!("salvage disk out {flags}"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    serde_json::from_str(&ran.stdout).unwrap()
}

#[test]
fn memory_that_is_gone_is_told_where_nothing_reached_the_log_too() {
    for layout in ["", "--layout mirror"] {
        let scene = Scene::new();
        let volume = Volume::create(&scene, &format!("{FLAGS} {layout}"));
        // Never served: nothing can be gone.
        assert!(!scene.done("check disk").stdout.contains("may be gone"));
        let server = volume.serve("");
        assert!(!server.complaints().contains("memory-gone"), "{}", server.complaints());
        server.stop();
        let mut server = volume.serve("");
        assert!(!server.complaints().contains("memory-gone"), "{}", server.complaints());
        write(&volume.socket(), 8192, &noise(1, 4096));
        server.kill();
        let found = salvaged(&scene, "--json");
        assert_eq!(
            (&found["memory_is_gone"], &found["writes_taken_from_memory"]),
            (&false.into(), &1.into())
        );
        volume.arena().iter().for_each(|arena| fs::remove_file(arena).unwrap());
        says(&scene.done("check disk").stdout, &["warning: ", "may be gone"]);
        let found = salvaged(&scene, "--json --destroy out");
        assert_eq!((&found["memory_is_gone"], &found["is_whole"]), (&true.into(), &true.into()));
        says(&scene.run("salvage disk out --destroy out").stdout, &["not flushed may be gone"]);
        let server = volume.serve("");
        says(&server.complaints(), &["memory-gone", "not flushed may be gone"]);
        server.stop();
        let server = volume.serve("");
        assert!(!server.complaints().contains("memory-gone"), "{}", server.complaints());
        server.stop();
    }
}

#[test]
fn a_log_that_is_much_older_than_its_home_is_refused_and_taken_where_both_are_as_old() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let (old, folder) = (scene.path("old"), volume.folder());
    fs::create_dir(&old).unwrap();
    for seed in 0..4 {
        let server = volume.serve("");
        write_as(&volume.socket(), 4096, &noise(seed, 50_000), Durability::Durable);
        server.stop();
        if seed == 0 {
            copy_members(&folder, &old, &["home", "log"]);
        }
    }
    let mut server = volume.serve("");
    write_as(&volume.socket(), 4096, &noise(9, 50_000), Durability::Durable);
    server.kill();
    // The power was cut: nothing is left but what the members hold.
    volume.arena().iter().for_each(|arena| fs::remove_file(arena).unwrap());
    fs::rename(folder.join("log"), scene.path("log")).unwrap();
    copy(&old.join("log"), &folder.join("log"));
    for command in ["serve disk", "check disk"] {
        says(&scene.refused(command), &["the log is older than the home device", "bring back"]);
    }
    fs::rename(folder.join("home"), scene.path("home")).unwrap();
    copy(&old.join("home"), &folder.join("home"));
    let server = volume.serve("");
    assert!(contents(&volume.socket())[4096..][..50_000] == noise(0, 50_000));
    server.stop();
    for member in ["home", "log"] {
        fs::rename(scene.path(member), folder.join(member)).unwrap();
    }
    let server = volume.serve("");
    assert!(contents(&volume.socket())[4096..][..50_000] == noise(9, 50_000));
    server.stop();
}
