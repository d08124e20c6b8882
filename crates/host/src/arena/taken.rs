//! The file of an arena: made or found, locked, and mapped.

#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::ptr::NonNull;
use std::time::Duration;

use evenkeel_engine::env::Arena;
use rustix::fs::{FallocateFlags, FlockOperation, OFlags};
use rustix::mm::{MapFlags, ProtFlags};

use super::SharedArena;
use super::header::{HEADER_BYTES, NOTE_OFFSET, boot_id, mark, read_mark, total_bytes};
use crate::busy::retry_while_busy;
use crate::path_error::PathError;
use crate::stack::check_space;
use crate::stack::stored_in_place;

/// `TMPFS_MAGIC` of `linux/magic.h`.
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

/// Bytes that are written or copied at once.
const COPIED_BYTES: usize = 1 << 20;

/// How long somebody may have it who only looks at it.
const LOOKING: Duration = Duration::from_millis(100);

impl SharedArena {
    /// Opens the arena at `path`, or makes it. It holds what an earlier opening since the machine was started left, and
    /// has the length that it had then; else it is `len` zeros.
    ///
    /// # Errors
    ///
    /// `WouldBlock` where another process has it open; `ENOSPC` where there is no room for all of it;
    /// `PermissionDenied` where the file is not ours alone; `InvalidData` where another version made it; those of the
    /// system calls.
    pub fn open(path: &Path, len: usize) -> Result<Self, PathError> {
        Self::of_boot(path, len, &boot_id(path)?)
    }

    pub(super) fn of_boot(path: &Path, len: usize, boot: &[u8; 36]) -> Result<Self, PathError> {
        Taken::open(path, boot)?.map(path, len, boot)
    }
}

/// An arena's file, locked and not mapped yet.
pub(super) struct Taken {
    file: File,
    /// The length of what an earlier process left in it, if one did.
    pub(super) kept: Option<usize>,
}

impl Taken {
    /// Opens the file at `path`, or makes it.
    pub(super) fn open(path: &Path, boot: &[u8; 36]) -> Result<Self, PathError> {
        let failed = |doing| move |error: io::Error| PathError::new(path, doing, error);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let is_locked = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        let file = loop {
            let file = options.open(path).map_err(failed("cannot open the arena"))?;
            retry_while_busy(LOOKING, is_locked, || {
                Ok(rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?)
            })
            .map_err(failed("the arena is in use by another process"))?;
            // Somebody freed it meanwhile.
            if file.metadata().map_err(failed("cannot open the arena"))?.nlink() > 0 {
                break file;
            }
        };
        check_owner(&file).map_err(failed("will not use this as an arena"))?;
        let kept = read_mark(&file, boot).map_err(failed("cannot take over the arena"))?;
        Ok(Self { file, kept })
    }

    /// That it may be stored into where it is.
    pub(super) fn check(&self, path: &Path) -> Result<(), PathError> {
        let cannot = |error| PathError::new(path, "an arena cannot be here", error);
        stored_in_place::check(&self.file, path).map_err(cannot)
    }

    /// Maps what is kept in it, or else `len` zeros.
    pub(super) fn map(self, path: &Path, len: usize, boot: &[u8; 36]) -> Result<SharedArena, PathError> {
        let failed = |doing| move |error: io::Error| PathError::new(path, doing, error);
        let (kept, len) = (self.kept.is_some(), self.kept.unwrap_or(len));
        let total = total_bytes(len)
            .ok_or_else(|| failed("cannot make the arena")(io::ErrorKind::InvalidInput.into()))?;
        let file = &self.file;
        if !kept {
            // Cut to nothing first: the mark goes before anything else does, and all pages are new and zero.
            file.set_len(0).map_err(failed("cannot clear the arena"))?;
            stored_in_place::exempt(file);
        }
        self.check(path)?;
        if !kept {
            check_space(path, total as u64).map_err(failed("no room for the arena"))?;
        }
        // Also for one that is kept: its pages are there, and it costs nothing to be told so.
        allocate(file, total, kept).map_err(failed("cannot allocate the arena"))?;
        if !kept {
            file.write_all_at(&mark(boot, len), 0).map_err(failed("cannot write the arena's header"))?;
        }
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: a new mapping at a place that the kernel chooses, over a file that is as long as that.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), total, protection, flags, file, 0) }
            .map_err(|error| failed("cannot map the arena")(error.into()))?;
        let start = NonNull::new(start.cast()).expect("a mapping is not at 0");
        Ok(SharedArena { start, len, path: path.to_owned(), kept, file: self.file })
    }

    /// Copies what is in it, and its note, to `new`, which is as long.
    pub(super) fn copy_to(&self, new: &SharedArena) -> Result<(), PathError> {
        let copy = || {
            let mut header = [0; HEADER_BYTES];
            self.file.read_exact_at(&mut header, 0)?;
            new.file.write_all_at(&header[NOTE_OFFSET..], NOTE_OFFSET as u64)?;
            let mut bytes = vec![0; COPIED_BYTES];
            for offset in (0..new.len).step_by(COPIED_BYTES) {
                let part = &mut bytes[..COPIED_BYTES.min(new.len - offset)];
                self.file.read_exact_at(part, (HEADER_BYTES + offset) as u64)?;
                new.store(offset, part);
            }
            Ok(())
        };
        copy().map_err(|error| PathError::new(&new.path, "cannot copy the arena here", error))
    }
}

