//! Volumes that earlier versions made: each later one opens them, and nothing in them is lost.
//!
//! `formats/VERSION/NAME.tar.xz` holds the folder of a volume whose power was cut while durable writes lay in its log, as that
//! version left it. They stay as they are for as long as there is a version. A change of a format adds those of its own:
//! `cargo test -p evenkeel --test volumes formats:: -- --ignored` makes them, in the folder of the version that the command says it is
//! of; it overwrites none.

use std::fs;
use std::path::{Path, PathBuf};

use evenkeel_engine::device::Durability;

use crate::support::load::{contents, write_as};
use crate::support::root::{programs, system};
use crate::support::served::{Volume, noise};
use crate::support::{Scene, or_skip};

const FORMATS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/formats");

/// How each kind is made.
const KINDS: [(&str, &str); 3] = [
    ("single", "--size 16m --log-size 16m --buffer 1m --sparse"),
    ("mirror", "--layout mirror --size 16m --log-size 16m --buffer 1m --sparse"),
    ("mirror-own-log", "--layout mirror --log-on-members --size 16m --log-size 16m --buffer 1m --sparse"),
];

/// What was written where, by seed: one page in parts, some pages whole, and all around the end.
const WRITES: [(usize, usize, u64); 4] =
    [(1000, 300, 1), (1 << 20, 8192, 2), ((8 << 20) + 500, 4500, 3), ((16 << 20) - 700, 700, 4)];

/// The same behind a checkpoint, over some of it: what is in the log alone.
const LOGGED: [(usize, usize, u64); 2] = [(1100, 50, 5), ((1 << 20) + 4096, 4000, 6)];

fn expected() -> Vec<u8> {
    let mut bytes = vec![0; 16 << 20];
    for (offset, len, seed) in WRITES.into_iter().chain(LOGGED) {
        bytes[offset..][..len].copy_from_slice(&noise(seed, len));
    }
    bytes
}

fn folder_of_this_version(scene: &Scene) -> PathBuf {
    let said = scene.done("--version").stdout;
    let version = said.split_whitespace().nth(1).expect("evenkeel VERSION");
    Path::new(FORMATS).join(version)
}

#[test]
fn volumes_that_earlier_versions_made_open_with_all_that_was_durable() {
    or_skip!(programs(&["tar", "xz"]));
    let mut opened = 0;
    for version in fs::read_dir(FORMATS).unwrap() {
        for archive in fs::read_dir(version.unwrap().path()).unwrap() {
            let archive = archive.unwrap().path();
            let scene = Scene::new();
            let unpacked =
                system("tar").arg("-xJf").arg(&archive).arg("-C").arg(scene.folder()).status().unwrap();
            assert!(unpacked.success(), "{}", archive.display());
            let volume = Volume { scene: &scene };
            let server = volume.serve("");
            assert!(contents(&volume.socket()) == expected(), "{}", archive.display());
            write_as(&volume.socket(), 4 << 20, &noise(7, 5000), Durability::Durable);
            server.stop();
            scene.done("check disk");
            opened += 1;
        }
    }
    assert!(opened >= KINDS.len(), "{opened} volumes");
}

#[test]
#[ignore = "makes the volumes of this version"]
fn volumes_of_this_version_are_kept() {
    for (name, flags) in KINDS {
        let scene = Scene::new();
        let archive = folder_of_this_version(&scene).join(format!("{name}.tar.xz"));
        fs::create_dir_all(archive.parent().unwrap()).unwrap();
        assert!(!archive.exists(), "{} is there, and stays", archive.display());
        let volume = Volume::create(&scene, flags);
        let server = volume.serve("");
        WRITES.iter().for_each(|&(offset, len, seed)| {
            write_as(&volume.socket(), offset as u64, &noise(seed, len), Durability::Durable);
        });
        server.stop();
        let mut server = volume.serve("");
        LOGGED.iter().for_each(|&(offset, len, seed)| {
            write_as(&volume.socket(), offset as u64, &noise(seed, len), Durability::Durable);
        });
        server.kill();
        let packed = system("tar")
            .args(["--sparse", "--owner=0", "--group=0", "--exclude=*.sock", "-cJf"])
            .arg(&archive)
            .arg("-C")
            .arg(scene.folder())
            .arg("disk")
            .status()
            .unwrap();
        assert!(packed.success());
    }
}
