//! Putting another drive in the place of a mirror's member or log device.
//!
//! 1. What exists is overwritten only where it was named for that, as by [`super::create`]; so it is with what was this
//!    very member and is its own again. A file of it that is gone, or was cut short, is made as a new one is.
//! 2. What can refuse is asked before the new one is touched: the new one, its server or the volume itself.
//! 3. The last member, or log device, that holds everything is not given up. What says of itself that it is another
//!    member of this volume is not overwritten, by whatever name: it may be that one.
//! 4. The description names the new one once it is initialised: a cut before that leaves the old one, which is taken for
//!    stale where it lacks anything. Whoever asks for the same again gets it: what was initialised and is not rebuilt holds
//!    nothing, and is known by its head; once it is described, nothing is left to do.
//! 5. A volume that nobody serves is opened once nothing is known to keep the replacement from being done: what is
//!    refused before leaves every device as it was, and who is away still counts.
//! 6. One at a time looks and does it ([`Replacing`]), and a server does one at a time: the others are told, and have
//!    overwritten nothing.

use std::fmt::Display;
use std::fs::{File, Metadata};
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use evenkeel_engine::device::{Device, Extent, Geometry};
use evenkeel_engine::error::Error;
use evenkeel_engine::layout::mirror::Rejoined;
use evenkeel_engine::layout::mirror::log_devices::found_log;
use evenkeel_engine::options::OpenOptions;
use evenkeel_engine::ring::{Policy, RingOptions};
use evenkeel_engine::volume::Identity;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use super::create::{Made, Request, describe, make_member};
use super::described::Described;
use super::description::{Description, Member, VolumeId};
use super::fencing::{Opening, Purpose};
use super::label::{LABELS_BYTES, Label, labels};
use super::member::{MemberDrive, Place, open_patiently};
use super::mirror::{LEAVING, Mirror, MirrorDrive, NotTaken};
use super::owner::owned_file;
use super::plan::{Inode, Plan, PlannedMember};
use super::slot::Slot;
use super::{Below, LockedVolume, OpenVolume, RunOptions, VolumeError};
use crate::drive::{DriveOptions, FileDrive};
use crate::event_loop::Loop;
use crate::path_error::PathError;
use crate::remedy::Remedy;

/// The right to replace something of a volume or to convert it, which one process has at a time: what another makes or overwrites meanwhile
/// would be for nothing.
#[derive(Debug)]
pub struct Replacing {
    _lock: Option<File>,
}

impl Replacing {
    /// Takes the lock, where there is such a folder. `again` is what to do once another one has ended.
    ///
    /// # Errors
    ///
    /// [`VolumeError::Refused`] while another process has it; that of the system where it cannot be told.
    pub fn begin(folder: &Path, again: impl Display) -> Result<Self, VolumeError> {
        let Ok(file) = File::open(folder) else { return Ok(Self { _lock: None }) };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _lock: Some(file) }),
            Err(rustix::io::Errno::WOULDBLOCK) => refused(format!(
                "{}: another replacement or conversion is at work there; {again} once that has ended",
                folder.display()
            )),
            Err(error) => Err(PathError::new(folder, "cannot lock", error.into()).into()),
        }
    }
}

/// What is to be replaced, and by what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// The member or log device.
    pub old: Place,
    /// What takes its place.
    pub new: Place,
    /// Existing files, devices and exports that may be overwritten.
    pub destroy: Vec<Place>,
    /// Whether a new file takes room only where something is written.
    pub sparse: bool,
    /// What is promised of sectors that a power cut interrupts; `None` asks the device.
    pub atomic_sectors: Option<bool>,
    /// Whether its owner answers for a new export whose server cannot keep earlier writers from it.
    pub unfenced: bool,
}

/// What takes whose place: all that a server has to be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replacement {
    /// Which place.
    pub slot: Slot,
    /// What is there so far: that nobody replaces another.
    pub old: Place,
    /// What comes there.
    pub new: Member,
    /// Whether what it holds may be lost.
    pub may_overwrite: bool,
}

