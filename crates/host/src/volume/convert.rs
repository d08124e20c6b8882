//! Another layout for a volume: all of it is copied to new members, and then its description names those.
//!
//! ```text
//!  VOL/volume.toml  ──► old members ─────────── read, checked ──┐
//!  VOL/.evenkeel-convert-PID/volume.toml ──► new members ◄───────── written, home, closed
//!  the second folder goes; VOL/volume.toml names the new members
//! ```
//!
//! 1. Until the description is written anew, durably, the volume is what it was: an error, Ctrl-C or a power cut leaves it so. Files
//!    that were made for it go then, but after a kill or a power cut.
//! 2. The old members are opened and closed in order, and else only read. They stay.
//! 3. Nothing that exists is overwritten unless it was named for it, as by [`create`]; and never what holds the volume: it is
//!    open, and so in use, before anything is made.
//! 4. The new members have another number than the old ones: no mixture of both is ever opened.
//! 5. While the volume is served, whoever wants it makes the new members ([`make_conversion`]), and the server copies
//!    (`convert_served`).

use std::cell::RefCell;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use evenkeel_engine::conversion::{CopyError, CopyProgress, VolumeCopy};
use evenkeel_engine::options::OpenOptions;
use evenkeel_engine::ring::{Policy, RingOptions};

use super::arenas::Arenas;
use super::create::create;
use super::description::{Description, FILE_NAME, Member};
use super::member::Place;
use super::plan::{Inode, Plan, PlannedMember, Request};
use super::replace::Replacing;
use super::{LockedVolume, OpenVolume, RunOptions, SwitchedVolume, VolumeError};
use crate::durable_file::is_block_device;
use crate::event_loop::Loop;
use crate::path_error::PathError;
use crate::scratch::{give, settle_folder};
use crate::stack::mounts::mount_of;

/// How the name of the folder begins in which the new volume is described until it is whole; the number of the process
/// follows.
pub(super) const PREFIX: &str = ".evenkeel-convert-";

/// Files that go unless the conversion came to its end.
#[derive(Debug)]
struct NewFiles {
    folder: PathBuf,
    files: Vec<PathBuf>,
}

impl NewFiles {
    fn of(request: &Request, plan: &Plan) -> Self {
        let new_files = plan.places().filter(|planned| !planned.overwrites);
        let files = new_files.filter_map(|planned| planned.place.path().map(Path::to_owned)).collect();
        Self { folder: request.folder.clone(), files }
    }

    /// Has them belong to the user who serves the volume in `folder`.
    fn give_to_owner_of(&self, folder: &Path) -> Result<(), VolumeError> {
        let described = folder.join(FILE_NAME);
        let like = described.metadata().map_err(|error| PathError::new(&described, "cannot find", error))?;
        let new_description = self.folder.join(FILE_NAME);
        for path in self.files.iter().chain([&new_description]) {
            let given = File::options().write(true).open(path).and_then(|file| give(&file, &like));
            given.map_err(|error| PathError::new(path, "cannot give to the volume's owner", error))?;
        }
        let given = chown(&self.folder, Some(like.uid()), Some(like.gid()));
        Ok(given.map_err(|error| PathError::new(&self.folder, "cannot give to the volume's owner", error))?)
    }

    fn keep(mut self) {
        self.files.clear();
    }
}

impl Drop for NewFiles {
    fn drop(&mut self) {
        for file in &self.files {
            let _gone_already_is_fine = fs::remove_file(file);
        }
        let _gone_already_is_fine = fs::remove_dir_all(&self.folder);
    }
}

/// The new volume, which nobody is to have unless its conversion comes to its end.
pub(super) struct NewVolume(Option<OpenVolume>);

impl NewVolume {
    pub(super) fn new(open: OpenVolume) -> Self {
        Self(Some(open))
    }

    pub(super) fn get(&self) -> &OpenVolume {
        self.0.as_ref().expect("it is there until it is closed")
    }

    /// Closes it: from then on it is one to be had.
    ///
    /// # Errors
    ///
    /// As [`OpenVolume::close`].
    pub(super) async fn close(mut self) -> Result<(), VolumeError> {
        self.0.take().expect("as above").close_with_arena().await
    }
}

impl Drop for NewVolume {
    fn drop(&mut self) {
        if let Some(open) = self.0.take() {
            open.forget();
        }
    }
}

