//! Settings that are found by trying: where they are written, who takes them, and what is left of the trials.

use std::fs;

use serde_json::Value;

use crate::support::served::Volume;
use crate::support::{Scene, says};

const FLAGS: &str = "--size 64m --log-size 16m --buffer 1m";

/// What a description says of a choice.
fn section(batch: &str, threshold: &str) -> String {
    format!(
        "\n[tuned]\nunix_s = 1\ngoal = 'short latency'\nload = 'mixture'\nmeasured = 'much'\n\
         [tuned.batch_max]\n{batch}\nreason = 'it is quick'\n[tuned.threshold]\n{threshold}\nreason = 'so is this'\n"
    )
}

fn describe(scene: &Scene, more: &str) {
    let path = scene.path("disk/volume.toml");
    let text = fs::read_to_string(&path).unwrap();
    let own = text.split("\n[tuned]").next().unwrap().to_owned();
    fs::write(path, own + more).unwrap();
}

#[test]
fn a_search_leaves_nothing_of_its_trials_and_changes_nothing_in_a_dry_run() {
    let scene = Scene::new();
    let _volume = Volume::create(&scene, FLAGS);
    let (before, description) = (scene.names("disk"), scene.text("disk/volume.toml"));
    let found = scene.done("tune disk --dry-run --time 2s --json tune.json").stdout;
    says(
        &found,
        &["Wanted: the best ratio of throughput to latency.", "batch up to", "Nothing was changed."],
    );
    assert_eq!((scene.names("disk"), scene.text("disk/volume.toml")), (before, description));
    let report: Value = serde_json::from_str(&scene.text("tune.json")).unwrap();
    assert_eq!(report["schema"], "evenkeel.tune/1");
    let tried = report["batches"].as_array().unwrap();
    assert!(
        tried.len() >= 5
            && tried.iter().all(|it| it["outcome"]["throughput_bytes_per_s"].as_f64() > Some(0.0))
    );
    // The best first, and the choice among them or the default.
    let scores: Vec<f64> =
        report["thresholds"].as_array().unwrap().iter().map(|it| it["score"].as_f64().unwrap()).collect();
    assert!(scores.is_sorted_by(|one, other| one >= other), "{scores:?}");
    assert!(
        tried.iter().any(|it| it["settings"] == report["chosen"]) || report["chosen"] == report["default"]
    );
    says(&scene.refused("tune disk --json tune.json"), &["tune.json: older results", "--force"]);
}

#[test]
fn a_goal_that_nothing_reaches_is_an_answer() {
    let scene = Scene::new();
    let _volume = Volume::create(&scene, FLAGS);
    let answer = scene.run("tune disk --dry-run --time 2s --max-latency 1ns");
    assert_eq!(answer.code, Some(1), "{}", answer.stderr);
    says(&answer.stderr, &["no setting reaches the goal"]);
}

#[test]
fn a_server_runs_as_the_description_says_unless_an_option_says_otherwise() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    describe(&scene, &section("bytes = 65536", "bytes = 131072"));
    let chosen = |scene: &Scene| {
        let status: Value = serde_json::from_str(&scene.done("status disk --json").stdout).unwrap();
        let chosen = &status["chosen"];
        (
            chosen["batch_max_bytes"].as_u64().unwrap(),
            chosen["threshold_bytes"].as_u64(),
            status["tuned"].clone(),
        )
    };
    let server = volume.serve("");
    let (batch, threshold, tuned) = chosen(&scene);
    assert_eq!((batch, threshold), (65_536, Some(131_072)));
    assert_eq!(tuned["goal"], "short latency");
    says(
        &scene.done("status disk").stdout,
        &["tuned", "batches of up to 64 KiB, straight home from 128 KiB, for short latency"],
    );
    says(&scene.refused("tune disk --forget"), &["it is being served"]);
    server.stop();
    // What is typed wins.
    let server = volume.serve("--threshold 1m");
    assert_eq!(chosen(&scene).1, Some(1 << 20));
    server.stop();
    // Nothing straight home.
    describe(&scene, &section("bytes = 65536", ""));
    let server = volume.serve("");
    assert_eq!(chosen(&scene).1, None);
    server.stop();
    let ran = scene.run("tune disk --forget --dry-run");
    assert_eq!(ran.code, Some(2), "{ran:?}");
    says(&ran.stderr, &["'--forget' cannot be used with '--dry-run'"]);
    says(&scene.done("tune disk --forget").stdout, &["the defaults"]);
    let server = volume.serve("");
    let (batch, threshold, tuned) = chosen(&scene);
    assert_eq!((batch, threshold, tuned), (256 << 10, Some(256 << 10), Value::Null));
    server.stop();
}

