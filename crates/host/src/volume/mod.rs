//! A volume on this machine: a folder that describes it, its member files or devices, and its arena.
//!
//! ```text
//! folder/volume.toml   description: what it is and where its members are
//! folder/home          its pages                        (or a block device, or an NBD server's export)
//! folder/log           its log                          (the same, or a part of home)
//! folder/member-N, log-N   of a mirror, those instead   (the same)
//! folder/control.sock  while it is served: for `grow` and `replace`
//! folder/nbd.sock      while it is served
//! folder/status.sock   while it is served
//! /dev/shm/...         arena: writes that are acknowledged and not yet durable
//! ```
//!
//! 1. A folder is opened by one process at a time: its description is locked, and so is each member.
//! 2. The arena is found again after a kill -9, by the volume whose writes it holds and by no other (`arenas`). It
//!    goes only when the volume was closed with nothing left in it, or its opening made it and came to nothing. Whose
//!    members these are is known before an arena is touched.
//! 3. Nothing that exists is overwritten unless it was named for it ([`create`]).

pub mod arenas;
pub mod convert;
pub(crate) mod convert_served;
pub mod create;
mod described;
pub mod description;
pub mod devices;
pub mod exports;
pub mod fencing;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod grow;
mod held;
mod kept;
mod label;
pub mod layout_kind;
pub mod member;
pub mod mirror;
mod mixed_up;
mod owner;
mod plan;
pub mod renew_log;
mod renew_mirror_logs;
pub mod replace;
pub mod rescue;
pub mod salvage;
pub mod slot;
pub mod tuned;

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use evenkeel_engine::env::Arena as _;
use evenkeel_engine::error::Error;
use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::layout::mirror::head_copies::HeadsOf;
use evenkeel_engine::options::OpenOptions;
use evenkeel_engine::ring::RingOptions;
use evenkeel_engine::volume::{Identity, Inspection, Volume, arena_bytes_min, identify, inspect};

use crate::arena::SharedArena;
use crate::event_loop::Loop;
use crate::path_error::PathError;
use crate::remedy::{Advise, Remedy, Setting, advised};
use crate::size_text::{exact_size, size};
use crate::stack::space_bytes;
use crate::wait::Turn;

use arenas::{Arenas, PassedOver};
pub(crate) use described::Described;
pub use described::{is_in_use, user_of};
use description::Description;
use devices::{AnyJournal, AnyPages};
use fencing::Opening;
use grow::had_size;
pub(crate) use held::{Held, Loss};
use layout_kind::LayoutKind;
use member::{MemberDrive, Members, Watch, lost};
use mirror::{DamagedHead, Mirror};
use mixed_up::{check_two_files, mixed_up, too_short};
use plan::buffer_bytes_max;
use tuned::Tuned;

/// A volume of the engine on this machine's drives.
pub type LocalVolume = Volume<Loop, SharedArena, AnyPages, AnyJournal>;

/// One in whose place another can come while clients are connected.
pub type SwitchedVolume = evenkeel_engine::conversion::SwitchedVolume<LocalVolume>;

/// How a volume is run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunOptions {
    /// The volume.
    pub volume: OpenOptions,
    /// A mirror's members.
    pub ring: RingOptions,
    /// Whether everything that is written is kept in memory: nothing of the volume changes, and nobody is to use it but
    /// to look at it.
    pub keeps_writes: bool,
}

impl From<OpenOptions> for RunOptions {
    fn from(volume: OpenOptions) -> Self {
        Self { volume, ring: RingOptions::default(), keeps_writes: false }
    }
}

/// How a volume is run as long as it has this layout or that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunOptionsByLayout {
    /// One member.
    pub single: RunOptions,
    /// Several members that make a ring.
    pub ring: RunOptions,
}

impl RunOptionsByLayout {
    /// How one of `layout` is run.
    pub fn of(&self, layout: LayoutKind) -> RunOptions {
        if layout.is_ring() { self.ring } else { self.single }
    }
}

