//! A member of a volume: a file or block device of this machine, or the export of an NBD server.
//!
//! 1. A lost connection is not restored: requests under way may or may not have been carried out, and what comes after
//!    would be sent to a drive in a state that nobody knows. The volume is told, takes no more writes, and is opened
//!    anew.
//! 2. Nothing that an earlier process of the volume sent to an export is carried out once it is open ([`super::fencing`]).

use std::cell::Cell;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::str::FromStr;
use std::time::{Duration, Instant};

use evenkeel_engine::device::{Device, Drive, Durability, Extent, FlushScope, Geometry};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::{DeviceError, Error};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::fencing::{Purpose, check_takes_one};
use super::kept::Kept;
use crate::drive::{DriveOptions, FileDrive, OpenFile};
use crate::event_loop::{Loop, race};
use crate::nbd::client::{ClientError, NbdDrive, check_writes};
use crate::nbd::uri::NbdUri;
use crate::net::Stream;
use crate::path_error::PathError;
use crate::wait::Notify;

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
    pub(super) fn shown(&self) -> PathBuf {
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
    /// A file or block device that is only read.
    KeptFile(Kept<FileDrive>),
    /// An export that is only read.
    KeptNbd(Kept<NbdDrive<Stream>>),
}

/// As [`FileDrive::open`], but it blocks nobody while it waits for whoever has the file in use, or for its file system.
pub(super) async fn open_patiently(
    event_loop: &Loop,
    path: &Path,
    options: DriveOptions,
) -> Result<FileDrive, PathError> {
    use io::ErrorKind::{ResourceBusy, WouldBlock};
    let began = Instant::now();
    loop {
        let at_once = DriveOptions { busy_timeout: Duration::ZERO, ..options };
        match FileDrive::open_aside(event_loop, path, at_once).await {
            Err(error)
                if matches!(error.source.kind(), ResourceBusy | WouldBlock)
                    && began.elapsed() < options.busy_timeout =>
            {
                event_loop.sleep(PAUSE_NS).await;
            }
            opened => return opened,
        }
    }
}

fn no_member(place: &Place, error: &ClientError) -> PathError {
    PathError::new(&place.shown(), "cannot hold a member", io::Error::other(error.to_string()))
}

impl MemberDrive {
    /// Opens what is at `place`; of `options`, an export heeds sectors, their promise, and busy_timeout.
    ///
    /// # Errors
    ///
    /// As [`FileDrive::open`]; those of connecting and of the handshake; where the export cannot be written to, or
    /// makes nothing durable; where an earlier process may still write to it.
    pub async fn open(
        event_loop: &Loop,
        place: &Place,
        options: DriveOptions,
        purpose: Purpose,
    ) -> Result<Self, PathError> {
        let uri = match place {
            Place::Path(path) => {
                let read_only = options.read_only || matches!(purpose, Purpose::Keep);
                let drive = open_patiently(event_loop, path, DriveOptions { read_only, ..options }).await?;
                return Ok(match purpose {
                    Purpose::Keep => Self::KeptFile(Kept::over(drive)),
                    _ => Self::File(drive),
                });
            }
            Place::Nbd(uri) => uri,
        };
        let began = Instant::now();
        let (client, took_ns) = loop {
            let asked_ns = event_loop.now_ns();
            match purpose.connect(event_loop, uri).await.map(|it| (it, event_loop.now_ns() - asked_ns)) {
                Ok(connected) => break connected,
                Err(error) if error.is_passing && began.elapsed() < options.busy_timeout => {
                    event_loop.sleep(PAUSE_NS).await;
                }
                Err(error) => return Err(PathError::new(&place.shown(), "cannot connect", error.source)),
            }
        };
        let is_fenced = client.negotiated().is_exclusive;
        let open = match purpose {
            Purpose::Look | Purpose::Keep => NbdDrive::to_look_at,
            Purpose::Write { .. } => NbdDrive::new,
        };
        let drive = open(client, options.atomic_sectors, options.promised_sector_bytes, uri.as_str());
        let drive = drive.map_err(|error| no_member(place, &error))?;
        if let Purpose::Keep = purpose {
            return Ok(Self::KeptNbd(Kept::over(drive)));
        }
        if let Purpose::Write { unfenced: false, .. } = purpose
            && !is_fenced
        {
            let takes_one = check_takes_one(event_loop, uri, took_ns).await;
            takes_one.map_err(|error| PathError::new(&place.shown(), "cannot hold a member", error))?;
        }
        Ok(Self::Nbd(drive))
    }

