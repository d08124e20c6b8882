//! Erasure-coded volumes with real processes: members and log devices that go, come back, rot, and are replaced.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_host::event_loop::{Backend, EventLoop};

use crate::support::load::{Load, contents, read_all, write};
use crate::support::model::Death;
use crate::support::served::{Server, Volume, noise};
use crate::support::{Scene, says};

const SIZE: usize = 32 << 20;

/// Four data and two parity shards, and a log so small that checkpoints never end.
const FLAGS: &str = "--layout rs:4+2 --shard 16k --size 32m --log-size 16m --buffer 8m --atomic-sectors yes";

const ATOMIC: &str = "--atomic-sectors yes";

/// Turns so short that there are many.
const TURNS: &str = "--turn 20ms --rest 1ms --rest-max 20ms";

#[test]
fn create_says_what_stripes_survive_and_cost() {
    let scene = Scene::new();
    let made = scene.done(&format!("create disk {FLAGS}")).stdout;
    says(
        &made,
        &["losses that it survives: 2 (layout rs:4+2: 6 members and 3 log devices, of which 4 and one"],
    );
    says(&made, &["survives the loss of none", "2 pages of parity", "to 3 of 6 members"]);
    let members = (0..6).map(|place| format!("member-{place}"));
    let names = members.chain((0..3).map(|place| format!("log-{place}"))).chain(["volume.toml".to_owned()]);
    assert_eq!(scene.names("disk"), names.collect());
    for (flags, parts) in [
        ("--layout rs:4+2 --shard 12k", ["--shard", "a power of two"]),
        ("--layout mirror --shard 16k", ["--shard", "layout mirror has no shards"]),
        ("--layout rs:4+2 --log-on-members", ["on log devices", "leave out"]),
        ("--layout rs:2+1 --member a --member b", ["rs:2+1 has 3 members", "and not 2"]),
    ] {
        says(&scene.refused(&format!("create other --size 32m {flags}")), &parts);
    }
    for layout in ["rs:4", "rs:1+1", "rs:29+1", "raid6"] {
        let ran = scene.run(&format!("create other --size 32m --layout {layout}"));
        assert_eq!(ran.code, Some(2), "{ran:?}");
    }
    assert!(!scene.path("other").exists());
    for (key, instead, parts) in [
        ("layout = \"rs:4+2\"", "layout = \"rs:4+3\"", ["rs:4+3 has 7 [[member]]", "volume.toml"]),
        ("shard_bytes = 16384", "shard_bytes = 16385", ["a shard of 16385 bytes", "a power of two"]),
        ("shard_bytes = 16384\n", "", ["rs:4+2 has shard_bytes", "volume.toml"]),
        ("stripe_log_bytes = 8388608", "stripe_log_bytes = 4096", ["stripe_log_bytes = 4096", "put back"]),
    ] {
        let described = fs::read_to_string(scene.path("disk/volume.toml")).unwrap();
        fs::write(scene.path("disk/volume.toml"), described.replace(key, instead)).unwrap();
        says(&scene.refused("serve disk"), &parts);
        fs::write(scene.path("disk/volume.toml"), described).unwrap();
    }
}

#[test]
fn no_acknowledged_write_goes_with_a_kill_two_members_and_two_log_devices() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let load = Load::new(SIZE, std::process::id().into());
    for (life, policy) in ["turns", "mixed", "auto", "turns"].iter().enumerate() {
        load.lives_and_is_killed(&volume, &format!("{TURNS} --policy {policy}"));
        let lost = [0, 2, 3].map(|step| (life + step) % 6);
        let lost = [format!("member-{}", lost[0]), format!("member-{}", lost[life % 2 + 1])];
        let lost_logs = [format!("log-{}", life % 3), format!("log-{}", (life + 1) % 3)];
        let lost = [lost, lost_logs].concat();
        lost.iter().for_each(|name| scene.take_away(name));
        let server = volume.serve(TURNS);
        load.judge_after_kill(&volume);
        let status = server.status();
        assert_eq!(status.volume.losses_survived, 0);
        assert_eq!(status.mirror.unwrap().missing().len(), 4);
        server.stop();
        lost.iter().for_each(|name| scene.bring_back(name));
        let server = volume.serve(TURNS);
        server.until_in_sync(false);
        assert_eq!(server.status().volume.losses_survived, 2);
        server.stop();
    }
    says(&scene.done("check disk").stdout, &[" 0 damaged", " 0 wrong"]);
}

