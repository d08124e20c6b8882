//! What is had of volumes that nothing else opens: `salvage` and `serve --salvage`, with real files.

use std::fs;
use std::os::unix::fs::MetadataExt;

use crate::support::load::{connect, contents, write, write_as};
use crate::support::root::Mounted;
use crate::support::served::{Server, Volume, noise};
use crate::support::{Scene, list, or_skip, says};
use evenkeel_engine::device::Durability;
use evenkeel_engine::format::record::{RecordKind, decode_header};
use evenkeel_engine::format::superblock::Superblock;
use evenkeel_host::event_loop::{Backend, EventLoop};
use serde_json::Value;

const SIZE: usize = 16 << 20;
const FLAGS: &str = "--size 16m --log-size 16m --buffer 8m";
const MIRROR: &str = "--layout mirror --size 16m --log-size 16m --buffer 8m --atomic-sectors yes";

/// Where the first root and the pages begin on a home device with its log elsewhere.
const ROOTS: usize = 8192;
const PAGES: usize = 8192 + 2 * 4096 + 8 * 4096;

/// A volume of noise that was stopped in order.
fn stopped<'a>(scene: &'a Scene, flags: &str) -> Volume<'a> {
    Volume::stopped(scene, flags, &noise(1, SIZE))
}

/// Salvages `disk` into `out`, which must end with this code and write to nothing else; answers the document.
#[track_caller]
fn salvage(scene: &Scene, code: i32) -> Value {
    let before = Volume::files(scene);
    let _of_an_earlier_one = fs::remove_file(scene.path("out"));
    let ran = scene.run("salvage disk out --json");
    assert_eq!(ran.code, Some(code), "{ran:?}");
    assert!(before == Volume::files(scene), "something of the volume was written");
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

fn causes(document: &Value) -> Vec<&str> {
    list(document, "ranges").iter().map(|range| range["cause"].as_str().unwrap()).collect()
}

#[track_caller]
fn is_refused_by_others(scene: &Scene) {
    for line in ["serve disk", "serve disk --read-only", "check disk", "check disk --repair"] {
        says(&scene.refused(line), &["copy what can be had of it: evenkeel salvage disk OUT"]);
    }
}

#[test]
fn a_volume_that_is_whole_is_copied_whole_and_takes_room_only_where_it_has_bytes() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve("");
    write(&volume.socket(), 1 << 20, &noise(1, 5000));
    server.stop();
    let found = salvage(&scene, 0);
    assert_eq!((&found["schema"], &found["is_whole"]), (&"evenkeel.salvage/1".into(), &true.into()));
    assert_eq!(found["was_stopped_in_order"], true);
    let out = scene.bytes("out");
    assert_eq!(out.len(), SIZE);
    assert!(
        out[1 << 20..][..5000] == noise(1, 5000) && out.iter().filter(|&&byte| byte != 0).count() <= 5000
    );
    assert!(scene.path("out").metadata().unwrap().blocks() * 512 <= 64 << 10, "it is sparse");
    let ran = scene.done("salvage disk --dry-run");
    says(&ran.stdout, &["nothing is lost, stale or uncertain"]);
}

#[test]
fn a_lost_log_of_a_volume_that_was_stopped_in_order_is_no_loss() {
    let scene = Scene::new();
    let volume = stopped(&scene, FLAGS);
    fs::remove_file(scene.path("disk/log")).unwrap();
    is_refused_by_others(&scene);
    let found = salvage(&scene, 0);
    assert_eq!(found["missing"][0]["path"], "log");
    assert!(scene.bytes("out") == noise(1, SIZE));

    let before = Volume::files(&scene);
    let server = volume.serve("--salvage");
    let ran = scene.run("status disk");
    assert_eq!(ran.code, Some(1));
    says(&ran.complaint(), &["it is in use", "started with --salvage and said then what is damaged"]);
    assert!(contents(&volume.socket()) == noise(1, SIZE));
    server.stop();
    assert!(before == Volume::files(&scene));
}

