//! The real thing: files in a folder, one named file, or a file or block device overwritten in place.
//!
//! 1. A file that the probe makes is removed when its run or the probe ends, however that happens.
//! 2. What exists is written only as [`Place::Existing`], which the caller gives only for what the user named.
//! 3. Creation, allocation and removal lie outside the timed part and are durable before the next one, so
//!    that no run pays for another's.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use evenkeel_host::block_device::{Counters, holder_of_file};
use evenkeel_host::cpu::CpuTime;
use evenkeel_host::durable_file::{DurableFile, Open, direct_io_granule, size_bytes};
use evenkeel_host::interrupt::Interrupt;
use evenkeel_host::method::{FileState, Method};
use evenkeel_host::scratch::{ScratchFile, settle_folder};
use evenkeel_host::stack::{StackProbe, space_bytes};

use super::leftovers::{FolderClaim, PREFIX};
use super::settings::{Combination, Settings};
use super::soak::WINDOW_BYTES;
use super::target::{Observation, RunOrder, Target, TargetError};
use super::timed_loop::{Source, Timed, timed_writes};

/// Targets made by this process so far.
static TARGETS: AtomicU32 = AtomicU32::new(0);

/// When this process first named a file.
static PROCESS_STARTED: OnceLock<SystemTime> = OnceLock::new();

/// How long the device is watched before anything is written to it.
const IDLE_LOOK: Duration = Duration::from_millis(200);

/// Where to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// New files in this folder.
    Folder(PathBuf),
    /// A new file of this name; further writers add a number to it.
    NewFile(PathBuf),
    /// Over this file or block device, from its start.
    Existing(PathBuf),
}

impl Place {
    /// The folder whose file system is measured; `None` for a device or file written in place.
    fn folder(&self) -> Option<&Path> {
        match self {
            Self::Folder(folder) => Some(folder),
            Self::NewFile(file) => file.parent().map(|parent| match parent.as_os_str().is_empty() {
                true => Path::new("."),
                false => parent,
            }),
            Self::Existing(_) => None,
        }
    }

    /// What exists already and shows the storage stack.
    pub fn existing(&self) -> &Path {
        match self {
            Self::Existing(path) => path,
            place => place.folder().unwrap_or(Path::new(".")),
        }
    }

    fn scratch_path(&self, label: &str, writer: u32) -> PathBuf {
        match self {
            Self::NewFile(file) if writer == 0 && label.is_empty() => file.clone(),
            Self::NewFile(file) => {
                let mut name = file.clone().into_os_string();
                name.push(format!(".{label}{writer}"));
                name.into()
            }
            place => place.existing().join(format!("{}{label}{writer}", group())),
        }
    }
}

/// How the names of this process's files in a folder begin.
fn group() -> String {
    // The time keeps apart processes of one number, as in containers.
    let started = PROCESS_STARTED.get_or_init(SystemTime::now);
    let since = started.duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_micros());
    format!("{PREFIX}{}-{since:x}-", std::process::id())
}

/// Files or a device of this machine.
pub struct HostTarget {
    place: Place,
    /// Keeps the files of several targets in one folder apart.
    number: u32,
    stack: StackProbe,
    writers: u32,
    /// Bytes that are written at once at most, by all of them.
    room_bytes: u64,
    source: Arc<Source>,
    interrupt: Interrupt,
    /// What `O_DIRECT` asks of lengths here; `None` where there is no direct I/O.
    direct_granule: Option<u64>,
    /// One file a writer, written once and durable, for the runs over [`FileState::Written`].
    recycled: Vec<Recycled>,
    /// Keeps a device that is overwritten for this probe alone.
    _claim: Option<DurableFile>,
    /// Says that the files in the folder are in use: it goes last.
    _in_use: Option<FolderClaim>,
    origin: Instant,
}

struct Recycled {
    file: ScratchFile,
    bytes: u64,
}

impl HostTarget {
    /// Looks at the place; writes nothing but, in a folder, one empty file that is gone again, and one that says that this
    /// probe is there.
    ///
    /// # Errors
    ///
    /// Where the place cannot be looked at or written to, or, in place, is held by somebody else.
    pub fn new(place: Place, settings: &Settings, interrupt: Interrupt) -> Result<Self, TargetError> {
        Self::with_source(place, settings, interrupt, None)
    }

