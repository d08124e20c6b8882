//! What others put where this volume's arena would be: everybody may make any name in `/dev/shm`, and only root or whoever
//! made it may remove it there.
//!
//! 1. What may hold acknowledged writes of this volume is never passed over: what is this user's, and what is an arena of this
//!    volume, unless that was stopped in order or has its newest arena in its folder.
//! 2. Nothing that cannot hold any keeps the volume from starting: what is no regular file, and another user's file that is no
//!    arena of this volume, or that a user made who never could serve it.

use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use evenkeel_engine::volume::{ArenaContents, is_of_other_version};
use rustix::fs::OFlags;

use super::Arenas;
use crate::arena::Content;
use crate::durable_file::odd_kind;
use crate::volume::description::{Description, FILE_NAME};

/// What was passed over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedOver {
    /// Where it is.
    pub path: PathBuf,
    /// Whose it is.
    pub user: u32,
    /// What it is instead of an arena.
    pub what: &'static str,
}

impl fmt::Display for PassedOver {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, user, what } = self;
        write!(
            out,
            "{} belongs to user {user} and is {what}: it is passed over, and the arena is in the volume's folder until root or \
             that user removes it",
            path.display()
        )
    }
}

/// Whether only its owners and root can have served the volume: nobody else may write to its folder and its members.
pub(super) fn is_closed_to_others(folder: &Path, description: &Description) -> bool {
    let members = description.members.iter().chain(&description.logs);
    let paths = members.filter_map(|member| Some(folder.join(member.place.path()?)));
    let mut found =
        [folder.to_owned(), folder.join(FILE_NAME)].into_iter().chain(paths).flat_map(|at| at.metadata());
    found.all(|found| found.mode() & 0o022 == 0)
}

impl Arenas {
    /// What is passed over in the folder of everybody. `none_waits`: no other user's arena can hold
    /// writes of the volume.
    pub(super) fn to_pass_over(&self, none_waits: bool) -> Option<PassedOver> {
        let path = self.folders[0].join(self.name());
        let found = path.symlink_metadata().ok()?;
        let what = match odd_kind(&found) {
            _ if found.is_symlink() => "a symbolic link",
            Some(kind) => kind,
            None if !found.is_file() => "a device",
            None if self.is_others_file(&path, &found, none_waits) => "no arena of this volume",
            None => return None,
        };
        Some(PassedOver { path, user: found.uid(), what })
    }

    /// Whether that is another user's file which cannot hold writes of this volume.
    fn is_others_file(&self, path: &Path, found: &Metadata, none_waits: bool) -> bool {
        if found.uid() == rustix::process::geteuid().as_raw() {
            return false;
        }
        let never_served = found.uid() != 0 && !self.users.contains(&found.uid());
        if never_served && none_waits {
            return true;
        }
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Ok(file) => !self.may_be_arena(&file),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                never_served && self.closed_to_others
            }
            Err(_) => false,
        }
    }

    /// Whether `file` may be an arena of this volume.
    fn may_be_arena(&self, file: &File) -> bool {
        match Content::of(file) {
            Ok(Content::Arena(seen)) => {
                is_of_other_version(&seen)
                    || ArenaContents::of(&seen).is_some_and(|held| held.volume == self.id.0)
            }
            Ok(Content::OtherVersion) | Err(_) => true,
            Ok(Content::OtherBoot | Content::CutShort | Content::Empty | Content::Foreign) => false,
        }
    }
}
