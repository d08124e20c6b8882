//! What probes that were killed left in a folder: found by its names, and removed where nobody uses it.
//!
//! 1. A probe locks a file of its own in the folder before it makes any other, for as long as it has some there. A group
//!    of files is left over where all of its locks can be had: then whoever made them is gone.
//! 2. Only what bears the names of a probe's files is looked at, and only beside such a lock's file with its content. What
//!    has the names and no lock is told of, and stays; so does everything on a network file system, where a probe of
//!    another machine may be at work.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use evenkeel_host::scratch::ScratchFile;
use evenkeel_host::stack::StackProbe;

/// How the name of each file begins that a probe makes in a folder.
pub(super) const PREFIX: &str = ".evenkeel-probe-";

/// What comes behind the name of the group in that of its lock's file.
const LOCK: &str = "lock-";

/// What a lock's file holds.
const LOCK_CONTENT: &[u8] = b"evenkeel probe\n";

/// How often a lock's file is made again that somebody took for a leftover before it was locked.
const ATTEMPTS: u32 = 10;

/// Says that the files of its group are in use; until it is dropped.
#[derive(Debug)]
pub(super) struct FolderClaim {
    /// Removed before the lock is given back.
    _file: ScratchFile,
    _locked: File,
}

impl FolderClaim {
    /// Of the group by this name; `None` where the file system has no locks: then nobody takes its files for left over.
    pub(super) fn take(folder: &Path, group: &str, number: u32) -> io::Result<Option<Self>> {
        let path = folder.join(format!("{group}{LOCK}{number}"));
        for _ in 0..ATTEMPTS {
            let (scratch, mut file) = ScratchFile::make(&path, |path| {
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
            })?;
            if file.try_lock().is_err() {
                return Ok(None);
            }
            file.write_all(LOCK_CONTENT)?;
            if file.metadata()?.nlink() > 0 {
                return Ok(Some(Self { _file: scratch, _locked: file }));
            }
        }
        Ok(None)
    }
}

/// One file that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Where it is.
    pub path: PathBuf,
    /// Bytes that it takes.
    pub bytes: u64,
}

/// What was found in a folder.
#[derive(Debug, Default)]
pub struct Leftovers {
    /// Files of probes that are gone.
    pub files: Vec<Leftover>,
    /// Files with such names of which that is not sure.
    pub unsure: Vec<Leftover>,
    /// The locks of the former: whoever has them keeps others from the same.
    locks: Vec<(PathBuf, File)>,
}

