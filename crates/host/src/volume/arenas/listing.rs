//! Arenas as an operator sees them: whose they are, whether somebody waits for them, and those that are given up.
//!
//! 1. Looking changes nothing and keeps nobody from his arena for longer than a moment.
//! 2. An arena is orphaned where its volume is not where it was. It may have been moved, and then finds its arena by
//!    itself: so an orphan with writes in it is worth as much as the arena of any other volume that was killed.
//! 3. What an arena of another user says of itself is told only where a volume of that user bears it out.
//! 4. Only what is named is freed, and all of it or nothing: none that is in use, and none that a volume may come back for
//!    unless its writes are given up in so many words. Whoever opens an arena meanwhile gets it, or another.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use evenkeel_engine::volume::{ArenaContents, is_of_other_version};
use rustix::fs::{FlockOperation, OFlags, flock};

use super::holder::{Holder, holder};
use super::home::Home;
use super::waiting::owners;
use super::{ARENA_PREFIX, ARENA_SUFFIX};
use crate::arena::{Content, DEFAULT_FOLDER};
use crate::path_error::PathError;
use crate::remedy::Remedy;
use crate::volume::VolumeError;
use crate::volume::convert;
use crate::volume::description::{Description, VolumeId};

/// How a copy ends that is made where an arena is moved.
const MOVING_SUFFIX: &str = ".new";

/// What is said of an arena that another version has used.
const OTHER_VERSION: &str = "another version used it, and acknowledged writes may wait in it";

/// An arena that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundArena {
    /// Its file.
    pub path: PathBuf,
    /// Bytes of memory, or of a disk, that it takes.
    pub bytes: u64,
    /// The number of the volume that it belongs to, as its name has it.
    pub volume: String,
    /// The folder of that volume, where it is known and still there.
    pub folder: Option<PathBuf>,
    /// Where the volume's pages were: a file, a device, a mirror's folder, or an export.
    pub home: Option<String>,
    /// Since the volume was last opened.
    pub opened_ago_s: Option<f64>,
    /// Acknowledged writes that are in this arena and nowhere else, where that can be told.
    pub writes: Option<u64>,
    /// The user whose file it is.
    pub user: u32,
    /// What it is good for.
    pub state: ArenaState,
}

/// What an arena is good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArenaState {
    /// A process has it open.
    InUse {
        /// Which, where it is seen from here.
        pid: Option<u32>,
    },
    /// Its volume is where it was, and takes it over at its next start.
    Waiting,
    /// Its volume is not where it was: removed, or moved.
    Orphaned {
        /// What was found instead.
        why: String,
    },
    /// Nobody takes anything from it: whoever made it was killed before it was finished.
    Void,
    /// That cannot be told.
    Unknown {
        /// Why not.
        why: String,
    },
}

/// The arenas in [`DEFAULT_FOLDER`] and in `folders`, in the order of their paths.
///
/// # Errors
///
/// Where one of `folders` cannot be read.
pub fn list(folders: &[PathBuf]) -> Result<Vec<FoundArena>, VolumeError> {
    let mut paths = Vec::new();
    let default = PathBuf::from(DEFAULT_FOLDER);
    for folder in [&default].into_iter().chain(folders) {
        let entries = match fs::read_dir(folder) {
            Err(error) if *folder == default && error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(|error| PathError::new(folder, "cannot read the folder", error))?,
        };
        paths.extend(entries.flatten().map(|entry| entry.path()).filter(|path| volume_of(path).is_some()));
    }
    paths.sort_unstable();
    paths.dedup();
    // One that went meanwhile is none.
    Ok(paths.iter().filter_map(|path| Found::look(path).ok()).map(|found| found.told).collect())
}

/// What is freed.
#[derive(Debug)]
pub struct Freeing(Vec<Found>);

