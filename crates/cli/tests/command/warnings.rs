//! What a probe warns of, in its report, on the terminal and on the page.

use crate::support::root::LoopDevice;
use crate::support::{Scene, list, or_skip, says, skip, warning, warning_codes};

/// That the report holds the warning, and that terminal and page say the same.
fn warned(scene: &Scene, stdout: &str, code: &str) -> String {
    let report = scene.json("probe.json");
    let message = warning(&report, code).to_owned();
    says(stdout, &[&format!("\nWarning: {message}.\n")]);
    let escaped = message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    // There it is a sentence, with a capital.
    says(&scene.text("probe.html"), &[&escaped[1..]]);
    message
}

#[test]
fn memory_is_too_fast_to_be_true() {
    let Some(scene) = Scene::in_memory() else {
        return skip("memory_is_too_fast_to_be_true", "no /dev/shm");
    };
    let ran = scene.done("probe data --sizes 64k,1m --runs 2");
    says(
        &warned(&scene, &ran.stdout, "too-fast-to-be-true"),
        &["tmpfs", "in memory", "a power cut would lose"],
    );
    let report = scene.json("probe.json");
    assert_eq!(report["stack"]["in_memory"], true);
    for point in list(&report, "points") {
        assert!(point["device_flushes_per_op"].is_null());
    }
}

#[test]
fn a_size_that_cannot_be_direct_falls_back_to_the_page_cache_and_says_so() {
    const NAME: &str = "a_size_that_cannot_be_direct_falls_back_to_the_page_cache_and_says_so";
    let scene = Scene::new();
    let ran = scene.done("probe data --sizes 1000,1m --runs 2 --time 2m");
    let report = scene.json("probe.json");
    if report["stack"]["in_memory"] == true {
        return skip(NAME, "the build is in memory");
    }
    says(
        &warned(&scene, &ran.stdout, "fell-back-to-buffered"),
        &["1000 B", "dsync was used instead of direct-dsync"],
    );
    assert_eq!(report["method"], "direct-dsync");
    let methods: Vec<_> = list(&report, "points").iter().map(|point| &point["method"]).collect();
    assert_eq!(methods, ["dsync", "direct-dsync"]);
}

#[test]
fn enough_time_for_sizes_that_can_be_direct_brings_neither_warning() {
    let scene = Scene::new();
    scene.done("probe data --sizes 1m --runs 2 --time 10m");
    let report = scene.json("probe.json");
    if report["stack"]["in_memory"] == true {
        return skip(
            "enough_time_for_sizes_that_can_be_direct_brings_neither_warning",
            "the build is in memory",
        );
    }
    let codes = warning_codes(&report);
    for code in ["fell-back-to-buffered", "cut-short"] {
        assert!(!codes.contains(&code), "{codes:?}");
    }
}

#[test]
fn a_file_system_on_a_loop_device_is_two_file_systems() {
    let scene = Scene::new();
    let device = or_skip!(LoopDevice::over(&scene.path("image"), 64 << 20, 0));
    let _mounted = or_skip!(device.mount_ext4(&scene.path("mounted")));
    let ran = scene.done("probe mounted --sizes 256k,1m --runs 2");
    says(&warned(&scene, &ran.stdout, "loop-device"), &[&device.node, "image", "two file systems"]);
    let report = scene.json("probe.json");
    assert_eq!(report["stack"]["file_system"], "ext4");
    assert_eq!(scene.names("mounted"), ["lost+found".to_owned()].into());
}

#[test]
fn too_little_time_shortens_the_runs_and_names_the_sizes() {
    let scene = Scene::new();
    let ran = scene.done("probe data --sizes 4k,8k --runs 300 --time 3s");
    says(&warned(&scene, &ran.stdout, "cut-short"), &["cut short", "4 KiB", "8 KiB", "give more --time"]);
    assert_eq!(scene.json("probe.json")["runs"], 300);
}

#[test]
fn the_warning_of_a_short_time_repeats_the_time_that_was_given() {
    let scene = Scene::new();
    scene.done("probe data --sizes 4k,8k --runs 300 --time 3s");
    let report = scene.json("probe.json");
    says(warning(&report, "cut-short"), &["fit 3 s"]);
}

#[test]
fn a_time_too_short_for_a_single_run_is_no_success() {
    let scene = Scene::new();
    let ran = scene.run("probe data --sizes 1m --runs 1 --time 1us");
    assert!(matches!(ran.code, Some(1 | 2)), "nothing was measured and nothing is recommended: {ran:?}");
    says(&ran.complaint(), &["--time"]);
    assert!(scene.names("data").is_empty());
}
