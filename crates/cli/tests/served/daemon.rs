//! Many volumes served by one process, as a folder of descriptions says.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use evenkeel_host::program::is_root;

use crate::support::load::{contents, write};
use crate::support::served::{Server, arenas_of, noise, patiently};
use crate::support::{Scene, says, skip};

const FLAGS: &str = "--size 8m --log-size 4m --buffer 1m";
const SIZE: usize = 8 << 20;

/// Volumes of a scene, and the folder that describes them.
struct Volumes {
    scene: Scene,
    names: Vec<&'static str>,
}

impl Volumes {
    fn create(names: &[&'static str]) -> Self {
        let scene = Scene::new();
        fs::create_dir(scene.path("volumes")).unwrap();
        for name in names {
            scene.done(&format!("create {name} {FLAGS}"));
        }
        Self { scene, names: names.to_vec() }
    }

    /// Describes a volume, with more lines than the one that names it.
    fn describe(&self, name: &str, more: &str) {
        let text = format!("volume = '{}'\n{more}", self.scene.path(name).display());
        fs::write(self.description(name), text).unwrap();
    }

    fn description(&self, name: &str) -> PathBuf {
        self.scene.path("volumes").join(name).with_extension("toml")
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.scene.path(name).join("nbd.sock")
    }

    fn is_served(&self, name: &str) -> bool {
        self.scene.run(&format!("status {name} --json")).code == Some(0)
    }

    fn until_served(&self, name: &str, is_served: bool) {
        patiently(name, || (self.is_served(name) == is_served).then_some(()));
    }

    fn start(&self) -> Server {
        let command = self.scene.command("daemon volumes");
        Server::start(self.scene.path(self.names[0]), self.scene.path("stderr"), command).ready()
    }
}

impl Drop for Volumes {
    fn drop(&mut self) {
        for name in &self.names {
            for arena in arenas_of(&self.scene.path(name)) {
                let _gone_already_is_fine = fs::remove_file(arena);
            }
        }
    }
}

#[test]
fn a_reload_serves_what_is_new_stops_what_is_gone_and_leaves_the_rest_alone() {
    let volumes = Volumes::create(&["one", "two", "three"]);
    volumes.describe("one", "");
    volumes.describe("two", "");
    fs::write(volumes.scene.path("volumes/notes.txt"), "no description").unwrap();
    let server = volumes.start();
    assert_eq!(server.told("ready: "), "2 volumes served");
    let (one, two) = (noise(1, SIZE), noise(2, SIZE));
    write(&volumes.socket("one"), 0, &one);
    write(&volumes.socket("two"), 0, &two);
    volumes.describe("three", "read-only = true\n");
    fs::remove_file(volumes.description("two")).unwrap();
    server.signal("HUP");
    volumes.until_served("three", true);
    volumes.until_served("two", false);
    assert!(contents(&volumes.socket("one")) == one);
    let status: serde_json::Value =
        serde_json::from_str(&volumes.scene.done("status one --json").stdout).unwrap();
    assert!(status["counters"]["user_bytes"].as_u64().unwrap() >= SIZE as u64, "it went on: {status}");

    // A description that changes has its volume served anew.
    volumes.describe("one", "read-only = true\n");
    volumes.describe("two", "");
    server.signal("HUP");
    volumes.until_served("two", true);
    assert!(contents(&volumes.socket("two")) == two, "it is what it was");
    patiently("a server that refuses writes", || {
        volumes.scene.run("status one --json").stdout.contains("\"read_only\": true").then_some(())
    });
    assert!(contents(&volumes.socket("one")) == one, "nothing of it was lost");
    // Under another name it is stopped and served again.
    fs::rename(volumes.description("two"), volumes.description("a-new-name")).unwrap();
    server.signal("HUP");
    patiently("the other name", || {
        (volumes.is_served("two") && server.complaints().matches("ready: clients").count() == 6).then_some(())
    });
    server.stop();
    for name in ["one", "two", "three"] {
        assert!(!volumes.is_served(name));
        assert_eq!(arenas_of(&volumes.scene.path(name)).len(), 0, "{name}: everything is home");
    }
}

#[test]
fn one_that_cannot_be_served_harms_no_other_and_is_tried_again() {
    let volumes = Volumes::create(&["good", "later"]);
    fs::rename(volumes.scene.path("later"), volumes.scene.path("away")).unwrap();
    volumes.describe("good", "");
    volumes.describe("later", "");
    fs::write(volumes.description("wrong"), "volume = '/nowhere'\n\nchache = '1g'\n").unwrap();
    let mut server = volumes.start();
    assert_eq!(server.told("ready: "), "1 volume served");
    let said = patiently("both complaints", || {
        let said = server.complaints();
        (said.matches("not-served").count() == 2).then_some(said)
    });
    says(&said, &["wrong.toml: not-served: line 3: there is no `chache`", "later.toml: not-served: "]);
    let bytes = noise(3, SIZE);
    write(&volumes.socket("good"), 0, &bytes);

    // A mistake in the description of one that is served stops nothing.
    fs::write(volumes.description("good"), "volume = \n").unwrap();
    fs::rename(volumes.scene.path("away"), volumes.scene.path("later")).unwrap();
    server.signal("HUP");
    volumes.until_served("later", true);
    assert!(contents(&volumes.socket("good")) == bytes);
    says(&server.complaints(), &["good.toml: not-changed: line 1: "]);
    // Nor does one that shows only when it is to be served.
    volumes.describe("good", "tls = '/nowhere'\n");
    server.signal("HUP");
    patiently("the complaint", || server.complaints().contains("/nowhere").then_some(()));
    assert!(contents(&volumes.socket("good")) == bytes);
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(1), "not all were served: {}", server.complaints());
    assert!(!volumes.is_served("good") && !volumes.is_served("later"));
}

