//! Making the log of a volume once more, that was stopped in order and lost it.
//!
//! 1. What can refuse is asked first: the home member, whether everything is home; what waits in memory; what is in the
//!    place of the log. Nothing is written until all of them agree.
//! 2. What exists is overwritten only where it was named for that, and never the log that belongs to the volume.
//! 3. A file that is made belongs to whom the home member belongs: root may make it for the user who serves the volume.
//! 4. A file that is made goes again unless it becomes the log. After a cut it may stay: then it holds nothing, and can be
//!    named.

use std::path::Path;

use evenkeel_engine::device::{Device, Extent};
use evenkeel_engine::error::Error;
use evenkeel_engine::volume::{LogRenewal, check_log_is_lost, plan_log_renewal, renew_log};

use super::arenas::Arenas;
use super::description::{Description, FILE_NAME, Member};
use super::fencing::{Opening, Purpose};
use super::member::{MemberDrive, Place};
use super::owner::owned_file;
use super::plan::Inode;
use super::{LockedVolume, VolumeError};
use crate::drive::{DriveOptions, FileDrive, Fill};
use crate::durable_file::is_block_device;
use crate::event_loop::Loop;
use crate::remedy::Remedy;
use crate::scratch::ScratchFile;
use crate::size_text::exact_size;

/// A log that is made once more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenewedLog {
    /// Where it is.
    pub place: Place,
    /// Bytes of a file that is made for it.
    pub bytes: u64,
    /// Whether something is there that is overwritten.
    pub overwrites: bool,
    /// How long that is.
    found_bytes: u64,
}

pub(super) fn refused<T>(why: String) -> Result<T, VolumeError> {
    Err(VolumeError::Refused(why))
}

impl RenewedLog {
    pub(super) fn new(place: Place, bytes: u64, overwrites: bool) -> Self {
        Self { place, bytes, overwrites, found_bytes: 0 }
    }

    /// That what is there was named, if something is, by its place or as `log` describes it.
    pub(super) fn check_named(&self, log: &Member, destroy: &[Place]) -> Result<(), VolumeError> {
        let place = &self.place;
        match !self.overwrites || destroy.iter().any(|named| named == place || *named == log.place) {
            true => Ok(()),
            false => {
                let why = format!(
                    "{place}: it is there already, and is no log of this volume as it is now: bring that back"
                );
                Err(VolumeError::Refused(why).with(Remedy::Destroy { place: place.quoted() }))
            }
        }
    }

    /// That what it is to be made on is large enough.
    pub(super) fn check_size(&self, drive: &MemberDrive) -> Result<(), VolumeError> {
        let found_bytes = drive.geometry().size_bytes;
        if found_bytes < self.bytes {
            let (found, needed) = (exact_size(found_bytes), exact_size(self.bytes));
            return refused(format!("{}: it has {found}, and {needed} are needed", self.place));
        }
        Ok(())
    }
}

impl LockedVolume {
    /// What it takes to make the lost log once more, where what `destroy` names may be overwritten: all log devices of a
    /// mirror. Nothing is written.
    ///
    /// # Errors
    ///
    /// Why it cannot be: the volume was not stopped in order, or has its log; something is in the place of the log.
    pub async fn plan_log_renewal(
        &self,
        event_loop: &Loop,
        destroy: &[Place],
    ) -> Result<Vec<RenewedLog>, VolumeError> {
        match self.is_mirror() {
            true => self.look_at_lost_mirror_logs(event_loop, destroy).await.map(|(_, planned)| planned),
            false => self.look_at_lost_log(event_loop, destroy).await.map(|(_, planned)| vec![planned]),
        }
    }

    /// That no acknowledged writes wait in memory for a log.
    pub(super) fn check_nothing_waits(&self) -> Result<(), VolumeError> {
        match Arenas::of(self.folder(), &self.description()).hold_writes()? {
            true => refused(format!(
                "{}: writes that were acknowledged wait in memory for the log that is lost",
                self.folder().display()
            )),
            false => Ok(()),
        }
    }

    async fn look_at_lost_log(
        &self,
        event_loop: &Loop,
        destroy: &[Place],
    ) -> Result<(MemberDrive, RenewedLog), VolumeError> {
        let (folder, description) = (self.folder(), self.description());
        let shown = folder.display();
        let Some(log) = description.logs.first() else {
            return refused(format!("{shown}: its log lies with its pages, and is not lost alone"));
        };
        let engine_error = |source| VolumeError::Engine { folder: folder.to_owned(), source };
        let home_place = description.members[0].place.within(folder);
        let place = log.place.within(folder);
        check_is_another_file(&place, &home_place)?;
        let home = look(event_loop, &home_place, &description.members[0]).await?;
        let LogRenewal { volume, device_bytes } = plan_log_renewal(&home).await.map_err(engine_error)?;
        if volume != description.id.0 {
            return refused(format!("{shown}: its home member belongs to another volume"));
        }
        self.check_nothing_waits()?;
        let overwrites = place.path().is_none_or(|path| path.symlink_metadata().is_ok());
        let mut planned = RenewedLog::new(place, device_bytes, overwrites);
        if overwrites {
            let found = look(event_loop, &planned.place, log).await?;
            planned.found_bytes = found.geometry().size_bytes;
            check_log_is_lost(&home, &found).await.map_err(|error| match error {
                // Nothing is damaged: there is nothing to do.
                Error::Unusable(why) => VolumeError::Refused(format!("{shown}: {why}")),
                error => engine_error(error),
            })?;
            planned.check_named(log, destroy)?;
        }
        Ok((home, planned))
    }