/// What can go wrong with a volume and its folder.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// Something about one of its files.
    #[error(transparent)]
    Path(#[from] PathError),
    /// There is no volume.
    #[error("{}: no volume is here", .0.display())]
    NotAVolume(PathBuf),
    /// Another process has it.
    #[error("{}: it is being served or checked by another process; stop that one first", .0.display())]
    InUse(PathBuf),
    /// The description cannot be used.
    #[error("{}: {why}", path.display())]
    Description {
        /// The file.
        path: PathBuf,
        /// What is wrong, in one line.
        why: String,
    },
    /// Acknowledged writes are in the way that are not those of the volume as its members hold it.
    #[error("{}: {why}", path.display())]
    Arena {
        /// The arena that holds them.
        path: PathBuf,
        /// Whose they are, and what to do, in one line.
        why: String,
    },
    /// It cannot be made as asked.
    #[error("{0}")]
    Refused(String),
    /// It cannot be made with a size as asked.
    #[error("{setting} {bytes}: {why}")]
    Setting {
        /// Which size.
        setting: Setting,
        /// What was asked for.
        bytes: u64,
        /// Why not, and what can be had.
        why: String,
    },
    /// Something went wrong, and this can be done about it.
    #[error("{problem}")]
    Remediable {
        /// What went wrong.
        problem: Box<VolumeError>,
        /// What helps.
        remedy: Remedy,
    },
    /// It cannot be opened, since members are lost.
    #[error("{0}")]
    Incomplete(String),
    /// Its server was told to do something, and whether it did is not known.
    #[error("{}: its server does not answer ({source})", folder.display())]
    Unanswered {
        /// The volume.
        folder: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Members were replaced, or were to be, and the description does not say what they are.
    #[error("{0}")]
    Undescribed(String),
    /// The engine's word on what the members hold.
    #[error("{}: {source}", folder.display())]
    Engine {
        /// The volume.
        folder: PathBuf,
        /// The cause.
        source: Error,
    },
}

impl VolumeError {
    /// This error, with what can be done about it.
    pub(crate) fn with(self, remedy: Remedy) -> Self {
        Self::Remediable { problem: Box::new(self), remedy }
    }

    /// What can be done about it, beyond what its words say.
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::NotAVolume(_) => Some(Remedy::MakeVolume),
            Self::Unanswered { .. } => Some(Remedy::LookAtStatus),
            Self::Remediable { remedy, .. } => Some(remedy.clone()),
            Self::Path(error) if fencing::takes_several(&error.source) => Some(Remedy::SayUnfenced),
            _ => None,
        }
    }

    /// What is wrong, with what `advise` says of its remedy.
    pub fn explained(&self, advise: Advise) -> String {
        match self.remedy() {
            Some(remedy) => advised(self.to_string(), advise, &remedy),
            None => self.to_string(),
        }
    }

    fn description(path: &Path, why: &dyn std::fmt::Display) -> Self {
        let why = why.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        Self::Description { path: path.to_owned(), why }
    }
}

/// A volume that is open, and its folder.
pub struct OpenVolume {
    /// What serves reads and writes.
    pub volume: LocalVolume,
    /// What a cut or a kill had left to be done.
    pub recovered: Recovered,
    /// What of its superblocks and roots was damaged before it was opened: the opening writes them anew.
    pub at_rest: Inspection,
    /// Which copies of the heads of a mirror were wrong then: the opening and the stop write those of members anew.
    pub damaged_heads: Vec<DamagedHead>,
    /// What others put where its arena would be, if they did.
    pub passed_over: Option<PassedOver>,
    described: Rc<Described>,
    /// Where that is, unless nothing of the volume changes.
    arena_path: Option<PathBuf>,
    below: Rc<Below>,
    /// Of whoever makes it larger.
    growing: Rc<Turn>,
}

/// What lies below a volume.
enum Below {
    /// One member, and a log device or none; and who tells the volume of their loss.
    Single(Members, Watch),
    /// Several of them.
    Mirror(Box<Mirror>),
}

/// The devices of a volume that is not open yet.
struct Devices {
    home: Rc<AnyPages>,
    log: Rc<AnyJournal>,
    separate_log: bool,
    below: Below,
}

