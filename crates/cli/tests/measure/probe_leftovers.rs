//! What a probe that is killed leaves in a folder, and what the next one there does about it.

use std::fs;
use std::process::{Child, Stdio};

use crate::support::served::patiently;
use crate::support::{Scene, says};

/// A probe that goes on for long, with files that stay between runs.
const LONG: &str = "probe data --sizes 64k --runs 10000 --file-state written --writers 2 --out long";

const SHORT: &str = "probe data --sizes 64k --runs 1 --out short --force";

/// A probe that is under way; it is killed when this is dropped.
struct UnderWay(Child);

impl UnderWay {
    fn start(scene: &Scene) -> Self {
        let child = scene.command(LONG).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let begun = Self(child);
        patiently("files of the probe", || {
            let names = scene.names("data");
            names.iter().any(|name| name.contains("-written-0-1")).then_some(())
        });
        begun
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let _ended_already_is_fine = self.0.kill();
        let _ended_already_is_fine = self.0.wait();
    }
}

#[test]
fn what_a_killed_probe_left_is_named_and_removed_by_the_next_one_and_that_of_a_living_one_is_not() {
    let scene = Scene::new();
    fs::write(scene.path("data/precious"), "precious").unwrap();
    fs::write(scene.path("data/.evenkeel-probe-1-2-0"), "whose?").unwrap();
    let kept = ["precious", ".evenkeel-probe-1-2-0"].map(str::to_owned).into();
    let living = UnderWay::start(&scene);
    let told = scene.done(SHORT).stdout;
    assert!(!told.contains("killed probe"), "{told}");
    says(&told, &["Left alone in data", "1 file", "data/.evenkeel-probe-1-2-0"]);
    assert!(scene.names("data").iter().any(|name| name.contains("-written-0-1")));
    drop(living);
    let left = scene.names("data");
    assert!(left.len() > 4, "{left:?}");
    let files: Vec<&String> = left.iter().filter(|name| name.contains("-written-")).collect();
    assert_eq!(files.len(), 2, "{left:?}");
    let dry = scene.done("probe data --sizes 64k --dry-run").stdout;
    says(&dry, &["Would remove what a killed probe left in data: ", "Nothing was written."]);
    files.iter().for_each(|name| says(&dry, &[&format!("  data/{name}\n")]));
    assert_eq!(scene.names("data"), left);
    let told = scene.done(SHORT).stdout;
    says(&told, &["Removed what a killed probe left in data: ", " MiB\n"]);
    files.iter().for_each(|name| says(&told, &[&format!("  data/{name}\n")]));
    assert_eq!(scene.names("data"), kept);
    assert!(!scene.done(SHORT).stdout.contains("killed probe"));
    assert_eq!(scene.names("data"), kept);
}
