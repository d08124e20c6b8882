//! Whose acknowledged writes an arena holds: copies, moved volumes, mixed-up members, other lengths, and openings that
//! come to nothing.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use crate::support::load::{contents, write};
use crate::support::root::{must_be_root, run, system};
use crate::support::served::{Server, arenas_of, noise};
use crate::support::{Ran, Scene, or_skip, says};

const FLAGS: &str = "--size 16m --log-size 16m --buffer 1m";

/// Folders of one scene that hold volumes, whose arenas go with this.
struct Volumes {
    scene: Scene,
}

impl Volumes {
    fn new() -> Self {
        Self { scene: Scene::new() }
    }

    /// `evenkeel create NAME`.
    fn create(&self, name: &str) {
        self.scene.done(&format!("create {name} {FLAGS}"));
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.scene.path(name).join("nbd.sock")
    }

    /// Serves the volume `name` once it is ready.
    fn serve(&self, name: &str) -> Server {
        let (folder, stderr) = (self.scene.path(name), self.scene.path(&format!("{name}-stderr")));
        Server::start(folder, stderr, self.scene.command(&format!("serve {name}"))).ready()
    }

    /// Serves `name`, writes `bytes` at `offset` without a flush, and kills the server.
    fn leave_unflushed(&self, name: &str, offset: usize, bytes: &[u8]) {
        let mut server = self.serve(name);
        write(&self.socket(name), offset as u64, bytes);
        server.kill();
    }

    /// What the volume `name` holds, in a life that ends well.
    fn read(&self, name: &str) -> Vec<u8> {
        let server = self.serve(name);
        let found = contents(&self.socket(name));
        server.stop();
        found
    }

    fn copy(&self, from: &str, to: &str) {
        copy(&self.scene.path(from), &self.scene.path(to));
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.scene.path(from), self.scene.path(to)).unwrap();
    }

    fn arenas(&self, name: &str) -> BTreeSet<PathBuf> {
        arenas_of(&self.scene.path(name))
    }
}

impl Drop for Volumes {
    fn drop(&mut self) {
        for name in self.scene.names(".") {
            for arena in self.arenas(&name) {
                let _gone_already_is_fine = fs::remove_file(arena);
            }
        }
    }
}

fn copy(from: &Path, to: &Path) {
    run("cp", &["-a", &from.display().to_string(), &to.display().to_string()]).unwrap();
}

#[track_caller]
fn holds(found: &[u8], offset: usize, bytes: &[u8]) {
    assert!(found[offset..][..bytes.len()] == *bytes, "{} bytes at {offset} are others", bytes.len());
}

#[test]
fn a_copy_that_is_served_takes_nothing_of_the_volume_it_was_copied_from() {
    let volumes = Volumes::new();
    volumes.create("original");
    volumes.copy("original", "before");
    volumes.leave_unflushed("original", 5000, &noise(1, 100_001));
    // As old as the volume, and as new as it: neither is the one that acknowledged.
    volumes.copy("original", "after");
    for name in ["before", "after"] {
        assert!(
            volumes.read(name).iter().all(|&byte| byte == 0),
            "{name} holds what was never written to it"
        );
    }
    volumes.leave_unflushed("after", 5000, &noise(2, 100_001));
    holds(&volumes.read("original"), 5000, &noise(1, 100_001));
    holds(&volumes.read("after"), 5000, &noise(2, 100_001));
    // Both at once.
    let (original, after) = (volumes.serve("original"), volumes.serve("after"));
    original.stop();
    after.stop();
}

#[test]
fn a_volume_that_was_moved_finds_its_acknowledged_writes() {
    let volumes = Volumes::new();
    volumes.create("here");
    volumes.leave_unflushed("here", 0, &noise(1, 50_000));
    volumes.rename("here", "there");
    let mut server = volumes.serve("there");
    holds(&contents(&volumes.socket("there")), 0, &noise(1, 50_000));
    server.kill();
    // To another file system, where its files are others: a copy of which no original is left.
    volumes.copy("there", "elsewhere");
    fs::remove_dir_all(volumes.scene.path("there")).unwrap();
    let server = volumes.serve("elsewhere");
    says(&server.told("recovered: "), &["kept in memory"]);
    holds(&contents(&volumes.socket("elsewhere")), 0, &noise(1, 50_000));
    server.stop();
    assert_eq!(volumes.arenas("elsewhere"), BTreeSet::new());
}