#[test]
fn what_a_kill_left_is_taken_from_log_and_memory_which_stay_as_they_are() {
    let scene = Scene::new();
    let volume = stopped(&scene, FLAGS);
    let mut server = volume.serve("");
    write(&volume.socket(), 5000, &noise(2, 100_000));
    server.kill();
    let arena = volume.arena().expect("it was killed");
    let in_arena = fs::read(&arena).unwrap();
    let mut expected = noise(1, SIZE);
    expected[5000..105_000].copy_from_slice(&noise(2, 100_000));
    let found = salvage(&scene, 0);
    assert!(found["writes_taken_from_memory"].as_u64().unwrap() > 0, "{found}");
    assert!(scene.bytes("out") == expected);
    assert!(in_arena == fs::read(&arena).unwrap());

    // Without the log that memory belongs to nothing.
    fs::remove_file(scene.path("disk/log")).unwrap();
    let found = salvage(&scene, 1);
    assert_eq!(found["stale_bytes"], SIZE);
    assert!(scene.bytes("out") == noise(1, SIZE), "the state of the last stop");
    let cause = causes(&found).join(", ");
    says(&cause, &["the log is gone, and the volume was not stopped in order", "kept in memory"]);
}

#[test]
fn a_damaged_root_leaves_every_byte_and_says_that_nothing_vouches_for_them() {
    let scene = Scene::new();
    let _volume = stopped(&scene, FLAGS);
    for root in 0..2 {
        scene.flip("disk/home", ROOTS + root * 4096 + 3);
    }
    is_refused_by_others(&scene);
    let found = salvage(&scene, 1);
    assert_eq!((&found["lost_bytes"], &found["stale_bytes"]), (&0.into(), &0.into()));
    assert!(scene.bytes("out") == noise(1, SIZE));
}

#[test]
fn what_lies_behind_an_overwritten_start_of_the_drive_comes_as_it_is_there() {
    let scene = Scene::new();
    let _volume = stopped(&scene, FLAGS);
    let home = scene.bytes("disk/home");
    let mut expected = noise(1, SIZE);
    for wipe in [vec![0; 1 << 20], noise(9, 1 << 20)] {
        let mut wiped = home.clone();
        wiped[..1 << 20].copy_from_slice(&wipe);
        fs::write(scene.path("disk/home"), &wiped).unwrap();
        let found = salvage(&scene, 1);
        assert_eq!((&found["lost_bytes"], &found["uncertain_bytes"]), (&0.into(), &SIZE.into()), "{found}");
        expected[..(1 << 20) - PAGES].copy_from_slice(&wiped[PAGES..1 << 20]);
        assert!(scene.bytes("out") == expected);
    }
}

#[test]
fn damaged_pages_and_superblocks_cost_themselves_alone() {
    let scene = Scene::new();
    let _volume = stopped(&scene, FLAGS);
    let end = scene.bytes("disk/home").len();
    for copy in [0, 4096, end - 8192, end - 4096] {
        scene.flip("disk/home", copy + 100);
    }
    is_refused_by_others(&scene);
    let found = salvage(&scene, 0);
    assert_eq!(found["is_whole"], true);
    scene.flip("disk/home", PAGES + 7 * 4096 + 5);
    let found = salvage(&scene, 1);
    let range = &list(&found, "ranges")[0];
    assert_eq!(
        (&range["offset_bytes"], &range["length_bytes"]),
        (&(7 * 4096).into(), &4096.into()),
        "{found}"
    );
    assert_eq!((&range["condition"], &found["lost_bytes"]), (&"lost".into(), &4096.into()));
    let mut expected = noise(1, SIZE);
    expected[7 * 4096..8 * 4096].fill(0);
    assert!(scene.bytes("out") == expected);
    let ran = scene.run("salvage disk --dry-run");
    says(&ran.stdout, &["lost      4,096 bytes from 28672: its checksum does not match"]);
    says(&ran.complaint(), &["4,096 bytes are lost"]);
}

