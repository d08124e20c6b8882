//! Volumes that are made for trials beside one of this machine, on the same file systems, and removed.
//!
//! ```text
//! VOL/home, VOL/log     the volume: locked meanwhile, and not touched
//! VOL/.evenkeel-tune-PID/   that of the trials: as many members and log devices, each beside its like;
//!                           and of a ring before that a file beside its members, written to for some seconds
//! ```
//!
//! 1. Nothing of the volume is read or written. What trials make is in folders that this made, and goes with them, however the
//!    work ends but by a kill -9: what that left is named by the next, which leaves it where it is.
//! 2. Their pages are written before the first trial, as those of a volume in use are.
//! 3. A block device and an export have no room beside a volume: there, settings are tried before it is made.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use evenkeel_engine::device::{Device as _, Durability, Extent};
use evenkeel_engine::error::Error;
use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::volume::log_bytes_min;
use evenkeel_host::drive::{DriveOptions, FileDrive, Fill};
use evenkeel_host::durable_file::is_block_device;
use evenkeel_host::event_loop::{Backend, EventLoop, Loop};
use evenkeel_host::interrupt::Interrupt;
use evenkeel_host::stack::space_bytes;
use evenkeel_host::undo::Undo;
use evenkeel_host::volume::create::{PlannedMember, Request, create};
use evenkeel_host::volume::description::{Description, Member};
use evenkeel_host::volume::layout_kind::{LayoutKind, Striped};
use evenkeel_host::volume::member::Place;
use evenkeel_host::volume::{OpenVolume, RunOptions, VolumeError};

use super::Candidate;
use super::bench::{Bench, Halted};
use super::line::{self, Sample};
use super::load::{self, Load, Run};
use super::steady_members::{SteadyRun, turns};
use super::turns::Turns;
use crate::replay::Payload;

/// What folders of trials are called, before the number of their process.
pub const PREFIX: &str = ".evenkeel-tune-";

/// Bytes of a volume for trials, at most.
const VOLUME_BYTES_MAX: u64 = 512 << 20;
/// And at least: what is written at random places is not all in memory, nor overwritten at once.
const VOLUME_BYTES_MIN: u64 = 64 << 20;
/// Bytes of the log of a volume of one member, as `create` makes it.
const LOG_BYTES: u64 = 64 << 20;
/// Bytes of the file whose durable writes are timed.
const LINE_BYTES: u64 = 32 << 20;
/// Bytes on which is seen how steadily a member is written, at most.
const MEMBER_BYTES: u64 = 256 << 20;
/// Share of the free room that trials take, at most.
pub(super) const ROOM_SHARE: u64 = 2;

/// A folder that is removed with all that is in it.
#[derive(Debug)]
struct ScratchFolder(#[expect(dead_code, reason = "it is undone when it is dropped")] Undo);

impl ScratchFolder {
    fn make(path: &Path) -> io::Result<Self> {
        let gone = path.to_owned();
        let made = Undo::make(
            || fs::DirBuilder::new().mode(0o700).create(path),
            |()| {
                Box::new(move || {
                    let _gone_already_is_fine = fs::remove_dir_all(gone);
                })
            },
        )?;
        Ok(Self(made.0))
    }
}

/// Where one member or log device of the trials is.
#[derive(Debug, Clone)]
enum Spot {
    /// Beside this file, which exists, or is to be made.
    Beside(PathBuf),
    /// In its place: it is to be overwritten anyway.
    On(Place),
}

/// Room for volumes that are made and opened again and again.
pub struct HostBench {
    backend: Backend,
    run: RunOptions,
    folder: PathBuf,
    samples: Vec<Sample>,
    turns: Option<Turns>,
    volumes: u64,
    interrupt: Interrupt,
    _folders: Vec<ScratchFolder>,
}

impl std::fmt::Debug for HostBench {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("HostBench").field("folder", &self.folder).finish_non_exhaustive()
    }
}

pub(super) fn unavailable(why: impl std::fmt::Display) -> Halted {
    Halted::Unavailable(why.to_string())
}

/// Folders of trials that a kill left beside the volume.
pub fn left_behind(folder: &Path, description: &Description) -> Vec<PathBuf> {
    let places = description.members.iter().chain(&description.logs);
    let beside = places.filter_map(|member| member.place.within(folder).path()?.parent().map(Path::to_owned));
    let mut folders: Vec<PathBuf> = beside.chain([folder.to_owned()]).collect();
    folders.sort();
    folders.dedup();
    let entries =
        folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().filter_map(Result::ok);
    let named =
        entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)));
    named.map(|entry| entry.path()).collect()
}

