//! A file system on the volume, mounted through FUSE: programs use it as any other, and the fsync of a file takes only that
//! file.
//!
//! ```text
//! a program ── system call ── kernel ── /dev/fuse, or io_uring
//!   device       reads requests and hands answers over, on the event loop's thread; abi: their layouts
//!   slots        memory that the kernel puts requests into, and takes answers from; answering: either way
//!   session      makes a task of each; under_way, forgotten: how many there are, bounded
//!   mounted      commits now and then, unmounts
//!   requests     what each does with the file system; attributes: its words in the kernel's; waiters: who waited for it
//!     ext2       the crate evenkeel-ext2, over the volume and its commits
//! format         makes one
//! mount_point    the folder on which it is mounted
//! replacement    mounts it in place of one whose server is gone
//! ```
//!
//! 1. Mounting is the last step: whatever can be refused is refused before a program sees anything.
//! 2. What nobody made durable is made durable after [`FuseSetup::commit_every_ns`], so that a power cut takes no more than
//!    that.
//! 3. A stop detaches the file system first, lets files that are open end for a moment, and makes everything
//!    durable. It is the same where it is unmounted from outside, which does not wait for that: the kernel does not let it.
//! 4. A kill leaves a mount without a server, where calls fail with `ENOTCONN` or, if they were under way, `ECONNABORTED`; the
//!    next start replaces it. What lies under both is not seen meanwhile, where the kernel and the user's rights allow that.

mod abi;
mod answering;
mod attributes;
mod device;
mod forgotten;
pub mod format;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod long_requests;
mod mount_point;
mod mounted;
mod replacement;
mod requests;
mod session;
mod slots;
mod under_way;
mod waiters;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_ext2::{FileSystem, MountOptions, Store};
use fuser::{Config, MountOption, SessionACL};

use super::FrontSetup;
use crate::event_loop::{Backend, Loop};
use crate::path_error::PathError;
use crate::volume::VolumeError;
use mount_point::MountPoint;
pub use mounted::Mounted;
use mounted::Unmounts;
use replacement::Unattached;
use requests::Files;
use session::Handshake;

/// The type of such a mount in the mount table.
pub const FILE_SYSTEM_TYPE: &str = "fuse.evenkeel";

/// Where the kernel hands out connections.
const DEVICE: &str = "/dev/fuse";

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
    /// How the kernel hands requests over.
    pub transport: Transport,
    /// How far the kernel reads ahead of programs at least, where this process may say so; else as it does by itself.
    pub read_ahead_bytes: Option<u64>,
}

/// How the kernel hands requests over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// By `/dev/fuse`: a system call takes one.
    Device,
    /// Over io_uring, into memory that waits for them. Refused where that cannot be had.
    IoUring,
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
        let place = mount_point::look(&self.mount_point, &self.source, self.covers_files)?;
        let options = MountOptions { is_read_only, ..self.file_system };
        let file_system = FileSystem::mount(store, options, attributes::now)
            .await
            .map_err(|error| VolumeError::Refused(error.to_string()))?;
        let files = Rc::new(Files::new(file_system, event_loop));
        let queues = slots::queues(event_loop, self.transport)?;
        let has_slots = Arc::<AtomicBool>::default();
        let handshake = Handshake { wants_slots: queues.is_some(), has_slots: Arc::clone(&has_slots) };
        let (mount, unmounts) = self.mount(&place, is_read_only, handshake)?;
        if let Some(bytes) = self.read_ahead_bytes
            && let Err(error) = mount_point::reads_ahead(&place.at, bytes)
        {
            tracing::debug!(target: "evenkeel", "{}: reads ahead as ever: {error}", place.at.display());
        }
        let mounted = Mounted::new(event_loop, place.at, files);
        if queues.is_some() && !has_slots.load(Ordering::Relaxed) {
            // The session takes its own mount away.
            if unmounts == Unmounts::ByPath {
                let _detached_or_told_below = mount_point::detach(&self.mount_point);
            }
            let why = "requests cannot come over io_uring: the kernel does not agree to it";
            return Err(VolumeError::Refused(why.to_owned()));
        }
        mounted.run(mount, unmounts, self.allowed(), queues)?;
        if !is_read_only {
            mounted.commit_now_and_then(self.commit_every_ns);
        }
        Ok(mounted)
    }
}

impl FuseSetup {
    /// That a volume whose folder is `source` can be mounted at `mount_point`, as far as that folder tells.
    ///
    /// # Errors
    ///
    /// [`VolumeError::Refused`] says what is in the way.
    pub fn check_mount_point(
        mount_point: &Path,
        source: &str,
        covers_files: bool,
    ) -> Result<(), VolumeError> {
        mount_point::look(mount_point, source, covers_files).map(drop)
    }

    /// What the loop has to be that serves it.
    pub fn backend(&self) -> Backend {
        match self.transport {
            Transport::Device => Backend::Auto,
            Transport::IoUring => Backend::Slots,
        }
    }

    /// Mounts it: from then on programs may use it.
    fn mount(
        &self,
        place: &MountPoint,
        is_read_only: bool,
        handshake: Handshake,
    ) -> Result<(fuser::Session<Handshake>, Unmounts), VolumeError> {
        let config = self.config(is_read_only);
        let cannot = |error| PathError::new(&self.mount_point, "cannot be mounted on", error);
        if place.is_taken_by_dead {
            let replaced = Unattached::new(self, is_read_only).and_then(|(device, unattached)| {
                unattached.replace(&place.at)?;
                Ok(device)
            });
            if let Ok(device) = replaced {
                let mount = fuser::Session::from_fd(handshake, device, config.acl, config).map_err(cannot)?;
                return Ok((mount, Unmounts::ByPath));
            }
            let why = "cannot be unmounted, though its server is gone";
            mount_point::detach(&place.at).map_err(|error| PathError::new(&self.mount_point, why, error))?;
            // What programs made there by now is hidden, as all that was there before.
            mount_point::look(&place.at, &self.source, true)?;
        }
        let mount = fuser::Session::new(handshake, &place.at, &config).map_err(cannot)?;
        Ok((mount, Unmounts::ByFuser))
    }

    fn allowed(&self) -> SessionACL {
        if self.is_for_all { SessionACL::All } else { SessionACL::Owner }
    }

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
        config.acl = self.allowed();
        config
    }
}
