//! A member of a volume: a file or block device of this machine, or the export of an NBD server.
//!
//! 1. A lost connection is not mended: requests under way may or may not have been carried out, and what comes after
//!    would be sent to a drive in a state that nobody knows. The volume is told, takes no more writes, and is opened
//!    anew.
//! 2. A server that takes one connection at a time keeps a life that was killed from writing into the next one: it is
//!    waited for, for as long as [`DriveOptions::patience`] says.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::str::FromStr;
use std::time::Instant;

use evenkeel_engine::device::{Device, Durability, Extent, FlushScope, Geometry};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::DeviceError;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::drive::{DriveOptions, FileDrive};
use crate::event_loop::{Loop, race};
use crate::nbd::client::{ClientError, NbdDrive, connect};
use crate::nbd::uri::NbdUri;
use crate::nbd::wait::Notify;
use crate::net::Stream;
use crate::path_error::PathError;

/// Between two attempts to connect.
const PAUSE_NS: u64 = 50_000_000;

/// Where a member is. Written as one text, of which a URI's scheme tells which it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A file or block device.
    Path(PathBuf),
    /// An export, of another machine or another process.
    Nbd(NbdUri),
}

impl Place {
    /// The file or block device.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Path(path) => Some(path),
            Self::Nbd(_) => None,
        }
    }

    /// The same, seen from elsewhere than the folder that its path may be relative to.
    #[must_use]
    pub fn within(&self, folder: &Path) -> Self {
        match self {
            Self::Path(path) => Self::Path(folder.join(path)),
            Self::Nbd(uri) => Self::Nbd(uri.clone()),
        }
    }

    /// As a shell takes it for itself, and nothing in it for more.
    pub fn quoted(&self) -> String {
        let text = self.to_string();
        let is_plain = |letter: char| letter.is_alphanumeric() || "-._/:@%+,=".contains(letter);
        if !text.is_empty() && text.chars().all(is_plain) {
            return text;
        }
        if !text.contains(char::is_control) {
            return format!("'{}'", text.replace('\'', r"'\''"));
        }
        // What a terminal would not print, a shell takes in this way only.
        let mut quoted = "$'".to_owned();
        for letter in text.chars() {
            match letter {
                '\\' | '\'' => quoted.extend(['\\', letter]),
                letter if letter.is_control() => {
                    let mut bytes = [0; 4];
                    let bytes = letter.encode_utf8(&mut bytes).bytes();
                    bytes.for_each(|byte| quoted.push_str(&format!("\\{byte:03o}")));
                }
                letter => quoted.push(letter),
            }
        }
        quoted.push('\'');
        quoted
    }

    /// What errors name it.
    fn shown(&self) -> PathBuf {
        match self {
            Self::Path(path) => path.clone(),
            Self::Nbd(uri) => PathBuf::from(uri.as_str()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown().display().fmt(out)
    }
}

impl From<PathBuf> for Place {
    fn from(path: PathBuf) -> Self {
        Self::Path(path)
    }
}

impl From<&str> for Place {
    fn from(path: &str) -> Self {
        Self::Path(path.into())
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("a member's place is not empty".to_owned()),
            text if NbdUri::is_meant(text) => text.parse().map(Self::Nbd),
            text => Ok(Self::Path(text.into())),
        }
    }
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.shown().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A member as the engine sees it.
#[derive(Debug)]
pub enum MemberDrive {
    /// A file or block device.
    File(FileDrive),
    /// An export.
    Nbd(NbdDrive<Stream>),
}

impl MemberDrive {
    /// Opens what is at `place`; of `options`, an export heeds sectors, their promise, and patience.
    ///
    /// # Errors
    ///
    /// As [`FileDrive::open`]; those of connecting and of the handshake; where the export cannot be written to, or
    /// makes nothing durable.
    pub async fn open(event_loop: &Loop, place: &Place, options: DriveOptions) -> Result<Self, PathError> {
        let uri = match place {
            Place::Path(path) => return FileDrive::open(event_loop, path, options).map(Self::File),
            Place::Nbd(uri) => uri,
        };
        let began = Instant::now();
        let client = loop {
            match connect(event_loop, uri).await {
                Ok(client) => break client,
                Err(error) if error.is_passing && began.elapsed() < options.patience => {
                    event_loop.sleep(PAUSE_NS).await;
                }
                Err(error) => return Err(PathError::new(&place.shown(), "cannot connect", error.source)),
            }
        };
        let drive = NbdDrive::new(client, options.atomic_sectors, options.sector_bytes, uri.as_str());
        let drive = drive.map_err(|error| {
            PathError::new(&place.shown(), "cannot hold a member", io::Error::other(error.to_string()))
        })?;
        Ok(Self::Nbd(drive))
    }

    /// Why it is lost, if it is.
    pub(super) fn failure(&self) -> Option<ClientError> {
        match self {
            Self::File(_) => None,
            Self::Nbd(drive) => drive.client().failure(),
        }
    }

    /// Whether it is a file that was removed, and is gone once it is closed.
    pub(super) fn is_removed(&self) -> bool {
        match self {
            Self::File(drive) => drive.is_removed(),
            Self::Nbd(_) => false,
        }
    }

    /// Whether its place still leads to it: a file may have been removed, and another made under its name.
    pub(super) fn is_still_at_its_place(&self) -> bool {
        match self {
            Self::File(drive) => drive.is_still_at_its_path(),
            Self::Nbd(_) => true,
        }
    }
}

/// A volume's members, each with its place.
pub(super) struct Members(pub(super) Vec<(Place, Rc<MemberDrive>)>);

impl Members {
    /// Which of them is lost, and why: an error number of what failed with it does not say so.
    pub(super) fn lost(&self) -> Option<String> {
        self.0.iter().find_map(|(place, drive)| Some(lost(&place.to_string(), &drive.failure()?)))
    }
}

/// What a volume of one member says of its loss.
pub(super) fn lost(place: &str, error: &ClientError) -> String {
    format!("{place}: the member is lost ({error}); serve the volume anew once it is back")
}

impl Device for MemberDrive {
    fn geometry(&self) -> Geometry {
        match self {
            Self::File(drive) => drive.geometry(),
            Self::Nbd(drive) => drive.geometry(),
        }
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        match self {
            Self::File(drive) => drive.read(offset, into).await,
            Self::Nbd(drive) => drive.read(offset, into).await,
        }
    }

    async fn read_cached(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        match self {
            Self::File(drive) => drive.read_cached(offset, into).await,
            Self::Nbd(drive) => drive.read_cached(offset, into).await,
        }
    }

    fn try_read_cached(&self, offset: u64, into: &mut [u8]) -> usize {
        match self {
            Self::File(drive) => drive.try_read_cached(offset, into),
            Self::Nbd(drive) => drive.try_read_cached(offset, into),
        }
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), DeviceError> {
        match self {
            Self::File(drive) => drive.write(offset, bytes, durability).await,
            Self::Nbd(drive) => drive.write(offset, bytes, durability).await,
        }
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), DeviceError> {
        match self {
            Self::File(drive) => drive.flush(scope).await,
            Self::Nbd(drive) => drive.flush(scope).await,
        }
    }

    async fn discard(&self, extent: Extent) -> Result<(), DeviceError> {
        match self {
            Self::File(drive) => drive.discard(extent).await,
            Self::Nbd(drive) => drive.discard(extent).await,
        }
    }
}

/// Tells of members that are lost; until it is dropped.
#[derive(Debug, Default)]
pub(super) struct Watch(Rc<Ended>);

#[derive(Debug, Default)]
struct Ended {
    has_ended: Cell<bool>,
    changed: Notify,
}

impl Watch {
    /// Watches over `member`, and says once why it is lost.
    pub(super) fn over(
        &self,
        event_loop: &Loop,
        member: &MemberDrive,
        tell: impl FnOnce(ClientError) + 'static,
    ) {
        let MemberDrive::Nbd(drive) = member else { return };
        let (broken, ended) = (drive.client().broken(), Rc::clone(&self.0));
        event_loop.spawn(async move {
            let breaks = async { Some(broken.await) };
            let over = async {
                ended.changed.until(|| ended.has_ended.get().then_some(())).await;
                None
            };
            if let Some(error) = race(breaks, over).await {
                tell(error);
            }
        });
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.has_ended.set(true);
        self.0.changed.all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_path_unless_it_says_otherwise() {
        for text in ["home", "/dev/sdx", "./nbd://host"] {
            assert_eq!(text.parse(), Ok(Place::Path(text.into())));
        }
        for text in ["nbd://host/name", "nbd+unix:///?socket=/a"] {
            let place: Place = text.parse().unwrap();
            assert_eq!((place.path(), place.to_string().as_str()), (None, text));
        }
        assert!("nbd://".parse::<Place>().is_err());
        assert!("".parse::<Place>().is_err());
    }
}
