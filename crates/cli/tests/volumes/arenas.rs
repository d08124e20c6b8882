//! `evenkeel arenas`: whose memory is left in `/dev/shm`, and what may be freed of it.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::load::{contents, write};
use crate::support::root::{Mounted, must_be_root, run};
use crate::support::served::{Server, Volume, arenas_of, noise};
use crate::support::{Scene, or_skip, says};

const FLAGS: &str = "--size 16m --log-size 16m --buffer 1m";

/// What `evenkeel arenas --json FLAGS` says of an arena; `Null` where it does not list it.
#[track_caller]
fn listed(scene: &Scene, arena: &Path, flags: &str) -> Value {
    let ran = scene.done(&format!("arenas --json {flags}"));
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(document["schema"], "evenkeel.arenas/1");
    let all = document["arenas"].as_array().unwrap();
    let found = all.iter().find(|found| found["path"] == arena.display().to_string().as_str());
    found.cloned().unwrap_or_default()
}

/// What `evenkeel arenas` says of an arena for people: the lines below its path.
#[track_caller]
fn told(scene: &Scene, arena: &Path) -> String {
    let text = scene.done("arenas").stdout;
    let rest = text.split_once(&format!("{}\n", arena.display())).expect("it is listed").1;
    rest.lines().take(2).collect::<Vec<_>>().join("\n")
}

/// A volume whose server was killed, with writes that are nowhere but in its arena, and without any.
fn killed<'a>(scene: &'a Scene, bytes: &[u8]) -> (Volume<'a>, PathBuf) {
    let volume = Volume::create(scene, FLAGS);
    let mut server = volume.serve("");
    if !bytes.is_empty() {
        write(&volume.socket(), 0, bytes);
    }
    server.kill();
    let arena = volume.arena().unwrap();
    (volume, arena)
}

/// An arena that goes with the test, whatever becomes of its volume.
struct Kept(PathBuf);

impl Drop for Kept {
    fn drop(&mut self) {
        let _gone_already_is_fine = fs::remove_file(&self.0);
    }
}

#[test]
fn an_arena_is_in_use_then_waits_for_its_volume_and_goes_with_a_stop() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, FLAGS);
    let mut server = volume.serve("");
    let arena = volume.arena().unwrap();
    let found = listed(&scene, &arena, "");
    assert_eq!(found["state"], "in-use", "{found}");
    assert_eq!(found["pid"], server.status().server.pid, "{found}");
    assert_eq!(found["folder"], volume.folder().display().to_string().as_str());
    assert!(found["size_bytes"].as_u64().unwrap() >= 1 << 20, "{found}");
    says(&told(&scene, &arena), &["1.01 MiB, opened ", " ago, of the volume in ", "in use by process "]);
    let path = arena.display();
    for flags in ["", "--dry-run", "--give-up-writes"] {
        let refused = scene.refused(&format!("arenas free {path} {flags}"));
        says(&refused, &[&format!("in use by process {}", server.status().server.pid)]);
    }
    write(&volume.socket(), 0, &noise(1, 100_000));
    server.kill();
    let found = listed(&scene, &arena, "");
    assert_eq!((&found["state"], &found["pid"]), (&"waiting".into(), &Value::Null), "{found}");
    assert!(found["waiting_writes"].as_u64().unwrap() > 0, "{found}");
    let serve = format!("evenkeel serve {}", volume.folder().display());
    says(&told(&scene, &arena), &["waiting for its volume: ", &serve, "acknowledged write", "nowhere else"]);
    for flags in ["", "--dry-run"] {
        let refused = scene.refused(&format!("arenas free {path} {flags}"));
        says(&refused, &["acknowledged write", "nowhere else", "serve it and stop it", "--give-up-writes"]);
    }
    let dry = scene.done(&format!("arenas free {path} --dry-run --give-up-writes"));
    says(&dry.stdout, &["would free ", &path.to_string(), "given up"]);
    let server = volume.serve("");
    assert!(contents(&volume.socket())[..100_000] == noise(1, 100_000));
    server.stop();
    assert_eq!(listed(&scene, &arena, ""), Value::Null);
}