#[test]
fn an_older_state_of_the_volume_is_refused_while_acknowledged_writes_of_a_newer_one_wait() {
    let volumes = Volumes::new();
    volumes.create("disk");
    volumes.copy("disk", "backup");
    volumes.leave_unflushed("disk", 0, &noise(1, 50_000));
    volumes.copy("disk", "newest");
    // The members as they were, in the same files.
    let restore = |from: &str| {
        for member in ["home", "log"] {
            fs::copy(volumes.scene.path(from).join(member), volumes.scene.path("disk").join(member)).unwrap();
        }
    };
    restore("backup");
    for command in ["serve disk", "check disk"] {
        let line = volumes.scene.refused(command);
        says(&line, &["/dev/shm/evenkeel-", "write", "later opening", "remove"]);
    }
    restore("newest");
    holds(&volumes.read("disk"), 0, &noise(1, 50_000));
    // Given up, as the line says.
    volumes.leave_unflushed("disk", 0, &noise(2, 50_000));
    restore("backup");
    volumes.scene.refused("serve disk");
    volumes.arenas("disk").iter().for_each(|arena| fs::remove_file(arena).unwrap());
    assert!(volumes.read("disk").iter().all(|&byte| byte == 0));
}

#[test]
fn members_that_are_mixed_up_are_refused_and_nothing_that_was_acknowledged_is_lost() {
    let volumes = Volumes::new();
    for (name, seed) in [("one", 1), ("two", 2)] {
        volumes.create(name);
        volumes.leave_unflushed(name, 12_345, &noise(seed, 70_001));
    }
    for mixed in [&["home", "log"][..], &["volume.toml"], &["home"], &["log"]] {
        let swap = || {
            for file in mixed {
                volumes.rename(&format!("one/{file}"), "kept");
                volumes.rename(&format!("two/{file}"), &format!("one/{file}"));
                volumes.rename("kept", &format!("two/{file}"));
            }
        };
        swap();
        for command in ["check one", "serve two"] {
            let line = volumes.scene.refused(command);
            assert!(line.contains("another volume") || line.contains("different volumes"), "{line}");
        }
        swap();
    }
    for (name, seed) in [("one", 1), ("two", 2)] {
        holds(&volumes.read(name), 12_345, &noise(seed, 70_001));
    }
}

#[test]
fn another_length_of_the_buffer_loses_nothing_after_a_kill() {
    let volumes = Volumes::new();
    volumes.create("disk");
    let description = volumes.scene.text("disk/volume.toml");
    let set_bytes = |bytes: &str| {
        let changed = description.replace("buffer_bytes = 1048576", &format!("buffer_bytes = {bytes}"));
        assert!(bytes == "1048576" || changed != description);
        fs::write(volumes.scene.path("disk/volume.toml"), changed).unwrap();
    };
    for (seed, bytes) in [(1, "4194304"), (2, "200000"), (3, "8388608")] {
        volumes.leave_unflushed("disk", 4096, &noise(seed, 100_001));
        set_bytes(bytes);
        let server = volumes.serve("disk");
        says(&server.told("recovered: "), &["kept in memory"]);
        holds(&contents(&volumes.socket("disk")), 4096, &noise(seed, 100_001));
        let arena_bytes = server.status().occupancy.buffer_bytes;
        assert_eq!(arena_bytes, bytes.parse::<u64>().unwrap() - 128, "it has another length");
        server.stop();
    }
    // One with which it could not be opened is refused, and nothing of what waits is touched.
    volumes.leave_unflushed("disk", 4096, &noise(4, 100_001));
    for wrong in ["1", "4096", "9223372036854775807"] {
        set_bytes(wrong);
        says(&volumes.scene.refused("serve disk"), &["volume.toml", "buffer_bytes"]);
    }
    set_bytes("1048576");
    holds(&volumes.read("disk"), 4096, &noise(4, 100_001));
}

#[test]
fn an_opening_that_comes_to_nothing_leaves_no_memory_behind() {
    let volumes = Volumes::new();
    volumes.create("disk");
    volumes.create("other");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nothing_waits = || {
        assert_eq!(volumes.arenas("disk"), BTreeSet::new(), "an arena is left");
        let told = volumes.scene.run("status disk").stderr;
        assert!(!told.contains("wait in memory"), "{told}");
    };
    // Somebody listens there.
    let port = taken.local_addr().unwrap().port();
    volumes.scene.refused(&format!("serve disk --nbd tcp:127.0.0.1:{port}"));
    nothing_waits();
    volumes.scene.refused(&format!("serve disk --metrics 127.0.0.1:{port}"));
    nothing_waits();
    // Members that do not belong there.
    volumes.rename("disk/log", "kept");
    fs::copy(volumes.scene.path("other/log"), volumes.scene.path("disk/log")).unwrap();
    volumes.scene.refused("serve disk");
    fs::rename(volumes.scene.path("kept"), volumes.scene.path("disk/log")).unwrap();
    nothing_waits();
    // What waits stays, of course.
    volumes.leave_unflushed("disk", 0, &noise(1, 50_000));
    volumes.scene.refused(&format!("serve disk --nbd tcp:127.0.0.1:{port}"));
    says(&volumes.scene.run("status disk").stderr, &["wait in memory"]);
    holds(&volumes.read("disk"), 0, &noise(1, 50_000));
    nothing_waits();
}

