//! Making a volume.
//!
//! 1. Nothing that exists is touched but the files, devices and exports that `destroy` names. An export always exists.
//! 2. Whatever ends it halfway (an error, Ctrl-C) leaves no file of its own: the description, without which
//!    nothing counts as a volume, is written last.
//! 3. Members that are files have all their room, unless they are to be sparse: a full disk below cannot turn an
//!    acknowledged write into an error.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use evenkeel_engine::device::{Device, Extent};
use evenkeel_engine::env::Env;
use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::format::layout::{Layout, log_bytes_with_superblocks};
use evenkeel_engine::options::CreateOptions;

use super::VolumeError;
use super::description::{Description, FILE_NAME, LayoutKind, Member, VolumeId};
use super::member::{MemberDrive, Place};
use crate::drive::{DriveOptions, FileDrive, Fill};
use crate::durable_file::is_block_device;
use crate::event_loop::Loop;
use crate::path_error::PathError;
use crate::scratch::ScratchFile;
use crate::stack::StackProbe;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The folder: new, or empty.
    pub folder: PathBuf,
    /// Bytes that the volume offers.
    pub size_bytes: u64,
    /// Home member: a block device, a file's name or an export; `home` in the folder unless given.
    pub member: Option<Place>,
    /// Log member; `log` in the folder unless given, or a part of a home member that is a block device.
    pub log: Option<Place>,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Largest write that is one commit.
    pub atomic_max_bytes: u64,
    /// Memory for writes that are not durable.
    pub buffer_bytes: u64,
    /// Whether files take room only where something is written.
    pub sparse: bool,
    /// What is promised of sectors that a power cut interrupts; `None` asks the device.
    pub atomic_sectors: Option<bool>,
    /// Existing files, devices and exports that may be overwritten.
    pub destroy: Vec<Place>,
}

/// One member, as it will be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedMember {
    /// Where it is.
    pub place: Place,
    /// Bytes that it takes.
    pub bytes: u64,
    /// Whether something is there now that will be lost.
    pub overwrites: bool,
}

/// What [`create`] will do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The home member.
    pub home: PlannedMember,
    /// The log member, where it is one of its own.
    pub log: Option<PlannedMember>,
}

impl Request {
    /// A volume of `size_bytes` in `folder`, with its home and a log of 256 MiB as files there, a buffer of 64 MiB,
    /// and writes of up to 16 KiB in one piece.
    pub fn new(folder: impl Into<PathBuf>, size_bytes: u64) -> Self {
        Self {
            folder: folder.into(),
            size_bytes,
            member: None,
            log: None,
            log_bytes: 256 << 20,
            atomic_max_bytes: 16 << 10,
            buffer_bytes: 64 << 20,
            sparse: false,
            atomic_sectors: None,
            destroy: Vec::new(),
        }
    }

    /// Looks at what is there, and says what will be made and lost. Nothing is written.
    ///
    /// # Errors
    ///
    /// [`VolumeError::Refused`] for what exists and was not named, what does not fit, or makes no sense.
    pub fn plan(&self) -> Result<Plan, VolumeError> {
        let refused = |why: String| Err(VolumeError::Refused(why));
        if self.size_bytes == 0 || !self.size_bytes.is_multiple_of(PAGE_BYTES) {
            return refused(format!(
                "--size {}: a volume's size is a multiple of 4096 bytes and not 0",
                self.size_bytes
            ));
        }
        self.check_folder()?;
        let home_place = self.member.clone().unwrap_or_else(|| self.folder.join("home").into());
        let log_place = match (&self.log, home_place.path().is_some_and(is_block_device)) {
            (Some(log), _) => Some(log.clone()),
            (None, true) => None,
            (None, false) => Some(self.folder.join("log").into()),
        };
        if log_place.as_ref() == Some(&home_place) {
            return refused(
                "--member and --log name the same place; leave --log out to keep the log there".into(),
            );
        }
        let pages = self.size_bytes / PAGE_BYTES;
        let home_bytes = Layout::home_bytes_for(pages, self.log_bytes, log_place.is_some());
        let home = self.plan_member(home_place, home_bytes)?;
        let log = log_place.map(|place| self.plan_member(place, log_bytes_with_superblocks(self.log_bytes)));
        Ok(Plan { home, log: log.transpose()? })
    }

    fn check_folder(&self) -> Result<(), VolumeError> {
        let mut entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(PathError::new(&self.folder, "cannot make a volume here", error).into()),
        };
        if self.folder.join(FILE_NAME).exists() {
            let why = format!("{}: a volume is here already; choose another folder", self.folder.display());
            return Err(VolumeError::Refused(why));
        }
        match entries.next() {
            None => Ok(()),
            Some(_) => {
                let why = format!("{}: the folder is not empty; name a new one", self.folder.display());
                Err(VolumeError::Refused(why))
            }
        }
    }

    fn plan_member(&self, place: Place, bytes: u64) -> Result<PlannedMember, VolumeError> {
        let exists = place.path().is_none_or(|path| path.symlink_metadata().is_ok());
        let named = self.destroy.contains(&place);
        if exists && !named {
            let option = match &place {
                Place::Path(path) => format!("--destroy {}", path.display()),
                // A shell has its own ideas of ? and &.
                Place::Nbd(uri) => format!("--destroy '{uri}'"),
            };
            let why = format!("{place}: it exists, and would be overwritten; if that is meant: {option}");
            return Err(VolumeError::Refused(why));
        }
        Ok(PlannedMember { place, bytes, overwrites: exists })
    }
}

