//! Targets of this machine: volumes, exports of NBD servers, files and block devices.
//!
//! 1. What exists is opened for writing only where the caller says that it may be: the command line has the user name
//!    it.
//! 2. A file that is made for the replay is written once, all of it, before anything is measured: reads then come from
//!    the medium, and writes change no metadata. It is removed when the target is dropped.
//! 3. Requests go past the page cache where the file system can do that, and in sectors as small as it can.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use evenkeel_engine::device::{Device, Durability, FlushScope};
use evenkeel_engine::error::DeviceError;
use evenkeel_engine::options::OpenOptions;
use evenkeel_host::drive::{DriveOptions, FileDrive, Fill};
use evenkeel_host::event_loop::Loop;
use evenkeel_host::nbd::client::{Client, ClientError, connect};
use evenkeel_host::nbd::proto::transmission_flag;
use evenkeel_host::nbd::uri::NbdUri;
use evenkeel_host::net::Stream;
use evenkeel_host::path_error::PathError;
use evenkeel_host::scratch::ScratchFile;
use evenkeel_host::volume::{OpenVolume, VolumeError};

use super::report::TargetFacts;
use super::target::Target;

/// Sectors as small as block devices and traces have them.
const SECTOR_BYTES: u32 = 512;

/// Memory for transfers of files and devices, about: an open loop may have many under way.
const POOL_BYTES: usize = 32 << 20;

/// Where a trace may be replayed onto.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The volume in this folder.
    Volume(PathBuf),
    /// An export.
    Nbd(NbdUri),
    /// A file that exists, or a block device.
    Existing(PathBuf),
    /// A file that is made for the replay, and removed after it.
    New {
        /// Where.
        path: PathBuf,
        /// How large.
        size_bytes: u64,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nbd(uri) => uri.fmt(out),
            Self::Volume(path) | Self::Existing(path) | Self::New { path, .. } => path.display().fmt(out),
        }
    }
}

/// Why a target cannot be had.
#[derive(Debug)]
pub enum HostTargetError {
    /// The volume cannot be opened.
    Volume(VolumeError),
    /// Something about a file, a device or a server.
    Path(PathError),
    /// The export does not offer what the trace needs.
    Lacks {
        /// The export.
        place: String,
        /// What it lacks.
        what: &'static str,
    },
}

impl fmt::Display for HostTargetError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Volume(error) => error.fmt(out),
            Self::Path(error) => error.fmt(out),
            Self::Lacks { place, what } => write!(out, "{place}: the export does not offer {what}"),
        }
    }
}

impl std::error::Error for HostTargetError {}

/// A target that is open.
#[derive(Debug)]
pub struct HostTarget {
    place: String,
    open: Open,
}

enum Open {
    Volume(Box<OpenVolume>),
    Nbd(Client<Stream>),
    File { drive: FileDrive, scratch: Option<ScratchFile> },
}

impl fmt::Debug for Open {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.kind())
    }
}

impl Open {
    fn kind(&self) -> &'static str {
        match self {
            Self::Volume(_) => "volume",
            Self::Nbd(_) => "nbd",
            Self::File { drive, .. } if drive.is_block_device() => "block device",
            Self::File { scratch: Some(_), .. } => "new file",
            Self::File { .. } => "file",
        }
    }
}

impl HostTarget {
    /// Opens what is at `place`, to be written to only where `writes`. `progress` is told bytes that are written of a
    /// new file, and bytes in all.
    ///
    /// # Errors
    ///
    /// [`HostTargetError`].
    pub async fn open(
        event_loop: &Loop,
        place: &Place,
        writes: bool,
        progress: impl FnMut(u64, u64),
    ) -> Result<Self, HostTargetError> {
        let open = match place {
            Place::Volume(folder) => {
                let opened = OpenVolume::open(event_loop, folder, OpenOptions::default()).await;
                Open::Volume(Box::new(opened.map_err(HostTargetError::Volume)?))
            }
            Place::Nbd(uri) => Open::Nbd(Self::connect(event_loop, uri, writes).await?),
            Place::Existing(path) => {
                let options = DriveOptions { read_only: !writes, ..options() };
                let drive = open_file(event_loop, path, options).map_err(HostTargetError::Path)?;
                Open::File { drive, scratch: None }
            }
            Place::New { path, size_bytes } => {
                // As it is written to be filled, its sectors are whatever suits the disk; then it is opened anew.
                let made = FileDrive::create_scratch(
                    event_loop,
                    path,
                    *size_bytes,
                    Fill::Written,
                    DriveOptions::default(),
                    progress,
                );
                let (drive, scratch) = made.await.map_err(HostTargetError::Path)?;
                drop(drive);
                let drive = open_file(event_loop, path, options()).map_err(HostTargetError::Path)?;
                Open::File { drive, scratch: Some(scratch) }
            }
        };
        Ok(Self { place: place.to_string(), open })
    }

