//! A goal that can be met gives a buffer; one that cannot, the nearest and exit code 1. Records become batches.

use crate::support::{Scene, list, says};

const LINE: &str = "probe data --sizes 256k,1m --runs 2";

fn recommended(scene: &Scene, goals: &str) -> serde_json::Value {
    scene.done(&format!("{LINE} {goals} --out out --force"));
    scene.json("out/probe.json")["recommendation"].clone()
}

#[test]
fn a_throughput_within_reach_gives_the_smallest_buffer_and_a_latency_the_largest() {
    let scene = Scene::new();
    let by_rate = recommended(&scene, "--min-throughput 1kB/s");
    assert_eq!((&by_rate["rule"], &by_rate["buffer_bytes"]), (&"min-throughput".into(), &(256 << 10).into()));
    let by_latency = recommended(&scene, "--max-latency 1h");
    assert_eq!(
        (&by_latency["rule"], &by_latency["buffer_bytes"]),
        (&"max-latency".into(), &(1 << 20).into())
    );
}

#[test]
fn both_goals_within_reach_give_the_smallest_buffer_of_those_that_meet_them() {
    let scene = Scene::new();
    let both = recommended(&scene, "--min-throughput 1kB/s --max-latency 1h --percentile 50");
    assert_eq!((&both["rule"], &both["buffer_bytes"]), (&"both".into(), &(256 << 10).into()));
    says(both["reason"].as_str().unwrap(), &["256 KiB, 1 MiB give"]);
}

#[test]
fn goals_out_of_reach_end_with_1_and_one_line_that_names_the_nearest() {
    let scene = Scene::new();
    for (goals, wanted) in [
        ("--min-throughput 9000GB/s", "no buffer reaches 9000000 MB/s"),
        ("--max-latency 1us", "no buffer keeps mean latency within 1 us"),
        ("--max-latency 1us --percentile 50", "p50 latency within 1 us"),
        ("--min-throughput 9000GB/s --max-latency 1us", "no buffer does both"),
    ] {
        let ran = scene.run(&format!("{LINE} {goals} --out out --force"));
        assert_eq!(ran.code, Some(1), "{ran:?}");
        says(&ran.complaint(), &[wanted, "nearest is ", "iB at a time: "]);
        // The measuring was done, and so its results are there.
        says(&ran.stdout, &["Wrote out/probe.json"]);
        let report = scene.json("out/probe.json");
        assert!(report["recommendation"]["buffer_bytes"].is_null());
        assert_eq!(list(&report, "points").len(), 2);
        says(&scene.text("out/probe.html"), &["No measured buffer is known to meet the goals"]);
    }
}

#[test]
fn a_percentile_that_is_not_known_meets_no_goal_and_the_line_says_what_to_add() {
    let scene = Scene::new();
    let ran = scene.run("probe data --sizes 1m --runs 1 --max-latency 1h --percentile 99.9");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    says(&ran.complaint(), &["p99.9 latency", "too few writes", "add --runs"]);
}

#[test]
fn records_and_their_rate_become_a_batch_and_its_waiting_time() {
    let scene = Scene::new();
    let ran = scene.done("probe data --sizes 1m --runs 2 --record-size 512 --arrival-rate 20k/s");
    says(&ran.stdout, &["One buffer carries 2,048 records of 512 B; at 20000 records/s it fills in 102 ms"]);
    let report = scene.json("probe.json");
    let batching = &report["batching"];
    assert_eq!(batching["records_per_batch"], 2048);
    assert_eq!(batching["arrival_rate_per_s"], 20e3);
    assert_eq!(batching["fill_time_s"], 2048.0 / 20e3);

    let alone = scene.done("probe data --sizes 1m --runs 2 --record-size 1m");
    says(&alone.stdout, &["One buffer carries 1 record"]);
}

#[test]
fn a_record_larger_than_the_buffer_is_not_said_to_fit_it() {
    let scene = Scene::new();
    let ran = scene.done("probe data --sizes 1m --runs 2 --record-size 2m");
    assert!(
        !ran.stdout.contains("One buffer carries 1 records of 2 MiB"),
        "a buffer of 1 MiB carries no record of 2 MiB: {}",
        ran.stdout
    );
}