impl Freeing {
    /// Takes the arenas at `paths` for itself, and sees that they may go; writes that are nowhere else are given up where
    /// `gives_up_writes`.
    ///
    /// # Errors
    ///
    /// Where one of them is no arena, in use, or needed; then all of them stay.
    pub fn of(paths: &[PathBuf], gives_up_writes: bool) -> Result<Self, VolumeError> {
        let mut taken: Vec<Found> = Vec::new();
        for path in paths {
            if taken.iter().all(|found| found.told.path != *path) {
                taken.push(Found::take(path, gives_up_writes)?);
            }
        }
        Ok(Self(taken))
    }

    /// Which they are.
    pub fn arenas(&self) -> impl Iterator<Item = &FoundArena> {
        self.0.iter().map(|found| &found.told)
    }

    /// Removes them.
    ///
    /// # Errors
    ///
    /// Those of `unlink`.
    pub fn free(self) -> Result<(), VolumeError> {
        for Found { told, .. } in &self.0 {
            fs::remove_file(&told.path)
                .map_err(|error| PathError::new(&told.path, "cannot remove the arena", error))?;
        }
        Ok(())
    }
}

/// An arena with its open file, if this user may open it.
#[derive(Debug)]
struct Found {
    told: FoundArena,
    file: Option<File>,
}

impl Found {
    fn look(path: &Path) -> Result<Self, VolumeError> {
        let failed = |error| PathError::new(path, "cannot look at it", error);
        let not_an_arena = || VolumeError::Refused(format!("{}: it is no arena", path.display()));
        let volume = volume_of(path).ok_or_else(not_an_arena)?;
        let found = path.symlink_metadata().map_err(failed)?;
        if !found.is_file() {
            return Err(not_an_arena());
        }
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let mut told = FoundArena {
            path: path.to_owned(),
            bytes: found.blocks() * 512,
            volume: volume.to_string(),
            folder: None,
            home: None,
            opened_ago_s: found.modified().ok().and_then(|at| at.elapsed().ok()).map(|ago| ago.as_secs_f64()),
            writes: None,
            user: found.uid(),
            state: ArenaState::Unknown { why: String::new() },
        };
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                told.state = ArenaState::Unknown { why: "it is another user's".to_owned() };
                return Ok(Self { told, file: None });
            }
            Err(error) => return Err(failed(error).into()),
        };
        told.judge(volume, &file);
        if told.is_of_other_user() && !told.is_borne_out() {
            told.drop_claims();
        }
        Ok(Self { told, file: Some(file) })
    }

    /// The same, locked, where it may be freed.
    fn take(path: &Path, gives_up_writes: bool) -> Result<Self, VolumeError> {
        let mut found = Self::look(path)?;
        let refused = |why: String| Err(VolumeError::Refused(format!("{}: {why}", path.display())));
        let Some(file) = &found.file else {
            return refused("it is another user's: run as that one, or as root".to_owned());
        };
        let in_use = |pid: Option<u32>| {
            let by = pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
            refused(format!("it is in use by {by}, which gives it back when it stops"))
        };
        if flock(file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return in_use(match found.told.state {
                ArenaState::InUse { pid } => pid,
                _ => None,
            });
        }
        // What it holds is looked at again now that nobody changes it.
        let volume = volume_of(path).expect("its name was looked at");
        found.told.judge_unused(volume, file);
        if found.told.is_of_other_user() && !found.told.is_borne_out() {
            found.told.drop_claims();
        }
        let is_same = |there: &Metadata, ours: &Metadata| {
            (there.dev(), there.ino()) == (ours.dev(), ours.ino()) && ours.nlink() == 1
        };
        match (path.symlink_metadata(), file.metadata()) {
            (Ok(there), Ok(ours)) if is_same(&there, &ours) => {}
            _ => return in_use(None),
        }
        match found.told.needed() {
            Some(why) if !gives_up_writes => match found.told.state {
                ArenaState::InUse { .. } => refused(why),
                _ => refused(why).map_err(|error| error.with(Remedy::GiveUpWrites)),
            },
            _ => Ok(found),
        }
    }
}

