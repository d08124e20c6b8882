//! The documents for people's programs: as their schemas say, and read by the Python package.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::made_up::Shape;
use crate::support::load::write;
use crate::support::metrics::scrape;
use crate::support::served::{Server, Volume, noise};
use crate::support::{Scene, skip};
use evenkeel_measure::study::store::SCHEMA;

const NAME: &str = "documents_are_as_their_schemas_say_and_python_reads_them";

fn python(package: &Path) -> Command {
    let mut python = Command::new("python3");
    python.current_dir(package).env("PYTHONPATH", package.join("src")).env("PYTHONDONTWRITEBYTECODE", "1");
    python
}

/// Keeps a document of the scene under a name of its own.
fn keep(scene: &Scene, from: &str, name: &str) {
    fs::copy(scene.path(from), scene.path(&format!("documents/{name}.json"))).unwrap();
}

/// Keeps what a command prints, however it ends.
fn print(scene: &Scene, line: &str, name: &str) {
    let ran = scene.run(line);
    assert!(ran.stdout.starts_with('{'), "{ran:?}");
    fs::write(scene.path(&format!("documents/{name}.json")), ran.stdout).unwrap();
}

fn measured(scene: &Scene) {
    fs::create_dir(scene.path("other")).unwrap();
    for (name, line) in [
        ("probe", "probe data --sizes 64k..2m --runs 3 --time 10s --record-size 200 --arrival-rate 100"),
        ("again", "probe data --sizes 64k..2m --runs 3 --time 10s --min-throughput 1MB/s --max-latency 10s"),
        ("matrix", "probe data --matrix --sizes 1m --runs 2 --time 2s"),
        ("sessions", "probe data --sizes 1m --runs 2 --sessions 3 --every 10ms"),
        ("etcd", "probe data --like etcd --runs 3 --time 1s"),
        ("pairs", "probe data other --sizes 256k,1m --runs 3 --time 2s"),
        ("soak", "probe data --soak 2s"),
        // A busy machine may cut the largest sizes of one of them.
        ("compare", "compare probe/probe.json again/probe.json --common-sizes"),
        ("reproduce", "reproduce okeanos-recovery --quick"),
    ] {
        let ran = scene.run(&format!("{line} --out {name}"));
        assert!(matches!(ran.code, Some(0 | 1)), "{ran:?}");
        let stem = ["pairs", "soak", "compare", "reproduce"].into_iter().find(|stem| *stem == name);
        keep(scene, &format!("{name}/{}.json", stem.unwrap_or("probe")), name);
    }
    fs::create_dir(scene.path("study")).unwrap();
    crate::made_up::write(&scene.path("study/study.db"), SCHEMA, &Shape::SMALL).unwrap();
    scene.done("study report study");
    keep(scene, "study/study.json", "study");
    fs::write(scene.path("trace"), "d,0,4096,R,0.00\nd,8,1536,W,0.01\n").unwrap();
    fs::write(scene.path("image"), vec![0; 1 << 20]).unwrap();
    scene.done("replay trace image --destroy image --json documents/replay.json");
    let command = scene.command("drive steady --size 64m --nbd unix:drive");
    let drive = Server::start(scene.folder().to_owned(), scene.path("drive-stderr"), command).ready();
    print(scene, "drive --status unix:drive", "drive");
    drive.stop();
}

/// Turns a bit of the first page of these contents in every file that has it.
fn damage_page(scene: &Scene, contents: &[u8]) {
    for file in scene.names("disk") {
        let path = format!("disk/{file}");
        if !scene.path(&path).is_file() {
            continue;
        }
        let mut bytes = scene.bytes(&path);
        // Behind superblocks and roots, at a whole page or a sector of a log.
        let Some(at) = bytes.chunks(512).position(|sector| *sector == contents[..512]) else { continue };
        bytes[at * 512] ^= 1;
        fs::write(scene.path(&path), bytes).unwrap();
    }
}

/// Of a volume and of a mirror: while served, whole, and damaged.
fn volumes(scene: &Scene) {
    let noise = noise(1, 4 << 20);
    let sizes = "--size 16m --log-size 16m --buffer 8m";
    for layout in ["", "--layout mirror --atomic-sectors yes"] {
        let name = if layout.is_empty() { "single" } else { "mirror" };
        let volume = Volume::create(scene, &format!("{sizes} {layout}"));
        if layout.is_empty() {
            scene.done("tune disk --dry-run --time 1s --load trace --json documents/tune.json");
        }
        let server = volume.serve("--http 127.0.0.1:0");
        write(&volume.socket(), 0, &noise);
        print(scene, "status disk --json", &format!("status-{name}"));
        print(scene, "status disk --watch --json --count 1", &format!("status-{name}-watched"));
        let address = server.told("page: http://");
        let history = scrape(address.trim_end_matches('/'), "/history.json").1;
        fs::write(scene.path(&format!("documents/history-{name}.json")), history).unwrap();
        server.stop();
        print(scene, "check disk --json", &format!("check-{name}"));
        damage_page(scene, &noise);
        print(scene, "check disk --json", &format!("check-{name}-damaged"));
        print(scene, "salvage disk out --json", &format!("salvage-{name}"));
        fs::remove_dir_all(scene.path("disk")).unwrap();
        fs::remove_file(scene.path("out")).unwrap();
    }
}

#[test]
fn documents_are_as_their_schemas_say_and_python_reads_them() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python").canonicalize().unwrap();
    if !python(&package).args(["-c", "pass"]).status().is_ok_and(|status| status.success()) {
        return skip(NAME, "no python3");
    }
    let scene = Scene::new();
    fs::create_dir(scene.path("documents")).unwrap();
    measured(&scene);
    volumes(&scene);
    let output = python(&package)
        .args(["-m", "unittest", "discover", "--verbose", "-s", "tests"])
        .env("EVENKEEL_DOCUMENTS", scene.path("documents"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("Ran 0 tests"), "{said}");
    if said.contains("no jsonschema") {
        skip(NAME, "no jsonschema for python3: documents were read, and not held against their schemas");
    }
    if said.contains("no pandas") {
        skip(NAME, "no pandas for python3: rows were read, and no data frames made of them");
    }
}
