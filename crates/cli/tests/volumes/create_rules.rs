//! What `create` refuses before anything is lost, and what becomes of files that it was told to overwrite.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;

use crate::support::load::{contents, write};
use crate::support::root::{LoopDevice, Mounted, programs, run};
use crate::support::served::{Volume, noise};
use crate::support::{Scene, or_skip, says, skip};

const FLAGS: &str = "--size 16m --log-size 16m --buffer 1m";

/// The number that stands behind `words` in `line`.
#[track_caller]
fn number_behind(line: &str, words: &str) -> u64 {
    let behind = line.split_once(words).unwrap_or_else(|| panic!("no `{words}` in: {line}")).1;
    let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("no number behind `{words}` in: {line}"))
}

/// That `line` is refused, in earnest and as a plan, and nothing is made; answers why.
#[track_caller]
fn refused_and_nothing_made(scene: &Scene, line: &str) -> String {
    let before = scene.names(".");
    let planned = scene.refused(&format!("{line} --dry-run"));
    // How much is free changes from one moment to the next.
    let words = |said: &str| said.replace(|each: char| each.is_ascii_digit(), "");
    assert_eq!(words(&scene.refused(line)), words(&planned));
    assert_eq!(scene.names("."), before, "something was made");
    planned
}

#[test]
fn a_member_of_a_volume_that_is_served_is_not_overwritten() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let server = volume.serve("");
    write(&volume.socket(), 4096, &noise(1, 100_000));
    for (option, member) in [("--member", "disk/home"), ("--log", "disk/log"), ("--member", "disk/log")] {
        let line = format!("create other {FLAGS} {option} {member} --destroy {member}");
        says(&refused_and_nothing_made(&scene, &line), &[member, "in use", "stop"]);
    }
    assert!(contents(&volume.socket())[4096..][..100_000] == noise(1, 100_000));
    server.stop();
    says(&scene.done("check disk").stdout, &[" 0 damaged"]);
}

#[test]
fn what_is_neither_a_file_nor_a_block_device_is_no_member() {
    let scene = Scene::new();
    run("mkfifo", &[&scene.path("pipe").display().to_string()]).unwrap();
    let _listener = UnixListener::bind(scene.path("socket"));
    let mut kinds = vec![("pipe", "a FIFO"), ("data", "a folder")];
    if scene.path("socket").exists() {
        kinds.push(("socket", "a socket"));
    }
    // Like /dev/null, which root could replace.
    if run("mknod", &[&scene.path("null").display().to_string(), "c", "1", "3"]).is_ok() {
        kinds.push(("null", "a character device"));
    }
    for (name, kind) in kinds {
        let before = scene.path(name).metadata().unwrap();
        for member in [format!("--member {name}"), format!("--member {name} --destroy {name}")] {
            let line = refused_and_nothing_made(&scene, &format!("create disk {FLAGS} {member}"));
            says(&line, &[name, kind, "a file, a block device or an export"]);
        }
        let after = scene.path(name).metadata().unwrap();
        assert_eq!((after.ino(), after.file_type()), (before.ino(), before.file_type()));
        assert!(!after.file_type().is_file() && !after.file_type().is_block_device());
    }
}

