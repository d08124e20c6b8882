//! Making a volume.
//!
//! 1. Nothing that exists is touched but the files, devices and exports that `destroy` names. An export always exists.
//!    Files among them are overwritten where they are, once the plan has found nothing in the way (`plan.rs`).
//! 2. Whatever ends it halfway (an error, Ctrl-C) leaves no file of its own: the description, without which
//!    nothing counts as a volume, is written last. What was overwritten stays so.
//! 3. Members that are files have all their room, unless they are to be sparse: a full disk below cannot turn an
//!    acknowledged write into an error.
//! 4. No two members or log devices are one drive by two names: what is refused for that is no volume.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use evenkeel_engine::device::{Device, Durability, Extent, Geometry};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::{DeviceError, Error};
use evenkeel_engine::format::PAGE;
use evenkeel_engine::format::layout::SizesBefore;
use evenkeel_engine::options::CreateOptions;
use evenkeel_engine::ring::RingOptions;

use super::VolumeError;
use super::description::{Description, LayoutKind, Member, VolumeId};
use super::fencing::{Opening, Purpose};
use super::member::{MemberDrive, Place};
use super::mirror::{LogDevices, MemberRing};
use super::mirror::{MirrorDrive, Unfit};
use super::plan::same_thing;
pub use super::plan::{Plan, PlannedMember, Request};
use crate::drive::{DriveOptions, FileDrive, Fill};
use crate::durable_file::is_block_device;
use crate::event_loop::Loop;
use crate::path_error::PathError;
use crate::scratch::ScratchFile;

/// Files that go again unless everything was made.
#[derive(Debug, Default)]
pub(super) struct Made {
    files: Vec<ScratchFile>,
    folder: Option<PathBuf>,
}

impl Made {
    /// Everything was made.
    pub(super) fn keep(mut self) {
        self.folder = None;
        self.files.drain(..).for_each(ScratchFile::keep);
    }
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
    let (mut logs, mut members) = (Vec::new(), Vec::new());
    let id = VolumeId(event_loop.random());
    let (opening, unfenced) = (Opening::new(event_loop, id.0), request.unfenced);
    for (place, planned) in plan.logs.iter().enumerate() {
        let (told, purpose) =
            (|done, all| progress("making the log", done, all), opening.log(place, unfenced));
        let log = make_member(event_loop, request, planned, purpose, None, &mut made, told).await?;
        logs.push(Rc::new(log));
    }
    for (place, planned) in plan.members.iter().enumerate() {
        let told = |done, all| progress("making the home member", done, all);
        let purpose = opening.member(place, unfenced);
        let member = make_member(event_loop, request, planned, purpose, None, &mut made, told).await?;
        members.push(Rc::new(member));
    }
    for drive in logs.iter().chain(&members) {
        // How the server of an export makes writes durable is for it to choose.
        let MemberDrive::File(drive) = &**drive else { continue };
        let sector = Extent::new(0, u64::from(drive.geometry().sector_bytes));
        // Its first sector becomes a superblock, or a head.
        drive.choose_durable_way(sector).await.map_err(|error| engine_error(request, error.into()))?;
    }
    let places = plan.logs.iter().chain(&plan.members).map(|planned| &planned.place);
    let drives: Vec<(&Place, &Rc<MemberDrive>)> = places.zip(logs.iter().chain(&members)).collect();
    check_apart(event_loop, request, &drives).await?;
    let described = |plan: &[PlannedMember], drives: &[Rc<MemberDrive>]| {
        let each = plan.iter().zip(drives).map(|(plan, drive)| describe(request, &plan.place, drive));
        each.collect::<Vec<_>>()
    };
    let description = Description {
        id,
        layout: request.layout,
        size_bytes: request.size_bytes,
        atomic_max_bytes: request.atomic_max_bytes,
        buffer_bytes: request.buffer_bytes,
        log_bytes: request.layout.is_ring().then_some(request.log_bytes),
        home_bytes: None,
        sizes_before: SizesBefore::default(),
        members: described(&plan.members, &members),
        logs: described(&plan.logs, &logs),
        tuned: None,
    };
    progress("writing the log", 0, 1);
    let written = write_volume(event_loop, request, &description, &members, &logs).await;
    written.map_err(|source| engine_error(request, source))?;
    description.write(&request.folder)?;
    made.keep();
    Ok(description)
}

