//! A volume that is served becomes one of another layout: copied while its clients go on, and switched between two requests.
//!
//! ```text
//!   clients ──► old members ─ copied ─► new members       what changes meanwhile is marked, and copied again
//!   held        the last changed pages; the new members closed, described, opened again
//!   clients ──────────────────────────► new members       the old members are closed, and stay
//! ```
//!
//! 1. Until the description names the new members, durably, the volume is what it was: whoever gives up, an error or a kill leaves
//!    it so. All that was acknowledged by then is on the new members, and home.
//! 2. Clients are held while what is left is copied, and the new members, which have most of it at home, are closed and opened: no
//!    longer than [`HELD_MAX_NS`] for either, or the conversion is given up. What is copied, and at what pace, is the engine's
//!    ([`evenkeel_engine::conversion`]).
//! 3. Once begun, the switch comes to its end, whoever waits for it.

use std::cell::Cell;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use evenkeel_engine::conversion::{CopyError, CopyProgress, CopyStage, Hold, VolumeCopy};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::ring::{Policy, RingOptions};

use super::convert::{NewVolume, PREFIX, moved};
use super::described::Described;
use super::description::Description;
use super::devices::{AnyJournal, AnyPages};
use super::mirror::Mirror;
use super::{
    LocalVolume, LockedVolume, OpenVolume, RunOptions, RunOptionsByLayout, SwitchedVolume, VolumeError,
};
use crate::arena::SharedArena;
use crate::event_loop::Loop;
use crate::path_error::PathError;
use crate::scratch::settle_folder;
use crate::wait::{Raced, race};

/// How long clients are held until the new members are closed, and until they are open.
const HELD_MAX_NS: u64 = 30_000_000_000;

/// How far a copy is, to be looked at meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// What is being done.
    pub(crate) doing: Cell<&'static str>,
    /// Bytes of it that are done, and all of them.
    pub(crate) done_bytes: Cell<u64>,
    pub(crate) all_bytes: Cell<u64>,
}

impl Progress {
    pub(crate) fn is_at(&self, doing: &'static str, done_bytes: u64, all_bytes: u64) {
        self.doing.set(doing);
        self.done_bytes.set(done_bytes);
        self.all_bytes.set(all_bytes);
    }

    fn copies(&self, copied: CopyProgress) {
        let doing = match copied.stage {
            CopyStage::All => "copying",
            CopyStage::Changed => "copying what changed",
        };
        self.is_at(doing, copied.done_bytes, copied.all_bytes);
    }
}

/// Converts a served volume.
#[derive(Clone)]
pub(crate) struct Converter {
    event_loop: Loop,
    switched: SwitchedVolume,
    described: Rc<Described>,
    /// Of the volume as it is, where it has several members.
    mirror: Option<Mirror>,
    /// Where its acknowledged writes survive a kill.
    arena_path: Option<PathBuf>,
    run: RunOptionsByLayout,
}

/// All but what changed of late is copied.
pub(crate) struct Copied {
    converter: Converter,
    copying: VolumeCopy<Loop, SharedArena, AnyPages, AnyJournal>,
    new: NewVolume,
    /// Pages with contents that were copied.
    pages: u64,
}

/// What came of a conversion.
pub(crate) struct Switched {
    /// The volume that is served from now on.
    pub(crate) open: OpenVolume,
    pub(crate) pages: u64,
}

fn refused<T>(why: String) -> Result<T, VolumeError> {
    Err(VolumeError::Refused(why))
}

impl Converter {
    /// Of the open volume behind `switched`; what takes its place is run as `run` says.
    pub(crate) fn new(
        event_loop: &Loop,
        open: &OpenVolume,
        switched: &SwitchedVolume,
        run: RunOptionsByLayout,
    ) -> Self {
        let (event_loop, switched) = (event_loop.clone(), switched.clone());
        let (mirror, arena_path) = (open.mirror().cloned(), open.arena_path().map(Path::to_owned));
        Self { event_loop, switched, described: open.described(), mirror, arena_path, run }
    }

    /// Copies all of it to the members that are described in `from`, a folder in the volume's. Dropped, it leaves the volume as it
    /// was.
    ///
    /// # Errors
    ///
    /// Where `from` is no place for it, or takes smaller commits; while a log device is being replaced; those of the drives.
    pub(crate) async fn copy(&self, from: &Path, progress: &Progress) -> Result<Copied, VolumeError> {
        self.check()?;
        progress.is_at("opening the new members", 0, 1);
        let (folder, old) = (self.described.folder(), self.switched.now());
        let from = from.canonicalize().map_err(|error| PathError::new(from, "cannot find", error))?;
        let inside = folder.canonicalize().map_err(|error| PathError::new(folder, "cannot find", error))?;
        let name = from.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if from.parent() != Some(&inside) || !name.starts_with(PREFIX) {
            return refused(format!("{}: no conversion of this volume is prepared there", from.display()));
        }
        // Nobody reads there yet, who would be spared by turns.
        let locked = LockedVolume::lock_at_once(&from)?;
        let run = self.run.of(locked.description().layout);
        let ring = RingOptions { policy: Policy::Mixed, ..run.ring };
        let new = NewVolume::new(locked.open_new(&self.event_loop, RunOptions { ring, ..run }).await?);
        check_alike(&old, &new.get().volume, self.switched.has_told_limits())?;
        let volume = new.get().volume.clone();
        let copying = VolumeCopy::begin(self.event_loop.clone(), &self.switched, volume).await;
        let copied = copying.copy(run.ring.rebuild_bytes_per_s, &|copied| progress.copies(copied)).await;
        let pages = copied.map_err(|failed| self.told(failed))?;
        Ok(Copied { converter: self.clone(), copying, new, pages })
    }

