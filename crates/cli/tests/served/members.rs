//! Members behind NBD: a volume whose pages, or pages and log, are an export of another server.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::far::FarVolume;
use crate::support::load::{contents, write};
use crate::support::root::{programs, system};
use crate::support::served::{Peer, Volume, noise, patiently};
use crate::support::{Scene, or_skip, says};

/// What the far volume or export has, and what the near one needs of it.
const FAR: &str = "--size 64m --log-size 16m --buffer 8m";
const NEAR: &str = "--size 32m --log-size 16m --buffer 4m";

/// A volume `far` served by itself, to one client at a time: what a killed client had on its way is over before the
/// next one comes.
fn far(scene: &Scene) -> FarVolume<'_> {
    FarVolume::create(scene, "far", FAR, "--connections 1")
}

/// That `socket` serves `bytes` at `offset`.
#[track_caller]
fn holds(socket: &Path, offset: usize, bytes: &[u8]) {
    assert!(
        contents(socket)[offset..][..bytes.len()] == *bytes,
        "{} bytes at {offset} are others",
        bytes.len()
    );
}

#[test]
fn a_volume_whose_pages_are_elsewhere_survives_kills_of_its_server() {
    let scene = Scene::new();
    let far = far(&scene);
    let uri = far.uri.clone();
    let volume = Volume::create(&scene, &format!("{NEAR} --member {uri} --destroy {uri}"));
    says(&scene.text("disk/volume.toml"), &[&format!("path = \"{uri}\"")]);
    for seed in 0..3 {
        let mut server = volume.serve("");
        assert_eq!(server.status().volume.home, uri);
        for part in 0..8 {
            write(&volume.socket(), part * 4_000_000 + 77, &noise(8 * seed + part, 1_000_001));
        }
        // Nothing was flushed.
        server.kill();
        let server = volume.serve("");
        for part in 0..8 {
            holds(&volume.socket(), part as usize * 4_000_000 + 77, &noise(8 * seed + part, 1_000_001));
        }
        server.stop();
    }
    says(&scene.done("check disk").stdout, &[" 0 damaged"]);
}

/// Goes between a volume and its member, until it is told to say nothing any more and to keep the connection.
struct Between {
    socket: PathBuf,
    is_silent: Arc<AtomicBool>,
}

impl Between {
    fn new(scene: &Scene, far: PathBuf) -> Self {
        let (socket, is_silent) = (scene.path("between.sock"), Arc::new(AtomicBool::new(false)));
        let listener = UnixListener::bind(&socket).unwrap();
        let silent = Arc::clone(&is_silent);
        thread::spawn(move || {
            for near in listener.incoming() {
                let (Ok(near), Ok(far)) = (near, UnixStream::connect(&far)) else { return };
                let (from, to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                thread::spawn(move || pass_on(from, to, &AtomicBool::new(false)));
                let silent = Arc::clone(&silent);
                thread::spawn(move || pass_on(far, near, &silent));
            }
        });
        Self { socket, is_silent }
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket.display())
    }
}

/// Passes on what comes; keeps it to itself once it is to be silent.
fn pass_on(mut from: UnixStream, mut to: UnixStream, is_silent: &AtomicBool) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(len @ 1..) = from.read(&mut bytes) {
        if !is_silent.load(Ordering::SeqCst) && to.write_all(&bytes[..len]).is_err() {
            break;
        }
    }
    let _gone_already_is_fine = to.shutdown(Shutdown::Both);
}

#[test]
fn a_member_whose_server_says_no_more_is_lost_in_time_and_so_ends_a_server_that_was_told_to_stop() {
    let scene = Scene::new();
    let far = far(&scene);
    let between = Between::new(&scene, far.socket.clone());
    let uri = between.uri();
    let volume = Volume::create(&scene, &format!("{NEAR} --member {uri} --destroy {uri}"));
    let mut server = volume.serve("");
    write(&volume.socket(), 1000, &noise(1, 300_000));
    between.is_silent.store(true, Ordering::SeqCst);
    // It takes everything home, and waits for what never comes.
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(1), "{}", server.complaints());
    says(&server.complaints(), &[&uri, "the member is lost", "has not answered a request for 30 s"]);
    // Who opens it meanwhile is told the same.
    let line = scene.refused("serve disk");
    says(&line, &[&uri]);
    assert!(!line.contains("errno"), "{line}");
    between.is_silent.store(false, Ordering::SeqCst);
    let server = volume.serve("");
    holds(&volume.socket(), 1000, &noise(1, 300_000));
    server.stop();
    drop(far);
}

