//! What a probe of a folder prints, writes, and leaves alone.

use std::collections::BTreeSet;

use crate::support::{Scene, list, says, skip, warning_codes};
use serde_json::Value;

/// Six sizes make enough points for model and phases.
const SIZES: &str = "--sizes 64k..2m --runs 2";

fn names(object: &Value) -> BTreeSet<&str> {
    let object = object.as_object().unwrap_or_else(|| panic!("no object: {object}"));
    object.keys().map(String::as_str).collect()
}

#[track_caller]
fn has(object: &Value, fields: &[&str]) {
    for field in fields {
        assert!(names(object).contains(field), "no `{field}` in {:?}", names(object));
    }
}

#[test]
fn a_probe_of_a_folder_writes_three_files_and_leaves_the_folder_as_it_was() {
    let scene = Scene::new();
    std::fs::write(scene.path("data/precious"), "precious").unwrap();
    let ran = scene.done(&format!("probe data {SIZES}"));
    assert_eq!(scene.names("data"), ["precious".to_owned()].into());
    assert_eq!(scene.text("data/precious"), "precious");
    let expected = ["data", "probe.csv", "probe.html", "probe.json"].map(str::to_owned);
    assert_eq!(scene.names("."), expected.into());

    let table: Vec<&str> = ran.stdout.lines().filter(|line| line.contains("iB  ")).collect();
    assert_eq!(table.len(), 6, "{}", ran.stdout);
    says(&ran.stdout, &["buffer  throughput", "64 KiB", "2 MiB", "direct-dsync over a file that is fresh"]);
    let report = scene.json("probe.json");
    let reason = report["recommendation"]["reason"].as_str().unwrap();
    // The sentence of the report, with a capital and a full stop.
    says(&ran.stdout, &[&format!("\nW{}.\n", &reason[1..])]);
    says(&ran.stdout, &["\nWrote ./probe.json, ./probe.csv, ./probe.html.\n"]);
}

#[test]
fn the_report_has_every_field_that_programs_rely_on() {
    let scene = Scene::new();
    scene.done(&format!("probe data {SIZES} --out out"));
    let report = scene.json("out/probe.json");
    assert_eq!(report["schema"], "evenkeel.probe/1");
    has(&report, &["evenkeel_version", "started_unix_s", "duration_s", "seed", "writers"]);
    let stack = &report["stack"];
    has(stack, &["path", "file_system", "mount_options", "device", "scheduler", "write_cache", "kernel"]);
    let probed = scene.path("data").canonicalize().unwrap();
    assert_eq!(stack["path"], probed.to_str().unwrap());
    assert_eq!((&report["method"], &report["file_state"]), (&"direct-dsync".into(), &"fresh".into()));
    assert_eq!(report["runs"], 2);
    let sizes: Vec<u64> =
        list(&report, "points").iter().map(|point| point["buffer_bytes"].as_u64().unwrap()).collect();
    assert_eq!(sizes, (16..=21).map(|power| 1 << power).collect::<Vec<u64>>());
    for point in list(&report, "points") {
        has(point, &["device_writes_per_op", "device_flushes_per_op", "device_bytes_per_user_byte"]);
        has(&point["throughput_bytes_per_s"], &["mean", "sd", "ci95"]);
        has(&point["latency_s"], &["mean", "sd", "ci95", "p50", "p99", "p999", "max"]);
        assert!(point["ratio"].as_f64().unwrap() > 0.0);
        let counted = list(point, "run_data").iter().filter(|run| run["counted"] == true);
        let writes: u64 = counted.map(|run| run["writes"].as_u64().unwrap()).sum();
        assert_eq!(point["writes"], writes);
        assert!(point["runs"].as_u64().unwrap() >= 2);
    }
    let model = [
        "fixed_latency_s",
        "bandwidth_bytes_per_s",
        "optimum_bytes",
        "r2",
        "fixed_latency_interval_s",
        "bandwidth_interval_bytes_per_s",
        "optimum_interval_bytes",
        "residual_max",
    ];
    // A noisy machine may show no line and no phases: then both are null, and still there.
    has(&report, &["model", "phases"]);
    if !report["model"].is_null() {
        assert_eq!(names(&report["model"]), model.into());
    }
    if !report["phases"].is_null() {
        has(&report["phases"], &["constant_latency", "both_grow", "constant_throughput"]);
    }
    has(&report["recommendation"], &["buffer_bytes", "rule", "reason"]);
    assert!(sizes.contains(&report["recommendation"]["buffer_bytes"].as_u64().unwrap()));
    assert_eq!(report["recommendation"]["rule"], "best-ratio");
    warning_codes(&report);
}

