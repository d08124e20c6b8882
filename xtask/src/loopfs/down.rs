//! `loopfs down`: removes what `up` made.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::args::{Down, FileSystem};
use super::marker::{Marker, Step};
use super::system::{self, Runner, text};
use super::up::full_path;
use crate::run::{Failure, Outcome};

/// How long a loop device may take to let go of its file.
const DETACH_LIMIT: Duration = Duration::from_secs(10);

/// Removes what the folder's marker lists.
pub(super) fn down(options: &Down) -> Outcome {
    let dir = full_path(&options.dir)?;
    let marker = Marker::read(&dir)?;
    undo(Runner { dry_run: options.dry_run }, &dir, &marker)
}

/// Undoes the marker's steps, last first. What cannot be undone stays, and stays on the list.
pub(super) fn undo(runner: Runner, dir: &Path, marker: &Marker) -> Outcome {
    let mut stuck: Vec<FileSystem> = Vec::new();
    for step in marker.steps.iter().rev() {
        let Some(fs) = step.file_system() else { continue };
        // Never take the image or the device from below a file system that is still mounted.
        if stuck.contains(&fs) {
            continue;
        }
        if let Err(failure) = undo_step(runner, dir, marker, step) {
            failure.report();
            stuck.push(fs);
        }
    }
    if !stuck.is_empty() {
        let names: Vec<_> = stuck.iter().map(|fs| fs.name()).collect();
        let dir = dir.display();
        return Err(Failure::Failed(format!(
            "not removed: {}; `cargo xtask loopfs down {dir}` tries again",
            names.join(", ")
        )));
    }
    if let Some(file) = marker.file() {
        runner.run("rm", &["--", text(file)?])?;
    }
    if marker.steps.contains(&Step::Folder) {
        if !runner.dry_run && fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
            eprintln!("{} stays: it holds what `loopfs up` did not make", dir.display());
            return Ok(());
        }
        runner.run("rmdir", &["--", text(dir)?])?;
    }
    Ok(())
}

/// Undoes a step, if it was taken.
fn undo_step(runner: Runner, dir: &Path, marker: &Marker, step: &Step) -> Outcome {
    match step {
        Step::Folder => Ok(()),
        Step::Image(_, image) if fs::symlink_metadata(image).is_ok() => {
            runner.run("rm", &["--", text(image)?])
        }
        Step::Image(..) => Ok(()),
        Step::Loop(fs) => marker.image(*fs).map_or(Ok(()), |image| detach(runner, image)),
        Step::MountPoint(fs) => {
            let point = dir.join(fs.name());
            if point.exists() { runner.run("rmdir", &["--", text(&point)?]) } else { Ok(()) }
        }
        Step::Mount(fs) => {
            let point = dir.join(fs.name());
            if system::is_mounted(&point)? { runner.run("umount", &["--", text(&point)?]) } else { Ok(()) }
        }
    }
}

/// Takes the image's loop devices from it, and waits until they are.
pub(super) fn detach(runner: Runner, image: &Path) -> Outcome {
    for device in system::loop_devices(image)? {
        runner.run("losetup", &["--detach", text(&device)?])?;
    }
    // losetup is content when the device is to be freed once nobody uses it any more, which may be never.
    let start = Instant::now();
    while !runner.dry_run && !system::loop_devices(image)?.is_empty() {
        if start.elapsed() > DETACH_LIMIT {
            return Err(Failure::Failed(format!("{} still has a loop device in use", image.display())));
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
