//! What is refused: exit code 2, one line that names what is wrong and what to do, and nothing touched.

use std::fs;

use crate::support::root::Mounted;
use crate::support::{Scene, list, or_skip, says};

#[test]
fn a_folder_that_does_not_exist_is_refused() {
    let scene = Scene::new();
    let line = scene.refused("probe nowhere/at/all");
    says(&line, &["nowhere/at/all: ", "there is no such folder", "--new-file"]);
    says(&scene.refused("probe absent"), &["absent: there is no such folder"]);
    says(&scene.refused("probe nowhere/at --new-file"), &["name a file in one that exists"]);
    says(&scene.refused("probe data --new-file"), &["data: it exists", "name another"]);
    assert_eq!(scene.names("."), ["data".to_owned()].into());
}

#[test]
fn an_existing_file_is_refused_without_destroy_and_with_another_name() {
    let scene = Scene::new();
    fs::write(scene.path("precious"), "precious bytes").unwrap();
    fs::write(scene.path("other"), "other bytes").unwrap();
    let line = scene.refused("probe precious --sizes 4k --runs 1");
    says(&line, &["precious: ", "add --destroy precious"]);
    let line = scene.refused("probe precious --destroy other --sizes 4k --runs 1");
    says(&line, &["precious: ", "--destroy names other", "repeat the same name"]);
    let line = scene.refused("probe precious --destroy precious --file-state fresh");
    says(&line, &["precious: ", "--file-state fresh"]);
    assert_eq!(scene.text("precious"), "precious bytes");
    assert_eq!(scene.text("other"), "other bytes");
    assert_eq!(scene.names("."), ["data", "other", "precious"].map(str::to_owned).into());
}

#[test]
fn destroy_is_refused_for_a_folder_and_for_what_is_not_there() {
    let scene = Scene::new();
    for name in ["data", "absent"] {
        let line = scene.refused(&format!("probe {name} --destroy {name}"));
        says(&line, &[&format!("{name}: --destroy"), "leave it out"]);
    }
    assert!(scene.names("data").is_empty());
}

#[test]
fn a_character_device_is_refused() {
    let scene = Scene::new();
    for line in ["probe /dev/null", "probe /dev/null --destroy /dev/null"] {
        says(&scene.refused(line), &["/dev/null: neither a folder, nor a file, nor a block device"]);
    }
}

#[test]
fn wrong_words_are_refused_with_the_flag_and_an_example() {
    let scene = Scene::new();
    for (line, parts) in [
        ("--sizes 4x", ["--sizes", "4096, 4k or 16m"]),
        ("--sizes 16k..4k", ["--sizes", "larger than the last"]),
        ("--sizes 0", ["--sizes", "at least one byte"]),
        ("--sizes 2g", ["--sizes", "larger than 1 GiB"]),
        ("--time soon", ["--time", "120s, 2m or 2.5ms"]),
        ("--time 0s", ["--time", "120s, 2m or 2.5ms"]),
        ("--min-throughput fast", ["--min-throughput", "200MB/s"]),
        ("--min-throughput 200", ["has no unit", "200MB/s"]),
        ("--max-latency 2", ["has no unit", "2ms"]),
        ("--record-size 512 --arrival-rate often", ["--arrival-rate", "5k/s"]),
        ("--precision 100%", ["--precision", "5% or 0.05"]),
        ("--runs 0", ["--runs", "1..=10000"]),
        ("--writers 0", ["--writers", "1..=256"]),
        ("--method sync", ["--method", "direct-dsync"]),
        ("--max-latency 1ms --percentile 98", ["--percentile", "99.9"]),
        ("--percentile 99", ["--max-latency", "not provided"]),
        ("--arrival-rate 5k", ["--record-size", "not provided"]),
        ("--force", ["--out", "not provided"]),
        ("--matrix --method dsync", ["--matrix", "cannot be used with '--method"]),
    ] {
        says(&scene.misused(&format!("probe data {line}")), &parts);
    }
    says(&scene.misused("probe"), &["<PATH>"]);
    says(&scene.misused("prode data"), &["unrecognized subcommand 'prode'"]);
    assert_eq!(scene.names("."), ["data".to_owned()].into());
}

#[test]
fn an_out_folder_that_cannot_be_made_is_refused_before_anything_is_measured() {
    let scene = Scene::new();
    fs::write(scene.path("file"), "").unwrap();
    let ran = scene.run("probe data --sizes 1m --runs 1 --out file/below");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    says(&ran.complaint(), &["file/below: cannot write the results here: Not a directory", "--out"]);
}

#[test]
fn files_that_do_not_fit_the_file_system_are_refused_and_none_is_left() {
    let scene = Scene::new();
    let _mounted = or_skip!(Mounted::tmpfs(&scene.path("small"), "8m"));
    for state in ["fresh", "allocated", "written"] {
        let line = scene.refused(&format!("probe small --sizes 4k,64k --runs 1 --file-state {state}"));
        says(&line, &["small: the probe needs 16 MiB", "make room", "--sizes"]);
        assert!(scene.names("small").is_empty(), "{state}");
    }
    let line = scene.refused("probe small --sizes 16m --runs 1");
    says(&line, &["small: the probe needs 64 MiB and 8 MiB are free"]);
    assert_eq!(scene.names("."), ["data", "small"].map(str::to_owned).into());
}

