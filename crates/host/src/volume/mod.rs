//! A volume on this machine: a folder that describes it, its member files or devices, and its arena.
//!
//! ```text
//! folder/volume.toml   description: what it is and where its members are
//! folder/home          its pages                        (or a block device, or an NBD server's export)
//! folder/log           its log                          (the same, or a part of home)
//! folder/nbd.sock      while it is served
//! folder/status.sock   while it is served
//! /dev/shm/...         arena: writes that are acknowledged and not yet durable
//! ```
//!
//! 1. A folder is opened by one process at a time: its description is locked, and so is each member.
//! 2. The arena is found again after a kill -9: it is looked for in the same places each time, and goes only
//!    when the volume was closed with nothing left in it.
//! 3. Nothing that exists is overwritten unless it was named for it ([`create`]).

pub mod create;
pub mod description;
pub mod member;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use evenkeel_engine::error::Error;
use evenkeel_engine::options::OpenOptions;
use evenkeel_engine::volume::Volume;
use rustix::fs::FlockOperation;

use crate::arena::{self, SharedArena};
use crate::event_loop::Loop;
use crate::path_error::PathError;

use description::{Description, Member, VolumeId};
use member::{MemberDrive, Members, Place, Watch};

/// How long a process that was just killed is waited for: the kernel ends its I/O after its death is told.
const PATIENCE: Duration = Duration::from_secs(5);

/// A volume of the engine on this machine's drives.
pub type LocalVolume = Volume<Loop, SharedArena, MemberDrive, MemberDrive>;

/// What can go wrong with a volume and its folder.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// Something about one of its files.
    #[error(transparent)]
    Path(#[from] PathError),
    /// There is no volume.
    #[error("{}: no volume is here; make one with `evenkeel create`", .0.display())]
    NotAVolume(PathBuf),
    /// Another process has it.
    #[error("{}: it is being served or checked by another process; stop that one first", .0.display())]
    InUse(PathBuf),
    /// The description cannot be used.
    #[error("{}: {why}", path.display())]
    Description {
        /// The file.
        path: PathBuf,
        /// What is wrong, in one line.
        why: String,
    },
    /// It cannot be made as asked.
    #[error("{0}")]
    Refused(String),
    /// The engine's word on what the members hold.
    #[error("{}: {source}", folder.display())]
    Engine {
        /// The volume.
        folder: PathBuf,
        /// The cause.
        source: Error,
    },
}

impl VolumeError {
    fn description(path: &Path, why: &dyn std::fmt::Display) -> Self {
        let why = why.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        Self::Description { path: path.to_owned(), why }
    }
}

/// A volume that is open, and its folder.
pub struct OpenVolume {
    /// What serves reads and writes.
    pub volume: LocalVolume,
    /// What its folder says of it.
    pub description: Description,
    folder: PathBuf,
    arena_path: PathBuf,
    members: Members,
    /// Tells the volume of members that are lost.
    _watch: Watch,
    /// Holds the lock.
    _lock: File,
}

impl std::fmt::Debug for OpenVolume {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("OpenVolume").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl OpenVolume {
    /// Opens the volume in `folder`: what a cut or a kill left undone is done first.
    ///
    /// # Errors
    ///
    /// As [`VolumeError`] tells.
    pub async fn open(event_loop: &Loop, folder: &Path, options: OpenOptions) -> Result<Self, VolumeError> {
        let (description, lock) = lock_description(folder)?;
        let drive = async |member: &Member| {
            let place = match &member.place {
                Place::Path(path) => Place::Path(folder.join(path)),
                Place::Nbd(_) => member.place.clone(),
            };
            MemberDrive::open(event_loop, &place, member.options()).await
        };
        let home = Rc::new(drive(&description.home).await?);
        let log = match &description.log {
            Some(log) => Rc::new(drive(log).await?),
            None => Rc::clone(&home),
        };
        let name = arena_name(description.id);
        let len = usize::try_from(description.buffer_bytes).unwrap_or(usize::MAX);
        let arena = SharedArena::open_in(&[Path::new(arena::DEFAULT_FOLDER), folder], &name, len)?;
        let arena_path = arena.path().to_owned();
        let separate_log = description.log.is_some();
        let drives = (Rc::clone(&home), Rc::clone(&log));
        let opened = Volume::open(event_loop.clone(), arena, drives.0, drives.1, separate_log, options).await;
        let mut members = vec![(description.home.place.clone(), Rc::clone(&home))];
        members.extend(description.log.iter().map(|member| (member.place.clone(), Rc::clone(&log))));
        let members = Members(members);
        let volume = opened.map_err(|source| match members.lost() {
            Some(lost) => VolumeError::Refused(format!("{}: cannot be opened: {lost}", folder.display())),
            None => VolumeError::Engine { folder: folder.to_owned(), source },
        })?;
        if volume.id() != description.id.0 || volume.size_bytes() != description.size_bytes {
            let why = "its members belong to another volume";
            return Err(VolumeError::description(&folder.join(description::FILE_NAME), &why));
        }
        let watch = Watch::default();
        for (place, member) in &members.0 {
            watch.over(event_loop, &volume, place, member);
        }
        let folder = folder.to_owned();
        Ok(Self { volume, description, folder, arena_path, members, _watch: watch, _lock: lock })
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where its acknowledged writes survive a kill.
    pub fn arena_path(&self) -> &Path {
        &self.arena_path
    }

    /// Makes everything durable, takes it home, and gives the arena's memory back.
    ///
    /// # Errors
    ///
    /// The volume's failure; then the arena stays, with what is not durable in it.
    pub async fn close(self) -> Result<(), VolumeError> {
        let closed = self.volume.close().await;
        closed.map_err(|source| {
            let source = self.members.lost().map_or(source, |lost| Error::Latched(lost.into()));
            VolumeError::Engine { folder: self.folder.clone(), source }
        })?;
        let _an_empty_arena_may_stay = std::fs::remove_file(&self.arena_path);
        Ok(())
    }
}

fn arena_name(id: VolumeId) -> String {
    format!("evenkeel-{id}.arena")
}

/// Whether writes of a process that was killed wait for the volume to be opened again.
pub fn has_arena(folder: &Path, description: &Description) -> bool {
    let name = arena_name(description.id);
    [Path::new(arena::DEFAULT_FOLDER), folder].iter().any(|place| place.join(&name).exists())
}

/// Reads the description and keeps every other process from opening the volume.
fn lock_description(folder: &Path) -> Result<(Description, File), VolumeError> {
    let (description, file) = Description::read(folder)?;
    let began = Instant::now();
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok((description, file)),
            Err(rustix::io::Errno::WOULDBLOCK) if is_served(folder) || began.elapsed() > PATIENCE => {
                return Err(VolumeError::InUse(folder.to_owned()));
            }
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => {
                let path = folder.join(description::FILE_NAME);
                return Err(PathError::new(&path, "cannot lock", io::Error::from(error)).into());
            }
        }
    }
}

/// Whether a living process answers for the volume.
fn is_served(folder: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(folder.join(STATUS_SOCKET)).is_ok()
}

/// Where a server tells its status.
pub const STATUS_SOCKET: &str = "status.sock";

/// Where a server listens unless told otherwise.
pub const NBD_SOCKET: &str = "nbd.sock";
