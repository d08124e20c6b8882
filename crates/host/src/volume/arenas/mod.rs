//! Whose arena is whose.
//!
//! An arena lies outside of the volume's folder. After a kill the volume whose writes it holds must find it again, and
//! nobody else: not a copy, whose members carry the same number and are other files.
//!
//! 1. It is named by the volume's number and by what the home member is: a file's device and inode, a device's number, an
//!    export's URI. A copy has another home, and so another arena.
//! 2. A home may become another file and be the same volume: moved to another file system, or mounted anew. A note says
//!    where an arena's home was. Where that is no more, or where ours is now, and its writes are of the very opening that
//!    the superblock speaks of, it is ours, and gets our name once the volume is open. (A copy made after the kill passes
//!    for the original where that one was moved and the copy is opened first: the two are the same then.)
//! 3. Nothing is taken from a home that is still there. Where that cannot be told, nothing is opened.
//! 4. Of a mirror, whose members may all be replaced, the folder stands for the home. Two folders may describe the same
//!    members elsewhere: the one that does not have the writes is not opened, either.
//!
//! ```text
//! home         what a home is, and where, as an arena's note has it
//! listing      all arenas as an operator sees them, and those that are freed
//! holder       who has one open
//! waiting      what waits for a volume that nobody opens
//! passed_over  what others put where the arena would be
//! ```

pub(super) mod holder;
mod home;
pub mod listing;
mod passed_over;
mod waiting;

pub use passed_over::PassedOver;
pub(super) use waiting::Waiting;

use std::ffi::OsStr;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use evenkeel_engine::volume::{ArenaContents, Identity, is_of_other_version};

use super::VolumeError;
use super::description::{Description, Member, VolumeId};
use crate::arena::{DEFAULT_FOLDER, OF_OTHER_VERSION, SharedArena};
use crate::path_error::PathError;
use home::Home;

/// How the name of every arena begins and ends.
pub(super) const ARENA_PREFIX: &str = "evenkeel-";
pub(super) const ARENA_SUFFIX: &str = ".arena";

/// Where a volume's arena may be, and what it is called.
#[derive(Debug)]
pub(super) struct Arenas {
    folders: [PathBuf; 2],
    id: VolumeId,
    home: Home,
    /// Whose arenas are looked at: this user's, and those of the users who may serve the volume.
    users: Vec<u32>,
    /// Whether another folder may describe the same members.
    may_be_shared: bool,
    /// Whether nobody but these users and root can have served the volume.
    closed_to_others: bool,
    /// What has the arena's name in the first folder and cannot be it.
    passed_over: Option<PassedOver>,
}

/// What became of the home of an arena that does not have our name.
enum Whereabouts {
    /// It is where ours is.
    Here,
    /// It is still there.
    Elsewhere,
    /// It is not there any more.
    Gone,
    /// That cannot be told.
    Unknown,
}

impl Arenas {
    /// Of the volume in `folder`.
    pub(super) fn of(folder: &Path, description: &Description) -> Self {
        let folders = [PathBuf::from(DEFAULT_FOLDER), folder.to_owned()];
        let is_inside = |member: &Member| member.place.path().is_some_and(Path::is_relative);
        let may_be_shared = description.layout.is_ring() && !description.members.iter().all(is_inside);
        let home = Home::of(folder, description);
        let users = waiting::users(folder, description);
        let closed_to_others = passed_over::is_closed_to_others(folder, description);
        let id = description.id;
        let arenas = Self { folders, id, home, users, may_be_shared, closed_to_others, passed_over: None };
        Self { passed_over: arenas.to_pass_over(false), ..arenas }
    }

    /// The same for members that are known: what another user has holds no writes of the volume where that was stopped in
    /// order or never opened, or where the arena of its newest opening is in its folder.
    pub(super) fn knowing(self, identity: &Identity, was_stopped: bool) -> Self {
        let own = SharedArena::look(&self.folders[1].join(self.name()));
        let held = own.ok().flatten().and_then(|seen| ArenaContents::of(&seen));
        let is_in_folder = held.is_some_and(|held| held.are_of(identity.volume, identity.epoch));
        let none_waits = was_stopped || identity.epoch == 0 || is_in_folder;
        Self { passed_over: self.to_pass_over(none_waits), ..self }
    }

    /// What has the arena's name in the first folder and cannot be it.
    pub(super) fn passed_over(&self) -> Option<&PassedOver> {
        self.passed_over.as_ref()
    }

    /// Opens the one with this volume's writes, or else makes one of `len` bytes. [`Self::settle`] it once the volume is
    /// open.
    ///
    /// # Errors
    ///
    /// Where it cannot be told whose writes an arena holds; as [`SharedArena::open`].
    pub(super) fn open(&self, identity: &Identity, len: usize) -> Result<SharedArena, VolumeError> {
        if self.own_places().all(|path| path.symlink_metadata().is_err()) {
            for path in self.others() {
                if let Some(arena) = self.adopt(&path, identity, len)? {
                    return Ok(arena);
                }
            }
        }
        self.open_own(len)
    }

