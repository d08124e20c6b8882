//! What waits in memory for a volume that nobody opens.
//!
//! 1. What cannot be told is an error, or is shown to whoever asks: never nothing.
//! 2. Only arenas of users who may serve the volume are believed, and only while nobody else could write to them. Root may
//!    look at those of the volume's owner.
//! 3. Looking changes nothing.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use evenkeel_engine::volume::{ArenaContents, is_of_other_version};
use rustix::fs::OFlags;

use super::{Arenas, Whereabouts, cannot_tell_version};
use crate::arena::{Content, Seen};
use crate::path_error::PathError;
use crate::volume::VolumeError;
use crate::volume::description::{Description, FILE_NAME};

/// This user, and those whom the volume belongs to.
pub(super) fn users(folder: &Path, description: &Description) -> Vec<u32> {
    let mut users = owners(folder, description);
    users.push(rustix::process::geteuid().as_raw());
    users.sort_unstable();
    users.dedup();
    users
}

/// Those whom the volume belongs to: its folder, its description, and the files of its members.
pub(super) fn owners(folder: &Path, description: &Description) -> Vec<u32> {
    let of_path = |path: &Path| fs::metadata(path).ok().map(|found| found.uid());
    let of_members = description.members.iter().filter_map(|member| {
        let found = fs::metadata(folder.join(member.place.path()?)).ok()?;
        found.is_file().then(|| found.uid())
    });
    let of_folder = [of_path(folder), of_path(&folder.join(FILE_NAME))].into_iter().flatten();
    of_folder.chain(of_members).collect()
}

/// What may wait for a volume.
#[derive(Debug)]
pub(in crate::volume) enum Waiting {
    /// An arena with writes, or one of another version within an arena of this one.
    Arena(Seen),
    /// An arena of another version.
    OtherVersion,
}

impl Arenas {
    /// Whether an arena that may be this volume's holds writes that nobody has made durable.
    ///
    /// # Errors
    ///
    /// As [`Self::look`]; where another version used that arena.
    pub(in crate::volume) fn hold_writes(&self) -> Result<bool, VolumeError> {
        match self.find()? {
            Some((path, Waiting::OtherVersion)) => Err(cannot_tell_version(&path)),
            Some((path, Waiting::Arena(seen))) if is_of_other_version(&seen) => {
                Err(cannot_tell_version(&path))
            }
            found => Ok(found.is_some()),
        }
    }

    /// Looks at the arena that holds writes of this volume, or was used by another version and may hold some. Nothing of
    /// it changes.
    ///
    /// # Errors
    ///
    /// Where an arena of this volume may not be read, or is another user's than the volume.
    pub(in crate::volume) fn look(&self) -> Result<Option<Waiting>, VolumeError> {
        self.find().map(|found| found.map(|(_, waiting)| waiting))
    }

    fn find(&self) -> Result<Option<(PathBuf, Waiting)>, VolumeError> {
        let may_hold = |waiting: &Waiting| match waiting {
            Waiting::OtherVersion => true,
            Waiting::Arena(seen) => {
                let holds = |held: ArenaContents| held.volume == self.id.0 && held.writes > 0;
                is_of_other_version(seen) || ArenaContents::of(seen).is_some_and(holds)
            }
        };
        for path in self.own_places() {
            if let Some(waiting) = self.look_at(&path)?.filter(may_hold) {
                return Ok(Some((path, waiting)));
            }
        }
        for path in self.others_of(&self.users) {
            let is_ours = |waiting: &Waiting| match waiting {
                Waiting::OtherVersion => true,
                Waiting::Arena(seen) => !matches!(self.whereabouts(&seen.note()), Whereabouts::Elsewhere),
            };
            if let Some(waiting) = self.look_at(&path)?.filter(|it| may_hold(it) && is_ours(it)) {
                return Ok(Some((path, waiting)));
            }
        }
        Ok(None)
    }

    /// Looks at the arena at `path`; `None` where there is none of this start of the machine.
    fn look_at(&self, path: &Path) -> Result<Option<Waiting>, VolumeError> {
        let failed = |error| VolumeError::from(PathError::new(path, "cannot look at the arena", error));
        let cannot_tell = |why: &str| {
            let why = format!("whether acknowledged writes of this volume wait in it cannot be told: {why}");
            VolumeError::Arena { path: path.to_owned(), why }
        };
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file: File = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Ok(file) => file,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(cannot_tell("it is another user's: run this as its owner, or as root"));
            }
            Err(error) => return Err(failed(error)),
        };
        let found = file.metadata().map_err(failed)?;
        let waiting = match Content::of(&file).map_err(failed)? {
            Content::Arena(seen) => Waiting::Arena(seen),
            Content::OtherVersion => Waiting::OtherVersion,
            Content::OtherBoot | Content::CutShort | Content::Empty | Content::Foreign => return Ok(None),
        };
        if !self.users.contains(&found.uid()) {
            return Err(cannot_tell(&format!(
                "it belongs to user {}, and the volume does not: run this as its owner, or remove it if that user never \
                 served the volume",
                found.uid()
            )));
        }
        if found.mode().trailing_zeros() < 6 || found.nlink() != 1 {
            return Err(cannot_tell(
                "others than its owner may have written to it: make it its owner's alone",
            ));
        }
        Ok(Some(waiting))
    }
}