/// Files that go again unless everything was made.
#[derive(Default)]
struct Made {
    files: Vec<ScratchFile>,
    folder: Option<PathBuf>,
}

impl Drop for Made {
    fn drop(&mut self) {
        self.files.clear();
        if let Some(folder) = &self.folder {
            let _not_empty_is_fine = fs::remove_dir(folder);
        }
    }
}

/// Makes the volume; `progress` is told what is being done, bytes done and bytes in all. Dropped before its end,
/// it leaves nothing but what it has overwritten.
///
/// # Errors
///
/// As [`Request::plan`]; those of files and devices.
pub async fn create(
    event_loop: &Loop,
    request: &Request,
    mut progress: impl FnMut(&'static str, u64, u64),
) -> Result<Description, VolumeError> {
    let plan = request.plan()?;
    let mut made = Made::default();
    let builder = fs::DirBuilder::new().mode(0o700).create(&request.folder);
    match builder {
        Ok(()) => made.folder = Some(request.folder.clone()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => {
            return Err(PathError::new(&request.folder, "cannot make the folder", error).into());
        }
    }
    let log = match &plan.log {
        Some(log) => Some(
            make_member(event_loop, request, log, &mut made, |done, all| {
                progress("making the log", done, all);
            })
            .await?,
        ),
        None => None,
    };
    let home = make_member(event_loop, request, &plan.home, &mut made, |done, all| {
        progress("making the home member", done, all);
    })
    .await?;
    for drive in log.iter().chain([&home]) {
        // How the server of an export makes writes durable is for it to choose.
        let MemberDrive::File(drive) = drive else { continue };
        let sector = Extent::new(0, u64::from(drive.geometry().sector_bytes));
        // Its first sector becomes a superblock.
        drive.choose_durable_way(sector).await.map_err(|error| engine_error(request, error.into()))?;
    }

    let id = VolumeId(event_loop.random());
    let options = CreateOptions {
        size_bytes: request.size_bytes,
        log_bytes: request.log_bytes,
        atomic_max_bytes: request.atomic_max_bytes,
    };
    progress("writing the log", 0, 1);
    let log_drive = log.as_ref().unwrap_or(&home);
    let written = evenkeel_engine::volume::create(&home, log_drive, log.is_some(), options, id.0).await;
    written.map_err(|source| engine_error(request, source))?;
    let description = Description {
        format: Description::FORMAT,
        id,
        layout: LayoutKind::Single,
        size_bytes: request.size_bytes,
        atomic_max_bytes: request.atomic_max_bytes,
        buffer_bytes: request.buffer_bytes,
        home: describe(request, &plan.home.place, &home),
        log: plan.log.as_ref().zip(log.as_ref()).map(|(plan, log)| describe(request, &plan.place, log)),
    };
    description.write(&request.folder)?;
    made.folder = None;
    for file in made.files.drain(..) {
        file.keep();
    }
    Ok(description)
}

fn engine_error(request: &Request, source: evenkeel_engine::error::Error) -> VolumeError {
    VolumeError::Engine { folder: request.folder.clone(), source }
}

async fn make_member(
    event_loop: &Loop,
    request: &Request,
    member: &PlannedMember,
    made: &mut Made,
    progress: impl FnMut(u64, u64),
) -> Result<MemberDrive, VolumeError> {
    let promises = || member.place.path().is_some_and(promises_atomic_sectors);
    let options = DriveOptions {
        atomic_sectors: request.atomic_sectors.unwrap_or_else(promises),
        keeps_room: !request.sparse,
        ..DriveOptions::default()
    };
    let path = match member.place.path() {
        Some(path) if !is_block_device(path) => path,
        _ => {
            let drive = MemberDrive::open(event_loop, &member.place, options).await?;
            let size_bytes = drive.geometry().size_bytes;
            if size_bytes < member.bytes {
                let (place, needed) = (&member.place, member.bytes);
                let why = format!(
                    "{place}: it has {size_bytes} bytes, and {needed} are needed; choose a smaller --size"
                );
                return Err(VolumeError::Refused(why));
            }
            return Ok(drive);
        }
    };
    if member.overwrites {
        fs::remove_file(path).map_err(|error| PathError::new(path, "cannot replace it", error))?;
    }
    let fill = if request.sparse { Fill::Sparse } else { Fill::Reserved };
    let (drive, guard) =
        FileDrive::create_scratch(event_loop, path, member.bytes, fill, options, progress).await?;
    made.files.push(guard);
    Ok(MemberDrive::File(drive))
}

/// An NVMe drive writes a logical block whole or not at all (its AWUPF is at least one block); of others nothing
/// is known.
fn promises_atomic_sectors(path: &Path) -> bool {
    let below = if path.exists() { Some(path) } else { path.parent() };
    let below = below.map(|path| if path.as_os_str().is_empty() { Path::new(".") } else { path });
    below.and_then(|path| StackProbe::of(path).ok()).is_some_and(|stack| stack.is_nvme())
}

fn describe(request: &Request, place: &Place, drive: &MemberDrive) -> Member {
    let geometry = drive.geometry();
    let (place, durable_way, is_file) = match drive {
        MemberDrive::File(drive) => {
            let path = drive.path();
            let inside = path.strip_prefix(&request.folder).map(Path::to_owned);
            let path =
                inside.unwrap_or_else(|_| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
            (path.into(), Some(drive.durable_way()), !drive.is_block_device())
        }
        MemberDrive::Nbd(_) => (place.clone(), None, false),
    };
    Member {
        place,
        sector_bytes: geometry.sector_bytes,
        atomic_sectors: geometry.atomic_sectors,
        durable_way,
        sparse: request.sparse && is_file,
    }
}