impl Devices {
    async fn open(
        event_loop: &Loop,
        folder: &Path,
        description: &Description,
        options: &RunOptions,
    ) -> Result<Self, VolumeError> {
        let opening = Opening::new(event_loop, description.id.0).keeping(options.keeps_writes);
        if description.layout.is_ring() {
            let mirror = Mirror::open(event_loop, folder, description, options.ring, opening).await?;
            return Ok(Self {
                home: Rc::new(AnyPages::Ring(mirror.ring.clone())),
                log: Rc::new(AnyJournal::Mirror(mirror.logs.clone())),
                separate_log: true,
                below: Below::Mirror(Box::new(mirror)),
            });
        }
        check_two_files(folder, description)?;
        let mut members = Vec::new();
        for (number, member) in description.members.iter().chain(&description.logs).enumerate() {
            let (place, purpose) = (member.place.within(folder), opening.member(number, member.unfenced));
            let drive = MemberDrive::open(event_loop, &place, member.options(), purpose).await?;
            members.push((member.place.clone(), Rc::new(drive)));
        }
        let drive = |number: usize| Rc::clone(&members[number].1);
        let separate_log = members.len() > 1;
        let home = Rc::new(AnyPages::Drive(drive(0)));
        let log = Rc::new(AnyJournal::Drive(drive(members.len() - 1)));
        Ok(Self { home, log, separate_log, below: Below::Single(Members(members), Watch::default()) })
    }
}

impl Below {
    /// Home and log of a volume of one member.
    fn home_and_log(&self) -> Option<(&MemberDrive, Option<&MemberDrive>)> {
        match self {
            Self::Single(members, _) => {
                let mut drives = members.0.iter().map(|(_, drive)| &**drive);
                Some((drives.next()?, drives.next()))
            }
            Self::Mirror(_) => None,
        }
    }

    /// Why a volume of one member cannot be opened, where its home and log are mixed up.
    async fn cause(&self, folder: &Path, description: &Description) -> Option<VolumeError> {
        let (home, log) = self.home_and_log()?;
        mixed_up(folder, description, home, log, true).await
    }

    /// The same error with what is too short, where that is why.
    async fn with_lengths(&self, description: &Description, source: Error) -> Error {
        let (Error::Unusable(_), Some((home, log))) = (&source, self.home_and_log()) else { return source };
        too_short(description, home, log).await.map_or(source, Error::Unusable)
    }

    /// Fails the volume of one member when a connection to its drives breaks.
    fn watch(&self, event_loop: &Loop, volume: &LocalVolume) {
        let Self::Single(members, watch) = self else { return };
        for (place, member) in &members.0 {
            let (volume, place) = (volume.clone(), place.to_string());
            watch.over(event_loop, member, move |error| volume.fail(&lost(&place, &error)));
        }
    }

    /// Which members are lost and why, where that keeps a volume from being opened or used.
    fn lost(&self) -> Option<String> {
        match self {
            Self::Single(members, _) => members.lost(),
            Self::Mirror(mirror) => Some(mirror.missing()).filter(|missing| !missing.is_empty()),
        }
    }
}

/// What was done before a volume was open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovered {
    /// Records of the log.
    pub records: u64,
    /// Writes kept in memory.
    pub writes: u64,
    /// Whether the volume was not stopped in order, as the devices or these records tell, and nothing in memory is left of
    /// the opening before: the power was cut, or somebody removed it. What was acknowledged and not flushed may be gone.
    pub memory_is_gone: bool,
}

impl Recovered {
    /// What to tell whoever runs a volume whose memory is gone.
    pub const MEMORY_IS_GONE: &str = "it was not stopped in order, and nothing is left in memory of its last start: what \
                                      was acknowledged and not flushed may be gone, as after a power cut";

    /// Of a volume that was opened with an arena that was there or not.
    fn of(volume: &LocalVolume, arena_was_there: bool) -> Self {
        let counters = volume.counters();
        let was_stopped = volume.follows_stop() && counters.replayed_records == 0;
        Self {
            records: counters.replayed_records,
            writes: counters.replayed_units,
            memory_is_gone: !was_stopped && !arena_was_there,
        }
    }
}

