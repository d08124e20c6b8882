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
//! 2. Clients are held while little is copied ([`LAST_BYTES`]), and the new members, which have most of it at home, are closed and
//!    opened: no longer than [`HELD_MAX_NS`] for either, or the conversion is given up. While much is marked, clients write half as
//!    fast as it is copied: so it comes to its end, however fast they write.
//! 3. Beside clients no more is copied in a second than a rebuild may copy.
//! 4. Once begun, the switch comes to its end, whoever waits for it.

use std::cell::Cell;
use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use evenkeel_engine::device::{Durability, Extent};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::ring::{Policy, RingOptions};

use super::convert::{NewVolume, PIECE_PAGES, PREFIX, moved};
use super::described::Described;
use super::description::Description;
use super::mirror::Mirror;
use super::switched::{Hold, SwitchedVolume, Tracking};
use super::{LocalVolume, LockedVolume, OpenVolume, RunOptions, RunOptionsByLayout, VolumeError};
use crate::event_loop::Loop;
use crate::path_error::PathError;
use crate::scratch::settle_folder;
use crate::wait::{Raced, race, yield_now};

/// Bytes that are left for the time when clients are held, at most but one mark.
const LAST_BYTES: u64 = 1 << 20;

/// Bytes that may change while the new members take home what was copied, so that the next time is short.
const SETTLED_BYTES: u64 = 16 << 20;

/// So often that is tried.
const SETTLED_TRIES: usize = 8;

/// How long clients are held until the new members are closed, and until they are open.
const HELD_MAX_NS: u64 = 30_000_000_000;

/// How far a copy may be behind its pace and still make up for it.
const BEHIND_MAX_NS: u64 = 100_000_000;