    /// Another one that is measured beside this, with the same settings: its writes come from the same memory.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn beside(&self, place: Place, settings: &Settings) -> Result<Self, TargetError> {
        Self::with_source(place, settings, self.interrupt.clone(), Some(&self.source))
    }

    fn with_source(
        place: Place,
        settings: &Settings,
        interrupt: Interrupt,
        source: Option<&Arc<Source>>,
    ) -> Result<Self, TargetError> {
        let existing = place.existing();
        let stack = StackProbe::of(existing)
            .map_err(|error| TargetError::io("looking at the storage stack", existing, error))?;
        check_room(&place, settings)?;
        let number = TARGETS.fetch_add(1, Ordering::Relaxed);
        let in_use = match &place {
            Place::Folder(folder) => FolderClaim::take(folder, &group(), number)
                .map_err(|error| TargetError::io("creating a file", folder, error))?,
            Place::NewFile(_) | Place::Existing(_) => None,
        };
        let (direct_granule, claim) = match &place {
            Place::Existing(path) => {
                let (granule, claim) = look_in_place(path)?;
                (granule, Some(claim))
            }
            place => (look_at_folder(place)?, None),
        };
        let new_source = || {
            let largest = settings.buffer_sizes.iter().copied().max().unwrap_or(1);
            Arc::new(Source::random(largest as usize, settings.seed))
        };
        Ok(Self {
            place,
            number,
            stack,
            writers: settings.writers,
            room_bytes: settings.room_bytes(),
            source: source.map_or_else(new_source, Arc::clone),
            interrupt,
            direct_granule,
            recycled: Vec::new(),
            _claim: claim,
            _in_use: in_use,
            origin: Instant::now(),
        })
    }

    /// What lies under the place.
    pub fn stack(&self) -> &StackProbe {
        &self.stack
    }

    /// Writes the files or the region that later runs overwrite.
    fn recycle(&mut self, bytes: u64) -> Result<(), TargetError> {
        if let Place::Existing(path) = &self.place {
            let bytes = bytes.saturating_mul(u64::from(self.writers));
            self.check_within(path, bytes)?;
            return self.write_through(path, Open::InPlaceBeside, bytes);
        }
        for writer in 0..self.writers {
            if self.recycled.get(writer as usize).is_some_and(|recycled| recycled.bytes >= bytes) {
                continue;
            }
            self.recycled.truncate(writer as usize);
            let path = self.place.scratch_path(&format!("written-{}-", self.number), writer);
            let file = ScratchFile::make(&path, |_| Ok(()))
                .map_err(|error| TargetError::io("creating the file", &path, error))?
                .0;
            self.write_through(&path, Open::New, bytes)?;
            self.recycled.push(Recycled { file, bytes });
        }
        Ok(())
    }

    /// That no more of what exists is overwritten than was said before.
    fn check_within(&self, path: &Path, needed_bytes: u64) -> Result<(), TargetError> {
        let size_bytes = self.room_bytes;
        match needed_bytes <= size_bytes {
            true => Ok(()),
            false => Err(TargetError::TooSmall { path: path.to_owned(), needed_bytes, size_bytes }),
        }
    }

    /// Writes `bytes` durably in large pieces, untimed.
    fn write_through(&self, path: &Path, open: Open, bytes: u64) -> Result<(), TargetError> {
        let failed = |error| failure("preparing the file", path, Method::Fdatasync, error);
        let mut file = DurableFile::open(path, Method::Fdatasync, open).map_err(failed)?;
        let mut offset = 0;
        while offset < bytes {
            if self.interrupt.is_asked() {
                return Err(TargetError::Interrupted);
            }
            let piece = (bytes - offset).min(self.source.window().len() as u64);
            file.write_at(&self.source.window()[..piece as usize], offset).map_err(failed)?;
            offset += piece;
        }
        file.settle().map_err(failed)
    }

    /// Opens a writer's file for a run and brings it into its state.
    fn open(&self, order: &RunOrder, writer: u32) -> Result<OpenFile, TargetError> {
        let method = self.method_for(order.combination.method, order.buffer_bytes);
        let run_bytes = order.buffer_bytes * order.writes;
        if let Place::Existing(path) = &self.place {
            self.check_within(path, run_bytes.saturating_mul(u64::from(writer) + 1))?;
            let file = DurableFile::open(path, method, Open::InPlaceBeside)
                .map_err(|error| failure("opening", path, method, error))?;
            return Ok(OpenFile { file, start_offset: run_bytes * u64::from(writer), _scratch: None });
        }
        if order.combination.file_state == FileState::Written {
            let path = self.recycled[writer as usize].file.path();
            let file = DurableFile::open(path, method, Open::InPlace)
                .map_err(|error| failure("opening", path, method, error))?;
            return Ok(OpenFile { file, start_offset: 0, _scratch: None });
        }
        let path = self.place.scratch_path("", writer);
        let (scratch, file) = ScratchFile::make(&path, |path| DurableFile::open(path, method, Open::New))
            .map_err(|error| failure("creating the file", &path, method, error))?;
        if order.combination.file_state == FileState::Allocated {
            file.allocate(run_bytes).map_err(|error| failure("allocating the file", &path, method, error))?;
        }
        file.settle().map_err(|error| failure("creating the file", &path, method, error))?;
        Ok(OpenFile { file, start_offset: 0, _scratch: Some(scratch) })
    }

    fn settle_folder(&self) -> Result<(), TargetError> {
        let Some(folder) = self.place.folder() else {
            return Ok(());
        };
        settle_folder(folder).map_err(|error| TargetError::io("syncing the folder", folder, error))
    }

    fn activity(&self) -> (Option<Counters>, CpuTime) {
        (self.stack.counters(), CpuTime::now().unwrap_or_default())
    }

    /// The writers' loops, all at once; each with its latencies.
    fn write_all(&self, files: &mut [OpenFile], order: &RunOrder) -> io::Result<Vec<(Timed, Vec<u64>)>> {
        let loop_of = |open: &mut OpenFile, start: Option<&Barrier>| {
            let mut latencies_ns = touched(order.writes as usize);
            start.map(Barrier::wait);
            let timed = timed_writes(
                &mut open.file,
                &self.source,
                open.start_offset,
                order.buffer_bytes as usize,
                order.writes,
                &self.interrupt,
                &mut latencies_ns,
            )?;
            Ok((timed, latencies_ns))
        };
        if let [alone] = files {
            return Ok(vec![loop_of(alone, None)?]);
        }
        let start = Barrier::new(files.len());
        thread::scope(|scope| {
            let loops: Vec<_> =
                files.iter_mut().map(|open| scope.spawn(|| loop_of(open, Some(&start)))).collect();
            loops.into_iter().map(|writer| writer.join().expect("a writer does not panic")).collect()
        })
    }
}