/// That no two drives are one, as an export by two names, or an export and the file behind it: each is told which it is,
/// and then asked. What is at their beginning is lost.
async fn check_apart(
    event_loop: &Loop,
    request: &Request,
    drives: &[(&Place, &Rc<MemberDrive>)],
) -> Result<(), VolumeError> {
    let asked = event_loop.random();
    let told = |number: usize| {
        let mut page = [0; PAGE];
        page[..8].copy_from_slice(&asked.to_le_bytes());
        page[8..16].copy_from_slice(&(number as u64).to_le_bytes());
        page
    };
    let failed = |error: DeviceError| engine_error(request, error.into());
    for (number, (_, drive)) in drives.iter().enumerate() {
        drive.write(0, &told(number), Durability::Durable).await.map_err(failed)?;
    }
    for (number, (place, drive)) in drives.iter().enumerate() {
        let mut page = [0; PAGE];
        drive.read(0, &mut page).await.map_err(failed)?;
        if let Some(other) = (0..drives.len()).find(|&other| other != number && page == told(other)) {
            return same_thing(place, drives[other].0);
        }
    }
    Ok(())
}

/// Writes a new volume onto its drives.
async fn write_volume(
    event_loop: &Loop,
    request: &Request,
    description: &Description,
    members: &[Rc<MemberDrive>],
    logs: &[Rc<MemberDrive>],
) -> Result<(), Error> {
    let options = CreateOptions {
        size_bytes: request.size_bytes,
        log_bytes: request.log_bytes,
        atomic_max_bytes: request.atomic_max_bytes,
    };
    let id = description.id.0;
    if request.layout == LayoutKind::Single {
        let log = logs.first().unwrap_or(&members[0]);
        return evenkeel_engine::volume::create(&*members[0], &**log, !logs.is_empty(), options, id).await;
    }
    let alike = |drives: &[Rc<MemberDrive>], geometry: Geometry| {
        let each = drives.iter().map(|drive| MirrorDrive::new(Rc::clone(drive), geometry).map(Some));
        each.collect::<Result<Vec<_>, Unfit>>().map_err(|unfit| Error::Unusable(unfit.why))
    };
    let ring = description.ring_options(RingOptions::default());
    let members = alike(members, description.member_geometry())?;
    let home = MemberRing::new(event_loop.clone(), members, ring)?;
    let logs = alike(logs, description.log_geometry())?;
    let log = LogDevices::new(event_loop.clone(), logs, home.clone(), ring.answer_max_ns)?;
    evenkeel_engine::volume::create(&home, &log, true, options, id).await
}

impl Request {
    /// How the drive at `place` is opened before anything describes it.
    pub(super) fn options_of(&self, place: &Place) -> DriveOptions {
        DriveOptions {
            atomic_sectors: self.takes_sectors_for_atomic(place),
            keeps_room: !self.sparse,
            ..DriveOptions::default()
        }
    }
}

fn engine_error(request: &Request, source: Error) -> VolumeError {
    match source {
        Error::Unusable(why) | Error::Unsuited(why) => {
            VolumeError::Refused(format!("{}: cannot make the volume: {why}", request.folder.display()))
        }
        source => VolumeError::Engine { folder: request.folder.clone(), source },
    }
}

/// Makes or opens what a member is to be on; a file that is made has the owner, the group and the mode of `like`.
pub(super) async fn make_member(
    event_loop: &Loop,
    request: &Request,
    member: &PlannedMember,
    purpose: Purpose,
    like: Option<&Metadata>,
    made: &mut Made,
    progress: impl FnMut(u64, u64),
) -> Result<MemberDrive, VolumeError> {
    let options = request.options_of(&member.place);
    let path = match member.place.path() {
        Some(path) if !is_block_device(path) => path,
        _ => {
            let drive = MemberDrive::open(event_loop, &member.place, options, purpose).await?;
            let size_bytes = drive.geometry().size_bytes;
            member.check_size(size_bytes)?;
            return Ok(drive);
        }
    };
    let fill = if request.sparse { Fill::Sparse } else { Fill::Reserved };
    if member.overwrites {
        let drive = FileDrive::overwrite(event_loop, path, member.bytes, fill, options).await?;
        return Ok(MemberDrive::File(drive));
    }
    let (drive, guard) =
        FileDrive::create_scratch_like(event_loop, path, member.bytes, fill, options, like, progress).await?;
    made.files.push(guard);
    Ok(MemberDrive::File(drive))
}

/// What the description of the volume says of a drive.
pub(super) fn describe(request: &Request, place: &Place, drive: &MemberDrive) -> Member {
    let geometry = drive.geometry();
    let (place, durable_way, is_file) = match drive {
        MemberDrive::File(drive) => {
            let path = drive.path();
            let inside = path.strip_prefix(&request.folder).map(Path::to_owned);
            let path =
                inside.unwrap_or_else(|_| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
            (path.into(), Some(drive.durable_way()), !drive.is_block_device())
        }
        _ => (place.clone(), None, false),
    };
    Member {
        place,
        sector_bytes: geometry.sector_bytes,
        atomic_sectors: geometry.atomic_sectors,
        durable_way,
        sparse: request.sparse && is_file,
        unfenced: request.unfenced && matches!(drive, MemberDrive::Nbd(_)),
    }
}