/// That the file is one that nobody else can change.
pub(super) fn check_owner(file: &File) -> io::Result<()> {
    let found = file.metadata()?;
    let ours = found.is_file()
        && found.uid() == rustix::process::geteuid().as_raw()
        && found.mode().trailing_zeros() >= 6
        && found.nlink() == 1;
    if ours { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Takes room for all of the file now.
fn allocate(file: &File, total: usize, kept: bool) -> io::Result<()> {
    let is_allocated = match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, total as u64) {
        Ok(()) => rustix::fs::fstatfs(file).is_ok_and(|found| found.f_type == TMPFS_MAGIC),
        Err(rustix::io::Errno::OPNOTSUPP) => false,
        Err(error) => return Err(error.into()),
    };
    if !kept && !is_allocated {
        // On a disk, blocks that are reserved and not written change metadata when they are first stored into.
        let zeros = vec![0; COPIED_BYTES];
        for offset in (0..total).step_by(COPIED_BYTES) {
            file.write_all_at(&zeros[..COPIED_BYTES.min(total - offset)], offset as u64)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn one_that_is_kept_has_the_length_that_it_was_made_with() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("arena");
        SharedArena::open(&path, 20_000).unwrap().store(19_990, &[7; 10]);
        for other in [1, 19_999, 20_001, 1 << 20] {
            let arena = SharedArena::open(&path, other).unwrap();
            assert!(arena.is_kept());
            assert_eq!(arena.len(), 20_000);
            let mut found = [0; 10];
            arena.load(19_990, &mut found);
            assert_eq!(found, [7; 10]);
        }
        // Cut short by somebody else, it is none any more.
        OpenOptions::new().write(true).open(&path).unwrap().set_len(10_000).unwrap();
        let arena = SharedArena::open(&path, 4096).unwrap();
        assert_eq!((arena.is_kept(), arena.len()), (false, 4096));
    }

    #[test]
    fn one_of_another_version_stays_as_it_is_unless_it_is_of_another_boot() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("arena");
        let boot = [b'a'; 36];
        for (header, is_refused) in [
            ([&b"evenkeel arena 3"[..], &boot, b"whatever follows"].concat(), true),
            ([&b"evenkeel arena 1"[..], &boot].concat(), true),
            (b"evenkeel arena 3".to_vec(), true),
            ([&b"evenkeel arena 3"[..], &[b'?'; 36]].concat(), true),
            ([&b"evenkeel arena 3"[..], &[b'b'; 36], b"whatever follows"].concat(), false),
            (b"evenkeel arena".to_vec(), false),
        ] {
            fs::write(&path, &header).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            match SharedArena::of_boot(&path, 4096, &boot) {
                Ok(arena) => assert!(!is_refused && !arena.is_kept(), "{header:?}"),
                Err(error) => {
                    assert!(is_refused && error.to_string().contains("another version"), "{error}");
                    assert_eq!(fs::read(&path).unwrap(), header);
                }
            }
        }
    }

    #[test]
    fn it_is_ours_alone_and_open_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("arena");
        let arena = SharedArena::open(&path, 4096).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let error = SharedArena::open(&path, 4096).unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::WouldBlock);
        assert!(error.to_string().contains("in use"), "{error}");
        drop(arena);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = SharedArena::open(&path, 4096).unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::PermissionDenied);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(SharedArena::open(&link, 4096).is_err());
    }

    #[test]
    fn one_that_is_freed_just_before_it_is_locked_is_made_anew_under_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("arena");
        drop(SharedArena::open(&path, 4096).unwrap());
        let freed = File::open(&path).unwrap();
        rustix::fs::flock(&freed, FlockOperation::LockExclusive).unwrap();
        let at = path.clone();
        let freeing = std::thread::spawn(move || {
            // The other waits for the lock meanwhile.
            std::thread::sleep(Duration::from_millis(20));
            fs::remove_file(at).unwrap();
            drop(freed);
        });
        let arena = loop {
            match SharedArena::open(&path, 4096) {
                Err(error) if error.source.kind() == io::ErrorKind::WouldBlock => {}
                opened => break opened.unwrap(),
            }
        };
        freeing.join().unwrap();
        assert!(!arena.is_kept());
        assert_eq!(arena.file.metadata().unwrap().ino(), path.metadata().unwrap().ino());
    }
}