#[test]
fn a_lost_member_is_named_and_the_volume_is_whole_once_both_are_started_anew() {
    let scene = Scene::new();
    let mut far = far(&scene);
    let uri = far.uri.clone();
    let volume = Volume::create(&scene, &format!("{NEAR} --member {uri} --destroy {uri}"));
    let mut server = volume.serve("");
    write(&volume.socket(), 1000, &noise(1, 300_000));
    far.server.kill();
    far.restart();
    let failure = patiently("the loss of the member", || server.status().failure);
    says(&failure, &[&uri, "the member is lost", "serve the volume anew"]);
    let ran = scene.run("status disk");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    says(&ran.stdout, &["FAILED", &uri]);
    server.signal("TERM");
    assert_eq!(server.exit_code(), Some(1));
    says(&server.complaints(), &[&uri, "the member is lost"]);

    let server = volume.serve("");
    holds(&volume.socket(), 1000, &noise(1, 300_000));
    write(&volume.socket(), 2000, b"and it takes writes");
    server.stop();
    says(&scene.done("check disk").stdout, &[" 0 damaged"]);
}

#[test]
fn without_its_member_a_volume_is_not_opened_and_nothing_is_made() {
    let scene = Scene::new();
    let far = far(&scene);
    let uri = far.uri.clone();
    // As with a block device: never without its name.
    let refused = scene.refused(&format!("create disk {NEAR} --member {uri}"));
    says(&refused, &[&uri, "would be overwritten", "--destroy 'nbd+unix:///"]);
    let planned = scene.done(&format!("create disk {NEAR} --member {uri} --destroy {uri} --dry-run")).stdout;
    says(&planned, &[&uri, "what it holds would be lost"]);
    let refused = scene.refused(&format!("create disk --size 1g --member {uri} --destroy {uri}"));
    says(&refused, &[&uri, "it has 67108864 bytes", "choose a larger one"]);
    let other = uri.replace("///?", "///another?");
    let refused = scene.refused(&format!("create disk {NEAR} --member {other} --destroy {other}"));
    says(&refused, &[&other, "cannot connect", "no export"]);
    let unknown = "nbd+unix:///?socket=/nowhere/at-all";
    let refused = scene.refused(&format!("create disk {NEAR} --member {unknown} --destroy {unknown}"));
    says(&refused, &[unknown, "cannot connect", "No such file"]);
    says(&scene.misused(&format!("create disk {NEAR} --member nbd://")), &["--member", "HOST:PORT"]);
    assert!(!scene.path("disk").exists(), "something was made");

    let volume = Volume::create(&scene, &format!("{NEAR} --member {uri} --destroy {uri}"));
    drop(far);
    for command in ["serve disk", "check disk"] {
        says(&scene.refused(command), &[&uri, "cannot connect"]);
    }
    says(&scene.run("status disk").stderr, &["it is not being served"]);
    drop(volume);
}

#[test]
fn pages_and_log_may_be_exports_of_other_peoples_servers() {
    or_skip!(programs(&["nbdkit", "qemu-nbd"]));
    let scene = Scene::new();
    let (pages, log) = (scene.path("pages.sock"), scene.path("log.sock"));
    let mut nbdkit = system("nbdkit");
    nbdkit.args(["--foreground", "--unix"]).arg(&pages).args(["--filter=limit", "memory", "64M", "limit=1"]);
    let _pages = Peer::start(nbdkit, &pages);
    let image = scene.path("log.raw");
    std::fs::write(&image, vec![0xee; 32 << 20]).unwrap();
    let mut qemu = system("qemu-nbd");
    qemu.args(["--persistent", "--format=raw", "--socket"]).arg(&log).arg(&image);
    let _log = Peer::start(qemu, &log);

    let uri = |socket: &Path| format!("nbd+unix:///?socket={}", socket.display());
    let (pages, log) = (uri(&pages), uri(&log));
    let members = format!("--member {pages} --log {log} --destroy {pages} --destroy {log}");
    let volume = Volume::create(&scene, &format!("{NEAR} {members}"));
    let mut server = volume.serve("");
    write(&volume.socket(), 5, &noise(3, 3_000_003));
    server.kill();
    let server = volume.serve("--journaling wasteless");
    holds(&volume.socket(), 5, &noise(3, 3_000_003));
    write(&volume.socket(), 1_000_005, &noise(4, 500_000));
    server.stop();
    let server = volume.serve("--backend threads");
    holds(&volume.socket(), 1_000_005, &noise(4, 500_000));
    server.stop();
    says(&scene.done("check disk").stdout, &[" 0 damaged"]);
}
