//! In which folder an arena is: found where it was made, or made where there is room; moved from where it may not stay.

use std::fs;
use std::io;
use std::path::Path;

use super::SharedArena;
use super::header::boot_id;
use super::taken::Taken;
use crate::path_error::PathError;

impl SharedArena {
    /// Opens the arena `name` in the first of `folders` that holds it, else makes it in the first that has room
    /// for it. The first is usually [`DEFAULT_FOLDER`]. Name the same folders each time: an arena that is not
    /// found is one that is lost.
    ///
    /// # Errors
    ///
    /// As [`Self::open`]; where it can be made in none of them, what each lacks and what to change.
    pub fn open_in(folders: &[&Path], name: &str, len: usize) -> Result<Self, PathError> {
        for (number, folder) in folders.iter().enumerate() {
            let path = folder.join(name);
            if path.symlink_metadata().is_err() {
                continue;
            }
            let boot = boot_id(&path)?;
            let taken = Taken::open(&path, &boot)?;
            if taken.kept.is_some() {
                let arena = taken.open_or_move(&path, folders, len, &boot)?;
                for other in &folders[number + 1..] {
                    // What it was moved from, by a process that was killed then.
                    let _none_is_usual = fs::remove_file(other.join(name));
                }
                return Ok(arena);
            }
            // Of an earlier boot: it is made where there is room now.
            fs::remove_file(&path)
                .map_err(|error| PathError::new(&path, "cannot remove the arena", error))?;
        }
        Self::make_in(folders, name, |path| Self::open(path, len))
    }

    /// Opens the arena at `path`, which is there. Where it may not stay there, it is moved to the first of `folders` that
    /// takes it.
    ///
    /// # Errors
    ///
    /// As [`Self::open_in`].
    pub fn open_at(path: &Path, folders: &[&Path], len: usize) -> Result<Self, PathError> {
        let boot = boot_id(path)?;
        Taken::open(path, &boot)?.open_or_move(path, folders, len, &boot)
    }

    /// Makes the file `name` in the first of `folders` in which it can be made.
    fn make_in(
        folders: &[&Path],
        name: &str,
        make: impl Fn(&Path) -> Result<Self, PathError>,
    ) -> Result<Self, PathError> {
        let mut refused: Vec<PathError> = Vec::new();
        for folder in folders {
            let path = folder.join(name);
            match make(&path) {
                Err(error) if error.source.kind() != io::ErrorKind::WouldBlock => {
                    // Made halfway: it must not be found there next time.
                    let _not_made_is_fine = fs::remove_file(&path);
                    refused.push(PathError { path: (*folder).to_owned(), ..error });
                }
                other => return other,
            }
        }
        let Some(last) = refused.pop() else {
            let none = io::ErrorKind::NotFound.into();
            return Err(PathError::new(Path::new(name), "no folder for the arena", none));
        };
        let all = refused.iter().chain([&last]).map(PathError::to_string).collect::<Vec<_>>().join("; ");
        let why = format!(
            "{all}; make /dev/shm larger (mount -o remount,size=1g /dev/shm, or docker run -v /dev/shm:/dev/shm), or the buffer \
             smaller (buffer_bytes in volume.toml)"
        );
        let kind = last.source.kind();
        Err(PathError {
            path: last.path,
            doing: "no memory that a kill leaves",
            source: io::Error::new(kind, why),
        })
    }
}

impl Taken {
    /// Maps it where it is, or moves what is kept in it to the first of `folders` that takes it.
    fn open_or_move(
        self,
        path: &Path,
        folders: &[&Path],
        len: usize,
        boot: &[u8; 36],
    ) -> Result<SharedArena, PathError> {
        let (Some(kept_len), Err(refused)) = (self.kept, self.check(path)) else {
            return self.map(path, len, boot);
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let moved = SharedArena::make_in(folders, &format!(".{name}.new"), |path| {
            let _left_by_a_kill = fs::remove_file(path);
            let new = SharedArena::of_boot(path, kept_len, boot)?;
            self.copy_to(&new)?;
            Ok(new)
        });
        let mut moved = moved.map_err(|error| {
            let why = format!("{}; and it cannot be moved: {error}", refused.source);
            PathError::new(path, refused.doing, io::Error::new(error.source.kind(), why))
        })?;
        // All of it is there before it has the name under which it is found.
        let to = moved.path.with_file_name(&*name);
        fs::rename(&moved.path, &to)
            .map_err(|error| PathError::new(&to, "cannot move the arena here", error))?;
        if to != path {
            fs::remove_file(path).map_err(|error| PathError::new(path, "cannot remove the arena", error))?;
        }
        (moved.path, moved.kept) = (to, true);
        Ok(moved)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_engine::env::Arena;

    use super::super::DEFAULT_FOLDER;
    use super::*;

    #[test]
    fn one_that_does_not_fit_is_refused_when_it_is_opened_and_made_elsewhere_if_there_is_elsewhere() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let shm = Path::new(DEFAULT_FOLDER);
        let name = format!("evenkeel-test-{}", std::process::id());
        let too_large = 1 << 46;
        let error = SharedArena::open_in(&[shm], &name, too_large).unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::StorageFull, "{error}");
        assert!(!shm.join(&name).exists());
        let nowhere = folder.path().join("nowhere");
        let arena = SharedArena::open_in(&[&nowhere, folder.path()], &name, 4096).unwrap();
        assert_eq!(arena.path(), folder.path().join(&name));
        arena.store(0, b"stays");
        drop(arena);
        // Where it was found first is where it is found again, though another folder has room now.
        fs::create_dir(&nowhere).unwrap();
        let arena = SharedArena::open_in(&[&nowhere, folder.path()], &name, 4096).unwrap();
        assert!(arena.is_kept());
        arena.remove().unwrap();
        assert!(!folder.path().join(&name).exists());
    }

    #[test]
    fn a_move_that_was_cut_short_leaves_the_copy_that_is_found_first() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (folder, byte) in [(&second, 1), (&first, 2)] {
            SharedArena::open(&folder.path().join("arena"), 4096).unwrap().store(0, &[byte; 8]);
        }
        // One of an earlier boot is none, wherever it is.
        let third = tempfile::tempdir().unwrap();
        drop(SharedArena::of_boot(&third.path().join("arena"), 8192, &[b'a'; 36]).unwrap());
        let folders = [third.path(), first.path(), second.path()];
        let arena = SharedArena::open_in(&folders, "arena", 4096).unwrap();
        assert_eq!((arena.path(), arena.is_kept()), (&*first.path().join("arena"), true));
        let mut found = [0; 8];
        arena.load(0, &mut found);
        assert_eq!(found, [2; 8]);
        assert!(!second.path().join("arena").exists() && !third.path().join("arena").exists());
    }
}
