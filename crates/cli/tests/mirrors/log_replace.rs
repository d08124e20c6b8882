//! Log devices of a mirror that others take the place of while clients write.

use std::fs;
use std::rc::Rc;

use evenkeel_engine::device::Durability;
use evenkeel_engine::env::Env;
use evenkeel_host::event_loop::{Backend, EventLoop};
use evenkeel_host::service::mirror_status::LogStatus;

use crate::support::events::{TELLING, count, is_in_state, once, serve, stop};
use crate::support::far::FarVolume;
use crate::support::load::{Load, contents, read_all, write_as};
use crate::support::model::Death;
use crate::support::served::{Server, Volume, noise, patiently};
use crate::support::{Scene, says};

const MIB: usize = 1 << 20;

const SIZE: usize = 16 * MIB;

const FLAGS: &str = "--layout mirror --size 16m --log-size 16m --buffer 8m --atomic-sectors yes";

/// What a new one has to promise that the others do.
const ATOMIC: &str = "--atomic-sectors yes";

const TURNS: &str = "--turn 20ms --rest 1ms --rest-max 20ms --answer-max 60s";

/// So slow that it does not end soon.
const SLOWLY: &str = "--rebuild-rate 64KiB/s";

/// What the server of a mirror tells of its log devices.
#[track_caller]
fn logs(server: &Server) -> Vec<LogStatus> {
    server.status().mirror.expect("a mirror tells of its log devices").logs
}

/// Waits until a log device has its place, and everything.
#[track_caller]
fn until_taken(server: &Server, place: usize, new: &str) {
    patiently("the new log device in its place", || {
        let log = logs(server).swap_remove(place);
        (log.path.ends_with(new) && log.standing == "in-sync" && log.copied_to.is_none()).then_some(())
    });
}

/// The memory of what was acknowledged and not durable is gone, as in a power cut.
fn lose_memory(volume: &Volume<'_>) {
    volume.arena().into_iter().for_each(|arena| fs::remove_file(arena).unwrap());
}

#[test]
fn a_log_device_that_failed_or_works_is_replaced_under_load_and_the_new_one_is_enough_alone() {
    for has_failed in [true, false] {
        let scene = Scene::new();
        let volume = Volume::create(&scene, FLAGS);
        let load = Load::new(SIZE, 31);
        let mut server = volume.serve(TURNS);
        let event_loop = EventLoop::new(Backend::Auto).unwrap();
        load.run(&event_loop, &volume.socket(), |env| {
            let (load, server, scene) = (Rc::clone(&load), &mut server, &scene);
            async move {
                load.goes_on(&env, 300).await;
                if has_failed {
                    fs::OpenOptions::new()
                        .write(true)
                        .open(scene.path("disk/log-0"))
                        .unwrap()
                        .set_len(0)
                        .unwrap();
                    while logs(server)[0].standing != "out" {
                        env.sleep(5_000_000).await;
                    }
                    load.goes_on(&env, 100).await;
                }
                let said = scene.done(&format!("replace disk log-0 new-log {ATOMIC}")).stdout;
                says(
                    &said,
                    &[
                        "is copied to ",
                        "new-log, which takes the place of log-0 then",
                        "`evenkeel status disk`",
                    ],
                );
                while !logs(server)[0].path.ends_with("new-log") {
                    env.sleep(5_000_000).await;
                }
                load.goes_on(&env, 300).await;
                assert_eq!(server.status().mirror.unwrap().logs_in_sync, 2);
                server.kill();
            }
        });
        assert!(load.refusals.borrow().is_empty(), "{:?}", load.refusals.borrow());
        lose_memory(&volume);
        fs::remove_file(scene.path("disk/log-1")).unwrap();
        let server = volume.serve(TURNS);
        load.model.borrow_mut().judge(read_all(&event_loop, &volume.socket()), Death::Power);
        // And the next one, from the one that is left.
        scene.done(&format!("replace disk log-1 log-1 {ATOMIC}"));
        until_taken(&server, 1, "log-1");
        server.stop();
        says(&scene.done("check disk").stdout, &[" 0 damaged", " 0 wrong"]);
    }
}

#[test]
fn one_whose_place_another_took_is_never_taken_for_the_log_again() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let named_before = scene.text("disk/volume.toml");
    let mut server = volume.serve(TURNS);
    write_as(&volume.socket(), 0, &noise(1, SIZE / 4), Durability::Durable);
    scene.done(&format!("replace disk log-0 new-log {ATOMIC}"));
    until_taken(&server, 0, "new-log");
    write_as(&volume.socket(), 0, &noise(2, SIZE / 4), Durability::Durable);
    server.kill();
    lose_memory(&volume);
    let named_now = scene.text("disk/volume.toml");
    assert!(named_now.contains("new-log") && named_before.contains("log-0"), "{named_now}");
    // Somebody puts it back where it was, and the others are away.
    fs::write(scene.path("disk/volume.toml"), &named_before).unwrap();
    fs::rename(scene.path("disk/log-1"), scene.path("away")).unwrap();
    says(&scene.refused("serve disk"), &["failed before the last writes", "bring back one that did not"]);
    fs::rename(scene.path("away"), scene.path("disk/log-1")).unwrap();
    fs::write(scene.path("disk/volume.toml"), &named_now).unwrap();
    fs::remove_file(scene.path("disk/log-1")).unwrap();
    let server = volume.serve(TURNS);
    assert!(contents(&volume.socket())[..SIZE / 4] == noise(2, SIZE / 4));
    server.stop();
}