#[test]
fn a_file_is_overwritten_where_it_is_and_a_link_to_it_stays_a_link() {
    let scene = Scene::new();
    fs::write(scene.path("precious"), noise(1, 70_001)).unwrap();
    let inode = scene.path("precious").metadata().unwrap().ino();
    std::os::unix::fs::symlink("precious", scene.path("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", scene.path("astray")).unwrap();
    let line =
        refused_and_nothing_made(&scene, &format!("create disk {FLAGS} --member astray --destroy astray"));
    says(&line, &["astray", "a link to nothing"]);
    let both = format!("create disk {FLAGS} --member link --destroy link --log precious --destroy precious");
    says(&refused_and_nothing_made(&scene, &both), &["link", "precious", "the same"]);

    let volume = Volume::create(&scene, &format!("{FLAGS} --member link --destroy link"));
    assert!(scene.path("link").is_symlink());
    let made = scene.path("precious").metadata().unwrap();
    assert_eq!(made.ino(), inode, "another file is in its place");
    assert!(made.len() >= 16 << 20 && made.blocks() * 512 >= made.len());
    let server = volume.serve("");
    assert!(contents(&volume.socket()).iter().all(|&byte| byte == 0), "what was there before shows");
    write(&volume.socket(), 0, &noise(2, 50_000));
    server.stop();
    says(&scene.done("check disk").stdout, &[" 0 damaged"]);

    // One that is larger than it needs to be.
    fs::write(scene.path("large"), noise(3, 40 << 20)).unwrap();
    let again = Scene::new();
    let large = scene.path("large").display().to_string();
    let volume = Volume::create(&again, &format!("{FLAGS} --member {large} --destroy {large}"));
    assert!(scene.path("large").metadata().unwrap().len() < 20 << 20);
    volume.serve("").stop();
    says(&again.done("check disk").stdout, &[" 0 damaged"]);
}

#[test]
fn without_room_nothing_is_overwritten_and_nothing_is_begun() {
    let scene = Scene::new();
    let _small = or_skip!(Mounted::tmpfs(&scene.path("small"), "40m"));
    fs::write(scene.path("small/precious"), noise(1, 8 << 20)).unwrap();
    let precious = "--member small/precious --destroy small/precious";
    let line = format!("create disk --size 64m --log-size 16m --buffer 1m {precious}");
    says(
        &refused_and_nothing_made(&scene, &line),
        &["small/precious", "56.1 MiB of room are needed", "32 MiB are free", "a smaller volume"],
    );
    assert!(scene.bytes("small/precious") == noise(1, 8 << 20));
    // Each would find room, both together do not.
    let line = "create small/disk --size 24m --log-size 16m --buffer 1m";
    says(&refused_and_nothing_made(&scene, line), &["small/disk", "a smaller volume"]);
    assert_eq!(scene.names("small"), ["precious".to_owned()].into());
    // What a file has it need not find.
    let volume = Volume::create(&scene, &format!("--size 36m --log-size 16m --buffer 1m {precious}"));
    volume.serve("").stop();
}

#[test]
fn a_buffer_with_which_the_volume_would_not_open_is_refused() {
    let scene = Scene::new();
    for buffer in ["1", "4k", "20k", "18446744073709547520", "9223372036854775807", "1048576g"] {
        let line = format!("create disk --size 16m --log-size 16m --buffer {buffer}");
        says(&refused_and_nothing_made(&scene, &line), &["--buffer "]);
    }
    let line = scene.refused("create disk --size 16m --log-size 16m --buffer 1");
    let least = number_behind(&line, "at least ");
    let volume = Volume::create(&scene, &format!("--size 16m --log-size 16m --buffer {least}"));
    let server = volume.serve("");
    write(&volume.socket(), 100, &noise(1, 1_000_001));
    assert!(contents(&volume.socket())[100..][..1_000_001] == noise(1, 1_000_001));
    server.stop();
    scene.refused(&format!("create other --size 16m --log-size 16m --buffer {}", least - 1));
}

#[test]
fn a_log_that_is_too_small_is_refused_with_the_smallest_that_is_not() {
    let scene = Scene::new();
    for (number, flags) in ["", "--atomic-max 64k", "--atomic-sectors yes"].iter().enumerate() {
        let line = refused_and_nothing_made(
            &scene,
            &format!("create disk{number} --size 16m {flags} --log-size 4k"),
        );
        says(&line, &["--log-size 4096", "at least "]);
        let least = number_behind(&line, "at least ");
        scene.refused(&format!("create disk{number} --size 16m {flags} --log-size {}", least - 4096));
        scene.done(&format!("create disk{number} --size 16m {flags} --log-size {least}"));
        says(&scene.done(&format!("check disk{number}")).stdout, &[" 0 damaged"]);
    }
    for (atomic_max, word) in [("1k", "at least "), ("1g", "at most ")] {
        let line =
            refused_and_nothing_made(&scene, &format!("create disk --size 16m --atomic-max {atomic_max}"));
        says(&line, &["--atomic-max", word]);
    }
}

#[test]
fn a_plan_finds_what_cannot_be_made() {
    let scene = Scene::new();
    for size in ["18446744073709547520", "9223372036854775808", "1048576t"] {
        for sparse in ["", "--sparse"] {
            let line = refused_and_nothing_made(&scene, &format!("create disk --size {size} {sparse}"));
            says(&line, &["disk", "smaller --size"]);
        }
    }
    says(&refused_and_nothing_made(&scene, "create no/where --size 16m"), &["no/where", "No such file"]);
    says(
        &refused_and_nothing_made(&scene, "create disk --size 16m --member no/where"),
        &["no/where", "No such file"],
    );
    says(
        &refused_and_nothing_made(&scene, "create disk --size 16m --log-size 1048576t"),
        &["disk/log", "--log-size"],
    );
}

/// A small btrfs, on which what fills up the disk is done.
#[test]
fn a_full_copy_on_write_file_system_takes_no_write_that_was_acknowledged() {
    or_skip!(programs(&["mkfs.btrfs", "lsattr"]));
    let scene = Scene::new();
    let device = or_skip!(LoopDevice::over(&scene.path("image"), 256 << 20, 0));
    let mounted = run("mkfs.btrfs", &["-q", "-f", &device.node])
        .and_then(|_| Mounted::of(&device.node, &scene.path("mounted")));
    let _mounted = or_skip!(mounted);
    let inside = Scene::below(&scene.path("mounted"));
    fs::write(inside.path("old"), noise(9, 1 << 20)).unwrap();
    let volume = Volume::create(&inside, "--size 32m --log-size 16m --buffer 1m --member old --destroy old");
    for member in ["old", "disk/log"] {
        let flags = run("lsattr", &[&inside.path(member).display().to_string()]).unwrap();
        assert!(flags.split_whitespace().next().unwrap().contains('C'), "copied on write: {flags}");
    }
    let server = volume.serve("");
    let fill = inside.path("filler").display().to_string();
    let _until_it_is_full = run("dd", &["if=/dev/zero", &format!("of={fill}"), "bs=64k", "oflag=direct"]);
    for round in 0..4 {
        for part in 0..8 {
            write(&volume.socket(), part * 4_000_000, &noise(8 * round + part, 3_000_001));
        }
    }
    assert_eq!(server.status().failure, None);
    server.stop();
    fs::remove_file(&fill).unwrap();
    let server = volume.serve("");
    let found = contents(&volume.socket());
    for part in 0..8 {
        assert!(found[part as usize * 4_000_000..][..3_000_001] == noise(24 + part, 3_000_001));
    }
    server.stop();
}

#[test]
fn a_device_that_is_not_there_does_not_become_a_file_in_memory() {
    let scene = Scene::new();
    let missing = "/dev/evenkeel-no-such-device";
    for option in ["--member", "--log"] {
        let line = format!("create disk {FLAGS} {option} {missing}");
        let why = refused_and_nothing_made(&scene, &line);
        says(&why, &[missing, "no such device is there", "lsblk"]);
    }
    scene.done(&format!("create disk {FLAGS} --layout mirror"));
    says(&scene.refused(&format!("replace disk member-1 {missing}")), &["no such device is there"]);
    says(&scene.refused(&format!("salvage disk {missing}")), &["no such device is there"]);
    assert!(!fs::exists(missing).unwrap());
}

#[test]
fn a_member_in_memory_is_warned_of() {
    let Some(memory) = Scene::in_memory() else {
        return skip("a_member_in_memory_is_warned_of", "no /dev/shm");
    };
    let scene = Scene::new();
    let member = memory.path("home").display().to_string();
    let line = format!("create disk {FLAGS} --member {member}");
    for line in [format!("{line} --dry-run"), line] {
        let said = scene.done(&line).stdout;
        says(&said, &[&format!("warning: {member}: it is in memory (tmpfs)"), "power cut"]);
        assert_eq!(said.matches("it is in memory").count(), 1, "{said}");
    }
    let said = scene.done(&format!("create mirror --layout mirror {FLAGS}")).stdout;
    assert!(!said.contains("it is in memory"), "{said}");
    let member = memory.path("member").display().to_string();
    says(&scene.done(&format!("replace mirror member-1 {member}")).stdout, &["it is in memory (tmpfs)"]);
}

#[test]
fn what_would_be_lost_of_another_volume_is_said_and_nothing_is_named_to_be_lost_in_vain() {
    let scene = Scene::new();
    scene.done(&format!("create other {FLAGS}"));
    let line = format!("create disk {FLAGS} --member other/home --destroy other/home");
    let said = scene.done(&format!("{line} --dry-run")).stdout;
    says(&said, &["other/home, ", "it is part of the volume in other, which would be lost"]);
    let line = format!("create disk {FLAGS} --destroy other/home");
    let why = refused_and_nothing_made(&scene, &line);
    says(&why, &["other/home: it may be overwritten, and the volume takes nothing there", "leave it out"]);
}
