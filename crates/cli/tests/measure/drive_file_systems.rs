//! A file system on a simulated drive whose plug is pulled under it.
//!
//! ```text
//! ext4 - loop device - nbdfuse - evenkeel drive
//! ```

#![allow(clippy::print_stderr, reason = "what was lost is for whoever runs it")]

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::attached::{Disk, possible};
use crate::support::root::{Mounted, programs, run};
use crate::support::served::{Chance, Server, noise, patiently};
use crate::support::{Scene, says, skip};

/// Files that are there for good before the plug is pulled.
const SYNCED_BEFORE_CUT: usize = 40;

#[track_caller]
fn ran(program: &str, args: &[&str]) -> String {
    run(program, args).unwrap_or_else(|why| panic!("{program}: {why}"))
}

fn name_of(number: u64) -> String {
    format!("file-{number}")
}

/// What a file holds follows from its number.
fn bytes_of(number: u64) -> Vec<u8> {
    noise(number, 1 + Chance(number).below(100_000) as usize)
}

/// Writes files in `folder` until one cannot be written, or `enough`; those of an even number are durable before the
/// next is begun, and then stand in `synced`.
fn write_files(folder: &Path, from: u64, synced: &Mutex<Vec<u64>>, enough: &AtomicBool) -> u64 {
    for number in from.. {
        let write = || -> std::io::Result<()> {
            let mut file = File::create(folder.join(name_of(number)))?;
            file.write_all(&bytes_of(number))?;
            if number % 2 == 0 {
                file.sync_all()?;
                File::open(folder)?.sync_all()?;
                synced.lock().unwrap().push(number);
            }
            Ok(())
        };
        if write().is_err() || enough.load(Ordering::Relaxed) {
            return number + 1;
        }
    }
    unreachable!("numbers do not end")
}

/// Cuts the power under a file system that is written to, three times; each time its journal must bring it back whole,
/// with all that was synced.
fn ext4_survives_its_plug(test: &str, model: &str, flags: &str) {
    if let Err(why) = possible().and_then(|()| programs(&["mkfs.ext4", "e2fsck", "dumpe2fs"])) {
        return skip(test, &why);
    }
    let scene = Scene::new();
    let command = scene.command(&format!("drive {model} --size 256m --nbd unix:drive --seed 3 {flags}"));
    let drive = Server::start(scene.folder().to_owned(), scene.path("stderr"), command).ready();
    let (socket, point) = (scene.path("drive"), scene.path("mounted"));
    let plug_in = || Disk::attach(&socket, &scene.path("fuse"));

    let mut disk = plug_in();
    ran("mkfs.ext4", &["-q", "-F", &disk.node]);
    let (mut next, mut lost, synced) = (0, 0, Mutex::new(Vec::new()));
    for cut in 0..3 {
        let mounted = Mounted::of(&disk.node, &point).unwrap();
        let enough = AtomicBool::new(false);
        let before = synced.lock().unwrap().len();
        let first = next;
        next = thread::scope(|scope| {
            let writer = scope.spawn(|| write_files(&point, first, &synced, &enough));
            patiently("synced files", || {
                let is_enough = synced.lock().unwrap().len() >= before + SYNCED_BEFORE_CUT;
                (is_enough || writer.is_finished()).then_some(())
            });
            says(&scene.done("drive --cut unix:drive").stdout, &["power cut: ready again in"]);
            enough.store(true, Ordering::Relaxed);
            writer.join().unwrap()
        });
        let durable = synced.lock().unwrap().clone();
        assert!(durable.len() >= before + SYNCED_BEFORE_CUT, "the writer ended by itself");
        drop(mounted);
        drop(disk);

        disk = plug_in();
        let state = ran("dumpe2fs", &["-h", &disk.node]);
        assert!(state.contains("needs_recovery"), "cut {cut}: the journal has nothing to replay");
        let mounted = Mounted::of(&disk.node, &point).unwrap();
        for &number in &durable {
            let found = fs::read(point.join(name_of(number)));
            let found = found.unwrap_or_else(|error| panic!("cut {cut}, synced {number}: {error}"));
            assert!(found == bytes_of(number), "cut {cut}: file {number} was synced and is not what it was");
        }
        let is_whole = |number: &u64| {
            fs::read(point.join(name_of(*number))).is_ok_and(|found| found == bytes_of(*number))
        };
        lost += (first..next).filter(|number| number % 2 == 1 && !is_whole(number)).count();
        drop(mounted);
        ran("e2fsck", &["-f", "-n", &disk.node]);
    }
    eprintln!("{model}: of {next} files {} were synced, {lost} others lost", synced.lock().unwrap().len());
    assert!(lost > 0, "the cuts took nothing: what was not synced must have been in a cache");
    drop(disk);
    drive.signal("TERM");
    says(&drive.last_words(), &["answered: ", "late by"]);
}

#[test]
fn ext4_on_a_drive_that_waits_for_flushes_survives_its_plug() {
    ext4_survives_its_plug(
        "ext4_on_a_drive_that_waits_for_flushes_survives_its_plug",
        "open-channel",
        "--file bytes",
    );
}

#[test]
fn ext4_on_a_desktop_drive_survives_its_plug() {
    ext4_survives_its_plug("ext4_on_a_desktop_drive_survives_its_plug", "sata-2011", "--precondition");
}
