//! Memory that a kill -9 of the process leaves: a file mapped and shared.
//!
//! The bytes are pages of the kernel's cache (of a tmpfs such as `/dev/shm`, or of a file in a folder), which
//! outlive whoever stored them; a power cut takes them. Nothing is synced, ever.
//!
//! 1. A store is made in units of 8 aligned bytes, in the order of their addresses, and stores in the order of
//!    the program: each unit is one atomic store with release order, which neither the compiler nor, for whoever
//!    looks from outside, the processor moves before an earlier one. A kill strikes between two instructions of
//!    the thread: whatever came before is in the cache that all processors share, or on its way there, and
//!    nothing after. So what arrives is a prefix in units of 8, as [`Arena`] says.
//! 2. A store finds no disk full: every page is allocated and written when the arena is made, where its file system stores
//!    in place ([`crate::stored_in_place`]), or the arena is refused. One that is found where it may not stay is read
//!    without being mapped and moved. (What is left for a SIGBUS is somebody else who cuts the file short, though it is
//!    ours alone, mode 0600 and locked, or who makes a reflink or snapshot of it while it is open and fills the disk.)
//! 3. What was stored before this boot of the machine is never seen: a file in a folder may come back from a
//!    power cut in any mixture of states. The header names the boot, is cleared before anything else is and
//!    written after everything else is zero.
//! 4. One process at a time has it open.
//! 5. What was stored is never cut off: an arena that is kept has the length that it was made with, whatever is asked
//!    for.
//!
//! The header has room for a note of whoever uses the arena, which is read without opening it.
//!
//! What it costs over memory of the process's own: the opening, which allocates and maps every page (on one
//! machine with two busy processors 130 ms for 64 MiB that are new in `/dev/shm`, 30 ms for ones that are kept), and
//! that stores go unit by unit (4 KiB in 0.6 us there, against 0.5 us). No system call, no flush and no I/O is made for
//! a store. In a folder on a disk the kernel writes the pages back now and then, and a first store after that faults.

#![allow(unsafe_code)]

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_engine::env::Arena;
use rustix::fs::{FallocateFlags, FlockOperation, MemfdFlags, OFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::path_error::PathError;
use crate::stack::check_space;
use crate::stored_in_place;

/// Where arenas are kept unless the user names another folder.
pub const DEFAULT_FOLDER: &str = "/dev/shm";

/// Bytes before the arena's own: two pages, of which the header is the first part.
const HEADER_BYTES: usize = 8192;

/// What a header begins with.
const MAGIC: [u8; 16] = *b"evenkeel arena 2";

/// The magic, the boot's identity as the kernel writes it, and the number of bytes.
const MARK_BYTES: usize = 16 + 36 + 8;

/// Where the note's length stands, and the note behind it.
const NOTE_OFFSET: usize = MARK_BYTES;

/// Longest note: any path finds room in it.
pub const NOTE_MAX_BYTES: usize = HEADER_BYTES - NOTE_OFFSET - 4;

/// Largest arena, in bytes: more cannot be mapped.
pub const LEN_MAX_BYTES: u64 = (i64::MAX as u64) - 2 * HEADER_BYTES as u64;

/// `TMPFS_MAGIC` of `linux/magic.h`.
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

/// Bytes that are written or copied at once.
const COPIED_BYTES: usize = 1 << 20;

/// Bytes of a unit that is stored whole.
const UNIT: usize = 8;

/// The mapping.
pub struct SharedArena {
    start: NonNull<u8>,
    len: usize,
    path: PathBuf,
    kept: bool,
    /// Holds the lock.
    file: File,
}

impl fmt::Debug for SharedArena {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SharedArena").field("path", &self.path).field("len", &self.len).finish()
    }
}

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
            "{all}; make /dev/shm larger (mount -o remount,size=1g /dev/shm, or docker run --shm-size 1g), or the buffer \
             smaller: --buffer of create, buffer_bytes in volume.toml"
        );
        let kind = last.source.kind();
        Err(PathError {
            path: last.path,
            doing: "no memory that a kill leaves",
            source: io::Error::new(kind, why),
        })
    }

    /// Opens the arena at `path`, or makes it. It holds what an earlier opening since the machine was started left, and
    /// has the length that it had then; else it is `len` zeros.
    ///
    /// # Errors
    ///
    /// `WouldBlock` where another process has it open; `ENOSPC` where there is no room for all of it;
    /// `PermissionDenied` where the file is not ours alone; those of the system calls.
    pub fn open(path: &Path, len: usize) -> Result<Self, PathError> {
        Self::of_boot(path, len, &boot_id(path)?)
    }

    fn of_boot(path: &Path, len: usize, boot: &[u8; 36]) -> Result<Self, PathError> {
        Taken::open(path, boot)?.map(path, len, boot)
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

    /// Where it is kept.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it held what an earlier process left, and was not begun anew.
    pub fn is_kept(&self) -> bool {
        self.kept
    }

    /// Writes a note into the header of the arena at `path`, whoever has it open.
    ///
    /// # Errors
    ///
    /// `InvalidInput` beyond [`NOTE_MAX_BYTES`]; those of the system calls.
    pub fn write_note(path: &Path, note: &[u8]) -> Result<(), PathError> {
        let write = || {
            if note.len() > NOTE_MAX_BYTES {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let bytes = [&(note.len() as u32).to_le_bytes()[..], note].concat();
            let flags = OFlags::NOFOLLOW.bits().cast_signed();
            let file = OpenOptions::new().write(true).custom_flags(flags).open(path)?;
            file.write_all_at(&bytes, NOTE_OFFSET as u64)
        };
        write().map_err(|error| PathError::new(path, "cannot write the arena's header", error))
    }

    /// Looks at the arena at `path`, whoever has it open; `None` where that is none of this boot of the machine.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` where the file is not ours alone; those of the system calls.
    pub fn look(path: &Path) -> Result<Option<Seen>, PathError> {
        let failed = |doing| move |error: io::Error| PathError::new(path, doing, error);
        let flags = OFlags::NOFOLLOW.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = file.map_err(failed("cannot open the arena"))?;
        check_owner(&file).map_err(failed("will not use this as an arena"))?;
        let len = read_mark(&file, &boot_id(path)?);
        Ok(len.map(|len| Seen { file, len }))
    }

    /// Removes the file: what it holds is no longer needed.
    ///
    /// # Errors
    ///
    /// Those of `unlink`.
    pub fn remove(self) -> Result<(), PathError> {
        fs::remove_file(&self.path)
            .map_err(|error| PathError::new(&self.path, "cannot remove the arena", error))
    }

    fn mapped_bytes(&self) -> usize {
        (HEADER_BYTES + self.len).next_multiple_of(HEADER_BYTES)
    }

    /// The unit at `offset`, a multiple of [`UNIT`] below the length.
    fn unit(&self, offset: usize) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(UNIT) && offset < self.len);
        // SAFETY: within the mapping, which is a whole number of pages behind the header; aligned, because
        // mappings, headers and offsets are. The bytes are only ever accessed as such atomics.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(HEADER_BYTES + offset).cast()) }
    }

    fn check(&self, offset: usize, len: usize) {
        let fits = offset.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(fits, "{len} bytes at {offset} lie outside an arena of {} bytes", self.len);
    }
}

