//! A loop device over a file of its own; both go when it is dropped.
//!
//! 1. The file is new and written in full: a hole, or a block allocated but not written, would cost the file system
//!    below a journal commit at the first write that meets it.
//! 2. Direct I/O where the file system below takes it, so that nothing is cached twice.
//! 3. When it is dropped the device is detached, not merely told to be once nobody uses it: whoever looked at it, or is
//!    being killed, is waited for.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::interrupt::Interrupt;
use crate::program::{Program, ProgramError};
use crate::scratch::ScratchFile;
use crate::undo::Undo;

/// How long losetup may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long whoever still uses a device that is to go may take to let go of it.
const LAST_USER_PATIENCE: Duration = Duration::from_secs(30);
/// Bytes written at once.
const UNIT_BYTES: usize = 4 << 20;

/// The device.
#[derive(Debug)]
pub struct LoopDevice {
    node: PathBuf,
    image: PathBuf,
    /// Detached before the file is removed.
    _attached: Undo,
    _file: ScratchFile,
}

impl LoopDevice {
    /// Over a new file at `image` of so many bytes.
    ///
    /// # Errors
    ///
    /// Where the file cannot be made or no loop device can be had; `AlreadyExists` where there is a file.
    pub fn over_new(image: &Path, bytes: u64, interrupt: &Interrupt) -> Result<Self, ProgramError> {
        let (file, ()) = ScratchFile::make(image, |path| {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
            write_zeros(&mut file, bytes, interrupt)?;
            file.sync_all()
        })
        .map_err(|error| if interrupt.is_asked() { ProgramError::Interrupted } else { error.into() })?;
        // As the kernel names it.
        let image = fs::canonicalize(image)?;
        let (attached, node) = Undo::make(
            || attach(&image, interrupt),
            |_| {
                let image = image.clone();
                Box::new(move || detach_all(&image))
            },
        )?;
        Ok(Self { node, image, _attached: attached, _file: file })
    }

    /// Its node, such as `/dev/loop0`.
    pub fn node(&self) -> &Path {
        &self.node
    }

    /// Whether the node still stands for this file and no other.
    pub fn is_ours(&self) -> bool {
        backing_file(&self.node).is_some_and(|file| file == self.image)
    }

    /// Whether its I/O goes past the page cache of the file system below.
    pub fn is_direct(&self) -> bool {
        is_direct(&self.node)
    }
}

/// Whether a loop device's I/O goes past the page cache of the file system below.
pub fn is_direct(node: &Path) -> bool {
    let flag = fs::read_to_string(loop_folder(node).join("dio"));
    flag.is_ok_and(|flag| flag.trim() == "1")
}

/// Detaches the loop devices over a file, which an earlier process that was killed may have left, and removes it.
pub fn remove_leftover(image: &Path) {
    if let Ok(image) = fs::canonicalize(image) {
        detach_all(&image);
        let _gone_already_is_fine = fs::remove_file(image);
    }
}

/// Whether nobody uses a block device: no mount, no other device above it.
///
/// # Errors
///
/// `ResourceBusy` where somebody does, `InvalidInput` where it is no block device.
pub fn check_unused(device: &Path) -> io::Result<()> {
    if !fs::metadata(device)?.file_type().is_block_device() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a block device"));
    }
    // Of block devices the flag means: by me alone, mounts and other devices included.
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL).open(device).map(drop)
}

/// The same as [`check_unused`], to be asked often: whoever opens a device for writing makes udev look at it again.
///
/// # Errors
///
/// `ResourceBusy` where somebody uses it.
pub fn check_not_held(device: &Path) -> io::Result<()> {
    OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(device).map(drop)
}

fn write_zeros(file: &mut File, bytes: u64, interrupt: &Interrupt) -> io::Result<()> {
    let zeros = vec![0; UNIT_BYTES];
    let mut left = bytes;
    while left > 0 {
        if interrupt.is_asked() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let unit = left.min(UNIT_BYTES as u64);
        file.write_all(&zeros[..unit as usize])?;
        left -= unit;
    }
    Ok(())
}