    /// That it may be written to, where it was opened to be looked at.
    ///
    /// # Errors
    ///
    /// That it may not.
    pub(super) fn check_writes(&self, place: &Place) -> Result<(), PathError> {
        match self {
            Self::File(_) | Self::KeptFile(_) | Self::KeptNbd(_) => Ok(()),
            Self::Nbd(drive) => check_writes(drive.client()).map_err(|error| no_member(place, &error)),
        }
    }

    /// The number of the opening under which its server knows it, if it does.
    pub(super) fn opening_number(&self) -> Option<u64> {
        match self {
            Self::File(_) | Self::KeptFile(_) | Self::KeptNbd(_) => None,
            Self::Nbd(drive) => drive.client().negotiated().number,
        }
    }

    /// Why it is lost, if it is.
    pub(super) fn failure(&self) -> Option<ClientError> {
        match self {
            Self::File(_) | Self::KeptFile(_) => None,
            Self::Nbd(drive) => drive.client().failure(),
            Self::KeptNbd(drive) => drive.below().client().failure(),
        }
    }

    /// Whether requests are under way on a file or device, as those of a call that was given up.
    pub(super) fn has_transfers(&self) -> bool {
        match self {
            Self::File(drive) => drive.has_transfers(),
            Self::Nbd(_) | Self::KeptFile(_) | Self::KeptNbd(_) => false,
        }
    }

    /// The file or block device of this machine that it has open.
    pub(super) fn open_file(&self) -> Option<OpenFile> {
        match self {
            Self::File(drive) => Some(drive.open_file().clone()),
            Self::Nbd(_) | Self::KeptFile(_) | Self::KeptNbd(_) => None,
        }
    }

    /// Whether it is a file that was removed, and is gone once it is closed.
    pub(super) fn is_removed(&self) -> bool {
        match self {
            Self::File(drive) => drive.is_removed(),
            Self::Nbd(_) | Self::KeptFile(_) | Self::KeptNbd(_) => false,
        }
    }

    /// How it fails, where it is a file that was made shorter since it was opened.
    pub(super) fn cut_short(&self) -> Option<DeviceError> {
        match self {
            Self::File(drive) => drive.is_cut_short().then(|| drive.cut_short_error()),
            Self::Nbd(_) | Self::KeptFile(_) | Self::KeptNbd(_) => None,
        }
    }

    /// Whether its place still leads to it: a file may have been removed, and another made under its name.
    pub(super) async fn is_still_at_its_place(&self) -> bool {
        match self {
            Self::File(drive) => drive.is_still_at_its_path().await,
            Self::Nbd(_) | Self::KeptFile(_) | Self::KeptNbd(_) => true,
        }
    }
}

/// A volume's members, each with its place.
pub(super) struct Members(pub(super) Vec<(Place, Rc<MemberDrive>)>);

impl Members {
    /// Which of them is lost, and why: an error number of what failed with it does not say so.
    pub(super) fn lost(&self) -> Option<String> {
        let is_lost = |(place, drive): &(Place, Rc<MemberDrive>)| {
            let cut = || drive.cut_short().map(|_| cut_short(place));
            drive.failure().map(|error| lost(&place.to_string(), &error)).or_else(cut)
        };
        self.0.iter().find_map(is_lost)
    }
}

