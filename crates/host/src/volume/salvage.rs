//! A volume that is opened to be salvaged: whatever of it is there, read and never written.
//!
//! 1. Members and log devices are opened for reading alone, also on a drive or file system that is read-only; what cannot
//!    be opened is missing, and said to be. One that somebody uses, or that this user may not read, is a mistake: nothing
//!    is opened then.
//! 2. The arena is copied, and stays as it is.

use std::path::Path;
use std::rc::Rc;

use evenkeel_engine::options::OpenOptions;
use evenkeel_engine::salvage::{
    self, Available, Cause, KnownVolume, MemoryArena, MirrorHeads, Part, Salvaged, Source,
};

use super::arenas::{Arenas, Waiting};
use super::description::{Description, Member};
use super::devices::AnyPages;
use super::fencing::Purpose;
use super::member::{MemberDrive, Place};
use super::mirror::is_mistake;
use super::mixed_up::{check_two_files, mixed_up};
use super::{LockedVolume, VolumeError};
use crate::drive::DriveOptions;
use crate::event_loop::Loop;

/// What a volume on this machine is salvaged from.
pub type LocalSource = Source<AnyPages>;

/// What is salvaged of a volume on this machine.
pub type LocalSalvaged = Salvaged<Loop, LocalSource>;

/// A volume that is opened to be salvaged.
pub struct OpenSalvage {
    /// What reads it, and what is known of it.
    pub salvaged: LocalSalvaged,
    /// Members and log devices that are missing, each with why.
    pub missing: Vec<(Place, String)>,
    /// Whether it was not stopped in order, and nothing in memory is left of its last opening: what was acknowledged and
    /// not flushed may be gone, which no device can tell.
    pub memory_is_gone: bool,
    /// Holds the lock of the volume.
    _locked: LockedVolume,
}

impl std::fmt::Debug for OpenSalvage {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("OpenSalvage").field("missing", &self.missing).finish_non_exhaustive()
    }
}

impl OpenSalvage {
    /// Opens what there is of a volume. `progress` is told how much of the sums was looked at, and of how much.
    ///
    /// # Errors
    ///
    /// Where members are in use or may not be read, and where nothing says how the volume lies on them.
    pub async fn open(
        event_loop: &Loop,
        locked: LockedVolume,
        options: OpenOptions,
        progress: impl Fn(u64, u64),
    ) -> Result<Self, VolumeError> {
        let (folder, description) = (locked.folder().to_owned(), locked.description());
        check_two_files(&folder, &description)?;
        let mut missing = Vec::new();
        let members = open_all(event_loop, &folder, &description.members, &mut missing).await?;
        let logs = open_all(event_loop, &folder, &description.logs, &mut missing).await?;
        let (arena, is_of_other_version) = match Arenas::of(&folder, &description).look()? {
            Some(Waiting::Arena(seen)) => (Some(MemoryArena::copy_of(&seen)), false),
            Some(Waiting::OtherVersion) => (None, true),
            None => (None, false),
        };
        let arena_is_there = Arenas::of(&folder, &description).is_any_there();
        let is_ring = description.layout.is_ring();
        if let ([Some(home)], false) = (&members[..], is_ring)
            && let Some(error) = {
                let log = logs.first().and_then(Option::as_ref);
                mixed_up(&folder, &description, home, log, false).await
            }
        {
            return Err(error);
        }
        let (mut available, heads) = find(&description, &members, &logs, arena).await;
        if is_of_other_version {
            available.causes.push(Cause::ArenaOfOtherVersion);
        }
        if available.home.is_empty() {
            let why = missing.iter().map(|(place, why)| format!("; {place}: {why}")).collect::<String>();
            return Err(VolumeError::Refused(format!(
                "{}: no member with its pages is there{why}",
                folder.display()
            )));
        }
        let known = known(&description, heads);
        let opened = salvage::open(event_loop.clone(), available, &known, options, progress).await;
        let salvaged = opened.map_err(|source| VolumeError::Engine { folder, source })?;
        let memory_is_gone = !salvaged.follows_stop && !arena_is_there;
        Ok(Self { salvaged, missing, memory_is_gone, _locked: locked })
    }
}

/// What there is of the volume on these members and log devices.
async fn find(
    description: &Description,
    members: &[Option<AnyPages>],
    logs: &[Option<AnyPages>],
    arena: Option<MemoryArena>,
) -> (Available<LocalSource>, MirrorHeads) {
    let volume = description.id.0;
    if let Some(striped) = description.layout.striped() {
        let zone = description.stripe_log();
        return salvage::find_striped(volume, striped.stripes, zone, members, logs, arena).await;
    }
    let sources = |devices: &[Option<AnyPages>]| -> Vec<Option<LocalSource>> {
        devices.iter().cloned().map(|device| device.map(Source::Drive)).collect()
    };
    let (members, logs) = (sources(members), sources(logs));
    if description.layout.is_ring() {
        return salvage::find_mirror(volume, &members, &logs, description.region_bytes(), arena).await;
    }
    let parts = |devices: Vec<Option<LocalSource>>| {
        let there = devices.into_iter().enumerate();
        there.filter_map(|(place, device)| Some(Part { device: device?, offset: 0, place })).collect()
    };
    let (home, log) = (parts(members), parts(logs));
    (Available { home, log, is_log_in_parts: false, arena, causes: Vec::new() }, MirrorHeads::default())
}

fn known(description: &Description, heads: MirrorHeads) -> KnownVolume {
    let is_ring = description.layout.is_ring();
    KnownVolume {
        volume: description.id.0,
        size_bytes: description.size_bytes,
        atomic_max_bytes: description.atomic_max_bytes,
        log_bytes: description.log_bytes,
        sizes_before: description.sizes_before,
        separate_log: is_ring || !description.logs.is_empty(),
        is_ring,
        heads,
    }
}

async fn open_all(
    event_loop: &Loop,
    folder: &Path,
    members: &[Member],
    missing: &mut Vec<(Place, String)>,
) -> Result<Vec<Option<AnyPages>>, VolumeError> {
    let mut drives = Vec::new();
    for member in members {
        // In whatever sectors it has now.
        let options = DriveOptions { read_only: true, sector_bytes: None, ..member.options() };
        drives.push(
            match MemberDrive::open(event_loop, &member.place.within(folder), options, Purpose::Look).await {
                Ok(drive) => Some(AnyPages::Drive(Rc::new(drive))),
                Err(error) if is_mistake(&error.source) => return Err(error.into()),
                Err(error) => {
                    missing.push((member.place.clone(), format!("{}: {}", error.doing, error.source)));
                    None
                }
            },
        );
    }
    Ok(drives)
}