#[test]
fn a_ring_has_turns_as_its_description_says_unless_an_option_says_otherwise() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, "--size 64m --layout mirror");
    let found = scene.done("tune disk --dry-run --time 2s --json tune.json").stdout;
    says(&found, &["Turns stay as they are", "--time 30s"]);
    let report: Value = serde_json::from_str(&scene.text("tune.json")).unwrap();
    assert_eq!(report["turns"], Value::Null);
    let turn = |ms: u64| format!("[tuned.turn]\nms = {ms}\nreason = 'it pauses'\n");
    let of_turns = |ms| section("bytes = 65536", "") + &turn(ms);
    describe(&scene, &of_turns(3000));
    let turn_s = || {
        let status: Value = serde_json::from_str(&scene.done("status disk --json").stdout).unwrap();
        status["mirror"]["turn_s"].as_f64().unwrap()
    };
    let server = volume.serve("");
    assert_eq!(turn_s(), 3.0);
    says(&scene.done("status disk").stdout, &["turns of 3 s, for short latency"]);
    server.stop();
    let server = volume.serve("--turn 500ms");
    assert_eq!(turn_s(), 0.5);
    server.stop();
    says(&scene.done("tune disk --forget").stdout, &["the defaults"]);
    let server = volume.serve("");
    assert_eq!(turn_s(), 1.0);
    server.stop();
    describe(&scene, &of_turns(1));
    says(&scene.refused("serve disk"), &["disk/volume.toml", "from 10 to 60000"]);
}

#[test]
fn a_choice_below_what_is_promised_is_refused() {
    let scene = Scene::new();
    let _volume = Volume::create(&scene, FLAGS);
    for (batch, threshold, why) in [
        ("bytes = 65536", "bytes = 4096", "(16 KiB) at least"),
        ("bytes = 1", "", "(4 KiB) to"),
        ("", "", "has no bytes"),
        ("bytes = -1", "", "line "),
        ("byte = 65536", "", "line "),
    ] {
        describe(&scene, &section(batch, threshold));
        says(&scene.refused("serve disk"), &["disk/volume.toml", why]);
    }
}

#[test]
fn what_cannot_be_tried_is_refused_in_one_line() {
    let scene = Scene::new();
    says(&scene.refused("tune nowhere"), &["nowhere"]);
    says(&scene.refused("tune sim:nosuch"), &["no drive is called nosuch"]);
    says(&scene.refused("tune sim:steady --forget"), &["leave --forget out"]);
    let _volume = Volume::create(&scene, FLAGS);
    fs::write(scene.path("reads.csv"), "0,0,4096,r,0.0\n0,8,4096,r,0.1\n").unwrap();
    says(&scene.refused("tune disk --load reads.csv"), &["reads.csv: nothing is written in it"]);
    says(&scene.refused("tune disk --load ."), &["no file"]);
    // What a kill left is named, and left alone.
    fs::create_dir(scene.path("disk/.evenkeel-tune-1")).unwrap();
    says(&scene.refused("tune disk"), &["disk/.evenkeel-tune-1: left by trials", "remove it"]);
    assert!(scene.path("disk/.evenkeel-tune-1").exists());
}

#[test]
fn a_volume_is_tried_before_it_is_made() {
    let scene = Scene::new();
    let made = scene.done(&format!("create disk {FLAGS} --tune=2s")).stdout;
    says(&made, &["Wanted: ", "made a disk of 64 MiB in disk"]);
    let names = scene.names(".");
    assert!(names.iter().all(|name| !name.starts_with(".evenkeel")), "{names:?}");
    says(&scene.done("check disk").stdout, &["16,384 without contents, 0 damaged"]);
}