/// What a server is asked before a [`Replacement`] costs anybody anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Which place.
    pub slot: Slot,
    /// What is there so far.
    pub old: Place,
    /// What comes there, if it exists and is to be overwritten before the server gets it.
    pub new: Option<Member>,
}

/// A replacement that nothing is known to keep from being done. What is made for it goes again unless it is kept.
#[derive(Debug)]
pub struct Prepared {
    slot: Slot,
    old: Place,
    may_overwrite: bool,
    new: New,
    made: Made,
    has_overwritten: bool,
}

/// What takes the place.
#[derive(Debug)]
enum New {
    /// It is as it has to be.
    Ready(Member),
    /// It has to be made.
    Planned(Box<Planned>),
}

/// A file that is still to be made, or a file or device that is to be overwritten.
#[derive(Debug)]
struct Planned {
    request: Request,
    member: PlannedMember,
    geometry: Geometry,
    /// What is there, if something is.
    found: Option<Member>,
    /// A file of the user who serves the volume, whose a file that is made will be.
    like: Option<Metadata>,
}

impl Prepared {
    /// What its server has to know beforehand.
    pub fn question(&self) -> Question {
        let new = match &self.new {
            New::Ready(_) => None,
            New::Planned(planned) => planned.found.clone(),
        };
        Question { slot: self.slot, old: self.old.clone(), new }
    }

    /// Whether a file will be made: that takes its time, and nobody is the worse for it if it is given up.
    pub fn makes_file(&self) -> bool {
        matches!(&self.new, New::Planned(planned) if planned.found.is_none())
    }

    /// Whether something was overwritten by now, or was to be.
    pub fn has_overwritten(&self) -> bool {
        self.has_overwritten
    }

    /// Makes or overwrites what takes the place, unless that is done. `progress` is told bytes done and bytes in all.
    ///
    /// # Errors
    ///
    /// As [`super::create::create`].
    pub async fn make(
        &mut self,
        event_loop: &Loop,
        progress: impl FnMut(u64, u64),
    ) -> Result<Replacement, VolumeError> {
        let new = match &self.new {
            New::Ready(new) => new.clone(),
            New::Planned(planned) => {
                let Planned { request, member, geometry, like, .. } = &**planned;
                self.has_overwritten = member.overwrites;
                let (purpose, made) = (Purpose::Look, &mut self.made);
                let drive =
                    make_member(event_loop, request, member, purpose, like.as_ref(), made, progress).await?;
                if let MemberDrive::File(file) = &drive {
                    let sector = Extent::new(0, u64::from(file.geometry().sector_bytes));
                    let chosen = file.choose_durable_way(sector).await;
                    chosen.map_err(|source| engine_error(&request.folder, source.into()))?;
                }
                fits(&member.place, drive.geometry(), *geometry)?;
                let new = describe(request, &member.place, &drive);
                drop(drive);
                let_go(event_loop, &member.place).await;
                new
            }
        };
        self.new = New::Ready(new.clone());
        Ok(self.replacement(new))
    }

    fn replacement(&self, new: Member) -> Replacement {
        let (slot, old, may_overwrite) = (self.slot, self.old.clone(), self.may_overwrite);
        Replacement { slot, old, new, may_overwrite }
    }

    /// It is done, or may be: what was made stays.
    pub fn keep(&mut self) {
        std::mem::take(&mut self.made).keep();
    }

    /// That nothing is known to keep it from being done: the volume is not open yet, and nothing is written.
    async fn check(
        &self,
        folder: &Path,
        description: &Description,
        mirror: &Mirror,
        identity: &Identity,
    ) -> Result<(), VolumeError> {
        let others = mirror.check_others_of(self.slot, identity).await;
        others.map_err(|source| engine_error(folder, source))?;
        match &self.new {
            New::Ready(new) if new.place == self.old => {
                let drive = mirror.held(self.slot)?;
                check_drive(description, &*drive, &self.replacement(new.clone())).await
            }
            // It was made for this, or its export looked at.
            New::Ready(_) => Ok(()),
            New::Planned(planned) => match &planned.found {
                Some(found) => mirror.try_open(folder, found).await,
                None => Ok(()),
            },
        }
    }
}

