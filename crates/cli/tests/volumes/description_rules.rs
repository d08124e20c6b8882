//! What `volume.toml` may say after somebody has edited it, and what may be in its place.

use std::fs;
use std::os::unix::net::UnixListener;
use std::process::Output;

use crate::support::root::run;
use crate::support::served::{Ended, Volume, patiently};
use crate::support::{Ran, Scene, says};

const SINGLE: &str = "--size 16m --log-size 16m --buffer 1m --atomic-sectors yes";
const MIRROR: &str = "--layout mirror --size 16m --log-size 16m --buffer 1m --atomic-sectors yes";

/// Runs a command that must be refused in one line, and not wait for anybody; answers that line.
#[track_caller]
fn refused_soon(scene: &Scene, command: &str) -> String {
    let file = fs::File::create(scene.path("complaint")).unwrap();
    let mut ended = Ended(scene.command(command).stderr(file).spawn().unwrap());
    let status = patiently(command, || ended.0.try_wait().unwrap());
    let output = Output { status, stdout: Vec::new(), stderr: scene.bytes("complaint") };
    let ran = Ran::of(command, output);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    ran.complaint()
}

/// That each command that opens the volume is refused with these words when its description has `field = value`, and
/// that nothing is made or changed.
#[track_caller]
fn refused_with(volume: &Volume<'_>, field: &str, value: u64, parts: &[&str]) {
    let scene = volume.scene;
    let description = scene.text("disk/volume.toml");
    let line = |line: &str| match line.starts_with(&format!("{field} = ")) {
        true => format!("{field} = {value}\n"),
        false => format!("{line}\n"),
    };
    let edited: String = description.lines().map(line).collect();
    assert!(edited != description, "no {field} in {description}");
    fs::write(scene.path("disk/volume.toml"), edited).unwrap();
    let devices = || -> Vec<(String, Vec<u8>)> {
        let names = scene.names("disk").into_iter();
        names.map(|name| (name.clone(), scene.bytes(&format!("disk/{name}")))).collect()
    };
    let before = devices();
    for command in ["serve disk", "check disk"] {
        says(&refused_soon(scene, command), parts);
        assert!(devices() == before, "{command} changed something");
        assert_eq!(volume.arena(), None, "{command} took memory");
    }
    fs::write(scene.path("disk/volume.toml"), description).unwrap();
}

#[test]
fn a_buffer_that_the_volume_or_the_machine_cannot_use_is_refused_before_it_is_taken() {
    for flags in [SINGLE, MIRROR] {
        let scene = Scene::new();
        let volume = Volume::create(&scene, flags);
        for bytes in [0, 4096, (64 << 20) + 1, 16 << 30, i64::MAX as u64] {
            let number = format!("buffer_bytes = {bytes}: ");
            refused_with(&volume, "buffer_bytes", bytes, &["disk/volume.toml: ", &number]);
        }
        volume.serve("").stop();
    }
    // The same when it is made.
    let scene = Scene::new();
    says(
        &scene.refused("create disk --size 16m --log-size 16m --buffer 16g"),
        &["--buffer 17179869184", "at most"],
    );
    assert!(!scene.path("disk").exists());
}

#[test]
fn numbers_that_a_volume_was_not_made_with_are_refused_by_their_names() {
    for flags in [SINGLE, MIRROR, &format!("{MIRROR} --log-on-members")] {
        let scene = Scene::new();
        let volume = Volume::create(&scene, flags);
        let mut fields = vec![("atomic_max_bytes", 16 << 10), ("size_bytes", 16 << 20)];
        if flags != SINGLE {
            fields.push(("log_bytes", 16 << 20));
        }
        for (field, made) in fields {
            // One that is far too large, one page more or less, and one that is none.
            for bytes in [1 << 40, made + 4096, made - 4096, 1] {
                refused_with(&volume, field, bytes, &["disk", field]);
            }
        }
        for sector_bytes in [0, 3, 8192, 64 << 10, 1 << 20, u32::MAX.into()] {
            refused_with(&volume, "sector_bytes", sector_bytes, &["disk/volume.toml", "sector_bytes = "]);
        }
        volume.serve("").stop();
    }
}

