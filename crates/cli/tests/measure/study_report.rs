//! `evenkeel study report`: a study becomes text, a page, a document and files; what is none is refused in a line.

use evenkeel_measure::study::store::SCHEMA;

use crate::made_up::Shape;
use crate::support::{Scene, list, says};

fn scene_with(shape: &Shape) -> Scene {
    let scene = Scene::new();
    std::fs::create_dir(scene.path("results")).unwrap();
    crate::made_up::write(&scene.path("results/study.db"), SCHEMA, shape).unwrap();
    scene
}

#[test]
fn a_study_becomes_text_a_page_a_document_and_a_file_for_each_table() {
    let scene = scene_with(&Shape::SMALL);
    let ran = scene.done("study report results");
    says(
        &ran.stdout,
        &[
            "made up: 31 configurations, 3 workloads, 720 runs",
            "xfs mailserver",
            "In these runs, the throughput of ext4 ranges over",
            "To vary less, change file_system",
            "Repeats come closer together with",
            "Of all runs, 24 were skipped",
            "Wrote results/study.html",
        ],
    );
    let document = scene.json("results/study.json");
    assert_eq!(document["schema"], "evenkeel.study/2");
    assert_eq!(document["study"]["runs_done"], 720);
    assert_eq!(list(&document, "variation").len(), 90);
    for finding in list(&document, "findings") {
        says(&ran.stdout, &[finding["words"].as_str().unwrap()]);
    }
    let page = scene.text("results/study.html");
    for figure in 1..=9 {
        assert!(page.contains(&format!("Figure {figure}:")), "figure {figure}");
    }
    assert!(page.len() < 5_000_000, "{} bytes", page.len());
    let rows = scene.text("results/study-variation.csv");
    says(&rows, &["configuration,workload,runs,mean_operations_per_s", "rsd_ci95_low,rsd_ci95_high"]);
    assert_eq!(rows.lines().count(), 91);
    for table in [
        "explained",
        "levels",
        "remedies",
        "layouts",
        "windows",
        "latencies",
        "operations",
        "operations-beside-repeats",
    ] {
        let rows = scene.text(&format!("results/study-{table}.csv"));
        assert!(rows.lines().count() > 1, "{table}");
    }
    says(&scene.text("results/study-outliers.csv"), &["steal_share 33 %"]);
    says(&scene.text("results/study-left-out.csv"), &["mount: wrong option <none>"]);
    // Once more, elsewhere and over the first: the same.
    scene.done("study report results --out elsewhere");
    scene.done("study report results");
    assert_eq!(scene.text("elsewhere/study.json"), scene.text("results/study.json"));
    assert_eq!(scene.text("elsewhere/study.html"), scene.text("results/study.html"));
}

#[test]
fn what_is_no_study_is_refused_in_a_line() {
    let scene = Scene::new();
    says(&scene.refused("study report nowhere"), &["nowhere", "no study.db", "study run --out"]);
    std::fs::create_dir(scene.path("other")).unwrap();
    std::fs::write(scene.path("other/study.db"), b"none of this is a database, or ever was").unwrap();
    says(&scene.refused("study report other"), &["other/study.db", "not a database"]);
    assert!(!scene.path("other/study.html").exists());
}
