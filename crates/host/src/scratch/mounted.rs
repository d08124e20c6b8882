//! A file system that is mounted until this is dropped.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::interrupt::Interrupt;
use crate::program::{Program, ProgramError};
pub use crate::stack::mounts::is_mount_point;
use crate::undo::Undo;

/// How long mount and umount may take: a journal is replayed, a cache written.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often an unmount is tried: whoever looked in may be leaving.
const TRIES: u32 = 10;

/// The mount.
#[derive(Debug)]
pub struct Mounted {
    point: PathBuf,
    _undo: Undo,
}

impl Mounted {
    /// Mounts `device` at `point`, an empty folder where nothing is mounted, with the words that mount takes.
    ///
    /// # Errors
    ///
    /// Those of mount, in its words.
    pub fn new(words: Vec<OsString>, point: &Path, interrupt: &Interrupt) -> Result<Self, ProgramError> {
        let point = std::fs::canonicalize(point)?;
        if is_mount_point(&point)? || std::fs::read_dir(&point)?.next().is_some() {
            return Err(std::io::Error::new(std::io::ErrorKind::AlreadyExists, "not an empty folder").into());
        }
        let mount = || Program::new(words, PATIENCE).run(None, interrupt);
        let (undo, _) = Undo::make(mount, |_| {
            let point = point.clone();
            Box::new(move || remove_leftover(&point))
        })?;
        Ok(Self { point, _undo: undo })
    }

    /// Unmounts it: all of its data is on the device then.
    ///
    /// # Errors
    ///
    /// Those of umount; it is unmounted then as soon as nobody uses it.
    pub fn unmount(self) -> Result<(), ProgramError> {
        let mut tried = 0;
        loop {
            tried += 1;
            match unmount(&self.point, false) {
                Err(_) if tried < TRIES => thread::sleep(Duration::from_millis(100)),
                ended => return ended,
            }
        }
    }
}

fn unmount(point: &Path, lazily: bool) -> Result<(), ProgramError> {
    let mut words: Vec<OsString> = vec!["umount".into()];
    words.extend(lazily.then(|| "--lazy".into()));
    words.push(point.into());
    // Not to be interrupted: it is what an interrupt waits for.
    Program::new(words, PATIENCE).run(None, &Interrupt::default()).map(drop)
}

/// Unmounts what is mounted at `point`, if anything is.
pub fn remove_leftover(point: &Path) {
    let Ok(point) = std::fs::canonicalize(point) else { return };
    for tried in 0..TRIES {
        match is_mount_point(&point) {
            Ok(true) => {}
            _ => return,
        }
        if unmount(&point, tried + 1 == TRIES).is_err() {
            thread::sleep(Duration::from_millis(100));
        }
    }
}
