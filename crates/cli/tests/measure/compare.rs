//! Two probes or more, compared.

use crate::support::{Scene, list, says};

fn probed(scene: &Scene, name: &str) {
    scene.done(&format!("probe data --sizes 256k,1m --runs 3 --out {name}"));
}

/// The probe in `from` with each run `factor` times as fast, and as disturbed as said.
fn altered(scene: &Scene, from: &str, factor: f64, disturbance: Option<&str>, name: &str) {
    let mut report = scene.json(from);
    for point in report["points"].as_array_mut().unwrap() {
        let mean = point["throughput_bytes_per_s"]["mean"].as_f64().unwrap();
        let mut step = 0.0;
        for run in point["run_data"].as_array_mut().unwrap() {
            run["throughput_bytes_per_s"] = (mean * (factor + step)).into();
            run["latency_p99_s"] = serde_json::Value::Null;
            run["disturbance"] = disturbance.into();
            run["counted"] = true.into();
            step += 1e-6;
        }
    }
    std::fs::write(scene.path(name), report.to_string()).unwrap();
}

#[test]
fn a_probe_does_not_differ_from_itself() {
    let scene = Scene::new();
    probed(&scene, "base");
    altered(&scene, "base/probe.json", 1.0, None, "base/probe.json");
    let ran = scene.done("compare base/probe.json base/probe.json --fail-if-slower 1%");
    says(&ran.stdout, &["256 KiB", "1 MiB", " 1.00 ", "that these sessions of ", " differ is not shown"]);
    assert!(ran.stdout.lines().take(6).all(|line| line.chars().count() <= 80 || line.starts_with("A: ")));
    assert_eq!(scene.names("."), ["base", "data"].map(str::to_owned).into());
}

#[test]
fn a_slowdown_beyond_doubt_is_found_and_fails_who_asked_for_it() {
    let scene = Scene::new();
    probed(&scene, "base");
    altered(&scene, "base/probe.json", 1.0, None, "base.json");
    altered(&scene, "base/probe.json", 0.01, None, "slow.json");
    let ran = scene.done("compare base.json slow.json");
    says(&ran.stdout, &["these two sessions differ: slow is slower than base at 2 of 2 sizes", "--drift"]);
    let ran = scene.done("compare slow.json base.json --fail-if-slower 10%");
    says(&ran.stdout, &["base is faster than slow at 2 of 2 sizes"]);
    let ran = scene.run("compare base.json slow.json --fail-if-slower 10%");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    says(&ran.complaint(), &["slow is slower than base: over all sizes it has 0.01 times the throughput"]);
}

#[test]
fn sessions_that_were_mostly_disturbed_get_no_verdict() {
    let scene = Scene::new();
    probed(&scene, "base");
    altered(&scene, "base/probe.json", 1.0, None, "base.json");
    altered(&scene, "base/probe.json", 0.01, Some("others"), "busy.json");
    let ran = scene.done("compare base.json busy.json --out found");
    says(&ran.stdout, &["no verdict on base and busy: 100 % of the runs of busy were disturbed", "withheld"]);
    let found = &list(&scene.json("found/compare.json"), "comparisons")[0].clone();
    assert_eq!(found["disturbed_share"][1], 1.0);
    assert_eq!(found["throughout"]["verdict"], "withheld");
    let ran = scene.run("compare base.json busy.json --fail-if-slower 10%");
    assert_eq!(ran.code, Some(2), "{ran:?}");
    says(&ran.complaint(), &["no verdict for --fail-if-slower", "evenkeel probe A B"]);
}

#[test]
fn two_paths_are_measured_in_alternating_runs_and_compared() {
    let scene = Scene::new();
    let ran = scene.done("probe data data --sizes 512k,1m --runs 4 --out out");
    says(&ran.stdout, &["data: ", "data (2): ", "A: data, B: data (2)", "Overall: ", "Wrote out/pairs.json"]);
    let report = scene.json("out/pairs.json");
    assert_eq!(report["schema"], "evenkeel.pairs/1");
    assert_eq!(report["comparison"]["design"], "pairs");
    let probes = list(&report, "probes");
    assert_eq!(probes.len(), 2);
    // Runs of one number at one size follow one another, in either order.
    let orders = |probe: usize, point: usize| -> Vec<u64> {
        let runs = list(&list(&probes[probe], "points")[point], "run_data");
        runs.iter().map(|run| run["order"].as_u64().unwrap()).collect()
    };
    for point in 0..2 {
        for (a, b) in orders(0, point).into_iter().zip(orders(1, point)) {
            assert_eq!(a.abs_diff(b), 1, "{a} and {b}");
        }
    }
    says(&scene.text("out/pairs.html"), &["2 storage stacks compared", "In words, size by size"]);
    assert!(scene.names("data").is_empty());
    for flag in ["--matrix", "--new-file", "--destroy data"] {
        says(&scene.refused(&format!("probe data data {flag}")), &["is for a single PATH"]);
    }
    says(&scene.refused("probe data --fail-if-slower 5%"), &["name two paths or more"]);
}

