//! A volume of another layout: what is copied, what stays, and what a failure leaves.

use std::fs;

use crate::support::load::write;
use crate::support::served::{Volume, noise};
use crate::support::{Scene, says};

const FLAGS: &str = "--size 8m --log-size 4m --buffer 1m";
const SIZE: usize = 8 << 20;

/// Bytes with a hole in the middle, of which nothing was written.
fn bytes() -> Vec<u8> {
    let mut bytes = noise(1, SIZE);
    bytes[(3 << 20) + 4096..5 << 20].fill(0);
    bytes
}

fn filled<'a>(scene: &'a Scene, bytes: &[u8]) -> Volume<'a> {
    let volume = Volume::create(scene, FLAGS);
    let server = volume.serve("");
    write(&volume.socket(), 0, &bytes[..(3 << 20) + 4096]);
    write(&volume.socket(), 5 << 20, &bytes[5 << 20..]);
    server.stop();
    volume
}

#[test]
fn a_volume_goes_through_all_layouts_and_holds_what_it_held() {
    let scene = Scene::new();
    let bytes = bytes();
    let volume = filled(&scene, &bytes);
    let made = scene.done("convert disk --layout mirror --log-size 4m").stdout;
    says(&made, &["layout mirror from now on", "no longer used, and as they were: disk/home disk/log"]);
    assert!(
        scene.text("disk/volume.toml").contains("path = \"member-1\""),
        "{}",
        scene.text("disk/volume.toml")
    );
    says(&scene.done("check disk").stdout, &["1,537 pages checked", "0 damaged"]);
    volume.expect_contents("", &bytes);
    // The single member is not needed any more, nor looked at.
    fs::remove_file(scene.path("disk/home")).unwrap();
    let members: String = (0..3).map(|number| format!(" --member far-{number}")).collect();
    scene.done(&format!("convert disk --layout rs:2+1 --shard 8k --log-size 4m{members} --log l0 --log l1"));
    says(&scene.done("check disk").stdout, &["0 damaged"]);
    volume.expect_contents("", &bytes);
    fs::remove_file(scene.path("disk/log")).unwrap();
    says(&scene.done("convert disk --layout single --log-size 4m").stdout, &["far-0", "l1"]);
    volume.expect_contents("", &bytes);
    // It is as small as its contents: what was never written is not.
    says(&scene.done("check disk").stdout, &["1,537 pages checked", "0 damaged"]);
}

#[test]
fn where_one_place_is_named_the_other_is_where_it_is_unless_named() {
    let scene = Scene::new();
    let bytes = bytes();
    let volume = filled(&scene, &bytes);
    scene.done("convert disk --layout mirror --log-size 4m");
    fs::remove_file(scene.path("disk/home")).unwrap();
    fs::remove_file(scene.path("disk/log")).unwrap();
    scene.done("convert disk --layout single --log-size 4m --member elsewhere");
    assert!(scene.text("disk/volume.toml").contains("path = \"log\""), "{}", scene.text("disk/volume.toml"));
    volume.expect_contents("", &bytes);
}

#[test]
fn what_is_refused_or_interrupted_leaves_the_volume_as_it_was() {
    let scene = Scene::new();
    let bytes = bytes();
    let volume = filled(&scene, &bytes);
    let (names, description) = (scene.names("disk"), scene.text("disk/volume.toml"));
    says(
        &scene.done("convert disk --layout mirror --log-size 4m --dry-run").stdout,
        &["would copy to a disk of 8 MiB in disk", "member-1", "survives", "would stay as they are"],
    );
    says(&scene.refused("convert disk --layout single"), &["disk/home", "--destroy"]);
    // It is no place for its own copy, by whatever name, though it was named to be overwritten.
    fs::hard_link(scene.path("disk/home"), scene.path("other-name")).unwrap();
    for name in ["disk/home", "other-name"] {
        let line = format!("convert disk --layout single --member {name} --log new-log --destroy {name}");
        says(&scene.refused(&line), &[name, "it holds the volume that is to be copied"]);
    }
    says(
        &scene.refused("convert disk --layout single --member new --log disk/log --destroy disk/log"),
        &["disk/log", "it holds the volume that is to be copied"],
    );
    fs::remove_file(scene.path("other-name")).unwrap();
    fs::write(scene.path("disk/member-1"), "mine").unwrap();
    says(&scene.refused("convert disk --layout mirror"), &["disk/member-1", "--destroy"]);
    assert_eq!(scene.text("disk/member-1"), "mine");
    fs::remove_file(scene.path("disk/member-1")).unwrap();
    says(&scene.misused("convert disk"), &["--layout"]);
    // Damage is found while it is copied; what was made goes again.
    let home = scene.bytes("disk/home");
    let at = home.windows(4096).step_by(4096).position(|page| page == &bytes[..4096]).unwrap();
    scene.flip("disk/home", at * 4096 + 7);
    says(&scene.refused("convert disk --layout mirror --log-size 4m"), &["disk"]);
    scene.flip("disk/home", at * 4096 + 7);
    assert_eq!((scene.names("disk"), scene.text("disk/volume.toml")), (names, description));
    volume.expect_contents("", &bytes);
}

#[test]
fn what_a_kill_left_of_a_conversion_is_in_nobodys_way() {
    let scene = Scene::new();
    let bytes = bytes();
    let volume = filled(&scene, &bytes);
    fs::create_dir(scene.path("disk/.evenkeel-convert-1")).unwrap();
    fs::write(scene.path("disk/.evenkeel-convert-1/volume.toml"), "half").unwrap();
    fs::write(scene.path("disk/member-0"), "half").unwrap();
    says(&scene.refused("convert disk --layout mirror --log-size 4m"), &["disk/member-0", "--destroy"]);
    let over = scene.path("disk").canonicalize().unwrap().join("member-0");
    let (other, log) = (scene.path("disk/member-1"), "--log disk/a --log disk/b");
    scene.done(&format!(
        "convert disk --layout mirror --log-size 4m --member {} --member {} {log} --destroy {}",
        over.display(),
        other.display(),
        over.display()
    ));
    assert!(!scene.path("disk/.evenkeel-convert-1").exists());
    volume.expect_contents("", &bytes);
}