/// An arena's file, locked and not mapped yet.
struct Taken {
    file: File,
    /// The length of what an earlier process left in it, if one did.
    kept: Option<usize>,
}

impl Taken {
    /// Opens the file at `path`, or makes it.
    fn open(path: &Path, boot: &[u8; 36]) -> Result<Self, PathError> {
        let failed = |doing| move |error: io::Error| PathError::new(path, doing, error);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let file = options.open(path).map_err(failed("cannot open the arena"))?;
        check_owner(&file).map_err(failed("will not use this as an arena"))?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| failed("the arena is in use by another process")(error.into()))?;
        let kept = read_mark(&file, boot);
        Ok(Self { file, kept })
    }

    /// That it may be stored into where it is.
    fn check(&self, path: &Path) -> Result<(), PathError> {
        let cannot = |error| PathError::new(path, "an arena cannot be here", error);
        stored_in_place::check(&self.file, path).map_err(cannot)
    }

    /// Maps what is kept in it, or else `len` zeros.
    fn map(self, path: &Path, len: usize, boot: &[u8; 36]) -> Result<SharedArena, PathError> {
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
            let mark = [&MAGIC[..], boot, &(len as u64).to_le_bytes()].concat();
            file.write_all_at(&mark, 0).map_err(failed("cannot write the arena's header"))?;
        }
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        // SAFETY: a new mapping at a place that the kernel chooses, over a file that is as long as that.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), total, protection, flags, file, 0) }
            .map_err(|error| failed("cannot map the arena")(error.into()))?;
        let start = NonNull::new(start.cast()).expect("a mapping is not at 0");
        Ok(SharedArena { start, len, path: path.to_owned(), kept, file: self.file })
    }

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

    /// Copies what is in it, and its note, to `new`, which is as long.
    fn copy_to(&self, new: &SharedArena) -> Result<(), PathError> {
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

/// The length of the arena in `file`, where it is one of this boot and all of it is there.
fn read_mark(file: &File, boot: &[u8; 36]) -> Option<usize> {
    let mut mark = [0; MARK_BYTES];
    file.read_exact_at(&mut mark, 0).ok()?;
    let len = mark.strip_prefix(&MAGIC)?.strip_prefix(boot)?;
    let len = usize::try_from(u64::from_le_bytes(len.try_into().ok()?)).ok()?;
    let is_whole = total_bytes(len)? as u64 == file.metadata().ok()?.len();
    is_whole.then_some(len)
}

/// Length of the largest arena whose file is no larger than `bytes`.
pub(crate) fn len_within(bytes: u64) -> u64 {
    let whole = HEADER_BYTES as u64;
    (bytes / whole * whole).saturating_sub(whole)
}

/// Bytes of the file of an arena of `len` bytes.
fn total_bytes(len: usize) -> Option<usize> {
    let total = HEADER_BYTES.checked_add(len)?.checked_next_multiple_of(HEADER_BYTES)?;
    i64::try_from(total).is_ok().then_some(total)
}

/// The identity of this boot of the machine.
fn boot_id(path: &Path) -> Result<[u8; 36], PathError> {
    const PLACE: &str = "/proc/sys/kernel/random/boot_id";
    let found = fs::read(PLACE).map_err(|error| PathError::new(Path::new(PLACE), "cannot read", error))?;
    found.first_chunk().copied().ok_or_else(|| {
        PathError::new(path, "cannot tell this boot from others", io::ErrorKind::InvalidData.into())
    })
}

/// That the file is one that nobody else can change.
fn check_owner(file: &File) -> io::Result<()> {
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

impl Arena for SharedArena {
    fn len(&self) -> usize {
        self.len
    }

    fn store(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        let (mut offset, mut bytes) = (offset, bytes);
        let in_unit = offset % UNIT;
        if in_unit > 0 {
            let count = bytes.len().min(UNIT - in_unit);
            self.store_part(offset - in_unit, in_unit, &bytes[..count]);
            (offset, bytes) = (offset + count, &bytes[count..]);
        }
        let (units, rest) = bytes.as_chunks::<UNIT>();
        for &unit in units {
            self.unit(offset).store(u64::from_ne_bytes(unit), Ordering::Release);
            offset += UNIT;
        }
        if !rest.is_empty() {
            self.store_part(offset, 0, rest);
        }
    }

    fn load(&self, offset: usize, into: &mut [u8]) {
        self.check(offset, into.len());
        let mut at = offset;
        let mut into = into;
        while !into.is_empty() {
            let in_unit = at % UNIT;
            let count = into.len().min(UNIT - in_unit);
            let unit = self.unit(at - in_unit).load(Ordering::Relaxed).to_ne_bytes();
            let (now, later) = into.split_at_mut(count);
            now.copy_from_slice(&unit[in_unit..in_unit + count]);
            (at, into) = (at + count, later);
        }
    }
}

impl SharedArena {
    /// Stores a part of a unit: the rest is stored again as it was, so that the part arrives whole.
    fn store_part(&self, offset: usize, in_unit: usize, bytes: &[u8]) {
        let unit = self.unit(offset);
        let mut whole = unit.load(Ordering::Relaxed).to_ne_bytes();
        whole[in_unit..in_unit + bytes.len()].copy_from_slice(bytes);
        unit.store(u64::from_ne_bytes(whole), Ordering::Release);
    }
}

impl Drop for SharedArena {
    fn drop(&mut self) {
        // SAFETY: mapped in `of_boot` with this length; no reference into it outlives `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.mapped_bytes()) };
        debug_assert!(unmapped.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn stores_are_there_for_the_next_opening_until_the_machine_boots_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("arena");
        let arena = SharedArena::of_boot(&path, 10_001, &[b'a'; 36]).unwrap();
        assert!(!arena.is_kept());
        arena.store(9_995, &[7; 6]);
        drop(arena);
        let load = |arena: &SharedArena| {
            let mut found = [1; 7];
            arena.load(9_994, &mut found);
            found
        };
        let arena = SharedArena::of_boot(&path, 10_001, &[b'a'; 36]).unwrap();
        assert!(arena.is_kept());
        assert_eq!(load(&arena), [0, 7, 7, 7, 7, 7, 7]);
        drop(arena);
        let arena = SharedArena::of_boot(&path, 10_001, &[b'b'; 36]).unwrap();
        assert!(!arena.is_kept());
        assert_eq!(load(&arena), [0; 7]);
    }

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

    proptest! {
        #[test]
        fn it_holds_what_an_array_would(stores in proptest::collection::vec((0_usize..200, 0_usize..60, any::<u8>()), 1..30)) {
            let folder = tempfile::tempdir().unwrap();
            let arena = SharedArena::open(&folder.path().join("arena"), 203).unwrap();
            let mut model = [0; 203];
            for (offset, len, byte) in stores {
                let bytes = vec![byte; len.min(203 - offset)];
                model[offset..offset + bytes.len()].copy_from_slice(&bytes);
                arena.store(offset, &bytes);
                let mut found = [0; 203];
                arena.load(0, &mut found);
                prop_assert_eq!(found, model);
                let mut part = vec![0; bytes.len()];
                arena.load(offset, &mut part);
                prop_assert_eq!(part, bytes);
            }
        }
    }
}