/// What was converted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    /// How the volume is described now.
    pub description: Description,
    /// The members and log devices that it had, which hold what it held and are no longer used.
    pub before: Vec<Place>,
    /// Pages that had contents.
    pub pages: u64,
}

/// What the conversion of the volume in `folder`, described so, takes for `request`, whose folder is of no account. Nothing is
/// written.
///
/// # Errors
///
/// As [`Request::plan`]; where there is no such size.
pub fn plan_conversion(
    folder: &Path,
    description: &Description,
    request: &Request,
) -> Result<(Request, Plan), VolumeError> {
    let at = folder.canonicalize().map_err(|error| PathError::new(folder, "cannot find", error))?;
    let inside = |name: &str, count: usize| -> Vec<Place> {
        (0..count).map(|number| Place::from(at.join(format!("{name}-{number}")))).collect()
    };
    let mut request = Request {
        folder: at.join(format!("{PREFIX}{}", std::process::id())),
        size_bytes: description.size_bytes,
        atomic_max_bytes: description.atomic_max_bytes,
        buffer_bytes: description.buffer_bytes,
        ..request.clone()
    };
    let (members, logs) = match (request.layout.is_ring(), request.layout.striped()) {
        (false, _) => (vec![Place::from(at.join("home"))], vec![Place::from(at.join("log"))]),
        (true, None) => (inside("member", 2), inside("log", request.members.len().max(2))),
        (true, Some(it)) => (inside("member", it.stripes.members()), inside("log", it.stripes.parity() + 1)),
    };
    // A block device that is the one member has the log, too, unless another place is named.
    let is_device = |place: &Place| place.path().is_some_and(is_block_device);
    let is_on_device = !request.layout.is_ring() && request.members.first().is_some_and(is_device);
    if request.members.is_empty() {
        request.members = members;
    }
    if request.logs.is_empty() && !request.log_on_members && !is_on_device {
        request.logs = logs;
    }
    if let Some(place) = request.members.iter().chain(&request.logs).find(|place| is_on_volume(place, &at)) {
        return Err(VolumeError::Refused(format!(
            "{place}: it is on the file system of this very volume, which would wait for itself; name another place"
        )));
    }
    let plan = request.plan()?;
    let is_inside = |place: &Place| place.path().is_some_and(|path| path.starts_with(&request.folder));
    if let Some(planned) = plan.places().find(|planned| is_inside(&planned.place)) {
        return Err(VolumeError::Refused(format!(
            "{} is in a folder that the conversion removes at its end; name another place",
            planned.place
        )));
    }
    let held: Vec<Place> = description
        .members
        .iter()
        .chain(&description.logs)
        .map(|member| member.place.within(folder))
        .collect();
    let found = plan.places().find(|planned| held.iter().any(|held| is_same(held, &planned.place)));
    if let Some(PlannedMember { place, .. }) = found {
        let why = format!("{place}: it holds the volume that is to be copied; name another place");
        return Err(VolumeError::Refused(why));
    }
    Ok((request, plan))
}

/// New members for a volume that is served, made and described in a folder of their own. They go unless they are kept.
#[derive(Debug)]
pub struct Conversion {
    request: Request,
    made: NewFiles,
}

impl Conversion {
    /// The folder, for the server.
    pub fn folder(&self) -> &Path {
        &self.request.folder
    }

    /// They are the volume's by now, or may be.
    pub fn keep(self) {
        self.made.keep();
    }
}