impl FoundArena {
    /// Whether it is neither this user's nor root's: what it says of itself may be anything.
    pub fn is_of_other_user(&self) -> bool {
        self.user != 0 && self.user != rustix::process::geteuid().as_raw()
    }

    /// Whether a volume of its user is where it says.
    fn is_borne_out(&self) -> bool {
        let volume =
            self.folder.as_ref().and_then(|folder| Some((folder, Description::read(folder).ok()?.0)));
        volume.is_some_and(|(folder, description)| owners(folder, &description).contains(&self.user))
    }

    /// Leaves out what only its user says: texts that he chose.
    fn drop_claims(&mut self) {
        (self.folder, self.home) = (None, None);
        match &mut self.state {
            ArenaState::Orphaned { why } => "its volume is not where it was".clone_into(why),
            ArenaState::Unknown { why } => "another user made it".clone_into(why),
            ArenaState::InUse { .. } | ArenaState::Waiting | ArenaState::Void => {}
        }
    }

    /// What it is good for, by what `file`, which it is, holds.
    fn judge(&mut self, volume: VolumeId, file: &File) {
        match holder(file) {
            Holder::Nobody => self.judge_unused(volume, file),
            held => {
                self.judge_home(file);
                let pid = match held {
                    Holder::Process(pid) => Some(pid),
                    Holder::Nobody | Holder::Unknown => None,
                };
                self.state = ArenaState::InUse { pid };
            }
        }
    }

    fn judge_unused(&mut self, volume: VolumeId, file: &File) {
        let unknown = |why: &str| ArenaState::Unknown { why: why.to_owned() };
        self.state = match Content::of(file) {
            Err(error) => unknown(&error.to_string()),
            Ok(Content::Empty) => ArenaState::Void,
            Ok(Content::OtherBoot) => {
                unknown("it is of another start of this machine, or of another machine")
            }
            Ok(Content::Foreign) => unknown("its content is not that of an arena"),
            Ok(Content::CutShort) => unknown("it was cut short"),
            Ok(Content::OtherVersion) => unknown(OTHER_VERSION),
            Ok(Content::Arena(seen)) if is_of_other_version(&seen) => {
                self.judge_home(file);
                unknown(OTHER_VERSION)
            }
            Ok(Content::Arena(seen)) => {
                self.writes = Some(ArenaContents::of(&seen).map_or(0, |held| held.writes));
                let home = Home::parse(&seen.note());
                self.judge_home(file);
                match home.as_ref().is_some_and(is_of_conversion) {
                    true => ArenaState::Void,
                    false => self.whereabouts(volume, home.as_ref()),
                }
            }
        };
    }

    /// Where its volume was.
    fn judge_home(&mut self, file: &File) {
        let Ok(Content::Arena(seen)) = Content::of(file) else { return };
        let Some(home) = Home::parse(&seen.note()) else { return };
        let at = home.at.as_deref().map(|at| Path::new(OsStr::from_bytes(at)));
        self.home = at.map(|at| at.display().to_string());
        let holds =
            |folder: &Path| Description::read(folder).is_ok_and(|(it, _)| it.id.to_string() == self.volume);
        self.folder = match home.kind() {
            "folder" => at.filter(|at| holds(at)).map(Path::to_owned),
            "file" => at.and_then(Path::parent).filter(|at| holds(at)).map(Path::to_owned),
            _ => None,
        };
    }