/// An arena that goes again unless its volume is opened.
struct NewArena(Option<PathBuf>);

impl NewArena {
    fn of(arena: &SharedArena) -> Self {
        Self((!arena.is_kept()).then(|| arena.path().to_owned()))
    }

    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for NewArena {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _gone_already_is_fine = std::fs::remove_file(path);
        }
    }
}

impl std::fmt::Debug for OpenVolume {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("OpenVolume").field("folder", &self.folder()).finish_non_exhaustive()
    }
}

/// A volume that nobody else opens, and of which nothing was written yet.
#[derive(Debug)]
pub struct LockedVolume(Rc<Described>);

impl LockedVolume {
    /// Keeps every other process from opening the volume in `folder`.
    ///
    /// # Errors
    ///
    /// [`VolumeError::InUse`]; where no volume is there.
    pub fn lock(folder: &Path) -> Result<Self, VolumeError> {
        Described::lock(folder).map(|described| Self(Rc::new(described)))
    }

    /// As [`Self::lock`], without waiting for a process that was just killed.
    pub(crate) fn lock_at_once(folder: &Path) -> Result<Self, VolumeError> {
        Described::lock_at_once(folder).map(|described| Self(Rc::new(described)))
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        self.0.folder()
    }

    /// What its folder says of it.
    pub fn description(&self) -> Description {
        self.0.description()
    }

    /// Writes into its description what was chosen by trying, or that nothing was.
    ///
    /// # Errors
    ///
    /// Those of the file system; then what was there stays. Where it is below what a guarantee needs.
    pub fn set_tuned(&self, tuned: Option<Tuned>) -> Result<(), VolumeError> {
        if let Some(tuned) = &tuned {
            let path = self.folder().join(description::FILE_NAME);
            let sound = tuned.check(self.description().atomic_max_bytes);
            sound.map_err(|why| VolumeError::description(&path, &why))?;
        }
        self.0.change(|description| description.tuned = tuned)
    }

    /// Opens it: what a cut or a kill left undone is done first.
    ///
    /// # Errors
    ///
    /// As [`VolumeError`] tells.
    pub async fn open(
        self,
        event_loop: &Loop,
        options: impl Into<RunOptions>,
    ) -> Result<OpenVolume, VolumeError> {
        self.open_if(event_loop, options.into(), async |_, _| Ok(())).await
    }

    /// As [`Self::open`], of one that nobody has opened before: nothing was written to it.
    pub(crate) async fn open_new(
        self,
        event_loop: &Loop,
        options: RunOptions,
    ) -> Result<OpenVolume, VolumeError> {
        let folder = self.folder().to_owned();
        let is_new = async |_: &Below, identity: &Identity| match identity.epoch {
            0 => Ok(()),
            _ => Err(VolumeError::Refused(format!("{}: it is not new: make it anew", folder.display()))),
        };
        self.open_if(event_loop, options, is_new).await
    }

