//! `evenkeel reproduce`: what there is, a figure, one that does not exist, and one that is stopped midway.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::attached::possible;
use crate::support::root::programs;
use crate::support::{Ran, Scene, list, or_skip, says, skip};

#[test]
fn the_list_names_every_figure_with_its_paper() {
    let scene = Scene::new();
    let ran = scene.done("reproduce list");
    says(&ran.stdout, &["Paper 5: Okeanos", "okeanos-journal-volume", "okeanos-mpi-io", "slide 12"]);
}

#[test]
fn a_figure_becomes_a_document_rows_and_a_page_and_the_exit_code_is_its_verdict() {
    let scene = Scene::new();
    let ran = scene.run("reproduce okeanos-journal-volume okeanos-recovery --quick --out results");
    let document = scene.json("results/reproduce.json");
    assert_eq!(document["schema"], "evenkeel.reproduce/1");
    let claims = list(&document, "claims");
    let fails = claims.iter().filter(|claim| claim["verdict"] == "fails").count();
    assert_eq!(ran.code, Some(if fails > 0 { 1 } else { 0 }), "{ran:?}");
    for claim in claims {
        for field in
            ["figure", "paper", "words", "paper_value", "value", "unit", "holds_if", "kind", "verdict"]
        {
            assert!(claim.get(field).is_some(), "{field} of {claim}");
        }
        says(&ran.stdout, &[claim["words"].as_str().unwrap(), claim["verdict"].as_str().unwrap()]);
    }
    let names: Vec<_> = list(&document, "figures").iter().map(|figure| figure["name"].clone()).collect();
    assert_eq!(names, ["okeanos-journal-volume", "okeanos-recovery"]);
    assert!(!list(&document, "not_reproduced").is_empty());
    let rows = scene.text("results/reproduce.csv");
    says(&rows, &["part,paper,figure", "point,5,okeanos-recovery", "claim,5,okeanos-journal-volume"]);
    says(&scene.text("results/reproduce.html"), &["okeanos-journal-volume", "<svg", "Not reproduced"]);
    says(&ran.stdout, &["Wrote results/reproduce.json"]);

    // The same again is the same, and not over the first without being asked.
    says(&scene.refused("reproduce okeanos-recovery --quick --out results"), &["older results", "--force"]);
}

#[test]
fn an_unknown_figure_is_one_line_that_names_the_nearest() {
    let scene = Scene::new();
    let line = scene.refused("reproduce okeanos-mpio --out results");
    says(&line, &["no figure \"okeanos-mpio\"", "did you mean okeanos-mpi-io?", "reproduce list"]);
    assert!(!scene.refused("reproduce xyzzy").contains("did you mean"));
    says(&scene.refused("reproduce list all"), &["`list` stands alone"]);
    assert!(!scene.path("results").exists());
}

#[test]
fn traces_are_the_users_and_a_folder_without_any_is_said_to_have_none() {
    let scene = Scene::new();
    says(&scene.refused("reproduce rails-traces --out results"), &["rails-traces", "--traces"]);
    says(&scene.refused("reproduce rails-traces --traces nowhere --out results"), &["nowhere"]);
    assert!(!scene.path("results").exists());
    fs::create_dir(scene.path("traces")).unwrap();
    fs::write(scene.path("traces/README"), "none of these is a trace\n").unwrap();
    let only_writes = "0,0,4096,W,0.5\n0,8,4096,W,0.6\n";
    fs::write(scene.path("traces/writes.spc"), only_writes).unwrap();
    let line = scene.refused("reproduce rails-traces --traces traces --quick --out results");
    says(&line, &["no figure could be drawn", "traces holds no trace with reads and writes"]);
    assert!(!scene.path("results").exists());
}