/// What a volume of one member says of a file that was made shorter.
pub(super) fn cut_short(place: &Place) -> String {
    format!(
        "{place}: its file was made shorter while it was served, and what it held behind its end is gone; while the server \
         runs, clients can read what it still has: copy that"
    )
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
            Self::KeptFile(drive) => drive.geometry(),
            Self::KeptNbd(drive) => drive.geometry(),
        }
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        match self {
            Self::File(drive) => drive.read(offset, into).await,
            Self::Nbd(drive) => drive.read(offset, into).await,
            Self::KeptFile(drive) => drive.read(offset, into).await,
            Self::KeptNbd(drive) => drive.read(offset, into).await,
        }
    }

    async fn read_cached(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        match self {
            Self::File(drive) => drive.read_cached(offset, into).await,
            Self::Nbd(drive) => drive.read_cached(offset, into).await,
            Self::KeptFile(drive) => drive.read_cached(offset, into).await,
            Self::KeptNbd(drive) => drive.read_cached(offset, into).await,
        }
    }

    fn try_read_cached(&self, offset: u64, into: &mut [u8]) -> usize {
        match self {
            Self::File(drive) => drive.try_read_cached(offset, into),
            Self::Nbd(drive) => drive.try_read_cached(offset, into),
            Self::KeptFile(drive) => drive.try_read_cached(offset, into),
            Self::KeptNbd(drive) => drive.try_read_cached(offset, into),
        }
    }

    fn try_read_kept(&self, offset: u64, into: &mut [u8]) -> usize {
        match self {
            Self::File(drive) => drive.try_read_kept(offset, into),
            Self::Nbd(drive) => drive.try_read_kept(offset, into),
            Self::KeptFile(drive) => drive.try_read_kept(offset, into),
            Self::KeptNbd(drive) => drive.try_read_kept(offset, into),
        }
    }

    fn give_up_kept(&self, extent: Extent) {
        match self {
            Self::File(drive) => drive.give_up_kept(extent),
            Self::Nbd(drive) => drive.give_up_kept(extent),
            Self::KeptFile(drive) => drive.give_up_kept(extent),
            Self::KeptNbd(drive) => drive.give_up_kept(extent),
        }
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), DeviceError> {
        match self {
            Self::File(drive) => drive.write(offset, bytes, durability).await,
            Self::Nbd(drive) => drive.write(offset, bytes, durability).await,
            Self::KeptFile(drive) => drive.write(offset, bytes, durability).await,
            Self::KeptNbd(drive) => drive.write(offset, bytes, durability).await,
        }
    }

    async fn write_parts(
        &self,
        offset: u64,
        parts: &[&[u8]],
        durability: Durability,
    ) -> Result<(), DeviceError> {
        match self {
            Self::File(drive) => drive.write_parts(offset, parts, durability).await,
            Self::Nbd(drive) => drive.write_parts(offset, parts, durability).await,
            Self::KeptFile(drive) => drive.write_parts(offset, parts, durability).await,
            Self::KeptNbd(drive) => drive.write_parts(offset, parts, durability).await,
        }
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), DeviceError> {
        match self {
            Self::File(drive) => drive.flush(scope).await,
            Self::Nbd(drive) => drive.flush(scope).await,
            Self::KeptFile(drive) => drive.flush(scope).await,
            Self::KeptNbd(drive) => drive.flush(scope).await,
        }
    }

    async fn discard(&self, extent: Extent) -> Result<(), DeviceError> {
        match self {
            Self::File(drive) => drive.discard(extent).await,
            Self::Nbd(drive) => drive.discard(extent).await,
            Self::KeptFile(drive) => drive.discard(extent).await,
            Self::KeptNbd(drive) => drive.discard(extent).await,
        }
    }

    async fn write_zeroes(&self, extent: Extent, durability: Durability) -> Result<(), DeviceError> {
        match self {
            Self::File(drive) => drive.write_zeroes(extent, durability).await,
            Self::Nbd(drive) => drive.write_zeroes(extent, durability).await,
            Self::KeptFile(drive) => drive.write_zeroes(extent, durability).await,
            Self::KeptNbd(drive) => drive.write_zeroes(extent, durability).await,
        }
    }
}

impl Drive for MemberDrive {
    async fn enlarge(&self, size_bytes: u64) -> Result<(), Error> {
        match self {
            Self::File(drive) => drive.enlarge(size_bytes).await,
            Self::Nbd(drive) => drive.enlarge(size_bytes).await,
            Self::KeptFile(drive) => drive.enlarge(size_bytes).await,
            Self::KeptNbd(drive) => drive.enlarge(size_bytes).await,
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
        let client = match member {
            MemberDrive::Nbd(drive) => drive.client(),
            MemberDrive::KeptNbd(drive) => drive.below().client(),
            MemberDrive::File(_) | MemberDrive::KeptFile(_) => return,
        };
        let (broken, ended) = (client.broken(), Rc::clone(&self.0));
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
    use evenkeel_engine::join::both;

    use super::*;
    use crate::event_loop::{Backend, EventLoop};

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

    #[test]
    fn whoever_waits_for_a_file_in_use_keeps_nobody_from_closing_it() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let path = folder.path().join("drive");
        std::fs::write(&path, [0; 1 << 16]).unwrap();
        let event_loop = EventLoop::new(Backend::Auto).unwrap();
        let env = event_loop.handle();
        event_loop.block_on(async {
            let held = FileDrive::open(&env, &path, DriveOptions::default()).unwrap();
            let hasty = DriveOptions { busy_timeout: Duration::ZERO, ..DriveOptions::default() };
            let refused = open_patiently(&env, &path, hasty).await.unwrap_err();
            assert_eq!(refused.source.kind(), io::ErrorKind::WouldBlock);
            let closing = async {
                env.sleep(3 * PAUSE_NS).await;
                drop(held);
            };
            let patient = DriveOptions { busy_timeout: Duration::from_secs(60), ..DriveOptions::default() };
            let mut opened = None;
            both(async { opened = Some(open_patiently(&env, &path, patient).await) }, closing).await;
            assert_eq!(opened.unwrap().unwrap().geometry().size_bytes, 1 << 16);
        });
    }
}
