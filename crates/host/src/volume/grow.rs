//! Making a volume larger, whether it is served or was opened for that.
//!
//! The order, and the crash that each step survives:
//!
//! 1. What can refuse is asked first: the volume, whether its log suffices; each member, whether it has the room. Of a
//!    mirror all members have to take part.
//! 2. The files of the members are made longer, with all their room unless they are sparse. Where one cannot be, all are
//!    as long as they were. After a cut they may be longer than the volume needs: it opens, and the same command goes on.
//! 3. The volume grows ([`evenkeel_engine::volume::Volume::grow`]): from one superblock on it has its new size.
//! 4. The description says so. After a cut it may say less: the next opening brings it up to date.

use std::io;
use std::rc::Rc;

use evenkeel_engine::device::Device;
use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::format::ring_head;
use evenkeel_engine::volume::{Growth, Identity, plan_growth};
use serde::{Deserialize, Serialize};

use super::described::Described;
use super::description::{Description, LayoutKind, SIZE_MAX_BYTES};
use super::member::{MemberDrive, Place};
use super::replace::Slot;
use super::{Below, Devices, LocalVolume, LockedVolume, OpenVolume, VolumeError, check_made_so};
use crate::event_loop::Loop;
use crate::nbd::wait::Turn;
use crate::size_text::{exact_size, size};

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
        _ => "",
    };
    VolumeError::Refused(format!("{place}: cannot {what}: {error}{next_step}; nothing has changed"))
}

/// That some volume may have this size.
fn check_size(size_bytes: u64) -> Result<(), VolumeError> {
    if !size_bytes.is_multiple_of(PAGE_BYTES) || size_bytes == 0 {
        return refused(format!(
            "{size_bytes} bytes: a volume's size is a multiple of {PAGE_BYTES} bytes and not 0"
        ));
    }
    if size_bytes > SIZE_MAX_BYTES {
        return refused(format!("{}: no volume is larger than {}", size(size_bytes), size(SIZE_MAX_BYTES)));
    }
    Ok(())
}

impl Below {
    /// The drives that hold pages, each with its place.
    fn home_drives(&self, description: &Description) -> Result<Vec<(Place, Rc<MemberDrive>)>, VolumeError> {
        match self {
            Self::Single(members, _) => Ok(members.0[..1].to_vec()),
            Self::Mirror(mirror) => {
                let each = description.members.iter().enumerate();
                each.map(|(number, member)| Ok((member.place.clone(), mirror.held(Slot::Member(number))?)))
                    .collect()
            }
        }
    }
}

/// Which drives have to be how long.
fn needed(below: &Below, description: &Description, growth: &Growth) -> Result<Vec<Needed>, VolumeError> {
    let before_bytes = match description.layout {
        LayoutKind::Single => 0,
        LayoutKind::Mirror => ring_head::DATA_OFFSET + description.region_bytes(),
    };
    let drives = below.home_drives(description)?;
    let each = drives.into_iter().map(|(place, drive)| {
        let needed = Needed::of(place, drive, growth.home_bytes.saturating_add(before_bytes))?;
        needed.check().map(|()| needed)
    });
    each.collect()
}

fn told(growth: &Growth, needed: &[Needed]) -> Grown {
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
    }
}

impl LockedVolume {
    /// What it takes to make it offer `size_bytes`. Nothing is written.
    ///
    /// # Errors
    ///
    /// Why it cannot be, as far as is known without writing.
    pub async fn plan_growth(&self, event_loop: &Loop, size_bytes: u64) -> Result<Grown, VolumeError> {
        check_size(size_bytes)?;
        let (folder, description) = (self.folder(), self.description());
        let options = super::RunOptions::from(evenkeel_engine::options::OpenOptions::default());
        let devices = Devices::open(event_loop, folder, &description, &options).await?;
        let Devices { home, log, separate_log, below } = &devices;
        let engine_error = |source| super::opening_error(folder, below, source);
        let identity =
            evenkeel_engine::volume::identify(&**home, &**log, *separate_log).await.map_err(engine_error)?;
        check_made_so(folder, &description, &identity)?;
        let growth = plan_growth(&**home, &**log, *separate_log, size_bytes).await;
        let growth = growth.map_err(|source| VolumeError::Engine { folder: folder.to_owned(), source })?;
        let needed = match growth.from_bytes == growth.to_bytes {
            true => Vec::new(),
            false => needed(below, &description, &growth)?,
        };
        Ok(told(&growth, &needed))
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
    pub fn plan(&self, size_bytes: u64) -> Result<Grown, VolumeError> {
        self.look(size_bytes).map(|(growth, needed)| told(&growth, &needed))
    }

    fn look(&self, size_bytes: u64) -> Result<(Growth, Vec<Needed>), VolumeError> {
        check_size(size_bytes)?;
        let growth = self.volume.plan_growth(size_bytes).map_err(|source| self.engine_error(source))?;
        let needed = match growth.from_bytes == growth.to_bytes {
            true => Vec::new(),
            false => needed(&self.below, &self.described.description(), &growth)?,
        };
        Ok((growth, needed))
    }

    fn engine_error(&self, source: evenkeel_engine::error::Error) -> VolumeError {
        VolumeError::Engine { folder: self.described.folder().to_owned(), source }
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
        let mut grown = told(&growth, &needed);
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
        description.home_bytes = match before.layout {
            LayoutKind::Single => None,
            LayoutKind::Mirror => Some(found.home_bytes),
        };
        description.sizes_before = found.sizes_before;
        if description == before {
            return Ok(());
        }
        self.change(|it| *it = description)
    }
}

/// Whether a description that says `said` of the size may be of the volume as it was found: before it grew it had that.
pub(super) fn had_size(identity: &Identity, said: u64) -> bool {
    identity.sizes_before.as_slice().iter().any(|size| size.pages.checked_mul(PAGE_BYTES) == Some(said))
}
