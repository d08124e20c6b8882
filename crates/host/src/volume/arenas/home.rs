//! What a home member is, and where: the note in the header of an arena.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::arena::NOTE_MAX_BYTES;
use crate::volume::description::{Description, LayoutKind};
use crate::volume::member::Place;

/// What a home member is, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Home {
    /// What it is for as long as the machine runs: `file DEVICE INODE`, `device NUMBER` or `export`.
    pub(super) what: String,
    /// Its path or URI; `None` where that is too long for a note.
    pub(super) at: Option<Vec<u8>>,
}

impl Home {
    pub(super) fn of(folder: &Path, description: &Description) -> Self {
        match (description.layout, description.members.as_slice()) {
            (LayoutKind::Single, [home]) => Self::of_place(folder, &home.place),
            // Any of a mirror's members may be replaced; its folder stays.
            _ => Self::of_place(folder, &Place::Path(PathBuf::from("."))),
        }
    }

    pub(super) fn of_place(folder: &Path, place: &Place) -> Self {
        let (what, at) = match place {
            Place::Nbd(uri) => ("export".to_owned(), uri.as_str().as_bytes().to_owned()),
            Place::Path(path) => {
                let path = folder.join(path);
                let at = path.canonicalize().or_else(|_| std::path::absolute(&path)).unwrap_or_default();
                (
                    path.metadata().map_or_else(|_| "nothing".to_owned(), |found| what(&found)),
                    at.into_os_string().into_encoded_bytes(),
                )
            }
        };
        let is_noted = !at.is_empty() && what.len() + 1 + at.len() <= NOTE_MAX_BYTES;
        Self { what, at: is_noted.then_some(at) }
    }

    pub(super) fn note(&self) -> Vec<u8> {
        [self.what.as_bytes(), b"\n", self.at.as_deref().unwrap_or_default()].concat()
    }

    pub(super) fn parse(note: &[u8]) -> Option<Self> {
        let end = note.iter().position(|&byte| byte == b'\n')?;
        let (what, at) = (std::str::from_utf8(&note[..end]).ok()?, &note[end + 1..]);
        Some(Self { what: what.to_owned(), at: (!at.is_empty()).then(|| at.to_owned()) })
    }

    /// `file`, `folder`, `device` or `export`; `nothing` where that was not known.
    pub(super) fn kind(&self) -> &str {
        self.what.split(' ').next().unwrap_or_default()
    }

    pub(super) fn is_export(&self) -> bool {
        self.what == "export"
    }

    /// Whether the nearest folder above `at`, where it was, is on the file system that it was on; of a device, always.
    pub(super) fn is_of_file_system(&self, at: &Path) -> bool {
        let above = at.ancestors().skip(1).find_map(|above| above.metadata().ok());
        let number = self.what.split(' ').nth(1).filter(|_| self.kind() != "device");
        number.zip(above).is_none_or(|(number, above)| number == format!("{:x}", above.dev()))
    }

    /// Whether that may be the same file or device: a file system that was mounted anew has another number.
    pub(super) fn is_like(&self, found: &Metadata) -> bool {
        let found = what(found);
        let last = |what: &str| what.rsplit(' ').next().map(str::to_owned);
        self.what.split(' ').next() == found.split(' ').next() && last(&self.what) == last(&found)
    }
}

fn what(found: &Metadata) -> String {
    match found.file_type() {
        kind if kind.is_block_device() => format!("device {:x}", found.rdev()),
        kind if kind.is_dir() => format!("folder {:x} {:x}", found.dev(), found.ino()),
        _ => format!("file {:x} {:x}", found.dev(), found.ino()),
    }
}