    /// The same, if `may` agrees once it is known whose members these are and nothing of them is written.
    async fn open_if(
        self,
        event_loop: &Loop,
        options: RunOptions,
        may: impl AsyncFnOnce(&Below, &Identity) -> Result<(), VolumeError>,
    ) -> Result<OpenVolume, VolumeError> {
        let described = self.0;
        let (folder, description) = (described.folder(), described.description());
        check_buffer(folder, &description)?;
        let devices = Devices::open(event_loop, folder, &description, &options).await?;
        let Devices { home, log, separate_log, below } = devices;
        let engine_error = |source| opening_error(folder, &below, source);
        let identity = match identify(&*home, &*log, separate_log).await {
            Ok(identity) => identity,
            Err(source) => {
                if let Some(cause) = below.cause(folder, &description).await {
                    return Err(cause);
                }
                return Err(engine_error(below.with_lengths(&description, source).await));
            }
        };
        if let Err(error) = check_made_so(folder, &description, &identity) {
            return Err(below.cause(folder, &description).await.unwrap_or(error));
        }
        may(&below, &identity).await?;
        let at_rest = inspect(&*home, &*log, separate_log).await.map_err(engine_error)?;
        let damaged_heads = match &below {
            Below::Single(..) => Vec::new(),
            Below::Mirror(mirror) => {
                let of = HeadsOf { volume: identity.volume, is_closed: at_rest.is_closed };
                mirror.damaged_heads(of).await
            }
        };
        let len = usize::try_from(description.buffer_bytes).unwrap_or(usize::MAX);
        let arenas = Arenas::of(folder, &description).knowing(&identity, at_rest.is_closed);
        let passed_over = arenas.passed_over().cloned();
        let open = async |arena: SharedArena| {
            let (at, drives) = (arena.path().to_owned(), (Rc::clone(&home), Rc::clone(&log)));
            let opened =
                Volume::open(event_loop.clone(), arena, drives.0, drives.1, separate_log, options.volume)
                    .await;
            let source = match opened {
                Ok(volume) => return Ok(volume),
                Err(source) => source,
            };
            let cause = match &below {
                Below::Mirror(mirror) => mirror.misplaced(folder, &description).await,
                Below::Single(..) => below.cause(folder, &description).await,
            };
            if let Some(cause) = cause {
                return Err(cause);
            }
            let source = below.with_lengths(&description, source).await;
            Err(foreign_writes(&at, &source).unwrap_or_else(|| engine_error(source)))
        };

        let (volume, recovered, arena_path) = match options.keeps_writes {
            true => {
                let arena = arenas.open_copy(&identity, len)?;
                let is_kept = arena.is_kept();
                let volume = open(arena).await?;
                let recovered = Recovered::of(&volume, is_kept);
                (volume, recovered, None)
            }
            false => {
                let arena = arenas.open(&identity, len)?;
                let (made, found_bytes) = (NewArena::of(&arena), arena.len());
                let (found_at, is_kept) = (arena.path().to_owned(), arena.is_kept());
                let mut volume = open(arena).await?;
                let recovered = Recovered::of(&volume, is_kept);
                let mut arena_path = arenas.settle(&found_at)?;
                made.keep();
                // Another length was asked for meanwhile: what is in there goes home first. Where it cannot, the length
                // stays; that of a mirror, whose members know by now in which opening they are, stays until it is closed.
                let is_single = matches!(below, Below::Single(..));
                if found_bytes != len && is_single && volume.clone().close().await.is_ok() {
                    drop(volume);
                    std::fs::remove_file(&arena_path)
                        .map_err(|error| PathError::new(&arena_path, "cannot remove the arena", error))?;
                    let arena = arenas.open_own(len)?;
                    let (made, at) = (NewArena::of(&arena), arena.path().to_owned());
                    volume = open(arena).await?;
                    arena_path = arenas.settle(&at)?;
                    made.keep();
                }
                below.watch(event_loop, &volume);
                if identity.size_bytes != description.size_bytes
                    || !identity.sizes_before.as_slice().is_empty()
                {
                    // It is found out again at the next opening.
                    let _it_may_stay_behind = described.catch_up(&identity);
                }
                (volume, recovered, Some(arena_path))
            }
        };
        let (below, growing) = (Rc::new(below), Rc::default());
        Ok(OpenVolume {
            volume,
            recovered,
            at_rest,
            damaged_heads,
            passed_over,
            described,
            arena_path,
            below,
            growing,
        })
    }
}

impl OpenVolume {
    /// Opens the volume in `folder`, as [`LockedVolume::open`].
    ///
    /// # Errors
    ///
    /// As [`VolumeError`] tells.
    pub async fn open(
        event_loop: &Loop,
        folder: &Path,
        options: impl Into<RunOptions>,
    ) -> Result<Self, VolumeError> {
        LockedVolume::lock(folder)?.open(event_loop, options).await
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        self.described.folder()
    }

    /// What its folder says of it.
    pub fn description(&self) -> Description {
        self.described.description()
    }