#[test]
fn repeated_sessions_are_what_a_later_comparison_goes_by() {
    let scene = Scene::new();
    scene.done("probe data --sizes 1m --runs 2 --sessions 3 --every 10ms --out first");
    let report = scene.json("first/probe.json");
    assert_eq!(report["sessions"], 3);
    let runs = list(&list(&report, "points")[0], "run_data").to_vec();
    let sessions: Vec<u64> = runs.iter().map(|run| run["session"].as_u64().unwrap()).collect();
    assert!((0..3).all(|session| sessions.iter().filter(|&&of| of == session).count() >= 2), "{sessions:?}");
    altered(&scene, "first/probe.json", 1.0, None, "first.json");
    scene.done("compare first.json first.json --out found");
    let found = scene.json("found/compare.json");
    assert!(found["drift"].is_null());
    assert_eq!(list(&found, "comparisons")[0]["sessions"], serde_json::json!([3, 3]));
}

#[test]
fn a_page_of_three_probes_names_each() {
    let scene = Scene::new();
    for name in ["first", "second", "third"] {
        probed(&scene, name);
    }
    let line = "compare first/probe.json second/probe.json third/probe.json --html=all.html";
    let ran = scene.done(line);
    says(&ran.stdout, &["Wrote all.html.", "Overall: "]);
    assert_eq!(ran.stdout.matches("Overall: ").count(), 2);
    let page = scene.text("all.html");
    says(&page, &["3 storage stacks compared", "first", "second", "third"]);
    // Two of ratios, three by size, a distribution a size, and the runs over time.
    let sizes = list(&scene.json("first/probe.json"), "points").len();
    assert_eq!(page.matches("<svg class=\"chart\"").count(), 2 + 3 + sizes + 1);

    says(&scene.refused(line), &["all.html: it exists", "--force"]);
    assert_eq!(scene.text("all.html"), page);
    scene.done(&format!("{line} --force"));

    scene.done("compare first/probe.json second/probe.json --html");
    says(&scene.text("compare.html"), &["2 storage stacks compared"]);
}

#[test]
fn a_folder_of_results_holds_the_comparison_thrice() {
    let scene = Scene::new();
    probed(&scene, "first");
    probed(&scene, "second");
    let line = "compare first/probe.json second/probe.json --out found";
    let ran = scene.done(line);
    says(&ran.stdout, &["Wrote found/compare.json, found/compare.csv, found/compare.html."]);
    let expected = ["compare.csv", "compare.html", "compare.json"].map(str::to_owned);
    assert_eq!(scene.names("found"), expected.into());

    let report = scene.json("found/compare.json");
    assert_eq!(report["schema"], "evenkeel.compare/2");
    let comparisons = list(&report, "comparisons");
    assert_eq!(comparisons.len(), 1);
    assert_eq!((&comparisons[0]["a"], &comparisons[0]["b"]), (&"first".into(), &"second".into()));
    for point in list(&comparisons[0], "points") {
        let judged = &point["throughput"];
        assert!(judged["ratio"].is_f64() && list(judged, "interval").len() == 2);
        let verdicts = ["faster", "slower", "no-difference-shown", "withheld"];
        assert!(verdicts.contains(&judged["verdict"].as_str().unwrap()));
    }
    let overall = comparisons[0]["overall"].as_str().unwrap();
    says(&ran.stdout, &[&format!("Overall: {overall}.")]);
    assert_eq!(scene.text("found/compare.csv").lines().count(), 1 + 2);
    assert!(scene.text("found/compare.html").starts_with("<!DOCTYPE html>"));

    says(&scene.refused(line), &["found/compare.json: older results", "--force"]);
    scene.done(&format!("{line} --force"));
}

#[test]
fn page_and_folder_are_not_asked_for_at_once() {
    let scene = Scene::new();
    says(&scene.misused("compare a.json b.json --html=c.html --out d"), &["--html", "--out"]);
    says(&scene.misused("compare a.json"), &["<B>"]);
}
