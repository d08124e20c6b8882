//! An arena that is only looked at, whoever has it open, and a copy of it in memory.

#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::NonNull;

use evenkeel_engine::env::Arena;
use rustix::fs::{MemfdFlags, OFlags};
use rustix::mm::{MapFlags, ProtFlags};

use super::SharedArena;
use super::header::{HEADER_BYTES, Mark, NOTE_MAX_BYTES, NOTE_OFFSET, boot_id, read_mark, total_bytes};
use super::taken::check_owner;
use crate::path_error::PathError;

/// An arena that is only looked at.
#[derive(Debug)]
pub struct Seen {
    file: File,
    len: usize,
}

impl Seen {
    /// The note in its header; empty where there is none.
    pub fn note(&self) -> Vec<u8> {
        let mut len = [0; 4];
        let read = self.file.read_exact_at(&mut len, NOTE_OFFSET as u64);
        let len = u32::from_le_bytes(len) as usize;
        let mut note = vec![0; if read.is_ok() && len <= NOTE_MAX_BYTES { len } else { 0 }];
        match self.file.read_exact_at(&mut note, NOTE_OFFSET as u64 + 4) {
            Ok(()) => note,
            Err(_) => Vec::new(),
        }
    }
}

/// What is in a file that is called as an arena is.
#[derive(Debug)]
pub enum Content {
    /// An arena of this boot of the machine.
    Arena(Seen),
    /// One of another boot, or of another machine: nothing is taken from it here.
    OtherBoot,
    /// One of another version: what waits in it cannot be told.
    OtherVersion,
    /// One of this boot whose file has another length: nothing is taken from it.
    CutShort,
    /// Nothing yet.
    Empty,
    /// Something else.
    Foreign,
}

impl Content {
    /// Of `file`, whoever's it is.
    ///
    /// # Errors
    ///
    /// Those of the system calls.
    pub fn of(file: &File) -> io::Result<Self> {
        let boot = boot_id(Path::new("")).map_err(|error| error.source)?;
        Ok(match Mark::of(file, &boot)? {
            Mark::Whole(len) => Self::Arena(Seen { file: file.try_clone()?, len }),
            Mark::OtherBoot => Self::OtherBoot,
            Mark::OtherVersion => Self::OtherVersion,
            Mark::CutShort => Self::CutShort,
            Mark::Zero => Self::Empty,
            Mark::Foreign => Self::Foreign,
        })
    }
}

impl Arena for Seen {
    fn len(&self) -> usize {
        self.len
    }

    fn store(&self, _offset: usize, _bytes: &[u8]) {
        unreachable!("an arena that is only looked at is not stored to");
    }

    fn load(&self, offset: usize, into: &mut [u8]) {
        // What cannot be read is nothing that counts.
        if self.file.read_exact_at(into, (HEADER_BYTES + offset) as u64).is_err() {
            into.fill(0);
        }
    }
}

impl SharedArena {
    /// Looks at the arena at `path`, whoever has it open; `None` where that is none of this boot of the machine.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` where the file is not ours alone; `InvalidData` where another version made it; those of the
    /// system calls.
    pub fn look(path: &Path) -> Result<Option<Seen>, PathError> {
        let failed = |doing| move |error: io::Error| PathError::new(path, doing, error);
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = file.map_err(failed("cannot open the arena"))?;
        check_owner(&file).map_err(failed("will not use this as an arena"))?;
        let len = read_mark(&file, &boot_id(path)?).map_err(failed("cannot read the arena"))?;
        Ok(len.map(|len| Seen { file, len }))
    }

    /// A copy of what `seen` holds, or `len` zeros, in memory of this process alone: nobody finds it again, and the arena
    /// at `path`, if there is one, stays as it is.
    ///
    /// # Errors
    ///
    /// Those of the system calls.
    pub fn copy_in_memory(path: &Path, seen: Option<&Seen>, len: usize) -> Result<Self, PathError> {
        let failed = |doing| move |error: io::Error| PathError::new(path, doing, error);
        let len = seen.map_or(len, |seen| seen.len);
        let total = total_bytes(len)
            .ok_or_else(|| failed("cannot copy the arena")(io::ErrorKind::InvalidInput.into()))?;
        let file = rustix::fs::memfd_create("evenkeel-arena", MemfdFlags::CLOEXEC)
            .map_err(|error| failed("cannot copy the arena")(error.into()))?;
        let file = File::from(file);
        file.set_len(total as u64).map_err(failed("cannot copy the arena"))?;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at a place that the kernel chooses, over a file that is as long as that.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), total, protection, flags, &file, 0) }
            .map_err(|error| failed("cannot map the arena")(error.into()))?;
        let start = NonNull::new(start.cast()).expect("a mapping is not at 0");
        let copy = Self { start, len, path: path.to_owned(), kept: seen.is_some(), file };
        let mut piece = vec![0; 1 << 20];
        for at in (0..seen.map_or(0, |seen| seen.len)).step_by(piece.len()) {
            let count = piece.len().min(len - at);
            if let Some(seen) = seen {
                seen.load(at, &mut piece[..count]);
                copy.store(at, &piece[..count]);
            }
        }
        Ok(copy)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn it_can_be_looked_at_while_it_is_open_with_the_note_of_whoever_uses_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("arena");
        let arena = SharedArena::open(&path, 10_000).unwrap();
        let seen = SharedArena::look(&path).unwrap().unwrap();
        assert_eq!((seen.len(), seen.note()), (10_000, Vec::new()));
        arena.store(5000, &[7; 3]);
        let longest = vec![b'n'; NOTE_MAX_BYTES];
        for note in [&b"mine"[..], b"", &longest] {
            SharedArena::write_note(&path, note).unwrap();
            assert_eq!(seen.note(), note);
        }
        assert!(SharedArena::write_note(&path, &vec![b'n'; NOTE_MAX_BYTES + 1]).is_err());
        let mut found = [0; 5];
        seen.load(4999, &mut found);
        assert_eq!(found, [0, 7, 7, 7, 0]);
        fs::write(&path, "something else").unwrap();
        assert!(SharedArena::look(&path).unwrap().is_none());
    }
}
