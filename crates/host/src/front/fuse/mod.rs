//! A file system on the volume, mounted through FUSE: programs use it as any other, and the fsync of a file takes only that
//! file.
//!
//! ```text
//! a program ── system call ── kernel ── /dev/fuse
//!   session      the kernel's requests, read on a thread of their own (crate `fuser`)
//!   inbox        from there to the event loop, bounded in bytes
//!   mounted      carries them out as tasks, commits now and then, unmounts
//!   requests     what each does with the file system; attributes: its words in the kernel's
//!     ext2       the crate evenkeel-ext2, over the volume and its commits
//! format         makes one
//! mount_point    the folder on which it is mounted
//! ```
//!
//! 1. Mounting is the last step: whatever can be refused is refused before a program sees anything.
//! 2. What nobody made durable is made durable after [`FuseSetup::commit_every_ns`], so that a power cut takes no more than
//!    that.
//! 3. A stop detaches the file system first, lets files that are open end for a moment, and makes everything
//!    durable. It is the same where it is unmounted from outside, which does not wait for that: the kernel does not let it.
//! 4. A kill leaves a mount without a server, where every call fails with `ENOTCONN`; the next start takes it away.

mod attributes;
pub mod format;
mod inbox;
mod mount_point;
mod mounted;
mod requests;
mod session;

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use evenkeel_ext2::{FileSystem, MountOptions, Store};
use fuser::{Config, MountOption, SessionACL};

use super::FrontSetup;
use super::statistics::Counting;
use crate::event_loop::Loop;
use crate::path_error::PathError;
use crate::volume::VolumeError;
use inbox::Inbox;
pub use mounted::Mounted;
use requests::Files;
use session::Session;

/// The type of such a mount in the mount table.
pub const FILE_SYSTEM_TYPE: &str = "fuse.evenkeel";

/// How a file system is mounted.
#[derive(Debug, Clone)]
pub struct FuseSetup {
    /// The folder on which.
    pub mount_point: PathBuf,
    /// What the mount table calls it.
    pub source: String,
    /// Whether that folder may hold something, which is hidden meanwhile.
    pub covers_files: bool,
    /// Whether every user may use it, as far as permissions go; else only who mounts it.
    pub is_for_all: bool,
    /// Options of the kernel: of `nosuid`, `nodev`, `noexec` and their opposites.
    pub flags: Vec<MountFlag>,
    /// How the file system is run.
    pub file_system: MountOptions,
    /// After which time what nobody made durable is made durable.
    pub commit_every_ns: u64,
}

/// What the kernel lets programs do with files there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MountFlag {
    /// Devices can be used.
    Dev,
    /// They cannot.
    NoDev,
    /// Programs can run with their owner's rights.
    Suid,
    /// They cannot.
    NoSuid,
    /// Programs can be run.
    Exec,
    /// They cannot.
    NoExec,
}

impl From<MountFlag> for MountOption {
    fn from(flag: MountFlag) -> Self {
        match flag {
            MountFlag::Dev => Self::Dev,
            MountFlag::NoDev => Self::NoDev,
            MountFlag::Suid => Self::Suid,
            MountFlag::NoSuid => Self::NoSuid,
            MountFlag::Exec => Self::Exec,
            MountFlag::NoExec => Self::NoExec,
        }
    }
}

impl<S: Store> FrontSetup<S> for FuseSetup {
    type Front = Mounted<S>;

    async fn begin(
        self,
        event_loop: &Loop,
        store: S,
        is_read_only: bool,
    ) -> Result<Self::Front, VolumeError> {
        let at = mount_point::prepare(&self.mount_point, &self.source, self.covers_files)?;
        let options = MountOptions { is_read_only, ..self.file_system };
        let file_system = FileSystem::mount(store, options, attributes::now)
            .await
            .map_err(|error| VolumeError::Refused(error.to_string()))?;
        let files = Rc::new(Files { file_system, counting: Counting::new(), env: event_loop.clone() });
        let inbox = Inbox::new();
        let config = self.config(is_read_only);
        let session = fuser::Session::new(Session(Arc::clone(&inbox)), &at, &config)
            .map_err(|error| PathError::new(&self.mount_point, "cannot be mounted on", error))?;
        let mounted = Mounted::new(event_loop, at, files, inbox);
        mounted.run(session)?;
        if !is_read_only {
            mounted.commit_now_and_then(self.commit_every_ns);
        }
        Ok(mounted)
    }
}

impl FuseSetup {
    fn config(&self, is_read_only: bool) -> Config {
        let mut config = Config::default();
        let kind = FILE_SYSTEM_TYPE.strip_prefix("fuse.").expect("a type of FUSE");
        config.mount_options = vec![
            MountOption::FSName(self.source.clone()),
            MountOption::Subtype(kind.to_owned()),
            MountOption::DefaultPermissions,
            MountOption::NoAtime,
            if is_read_only { MountOption::RO } else { MountOption::RW },
        ];
        config.mount_options.extend(self.flags.iter().map(|&flag| MountOption::from(flag)));
        config.acl = if self.is_for_all { SessionACL::All } else { SessionACL::Owner };
        config
    }
}