#[test]
fn what_is_no_file_in_the_place_of_the_description_is_told_and_not_waited_for() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, MIRROR);
    let at = scene.path("disk/volume.toml");
    fs::rename(&at, scene.path("kept")).unwrap();
    let shown = at.display().to_string();
    let commands = ["serve disk", "check disk", "status disk", "replace disk member-0 new"];
    let all_refused = |part: &str| {
        for command in commands {
            says(&refused_soon(&scene, command), &["disk/volume.toml: ", part]);
        }
    };
    run("mkfifo", &[&shown]).unwrap();
    all_refused("it is a FIFO");
    fs::remove_file(&at).unwrap();
    fs::create_dir(&at).unwrap();
    all_refused("it is a folder");
    fs::remove_dir(&at).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &at).unwrap();
    all_refused("it is a character device");
    fs::remove_file(&at).unwrap();
    let listener = UnixListener::bind(&at);
    if listener.is_ok() {
        all_refused("it is a socket");
        fs::remove_file(&at).unwrap();
    }
    // All of a description, and then far too much behind it.
    fs::copy(scene.path("kept"), &at).unwrap();
    fs::OpenOptions::new().write(true).open(&at).unwrap().set_len(1 << 40).unwrap();
    all_refused("more than 65536 bytes");
    fs::rename(scene.path("kept"), &at).unwrap();
    volume.serve("").stop();
}

#[test]
fn a_member_or_log_device_that_is_no_file_is_refused_by_its_name_and_not_waited_for() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, MIRROR);
    for name in ["member-1", "log-0"] {
        let (at, kept) = (scene.path(&format!("disk/{name}")), scene.path("kept"));
        fs::rename(&at, &kept).unwrap();
        let refused = |kind: &str| {
            for command in ["serve disk", "check disk"] {
                says(
                    &refused_soon(&scene, command),
                    &[&format!("disk/{name}: cannot hold a member: it is {kind}")],
                );
            }
        };
        run("mkfifo", &[&at.display().to_string()]).unwrap();
        refused("a FIFO");
        fs::remove_file(&at).unwrap();
        fs::create_dir(&at).unwrap();
        refused("a folder");
        fs::remove_dir(&at).unwrap();
        if UnixListener::bind(&at).is_ok() {
            refused("a socket");
            fs::remove_file(&at).unwrap();
        }
        fs::rename(&kept, &at).unwrap();
    }
    // Nobody was left behind for it.
    let server = volume.serve("");
    let mirror = server.status().mirror.unwrap();
    assert!(mirror.members.iter().all(|member| member.standing == "in-sync"), "{mirror:?}");
    assert!(mirror.logs.iter().all(|log| log.standing == "in-sync"), "{mirror:?}");
    server.stop();
}

#[test]
fn what_is_wrong_with_it_is_said_in_words_with_the_line_where_it_is() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, SINGLE);
    refused_with(&volume, "size_bytes", 1_147_483_649, &["size_bytes = 1147483649", "1.07 GiB", "put back"]);
    refused_with(&volume, "format", 99, &["format 99", "reads format 1", "a newer one made it"]);
    let description = scene.text("disk/volume.toml");
    for (wrong, parts) in [
        ("size_bytes = \"much\"", &["invalid type: string \"much\""][..]),
        ("size_bytes = = 1", &["disk/volume.toml: line "]),
        ("", &["missing field `size_bytes`"]),
    ] {
        let line =
            |line: &str| if line.starts_with("size_bytes") { wrong.to_owned() } else { line.to_owned() };
        let edited: Vec<String> = description.lines().map(line).collect();
        fs::write(scene.path("disk/volume.toml"), edited.join("\n")).unwrap();
        let said = scene.refused("serve disk");
        says(&said, parts);
        assert!(!said.contains('^') && !said.contains(" | "), "a drawing on one line: {said}");
    }
    fs::write(scene.path("disk/volume.toml"), description).unwrap();
    volume.serve("").stop();
}
