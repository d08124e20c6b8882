//! `evenkeel reproduce`: what there is, a figure, one that does not exist, and one that is stopped midway.

mod support;

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use support::{Ran, Scene, list, says};

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
