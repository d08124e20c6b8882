//! A volume that is moved to a drive with other sectors: loop devices of 512 and of 4096 bytes, for which one must be root.

use std::fs;
use std::path::Path;

use crate::support::load::{contents, write_as};
use crate::support::root::{LoopDevice, Mounted, must_be_root, programs, run};
use crate::support::served::{Volume, noise};
use crate::support::{Scene, says, skip};
use evenkeel_engine::device::Durability;

/// An ext4 file system on a loop device with sectors of this size.
fn mounted(scene: &Scene, sector_bytes: u32) -> Result<(LoopDevice, Mounted), String> {
    let image = scene.path(&format!("image-{sector_bytes}"));
    let device = LoopDevice::with_sectors(&image, 160 << 20, sector_bytes)?;
    let mounted = device.mount_ext4(&scene.path(&format!("on-{sector_bytes}")))?;
    Ok((device, mounted))
}

/// One with sectors of 512 bytes, and one of 4096.
fn both_mounted(scene: &Scene) -> Result<[(LoopDevice, Mounted); 2], String> {
    must_be_root()?;
    programs(&["mkfs.ext4", "losetup"])?;
    Ok([mounted(scene, 512)?, mounted(scene, 4096)?])
}

fn copy(from: &Path, to: &Path) {
    run("cp", &["-a", &from.display().to_string(), &to.display().to_string()]).unwrap();
}

#[test]
fn a_volume_that_is_moved_to_larger_sectors_keeps_no_log_there_and_its_pages_are_promised_nothing() {
    const NAME: &str = "a_volume_that_is_moved_to_larger_sectors_keeps_no_log_there";
    let scene = Scene::new();
    let _mounts = match both_mounted(&scene) {
        Ok(mounts) => mounts,
        Err(why) => return skip(NAME, &why),
    };
    let (small, large) = (Scene::below(&scene.path("on-512")), Scene::below(&scene.path("on-4096")));
    let volume = Volume::create(&small, "--size 32m --log-size 16m --buffer 1m --atomic-sectors yes");
    let description = small.text("disk/volume.toml");
    if !description.contains("sector_bytes = 512") {
        return skip(NAME, "what is below the loop devices has larger sectors itself");
    }
    let server = volume.serve("");
    write_as(&volume.socket(), 5000, &noise(1, 70_001), Durability::Durable);
    server.stop();

    copy(&small.path("disk"), &large.path("disk"));
    for command in ["serve disk", "check disk"] {
        let line = large.refused(command);
        says(&line, &["sectors of 512 bytes", "4096 at once", "move the log"]);
        assert!(!line.contains("salvage"), "nothing is damaged: {line}");
    }
    // The log where it was, and the pages here: a page of which a little changes is logged whole.
    let log = small.path("disk/log").display().to_string();
    let moved = description.replace("path = \"log\"", &format!("path = \"{log}\""));
    assert_ne!(moved, description);
    fs::write(large.path("disk/volume.toml"), &moved).unwrap();
    fs::rename(small.path("disk/home"), small.path("kept")).unwrap();
    let there = Volume { scene: &large };
    let server = there.serve("");
    assert!(contents(&there.socket())[5000..][..70_001] == noise(1, 70_001));
    write_as(&there.socket(), 5000, &noise(2, 100), Durability::Durable);
    server.stop();
    let server = there.serve("");
    assert!(contents(&there.socket())[5000..][..100] == noise(2, 100));
    server.stop();
}

#[test]
fn members_of_a_mirror_may_be_moved_to_larger_sectors_and_its_log_devices_may_not() {
    const NAME: &str = "members_of_a_mirror_may_be_moved_to_larger_sectors";
    let scene = Scene::new();
    let _mounts = match both_mounted(&scene) {
        Ok(mounts) => mounts,
        Err(why) => return skip(NAME, &why),
    };
    let small = Scene::below(&scene.path("on-512"));
    let volume =
        Volume::create(&small, "--layout mirror --size 16m --log-size 16m --buffer 1m --atomic-sectors yes");
    let description = small.text("disk/volume.toml");
    if !description.contains("sector_bytes = 512") {
        return skip(NAME, "what is below the loop devices has larger sectors itself");
    }
    let server = volume.serve("");
    write_as(&volume.socket(), 5000, &noise(1, 70_001), Durability::Durable);
    server.stop();
    let far = scene.path("on-4096");
    let moved_to = |names: &[&str]| {
        let mut text = description.clone();
        for name in names {
            if !far.join(name).exists() {
                copy(&small.path("disk").join(name), &far.join(name));
            }
            let path = far.join(name).display().to_string();
            text = text.replace(&format!("path = \"{name}\""), &format!("path = \"{path}\""));
        }
        fs::write(small.path("disk/volume.toml"), text).unwrap();
    };
    moved_to(&["member-0", "member-1"]);
    let server = volume.serve("");
    assert!(contents(&volume.socket())[5000..][..70_001] == noise(1, 70_001));
    let status = server.status();
    assert!(status.mirror.expect("it is one").members.iter().all(|member| member.failure.is_none()));
    server.stop();
    moved_to(&["member-0", "member-1", "log-0", "log-1"]);
    says(&small.refused("serve disk"), &["it has sectors of 4096 bytes, and 512 at most are of use"]);
}
