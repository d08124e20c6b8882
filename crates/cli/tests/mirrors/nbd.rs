//! Mirrors whose members are other processes: simulated drives that lose power, die and hang while the volume is used.

use std::rc::Rc;

use evenkeel_host::event_loop::{Backend, EventLoop};

use crate::support::far::{Drive, members, until_standing};
use crate::support::load::{Load, contents, read_all, write};
use crate::support::model::Death;
use crate::support::root::{programs, run};
use crate::support::served::{Ended, Volume, noise, patiently};
use crate::support::{Scene, or_skip, says};

const SIZE: usize = 24 << 20;

/// What the drives hold besides is little.
const FLAGS: &str = "--layout mirror --size 24m --log-size 16m --buffer 8m";

const TURNS: &str = "--rejoin off --turn 100ms --rest 5ms --rest-max 100ms --answer-max 60s";

/// A mirror of these drives, with its log devices in its folder.
fn mirror_of<'a>(scene: &'a Scene, drives: &[Drive]) -> Volume<'a> {
    let members: Vec<String> =
        drives.iter().map(|drive| format!("--member {0} --destroy {0}", drive.uri)).collect();
    Volume::create(scene, &format!("{FLAGS} {}", members.join(" ")))
}

#[test]
fn drives_are_cut_killed_and_replaced_under_load_and_no_client_is_told() {
    let scene = Scene::new();
    let mut drives: Vec<Drive> = (0..3).map(|number| Drive::start(&scene, number)).collect();
    let volume = mirror_of(&scene, &drives);
    let load = Load::new(SIZE, std::process::id().into());
    let mut server = volume.serve(TURNS);
    let event_loop = EventLoop::new(Backend::Auto).unwrap();
    load.run(&event_loop, &volume.socket(), |env| {
        let (load, server, scene, drives) = (Rc::clone(&load), &mut server, &scene, &mut drives);
        async move {
            load.goes_on(&env, 500).await;
            drives[1].cut(scene);
            load.until_standing(&env, server, 1, "out").await;
            load.goes_on(&env, 500).await;
            drives.push(Drive::start(scene, 3));
            let (old, new) = (drives[1].uri.clone(), drives[3].uri.clone());
            let replaced = scene.done(&format!("replace disk {old} {new} --destroy {new}"));
            says(&replaced.stdout, &["it is being rebuilt"]);
            load.until_standing(&env, server, 1, "in-sync").await;
            load.goes_on(&env, 500).await;
            drives[0].server.kill();
            load.until_standing(&env, server, 0, "out").await;
            load.goes_on(&env, 500).await;
            server.kill();
        }
    });
    assert!(load.refusals.borrow().is_empty(), "{:?}", load.refusals.borrow());
    // The drive that was replaced, and came back from its cut, is not even asked.
    drives[1].server.kill();
    let server = volume.serve(TURNS);
    load.model.borrow_mut().judge(read_all(&event_loop, &volume.socket()), Death::Kill);
    let standings: Vec<String> = members(&server).into_iter().map(|member| member.standing).collect();
    assert_eq!(standings, ["out", "in-sync", "in-sync"]);
    server.stop();
}

#[test]
fn a_drive_that_comes_back_from_a_cut_takes_part_again_when_it_is_named_again() {
    let scene = Scene::new();
    let mut drives: Vec<Drive> = (0..2).map(|number| Drive::start(&scene, number)).collect();
    let volume = mirror_of(&scene, &drives);
    let server = volume.serve(TURNS);
    write(&volume.socket(), 0, &noise(1, SIZE));
    drives[1].cut(&scene);
    let out = until_standing(&server, 1, "out");
    assert!(out.failure.is_some(), "{out:?}");
    write(&volume.socket(), 4096, &noise(2, 1_000_000));
    let uri = drives[1].uri.clone();
    scene.done(&format!("replace disk {uri} {uri}"));
    until_standing(&server, 1, "in-sync");
    let mut expected = noise(1, SIZE);
    expected[4096..1_004_096].copy_from_slice(&noise(2, 1_000_000));
    drives.remove(0);
    until_standing(&server, 0, "out");
    assert!(contents(&volume.socket()) == expected);
    server.stop();
}

#[test]
fn a_lost_drive_is_named_as_a_shell_takes_it() {
    let scene = Scene::new();
    let mut drives: Vec<Drive> = (0..2).map(|number| Drive::start(&scene, number)).collect();
    let _volume = mirror_of(&scene, &drives);
    let lost = drives.pop().unwrap().uri.clone();
    says(&scene.run("check disk").complaint(), &[&format!("evenkeel replace disk '{lost}' NEW")]);
}

/// The same export by other names.
fn aliases(scene: &Scene, drive: &Drive) -> [String; 3] {
    std::os::unix::fs::symlink(&drive.socket, scene.path("link")).unwrap();
    let (uri, folder) = (&drive.uri, scene.folder().display());
    [
        uri.replace("///?", "//?"),
        format!("nbd+unix:///?socket={folder}/./{}", drive.socket),
        format!("nbd+unix:///?socket={folder}/link"),
    ]
}

