//! What stands before an arena's own bytes: which boot of the machine it is of, its length, and a note.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use super::SharedArena;
use crate::path_error::PathError;

/// Bytes before the arena's own: two pages, of which the header is the first part.
pub(super) const HEADER_BYTES: usize = 8192;

/// What a header begins with. Its last byte is the version.
const MAGIC: [u8; 16] = *b"evenkeel arena 2";

/// The magic, the boot's identity as the kernel writes it, and the number of bytes. Every version has the first two here.
const MARK_BYTES: usize = 16 + 36 + 8;

/// Where the note's length stands, and the note behind it.
pub(super) const NOTE_OFFSET: usize = MARK_BYTES;

/// Longest note: any path finds room in it.
pub const NOTE_MAX_BYTES: usize = HEADER_BYTES - NOTE_OFFSET - 4;

/// Largest arena, in bytes: more cannot be mapped.
pub const LEN_MAX_BYTES: u64 = (i64::MAX as u64) - 2 * HEADER_BYTES as u64;

/// What begins the header of an arena of `len` bytes, made in this boot.
pub(super) fn mark(boot: &[u8; 36], len: usize) -> Vec<u8> {
    [&MAGIC[..], boot, &(len as u64).to_le_bytes()].concat()
}

/// What is wrong with an arena of another version, and what to do about it.
pub(crate) const OF_OTHER_VERSION: &str = "another version of evenkeel used it, and acknowledged writes of this volume may \
                                           wait in it: serve the volume with that version and stop it, or remove this file \
                                           to give those writes up";

/// What the beginning of a file says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// It is an arena of this boot, of so many bytes, and all of it is there.
    Whole(usize),
    /// The same, but the file has another length.
    CutShort,
    /// It is one of another boot, or of another machine.
    OtherBoot,
    /// It is one of another version, which may be of this boot.
    OtherVersion,
    /// Nothing yet: it is still to be written.
    Zero,
    /// It is no arena.
    Foreign,
}

impl Mark {
    /// Of `file`.
    pub(super) fn of(file: &File, boot: &[u8; 36]) -> io::Result<Self> {
        let (mut mark, found) = ([0; MARK_BYTES], file.metadata()?.len());
        let there = usize::try_from(found).unwrap_or(MARK_BYTES).min(MARK_BYTES);
        file.read_exact_at(&mut mark[..there], 0)?;
        if mark.iter().all(|&byte| byte == 0) {
            return Ok(Self::Zero);
        }
        let Some(rest) = mark.strip_prefix(&MAGIC).filter(|_| there == MARK_BYTES) else {
            return Ok(Self::of_unknown(&mark[..there], boot));
        };
        let Some(len) = rest.strip_prefix(boot) else { return Ok(Self::OtherBoot) };
        let len = len.try_into().ok().and_then(|len| usize::try_from(u64::from_le_bytes(len)).ok());
        let is_whole = |len: &usize| total_bytes(*len).is_some_and(|total| total as u64 == found);
        Ok(len.filter(is_whole).map_or(Self::CutShort, Self::Whole))
    }
}

impl Mark {
    /// Of a file that begins with something else than an arena of this version does.
    fn of_unknown(mark: &[u8], boot: &[u8; 36]) -> Self {
        let name = &MAGIC[..MAGIC.len() - 1];
        let is_of_other_version =
            mark.len() >= MAGIC.len() && mark.starts_with(name) && !mark.starts_with(&MAGIC);
        let is_id = |id: &&[u8; 36]| id.iter().all(|&it| it == b'-' || it.is_ascii_hexdigit());
        match mark.get(MAGIC.len()..).and_then(<[u8]>::first_chunk::<36>).filter(is_id) {
            _ if !is_of_other_version => Self::Foreign,
            Some(found) if found != boot => Self::OtherBoot,
            _ => Self::OtherVersion,
        }
    }
}

/// The length of the arena in `file`, where it is one of this boot and all of it is there.
///
/// # Errors
///
/// [`OF_OTHER_VERSION`]; those of the system calls.
pub(super) fn read_mark(file: &File, boot: &[u8; 36]) -> io::Result<Option<usize>> {
    match Mark::of(file, boot)? {
        Mark::Whole(len) => Ok(Some(len)),
        Mark::OtherVersion => Err(io::Error::new(io::ErrorKind::InvalidData, OF_OTHER_VERSION)),
        Mark::CutShort | Mark::OtherBoot | Mark::Zero | Mark::Foreign => Ok(None),
    }
}

/// Length of the largest arena whose file is no larger than `bytes`.
pub(crate) fn len_within(bytes: u64) -> u64 {
    let whole = HEADER_BYTES as u64;
    (bytes / whole * whole).saturating_sub(whole)
}

/// Bytes of the file of an arena of `len` bytes.
pub(super) fn total_bytes(len: usize) -> Option<usize> {
    let total = HEADER_BYTES.checked_add(len)?.checked_next_multiple_of(HEADER_BYTES)?;
    i64::try_from(total).is_ok().then_some(total)
}

/// The identity of this boot of the machine.
pub(super) fn boot_id(path: &Path) -> Result<[u8; 36], PathError> {
    const PLACE: &str = "/proc/sys/kernel/random/boot_id";
    let found = fs::read(PLACE).map_err(|error| PathError::new(Path::new(PLACE), "cannot read", error))?;
    found.first_chunk().copied().ok_or_else(|| {
        PathError::new(path, "cannot tell this boot from others", io::ErrorKind::InvalidData.into())
    })
}

impl SharedArena {
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
}