#[test]
fn a_run_that_is_stopped_leaves_nothing_behind() {
    let scene = Scene::new();
    let line = "reproduce okeanos-traffic --out results";
    let child = scene.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let patience = Instant::now();
    // The folder is made once signals are listened to, and before anything runs.
    while !scene.path("results").exists() {
        assert!(patience.elapsed() < Duration::from_secs(60), "it does not begin");
        thread::sleep(Duration::from_millis(5));
    }
    let id = child.id().to_string();
    assert!(Command::new("sh").args(["-c", "kill -s INT \"$0\"", &id]).status().unwrap().success());
    let ran = Ran::of(line, child.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(130), "{ran:?}");
    says(&ran.complaint(), &["interrupted"]);
    assert!(!scene.path("results").exists());
}

/// Whether this machine can have file systems on drives by model.
fn can_measure() -> Result<(), String> {
    possible().and_then(|()| programs(&["mkfs.xfs", "mkfs.ext4", "mkfs.btrfs"]))
}

/// That nothing is left of what was mounted below `tmp`: no folder, no mount, no loop device.
fn assert_nothing_left(scene: &Scene) {
    assert!(scene.names("tmp").is_empty(), "{:?}", scene.names("tmp"));
    let tmp = scene.path("tmp").display().to_string();
    assert!(!fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&tmp));
    let loops =
        fs::read_dir("/sys/block").unwrap().map(|entry| entry.unwrap().path().join("loop/backing_file"));
    let held = loops.filter_map(|file| fs::read_to_string(file).ok()).find(|backing| backing.contains(&tmp));
    assert_eq!(held, None);
}

#[test]
fn file_systems_are_measured_on_a_drive_by_model_and_leave_nothing_behind() {
    const NAME: &str = "file_systems_are_measured_on_a_drive_by_model_and_leave_nothing_behind";
    let scene = Scene::new();
    fs::create_dir(scene.path("tmp")).unwrap();
    let line = "reproduce writes-sdcard --quick --file-systems --out results";
    let output = scene.command(line).env("TMPDIR", scene.path("tmp")).output().unwrap();
    let ran = Ran::of(line, output);
    let document = scene.json("results/reproduce.json");
    let of_kind = |kind: &str| list(&document, "claims").iter().filter(|claim| claim["kind"] == kind).count();
    assert!(of_kind("predicted") > 0, "{ran:?}");
    let missing = serde_json::to_string(&document["not_reproduced"]).unwrap();
    if let Err(why) = can_measure() {
        says(&ran.stdout, &["File systems are not measured: "]);
        says(&missing, &["themselves on the modelled devices", "they cannot be measured here: "]);
        assert_eq!(of_kind("measured"), 0);
        return skip(NAME, &why);
    }
    assert_eq!(of_kind("measured"), of_kind("predicted"), "{ran:?}");
    assert!(!missing.contains("themselves on the modelled devices"), "{missing}");
    let charts = list(&document["figures"][0], "charts");
    let measured: Vec<_> =
        charts.iter().filter(|chart| chart["title"].as_str().unwrap().ends_with(", measured")).collect();
    assert_eq!(measured.len(), 3);
    for chart in measured {
        let names: Vec<_> = list(chart, "series").iter().map(|series| series["name"].clone()).collect();
        assert_eq!(names, ["XFS", "ext4", "btrfs"]);
    }
    assert_nothing_left(&scene);
}

#[test]
fn measuring_that_is_stopped_takes_its_file_system_and_its_drive_away() {
    or_skip!(can_measure());
    let scene = Scene::new();
    fs::create_dir(scene.path("tmp")).unwrap();
    let line = "reproduce writes-sdcard --quick --file-systems --out results";
    let mut command = scene.command(line);
    command.env("TMPDIR", scene.path("tmp")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let patience = Instant::now();
    let tmp = scene.path("tmp").display().to_string();
    let is_mounted = || {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        mounts.lines().any(|line| line.contains(&tmp) && line.contains("/mounted "))
    };
    while !is_mounted() {
        assert!(patience.elapsed() < Duration::from_secs(120), "nothing is mounted");
        thread::sleep(Duration::from_millis(5));
    }
    let id = child.id().to_string();
    assert!(Command::new("sh").args(["-c", "kill -s INT \"$0\"", &id]).status().unwrap().success());
    let ran = Ran::of(line, child.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(!scene.path("results").exists());
    assert_nothing_left(&scene);
}