/// Attaches the file at this canonical path to a loop device, with direct I/O where the file system below takes it, and gives
/// its node.
///
/// # Errors
///
/// Those of losetup, in its words.
pub fn attach(image: &Path, interrupt: &Interrupt) -> Result<PathBuf, ProgramError> {
    attach_as(image, true, interrupt).or_else(|error| match error {
        ProgramError::Failed(..) => {
            // losetup sets the device up first and then asks for direct I/O, so one may be attached already.
            detach_all(image);
            attach_as(image, false, interrupt)
        }
        other => Err(other),
    })
}

fn attach_as(image: &Path, direct: bool, interrupt: &Interrupt) -> Result<PathBuf, ProgramError> {
    let direct = if direct { "--direct-io=on" } else { "--direct-io=off" };
    let mut words: Vec<OsString> = ["losetup", "--find", "--show", direct].map(OsString::from).to_vec();
    words.push(image.into());
    let said = Program::new(words, PATIENCE).run(None, interrupt)?;
    Ok(PathBuf::from(String::from_utf8_lossy(&said).trim()))
}

/// The nodes of the loop devices over the file at this canonical path.
pub fn devices_over(image: &Path) -> Vec<PathBuf> {
    let nodes = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let nodes = nodes.map(|entry| Path::new("/dev").join(entry.file_name()));
    nodes.filter(|node| backing_file(node).is_some_and(|file| file == image)).collect()
}

/// Detaches every loop device over the file at this canonical path, and waits for whoever still uses one.
pub fn detach_all(image: &Path) {
    for node in devices_over(image) {
        let words: [OsString; 3] = ["losetup".into(), "--detach".into(), (&node).into()];
        let _gone_already_is_fine = Program::new(words, PATIENCE).run(None, &Interrupt::default());
        wait_until_detached(&node, image);
    }
}

/// The kernel lets go of a device when the last who has it open does: a file system that is unmounted lazily, a program
/// that looks at all devices.
fn wait_until_detached(node: &Path, image: &Path) {
    let told = Instant::now();
    while told.elapsed() < LAST_USER_PATIENCE && backing_file(node).is_some_and(|file| file == image) {
        thread::sleep(Duration::from_millis(5));
    }
}

fn loop_folder(node: &Path) -> PathBuf {
    Path::new("/sys/block").join(node.file_name().unwrap_or_default()).join("loop")
}

fn backing_file(node: &Path) -> Option<PathBuf> {
    let file = fs::read_to_string(loop_folder(node).join("backing_file")).ok()?;
    Some(named(&file))
}

/// The file that the kernel names; one that somebody removed still holds its device.
fn named(backing: &str) -> PathBuf {
    let name = backing.strip_suffix('\n').unwrap_or(backing);
    PathBuf::from(name.strip_suffix(" (deleted)").unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skipped::skip;

    #[test]
    fn a_file_that_was_removed_is_still_known_by_its_name() {
        assert_eq!(named("/tmp/d/xfs.img\n"), Path::new("/tmp/d/xfs.img"));
        assert_eq!(named("/tmp/d/xfs.img (deleted)\n"), Path::new("/tmp/d/xfs.img"));
    }

    #[test]
    fn a_device_that_somebody_still_has_open_is_detached_when_it_is_dropped() {
        const NAME: &str = "a_device_that_somebody_still_has_open_is_detached_when_it_is_dropped";
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        if !crate::program::is_root() || !crate::program::exists("losetup") {
            return skip(NAME, "a loop device takes root and losetup");
        }
        let device = match LoopDevice::over_new(&image, 1 << 20, &Interrupt::default()) {
            Ok(device) => device,
            Err(error) => return skip(NAME, &format!("no loop device: {error}")),
        };
        let (node, ours) = (device.node().to_owned(), image.canonicalize().unwrap());
        let user = File::open(&node).unwrap();
        let is_told = {
            let flag = loop_folder(&node).join("autoclear");
            move || !fs::read_to_string(&flag).is_ok_and(|flag| flag.trim() == "0")
        };
        let lets_go = thread::spawn(move || {
            while !is_told() {
                thread::yield_now();
            }
            // Whoever does not wait for it looks long before this has ended.
            thread::sleep(Duration::from_millis(300));
            drop(user);
        });
        drop(device);
        assert_ne!(backing_file(&node), Some(ours), "still attached");
        assert!(!image.exists());
        lets_go.join().unwrap();
    }
}