/// What trials need beside a volume's shape.
#[derive(Debug)]
pub struct Means {
    /// How the volume is run, but for what is tried.
    pub run: RunOptions,
    /// How the kernel is asked.
    pub backend: Backend,
    /// Ends them.
    pub interrupt: Interrupt,
    /// How long members of a ring are written to, to see for how long a turn they are steady; 0 for not at all.
    pub sampled_ns: u64,
}

impl HostBench {
    /// Makes a smaller volume beside the one in `folder`, with the same layout, each member and log device on the file system
    /// of its like. `tell` hears what is done, bytes done and in all.
    ///
    /// # Errors
    ///
    /// [`Halted::Unavailable`] where one is a block device or an export, where there is no room, or no right to make files.
    pub fn beside(
        folder: &Path,
        description: &Description,
        means: Means,
        tell: impl FnMut(&'static str, u64, u64),
    ) -> Result<Self, Halted> {
        let spots = |members: &[Member]| {
            let each = members.iter().map(|member| file_of(&member.place.within(folder)).map(Spot::Beside));
            each.collect::<Result<Vec<_>, _>>()
        };
        let shape = Request {
            layout: description.layout,
            log_on_members: description.layout.is_ring() && description.logs.is_empty(),
            log_bytes: description.log_bytes.filter(|_| description.layout.is_ring()).unwrap_or(LOG_BYTES),
            atomic_max_bytes: description.atomic_max_bytes,
            buffer_bytes: description.buffer_bytes,
            sparse: description.members.iter().any(|member| member.sparse),
            atomic_sectors: Some(description.members.iter().all(|member| member.atomic_sectors)),
            ..Request::new(folder, description.size_bytes)
        };
        Self::new(folder, shape, &spots(&description.members)?, &spots(&description.logs)?, means, tell)
    }

    /// The same before a volume is made: block devices and exports that it is to have are overwritten.
    ///
    /// # Errors
    ///
    /// [`Halted::Unavailable`] where it could not be made either, or there is no room for trials.
    pub fn before(
        request: &Request,
        means: Means,
        tell: impl FnMut(&'static str, u64, u64),
    ) -> Result<Self, Halted> {
        let plan = request.plan().map_err(unavailable)?;
        let spots = |planned: &[PlannedMember]| -> Vec<Spot> {
            let each = planned.iter().map(|planned| match planned.place.path() {
                Some(path) if !is_block_device(path) => Spot::Beside(path.to_owned()),
                _ => Spot::On(planned.place.clone()),
            });
            each.collect()
        };
        let folder = request.folder.parent().filter(|parent| !parent.as_os_str().is_empty());
        let (members, logs) = (spots(&plan.members), spots(&plan.logs));
        Self::new(folder.unwrap_or(Path::new(".")), request.clone(), &members, &logs, means, tell)
    }

    fn new(
        folder: &Path,
        shape: Request,
        members: &[Spot],
        logs: &[Spot],
        means: Means,
        mut tell: impl FnMut(&'static str, u64, u64),
    ) -> Result<Self, Halted> {
        let Means { run, backend, interrupt, sampled_ns } = means;
        let folder =
            folder.canonicalize().map_err(|error| unavailable(format!("{}: {error}", folder.display())))?;
        let mut places = Places::new(format!("{PREFIX}{}", std::process::id()));
        let volume = places.folder(&folder)?.join("volume");
        let each = |places: &mut Places, spots: &[Spot], kind: &str| {
            let each = spots.iter().enumerate();
            each.map(|(number, spot)| places.place(spot, &folder, &format!("{kind}-{number}")))
                .collect::<Result<Vec<_>, _>>()
        };
        let (members, logs) = (each(&mut places, members, "member")?, each(&mut places, logs, "log")?);
        let mut samples: Vec<Sample> = Vec::new();
        let took = |samples: &[Sample]| samples.iter().map(|sample| sample.took_ns).sum::<u64>();
        for place in if logs.is_empty() { &members } else { &logs } {
            let sampled = alone(backend, async |handle| sample(&handle, place).await)??;
            // Records are durable once the slowest has them.
            if took(&sampled) > took(&samples) {
                samples = sampled;
            }
        }
        let (places_of_members, is_ring) = (members.clone(), shape.layout.is_ring());
        let data = shape.layout.striped().map_or(1, |striped| striped.stripes.data() as u64);
        let room_bytes = usable_bytes(&shape) / data;
        let request = smaller(&volume, shape, members, logs)?;
        let turns = match is_ring && sampled_ns > 0 {
            true => {
                let range_bytes = MEMBER_BYTES.min(request.size_bytes);
                let run =
                    SteadyRun { duration_ns: sampled_ns, range_bytes, room_bytes, interrupt: &interrupt };
                turns(backend, &places_of_members, &run, &mut tell)?
            }
            false => None,
        };
        let made = alone(backend, async |handle| create(&handle, &request, &mut tell).await.map(|_| ()))?;
        made.map_err(unavailable)?;
        let filled = alone(backend, async |handle| {
            fill(&handle, &volume, run, request.size_bytes, &interrupt, &mut tell).await
        })?;
        filled.map_err(unavailable)?;
        let _folders = places.made.into_values().collect();
        Ok(Self { backend, run, folder: volume, samples, turns, volumes: 0, interrupt, _folders })
    }

    /// How long a turn of the ring's members is to be.
    pub fn turns(&self) -> Option<&Turns> {
        self.turns.as_ref()
    }

    fn check(&self) -> Result<(), Halted> {
        if self.interrupt.is_asked() { Err(Halted::Stopped) } else { Ok(()) }
    }
}

/// Runs work on a loop of its own: with it ends whatever the work began, and drives are free for the next.
pub(super) fn alone<T>(backend: Backend, work: impl AsyncFnOnce(Loop) -> T) -> Result<T, Halted> {
    let event_loop = EventLoop::new(backend).map_err(unavailable)?;
    Ok(event_loop.block_on(work(event_loop.handle())))
}

/// The file of a member, which has room beside it.
fn file_of(place: &Place) -> Result<PathBuf, Halted> {
    let nowhere = |what: &str| {
        unavailable(format!(
            "{place}: {what} has no room beside the volume, where settings could be tried; that is done before a volume is \
             made on it"
        ))
    };
    match place.path() {
        None => Err(nowhere("an export")),
        Some(path) if is_block_device(path) => Err(nowhere("a block device")),
        Some(path) => {
            path.canonicalize().map_err(|error| unavailable(format!("{}: {error}", path.display())))
        }
    }
}

/// Folders for trials, one in each folder that has something of the volume.
struct Places {
    name: String,
    made: BTreeMap<PathBuf, ScratchFolder>,
}

impl Places {
    fn new(name: String) -> Self {
        Self { name, made: BTreeMap::new() }
    }

    /// The one in `parent`.
    fn folder(&mut self, parent: &Path) -> Result<PathBuf, Halted> {
        let at = parent.join(&self.name);
        if !self.made.contains_key(&at) {
            let made = ScratchFolder::make(&at);
            let made = made.map_err(|error| unavailable(format!("{}: {error}", at.display())))?;
            self.made.insert(at.clone(), made);
        }
        Ok(at)
    }

    /// Where a member of the trials is. Of what is to be made in a folder that is not there yet, the folder around that one,
    /// `around`, has the room.
    fn place(&mut self, spot: &Spot, around: &Path, name: &str) -> Result<Place, Halted> {
        match spot {
            Spot::On(place) => Ok(place.clone()),
            Spot::Beside(file) => {
                let parent = file.parent().filter(|parent| parent.is_dir()).unwrap_or(around);
                Ok(Place::from(self.folder(parent)?.join(name)))
            }
        }
    }
}

/// What of a journal holds what is not home, without what it keeps for checkpoints and for images of pages.
fn usable_bytes(shape: &Request) -> u64 {
    match shape.atomic_sectors {
        Some(true) => shape.log_bytes / 4 * 3,
        _ => shape.log_bytes / 3,
    }
}

/// Times durable writes where a log is to be. An export's are not timed by themselves.
async fn sample(handle: &Loop, place: &Place) -> Result<Vec<Sample>, Halted> {
    let Some(path) = place.path() else { return Ok(Vec::new()) };
    let options = DriveOptions::default();
    let (drive, scratch) = match path.symlink_metadata().is_ok() {
        true => (FileDrive::open(handle, path, options).map_err(unavailable)?, None),
        false => {
            let made = FileDrive::create_scratch(handle, path, LINE_BYTES, Fill::Written, options, |_, _| ());
            let (drive, scratch) = made.await.map_err(unavailable)?;
            (drive, Some(scratch))
        }
    };
    let sector = Extent::new(0, u64::from(drive.geometry().sector_bytes));
    drive.choose_durable_way(sector).await.map_err(unavailable)?;
    let sampled = line::sample(handle, &Rc::new(drive)).await.map_err(unavailable);
    drop(scratch);
    sampled
}

/// Bytes of the log of a volume with one member on which settings are tried: no less than its atomic writes take.
fn log_bytes_of(shape: &Request) -> u64 {
    const SECTOR_BYTES: u32 = 4096;
    let size_bytes = VOLUME_BYTES_MAX.min(shape.size_bytes);
    let is_atomic = shape.atomic_sectors == Some(true);
    let least_bytes = log_bytes_min(size_bytes, shape.atomic_max_bytes, SECTOR_BYTES, is_atomic);
    shape.log_bytes.min(LOG_BYTES).max(least_bytes.unwrap_or(0))
}

/// A volume of the same shape, as small as trials need it.
fn smaller(volume: &Path, shape: Request, members: Vec<Place>, logs: Vec<Place>) -> Result<Request, Halted> {
    let log_bytes = match shape.layout.is_ring() {
        true => shape.log_bytes,
        false => log_bytes_of(&shape),
    };
    let layout = match shape.layout.striped() {
        Some(striped) => LayoutKind::Striped(Striped::new(striped.stripes, log_bytes)),
        None => shape.layout,
    };
    // Several of them may share a file system.
    let places = || members.iter().chain(&logs);
    let is_new = |place: &&Place| place.path().is_some_and(|path| !path.exists());
    let files: Vec<&Path> = places().filter(is_new).filter_map(|place| place.path()?.parent()).collect();
    let room_bytes = files.iter().filter_map(|folder| Some(space_bytes(folder).ok()?.1)).min();
    let each_bytes = room_bytes.map_or(u64::MAX, |bytes| bytes / ROOM_SHARE / files.len() as u64);
    let room_bytes = each_bytes.saturating_sub(log_bytes).saturating_sub(LINE_BYTES);
    let size_bytes = VOLUME_BYTES_MAX.min(shape.size_bytes).min(room_bytes) / PAGE_BYTES * PAGE_BYTES;
    if size_bytes < VOLUME_BYTES_MIN.min(shape.size_bytes) || size_bytes == 0 {
        let needed = (VOLUME_BYTES_MIN + log_bytes + LINE_BYTES) * ROOM_SHARE * files.len() as u64;
        return Err(unavailable(format!(
            "too little room for a smaller volume, on which settings are tried: {} MiB have to be free",
            needed >> 20
        )));
    }
    let destroy = places().filter(|place| !is_new(place)).cloned().collect();
    Ok(Request {
        folder: volume.to_owned(),
        size_bytes,
        layout,
        log_bytes,
        buffer_bytes: shape.buffer_bytes.min(size_bytes.max(VOLUME_BYTES_MIN)),
        members,
        logs,
        destroy,
        ..shape
    })
}

/// Writes all of a new volume.
async fn fill(
    handle: &Loop,
    volume: &Path,
    run: RunOptions,
    size_bytes: u64,
    interrupt: &Interrupt,
    tell: &mut impl FnMut(&'static str, u64, u64),
) -> Result<(), VolumeError> {
    let opened = OpenVolume::open(handle, volume, run).await?;
    let filled = fill_open(&opened, size_bytes, interrupt, tell).await;
    let closed = opened.close_with_arena().await;
    filled.map_err(|source| VolumeError::Engine { folder: volume.to_owned(), source })?;
    closed
}

async fn fill_open(
    opened: &OpenVolume,
    size_bytes: u64,
    interrupt: &Interrupt,
    tell: &mut impl FnMut(&'static str, u64, u64),
) -> Result<(), Error> {
    // No two pieces are alike: a drive that knows bytes again would write less.
    let (payload, mut piece) = (Payload::new(0), vec![0; 1 << 20]);
    let mut offset = 0;
    while offset < size_bytes && !interrupt.is_asked() {
        let len = (size_bytes - offset).min(piece.len() as u64);
        payload.fill(offset, &mut piece);
        opened.volume.write(offset, &piece[..len as usize], Durability::Buffered).await?;
        offset += len;
        tell("filling a volume to try on", offset, size_bytes);
    }
    Ok(())
}

impl Bench for HostBench {
    fn line(&mut self) -> Result<Vec<Sample>, Halted> {
        self.check()?;
        Ok(self.samples.clone())
    }

    fn trial(&mut self, candidate: Candidate, load: &Load, duration_s: f64) -> Result<Run, Halted> {
        self.check()?;
        self.volumes += 1;
        let seed = self.volumes;
        let run = RunOptions { volume: candidate.options(self.run.volume), ..self.run };
        alone(self.backend, async |handle| {
            let opened = OpenVolume::open(&handle, &self.folder, run).await.map_err(unavailable)?;
            let volume = Rc::new(opened.volume.clone());
            let began = Instant::now();
            let ran = load::run(&handle, &volume, load, (duration_s * 1e9) as u64, seed).await;
            drop(volume);
            opened.close_with_arena().await.map_err(unavailable)?;
            let took_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            ran.map(|run| Run { took_ns, ..run })
        })?
        .and_then(|run| self.check().map(|()| run))
    }
}
