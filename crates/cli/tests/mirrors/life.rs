//! Mirrors with real processes: members and log devices that go, rot, come back stale, hang, and are replaced.

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, MetadataExt};

use evenkeel_host::service::mirror_status::{MemberStatus, MirrorStatus};

use crate::support::load::{Load, contents, write};
use crate::support::served::{Server, Volume, noise, patiently};
use crate::support::{Scene, says};

const SIZE: usize = 32 << 20;

/// A log so small that checkpoints never end.
const FLAGS: &str = "--layout mirror --size 32m --log-size 16m --buffer 8m --atomic-sectors yes";

/// What a new one has to promise that the others do.
const ATOMIC: &str = "--atomic-sectors yes";

/// Turns so short that there are many.
const TURNS: &str = "--turn 20ms --rest 1ms --rest-max 20ms";

#[track_caller]
fn mirror(server: &Server) -> MirrorStatus {
    server.status().mirror.expect("a mirror tells of its members")
}

/// The member whose place ends so.
#[track_caller]
fn member(server: &Server, name: &str) -> MemberStatus {
    let members = mirror(server).members;
    let found = members.iter().find(|member| member.path.ends_with(name));
    found.unwrap_or_else(|| panic!("no {name} in {members:?}")).clone()
}

#[test]
fn create_says_what_may_be_lost_and_makes_files_for_what_nobody_named() {
    let scene = Scene::new();
    let made = scene.done(&format!("create disk {FLAGS}")).stdout;
    says(&made, &["losses that it survives: 1 ", "2 members and 2 log devices"]);
    says(&made, &["power cuts that it survives: all", "a write of up to 16 KiB"]);
    says(&made, &["costs: ", "what changed goes to 2 log devices, and each changed page later to 2 members"]);
    says(&made, &["share a file system", "survives the loss of none"]);
    assert_eq!(
        scene.names("disk"),
        ["log-0", "log-1", "member-0", "member-1", "volume.toml"].map(str::to_owned).into()
    );
    let three = "--member a --member b --member c --log l";
    let made = scene.done(&format!("create three {FLAGS} {three} --dry-run")).stdout;
    says(&made, &["losses that it survives: 0 ", "3 members and 1 log device,"]);
    fs::write(scene.path("taken"), "something").unwrap();
    for (line, parts) in [
        ("--layout mirror --member one", ["one member is no mirror", "name another"]),
        ("--layout mirror --member one --member one", ["these are the same", "name another"]),
        ("--layout mirror --member one --member two --log two", ["these are the same", "name another"]),
        ("--layout mirror --member taken --member two", ["taken: it exists", "--destroy taken"]),
        ("--member one --member two", ["layout single has one member", "choose layout mirror"]),
    ] {
        says(&scene.refused(&format!("create other --size 32m {line}")), &parts);
    }
    assert!(!scene.path("other").exists());
}

#[test]
fn no_acknowledged_write_goes_with_a_kill_a_member_and_a_log_device() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let load = Load::new(SIZE, std::process::id().into());
    for (life, policy) in ["turns", "mixed", "turns", "read-first", "read-around", "turns"].iter().enumerate()
    {
        load.lives_and_is_killed(&volume, &format!("{TURNS} --policy {policy}"));
        let (lost, lost_log) = (format!("member-{}", life % 2), format!("log-{}", life / 2 % 2));
        scene.take_away(&lost);
        scene.take_away(&lost_log);
        let server = volume.serve(TURNS);
        load.judge_after_kill(&volume);
        let status = server.status();
        assert_eq!(status.volume.losses_survived, 0);
        let missing = status.mirror.unwrap();
        let missing: Vec<&str> = missing.missing().iter().map(|(place, _)| *place).collect();
        assert_eq!(missing, [lost.as_str(), lost_log.as_str()]);
        let told = scene.run("status disk");
        assert_eq!(told.code, Some(1), "{told:?}");
        says(&told.complaint(), &[&lost, &lost_log, "No such file", "evenkeel replace disk "]);
        server.stop();
        scene.bring_back(&lost);
        scene.bring_back(&lost_log);
        let server = volume.serve(TURNS);
        server.until_in_sync(false);
        assert_eq!(server.status().volume.losses_survived, 1);
        server.stop();
    }
    says(&scene.done("check disk").stdout, &[" 0 damaged", " 0 wrong"]);
}