#[test]
fn what_was_acknowledged_survives_a_kill_of_all() {
    let volumes = Volumes::create(&["one", "two"]);
    for name in ["one", "two"] {
        volumes.describe(name, "");
    }
    let mut server = volumes.start();
    let (one, two) = (noise(4, SIZE), noise(5, SIZE));
    write(&volumes.socket("one"), 0, &one);
    write(&volumes.socket("two"), 0, &two);
    server.kill();
    let server = volumes.start();
    assert!(contents(&volumes.socket("one")) == one);
    assert!(contents(&volumes.socket("two")) == two);
    server.stop();
}

#[test]
fn a_service_manager_hears_of_readiness_reloads_and_the_end() {
    let volumes = Volumes::create(&["one"]);
    volumes.describe("one", "");
    // A path in the scene may be too long for a socket's address.
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let manager = UnixDatagram::bind(folder.path().join("notify")).unwrap();
    let mut command = volumes.scene.command("daemon volumes");
    command.env("NOTIFY_SOCKET", folder.path().join("notify"));
    let mut server = Server::start(volumes.scene.path("one"), volumes.scene.path("stderr"), command).ready();
    let mut message = [0; 1000];
    let mut hear = || {
        let len = manager.recv(&mut message).unwrap();
        String::from_utf8(message[..len].to_vec()).unwrap()
    };
    says(&hear(), &["READY=1", "STATUS=1 volume served"]);
    server.signal("HUP");
    says(&hear(), &["RELOADING=1", "MONOTONIC_USEC="]);
    says(&hear(), &["READY=1"]);
    server.signal("TERM");
    says(&hear(), &["STOPPING=1"]);
    assert_eq!(server.exit_code(), Some(0), "{}", server.complaints());
}

#[test]
fn a_dry_run_says_what_would_be_served_and_what_is_wrong() {
    let volumes = Volumes::create(&["one"]);
    says(&volumes.scene.done("daemon volumes --dry-run").stdout, &["nothing would be served"]);
    volumes.describe("one", "cache = '1g'\n");
    volumes.scene.done("create files --size 64m --log-size 16m --buffer 4m --format ext2");
    volumes.describe("files", "mount = '/mnt/files'\n");
    let said = volumes.scene.done("daemon volumes --dry-run").stdout;
    says(&said, &["one.toml: ", "/one would be served", "/files would be mounted on /mnt/files"]);
    assert!(!volumes.is_served("one"));
    // What shows only when it is to be served.
    volumes.describe("files", "mount = '/mnt/files'\ncommit-every = '1us'\n");
    let ran = volumes.scene.run("daemon volumes --dry-run");
    says(&ran.stdout, &["files.toml: ", "choose from 100ms"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    volumes.describe("files", "mount = '/mnt/files'\n");

    // The same volume twice, a folder, and what is no text.
    fs::copy(volumes.description("one"), volumes.description("one-again")).unwrap();
    fs::create_dir(volumes.description("folder")).unwrap();
    fs::write(volumes.description("binary"), [0xff, 0xfe]).unwrap();
    let ran = volumes.scene.run("daemon volumes --dry-run");
    assert_eq!(ran.code, Some(2), "{ran:?}");
    says(&ran.stdout, &["is described by ", "folder.toml: cannot be read: it is no file", "it is no text"]);
    says(&ran.stderr, &["3 of 5 descriptions cannot be used"]);
    says(&volumes.scene.refused("daemon nowhere"), &["nowhere: cannot be read"]);
}

#[test]
fn file_systems_are_mounted_beside_what_is_served() {
    const TEST: &str = "file_systems_are_mounted_beside_what_is_served";
    if !is_root() || !std::path::Path::new("/dev/fuse").exists() {
        return skip(TEST, "it takes root and /dev/fuse");
    }
    let volumes = Volumes::create(&["disk"]);
    volumes.scene.done("create files --size 64m --log-size 16m --buffer 4m --format ext2");
    volumes.describe("disk", "");
    let at = volumes.scene.path("mnt");
    fs::create_dir(&at).unwrap();
    volumes.describe("files", &format!("mount = '{}'\n", at.display()));
    let server = volumes.start();
    assert_eq!(server.told("ready: "), "2 volumes served");
    fs::write(at.join("file"), b"kept").unwrap();
    // Without its description it is unmounted, and the other is served on.
    fs::remove_file(volumes.description("files")).unwrap();
    server.signal("HUP");
    patiently("the unmount", || (!at.join("file").exists()).then_some(()));
    assert!(volumes.is_served("disk"));
    volumes.describe("files", &format!("mount = '{}'\n", at.display()));
    server.signal("HUP");
    patiently("the mount", || at.join("file").exists().then_some(()));
    assert_eq!(fs::read(at.join("file")).unwrap(), b"kept");
    server.stop();
    assert!(!at.join("file").exists());
}