fn refused<T>(why: String) -> Result<T, VolumeError> {
    Err(VolumeError::Refused(why))
}

/// That a drive can be taken for one of `geometry`.
fn fits(new: &Place, found: Geometry, geometry: Geometry) -> Result<(), VolumeError> {
    MirrorDrive::check(found, geometry).map_err(|unfit| unfit.at(new))
}

impl Wish {
    /// What a server is asked of a place alone, where another one is to take it.
    pub fn question(&self, folder: &Path, description: &Description) -> Option<Question> {
        let slot = find(folder, description, &self.old)?;
        let is_itself = find(folder, description, &self.new) == Some(slot);
        (!is_itself).then(|| Question { slot, old: slot.of(description).place.clone(), new: None })
    }

    /// Looks at what is to take the place, without writing anything; the volume may be served meanwhile. `None` where the
    /// new one has a place and the old one has none: that was done before.
    ///
    /// # Errors
    ///
    /// As [`Request::plan`]; where there is nothing to replace; where it is, or seems to be, another member.
    pub async fn prepare(
        &self,
        event_loop: &Loop,
        folder: &Path,
        description: &Description,
    ) -> Result<Option<Prepared>, VolumeError> {
        if !description.layout.is_ring() {
            return refused(format!(
                "{}: layout single has nothing to copy to another member; copy its file while it is not served, and change \
                 volume.toml",
                folder.display()
            ));
        }
        let new_slot = find(folder, description, &self.new);
        let Some(slot) = find(folder, description, &self.old) else {
            if new_slot.is_some() {
                return Ok(None);
            }
            let names: Vec<String> = places(description).map(|(_, place)| place.to_string()).collect();
            let (old, names) = (&self.old, names.join(", "));
            return refused(format!("{old}: no member or log device has that name; there are {names}"));
        };
        let current = slot.of(description);
        let prepared = |new: New, may_overwrite: bool| {
            Some(Prepared {
                slot,
                old: current.place.clone(),
                may_overwrite,
                new,
                made: Made::default(),
                has_overwritten: false,
            })
        };
        let is_itself = new_slot == Some(slot);
        if new_slot.is_some() && !is_itself {
            let kind = new_slot.map_or("member", Slot::kind);
            return refused(format!("{}: it is a {kind} of this volume already; name another", self.new));
        }
        let geometry = slot.geometry(description);
        let like = owned_file(folder, description, &current.place);
        let mut request = Request {
            sparse: self.sparse,
            atomic_sectors: self.atomic_sectors,
            unfenced: self.unfenced,
            destroy: self.destroy.clone(),
            ..Request::new(folder, description.size_bytes)
        };
        let place = if is_itself { current.place.within(folder) } else { self.new.clone() };
        if is_itself {
            let is_named = |named: &Place| *named == self.new || is_same(folder, &current.place, named);
            if !is_same(folder, &current.place, &self.new) && self.new.path().is_some_and(Path::exists) {
                return refused(format!(
                    "{}: the volume's {} has that name, and so has what is there from here; say which by its whole path",
                    self.new,
                    slot.kind()
                ));
            }
            let may_overwrite = self.destroy.iter().any(is_named);
            let is_own = match remains(event_loop, folder, description, slot).await {
                Remains::Whole => {
                    let unfenced = current.unfenced || self.unfenced && current.place.path().is_none();
                    let itself = Member { unfenced, ..current.clone() };
                    return Ok(prepared(New::Ready(itself), may_overwrite));
                }
                Remains::Short { is_own } => is_own,
                Remains::Nothing => false,
            };
            if may_overwrite || is_own {
                request.destroy.push(place.clone());
            }
            // As it was, unless it is told otherwise.
            request.sparse |= current.sparse;
            request.atomic_sectors = self.atomic_sectors.or(Some(current.atomic_sectors));
        } else if self.is_begun(event_loop, description).await {
            request.destroy.push(self.new.clone());
        }
        let planned = request.plan_member(place, geometry.size_bytes, None)?;
        if !request.sparse {
            Plan { layout: description.layout, members: vec![planned.clone()], logs: Vec::new() }
                .check_room()?;
        }
        if !planned.overwrites {
            let planned = Planned { request, member: planned, geometry, found: None, like };
            return Ok(prepared(New::Planned(planned.into()), true));
        }
        let options = request.options_of(&planned.place);
        let drive = MemberDrive::open(event_loop, &planned.place, options, Purpose::Look).await?;
        let mut found = drive.geometry();
        match &drive {
            MemberDrive::File(file) if !file.is_block_device() => found.size_bytes = planned.bytes,
            _ => planned.check_size(found.size_bytes)?,
        }
        fits(&self.new, found, geometry)?;
        check_labels(description, &labels(&drive).await, is_itself.then_some(slot), &self.new)?;
        drive.check_writes(&planned.place)?;
        let found = describe(&request, &planned.place, &drive);
        let is_file = matches!(drive, MemberDrive::File(_));
        drop(drive);
        let new = match is_file {
            true => {
                let_go(event_loop, &planned.place).await;
                New::Planned(Planned { request, member: planned, geometry, found: Some(found), like }.into())
            }
            // Whoever puts it there is the first to write to it.
            false => New::Ready(found),
        };
        Ok(prepared(new, true))
    }

