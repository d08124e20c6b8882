//! Help, completions and manual pages, and a reader that goes away.

use std::fs::OpenOptions;
use std::process::Stdio;

use crate::support::{Ran, Scene, says};

#[test]
fn the_help_of_each_command_shows_examples() {
    let scene = Scene::new();
    says(&scene.done("--help").stdout, &["probe", "compare", "completions", "man"]);
    says(
        &scene.done("probe --help").stdout,
        &["Examples:", "evenkeel probe . ", "--min-throughput 200MB/s", "Exit status:"],
    );
    says(
        &scene.done("compare --help").stdout,
        &["Examples:", "evenkeel compare before/probe.json after/probe.json"],
    );
    says(&scene.done("study --help").stdout, &["Examples:", "evenkeel study plan --preset five-minutes"]);
    says(&scene.done("study plan --help").stdout, &["Examples:", "--print", "Exit status:"]);
    says(&scene.done("study run --help").stdout, &["Examples:", "--resume", "Exit status:"]);
    says(&scene.done("completions --help").stdout, &["Example:", "evenkeel completions bash"]);
    says(&scene.done("man --help").stdout, &["Examples:", "evenkeel man probe"]);
}

#[test]
fn the_schema_of_each_document_is_printed() {
    let scene = Scene::new();
    let listed = scene.done("schema").stdout;
    for name in [
        "check",
        "compare",
        "drive",
        "history",
        "pairs",
        "probe",
        "replay",
        "reproduce",
        "salvage",
        "soak",
        "status",
        "study",
    ] {
        let printed = scene.done(&format!("schema {name}")).stdout;
        let kept =
            std::fs::read_to_string(format!("{}/../../schemas/{name}.json", env!("CARGO_MANIFEST_DIR")));
        assert_eq!(printed, kept.unwrap(), "{name}");
        says(&listed, &[&format!("\n{name} "), &format!(" evenkeel.{name}/")].map(|part| part.trim_start()));
    }
    assert_eq!(scene.done("schema evenkeel.probe/1").stdout, scene.done("schema probe").stdout);
    says(&scene.refused("schema evenkeel.compare/1"), &["evenkeel.compare/2", "evenkeel.compare/1"]);
    says(&scene.refused("schema proof"), &["`proof`", "`evenkeel schema`"]);
}

#[test]
fn the_version_is_that_of_the_package() {
    let scene = Scene::new();
    let version = concat!("evenkeel ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(scene.done("--version").stdout, version);
}

#[test]
fn each_shell_gets_completions() {
    let scene = Scene::new();
    for shell in ["bash", "zsh", "fish"] {
        let ran = scene.done(&format!("completions {shell}"));
        says(&ran.stdout, &["evenkeel", "min-throughput", "direct-dsync"]);
    }
    says(&scene.misused("completions tcl"), &["tcl", "bash"]);
}

#[test]
fn manual_pages_are_roff() {
    let scene = Scene::new();
    for (line, title) in [
        ("man", ".TH evenkeel 1"),
        ("man probe", ".TH evenkeel-probe 1"),
        ("man compare", ".TH evenkeel-compare 1"),
        ("man renew-log", ".TH evenkeel-renew-log 1"),
        ("man study run", ".TH evenkeel-study-run 1"),
    ] {
        let page = scene.done(line).stdout;
        assert!(page.starts_with(".ie") || page.starts_with(".TH"), "{page}");
        says(&page, &[title, ".SH NAME", ".SH SYNOPSIS"]);
    }
    says(&scene.done("man probe").stdout, &["min\\-throughput", "Examples"]);
}

#[test]
fn all_manual_pages_are_written_at_once() {
    let scene = Scene::new();
    std::fs::create_dir(scene.path("man1")).unwrap();
    scene.done("man --out man1");
    let names = scene.names("man1");
    for name in ["evenkeel.1", "evenkeel-daemon.1", "evenkeel-renew-log.1", "evenkeel-study-run.1"] {
        assert!(names.contains(name), "{name}: {names:?}");
    }
    assert!(!names.contains("evenkeel-study-worker.1"), "nobody types that");
    // Each stands under its own name, and names commands as they are typed.
    let page = scene.text("man1/evenkeel-study-run.1");
    says(&page, &[".TH evenkeel-study-run 1", "evenkeel study run"]);
    says(&scene.text("man1/evenkeel-renew-log.1"), &["evenkeel renew\\-log"]);
    says(&scene.refused("man --out nowhere"), &["nowhere/evenkeel.1: No such file"]);
}

#[test]
fn the_manual_page_of_an_unknown_command_is_refused() {
    let scene = Scene::new();
    says(&scene.refused("man nosuch"), &["no command `nosuch`", "`evenkeel help`"]);
    says(&scene.refused("man study nosuch"), &["no command `study nosuch`"]);
}

#[test]
fn a_reader_that_has_seen_enough_stops_no_probe_halfway() {
    let scene = Scene::new();
    let line = "probe data --sizes 1m --runs 1";
    let mut child = scene.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ran = Ran::of(line, child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    assert!(scene.path("probe.json").exists());
    assert!(scene.names("data").is_empty());
}

#[test]
fn a_reader_that_has_seen_enough_stops_no_comparison_halfway() {
    let scene = Scene::new();
    scene.done("probe data --sizes 1m --runs 2");
    let line = "compare probe.json probe.json --html=page.html";
    let mut child = scene.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ran = Ran::of(line, child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    assert!(scene.path("page.html").exists());
}

#[test]
fn output_that_cannot_be_written_is_one_line_and_not_a_panic() {
    let scene = Scene::new();
    scene.done("probe data --sizes 1m --runs 2");
    for line in [
        "man",
        "completions bash",
        "compare probe.json probe.json",
        "probe data --sizes 1m --runs 1",
        "probe data --dry-run",
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ran = Ran::of(line, scene.command(line).stdout(full).output().unwrap());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        says(&ran.complaint(), &["standard output: No space left on device"]);
    }
}

#[test]
fn a_volume_that_is_made_is_not_told_of_as_one_that_cannot_be() {
    let scene = Scene::new();
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let line = "create disk --size 64m --sparse";
    let ran = Ran::of(line, scene.command(line).stdout(full).output().unwrap());
    assert_eq!(ran.code, Some(1), "{ran:?}");
    says(&ran.complaint(), &["disk: it is made, and standard output: No space left on device"]);
    scene.done("check disk");
}
