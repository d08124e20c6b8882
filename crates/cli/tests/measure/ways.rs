//! Methods, file states, writers, and all of them in a matrix.

use crate::support::{Scene, list, says};

const METHODS: [&str; 7] =
    ["direct-dsync", "direct-sync", "rwf-dsync", "uring", "dsync", "fdatasync", "fsync"];

const STATES: [&str; 3] = ["fresh", "allocated", "written"];

#[test]
fn every_method_over_every_file_state_works_or_says_in_one_line_why_not() {
    let scene = Scene::new();
    for method in METHODS {
        for state in STATES {
            let line = format!(
                "probe data --sizes 1m --runs 1 --method {method} --file-state {state} --out out --force"
            );
            let ran = scene.run(&line);
            if ran.code == Some(0) {
                let report = scene.json("out/probe.json");
                assert_eq!((&report["method"], &report["file_state"]), (&method.into(), &state.into()));
                says(&ran.stdout, &[&format!("{method} over a file that is {state}")]);
            } else {
                assert_eq!(ran.code, Some(2), "{ran:?}");
                says(&ran.complaint(), &["data", method, "cannot be had here"]);
            }
            assert!(scene.names("data").is_empty(), "{line}");
        }
    }
}

#[test]
fn several_writers_have_a_file_each_and_all_their_writes_count() {
    let scene = Scene::new();
    scene.done("probe data --sizes 1m --runs 2 --writers 3");
    let report = scene.json("probe.json");
    assert_eq!(report["writers"], 3);
    let point = &list(&report, "points")[0];
    for run in list(point, "run_data") {
        assert_eq!(run["writes"], 3 * 16);
    }
    assert!(scene.names("data").is_empty());
}

#[test]
fn a_new_file_of_a_name_to_be_made_is_removed_again() {
    let scene = Scene::new();
    scene.done("probe data/log --new-file --sizes 1m --runs 1 --writers 2");
    assert!(scene.names("data").is_empty());
    scene.done("probe log --new-file --sizes 1m --runs 1 --file-state written --out results");
    assert_eq!(
        scene.names("."),
        ["data", "probe.csv", "probe.html", "probe.json", "results"].map(str::to_owned).into()
    );
}

#[test]
fn a_matrix_measures_or_skips_every_method_over_every_state_and_gives_advice() {
    let scene = Scene::new();
    let ran = scene.done("probe data --matrix --sizes 512k,1m --runs 1");
    let report = scene.json("probe.json");
    let matrix = &report["matrix"];
    let (cells, skipped) = (list(matrix, "cells"), list(matrix, "skipped"));
    assert_eq!(cells.len() + skipped.len(), METHODS.len() * STATES.len());
    for method in METHODS {
        for state in STATES {
            let of = |each: &&serde_json::Value| each["method"] == method && each["file_state"] == state;
            let found = cells.iter().chain(skipped).filter(of).count();
            assert_eq!(found, 1, "{method} over {state}");
        }
    }
    for cell in cells {
        assert_eq!(list(cell, "points").len(), 2);
    }
    for advice in list(matrix, "advice") {
        let advice = advice.as_str().unwrap();
        says(&ran.stdout, &[&format!("\n{}{}.\n", advice[..1].to_uppercase(), &advice[1..])]);
    }
    let advice = list(matrix, "advice");
    assert!(advice[0].as_str().unwrap().starts_with("use "), "{advice:?}");
    // A single run tells nothing apart.
    assert!(advice[1..].iter().all(|words| !words.as_str().unwrap().contains("times as long")), "{advice:?}");
    let others = list(matrix, "effects").len();
    assert!(others > 0 && others < METHODS.len() + STATES.len() - 1);
    let rows = scene.text("probe.csv").lines().filter(|row| row.starts_with("matrix,")).count();
    assert_eq!(rows, 2 * cells.len());
    assert!(scene.names("data").is_empty());
}

#[test]
fn a_quick_look_says_so_and_takes_fewer_runs() {
    let scene = Scene::new();
    scene.done("probe data --quick --sizes 1m");
    let report = scene.json("probe.json");
    assert_eq!((&report["quick"], &report["runs"]), (&true.into(), &10.into()));
    says(&scene.text("probe.html"), &["This was a quick look"]);
}

#[test]
fn the_commits_of_each_program_are_measured_as_it_makes_them() {
    let scene = Scene::new();
    for (program, method, state, bytes) in [
        ("etcd", "fdatasync", "allocated", 2300),
        ("postgres", "fdatasync", "written", 8192),
        ("sqlite", "fdatasync", "written", 4120),
        ("kafka", "fsync", "fresh", 16384),
        ("raft", "fsync", "allocated", 1040),
    ] {
        let ran = scene.run(&format!("probe data --like {program} --runs 6 --time 3s --out out --force"));
        // A disk of a machine that builds may be too slow for etcd.
        assert!(ran.code == Some(0) || program == "etcd" && ran.code == Some(1), "{ran:?}");
        let report = scene.json("out/probe.json");
        assert_eq!((&report["method"], &report["file_state"]), (&method.into(), &state.into()));
        let like = &report["like"];
        assert_eq!((&like["program"], &like["commit_bytes"]), (&program.into(), &bytes.into()));
        assert_eq!(like["verdict"].is_null(), program != "etcd");
        says(&ran.stdout, &["commits/s, p50 ", "\nFrom: "]);
    }
    says(&scene.misused("probe data --like etcd --sizes 4k"), &["--sizes", "--like"]);
    assert!(scene.names("data").is_empty());
}

#[test]
fn a_soak_keeps_every_write_and_leaves_nothing_behind() {
    let scene = Scene::new();
    let ran = scene.done("probe data --soak 2s --out out");
    says(&ran.stdout, &["writes of 4 KiB in ", "took 10 times the median", "Wrote out/soak.json"]);
    let report = scene.json("out/soak.json");
    assert_eq!(report["schema"], "evenkeel.soak/1");
    let windows = list(&report, "windows");
    let writes: u64 = windows.iter().map(|window| window["writes"].as_u64().unwrap()).sum();
    let in_histogram: u64 = list(&report, "histogram").iter().map(|step| step[1].as_u64().unwrap()).sum();
    assert_eq!((report["writes"].as_u64().unwrap(), in_histogram), (writes, writes));
    assert_eq!(scene.text("out/soak.csv").lines().count(), 1 + windows.len());
    says(&scene.text("out/soak.html"), &["writes took 10 times the median", "<svg class=\"chart\""]);
    assert!(scene.names("data").is_empty());
    says(&scene.refused("probe data --soak 2s --sizes 4k,8k"), &["one size"]);
}
