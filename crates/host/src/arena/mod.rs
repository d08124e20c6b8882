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
//!    in place ([`crate::stack::stored_in_place`]), or the arena is refused. One that is found where it may not stay is read
//!    without being mapped and moved. (What is left for a SIGBUS is somebody else who cuts the file short, though it is
//!    ours alone, mode 0600 and locked, or who makes a reflink or snapshot of it while it is open and fills the disk.)
//! 3. What was stored before this boot of the machine is never seen: a file in a folder may come back from a
//!    power cut in any mixture of states. The header names the boot, is cleared before anything else is and
//!    written after everything else is zero.
//! 4. One process at a time has it open.
//! 5. An arena of another version is neither read nor made anew: it may hold what was stored in this boot.
//! 6. What was stored is never cut off: an arena that is kept has the length that it was made with, whatever is asked
//!    for.
//!
//! The header has room for a note of whoever uses the arena, which is read without opening it.
//!
//! ```text
//! mod      the mapping: what is stored and loaded
//! header   which boot it is of, its length, the note
//! taken    its file, locked: made or found, mapped
//! places   in which folder it is, and what is moved
//! seen     one that is only looked at, and a copy of it
//! ```
//!
//! What it costs over memory of the process's own: the opening, which allocates and maps every page (on one
//! machine with two busy processors 130 ms for 64 MiB that are new in `/dev/shm`, 30 ms for ones that are kept), and
//! that stores go unit by unit (4 KiB in 0.6 us there, against 0.5 us). No system call, no flush and no I/O is made for
//! a store. In a folder on a disk the kernel writes the pages back now and then, and a first store after that faults.

#![allow(unsafe_code)]

mod header;
mod places;
mod seen;
mod taken;

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_engine::env::Arena;

use crate::path_error::PathError;
use header::HEADER_BYTES;

pub use header::{LEN_MAX_BYTES, NOTE_MAX_BYTES};
pub(crate) use header::{OF_OTHER_VERSION, len_within};
pub use seen::{Content, Seen};

/// Where arenas are kept unless the user names another folder.
pub const DEFAULT_FOLDER: &str = "/dev/shm";

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
    /// Where it is kept.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it held what an earlier process left, and was not begun anew.
    pub fn is_kept(&self) -> bool {
        self.kept
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
        let (mut offset, mut into) = (offset, into);
        let in_unit = offset % UNIT;
        if in_unit > 0 {
            let (first, behind) = into.split_at_mut(into.len().min(UNIT - in_unit));
            self.load_part(offset - in_unit, in_unit, first);
            (offset, into) = (offset + first.len(), behind);
        }
        // Whole units without a call for each: what a commit carries is loaded here.
        let (units, rest) = into.as_chunks_mut::<UNIT>();
        for unit in units {
            *unit = self.unit(offset).load(Ordering::Relaxed).to_ne_bytes();
            offset += UNIT;
        }
        if !rest.is_empty() {
            self.load_part(offset, 0, rest);
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

    /// Loads a part of a unit.
    fn load_part(&self, offset: usize, in_unit: usize, into: &mut [u8]) {
        let whole = self.unit(offset).load(Ordering::Relaxed).to_ne_bytes();
        into.copy_from_slice(&whole[in_unit..in_unit + into.len()]);
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
