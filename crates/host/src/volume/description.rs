//! `volume.toml`: what a volume's folder says of it, for people to read and for evenkeel to find its members.
//!
//! It holds nothing that changes while the volume is used: a folder restored from a backup describes the members
//! that stand beside it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::VolumeError;
use super::member::Place;
use crate::drive::{DriveOptions, DurableWay};
use crate::path_error::PathError;
use crate::scratch::settle_folder;

/// The file's name in a volume's folder.
pub const FILE_NAME: &str = "volume.toml";

/// What this version writes and reads.
const FORMAT: u32 = 1;

/// Longest file that is read.
const FILE_MAX_BYTES: u64 = 64 << 10;

const PREFACE: &str = "\
# A volume of evenkeel: `evenkeel serve` this folder. The members below hold its data; paths that do not begin
# with / are from here, and one such as nbd://host/name is the export of an NBD server. Nothing in this file changes while the volume is used.

";

/// A volume, described.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Of the description itself.
    pub format: u32,
    /// The number that its members carry too.
    pub id: VolumeId,
    /// How pages are laid over members.
    pub layout: LayoutKind,
    /// Bytes that it offers.
    pub size_bytes: u64,
    /// Largest write that is there whole or not at all after a cut.
    pub atomic_max_bytes: u64,
    /// Memory for writes that are acknowledged and not yet durable.
    pub buffer_bytes: u64,
    /// Where its pages are.
    pub home: Member,
    /// Where its log is; on the home member where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<Member>,
}

/// A volume's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct VolumeId(pub u64);

impl std::fmt::Display for VolumeId {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:016x}", self.0)
    }
}

impl From<VolumeId> for String {
    fn from(id: VolumeId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for VolumeId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        u64::from_str_radix(&text, 16).map(Self).map_err(|_| format!("`{text}` is no volume's number"))
    }
}

/// How pages are laid over members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LayoutKind {
    /// One home member.
    Single,
}

/// A file, block device or export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Where it is.
    #[serde(rename = "path")]
    pub place: Place,
    /// What it writes at once.
    pub sector_bytes: u32,
    /// Whether a power cut leaves each sector old or new. If not, a page's image is logged before it is written.
    pub atomic_sectors: bool,
    /// What makes a write durable there; of an export, its server knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durable_way: Option<DurableWay>,
    /// Whether its file takes room only where something was written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sparse: bool,
}

impl Member {
    /// How its drive is opened.
    pub fn options(&self) -> DriveOptions {
        DriveOptions {
            durable_way: self.durable_way,
            atomic_sectors: self.atomic_sectors,
            sector_bytes: Some(self.sector_bytes),
            // A hole that was punched would need room that may be gone when it is written again.
            keeps_room: !self.sparse,
            ..DriveOptions::default()
        }
    }
}

impl Description {
    /// A description of the format that this version writes.
    pub const FORMAT: u32 = FORMAT;

    /// Writes it into `folder`, durably. Nothing is replaced.
    ///
    /// # Errors
    ///
    /// `AlreadyExists`; those of the file system.
    pub fn write(&self, folder: &Path) -> Result<(), VolumeError> {
        let path = folder.join(FILE_NAME);
        let text = toml::to_string(self).map_err(|error| VolumeError::description(&path, &error))?;
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(PREFACE.as_bytes())?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            settle_folder(folder)
        };
        write().map_err(|error| PathError::new(&path, "cannot write", error).into())
    }

    /// Reads that of `folder`; the file comes with it, for whoever wants to lock it.
    ///
    /// # Errors
    ///
    /// Where there is none, or none that this version understands.
    pub fn read(folder: &Path) -> Result<(Self, File), VolumeError> {
        let path = folder.join(FILE_NAME);
        let file = File::open(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                VolumeError::NotAVolume(folder.to_owned())
            }
            _ => PathError::new(&path, "cannot read", error).into(),
        })?;
        let mut text = String::new();
        let read = (&file).take(FILE_MAX_BYTES).read_to_string(&mut text);
        read.map_err(|error| PathError::new(&path, "cannot read", error))?;
        let description: Self =
            toml::from_str(&text).map_err(|error| VolumeError::description(&path, &error))?;
        if description.format != FORMAT {
            let why = format!("format {} is not {FORMAT}: another version made it", description.format);
            return Err(VolumeError::description(&path, &why));
        }
        Ok((description, file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Description {
        let member = |path: &str| Member {
            place: path.parse().unwrap(),
            sector_bytes: 4096,
            atomic_sectors: false,
            durable_way: Some(DurableWay::Linked),
            sparse: false,
        };
        Description {
            format: FORMAT,
            id: VolumeId(0x1f),
            layout: LayoutKind::Single,
            size_bytes: 1 << 30,
            atomic_max_bytes: 16384,
            buffer_bytes: 64 << 20,
            home: member("home"),
            log: Some(member("/dev/sdx")),
        }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_is_replaced() {
        for log in ["/dev/sdx", "nbd://host/name", "nbd+unix:///a%20b?socket=/run/s"] {
            let folder = tempfile::tempdir().unwrap();
            let mut sample = sample();
            sample.log.as_mut().unwrap().place = log.parse().unwrap();
            sample.write(folder.path()).unwrap();
            assert_eq!(Description::read(folder.path()).unwrap().0, sample);
            assert!(sample.write(folder.path()).is_err());
        }
    }

    #[test]
    fn what_is_no_description_is_refused_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(Description::read(folder.path()), Err(VolumeError::NotAVolume(_))));
        for text in ["", "format = 2", "format = 1\nsize_bytes = -1", "\u{0}"] {
            std::fs::write(folder.path().join(FILE_NAME), text).unwrap();
            let error = Description::read(folder.path()).unwrap_err().to_string();
            assert!(error.contains(FILE_NAME) && !error.contains('\n'), "{error}");
        }
    }
}