#[test]
fn the_csv_has_a_row_a_size_and_the_page_is_whole() {
    let scene = Scene::new();
    scene.done("probe data --sizes 512k,1m --runs 2");
    let csv = scene.text("probe.csv");
    let mut rows = csv.lines();
    let header: Vec<&str> = rows.next().unwrap().split(',').collect();
    assert_eq!(rows.clone().count(), 2);
    let column = header.iter().position(|&name| name == "buffer_bytes").unwrap();
    let sizes: Vec<&str> = rows.map(|row| row.split(',').nth(column).unwrap()).collect();
    assert_eq!(sizes, ["524288", "1048576"]);
    let page = scene.text("probe.html");
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"));
}

#[test]
fn a_percentile_that_too_few_writes_were_timed_for_is_null() {
    let Some(scene) = Scene::in_memory() else {
        return skip("a_percentile_that_too_few_writes_were_timed_for_is_null", "no /dev/shm");
    };
    scene.done("probe data --sizes 4k,64k,4m --runs 3");
    let report = scene.json("probe.json");
    let known = |point: &Value| {
        let latency = &point["latency_s"];
        ["p50", "p99", "p999"].map(|name| latency[name].is_f64())
    };
    for point in list(&report, "points") {
        // 10/(1-p): 20, 1,000 and 10,000 writes.
        let writes = point["writes"].as_u64().unwrap();
        assert_eq!(known(point), [writes >= 20, writes >= 1000, writes >= 10_000], "{writes}");
    }
    let all: Vec<[bool; 3]> = list(&report, "points").iter().map(known).collect();
    assert_eq!(all, [[true; 3], [true, false, false], [false; 3]]);
}

#[test]
fn one_run_has_a_mean_but_no_interval() {
    let Some(scene) = Scene::in_memory() else {
        return skip("one_run_has_a_mean_but_no_interval", "no /dev/shm");
    };
    scene.done("probe data --sizes 1m --runs 1");
    let report = scene.json("probe.json");
    let point = &list(&report, "points")[0];
    assert_eq!(point["runs"], 1);
    for figure in [&point["latency_s"], &point["throughput_bytes_per_s"]] {
        assert!(figure["mean"].is_f64());
        assert!(figure["sd"].is_null() && figure["ci95"].is_null());
    }
}

#[test]
fn a_second_probe_keeps_the_first_one_s_results() {
    let scene = Scene::new();
    scene.done("probe data --sizes 1m --runs 1");
    let first = scene.bytes("probe.json");
    let ran = scene.done("probe data --sizes 1m --runs 1");
    says(&ran.stdout, &["Wrote ./probe-2.json, ./probe-2.csv, ./probe-2.html."]);
    assert_eq!(scene.bytes("probe.json"), first);
    assert_ne!(scene.bytes("probe-2.json"), first);
}

#[test]
fn older_results_in_the_folder_of_out_are_replaced_only_with_force() {
    let scene = Scene::new();
    let line = "probe data --sizes 1m --runs 1 --out results/new";
    scene.done(line);
    let first = scene.bytes("results/new/probe.json");
    says(&scene.refused(line), &["results/new/probe.json", "--out", "--force"]);
    assert_eq!(scene.bytes("results/new/probe.json"), first);
    scene.done(&format!("{line} --force"));
    assert_ne!(scene.bytes("results/new/probe.json"), first);
}

#[test]
fn a_dry_run_says_what_would_be_written_and_writes_nothing() {
    let scene = Scene::new();
    std::fs::write(scene.path("image"), vec![7; 20 << 20]).unwrap();
    let before = scene.names(".");
    let folder = scene.done("probe data --sizes 4k..1m --out results --dry-run");
    says(&folder.stdout, &["files of up to 16 MiB", "data", "Nothing was written."]);
    let file = scene.done("probe image --destroy image --sizes 4k --dry-run");
    says(&file.stdout, &["overwrite the first 16 MiB of image", "20 MiB"]);
    assert_eq!(scene.names("."), before);
    assert!(scene.names("data").is_empty());
    assert!(scene.bytes("image").iter().all(|&byte| byte == 7));
}

#[test]
fn a_dry_run_of_a_matrix_names_all_the_room_that_the_matrix_takes() {
    let scene = Scene::new();
    // A recycled file lies beside each new one.
    let ran = scene.done("probe data --matrix --sizes 64k --dry-run");
    says(&ran.stdout, &["files of up to 32 MiB"]);
}

#[test]
fn the_same_seed_gives_the_same_order_of_runs() {
    let scene = Scene::new();
    let order = |seed: u32| {
        let line = format!("probe data --sizes 256k..2m --runs 4 --seed {seed} --out out --force");
        scene.done(&line);
        let report = scene.json("out/probe.json");
        assert_eq!(report["seed"], seed);
        let mut order: Vec<(u64, u64)> = Vec::new();
        for point in list(&report, "points") {
            for run in list(point, "run_data") {
                order.push((run["order"].as_u64().unwrap(), point["buffer_bytes"].as_u64().unwrap()));
            }
        }
        order.sort_unstable();
        // What follows the 4 rounds of 4 sizes are repeats of disturbed runs.
        order.truncate(16);
        order
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}
