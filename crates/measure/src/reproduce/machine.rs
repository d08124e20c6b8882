//! What figures that measure need of the machine: file systems over drives by model that answer in real time.
//!
//! Whoever runs figures has it, or says why not. A figure that measures runs alone ([`super::Work::each_alone`]).

use std::path::Path;

use evenkeel_host::interrupt::Interrupt;

/// A file system that is wanted, and on what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Name of the drive's model.
    pub model: &'static str,
    /// Bytes of the drive.
    pub drive_bytes: u64,
    /// Which file system.
    pub file_system: FileSystem,
    /// Its bytes, from the beginning of the drive on.
    pub file_system_bytes: u64,
}

/// A file system of the kernel's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    /// XFS.
    Xfs,
    /// ext4.
    Ext4,
    /// btrfs.
    Btrfs,
}

/// A file system that is mounted until this is dropped.
pub trait Mounted {
    /// Where.
    fn folder(&self) -> &Path;
}

/// Makes file systems.
pub trait Machine: Sync {
    /// A new and empty one.
    ///
    /// # Errors
    ///
    /// Why there is none, in a line.
    fn mount(&self, wanted: &Wanted) -> Result<Box<dyn Mounted>, String>;

    /// Asked when measuring is to end.
    fn interrupt(&self) -> &Interrupt;
}

/// Whether figures may measure.
#[derive(Clone, Copy)]
pub enum Measuring<'a> {
    /// Nobody asked for it.
    NotAsked,
    /// Somebody did, and it cannot be had here; why.
    Impossible(&'a str),
    /// On this machine.
    On(&'a dyn Machine),
}