#[test]
fn one_member_too_few_is_refused_and_nothing_is_lost_by_it() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve(TURNS);
    write(&volume.socket(), 0, &noise(1, SIZE));
    server.stop();
    ["member-0", "member-2", "member-5"].iter().for_each(|name| scene.take_away(name));
    says(
        &scene.refused("serve disk"),
        &["3 of its members are there, and 4 are needed", "member-5: cannot open"],
    );
    scene.bring_back("member-5");
    volume.expect_contents(TURNS, &noise(1, SIZE));
    let found = scene.run("check disk");
    assert_eq!(found.code, Some(1), "{found:?}");
    says(&found.stdout, &[" 0 damaged", " 0 wrong", "without member-0: cannot open"]);
}

#[test]
fn members_are_replaced_while_it_is_served_as_long_as_enough_others_remain() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve(TURNS);
    write(&volume.socket(), 0, &noise(2, SIZE));
    server.stop();
    ["member-1", "member-4"].iter().for_each(|name| scene.take_away(name));
    let server = volume.serve(TURNS);
    says(
        &scene.refused(&format!("replace disk member-0 new {ATOMIC}")),
        &["3 others hold everything, and 4 are needed", "cannot be given up"],
    );
    write(&volume.socket(), 1 << 20, &noise(3, 5 << 20));
    scene.done(&format!("replace disk member-1 new-1 {ATOMIC}"));
    scene.done(&format!("replace disk member-4 new-4 {ATOMIC}"));
    server.until_in_sync(false);
    server.stop();
    // What they were given is as good as what the others have.
    ["member-0", "member-2"].iter().for_each(|name| scene.take_away(name));
    let mut expected = noise(2, SIZE);
    expected[1 << 20..6 << 20].copy_from_slice(&noise(3, 5 << 20));
    let server = volume.serve(TURNS);
    assert!(contents(&volume.socket()) == expected);
    server.stop();
}

#[test]
fn a_member_that_is_back_is_taken_back_while_it_is_served() {
    let scene = Scene::new();
    // No whole pages of journal: the log of stripes begins with the next one.
    let volume = Volume::create(&scene, &FLAGS.replace("--log-size 16m", "--log-size 16778k"));
    let server = volume.serve(TURNS);
    write(&volume.socket(), 0, &noise(6, SIZE));
    server.stop();
    scene.take_away("member-1");
    let server = volume.serve(TURNS);
    write(&volume.socket(), 7 << 20, &noise(7, 3 << 20));
    scene.bring_back("member-1");
    server.until_in_sync(false);
    server.stop();
    ["member-0", "member-2"].iter().for_each(|name| scene.take_away(name));
    let mut expected = noise(6, SIZE);
    expected[7 << 20..10 << 20].copy_from_slice(&noise(7, 3 << 20));
    let server = volume.serve(TURNS);
    assert!(contents(&volume.socket()) == expected);
    server.stop();
}

#[test]
fn a_log_of_stripes_of_another_length_is_refused_and_the_right_one_opens() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve(TURNS);
    write(&volume.socket(), 0, &noise(8, SIZE));
    server.stop();
    let described = fs::read_to_string(scene.path("disk/volume.toml")).unwrap();
    let shorter = described.replace("stripe_log_bytes = 8388608", "stripe_log_bytes = 4194304");
    assert!(shorter != described);
    fs::write(scene.path("disk/volume.toml"), shorter).unwrap();
    says(
        &scene.refused("serve disk"),
        &["log of stripes was made with 8388608", "put stripe_log_bytes back"],
    );
    fs::write(scene.path("disk/volume.toml"), described).unwrap();
    volume.expect_contents(TURNS, &noise(8, SIZE));
}

#[test]
fn rot_is_never_served_and_a_check_repairs_it() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve(TURNS);
    write(&volume.socket(), 0, &noise(4, SIZE));
    server.stop();
    for (name, offset) in [("member-0", 2 << 20), ("member-3", 2 << 20), ("member-5", 5 << 20)] {
        let file = OpenOptions::new().write(true).open(scene.path("disk").join(name)).unwrap();
        file.write_all_at(&noise(offset, 1 << 20), offset).unwrap();
    }
    volume.expect_contents(TURNS, &noise(4, SIZE));
    says(&scene.done("check disk --repair").stdout, &[" 0 damaged"]);
    says(&scene.done("check disk").stdout, &[" 0 wrong"]);
}