/// A writer's open file.
struct OpenFile {
    file: DurableFile,
    start_offset: u64,
    /// Removes the file when the run is over.
    _scratch: Option<ScratchFile>,
}

impl Target for HostTarget {
    fn method_for(&self, method: Method, buffer_bytes: u64) -> Method {
        let can_be_direct = self.direct_granule.is_some_and(|granule| buffer_bytes.is_multiple_of(granule));
        if method.is_direct() && !can_be_direct { method.buffered() } else { method }
    }

    fn prepare(&mut self, combinations: &[Combination], run_bytes_max: u64) -> Result<(), TargetError> {
        if combinations.iter().any(|each| each.file_state == FileState::Written) {
            self.recycle(run_bytes_max)?;
        }
        Ok(())
    }

    fn run(&mut self, order: &RunOrder) -> Result<Observation, TargetError> {
        let mut files = Vec::new();
        for writer in 0..self.writers {
            files.push(self.open(order, writer)?);
        }
        self.settle_folder()?;
        let (device_before, cpu_before) = self.activity();
        let method = self.method_for(order.combination.method, order.buffer_bytes);
        let loops = self
            .write_all(&mut files, order)
            .map_err(|error| failure("writing", self.place.existing(), method, error))?;
        let (device_after, cpu_after) = self.activity();
        drop(files);
        self.settle_folder()?;

        let started = loops.iter().map(|(timed, _)| timed.started).min();
        let ended = loops.iter().map(|(timed, _)| timed.ended).max();
        Ok(Observation {
            elapsed_s: started.zip(ended).map_or(0.0, |(started, ended)| (ended - started).as_secs_f64()),
            latencies_ns: loops.into_iter().flat_map(|(_, latencies_ns)| latencies_ns).collect(),
            device: device_after.zip(device_before).map(|(after, before)| after - before),
            cpu: cpu_after - cpu_before,
        })
    }

    fn background_bytes_per_s(&mut self) -> Option<f64> {
        let before = self.stack.counters()?;
        let started = Instant::now();
        thread::sleep(IDLE_LOOK);
        let moved = self.stack.counters()? - before;
        Some((moved.read_bytes + moved.written_bytes) as f64 / started.elapsed().as_secs_f64())
    }