    /// Whether the new one was made a member of this volume, and not described or rebuilt before a cut.
    async fn is_begun(&self, event_loop: &Loop, description: &Description) -> bool {
        let Some(path) = self.new.path() else { return false };
        // A server that was killed while it copied may hold it a little longer.
        let options = DriveOptions { read_only: true, busy_timeout: LEAVING, ..DriveOptions::default() };
        let Ok(drive) = open_patiently(event_loop, path, options).await else { return false };
        let found = labels(&drive).await;
        !found.is_empty() && found.iter().all(|label| label.volume == description.id.0 && label.is_blank)
    }
}

/// Waits until this process lets go of what it had open there: a server opens it next, and waits for that. What was read or
/// written is let go as this loop runs, and nobody runs it while the server is asked.
async fn let_go(event_loop: &Loop, place: &Place) {
    let Some(path) = place.path() else { return };
    let options = DriveOptions { read_only: true, ..DriveOptions::default() };
    // Whoever else has it is found out by the server.
    let _free_or_not = open_patiently(event_loop, path, options).await;
}

/// What is left of a member or log device that is to take its own place again.
enum Remains {
    /// It, or something else, as large as it has to be; or what cannot be looked at from here, as its server has it.
    Whole,
    /// A file that is too small.
    Short {
        /// Whether it says that it is what was there.
        is_own: bool,
    },
    /// No file.
    Nothing,
}

/// Looks at what is left of the one at `slot`.
async fn remains(event_loop: &Loop, folder: &Path, description: &Description, slot: Slot) -> Remains {
    let Place::Path(path) = slot.of(description).place.within(folder) else { return Remains::Whole };
    if path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return Remains::Nothing;
    }
    let options = DriveOptions { read_only: true, busy_timeout: Duration::ZERO, ..DriveOptions::default() };
    match FileDrive::open(event_loop, &path, options) {
        Ok(file)
            if !file.is_block_device()
                && file.geometry().size_bytes < slot.geometry(description).size_bytes =>
        {
            let found = labels(&file).await;
            Remains::Short { is_own: found.iter().any(|label| is_own(description, slot, label)) }
        }
        _ => Remains::Whole,
    }
}

/// Whether this is said by the member or log device that `slot` speaks of.
fn is_own(description: &Description, slot: Slot, label: &Label) -> bool {
    let places = match slot {
        Slot::Member(_) => description.members.len(),
        Slot::Log(_) => description.logs.len(),
    };
    (label.volume, label.slot, label.places) == (description.id.0, slot, places)
}