#[test]
fn log_devices_are_replaced_under_load_and_then_one_new_one_is_enough() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let load = Load::new(SIZE, 47);
    let mut server = volume.serve(TURNS);
    let event_loop = EventLoop::new(Backend::Auto).unwrap();
    let has_place = |server: &Server, place: usize, name: &str| {
        let log = server.status().mirror.unwrap().logs.swap_remove(place);
        log.path.ends_with(name) && log.standing == "in-sync" && log.copied_to.is_none()
    };
    load.run(&event_loop, &volume.socket(), |env| {
        let (load, server, scene) = (Rc::clone(&load), &mut server, &scene);
        async move {
            load.goes_on(&env, 300).await;
            // The first by another, the second by itself.
            for (place, old, new) in [(0, "log-0", "new-log"), (1, "log-1", "log-1")] {
                scene.done(&format!("replace disk {old} {new} {ATOMIC}"));
                while !has_place(server, place, new) {
                    env.sleep(5_000_000).await;
                }
                load.goes_on(&env, 200).await;
            }
            assert_eq!(server.status().volume.losses_survived, 2);
            server.kill();
        }
    });
    assert!(load.refusals.borrow().is_empty(), "{:?}", load.refusals.borrow());
    // The power goes with it, and what was not replaced, and two members.
    volume.arena().into_iter().for_each(|arena| fs::remove_file(arena).unwrap());
    ["log-1", "log-2", "member-1", "member-4"].iter().for_each(|name| scene.take_away(name));
    let server = volume.serve(TURNS);
    load.model.borrow_mut().judge(read_all(&event_loop, &volume.socket()), Death::Power);
    server.stop();
    ["log-1", "member-1", "member-4"].iter().for_each(|name| scene.bring_back(name));
    // While it is not served, too.
    scene.done(&format!("replace disk log-2 newer {ATOMIC}"));
    let server = volume.serve(TURNS);
    server.until_in_sync(false);
    server.stop();
    says(&scene.done("check disk").stdout, &[" 0 damaged", " 0 wrong"]);
}

#[test]
fn it_grows_with_all_of_its_members_while_it_is_served_and_not_and_two_may_be_lost_then() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve(TURNS);
    write(&volume.socket(), 0, &noise(6, SIZE));
    let before = fs::metadata(scene.path("disk/member-0")).unwrap().len();
    says(&scene.done("grow disk --size 48m --dry-run").stdout, &["member-0", "member-5"]);
    assert_eq!(fs::metadata(scene.path("disk/member-0")).unwrap().len(), before, "a dry run");
    scene.done("grow disk --size 48m");
    let after = fs::metadata(scene.path("disk/member-5")).unwrap().len();
    // A quarter of what is new for each, beside the table.
    assert!((4 << 20..5 << 20).contains(&(after - before)), "{before} {after}");
    let behind = noise(7, 16 << 20);
    write(&volume.socket(), SIZE as u64, &behind);
    // Not without all of them.
    let file = scene.path("disk/member-2");
    fs::rename(&file, scene.path("moved")).unwrap();
    says(&scene.refused("grow disk --size 64m"), &["member-2", "was removed", "evenkeel replace"]);
    fs::rename(scene.path("moved"), &file).unwrap();
    server.stop();
    scene.take_away("member-4");
    says(&scene.refused("grow disk --size 64m"), &["member-4", "grows with all of its members"]);
    scene.bring_back("member-4");
    scene.done("grow disk --size 64m");
    ["member-0", "member-3"].iter().for_each(|name| scene.take_away(name));
    let whole = [noise(6, SIZE), behind, vec![0; 16 << 20]].concat();
    volume.expect_contents(TURNS, &whole);
}