    /// As [`Self::open`], a copy of it in memory: the arena stays as it is.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub(super) fn open_copy(&self, identity: &Identity, len: usize) -> Result<SharedArena, VolumeError> {
        let mut path = self.own_places().find(|path| path.exists());
        if path.is_none() {
            for other in self.others() {
                if self.is_ours(&other, identity)? {
                    path = Some(other);
                    break;
                }
            }
        }
        let at = path.clone().unwrap_or_else(|| self.folders[0].join(self.name()));
        let seen = path.map(|path| SharedArena::look(&path)).transpose()?.flatten();
        Ok(SharedArena::copy_in_memory(&at, seen.as_ref(), len)?)
    }

    /// The same, where no other can hold anything of this volume: it was just made durable.
    ///
    /// # Errors
    ///
    /// As [`SharedArena::open`].
    pub(super) fn open_own(&self, len: usize) -> Result<SharedArena, VolumeError> {
        Ok(SharedArena::open_in(&self.folders(), &self.name(), len)?)
    }

    /// Gives the arena at `from`, whose volume is open, its name and its note; answers where it is now.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub(super) fn settle(&self, from: &Path) -> Result<PathBuf, VolumeError> {
        let mut path = from.with_file_name(self.name());
        if self.passed_over.as_ref().is_some_and(|passed| passed.path == path) {
            // Its note says whose it is.
            path = from.to_owned();
        }
        if from != path {
            fs::rename(from, &path)
                .map_err(|error| PathError::new(from, "cannot rename the arena", error))?;
        }
        SharedArena::write_note(&path, &self.home.note())?;
        Ok(path)
    }

    /// Whether there is any arena that may be this volume's, with writes or none.
    pub(super) fn is_any_there(&self) -> bool {
        self.own_places().any(|path| path.exists()) || !self.others().is_empty()
    }

    /// Removes those of this user: nobody is to have the volume, nor does anybody use it.
    pub(super) fn remove(&self) {
        for path in self.own_places().chain(self.others()) {
            let _mostly_not_there = fs::remove_file(path);
        }
    }

    /// Where an arena of this name may be.
    fn folders(&self) -> Vec<&Path> {
        let passed = usize::from(self.passed_over.is_some());
        self.folders[passed..].iter().map(PathBuf::as_path).collect()
    }

    /// The paths that it has there.
    fn own_places(&self) -> impl Iterator<Item = PathBuf> {
        let name = self.name();
        self.folders().into_iter().map(move |folder| folder.join(&name))
    }

    fn name(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.home.what.hash(&mut hasher);
        if self.home.is_export() {
            self.home.at.hash(&mut hasher);
        }
        format!("{}{:016x}{ARENA_SUFFIX}", self.prefix(), hasher.finish())
    }

    fn prefix(&self) -> String {
        format!("{ARENA_PREFIX}{}-", self.id)
    }

    /// Arenas of the same number and another name, of this user.
    fn others(&self) -> Vec<PathBuf> {
        self.others_of(&[rustix::process::geteuid().as_raw()])
    }

    /// Arenas of the same number and another name, of these users.
    fn others_of(&self, users: &[u32]) -> Vec<PathBuf> {
        let (prefix, own) = (self.prefix(), self.name());
        let is_another = |name: &OsStr| {
            let name = name.to_string_lossy();
            name.starts_with(&prefix) && name.ends_with(ARENA_SUFFIX) && name != own.as_str()
        };
        let entries = self.folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
        let mut found: Vec<PathBuf> =
            entries.filter(|entry| is_another(&entry.file_name())).map(|entry| entry.path()).collect();
        found.retain(|path| path.symlink_metadata().is_ok_and(|found| users.contains(&found.uid())));
        found.sort_unstable();
        found
    }

    /// The arena at `path`, made under another name, if its writes are this volume's.
    fn adopt(
        &self,
        path: &Path,
        identity: &Identity,
        len: usize,
    ) -> Result<Option<SharedArena>, VolumeError> {
        match self.is_ours(path, identity)? {
            true => Ok(Some(SharedArena::open_at(path, &self.folders(), len)?)),
            false => Ok(None),
        }
    }

    /// Whether the writes of the arena at `path`, made under another name, are this volume's.
    fn is_ours(&self, path: &Path, identity: &Identity) -> Result<bool, VolumeError> {
        let seen = match SharedArena::look(path) {
            Ok(Some(seen)) => seen,
            Ok(None) => return Ok(false),
            // Another volume was closed meanwhile.
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let note = seen.note();
        let whereabouts = self.whereabouts(&note);
        if matches!(whereabouts, Whereabouts::Elsewhere) && !self.may_be_shared {
            return Ok(false);
        }
        if is_of_other_version(&seen) {
            return Err(cannot_tell_version(path));
        }
        let Some(held) = ArenaContents::of(&seen) else { return Ok(false) };
        // Where our home is, it is ours though no write waits in it: it may know of more than the members do.
        if held.writes == 0 && !matches!(whereabouts, Whereabouts::Here) {
            return Ok(false);
        }
        let are_of_members = held.are_of(identity.volume, identity.epoch);
        Ok(match whereabouts {
            // The engine refuses writes of a later opening than the members know of.
            Whereabouts::Here => !held.are_superseded(identity.volume, identity.epoch),
            Whereabouts::Gone => are_of_members,
            Whereabouts::Unknown | Whereabouts::Elsewhere if are_of_members => {
                return Err(cannot_tell(path, &held, &note));
            }
            Whereabouts::Unknown | Whereabouts::Elsewhere => false,
        })
    }

    /// What became of the home that a note speaks of.
    fn whereabouts(&self, note: &[u8]) -> Whereabouts {
        let Some(home) = Home::parse(note) else { return Whereabouts::Unknown };
        let Some(at) = &home.at else { return Whereabouts::Unknown };
        if Some(at) == self.home.at.as_ref() {
            return Whereabouts::Here;
        }
        if home.is_export() {
            return Whereabouts::Unknown;
        }
        match fs::metadata(OsStr::from_bytes(at)) {
            Ok(found) if home.is_like(&found) => Whereabouts::Elsewhere,
            Ok(_) => Whereabouts::Gone,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Whereabouts::Gone
            }
            Err(_) => Whereabouts::Unknown,
        }
    }
}