#[test]
fn what_was_killed_in_the_middle_leaves_the_old_one_and_the_same_command_does_it_again() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let line = format!("replace disk log-0 new-log {ATOMIC}");
    let mut server = volume.serve(&format!("{TELLING} {TURNS} {SLOWLY}"));
    write_as(&volume.socket(), 0, &noise(1, SIZE / 4), Durability::Durable);
    let named = scene.bytes("disk/volume.toml");
    scene.done(&line);
    once(&server, "log-copy-begun", "INFO", &["log device 0 (log-0)"]);
    let copied_to = logs(&server)[0].copied_to.clone().expect("it is copied to");
    assert!(copied_to.path.ends_with("/new-log") && copied_to.done_records < copied_to.records);
    // Both count until then, and the next one has to wait.
    let told = is_in_state(&scene, &server, "ok", 0);
    says(&told, &["takes part; ", "new-log is to take its place: ", " % of "]);
    for next in [format!("replace disk log-1 other {ATOMIC}"), line.clone()] {
        says(&scene.refused(&next), &["another log device is being replaced", "try again"]);
    }
    assert!(!scene.path("other").exists(), "what is refused leaves nothing behind");
    server.kill();
    assert!(scene.bytes("disk/volume.toml") == named, "it was not described before it had everything");
    lose_memory(&volume);
    // As if it had never been asked for; a stop does the same.
    let server = serve(&volume, &format!("{TURNS} {SLOWLY}"));
    assert!(contents(&volume.socket())[..SIZE / 4] == noise(1, SIZE / 4));
    write_as(&volume.socket(), 0, &noise(2, SIZE / 4), Durability::Durable);
    scene.done(&line);
    patiently("the copy", || logs(&server)[0].copied_to.clone().map(drop));
    let told = stop(server);
    assert!(told.iter().any(|line| line["event"] == "log-copy-stopped"), "{told:?}");
    let server = serve(&volume, TURNS);
    scene.done(&line);
    until_taken(&server, 0, "new-log");
    once(&server, "log-copy-ended", "INFO", &["log device 0 (", "new-log)", "has its place"]);
    says(&scene.done(&line).stdout, &["new-log is in its place already", "nothing to do"]);
    server.stop();
    fs::remove_file(scene.path("disk/log-1")).unwrap();
    let server = volume.serve(TURNS);
    assert!(contents(&volume.socket())[..SIZE / 4] == noise(2, SIZE / 4));
    server.stop();
}

#[test]
fn a_log_device_takes_its_own_place_again_unless_it_is_the_last() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mut server = volume.serve(&format!("{TELLING} {TURNS}"));
    write_as(&volume.socket(), 0, &noise(1, SIZE / 4), Durability::Durable);
    says(&scene.done("replace disk log-0 log-0").stdout, &["it takes no part until then"]);
    until_taken(&server, 0, "log-0");
    assert_eq!(count(&server, "log-device-lost"), 0, "that is no loss");
    // The file of the last one that is left is removed, and made anew from what is still open of it.
    fs::OpenOptions::new().write(true).open(scene.path("disk/log-1")).unwrap().set_len(0).unwrap();
    patiently("the loss", || (logs(&server)[1].standing == "out").then_some(()));
    says(&scene.refused("replace disk log-0 log-0"), &["no other log device holds everything"]);
    fs::remove_file(scene.path("disk/log-0")).unwrap();
    scene.done("replace disk log-0 log-0");
    until_taken(&server, 0, "log-0");
    write_as(&volume.socket(), 0, &noise(2, SIZE / 4), Durability::Durable);
    server.kill();
    lose_memory(&volume);
    fs::remove_file(scene.path("disk/log-1")).unwrap();
    let server = volume.serve(TURNS);
    assert!(contents(&volume.socket())[..SIZE / 4] == noise(2, SIZE / 4));
    server.stop();
}

#[test]
fn what_cannot_be_a_log_device_is_refused_in_one_line_and_the_old_one_goes_on() {
    let scene = Scene::new();
    let far = FarVolume::create(&scene, "far", "--size 8m --log-size 16m --buffer 4m", "");
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve(TURNS);
    let line = format!("replace disk log-0 {0} --destroy {0} {ATOMIC}", far.uri);
    says(&scene.refused(&line), &["it has 8388608 bytes", "are needed"]);
    says(&scene.refused("replace disk log-0 new"), &["keep sectors whole", "--atomic-sectors yes"]);
    assert!(!scene.path("new").exists(), "what is refused leaves nothing behind");
    let log = logs(&server).swap_remove(0);
    assert_eq!((log.standing.as_str(), log.copied_to), ("in-sync", None));
    server.stop();
}
