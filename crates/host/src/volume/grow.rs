//! Making a volume larger, whether it is served or was opened for that.
//!
//! The order, and the crash that each step survives:
//!
//! 1. What can refuse is asked first: the volume, whether its log suffices; each member, whether it has the room. Of a
//!    ring all members have to take part.
//! 2. The files of the members are made longer, with all their room unless they are sparse. Where one cannot be, all are
//!    as long as they were. After a cut they may be longer than the volume needs: it opens, and the same command goes on.
//! 3. The volume grows ([`evenkeel_engine::volume::Volume::grow`]): from one superblock on it has its new size.
//! 4. The description says so. After a cut it may say less: the next opening brings it up to date.

use std::io;
use std::path::Path;
use std::rc::Rc;

use evenkeel_engine::device::Device;
use evenkeel_engine::error::Error;
use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::format::layout::{GROWTHS_MAX, SizesBefore};
use evenkeel_engine::format::ring_head;
use evenkeel_engine::options::OpenOptions;
use evenkeel_engine::ring::{MemberState, RingOptions};
use evenkeel_engine::volume::{Growth, Identity, plan_growth};
use serde::{Deserialize, Serialize};

use super::described::Described;
use super::description::{Description, Member, SIZE_MAX_BYTES};
use super::member::{MemberDrive, Place};
use super::mirror::Mirror;
use super::slot::Slot;
use super::{Below, Devices, LocalVolume, LockedVolume, OpenVolume, RunOptions, VolumeError, check_made_so};
use crate::event_loop::Loop;
use crate::remedy::Remedy;
use crate::size_text::{exact_size, size};
use crate::wait::Turn;

/// How a volume grows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grown {
    /// Bytes that it offered.
    pub from_bytes: u64,
    /// Bytes that it offers then: as many where nothing is to be done.
    pub to_bytes: u64,
    /// The members that become larger with it: files.
    pub members: Vec<GrownMember>,
    /// Why the description does not say so yet.
    #[serde(default)]
    pub undescribed: Option<String>,
    /// How often it can grow after that, if known: servers from before do not say.
    #[serde(default)]
    pub growths_left: Option<usize>,
}

/// A member whose file becomes longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrownMember {
    /// Where it is.
    pub place: Place,
    /// Bytes that it has.
    pub from_bytes: u64,
    /// Bytes that it has then.
    pub to_bytes: u64,
}

/// A drive that holds pages, and how long it has to be.
struct Needed {
    place: Place,
    drive: Rc<MemberDrive>,
    from_bytes: u64,
    to_bytes: u64,
}

/// Files that were made longer; they are cut back unless the volume has grown.
#[derive(Default)]
struct Extended(Vec<(Rc<MemberDrive>, u64)>);

impl Extended {
    fn keep(&mut self) -> Vec<(Rc<MemberDrive>, u64)> {
        std::mem::take(&mut self.0)
    }
}

impl Drop for Extended {
    fn drop(&mut self) {
        for (drive, before_bytes) in &self.0 {
            if let MemberDrive::File(file) = &**drive {
                let _it_may_be_longer_than_it_needs_to_be = file.cut_back(*before_bytes);
            }
        }
    }
}

fn refused<T>(why: String) -> Result<T, VolumeError> {
    Err(VolumeError::Refused(why))
}

impl Needed {
    fn of(place: Place, drive: Rc<MemberDrive>, needed_bytes: u64) -> Result<Self, VolumeError> {
        let found = match &*drive {
            MemberDrive::File(file) => file.look_at_size(),
            _ => Ok(drive.geometry().size_bytes),
        };
        let from_bytes = found.map_err(|error| cannot(&place, "find its size", &error))?;
        Ok(Self { place, drive, from_bytes, to_bytes: needed_bytes.max(from_bytes) })
    }