#[test]
fn log_devices_from_before_it_grew_are_called_so() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let bytes = noise(6, SIZE);
    let server = volume.serve(TURNS);
    write(&volume.socket(), 0, &bytes);
    server.stop();
    fs::copy(scene.path("disk/log-0"), scene.path("older")).unwrap();
    scene.done("grow disk --size 48m");
    ["log-0", "log-1", "log-2"].iter().for_each(|name| scene.take_away(name));
    fs::rename(scene.path("older"), scene.path("disk/log-0")).unwrap();
    let refusal = scene.refused("serve disk");
    says(&refusal, &["from before it grew from 32 MiB to 48 MiB", "newer", "evenkeel salvage disk"]);
    scene.done("salvage disk image");
    assert!(scene.bytes("image")[..SIZE] == bytes);
    // As it is told.
    fs::remove_file(scene.path("disk/log-0")).unwrap();
    ["log-0", "log-1", "log-2"].iter().for_each(|name| scene.bring_back(name));
    volume.expect_contents(TURNS, &[bytes, vec![0; 16 << 20]].concat());
}

#[test]
fn what_is_left_of_stripes_is_salvaged_without_two_members_and_the_log_and_from_a_cut_too() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mut server = volume.serve(TURNS);
    let bytes = noise(5, SIZE);
    write(&volume.socket(), 0, &bytes);
    // Killed with changes on their way: what is in the arena, the journal and the log of stripes counts.
    server.kill();
    ["member-1", "member-4", "log-1", "log-2"].iter().for_each(|name| scene.take_away(name));
    scene.done("salvage disk from-a-cut");
    assert!(scene.bytes("from-a-cut") == bytes);
    volume.expect_contents(TURNS, &bytes);
    // Stopped in order, without any log; two others rot.
    let others = ["member-1", "member-4", "log-1", "log-2"];
    others.iter().for_each(|name| scene.bring_back(name));
    volume.expect_contents(TURNS, &bytes);
    ["log-0", "log-1", "log-2"].iter().for_each(|name| scene.take_away(name));
    for name in ["member-0", "member-5"] {
        let member = OpenOptions::new().write(true).open(volume.folder().join(name)).unwrap();
        member.write_all_at(&vec![7; 2 << 20], 1 << 20).unwrap();
    }
    scene.done("salvage disk from-a-stop");
    assert!(scene.bytes("from-a-stop") == bytes);
    // A blank drive in the place of a log device makes it no worse.
    fs::write(volume.folder().join("log-1"), vec![0; 1 << 20]).unwrap();
    scene.done("salvage disk --dry-run");
    let server = volume.serve("--salvage");
    assert!(contents(&volume.socket()) == bytes);
    server.stop();
    fs::remove_file(volume.folder().join("log-1")).unwrap();
    // One too few: what its own members hold is had, and all else is named.
    ["member-2", "member-3", "member-1"].iter().for_each(|name| scene.take_away(name));
    let ran = scene.run("salvage disk in-part");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    says(&ran.stdout, &["lost"]);
}

#[test]
fn lost_log_devices_of_stripes_are_made_again_after_a_stop_in_order_alone() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let bytes = noise(5, SIZE);
    let server = volume.serve(TURNS);
    write(&volume.socket(), 0, &bytes);
    server.stop();
    ["log-0", "log-1", "log-2"].iter().for_each(|name| scene.take_away(name));
    says(&scene.refused("serve disk"), &["none of the log devices is there", "evenkeel renew-log disk"]);
    says(&scene.done("renew-log disk --dry-run").stdout, &["would be made again", "log-0", "log-2"]);
    scene.done("renew-log disk");
    volume.expect_contents(TURNS, &bytes);
    // One that was lost and is back beside two that were made: it holds what is over.
    scene.bring_back("log-1");
    let server = volume.serve(TURNS);
    write(&volume.socket(), 0, &noise(6, 1 << 20));
    server.stop();
    let bytes = [noise(6, 1 << 20), bytes[1 << 20..].to_vec()].concat();
    ["member-0", "member-5"].iter().for_each(|name| scene.take_away(name));
    volume.expect_contents(TURNS, &bytes);
    ["member-0", "member-5"].iter().for_each(|name| scene.bring_back(name));
    let mut server = volume.serve(TURNS);
    write(&volume.socket(), 0, &noise(7, 1 << 20));
    server.kill();
    ["log-0", "log-1", "log-2"].iter().for_each(|name| scene.take_away(name));
    says(&scene.refused("renew-log disk"), &["stopped in order", "evenkeel salvage disk OUT"]);
}