/// A durable write.
fn write_durably(volume: &Volume<'_>, offset: u64, bytes: &[u8]) {
    let event_loop = EventLoop::new(Backend::Auto).unwrap();
    let env = event_loop.handle();
    event_loop.block_on(async {
        connect(&env, &volume.socket()).await.write(offset, bytes, Durability::Durable).await.unwrap();
    });
}

#[test]
fn a_damaged_record_of_the_log_leaves_the_state_before_it() {
    let scene = Scene::new();
    let volume = stopped(&scene, FLAGS);
    let mut server = volume.serve("--journaling wasteless");
    for number in 0..5 {
        write_durably(&volume, number << 20, &noise(2 + number, 4096));
    }
    server.kill();
    fs::remove_file(volume.arena().unwrap()).unwrap();
    let log = scene.bytes("disk/log");
    let mut commits: Vec<(u64, usize)> = (8192..log.len())
        .step_by(512)
        .filter_map(|at| Some((decode_header(&log[at..], 4096).or(decode_header(&log[at..], 512))?, at)))
        .filter(|(header, _)| header.kind == RecordKind::Commit && header.payload_bytes >= 4000)
        .map(|(header, at)| (header.sequence, at))
        .collect();
    commits.sort_unstable();
    // The third of the five.
    let (sequence, at) = commits[commits.len() - 3];
    scene.flip("disk/log", at + 200);
    is_refused_by_others(&scene);
    let found = salvage(&scene, 1);
    assert_eq!((&found["stale_bytes"], &found["lost_bytes"]), (&SIZE.into(), &0.into()), "{found}");
    says(&causes(&found).join(", "), &[&format!("record {sequence} of the log is damaged")]);
    let mut expected = noise(1, SIZE);
    for number in 0..2 {
        expected[number << 20..][..4096].copy_from_slice(&noise(2 + number as u64, 4096));
    }
    assert!(scene.bytes("out") == expected, "the two before it");
}

#[test]
fn the_right_copy_of_a_mirror_is_taken_and_none_of_it_has_to_be_there_that_another_has() {
    let scene = Scene::new();
    let _volume = stopped(&scene, MIRROR);
    scene.flip("disk/member-0", 8192 + PAGES + 5 * 4096);
    scene.flip("disk/member-1", 8192 + PAGES + 6 * 4096);
    salvage(&scene, 0);
    assert!(scene.bytes("out") == noise(1, SIZE));

    fs::remove_file(scene.path("disk/log-0")).unwrap();
    fs::remove_file(scene.path("disk/member-1")).unwrap();
    let found = salvage(&scene, 1);
    assert_eq!((&found["lost_bytes"], &found["stale_bytes"]), (&4096.into(), &0.into()), "{found}");
    assert_eq!(list(&found, "missing").len(), 2);

    // The superblock is on the log devices alone.
    fs::remove_file(scene.path("disk/log-1")).unwrap();
    let found = salvage(&scene, 1);
    assert_eq!((&found["lost_bytes"], &found["uncertain_bytes"]), (&4096.into(), &SIZE.into()), "{found}");
    let mut expected = noise(1, SIZE);
    expected[5 * 4096..6 * 4096].fill(0);
    assert!(scene.bytes("out") == expected);
}

/// Removes every superblock of a file, wherever it stands.
fn wipe_superblocks(scene: &Scene, name: &str) {
    let mut bytes = scene.bytes(name);
    let pages = bytes.chunks_exact_mut(4096);
    for page in pages.filter(|page| Superblock::decode(page).is_some()) {
        page.fill(0);
    }
    fs::write(scene.path(name), bytes).unwrap();
}