    /// Its members and log devices, if it has several.
    pub fn mirror(&self) -> Option<&Mirror> {
        match &*self.below {
            Below::Single(..) => None,
            Below::Mirror(mirror) => Some(mirror),
        }
    }

    /// Its drives, to be looked at while it is used.
    pub(crate) fn held(&self) -> Held {
        match &*self.below {
            Below::Single(members, _) => Held::Single(members.0.clone()),
            Below::Mirror(mirror) => Held::Mirror(mirror.clone()),
        }
    }

    /// Its description, locked.
    pub(crate) fn described(&self) -> Rc<Described> {
        Rc::clone(&self.described)
    }

    /// Where its acknowledged writes survive a kill.
    pub fn arena_path(&self) -> Option<&Path> {
        self.arena_path.as_deref()
    }

    /// Gives it up before anyone has written to it. What a killed process left stays in the arena; where nothing is in it,
    /// it goes.
    pub fn abandon(self) {
        if let Some(path) = self.arena_path.filter(|_| self.volume.occupancy().buffer_used_bytes == 0) {
            let _an_empty_arena_may_stay = std::fs::remove_file(path);
        }
    }

    /// As [`Self::close`], where nobody needs what may be left of it: the arena goes in any case.
    ///
    /// # Errors
    ///
    /// The volume's failure.
    pub async fn close_with_arena(self) -> Result<(), VolumeError> {
        let _goes_in_any_case = RemovedAtEnd(self.arena_path.clone());
        self.close().await
    }

    /// Gives up what nobody is to have: what is in memory of it goes, too, and nothing more is written.
    fn forget(self) {
        self.volume.fail("nobody is to have it");
        if let Below::Mirror(mirror) = &*self.below {
            mirror.stop();
        }
        if let Some(path) = self.arena_path {
            let _gone_already_is_fine = std::fs::remove_file(path);
        }
    }

    /// As [`Self::close`], and has written anew what copies of heads were wrong; answers those that are wrong still.
    ///
    /// # Errors
    ///
    /// As [`Self::close`].
    pub async fn close_with_heads(self) -> Result<Vec<DamagedHead>, VolumeError> {
        let of = HeadsOf { volume: self.volume.identity().volume, is_closed: true };
        let mirror = self.mirror().cloned();
        if let Some(mirror) = &mirror {
            let folder = self.folder().to_owned();
            let mended = mirror.logs.repair_heads().await;
            mended.map_err(|source| VolumeError::Engine { folder, source: source.into() })?;
        }
        self.close().await?;
        match mirror {
            Some(mirror) => Ok(mirror.damaged_heads(of).await),
            None => Ok(Vec::new()),
        }
    }

    /// Makes everything durable, takes it home, and gives the arena's memory back.
    ///
    /// # Errors
    ///
    /// The volume's failure; then the arena stays, with what is not durable in it.
    pub async fn close(self) -> Result<(), VolumeError> {
        if let Below::Mirror(mirror) = &*self.below {
            mirror.stop();
        }
        let folder = self.folder().to_owned();
        let closed = self.volume.close().await;
        closed.map_err(|source| {
            let source = match &*self.below {
                Below::Single(members, _) => {
                    members.lost().map_or(source, |lost| Error::Latched(lost.into()))
                }
                Below::Mirror(_) => source,
            };
            VolumeError::Engine { folder, source }
        })?;
        if let Some(path) = self.arena_path {
            let _an_empty_arena_may_stay = std::fs::remove_file(path);
        }
        Ok(())
    }
}

/// A file that goes at the end.
struct RemovedAtEnd(Option<PathBuf>);

impl Drop for RemovedAtEnd {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _gone_already_is_fine = std::fs::remove_file(path);
        }
    }
}

