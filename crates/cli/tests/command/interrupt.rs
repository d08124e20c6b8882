//! A probe that is stopped midway cleans up; one that is killed can leave its scratch file, and nothing else.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Ran, Scene, says};

/// A probe that would take hours, stopped by the guard where the test fails.
struct LongProbe<'a> {
    scene: &'a Scene,
    child: Option<Child>,
}

const LINE: &str = "probe data --sizes 4k,64k --runs 10000 --out results";

impl<'a> LongProbe<'a> {
    /// Started, and in the middle of a run: a scratch file is there and has grown.
    fn in_the_middle(scene: &'a Scene, flags: &str) -> Self {
        let child = scene
            .command(&format!("{LINE} {flags}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut probe = Self { scene, child: Some(child) };
        let patience = Instant::now();
        while !probe.has_written() {
            let ended = probe.child.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "the probe ended by itself: {ended:?}");
            assert!(patience.elapsed() < Duration::from_secs(60), "no file has grown");
            thread::sleep(Duration::from_millis(5));
        }
        probe
    }

    fn has_written(&self) -> bool {
        let grown = |name: &String| {
            let found = self.scene.path(&format!("data/{name}")).metadata();
            found.is_ok_and(|found| found.len() > 64 << 10)
        };
        self.scene.names("data").iter().any(grown)
    }

    fn signal(&self, name: &str) {
        let id = self.child.as_ref().unwrap().id().to_string();
        let sent = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &id]).status().unwrap();
        assert!(sent.success());
    }

    fn end(mut self) -> Ran {
        let child = self.child.take().unwrap();
        Ran::of(LINE, child.wait_with_output().unwrap())
    }
}

impl Drop for LongProbe<'_> {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ended_already_is_fine = child.kill();
            let _ended_already_is_fine = child.wait();
        }
    }
}

fn stops_and_cleans_up(signal: &str, flags: &str) {
    let scene = Scene::new();
    let probe = LongProbe::in_the_middle(&scene, flags);
    probe.signal(signal);
    let ran = probe.end();
    assert_eq!(ran.code, Some(130), "{ran:?}");
    says(&ran.complaint(), &["interrupted"]);
    assert!(scene.names("data").is_empty(), "{:?}", scene.names("data"));
    let results = scene.path("results");
    assert!(!results.exists() || scene.names("results").is_empty());
    assert!(!ran.stdout.contains("Wrote"), "{ran:?}");
}

#[test]
fn ctrl_c_ends_with_130_and_leaves_no_file() {
    stops_and_cleans_up("INT", "");
}

#[test]
fn a_polite_kill_ends_with_130_and_leaves_no_file() {
    stops_and_cleans_up("TERM", "");
}

#[test]
fn a_lost_terminal_ends_with_130_and_leaves_no_file() {
    stops_and_cleans_up("HUP", "");
}

#[test]
fn the_files_of_several_writers_and_recycled_ones_go_too() {
    stops_and_cleans_up("INT", "--writers 3");
    stops_and_cleans_up("INT", "--writers 3 --file-state written");
}

#[test]
fn an_impatient_second_ctrl_c_leaves_no_file_either() {
    let scene = Scene::new();
    let probe = LongProbe::in_the_middle(&scene, "--writers 3");
    probe.signal("INT");
    probe.signal("INT");
    let ran = probe.end();
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(scene.names("data").is_empty(), "{:?}", scene.names("data"));
}

#[test]
fn a_scratch_file_and_its_lock_are_all_that_a_merciless_kill_leaves_and_their_names_tell_whose_they_are() {
    let scene = Scene::new();
    let probe = LongProbe::in_the_middle(&scene, "");
    let id = probe.child.as_ref().unwrap().id();
    probe.signal("KILL");
    let ran = probe.end();
    assert_eq!(ran.code, None, "{ran:?}");
    let left = scene.names("data");
    assert!(left.len() <= 2, "{left:?}");
    for name in left {
        assert!(name.starts_with(&format!(".evenkeel-probe-{id}-")), "{name}");
    }
    let results = scene.path("results");
    assert!(!results.exists() || scene.names("results").is_empty());
    // They are in nobody's way, and the next probe removes them.
    scene.done("probe data --sizes 1m --runs 1 --out next");
    assert!(scene.names("data").is_empty(), "{:?}", scene.names("data"));
}