#[test]
fn without_a_superblock_a_volume_that_has_grown_is_found_where_it_lies() {
    let on_members = format!("{MIRROR} --log-on-members");
    for flags in [FLAGS, MIRROR, &on_members] {
        let scene = Scene::new();
        let volume = stopped(&scene, flags);
        for size in ["24m", "40m"] {
            scene.done(&format!("grow disk --size {size}"));
        }
        let server = volume.serve("");
        write(&volume.socket(), 20 << 20, &noise(2, SIZE));
        server.stop();
        let files = scene.names("disk").into_iter().filter(|name| name != "volume.toml");
        for name in files.filter(|name| !name.ends_with(".sock")) {
            wipe_superblocks(&scene, &format!("disk/{name}"));
        }
        let found = salvage(&scene, 1);
        says(&causes(&found).join(", "), &["no superblock can be read"]);
        let mut expected = vec![0; 40 << 20];
        expected[..SIZE].copy_from_slice(&noise(1, SIZE));
        expected[20 << 20..][..SIZE].copy_from_slice(&noise(2, SIZE));
        assert!(scene.bytes("out") == expected, "{flags}");
    }
}

#[test]
fn a_lost_log_is_made_again_where_the_volume_was_stopped_in_order_and_only_there() {
    let scene = Scene::new();
    let volume = stopped(&scene, FLAGS);
    let refused = scene.refused("renew-log disk");
    says(&refused, &["its log is there and belongs to it"]);
    assert!(!refused.contains("salvage"), "nothing is damaged: {refused}");
    fs::rename(scene.path("disk/log"), scene.path("lost")).unwrap();
    is_refused_by_others(&scene);
    says(&scene.refused("serve disk"), &["evenkeel renew-log disk"]);
    let before = Volume::files(&scene);
    let planned = scene.done("renew-log disk --dry-run").stdout;
    says(&planned, &["its log would be made again: disk/log, 16 MiB", "next: the same without --dry-run"]);
    assert!(before == Volume::files(&scene));
    says(&scene.done("renew-log disk").stdout, &["its log is made again", "next: evenkeel serve disk"]);
    says(&scene.done("check disk").stdout, &[" 0 damaged"]);
    let mut server = volume.serve("");
    assert!(contents(&volume.socket()) == noise(1, SIZE));
    write(&volume.socket(), 0, &noise(2, 8192));

    // What is not in the log any more is nowhere.
    server.kill();
    fs::remove_file(scene.path("disk/log")).unwrap();
    let refused = scene.refused("renew-log disk");
    says(&refused, &["was not stopped in order", "evenkeel salvage disk OUT"]);
    assert!(!scene.path("disk/log").exists());
}

#[test]
fn the_lost_log_devices_of_a_mirror_are_made_again_where_all_its_members_say_that_it_was_stopped() {
    let scene = Scene::new();
    let volume = stopped(&scene, MIRROR);
    let logs = ["log-0", "log-1"].map(|name| scene.path("disk").join(name));
    says(&scene.refused("renew-log disk"), &["log-0", "is there and belongs to it", "replace"]);
    for (number, log) in logs.iter().enumerate() {
        fs::rename(log, scene.path(&format!("kept-{number}"))).unwrap();
    }
    says(&scene.refused("serve disk"), &["none of the log devices is there", "evenkeel renew-log disk"]);
    // Its members alone say enough for a salvage, too.
    let found = salvage(&scene, 0);
    assert!(causes(&found).is_empty() && scene.bytes("out") == noise(1, SIZE), "{found}");
    let before = Volume::files(&scene);
    let planned = scene.done("renew-log disk --dry-run").stdout;
    says(&planned, &["its log would be made again: disk/log-0, 16 MiB; disk/log-1, 16 MiB"]);
    fs::rename(scene.path("disk/member-1"), scene.path("away")).unwrap();
    says(&scene.refused("renew-log disk"), &["member-1", "all members are needed"]);
    fs::rename(scene.path("away"), scene.path("disk/member-1")).unwrap();
    assert!(before == Volume::files(&scene));
    fs::write(&logs[1], "mine").unwrap();
    says(&scene.refused("renew-log disk"), &["disk/log-1: it is there already", "--destroy disk/log-1"]);
    assert!(!logs[0].exists() && scene.text("disk/log-1") == "mine");
    says(
        &scene.done("renew-log disk --destroy disk/log-1").stdout,
        &["is made again", "evenkeel serve disk"],
    );
    says(&scene.done("check disk").stdout, &[" 0 damaged"]);
    let mut server = volume.serve("");
    assert!(contents(&volume.socket()) == noise(1, SIZE));
    write_as(&volume.socket(), 0, &noise(2, 8192), Durability::Durable);

    // What the logs of a killed one held is nowhere else, whatever its members said of the stop before.
    server.kill();
    scene.done(&format!("arenas free {} --give-up-writes", volume.arena().unwrap().display()));
    logs.iter().for_each(|log| fs::remove_file(log).unwrap());
    let refused = scene.refused("renew-log disk");
    says(&refused, &["do not say that it was stopped in order", "evenkeel salvage disk OUT"]);
    assert!(logs.iter().all(|log| !log.exists()));
}