#[test]
fn a_member_that_missed_writes_is_rebuilt_and_never_served_alone() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve(TURNS);
    write(&volume.socket(), 0, &noise(1, SIZE));
    server.stop();
    scene.take_away("member-1");
    let server = volume.serve(TURNS);
    write(&volume.socket(), 5_000_000, &noise(2, 3_000_000));
    server.stop();
    scene.bring_back("member-1");
    scene.take_away("member-0");
    says(
        &scene.refused("serve disk"),
        &["none of the ring's members that are there holds everything", "member-0: cannot open"],
    );
    says(&scene.refused("check disk"), &["none of the ring's members"]);
    scene.bring_back("member-0");
    let server = volume.serve(&format!("{TURNS} --rebuild-rate 1MiB/s"));
    let rebuilt = member(&server, "member-1");
    assert_eq!((rebuilt.standing.as_str(), rebuilt.failure), ("rebuilding", None));
    // It takes what it missed, and what speaks of that.
    assert!((3_000_000..SIZE as u64 / 2).contains(&rebuilt.rebuild_size_bytes.unwrap()));
    server.until_in_sync(false);
    server.stop();
    scene.take_away("member-0");
    let server = volume.serve(TURNS);
    let mut expected = noise(1, SIZE);
    expected[5_000_000..8_000_000].copy_from_slice(&noise(2, 3_000_000));
    assert!(contents(&volume.socket()) == expected);
    server.stop();
}

/// Writes other bytes into the middle of a member, past its tables.
fn rot(scene: &Scene, name: &str, offset: u64) {
    let file = OpenOptions::new().write(true).open(scene.path("disk").join(name)).unwrap();
    file.write_all_at(&noise(offset, 1 << 20), offset).unwrap();
}

#[test]
fn rot_is_never_served_and_a_check_repairs_it() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve(TURNS);
    write(&volume.socket(), 0, &noise(3, SIZE));
    server.stop();
    rot(&scene, "member-0", 10 << 20);
    rot(&scene, "member-1", 20 << 20);
    volume.expect_contents(TURNS, &noise(3, SIZE));
    rot(&scene, "member-1", 24 << 20);
    let found = scene.run("check disk");
    assert_eq!(found.code, Some(1), "{found:?}");
    says(&found.stdout, &[" 0 damaged", " wrong, 0 repaired"]);
    says(&found.complaint(), &["copies are wrong while another is right", "evenkeel check disk --repair"]);
    says(&scene.done("check disk --repair").stdout, &[" repaired"]);
    says(&scene.done("check disk").stdout, &[" 0 wrong"]);
    // Where every copy of a page has rotted, nothing can be repaired, and that is said.
    rot(&scene, "member-0", 12 << 20);
    rot(&scene, "member-1", 12 << 20);
    let lost = scene.run("check disk --repair");
    assert_eq!(lost.code, Some(1), "{lost:?}");
    says(&lost.stdout, &["damaged: 4096 bytes from "]);
    says(&lost.complaint(), &["no copy of these ranges is right", "backup"]);
}

#[test]
fn rot_is_found_and_repaired_while_the_volume_is_served() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve(TURNS);
    write(&volume.socket(), 0, &noise(4, SIZE));
    server.stop();
    rot(&scene, "member-1", 16 << 20);
    let server = volume.serve(&format!("{TURNS} --scrub-every 24s --scrub-rate 1000MiB/s"));
    let scrub = patiently("the scrub", || {
        let scrub = mirror(&server).scrub;
        (scrub.completed > 0).then_some(scrub)
    });
    assert!(scrub.mended_copies > 0 && scrub.damaged_pages == 0, "{scrub:?}");
    says(&scene.done("status disk").stdout, &["pages repaired from another copy"]);
    server.stop();
    says(&scene.done("check disk").stdout, &[" 0 wrong"]);
}

#[test]
fn metrics_tell_of_each_member_and_log_device() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve(&format!("{TURNS} --metrics 127.0.0.1:0"));
    let at = server.told("metrics: http://");
    let at = at.strip_suffix("/metrics").unwrap();
    let mut scrape = TcpStream::connect(at).unwrap();
    scrape.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut text = String::new();
    scrape.read_to_string(&mut text).unwrap();
    for line in [
        "evenkeel_member_in_sync{member=\"0\"} 1",
        "evenkeel_member_in_sync{member=\"1\"} 1",
        "evenkeel_member_slow{member=\"1\"} 0",
        "evenkeel_member_queued_bytes{member=\"0\"} 0",
        "evenkeel_log_device_in_sync{log=\"1\"} 1",
        "evenkeel_member_rebuild_size_bytes{member=\"0\"} 0",
        "evenkeel_member_info{member=\"1\",path=\"member-1\"} 1",
        "evenkeel_log_device_info{log=\"0\",path=\"log-0\"} 1",
        "evenkeel_losses_survived 1",
        "evenkeel_scrub_mended_total 0",
    ] {
        assert!(text.lines().any(|found| found == line), "no `{line}` in {text}");
    }
    server.stop();
}