    /// That it is as long as it has to be, or can be made so.
    fn check(&self) -> Result<(), VolumeError> {
        if self.from_bytes == self.to_bytes {
            return Ok(());
        }
        let (place, found, needed) = (&self.place, size(self.from_bytes), exact_size(self.to_bytes));
        match &*self.drive {
            MemberDrive::File(file) if !file.is_block_device() => {
                let checked = file.check_room_for(self.to_bytes);
                checked.map_err(|error| cannot(place, &format!("grow to {}", size(self.to_bytes)), &error))
            }
            MemberDrive::File(_) => refused(format!(
                "{place}: the device has {found}, and {needed} are needed: make it larger first"
            )),
            _ => refused(format!(
                "{place}: the export has {found}, and {needed} are needed: make it larger first; a volume that is served sees \
                 that once it was stopped and started again"
            )),
        }
    }
}

fn cannot(place: &Place, what: &str, error: &io::Error) -> VolumeError {
    let next_step = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some room, or choose a smaller size"
        }
        io::ErrorKind::FileTooLarge => "; its file system takes no such file",
        io::ErrorKind::NotFound => {
            "; its file was removed: put another in its place first (`evenkeel replace`)"
        }
        _ => "",
    };
    VolumeError::Refused(format!("{place}: cannot {what}: {error}{next_step}; nothing has changed"))
}

/// That this volume may have this size.
fn check_size(folder: &Path, found: &Identity, size_bytes: u64) -> Result<(), VolumeError> {
    if !size_bytes.is_multiple_of(PAGE_BYTES) || size_bytes == 0 {
        return refused(format!(
            "{size_bytes} bytes: a volume's size is a multiple of {PAGE_BYTES} bytes and not 0"
        ));
    }
    if size_bytes > SIZE_MAX_BYTES {
        return refused(format!("{}: no volume is larger than {}", size(size_bytes), size(SIZE_MAX_BYTES)));
    }
    let folder = folder.display();
    if size_bytes < found.size_bytes {
        return refused(format!(
            "{folder}: cannot become {}: it has {} already, and no volume shrinks",
            size(size_bytes),
            size(found.size_bytes)
        ));
    }
    if size_bytes > found.size_bytes && growths_left(found) == 0 {
        let why =
            format!("{folder}: cannot grow: it has grown {GROWTHS_MAX} times, as often as a volume can");
        return Err(VolumeError::Refused(why).with(Remedy::CopyToLarger));
    }
    Ok(())
}

fn growths_left(found: &Identity) -> usize {
    GROWTHS_MAX.saturating_sub(found.sizes_before.as_slice().len())
}

/// What the engine says of a growth, of a volume that could be opened.
fn growth_error(folder: &Path, source: Error) -> VolumeError {
    match source {
        Error::Unusable(why) | Error::Unsuited(why) => {
            VolumeError::Refused(format!("{}: cannot grow: {why}", folder.display()))
        }
        damaged @ Error::Damaged { .. } => VolumeError::Refused(format!(
            "{}: cannot grow: {damaged}, and a write to a part of it waits; write all of it anew, and grow then",
            folder.display()
        )),
        source => VolumeError::Engine { folder: folder.to_owned(), source },
    }
}

/// That a ring cannot grow without the member at `place`, and `why` it is without it.
fn without(folder: &Path, place: &Place, why: &str, is_rebuilt: bool) -> VolumeError {
    let folder = Place::from(folder.to_owned()).quoted();
    let remedy = match is_rebuilt {
        true => Remedy::AwaitRebuild { folder },
        false => Remedy::ReplaceMember { folder, member: place.quoted() },
    };
    VolumeError::Refused(format!("{why}; a volume grows with all of its members")).with(remedy)
}

/// That all members of an open ring take part, and lack nothing.
fn check_members(folder: &Path, mirror: &Mirror) -> Result<(), VolumeError> {
    for member in mirror.members() {
        let (is_rebuilt, what) = match member.status.state {
            MemberState::InSync => continue,
            MemberState::Rebuilding { .. } => (true, "it is being rebuilt"),
            MemberState::Stale => (true, "it lacks writes"),
            MemberState::Foreign | MemberState::Out => (false, "it takes no part"),
        };
        let why = format!("{}: {}", member.place, member.why.as_deref().unwrap_or(what));
        return Err(without(folder, &member.place, &why, is_rebuilt));
    }
    Ok(())
}