#[test]
fn an_export_by_two_names_is_not_taken_for_two_members() {
    let scene = Scene::new();
    let drives: Vec<Drive> = (0..2).map(|number| Drive::start(&scene, number)).collect();
    let (uri, other) = (drives[0].uri.clone(), drives[1].uri.clone());
    for alias in aliases(&scene, &drives[0]) {
        let destroyed = format!("--size 24m --log-size 16m --buffer 8m --destroy {uri} --destroy {alias}");
        for line in [
            format!("--layout mirror --member {uri} --member {alias}"),
            format!("--layout mirror --member {uri} --member {other} --log {alias} --destroy {other}"),
            format!("--layout mirror --log-on-members --member {alias} --member {uri}"),
            format!("--member {uri} --log {alias}"),
        ] {
            let refused = scene.refused(&format!("create disk {destroyed} {line}"));
            says(&refused, &[&uri, &alias, "these are the same", "name another"]);
            assert!(!scene.path("disk").exists(), "a volume was left by: {line}");
        }
    }
}

#[test]
fn a_member_by_another_name_does_not_take_the_place_of_another_one() {
    let scene = Scene::new();
    let drives: Vec<Drive> = (0..2).map(|number| Drive::start(&scene, number)).collect();
    let volume = mirror_of(&scene, &drives);
    let server = volume.serve(TURNS);
    write(&volume.socket(), 0, &noise(1, SIZE));
    let (kept, replaced) = (drives[0].uri.clone(), drives[1].uri.clone());
    let aliases = aliases(&scene, &drives[0]);
    let refuse = || {
        for alias in &aliases {
            let refused = scene.refused(&format!("replace disk {replaced} {alias} --destroy {alias}"));
            says(&refused, &[alias, &format!("seems to be {kept} of this very volume")]);
        }
    };
    refuse();
    server.stop();
    refuse();
}

#[test]
fn a_drive_that_hangs_fails_after_its_time() {
    let scene = Scene::new();
    let drives: Vec<Drive> = (0..2).map(|number| Drive::start(&scene, number)).collect();
    let volume = mirror_of(&scene, &drives);
    let flags = "--turn 100ms --rest 5ms --rest-max 100ms --answer-max 5s";
    let server = volume.serve(flags);
    drives[1].server.signal("STOP");
    write(&volume.socket(), 0, &noise(1, SIZE));
    let out = until_standing(&server, 1, "out");
    assert!(out.failure.is_some(), "{out:?}");
    assert!(contents(&volume.socket()) == noise(1, SIZE));
    server.stop();
    // It does not keep the volume shut, either.
    let server = volume.serve(flags);
    assert_eq!(until_standing(&server, 1, "out").failure.as_deref(), Some("it does not answer"));
    assert!(contents(&volume.socket()) == noise(1, SIZE));
    server.stop();
    drives[1].server.signal("CONT");
    let server = volume.serve(TURNS);
    until_standing(&server, 1, "in-sync");
    server.stop();
}

#[test]
fn fio_sees_no_error_while_a_drive_is_cut_and_replaced() {
    or_skip!(programs(&["fio"]).and_then(|()| run("fio", &["--enghelp=nbd"]).map(drop)));
    let scene = Scene::new();
    let mut drives: Vec<Drive> = (0..3).map(|number| Drive::start(&scene, number)).collect();
    let volume = mirror_of(&scene, &drives);
    let server = volume.serve(TURNS);
    let jobs = format!(
        "[global]\nioengine=nbd\nuri={}\nrandseed=42\nverify=crc32c\nverify_fatal=1\nverify_state_save=0\n\
         [write]\nrw=randwrite\nbs=16k\nsize=8m\niodepth=4\nfsync=32\nrate_iops=200\n\
         [read]\nrw=randread\nbs=4k\noffset=12m\nsize=8m\niodepth=2\nverify=0\nrate_iops=500\n",
        volume.uri()
    );
    std::fs::write(scene.path("jobs"), jobs).unwrap();
    let fio = |flags: &[&str]| {
        let mut fio = std::process::Command::new("fio");
        fio.args(["--output-format=json", "--output=said", "jobs"]).args(flags).current_dir(scene.folder());
        Ended(fio.spawn().unwrap())
    };
    let ends_well = |mut fio: Ended| {
        let ended = patiently("fio's end", || fio.0.try_wait().unwrap());
        assert!(ended.success(), "{ended:?}");
        for job in crate::support::list(&scene.json("said"), "jobs") {
            assert_eq!(job["error"].as_i64(), Some(0), "{job}");
        }
    };
    let load = fio(&["--do_verify=0", "--loops=8"]);
    patiently("fio's first writes", || (server.status().counters.writes > 50).then_some(()));
    drives[2].cut(&scene);
    until_standing(&server, 2, "out");
    drives.push(Drive::start(&scene, 3));
    let (old, new) = (drives[2].uri.clone(), drives[3].uri.clone());
    scene.done(&format!("replace disk {old} {new} --destroy {new}"));
    until_standing(&server, 2, "in-sync");
    ends_well(load);
    ends_well(fio(&["--verify_only=1"]));
    server.stop();
    says(&scene.done("check disk").stdout, &[" 0 damaged", " 0 wrong"]);
}