impl Leftovers {
    /// Looks in `folder`; changes nothing.
    ///
    /// # Errors
    ///
    /// Where the folder cannot be read.
    pub fn find(folder: &Path) -> io::Result<Self> {
        let mut groups: BTreeMap<String, (Vec<Leftover>, Vec<Leftover>)> = BTreeMap::new();
        for entry in fs::read_dir(folder)?.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let Some((group, is_lock)) = group_of(&name) else { continue };
            let path = folder.join(&name);
            let Ok(found) = path.symlink_metadata() else { continue };
            if !found.is_file() {
                continue;
            }
            let (locks, files) = groups.entry(group.to_owned()).or_default();
            let file = Leftover { path, bytes: found.blocks() * 512 };
            if is_lock { locks } else { files }.push(file);
        }
        let may_be_elsewhere = !groups.is_empty() && StackProbe::of(folder)?.stack.over_network;
        let mut leftovers = Self::default();
        for (locks, files) in groups.into_values() {
            let held: Vec<Lock> = locks.iter().map(|lock| Lock::try_take(&lock.path)).collect();
            if held.iter().any(|lock| matches!(lock, Lock::InUse)) {
                continue;
            }
            let is_sure = |lock: &Lock| matches!(lock, Lock::Taken(_));
            if may_be_elsewhere || held.is_empty() || !held.iter().all(is_sure) {
                leftovers.unsure.extend(files);
                continue;
            }
            leftovers.files.extend(files);
            let taken = locks.into_iter().zip(held).filter_map(|(lock, held)| match held {
                Lock::Taken(file) => Some((lock.path, file)),
                Lock::InUse | Lock::Unknown => None,
            });
            leftovers.locks.extend(taken);
        }
        leftovers.files.sort_by(|a, b| a.path.cmp(&b.path));
        leftovers.unsure.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(leftovers)
    }

    /// Removes the files of probes that are gone.
    ///
    /// # Errors
    ///
    /// Those of the first file that cannot be removed; the others are.
    pub fn remove(self) -> Result<(), (PathBuf, io::Error)> {
        let mut failed = None;
        let paths = self.files.iter().map(|file| &file.path).chain(self.locks.iter().map(|(path, _)| path));
        for path in paths {
            if let Err(error) = fs::remove_file(path)
                && error.kind() != io::ErrorKind::NotFound
            {
                failed.get_or_insert((path.clone(), error));
                // Without its lock, what is left would not be known for what it is.
                break;
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

/// A lock of somebody.
enum Lock {
    /// It could be had: he is gone.
    Taken(File),
    /// He is there.
    InUse,
    /// That cannot be told.
    Unknown,
}

impl Lock {
    fn try_take(path: &Path) -> Self {
        let Ok(mut file) = OpenOptions::new().read(true).write(true).open(path) else { return Self::Unknown };
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Self::InUse,
            Err(fs::TryLockError::Error(_)) => return Self::Unknown,
        }
        let mut content = Vec::new();
        let read = (&mut file).take(LOCK_CONTENT.len() as u64 + 1).read_to_end(&mut content);
        // It may have been killed before it wrote all of it.
        match read.is_ok() && LOCK_CONTENT.starts_with(&content) {
            true => Self::Taken(file),
            false => Self::Unknown,
        }
    }
}

/// The group of files that a name belongs to, `.evenkeel-probe-PID-TIME-`, and whether it is that of its lock; `None` where
/// it is no name of a probe's file.
fn group_of(name: &str) -> Option<(&str, bool)> {
    let is_number =
        |text: &str| !text.is_empty() && text.len() <= 10 && text.bytes().all(|it| it.is_ascii_digit());
    let rest = name.strip_prefix(PREFIX)?;
    let (process, rest) = rest.split_once('-')?;
    let (time, label) = rest.split_once('-')?;
    let is_time = !time.is_empty() && time.len() <= 32 && time.bytes().all(|it| it.is_ascii_hexdigit());
    let is_file = match label.strip_prefix("written-") {
        Some(numbers) => {
            numbers.split_once('-').is_some_and(|(target, writer)| is_number(target) && is_number(writer))
        }
        None => is_number(label),
    };
    let is_lock = label.strip_prefix(LOCK).is_some_and(is_number);
    let group = &name[..name.len() - label.len()];
    (is_number(process) && is_time && (is_file || is_lock)).then_some((group, is_lock))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: &str = ".evenkeel-probe-17-6abc-";

    fn names(files: &[Leftover]) -> Vec<String> {
        files.iter().map(|file| file.path.file_name().unwrap().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn only_the_names_that_a_probe_gives_are_those_of_its_files() {
        for (name, expected) in [
            (".evenkeel-probe-17-6abc-0", Some((GROUP, false))),
            (".evenkeel-probe-17-6abc-255", Some((GROUP, false))),
            (".evenkeel-probe-17-6abc-written-1-0", Some((GROUP, false))),
            (".evenkeel-probe-17-6abc-lock-3", Some((GROUP, true))),
            (".evenkeel-probe-17-6abc-", None),
            (".evenkeel-probe-17-6abc-0.bak", None),
            (".evenkeel-probe-17-6abc-written-0", None),
            (".evenkeel-probe-17-6xyz-0", None),
            (".evenkeel-probe-me-6abc-0", None),
            (".evenkeel-probe-", None),
            ("evenkeel-probe-17-6abc-0", None),
        ] {
            assert_eq!(group_of(name), expected, "{name}");
        }
    }

    #[test]
    fn files_are_left_over_once_nobody_has_any_of_their_locks() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let at = |name: &str| folder.path().join(name);
        let claims: Vec<FolderClaim> =
            (0..2).map(|number| FolderClaim::take(folder.path(), GROUP, number).unwrap().unwrap()).collect();
        fs::write(at(&format!("{GROUP}0")), [7; 5000]).unwrap();
        fs::write(at(".evenkeel-probe-18-6abc-0"), "without a lock").unwrap();
        fs::write(at(".evenkeel-probe-19-6abc-0"), "beside a lock of somebody else").unwrap();
        fs::write(at(".evenkeel-probe-19-6abc-lock-0"), "somebody else's").unwrap();
        fs::write(at("precious"), "precious").unwrap();
        std::os::unix::fs::symlink("precious", at(&format!("{GROUP}1"))).unwrap();
        let unsure = [".evenkeel-probe-18-6abc-0", ".evenkeel-probe-19-6abc-0"];
        // As a kill leaves it: the locks are gone, their files stay.
        for claim in claims {
            let found = Leftovers::find(folder.path()).unwrap();
            assert_eq!(
                (names(&found.files), names(&found.unsure)),
                (Vec::new(), unsure.map(str::to_owned).into())
            );
            let FolderClaim { _file: scratch, _locked } = claim;
            scratch.keep();
        }
        let found = Leftovers::find(folder.path()).unwrap();
        assert_eq!(names(&found.files), [format!("{GROUP}0")]);
        assert!(found.files[0].bytes >= 4096);
        assert_eq!(names(&found.unsure), unsure);
        // Two that look at the same time do not remove the same.
        assert!(Leftovers::find(folder.path()).unwrap().files.is_empty());
        found.remove().unwrap();
        let mut left: Vec<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort_unstable();
        let kept = [&format!("{GROUP}1"), unsure[0], unsure[1], ".evenkeel-probe-19-6abc-lock-0", "precious"];
        assert_eq!(left, kept);
    }

    #[test]
    fn a_claim_goes_with_the_probe() {
        let folder = tempfile::tempdir_in(".").unwrap();
        drop(FolderClaim::take(folder.path(), GROUP, 0).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