impl Below {
    /// The drives that hold pages, each with its place.
    fn home_drives(
        &self,
        folder: &Path,
        description: &Description,
    ) -> Result<Vec<(Place, Rc<MemberDrive>)>, VolumeError> {
        match self {
            Self::Single(members, _) => Ok(members.0[..1].to_vec()),
            Self::Mirror(mirror) => {
                let each = description.members.iter().enumerate();
                each.map(|(number, Member { place, .. })| match mirror.held(Slot::Member(number)) {
                    Ok(drive) => Ok((place.clone(), drive)),
                    Err(error) => Err(without(folder, place, &error.to_string(), false)),
                })
                .collect()
            }
        }
    }
}

/// Which drives have to be how long.
fn needed(
    below: &Below,
    folder: &Path,
    description: &Description,
    growth: &Growth,
) -> Result<Vec<Needed>, VolumeError> {
    let before_bytes = match description.layout.is_ring() {
        false => 0,
        true => ring_head::DATA_OFFSET + description.region_bytes(),
    };
    let needed_bytes = description.layout.member_bytes(growth.home_bytes).saturating_add(before_bytes);
    let drives = below.home_drives(folder, description)?;
    let each = drives.into_iter().map(|(place, drive)| {
        let needed = Needed::of(place, drive, needed_bytes)?;
        needed.check().map(|()| needed)
    });
    each.collect()
}

fn told(found: &Identity, growth: &Growth, needed: &[Needed]) -> Grown {
    let longer = needed.iter().filter(|needed| needed.from_bytes < needed.to_bytes);
    let member = |needed: &Needed| GrownMember {
        place: needed.place.clone(),
        from_bytes: needed.from_bytes,
        to_bytes: needed.to_bytes,
    };
    Grown {
        from_bytes: growth.from_bytes,
        to_bytes: growth.to_bytes,
        members: longer.map(member).collect(),
        undescribed: None,
        growths_left: Some(
            growths_left(found).saturating_sub(usize::from(growth.from_bytes != growth.to_bytes)),
        ),
    }
}

impl LockedVolume {
    /// What it takes to make it offer `size_bytes`, as far as is known without opening it. Nothing is written.
    ///
    /// # Errors
    ///
    /// Why it cannot be.
    pub async fn plan_growth(&self, event_loop: &Loop, size_bytes: u64) -> Result<Grown, VolumeError> {
        let (folder, description) = (self.folder(), self.description());
        let options = RunOptions::from(OpenOptions::default());
        let devices = Devices::open(event_loop, folder, &description, &options).await?;
        let Devices { home, log, separate_log, below } = &devices;
        let engine_error = |source| super::opening_error(folder, below, source);
        let identity =
            evenkeel_engine::volume::identify(&**home, &**log, *separate_log).await.map_err(engine_error)?;
        check_made_so(folder, &description, &identity)?;
        check_size(folder, &identity, size_bytes)?;
        let growth = plan_growth(&**home, &**log, *separate_log, size_bytes).await;
        let growth = growth.map_err(|source| growth_error(folder, source))?;
        let needed = match growth.from_bytes == growth.to_bytes {
            true => Vec::new(),
            false => needed(below, folder, &description, &growth)?,
        };
        Ok(told(&identity, &growth, &needed))
    }

    /// Opens it with all that is written kept in memory, as for a check, for what only an open volume knows: whether it
    /// can grow. Nothing of it changes.
    ///
    /// # Errors
    ///
    /// Why it cannot be opened, or cannot grow.
    pub async fn check_growth(self, event_loop: &Loop, size_bytes: u64) -> Result<(), VolumeError> {
        let ring = RingOptions::without_clients();
        let options = RunOptions { volume: OpenOptions::default(), ring, keeps_writes: true };
        let open = self.open(event_loop, options).await?;
        let checked = open.grower().check(size_bytes).await;
        open.abandon();
        checked
    }
}

impl OpenVolume {
    /// Who makes it larger.
    pub fn grower(&self) -> Grower {
        Grower {
            volume: self.volume.clone(),
            described: Rc::clone(&self.described),
            below: Rc::clone(&self.below),
            turn: Rc::clone(&self.growing),
        }
    }
}

/// Makes an open volume larger. A clone is another handle to the same.
#[derive(Clone)]
pub struct Grower {
    volume: LocalVolume,
    described: Rc<Described>,
    below: Rc<Below>,
    turn: Rc<Turn>,
}

