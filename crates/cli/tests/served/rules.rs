//! What `create` and `serve` refuse and promise about what is there and what lies below.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use evenkeel_engine::device::{Durability, Extent};
use evenkeel_host::event_loop::{Backend, EventLoop};
use evenkeel_host::nbd::client::ClientError;

use crate::support::load::{connect, contents, write};
use crate::support::root::{Mounted, run};
use crate::support::served::{Volume, noise};
use crate::support::{Scene, or_skip, says};

const FLAGS: &str = "--size 32m --log-size 16m --buffer 4m";
const SIZE: usize = 32 << 20;

/// How many bytes of room a file has.
fn room(path: &Path) -> u64 {
    path.metadata().unwrap().blocks() * 512
}

#[test]
fn a_volume_is_served_by_one_process_and_the_second_leaves_it_alone() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve("");
    write(&volume.socket(), 4096, b"mine");
    for line in ["serve disk", "serve disk --nbd unix:other", "check disk"] {
        says(&scene.refused(line), &["disk: ", "another process", "stop that one first"]);
    }
    assert!(!scene.path("other").exists(), "the second listened before it was refused");
    assert_eq!(contents(&volume.socket())[4096..4100], *b"mine");
    server.stop();
    // Free again.
    volume.serve("").stop();
}

#[test]
fn create_is_never_over_anything_that_was_not_named() {
    let scene = Scene::new();
    std::fs::write(scene.path("precious"), noise(1, 70_001)).unwrap();
    std::fs::create_dir(scene.path("full")).unwrap();
    std::fs::write(scene.path("full/letter"), "dear").unwrap();

    says(&scene.refused("create full --size 32m"), &["full: ", "not empty"]);
    says(&scene.refused("create full --size 32m --destroy full"), &["full"]);
    assert_eq!(scene.names("full"), ["letter".to_owned()].into());
    for member in ["--member precious", "--log precious", "--member precious --destroy disk/log"] {
        let line = scene.refused(&format!("create disk --size 32m {member}"));
        says(&line, &["precious: ", "would be overwritten", "--destroy precious"]);
        assert!(!scene.path("disk").exists(), "{line}");
    }
    assert!(scene.bytes("precious") == noise(1, 70_001));
    scene.done("create disk --size 32m --member precious --destroy precious --dry-run");
    assert!(scene.bytes("precious") == noise(1, 70_001) && !scene.path("disk").exists());

    let volume = Volume::create(&scene, &format!("{FLAGS} --member precious --destroy precious"));
    let server = volume.serve("");
    write(&volume.socket(), 0, b"new");
    server.stop();
    // A volume is not empty either.
    says(&scene.refused("create disk --size 32m"), &["disk: ", "a volume is here already"]);
    let server = volume.serve("");
    assert_eq!(contents(&volume.socket())[..3], *b"new");
    server.stop();
}

#[test]
fn members_have_all_their_room_unless_they_are_to_be_sparse() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    for member in ["home", "log"] {
        let path = volume.folder().join(member);
        assert!(room(&path) >= path.metadata().unwrap().len(), "{member} lacks room");
    }
    // Trimmed bytes keep theirs.
    let server = volume.serve("");
    let event_loop = EventLoop::new(Backend::Auto).unwrap();
    let env = event_loop.handle();
    event_loop.block_on(async {
        let connection = connect(&env, &volume.socket()).await;
        connection.write(0, &noise(2, 1 << 20), Durability::Durable).await.unwrap();
        connection.trim(Extent::new(0, SIZE as u64), Durability::Durable).await.unwrap();
    });
    server.stop();
    assert!(room(&volume.folder().join("home")) >= SIZE as u64);

    let other = Scene::new();
    let volume = Volume::create(&other, &format!("{FLAGS} --sparse"));
    assert!(room(&volume.folder().join("home")) < 4 << 20, "it is not sparse");
}

#[test]
fn a_full_disk_below_takes_nothing_that_was_acknowledged() {
    let scene = Scene::new();
    let small = or_skip!(Mounted::tmpfs(&scene.path("small"), "40m"));
    let inside = Scene::below(&scene.path("small"));
    let volume = Volume::create(&inside, "--size 64m --log-size 16m --buffer 4m --sparse");
    let mut server = volume.serve("");
    let event_loop = EventLoop::new(Backend::Auto).unwrap();
    let env = event_loop.handle();
    let mut acknowledged = 0;
    let error = event_loop.block_on(async {
        let connection = connect(&env, &volume.socket()).await;
        loop {
            let bytes = noise(acknowledged, 100_000);
            match connection.write(acknowledged * 100_000, &bytes, Durability::Buffered).await {
                Ok(()) => acknowledged += 1,
                Err(error) => return error,
            }
            assert!(acknowledged < 600, "the disk is not full");
        }
    });
    assert!(matches!(error, ClientError::Server { .. }), "{error}");
    let failure = server.status().failure.expect("it failed and does not say so");
    says(&failure, &["home", "no room", "make room", "28"]);
    let told = inside.run("status disk");
    assert_eq!(told.code, Some(1), "{told:?}");
    // What it has it still gives, and it goes without taking anything along.
    let expect = |found: &[u8]| {
        for number in 0..acknowledged {
            let at = number as usize * 100_000;
            assert!(
                found[at..at + 100_000] == noise(number, 100_000),
                "write {number} of {acknowledged} is lost"
            );
        }
    };
    expect(&contents(&volume.socket()));
    // Its own messages have no room either.
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(1), "{}", server.complaints());
    run("mount", &["-o", "remount,size=160m", &scene.path("small").display().to_string()]).unwrap();
    let server = volume.serve("");
    assert_eq!(server.status().failure, None);
    expect(&contents(&volume.socket()));
    server.stop();
    drop(volume);
    drop(inside);
    drop(small);
}

#[test]
fn values_with_which_no_volume_is_served_well_are_refused() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, "--layout mirror --size 16m --log-size 16m --buffer 1m");
    for (flags, parts) in [
        ("--answer-max 1ms", ["--answer-max 1 ms", "100 ms at least"]),
        ("--answer-max 2h", ["--answer-max", "at most"]),
        // What is named is the turn: 100 ms are let. A server with them would give up a member on a busy machine.
        ("--answer-max 100ms --turn 1ms", ["--turn 1 ms", "10 ms at least"]),
        ("--turn 2m", ["--turn", "at most"]),
        ("--rest 3s", ["--rest 3 s", "--rest-max, 2 s"]),
        ("--rest 200ms --rest-max 100ms", ["--rest 200 ms", "--rest-max, 100 ms"]),
        ("--rebuild-rate 10", ["--rebuild-rate 10 bytes", "64KiB/s at least"]),
        ("--scrub-rate 1k", ["--scrub-rate 1000 bytes", "64KiB/s at least"]),
        ("--scrub-every 1ms", ["--scrub-every 1 ms", "1 s at least"]),
        ("--cache 4k", ["--cache 4096", "1m at least"]),
    ] {
        says(&scene.refused(&format!("serve disk {flags}")), &parts);
        assert_eq!(volume.arena(), None);
    }
    volume.serve("--turn 10ms --rest 0 --rebuild-rate 64KiB/s --cache 1m").stop();
}