#[test]
fn a_log_that_is_the_file_with_the_pages_by_another_name_is_told_so() {
    let scene = Scene::new();
    stopped(&scene, FLAGS);
    fs::remove_file(scene.path("disk/log")).unwrap();
    fs::hard_link(scene.path("disk/home"), scene.path("disk/log")).unwrap();
    for line in ["renew-log disk", "renew-log disk --destroy disk/log"] {
        says(&scene.refused(line), &["disk/log: it is the same file as disk/home, which holds the pages"]);
    }
}

#[test]
fn a_log_that_was_cut_short_is_as_good_as_lost() {
    for bytes in [4096, 1 << 20, (16 << 20) - 1] {
        let scene = Scene::new();
        let volume = stopped(&scene, FLAGS);
        fs::File::options().write(true).open(scene.path("disk/log")).unwrap().set_len(bytes).unwrap();
        scene.refused("serve disk");
        says(&scene.refused("renew-log disk"), &["--destroy disk/log"]);
        says(&scene.done("renew-log disk --destroy disk/log").stdout, &["its log is made again"]);
        says(&scene.done("check disk").stdout, &[" 0 damaged"]);
        volume.expect_contents("", &noise(1, SIZE));
    }
}

#[test]
fn a_log_is_made_over_nothing_that_was_not_named() {
    let scene = Scene::new();
    let volume = stopped(&scene, FLAGS);
    fs::write(scene.path("disk/log"), "mine").unwrap();
    for line in ["renew-log disk", "renew-log disk --destroy home"] {
        says(&scene.refused(line), &["disk/log: it is there already", "--destroy disk/log"]);
    }
    assert_eq!(scene.text("disk/log"), "mine");
    says(&scene.done("renew-log disk --destroy disk/log").stdout, &["its log is made again"]);
    let server = volume.serve("");
    assert!(contents(&volume.socket()) == noise(1, SIZE));
    says(&scene.refused("renew-log disk"), &["stop that one first"]);
    server.stop();
}

#[test]
fn a_mirror_of_which_only_a_member_is_left_that_lacks_writes_is_stale() {
    let scene = Scene::new();
    let volume = stopped(&scene, MIRROR);
    let before = scene.bytes("disk/member-1");
    let server = volume.serve("");
    write(&volume.socket(), 0, &noise(2, SIZE / 2));
    server.stop();
    fs::write(scene.path("disk/member-1"), before).unwrap();
    salvage(&scene, 0);
    fs::remove_file(scene.path("disk/member-0")).unwrap();
    let found = salvage(&scene, 1);
    assert_eq!((&found["stale_bytes"], &found["lost_bytes"]), (&SIZE.into(), &0.into()), "{found}");
    assert_eq!(
        causes(&found),
        ["the members that are there lack writes, and the one that holds them is not there"]
    );
    assert!(scene.bytes("out") == noise(1, SIZE), "as it was");
}