    fn now_s(&self) -> f64 {
        self.origin.elapsed().as_secs_f64()
    }

    fn wait_s(&mut self, seconds: f64) {
        thread::sleep(Duration::from_secs_f64(seconds.max(0.0)));
    }
}

fn look_at_folder(place: &Place) -> Result<Option<u64>, TargetError> {
    let path = place.scratch_path("", 0);
    let (scratch, _) = ScratchFile::make(&path, |path| DurableFile::open(path, Method::Fsync, Open::New))
        .map_err(|error| TargetError::io("creating a file", &path, error))?;
    direct_io_granule(scratch.path(), true)
        .map_err(|error| TargetError::io("asking for direct I/O", path, error))
}

/// The granule of direct I/O, and the claim that nobody else holds the device.
fn look_in_place(path: &Path) -> Result<(Option<u64>, DurableFile), TargetError> {
    if let Some(holder) = holder_of_file(path) {
        let source = io::Error::new(io::ErrorKind::ResourceBusy, format!("it is in use as {holder}"));
        return Err(TargetError::io("claiming it for this probe alone", path, source));
    }
    let claim = DurableFile::open(path, Method::Fsync, Open::InPlace)
        .map_err(|error| TargetError::io("claiming it for this probe alone", path, error))?;
    let granule = direct_io_granule(path, false)
        .map_err(|error| TargetError::io("asking for direct I/O", path, error))?;
    Ok((granule, claim))
}

/// Bytes of the longest window of a soak with so many writers at this place: no more than fit a device or file that exists, or half
/// of what is free.
///
/// # Errors
///
/// Where its size cannot be had.
pub fn soak_window_bytes(place: &Place, writers: u32) -> Result<u64, TargetError> {
    let existing = place.existing();
    let unknown = |error| TargetError::io("asking for its size", existing, error);
    let room_bytes = match place {
        Place::Existing(path) => size_bytes(path).map_err(unknown)?,
        Place::Folder(_) | Place::NewFile(_) => space_bytes(existing).map_err(unknown)?.1 / 2,
    };
    Ok(WINDOW_BYTES.min(room_bytes / u64::from(writers.max(1))))
}

/// Whether full runs fit the file system, or the file or device that they overwrite.
///
/// # Errors
///
/// [`TargetError::Full`] or [`TargetError::TooSmall`] where they do not; else where the size cannot be had.
pub fn check_room(place: &Place, settings: &Settings) -> Result<(), TargetError> {
    let existing = place.existing();
    let needed_bytes = settings.room_bytes();
    let unknown = |error| TargetError::io("asking for its size", existing, error);
    if let Place::Existing(path) = place {
        let size_bytes = size_bytes(path).map_err(unknown)?;
        if needed_bytes > size_bytes {
            return Err(TargetError::TooSmall { path: path.clone(), needed_bytes, size_bytes });
        }
        return Ok(());
    }
    let (_, free_bytes) = space_bytes(existing).map_err(unknown)?;
    if needed_bytes > free_bytes {
        return Err(TargetError::Full { path: existing.to_owned(), needed_bytes, free_bytes });
    }
    Ok(())
}

/// Room for `count` latencies whose memory is mapped already, so that no page fault falls into a timed write.
fn touched(count: usize) -> Vec<u64> {
    let mut room = vec![u64::MAX; count];
    room.clear();
    room
}