#[test]
fn the_arena_of_a_volume_that_was_deleted_is_an_orphan_and_is_freed_when_its_writes_are_given_up() {
    for (bytes, flags) in [(&noise(1, 50_000)[..], "--give-up-writes"), (&[], "")] {
        let scene = Scene::new();
        let (volume, arena) = killed(&scene, bytes);
        let _kept = Kept(arena.clone());
        fs::remove_dir_all(volume.folder()).unwrap();
        let found = listed(&scene, &arena, "");
        assert_eq!(found["state"], "orphaned", "{found}");
        assert_eq!(found["waiting_writes"].as_u64().unwrap() > 0, !bytes.is_empty(), "{found}");
        says(&told(&scene, &arena), &["orphaned: ", "home is not there any more"]);
        says(&scene.done("arenas").stdout, &["of them orphaned ", "evenkeel arenas free PATH"]);
        if !bytes.is_empty() {
            let refused = scene.refused(&format!("arenas free {}", arena.display()));
            says(&refused, &["nowhere else", "where it was moved", "--give-up-writes"]);
        }
        assert!(arena.exists());
        let freed = scene.done(&format!("arenas free {} {flags}", arena.display()));
        says(&freed.stdout, &["freed 1.01 MiB: ", &arena.display().to_string()]);
        assert!(!arena.exists());
    }
}

#[test]
fn the_arena_of_a_volume_that_was_moved_looks_orphaned_and_is_kept_until_the_volume_takes_it() {
    let scene = Scene::new();
    let (volume, arena) = killed(&scene, &noise(1, 50_000));
    fs::rename(volume.folder(), scene.path("moved")).unwrap();
    assert_eq!(listed(&scene, &arena, "")["state"], "orphaned");
    scene.refused(&format!("arenas free {}", arena.display()));
    fs::rename(scene.path("moved"), volume.folder()).unwrap();
    // Another volume where it was is not it.
    fs::rename(volume.folder(), scene.path("moved")).unwrap();
    scene.done(&format!("create disk {FLAGS}"));
    let found = listed(&scene, &arena, "");
    assert_eq!(found["state"], "orphaned", "{found}");
    says(found["why"].as_str().unwrap(), &["another volume or file is at "]);
    fs::remove_dir_all(volume.folder()).unwrap();
    fs::rename(scene.path("moved"), volume.folder()).unwrap();
    let server = volume.serve("");
    assert!(contents(&volume.socket())[..50_000] == noise(1, 50_000));
    server.stop();
}

#[test]
fn the_arena_of_a_mirror_is_known_by_its_folder() {
    let scene = Scene::new();
    let volume = Volume::create(&scene, &format!("{FLAGS} --layout mirror"));
    let mut server = volume.serve("");
    write(&volume.socket(), 0, &noise(1, 50_000));
    server.kill();
    let arena = volume.arena().unwrap();
    let _kept = Kept(arena.clone());
    let found = listed(&scene, &arena, "");
    assert_eq!(found["state"], "waiting", "{found}");
    assert_eq!(found["folder"], volume.folder().display().to_string().as_str());
    scene.refused(&format!("arenas free {}", arena.display()));
    fs::remove_dir_all(volume.folder()).unwrap();
    assert_eq!(listed(&scene, &arena, "")["state"], "orphaned");
}

#[test]
fn an_arena_waits_for_a_volume_whose_home_was_put_back_from_a_copy() {
    let scene = Scene::new();
    let (volume, arena) = killed(&scene, &noise(1, 50_000));
    fs::copy(scene.path("disk/home"), scene.path("copy")).unwrap();
    fs::rename(scene.path("copy"), scene.path("disk/home")).unwrap();
    let found = listed(&scene, &arena, "");
    assert_eq!(found["state"], "waiting", "{found}");
    scene.refused(&format!("arenas free {}", arena.display()));
    let server = volume.serve("");
    assert!(contents(&volume.socket())[..50_000] == noise(1, 50_000));
    server.stop();
}

#[test]
fn an_arena_whose_file_system_is_not_mounted_is_no_orphan() {
    let scene = Scene::new();
    let mounted = or_skip!(Mounted::tmpfs(&scene.path("mounted"), "64m"));
    scene.done(&format!("create mounted/disk {FLAGS}"));
    let (folder, stderr) = (scene.path("mounted/disk"), scene.path("stderr"));
    let server = Server::start(folder.clone(), stderr, scene.command("serve mounted/disk")).ready();
    write(&folder.join("nbd.sock"), 0, &noise(1, 50_000));
    let arena = Kept(arenas_of(&folder).pop_first().unwrap());
    drop(server);
    assert_eq!(listed(&scene, &arena.0, "")["state"], "waiting");
    drop(mounted);
    let found = listed(&scene, &arena.0, "");
    assert_eq!(found["state"], "unknown", "{found}");
    says(found["why"].as_str().unwrap(), &["home is not there, nor is the file system", "mount that"]);
    says(&scene.refused(&format!("arenas free {}", arena.0.display())), &["mount that"]);
}