/// That nothing there says it is a member or log device of this volume that holds anything, but for the one at `own`.
fn check_labels(
    description: &Description,
    found: &[Label],
    own: Option<Slot>,
    new: &Place,
) -> Result<(), VolumeError> {
    let is_other =
        |label: &&Label| label.volume == description.id.0 && !label.is_blank && Some(label.slot) != own;
    let Some(label) = found.iter().find(is_other) else { return Ok(()) };
    let name = label.slot.name(description);
    refused(format!(
        "{new}: it seems to be {name} of this very volume, by another name: bring it back there, or name another; if it \
         was replaced, and what it holds may be lost, zero its first {LABELS_BYTES} bytes before"
    ))
}

impl Slot {
    /// What all at such places offer.
    fn geometry(self, description: &Description) -> Geometry {
        match self {
            Self::Member(_) => description.member_geometry(),
            Self::Log(_) => description.log_geometry(),
        }
    }

    /// What the description calls it, if it has such a place.
    pub(super) fn name(self, description: &Description) -> String {
        let (described, place) = match self {
            Self::Member(place) => (description.members.get(place), place),
            Self::Log(place) => (description.logs.get(place), place),
        };
        described.map_or_else(|| format!("{} {place}", self.kind()), |described| described.place.to_string())
    }

    /// What it is one of.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Member(_) => "member",
            Self::Log(_) => "log device",
        }
    }

    fn of(self, description: &Description) -> &Member {
        match self {
            Self::Member(place) => &description.members[place],
            Self::Log(place) => &description.logs[place],
        }
    }

    fn of_mut(self, description: &mut Description) -> Option<&mut Member> {
        match self {
            Self::Member(place) => description.members.get_mut(place),
            Self::Log(place) => description.logs.get_mut(place),
        }
    }
}

/// All members and log devices.
fn places(description: &Description) -> impl Iterator<Item = (Slot, &Place)> {
    let members = description.members.iter().enumerate();
    let members = members.map(|(place, member)| (Slot::Member(place), &member.place));
    let logs = description.logs.iter().enumerate().map(|(place, log)| (Slot::Log(place), &log.place));
    members.chain(logs)
}

/// Which of them has that name: as the description has it, or as it is seen from here.
fn find(folder: &Path, description: &Description, named: &Place) -> Option<Slot> {
    let by_name = places(description).find(|(_, place)| *place == named);
    let found = by_name.or_else(|| places(description).find(|(_, place)| is_same(folder, place, named)));
    found.map(|(slot, _)| slot)
}

/// Whether a place of the description is one that is named from here.
fn is_same(folder: &Path, described: &Place, named: &Place) -> bool {
    match (described.within(folder), named) {
        (Place::Path(described), Place::Path(named)) => {
            // A hard link, a bind mount or another node of a device is the same thing, too.
            if Inode::of(&described).is_some_and(|found| Inode::of(named) == Some(found)) {
                return true;
            }
            let whole = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
            whole(&described).is_some_and(|described| whole(named) == Some(described))
        }
        (described, named) => described == *named,
    }
}

/// Why the description does not name a log device that has everything.
fn undescribed(error: &VolumeError) -> Error {
    Error::Unusable(error.to_string())
}

fn engine_error(folder: &Path, source: Error) -> VolumeError {
    match source {
        Error::Unusable(why) | Error::Unsuited(why) => {
            VolumeError::Refused(format!("{}: {why}", folder.display()))
        }
        source => VolumeError::Engine { folder: folder.to_owned(), source },
    }
}

/// Replaces members of an open mirror. A clone is another handle to the same.
#[derive(Debug, Clone)]
pub struct Replacer {
    described: Rc<Described>,
    /// Of whom the members are that it replaces.
    volume: VolumeId,
    mirror: Mirror,
}

impl OpenVolume {
    /// Who replaces its members, if it has several.
    pub fn replacer(&self) -> Option<Replacer> {
        let mirror = self.mirror()?.clone();
        Some(Replacer { described: Rc::clone(&self.described), volume: self.description().id, mirror })
    }
}

