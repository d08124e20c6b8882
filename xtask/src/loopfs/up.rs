//! `loopfs up`: image files, file systems in them, and their mounts.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use evenkeel_host::interrupt::Interrupt;
use evenkeel_host::loop_device;

use super::args::{FileSystem, Up};
use super::down;
use super::marker::{self, Marker, Step};
use super::runner::{Runner, text};
use crate::run::{self, Failure, Outcome, context};

/// Makes the file systems and mounts them; removes all of it if a step fails.
pub(super) fn up(options: &Up) -> Outcome {
    let runner = Runner { dry_run: options.dry_run };
    if !options.dry_run {
        need_programs(&options.file_systems)?;
    }
    let (dir, exists) = free_folder(&options.dir)?;
    let images = image_files(options, &dir)?;
    if !exists {
        runner.run("mkdir", &["--", text(&dir)?])?;
    }
    let mut marker = match Marker::create(&dir, options.dry_run) {
        Ok(marker) => marker,
        Err(failure) => {
            if !exists {
                runner.run("rmdir", &["--", text(&dir)?])?;
            }
            return Err(failure);
        }
    };
    let made = make_all(runner, &mut marker, &dir, exists, options, &images);
    let Err(failure) = made else {
        return Ok(());
    };
    failure.report();
    eprintln!("removing what was made so far");
    match down::undo(runner, &dir, &marker) {
        Ok(()) => Err(Failure::Failed(format!("{}: nothing is left of it", dir.display()))),
        Err(undoing) => Err(undoing),
    }
}

/// Takes all steps.
fn make_all(
    runner: Runner,
    marker: &mut Marker,
    dir: &Path,
    exists: bool,
    options: &Up,
    images: &[PathBuf],
) -> Outcome {
    if !exists {
        marker.add(Step::Folder)?;
    }
    let mut made = Vec::new();
    for (fs, image) in options.file_systems.iter().zip(images) {
        made.push((fs, image, make(runner, marker, dir, *fs, image, options.size)?));
    }
    if runner.dry_run {
        return Ok(());
    }
    for (fs, image, device) in made {
        let io = if loop_device::is_direct(&device) { "direct" } else { "through the page cache" };
        let point = dir.join(fs.name());
        println!("{} on {}, I/O of {} {io}", point.display(), device.display(), image.display());
    }
    Ok(())
}

/// Makes and mounts one file system, and gives its device.
fn make(
    runner: Runner,
    marker: &mut Marker,
    dir: &Path,
    fs: FileSystem,
    image: &Path,
    size: u64,
) -> Outcome<PathBuf> {
    marker.add(Step::Image(fs, image.to_owned()))?;
    // Written, not merely allocated: the file system below would turn each block from allocated to written at
    // its first use, and a measurement would see that.
    let (output, count) = (format!("of={}", text(image)?), format!("count={size}"));
    let flags = ["iflag=count_bytes", "oflag=direct", "conv=fsync", "status=none"];
    runner.run("dd", &[&["if=/dev/zero", &output, "bs=4M", &count][..], &flags].concat())?;
    marker.add(Step::Loop(fs))?;
    let device = attach(runner, image)?;
    make_file_system(runner, fs, text(&device)?)?;
    let point = dir.join(fs.name());
    marker.add(Step::MountPoint(fs))?;
    runner.run("mkdir", &["--", text(&point)?])?;
    marker.add(Step::Mount(fs))?;
    let mut args = vec!["-t", fs.name()];
    if fs == FileSystem::Btrfs {
        // It discards on its own since Linux 6.2, and so would make holes in the image.
        args.extend(["-o", "nodiscard"]);
    }
    args.extend([text(&device)?, text(&point)?]);
    runner.run("mount", &args)?;
    Ok(device)
}