/// Makes new members for the volume in `folder`, which another process serves. `progress` as for [`create`].
///
/// # Errors
///
/// As [`plan_conversion`]; those of the drives.
pub async fn make_conversion(
    event_loop: &Loop,
    folder: &Path,
    description: &Description,
    request: &Request,
    progress: impl FnMut(&'static str, u64, u64),
    _nobody_else_does: &Replacing,
) -> Result<Conversion, VolumeError> {
    remove_left_behind(folder);
    let (request, plan) = plan_conversion(folder, description, request)?;
    create(event_loop, &request, progress).await?;
    let conversion = Conversion { made: NewFiles::of(&request, &plan), request };
    conversion.made.give_to_owner_of(folder)?;
    Ok(conversion)
}

impl LockedVolume {
    /// Copies all of it to new members, laid out as `request` says, and has it described so. `progress` is told what is being
    /// done, bytes done and bytes in all. Dropped before its end, it leaves the volume as it was.
    ///
    /// # Errors
    ///
    /// As [`plan_conversion`] and [`Self::open`]; those of the drives. Then the volume is what it was.
    pub async fn convert(
        self,
        event_loop: &Loop,
        request: &Request,
        mut progress: impl FnMut(&'static str, u64, u64),
    ) -> Result<Converted, VolumeError> {
        let folder = self.folder().to_owned();
        remove_left_behind(&folder);
        let (request, plan) = plan_conversion(&folder, &self.description(), request)?;
        // Nobody else reads meanwhile, who would be spared by turns.
        let ring = RingOptions { policy: Policy::Mixed, ..RingOptions::default() };
        let run = RunOptions { volume: OpenOptions::default(), ring, keeps_writes: false };
        let before = self.description();
        // First, and kept open: what is in use is not overwritten, by whatever name.
        let old = self.open(event_loop, run).await?;
        create(event_loop, &request, &mut progress).await?;
        let made = NewFiles::of(&request, &plan);
        let new = NewVolume::new(OpenVolume::open(event_loop, &request.folder, run).await?);
        // Nobody writes meanwhile.
        let (from, to) = (SwitchedVolume::new(old.volume.clone()), new.get().volume.clone());
        let progress = RefCell::new(progress);
        let copying = VolumeCopy::begin(event_loop.clone(), &from, to).await;
        let tell = |at: CopyProgress| progress.borrow_mut()("copying", at.done_bytes, at.all_bytes);
        let copied = copying.copy(u64::MAX, &tell).await;
        drop(copying);
        let pages = copied.map_err(|(CopyError::Old(source) | CopyError::New(source))| {
            VolumeError::Engine { folder: folder.clone(), source }
        })?;
        let described = old.described();
        let description = moved(new.get().description(), &request.folder, &folder)?;
        // The new one first: as long as it is not whole, the old one is what there is.
        new.close().await?;
        old.close().await?;
        fs::remove_dir_all(&request.folder)
            .and_then(|()| settle_folder(&folder))
            .map_err(|error| PathError::new(&request.folder, "cannot remove", error))?;
        let changed = described.change(|now| now.clone_from(&description));
        if let Ok(()) | Err(VolumeError::Undescribed(_)) = changed {
            made.keep();
        }
        changed?;
        let before = before.members.into_iter().chain(before.logs).map(|member| member.place).collect();
        Ok(Converted { description, before, pages })
    }
}

/// Whether a file there would be on the file system that the volume in the folder `at` is mounted as.
fn is_on_volume(place: &Place, at: &Path) -> bool {
    let path = place.path().and_then(|path| std::path::absolute(path).ok());
    let there = path.and_then(|path| path.ancestors().find_map(|it| it.canonicalize().ok()));
    let mount = there.and_then(|there| mount_of(&there).ok());
    mount.is_some_and(|mount| mount.file_system.starts_with("fuse") && Path::new(&mount.source) == at)
}

/// Whether two places are one.
fn is_same(one: &Place, other: &Place) -> bool {
    match (one.path(), other.path()) {
        (Some(one), Some(other)) => Inode::of(one).is_some_and(|inode| Inode::of(other) == Some(inode)),
        _ => one == other,
    }
}

/// Removes what a kill left of other conversions: whoever holds the lock of the volume is the only one.
fn remove_left_behind(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let named = entries.filter(|it| it.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)));
    for entry in named {
        if let Ok((description, _)) = Description::read(&entry.path()) {
            // Nobody is to have what is in memory of it.
            Arenas::of(&entry.path(), &description).remove();
        }
        let _it_is_in_nobodys_way = fs::remove_dir_all(entry.path());
    }
}

/// The same description in another folder: places below that are relative to it.
pub(super) fn moved(description: Description, from: &Path, to: &Path) -> Result<Description, VolumeError> {
    let to = to.canonicalize().map_err(|error| PathError::new(to, "cannot find", error))?;
    let place = |member: Member| {
        let place = match member.place.within(from).path() {
            Some(path) => Place::from(path.strip_prefix(&to).unwrap_or(path).to_owned()),
            None => member.place.clone(),
        };
        Member { place, ..member }
    };
    let members = description.members.into_iter().map(place).collect();
    let logs = description.logs.into_iter().map(place).collect();
    Ok(Description { members, logs, ..description })
}