#[test]
fn a_signal_before_it_is_ready_leaves_nothing_behind() {
    let volumes = Volumes::new();
    volumes.create("disk");
    // At moments that are spread over the opening, which takes some 50 ms.
    for pause_us in (0..40).map(|step| step * 2500) {
        let (folder, stderr) = (volumes.scene.path("disk"), volumes.scene.path("stderr"));
        let mut server = Server::start(folder, stderr, volumes.scene.command("serve disk"));
        std::thread::sleep(std::time::Duration::from_micros(pause_us));
        server.signal("INT");
        let code = server.exit_code();
        assert_eq!(volumes.arenas("disk"), BTreeSet::new(), "{code:?}: {}", server.complaints());
    }
}

/// Users who have nothing to do with a volume.
const STRANGER: u32 = 65_533;
const OTHER: u32 = 65_534;

/// Removes whatever has this name.
fn clear(path: &Path) {
    let _one_of_them_does_it = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
}

/// Serves the volume where something has the name of its arena: it says so, and loses nothing by a kill.
#[track_caller]
fn passes_over(volumes: &Volumes, arena: &Path, seed: u64) {
    let mut server = volumes.serve("disk");
    says(&server.complaints(), &["arena-passed-over", &arena.display().to_string(), "belongs to user "]);
    write(&volumes.socket("disk"), 5_000, &noise(seed, 50_000));
    server.kill();
    holds(&volumes.read("disk"), 5_000, &noise(seed, 50_000));
    assert!(arena.symlink_metadata().is_ok(), "it is not ours to remove");
    assert!(!volumes.scene.names("disk").iter().any(|name| name.ends_with(".arena")));
    clear(arena);
    let server = volumes.serve("disk");
    assert!(!server.complaints().contains("arena-passed-over"), "{}", server.complaints());
    server.stop();
}

#[test]
fn what_others_put_under_the_name_of_an_arena_keeps_no_volume_from_starting() {
    let volumes = Volumes::new();
    volumes.create("disk");
    let server = volumes.serve("disk");
    let arena = volumes.arenas("disk").pop_first().unwrap();
    let copy = fs::read(&arena).unwrap();
    server.stop();
    fs::create_dir(&arena).unwrap();
    passes_over(&volumes, &arena, 1);
    symlink("/dev/zero", &arena).unwrap();
    passes_over(&volumes, &arena, 2);
    run("mkfifo", &[&arena.display().to_string()]).unwrap();
    passes_over(&volumes, &arena, 3);
    or_skip!(must_be_root());
    for (seed, bytes) in [&b"junk"[..], &copy].into_iter().enumerate() {
        fs::write(&arena, bytes).unwrap();
        chown(&arena, Some(STRANGER), None).unwrap();
        passes_over(&volumes, &arena, 4 + seed as u64);
    }
    // After a power cut, too, where it is none.
    volumes.leave_unflushed("disk", 0, &[1; 5000]);
    fs::write(&arena, "junk").unwrap();
    chown(&arena, Some(STRANGER), None).unwrap();
    passes_over(&volumes, &arena, 6);
}

#[test]
fn an_arena_that_may_hold_acknowledged_writes_is_never_passed_over() {
    or_skip!(must_be_root());
    let volumes = Volumes::new();
    volumes.create("disk");
    volumes.leave_unflushed("disk", 5_000, &noise(1, 50_000));
    let arena = volumes.arenas("disk").pop_first().unwrap();
    let before = fs::read(&arena).unwrap();
    for user in [OTHER, STRANGER] {
        chown(&arena, Some(user), None).unwrap();
        says(&volumes.scene.refused("serve disk"), &[&arena.display().to_string(), "run as its owner"]);
        assert!(fs::read(&arena).unwrap() == before);
    }
    chown(&arena, Some(0), None).unwrap();
    // Of whoever made the volume, and unreadable to whom it was given.
    let disk = volumes.scene.path("disk");
    let root = volumes.scene.path(".");
    for path in
        [root, disk.clone()].into_iter().chain(volumes.scene.names("disk").iter().map(|name| disk.join(name)))
    {
        chown(&path, Some(OTHER), Some(OTHER)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let refused = || {
        let own = volumes.scene.command("serve disk");
        let mut other = system("setpriv");
        let user = OTHER.to_string();
        other.args(["--reuid", &user, "--regid", &user, "--clear-groups"]).arg(own.get_program());
        other.args(own.get_args()).current_dir(own.get_current_dir().unwrap());
        let ran = Ran::of("serve disk", other.output().unwrap());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        says(&ran.complaint(), &[&arena.display().to_string()]);
    };
    refused();
    // A user of its group may have served it.
    chown(&arena, Some(STRANGER), None).unwrap();
    fs::set_permissions(&disk, fs::Permissions::from_mode(0o775)).unwrap();
    refused();
    chown(&arena, Some(0), None).unwrap();
    holds(&volumes.read("disk"), 5_000, &noise(1, 50_000));
}