/// Attaches the image to a loop device, with direct I/O if the file system below takes it.
fn attach(runner: Runner, image: &Path) -> Outcome<PathBuf> {
    runner.show("losetup", &["--find", "--direct-io=on", text(image)?]);
    if runner.dry_run {
        return Ok("/dev/loopN".into());
    }
    let device = loop_device::attach(image, &Interrupt::default())
        .map_err(|error| Failure::Failed(format!("{} has no loop device: {error}", image.display())))?;
    // The kernel may also refuse without a word.
    if !loop_device::is_direct(&device) {
        eprintln!(
            "{}: direct I/O refused for {}; its I/O goes through the page cache",
            device.display(),
            image.display()
        );
    }
    Ok(device)
}

/// Makes the file system on the device.
fn make_file_system(runner: Runner, fs: FileSystem, device: &str) -> Outcome {
    // No discard: the loop device would pass it on, and the image that was just allocated would be all holes.
    match fs {
        FileSystem::Xfs => runner.run("mkfs.xfs", &["-q", "-K", device]),
        // No lazy initialization: it goes on in the background after the mount, in the way of measurements.
        FileSystem::Ext4 => {
            let extended = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
            runner.run("mkfs.ext4", &["-q", "-E", extended, device])
        }
        FileSystem::Btrfs => runner.run("mkfs.btrfs", &["-q", "--nodiscard", device]),
    }
}

/// Fails, naming packages, if a program that is needed is missing.
fn need_programs(file_systems: &[FileSystem]) -> Outcome {
    let tools = ["losetup", "mount", "umount"].map(|tool| (tool.to_owned(), "util-linux mount"));
    let makers = file_systems.iter().map(|fs| (format!("mkfs.{}", fs.name()), fs.package()));
    let missing = tools.into_iter().chain(makers).find(|(program, _)| !run::has_program(program));
    match missing {
        None => Ok(()),
        Some((program, package)) => Err(Failure::Failed(format!(
            "{program} is missing; `apt-get install --no-install-recommends {package}` installs it"
        ))),
    }
}

/// The folder's full path, and whether it exists. Fails if it holds anything.
fn free_folder(dir: &Path) -> Outcome<(PathBuf, bool)> {
    match fs::read_dir(dir) {
        Ok(mut entries) => {
            if dir.join(marker::NAME).exists() {
                let dir = dir.display();
                return Err(Failure::Usage(format!(
                    "{dir} was made by `loopfs up` before; `loopfs down {dir}` removes it"
                )));
            }
            if entries.next().is_some() {
                return Err(Failure::Usage(format!("{} is not empty: left alone", dir.display())));
            }
            Ok((full_path(dir)?, true))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let name =
                dir.file_name().ok_or_else(|| Failure::Usage(format!("{} has no name", dir.display())))?;
            let parent =
                dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            Ok((full_path(parent)?.join(name), false))
        }
        Err(error) => Err(Failure::Usage(format!("cannot use {}: {error}", dir.display()))),
    }
}

/// The image files to make, one for each file system. Fails if one is there already.
fn image_files(options: &Up, dir: &Path) -> Outcome<Vec<PathBuf>> {
    // In a folder of others, the names tell whose they are.
    let (folder, prefix) = match &options.backing_dir {
        None => (dir.to_owned(), String::new()),
        Some(folder) => {
            let name = dir.file_name().unwrap_or_default().to_string_lossy();
            (full_path(folder)?, format!("evenkeel-{name}-"))
        }
    };
    let images = options.file_systems.iter().map(|fs| folder.join(format!("{prefix}{}.img", fs.name())));
    images
        .map(|image| match fs::symlink_metadata(&image) {
            Ok(_) => Err(Failure::Usage(format!("{} exists: left alone", image.display()))),
            Err(_) => Ok(image),
        })
        .collect()
}

/// The path from the root, without symbolic links: the form in which the kernel names mounts and backing files.
pub(super) fn full_path(path: &Path) -> Outcome<PathBuf> {
    fs::canonicalize(path).map_err(context(format!("cannot use {}", path.display())))
}