    async fn connect(
        event_loop: &Loop,
        uri: &NbdUri,
        writes: bool,
    ) -> Result<Client<Stream>, HostTargetError> {
        let connected = connect(event_loop, uri, None).await;
        let failed =
            |source| HostTargetError::Path(PathError::new(Path::new(uri.as_str()), "cannot connect", source));
        let client = connected.map_err(|error| failed(error.source))?;
        let lacks = |what| Err(HostTargetError::Lacks { place: uri.to_string(), what });
        let negotiated = client.negotiated();
        if writes && negotiated.has(transmission_flag::READ_ONLY) {
            return lacks("writes, which the trace has");
        }
        if writes
            && !negotiated.has(transmission_flag::SEND_FLUSH)
            && !negotiated.has(transmission_flag::SEND_FUA)
        {
            return lacks("durable writes");
        }
        if negotiated.block_sizes.minimum_bytes > 4096 {
            return lacks("requests as small as a page");
        }
        Ok(client)
    }

    /// What it is.
    pub fn facts(&self) -> TargetFacts {
        TargetFacts {
            kind: self.open.kind(),
            place: self.place.clone(),
            size_bytes: self.size_bytes(),
            granule_bytes: self.granule_bytes(),
        }
    }

    /// Ends it: a volume makes everything durable first, a file that was made is removed.
    ///
    /// # Errors
    ///
    /// The volume's failure.
    pub async fn close(self) -> Result<(), HostTargetError> {
        match self.open {
            Open::Volume(volume) => volume.close().await.map_err(HostTargetError::Volume),
            Open::Nbd(_) | Open::File { .. } => Ok(()),
        }
    }

    /// The words of a client, and of whom they are.
    fn told(&self, error: &ClientError) -> String {
        format!("{}: {error}", self.place)
    }
}

fn options() -> DriveOptions {
    DriveOptions {
        sector_bytes: Some(SECTOR_BYTES),
        pool_bytes: POOL_BYTES,
        keeps_room: true,
        ..DriveOptions::default()
    }
}

/// Opens a file in small sectors, or where it has none in those that it has.
fn open_file(event_loop: &Loop, path: &Path, options: DriveOptions) -> Result<FileDrive, PathError> {
    match FileDrive::open(event_loop, path, options) {
        Err(error) if error.source.kind() == io::ErrorKind::InvalidInput => {
            FileDrive::open(event_loop, path, DriveOptions { sector_bytes: None, ..options })
        }
        opened => opened,
    }
}

/// The words of a drive, which know where they are about.
fn told(error: DeviceError) -> String {
    format!("{}: {}", error.doing, io::Error::from_raw_os_error(error.errno))
}

impl Target for HostTarget {
    fn size_bytes(&self) -> u64 {
        match &self.open {
            Open::Volume(open) => open.volume.size_bytes(),
            Open::Nbd(client) => {
                let granule = u64::from(self.granule_bytes());
                client.negotiated().size_bytes / granule * granule
            }
            Open::File { drive, .. } => drive.geometry().size_bytes,
        }
    }

    fn granule_bytes(&self) -> u32 {
        match &self.open {
            Open::Volume(_) => 1,
            Open::Nbd(client) => client.negotiated().block_sizes.minimum_bytes.max(1),
            Open::File { drive, .. } => drive.geometry().sector_bytes,
        }
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), String> {
        match &self.open {
            Open::Volume(open) => {
                open.volume.read(offset, into).await.map_err(|error| format!("{}: {error}", self.place))
            }
            Open::File { drive, .. } => drive.read(offset, into).await.map_err(told),
            Open::Nbd(client) => {
                let piece_bytes = piece_bytes(client);
                for (at, piece) in (0u64..).zip(into.chunks_mut(piece_bytes)) {
                    let offset = offset + at * piece_bytes as u64;
                    client.read(offset, piece).await.map_err(|error| self.told(&error))?;
                }
                Ok(())
            }
        }
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), String> {
        match &self.open {
            Open::Volume(open) => {
                let written = open.volume.write(offset, bytes, durability).await;
                written.map_err(|error| format!("{}: {error}", self.place))
            }
            Open::File { drive, .. } => drive.write(offset, bytes, durability).await.map_err(told),
            Open::Nbd(client) => {
                let has_fua = client.negotiated().has(transmission_flag::SEND_FUA);
                let sent_as = if has_fua { durability } else { Durability::Buffered };
                let piece_bytes = piece_bytes(client);
                for (at, piece) in (0u64..).zip(bytes.chunks(piece_bytes)) {
                    let offset = offset + at * piece_bytes as u64;
                    client.write(offset, piece, sent_as).await.map_err(|error| self.told(&error))?;
                }
                if durability == Durability::Durable && !has_fua {
                    return self.flush().await;
                }
                Ok(())
            }
        }
    }

    async fn flush(&self) -> Result<(), String> {
        match &self.open {
            Open::Volume(open) => {
                let flushed = open.volume.flush(FlushScope::Whole).await;
                flushed.map_err(|error| format!("{}: {error}", self.place))
            }
            Open::File { drive, .. } => drive.flush(FlushScope::Whole).await.map_err(told),
            // Whoever offers none has nothing to flush.
            Open::Nbd(client) if !client.negotiated().has(transmission_flag::SEND_FLUSH) => Ok(()),
            Open::Nbd(client) => client.flush(FlushScope::Whole).await.map_err(|error| self.told(&error)),
        }
    }
}

/// Bytes of the longest request that an export takes.
fn piece_bytes(client: &Client<Stream>) -> usize {
    let sizes = client.negotiated().block_sizes;
    let granule = sizes.minimum_bytes.max(1);
    ((sizes.maximum_bytes / granule).max(1) * granule) as usize
}
