//! Two probes or more, compared.

mod support;

use support::{Scene, list, says};

fn probed(scene: &Scene, name: &str) {
    scene.done(&format!("probe data --sizes 256k,1m --runs 3 --out {name}"));
}

#[test]
fn a_probe_does_not_differ_from_itself() {
    let scene = Scene::new();
    probed(&scene, "base");
    let ran = scene.done("compare base/probe.json base/probe.json");
    says(
        &ran.stdout,
        &["256 KiB", "1 MiB", "no difference shown: ratio 1.00", "can be shown at any of 2 sizes."],
    );
    assert_eq!(scene.names("."), ["base", "data"].map(str::to_owned).into());
}

#[test]
fn a_slowdown_beyond_doubt_is_found() {
    let scene = Scene::new();
    probed(&scene, "base");
    // The same runs, a hundred and a few times as slow.
    let mut slow = scene.json("base/probe.json");
    for point in slow["points"].as_array_mut().unwrap() {
        let base = point["throughput_bytes_per_s"]["mean"].as_f64().unwrap();
        let mut factor = 0.01;
        for run in point["run_data"].as_array_mut().unwrap() {
            run["throughput_bytes_per_s"] = (base * factor).into();
            factor += 1e-6;
        }
    }
    // And a base as steady.
    let mut base = scene.json("base/probe.json");
    for point in base["points"].as_array_mut().unwrap() {
        let mean = point["throughput_bytes_per_s"]["mean"].as_f64().unwrap();
        let mut factor = 1.0;
        for run in point["run_data"].as_array_mut().unwrap() {
            run["throughput_bytes_per_s"] = (mean * factor).into();
            factor += 1e-4;
        }
    }
    std::fs::write(scene.path("base.json"), base.to_string()).unwrap();
    std::fs::write(scene.path("slow.json"), slow.to_string()).unwrap();
    let ran = scene.done("compare base.json slow.json");
    says(
        &ran.stdout,
        &["slow has only 0.01 times the throughput of base", "slow is slower than base at 2 of 2 sizes"],
    );
    let ran = scene.done("compare slow.json base.json");
    says(&ran.stdout, &["base is faster than slow at 2 of 2 sizes"]);
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
    assert_eq!(page.matches("<svg class=\"chart\"").count(), 3);

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
    assert_eq!(report["schema"], "evenkeel.compare/1");
    let comparisons = list(&report, "comparisons");
    assert_eq!(comparisons.len(), 1);
    assert_eq!((&comparisons[0]["a"], &comparisons[0]["b"]), (&"first".into(), &"second".into()));
    for point in list(&comparisons[0], "points") {
        assert!(point["throughput_ratio"].is_f64() && point["welch_p_holm"].is_f64());
        let verdicts = ["faster", "slower", "no-difference-shown"];
        assert!(verdicts.contains(&point["verdict"].as_str().unwrap()));
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