/// Bytes that are copied at once.
const PIECE_BYTES: u64 = PIECE_PAGES * PAGE_BYTES;

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
    fn is_at(&self, doing: &'static str, done_bytes: u64, all_bytes: u64) {
        self.doing.set(doing);
        self.done_bytes.set(done_bytes);
        self.all_bytes.set(all_bytes);
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
    tracking: Tracking,
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
        let tracking = self.switched.track().await;
        let pace = Some(Pace::new(&self.event_loop, run.ring.rebuild_bytes_per_s));
        let copying = Copying { old: &old, new: &new.get().volume, tracking: &tracking, pace, progress };
        let copied = match copying.all().await {
            Ok(pages) => copying.what_changed().await.map(|()| pages),
            Err(error) => Err(error),
        };
        let pages = copied.map_err(|failed| self.told(failed))?;
        Ok(Copied { converter: self.clone(), tracking, new, pages })
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

    fn told(&self, failed: Failed) -> VolumeError {
        match failed {
            Failed::Old(source) => VolumeError::Engine { folder: self.described.folder().to_owned(), source },
            // The volume is well.
            Failed::New(Error::Latched(why)) => VolumeError::Refused(format!("not converted: {why}")),
            Failed::New(error) => VolumeError::Refused(format!("not converted: {error}")),
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

/// So many bytes in a second, and no more.
struct Pace {
    event_loop: Loop,
    bytes_per_s: u64,
    /// When what was copied so far would have been copied at that pace.
    due_ns: Cell<u64>,
}

impl Pace {
    fn new(event_loop: &Loop, bytes_per_s: u64) -> Self {
        let due_ns = Cell::new(event_loop.now_ns());
        Self { event_loop: event_loop.clone(), bytes_per_s: bytes_per_s.max(1), due_ns }
    }

    /// So many bytes were copied: lets others have their turn, for as long as that takes.
    async fn keep(&self, bytes: u64) {
        let now_ns = self.event_loop.now_ns();
        let takes_ns = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s);
        // What was slow is not made up for.
        let due_ns = self.due_ns.get().max(now_ns.saturating_sub(BEHIND_MAX_NS));
        self.due_ns.set(due_ns.saturating_add(u64::try_from(takes_ns).unwrap_or(u64::MAX)));
        match self.due_ns.get().saturating_sub(now_ns) {
            0 => yield_now().await,
            early_ns => self.event_loop.sleep(early_ns).await,
        }
    }
}

/// Which of the two failed.
enum Failed {
    Old(Error),
    New(Error),
}

/// From one volume to the other.
struct Copying<'a> {
    old: &'a LocalVolume,
    new: &'a LocalVolume,
    tracking: &'a Tracking,
    /// `None` while clients are held.
    pace: Option<Pace>,
    progress: &'a Progress,
}

impl Copying<'_> {
    /// Copies every page that has contents; answers how many.
    async fn all(&self) -> Result<u64, Failed> {
        let (size_bytes, mut pages) = (self.old.size_bytes(), 0);
        let piece_bytes = PIECE_BYTES.max(self.tracking.mark_bytes());
        let mut offset = 0;
        while offset < size_bytes {
            let piece = Extent::new(offset, piece_bytes.min(size_bytes - offset));
            self.tracking.take_all_of(piece);
            let copied = self.piece(piece, false).await?;
            pages += copied;
            offset = piece.end();
            self.progress.is_at("copying", offset, size_bytes);
            self.let_others(copied).await;
        }
        Ok(pages)
    }

    /// Copies what has changed meanwhile, until little is left, and the new members have it at home.
    async fn what_changed(&self) -> Result<(), Failed> {
        let left = LAST_BYTES / self.tracking.mark_bytes();
        for _ in 0..SETTLED_TRIES {
            self.some_that_changed(left).await?;
            self.new.checkpoint().await.map_err(Failed::New)?;
            // The less is taken home at a time, the less changes meanwhile.
            if self.tracking.marked() * self.tracking.mark_bytes() <= SETTLED_BYTES {
                break;
            }
        }
        self.some_that_changed(left).await
    }

    /// Copies what has changed until no more than so many marks are left: every two that are copied let one come.
    async fn some_that_changed(&self, left: u64) -> Result<(), Failed> {
        let (mut offset, mut bound) = (0, self.tracking.marked());
        let all = bound;
        while self.tracking.marked() > left {
            let before = self.tracking.marked();
            let Some(piece) = self.tracking.take(offset, PIECE_BYTES) else { break };
            bound = bound.saturating_sub(before.saturating_sub(self.tracking.marked()).div_ceil(2));
            self.tracking.bound(bound.max(left));
            let copied = self.piece(piece, true).await?;
            offset = piece.end();
            let (done, mark_bytes) = (all.saturating_sub(self.tracking.marked()), self.tracking.mark_bytes());
            self.progress.is_at("copying what changed", done * mark_bytes, all * mark_bytes);
            self.let_others(copied).await;
        }
        self.tracking.bound(u64::MAX);
        Ok(())
    }

    /// So many pages were copied.
    async fn let_others(&self, pages: u64) {
        if let Some(pace) = &self.pace {
            pace.keep(pages * PAGE_BYTES).await;
        }
    }

    /// Copies the pages of a piece that have contents; answers how many. Where it was copied `before`, what has none is zeroed.
    async fn piece(&self, piece: Extent, before: bool) -> Result<u64, Failed> {
        let (mut page, end) = (piece.offset / PAGE_BYTES, piece.end() / PAGE_BYTES);
        let (mut copied, mut buffer) = (0, Vec::new());
        while page < end {
            let (first, has_contents) = (page, self.old.is_allocated(page).await.map_err(Failed::Old)?);
            page += 1;
            while page < end
                && page - first < PIECE_PAGES
                && self.old.is_allocated(page).await.map_err(Failed::Old)? == has_contents
            {
                page += 1;
            }
            let run = Extent::new(first * PAGE_BYTES, (page - first) * PAGE_BYTES);
            if has_contents {
                buffer.resize(run.len as usize, 0);
                self.old.read(run.offset, &mut buffer).await.map_err(Failed::Old)?;
                self.new.write(run.offset, &buffer, Durability::Buffered).await.map_err(Failed::New)?;
                copied += page - first;
            } else if before {
                self.new.write_zeroes(run, Durability::Buffered).await.map_err(Failed::New)?;
            }
        }
        Ok(copied)
    }
}

impl Copied {
    /// Has the new members take the place of the old ones. The volume that was served before is for the caller to close. To be run
    /// to its end.
    ///
    /// # Errors
    ///
    /// Those of the drives and of the description; then the volume is what it was, and served.
    pub(crate) async fn take_place(self, progress: &Progress) -> Result<Switched, VolumeError> {
        let Self { converter, tracking, new, pages } = self;
        let Converter { event_loop, switched, described, mirror, arena_path, .. } = &converter;
        let folder = described.folder();
        progress.is_at("switching", 0, 1);
        // Nobody opens a member of the volume anew meanwhile, by what the description says of it.
        let _no_other = match mirror {
            Some(mirror) => Some(mirror.replacing.take().await),
            None => None,
        };
        let hold = switched.hold().await;
        let old = switched.now();
        let from = new.get().folder().to_owned();
        let description = moved(new.get().description(), &from, folder)?;
        let closing = async {
            let copying =
                Copying { old: &old, new: &new.get().volume, tracking: &tracking, pace: None, progress };
            let copied = copying.some_that_changed(0).await;
            copied.map_err(|failed| converter.told(failed))?;
            new.close().await
        };
        in_time(event_loop, closing).await?;
        drop(tracking);
        fs::remove_dir_all(&from)
            .and_then(|()| settle_folder(folder))
            .map_err(|error| PathError::new(&from, "cannot remove", error))?;
        let before = described.description();
        described.change(|now| now.clone_from(&description))?;
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
    fn go_back(&self, before: &Description, why: VolumeError, _nothing_is_written: &Hold) -> VolumeError {
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