impl Grower {
    /// What it takes to make it offer `size_bytes`. Nothing is written.
    ///
    /// # Errors
    ///
    /// Why it cannot be now, as far as is known without writing.
    pub async fn plan(&self, size_bytes: u64) -> Result<Grown, VolumeError> {
        let (growth, needed) = self.look(size_bytes)?;
        self.check(size_bytes).await?;
        Ok(told(&self.volume.identity(), &growth, &needed))
    }

    /// That nothing of the volume itself is in the way: its members take part, and every page can go home.
    async fn check(&self, size_bytes: u64) -> Result<(), VolumeError> {
        let growth =
            self.volume.check_growth(size_bytes).await.map_err(|source| self.engine_error(source))?;
        match growth.from_bytes == growth.to_bytes {
            true => Ok(()),
            false => self.check_members(),
        }
    }

    fn check_members(&self) -> Result<(), VolumeError> {
        match &*self.below {
            Below::Single(..) => Ok(()),
            Below::Mirror(mirror) => check_members(self.described.folder(), mirror),
        }
    }

    fn look(&self, size_bytes: u64) -> Result<(Growth, Vec<Needed>), VolumeError> {
        let folder = self.described.folder();
        check_size(folder, &self.volume.identity(), size_bytes)?;
        let growth = self.volume.plan_growth(size_bytes).map_err(|source| self.engine_error(source))?;
        if growth.from_bytes == growth.to_bytes {
            return Ok((growth, Vec::new()));
        }
        self.check_members()?;
        let needed = needed(&self.below, folder, &self.described.description(), &growth)?;
        Ok((growth, needed))
    }

    fn engine_error(&self, source: Error) -> VolumeError {
        growth_error(self.described.folder(), source)
    }

    /// Makes it offer `size_bytes`, while it is used. Dropped before the volume itself has begun to grow, it changes
    /// nothing.
    ///
    /// # Errors
    ///
    /// Why it cannot: then nothing has changed. The volume's failure, after one below.
    pub async fn grow(&self, size_bytes: u64) -> Result<Grown, VolumeError> {
        let _nobody_else_does = self.turn.take().await;
        let (growth, needed) = self.look(size_bytes)?;
        let found = self.volume.identity();
        let mut extended = Extended::default();
        for Needed { place, drive, from_bytes, to_bytes } in &needed {
            if let MemberDrive::File(file) = &**drive
                && from_bytes < to_bytes
            {
                extended.0.push((Rc::clone(drive), *from_bytes));
                let grown = file.extend(*to_bytes).await;
                grown.map_err(|error| cannot(place, &format!("grow to {}", size(*to_bytes)), &error))?;
            }
        }
        // Whoever gives up now leaves files that are longer: the volume grows all the same.
        let files = extended.keep();
        if let Err(source) = self.volume.grow(size_bytes).await {
            if self.volume.failure().is_none() {
                drop(Extended(files));
            }
            return Err(self.engine_error(source));
        }
        let undescribed = self.described.catch_up(&self.volume.identity()).err();
        let mut grown = told(&found, &growth, &needed);
        grown.undescribed = undescribed.map(|error| error.to_string());
        Ok(grown)
    }
}

impl Described {
    /// Has the description say how large the volume is and was, if it does not: it has grown. Without it nobody could tell
    /// where its pages lie once its superblocks are gone.
    pub(super) fn catch_up(&self, found: &Identity) -> Result<(), VolumeError> {
        let before = self.description();
        let mut description = before.clone();
        description.size_bytes = found.size_bytes;
        description.log_bytes = Some(before.log_bytes.unwrap_or(found.log_bytes));
        description.home_bytes = before.layout.is_ring().then_some(found.home_bytes);
        description.sizes_before = found.sizes_before;
        if description == before {
            return Ok(());
        }
        self.change(|it| *it = description)
    }
}

/// Whether a volume that grew from `before` had so many bytes once.
pub(super) fn had_size(before: &SizesBefore, bytes: u64) -> bool {
    before.as_slice().iter().any(|size| size.pages.checked_mul(PAGE_BYTES) == Some(bytes))
}
