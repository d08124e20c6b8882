//! Members of a mirror that are away for a while, and are taken back with what they missed.

use std::fs;
use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_host::event_loop::{Backend, EventLoop};

use crate::support::events::{count, lines_of, once, serve, stop};
use crate::support::far::{FarVolume, members, until_standing};
use crate::support::load::{Load, contents, read_all, write};
use crate::support::model::Death;
use crate::support::served::{Volume, noise, patiently};
use crate::support::{Scene, says};

const MIB: usize = 1 << 20;

/// Bytes of the mirror, and of its beginning where the load is.
const SIZE: usize = 96 * MIB;
const LOAD: usize = 8 * MIB;

/// Bytes of a request, at most.
const REQUEST: usize = 16 * MIB;

const FLAGS: &str = "--layout mirror --size 96m --log-size 16m --buffer 8m --sparse";

/// Of the volumes that are its members.
const FAR_FLAGS: &str = "--size 128m --log-size 16m --buffer 8m --sparse";

const TURNS: &str = "--turn 20ms --rest 1ms --rest-max 20ms --answer-max 60s";

/// Writes all of these at `offset`.
fn fill(volume: &Volume<'_>, offset: usize, bytes: &[u8]) {
    for (offset, part) in (offset..).step_by(REQUEST).zip(bytes.chunks(REQUEST)) {
        write(&volume.socket(), offset as u64, part);
    }
}

/// A mirror in files that holds these, and was stopped in order.
fn stopped<'a>(scene: &'a Scene, bytes: &[u8]) -> Volume<'a> {
    let volume = Volume::create(scene, FLAGS);
    let server = volume.serve(TURNS);
    fill(&volume, 0, bytes);
    server.stop();
    volume
}

#[test]
fn a_member_that_is_killed_under_load_and_back_takes_what_it_missed_and_no_client_is_told() {
    let scene = Scene::new();
    let mut far: Vec<FarVolume<'_>> =
        (0..3).map(|number| FarVolume::create(&scene, &format!("far-{number}"), FAR_FLAGS, "")).collect();
    let named: Vec<String> = far.iter().map(|it| format!("--member {0} --destroy {0}", it.uri)).collect();
    let volume = Volume::create(&scene, &format!("{FLAGS} {}", named.join(" ")));
    let rest = noise(7, SIZE - LOAD);
    let server = volume.serve(TURNS);
    fill(&volume, LOAD, &rest);
    server.stop();

    let load = Load::new(LOAD, 25);
    let mut server = volume.serve(TURNS);
    let event_loop = EventLoop::new(Backend::Auto).unwrap();
    load.run(&event_loop, &volume.socket(), |env| {
        let (load, server, far) = (Rc::clone(&load), &mut server, &mut far);
        async move {
            load.goes_on(&env, 300).await;
            far[1].server.kill();
            load.until_standing(&env, server, 1, "out").await;
            env.sleep(5_000_000_000).await;
            load.goes_on(&env, 300).await;
            let away = members(server)[1].clone();
            assert!(away.away_s.is_some() && away.lacks_bytes.is_some(), "{away:?}");
            far[1].restart();
            load.until_standing(&env, server, 1, "in-sync").await;
            load.goes_on(&env, 300).await;
            let back = members(server)[1].clone();
            assert!(back.lacks_bytes.is_some() && back.away_s.is_none(), "{back:?}");
            // Beside the load there are the sums of its pages.
            assert!(back.copied_bytes > 0 && back.copied_bytes <= 2 * LOAD as u64, "{back:?}");
            // From here on it is relied on alone.
            far[0].server.kill();
            far[2].server.kill();
            load.until_standing(&env, server, 0, "out").await;
            load.until_standing(&env, server, 2, "out").await;
            load.goes_on(&env, 100).await;
            server.kill();
        }
    });
    assert!(load.refusals.borrow().is_empty(), "{:?}", load.refusals.borrow());
    let server = volume.serve(TURNS);
    let mut found = read_all(&event_loop, &volume.socket());
    assert!(found.split_off(LOAD) == rest, "what nobody wrote to is other bytes");
    load.model.borrow_mut().judge(found, Death::Kill);
    // The others are taken back as soon as they are there.
    far[0].restart();
    far[2].restart();
    server.until_in_sync(true);
    server.stop();
    says(&scene.done("check disk").stdout, &[" 0 damaged", " 0 wrong"]);
}