#[test]
fn a_volume_without_its_description_is_told_from_none_and_can_be_described_anew() {
    let scene = Scene::new();
    let volume = stopped(&scene, FLAGS);
    let described = scene.text("disk/volume.toml");
    fs::remove_file(scene.path("disk/volume.toml")).unwrap();
    let line = |name: &str| described.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    let (id, atomic) = (line("id = "), line("atomic_max_bytes = "));
    for line in ["serve disk", "check disk", "salvage disk out", "status disk", "renew-log disk"] {
        let refused = scene.refused(line);
        says(&refused, &["volume.toml: it is missing, and home and log are there", "docs/salvage.md", &id]);
        says(&refused, &["size_bytes = 16777216", &atomic]);
    }
    // As the documentation has it.
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/salvage.md")).unwrap();
    let (_, example) = page.split_once("```toml\n").unwrap();
    let (example, _) = example.split_once("```").unwrap();
    let lines = example.lines().map(|line| match line.split_once(" = ") {
        Some(("id", _)) => id.clone(),
        Some(("atomic_max_bytes", _)) => atomic.clone(),
        Some(("size_bytes", _)) => format!("size_bytes = {SIZE}"),
        _ => line.to_owned(),
    });
    fs::write(scene.path("disk/volume.toml"), lines.collect::<Vec<_>>().join("\n")).unwrap();
    volume.expect_contents("", &noise(1, SIZE));
}

#[test]
fn nothing_is_overwritten_that_was_not_named_and_nothing_of_the_volume_is() {
    let scene = Scene::new();
    let _volume = stopped(&scene, FLAGS);
    fs::write(scene.path("out"), "mine").unwrap();
    says(&scene.refused("salvage disk out"), &["out: it is there already", "--destroy out"]);
    says(&scene.refused("salvage disk out --destroy other"), &["out: it is there already"]);
    assert_eq!(scene.text("out"), "mine");
    let before = Volume::files(&scene);
    for member in ["home", "log", "volume.toml"] {
        let line = format!("salvage disk disk/{member} --destroy disk/{member}");
        says(&scene.refused(&line), &["it is in use"]);
    }
    says(&scene.refused("salvage disk data --destroy data"), &["neither a file nor a block device"]);
    assert!(before == Volume::files(&scene));
    scene.done("salvage disk out --destroy out");
    assert!(scene.bytes("out") == noise(1, SIZE));
    says(&scene.misused("salvage disk"), &["OUT"]);
    says(&scene.refused("salvage nothing out2"), &["no volume is here"]);
    assert!(!scene.path("out2").exists());
}

#[test]
fn what_a_killed_server_left_in_memory_is_not_overwritten() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mut server = volume.serve("");
    write(&volume.socket(), 0, &noise(2, 4096));
    server.kill();
    let arena = volume.arena().unwrap();
    let before = fs::read(&arena).unwrap();
    let line = format!("salvage disk {0} --destroy {0}", arena.display());
    says(&scene.refused(&line), &["acknowledged writes of a volume wait in it"]);
    assert!(fs::read(&arena).unwrap() == before);
}

#[test]
fn a_volume_that_is_served_is_left_alone() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server: Server = volume.serve("");
    says(&scene.refused("salvage disk out"), &["stop that one first"]);
    server.stop();
    assert!(!scene.path("out").exists());
}

#[test]
fn a_volume_on_a_drive_that_has_become_read_only_is_read() {
    let scene = Scene::new();
    let disk = scene.path("disk");
    let mounted = or_skip!(Mounted::tmpfs(&disk, "96m"));
    let _volume = stopped(&scene, FLAGS);
    mounted.make_read_only();
    assert_eq!(scene.run("serve disk").code, Some(2));
    says(&scene.done("check disk").stdout, &[" 0 damaged"]);
    let found = salvage(&scene, 0);
    assert_eq!(found["is_whole"], true);
    assert!(scene.bytes("out") == noise(1, SIZE));
    says(&scene.refused("serve disk --salvage"), &["--nbd unix:SOCKET"]);
    let socket = scene.path("s");
    let line = format!("serve disk --salvage --nbd unix:{}", socket.display());
    let server = Server::start(disk, scene.path("stderr"), scene.command(&line)).ready();
    assert!(contents(&socket) == noise(1, SIZE));
    server.stop();
}