impl Replacer {
    /// Whether a member or log device can be replaced now, as far as is known before anything is touched.
    ///
    /// # Errors
    ///
    /// As [`Self::replace`].
    pub async fn consider(&self, question: &Question) -> Result<(), VolumeError> {
        let folder = self.described.folder();
        check_slot(folder, &self.described.description(), question.slot, &question.old)?;
        let can_go = match question.slot {
            Slot::Member(place) => self.mirror.check_others(place),
            Slot::Log(place) => {
                let by_itself = question.new.as_ref().is_some_and(|new| new.place == question.old);
                self.mirror.check_log_can_go(place, by_itself)
            }
        };
        can_go.map_err(|source| engine_error(folder, source))?;
        match &question.new {
            Some(new) => self.mirror.try_open(folder, new).await,
            None => Ok(()),
        }
    }

    /// Puts another drive in the place of a member, while the volume is used; its rebuild begins. A log device keeps its place
    /// until the other one has everything: from here on it is copied to.
    ///
    /// # Errors
    ///
    /// Where it cannot be replaced now, or the new one cannot be had; then the old one stays in its place. With
    /// [`VolumeError::Undescribed`] it is replaced: the new one is in use.
    pub async fn replace(&self, replacement: &Replacement) -> Result<(), VolumeError> {
        let _nobody_else_does = self.mirror.replacing.take().await;
        let (folder, slot) = (self.described.folder(), replacement.slot);
        let (new, description) = (&replacement.new, self.described.description());
        check_slot(folder, &description, slot, &replacement.old)?;
        let drive = self.mirror.open_new(folder, slot, new, &replacement.old).await?;
        check_drive(&description, &drive, replacement).await?;
        let replaced = match slot {
            Slot::Member(place) => self.mirror.replace_member(place, &new.place, drive).await,
            Slot::Log(place) => {
                let (by, replacement) = (self.clone(), replacement.clone());
                let describe = move || by.describe(&replacement).map_err(|error| undescribed(&error));
                let begun = self.mirror.replace_log(place, &new.place, drive, describe).await;
                return begun.map_err(|source| engine_error(folder, source));
            }
        };
        replaced.map_err(|source| engine_error(folder, source))?;
        self.describe(replacement).map_err(|error| {
            let Replacement { new, old, .. } = replacement;
            VolumeError::Undescribed(format!("{} takes the place of {old}, but {error}", new.place))
        })
    }

    /// Takes the member at `place` back that was away, if it answers and is the same. Nothing is done where it is not away.
    pub(crate) async fn rejoin(&self, place: usize) -> Result<Rejoined, NotTaken> {
        let _nobody_else_does = self.mirror.replacing.take().await;
        if !self.mirror.is_away(place) {
            return Err(NotTaken::NotThere("another is in its place by now".to_owned()));
        }
        let description = self.described.description();
        let members = description.members.get(place).filter(|_| description.id == self.volume);
        let Some(described) = members else {
            return Err(NotTaken::NotThere("the volume has no such member".to_owned()));
        };
        self.mirror.rejoin_member(self.described.folder(), place, described).await
    }

    fn describe(&self, replacement: &Replacement) -> Result<(), VolumeError> {
        self.described.change(|description| {
            if let Some(member) = replacement.slot.of_mut(description) {
                *member = replacement.new.clone();
            }
        })
    }
}

/// That what is to be replaced is still there.
fn check_slot(folder: &Path, description: &Description, slot: Slot, old: &Place) -> Result<(), VolumeError> {
    match places(description).any(|it| it == (slot, old)) {
        true => Ok(()),
        false => refused(format!(
            "{}: {old} was replaced meanwhile; look at its status and try again",
            folder.display()
        )),
    }
}

/// That `drive` may be written to as `replacement` says.
async fn check_drive<D: Device>(
    description: &Description,
    drive: &D,
    replacement: &Replacement,
) -> Result<(), VolumeError> {
    let Replacement { slot, old, new, may_overwrite } = replacement;
    let (slot, found) = (*slot, labels(drive).await);
    check_labels(description, &found, (new.place == *old).then_some(slot), &new.place)?;
    let kind = slot.kind();
    match *may_overwrite || found.iter().any(|label| is_own(description, slot, label)) {
        true => Ok(()),
        false => {
            let why = format!("{}: what is there is not this {kind} any more", new.place);
            Err(VolumeError::Refused(why).with(Remedy::Destroy { place: new.place.quoted() }))
        }
    }
}