    fn whereabouts(&self, volume: VolumeId, home: Option<&Home>) -> ArenaState {
        let orphaned = |why: String| ArenaState::Orphaned { why };
        let unknown = |why: &str| ArenaState::Unknown { why: why.to_owned() };
        if self.path.extension() == Some(OsStr::new(&MOVING_SUFFIX[1..])) {
            return orphaned("it is a copy that was cut short".to_owned());
        }
        let Some(home) = home else { return unknown("it does not say where its volume is") };
        let Some(at) = home.at.as_deref() else { return unknown("it does not say where its volume is") };
        match home.kind() {
            "export" => return unknown("its volume's pages are behind an NBD server"),
            "nothing" => return unknown("where its volume is was not known"),
            _ => {}
        }
        let is_folder = home.kind() == "folder";
        let at = Path::new(OsStr::from_bytes(at));
        let described = || Description::read(if is_folder { at } else { at.parent().unwrap_or(at) });
        let another = || orphaned(format!("another volume or file is at {}", at.display()));
        match fs::metadata(at) {
            // Its home is found by its path as well: it may have been put back from a copy.
            Ok(found) if !home.is_like(&found) => match described() {
                Ok((there, _)) if there.id == volume && (is_folder || is_home_of(at, &there)) => {
                    ArenaState::Waiting
                }
                _ => another(),
            },
            Ok(_) => match described() {
                Ok((there, _)) if there.id != volume && (is_folder || is_home_of(at, &there)) => another(),
                Err(VolumeError::NotAVolume(_)) if is_folder => another(),
                _ => ArenaState::Waiting,
            },
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                match home.is_of_file_system(at) {
                    true => orphaned(format!("{} is not there any more", at.display())),
                    false => unknown(&format!(
                        "{} is not there, nor is the file system that it was on: mount that, and look again",
                        at.display()
                    )),
                }
            }
            Err(error) => unknown(&format!("{}: {error}", at.display())),
        }
    }

    /// Why it may not be freed without giving something up.
    fn needed(&self) -> Option<String> {
        let writes = self.writes.unwrap_or(0);
        let held = format!(
            "it holds {writes} acknowledged {} of volume {} that {} nowhere else",
            if writes == 1 { "write" } else { "writes" },
            self.volume,
            if writes == 1 { "is" } else { "are" }
        );
        match &self.state {
            ArenaState::Void => None,
            ArenaState::Orphaned { .. } if writes == 0 => None,
            ArenaState::Orphaned { why } => {
                Some(format!("{held}: {why}; where it was moved, serve it from there and stop it"))
            }
            ArenaState::Waiting if writes == 0 => Some(format!(
                "its volume is at {}, and its next start and stop free it: serve it and stop it",
                self.home.as_deref().unwrap_or("a place that only its user names")
            )),
            ArenaState::Waiting => Some(format!(
                "{held}, whose pages are at {}: serve it and stop it",
                self.home.as_deref().unwrap_or("a place that only its user names")
            )),
            ArenaState::InUse { .. } => Some("it is in use".to_owned()),
            ArenaState::Unknown { why } => {
                Some(format!("whether a volume still needs what it holds cannot be told ({why})"))
            }
        }
    }
}

/// Whether it was made for a conversion that came to nothing: what it holds is a copy.
fn is_of_conversion(home: &Home) -> bool {
    let name = home.at.as_deref().and_then(|at| Path::new(OsStr::from_bytes(at)).file_name());
    home.kind() == "folder"
        && name.is_some_and(|name| name.as_bytes().starts_with(convert::PREFIX.as_bytes()))
}

/// Whether the file at `home` is a member of the volume that is described beside it.
fn is_home_of(home: &Path, description: &Description) -> bool {
    description.members.iter().any(|member| member.place.path().is_some_and(|path| home.ends_with(path)))
}

/// The number of the volume of an arena with this name; `None` where it is no name of one.
fn volume_of(path: &Path) -> Option<VolumeId> {
    let name = path.file_name()?.to_str()?;
    let name = match name.strip_prefix('.') {
        Some(moving) => moving.strip_suffix(MOVING_SUFFIX)?,
        None => name,
    };
    let (volume, home) = name.strip_prefix(ARENA_PREFIX)?.strip_suffix(ARENA_SUFFIX)?.split_once('-')?;
    let is_number = |text: &str| text.len() == 16 && text.bytes().all(|it| it.is_ascii_hexdigit());
    let volume = is_number(volume).then(|| VolumeId::try_from(volume.to_owned()).ok())?;
    volume.filter(|_| is_number(home))
}
