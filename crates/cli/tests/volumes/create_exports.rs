//! `create --dry-run` with exports as members: what it says of them, and that it refuses what `create` refuses.

use std::process::{Command, Stdio};

use crate::support::far::{Drive, uri};
use crate::support::load::{contents, write};
use crate::support::root::{programs, system};
use crate::support::served::{Ended, Volume, noise, patiently};
use crate::support::{Scene, or_skip, says};

const FLAGS: &str = "--size 16m --log-size 16m --buffer 1m";

/// That this cannot be made, by a dry run and in earnest, and nothing is; answers what the dry run says.
#[track_caller]
fn refused_both(scene: &Scene, line: &str, parts: &[&str]) {
    let before = scene.names(".");
    for line in [format!("{line} --dry-run"), line.to_owned()] {
        let ran = scene.run(&line);
        assert_eq!((ran.code, ran.stderr.lines().count()), (Some(2), 1), "{ran:?}");
        says(&ran.stderr, parts);
    }
    assert_eq!(scene.names("."), before, "something was made");
}

#[test]
fn a_dry_run_says_what_an_export_is_and_what_it_holds_and_disturbs_nobody() {
    let scene = Scene::new();
    let far = Drive::start(&scene, 0);
    let uri = &far.uri;
    let line = format!("create disk {FLAGS} --member {uri} --destroy {uri}");
    let told = scene.done(&format!("{line} --dry-run")).stdout;
    says(
        &told,
        &[
            "would make a disk of 16 MiB",
            &format!("  {uri}: an export of 64 MiB, flush, FUA, "),
            "; its server keeps other writers off; it holds no volume\n",
        ],
    );
    assert!(!scene.path("disk").exists());
    let volume = Volume { scene: &scene };
    scene.done(&line);
    let server = volume.serve("");
    write(&volume.socket(), 0, &noise(1, 100_000));
    // Somebody's volume writes to it.
    let other = line.replacen("disk", "other", 1);
    refused_both(&scene, &other, &[uri, "volume"]);
    says(
        &scene.run(&format!("{other} --dry-run")).stderr,
        &["a volume that is being served writes to it: stop that one"],
    );
    says(&scene.run(&format!("{other} --dry-run")).stdout, &[&format!("{uri}: cannot be used")]);
    write(&volume.socket(), 200_000, &noise(2, 100_000));
    assert!(contents(&volume.socket())[200_000..300_000] == noise(2, 100_000));
    server.stop();
    let told = scene.done(&format!("{other} --dry-run")).stdout;
    says(&told, &["; it holds volume ", " of 16 MiB, or its log\n"]);
    scene.done("check disk");
}

#[test]
fn an_export_that_is_too_small_or_not_there_is_refused_by_a_dry_run_too() {
    let scene = Scene::new();
    let mut far = Drive::start(&scene, 0);
    let uri = far.uri.clone();
    let large = format!("create disk --size 100m --log-size 16m --buffer 1m --member {uri} --destroy {uri}");
    refused_both(&scene, &large, &[&uri, "it has ", " are needed"]);
    far.server.kill();
    refused_both(&scene, &large.replace("100m", "16m"), &[&uri, "cannot connect"]);
}

#[test]
fn an_export_of_a_mirror_is_looked_at_like_any_other() {
    let scene = Scene::new();
    let far = Drive::start(&scene, 0);
    let uri = &far.uri;
    let line = format!("create disk --layout mirror {FLAGS} --member near --member {uri} --destroy {uri}");
    says(&scene.done(&format!("{line} --dry-run")).stdout, &["it holds no volume"]);
    scene.done(&line);
    let told =
        scene.done(&format!("{} --dry-run", line.replace("disk", "other").replace("near", "next"))).stdout;
    says(&told, &["; it holds member 1 of volume "]);
}

#[test]
fn servers_of_others_are_told_apart_by_what_they_take() {
    or_skip!(programs(&["nbdkit"]));
    let scene = Scene::new();
    let nbdkit = |socket: &str, flags: &[&str]| {
        let mut command: Command = system("nbdkit");
        command.args(["--foreground", "--unix"]).arg(scene.path(socket)).args(flags);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let process = Ended(command.spawn().unwrap());
        patiently("nbdkit", || scene.path(socket).exists().then_some(()));
        process
    };
    let create = |socket: &str| {
        let uri = uri(&scene.path(socket));
        format!("create disk {FLAGS} --member {uri} --destroy {uri}")
    };
    let _many = nbdkit("many", &["memory", "64m"]);
    refused_both(&scene, &create("many"), &["several connections at a time", "--unfenced"]);
    let told = scene.done(&format!("{} --unfenced --dry-run", create("many"))).stdout;
    says(&told, &["an export of 64 MiB, flush, FUA, trim, multi-conn; its server knows nothing of writers"]);
    let _read_only = nbdkit("read-only", &["--readonly", "--filter=limit", "memory", "64m", "limit=1"]);
    refused_both(&scene, &create("read-only"), &["cannot hold a member", "read-only"]);
    let _one = nbdkit("one", &["--filter=limit", "memory", "64m", "limit=1"]);
    says(&scene.done(&format!("{} --dry-run", create("one"))).stdout, &["it holds no volume"]);
    scene.done(&create("one"));
}