/// The same for a volume that nobody serves: it is opened, if nothing is known to be in the way, and closed again. A member
/// is rebuilt, and a log device gets what it lacks, when the volume is opened next.
///
/// # Errors
///
/// As [`OpenVolume::open`], [`Prepared::make`] and [`Replacer::replace`].
pub async fn replace_unserved(
    event_loop: &Loop,
    locked: LockedVolume,
    prepared: &mut Prepared,
) -> Result<Replacement, VolumeError> {
    let (folder, description) = (&locked.folder().to_owned(), locked.description());
    check_slot(folder, &description, prepared.slot, &prepared.old)?;
    // Without turns: nobody reads.
    // An empty log is opened without a member that is given up here by its name.
    let given_up = match prepared.slot {
        Slot::Member(place) => 1 << place,
        Slot::Log(_) => 0,
    };
    let ring = RingOptions { policy: Policy::Mixed, given_up, ..RingOptions::default() };
    let options = RunOptions { volume: OpenOptions::default(), ring, keeps_writes: false };
    let no_mirror = || VolumeError::Refused(format!("{}: it is no mirror", folder.display()));
    let may = async |below: &Below, identity: &Identity| match below {
        Below::Mirror(mirror) => prepared.check(folder, &description, mirror, identity).await,
        Below::Single(..) => Err(no_mirror()),
    };
    let open = locked.open_if(event_loop, options, may).await?;
    let replacer = open.replacer().ok_or_else(no_mirror)?;
    let done = match prepared.slot {
        Slot::Member(_) => replacer.replace_now(event_loop, prepared).await.map(Some),
        Slot::Log(place) => {
            let others = replacer.mirror.check_other_logs(place);
            others.map(|()| None).map_err(|source| engine_error(folder, source))
        }
    };
    let closed = open.close().await;
    let done = done?;
    closed?;
    if let Some(replacement) = done {
        return Ok(replacement);
    }
    let described = Rc::clone(&replacer.described);
    // The devices are let go of: the old one may be the new one.
    drop(replacer);
    let replacement = prepared.make(event_loop, |_, _| ()).await?;
    put_log(event_loop, &described, &replacement).await?;
    Ok(replacement)
}

impl Replacer {
    async fn replace_now(
        &self,
        event_loop: &Loop,
        prepared: &mut Prepared,
    ) -> Result<Replacement, VolumeError> {
        self.consider(&prepared.question()).await?;
        let replacement = prepared.make(event_loop, |_, _| ()).await?;
        self.replace(&replacement).await.map_err(|error| match error {
            VolumeError::Undescribed(why) => {
                prepared.keep();
                VolumeError::Undescribed(format!("{why}; correct that, and give the same command again"))
            }
            other => other,
        })?;
        Ok(replacement)
    }
}

async fn put_log(
    event_loop: &Loop,
    described: &Described,
    replacement: &Replacement,
) -> Result<(), VolumeError> {
    let Slot::Log(place) = replacement.slot else { return Ok(()) };
    let (folder, new, description) = (described.folder(), &replacement.new, described.description());
    let purpose = Opening::new(event_loop, description.id.0).log(place, new.unfenced);
    let drive = MemberDrive::open(event_loop, &new.place.within(folder), new.options(), purpose).await?;
    check_drive(&description, &drive, replacement).await?;
    let drive =
        MirrorDrive::new(Rc::new(drive), description.log_geometry()).map_err(|unfit| unfit.at(&new.place))?;
    let (id, places) = (description.id.0, description.logs.len());
    let initialised = found_log(&drive, id, place as u16, places as u16).await;
    initialised.map_err(|source| engine_error(folder, source.into()))?;
    described.change(|description| description.logs[place] = new.clone())
}
