//! `loopfs down`: removes what `up` made.

use std::fs;
use std::path::Path;

use evenkeel_host::loop_device;
use evenkeel_host::mounted::is_mount_point;

use super::args::{Down, FileSystem};
use super::marker::{Marker, Step};
use super::runner::{Runner, text};
use super::up::full_path;
use crate::run::{Failure, Outcome, context};

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
            let is_mounted =
                point.exists() && is_mount_point(&point).map_err(context("cannot read the mounts"))?;
            if is_mounted { runner.run("umount", &["--", text(&point)?]) } else { Ok(()) }
        }
    }
}

/// Takes the image's loop devices from it, and waits until they are.
fn detach(runner: Runner, image: &Path) -> Outcome {
    for device in loop_device::devices_over(image) {
        runner.show("losetup", &["--detach", text(&device)?]);
    }
    if runner.dry_run {
        return Ok(());
    }
    loop_device::detach_all(image);
    match loop_device::devices_over(image).is_empty() {
        true => Ok(()),
        false => Err(Failure::Failed(format!("{} still has a loop device in use", image.display()))),
    }
}
