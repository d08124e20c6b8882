//! Making the log devices of a mirror or of stripes once more, that was stopped in order and lost all of them.
//!
//! As [`super::renew_log`] for a volume of one member. All members have to be there: together they prove the stop.

use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::volume::{
    MirrorLogRenewal, check_mirror_log_is_lost, plan_mirror_log_renewal, renew_mirror_log,
};

use super::member::MemberDrive;
use super::member::Place;
use super::mirror::is_mistake;
use super::renew_log::{RenewedLog, choose_durable_way, described, look, make, refused};
use super::{LockedVolume, VolumeError};
use crate::event_loop::Loop;

impl LockedVolume {
    /// Whether the volume is a mirror.
    pub(super) fn is_mirror(&self) -> bool {
        self.description().layout.is_ring()
    }

    pub(super) async fn look_at_lost_mirror_logs(
        &self,
        event_loop: &Loop,
        destroy: &[Place],
    ) -> Result<(MirrorLogRenewal, Vec<RenewedLog>), VolumeError> {
        let (folder, description) = (self.folder(), self.description());
        let shown = folder.display();
        let engine_error = |source| VolumeError::Engine { folder: folder.to_owned(), source };
        if description.logs.is_empty() {
            return refused(format!("{shown}: its log lies on its members, and is not lost alone"));
        }
        let mut members = Vec::with_capacity(description.members.len());
        for member in &description.members {
            let place = member.place.within(folder);
            members.push(match look(event_loop, &place, member).await {
                Ok(drive) => drive,
                Err(VolumeError::Path(error)) if !is_mistake(&error.source) => {
                    return Err(VolumeError::Incomplete(format!(
                        "{shown}: {}: {}: {}; all members are needed to tell that it was stopped in order",
                        member.place, error.doing, error.source
                    )));
                }
                Err(error) => return Err(error),
            });
        }
        let striped = description.layout.striped().map(|it| (it.stripes, description.stripe_log()));
        let planned =
            plan_mirror_log_renewal(&members, description.id.0, striped, event_loop.random() as u32).await;
        let renewal = planned.map_err(engine_error)?;
        self.check_nothing_waits()?;
        let mut renewed = Vec::with_capacity(description.logs.len());
        for log in &description.logs {
            let place = log.place.within(folder);
            let overwrites = place.path().is_none_or(|path| path.symlink_metadata().is_ok());
            if overwrites {
                let found = look(event_loop, &place, log).await?;
                check_mirror_log_is_lost(&renewal, &found).await.map_err(|error| match error {
                    // Nothing is damaged: there is nothing to do, or `replace` does it.
                    Error::Unusable(why) => VolumeError::Refused(format!("{shown}: {place}: {why}")),
                    error => engine_error(error),
                })?;
            }
            renewed.push(RenewedLog::new(place, renewal.device_bytes, overwrites));
        }
        renewed.iter().zip(&description.logs).try_for_each(|(it, log)| it.check_named(log, destroy))?;
        Ok((renewal, renewed))
    }

    pub(super) async fn renew_mirror_logs(
        self,
        event_loop: &Loop,
        destroy: &[Place],
    ) -> Result<Vec<RenewedLog>, VolumeError> {
        let (renewal, planned) = self.look_at_lost_mirror_logs(event_loop, destroy).await?;
        let (folder, description) = (self.folder().to_owned(), self.description());
        let (mut drives, mut guards) = (Vec::new(), Vec::new());
        for (number, planned) in planned.iter().enumerate() {
            let (drive, guard) = make(event_loop, &folder, &description, number, planned).await?;
            planned.check_size(&drive)?;
            drives.push(drive);
            guards.extend(guard);
        }
        let engine_error = |source| VolumeError::Engine { folder: folder.clone(), source };
        for (place, drive) in drives.iter().enumerate() {
            choose_durable_way(drive).await.map_err(engine_error)?;
            let places = drives.len() as u16;
            renew_mirror_log(&renewal, drive, place as u16, places).await.map_err(engine_error)?;
        }
        let logs = description.logs.iter().zip(&drives);
        let logs: Vec<_> = logs.map(|(log, drive): (_, &MemberDrive)| described(log, drive)).collect();
        if logs != description.logs {
            self.0.change(|description| description.logs = logs)?;
        }
        guards.into_iter().for_each(crate::scratch::ScratchFile::keep);
        Ok(planned)
    }
}
