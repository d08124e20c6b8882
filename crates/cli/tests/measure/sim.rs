//! `evenkeel sim`: seeds, and one seed seen again.

use crate::support::{Scene, says};

#[test]
fn seeds_are_counted_with_their_cuts_and_no_promise_is_broken() {
    let scene = Scene::new();
    let ran = scene.done("sim --seeds 40 --seed 7");
    says(&ran.stdout, &["40 seeds, ", " cuts, ", " recoveries, 0 failures; "]);
}

#[test]
fn one_seed_shows_what_it_stands_for() {
    let scene = Scene::new();
    let ran = scene.done("sim --seeds 1 --seed 7 --cuts 3");
    says(&ran.stdout, &["seed: 7", "cuts: 3", "1 seeds, "]);
}

#[test]
fn seeds_of_rings_are_counted_with_what_befell_their_devices() {
    let scene = Scene::new();
    let ran = scene.done("sim --layout mirror --seeds 40");
    says(&ran.stdout, &["40 seeds, ", ", 0 failures; ", "faults: ", " rebuilt"]);
    let ran = scene.done("sim --layout rs:2+1 --seeds 20");
    says(&ran.stdout, &["20 seeds, ", " 0 failures; "]);
    let ran = scene.done("sim --layout mirror:3 --seeds 1 --seed 7");
    says(&ran.stdout, &["members: 3", "1 seeds, "]);
}

#[test]
fn layouts_that_there_are_not_are_refused() {
    let scene = Scene::new();
    for layout in ["mirror:0", "mirror:6", "mirror:x", "rs", "rs:4", "rs:1+1", "rs:9+1", "rs:4+x"] {
        assert_eq!(scene.run(&format!("sim --layout {layout}")).code, Some(2), "{layout}");
    }
    assert_eq!(scene.run("sim --exhaustive --layout rs").code, Some(2));
}

#[test]
fn no_seeds_and_no_cuts_are_refused() {
    let scene = Scene::new();
    for line in
        ["sim --states 5", "sim --exhaustive --cuts 3", "sim --seeds 0", "sim --cuts 0", "sim --seed x"]
    {
        assert_eq!(scene.run(line).code, Some(2), "{line}");
    }
}

#[test]
fn the_last_seeds_are_run_and_none_beyond_them() {
    let scene = Scene::new();
    let ran = scene.done("sim --seed 18446744073709551614 --seeds 2");
    says(&ran.stdout, &["2 seeds, "]);
    let ran = scene.run("sim --seed 18446744073709551614 --seeds 3");
    assert_eq!(ran.code, Some(2));
    says(&ran.stderr, &["--seed 18446744073709551614", "the last one is 18446744073709551615"]);
}

#[test]
fn every_crash_of_a_small_workload_is_counted() {
    let scene = Scene::new();
    let ran = scene.done("sim --exhaustive --states 5000 --seed 4");
    let counts =
        [" in every outcome, ", " in a sample), ", " crash states (", " by cuts within the recoveries of "];
    says(&ran.stdout, &counts);
    says(&ran.stdout, &[" 0 failures; "]);
}

#[test]
fn one_crash_state_is_tried_again_alone() {
    let scene = Scene::new();
    let ran = scene.done("sim --exhaustive --seed 4 --state 3000");
    says(&ran.stdout, &[" 1 crash states (", " 0 failures; "]);
    let ran = scene.run("sim --exhaustive --seed 4 --state 3000000");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    says(&ran.stderr, &["has no state 3000000"]);
}

#[test]
fn every_crash_of_a_small_ring_is_counted_with_drives_lost_and_tried_again_alone() {
    let scene = Scene::new();
    let ran = scene.done("sim --exhaustive --layout mirror --states 3000 --seed 6");
    says(&ran.stdout, &[" crash states (", " with drives lost, ", " 0 failures; "]);
    let ran = scene.done("sim --exhaustive --layout rs:2+1 --states 500 --seed 6");
    says(&ran.stdout, &[" crash states ", " 0 failures"]);
    let ran = scene.done("sim --exhaustive --layout mirror --seed 6 --state 1000");
    says(&ran.stdout, &[" 1 crash states (", " 0 failures; "]);
}