fn cannot_tell(path: &Path, held: &ArenaContents, note: &[u8]) -> VolumeError {
    let at = Home::parse(note).and_then(|home| home.at).unwrap_or_default();
    let why = format!(
        "it holds {} acknowledged writes of this volume, whose pages were at {}, and whether they are there still cannot \
         be told: serve it from there, or remove this file to give those writes up",
        held.writes,
        OsStr::from_bytes(&at).display()
    );
    VolumeError::Arena { path: path.to_owned(), why }
}

fn cannot_tell_version(path: &Path) -> VolumeError {
    VolumeError::Arena { path: path.to_owned(), why: OF_OTHER_VERSION.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::member::Place;

    fn arenas(home: &str) -> Arenas {
        let place: Place = home.parse().unwrap();
        Arenas {
            folders: ["/a".into(), "/b".into()],
            id: VolumeId(7),
            home: Home::of_place(Path::new("/"), &place),
            users: Vec::new(),
            may_be_shared: false,
            closed_to_others: true,
            passed_over: None,
        }
    }

    #[test]
    fn a_name_tells_homes_apart_and_is_always_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        fs::write(path("one"), "").unwrap();
        fs::copy(path("one"), path("copy")).unwrap();
        let one = arenas(&path("one"));
        assert!(one.name().starts_with("evenkeel-0000000000000007-"), "{}", one.name());
        assert_ne!(arenas(&path("copy")).name(), one.name());
        assert_ne!(arenas("nbd://host/a").name(), arenas("nbd://host/b").name());
        assert_eq!(arenas("nbd://host/a").name(), arenas("nbd://host/a").name());
        std::os::unix::fs::symlink("one", path("link")).unwrap();
        assert_eq!(arenas(&path("link")).name(), one.name());
        fs::rename(path("one"), path("moved")).unwrap();
        assert_eq!(arenas(&path("moved")).name(), one.name());
    }

    #[test]
    fn a_note_says_where_its_home_was_and_whether_it_is_there_still() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        ["one", "other"].iter().for_each(|name| fs::write(path(name), "").unwrap());
        let (one, other) = (arenas(&path("one")), arenas(&path("other")));
        let note = one.home.note();
        assert!(matches!(one.whereabouts(&note), Whereabouts::Here));
        assert!(matches!(other.whereabouts(&note), Whereabouts::Elsewhere));
        fs::rename(path("one"), path("moved")).unwrap();
        assert!(matches!(other.whereabouts(&note), Whereabouts::Gone));
        fs::copy(path("moved"), path("one")).unwrap();
        assert!(matches!(other.whereabouts(&note), Whereabouts::Gone), "another file is there");
        let far = arenas("nbd://host/a").home.note();
        assert!(matches!(other.whereabouts(&far), Whereabouts::Unknown));
        assert!(matches!(arenas("nbd://host/a").whereabouts(&far), Whereabouts::Here));
        for torn in [&b""[..], b"file 1", b"file 1 2\n", &[0xff; 300]] {
            assert!(matches!(one.whereabouts(torn), Whereabouts::Unknown), "{torn:?}");
        }
    }
}