    /// Makes it. Dropped before its end, it leaves nothing but what it has overwritten.
    ///
    /// # Errors
    ///
    /// As [`Self::plan_log_renewal`]; those of files and devices.
    pub async fn renew_log(
        self,
        event_loop: &Loop,
        destroy: &[Place],
    ) -> Result<Vec<RenewedLog>, VolumeError> {
        if self.is_mirror() {
            return self.renew_mirror_logs(event_loop, destroy).await;
        }
        let (home, planned) = self.look_at_lost_log(event_loop, destroy).await?;
        let (folder, description) = (self.folder().to_owned(), self.description());
        let (drive, guard) = make(event_loop, &folder, &description, 0, &planned).await?;
        planned.check_size(&drive)?;
        let engine_error = |source| VolumeError::Engine { folder: folder.clone(), source };
        choose_durable_way(&drive).await.map_err(engine_error)?;
        renew_log(&home, &drive, planned.found_bytes).await.map_err(engine_error)?;
        let described = described(&description.logs[0], &drive);
        if described != description.logs[0] {
            self.0.change(|description| description.logs[0] = described)?;
        }
        if let Some(guard) = guard {
            guard.keep();
        }
        Ok(vec![planned])
    }
}

/// That the place of a log is no second name of the file with the pages.
fn check_is_another_file(log: &Place, home: &Place) -> Result<(), VolumeError> {
    let (Some(log_path), Some(home_path)) = (log.path(), home.path()) else { return Ok(()) };
    match Inode::of(log_path).is_some_and(|found| Inode::of(home_path) == Some(found)) {
        true => refused(format!(
            "{log}: it is the same file as {home}, which holds the pages: remove that name, or have {FILE_NAME} name another \
             place for the log"
        )),
        false => Ok(()),
    }
}

/// Opens what is there, to be read alone.
pub(super) async fn look(
    event_loop: &Loop,
    place: &Place,
    member: &Member,
) -> Result<MemberDrive, VolumeError> {
    let options = DriveOptions { read_only: true, sector_bytes: None, ..member.options() };
    Ok(MemberDrive::open(event_loop, place, options, Purpose::Look).await?)
}

/// The drive in the place of the log device of this number, and the file that goes again unless it is kept.
pub(super) async fn make(
    event_loop: &Loop,
    folder: &Path,
    description: &Description,
    number: usize,
    planned: &RenewedLog,
) -> Result<(MemberDrive, Option<ScratchFile>), VolumeError> {
    let log = &description.logs[number];
    let (options, fill) = (log.options(), if log.sparse { Fill::Sparse } else { Fill::Reserved });
    let RenewedLog { place, bytes, overwrites, .. } = planned;
    match place.path().filter(|path| !is_block_device(path)) {
        Some(path) if *overwrites => {
            let drive = FileDrive::overwrite(event_loop, path, *bytes, fill, options).await?;
            Ok((MemberDrive::File(drive), None))
        }
        Some(path) => {
            let like = owned_file(folder, description, &log.place);
            let made = FileDrive::create_scratch_like(
                event_loop,
                path,
                *bytes,
                fill,
                options,
                like.as_ref(),
                |_, _| (),
            );
            let made = made.await?;
            Ok((MemberDrive::File(made.0), Some(made.1)))
        }
        None => {
            let purpose = Opening::new(event_loop, description.id.0).log(number, log.unfenced);
            Ok((MemberDrive::open(event_loop, place, options, purpose).await?, None))
        }
    }
}

/// Finds out how writes become durable there.
pub(super) async fn choose_durable_way(drive: &MemberDrive) -> Result<(), Error> {
    if let MemberDrive::File(file) = drive {
        let sector = Extent::new(0, u64::from(file.geometry().sector_bytes));
        file.choose_durable_way(sector).await?;
    }
    Ok(())
}

/// What the description says of the drive that is the log now.
pub(super) fn described(log: &Member, drive: &MemberDrive) -> Member {
    let geometry = drive.geometry();
    let durable_way = match drive {
        MemberDrive::File(drive) => Some(drive.durable_way()),
        _ => None,
    };
    Member {
        sector_bytes: geometry.sector_bytes,
        atomic_sectors: geometry.atomic_sectors,
        durable_way,
        ..log.clone()
    }
}
