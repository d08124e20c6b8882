//! `--destroy`: an existing file or a block device is overwritten from its start, and nothing else of it.

use crate::support::root::LoopDevice;
use crate::support::{Scene, list, or_skip, says, warning, warning_codes};

/// What a run writes: 16 MiB a writer.
const RUN: usize = 16 << 20;

const FILL: u8 = 0xa5;

#[test]
fn a_file_is_overwritten_in_place_keeps_its_length_and_is_not_removed() {
    let scene = Scene::new();
    std::fs::write(scene.path("image"), vec![FILL; RUN + 4096 + 7]).unwrap();
    let ran = scene.done("probe image --destroy image --sizes 256k,1m --runs 2");
    says(&ran.stdout, &["direct-dsync over a file that is written"]);
    let found = scene.bytes("image");
    assert_eq!(found.len(), RUN + 4096 + 7);
    assert!(found[..RUN].iter().any(|&byte| byte != FILL));
    assert!(found[RUN..].iter().all(|&byte| byte == FILL), "bytes beyond the region changed");
    assert_eq!(scene.json("probe.json")["file_state"], "written");
    assert!(scene.names("data").is_empty());
}

#[test]
fn several_writers_share_a_file_each_in_a_region_of_its_own() {
    let scene = Scene::new();
    std::fs::write(scene.path("image"), vec![FILL; 3 * RUN]).unwrap();
    scene.done("probe image --destroy image --sizes 1m --runs 1 --writers 2");
    let found = scene.bytes("image");
    for region in [0..RUN, RUN..2 * RUN] {
        assert!(found[region].iter().any(|&byte| byte != FILL));
    }
    assert!(found[2 * RUN..].iter().all(|&byte| byte == FILL));
}

#[test]
fn a_link_to_a_file_is_a_file_too() {
    let scene = Scene::new();
    std::fs::write(scene.path("image"), vec![FILL; RUN]).unwrap();
    std::os::unix::fs::symlink("image", scene.path("link")).unwrap();
    says(&scene.refused("probe link"), &["link: ", "--destroy link"]);
    assert!(scene.bytes("image").iter().all(|&byte| byte == FILL));
    scene.done("probe link --destroy link --sizes 1m --runs 1");
    assert!(scene.path("link").is_symlink());
    assert_eq!(scene.bytes("image").len(), RUN);
}

#[test]
fn a_file_too_small_for_a_run_is_refused_before_anything_of_it_is_lost() {
    let scene = Scene::new();
    std::fs::write(scene.path("image"), vec![FILL; RUN / 2]).unwrap();
    let line = scene.refused("probe image --destroy image --sizes 256k --runs 1");
    says(&line, &["image: ", "16 MiB", "8 MiB"]);
    let found = scene.bytes("image");
    assert_eq!(found.len(), RUN / 2);
    assert!(found.iter().all(|&byte| byte == FILL), "it was overwritten, then refused");
}

#[test]
fn a_dry_run_refuses_what_the_probe_itself_would_refuse_for_lack_of_room() {
    let scene = Scene::new();
    std::fs::write(scene.path("image"), vec![FILL; RUN / 2]).unwrap();
    scene.refused("probe image --destroy image --sizes 256k --runs 1");
    scene.refused("probe image --destroy image --sizes 256k --runs 1 --dry-run");
}

#[test]
fn a_block_device_is_overwritten_from_its_start_with_a_warning_of_the_loop() {
    let scene = Scene::new();
    let device = or_skip!(LoopDevice::over(&scene.path("image"), 2 * RUN, FILL));
    let node = device.node.clone();
    says(&scene.refused(&format!("probe {node} --sizes 1m --runs 1")), &[&format!("add --destroy {node}")]);
    scene.done(&format!("probe {node} --destroy {node} --sizes 256k,1m --runs 2"));
    // Detached, so that what the device still holds in memory is in the image.
    drop(device);

    let report = scene.json("probe.json");
    assert_eq!(
        (&report["stack"]["file_system"], &report["stack"]["device"]),
        (&"none".into(), &node.as_str().into())
    );
    assert!(warning_codes(&report).contains(&"loop-device"));
    says(warning(&report, "loop-device"), &[&node, "image"]);
    assert!(list(&report, "points").iter().all(|point| point["device_writes_per_op"].is_f64()));
    let found = scene.bytes("image");
    assert_eq!(found.len(), 2 * RUN);
    assert!(found[..RUN].iter().any(|&byte| byte != FILL));
    assert!(found[RUN..].iter().all(|&byte| byte == FILL), "bytes beyond the region changed");
}

#[test]
fn a_mounted_block_device_is_refused_and_its_files_are_kept() {
    let scene = Scene::new();
    let device = or_skip!(LoopDevice::over(&scene.path("image"), 4 * RUN, 0));
    let mounted = or_skip!(device.mount_ext4(&scene.path("mounted")));
    std::fs::write(scene.path("mounted/precious"), vec![FILL; RUN]).unwrap();
    let node = &device.node;
    let line = scene.refused(&format!("probe {node} --destroy {node} --sizes 1m --runs 1"));
    says(&line, &[node, "busy", "unmount it"]);
    drop(mounted);
    let again = crate::support::root::Mounted::of(node, &scene.path("mounted")).unwrap();
    assert!(scene.bytes("mounted/precious") == vec![FILL; RUN]);
    drop(again);
    // Unmounted, it may be overwritten.
    scene.done(&format!("probe {node} --destroy {node} --sizes 1m --runs 1"));
}