#[test]
fn a_member_whose_file_is_back_is_taken_back_and_told_of() {
    let scene = Scene::new();
    let volume = stopped(&scene, &noise(1, SIZE));
    let (member, away) = (scene.path("disk/member-1"), scene.path("away"));
    fs::rename(&member, &away).unwrap();
    let server = serve(&volume, TURNS);
    write(&volume.socket(), 4096, &noise(2, MIB));
    assert_eq!(members(&server)[1].standing, "out");
    fs::rename(&away, &member).unwrap();
    let back = until_standing(&server, 1, "in-sync");
    assert!(back.lacks_bytes.is_some_and(|bytes| bytes < SIZE as u64 / 4), "{back:?}");
    assert!(back.copied_bytes < SIZE as u64 / 4, "{back:?}");
    once(&server, "rebuild-begun", "INFO", &["member 1", "it was away, and lacks "]);
    once(&server, "rebuild-ended", "INFO", &["member 1", "is taken back"]);
    stop(server);
    fs::rename(scene.path("disk/member-0"), &away).unwrap();
    let mut expected = noise(1, SIZE);
    expected[4096..][..MIB].copy_from_slice(&noise(2, MIB));
    volume.expect_contents("--rejoin off", &expected);
}

#[test]
fn what_somebody_else_put_there_is_left_alone_and_what_is_older_is_rebuilt_whole() {
    let scene = Scene::new();
    let volume = stopped(&scene, &noise(1, SIZE));
    let (member, away, older) = (scene.path("disk/member-1"), scene.path("away"), scene.path("older"));
    fs::copy(&member, &older).unwrap();
    let server = volume.serve(TURNS);
    write(&volume.socket(), 0, &noise(2, MIB));
    server.stop();
    fs::rename(&member, &away).unwrap();
    let server = serve(&volume, TURNS);
    write(&volume.socket(), 2 * MIB as u64, &noise(3, MIB));
    let strange = noise(9, fs::metadata(&away).unwrap().len() as usize);
    // Put there whole: a file that is half there would be refused for its size.
    fs::write(scene.path("strange"), &strange).unwrap();
    fs::rename(scene.path("strange"), &member).unwrap();
    once(
        &server,
        "member-refused",
        "WARN",
        &["member 1", "is not taken back", "is not this member", "replaced by name"],
    );
    assert_eq!(members(&server)[1].standing, "out");
    assert!(fs::read(&member).unwrap() == strange, "it was written to");
    fs::rename(&older, &member).unwrap();
    let back = until_standing(&server, 1, "in-sync");
    assert_eq!(back.lacks_bytes, None, "{back:?}");
    assert_eq!(count(&server, "member-refused"), 1);
    stop(server);
    says(&scene.done("check disk").stdout, &[" 0 damaged", " 0 wrong"]);
}

#[test]
fn a_person_decides_where_nobody_is_to_be_taken_back() {
    let scene = Scene::new();
    let volume = stopped(&scene, &noise(1, 4 * MIB));
    let (member, away) = (scene.path("disk/member-1"), scene.path("away"));
    fs::rename(&member, &away).unwrap();
    let server = serve(&volume, &format!("{TURNS} --rejoin off"));
    fs::rename(&away, &member).unwrap();
    // A quiet time later it is where it was.
    let asked = server.status().server.uptime_s;
    patiently("some seconds", || (server.status().server.uptime_s > asked + 3.0).then_some(()));
    assert_eq!(members(&server)[1].standing, "out");
    assert!(lines_of(&server, "rebuild-begun").is_empty());
    scene.done("replace disk member-1 member-1");
    until_standing(&server, 1, "in-sync");
    assert!(contents(&volume.socket())[..4 * MIB] == noise(1, 4 * MIB));
    stop(server);
}