/// A name of an arena in `folder`.
fn name(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("evenkeel-0123456789abcdef-{number:016x}.arena"))
}

#[test]
fn what_only_has_the_name_of_an_arena_is_not_taken_for_one() {
    let scene = Scene::new();
    let (volume, arena) = killed(&scene, &noise(1, 50_000));
    let _kept = Kept(arena.clone());
    let folder = scene.path("data");
    let (junk, empty, short, link, pipe) =
        (name(&folder, 1), name(&folder, 2), name(&folder, 3), name(&folder, 4), name(&folder, 5));
    fs::write(&junk, vec![7; 100_000]).unwrap();
    fs::write(&empty, vec![0; 100_000]).unwrap();
    fs::copy(&arena, &short).unwrap();
    OpenOptions::new().write(true).open(&short).unwrap().set_len(500_000).unwrap();
    symlink(&arena, &link).unwrap();
    run("mkfifo", &[&pipe.display().to_string()]).unwrap();
    fs::create_dir(name(&folder, 6)).unwrap();
    fs::write(folder.join("evenkeel-other.arena"), "").unwrap();
    let look = |path: &Path| listed(&scene, path, "--in data")["state"].clone();
    let path = |at: &Path| scene.path("data").join(at.file_name().unwrap()).display().to_string();
    let relative = |at: &Path| PathBuf::from("data").join(at.file_name().unwrap());
    assert_eq!(look(&relative(&junk)), "unknown");
    assert_eq!(look(&relative(&short)), "unknown");
    assert_eq!(look(&relative(&empty)), "orphaned");
    for none in [&link, &pipe, &name(&folder, 6), &folder.join("evenkeel-other.arena")] {
        assert_eq!(look(&relative(none)), Value::Null, "{}", none.display());
        says(&scene.refused(&format!("arenas free {} --give-up-writes", path(none))), &["it is no arena"]);
    }
    for unsure in [&junk, &short] {
        says(
            &scene.refused(&format!("arenas free {}", path(unsure))),
            &["cannot be told", "--give-up-writes"],
        );
    }
    // All or nothing.
    scene.refused(&format!("arenas free {} {}", path(&empty), path(&junk)));
    assert!(empty.exists() && junk.exists());
    scene.done(&format!("arenas free {}", path(&empty)));
    assert!(!empty.exists() && arena.exists());
    says(&scene.refused("arenas --in nowhere"), &["nowhere: cannot read the folder"]);
    let server = volume.serve("");
    assert!(contents(&volume.socket())[..50_000] == noise(1, 50_000));
    server.stop();
}

#[test]
fn an_arena_of_another_user_is_told_as_that_and_what_it_claims_is_not() {
    or_skip!(must_be_root());
    let scene = Scene::new();
    let (_volume, arena) = killed(&scene, &noise(1, 50_000));
    let disk = scene.path("disk").display().to_string();
    says(&told(&scene, &arena), &["waiting", &disk]);
    // What it says of its volume may be any text: that volume is not its user's.
    const USER: u32 = 65_533;
    chown(&arena, Some(USER), None).unwrap();
    let is_silent = |line: &str| {
        says(line, &["of user 65533"]);
        assert!(!line.contains(&disk), "{line}");
    };
    is_silent(&told(&scene, &arena));
    let document = listed(&scene, &arena, "");
    assert_eq!(
        (&document["user_id"], &document["home"], &document["folder"]),
        (&USER.into(), &Value::Null, &Value::Null)
    );
    // It is, where the folder is that user's.
    chown(scene.path("disk"), Some(USER), None).unwrap();
    says(&told(&scene, &arena), &["waiting", &disk, "of user 65533"]);
    chown(scene.path("disk"), Some(0), None).unwrap();
    // Gone, its place is not told, either.
    fs::rename(scene.path("disk"), scene.path("moved")).unwrap();
    is_silent(&told(&scene, &arena));
    assert!(!listed(&scene, &arena, "").to_string().contains(&disk));
    fs::remove_file(&arena).unwrap();
}

#[test]
fn its_help_and_manual_page_have_examples() {
    let scene = Scene::new();
    says(&scene.done("arenas --help").stdout, &["Examples:", "evenkeel arenas free", "orphaned"]);
    says(&scene.done("arenas free --help").stdout, &["Examples:", "--give-up-writes", "--dry-run"]);
    says(&scene.done("man arenas").stdout, &[".TH evenkeel-arenas 1", "Examples"]);
    says(&scene.done("completions bash").stdout, &["arenas", "give-up-writes"]);
}
