//! What the kernel knows of loop devices and mounts, and running commands on them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::run::{self, Failure, Outcome, context};

/// Runs commands, or only shows them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Runner {
    /// Only show.
    pub(super) dry_run: bool,
}

impl Runner {
    /// Runs a command.
    pub(super) fn run(self, program: &str, args: &[&str]) -> Outcome {
        let mut command = run::system(program, args);
        if self.dry_run {
            run::show(&command);
            return Ok(());
        }
        run::run(command.stdin(Stdio::null()))
    }
}

/// The path as text, for a command's argument.
pub(super) fn text(path: &Path) -> Outcome<&str> {
    path.to_str().ok_or_else(|| Failure::Usage(format!("{} is no plain text", path.display())))
}

/// The loop devices that have the image file behind them.
pub(super) fn loop_devices(image: &Path) -> Outcome<Vec<PathBuf>> {
    let mut devices = Vec::new();
    for entry in fs::read_dir("/sys/block").map_err(context("cannot read /sys/block"))?.flatten() {
        // Only a loop device that is in use has this file.
        let Ok(backing) = fs::read_to_string(entry.path().join("loop/backing_file")) else {
            continue;
        };
        if is_backed_by(&backing, image) {
            devices.push(Path::new("/dev").join(entry.file_name()));
        }
    }
    Ok(devices)
}

/// Whether what the kernel names as the file behind a loop device is the image.
fn is_backed_by(backing: &str, image: &Path) -> bool {
    let backing = backing.strip_suffix('\n').unwrap_or(backing);
    // A file that someone removed by hand still holds its device.
    let backing = backing.strip_suffix(" (deleted)").unwrap_or(backing);
    Path::new(backing) == image
}

/// Whether the loop device goes around the page cache.
pub(super) fn is_direct(device: &Path) -> bool {
    let name = device.file_name().unwrap_or_default();
    let flag = fs::read_to_string(Path::new("/sys/block").join(name).join("loop/dio"));
    flag.is_ok_and(|flag| flag.trim() == "1")
}

/// Whether something is mounted on the folder.
pub(super) fn is_mounted(folder: &Path) -> Outcome<bool> {
    let table =
        fs::read_to_string("/proc/self/mountinfo").map_err(context("cannot read /proc/self/mountinfo"))?;
    Ok(mount_points(&table).any(|point| point == folder))
}

/// The mount points in the text of a mountinfo file.
fn mount_points(table: &str) -> impl Iterator<Item = PathBuf> {
    table.lines().filter_map(|line| line.split(' ').nth(4)).map(|field| PathBuf::from(unescaped(field)))
}

/// Undoes mountinfo's way of writing blanks and backslashes, as three octal digits.
fn unescaped(field: &str) -> String {
    [(r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", r"\")]
        .iter()
        .fold(field.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read() {
        let table = "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
                     90 22 7:0 / /tmp/a\\040b\\134040 rw,noatime shared:3 - xfs /dev/loop0 rw\n";
        let points: Vec<_> = mount_points(table).collect();
        assert_eq!(points, [PathBuf::from("/"), PathBuf::from(r"/tmp/a b\040")]);
    }

    #[test]
    fn backing_files_are_compared_whole() {
        let image = Path::new("/tmp/d/xfs.img");
        assert!(is_backed_by("/tmp/d/xfs.img\n", image));
        assert!(is_backed_by("/tmp/d/xfs.img (deleted)\n", image));
        assert!(!is_backed_by("/tmp/d/xfs.img2\n", image));
    }

    #[test]
    fn the_root_is_mounted() {
        assert!(is_mounted(Path::new("/")).unwrap());
        assert!(!is_mounted(Path::new("/no/such/folder")).unwrap());
    }
}