#[test]
fn members_and_log_devices_are_replaced_served_or_not() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve(&format!("{TURNS} --rebuild-rate 8MiB/s"));
    write(&volume.socket(), 0, &noise(5, SIZE));
    fs::write(scene.path("precious"), "precious").unwrap();
    for (line, parts) in [
        ("replace disk member-7 new", ["member-7: no member", "member-0, member-1, log-0, log-1"]),
        ("replace disk member-0 precious", ["precious: it exists", "--destroy precious"]),
        ("replace disk member-0 disk/member-1", ["disk/member-1: it is a member", "name another"]),
        ("replace disk member-0 new", ["keep sectors whole", "--atomic-sectors yes"]),
        ("replace gone member-0 new", ["gone: no volume is here", "evenkeel create"]),
    ] {
        says(&scene.refused(line), &parts);
    }
    assert!(!scene.path("new").exists(), "what is refused leaves nothing behind");
    assert_eq!(scene.text("precious"), "precious");
    // Served: the old one is given up at once, and the new one rebuilt.
    says(
        &scene.done(&format!("replace disk member-0 new-0 {ATOMIC}")).stdout,
        &["new-0 takes the place of member-0"],
    );
    says(
        &scene.refused(&format!("replace disk member-1 other {ATOMIC}")),
        &["no other member holds everything"],
    );
    server.until_in_sync(false);
    write(&volume.socket(), 1_000_000, &noise(6, 1_000_000));
    server.stop();
    // Not served: a log device by another, a member by a file that may be lost.
    says(&scene.done(&format!("replace disk log-1 new-log {ATOMIC}")).stdout, &["from the next start on"]);
    scene.done(&format!("replace disk member-1 precious --destroy precious {ATOMIC}"));
    let described = scene.text("disk/volume.toml");
    says(&described, &["new-0", "precious", "new-log", "log-0"]);
    let mut expected = noise(5, SIZE);
    expected[1_000_000..2_000_000].copy_from_slice(&noise(6, 1_000_000));
    let server = volume.serve(TURNS);
    server.until_in_sync(false);
    assert!(contents(&volume.socket()) == expected);
    server.stop();
    // By now either of the new ones is enough.
    fs::remove_file(scene.path("new-0")).unwrap();
    fs::remove_file(scene.path("disk/log-0")).unwrap();
    volume.expect_contents(TURNS, &expected);
}

#[test]
fn a_member_is_taken_back_by_its_name_and_a_new_one_takes_room_for_contents_alone() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve(TURNS);
    write(&volume.socket(), 7 << 20, &noise(8, 1 << 20));
    server.stop();
    let server = volume.serve(&format!("{TURNS} --rebuild-rate 256KiB/s"));
    scene.done(&format!("replace disk member-1 new --sparse {ATOMIC}"));
    let rebuilding = scene.run("status disk");
    assert_eq!(rebuilding.code, Some(1), "{rebuilding:?}");
    says(&rebuilding.complaint(), &["new does not count before it is rebuilt"]);
    server.until_in_sync(false);
    scene.done("status disk");
    let blocks = fs::metadata(scene.path("new")).unwrap().blocks();
    assert!(blocks * 512 < 8 << 20, "{blocks} blocks of {SIZE} bytes without contents");
    server.stop();
    // Something else was written over the beginning of the other.
    let file = OpenOptions::new().write(true).open(scene.path("disk/member-0")).unwrap();
    file.write_all_at(&[0; 8192], 0).unwrap();
    says(&scene.run("check disk").complaint(), &["without member-0", "evenkeel replace disk member-0 NEW"]);
    let server = volume.serve(TURNS);
    says(
        &scene.refused("replace disk member-0 member-0"),
        &["not this member any more", "--destroy member-0"],
    );
    fs::write(scene.path("member-0"), "precious").unwrap();
    says(
        &scene.refused("replace disk member-0 member-0 --destroy member-0"),
        &["say which by its whole path"],
    );
    assert_eq!(scene.text("member-0"), "precious");
    fs::remove_file(scene.path("member-0")).unwrap();
    scene.done("replace disk member-0 member-0 --destroy member-0");
    server.until_in_sync(false);
    server.stop();
    fs::remove_file(scene.path("new")).unwrap();
    let server = volume.serve(TURNS);
    assert!(contents(&volume.socket())[7 << 20..8 << 20] == noise(8, 1 << 20));
    server.stop();
}

#[test]
fn a_start_that_cannot_listen_takes_nothing_from_a_log_device_that_was_away() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mut server = volume.serve(TURNS);
    write(&volume.socket(), 0, &noise(9, 1 << 20));
    server.kill();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap();
    for listens in
        ["--nbd unix:nowhere/nbd.sock".to_owned(), format!("--nbd tcp:{port}"), format!("--metrics {port}")]
    {
        scene.take_away("log-1");
        let refused = scene.run(&format!("serve disk {listens}"));
        assert_eq!(refused.code, Some(2), "{refused:?}");
        scene.bring_back("log-1");
    }
    fs::remove_file(scene.path("disk/log-0")).unwrap();
    let server = volume.serve(TURNS);
    assert!(contents(&volume.socket())[..1 << 20] == noise(9, 1 << 20));
    server.stop();
}