/// Why a volume cannot be opened, with what is lost of its members.
fn opening_error(folder: &Path, below: &Below, source: Error) -> VolumeError {
    match (below, below.lost()) {
        // Nobody is missing for that.
        _ if matches!(source, Error::Unsuited(_)) => {
            VolumeError::Engine { folder: folder.to_owned(), source }
        }
        (Below::Single(..), Some(lost)) => {
            VolumeError::Incomplete(format!("{}: cannot be opened: {lost}", folder.display()))
        }
        (Below::Mirror(_), Some(missing)) => {
            VolumeError::Incomplete(format!("{}: {source}{missing}", folder.display()))
        }
        (_, None) => VolumeError::Engine { folder: folder.to_owned(), source },
    }
}

/// Whether writes of a process that was killed wait, or may wait, for the volume to be opened again.
///
/// # Errors
///
/// Where an arena of the volume may not be read, or is another user's than the volume.
pub fn has_waiting_writes(folder: &Path, description: &Description) -> Result<bool, VolumeError> {
    Arenas::of(folder, description).hold_writes()
}

/// What to do about acknowledged writes in the arena at `path` that are not the volume's, if that is what is wrong.
fn foreign_writes(path: &Path, error: &Error) -> Option<VolumeError> {
    let instead = match error {
        Error::ForeignWrites { is_later: false, .. } => "serve that one",
        Error::ForeignWrites { .. } | Error::OlderDevices { .. } => {
            "the members hold an older state: bring back those that are newer"
        }
        _ => return None,
    };
    let why = format!("{error}; {instead}, or remove this file to give these writes up");
    Some(VolumeError::Arena { path: path.to_owned(), why })
}

/// That what the description says of memory can be had.
fn check_buffer(folder: &Path, description: &Description) -> Result<(), VolumeError> {
    let (bytes, atomic) = (description.buffer_bytes, description.atomic_max_bytes);
    let least = arena_bytes_min(atomic);
    // All that there is, free or not: an arena that a kill left has its room.
    let folder_bytes = space_bytes(folder).map_or(0, |(size, _)| size);
    let (most, bound) = buffer_bytes_max(description.size_bytes, folder, folder_bytes);
    let why = match bytes {
        _ if bytes < least => {
            let (least, atomic) = (exact_size(least), exact_size(atomic));
            format!("buffer_bytes = {bytes}: {least} at least for writes of {atomic} in one piece")
        }
        _ if bytes > most => format!("buffer_bytes = {bytes}: {} at most: {bound}", exact_size(most)),
        _ => return Ok(()),
    };
    Err(VolumeError::description(&folder.join(description::FILE_NAME), &why))
}

/// That these members are those that the description speaks of, and were made with its numbers.
fn check_made_so(folder: &Path, description: &Description, found: &Identity) -> Result<(), VolumeError> {
    let refused = |why: &str| Err(VolumeError::description(&folder.join(description::FILE_NAME), &why));
    if found.volume != description.id.0 {
        return refused("its members belong to another volume");
    }
    let (said, made) = (description.size_bytes, found.size_bytes);
    if said != made && had_size(&description.sizes_before, made) {
        return Err(VolumeError::Incomplete(format!(
            "{}: cannot be opened: what is there is from before it grew from {} to {}; bring back the log devices or members that \
             are newer",
            folder.display(),
            size(made),
            size(said)
        )));
    }
    let log_bytes = description.log_bytes.map_or(found.log_bytes, |bytes| bytes / PAGE_BYTES * PAGE_BYTES);
    for (name, said, made) in [
        ("size_bytes", description.size_bytes, found.size_bytes),
        ("atomic_max_bytes", description.atomic_max_bytes, found.atomic_max_bytes),
        ("log_bytes", log_bytes, found.log_bytes),
    ] {
        // A description may be from before the volume grew: it is brought up to date.
        let is_from_before = name == "size_bytes" && had_size(&found.sizes_before, said);
        if said != made && !is_from_before {
            return refused(&format!("{name} = {said}: the volume has {made}, which stays: put that back"));
        }
    }
    Ok(())
}

/// Where a server tells its status.
pub const STATUS_SOCKET: &str = "status.sock";

/// Where a server takes orders.
pub const CONTROL_SOCKET: &str = "control.sock";

/// Where a server listens unless told otherwise.
pub const NBD_SOCKET: &str = "nbd.sock";