    /// That it can be converted, as far as is known before its new members are there.
    ///
    /// # Errors
    ///
    /// [`VolumeError::Refused`] while a log device is being replaced.
    pub(crate) fn check(&self) -> Result<(), VolumeError> {
        match self.mirror.as_ref().and_then(|mirror| mirror.logs.copying()) {
            // The description is to name it at its end.
            Some(_) => {
                refused("a log device is being replaced: convert the volume once that has ended".to_owned())
            }
            None => Ok(()),
        }
    }

    fn told(&self, failed: CopyError) -> VolumeError {
        match failed {
            CopyError::Old(source) => {
                VolumeError::Engine { folder: self.described.folder().to_owned(), source }
            }
            // The volume is well.
            CopyError::New(Error::Latched(why)) => VolumeError::Refused(format!("not converted: {why}")),
            CopyError::New(error) => VolumeError::Refused(format!("not converted: {error}")),
        }
    }
}

/// That what was made for one volume can take the place of it while requests come.
fn check_alike(old: &LocalVolume, new: &LocalVolume, is_mounted: bool) -> Result<(), VolumeError> {
    if new.size_bytes() != old.size_bytes() || new.atomic_max_bytes() != old.atomic_max_bytes() {
        return refused(
            "the volume has grown since its new members were made: convert it once more".to_owned(),
        );
    }
    let is_smaller =
        new.commit_max_bytes() < old.commit_max_bytes() || new.commit_pages_max() < old.commit_pages_max();
    if is_mounted && is_smaller {
        let why = "the file system that is mounted makes larger commits than its new log would take; choose a larger \
                   --log-size, or unmount it first";
        return refused(why.to_owned());
    }
    Ok(())
}

impl Copied {
    /// Has the new members take the place of the old ones. The volume that was served before is for the caller to close. To be run
    /// to its end.
    ///
    /// # Errors
    ///
    /// Those of the drives and of the description; then the volume is what it was, and served.
    pub(crate) async fn take_place(self, progress: &Progress) -> Result<Switched, VolumeError> {
        let Self { converter, copying, new, pages } = self;
        let Converter { event_loop, switched, described, mirror, arena_path, .. } = &converter;
        let folder = described.folder();
        progress.is_at("switching", 0, 1);
        // Nobody opens a member of the volume anew meanwhile, by what the description says of it.
        let _no_other = match mirror {
            Some(mirror) => Some(mirror.replacing.take().await),
            None => None,
        };
        let hold = switched.hold().await;
        let from = new.get().folder().to_owned();
        let description = moved(new.get().description(), &from, folder)?;
        let closing = async {
            let copied = copying.finish(&hold, &|copied| progress.copies(copied)).await;
            copied.map_err(|failed| converter.told(failed))?;
            drop(copying);
            progress.is_at("switching", 0, 1);
            new.close().await
        };
        in_time(event_loop, closing).await?;
        fs::remove_dir_all(&from)
            .and_then(|()| settle_folder(folder))
            .map_err(|error| PathError::new(&from, "cannot remove", error))?;
        let before = described.description();
        described.change(|now| now.clone_from(&description)).inspect_err(|error| {
            if let VolumeError::Undescribed(why) = error {
                // Which of them the next start opens is not known: what only one of them has must not be acknowledged.
                switched.now().fail(why);
            }
        })?;
        match in_time(event_loop, converter.open()).await {
            Ok(open) => {
                hold.switch(open.volume.clone());
                if let Some(path) = arena_path {
                    // What it holds is on the new members; nobody looks for it any more.
                    let _gone_already_is_fine = fs::remove_file(path);
                }
                Ok(Switched { open, pages })
            }
            Err(error) => Err(converter.go_back(&before, error, &hold)),
        }
    }
}

/// Does what clients are held for, if it does not take too long.
async fn in_time<T>(
    event_loop: &Loop,
    work: impl Future<Output = Result<T, VolumeError>>,
) -> Result<T, VolumeError> {
    match race(work, event_loop.sleep(HELD_MAX_NS)).await {
        Raced::First(done) => done,
        Raced::Second(()) => {
            let held_s = HELD_MAX_NS / 1_000_000_000;
            refused(format!("the new members do not answer: clients were held for {held_s} s, and no longer"))
        }
    }
}

impl Converter {
    /// Opens what the description names by now.
    async fn open(&self) -> Result<OpenVolume, VolumeError> {
        let run = self.run.of(self.described.description().layout);
        LockedVolume(Rc::clone(&self.described)).open(&self.event_loop, run).await
    }

    /// The new members were closed, and cannot be opened: the old ones are what they were, nothing was written since.
    fn go_back(
        &self,
        before: &Description,
        why: VolumeError,
        _nothing_is_written: &Hold<LocalVolume>,
    ) -> VolumeError {
        match self.described.change(|now| now.clone_from(before)) {
            Ok(()) => why,
            Err(error) => {
                let members = before.members.iter().chain(&before.logs).map(|member| member.place.quoted());
                let lost = format!(
                    "volume.toml names members that cannot be opened, and cannot be corrected ({error}): have it name {} again \
                     before the next start",
                    members.collect::<Vec<_>>().join(" ")
                );
                self.switched.now().fail(&lost);
                VolumeError::Undescribed(format!("{why}; {lost}"))
            }
        }
    }
}