/// Tells what this stack cannot do, and an interruption, from a failure.
fn failure(doing: &'static str, path: &Path, method: Method, error: io::Error) -> TargetError {
    let unsupported = |why: &str| TargetError::Unsupported {
        reason: format!("{}: {method} cannot be had here: {doing}: {error}{why}", path.display()),
    };
    match error.kind() {
        io::ErrorKind::Interrupted => TargetError::Interrupted,
        io::ErrorKind::InvalidInput if method.is_direct() => {
            unsupported("; use --method dsync, which needs no direct I/O")
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported if method == Method::Uring => {
            unsupported("; io_uring is forbidden or missing, use --method rwf-dsync")
        }
        io::ErrorKind::Unsupported => unsupported(""),
        _ => TargetError::io(doing, path, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: [u64; 2] = [4096, 65536];

    fn settings(combinations: Vec<Combination>, writers: u32) -> Settings {
        let first = combinations[0];
        Settings { buffer_sizes: SMALL.to_vec(), combinations, writers, ..Settings::paper(first) }
    }

    fn target(place: Place, settings: &Settings) -> HostTarget {
        HostTarget::new(place, settings, Interrupt::default()).unwrap()
    }

    fn names(folder: &Path) -> Vec<std::ffi::OsString> {
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn every_method_over_every_state_is_run_and_leaves_nothing_behind() {
        let folder = tempfile::tempdir_in(".").unwrap();
        for file_state in FileState::ALL {
            for method in Method::ALL {
                let combination = Combination { method, file_state };
                let settings = settings(vec![combination], 1);
                let mut target = target(Place::Folder(folder.path().to_owned()), &settings);
                target.prepare(&settings.combinations, 65536 * 8).unwrap();
                for buffer_bytes in SMALL {
                    let order = RunOrder { combination, buffer_bytes, writes: 8 };
                    let seen = match target.run(&order) {
                        Ok(seen) => seen,
                        Err(TargetError::Unsupported { .. }) => continue,
                        Err(error) => panic!("{method} over {file_state}: {error}"),
                    };
                    assert_eq!(seen.latencies_ns.len(), 8);
                    assert!(seen.elapsed_s > 0.0);
                }
            }
        }
        assert_eq!(names(folder.path()), Vec::<std::ffi::OsString>::new());
    }

    #[test]
    fn writers_have_a_file_each_and_all_their_writes_are_seen() {
        let folder = tempfile::tempdir_in(".").unwrap();
        for file_state in FileState::ALL {
            for method in [Method::Dsync, Method::Uring] {
                let combination = Combination { method, file_state };
                let settings = settings(vec![combination], 3);
                let mut target = target(Place::Folder(folder.path().to_owned()), &settings);
                target.prepare(&settings.combinations, 4096 * 5).unwrap();
                let seen = target.run(&RunOrder { combination, buffer_bytes: 4096, writes: 5 }).unwrap();
                assert_eq!(seen.latencies_ns.len(), 15);
            }
        }
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_size_that_cannot_be_direct_falls_back() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let combination = Combination { method: Method::DirectDsync, file_state: FileState::Fresh };
        let settings = settings(vec![combination], 1);
        let mut target = target(Place::Folder(folder.path().to_owned()), &settings);
        assert_eq!(target.method_for(Method::DirectDsync, 1000), Method::Dsync);
        let seen = target.run(&RunOrder { combination, buffer_bytes: 1000, writes: 3 }).unwrap();
        assert_eq!(seen.latencies_ns.len(), 3);
    }

    #[test]
    fn an_existing_file_is_overwritten_in_place_and_kept() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let path = folder.path().join("image");
        std::fs::write(&path, vec![7; 33 << 20]).unwrap();
        let combination = Combination { method: Method::Dsync, file_state: FileState::Written };
        let settings = settings(vec![combination], 2);
        let mut target = target(Place::Existing(path.clone()), &settings);
        target.prepare(&settings.combinations, 65536).unwrap();
        target.run(&RunOrder { combination, buffer_bytes: 4096, writes: 16 }).unwrap();
        drop(target);
        let found = std::fs::read(&path).unwrap();
        assert_eq!(found.len(), 33 << 20);
        assert!(found[131_072..].iter().all(|&byte| byte == 7));
        assert!(found[..4096].iter().any(|&byte| byte != 7));
    }

    #[test]
    fn a_place_without_room_is_refused_before_anything_is_written() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let combination = Combination { method: Method::Dsync, file_state: FileState::Fresh };
        let huge = Settings { buffer_sizes: vec![1 << 60], ..settings(vec![combination], 1) };
        let place = Place::Folder(folder.path().to_owned());
        let refused = HostTarget::new(place, &huge, Interrupt::default());
        assert!(matches!(refused, Err(TargetError::Full { .. })));
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_file_too_small_for_a_run_is_refused_before_anything_of_it_is_lost() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let path = folder.path().join("image");
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        let combination = Combination { method: Method::Dsync, file_state: FileState::Written };
        let refused = HostTarget::new(
            Place::Existing(path.clone()),
            &settings(vec![combination], 1),
            Interrupt::default(),
        );
        assert!(matches!(refused, Err(TargetError::TooSmall { .. })));
        assert!(std::fs::read(&path).unwrap().iter().all(|&byte| byte == 7));
    }
}