#[test]
fn files_that_fit_are_not_refused_for_the_room_that_they_take_themselves() {
    let scene = Scene::new();
    let _mounted = or_skip!(Mounted::tmpfs(&scene.path("room"), "70m"));
    // One file of 64 MiB in either state: new each time, or written once and kept.
    for state in ["fresh", "allocated", "written"] {
        scene.done(&format!("probe room --sizes 16m --runs 1 --file-state {state} --out {state}"));
    }
}

#[test]
fn a_read_only_mount_is_refused() {
    let scene = Scene::new();
    let mounted = or_skip!(Mounted::tmpfs(&scene.path("frozen"), "8m"));
    mounted.make_read_only();
    for name in ["frozen", "frozen/new --new-file"] {
        let line = scene.refused(&format!("probe {name} --sizes 4k --runs 1"));
        says(&line, &["frozen: ", "read-only", "choose another, or remount it"]);
    }
    let line = scene.refused("probe data --sizes 1m --runs 1 --out frozen/results");
    says(&line, &["frozen/results: ", "Read-only file system"]);
}

#[test]
fn an_out_folder_that_cannot_be_written_is_refused_before_anything_is_measured() {
    let scene = Scene::new();
    let mounted = or_skip!(Mounted::tmpfs(&scene.path("frozen"), "8m"));
    mounted.make_read_only();
    let ran = scene.run("probe data --sizes 1m --runs 1 --out frozen");
    assert_eq!(ran.code, Some(2), "{ran:?}");
    says(&ran.complaint(), &["frozen", "Read-only file system", "--out"]);
    assert_eq!(ran.stdout, "", "measured first, and all of it lost: {ran:?}");
}

#[test]
fn a_probe_that_cannot_be_read_is_not_compared() {
    let scene = Scene::new();
    scene.done("probe data --sizes 1m --runs 2 --out base");
    let whole = scene.text("base/probe.json");
    fs::write(scene.path("other.json"), "{\"a\": 1}").unwrap();
    fs::write(scene.path("list.json"), "[1, 2]").unwrap();
    fs::write(scene.path("text.json"), "buffer,throughput\n").unwrap();
    fs::write(scene.path("cut.json"), &whole[..whole.len() / 2]).unwrap();
    fs::write(scene.path("newer.json"), whole.replace("evenkeel.probe/1", "evenkeel.probe/9")).unwrap();
    fs::write(scene.path("less.json"), whole.replace("\"kernel\"", "\"colonel\"")).unwrap();
    for (name, what) in [
        ("absent.json", "No such file"),
        ("data", "Is a directory"),
        ("other.json", "make one with `evenkeel probe`"),
        ("list.json", "make one with `evenkeel probe`"),
        ("text.json", "make one with `evenkeel probe`"),
        ("cut.json", "make one with `evenkeel probe`"),
        ("newer.json", "its schema is \"evenkeel.probe/9\", and \"evenkeel.probe/1\" is needed"),
        ("less.json", "missing field `kernel`"),
    ] {
        for line in [format!("compare base/probe.json {name}"), format!("compare {name} base/probe.json")] {
            says(&scene.refused(&line), &[&format!("evenkeel: {name}: "), what]);
        }
    }
}

#[test]
fn unlike_probes_are_not_compared() {
    let scene = Scene::new();
    let probe = |name: &str, flags: &str| {
        scene.done(&format!("probe data --runs 2 --out {name} {flags}"));
    };
    probe("base", "--sizes 512k,1m");
    probe("method", "--sizes 512k,1m --method fsync");
    probe("state", "--sizes 512k,1m --file-state written");
    probe("writers", "--sizes 512k,1m --writers 2");
    probe("sizes", "--sizes 1m,2m");
    probe("apart", "--sizes 2m");
    for (name, flags, what) in [
        ("writers", "", "the number of writers differs: 1 and 2"),
        ("sizes", "", "the buffer sizes differ; measure the same --sizes"),
        ("sizes", "", "--common-sizes"),
        ("apart", "--common-sizes", "no buffer size in common"),
    ] {
        let line = scene.refused(&format!("compare base/probe.json {name}/probe.json {flags}"));
        says(&line, &[&format!("{name}/probe.json: cannot be compared: "), what]);
    }
    // Ways of writing are what one may want to compare: they are named.
    for (name, what) in [("method", "direct-dsync and fsync"), ("state", "files that are fresh and written")]
    {
        scene.done(&format!("compare base/probe.json {name}/probe.json --out {name}-found"));
        let found = scene.json(&format!("{name}-found/compare.json"));
        assert_eq!(list(&found, "comparisons")[0]["unlike"], serde_json::json!([what]));
    }
    let ran = scene.done("compare base/probe.json sizes/probe.json --common-sizes");
    says(&ran.stdout, &["1 MiB"]);
    assert!(!ran.stdout.contains("512 KiB") && !ran.stdout.contains("2 MiB"), "{}", ran.stdout);
}
